//! One host of a fleet, with limits on the time that the other hosts wait for it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sysop_core::catalog::{BASH_TIMEOUT_S_DEFAULT, BASH_TIMEOUT_S_MAX};
use sysop_core::guard::GuardTimeout;
use sysop_core::host_names::fold_names;
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{NO_ANSWER, Survey};
use sysop_core::preview::{PreviewPlan, ProbeResult};
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// Time that a host has in addition to the call's own timeout, to connect, stop the command and reply.
const ANSWER_TIME: Duration = Duration::from_secs(90);
/// Maximum time of a survey. It is limited so that one host does not delay the others. Above the time that a survey
/// waits for a connection, so that a silent host counts as unreachable, and below the session's limit on a survey.
const SURVEY_TIME_MAX: Duration = Duration::from_millis(9_500);
/// Maximum time that a call waits for the survey of a host that the last survey did not reach.
const MISSED_SURVEY_TIME_MAX: Duration = Duration::from_secs(1);
/// Time that a host has in addition to a probe's own limit.
const PROBE_ANSWER_TIME: Duration = Duration::from_secs(1);
/// Maximum time for a host to stop a call.
const STOP_TIME: Duration = Duration::from_secs(10);

pub(super) struct Member {
    pub(super) name: Arc<str>,
    pub(super) host: Arc<dyn Host>,
    /// Number of this host's questions that await the user. While there are any, its time limits are paused.
    pub(super) open_prompts: watch::Sender<usize>,
    /// Call whose latest survey did not reach the host, with the reason.
    not_surveyed: Mutex<Option<(CallId, String)>>,
    /// Survey of a host that did not answer in time. It continues, so that a host that is back answers the next one.
    late_survey: Mutex<Option<JoinHandle<Survey>>>,
}

#[derive(Clone, Copy)]
enum CallStopReason {
    Cancelled,
    Overdue(Duration),
}

impl Member {
    pub(super) fn new(name: &str, host: Arc<dyn Host>) -> Self {
        Self {
            name: name.into(),
            host,
            open_prompts: watch::Sender::new(0),
            not_surveyed: Mutex::default(),
            late_survey: Mutex::default(),
        }
    }

    /// Returns the reason why the survey of a call did not reach the host. The call must not run there: the decision on
    /// it knows nothing about this host.
    pub(super) fn missed(&self, call: &CallId) -> Option<String> {
        let missed = self.not_surveyed.lock();
        missed.as_ref().filter(|(surveyed, _)| surveyed == call).map(|(_, why)| why.clone())
    }

    /// Runs one call. Gives up if the host neither replies in time nor stops the call.
    pub(super) async fn run(
        &self,
        call: ToolCall,
        guard: Option<GuardTimeout>,
        sink: DeltaSink,
        cancel: &CancellationToken,
    ) -> Outcome {
        let started = Instant::now();
        let guard_time = guard.map_or(0, |guard| u64::from(guard.seconds));
        let time_max = time_of(&call) + ANSWER_TIME + Duration::from_secs(guard_time);
        let stop = cancel.child_token();
        let running = match guard {
            None => self.host.run(call, sink, stop.clone()),
            Some(guard) => self.host.run_guarded(call, guard, sink, stop.clone()),
        };
        let mut running = pin!(running);
        let why = tokio::select! {
            biased;
            outcome = &mut running => return outcome,
            () = cancel.cancelled() => CallStopReason::Cancelled,
            () = self.overdue(time_max) => CallStopReason::Overdue(time_max),
        };
        stop.cancel();
        let mut outcome = match (timeout(STOP_TIME, running).await, why) {
            (Ok(outcome), CallStopReason::Cancelled) => outcome,
            (Ok(outcome), CallStopReason::Overdue(time)) => timed_out(outcome, time),
            (Err(_), CallStopReason::Cancelled) => unknown("the command did not stop when signaled"),
            (Err(_), CallStopReason::Overdue(time)) => {
                unknown(&format!("no response within {} s, and the command did not stop", time.as_secs()))
            }
        };
        outcome.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        outcome
    }

    /// Surveys a call. Returns a survey without facts if the host does not answer in time. A host that the last survey
    /// did not reach has less time, unless a late survey has reached it since then. It counts as still unreachable if
    /// it does not answer. A host that an earlier survey of the same call did not reach stays unreachable for this
    /// call: whoever allows the call has read that nothing will run there.
    pub(super) async fn survey(&self, call: &ToolCall) -> Survey {
        if let Some(why) = self.missed(&call.id) {
            return Survey { unreachable: Some(why), ..Survey::default() };
        }
        let missed = self.not_surveyed.lock().clone();
        let survey = match missed {
            Some((_, why)) if !self.is_back().await => self.survey_again(call, why).await,
            Some(_) | None => tokio::select! {
                survey = self.host.survey(call) => survey,
                () = self.overdue(SURVEY_TIME_MAX) => Survey::without_facts(no_answer(&[&self.name])),
            },
        };
        *self.not_surveyed.lock() = survey.unreachable.clone().map(|why| (call.id.clone(), why));
        survey
    }

    /// Returns true if a survey that did not answer in time has reached the host in the end.
    async fn is_back(&self) -> bool {
        let ended = self.late_survey.lock().take_if(|late| late.is_finished());
        match ended {
            Some(late) => late.await.is_ok_and(|survey| survey.unreachable.is_none()),
            None => false,
        }
    }

    /// Surveys a call on a host that the last survey did not reach, for the reason `why`.
    async fn survey_again(&self, call: &ToolCall, why: String) -> Survey {
        let still_missed = Survey { unreachable: Some(why), ..Survey::default() };
        if self.late_survey.lock().as_ref().is_some_and(|late| !late.is_finished()) {
            return still_missed;
        }
        let (host, call) = (Arc::clone(&self.host), call.clone());
        let mut surveying = tokio::spawn(async move { host.survey(&call).await });
        tokio::select! {
            biased;
            survey = &mut surveying => return survey.unwrap_or(still_missed),
            () = self.overdue(MISSED_SURVEY_TIME_MAX) => {}
        }
        *self.late_survey.lock() = Some(surveying);
        still_missed
    }

    /// Runs the probe of a preview. Gives up if the host does not reply in time.
    pub(super) async fn probe(&self, plan: &PreviewPlan, cancel: CancellationToken) -> ProbeResult {
        let limit = plan.limit() + PROBE_ANSWER_TIME;
        let output = tokio::select! {
            mut results = self.host.probe(plan, cancel) => match results.pop() {
                Some(result) => result.output,
                None => Err("the host has no previews".to_owned()),
            },
            () = self.overdue(limit) => Err(format!("no answer within {} s", limit.as_secs())),
        };
        ProbeResult { host: self.name.to_string(), output }
    }

    /// Returns after the time `left` has passed. Time during which a question of this host is open does not count.
    async fn overdue(&self, mut left: Duration) {
        let mut open_prompts = self.open_prompts.subscribe();
        loop {
            // Cannot fail: `self` holds the sender.
            let _ = open_prompts.wait_for(|questions| *questions == 0).await;
            let since = Instant::now();
            tokio::select! {
                () = sleep(left) => return,
                _ = open_prompts.wait_for(|questions| *questions > 0) => {
                    left = left.saturating_sub(since.elapsed());
                }
            }
        }
    }
}

/// Returns a clause that says that these hosts did not answer a survey in time.
pub(super) fn no_answer(names: &[&str]) -> String {
    let seconds = SURVEY_TIME_MAX.as_secs_f64();
    format!("{} {NO_ANSWER} {seconds} s", fold_names(names))
}

/// Returns the timeout that the call sets, or the default of `bash`; at most the maximum of `bash`.
fn time_of(call: &ToolCall) -> Duration {
    let asked = match &call.arguments {
        Arguments::Object(arguments) => arguments.get("timeout_s").and_then(serde_json::Value::as_u64),
        Arguments::Invalid(_) => None,
    };
    Duration::from_secs(asked.unwrap_or(BASH_TIMEOUT_S_DEFAULT).min(BASH_TIMEOUT_S_MAX))
}

fn unknown(why: &str) -> Outcome {
    Outcome::new(Status::Unknown, format!("[{why}; the result is unknown]"))
}

/// Marks a call that was stopped as timed out. Other outcomes are returned unchanged.
fn timed_out(outcome: Outcome, time: Duration) -> Outcome {
    if outcome.status != Status::Cancelled {
        return outcome;
    }
    let note = format!("[no response within {} s; stopped]", time.as_secs());
    let border = if outcome.output.is_empty() || outcome.output.ends_with('\n') { "" } else { "\n" };
    Outcome { status: Status::Timeout, output: format!("{}{border}{note}", outcome.output), ..outcome }
}
