//! The end of a run whose call needs an approval that nobody can give. It shows the whole call and why it was asked
//! about.

use sysop_core::event::{Decision, Input};
use sysop_core::id::CallId;
use sysop_core::outcome::NO_TERMINAL;
use sysop_core::policy::RiskClass;
use sysop_core::preview::STILL_CHECKING;
use sysop_core::text::neutralize_line;
use sysop_core::transcript::Proposal;
use sysop_core::ui_text;

use super::ExecRun;
use crate::Exit;
use crate::render::safe;

/// Maximum length of a command that is quoted in the error, in characters. A longer one has lines of its own.
const QUOTED_CHARS_MAX: usize = 200;

impl ExecRun {
    /// Ends the run, because this call needs an approval and nobody can be asked.
    pub(super) fn end_unapproved(&mut self, call: &CallId) -> Option<Exit> {
        let plan = self.transcript.plan(call)?.clone();
        let hint = self.undo_hint.clone().unwrap_or_else(|| ui_text::way_to_approve(&plan));
        let command = safe(&plan.command);
        let is_short = !command.contains('\n') && command.chars().count() <= QUOTED_CHARS_MAX;
        let named = if is_short { format!("`{command}`") } else { "the command below".to_owned() };
        self.printer.error(&format!("{named} needs approval, but {NO_TERMINAL}; it did not run; {hint}"));
        if !is_short {
            command.lines().for_each(|line| self.printer.say(&format!("  {line}")));
        }
        for why in reasons(&plan) {
            self.printer.say(&format!("reason: {}", neutralize_line(why)));
        }
        for finding in plan.risk.findings.iter().filter(|finding| finding.is_unreached()) {
            self.printer.note(&neutralize_line(&finding.why));
        }
        for line in plan.preview.iter().filter(|line| *line != STILL_CHECKING) {
            self.printer.note(&format!("preview: {}", line.replace('\n', " ")));
        }
        if let Some(guard) = plan.guarded.map(ui_text::guarded) {
            self.printer.note(&guard);
        }
        // A server would take this for a decision of its user.
        if self.opened.session.viewer().is_none() {
            let decision = Decision::Reject { reason: NO_TERMINAL.to_owned() };
            let (call, by) = (call.clone(), Decision::BY_SYSOP.to_owned());
            // If the session has ended, there is nothing to reject.
            let _ = self.opened.session.send(Input::Decision { call, decision, by, person: None });
        }
        self.end(Exit::ApprovalNeeded)
    }
}

/// Returns the reasons for which a call is asked about, each once.
fn reasons(plan: &Proposal) -> Vec<&str> {
    let mut reasons: Vec<&str> = Vec::new();
    for finding in plan.risk.findings.iter().filter(|finding| finding.class >= RiskClass::Opaque) {
        if !reasons.contains(&finding.why.as_str()) {
            reasons.push(&finding.why);
        }
    }
    reasons
}
