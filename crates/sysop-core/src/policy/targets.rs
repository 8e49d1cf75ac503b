//! Paths that a call uses. The host resolves them before the assessment, and they contribute to a file tool's risk.

use serde_json::Value;
use sysop_shell as shell;

use super::{Access, CommandContext, Dialect, Finding, Risk, RiskClass, Survey, Target};
use crate::message::{Arguments, ToolCall};
use crate::tool::{ToolEffect, ToolSpec};

/// Maximum number of a call's targets that are resolved. Further targets stay unresolved, which makes the call opaque.
pub const TARGETS_MAX: usize = 256;

/// Finding about calls to MCP servers.
const EXTERNAL_EFFECT: &str = "runs on an MCP server; only the server knows the effect";

/// Names of arguments that hold a path or a list of paths.
const PATH_ARGUMENTS: [&str; 2] = ["path", "paths"];

/// Tools that report names and sizes of files, but no content.
const NAMES_ONLY: &[&str] = &["ls", "stat", "find_files", "git_status"];
/// Tools that change the repository but only read the paths in their arguments.
const READ_THEIR_PATHS: &[&str] = &["git_add", "git_commit"];

/// Returns the paths that a call uses, without duplicates. Paths used by scripts that the survey resolved are included.
pub fn targets_of(spec: &ToolSpec, call: &ToolCall, survey: &Survey) -> Vec<Target> {
    let mut targets = match spec.effect {
        ToolEffect::Command => {
            let command = call.text_argument("command").unwrap_or_default();
            shell::analyze(command, survey).targets
        }
        ToolEffect::Reads | ToolEffect::External | ToolEffect::ExternalReads => {
            of_arguments(call, survey, Access::Read)
        }
        ToolEffect::Writes if READ_THEIR_PATHS.contains(&spec.name.as_str()) => {
            of_arguments(call, survey, Access::Read)
        }
        ToolEffect::Writes => of_arguments(call, survey, Access::Write),
        // The effect of keys depends on the screen; they are assessed by their text.
        ToolEffect::Keys | ToolEffect::Completes | ToolEffect::Session => Vec::new(),
    };
    targets.sort_unstable();
    targets.dedup();
    targets.truncate(TARGETS_MAX);
    targets
}

/// Returns true if a command contains `git`, and the analysis of its text alone, without facts about its host, finds
/// only reads.
pub fn reads_with_git(command: &str, dialect: Dialect) -> bool {
    if !command.contains("git") {
        return false;
    }
    let context = CommandContext { dialect, ..CommandContext::default() };
    let analysis = shell::analyze(command, &Survey::elsewhere(context));
    analysis.risk.class <= RiskClass::ReadsRemote
}

/// Returns the paths in the arguments of a file tool. They are relative to the root; globs and `~` are not expanded.
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
    // File tools treat `~` as an ordinary name.
    let word = if word.starts_with('~') { format!("./{word}") } else { word.to_owned() };
    Target { word, glob: false, folder: survey.context.root.clone(), access }
}

/// Returns the paths that a command uses, including paths used by scripts that the survey resolved.
pub fn command_targets(command: &str, survey: &Survey) -> Vec<Target> {
    shell::analyze(command, survey).targets
}

/// Assesses a call to a file tool. The risk is the worse of the tool's effect and its riskiest path.
pub(super) fn tool_risk(spec: &ToolSpec, call: &ToolCall, survey: &Survey) -> Risk {
    let class = match spec.effect {
        ToolEffect::Reads | ToolEffect::Completes | ToolEffect::ExternalReads => RiskClass::ReadOnly,
        ToolEffect::External => RiskClass::Opaque,
        ToolEffect::Writes | ToolEffect::Command | ToolEffect::Keys | ToolEffect::Session => {
            RiskClass::Changes
        }
    };
    let mut risk = Risk { class, findings: Vec::new() };
    if spec.effect == ToolEffect::External {
        let why = EXTERNAL_EFFECT.to_owned();
        risk.findings.push(Finding { start: 0, end: 0, class, why });
    }
    if NAMES_ONLY.contains(&spec.name.as_str()) {
        return risk;
    }
    for target in targets_of(spec, call, survey) {
        let of_path = judge_path(&target, survey);
        risk.class = risk.class.max(of_path.class);
        for mut finding in of_path.findings {
            (finding.start, finding.end) = (0, 0); // offsets into a synthetic command that is not shown
            if !risk.findings.contains(&finding) {
                risk.findings.push(finding);
            }
        }
    }
    risk
}

/// Returns true if reading the files of this call would need no approval.
pub fn reading_needs_no_approval(spec: &ToolSpec, call: &ToolCall, survey: &Survey) -> bool {
    let mut read = survey.clone();
    read.targets.iter_mut().for_each(|resolved| resolved.target.access = Access::Read);
    targets_of(spec, call, survey).into_iter().all(|target| {
        judge_path(&Target { access: Access::Read, ..target }, &read).class == RiskClass::ReadOnly
    })
}

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
    fn file_tools_target_their_path_arguments() {
        let one = |word: &str, access| vec![(word.to_owned(), access)];
        assert_eq!(words("write_file", json!({"path": "a*", "content": ""})), one("a*", Access::Write));
        assert_eq!(words("read_file", json!({"path": "~/a"})), one("./~/a", Access::Read));
        assert_eq!(words("ls", json!({})), []);
        let staged = words("git_add", json!({"paths": ["a", "b", "a"]}));
        assert_eq!(staged, [("a".to_owned(), Access::Read), ("b".to_owned(), Access::Read)]);
    }

    #[test]
    fn only_read_only_git_commands_count_as_git_reads() {
        assert!(reads_with_git("git status", Dialect::Bash));
        assert!(!reads_with_git("git commit -m a", Dialect::Bash));
        assert!(!reads_with_git("ls", Dialect::Bash));
        assert!(!reads_with_git("git status", Dialect::Unknown));
    }
}
