//! Lines that the user types while a turn is running. The session queues prompts; commands that do not disturb the turn
//! run at once; other commands wait for its end.

use std::io;
use std::time::Instant;

use sysop_core::event::{Event, Input, StopReason};
use sysop_core::session::QUEUED_PROMPTS_MAX;
use sysop_core::transcript::SessionPhase;
use sysop_driver::frontend::prompt_with_images;
use sysop_term::StyleRole;
use sysop_term::command::{InputLine, JobsCommand, parse};

use super::{ActiveRead, AwaitedUpdate, Repl, ReplSignals};
use crate::chat::input_reader::ReadRequest;
use crate::render::words;

impl Repl {
    pub(super) fn read_ahead(&mut self) {
        self.active_read = ActiveRead::TypeAhead;
        self.console.request(ReadRequest::TypeAhead { draft: std::mem::take(&mut self.draft) });
    }

    /// Performs the lines that waited for the end of the turn, until one of them starts a turn. A pause is no end.
    pub(super) async fn perform_waiting(&mut self, signals: &mut ReplSignals) -> anyhow::Result<()> {
        while !self.waiting.is_empty()
            && self.leaving.is_none()
            && self.active_read == ActiveRead::None
            && *self.transcript.phase() == SessionPhase::Idle
            && self.required_read() == ActiveRead::Line
            && let Some(line) = self.waiting.pop_front()
        {
            self.perform(&line, signals).await?;
        }
        Ok(())
    }

    /// Quits once the turn and those of the queued prompts have ended.
    pub(super) fn end_after_turn(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.ends_after_turn, true) || !self.running() {
            return Ok(());
        }
        self.note("sysop quits once this turn and what is queued have ended; Ctrl+C stops the turn")
    }

    /// Adds text to the draft of the next prompt, which may already have text that was returned from the queue.
    pub(super) fn add_to_draft(&mut self, text: &str) {
        if !self.draft.is_empty() && !text.is_empty() {
            self.draft.push('\n');
        }
        self.draft.push_str(text);
    }

    /// Performs a line at once if it is about the current turn. Otherwise a prompt is queued in the session, and a
    /// command waits here; what is typed after such a command waits, too.
    pub(super) async fn handle_typed_ahead(
        &mut self,
        line: &str,
        signals: &mut ReplSignals,
    ) -> anyhow::Result<()> {
        if is_quit_word(line) {
            return Ok(self.end_after_turn()?);
        }
        match self.postpone(line).await? {
            true => Ok(()),
            false => self.perform(line, signals).await,
        }
    }

    /// Keeps a command that would disturb the current turn until the turn has ended, and a line that follows one.
    /// Returns false if the line can run now.
    pub(super) async fn postpone(&mut self, line: &str) -> anyhow::Result<bool> {
        let parsed = parse(line, self.named_skills(line).await);
        let is_prompt = matches!(parsed, InputLine::Prompt(_));
        let follows = !self.waiting.is_empty();
        let is_running = self.running();
        // A paused turn never ends by itself, and the next prompt cancels it.
        let is_paused = matches!(self.transcript.phase(), SessionPhase::Paused { .. }) && !is_running;
        let waits = match is_prompt {
            true => follows && !is_paused,
            false => (is_running || follows) && !runs_during_turn(&parsed),
        };
        if (waits || is_prompt) && self.waiting.len() + self.queued.len() >= QUEUED_PROMPTS_MAX {
            self.add_to_draft(line);
            self.note(&format!("the queue is full ({QUEUED_PROMPTS_MAX} messages)"))?;
            return Ok(true);
        }
        if waits {
            self.waiting.push_back(line.to_owned());
            self.note(&format!("› {line} · waits for the end of the turn"))?;
        }
        Ok(waits)
    }

    async fn perform(&mut self, line: &str, signals: &mut ReplSignals) -> anyhow::Result<()> {
        if let InputLine::Prompt(text) = parse(line, self.named_skills(line).await) {
            return Ok(self.queue(text).await?);
        }
        // The row that showed it is gone.
        self.note(&format!("› {line}"))?;
        self.handle_line(line, signals).await
    }

    /// Says that the prompt that was just sent waits for the connection to the server, if it does.
    pub(super) fn note_undelivered(&mut self) -> io::Result<()> {
        let connection = self.session.connection();
        let Some(prompt) = connection.undelivered.last().filter(|_| connection.is_lost) else {
            return Ok(());
        };
        self.expected = None;
        self.note(&words::undelivered(prompt))
    }

    /// Sends a prompt that starts a turn or is queued behind the current one. The session's event shows it.
    async fn queue(&mut self, text: String) -> io::Result<()> {
        let input = prompt_with_images(self.context.service.as_ref(), self.session.id(), text.clone()).await;
        match input {
            Ok(input) => {
                let sent = if let (Input::Prompt { text, .. }, true) = (&input, self.running()) {
                    Some(text.clone())
                } else {
                    None
                };
                let awaited = if sent.is_some() { AwaitedUpdate::Event } else { AwaitedUpdate::Turn };
                if let Err(error) = self.session.send(input) {
                    self.add_to_draft(&text);
                    return self.view.say(&error, StyleRole::Bad, &mut self.screen);
                }
                self.queued.extend(sent);
                self.expected = Some((awaited, Instant::now()));
                self.note_undelivered()
            }
            Err(error) => {
                self.add_to_draft(&text);
                self.view.say(&error, StyleRole::Bad, &mut self.screen)
            }
        }
    }

    /// Follows the session's queue, which a stop drops. The session may queue some of the dropped prompts again.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event changes the queue")]
    pub(super) fn follow_queue(&mut self, event: &Event) {
        match event {
            Event::TurnStarted { prompt, .. } => {
                if let Some(at) = self.queued.iter().position(|text| text == prompt) {
                    self.queued.remove(at);
                }
            }
            Event::PromptQueued { text, .. } => {
                if let Some(at) = self.dropped.iter().position(|dropped| dropped == text) {
                    self.queued.push(self.dropped.remove(at));
                }
            }
            Event::CancelAsked { .. }
            | Event::TurnEnded { reason: StopReason::Cancelled | StopReason::Paused, .. } => {
                self.dropped.append(&mut self.queued);
                self.dropped.extend(self.waiting.drain(..));
            }
            // The turn of the next prompt follows at once.
            Event::TurnEnded { .. } if !self.queued.is_empty() => {
                self.expected = Some((AwaitedUpdate::Turn, Instant::now()));
            }
            _ => {}
        }
    }

    /// Returns the prompts that a stop dropped to the input.
    pub(super) fn return_dropped(&mut self) -> io::Result<()> {
        let texts = std::mem::take(&mut self.dropped);
        if texts.is_empty() {
            return Ok(());
        }
        // They were written before what is in the draft.
        let draft = std::mem::take(&mut self.draft);
        self.add_to_draft(&texts.join("\n"));
        self.add_to_draft(&draft);
        self.note("queued prompt not sent; it is back in the input")
    }
}

/// Returns true for a line that quits as Ctrl+D does, as in a shell.
pub(super) fn is_quit_word(line: &str) -> bool {
    matches!(line.trim(), "exit" | "quit")
}

/// Returns true for lines that leave the current turn, the session and the user's terminal as they are, or that are
/// about the current turn.
fn runs_during_turn(line: &InputLine) -> bool {
    match line {
        InputLine::Empty
        | InputLine::Prompt(_)
        | InputLine::Help
        | InputLine::Output(_)
        | InputLine::Exit
        | InputLine::Cost
        | InputLine::Status
        | InputLine::Permissions(_)
        | InputLine::Sessions(_)
        | InputLine::Export(_)
        | InputLine::Theme(_)
        | InputLine::Effort(_)
        | InputLine::Model(_)
        | InputLine::Approve(_)
        | InputLine::Auto(_)
        | InputLine::Mode(_)
        | InputLine::Host(None)
        | InputLine::Routines
        | InputLine::Mcp
        | InputLine::Jobs(JobsCommand::List | JobsCommand::Stop(_))
        | InputLine::Background
        | InputLine::Pause
        | InputLine::Stop
        | InputLine::Resume(None)
        | InputLine::Wrong(_) => true,
        InputLine::Shell(_)
        | InputLine::Jobs(JobsCommand::Read(_))
        | InputLine::Undo(_)
        | InputLine::Run { .. }
        | InputLine::Keys(_)
        | InputLine::Clear
        | InputLine::Compact(_)
        | InputLine::Fork(_)
        | InputLine::Trust
        | InputLine::New
        | InputLine::Resume(Some(_))
        | InputLine::Host(Some(_))
        | InputLine::OpenShell
        | InputLine::Retry
        | InputLine::Plan => false,
    }
}
