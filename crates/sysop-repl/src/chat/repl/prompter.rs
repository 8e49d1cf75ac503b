//! Questions of programs in the REPL. One is shown at a time, and each is answered once.

use std::io;

use sysop_core::event::{Delta, Update};
use sysop_core::question::{Question, QuestionId};
use sysop_core::transcript::SessionPhase;
use sysop_driver::prompter;
use sysop_term::StyleRole;

use super::{ActiveRead, Repl};
use crate::chat::inline_screen::TerminalOwner;
use crate::chat::input_reader::ReadRequest;
use crate::chat::plain_view::lines;
use crate::chat::program_prompt::{ProgramPrompt, PromptOutcome};
use crate::chat::{BY, ReplLayout};
use crate::render::words;

impl Repl {
    /// Returns the oldest unanswered question, if any. Returns `None` while the turn is being stopped.
    pub(super) fn open_question(&self) -> Option<&Question> {
        if *self.transcript.phase() == SessionPhase::Stopping {
            return None;
        }
        self.transcript.questions().iter().find(|question| !self.settled.contains(&question.id))
    }

    pub(super) fn ask_for_program(&mut self) -> io::Result<()> {
        let Some(question) = self.open_question().cloned() else { return Ok(()) };
        let look = self.screen.render_options();
        let sheet = match self.context.form {
            ReplLayout::Panels { .. } => {
                self.screen.set_owner(TerminalOwner::Prompt)?;
                ProgramPrompt::panel(&question, look)
            }
            ReplLayout::Plain => {
                self.screen.blank_row()?;
                let sheet = ProgramPrompt::lines(&question, look.width);
                self.screen.text(&lines(&sheet.rows))?;
                ProgramPrompt { rows: Vec::new(), ..sheet }
            }
        };
        self.active_read = ActiveRead::ProgramPrompt(question.id);
        self.drawn_prompt = Some(question.id);
        self.console.request(ReadRequest::ProgramPrompt(sheet));
        Ok(())
    }

    /// Handles the user's answer. The first Ctrl+C only declines the question; the second one stops the turn.
    pub(super) fn handle_prompt_outcome(&mut self, id: QuestionId, reply: PromptOutcome) -> io::Result<()> {
        if matches!(reply, PromptOutcome::Withdrawn) || !self.settled.insert(id) {
            return Ok(());
        }
        match reply {
            PromptOutcome::Given(text) => {
                if self.session.answer(id, prompter::PromptReply::Given { by: BY.to_owned(), text }) {
                    return Ok(());
                }
                self.view.say("the prompt is no longer open", StyleRole::Warn, &mut self.screen)
            }
            PromptOutcome::NoSecret => {
                self.session.answer(id, prompter::PromptReply::NoSecret);
                // A user who answers this knows what to type instead.
                if self.session.terminal().is_some() && self.context.form != ReplLayout::Plain {
                    self.request_shell()?;
                }
                Ok(())
            }
            PromptOutcome::Interrupted
                if self.running() && std::mem::replace(&mut self.question_interrupted, true) =>
            {
                self.handle_interrupt()?;
                self.session.answer(id, prompter::PromptReply::Refused);
                Ok(())
            }
            PromptOutcome::Refused | PromptOutcome::Interrupted => {
                self.session.answer(id, prompter::PromptReply::Refused);
                self.note(if self.running() { "declined; press Ctrl+C to stop the turn" } else { "declined" })
            }
            PromptOutcome::Withdrawn => Ok(()),
        }
    }

    /// Returns a message if the update closed the displayed question and the question was not answered here.
    pub(super) fn closed_prompt_text(&mut self, update: &Update) -> Option<String> {
        let Update::Delta(Delta::QuestionClosed { id, by }) = update else { return None };
        if self.settled.remove(id) || self.drawn_prompt != Some(*id) {
            return None;
        }
        let question = self.transcript.questions().iter().find(|question| question.id == *id)?;
        Some(match by {
            Some(by) => format!("{by} answered {}", question.from),
            None => format!("{} prompt closed", question.from),
        })
    }

    /// Prints the host, the root and the current activity.
    pub(super) fn show_location(&mut self) -> io::Result<()> {
        let Some(facts) = self.transcript.session_info() else {
            return self.note("the session is not open yet");
        };
        let here = words::is_local_host(facts.place());
        let place = if here { "this machine".to_owned() } else { sysop_core::ui_text::place(facts.place()) };
        let mut text = format!("host: {place}, root: {}", facts.root);
        text.push_str(match self.transcript.phase() {
            SessionPhase::Paused { .. } => "; a turn is paused",
            SessionPhase::Idle => "; idle",
            SessionPhase::Thinking { .. }
            | SessionPhase::AwaitingApproval { .. }
            | SessionPhase::Running { .. }
            | SessionPhase::Stopping => "; a turn is running",
        });
        if let Some(holder) = self.transcript.holder() {
            text.push_str(&format!("; {holder} is using the terminal"));
        }
        self.note(&text)?;
        let hosts = self.context.service.hosts();
        if hosts.is_empty() {
            return Ok(());
        }
        let known: Vec<String> =
            hosts.iter().map(|host| format!("{:<20} {}", host.name, host.description)).collect();
        self.view.say(&known.join("\n"), StyleRole::Text, &mut self.screen)?;
        self.note("start a session on another host with /host DEST")
    }
}
