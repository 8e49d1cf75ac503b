//! Undo of commands: the state that a host saves before a change, and where it is saved.

mod changed_line;
mod plan;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::message::{Arguments, ToolCall};
use crate::text::neutralize_line;

pub use self::changed_line::{ChangeGroup, changed_line, grouped};
pub use self::plan::{CapturePlan, plan, plan_paths, script_targets};

/// Tool that reverts the changes of an earlier call. Hosts implement it; it is never offered to a model.
pub const UNDO_TOOL: &str = "undo";
/// Maximum steps per session that are remembered as undoable; the oldest are dropped first.
pub const UNDO_STEPS_MAX: usize = 64;

/// Argument of an undo call: the command whose changes are undone.
pub const UNDOES: &str = "undoes";

/// Argument of an undo call: true if a user must allow it even if it only restores files that file tools changed.
pub const ASKS: &str = "ask";

/// Text of an undo that names no call and reverts changes by file tools.
pub const UNDO_OF_FILE_EDITS: &str = "undo the file edits of the last turn";

/// Beginning of a line of an undo plan that says what is not restored.
pub const NOT_EXACT: &str = "not exact: ";

/// Returns the command that a call runs, or whose changes it undoes.
pub fn undone_command(call: &ToolCall) -> Option<&str> {
    call.text_argument(UNDOES).or_else(|| call.text_argument("command")).filter(|command| !command.is_empty())
}

/// Maximum number of files that the text of an undo names.
const FILES_NAMED_MAX: usize = 3;

/// Returns a call of the tool `undo` as text: the step or the last change, and the files that it restores, but not the
/// ids that it carries. `None` for any other call.
pub fn undo_summary(call: &ToolCall) -> Option<String> {
    let arguments = match &call.arguments {
        Arguments::Object(arguments) if call.name == UNDO_TOOL => arguments,
        Arguments::Object(_) | Arguments::Invalid(_) => return None,
    };
    let what = match arguments.get("step").and_then(serde_json::Value::as_u64) {
        Some(step) => format!("undo call {step}"),
        None => UNDO_OF_FILE_EDITS.to_owned(),
    };
    let changes = arguments.get("changes").and_then(serde_json::Value::as_array).into_iter().flatten();
    let paths = changes.filter_map(|change| change.get("path").and_then(serde_json::Value::as_str));
    Some(match named_files(paths, 0) {
        Some(files) => format!("{what}: {files}"),
        None => what,
    })
}

/// Returns the hosts of a call in a session at `place`: of an undo, those of several hosts that it changes; of any
/// other call all of them.
pub fn hosts_of_call<'a>(call: &ToolCall, place: &'a str) -> Cow<'a, str> {
    let arguments = match &call.arguments {
        Arguments::Object(arguments) if call.name == UNDO_TOOL => arguments,
        Arguments::Object(_) | Arguments::Invalid(_) => return Cow::Borrowed(place),
    };
    let list = |name: &str| arguments.get(name).and_then(serde_json::Value::as_array).into_iter().flatten();
    let field = |value: &'_ serde_json::Value, name: &str| -> String {
        value.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    };
    let records: Vec<String> = list("records").map(|record| field(record, "host")).collect();
    let paths: Vec<String> = list("changes").map(|change| field(change, "path")).collect();
    let is_changed = |host: &&str| {
        let is_below = |path: &String| path.strip_prefix(host).is_some_and(|rest| rest.starts_with(':'));
        records.iter().any(|record| record == host) || paths.iter().any(is_below)
    };
    let hosts: Vec<&str> = place.split(',').map(str::trim).filter(is_changed).collect();
    if hosts.is_empty() { Cow::Borrowed(place) } else { Cow::Owned(hosts.join(",")) }
}

/// Names the first of some files, and counts the others and `unnamed` further ones: `a, b, c and 2 more`. `None` if no
/// file has a name.
pub fn named_files<'a>(paths: impl Iterator<Item = &'a str>, unnamed: usize) -> Option<String> {
    let mut files: Vec<&str> = Vec::new();
    for path in paths {
        if !files.contains(&path) {
            files.push(path);
        }
    }
    let more = match files.len().saturating_sub(FILES_NAMED_MAX) + unnamed {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<_> = files.iter().take(FILES_NAMED_MAX).map(|path| neutralize_line(path)).collect();
    (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
}

/// Splits off the last line of an output if it is one that hosts add to say why a call has no undo: returns the text
/// before it, and the reason.
pub fn split_undo_note(output: &str) -> Option<(&str, &str)> {
    let start = output.rfind('\n').map_or(0, |newline| newline + 1);
    let reason = output[start..].strip_prefix("[no undo: ")?.strip_suffix(']')?;
    Some((output[..start].trim_end_matches('\n'), reason))
}

/// Record on a host of the state before a call, from which the call can be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoRecord {
    /// Name of the record in the host's record directory: letters and digits.
    pub id: String,
    /// The host as the user named it; empty if the call ran on one host only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    pub rights: UndoRights,
}

/// Privileges with which a record is written and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoRights {
    /// Privileges of the login user.
    Own,
    /// Root privileges through `sudo -n`, because the command used sudo.
    Root,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::CallId;

    fn call(name: &str, arguments: serde_json::Value) -> ToolCall {
        let serde_json::Value::Object(map) = arguments else { panic!("arguments are an object") };
        let (id, name) = (CallId::new("c"), name.to_owned());
        ToolCall { id, wire_id: None, name, arguments: Arguments::Object(map) }
    }

    #[test]
    fn an_undo_is_on_the_hosts_that_it_changes() {
        let place = "web1, web2,web3";
        let on = |name: &str, arguments| hosts_of_call(&call(name, arguments), place).into_owned();
        let record = |host: &str| json!({ "id": "a1", "host": host, "rights": "own" });
        assert_eq!(on(UNDO_TOOL, json!({ "records": [record("web3"), record("web1")] })), "web1,web3");
        assert_eq!(on(UNDO_TOOL, json!({ "changes": [{ "path": "web2:etc/a.conf" }] })), "web2");
        assert_eq!(on(UNDO_TOOL, json!({ "changes": [{ "path": "etc/a.conf" }] })), place);
        assert_eq!(on("bash", json!({ "command": "id" })), place);
    }

    #[test]
    fn an_undo_names_its_files() {
        let summary =
            |arguments: serde_json::Value| undo_summary(&call(UNDO_TOOL, arguments)).expect("it is an undo");
        let files = |paths: &[&str]| paths.iter().map(|path| json!({ "path": path })).collect::<Vec<_>>();
        let two = files(&["etc/a.conf", "b\n.txt", "etc/a.conf"]);
        assert_eq!(
            summary(json!({ "changes": two })),
            "undo the file edits of the last turn: etc/a.conf, b\\n.txt"
        );
        let five = files(&["a", "b", "c", "d", "e"]);
        assert_eq!(summary(json!({ "step": 3, "changes": five })), "undo call 3: a, b, c and 2 more");
        assert_eq!(summary(json!({ "step": 2, "records": [] })), "undo call 2");
    }
}
