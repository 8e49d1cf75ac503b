//! Stopping and pausing a turn, and leaving the REPL with Ctrl+C.

use std::io;

use sysop_core::event::{Event, Input, StopReason};
use sysop_core::transcript::{PauseDelay, SessionPhase};
use sysop_term::StyleRole;

use super::{ActiveRead, AwaitedUpdate, Repl};
use crate::Exit;
use crate::chat::ReplLayout;
use crate::chat::editor::PRIVATE;
use crate::chat::program_prompt::PromptOutcome;
use crate::render::words;

impl Repl {
    /// Handles Ctrl+C outside the line editor.
    pub(super) fn handle_interrupt(&mut self) -> io::Result<()> {
        if self.cancel_shell() {
            return Ok(());
        }
        if let ActiveRead::ProgramPrompt(id) = self.active_read
            && !self.settled.contains(&id)
        {
            return self.handle_prompt_outcome(id, PromptOutcome::Interrupted);
        }
        if !self.running() && self.expected.is_none() {
            return match self.context.form {
                ReplLayout::Panels { .. } => self.interrupted_at_prompt(),
                // The terminal has discarded the line.
                ReplLayout::Plain if self.is_on_terminal && self.active_read == ActiveRead::Line => {
                    self.screen.text("\n")?;
                    self.interrupted_at_prompt()?;
                    if self.leaving.is_none() { self.screen.text("You: ") } else { Ok(()) }
                }
                // As in the lsimons-agent design.
                ReplLayout::Plain => {
                    self.leaving = Some(Exit::Done);
                    Ok(())
                }
            };
        }
        if self.active_read == ActiveRead::TypeAhead && self.screen.has_typed() {
            self.console.clear_typed();
            self.screen.set_typed("")?;
            return self.note("draft cleared; Ctrl+C again stops the turn");
        }
        if self.turn_interrupted {
            self.leaving = Some(Exit::Interrupted);
            return Ok(());
        }
        self.turn_interrupted = true;
        self.send(Input::Cancel)?;
        self.transcript.stopping();
        self.view.say("Stopping… Ctrl+C again to quit", StyleRole::Warn, &mut self.screen)
    }

    /// Handles Ctrl+C in the line editor. Only a second one in an empty line quits.
    pub(super) fn interrupted_in_line(&mut self, draft: &str, was_written: bool) -> io::Result<()> {
        self.prompt_interrupted &= !was_written;
        if draft.trim().is_empty() {
            return self.interrupted_at_prompt();
        }
        let is_kept = !draft.starts_with(PRIVATE);
        self.note(if is_kept { "draft cleared; ↑ brings it back" } else { "draft cleared" })
    }

    pub(super) fn interrupted_at_prompt(&mut self) -> io::Result<()> {
        if self.prompt_interrupted {
            return self.leave_or_warn(Exit::Done, "press Ctrl+C");
        }
        self.prompt_interrupted = true;
        self.view.say(
            "Press Ctrl+C again to quit, or Ctrl+D, or type /exit",
            StyleRole::Dim,
            &mut self.screen,
        )
    }

    /// Handles Ctrl+P during a turn or a pause.
    pub(super) fn pause_or_resume(&mut self) -> io::Result<()> {
        if matches!(self.transcript.phase(), SessionPhase::Paused { .. }) && !self.running() {
            return self.send_and_expect(Input::Resume, AwaitedUpdate::Event);
        }
        if !self.pausing {
            return self.pause();
        }
        self.pausing = false;
        self.send(Input::Resume)
    }

    /// Ends the request for a pause if `event`, which has been applied, settles it. Returns true if the turn ended
    /// before the pause could begin.
    pub(super) fn end_pause_request(&mut self, event: &Event) -> bool {
        if self.running() && *event != Event::Resumed {
            return false;
        }
        let was_pausing = std::mem::take(&mut self.pausing);
        // A pause that outlives its turn stops the next queued prompt.
        let is_last = self.transcript.queued_prompts().len() == 0;
        was_pausing && is_last && matches!(event, Event::TurnEnded { reason: StopReason::EndTurn, .. })
    }

    pub(super) fn pause(&mut self) -> io::Result<()> {
        if matches!(self.transcript.phase(), SessionPhase::Paused { .. }) && !self.running() {
            return self.note("already paused; /resume to resume");
        }
        if !self.running() {
            return self.view.say("nothing to pause", StyleRole::Dim, &mut self.screen);
        }
        if self.pausing
            && self.session.terminal().is_some()
            && matches!(self.context.form, ReplLayout::Panels { .. })
        {
            return self.request_shell();
        }
        self.pausing = true;
        self.send(Input::Pause)?;
        let keys = match (self.context.form, self.session.terminal()) {
            (ReplLayout::Panels { .. }, Some(_)) => " Ctrl+P to resume, Ctrl+\\ to open the terminal",
            (ReplLayout::Panels { .. }, None) => " Ctrl+P to resume",
            (ReplLayout::Plain, _) => "",
        };
        let delay = self.transcript.work_before_pause().unwrap_or(PauseDelay::Step);
        let text = format!("{}…{keys}", words::pausing(delay));
        self.view.say(&text, StyleRole::Warn, &mut self.screen)
    }

    pub(super) fn stop(&mut self) -> io::Result<()> {
        if matches!(self.transcript.phase(), SessionPhase::Paused { .. }) {
            return self.send_and_expect(Input::Cancel, AwaitedUpdate::Event);
        }
        if self.running() && !self.turn_interrupted {
            return self.handle_interrupt();
        }
        let text = if self.running() { "the turn is already being stopped" } else { "no turn to stop" };
        self.note(text)
    }

    /// Restores the quiet mode after another program may have used the terminal. Does nothing while a line
    /// editor or prompt is reading, because these set their own modes.
    pub(super) fn resume_from_suspend(&self) {
        if matches!(self.active_read, ActiveRead::None | ActiveRead::TypeAhead)
            && let Some(no_echo) = &self.no_echo
        {
            no_echo.apply();
        }
        if self.active_read == ActiveRead::TypeAhead {
            // A shell switches the mode off while it has the terminal, which may be gone.
            let _ = crossterm::execute!(io::stderr(), crossterm::event::EnableBracketedPaste);
        }
    }
}
