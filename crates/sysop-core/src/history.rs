//! Messages of a session, and the window of them that is sent: bounded, never splitting a call from its result.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::id::CallId;
use crate::message::{HistoryMessage, Message, ToolResult};
use crate::token_estimate;

/// Minimum useful window: a prompt, the calls it led to, and their results.
pub const WINDOW_MESSAGES_MIN: usize = 3;
/// Maximum bytes of omitted outputs that are kept to be read again; the oldest are dropped first.
const OMITTED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Outputs up to this size, in bytes, are never omitted: a line that stands for one would save nothing.
const OMITTED_OUTPUT_BYTES_MIN: usize = 400;
/// Lines kept of the omitted output of a failed call.
const KEPT_LINES: usize = 3;
/// Maximum bytes of those lines.
const KEPT_BYTES_MAX: usize = 240;

/// The messages of a session, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    messages: Vec<HistoryMessage>,
    /// Text that stands for the messages before these; sent in front of the first one.
    summary: Option<Arc<str>>,
    /// Instructions of the user and the workspace; sent in front of everything else.
    instructions: Option<Arc<str>>,
    /// Index of the current turn's prompt.
    prompt: Option<usize>,
    /// True if messages were dropped for good.
    dropped: bool,
    /// Outputs that are left out of the messages, oldest first.
    omitted: VecDeque<(CallId, Arc<str>)>,
}

/// The part of a history that is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// The messages, oldest first; the first is a user's.
    pub messages: Vec<HistoryMessage>,
    /// True if older messages exist.
    pub trimmed: bool,
}

impl History {
    /// Appends the prompt of a new turn. `keep` is the maximum number of messages in a window, 0 for no limit; drops
    /// messages that no window can reach.
    pub fn push_prompt(&mut self, text: &str, keep: usize) {
        let surplus = match keep {
            0 => 0,
            keep => self.messages.len().saturating_sub(keep.max(WINDOW_MESSAGES_MIN)),
        };
        if surplus > 0 {
            self.messages.drain(..surplus);
            self.dropped = true;
        }
        self.prompt = Some(self.messages.len());
        self.push(Message::User { text: text.to_owned() });
    }

    /// Replaces `typed` at the end of the current turn's prompt, before anything follows it.
    pub fn replace_prompt(&mut self, typed: &str, text: &str) {
        if let Some(prompt) = self.prompt.and_then(|prompt| self.messages.get_mut(prompt))
            && let Message::User { text: before } = prompt.message()
        {
            let text = format!("{}{text}", before.strip_suffix(typed).unwrap_or_default());
            *prompt = HistoryMessage::new(Message::User { text });
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

    /// Returns true if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().map(HistoryMessage::message)
    }

    /// The text that stands for compacted messages.
    pub fn summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }

    /// Index of the current turn's prompt, or of the last turn's.
    pub fn prompt(&self) -> Option<usize> {
        self.prompt
    }

    /// Estimated tokens of each message, oldest first.
    pub fn tokens(&self) -> Vec<u64> {
        self.messages().map(token_estimate::message).collect()
    }

    /// The newest `keep` messages (at least [`WINDOW_MESSAGES_MIN`]; 0 for all), the current turn's prompt among them.
    ///
    /// The window begins with a user message and never with results whose calls it leaves out, so it may hold
    /// fewer than `keep`. The instructions and a summary of compacted messages precede the text of the first message.
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

    /// Puts the instructions and the summary in front of the first message's text.
    fn with_preamble(&self, mut messages: Vec<HistoryMessage>) -> Vec<HistoryMessage> {
        let preamble: Vec<&str> =
            [&self.instructions, &self.summary].into_iter().flatten().map(|text| &**text).collect();
        if !preamble.is_empty()
            && let Some(first) = messages.first_mut()
            && let Message::User { text } = first.message()
        {
            let text = format!("{}\n\n{text}", preamble.join("\n\n"));
            *first = HistoryMessage::new(Message::User { text });
        }
        messages
    }

    /// Replaces the older messages by `summary`, except the newest `keep` and the current turn's prompt.
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

    /// Leaves the outputs of these calls out of the messages. They can be read with [`Self::omitted_output`].
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

    /// Returns calls whose outputs can be omitted, oldest first, with the tokens that this saves. The newest outputs
    /// stay: those of the newest message, and more up to `keep_tokens`.
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

    /// Keeps the whole output of a call whose result holds less than that.
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

    /// Returns an output that was left out of the messages; `None` if the call is unknown or too old.
    pub fn omitted_output(&self, call: &str) -> Option<&str> {
        self.omitted.iter().find(|(known, _)| known.as_str() == call).map(|(_, output)| &**output)
    }

    /// Returns true if some output can be read with [`Self::omitted_output`].
    pub fn has_omitted(&self) -> bool {
        !self.omitted.is_empty()
    }

    /// Drops the providers' own forms of replies: signatures in them hold only for unchanged earlier messages.
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

    /// Returns the number of newest messages, at most `tokens` long together, that may stay when the rest is compacted:
    /// they begin with a prompt, or with a reply of the current turn, whose prompt stays anyway. The newest message
    /// stays whatever its size, results with their calls.
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

/// Beginning of the text that stands for an omitted output.
const OMITTED: &str = "[output omitted: ";

/// Text that stands for an omitted output: its size and a way to read it; of a failed call, the last lines too.
fn omitted_text(result: &ToolResult, whole: &str) -> String {
    let lines: Vec<&str> = whole.trim_end().lines().collect();
    let note = format!("{OMITTED}{} lines; read_output has it, id \"{}\"]", lines.len(), result.call);
    // Commands end with a line on their exit code; file tools do not.
    let last = lines.last().copied().unwrap_or_default();
    let failed = result.is_error || (last.starts_with('[') && last != "[exit code 0]");
    if !failed {
        return note;
    }
    let kept = lines[lines.len().saturating_sub(KEPT_LINES)..].join("\n");
    let start = kept.ceil_char_boundary(kept.len().saturating_sub(KEPT_BYTES_MAX));
    format!("{note}\n{}", &kept[start..])
}
