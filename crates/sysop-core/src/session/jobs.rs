//! Background jobs: calls of `bash` that the session no longer waits for. They continue on the host, and their outcome
//! ends the job instead of the call.

use std::time::Duration;

use super::Session;
use super::state::{CurrentCall, Phase};
use crate::catalog::{BASH_TIMEOUT_S_DEFAULT, JOBS_TOOL};
use crate::event::{Effect, Event, Origin, Output};
use crate::id::{CallId, JobId};
use crate::job::{Job, JobOutput};
use crate::message::{Arguments, ToolCall};
use crate::outcome::{Outcome, Status};
use crate::tool::ToolEffect;

/// Time to wait before a call with the argument `background` becomes a job. It is long enough to notice a command that
/// fails at once.
const BACKGROUND_AFTER: Duration = Duration::from_secs(1);
/// Maximum time that `jobs` waits for the end of a job.
const READ_WAIT_MAX: Duration = Duration::from_secs(600);

impl Session {
    /// Sets the timer that moves a command to the background, if the arguments of its call ask for that.
    pub(super) fn set_background_timer(&self, out: &mut Output, call: &ToolCall) {
        let Arguments::Object(arguments) = &call.arguments else { return };
        let is_command =
            self.offered_tools().named(&call.name).is_some_and(|spec| spec.effect == ToolEffect::Command);
        if !is_command {
            return;
        }
        let at_once = arguments.get("background").and_then(serde_json::Value::as_bool) == Some(true);
        let later = call.text_argument("on_timeout") == Some("background");
        let after = match (at_once, later) {
            (true, _) => BACKGROUND_AFTER,
            (false, true) => {
                let seconds = arguments.get("timeout_s").and_then(serde_json::Value::as_u64);
                Duration::from_secs(seconds.unwrap_or(BASH_TIMEOUT_S_DEFAULT))
            }
            (false, false) => return,
        };
        out.effects.push(Effect::SetBackgroundTimer { call: call.id.clone(), after });
    }

    /// Moves the running command to the background at a user's request, if the command can become a job.
    pub(super) fn on_background(&self, out: &mut Output) {
        if let Some(call) = self.state.running_call().filter(|call| self.can_be_job(call)) {
            out.effects.push(Effect::SetBackgroundTimer { call: call.id.clone(), after: Duration::ZERO });
        }
    }

    /// Returns true if a call can continue as a background job. Only `bash` can: other tools use the shared terminal,
    /// or end soon.
    fn can_be_job(&self, call: &ToolCall) -> bool {
        call.name == "bash"
    }

    pub(super) fn on_background_timer(&mut self, out: &mut Output, id: &CallId, output: &str) {
        let Some(call) = self.state.running_call().filter(|call| call.id == *id).cloned() else { return };
        if self.state.cancel_requested.is_some() || !self.can_be_job(&call) {
            return;
        }
        let job = JobId(self.state.last_job.0 + 1);
        let host = match self.state.client_tools.named(&call.name) {
            Some(_) => "client".to_owned(),
            None => self.state.spec.host.clone(),
        };
        let command = call.text_argument("command").unwrap_or_default().to_owned();
        self.emit(out, Event::JobStarted { job, call: id.clone(), command, host });
        out.effects.push(Effect::Background { call: id.clone() });
        let text = format!("{output}\n[still running in the background as job {job}; see `{JOBS_TOOL}`]");
        self.finish(out, id.clone(), Outcome::ok(text.trim_start()));
    }

    /// Ends the job that a call became, because the call's outcome arrived. Returns false if the call is not a running
    /// job.
    pub(super) fn end_job(&mut self, out: &mut Output, call: &CallId, outcome: &Outcome) -> bool {
        let Some(job) = self.state.jobs.of_call(call) else { return false };
        let (status, exit_code) = (outcome.status, outcome.exit_code);
        let output = JobOutput { text: outcome.output.clone(), artifact: outcome.artifact.clone() };
        self.emit(out, Event::JobFinished { job, status, exit_code, output });
        true
    }

    pub(super) fn on_stop_job(&mut self, out: &mut Output, job: JobId) {
        if let Some(job) = self.state.jobs.job(job) {
            out.effects.push(Effect::CancelTool { call: job.call.clone() });
        }
    }

    /// Ends all jobs with the status `unknown`. Jobs do not survive the process that ran them, and their progress is
    /// not known.
    pub(super) fn lose_jobs(&mut self, out: &mut Output) {
        let jobs: Vec<JobId> = self.state.jobs.iter().map(|(id, _)| id).collect();
        for job in jobs {
            let (status, output) = (Status::Unknown, JobOutput::default());
            self.emit(out, Event::JobFinished { job, status, exit_code: None, output });
        }
    }

    /// Answers a call of the tool `jobs`. Returns `None` if the answer follows later, because it needs the output of a
    /// running job.
    pub(super) fn call_jobs(&mut self, out: &mut Output, call: &ToolCall, origin: Origin) -> Option<Outcome> {
        let id = match &call.arguments {
            Arguments::Object(arguments) => arguments.get("id").and_then(serde_json::Value::as_u64),
            Arguments::Invalid(_) => None,
        };
        let action = call.text_argument("action").unwrap_or_default();
        let Some(id) = id.and_then(job_id) else {
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
                let wait = match &call.arguments {
                    Arguments::Object(arguments) => {
                        arguments.get("wait_s").and_then(serde_json::Value::as_u64)
                    }
                    Arguments::Invalid(_) => None,
                };
                let wait = Duration::from_secs(wait.unwrap_or_default()).min(READ_WAIT_MAX);
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
        let Arguments::Object(arguments) = &call.arguments else { return };
        let job = arguments.get("id").and_then(serde_json::Value::as_u64).and_then(job_id);
        if call.id != id || call.name != JOBS_TOOL {
            return; // stale answer
        }
        let answer = job.map_or_else(|| Outcome::failed("no such job"), |job| self.job_text(job, output));
        self.finish_and_requeue(out, id, answer);
    }

    /// Returns the text about a job for the model. `output` is the output so far, if the job is still running.
    fn job_text(&self, id: JobId, output: &str) -> Outcome {
        if let Some(job) = self.state.jobs.job(id) {
            return Outcome::ok(format!("{output}\n[job {id} is running: {}]", job.command).trim_start());
        }
        let Some(ended) = self.state.ended_jobs.iter().find(|ended| ended.id == id) else {
            return Outcome::failed(format!("no job has the id {id}; {}", self.list_jobs()));
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

fn job_id(number: u64) -> Option<JobId> {
    u32::try_from(number).ok().map(JobId)
}
