//! A session's transcript, as plain text or Markdown.

use std::collections::HashMap;
use std::io::{self, Write};

use sysop_core::event::{Decision, Event, Origin, PauseReason, StopReason};
use sysop_core::id::CallId;
use sysop_core::image::prompt_for_display;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::text::{neutralize, neutralize_prose};
use sysop_core::transcript::{
    OutputReaders, Participants, change_sentence, event_notice, terminal_input_sentence,
};
use sysop_core::ui_text::{host_groups, origin_phrase};
use sysop_core::undo::{UNDO_TOOL, changed_line, undo_summary};
use sysop_driver::port::SessionSummary;

use super::DisplayOptions;
use super::record::{UNANSWERED, is_unanswered_undo};
use super::table::{one_line, title};
use crate::markdown::{escape, fence_for};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TranscriptFormat {
    Plain,
    Markdown,
}

/// Writes a session event by event.
#[derive(Debug)]
pub(super) struct TranscriptWriter {
    form: TranscriptFormat,
    /// Calls in the last reply that have not started. A call that never starts is shown when it ends.
    waiting: HashMap<CallId, WaitingCall>,
    /// The user who sent the call of the current turn to a server, if the turn has no prompt.
    asked_by: Option<String>,
    /// Call that has started but not ended.
    running: Option<CallId>,
    tool_calls: u32,
    readers: OutputReaders,
    /// People of the whole session.
    participants: Participants,
    /// True if the newest call of the step was canceled.
    is_canceled: bool,
}

/// A call that has not started.
#[derive(Debug)]
struct WaitingCall {
    tool: String,
    text: String,
    /// Note about the rejection of an undo, which is shown at its end unless nobody answered.
    rejection: Option<String>,
}

impl WaitingCall {
    fn new(call: &ToolCall, text: String) -> Self {
        Self { tool: call.name.clone(), text, rejection: None }
    }

    fn into_entry(self, by: Option<String>) -> TranscriptEntry {
        TranscriptEntry::Call { text: self.text, by }
    }
}

/// The part of an event that the transcript shows.
enum TranscriptEntry {
    Prompt {
        text: String,
        /// The sender, if several people took part in the session.
        by: Option<String>,
    },
    Reply(String),
    /// Command, or a short form of another tool call.
    Call {
        text: String,
        /// Phrase about the origin and the sender; `None` for a call of a model.
        by: Option<String>,
    },
    Result {
        output: String,
        note: String,
    },
    Note(String),
}

impl TranscriptWriter {
    /// Creates a writer that has not processed any events, for a session of these people.
    pub(super) fn new(form: TranscriptFormat, participants: Participants) -> Self {
        Self {
            form,
            waiting: HashMap::new(),
            asked_by: None,
            running: None,
            tool_calls: 0,
            readers: OutputReaders::default(),
            participants,
            is_canceled: false,
        }
    }

    /// Writes the heading with the session's id, date, host and root.
    pub(super) fn write_head(
        &self,
        summary: &SessionSummary,
        view: &DisplayOptions,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let id = one_line(summary.id.as_str());
        let (date, host, root) = (date(summary, view), one_line(&summary.host), one_line(&summary.root));
        match self.form {
            TranscriptFormat::Plain => writeln!(out, "session {id}\n{date} on {host}, {root}"),
            TranscriptFormat::Markdown => writeln!(
                out,
                "# {}\n\n- session `{id}`\n- {date}\n- host `{host}`, root `{root}`",
                title(summary)
            ),
        }
    }

    /// Writes the visible part of an event. Most internal events have no visible part.
    pub(super) fn write_event(&mut self, event: &Event, out: &mut impl Write) -> io::Result<()> {
        self.readers.apply(event);
        self.entries(event).iter().try_for_each(|entry| self.write_entry(entry, out))
    }

    /// Writes the end of the transcript: a note if a call has no result, and the models that received tool output. The
    /// log does not record if the process that started the call is still running, so the note allows for both.
    pub(super) fn write_end(&self, out: &mut impl Write) -> io::Result<()> {
        let interrupted =
            "interrupted when sysop exited (result unknown), or still running in another sysop process";
        if self.running.is_some() {
            self.write_entry(&TranscriptEntry::Note(interrupted.to_owned()), out)?;
        }
        let models: Vec<String> = self.readers.models().iter().map(ToString::to_string).collect();
        if models.is_empty() {
            return Ok(());
        }
        let note = format!("tool output was sent to {}", models.join(", "));
        self.write_entry(&TranscriptEntry::Note(note), out)
    }

    fn write_entry(&self, entry: &TranscriptEntry, out: &mut impl Write) -> io::Result<()> {
        match self.form {
            TranscriptFormat::Plain => write_plain(entry, out),
            TranscriptFormat::Markdown => write_markdown(entry, out),
        }
    }

    fn finished_call(&mut self, call: &CallId, outcome: &Outcome) -> Vec<TranscriptEntry> {
        self.running.take_if(|running| running == call);
        self.tool_calls += 1;
        self.is_canceled = outcome.status == Status::Cancelled;
        let mut waiting = self.waiting.remove(call);
        if let Some(undo) = waiting.take_if(|it| is_unanswered_undo(&it.tool, Some(outcome.status))) {
            let by = origin_phrase(Origin::User, &undo.tool, self.asked_by.as_deref());
            return vec![undo.into_entry(by), TranscriptEntry::Note(UNANSWERED.to_owned())];
        }
        let rejection = waiting.as_mut().and_then(|it| it.rejection.take()).map(TranscriptEntry::Note);
        let unstarted = waiting.map(|it| it.into_entry(None)).into_iter().chain(rejection);
        let changed = changed_line(outcome, self.tool_calls).map(TranscriptEntry::Note);
        let groups = host_groups(&outcome.hosts).into_iter().map(|(text, _)| TranscriptEntry::Note(text));
        let result =
            TranscriptEntry::Result { output: outcome.output.clone(), note: outcome_summary(outcome) };
        unstarted.chain(groups).chain([result]).chain(changed).collect()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other events are at most notes")]
    fn entries(&mut self, event: &Event) -> Vec<TranscriptEntry> {
        match event {
            Event::ContextCompacted { compaction } => {
                let details =
                    compaction.ledger.lines().chain(compaction.summary.iter().flat_map(|text| text.lines()));
                let lines = note(event, &self.participants).into_iter().chain(details.map(str::to_owned));
                lines.map(TranscriptEntry::Note).collect()
            }
            Event::TurnStarted { prompt, images, by, .. } => {
                self.waiting.clear();
                self.is_canceled = false;
                self.asked_by = by.clone().filter(|_| prompt.is_empty());
                let by = by.clone().filter(|_| self.participants.are_several());
                let shown = || TranscriptEntry::Prompt { text: prompt_for_display(prompt, images), by };
                (!prompt.is_empty()).then(shown).into_iter().collect()
            }
            Event::Replied { reply, .. } => {
                self.is_canceled = false;
                let waiting = |call: &ToolCall| (call.id.clone(), WaitingCall::new(call, call_summary(call)));
                self.waiting = reply.calls.iter().map(waiting).collect();
                (!reply.text.is_empty())
                    .then(|| TranscriptEntry::Reply(reply.text.clone()))
                    .into_iter()
                    .collect()
            }
            Event::ApprovalAsked { call, command, .. } => {
                self.waiting.insert(call.id.clone(), WaitingCall::new(call, command.clone()));
                Vec::new()
            }
            Event::Decided { call, decision, by } => self.decided_call(call, decision, by),
            Event::ToolStarted { call, origin } => {
                self.waiting.remove(&call.id);
                self.running = Some(call.id.clone());
                let by = origin_phrase(*origin, &call.name, self.asked_by.as_deref());
                vec![TranscriptEntry::Call { text: call_summary(call), by }]
            }
            Event::ToolFinished { call, outcome } => self.finished_call(call, outcome),
            // The call says it.
            Event::TurnEnded { reason: StopReason::Cancelled, error: None, .. } if self.is_canceled => {
                Vec::new()
            }
            _ => note(event, &self.participants).map(TranscriptEntry::Note).into_iter().collect(),
        }
    }

    fn decided_call(&mut self, call: &CallId, decision: &Decision, by: &str) -> Vec<TranscriptEntry> {
        // A single person allows without a note; among several, it matters who did.
        let allowed = self.participants.are_several().then(|| "allowed".to_owned());
        let words = decision_summary(decision).or(allowed).map(|words| format!("{words} by {by}"));
        let is_rejection = matches!(decision, Decision::Reject { .. });
        if let Some(undo) = self.waiting.get_mut(call).filter(|it| is_rejection && it.tool == UNDO_TOOL) {
            undo.rejection = words;
            return Vec::new();
        }
        let waiting = if is_rejection { self.waiting.remove(call) } else { None };
        let call = waiting.map(|it| it.into_entry(None));
        call.into_iter().chain(words.map(TranscriptEntry::Note)).collect()
    }
}

fn write_plain(entry: &TranscriptEntry, out: &mut impl Write) -> io::Result<()> {
    match entry {
        TranscriptEntry::Prompt { text, by } => {
            writeln!(out)?;
            if let Some(by) = by {
                writeln!(out, "{}:", one_line(by))?;
            }
            indented(text, "> ", out)
        }
        TranscriptEntry::Reply(text) => {
            writeln!(out)?;
            indented(&neutralize_prose(text), "", out)
        }
        TranscriptEntry::Call { text, by } => {
            writeln!(out)?;
            indented(text, "$ ", out)?;
            by.as_ref().map_or(Ok(()), |by| writeln!(out, "  ({by})"))
        }
        TranscriptEntry::Result { output, note } => {
            indented(output, "  ", out)?;
            if note.is_empty() { Ok(()) } else { writeln!(out, "  [{note}]") }
        }
        TranscriptEntry::Note(note) => writeln!(out, "[{}]", one_line(note)),
    }
}

fn write_markdown(entry: &TranscriptEntry, out: &mut impl Write) -> io::Result<()> {
    match entry {
        TranscriptEntry::Prompt { text, by } => {
            let by = by.as_deref().map_or_else(|| "You".to_owned(), |by| escape(&one_line(by)));
            writeln!(out, "\n## {by}\n")?;
            indented(text, "> ", out)
        }
        TranscriptEntry::Reply(text) => {
            writeln!(out)?;
            indented(&neutralize_prose(text), "", out)
        }
        TranscriptEntry::Call { text, by } => {
            by.as_ref().map_or(Ok(()), |by| writeln!(out, "\n*{}*", escape(by)))?;
            fenced(text, "sh", out)
        }
        TranscriptEntry::Result { output, note } => {
            if !output.is_empty() {
                fenced(output, "text", out)?;
            }
            if note.is_empty() { Ok(()) } else { writeln!(out, "\n*{note}*") }
        }
        TranscriptEntry::Note(note) => writeln!(out, "\n*{}*", one_line(note)),
    }
}

/// Returns a one-line note about a change that matters to readers, or `None` for any other event.
#[expect(clippy::wildcard_enum_match_arm, reason = "most events are not notes")]
fn note(event: &Event, participants: &Participants) -> Option<String> {
    match event {
        Event::Configured { reached: Some(_), .. } => event_notice(event).map(|notice| notice.text),
        Event::Configured { change, .. } => Some(change_sentence(change)),
        Event::Paused { reason, detail, .. } => {
            let detail = detail.as_ref().map_or_else(String::new, |detail| format!(", {detail}"));
            Some(format!("paused{}{detail}", pause_words(*reason)))
        }
        Event::Resumed => Some("resumed".to_owned()),
        Event::TerminalInput { by, typed } => {
            let is_local = participants.is_local_user(by);
            Some(terminal_input_sentence(if is_local { "You" } else { by }, typed))
        }
        Event::HistoryCleared => Some("history cleared".to_owned()),
        Event::ContextCompacted { .. }
        | Event::InstructionsLoaded { .. }
        | Event::PromptExpanded { .. }
        | Event::TodoChanged { .. }
        | Event::JobStarted { .. }
        | Event::JobFinished { .. }
        | Event::GuardArmed { .. }
        | Event::GuardEnded { .. }
        | Event::ApprovalGiven { .. }
        | Event::ApprovalPreviewed { .. }
        | Event::Undone { .. } => event_notice(event).map(|notice| notice.text),
        Event::Compacted { keep } => Some(format!("context trimmed: sending only the last {keep} messages")),
        Event::TurnEnded { error: Some(error), .. } => Some(error.clone()),
        Event::TurnEnded { reason, error: None, .. } => stop_words(*reason).map(str::to_owned),
        // A model failure is reported at the end of the turn; others are internal or have separate entries.
        _ => None,
    }
}

/// Returns a call's command, or the tool's name with its arguments if there is no command.
fn call_summary(call: &ToolCall) -> String {
    if let Some(text) = call.text_argument("command").map(str::to_owned).or_else(|| undo_summary(call)) {
        return text;
    }
    match &call.arguments {
        Arguments::Object(map) => {
            let arguments: Vec<_> = map.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{} {}", call.name, arguments.join(" "))
        }
        Arguments::Invalid(text) => format!("{} {text}", call.name),
    }
}

fn outcome_summary(outcome: &Outcome) -> String {
    let mut words = Vec::new();
    match (outcome.status, outcome.exit_code) {
        (Status::Ok, _) => {}
        (Status::Failed, Some(code)) => words.push(format!("exit code {code}")),
        (Status::Cancelled, _) => words.push("canceled".to_owned()),
        (Status::Failed | Status::Timeout | Status::Interrupted | Status::Unknown | Status::Rejected, _) => {
            words.push(outcome.status.as_str().to_owned())
        }
    }
    if outcome.truncated {
        words.push("truncated".to_owned());
    }
    words.join(", ")
}

fn decision_summary(decision: &Decision) -> Option<String> {
    match decision {
        Decision::Allow { command: None } => None,
        Decision::Allow { command: Some(_) } | Decision::AllowSession { command: Some(_) } => {
            Some("edited".to_owned())
        }
        Decision::AllowSession { command: None } => Some("allowed for the session".to_owned()),
        Decision::Reject { reason } if reason.is_empty() => Some("rejected".to_owned()),
        Decision::Reject { reason } => Some(format!("rejected ({reason})")),
    }
}

fn pause_words(reason: PauseReason) -> &'static str {
    match reason {
        PauseReason::Asked => "",
        PauseReason::Loop => ": the same call repeated with the same result",
        PauseReason::Interrupted => ": sysop exited during the turn",
        PauseReason::Budget => ": budget spent",
    }
}

fn stop_words(reason: StopReason) -> Option<&'static str> {
    match reason {
        StopReason::EndTurn => None,
        StopReason::MaxIterations => Some("stopped at the iteration limit"),
        StopReason::Cancelled => Some("canceled"),
        StopReason::Failed => Some("failed"),
        StopReason::Paused => Some("canceled while paused"),
    }
}

fn date(summary: &SessionSummary, view: &DisplayOptions) -> String {
    match jiff::Timestamp::from_millisecond(summary.created.0) {
        Ok(time) => time.to_zoned(view.zone.clone()).strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => "at an unknown time".to_owned(),
    }
}

/// Neutralizes text and writes each of its lines with the prefix `before`.
fn indented(text: &str, before: &str, out: &mut impl Write) -> io::Result<()> {
    neutralize(text).lines().try_for_each(|line| writeln!(out, "{before}{line}"))
}

/// Writes text as a code block, with a fence that the text cannot close.
fn fenced(text: &str, language: &str, out: &mut impl Write) -> io::Result<()> {
    let fence = fence_for(text);
    writeln!(out, "\n{fence}{language}")?;
    indented(text, "", out)?;
    writeln!(out, "{fence}")
}
