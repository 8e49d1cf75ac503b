//! Effect previews of calls that wait for approval. The planning is in [`sysop_shell::preview`]; this module
//! connects it with calls, and cleans the lines before anyone sees or logs them.

use sysop_shell::preview::{PreviewPlace, plan, plan_write};
pub use sysop_shell::preview::{PreviewPlan, ProbeClass, ProbeResult};

use crate::message::ToolCall;
use crate::policy::{ApprovalMode, Survey};
use crate::redact::shapes::redact_shapes;
use crate::text::neutralize_line;
use crate::tool::{RUN_COMMAND, ToolEffect, ToolSpec};

/// Line of an approval whose preview is still being computed. The preview replaces it.
pub const STILL_CHECKING: &str = "effect: still checking";
/// Line that replaces [`STILL_CHECKING`] if the computation was lost.
pub(crate) const LOST: &str = "effect unknown (the session was reopened)";

/// Returns the plan of a call's preview, or `None` if there is nothing to show. In approval mode `never`, a
/// probe is planned only if it reads without creating temporary files or connections.
pub fn plan_of(spec: &ToolSpec, call: &ToolCall, survey: &Survey, mode: ApprovalMode) -> Option<PreviewPlan> {
    let context = &survey.context;
    let planned = match spec.effect {
        ToolEffect::Command => {
            let is_shared_shell = spec.name == RUN_COMMAND;
            // A private shell starts in the root; the shared one may be in any directory.
            let enter = context.folder.clone().filter(|_| is_shared_shell);
            if is_shared_shell && enter.is_none() {
                return None;
            }
            let resolved = survey.targets.clone();
            let place = PreviewPlace { context: context.clone(), enter, is_shared_shell, resolved };
            plan(call.text_argument("command")?, &place)
        }
        ToolEffect::Writes if spec.name == "write_file" => {
            plan_write(call.text_argument("path")?, call.text_argument("content")?)
        }
        ToolEffect::Writes
        | ToolEffect::Reads
        | ToolEffect::Keys
        | ToolEffect::Completes
        | ToolEffect::Session
        | ToolEffect::External
        | ToolEffect::ExternalReads => None,
    };
    planned.filter(|plan| mode != ApprovalMode::Never || plan.class() == ProbeClass::ReadOnly)
}

/// Returns the lines to show for a finished probe, with secrets redacted and control characters escaped.
pub fn lines(plan: &PreviewPlan, results: &[ProbeResult]) -> Vec<String> {
    let text = plan.lines(results).join("\n");
    redact_shapes(&text).lines().map(|line| neutralize_line(line).into_owned()).collect()
}

/// Returns the lines of a preview that are no part of a file's change.
pub fn summary(preview: &[String]) -> &[String] {
    let is_change = |line: &String| line.starts_with("@@ ") || line.starts_with("--- ");
    &preview[..preview.iter().position(is_change).unwrap_or(preview.len())]
}

/// Returns true if the survey describes the machine on which a probe would run.
pub fn is_probeable(survey: &Survey) -> bool {
    survey.resolution == crate::policy::Resolution::Host
}
