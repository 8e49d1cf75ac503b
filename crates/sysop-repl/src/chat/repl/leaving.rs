//! Leaving the REPL: the warning before background jobs are stopped, and the last row.

use std::io;

use sysop_core::event::{Event, Input, StopReason};
use sysop_term::StyleRole;

use super::{ActiveRead, LEAVE, Repl};
use crate::Exit;
use crate::chat::inline_screen::TerminalOwner;
use crate::chat::input_reader::UserInput;
use crate::chat::{ExitBehavior, ReplLayout};

impl Repl {
    /// Follows how the last turn of the model ended, which is the exit code at the end of an input that is no terminal.
    /// The failure of a typed command is none of the task.
    pub(super) fn note_failure(&mut self, event: &Event) {
        let Event::TurnEnded { reason, .. } = event else { return };
        let is_of_model = self.transcript.iteration() > 0;
        if is_of_model && !self.is_on_terminal && self.exit_at_end != Exit::ApprovalNeeded {
            let has_failed = matches!(reason, StopReason::Failed | StopReason::MaxIterations);
            self.exit_at_end = if has_failed { Exit::Failed } else { Exit::Done };
        }
    }

    /// Handles Ctrl+D at the prompt.
    pub(super) fn end_of_input(&mut self) -> io::Result<()> {
        self.leave_or_warn(self.exit_at_end, "press Ctrl+D")
    }

    /// Leaves at once, unless that would stop background jobs: then the user must do it twice. A pipe ends only once.
    /// `action` tells the user to do it.
    pub(super) fn leave_or_warn(&mut self, exit: Exit, action: &str) -> io::Result<()> {
        let stops_jobs = self.context.leaving == ExitBehavior::StopTurn && self.is_on_terminal;
        let running = match self.transcript.jobs().len() {
            0 => None,
            1 => Some(("1 background job is running".to_owned(), "it")),
            count => Some((format!("{count} background jobs are running"), "them")),
        };
        let Some((running, them)) = running.filter(|_| stops_jobs && !self.quit_asked) else {
            self.leaving = Some(exit);
            return Ok(());
        };
        let warning = format!("{running}; {action} again to stop {them} and quit");
        self.quit_asked = true;
        self.view.say(&warning, StyleRole::Warn, &mut self.screen)
    }

    pub(super) async fn leave(mut self, exit: Exit) -> anyhow::Result<Exit> {
        let stops = self.context.leaving == ExitBehavior::StopTurn && !self.is_closed;
        if stops && self.running() && !self.turn_interrupted {
            self.send(Input::Cancel)?;
        }
        self.alternate_screen = None;
        self.left_shell(false);
        // In the plain layout, a line cannot be withdrawn.
        let can_be_taken_back = match self.context.form {
            ReplLayout::Panels { .. } => self.active_read != ActiveRead::None,
            ReplLayout::Plain => matches!(self.active_read, ActiveRead::ProgramPrompt(_)),
        };
        if can_be_taken_back {
            self.console.withdraw();
            // The reader restores the terminal before its last answer; the wait is bounded.
            let last_answer = async {
                while let Some(UserInput::Typing(_) | UserInput::Notice(_)) = self.console.next_input().await
                {
                }
            };
            let _ = tokio::time::timeout(LEAVE, last_answer).await;
            self.screen.set_typed("")?;
            self.screen.set_owner(TerminalOwner::Output)?;
        }
        if self.is_closed && self.is_on_terminal {
            // What was typed for the session is not for the shell.
            let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
        }
        self.screen.last_row(None)?;
        if self.transcript.turn().0 > 0 && (self.is_on_terminal || self.is_closed) {
            let id = self.session.id().short();
            let text = format!("To resume this session: {}{id}", self.context.resume_command);
            self.note(&text)?;
        }
        Ok(exit)
    }
}
