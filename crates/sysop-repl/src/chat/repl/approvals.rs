//! Approval questions and their answers.

use std::io;

use sysop_core::event::{Decision, Event, Input};
use sysop_core::id::CallId;
use sysop_core::policy::RiskClass;
use sysop_core::text::visible_text;
use sysop_term::StyleRole;

use super::{ActiveRead, Repl};
use crate::Exit;
use crate::chat::approval::{ApprovalOutcome, ApprovalPrompt, LateEffect, TextUse};
use crate::chat::inline_screen::TerminalOwner;
use crate::chat::input_reader::ReadRequest;
use crate::chat::plain_view::lines;
use crate::chat::{BY, ReplLayout};
use crate::render::words;

const EDITED_HAS_NO_RULE: &str = "rules are only available for unedited commands";

/// Command of the pending approval, as the user edited it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EditedApproval {
    call: CallId,
    command: String,
}

/// Parts of the open question that a late effect needs.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenApproval {
    late_effect: LateEffect,
    /// The question, if its answer is read as a line.
    line: String,
    /// Call that the user allowed here, with its risk at that time.
    allowed: Option<(CallId, RiskClass)>,
}

impl Repl {
    /// Tells the effect of the call whose question is open.
    pub(super) fn show_late_effect(&mut self, event: &Event) -> io::Result<()> {
        let Event::ApprovalPreviewed { call, command: None, preview, .. } = event else { return Ok(()) };
        if self.active_read != ActiveRead::Approval(call.clone()) || self.answered.as_ref() == Some(call) {
            return Ok(());
        }
        let lines = words::late_effect(preview);
        match self.context.form {
            ReplLayout::Panels { .. } => self.open_approval.late_effect.show(lines),
            ReplLayout::Plain => {
                let question = &self.open_approval.line;
                self.screen.text(&format!("\n{}\n{question}", lines.join("\n")))?;
            }
        }
        Ok(())
    }

    /// Returns true if the user has edited the command of this call, and its effect is not known yet.
    pub(super) fn awaits_preview(&self, call: &CallId) -> bool {
        let edited = self.edited.as_ref().filter(|edited| edited.call == *call);
        edited.is_some_and(|edited| {
            self.transcript.plan(call).is_some_and(|plan| plan.previewed_command() != edited.command)
        })
    }

    /// Returns the command that was shown last, if it is an edited one.
    fn edited_command(&self, call: &CallId) -> Option<String> {
        let edited = self.edited.as_ref().filter(|edited| edited.call == *call)?;
        let plan = self.transcript.plan(call).filter(|plan| plan.command != edited.command)?;
        (plan.previewed_command() == edited.command).then(|| edited.command.clone())
    }

    pub(super) fn ask_question(&mut self, call: &CallId) -> io::Result<()> {
        let Some(plan) = self.transcript.plan(call) else { return Ok(()) };
        let rule = self.context.service.offered_rule(self.session.id(), &self.transcript, plan);
        let is_edited = self.edited.as_ref().is_some_and(|edited| edited.call == *call);
        let shown = if is_edited { plan.as_previewed() } else { plan.clone() };
        let rule = rule.filter(|_| shown.command == plan.command);
        let question = self.view.question(&shown, &self.transcript, &self.screen);
        let no_rule = if is_edited { EDITED_HAS_NO_RULE } else { question.no_rule };
        let text_use = match self.context.form {
            ReplLayout::Panels { .. } if self.is_own(call) => TextUse::Draft,
            ReplLayout::Panels { .. } | ReplLayout::Plain => question.text_use,
        };
        let question = ApprovalPrompt { rule, no_rule, text_use, ..question };
        match self.context.form {
            ReplLayout::Panels { .. } => self.screen.set_owner(TerminalOwner::Prompt)?,
            ReplLayout::Plain => {
                self.screen.blank_row()?;
                self.screen.text(&lines(&question.rows))?;
            }
        }
        self.active_read = ActiveRead::Approval(call.clone());
        let (late_effect, line) = (question.late_effect.clone(), question.line_question());
        self.open_approval = OpenApproval { late_effect, line, allowed: None };
        self.console.request(ReadRequest::Approval(Box::new(question)));
        Ok(())
    }

    /// Stops the turn, because the input ended at the question and nobody else is known to answer it.
    pub(super) async fn end_without_answer(&mut self, call: CallId) -> io::Result<()> {
        let text = "the input ended before an answer, so nothing was run";
        self.view.say(text, StyleRole::Warn, &mut self.screen)?;
        self.exit_at_end = Exit::ApprovalNeeded;
        self.answer(call, ApprovalOutcome::StopTurn).await
    }

    pub(super) async fn answer(&mut self, call: CallId, answer: ApprovalOutcome) -> io::Result<()> {
        if is_early_answer(&self.draft, &answer) {
            self.draft.clear();
        }
        let decision = match answer {
            ApprovalOutcome::Allow => Decision::Allow { command: self.edited_command(&call) },
            ApprovalOutcome::AllowSession => Decision::AllowSession { command: self.edited_command(&call) },
            ApprovalOutcome::Edited(command) => {
                self.edited = Some(EditedApproval { call: call.clone(), command: command.clone() });
                return self.send(Input::PreviewCommand { call, command });
            }
            ApprovalOutcome::Always(offered) => {
                let answered = self.context.service.allow_always(self.session.as_ref(), &offered, BY).await;
                return match answered {
                    Ok(()) => {
                        self.answered = Some(call);
                        self.note(&format!("saved to {}", visible_text(&offered.file)))
                    }
                    Err(error) => self.view.say(&error, StyleRole::Bad, &mut self.screen),
                };
            }
            ApprovalOutcome::Reject(text) if !text.is_empty() && self.is_own(&call) => {
                return self.reject_own(call, text);
            }
            ApprovalOutcome::Reject(reason) => Decision::Reject { reason },
            ApprovalOutcome::StopTurn => Decision::Reject { reason: "stop".to_owned() },
            ApprovalOutcome::Interrupt => return self.handle_interrupt(),
            ApprovalOutcome::Withdrawn => return Ok(()),
        };
        self.decide(call, decision)
    }

    fn decide(&mut self, call: CallId, decision: Decision) -> io::Result<()> {
        self.answered = Some(call.clone());
        if matches!(decision, Decision::Allow { .. } | Decision::AllowSession { .. }) {
            let plan = self.transcript.plan(&call);
            self.open_approval.allowed = plan.map(|plan| (call.clone(), plan.risk.class));
        }
        self.send(Input::Decision { call, decision, by: BY.to_owned(), person: None })
    }

    /// Says why a call that the user allowed here is asked about again.
    pub(super) fn tell_second_question(&mut self, call: &CallId) -> io::Result<()> {
        self.answered = None;
        let allowed = self.open_approval.allowed.take().filter(|(allowed, _)| allowed == call);
        match (allowed, self.transcript.plan(call)) {
            (Some((_, before)), Some(plan)) => self.note(&words::asked_again(before, plan)),
            _ => Ok(()),
        }
    }

    /// Returns true if this user asked for the call.
    fn is_own(&self, call: &CallId) -> bool {
        self.transcript.plan(call).is_some_and(|plan| plan.is_own(self.session.viewer()))
    }

    /// Rejects a call of this user. No model gets the reason, so the text also becomes the draft of a prompt. There are
    /// no drafts without a line editor.
    fn reject_own(&mut self, call: CallId, text: String) -> io::Result<()> {
        self.decide(call, Decision::Reject { reason: text.clone() })?;
        match self.context.form {
            ReplLayout::Panels { .. } => {
                self.add_to_draft(&text);
                self.note("your text was not sent; it is in the input")
            }
            ReplLayout::Plain => self.note("no model gets your text; it is the reason of the rejection"),
        }
    }
}

/// Returns true if text that was typed before a question is nothing but the key with which the question was then
/// answered.
fn is_early_answer(draft: &str, answer: &ApprovalOutcome) -> bool {
    let key = match answer {
        ApprovalOutcome::Allow => "y",
        ApprovalOutcome::AllowSession | ApprovalOutcome::Always(_) => "a",
        ApprovalOutcome::Reject(_) => "n",
        ApprovalOutcome::StopTurn => "s",
        ApprovalOutcome::Edited(_) => "e",
        ApprovalOutcome::Interrupt | ApprovalOutcome::Withdrawn => return false,
    };
    draft.trim().eq_ignore_ascii_case(key)
}
