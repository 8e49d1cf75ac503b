//! Tool calls written as plain text: for models without native tools, and for those that forget that they have them.
//!
//! Parses a whole reply into an answer or calls; also renders the instructions, the schema and the history for models
//! that use this protocol. Never runs, allows or logs anything, and never completes what a model left unfinished: a
//! truncated call is text.
//!
//! # What counts as a call
//! Always: a complete JSON object (or array of them) in one of the known forms that makes up the whole reply, a fenced
//! block of data, or the content of a model's own call marks (`<tool_call>`, `[TOOL_CALLS]`, `functools` and similar).
//! In prose, the object must begin its line, or end the line after other words; with words on both sides, inside an
//! inline code span that has neighbors, or as part of an expression (`x = {..}`) it is a quotation. Never: the content
//! of a fenced block in another language, of a fenced block together with anything else, of reasoning (`<think>`), or
//! anything after a broken or truncated call, or after a result that the model invented.
//!
//! Models with native tools are parsed more strictly, since they have another way to call. Their calls must name an
//! offered tool or be shell calls; unless between call marks, at most [`PROSE_AFTER_CHARS_MAX`] characters may follow
//! the last one, and the line before the first must not announce an example. So a sentence followed by a call is a
//! call, and an explanation that shows a call in its middle is an answer.
//!
//! # Cost
//! Linear in the text: the scanner only moves forward, a failed JSON parse resumes at the error and not at the start of
//! the value, depth is bounded, and the search for the end of a fence is cached.

use sysop_core::message::{Arguments, ToolResult};
use sysop_core::tool::ToolSpec;

mod lenient_json;
mod prompt;
mod recognizer;
mod scan;
#[cfg(test)]
mod tests;

use recognizer::{CallRecognizer, ReplyItem, ToolCallMode};
use scan::{ScanResult, Segment};

/// Maximum characters of prose after a native model's written call; more prose makes the call a quotation.
pub const PROSE_AFTER_CHARS_MAX: usize = 200;

/// Bytes searched before a native model's written call for words that announce an example.
const ANNOUNCEMENT_BYTES_MAX: usize = 200;

/// Words that announce an example rather than a call.
const ANNOUNCEMENTS: [&str; 8] =
    ["example", "e.g.", "for instance", "such as", "looks like", "look like", "the format", "this format"];

/// Result of parsing a reply's text.
#[derive(Debug, Clone, PartialEq)]
pub enum ParsedReply {
    Answer(String),
    /// Tool calls, with the text around them.
    Calls {
        /// Text before and between the calls, and written answers wherever they appear. Prose after the last call is
        /// dropped, since a model that continues there invents the result.
        text: String,
        /// The calls, in order; at least one.
        calls: Vec<TextToolCall>,
    },
}

/// A tool call as written, without an id.
#[derive(Debug, Clone, PartialEq)]
pub struct TextToolCall {
    /// Name of an offered tool, or the name as the model wrote it.
    pub name: String,
    /// Arguments, possibly invalid.
    pub arguments: Arguments,
}

/// Parses a reply's text. `fences` means that the model was offered this protocol; exactly one fenced `sh` block then
/// counts as a command.
///
/// Text without a call is returned unchanged as an answer.
pub fn parse(text: &str, tools: &[ToolSpec], fences: bool) -> ParsedReply {
    let mode = if fences { ToolCallMode::Text } else { ToolCallMode::Native };
    let recognizer = CallRecognizer::new(tools, mode);
    let found = scan::scan(text, &recognizer);
    let read = match (mode, found.segments.as_slice()) {
        (ToolCallMode::Text, []) => fenced_command(text, &found, &recognizer),
        (ToolCallMode::Native, segments) if segments.is_empty() || is_quotation(text, segments) => None,
        (ToolCallMode::Text | ToolCallMode::Native, _) => Some(compose(text, found)),
    };
    read.unwrap_or_else(|| ParsedReply::Answer(text.to_owned()))
}

/// Returns the addition to the system prompt that lets a model without native tools call `tools`.
///
/// The result depends on the tools alone. If a shell is offered, only the shell is explained: it can do what the others
/// can, and a small model reads 75 tokens a second. Without tools, the text asks for the answer form.
pub fn instructions(tools: &[ToolSpec]) -> String {
    prompt::instructions(tools)
}

/// Returns the JSON Schema that constrains a reply to the protocol, in the subset that llama.cpp and Ollama turn into
/// grammars.
///
/// Without tools only an answer is valid, which stops a model that would otherwise call endlessly.
pub fn schema(tools: &[ToolSpec]) -> serde_json::Value {
    prompt::schema(tools)
}

/// Renders a call as the model would have written it, for the history.
pub fn render_call(call: &TextToolCall) -> String {
    prompt::render_call(call)
}

/// Renders results as one user message, for models without a tool role; begins with `Observation:`.
pub fn render_results(results: &[ToolResult]) -> String {
    prompt::render_results(results)
}

fn fenced_command(text: &str, found: &ScanResult, recognizer: &CallRecognizer<'_>) -> Option<ParsedReply> {
    let block = found.block.as_ref()?;
    let call = recognizer.fenced(&block.command)?;
    let before = text.get(found.prose_from..block.start).unwrap_or_default().trim();
    Some(ParsedReply::Calls { text: before.to_owned(), calls: vec![call] })
}

/// Returns true if calls in a native model's text are quoted rather than made.
fn is_quotation(text: &str, segments: &[Segment]) -> bool {
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return false };
    if segments.iter().any(|segment| segment.marked) {
        return false;
    }
    let after = text[last.end..].trim();
    let too_much = after.chars().nth(PROSE_AFTER_CHARS_MAX).is_some() && !scan::is_invented_result(after);
    too_much || announces_example(&text[..first.start])
}

fn announces_example(before: &str) -> bool {
    let before = before.trim_end();
    let from = before.floor_char_boundary(before.len().saturating_sub(ANNOUNCEMENT_BYTES_MAX));
    let near = &before[from..];
    let line = near.rsplit('\n').next().unwrap_or(near).to_ascii_lowercase();
    ANNOUNCEMENTS.iter().any(|word| line.contains(word))
}

fn compose(text: &str, found: ScanResult) -> ParsedReply {
    let mut parts: Vec<String> = Vec::new();
    let mut calls = Vec::new();
    let mut from = found.prose_from;
    for segment in found.segments {
        push_prose(&mut parts, text.get(from..segment.start).unwrap_or_default());
        from = segment.end;
        for item in segment.items {
            match item {
                ReplyItem::Call(call) => calls.push(call),
                ReplyItem::Answer(answer) => {
                    if parts.last() != Some(&answer) {
                        parts.push(answer);
                    }
                }
            }
        }
    }
    if calls.is_empty() {
        push_prose(&mut parts, text.get(from..).unwrap_or_default());
        return ParsedReply::Answer(parts.join("\n\n"));
    }
    ParsedReply::Calls { text: parts.join("\n\n"), calls }
}

fn push_prose(parts: &mut Vec<String>, prose: &str) {
    let prose = prose.trim();
    if !prose.is_empty() && prose.chars().any(|sign| !matches!(sign, ',' | ';' | '`')) {
        parts.push(prose.to_owned());
    }
}
