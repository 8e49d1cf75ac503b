//! Tool calls written as plain text, for models without native tools and for models that forget to use theirs.
//!
//! Parses a whole reply into an answer or calls. Also renders the instructions, the schema and the history for models
//! that use this protocol. Never runs, allows or logs anything, and never completes a call that a model left
//! unfinished: a truncated call counts as text.
//!
//! # What counts as a call
//! A complete JSON object (or an array of them) in one of the known forms is always a call if it makes up the whole
//! reply, a fenced block of data, or the content of a model's native tool-call tags (`<tool_call>`, `[TOOL_CALLS]`,
//! `functools` and similar). A reply that contains only calls in Python's syntax is parsed as these calls. In prose,
//! the object must begin its line, or end the line after other words. The object is a quotation if words stand on both
//! sides, if it is in an inline code span next to other text, or if it is part of an expression (`x = {..}`). Never a
//! call: the content of a fenced block in another language, an object that shares a fenced block with other text, the
//! content of reasoning (`<think>`), and anything after a broken or truncated call or after a hallucinated tool result.
//!
//! Replies of models with native tools are parsed more strictly, since these models have another way to call. Their
//! written calls must name an offered tool or be shell calls. Unless calls are between tool-call tags, at most
//! [`PROSE_AFTER_CHARS_MAX`] characters may follow the last call, and the line before the first call must not announce
//! an example. So a sentence followed by a call is a call, and an explanation that shows a call in its middle is an
//! answer.
//!
//! # Cost
//! The cost is linear in the length of the text: the scanner only moves forward, it resumes after a failed JSON parse
//! at the error and not at the start of the value, nesting is bounded, and the search for the end of a fence is cached.

use sysop_core::message::{Arguments, ModelRequest, ToolResult};
use sysop_core::tool::ToolSpec;

mod lenient_json;
mod prompt;
mod pythonic;
mod recognizer;
mod scan;
#[cfg(test)]
mod tests;

use recognizer::{CallRecognizer, ReplyItem, ToolCallMode};
use scan::{ScanResult, Segment};

/// Maximum characters of prose after a call written as text despite native tools. More makes it a quotation.
pub const PROSE_AFTER_CHARS_MAX: usize = 200;

/// Number of bytes before a call that are searched for words that announce an example, if a model with native tools
/// wrote the call as text.
const ANNOUNCEMENT_BYTES_MAX: usize = 200;

/// Words that announce an example rather than a call.
const ANNOUNCEMENTS: [&str; 8] =
    ["example", "e.g.", "for instance", "such as", "looks like", "look like", "the format", "this format"];

/// Result of parsing a reply's text.
#[derive(Debug, Clone, PartialEq)]
pub enum ParsedReply {
    Answer(String),
    /// Tool calls, with the text before and between them.
    Calls {
        /// Text before and between the calls, and answers in protocol form wherever they appear. Prose after the last
        /// call is dropped, because there the model only invents the call's result.
        text: String,
        /// The calls, in order; at least one.
        calls: Vec<TextToolCall>,
    },
}

/// A tool call as the model wrote it; it has no id.
#[derive(Debug, Clone, PartialEq)]
pub struct TextToolCall {
    /// Name of the offered tool that is meant, or else the name as the model wrote it.
    pub name: String,
    /// Arguments, possibly invalid.
    pub arguments: Arguments,
}

/// Parses a reply's text. `fences` means that the model was told to use this protocol; a single fenced `sh` block then
/// counts as a command.
///
/// Text without a call is returned unchanged as an answer.
pub fn parse(text: &str, tools: &[ToolSpec], fences: bool) -> ParsedReply {
    let mode = if fences { ToolCallMode::Text } else { ToolCallMode::Native };
    let recognizer = CallRecognizer::new(tools, mode);
    let found = scan::scan(text, &recognizer);
    let read = match (mode, found.segments.as_slice()) {
        (ToolCallMode::Text, []) => {
            python_calls(text, &recognizer).or_else(|| fenced_command(text, &found, &recognizer))
        }
        (ToolCallMode::Native, []) => python_calls(text, &recognizer),
        (ToolCallMode::Native, segments) if is_quotation(text, segments) => None,
        (ToolCallMode::Text | ToolCallMode::Native, _) => Some(compose(text, found)),
    };
    read.unwrap_or_else(|| ParsedReply::Answer(text.to_owned()))
}

/// Returns the addition to the system prompt that lets a model without native tools call `tools`.
///
/// The result depends on the tools alone. If a shell is offered, only the shell is explained, because it can do what
/// the other tools can and a small model reads only 75 tokens a second. If `tools` is empty, the text asks for an
/// answer in protocol form.
pub fn instructions(tools: &[ToolSpec]) -> String {
    prompt::instructions(tools)
}

/// Returns the complete system prompt of a model that gets its tools as text.
pub fn system(request: &ModelRequest) -> String {
    let system = request.text_system.as_ref().unwrap_or(&request.system);
    let separator = if system.is_empty() { "" } else { "\n\n" };
    format!("{system}{separator}{}", instructions(&request.tools))
}

/// Returns the JSON Schema that constrains a reply to the protocol, in the subset of llama.cpp's and Ollama's grammars.
///
/// If `tools` is empty, only an answer is valid, which stops a model that would otherwise make calls endlessly. If
/// `must_call` is true and there are tools, an answer is not valid.
pub fn schema(tools: &[ToolSpec], must_call: bool) -> serde_json::Value {
    prompt::schema(tools, must_call)
}

/// Renders a call as the model would have written it, for the history.
pub fn render_call(call: &TextToolCall) -> String {
    prompt::render_call(call)
}

/// Renders tool results as one user message, which begins with `Observation:`, for models without a tool role.
pub fn render_results(results: &[ToolResult]) -> String {
    prompt::render_results(results)
}

fn fenced_command(text: &str, found: &ScanResult, recognizer: &CallRecognizer<'_>) -> Option<ParsedReply> {
    let block = found.block.as_ref()?;
    let call = recognizer.fenced(&block.command)?;
    let before = text.get(found.prose_from..block.start).unwrap_or_default().trim();
    Some(ParsedReply::Calls { text: before.to_owned(), calls: vec![call] })
}

/// Returns the calls of a reply that consists of calls of offered tools in Python's syntax.
fn python_calls(text: &str, recognizer: &CallRecognizer<'_>) -> Option<ParsedReply> {
    let read = pythonic::read(text)?;
    let calls = read.iter().map(|(name, arguments)| match recognizer.marked_offered(name, arguments)? {
        ReplyItem::Call(call) => Some(call),
        ReplyItem::Answer(_) => None,
    });
    Some(ParsedReply::Calls { text: String::new(), calls: calls.collect::<Option<_>>()? })
}

/// Returns true if the calls in the text of a model with native tools are quoted rather than made.
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
