//! Effect previews of calls that wait for approval: when a probe runs, and where its lines go.
//!
//! The approval waits a short time for its preview. If the probe takes longer, approval is requested without
//! the preview, and the preview follows as an event. A preview changes neither the risk nor the verdict. After a
//! replay, an approval keeps the preview that the log contains; only a probe that was running then is known to be lost.

use super::Session;
use crate::event::{Effect, Event, Origin, Output, ToolLocation};
use crate::id::CallId;
use crate::message::ToolCall;
use crate::policy::Survey;
use crate::preview::{self, PreviewPlan};

/// Maximum probes of edited commands for one approval. The effect of later edits is unknown.
const EDITS_MAX: u32 = 100;

#[derive(Debug, Clone, Default)]
pub(super) struct Previews {
    /// Number of probes started; the source of `attempt`.
    attempts: u32,
    pending: Option<PendingPreview>,
    /// The call that is waiting for approval, with the circumstances in which its command would run.
    survey: Option<(CallId, Box<Survey>)>,
    /// Number of edited commands for this call so far.
    edits: u32,
}

#[derive(Debug, Clone)]
struct PendingPreview {
    attempt: u32,
    call: CallId,
    /// The edited command that the probe describes.
    command: Option<String>,
    /// The approval that is waiting for this preview.
    delayed: Option<Box<(Event, Origin)>>,
}

impl Previews {
    /// Returns true if an approval is waiting for its preview.
    pub(super) fn delays_approval(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.delayed.is_some())
    }
}

impl Session {
    /// Requests approval. If the call has a preview, its probe runs first.
    pub(super) fn ask_with_preview(
        &mut self,
        out: &mut Output,
        asked: Event,
        origin: Origin,
        survey: &Survey,
    ) {
        self.previews.survey = None;
        self.previews.edits = 0;
        let mut planned = None;
        if let Event::ApprovalAsked { call, .. } = &asked
            && self.location(call) == ToolLocation::Host
        {
            let known = preview::is_probeable(survey).then(|| (call.id.clone(), Box::new(survey.clone())));
            self.previews.survey = known;
            planned = self.preview_plan(call).map(|plan| (call.id.clone(), plan));
        }
        let Some((call, plan)) = planned else { return self.emit(out, asked) };
        match finished(&plan) {
            Some(lines) => self.emit(out, with_preview(asked, lines)),
            None => self.start_preview(out, plan, call, None, Some(Box::new((asked, origin)))),
        }
    }

    fn preview_plan(&self, call: &ToolCall) -> Option<PreviewPlan> {
        let (_, survey) = self.previews.survey.as_ref().filter(|(id, _)| *id == call.id)?;
        let spec = self.offered_tools().named(&call.name)?;
        preview::plan_of(spec, call, survey, self.state.spec.approve)
    }

    fn start_preview(
        &mut self,
        out: &mut Output,
        plan: PreviewPlan,
        call: CallId,
        command: Option<String>,
        delayed: Option<Box<(Event, Origin)>>,
    ) {
        self.cancel_preview(out);
        self.previews.attempts = self.previews.attempts.wrapping_add(1);
        let attempt = self.previews.attempts;
        self.previews.pending = Some(PendingPreview { attempt, call, command, delayed });
        out.effects.push(Effect::Preview { attempt, plan: Box::new(plan) });
    }

    /// Stops a running probe. An approval that is waiting for it is dropped.
    pub(super) fn cancel_preview(&mut self, out: &mut Output) {
        if let Some(pending) = self.previews.pending.take() {
            out.effects.push(Effect::CancelPreview { attempt: pending.attempt });
        }
    }

    /// After a configuration change, reviews a call again for which approval has not been requested yet.
    pub(super) fn review_again(&mut self, out: &mut Output) {
        let delayed = self.previews.pending.as_mut().and_then(|pending| pending.delayed.take());
        let Some((Event::ApprovalAsked { call, .. }, origin)) = delayed.map(|delayed| *delayed) else {
            return;
        };
        self.cancel_preview(out);
        self.start_survey(out, call, origin, None);
    }

    pub(super) fn on_previewed(&mut self, out: &mut Output, attempt: u32, lines: Vec<String>) {
        let Some(pending) = self.previews.pending.take_if(|pending| pending.attempt == attempt) else {
            return; // stale answer: the call was decided, or its command was edited again
        };
        match pending.delayed {
            Some(delayed) => self.emit(out, with_preview(delayed.0, lines)),
            None if self.state.waiting_call(&pending.call).is_some() => {
                let PendingPreview { call, command, .. } = pending;
                self.emit_previewed(out, call, command, lines);
            }
            None => {}
        }
    }

    pub(super) fn on_preview_late(&mut self, out: &mut Output, attempt: u32) {
        let pending = self.previews.pending.as_mut().filter(|pending| pending.attempt == attempt);
        if let Some(delayed) = pending.and_then(|pending| pending.delayed.take()) {
            self.emit(out, with_preview(delayed.0, vec![preview::STILL_CHECKING.to_owned()]));
        }
    }

    /// Says after a replay that the probe for the pending approval was lost.
    pub(super) fn lose_preview(&mut self, out: &mut Output, id: &CallId) {
        if self.state.waiting_call(id).is_some_and(|(_, asked, _)| asked.is_effect_pending) {
            self.emit_previewed(out, id.clone(), None, vec![preview::LOST.to_owned()]);
        }
    }

    /// Previews a command that a user edited. Ignored if the approval was answered in the meantime.
    pub(super) fn on_preview_command(&mut self, out: &mut Output, id: &CallId, command: String) {
        let Some((call, ..)) = self.state.waiting_call(id).filter(|_| self.survey.is_none()) else { return };
        let Some(original) = call.text_argument("command") else { return };
        let edited = (command != original).then(|| command.clone());
        if self.previews.edits >= EDITS_MAX {
            let lines = vec!["effect unknown (edited too often)".to_owned()];
            return self.emit_previewed(out, id.clone(), edited, lines);
        }
        self.previews.edits += 1;
        let call = call.clone().with_command(command);
        self.cancel_preview(out);
        let plan = self.preview_plan(&call);
        let lines = match (&plan, &self.previews.survey) {
            (Some(plan), _) => finished(plan),
            (None, Some(_)) => Some(Vec::new()),
            (None, None) => Some(vec![preview::LOST.to_owned()]),
        };
        match (plan, lines) {
            (_, Some(preview)) => {
                self.emit_previewed(out, call.id, edited, preview);
            }
            (Some(plan), None) => self.start_preview(out, plan, call.id, edited, None),
            (None, None) => {}
        }
    }
}

impl Session {
    /// Emits the preview of the pending approval, with the risk of an edited command.
    fn emit_previewed(
        &mut self,
        out: &mut Output,
        call: CallId,
        command: Option<String>,
        preview: Vec<String>,
    ) {
        let asked = self.state.waiting_call(&call).map(|(_, asked, _)| &asked.risk);
        let risk = command.as_ref().zip(asked).map(|(command, asked)| self.risk_of_edit(command, asked));
        self.emit(out, Event::ApprovalPreviewed { call, command, risk, preview });
    }
}

/// Returns the lines of a plan that needs no probe.
fn finished(plan: &PreviewPlan) -> Option<Vec<String>> {
    let no_probe = plan.script(false).is_none();
    let result = preview::ProbeResult { host: String::new(), output: Ok(Vec::new()) };
    no_probe.then(|| preview::lines(plan, &[result]))
}

fn with_preview(mut asked: Event, lines: Vec<String>) -> Event {
    if let Event::ApprovalAsked { preview, .. } = &mut asked {
        *preview = lines;
    }
    asked
}
