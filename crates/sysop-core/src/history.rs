//! Messages of a session, and the window of them that is sent to the model. A window is bounded and never separates a
//! call from its result.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::id::CallId;
use crate::image::ImageRef;
use crate::message::{HistoryMessage, Message, Reply, ToolResult};
use crate::token_estimate;

/// Minimum number of messages in a useful window: a prompt, the calls it led to, and their results.
pub const WINDOW_MESSAGES_MIN: usize = 3;
/// Maximum bytes of omitted outputs that stay available for reading; the oldest are dropped first.
const OMITTED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Outputs smaller than this, in bytes, are never omitted, because the line that replaces an output would save nothing.
const OMITTED_OUTPUT_BYTES_MIN: usize = 400;
/// Number of last lines that stay in the prompt when the output of a failed call is omitted.
const KEPT_LINES: usize = 3;
/// Maximum bytes of the last lines that stay in the prompt when an output is omitted.
const KEPT_BYTES_MAX: usize = 240;

/// The messages of a session, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    messages: Vec<HistoryMessage>,
    /// Text that replaces the compacted messages. It is sent before the first message.
    summary: Option<Arc<str>>,
    /// Instructions of the user and the workspace. They are sent before everything else.
    instructions: Option<Arc<str>>,
    /// Index of the prompt of the current turn, or of the last turn, in `messages`.
    prompt: Option<usize>,
    dropped: bool,
    /// Complete outputs that were omitted from the messages but can still be read; oldest first.
    omitted: VecDeque<(CallId, Arc<str>)>,
}

/// The messages of a history that are sent to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// The messages, oldest first. The first one is a user message.
    pub messages: Vec<HistoryMessage>,
    /// True if messages are missing from the window, because they did not fit or were dropped earlier.
    pub trimmed: bool,
}

impl History {
    /// Appends the prompt of a new turn, and drops messages that can no longer be in any window. `keep` is the maximum
    /// number of messages in a window, or 0 for no limit.
    pub fn push_prompt(&mut self, text: &str, images: Vec<ImageRef>, keep: usize) {
        let surplus = match keep {
            0 => 0,
            keep => self.messages.len().saturating_sub(keep.max(WINDOW_MESSAGES_MIN)),
        };
        if surplus > 0 {
            self.messages.drain(..surplus);
            self.dropped = true;
        }
        self.prompt = Some(self.messages.len());
        self.push(Message::User { text: text.to_owned(), images });
    }

    /// Replaces `typed`, the text at the end of the current turn's prompt, with `text`. If the prompt does
    /// not end with `typed`, the whole prompt is replaced. Called before any message follows the prompt.
    pub fn replace_prompt(&mut self, typed: &str, text: &str) {
        if let Some(prompt) = self.prompt.and_then(|prompt| self.messages.get_mut(prompt))
            && let Message::User { text: before, images } = prompt.message()
        {
            let text = format!("{}{text}", before.strip_suffix(typed).unwrap_or_default());
            *prompt = HistoryMessage::new(Message::User { text, images: images.clone() });
        }
    }

    /// Appends a message of the current turn.
    pub fn push(&mut self, message: Message) {
        self.messages.push(HistoryMessage::new(message));
    }

    /// Drops all messages. The instructions stay.
    pub fn clear(&mut self) {
        *self = Self { instructions: self.instructions.take(), ..Self::default() };
    }

    /// Replaces the instructions that precede the first message.
    pub fn set_instructions(&mut self, text: Option<&str>) {
        self.instructions = text.map(Arc::from);
    }

    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().map(HistoryMessage::message)
    }

    /// Returns the newest reply of the model.
    pub fn last_reply(&self) -> Option<&Reply> {
        self.messages.iter().rev().find_map(|message| match message.message() {
            Message::Assistant { reply } => Some(reply),
            Message::User { .. } | Message::ToolResults { .. } => None,
        })
    }

    /// Returns the text that replaces the compacted messages, if any.
    pub fn summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }

    /// Returns the index of the prompt of the current turn, or of the last turn if none runs.
    pub fn prompt(&self) -> Option<usize> {
        self.prompt
    }

    /// Returns the estimated tokens of each message, oldest first.
    pub fn tokens(&self) -> Vec<u64> {
        self.messages().map(token_estimate::message).collect()
    }

    /// Returns the newest `keep` messages, always including the current turn's prompt. A `keep` of 0 means all
    /// messages; any other `keep` is raised to at least [`WINDOW_MESSAGES_MIN`].
    ///
    /// The window begins with a user message and never contains a result whose call it omits, so it may hold fewer than
    /// `keep` messages. The instructions and a summary of compacted messages precede the text of the first message.
    pub fn window(&self, keep: usize) -> Window {
        if keep == 0 {
            return Window { messages: self.with_preamble(self.messages.clone()), trimmed: self.dropped };
        }
        let keep = keep.max(WINDOW_MESSAGES_MIN);
        let prompt = self.prompt.unwrap_or(0);
        let newest = self.messages.len().saturating_sub(keep);
        let (head, from) = if prompt < newest {
            (self.messages.get(prompt), self.first_whole(newest + 1))
        } else {
            (None, self.first_user(newest))
        };
        let messages: Vec<_> = head.into_iter().chain(&self.messages[from..]).cloned().collect();
        let trimmed = self.dropped || messages.len() < self.messages.len();
        Window { messages: self.with_preamble(messages), trimmed }
    }

    /// Prepends the instructions and the summary to the first message's text.
    fn with_preamble(&self, mut messages: Vec<HistoryMessage>) -> Vec<HistoryMessage> {
        let preamble: Vec<&str> =
            [&self.instructions, &self.summary].into_iter().flatten().map(|text| &**text).collect();
        if !preamble.is_empty()
            && let Some(first) = messages.first_mut()
            && let Message::User { text, images } = first.message()
        {
            let text = format!("{}\n\n{text}", preamble.join("\n\n"));
            *first = HistoryMessage::new(Message::User { text, images: images.clone() });
        }
        messages
    }

    /// Replaces all messages with `summary`, except the newest `keep` messages and the current turn's prompt.
    pub fn compact(&mut self, summary: &str, keep: usize) {
        let from = self.messages.len() - keep.min(self.messages.len());
        let mut kept = self.messages.split_off(from);
        let older = std::mem::take(&mut self.messages);
        for message in &older {
            if let Message::ToolResults { results } = message.message() {
                results.iter().for_each(|result| self.keep_omitted(&result.call, &result.output));
            }
        }
        self.prompt = match self.prompt {
            Some(prompt) if prompt >= from => Some(prompt - from),
            Some(prompt) => {
                kept.insert(0, older[prompt].clone());
                Some(0)
            }
            None => None,
        };
        self.messages = kept;
        self.summary = Some(Arc::from(summary));
        self.forget_raw_replies();
    }

    /// Returns the estimated tokens that omitting the older images would save.
    pub fn omissible_image_tokens(&self) -> u64 {
        self.older_images().map(|index| token_estimate::images(self.messages[index].message())).sum()
    }

    /// Replaces each image with a line of text, except images of the current turn's prompt and the newest message.
    pub fn omit_images(&mut self) {
        for index in self.older_images().collect::<Vec<_>>() {
            self.messages[index] = HistoryMessage::new(
                self.messages[index].message().without_images(|image| Some(image.placeholder())),
            );
        }
        self.forget_raw_replies();
    }

    /// Returns the indices of the messages whose images may be omitted.
    fn older_images(&self) -> impl Iterator<Item = usize> {
        let newest = self.messages.len().saturating_sub(1);
        let has_images = |index: &usize| self.messages[*index].message().images().next().is_some();
        (0..newest).filter(|index| self.prompt != Some(*index)).filter(has_images)
    }

    /// Omits the outputs of these calls from the messages. They can still be read with [`Self::omitted_output`].
    pub fn omit_outputs(&mut self, calls: &[CallId]) {
        if calls.is_empty() {
            return;
        }
        for index in 0..self.messages.len() {
            let Message::ToolResults { results } = self.messages[index].message() else { continue };
            if !results.iter().any(|result| calls.contains(&result.call)) {
                continue;
            }
            let mut results = results.clone();
            for result in results.iter_mut().filter(|result| calls.contains(&result.call)) {
                let whole = std::mem::take(&mut result.output);
                result.output = omitted_text(result, &whole);
                self.keep_omitted(&result.call, &whole);
            }
            self.messages[index] = HistoryMessage::new(Message::ToolResults { results });
        }
        self.forget_raw_replies();
    }

    /// Returns the calls whose outputs can be omitted, oldest first, each with the estimated tokens that this would
    /// save. The list excludes the outputs of the newest message, the newest outputs up to `keep_tokens` tokens in
    /// total, small outputs, and outputs for which `protected` returns true.
    pub fn omissible(&self, keep_tokens: u64, protected: impl Fn(&ToolResult) -> bool) -> Vec<(CallId, u64)> {
        let mut found = Vec::new();
        let mut kept = 0;
        let newest = self.messages.len().saturating_sub(1);
        for (index, message) in self.messages().enumerate().collect::<Vec<_>>().into_iter().rev() {
            let Message::ToolResults { results } = message else { continue };
            for result in results.iter().rev() {
                let tokens = token_estimate::tool_output(&result.output);
                kept += tokens;
                let is_omitted = result.output.starts_with(OMITTED);
                let stays = index == newest || kept <= keep_tokens || is_omitted || protected(result);
                if !stays && result.output.len() >= OMITTED_OUTPUT_BYTES_MIN {
                    let rest = token_estimate::tool_output(&omitted_text(result, &result.output));
                    found.push((result.call.clone(), tokens.saturating_sub(rest)));
                }
            }
        }
        found.reverse();
        found
    }

    /// Stores the complete output of a call whose result in the messages is shortened, so that it can be read.
    pub fn keep_omitted(&mut self, call: &CallId, output: &str) {
        if self.omitted.iter().any(|(known, _)| known == call) {
            return;
        }
        self.omitted.push_back((call.clone(), Arc::from(output)));
        let mut total: usize = self.omitted.iter().map(|(_, output)| output.len()).sum();
        while total > OMITTED_BYTES_MAX
            && let Some((_, oldest)) = self.omitted.pop_front()
        {
            total -= oldest.len();
        }
    }

    /// Returns the complete output of a call if it was omitted from the messages and is still stored, otherwise `None`.
    pub fn omitted_output(&self, call: &str) -> Option<&str> {
        self.omitted.iter().find(|(known, _)| known.as_str() == call).map(|(_, output)| &**output)
    }

    /// Returns true if some output can be read with [`Self::omitted_output`].
    pub fn has_omitted(&self) -> bool {
        !self.omitted.is_empty()
    }

    /// Drops the providers' raw replies, whose signatures are valid only if earlier messages are unchanged.
    fn forget_raw_replies(&mut self) {
        for message in &mut self.messages {
            if let Message::Assistant { reply } = message.message()
                && reply.raw.is_some()
            {
                let mut reply = reply.clone();
                reply.raw = None;
                *message = HistoryMessage::new(Message::Assistant { reply });
            }
        }
    }

    /// Returns the first index at or after `from` whose message is not a tool result.
    fn first_whole(&self, from: usize) -> usize {
        self.first(from, |message| !matches!(message, Message::ToolResults { .. }))
    }

    /// Returns the first index at or after `from` with a user message.
    fn first_user(&self, from: usize) -> usize {
        self.first(from, |message| matches!(message, Message::User { .. }))
    }

    fn first(&self, from: usize, wanted: impl Fn(&Message) -> bool) -> usize {
        (from..self.messages.len())
            .find(|&index| wanted(self.messages[index].message()))
            .unwrap_or(self.messages.len())
    }

    /// Returns the number of newest messages that may stay when the older ones are compacted. Together they have at
    /// most `tokens` tokens, and they begin with a prompt, or with a reply of the current turn (whose prompt stays
    /// anyway). If no such group of messages is small enough, the smallest one stays.
    pub fn tail(&self, tokens: u64) -> usize {
        let sizes = self.tokens();
        let prompt = self.prompt.unwrap_or(0);
        let mut best = 0;
        let mut sum = 0;
        for index in (0..self.messages.len()).rev() {
            sum += sizes[index];
            let kept = self.messages.len() - index;
            let begins = match self.messages[index].message() {
                Message::User { .. } => true,
                Message::Assistant { .. } => index > prompt,
                Message::ToolResults { .. } => false,
            };
            if begins && (best == 0 || sum <= tokens) {
                best = kept;
            }
            if sum > tokens && best > 0 {
                break;
            }
        }
        best
    }
}

/// Beginning of the text that replaces an omitted output.
const OMITTED: &str = "[output omitted: ";

/// Returns the text that replaces an omitted output: its size, a way to read it and, for a failed call, its last lines.
fn omitted_text(result: &ToolResult, whole: &str) -> String {
    let lines: Vec<&str> = whole.trim_end().lines().collect();
    let note =
        format!("{OMITTED}{} lines; to read it, call read_output with id \"{}\"]", lines.len(), result.call);
    // The output of a command ends with a line about the exit code; the output of a file tool does not.
    let last = lines.last().copied().unwrap_or_default();
    let failed = result.is_error || (last.starts_with('[') && last != "[exit code 0]");
    if !failed {
        return note;
    }
    let kept = lines[lines.len().saturating_sub(KEPT_LINES)..].join("\n");
    let start = kept.ceil_char_boundary(kept.len().saturating_sub(KEPT_BYTES_MAX));
    format!("{note}\n{}", &kept[start..])
}
