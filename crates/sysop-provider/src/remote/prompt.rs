//! Renders a conversation as one prompt, for a program that takes text and knows no roles.
//!
//! The prompt holds the system prompt, the text protocol's instructions, then the turns in the form of the
//! instructions' own examples. A command's result follows Jexida (design, "Tool Result Format"): `Command:`, `Exit
//! code:`, `Output:`. Ollama silently truncates the beginning of a prompt that exceeds its window, which is where the
//! instructions are; so the prompt is kept within a budget here, and omissions are marked.

use crate::text_protocol;
use sysop_core::id::CallId;
use sysop_core::message::{Message, ModelRequest, Reply, ToolCall, ToolResult};
use sysop_core::mode::Mode;

use crate::openai::reply_as_text;

/// Low estimate of bytes per token: command output has more tokens than prose.
const BYTES_PER_TOKEN: usize = 3;
/// Maximum tokens of the window reserved for the reply.
const REPLY_TOKENS_MAX: usize = 2_048;
/// Minimum bytes sent of an overlong message.
const PART_BYTES_MIN: usize = 256;
/// Prefix of the line below a command's output that holds its exit code.
const EXIT_NOTE: &str = "[exit code ";

const LEFT_OUT: &str = "(What was said before this was left out.)\n\n";
const AFTER_RESULTS: &str = "\nIf this is enough, answer now with {\"type\":\"answer\",\"text\":\"TEXT\"}. \
    Use only what the observation says; do not repeat a call.\n";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) text: String,
    /// Something was left out to fit the window.
    pub(super) cut: bool,
}

/// Renders the conversation within a window of `window` tokens, with room for the reply.
pub(super) fn prompt(request: &ModelRequest, window: u32) -> Prompt {
    let window = window as usize;
    let budget = (window - REPLY_TOKENS_MAX.min(window / 4)) * BYTES_PER_TOKEN;
    let mut text = String::new();
    if !request.system.is_empty() {
        text.push_str(request.system.trim_end());
        text.push_str("\n\n");
    }
    if request.mode == Mode::Agent {
        text.push_str(text_protocol::instructions(&request.tools).trim_end());
        text.push_str("\n\n");
    }
    text.push_str("The conversation:\n\n");
    let fixed = text.len() + LEFT_OUT.len() + "Reply:".len();
    let (turns, cut) = fit_to_budget(blocks(request), budget.saturating_sub(fixed));
    if cut || request.trimmed {
        text.push_str(LEFT_OUT);
    }
    text.push_str(&turns);
    text.push_str("Reply:");
    Prompt { text, cut }
}

/// Unit sent whole or not at all: a user message, or a reply with the results of its calls.
struct PromptBlock {
    text: String,
    /// The block is a user message.
    asked: bool,
}

fn blocks(request: &ModelRequest) -> Vec<PromptBlock> {
    let mut blocks: Vec<PromptBlock> = Vec::new();
    let mut calls: &[ToolCall] = &[];
    for (at, message) in request.messages.iter().enumerate() {
        match message.message() {
            Message::User { text } => {
                blocks.push(PromptBlock { text: format!("User: {}\n\n", text.trim_end()), asked: true });
            }
            Message::Assistant { reply } => {
                calls = &reply.calls;
                blocks.push(PromptBlock { text: reply_text(reply, request.mode), asked: false });
            }
            Message::ToolResults { results } => {
                let mut text = observations(results, calls);
                if at + 1 == request.messages.len() {
                    text.push_str(AFTER_RESULTS);
                }
                text.push('\n');
                match blocks.last_mut().filter(|block| !block.asked) {
                    Some(block) => block.text.push_str(&text),
                    None => blocks.push(PromptBlock { text, asked: false }),
                }
            }
        }
    }
    blocks
}

fn reply_text(reply: &Reply, mode: Mode) -> String {
    match mode {
        Mode::Agent => format!("Reply: {}\n\n", reply_as_text(reply)),
        Mode::Chat => format!("Reply: {}\n\n", reply.text.trim_end()),
    }
}

fn observations(results: &[ToolResult], calls: &[ToolCall]) -> String {
    let mut text = String::from("User: Observation:\n");
    for result in results {
        text.push_str(&observation(result, call_of(calls, &result.call)));
    }
    if results.is_empty() {
        text.push_str("(no result)\n");
    }
    text
}

fn call_of<'a>(calls: &'a [ToolCall], id: &CallId) -> Option<&'a ToolCall> {
    calls.iter().find(|call| call.id == *id)
}

fn observation(result: &ToolResult, call: Option<&ToolCall>) -> String {
    let (output, code) = split_exit_note(result.output.trim_end());
    let mut text = match call.and_then(|call| call.text_argument("command")) {
        Some(command) => format!("Command: {command}\n"),
        None => format!("Tool: {}\n", result.name),
    };
    if let Some(code) = code {
        text.push_str(&format!("Exit code: {code}\n"));
    }
    text.push_str("Output:\n");
    if result.is_error {
        text.push_str("the call failed: ");
    }
    text.push_str(if output.is_empty() { "(nothing was printed)" } else { output });
    text.push('\n');
    text
}

/// Separates an output from the line below it that holds the exit code.
fn split_exit_note(output: &str) -> (&str, Option<i32>) {
    let (before, line) = output.rsplit_once('\n').unwrap_or(("", output));
    let code = line.strip_prefix(EXIT_NOTE).and_then(|rest| rest.strip_suffix(']')?.parse().ok());
    match code {
        Some(code) => (before.trim_end(), Some(code)),
        None => (output, None),
    }
}

/// Returns the newest blocks that fit, always including the last user message.
fn fit_to_budget(mut blocks: Vec<PromptBlock>, room: usize) -> (String, bool) {
    let total: usize = blocks.iter().map(|block| block.text.len()).sum();
    if total <= room {
        return (blocks.into_iter().map(|block| block.text).collect(), false);
    }
    let asked = blocks.iter().rposition(|block| block.asked);
    let newest = blocks.len().saturating_sub(1);
    // The question and the newest block share the budget; a long one leaves half to the other.
    let half = (room / 2).max(PART_BYTES_MIN);
    let lengths = |blocks: &[PromptBlock]| {
        (asked.map_or(0, |at| blocks[at].text.len()), blocks.get(newest).map_or(0, |block| block.text.len()))
    };
    if let Some(asked) = asked.filter(|&at| at != newest) {
        let (question, seen) = lengths(&blocks);
        blocks[asked].text = truncate_middle(&blocks[asked].text, half.max(room.saturating_sub(seen)));
        let question_left = question.min(blocks[asked].text.len());
        blocks[newest].text =
            truncate_middle(&blocks[newest].text, room.saturating_sub(question_left).max(half));
    } else if let Some(block) = blocks.get_mut(newest) {
        block.text = truncate_middle(&block.text, room.max(PART_BYTES_MIN));
    }
    let mut left = room;
    let mut kept = vec![false; blocks.len()];
    for at in asked.into_iter().chain(Some(newest)) {
        if !std::mem::replace(&mut kept[at], true) {
            left = left.saturating_sub(blocks[at].text.len());
        }
    }
    for (at, block) in blocks.iter().enumerate().rev() {
        if kept[at] {
            continue;
        }
        if block.text.len() > left {
            break;
        }
        left -= block.text.len();
        kept[at] = true;
    }
    let text = blocks.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(block, _)| block.text).collect();
    (text, true)
}

/// Shortens a text to about `bytes`, keeping head and tail around a note of the omitted length.
fn truncate_middle(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let part = bytes.saturating_sub(48) / 2;
    let head = text.floor_char_boundary(part);
    let tail = text.ceil_char_boundary(text.len() - part);
    format!("{}\n[{} bytes left out]\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use sysop_core::message::{Arguments, HistoryMessage, ModelRef};
    use sysop_core::mode::SamplingDefaults;
    use sysop_core::tool::{ToolEffect, ToolSpec};

    use super::*;

    fn request(messages: Vec<Message>) -> ModelRequest {
        let bash = ToolSpec {
            name: "bash".to_owned(),
            description: "Runs a command.".to_owned(),
            parameters: json!({"type": "object", "properties": {"command": {"type": "string"}}}).into(),
            effect: ToolEffect::Command,
        };
        ModelRequest {
            model: ModelRef::new("ollama+ssh", "phi3"),
            system: Arc::from("You are sysop."),
            messages: messages.into_iter().map(HistoryMessage::new).collect(),
            trimmed: false,
            tools: Arc::from([bash]),
            known_tools: Arc::from([]),
            max_output_tokens: None,
            temperature: None,
            mode: Mode::Agent,
            sampling_defaults: SamplingDefaults::default(),
        }
    }

    fn user(text: &str) -> Message {
        Message::User { text: text.to_owned() }
    }

    fn ran(command: &str, output: &str) -> [Message; 2] {
        let call = ToolCall {
            id: CallId::new(command),
            wire_id: None,
            name: "bash".to_owned(),
            arguments: Arguments::parse(&json!({"command": command, "reason": "look"}).to_string()),
        };
        let result = ToolResult {
            call: call.id.clone(),
            wire_id: None,
            name: "bash".to_owned(),
            output: output.to_owned(),
            is_error: false,
        };
        let reply = Reply { calls: vec![call], ..Reply::default() };
        [Message::Assistant { reply }, Message::ToolResults { results: vec![result] }]
    }

    #[test]
    fn results_read_as_in_jexida() {
        let mut messages = vec![user("how full?\n")];
        messages.extend(ran("df -h /", "/dev/sda1 40G 10G\n[exit code 0]"));
        let prompt = prompt(&request(messages), 4096);
        assert!(!prompt.cut);
        let (contract, turns) = prompt.text.split_once("The conversation:\n\n").unwrap();
        assert!(contract.starts_with("You are sysop.\n\nReply with exactly one JSON object"), "{contract}");
        assert_eq!(
            turns,
            "User: how full?\n\n\
             Reply: {\"type\":\"shell\",\"command\":\"df -h /\",\"reason\":\"look\"}\n\n\
             User: Observation:\nCommand: df -h /\nExit code: 0\nOutput:\n/dev/sda1 40G 10G\n\
             \nIf this is enough, answer now with {\"type\":\"answer\",\"text\":\"TEXT\"}. \
             Use only what the observation says; do not repeat a call.\n\nReply:"
        );
    }

    #[test]
    fn a_chat_has_no_contract() {
        let reply = Reply { text: "Use <cmd>df</cmd>.".to_owned(), ..Reply::default() };
        let messages = vec![user("how full?"), Message::Assistant { reply }, user("and now?")];
        let chat = ModelRequest { mode: Mode::Chat, ..request(messages) };
        assert_eq!(
            prompt(&chat, 4096).text,
            "You are sysop.\n\nThe conversation:\n\nUser: how full?\n\nReply: Use <cmd>df</cmd>.\n\n\
             User: and now?\n\nReply:"
        );
    }

    #[test]
    fn the_exit_code_is_read_from_the_line_below_the_output_only() {
        for (output, parted) in [
            ("a\n[exit code 3]", ("a", Some(3))),
            ("[exit code 0]", ("", Some(0))),
            ("[exit code 0]\nb", ("[exit code 0]\nb", None)),
            ("a\n[exit code x]", ("a\n[exit code x]", None)),
            ("a\n[killed by signal 9]", ("a\n[killed by signal 9]", None)),
            ("", ("", None)),
        ] {
            assert_eq!(split_exit_note(output), parted, "{output}");
        }
    }

    #[test]
    fn a_long_history_is_cut_from_its_beginning_and_keeps_the_question() {
        let mut messages = vec![user("first"), user("the question")];
        for number in 0..40 {
            messages.extend(ran(&format!("step {number}"), &"x".repeat(1000)));
        }
        let request = request(messages);
        let whole = prompt(&request, 32_768);
        assert!(!whole.cut && whole.text.contains("step 0"));
        for window in [2048, 4096, 8192] {
            let prompt = prompt(&request, window);
            assert!(prompt.cut);
            assert!(prompt.text.len() <= window as usize * BYTES_PER_TOKEN, "{}", prompt.text.len());
            for kept in ["You are sysop.", "Never invent output", LEFT_OUT, "User: the question", "step 39"] {
                assert!(prompt.text.contains(kept), "{window}: {kept}");
            }
            assert!(!prompt.text.contains("step 0\n") && !prompt.text.contains("User: first"));
            assert!(prompt.text.ends_with("Reply:"));
        }
    }

    #[test]
    fn one_output_that_is_too_long_keeps_its_head_and_tail() {
        let mut messages = vec![user("the question")];
        messages.extend(ran("cat log", &format!("BEGIN {} END\n[exit code 0]", "é".repeat(50_000))));
        let prompt = prompt(&request(messages), 4096);
        assert!(prompt.cut && prompt.text.len() <= 4096 * BYTES_PER_TOKEN, "{}", prompt.text.len());
        for kept in
            ["User: the question", "Command: cat log", "BEGIN", "bytes left out]", "END", "do not repeat"]
        {
            assert!(prompt.text.contains(kept), "{kept}");
        }
    }

    #[test]
    fn a_question_that_is_too_long_is_shortened() {
        let prompt = prompt(&request(vec![user(&format!("BEGIN {} END", "y".repeat(90_000)))]), 4096);
        assert!(prompt.cut && prompt.text.len() <= 4096 * BYTES_PER_TOKEN);
        assert!(prompt.text.contains("User: BEGIN") && prompt.text.contains(" END\n\nReply:"));
    }
}
