//! sysop's own tools: names, descriptions and argument schemas, by profile.
//!
//! This module contains data only, no implementations. A machine offers a subset of these tools and no other tools.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::tool::{ToolEffect, ToolSpec};

/// Names of the argument in which the model gives its reason for a call. Each tool declares at most one of them.
pub const REASONS: [&str; 2] = ["reason", "reasoning"];
/// Description of the arguments named by [`REASONS`].
const REASON: &str = "Why, briefly, for the user";
/// Argument of `bash` with which a model asks to run the command outside the sandbox.
pub const OUTSIDE_SANDBOX: &str = "outside_sandbox";
pub const BASH_TIMEOUT_S_DEFAULT: u64 = 30;
pub const BASH_TIMEOUT_S_MAX: u64 = 3600;
pub const RUN_COMMAND_TIMEOUT_S_DEFAULT: u64 = 60;
pub const RUN_COMMAND_TIMEOUT_S_MAX: u64 = 3600;
pub const SKILL_TOOL: &str = "skill";
pub const TASK_LIST_TOOL: &str = "todo";
/// Tool that lists, reads and stops background jobs.
pub const JOBS_TOOL: &str = "jobs";

pub const BASH_TOOL: &str = "bash";
/// Tool that adds a line to the user's notes on the host.
pub const REMEMBER_TOOL: &str = "remember";
pub const READ_OUTPUT_TOOL: &str = "read_output";
/// Tool that shows an image file to the model. A session offers it only to models that see images.
pub const VIEW_IMAGE_TOOL: &str = "view_image";
/// Maximum number of chunks that one file may have in `write_file_chunk`.
pub const CHUNKS_MAX: u64 = 1000;
pub const GIT_LOG_COMMITS_MAX: u64 = 200;
pub const GIT_LOG_COMMITS_DEFAULT: u64 = 20;

/// A named set of tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Files and commands: the four tools of the lsimons-agent design.
    Coder,
    /// The visible terminal, as in the juni-cli design.
    Operator,
    /// Files and git, no commands: the local tools of the JolliAgent design.
    Workspace,
    /// `Coder` plus tools for looking around.
    #[default]
    Full,
}

impl Profile {
    /// All profiles, in the order in which they are listed for users.
    pub const ALL: [Self; 4] = [Self::Coder, Self::Operator, Self::Workspace, Self::Full];

    /// Returns the name used in flags, config and the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Coder => "coder",
            Self::Operator => "operator",
            Self::Workspace => "workspace",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile `{0}`; available: coder, operator, workspace, full")]
pub struct UnknownProfile(pub String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.as_str() == text)
            .ok_or_else(|| UnknownProfile(text.to_owned()))
    }
}

/// The tools of each profile in the order of `Profile::ALL`, built on first use.
static MADE: [OnceLock<Vec<ToolSpec>>; Profile::ALL.len()] = [const { OnceLock::new() }; Profile::ALL.len()];

fn made() -> impl Iterator<Item = (Profile, impl FnOnce() -> &'static [ToolSpec])> {
    let of = |(profile, tools): (Profile, &'static OnceLock<Vec<ToolSpec>>)| {
        (profile, move || tools.get_or_init(|| build_tools(profile)).as_slice())
    };
    Profile::ALL.into_iter().zip(&MADE).map(of)
}

pub fn tools(profile: Profile) -> Vec<ToolSpec> {
    let tools = made().find(|(named, _)| *named == profile).map(|(_, tools)| tools());
    tools.unwrap_or_default().to_vec()
}

/// Tools that a model with a small context window gets, if they are in its profile. They are enough to do a task.
const ESSENTIAL: [&str; 4] = ["read_file", "write_file", "edit_file", BASH_TOOL];
/// Arguments that a model with a small context window is not told about, because tasks can be done without them.
const EXPENDABLE: [&str; 4] = ["start_line", "end_line", "background", ON_TIMEOUT];

/// Returns only the essential tools, with the essential arguments, for a model with a small context window. If no
/// essential tool in `tools` can run commands, returns all `tools`.
pub fn small(tools: &[ToolSpec]) -> Vec<ToolSpec> {
    let mut found: Vec<_> =
        tools.iter().filter(|tool| ESSENTIAL.contains(&tool.name.as_str())).cloned().collect();
    if !found.iter().any(|tool| tool.effect == ToolEffect::Command) {
        return tools.to_vec();
    }
    for tool in &mut found {
        let parameters = Arc::make_mut(&mut tool.parameters);
        if let Some(properties) = parameters["properties"].as_object_mut() {
            properties.retain(|name, _| !EXPENDABLE.contains(&name.as_str()));
        }
    }
    found
}

/// Returns the name of the argument that says what a call of this tool does: the first one that it requires. `None` if
/// the tool is in no profile or requires no argument.
pub(crate) fn main_argument(tool: &str) -> Option<&'static str> {
    let spec = made().flat_map(|(_, tools)| tools()).find(|spec| spec.name == tool)?;
    spec.parameters.get("required")?.get(0)?.as_str()
}

/// Returns the catalog's shared copy of a schema, or a new `Arc` if the schema is not in the catalog.
pub(crate) fn intern_schema(schema: Value) -> Arc<Value> {
    let mut known =
        made().flat_map(|(_, tools)| tools()).chain([&*OUTSIDE_BASH, &*REMEMBER]).chain(&*BACKGROUND_BASH);
    let known = known.find(|tool| *tool.parameters == schema);
    known.map_or_else(|| Arc::new(schema), |tool| Arc::clone(&tool.parameters))
}

fn build_tools(profile: Profile) -> Vec<ToolSpec> {
    match profile {
        Profile::Coder => vec![read_file(), write_file(), edit_file(), bash()],
        Profile::Operator => operator(),
        Profile::Workspace => workspace(),
        Profile::Full => {
            let mut tools = vec![read_file(), write_file(), edit_file(), bash(), find_files(), ls()];
            tools.extend(operator());
            tools
        }
    }
}

fn operator() -> Vec<ToolSpec> {
    vec![run_command(), send_keys(), todo(), jobs(), task_complete(), view_image()]
}

fn workspace() -> Vec<ToolSpec> {
    vec![
        read_file(),
        write_file(),
        write_file_chunk(),
        ls(),
        cat(),
        stat(),
        find_files(),
        mkdir(),
        git_status(),
        git_diff(),
        git_log(),
        git_show(),
        git_add(),
        git_commit(),
    ]
}

fn todo() -> ToolSpec {
    let item = json!({
        "type": "object",
        "properties": {
            "text": { "type": "string" },
            "state": { "type": "string", "enum": ["pending", "active", "done"] },
        },
        "required": ["text", "state"],
    });
    spec(
        TASK_LIST_TOOL,
        "Set the whole todo list of a long task. The user sees it: keep it up to date",
        ToolEffect::Session,
        &["items"],
        &[("items", json!({ "type": "array", "items": item }))],
    )
}

/// Returns the tool `jobs`. Sessions offer it in every profile once a background job has been started.
pub fn jobs() -> ToolSpec {
    let action = json!({ "type": "string", "enum": ["list", "read", "stop"] });
    spec(
        JOBS_TOOL,
        "List, read or stop commands in the background",
        ToolEffect::Session,
        &["action"],
        &[
            ("action", action),
            ("id", json!({ "type": "integer" })),
            ("wait_s", json!({ "type": "integer", "description": "Seconds to wait for the job's end" })),
        ],
    )
}

/// Returns the tool `read_output`. It is in no profile; a session offers it once outputs have been omitted.
pub fn read_output() -> ToolSpec {
    spec(
        READ_OUTPUT_TOOL,
        "Read an earlier output that was omitted to save space",
        ToolEffect::Session,
        &["id"],
        &[
            ("id", text("Id from the note `[output omitted: …]`")),
            ("range", text("Lines to read, such as `1-200`; default: all")),
        ],
    )
}

/// Returns the tool `skill`. It is in no profile; a session offers it if it has skills, whose names are `names`.
pub fn skill(names: &[&str]) -> ToolSpec {
    spec(
        SKILL_TOOL,
        "Read the instructions of a skill",
        ToolEffect::Session,
        &["name"],
        &[("name", json!({ "type": "string", "enum": names }))],
    )
}

/// Returns the tool `remember`. It is in no profile, because it works only where the notes can be stored.
pub fn remember() -> ToolSpec {
    REMEMBER.clone()
}

static REMEMBER: LazyLock<ToolSpec> = LazyLock::new(|| {
    spec(
        REMEMBER_TOOL,
        "Note a lasting fact about this host in one sentence, for later sessions; the user is asked",
        ToolEffect::Writes,
        &["text"],
        &[("text", plain_text())],
    )
});

/// Returns the tool `delete_file`. It is in no profile; a host adds it if the config allows deletion.
pub fn delete_file() -> ToolSpec {
    spec(
        "delete_file",
        "Delete one file",
        ToolEffect::Writes,
        &["path"],
        &[("path", text("File path to delete"))],
    )
}

/// Argument of `bash` that selects the action at the time limit.
pub(crate) const ON_TIMEOUT: &str = "on_timeout";
/// Value of [`ON_TIMEOUT`]: the command continues as a job.
pub(crate) const BACKGROUND: &str = "background";

/// `bash` with the additional argument [`OUTSIDE_SANDBOX`].
static OUTSIDE_BASH: LazyLock<ToolSpec> = LazyLock::new(|| {
    let mut spec = bash();
    let mut parameters = (*spec.parameters).clone();
    parameters["properties"][OUTSIDE_SANDBOX] = json!({
        "type": "boolean",
        "description": "Run outside the sandbox, if the user agrees; only after the sandbox blocked it",
    });
    spec.parameters = Arc::new(parameters);
    spec
});

/// Adds the argument [`OUTSIDE_SANDBOX`] to `bash` if `specs` contains it. Called for hosts that have a sandbox.
pub fn offer_outside_sandbox(specs: &mut [ToolSpec]) {
    for spec in specs.iter_mut().filter(|spec| spec.name == OUTSIDE_BASH.name) {
        spec.clone_from(&OUTSIDE_BASH);
    }
}

/// `bash`, and `bash` with [`OUTSIDE_SANDBOX`], for sessions whose commands continue as jobs at their time limit.
static BACKGROUND_BASH: LazyLock<[ToolSpec; 2]> = LazyLock::new(|| {
    [bash(), OUTSIDE_BASH.clone()].map(|mut spec| {
        let mut parameters = (*spec.parameters).clone();
        parameters["properties"][ON_TIMEOUT]["default"] = BACKGROUND.into();
        spec.parameters = Arc::new(parameters);
        spec
    })
});

/// Makes `background` the default of the argument [`ON_TIMEOUT`] of `bash` if `specs` contains it.
pub fn background_on_timeout(specs: &mut [ToolSpec]) {
    let [plain, outside] = &*BACKGROUND_BASH;
    for spec in specs.iter_mut().filter(|spec| spec.name == plain.name) {
        let is_outside = spec.parameters["properties"].get(OUTSIDE_SANDBOX).is_some();
        spec.clone_from(if is_outside { outside } else { plain });
    }
}

/// Returns true if calls to this tool continue in the background at their time limit by default.
pub(crate) fn is_background_on_timeout(spec: &ToolSpec) -> bool {
    spec.parameters["properties"][ON_TIMEOUT]["default"] == BACKGROUND
}

/// Argument of `bash` and `run_command` with the time limit of the command, in seconds.
pub(crate) const TIMEOUT_S: &str = "timeout_s";

/// Returns the schema of the time limit of `bash` with a default.
pub(crate) fn bash_time_limit(seconds: u64) -> Value {
    number(&format!("Default {seconds}"), 1, Some(BASH_TIMEOUT_S_MAX))
}

/// Returns the schema of the time limit of `run_command` with a default.
pub(crate) fn run_command_time_limit(seconds: u64) -> Value {
    let description = format!("Default {seconds}; then the command keeps running");
    number(&description, 1, Some(RUN_COMMAND_TIMEOUT_S_MAX))
}

fn read_file() -> ToolSpec {
    spec(
        "read_file",
        "Read a file, or a range of its lines",
        ToolEffect::Reads,
        &["path"],
        &[("path", plain_text()), ("start_line", plain_number(1)), ("end_line", plain_number(1))],
    )
}

fn view_image() -> ToolSpec {
    spec(
        VIEW_IMAGE_TOOL,
        "See a PNG, JPEG, GIF or WebP file",
        ToolEffect::Reads,
        &["path"],
        &[("path", plain_text())],
    )
}

fn write_file() -> ToolSpec {
    spec(
        "write_file",
        "Create or overwrite a file",
        ToolEffect::Writes,
        &["path", "content"],
        &[("path", plain_text()), ("content", plain_text())],
    )
}

fn write_file_chunk() -> ToolSpec {
    spec(
        "write_file_chunk",
        "Write a large file in pieces, in order; the file is created after the last piece",
        ToolEffect::Writes,
        &["path", "content", "index", "total"],
        &[
            ("path", plain_text()),
            ("content", text("This piece")),
            ("index", number("Index of this piece, from 0; 0 starts over", 0, Some(CHUNKS_MAX - 1))),
            ("total", number("Total number of pieces", 1, Some(CHUNKS_MAX))),
        ],
    )
}

fn edit_file() -> ToolSpec {
    spec(
        "edit_file",
        "Replace a string that occurs exactly once in a file",
        ToolEffect::Writes,
        &["path", "old_string", "new_string"],
        &[("path", plain_text()), ("old_string", plain_text()), ("new_string", plain_text())],
    )
}

pub(crate) fn bash() -> ToolSpec {
    spec(
        BASH_TOOL,
        "Execute a shell command",
        ToolEffect::Command,
        &["command"],
        &[
            ("command", plain_text()),
            ("reason", text(REASON)),
            (TIMEOUT_S, bash_time_limit(BASH_TIMEOUT_S_DEFAULT)),
            ("background", json!({ "type": "boolean", "description": "Run as a job; see `jobs`" })),
            (ON_TIMEOUT, json!({ "type": "string", "enum": ["kill", BACKGROUND] })),
        ],
    )
}

fn run_command() -> ToolSpec {
    spec(
        "run_command",
        "Run a shell command in the terminal that the user sees; its directory and variables persist",
        ToolEffect::Command,
        &["command", "reasoning"],
        &[
            ("command", plain_text()),
            ("reasoning", text(REASON)),
            (TIMEOUT_S, run_command_time_limit(RUN_COMMAND_TIMEOUT_S_DEFAULT)),
        ],
    )
}

fn send_keys() -> ToolSpec {
    spec(
        "send_keys",
        "Press keys in the terminal and get the screen: to answer a question, stop a program (`Ctrl+C`), end its input \
         (`Ctrl+D`), or use a full-screen program. Never for passwords: the user enters those",
        ToolEffect::Keys,
        &["keys", "reasoning"],
        &[
            (
                "keys",
                text(
                    "Keys, separated by spaces: `y Enter`, `Ctrl+C`, `Up`, `Escape`, `F1`, `Alt+x`, `Space`. Other text \
                     is typed as it is; quote spaces: `\"git status\" Enter`",
                ),
            ),
            ("reasoning", text(REASON)),
        ],
    )
}

fn task_complete() -> ToolSpec {
    spec(
        "task_complete",
        "Report that the task is finished, and its result",
        ToolEffect::Completes,
        &["summary"],
        &[("summary", plain_text())],
    )
}

fn find_files() -> ToolSpec {
    spec(
        "find_files",
        "Find files by glob, except ignored ones",
        ToolEffect::Reads,
        &["pattern"],
        &[("pattern", text("Glob, such as `*.rs` or `src/**/*.toml`")), ("path", text("Default: the root"))],
    )
}

fn ls() -> ToolSpec {
    spec("ls", "List a directory", ToolEffect::Reads, &[], &[("path", text("Default: the root"))])
}

fn cat() -> ToolSpec {
    spec("cat", "Show a complete file", ToolEffect::Reads, &["path"], &[("path", text("File path to show"))])
}

fn stat() -> ToolSpec {
    spec(
        "stat",
        "Show type, size, mode and modification time of a path",
        ToolEffect::Reads,
        &["path"],
        &[("path", text("Path to inspect"))],
    )
}

fn mkdir() -> ToolSpec {
    spec(
        "mkdir",
        "Create a directory and its parents",
        ToolEffect::Writes,
        &["path"],
        &[("path", text("Directory to create"))],
    )
}

fn git_status() -> ToolSpec {
    spec("git_status", "Show branch and changed files", ToolEffect::Reads, &[], &[])
}

fn git_diff() -> ToolSpec {
    spec(
        "git_diff",
        "Show unstaged changes, staged changes, or changes since a revision",
        ToolEffect::Reads,
        &[],
        &[
            ("staged", json!({ "type": "boolean", "description": "Staged changes" })),
            ("revision", text("Compare with this revision")),
            ("path", text("Only below this path")),
        ],
    )
}

fn git_log() -> ToolSpec {
    spec(
        "git_log",
        "List commits, newest first",
        ToolEffect::Reads,
        &[],
        &[
            ("revision", text("Revision or range; default HEAD")),
            ("path", text("Only commits that touch this path")),
            ("limit", number("Maximum number; default 20", 1, Some(GIT_LOG_COMMITS_MAX))),
        ],
    )
}

fn git_show() -> ToolSpec {
    spec(
        "git_show",
        "Show a commit, or a file of one as `REVISION:PATH`",
        ToolEffect::Reads,
        &["revision"],
        &[("revision", text("Revision"))],
    )
}

fn git_add() -> ToolSpec {
    spec(
        "git_add",
        "Stage files",
        ToolEffect::Writes,
        &["paths"],
        &[(
            "paths",
            json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "description": "Paths to stage" }),
        )],
    )
}

fn git_commit() -> ToolSpec {
    spec(
        "git_commit",
        "Commit the staged changes",
        ToolEffect::Writes,
        &["message"],
        &[("message", text("Commit message"))],
    )
}

fn spec(
    name: &str,
    description: &str,
    effect: ToolEffect,
    required: &[&str],
    properties: &[(&str, Value)],
) -> ToolSpec {
    let properties: Map<String, Value> =
        properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    ToolSpec {
        name: name.to_owned(),
        description: description.into(),
        parameters: Arc::new(json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })),
        effect,
    }
}

/// Returns the schema of a text argument that needs no description, because its name is clear.
fn plain_text() -> Value {
    json!({ "type": "string" })
}

fn plain_number(least: u64) -> Value {
    json!({ "type": "integer", "minimum": least })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn number(description: &str, least: u64, most: Option<u64>) -> Value {
    let mut schema = json!({ "type": "integer", "minimum": least, "description": description });
    if let (Some(most), Some(map)) = (most, schema.as_object_mut()) {
        map.insert("maximum".to_owned(), most.into());
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(profile: Profile) -> Vec<String> {
        tools(profile).into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn profiles_contain_the_documented_tools() {
        assert_eq!(names(Profile::Coder), ["read_file", "write_file", "edit_file", "bash"]);
        let operator = ["run_command", "send_keys", "todo", "jobs", "task_complete", "view_image"];
        assert_eq!(names(Profile::Operator), operator);
        assert_eq!(
            names(Profile::Workspace),
            [
                "read_file", "write_file", "write_file_chunk", "ls", "cat", "stat", "find_files", "mkdir",
                "git_status", "git_diff", "git_log", "git_show", "git_add", "git_commit"
            ]
        );
        assert_eq!(
            names(Profile::Full),
            [
                "read_file", "write_file", "edit_file", "bash", "find_files", "ls", "run_command",
                "send_keys", "todo", "jobs", "task_complete", "view_image"
            ]
        );
    }

    #[test]
    fn schemas_are_flat_closed_and_accept_what_they_require() {
        for tool in Profile::ALL.into_iter().flat_map(tools).chain([delete_file(), read_output()]) {
            let schema = &tool.parameters;
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            let validator = jsonschema::validator_for(schema).expect("a schema");
            let mut arguments = Map::new();
            for name in schema["required"].as_array().expect("a list") {
                let name = name.as_str().expect("a name");
                let property = &schema["properties"][name];
                let value = match property["type"].as_str().expect("a type") {
                    "string" if property.get("enum").is_some() => property["enum"][0].clone(),
                    "string" => json!("x"),
                    "integer" => json!(1),
                    "array" if tool.name == TASK_LIST_TOOL => json!([{ "text": "x", "state": "done" }]),
                    "array" => json!(["x"]),
                    other => panic!("{}: {name} is {other}", tool.name),
                };
                arguments.insert(name.to_owned(), value);
            }
            assert!(validator.is_valid(&Value::Object(arguments.clone())), "{}", tool.name);
            arguments.insert("more".to_owned(), json!(1));
            assert!(
                !validator.is_valid(&Value::Object(arguments)),
                "{} accepts unknown arguments",
                tool.name
            );
        }
    }

    #[test]
    fn small_windows_get_few_tools_with_few_arguments() {
        let mut full = tools(Profile::Full);
        offer_outside_sandbox(&mut full);
        let small = small(&full);
        let names: Vec<_> = small.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["read_file", "write_file", "edit_file", "bash"]);
        let tokens = crate::token_estimate::tools(&small);
        assert!(tokens <= 420, "{tokens} tokens");
        let bash = &small[3].parameters["properties"];
        assert!(bash.get("timeout_s").is_some() && bash.get(OUTSIDE_SANDBOX).is_some(), "{bash}");
        assert!(bash.get("background").is_none() && bash.get(ON_TIMEOUT).is_none(), "{bash}");
        assert_eq!(super::small(&tools(Profile::Workspace)), tools(Profile::Workspace), "no commands");
    }

    #[test]
    fn bash_times_are_bounded_by_the_schema() {
        let validator = jsonschema::validator_for(&bash().parameters).expect("a schema");
        let call = |seconds: u64| json!({ "command": "true", "timeout_s": seconds });
        assert!(validator.is_valid(&call(1)) && validator.is_valid(&call(BASH_TIMEOUT_S_MAX)));
        assert!(!validator.is_valid(&call(0)) && !validator.is_valid(&call(BASH_TIMEOUT_S_MAX + 1)));
    }

    #[test]
    fn profile_names_round_trip() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        let error = "Coder".parse::<Profile>().expect_err("case matters");
        assert_eq!(error.to_string(), "unknown profile `Coder`; available: coder, operator, workspace, full");
    }
}
