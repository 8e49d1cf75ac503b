//! Background jobs: calls to `bash` that the session no longer waits for. They continue on the host, and
//! their outcome ends the job instead of the call.

use std::time::Duration;

use super::Session;
use super::state::{CurrentCall, Phase};
use crate::catalog::{
    BACKGROUND, BASH_TIMEOUT_S_DEFAULT, BASH_TOOL, JOBS_TOOL, ON_TIMEOUT, TIMEOUT_S, is_background_on_timeout,
};
use crate::event::{Effect, Event, Origin, Output};
use crate::id::{CallId, JobId};
use crate::job::{JOBS_MAX, Job, JobOutput};
use crate::message::{Arguments, ToolCall};
use crate::outcome::{Outcome, Reversibility, Status};
use crate::policy::{Assessment, Finding, RiskClass};
use crate::tool::{CLIENT_MACHINE, ToolEffect};
use crate::tool_time_limit;

/// Time to wait before a call with the argument `background` becomes a job. Long enough to notice an immediate failure.
const BACKGROUND_AFTER: Duration = Duration::from_secs(1);
/// Maximum time that `jobs` waits for the end of a job.
const READ_WAIT_MAX: Duration = Duration::from_secs(600);

/// Time limit of a command, from the arguments of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeLimit {
    /// The command is stopped at its limit.
    Kill(Duration),
    /// The command becomes a job at its limit.
    Background(Duration),
    /// The command becomes a job soon after its start.
    None,
}

impl TimeLimit {
    fn of(call: &ToolCall) -> Self {
        if let Arguments::Object(arguments) = &call.arguments
            && arguments.get("background").and_then(serde_json::Value::as_bool) == Some(true)
        {
            return Self::None;
        }
        let limit = Duration::from_secs(number(call, TIMEOUT_S).unwrap_or(BASH_TIMEOUT_S_DEFAULT));
        match call.text_argument(ON_TIMEOUT) {
            Some(BACKGROUND) => Self::Background(limit),
            Some(_) | None => Self::Kill(limit),
        }
    }

    /// Returns the time after which the command becomes a job; `None` if it never does.
    fn background_after(self) -> Option<Duration> {
        match self {
            Self::Kill(_) => None,
            Self::Background(limit) => Some(limit),
            Self::None => Some(BACKGROUND_AFTER),
        }
    }
}

/// Adds a finding about how long the command may run, unless that is the limit `default` or less.
pub(super) fn with_time_limit(mut assessment: Assessment, call: &ToolCall, default: Duration) -> Assessment {
    if call.name != BASH_TOOL {
        return assessment;
    }
    let why = match TimeLimit::of(call) {
        TimeLimit::Kill(limit) if limit <= default => return assessment,
        TimeLimit::Kill(limit) => format!("may run for up to {} s", limit.as_secs()),
        TimeLimit::Background(limit) => {
            format!("continues in the background if it takes longer than {} s", limit.as_secs())
        }
        TimeLimit::None => "runs in the background, without a time limit".to_owned(),
    };
    let class = assessment.risk.class;
    assessment.risk.findings.push(Finding { start: 0, end: 0, class, why });
    assessment
}

impl Session {
    /// Returns the reason why a call that may become a job cannot run: too many jobs are already running.
    pub(super) fn lacks_room_for_job(&self, call: &ToolCall) -> Option<String> {
        let may_be_job = call.name == BASH_TOOL && TimeLimit::of(call).background_after().is_some();
        (may_be_job && !self.can_be_job(call)).then(|| {
            format!("not run: {JOBS_MAX} background jobs are running; stop one with `{JOBS_TOOL}` first")
        })
    }

    /// Returns the time limit of calls to `bash` that specify none.
    pub(super) fn default_time_limit(&self) -> Duration {
        let limit = self.offered_tools().named(BASH_TOOL).and_then(tool_time_limit::time_limit);
        Duration::from_secs(limit.unwrap_or(BASH_TIMEOUT_S_DEFAULT))
    }

    /// Returns the call with the session's time limit, if the call runs a command and specifies none. The log keeps the
    /// call as its author wrote it.
    pub(super) fn with_default_time_limit(&self, call: ToolCall) -> ToolCall {
        match self.offered_tools().named(&call.name) {
            Some(spec) => tool_time_limit::with_time_limit(spec, call),
            None => call,
        }
    }

    /// Like [`Self::with_default_time_limit`], with the session's default action at the limit of `bash` in addition.
    pub(super) fn with_default_limits(&self, call: ToolCall) -> ToolCall {
        let mut call = self.with_default_time_limit(call);
        let is_background = self.offered_tools().named(&call.name).is_some_and(is_background_on_timeout);
        if is_background
            && self.can_be_job(&call)
            && let Arguments::Object(arguments) = &mut call.arguments
        {
            arguments.entry(ON_TIMEOUT).or_insert_with(|| BACKGROUND.into());
        }
        call
    }

    /// Sets the timer that moves a command to the background, if the arguments of its call ask for that.
    pub(super) fn set_background_timer(&self, out: &mut Output, call: &ToolCall) {
        let is_command =
            self.offered_tools().named(&call.name).is_some_and(|spec| spec.effect == ToolEffect::Command);
        if let Some(after) = TimeLimit::of(call).background_after().filter(|_| is_command) {
            out.effects.push(Effect::SetBackgroundTimer { call: call.id.clone(), after });
        }
    }

    /// Moves the running command to the background at a user's request, if the command can become a job.
    pub(super) fn on_background(&self, out: &mut Output) {
        if let Some(call) = self.state.running_call().filter(|call| self.can_be_job(call)) {
            out.effects.push(Effect::SetBackgroundTimer { call: call.id.clone(), after: Duration::ZERO });
        }
    }

    /// Returns true if a call can continue as one more background job. Only `bash` can: other tools use the
    /// shared terminal, or finish soon.
    fn can_be_job(&self, call: &ToolCall) -> bool {
        call.name == BASH_TOOL && self.state.jobs.len() < JOBS_MAX
    }

    pub(super) fn on_background_timer(&mut self, out: &mut Output, id: &CallId, output: &str) {
        let Some(call) = self.state.running_call().filter(|call| call.id == *id).cloned() else { return };
        if self.state.cancel_requested.is_some() || !self.can_be_job(&call) {
            return;
        }
        let job = JobId(self.state.last_job.0 + 1);
        let host = match self.state.client_tools.named(&call.name) {
            Some(_) => CLIENT_MACHINE.to_owned(),
            None => self.state.spec.host.clone(),
        };
        let command = call.text_argument("command").unwrap_or_default().to_owned();
        let reads = self.risk_as_written(&command).class <= RiskClass::ReadsRemote;
        self.emit(out, Event::JobStarted { job, call: id.clone(), command, host });
        out.effects.push(Effect::Background { call: id.clone() });
        let text = format!("{output}\n[still running in the background as job {job}; see `{JOBS_TOOL}`]");
        let outcome = Outcome {
            duration_ms: self.running_ms(id),
            job: Some(job),
            // The state before a command is compared when its call ends, which a job does not wait for.
            undo: (!reads).then_some(Reversibility::None),
            ..Outcome::ok(text.trim_start())
        };
        self.finish(out, id.clone(), outcome);
    }

    /// Returns the time since the call was started, in milliseconds.
    fn running_ms(&self, call: &CallId) -> u64 {
        let since = self.running_since.as_ref().filter(|(running, _)| running == call);
        since.map_or(0, |(_, since)| u64::try_from(self.now.0.saturating_sub(since.0)).unwrap_or_default())
    }

    /// Ends the job that a call became, after its outcome arrived. Returns false if the call is not a running job.
    pub(super) fn end_job(&mut self, out: &mut Output, call: &CallId, outcome: &Outcome) -> bool {
        let Some(job) = self.state.jobs.of_call(call) else { return false };
        let (status, exit_code) = (outcome.status, outcome.exit_code);
        let output = JobOutput { text: outcome.output.clone(), artifact: outcome.artifact.clone() };
        self.emit(out, Event::JobFinished { job, status, exit_code, output });
        true
    }

    pub(super) fn on_stop_job(&mut self, out: &mut Output, job: JobId) {
        out.effects.push(match self.state.jobs.job(job) {
            Some(job) => Effect::CancelTool { call: job.call.clone() },
            None => Effect::Notify { text: self.not_running(job).replace('\n', "; ") },
        });
    }

    /// Returns the sentence about a job that cannot be stopped.
    fn not_running(&self, id: JobId) -> String {
        match self.state.ended_jobs.iter().any(|ended| ended.id == id) {
            true => format!("job {id} has already ended"),
            false => self.no_such_job(id),
        }
    }

    fn no_such_job(&self, id: JobId) -> String {
        format!("no job has the id {id}; {}", self.list_jobs())
    }

    /// Ends all jobs with the status `unknown`. Jobs do not survive the process that ran them.
    pub(super) fn lose_jobs(&mut self, out: &mut Output) {
        let jobs: Vec<JobId> = self.state.jobs.iter().map(|(id, _)| id).collect();
        for job in jobs {
            let (status, output) = (Status::Unknown, JobOutput::default());
            self.emit(out, Event::JobFinished { job, status, exit_code: None, output });
        }
    }

    /// Answers a call to the tool `jobs`. Returns `None` if the answer follows after a running job is read.
    pub(super) fn call_jobs(&mut self, out: &mut Output, call: &ToolCall, origin: Origin) -> Option<Outcome> {
        let action = call.text_argument("action").unwrap_or_default();
        let Some(id) = job_id(call) else {
            return Some(match action {
                "list" => Outcome::ok(self.list_jobs()),
                _ => Outcome::failed(format!("`{action}` needs the `id` of a job")),
            });
        };
        let Some(Job { call: job_call, .. }) = self.state.jobs.job(id).cloned() else {
            return Some(self.job_text(id, ""));
        };
        match action {
            "list" => Some(Outcome::ok(self.list_jobs())),
            "stop" => {
                out.effects.push(Effect::CancelTool { call: job_call });
                Some(Outcome::ok(format!("job {id} is being stopped")))
            }
            _ => {
                let wait = number(call, "wait_s").unwrap_or_default();
                let wait = Duration::from_secs(wait).min(READ_WAIT_MAX);
                if origin == Origin::Model {
                    self.emit(out, Event::ToolStarted { call: call.clone(), origin });
                }
                out.effects.push(Effect::ReadJob { call: call.id.clone(), job: job_call, wait });
                None
            }
        }
    }

    pub(super) fn on_job_read(&mut self, out: &mut Output, id: CallId, output: &str) {
        let Phase::Acting { work: CurrentCall::Running { call, .. }, .. } = &self.state.phase else { return };
        if call.id != id || call.name != JOBS_TOOL {
            return; // stale answer
        }
        let answer = match job_id(call) {
            Some(job) => self.job_text(job, output),
            None => Outcome::failed("no such job"),
        };
        self.finish_and_requeue(out, id, answer);
    }

    /// Returns the text about a job for the model. `output` is the output so far, if the job is still running.
    fn job_text(&self, id: JobId, output: &str) -> Outcome {
        if let Some(job) = self.state.jobs.job(id) {
            return Outcome::ok(format!("{output}\n[job {id} is running: {}]", job.command).trim_start());
        }
        let Some(ended) = self.state.ended_jobs.iter().find(|ended| ended.id == id) else {
            return Outcome::failed(self.no_such_job(id));
        };
        let text = format!("{}\n[job {id} ended, {}: {}]", ended.output, ended.result(), ended.job.command);
        Outcome::ok(text.trim_start())
    }

    fn list_jobs(&self) -> String {
        let running = self.state.jobs.iter();
        let running = running.map(|(id, job)| format!("{id}: running on {}: {}", job.host, job.command));
        let ended = self.state.ended_jobs.iter();
        let ended = ended.map(|ended| {
            format!("{}: {} on {}: {}", ended.id, ended.result(), ended.job.host, ended.job.command)
        });
        let lines: Vec<String> = running.chain(ended).collect();
        if lines.is_empty() { "no background jobs".to_owned() } else { lines.join("\n") }
    }
}

fn number(call: &ToolCall, argument: &str) -> Option<u64> {
    match &call.arguments {
        Arguments::Object(arguments) => arguments.get(argument)?.as_u64(),
        Arguments::Invalid(_) => None,
    }
}

fn job_id(call: &ToolCall) -> Option<JobId> {
    number(call, "id").and_then(|id| u32::try_from(id).ok()).map(JobId)
}
