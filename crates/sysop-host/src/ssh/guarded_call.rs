//! A call under a guard: arm, run, check, log in twice over new connections, confirm; or roll back.
//!
//! Whatever happens to this process or its connection, the host decides by its timer. Nothing runs before the host has
//! said that the guard is armed, and no sentence here says "confirmed" or "rolled back" unless the host did.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sysop_core::catalog::BASH_TIMEOUT_S_DEFAULT;
use sysop_core::guard::{GuardEnd, GuardPlan, GuardReport, GuardRequest, GuardTimeout, plan};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{Fence, GuardOffer, Survey};
use sysop_core::undo::undone_command;
use sysop_driver::port::{CancellationToken, DeltaSink};
use sysop_driver::prompter::Prompter;
use tokio::time::{Instant, sleep};

use super::connection::{ConnectionInner, SshConnection};
use super::error::SshError;
use super::guard::{
    ArmedOnHost, FreshLogin, GuardLine, LoginFailure, Rights, arm, check, fire, fresh_login, probe, state,
};
use crate::tools::{Toolbox, UNDO, push_line};

/// Default value of `[guard] seconds`.
pub const GUARD_SECONDS_DEFAULT: u32 = 120;
/// Minimum time between the two fresh logins that confirm a guarded change.
pub const GUARD_SETTLE_DEFAULT: Duration = Duration::from_secs(2);
/// Maximum time of a fresh login before the change. Users may have to answer prompts.
const BASELINE_MAX: Duration = Duration::from_secs(120);
/// Maximum time to try fresh logins while the host refuses connections, as while its ssh server restarts.
const RETRY_MAX: Duration = Duration::from_secs(20);
/// Time before a denied login is retried. There is only one retry: servers block addresses that keep failing.
const DENIED_WAIT: Duration = Duration::from_secs(3);
/// Time that the host gets beyond its deadline for the rollback itself.
const ROLLBACK_TIME: Duration = Duration::from_secs(20);
/// Time for which an approval without a guard is offered after a fresh login failed before a change.
const NO_LOGIN_TIME: Duration = Duration::from_secs(600);

/// The host's answer to a decision that comes after another one.
const LATE: &str = "late";

/// Guards on one host for one session.
pub(crate) struct Guards {
    inner: Arc<ConnectionInner>,
    /// Configured seconds; 0 turns guards off.
    seconds: u32,
    settle: Duration,
    prompter: Mutex<Option<Arc<dyn Prompter>>>,
    /// Time and reason of the last fresh login that failed before a change.
    no_login: Mutex<Option<(Instant, String)>>,
}

struct GuardEnding {
    how: GuardEnd,
    /// Sentences for the user and the model.
    text: String,
}

impl Guards {
    pub(crate) fn new(connection: &SshConnection, seconds: u32, settle: Duration) -> Self {
        Self {
            inner: Arc::clone(&connection.0),
            seconds,
            settle,
            prompter: Mutex::default(),
            no_login: Mutex::default(),
        }
    }

    pub(crate) fn set_prompter(&self, people: Arc<dyn Prompter>) {
        *self.prompter.lock() = Some(people);
    }

    /// Returns the guard that the host offers for a surveyed call.
    pub(crate) async fn offer(&self, call: &ToolCall, survey: &Survey) -> GuardOffer {
        let refused = |why: &str| GuardOffer::Refused { why: why.to_owned() };
        let request = GuardRequest::of(call);
        if self.seconds == 0 {
            return request.map_or(GuardOffer::NotNeeded, |_| refused("`[guard] seconds` is 0"));
        }
        let Some(command) = call.text_argument("command").filter(|_| is_shell(&call.name)) else {
            return GuardOffer::NotNeeded;
        };
        let analysis = sysop_core::policy::Policy::new(&[], &[]).risk(command, survey);
        if analysis.class != sysop_core::policy::RiskClass::Lockout && request.is_none() {
            return GuardOffer::NotNeeded;
        }
        if call.name != "bash" {
            return refused("the call runs in the shared terminal; only `bash` can be guarded");
        }
        if runs_in_background(call) {
            return refused("the call runs in the background");
        }
        if survey.unreachable.is_some() {
            return refused("the host is unreachable");
        }
        let plan = match plan(command, survey, request) {
            Ok(plan) => plan,
            Err(why) => return refused(why),
        };
        if let Some((at, why)) = self.no_login.lock().clone()
            && at.elapsed() < NO_LOGIN_TIME
        {
            return refused(&format!("a fresh login failed even before the change ({why})"));
        }
        match self.rights(&plan).await {
            Ok(_) => GuardOffer::Offered {
                seconds: GuardTimeout::for_call(self.seconds, timeout_of(call)).seconds,
            },
            Err(why) => refused(&why),
        }
    }

    async fn rights(&self, plan: &GuardPlan) -> Result<Rights, String> {
        let support = probe(&self.inner).await.map_err(|failed| failed.error.to_string())?;
        if self.inner.known_machine_info().is_some_and(|info| info.system != "Linux") {
            return Err("guards work on Linux hosts only".to_owned());
        }
        if !support.has_timer {
            return Err("the host has no timer that outlives the connection".to_owned());
        }
        match (support.is_root, plan.needs_root) {
            (true, _) => Ok(Rights::Root),
            (false, false) => Ok(Rights::Own),
            (false, true) => Err("the guard needs root, and `sudo -n` is refused".to_owned()),
        }
    }

    pub(crate) async fn run(
        &self,
        tools: &Toolbox,
        call: ToolCall,
        timeout: GuardTimeout,
        sink: DeltaSink,
        cancel: &CancellationToken,
    ) -> Outcome {
        let started = std::time::Instant::now();
        let mut outcome = match self.prepare(tools, &call, timeout).await {
            Ok((guard, before, armed_at)) => {
                let id = call.id.clone();
                self.report(&id, GuardReport::Armed { seconds: timeout.seconds });
                let seconds = timeout.command_seconds(self.seconds);
                let outcome = tools.run_under_guard(call, &guard.folder, seconds, sink, cancel).await;
                let ending =
                    self.decide(&guard, &before, deadline(armed_at, timeout), &outcome, cancel).await;
                self.report(&id, GuardReport::Ended { how: ending.how });
                with_ending(outcome, &ending)
            }
            Err(why) => Outcome::failed(format!("not run: {why}")),
        };
        outcome.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        outcome
    }

    fn report(&self, call: &sysop_core::id::CallId, report: GuardReport) {
        if let Some(people) = &*self.prompter.lock() {
            people.guard(call, self.inner.name(), report);
        }
    }

    /// Proves that fresh logins work now, and arms the guard.
    async fn prepare(
        &self,
        tools: &Toolbox,
        call: &ToolCall,
        timeout: GuardTimeout,
    ) -> Result<(ArmedOnHost, FreshLogin, Instant), String> {
        let undone = guarded_command(call);
        let call = undone.as_ref().unwrap_or(call);
        let request = GuardRequest::of(call);
        let survey = tools.survey(call, &Fence::Off).await;
        if let Some(why) = survey.unreachable {
            return Err(why);
        }
        let command = call.text_argument("command").unwrap_or_default();
        let plan =
            plan(command, &survey, request).map_err(|why| format!("the call cannot be guarded: {why}"))?;
        let rights = self.rights(&plan).await.map_err(|why| format!("the call cannot be guarded: {why}"))?;
        let before = fresh_login(&self.inner, None, None, BASELINE_MAX).await.map_err(|failure| {
            let why = failure.to_string();
            *self.no_login.lock() = Some((Instant::now(), why.clone()));
            let again = match request {
                Some(_) => "",
                None => "; call it again to ask for approval without a guard",
            };
            format!("the call cannot be guarded, because a fresh login fails even before the change ({why}){again}")
        })?;
        *self.no_login.lock() = None;
        let armed_at = Instant::now();
        let uid = survey.context.uid.unwrap_or(0);
        let guard = arm(&self.inner, &plan, timeout.seconds, uid, rights)
            .await
            .map_err(|why| format!("the guard could not be armed ({why})"))?;
        Ok((guard, before, armed_at))
    }

    /// Confirms the change or rolls it back.
    async fn decide(
        &self,
        guard: &ArmedOnHost,
        before: &FreshLogin,
        deadline: Instant,
        outcome: &Outcome,
        cancel: &CancellationToken,
    ) -> GuardEnding {
        if cancel.is_cancelled() {
            return self.roll_back(guard, deadline, "the call was stopped").await;
        }
        if outcome.status == Status::Unknown
            && let Err(why) = self.wait_for_end(guard, deadline).await
        {
            return self.roll_back(guard, deadline, why).await;
        }
        if let Some(why) = check(&self.inner, guard, left(deadline)).await {
            return self.roll_back(guard, deadline, &format!("a check failed: {why}")).await;
        }
        let proving = self.prove(guard, before, deadline);
        let proof = tokio::select! {
            biased;
            () = cancel.cancelled() => Err("the call was stopped".to_owned()),
            proof = proving => proof,
        };
        match proof {
            Ok(line) if line.word == "confirmed" => confirmed(&line),
            Ok(_) => self.roll_back(guard, deadline, "the confirmation came too late").await,
            Err(why) => self.roll_back(guard, deadline, &why).await,
        }
    }

    /// Waits until the change has finished on the host, after the connection of its call broke. Fails with the reason
    /// for a rollback.
    async fn wait_for_end(&self, guard: &ArmedOnHost, deadline: Instant) -> Result<(), &'static str> {
        let mut pause = Duration::from_millis(500);
        loop {
            match state(&self.inner, guard, left(deadline)).await {
                Some(line) if line.word != "armed" => {
                    return Err("the connection was down until the timer ran out");
                }
                Some(line) if line.rest != "-" => return Ok(()),
                Some(_) | None => {}
            }
            if left(deadline) < RETRY_MAX.min(pause * 8) {
                return Err("the connection broke, and the change did not finish in time");
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    /// Logs in twice. The second login confirms the guard.
    async fn prove(
        &self,
        guard: &ArmedOnHost,
        before: &FreshLogin,
        deadline: Instant,
    ) -> Result<GuardLine, String> {
        self.log_in(before, None, deadline).await?;
        sleep(self.settle.min(left(deadline) / 4)).await;
        let login = self.log_in(before, Some(guard), deadline).await?;
        login.confirmed.ok_or_else(|| "the host did not acknowledge the confirmation".to_owned())
    }

    async fn log_in(
        &self,
        before: &FreshLogin,
        confirm: Option<&ArmedOnHost>,
        deadline: Instant,
    ) -> Result<FreshLogin, String> {
        let give_up = Instant::now() + RETRY_MAX.min(left(deadline) / 2);
        let mut pause = Duration::from_millis(250);
        let mut denied = 0;
        loop {
            let failure = match fresh_login(&self.inner, Some(before), confirm, left(deadline)).await {
                Ok(login) => return Ok(login),
                Err(failure) => failure,
            };
            let is_denial =
                matches!(failure, LoginFailure::Ssh(SshError::Auth(_) | SshError::NoShell { .. }));
            denied += u32::from(is_denial);
            let wait = if is_denial { DENIED_WAIT } else { pause };
            if failure == LoginFailure::Sudo || denied > 1 || Instant::now() + wait > give_up {
                return Err(format!("a fresh login failed: {failure}"));
            }
            sleep(wait).await;
            pause = (pause * 2).min(Duration::from_secs(4));
        }
    }

    /// Orders the rollback, and waits until the host says that it is done, or until its timer must have fired.
    async fn roll_back(&self, guard: &ArmedOnHost, deadline: Instant, why: &str) -> GuardEnding {
        let until = deadline + ROLLBACK_TIME;
        let mut answer = fire(&self.inner, guard, &short(why), Duration::from_secs(30)).await;
        loop {
            match answer {
                Some(line) if line.word == "fired" => return rolled_back(why, &line.rest),
                Some(line) if line.word == "failed" => {
                    return half_rolled_back(why, &line.rest, self.inner.name());
                }
                Some(line) if line.word == "confirmed" => return confirmed(&line),
                Some(_) | None => {}
            }
            if Instant::now() > until {
                return self.lost(why);
            }
            sleep(Duration::from_millis(500)).await;
            answer = state(&self.inner, guard, Duration::from_secs(15))
                .await
                .map(|line| GuardLine { rest: String::new(), ..line });
        }
    }

    fn lost(&self, why: &str) -> GuardEnding {
        let name = self.inner.name();
        GuardEnding {
            how: GuardEnd::Unknown,
            text: format!(
                "[guard: {why}; {name} is not responding. The timer on the host rolls the change back; see `sysop guard \
                 status {name}`]"
            ),
        }
    }
}

fn confirmed(line: &GuardLine) -> GuardEnding {
    let hole = if line.rest.starts_with("timer-dead") {
        " The timer had died: nothing would have rolled this change back."
    } else {
        ""
    };
    let text = format!("[guard: confirmed after two fresh logins; the change stays.{hole}]");
    GuardEnding { how: GuardEnd::Confirmed, text }
}

fn rolled_back(why: &str, log: &str) -> GuardEnding {
    // The host's timer came first.
    let by = if log == LATE { " by the host's timer" } else { "" };
    // The last line of the log repeats the reason; the rollback may have printed the same words before.
    let end = format!("{}, rc ", short(why));
    let log = log.rsplit_once(&end).map_or(log, |(before, _)| before).trim_matches([';', ' ']);
    let log = if log.is_empty() || log == LATE { String::new() } else { format!(" Log: {log}") };
    let text = format!("[guard: ROLLED BACK{by}, because {why}. Files and settings are restored.{log}]");
    GuardEnding { how: GuardEnd::Fired, text }
}

fn half_rolled_back(why: &str, log: &str, host: &str) -> GuardEnding {
    let log = if log.is_empty() { String::new() } else { format!(" Log: {log}") };
    let text = format!(
        "[guard: the rollback partly FAILED ({why}). Check {host} now, over a connection that is still open.{log}]"
    );
    GuardEnding { how: GuardEnd::Fired, text }
}

fn with_ending(mut outcome: Outcome, ending: &GuardEnding) -> Outcome {
    push_line(&mut outcome.output, &ending.text);
    if ending.how == GuardEnd::Fired {
        // Everything that the call changed is back to its old state.
        (outcome.changed, outcome.records, outcome.undo) = (Vec::new(), Vec::new(), None);
    }
    match ending.how {
        GuardEnd::Confirmed => {}
        GuardEnd::Fired if outcome.status == Status::Cancelled => {}
        // The exit code of a change that was rolled back could look like success.
        GuardEnd::Fired => (outcome.status, outcome.exit_code) = (Status::Failed, None),
        GuardEnd::Unknown => outcome.status = Status::Unknown,
    }
    outcome
}

fn deadline(armed_at: Instant, timeout: GuardTimeout) -> Instant {
    armed_at + Duration::from_secs(u64::from(timeout.seconds))
}

/// Returns the time until the host rolls back, at least a second.
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(1))
}

/// Returns the reason, shortened for the host's log.
fn short(why: &str) -> String {
    why.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// If `call` undoes a command, returns a `bash` call of that command, because the undo needs the same guard as the
/// command. Returns `None` for all other calls.
pub(crate) fn guarded_command(call: &ToolCall) -> Option<ToolCall> {
    let command = undone_command(call).filter(|_| call.name == UNDO)?;
    let arguments = [("command".to_owned(), command.into())].into_iter().collect();
    let (id, name) = (call.id.clone(), "bash".to_owned());
    Some(ToolCall { id, wire_id: None, name, arguments: Arguments::Object(arguments) })
}

fn is_shell(tool: &str) -> bool {
    tool == "bash" || tool == "run_command"
}

fn runs_in_background(call: &ToolCall) -> bool {
    let Arguments::Object(arguments) = &call.arguments else { return false };
    let is = |name: &str, value: serde_json::Value| arguments.get(name) == Some(&value);
    is("background", true.into()) || is("on_timeout", "background".into())
}

/// Returns the timeout in seconds that a call requests, or `None` if it requests none or the default.
fn timeout_of(call: &ToolCall) -> Option<u64> {
    let Arguments::Object(arguments) = &call.arguments else { return None };
    let seconds = arguments.get("timeout_s").and_then(serde_json::Value::as_u64)?;
    (seconds != BASH_TIMEOUT_S_DEFAULT).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::rolled_back;

    #[test]
    fn the_log_of_a_rollback_is_shown_without_its_last_line() {
        let text = |log: &str| rolled_back("no login", log).text;
        let log = "no login shell found; ssh restarted; no login, rc 0, 2026-01-01T00:00:00Z";
        assert!(text(log).ends_with(" Log: no login shell found; ssh restarted]"), "{}", text(log));
        assert!(text("no login, rc 0, 2026-01-01T00:00:00Z").ends_with("are restored.]"));
    }
}
