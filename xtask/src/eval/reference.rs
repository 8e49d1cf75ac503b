//! The reference agent: the simplest loop that can solve the tasks. The model gets two examples, and a schema
//! constrains each reply to one command. The command's output is the next message. There are no approvals and no other
//! tools.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::agent::{AgentEnd, Limits, Wire};
use super::proxy::{CountingProxy, post};
use super::task::{TaskFolder, wait_until};

const SYSTEM: &str = "You solve tasks on a Linux machine with shell commands. Answer with JSON: {\"command\": a command for \
    sh, \"done\": false}. You get its exit code and output. When the task is solved, answer {\"command\": \"\", \"done\": true}.";
/// The examples, as pairs of a user message and the model's reply.
const EXAMPLES: [(&str, &str); 4] = [
    ("Count the lines of a.txt and write the number into n.txt.", "wc -l <a.txt >n.txt"),
    ("exit code 0\n", ""),
    ("Remove the folder old.", "rm -r old"),
    ("exit code 0\n", ""),
];
/// Maximum time for a command.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(60);
/// Maximum characters of a command's output that the model gets, counted from the end.
const OUTPUT_CHARS_MAX: usize = 2000;
/// Maximum tokens of an answer.
const ANSWER_TOKENS_MAX: u64 = 512;

/// Works on a task until the model says that it is done, or a limit is reached. Writes the conversation to `log`.
pub(crate) fn run(
    proxy: &CountingProxy,
    (wire, model): (Wire, &str),
    (folder, prompt): (&TaskFolder, &str),
    limits: &Limits,
    log: &mut impl std::io::Write,
) -> Result<AgentEnd> {
    let deadline = Instant::now() + limits.time;
    let answer = |command: &str| json!({"command": command, "done": command.is_empty()}).to_string();
    let mut messages = vec![json!({"role": "system", "content": SYSTEM})];
    for (user, command) in EXAMPLES {
        messages.push(json!({"role": "user", "content": user}));
        messages.push(json!({"role": "assistant", "content": answer(command)}));
    }
    messages.push(json!({"role": "user", "content": prompt}));
    for _ in 0..limits.steps {
        let Some(left) = deadline.checked_duration_since(Instant::now()) else {
            return Ok(AgentEnd::Timeout);
        };
        let Ok((status, reply)) = post(proxy.port(), &path(proxy, wire), &body(wire, model, &messages), left)
        else {
            return Ok(if Instant::now() >= deadline { AgentEnd::Timeout } else { AgentEnd::Error });
        };
        let Some(content) = content(wire, &reply).filter(|_| status == 200) else {
            writeln!(log, "status {status}: {reply}")?;
            return Ok(AgentEnd::Error);
        };
        writeln!(log, "> {content}")?;
        let parsed: Value = serde_json::from_str(&content).unwrap_or_default();
        let command = parsed["command"].as_str().unwrap_or_default();
        if command.is_empty() && parsed["done"] == true {
            return Ok(AgentEnd::Done);
        }
        let result = execute(folder, command, deadline)?;
        writeln!(log, "{result}")?;
        messages.push(json!({"role": "assistant", "content": content}));
        messages.push(json!({"role": "user", "content": result}));
        if parsed["done"] == true {
            return Ok(AgentEnd::Done);
        }
    }
    Ok(AgentEnd::Steps)
}

fn path(proxy: &CountingProxy, wire: Wire) -> String {
    proxy.path_of(match wire {
        Wire::Openai => "/chat/completions",
        Wire::Ollama => "/api/chat",
    })
}

fn body(wire: Wire, model: &str, messages: &[Value]) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"command": {"type": "string"}, "done": {"type": "boolean"}},
        "required": ["command", "done"],
        "additionalProperties": false
    });
    match wire {
        Wire::Openai => json!({
            "model": model, "messages": messages, "temperature": 0.3, "max_tokens": ANSWER_TOKENS_MAX,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "step", "strict": true, "schema": schema}
            }
        }),
        Wire::Ollama => json!({
            "model": model, "messages": messages, "stream": false, "format": schema,
            "options": {"temperature": 0.3, "num_predict": ANSWER_TOKENS_MAX, "num_ctx": 8192}
        }),
    }
}

/// Returns the text of a reply, or `None` if it has another form.
fn content(wire: Wire, reply: &Value) -> Option<String> {
    let message = match wire {
        Wire::Openai => &reply["choices"][0]["message"],
        Wire::Ollama => &reply["message"],
    };
    message["content"].as_str().map(str::to_owned)
}

/// Runs a command in the workspace. Returns its exit code and output as the model gets them.
fn execute(folder: &TaskFolder, command: &str, deadline: Instant) -> Result<String> {
    let output = tempfile::NamedTempFile::new().context("cannot save the output of a command")?;
    let mut sh = folder.command("sh");
    sh.args(["-c", command]).stdin(Stdio::null());
    let file = output.reopen().context("cannot save the output of a command")?;
    sh.stdout(file.try_clone()?).stderr(file);
    let until = deadline.min(Instant::now() + COMMAND_TIME_MAX);
    let status = wait_until(sh.spawn().context("cannot start sh")?, until)?;
    let output = std::fs::read(output.path()).context("cannot read the output of a command")?;
    let text: Vec<char> = String::from_utf8_lossy(&output).chars().collect();
    let end: String = text[text.len().saturating_sub(OUTPUT_CHARS_MAX)..].iter().collect();
    let code = status.map_or("none (too slow)".to_owned(), |status| {
        status.code().map_or("none (killed)".to_owned(), |code| code.to_string())
    });
    Ok(format!("exit code {code}\n{end}"))
}
