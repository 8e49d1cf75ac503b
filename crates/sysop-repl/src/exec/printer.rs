//! Output of `sysop exec`: the answer or JSON lines on standard output, progress on standard error.

use std::collections::HashMap;
use std::io::{self, Write};

use sysop_core::event::{Delta, Event, Logged, StopReason, Update};
use sysop_core::id::{CallId, SessionId, StepId};
use sysop_core::outcome::{Outcome, Reversibility, Status};
use sysop_core::redact::live::LiveRedactor;
use sysop_core::session::REJECTED_BY_USER;
use sysop_core::text::{Stripper, strip_prose};
use sysop_core::transcript::{
    Decider, ItemBody, ItemId, ProposalState, SessionPhase, Transcript, TurnEnd, event_notice, is_host_work,
};
use sysop_core::ui_text::{error_lines, is_retrying};
use sysop_core::undo::changed_line;
use sysop_term::StyleRole;
use sysop_term::markdown::MarkdownStream;
use sysop_term::output::output_and_undo_note;
use sysop_wire::Encoder;

use super::call_output::{
    CallOutput, StreamedOutput, call_output_lines, failure_lines, fleet_failure_lines, unprinted_output,
};
use super::{CallRole, ExecTask};
use crate::chat::inline_screen::InlineScreen;
use crate::render::{RenderOptions, THEME, row, safe, safe_prose, terminal_width, words};

pub(super) struct ExecPrinter {
    out: ExecOutput,
    err: Box<dyn Write + Send>,
    pub(super) call_output: CallOutput,
    /// Output of the running call, if it is shown.
    streamed: Option<StreamedOutput>,
    /// True if standard error gets no progress.
    pub(super) is_quiet: bool,
    /// True if calls' output belongs on standard output.
    routine: bool,
    /// Purpose of a sequence's call; `None` for other calls.
    role: Option<CallRole>,
    /// True if the task undoes a call.
    is_undo: bool,
    /// True if answers are held back because they must match a schema.
    pub(super) holds_answer: bool,
    /// Directory with full outputs, if it is on this machine.
    pub(super) artifacts: Option<String>,
    /// Short id of the session, for the command that undoes a call.
    pub(super) session: String,
    /// Flags that a command which resumes the task repeats, each followed by a space.
    pub(super) resume_flags: String,
    /// Notices to print after the running call.
    after_call: Vec<String>,
    /// Set once an exit was requested and its reason has been printed. Later output is dropped.
    pub(super) ending: bool,
}

enum ExecOutput {
    Json {
        encoder: Box<Encoder>,
        /// Live output of the calls that are running. The lines often go to a file, which gets no more than the log.
        redactors: HashMap<CallId, LiveRedactor>,
        out: Box<dyn Write + Send>,
    },
    Terminal {
        screen: Box<InlineScreen>,
        stream: Option<(StepId, String, Box<MarkdownStream>)>,
        stripped: Option<Stripper>,
    },
    /// An answer is written when it is finished; a routine's output is written as it arrives.
    Pipe { out: Box<dyn Write + Send>, stripped: Option<Stripper> },
}

impl ExecPrinter {
    pub(super) fn new(
        encoder: Option<Box<Encoder>>,
        out: Box<dyn Write + Send>,
        terminal: Option<RenderOptions>,
        err: Box<dyn Write + Send>,
        task: &ExecTask,
    ) -> Self {
        let out = match (encoder, terminal) {
            (Some(encoder), _) => ExecOutput::Json { encoder, redactors: HashMap::new(), out },
            (None, Some(look)) => ExecOutput::Terminal {
                screen: Box::new(InlineScreen::new(out, look, None)),
                stream: None,
                stripped: None,
            },
            (None, None) => ExecOutput::Pipe { out, stripped: None },
        };
        let routine = matches!(task, ExecTask::Routine(_) | ExecTask::Undo { .. });
        let is_undo = matches!(task, ExecTask::Undo { .. });
        let call_output = CallOutput::default();
        Self {
            out,
            err,
            call_output,
            streamed: None,
            is_quiet: false,
            routine,
            role: None,
            is_undo,
            holds_answer: false,
            artifacts: None,
            session: String::new(),
            resume_flags: String::new(),
            after_call: Vec::new(),
            ending: false,
        }
    }

    /// `holds_answer` is true if answers must match a schema.
    pub(super) fn configure(&mut self, call_output: CallOutput, is_quiet: bool, holds_answer: bool) {
        (self.call_output, self.is_quiet, self.holds_answer) = (call_output, is_quiet, holds_answer);
    }

    /// Names the session in hints, and the flags that a command to resume it repeats.
    pub(super) fn name_session(&mut self, id: &SessionId, resume_flags: String) {
        (self.session, self.resume_flags) = (id.short().to_owned(), resume_flags);
    }

    /// Prepares for a sequence's next call.
    pub(super) fn set_role(&mut self, role: CallRole) {
        self.role = Some(role);
        self.routine = role == CallRole::Step;
    }

    /// Returns true if nothing is said about the current call, unless it cannot run.
    fn hides_call(&self) -> bool {
        self.role == Some(CallRole::HostCheck) && self.call_output == CallOutput::Hidden
    }

    pub(super) fn render_options(&self) -> RenderOptions {
        match &self.out {
            ExecOutput::Terminal { screen, .. } => screen.render_options(),
            ExecOutput::Json { .. } | ExecOutput::Pipe { .. } => {
                let width = terminal_width();
                RenderOptions { width: width.max(1), color: false }
            }
        }
    }

    /// Prints an error and its hint. Does nothing if standard error is closed.
    pub(super) fn error(&mut self, text: &str) {
        let _ = self.pause();
        // A further line, such as that of another host, does not look like a line of its own.
        let text = safe(text).trim_end().replace('\n', "\n       ");
        let _ = self.err.write_all(error_lines(&text).as_bytes());
        let _ = self.err.flush();
    }

    /// Prints a line about the run's progress, unless the run is quiet.
    pub(super) fn note(&mut self, text: &str) {
        if !self.ending {
            self.progress(&safe(text));
        }
    }

    fn progress(&mut self, text: &str) {
        if !self.is_quiet {
            self.say(text);
        }
    }

    /// Prints a line also in a quiet run, because something was not done or failed.
    pub(super) fn say(&mut self, text: &str) {
        let _ = self.pause();
        let _ = writeln!(self.err, "{}", text.trim_end());
        let _ = self.err.flush();
    }

    pub(super) fn end(&mut self, end: &TurnEnd, transcript: &Transcript) {
        match words::end_summary(end, transcript) {
            // A user wanted it.
            Some(text) if end.reason == StopReason::Cancelled => self.say(&text),
            Some(text) => self.error(&text),
            None => {}
        }
    }

    /// Returns true if the answer is written to a terminal, which can show what the task waits for.
    pub(super) fn shows_waits(&self) -> bool {
        matches!(self.out, ExecOutput::Terminal { .. }) && !self.is_quiet
    }

    /// Shows what the task waits for in an unfinished row, unless that row has text.
    pub(super) fn wait(&mut self, text: &str) -> io::Result<()> {
        match &mut self.out {
            ExecOutput::Terminal { screen, stream: None, stripped: None } if !self.ending => {
                screen.last_row(Some(row(text, StyleRole::Dim)))
            }
            ExecOutput::Terminal { .. } | ExecOutput::Json { .. } | ExecOutput::Pipe { .. } => Ok(()),
        }
    }

    /// Removes the row about the wait, unless the terminal is gone.
    pub(super) fn clear_wait(&mut self) {
        let _ = self.pause();
    }

    /// Removes an unfinished row from the screen, if the answer is written to a terminal.
    pub(super) fn pause(&mut self) -> io::Result<()> {
        match &mut self.out {
            ExecOutput::Terminal { screen, .. } => screen.last_row(None),
            ExecOutput::Json { .. } | ExecOutput::Pipe { .. } => Ok(()),
        }
    }

    pub(super) fn is_for_programs(&self) -> bool {
        matches!(self.out, ExecOutput::Json { .. })
    }

    /// Handles an update from before this task. The update is not printed, but the JSON encoder must see it
    /// because later messages build on it.
    pub(super) fn replayed(&mut self, update: &Update) {
        if let (ExecOutput::Json { encoder, .. }, Update::Logged(logged)) = (&mut self.out, update) {
            encoder.encode_event(logged);
        }
    }

    pub(super) fn update(&mut self, update: &Update, transcript: &Transcript) -> io::Result<()> {
        if let ExecOutput::Json { encoder, redactors, out } = &mut self.out {
            for message in json_lines(encoder, redactors, update) {
                out.write_all(message.as_bytes())?;
                out.write_all(b"\n")?;
                out.flush()?;
            }
            return Ok(());
        }
        if self.ending {
            return Ok(());
        }
        match update {
            Update::Delta(delta) => self.delta(delta, transcript),
            Update::Logged(logged) => self.logged(logged, transcript),
        }
    }

    fn delta(&mut self, delta: &Delta, transcript: &Transcript) -> io::Result<()> {
        // Output of a fleet's hosts is printed together once all have finished.
        let fleet = || transcript.session_info().is_some_and(|facts| words::is_fleet(&facts.host));
        match delta {
            Delta::Text { .. } if self.holds_answer => Ok(()),
            Delta::Text { step, text } => self.stream(*step, text),
            Delta::Output { text, .. } if self.routine && !fleet() => self.output(text),
            Delta::Output { call, text }
                if self.call_output != CallOutput::Hidden
                    && !fleet()
                    && words::is_running(call, transcript) =>
            {
                self.stream_output(call, text);
                Ok(())
            }
            Delta::Notice { text } if is_retrying(text) || is_host_work(text) => {
                self.progress(&safe(text));
                Ok(())
            }
            Delta::Notice { text } => {
                self.say(&safe(text));
                Ok(())
            }
            Delta::Restarted { .. } => self.close_stream(),
            Delta::Control { holder } => {
                self.progress(&safe(&words::control(holder.as_deref())));
                Ok(())
            }
            Delta::Output { .. }
            | Delta::Reasoning { .. }
            | Delta::Progress { .. }
            | Delta::Question { .. }
            | Delta::QuestionClosed { .. } => Ok(()),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other events are not part of the output")]
    fn logged(&mut self, logged: &Logged, transcript: &Transcript) -> io::Result<()> {
        match &logged.event {
            Event::Replied { step, reply } => self.replied(*step, &reply.text, reply.calls.is_empty()),
            Event::ToolStarted { .. } if self.hides_call() => Ok(()),
            Event::ToolStarted { call, .. } => {
                self.progress(&words::tool_lines(call));
                Ok(())
            }
            Event::ToolFinished { call, outcome } => {
                self.call_ended(call, outcome, transcript)?;
                for notice in std::mem::take(&mut self.after_call) {
                    self.progress(&notice);
                }
                Ok(())
            }
            Event::ModelFailed { .. } | Event::TurnEnded { .. } => self.close_stream(),
            Event::TerminalInput { by, typed } => {
                self.progress(&words::typed(transcript.subject(by), typed));
                Ok(())
            }
            event @ Event::Configured { reached: Some(_), .. } => {
                let notice = event_notice(event).map(|notice| safe(&notice.text)).unwrap_or_default();
                // A line between a call and its result would separate them.
                match transcript.phase() {
                    SessionPhase::Running { .. } => self.after_call.push(notice),
                    _ => self.progress(&notice),
                }
                Ok(())
            }
            event @ (Event::ContextCompacted { .. }
            | Event::InstructionsLoaded { .. }
            | Event::PromptExpanded { .. }
            | Event::TodoChanged { .. }) => {
                if let Some(notice) = event_notice(event) {
                    self.progress(&safe(&notice.text));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn call_ended(&mut self, call: &CallId, outcome: &Outcome, transcript: &Transcript) -> io::Result<()> {
        if let Some(ItemBody::Answer(text)) =
            transcript.item(&ItemId::Summary(call.clone())).map(|item| &item.body)
        {
            return self.answer(&text.text);
        }
        if self.print_unstarted(call, outcome, transcript) {
            return Ok(());
        }
        self.finished(call, outcome)?;
        if let Some(line) = changed_line(outcome, transcript.tool_calls()) {
            let has_undo = matches!(outcome.undo, Some(Reversibility::Exact | Reversibility::Partly));
            // The command stands at the end, behind names of files that may look alike.
            let line = match line.rsplit_once("(/undo ").filter(|_| has_undo) {
                Some((before, number)) => format!("{before}(sysop undo {} {number}", self.session),
                None => line,
            };
            self.progress(&format!("  {}", safe(&line)));
        }
        self.undo_note(outcome);
        Ok(())
    }

    fn stream(&mut self, step: StepId, text: &str) -> io::Result<()> {
        let ExecOutput::Terminal { screen, stream, .. } = &mut self.out else { return Ok(()) };
        let columns = screen.render_options().width.saturating_sub(1);
        if stream.as_ref().is_none_or(|(streaming, ..)| *streaming != step) {
            if text.trim().is_empty() {
                return Ok(());
            }
            *stream = Some((step, String::new(), Box::new(MarkdownStream::new(columns, THEME))));
        }
        let Some((_, streamed, markdown)) = stream else { return Ok(()) };
        streamed.push_str(text);
        screen.rows(&markdown.push(text))?;
        screen.open_row(markdown.tail().cloned())
    }

    pub(super) fn close_stream(&mut self) -> io::Result<()> {
        let ExecOutput::Terminal { screen, stream, .. } = &mut self.out else { return Ok(()) };
        screen.last_row(None)?;
        let Some((_, _, mut markdown)) = stream.take() else { return Ok(()) };
        screen.rows(&markdown.finish())
    }

    fn replied(&mut self, step: StepId, text: &str, last: bool) -> io::Result<()> {
        if let ExecOutput::Terminal { stream, .. } = &self.out {
            let streamed = match stream {
                Some((streaming, streamed, _)) if *streaming == step => streamed.clone(),
                Some(_) | None => String::new(),
            };
            if let Some(rest) = text.trim_start().strip_prefix(streamed.trim_start())
                && !streamed.is_empty()
            {
                self.stream(step, rest)?;
                return self.close_stream();
            }
            self.close_stream()?;
            if text.trim() == streamed.trim() {
                return Ok(());
            }
            return self.answer(text);
        }
        if text.trim().is_empty() {
            return Ok(());
        }
        if last {
            return self.answer(text);
        }
        self.progress(&safe_prose(text));
        Ok(())
    }

    /// Prints an answer that matches its schema, unless it has already been printed as a message.
    pub(super) fn json_answer(&mut self, json: &str) -> io::Result<()> {
        self.pause()?;
        match &mut self.out {
            ExecOutput::Json { .. } => Ok(()),
            ExecOutput::Terminal { screen, .. } => screen.text(&format!("{json}\n")),
            ExecOutput::Pipe { out, .. } => writeln!(out, "{json}").and_then(|()| out.flush()),
        }
    }

    fn answer(&mut self, text: &str) -> io::Result<()> {
        if self.holds_answer {
            return Ok(());
        }
        let text = text.trim();
        match &mut self.out {
            ExecOutput::Terminal { screen, .. } => {
                let columns = screen.render_options().width.saturating_sub(1);
                let rows = MarkdownStream::rows(text, columns, THEME);
                screen.last_row(None)?;
                screen.rows(&rows)
            }
            ExecOutput::Pipe { out, .. } => {
                writeln!(out, "{}", strip_prose(text))?;
                out.flush()
            }
            ExecOutput::Json { .. } => Ok(()),
        }
    }

    /// Prints the output of a call of the model as it arrives.
    fn stream_output(&mut self, call: &CallId, text: &str) {
        let mut streamed = match self.streamed.take() {
            Some(streamed) if streamed.is_of(call) => streamed,
            Some(_) | None => StreamedOutput::new(call.clone(), self.call_output),
        };
        for line in streamed.push(text) {
            self.progress(&format!("  {line}"));
        }
        self.streamed = Some(streamed);
    }

    /// Returns the lines of a call's output that are still to be shown.
    fn remaining_output(&mut self, call: &CallId, outcome: &Outcome) -> Vec<String> {
        if let Some(streamed) = self.streamed.take().filter(|streamed| streamed.is_of(call)) {
            return streamed.finish(outcome);
        }
        // The output of an undo on one host says what it restored, and is not streamed.
        if self.routine && !(self.is_undo && outcome.hosts.is_empty()) {
            return Vec::new();
        }
        let is_hidden = self.call_output == CallOutput::Hidden;
        let shown = if self.is_undo && is_hidden { CallOutput::Excerpt } else { self.call_output };
        call_output_lines(outcome, shown)
    }

    /// Prints a routine's output as it arrives.
    pub(super) fn output(&mut self, text: &str) -> io::Result<()> {
        self.pause()?;
        match &mut self.out {
            ExecOutput::Terminal { screen, stripped, .. } => {
                screen.text(&stripped.get_or_insert_with(Stripper::live).push(text))
            }
            ExecOutput::Pipe { out, stripped } => {
                out.write_all(stripped.get_or_insert_with(Stripper::live).push(text).as_bytes())?;
                out.flush()
            }
            ExecOutput::Json { .. } => Ok(()),
        }
    }

    /// Prints the name of a call that never started, because names of other calls are printed when they start. Returns
    /// true if the call could not run; its reason is then printed, too.
    fn print_unstarted(&mut self, call: &CallId, outcome: &Outcome, transcript: &Transcript) -> bool {
        let Some(plan) = transcript.plan(call) else { return false };
        match plan.state {
            ProposalState::Rejected { by: Decider::Policy, .. } | ProposalState::NotRun => {
                self.say(&words::tool_lines(&plan.call));
                for line in words::not_run_text(outcome).lines() {
                    self.say(&format!("  {line}"));
                }
                true
            }
            ProposalState::Waiting
            | ProposalState::Allowed { .. }
            | ProposalState::Rejected { by: Decider::Person(_), .. } => false,
        }
    }

    /// Prints why a call cannot be undone, unless its output is shown, which ends with that.
    fn undo_note(&mut self, outcome: &Outcome) {
        let is_shown = self.is_undo || self.call_output != CallOutput::Hidden;
        if let Some(note) = output_and_undo_note(outcome).1.filter(|_| !is_shown) {
            self.progress(&format!("  [{}]", safe(&note)));
        }
    }

    /// Prints the rest of an output that belongs on standard output.
    fn finish_output(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.pause()?;
        match &mut self.out {
            ExecOutput::Terminal { screen, stripped, .. } => {
                screen.text(&unprinted_output(stripped.take(), outcome))?;
                screen.end_text()
            }
            ExecOutput::Pipe { out, stripped } => {
                let mut rest = unprinted_output(stripped.take(), outcome);
                // The output of several hosts ends with a line of sysop.
                if !outcome.hosts.is_empty() && !rest.is_empty() && !rest.ends_with('\n') {
                    rest.push('\n');
                }
                out.write_all(rest.as_bytes())?;
                out.flush()
            }
            ExecOutput::Json { .. } => Ok(()),
        }
    }

    fn finished(&mut self, call: &CallId, outcome: &Outcome) -> io::Result<()> {
        if self.hides_call() {
            return Ok(());
        }
        let is_rejected = outcome.status == Status::Rejected && outcome.output.starts_with(REJECTED_BY_USER);
        if is_rejected {
            self.progress("  rejected; nothing ran");
            return Ok(());
        }
        if self.routine {
            self.finish_output(outcome)?;
        }
        let is_ok = outcome.status == Status::Ok;
        let quiet = self.routine && is_ok && self.role.is_none();
        for line in self.remaining_output(call, outcome) {
            self.progress(&format!("  {line}"));
        }
        if !quiet {
            for line in words::host_lines(outcome).lines() {
                self.progress(&format!("  {line}"));
            }
            let mut summary = match self.role {
                Some(CallRole::Step) if is_ok && outcome.exit_code == Some(0) => {
                    words::outcome_summary(&Outcome { exit_code: None, ..outcome.clone() })
                }
                Some(_) | None => words::outcome_summary(outcome),
            };
            // No command can be typed here.
            if let Some(before) = summary.find(" (see /jobs)") {
                summary.replace_range(before..before + " (see /jobs)".len(), "");
            }
            let is_shown = self.routine || self.call_output != CallOutput::Hidden;
            if !is_shown {
                for line in fleet_failure_lines(outcome) {
                    self.progress(&format!("  {line}"));
                }
            }
            if outcome.exit_code.is_some_and(|code| code != 0) && outcome.hosts.is_empty() && !is_shown {
                for line in failure_lines(&outcome.output) {
                    self.progress(&format!("  {line}"));
                }
            }
            let is_of_tool = outcome.status == Status::Failed && outcome.exit_code.is_none();
            if is_of_tool && outcome.hosts.is_empty() && !is_shown {
                let why = safe(outcome.output.lines().next().unwrap_or_default());
                summary.push_str(&format!(": {}", why.trim_end_matches('.')));
            }
            // The sequence tells the answer: a question answered with no has not failed.
            if self.role != Some(CallRole::Probe) {
                self.progress(&format!("  {summary}"));
            }
        }
        if let Some(place) = words::full_output(outcome, self.artifacts.as_deref()) {
            self.progress(&format!("  {place}"));
        }
        Ok(())
    }
}

/// Encodes an update as JSON messages, one line each, without line ends. Live output is redacted.
fn json_lines(
    encoder: &mut Encoder,
    redactors: &mut HashMap<CallId, LiveRedactor>,
    update: &Update,
) -> Vec<String> {
    let output = |encoder: &Encoder, call: &CallId, text: String| {
        let is_empty = text.is_empty();
        (!is_empty).then(|| encoder.encode_delta(&Delta::Output { call: call.clone(), text }))
    };
    let messages = match update {
        Update::Delta(Delta::Output { call, text }) => {
            let text = redactors.entry(call.clone()).or_default().push(text);
            output(encoder, call, text).into_iter().collect()
        }
        Update::Delta(delta) => vec![encoder.encode_delta(delta)],
        Update::Logged(logged) => {
            let rest = if let Event::ToolFinished { call, .. } = &logged.event {
                redactors.remove(call).and_then(|mut redactor| output(encoder, call, redactor.finish()))
            } else {
                None
            };
            rest.into_iter().chain(encoder.encode_event(logged)).collect()
        }
    };
    messages.iter().map(sysop_wire::to_json_line).collect()
}
