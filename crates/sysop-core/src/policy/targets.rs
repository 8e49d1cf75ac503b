//! The paths that a call uses, for its host to resolve before the call is judged, and what they say of a file tool's
//! risk.

use serde_json::Value;
use sysop_shell as shell;

use super::{Access, CommandContext, Dialect, Risk, RiskClass, Survey, Target};
use crate::message::{Arguments, ToolCall};
use crate::tool::{ToolEffect, ToolSpec};

/// The most targets of one call that are resolved; those beyond it stay unresolved, and so make the call opaque.
pub const TARGETS_MAX: usize = 256;

/// The arguments of tools that hold paths: one, or a list.
const PATH_ARGUMENTS: [&str; 2] = ["path", "paths"];

/// Tools that tell names and sizes of files but nothing of what is in them.
const NAMES_ONLY: &[&str] = &["ls", "stat", "find_files", "git_status"];
/// Tools that change the repository, and only read the paths that they are given.
const READ_THEIR_PATHS: &[&str] = &["git_add", "git_commit"];

/// The paths that a call uses in the circumstances of a survey, each once. A survey with resolved scripts also gives the
/// paths that these scripts use.
pub fn targets_of(spec: &ToolSpec, call: &ToolCall, survey: &Survey) -> Vec<Target> {
    let mut targets = match spec.effect {
        ToolEffect::Command => {
            let command = call.text_argument("command").unwrap_or_default();
            shell::analyze(command, survey).targets
        }
        ToolEffect::Reads => of_arguments(call, survey, Access::Read),
        ToolEffect::Writes if READ_THEIR_PATHS.contains(&spec.name.as_str()) => {
            of_arguments(call, survey, Access::Read)
        }
        ToolEffect::Writes => of_arguments(call, survey, Access::Write),
        // What keys do depends on the screen; they are judged as they are written.
        ToolEffect::Keys | ToolEffect::Completes => Vec::new(),
    };
    targets.sort_unstable();
    targets.dedup();
    targets.truncate(TARGETS_MAX);
    targets
}

/// Whether a command that may run git changes nothing, by its text alone.
pub fn reads_with_git(command: &str, dialect: Dialect) -> bool {
    if !command.contains("git") {
        return false;
    }
    let context = CommandContext { dialect, ..CommandContext::default() };
    let analysis = shell::analyze(command, &Survey::elsewhere(context));
    analysis.risk.class <= RiskClass::ReadsRemote
}

/// What file tools are given: relative to the root, without globs and without names of home folders.
fn of_arguments(call: &ToolCall, survey: &Survey, access: Access) -> Vec<Target> {
    let Arguments::Object(arguments) = &call.arguments else { return Vec::new() };
    let values = PATH_ARGUMENTS.iter().filter_map(|name| arguments.get(*name));
    let words = values.flat_map(|value| match value {
        Value::String(word) => vec![word.as_str()],
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    });
    words.filter(|word| !word.is_empty()).map(|word| path_target(word, survey, access)).collect()
}

fn path_target(word: &str, survey: &Survey, access: Access) -> Target {
    // To a file tool `~` is a name like any other.
    let word = if word.starts_with('~') { format!("./{word}") } else { word.to_owned() };
    Target { word, glob: false, folder: survey.context.root.clone(), access }
}

/// The paths that a command uses, and those of the scripts that a survey has resolved for it.
pub fn command_targets(command: &str, survey: &Survey) -> Vec<Target> {
    shell::analyze(command, survey).targets
}

/// What a call of a file tool can do: the class of its effect, or that of the worst path, whichever is worse.
pub(super) fn tool_risk(spec: &ToolSpec, call: &ToolCall, survey: &Survey) -> Risk {
    let class = match spec.effect {
        ToolEffect::Reads | ToolEffect::Completes => RiskClass::ReadOnly,
        ToolEffect::Writes | ToolEffect::Command | ToolEffect::Keys => RiskClass::Changes,
    };
    let mut risk = Risk { class, findings: Vec::new() };
    if NAMES_ONLY.contains(&spec.name.as_str()) {
        return risk;
    }
    for target in targets_of(spec, call, survey) {
        let of_path = judge_path(&target, survey);
        risk.class = risk.class.max(of_path.class);
        for mut finding in of_path.findings {
            (finding.start, finding.end) = (0, 0); // places in a command that nobody sees
            if !risk.findings.contains(&finding) {
                risk.findings.push(finding);
            }
        }
    }
    risk
}

/// What the use of a path says of a call.
fn judge_path(target: &Target, survey: &Survey) -> Risk {
    let quoted = format!("'{}'", target.word.replace('\'', r"'\''"));
    let command = match target.access {
        Access::Read => format!("cat -- {quoted}"),
        Access::Write => format!(": > {quoted}"),
        Access::Run => format!(". {quoted}"),
        Access::Repository => format!("git -C {quoted} status"),
    };
    let mut survey = survey.clone();
    survey.context.folder.clone_from(&target.folder);
    survey.context.dialect = shell::Dialect::Bash;
    shell::analyze(&command, &survey).risk
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Access, Dialect, Survey, reads_with_git, targets_of};
    use crate::catalog::{self, Profile};
    use crate::id::CallId;
    use crate::message::{Arguments, ToolCall};
    use crate::policy::CommandContext;

    fn words(tool: &str, arguments: Value) -> Vec<(String, Access)> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let specs = catalog::tools(Profile::Full).into_iter().chain(catalog::tools(Profile::Workspace));
        let spec = specs.into_iter().find(|spec| spec.name == tool).expect("a known tool");
        let call = ToolCall {
            id: CallId::new("1"),
            wire_id: None,
            name: tool.to_owned(),
            arguments: Arguments::Object(arguments),
        };
        let context = CommandContext { root: Some("/srv".to_owned()), ..CommandContext::bash() };
        let targets = targets_of(&spec, &call, &Survey::elsewhere(context));
        assert!(targets.iter().all(|target| !target.glob && target.folder.as_deref() == Some("/srv")));
        targets.into_iter().map(|target| (target.word, target.access)).collect()
    }

    #[test]
    fn file_tools_use_the_paths_that_they_are_given() {
        let one = |word: &str, access| vec![(word.to_owned(), access)];
        assert_eq!(words("write_file", json!({"path": "a*", "content": ""})), one("a*", Access::Write));
        assert_eq!(words("read_file", json!({"path": "~/a"})), one("./~/a", Access::Read));
        assert_eq!(words("ls", json!({})), []);
        let staged = words("git_add", json!({"paths": ["a", "b", "a"]}));
        assert_eq!(staged, [("a".to_owned(), Access::Read), ("b".to_owned(), Access::Read)]);
    }

    #[test]
    fn only_commands_that_read_with_git_are_such() {
        assert!(reads_with_git("git status", Dialect::Bash));
        assert!(!reads_with_git("git commit -m a", Dialect::Bash));
        assert!(!reads_with_git("ls", Dialect::Bash));
        assert!(!reads_with_git("git status", Dialect::Unknown));
    }
}
