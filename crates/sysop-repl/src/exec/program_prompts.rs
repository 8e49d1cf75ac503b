//! Questions of programs while a task is running, for passwords, passphrases and host keys. One question is
//! shown at a time. Other output waits in the meantime, because the terminal is in raw mode.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sysop_core::event::{Delta, Update};
use sysop_core::question::{Question, QuestionId, QuestionKind};
use sysop_driver::prompter;
use tokio::sync::mpsc::UnboundedSender;

use super::{BY, ExecRun};
use crate::Exit;
use crate::chat::program_prompt::{ProgramPrompt, PromptOutcome, ask_on_terminal, one_line_summary};

/// Maximum number of updates to defer while a question is open; the oldest are dropped first.
const DEFERRED_UPDATES_MAX: usize = 4_096;

/// Handler that asks the user a program's question. It blocks until there is an answer.
#[derive(Clone)]
pub struct ProgramPromptHandler(pub(super) Arc<ProgramPromptFn>);

type ProgramPromptFn = dyn Fn(&ProgramPrompt, &AtomicBool) -> io::Result<PromptOutcome> + Send + Sync;

pub fn ask_for_programs_on_terminal(color: bool) -> ProgramPromptHandler {
    ProgramPromptHandler(Arc::new(move |sheet, withdrawn| ask_on_terminal(sheet, color, withdrawn)))
}

/// Channel for answers.
pub(super) type PromptSender = UnboundedSender<(QuestionId, io::Result<PromptOutcome>)>;

#[derive(Default)]
pub(super) struct ProgramPrompts {
    /// Handler; `None` if nobody can be asked.
    ask: Option<ProgramPromptHandler>,
    pub(super) open: Option<QuestionId>,
    /// Set to withdraw the open question.
    pub(super) withdrawn: Arc<AtomicBool>,
    settled: Vec<QuestionId>,
    /// True after Ctrl+C declined a question. The next Ctrl+C stops the task.
    interrupted: bool,
    /// Updates to print once the terminal is free.
    deferred: VecDeque<Update>,
}

impl ProgramPrompts {
    pub(super) fn with_handler(ask: Option<ProgramPromptHandler>) -> Self {
        Self { ask, ..Self::default() }
    }

    /// Defers an update until the terminal is free.
    pub(super) fn defer(&mut self, update: &Update) {
        if self.deferred.len() == DEFERRED_UPDATES_MAX {
            self.deferred.pop_front();
        }
        self.deferred.push_back(update.clone());
    }
}

impl ExecRun {
    pub(super) fn handle_program_prompt(&mut self, delta: &Delta, replies: &PromptSender) -> Option<Exit> {
        match delta {
            Delta::Question { question } if self.questions.ask.is_none() || self.ending.is_some() => {
                self.refuse(question)
            }
            Delta::Question { .. } => self.ask_for_program(replies),
            Delta::QuestionClosed { id, .. } => {
                if self.questions.open == Some(*id) {
                    self.questions.withdrawn.store(true, Ordering::Relaxed);
                }
                None
            }
            Delta::Text { .. }
            | Delta::Reasoning { .. }
            | Delta::Output { .. }
            | Delta::Restarted { .. }
            | Delta::Notice { .. }
            | Delta::Progress { .. }
            | Delta::Control { .. } => None,
        }
    }

    /// Declines a program's question because nobody can answer it, and ends the task, which needs the answer.
    fn refuse(&mut self, question: &Question) -> Option<Exit> {
        if !self.opened.session.answer(question.id, prompter::PromptReply::Refused) || self.ending.is_some() {
            return None;
        }
        let next = if is_about_host_key(question) {
            format!("run `{}` once, compare the fingerprint and accept it", question.from)
        } else {
            "run interactively".to_owned()
        };
        let question = one_line_summary(question);
        let why = format!("{question}, but there is no terminal to ask on; {next}");
        self.printer.error(&why);
        self.end(Exit::ApprovalNeeded)
    }

    /// Shows the oldest unanswered question, unless a question is already on the terminal.
    fn ask_for_program(&mut self, replies: &PromptSender) -> Option<Exit> {
        let (None, Some(ask)) = (self.questions.open, self.questions.ask.clone()) else { return None };
        let question =
            self.transcript.questions().iter().find(|it| !self.questions.settled.contains(&it.id))?;
        let (id, sheet) = (question.id, ProgramPrompt::panel(question, self.printer.render_options()));
        if let Err(error) = self.printer.pause() {
            return self.handle_write_error(&error);
        }
        let withdrawn = Arc::new(AtomicBool::new(false));
        self.questions.open = Some(id);
        self.questions.withdrawn = withdrawn.clone();
        let (replies, no_echo) = (replies.clone(), self.no_echo.clone());
        self.spawn_question(move || {
            let reply = (ask.0)(&sheet, &withdrawn);
            drop(no_echo);
            // The receiver is gone if the task has ended.
            let _ = replies.send((id, reply));
        });
        None
    }

    /// Handles the user's answer or a failure to ask.
    pub(super) fn handle_prompt_outcome(
        &mut self,
        id: QuestionId,
        reply: io::Result<PromptOutcome>,
        replies: &PromptSender,
    ) -> Option<Exit> {
        self.questions.open = None;
        self.questions.settled.push(id);
        for update in std::mem::take(&mut self.questions.deferred) {
            if let Err(error) = self.printer.update(&update, &self.transcript) {
                return self.handle_write_error(&error);
            }
        }
        let answer = match reply {
            Ok(PromptOutcome::Given(text)) => prompter::PromptReply::Given { by: BY.to_owned(), text },
            Ok(PromptOutcome::NoSecret) => prompter::PromptReply::NoSecret,
            Ok(PromptOutcome::Refused) => prompter::PromptReply::Refused,
            Ok(PromptOutcome::Interrupted) => {
                let again = std::mem::replace(&mut self.questions.interrupted, true);
                let exit = if again { self.stop(Exit::Interrupted) } else { None };
                self.opened.session.answer(id, prompter::PromptReply::Refused);
                return exit.or_else(|| self.ask_for_program(replies));
            }
            Ok(PromptOutcome::Withdrawn) => return self.ask_for_program(replies),
            Err(error) => {
                self.opened.session.answer(id, prompter::PromptReply::Refused);
                self.printer.error(&format!("cannot prompt on this terminal: {error}"));
                return self.end(Exit::ApprovalNeeded);
            }
        };
        if !self.opened.session.answer(id, answer) {
            self.printer.error("the prompt is no longer open");
        }
        self.ask_for_program(replies)
    }
}

/// Returns true if `ssh` asks about an unknown host key. Prompts that a server chooses are not of this kind.
fn is_about_host_key(question: &Question) -> bool {
    question.kind == QuestionKind::Text
        && question.prompt.trim_start().starts_with("The authenticity of host ")
}
