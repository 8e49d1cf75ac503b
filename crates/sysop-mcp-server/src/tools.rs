//! Tools for other agents, and the session inputs that they are converted to.

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};
use sysop_core::event::{Input, Origin};

/// A call by another agent.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    Hosts,
    Session {
        /// Host as the caller wrote it; empty for the default host.
        host: String,
        input: Box<Input>,
    },
}

/// A tool that passes its arguments to one of the session's tools.
struct DirectTool {
    name: &'static str,
    /// Name of the session's tool.
    tool: &'static str,
    description: &'static str,
    /// Arguments, each with its type and `true` if it is required.
    arguments: &'static [(&'static str, &'static str, bool)],
    reads: bool,
}

const DIRECT: &[DirectTool] = &[
    DirectTool {
        name: "run",
        tool: "bash",
        description: "Run a shell command on a host, without a terminal. The result includes the exit code",
        arguments: &[
            ("command", "string", true),
            ("reason", "string", true),
            ("timeout_s", "integer", false),
        ],
        reads: false,
    },
    DirectTool {
        name: "read_file",
        tool: "read_file",
        description: "Read a file on a host, or a range of its lines",
        arguments: &[
            ("path", "string", true),
            ("start_line", "integer", false),
            ("end_line", "integer", false),
        ],
        reads: true,
    },
    DirectTool {
        name: "write_file",
        tool: "write_file",
        description: "Create or overwrite a file on a host",
        arguments: &[("path", "string", true), ("content", "string", true)],
        reads: false,
    },
    DirectTool {
        name: "edit_file",
        tool: "edit_file",
        description: "Replace a string that occurs exactly once in a file on a host",
        arguments: &[
            ("path", "string", true),
            ("old_string", "string", true),
            ("new_string", "string", true),
        ],
        reads: false,
    },
    DirectTool {
        name: "list",
        tool: "ls",
        description: "List a directory on a host",
        arguments: &[("path", "string", false)],
        reads: true,
    },
    DirectTool {
        name: "terminal_run",
        tool: "run_command",
        description: "Run a command in the host's terminal, which people may share; its directory and variables persist",
        arguments: &[
            ("command", "string", true),
            ("reasoning", "string", true),
            ("timeout_s", "integer", false),
        ],
        reads: false,
    },
    DirectTool {
        name: "terminal_send",
        tool: "send_keys",
        description: "Press keys in the host's terminal and get the screen: `y Enter`, `Ctrl+C`. Never for passwords",
        arguments: &[("keys", "string", true), ("reasoning", "string", true)],
        reads: false,
    },
];

/// Name of the tool that gives a whole task to sysop's own model.
const ASK: &str = "ask";
const HOSTS: &str = "hosts";
/// Description of the argument `host`.
const HOST: &str = "Name from `hosts`, or an ssh destination. Default: the default host";

/// Returns the tools. `has_model` is true if sysop's own model is available for tasks.
pub(crate) fn list(has_model: bool) -> Vec<Tool> {
    let hosts = tool(HOSTS, "List the hosts of the user's config", Map::new(), &[], true);
    let direct = DIRECT.iter().map(|direct| {
        let mut properties = Map::from_iter([host()]);
        properties.extend(
            direct.arguments.iter().map(|(name, kind, _)| ((*name).to_owned(), json!({ "type": kind }))),
        );
        let required: Vec<&str> =
            direct.arguments.iter().filter(|(_, _, required)| *required).map(|(name, _, _)| *name).collect();
        tool(direct.name, direct.description, properties, &required, direct.reads)
    });
    let task = Map::from_iter([host(), ("task".to_owned(), json!({ "type": "string" }))]);
    let ask = tool(
        ASK,
        "Give a task on a host to sysop's own model, and get its answer. People approve its commands",
        task,
        &["task"],
        false,
    );
    std::iter::once(hosts).chain(direct).chain(has_model.then_some(ask)).collect()
}

fn host() -> (String, Value) {
    ("host".to_owned(), json!({ "type": "string", "description": HOST }))
}

fn tool(
    name: &'static str,
    description: &'static str,
    properties: Map<String, Value>,
    required: &[&str],
    reads: bool,
) -> Tool {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let schema = schema.as_object().cloned().unwrap_or_default();
    Tool::new(name, description, schema).with_annotations(ToolAnnotations::new().read_only(reads))
}

/// Returns the request for a call. Fails with one sentence for the caller if the tool is unknown or an
/// argument is missing. The session checks the rest.
pub(crate) fn parse(name: &str, mut arguments: Map<String, Value>) -> Result<Request, String> {
    let host = match arguments.remove("host") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(host)) => host.trim().to_owned(),
        Some(_) => return Err("`host` must be a string".to_owned()),
    };
    if name == HOSTS {
        return Ok(Request::Hosts);
    }
    if name == ASK {
        let Some(Value::String(text)) = arguments.remove("task") else {
            return Err("`task` is missing".to_owned());
        };
        // A prompt that begins with `/` would invoke one of the user's commands.
        if text.trim().is_empty() || text.trim_start().starts_with('/') {
            return Err("`task` must be a sentence".to_owned());
        }
        return Ok(Request::Session { host, input: Box::new(Input::prompt(text)) });
    }
    let Some(direct) = DIRECT.iter().find(|direct| direct.name == name) else {
        let names: Vec<_> = list(true).into_iter().map(|tool| tool.name.into_owned()).collect();
        return Err(format!("unknown tool; available: {}", names.join(", ")));
    };
    let input =
        Input::Direct { tool: direct.tool.to_owned(), arguments, origin: Origin::McpClient, by: None };
    Ok(Request::Session { host, input: Box::new(input) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sysop_core::catalog::{self, Profile};
    use sysop_core::event::{Input, Origin};

    use super::{DIRECT, Request, list, parse};

    #[test]
    fn no_call_counts_as_typed_by_a_user() {
        for tool in list(true) {
            let arguments = json!({"task": "x", "command": "x", "path": "x", "origin": "typed"});
            let arguments = arguments.as_object().cloned().expect("an object");
            let Request::Session { input, .. } = parse(&tool.name, arguments).expect("a request") else {
                continue;
            };
            let is_call = matches!(&*input, Input::Direct { origin: Origin::McpClient, .. });
            assert!(is_call || matches!(&*input, Input::Prompt { .. }), "{input:?}");
        }
    }

    #[test]
    fn every_argument_exists_in_the_sessions_tool() {
        let known = catalog::tools(Profile::Full);
        for direct in DIRECT {
            let tool = known.iter().find(|tool| tool.name == direct.tool).expect("a tool of the profile");
            for (name, _, _) in direct.arguments {
                assert!(tool.parameters["properties"].get(*name).is_some(), "{}: {name}", direct.name);
            }
            let required = tool.parameters["required"].as_array().expect("a list");
            for name in required {
                let is_required = direct.arguments.iter().any(|(own, _, required)| own == name && *required);
                assert!(is_required, "{}: {name}", direct.name);
            }
        }
    }

    #[test]
    fn a_task_cannot_call_up_a_command_of_the_user() {
        let parse = |task: &str| parse("ask", json!({"task": task}).as_object().cloned().expect("an object"));
        assert!(parse("/approve auto").is_err() && parse("  ").is_err());
        assert!(parse("why is the disk full?").is_ok());
    }
}
