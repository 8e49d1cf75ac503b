//! Tool calls as shown by editors: kind, title, content and results.
//!
//! Editors collapse everything except the title and content, so both must contain the exact command.

use serde_json::{Map, Value, json};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::text::{neutralize, neutralize_line};
use sysop_core::transcript::{SessionInfo, call_summary};
use sysop_core::ui_text;

const DIFF_BYTES_MAX: usize = 200 * 1024;
/// Arguments that are shown in another way.
const REASONS: [&str; 2] = ["reason", "reasoning"];

/// Location of a session's tools.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) root: String,
}

impl Place {
    pub(crate) fn of(info: &SessionInfo) -> Self {
        Self { host: info.host.clone(), root: info.root.clone() }
    }

    pub(crate) fn is_local(&self) -> bool {
        ui_text::is_local_host(&self.host)
    }

    /// Returns the absolute path in a tool's arguments on this machine, or `None` if the tool runs elsewhere.
    fn path(&self, call: &ToolCall) -> Option<String> {
        let path = call.text_argument("path").filter(|_| self.is_local())?;
        Some(std::path::Path::new(&self.root).join(path).display().to_string())
    }
}

fn kind(tool: &str) -> &'static str {
    match tool {
        "bash" | "run_command" | "send_keys" => "execute",
        "read_file" | "cat" | "stat" | "view_image" | "read_output" => "read",
        "find_files" | "ls" | "git_status" | "git_diff" | "git_log" | "git_show" => "search",
        "write_file" | "edit_file" | "write_file_chunk" | "mkdir" => "edit",
        "delete_file" => "delete",
        _ => "other",
    }
}

/// Returns the title of a call: the whole `command` on one line, prefixed with `HOST: ` unless it runs on this machine.
pub(crate) fn title(command: &str, place: &Place) -> String {
    let command = neutralize_line(command);
    if place.is_local() || place.host.is_empty() {
        return command.into_owned();
    }
    format!("{}: {command}", neutralize_line(&place.host))
}

/// Returns the text shown to users for a call that needed no approval.
pub(crate) fn command_of(call: &ToolCall) -> String {
    match call.text_argument("command") {
        Some(command) if kind(&call.name) == "execute" => command.to_owned(),
        Some(_) | None => call_summary(call),
    }
}

/// Returns the fields of a call that never change, for a new `tool_call` or a permission request.
pub(crate) fn fields(call: &ToolCall, command: &str, place: &Place) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("toolCallId".into(), json!(call.id.as_str()));
    fields.insert("title".into(), json!(title(command, place)));
    fields.insert("kind".into(), json!(kind(&call.name)));
    fields.insert("rawInput".into(), safe_value(&call.arguments.to_value()));
    if let Some(path) = place.path(call) {
        fields.insert("locations".into(), json!([{ "path": neutralize_line(&path) }]));
    }
    fields
}

/// Returns a call's change to a file on this machine, as a diff.
pub(crate) fn diff(call: &ToolCall, place: &Place) -> Option<Value> {
    let path = place.path(call)?;
    let (old, new) = match call.name.as_str() {
        "write_file" => (None, call.text_argument("content")?),
        "edit_file" => (Some(call.text_argument("old_string")?), call.text_argument("new_string")?),
        _ => return None,
    };
    if new.len() + old.map_or(0, str::len) > DIFF_BYTES_MAX {
        return None;
    }
    let old = old.map(neutralize);
    Some(
        json!({ "type": "diff", "path": neutralize_line(&path), "oldText": old, "newText": neutralize(new) }),
    )
}

/// Returns the arguments of a call, except for those in `without`, one per line.
pub(crate) fn other_arguments(call: &ToolCall, without: &[&str]) -> String {
    let Arguments::Object(map) = &call.arguments else {
        return neutralize(&call.arguments.to_value().to_string()).into_owned();
    };
    let shown =
        map.iter().filter(|(name, _)| !REASONS.contains(&name.as_str()) && !without.contains(&name.as_str()));
    let lines = shown.map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{}: {}", neutralize_line(name), neutralize(&value))
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn text_content(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

/// Returns text in a code fence that is longer than any run of backticks in the text.
pub(crate) fn fence(language: &str, text: &str) -> String {
    let text = neutralize(text);
    let (mut longest, mut run) = (0, 0);
    for sign in text.chars() {
        run = if sign == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let marks = "`".repeat(3.max(longest + 1));
    format!("{marks}{language}\n{}\n{marks}", text.trim_end_matches('\n'))
}

/// Returns the fields of the update that reports a call's result.
pub(crate) fn result(call: Option<&ToolCall>, outcome: &Outcome, place: &Place) -> Map<String, Value> {
    let mut content = Vec::new();
    if !outcome.output.trim().is_empty() {
        content.push(text_content(&fence("console", &outcome.output)));
    }
    let hosts = ui_text::host_lines(outcome);
    let mut summary = format!("{hosts}{}", ui_text::outcome_summary(outcome));
    if let Some(artifact) = &outcome.artifact {
        summary.push_str(&format!(", full output saved as {artifact}"));
    }
    content.push(text_content(&neutralize(&summary)));
    if outcome.status == Status::Ok {
        content.extend(call.and_then(|call| diff(call, place)));
    }
    let succeeded = outcome.status == Status::Ok && outcome.exit_code.is_none_or(|code| code == 0);
    let mut fields = Map::new();
    fields.insert("status".into(), json!(if succeeded { "completed" } else { "failed" }));
    fields.insert("content".into(), Value::Array(content));
    let raw = json!({
        "status": outcome.status.as_str(),
        "exitCode": outcome.exit_code,
        "truncated": outcome.truncated,
        "durationMs": outcome.duration_ms,
    });
    fields.insert("rawOutput".into(), raw);
    fields
}

fn safe_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(neutralize(text).into_owned()),
        Value::Array(values) => values.iter().map(safe_value).collect(),
        Value::Object(map) => {
            map.iter().map(|(name, value)| (neutralize(name).into_owned(), safe_value(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::id::CallId;

    use super::*;

    fn call(name: &str, arguments: Value) -> ToolCall {
        let Value::Object(map) = arguments else { panic!("an object") };
        let arguments = Arguments::Object(map);
        ToolCall { id: CallId::new("c1"), wire_id: None, name: name.into(), arguments }
    }

    fn place(host: &str) -> Place {
        Place { host: host.into(), root: "/srv/app".into() }
    }

    #[test]
    fn a_title_is_the_whole_command_in_one_line_with_a_remote_host_in_front() {
        let command = format!("echo {}\nrm\u{1b}[2K -rf x", "y".repeat(5_000));
        let shown = title(&command, &place("local"));
        assert_eq!(shown, format!("echo {}\\nrm\\x1b[2K -rf x", "y".repeat(5_000)));
        assert_eq!(title("id", &place("root@web1")), "root@web1: id");
    }

    #[test]
    fn edits_on_this_machine_have_an_absolute_path_and_a_diff() {
        let edit =
            call("edit_file", json!({ "path": "a.txt", "old_string": "one", "new_string": "two\u{7}" }));
        let local = place("local");
        assert_eq!(fields(&edit, "x", &local)["locations"], json!([{ "path": "/srv/app/a.txt" }]));
        let expected =
            json!({ "type": "diff", "path": "/srv/app/a.txt", "oldText": "one", "newText": "two\\x07" });
        assert_eq!(diff(&edit, &local), Some(expected));
        assert_eq!(diff(&edit, &place("web1")), None, "a path on another machine has no diff");
        let long = "x".repeat(DIFF_BYTES_MAX + 1);
        assert_eq!(diff(&call("write_file", json!({ "path": "a", "content": long })), &local), None);
        assert_eq!(diff(&call("bash", json!({ "command": "x", "path": "a" })), &local), None);
    }

    #[test]
    fn a_fence_is_longer_than_the_backticks_in_it() {
        assert_eq!(fence("sh", "a ``` b\n"), "````sh\na ``` b\n````");
        assert_eq!(fence("", "ls"), "```\nls\n```");
    }

    #[test]
    fn raw_arguments_have_no_control_characters() {
        let odd = call("bash", json!({ "command": "a\u{1b}b", "list": ["\u{202e}"], "n": 1 }));
        let raw = fields(&odd, "a", &place("local"))["rawInput"].clone();
        assert_eq!(raw, json!({ "command": "a\\x1bb", "list": ["\\u{202e}"], "n": 1 }));
    }

    #[test]
    fn a_command_that_ended_with_an_error_has_failed() {
        let mut outcome = Outcome::ok("out\n");
        outcome.exit_code = Some(3);
        let fields = result(None, &outcome, &place("local"));
        assert_eq!(fields["status"], "failed");
        assert_eq!(fields["content"][0]["content"]["text"], "```console\nout\n```");
        assert!(fields["content"][1]["content"]["text"].as_str().unwrap().contains("exit code 3"));
    }
}
