//! Approval prompts and their answers.

use std::io;

use sysop_core::event::{Decision, Input};
use sysop_core::id::CallId;
use sysop_term::StyleRole;

use super::{ActiveRead, Repl};
use crate::chat::approval::{ApprovalOutcome, ApprovalPrompt};
use crate::chat::inline_screen::TerminalOwner;
use crate::chat::input_reader::ReadRequest;
use crate::chat::plain_view::lines;
use crate::chat::{BY, ReplLayout};

impl Repl {
    pub(super) fn ask_question(&mut self, call: &CallId) -> io::Result<()> {
        let Some(plan) = self.transcript.plan(call) else { return Ok(()) };
        let rule = self.context.service.offered_rule(self.session.id(), &self.transcript, plan);
        let question = self.view.question(plan, &self.transcript, &self.screen);
        let question = ApprovalPrompt { rule, ..question };
        match self.context.form {
            ReplLayout::Panels { .. } => self.screen.set_owner(TerminalOwner::Prompt)?,
            ReplLayout::Plain => {
                self.screen.blank_row()?;
                self.screen.text(&lines(&question.rows))?;
            }
        }
        self.active_read = ActiveRead::Approval(call.clone());
        self.console.request(ReadRequest::Approval(Box::new(question)));
        Ok(())
    }

    pub(super) async fn answer(&mut self, call: CallId, answer: ApprovalOutcome) -> io::Result<()> {
        let decision = match answer {
            ApprovalOutcome::Allow(command) => Decision::Allow { command },
            ApprovalOutcome::AllowSession(command) => Decision::AllowSession { command },
            ApprovalOutcome::Always(offered) => {
                let answered = self.context.service.allow_always(self.session.as_ref(), &offered, BY).await;
                return match answered {
                    Ok(()) => {
                        self.answered = Some(call);
                        Ok(())
                    }
                    Err(error) => self.view.say(&error, StyleRole::Bad, &mut self.screen),
                };
            }
            ApprovalOutcome::Reject(reason) => Decision::Reject { reason },
            ApprovalOutcome::StopTurn => Decision::Reject { reason: "stop".to_owned() },
            ApprovalOutcome::Interrupt => return self.handle_interrupt(),
            ApprovalOutcome::Withdrawn => return Ok(()),
        };
        self.answered = Some(call.clone());
        self.send(Input::Decision { call, decision, by: BY.to_owned(), person: None })
    }
}
