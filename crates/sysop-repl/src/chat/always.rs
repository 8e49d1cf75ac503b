//! The answer "always": a rule that allows exactly a command, shown before it is written.

use sysop_core::event::{ConfigChange, Input};
use sysop_core::policy::{CommandContext, Rule, Survey};
use sysop_core::transcript::{Proposal, Transcript};
use sysop_driver::frontend::{SessionHandle, SessionService};

/// What this machine is called where hosts are named.
const LOCAL: &str = "local";

/// The rule that "always" would write for a proposal; `None` if it is no plain command, or always asks.
pub(crate) fn rule_for(plan: &Proposal, transcript: &Transcript) -> Option<Rule> {
    plan.session_grant()?;
    plan.call.text_argument("command")?;
    let (host, _) = transcript.session_info()?.place_of(&plan.call.name);
    let host = (host != LOCAL).then(|| host.to_owned());
    Rule::for_command(&plan.command, &Survey::elsewhere(CommandContext { host, ..CommandContext::bash() }))
}

/// Writes a rule into the user's file and gives it to the session.
///
/// # Errors
/// One sentence if the rule cannot be written.
pub(crate) fn save_rule(
    service: &dyn SessionService,
    session: &dyn SessionHandle,
    rule: Rule,
) -> Result<(), String> {
    let origin = service.save_rule(&rule)?;
    let rules = vec![Rule { origin, ..rule }];
    let change = ConfigChange::Rules { dangerous: Vec::new(), deny: Vec::new(), options: None, rules };
    session.send(Input::Configure { change })
}
