//! Skills, background jobs, session grants and the progress of a model call, for front ends.

use std::collections::BTreeMap;

use super::{SessionPhase, Transcript};
use crate::event::{ConfigChange, Decision, Event, Logged, Origin};
use crate::id::{CallId, JobId, Timestamp};
use crate::job::{Job, RunningJobs};
use crate::message::{ModelRef, Usage};
use crate::model_progress::ModelProgress;
use crate::model_table;
use crate::policy::Grant;
use crate::skill::Skill;
use crate::ui_text;

/// Work that hosts tell with a notice, which ends in `…`.
const HOST_WORK: [&str; 3] = ["saving files for undo", "restoring files", "comparing files"];

/// Returns true for a notice that tells the work of a host before or after a command.
pub fn is_host_work(notice: &str) -> bool {
    host_work_of(notice).is_some()
}

/// Returns the work that a notice tells.
fn host_work_of(notice: &str) -> Option<&str> {
    notice.strip_suffix('…').filter(|work| {
        if is_survey(work) {
            return true;
        }
        let work = work.split_once(": ").map_or(*work, |(_, work)| work);
        HOST_WORK.iter().any(|known| work.strip_prefix(known).is_some_and(is_place))
    })
}

/// Returns true for a notice that names the hosts that have not answered the survey of a call.
fn is_survey(work: &str) -> bool {
    let rest =
        ["checking the command on ", "checking the call on "].iter().find_map(|what| work.strip_prefix(what));
    rest.and_then(|rest| rest.split_once(" hosts: waiting for "))
        .is_some_and(|(count, _)| count.parse::<u32>().is_ok())
}

/// Returns true for the part of a notice that names the host, if any.
fn is_place(text: &str) -> bool {
    text.is_empty() || text.starts_with(" on ")
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Resources {
    skills: Vec<Skill>,
    jobs: RunningJobs,
    /// Times at which the commands of the jobs were started.
    job_starts: BTreeMap<JobId, Timestamp>,
    /// The newest call that was started, and the time.
    call_start: Option<(CallId, Timestamp)>,
    /// Grants that a user gave for the session and that have not been revoked.
    grants: Vec<Grant>,
    /// Grant that the proposal awaiting approval offers for the session, if any.
    offered: Option<Grant>,
    progress: Option<ModelProgress>,
    /// True from the start of a step until its reply, even while the session shows a pause.
    calls_model: bool,
    /// Context window that a server reported, with its model.
    window: Option<(ModelRef, u32)>,
    /// Tokens in the model's context: the tokens of the last request and reply, or what a compaction left.
    context: u64,
    /// Work before or after a command, such as `saving files for undo`, while it goes on.
    host_work: Option<String>,
    /// True once a call has got past the survey of its host, so that the host has been reached.
    host_reached: bool,
}

impl Resources {
    pub(super) fn apply(&mut self, Logged { event, at, .. }: &Logged) {
        self.host_work = None;
        // A call that no model proposed may have been denied, or may not reach its host, which only its end tells.
        self.host_reached |=
            matches!(event, Event::ApprovalAsked { .. } | Event::ToolStarted { origin: Origin::Model, .. })
                || matches!(
                    event,
                    Event::ToolFinished { outcome, .. } if !outcome.unreachable && outcome.exit_code.is_some()
                );
        if let Event::InstructionsLoaded { instructions } = event {
            self.skills = instructions.skills.found.iter().map(Skill::without_body).collect();
        }
        if let Event::ToolStarted { call, .. } = event {
            self.call_start = Some((call.id.clone(), *at));
        }
        if let Event::JobStarted { job, call, command, host } = event {
            let start = self.call_start.as_ref().filter(|(started, _)| started == call);
            self.job_starts.insert(*job, start.map_or(*at, |(_, at)| *at));
            let started = Job { call: call.clone(), command: command.clone(), host: host.clone() };
            self.jobs.start(*job, started);
        }
        if let Event::JobFinished { job, .. } = event {
            self.jobs.finish(*job);
            self.job_starts.remove(job);
        }
        self.apply_grants(event);
        self.apply_context(event);
    }
}

impl Resources {
    /// Updates the grants in the same way as `Session::apply`.
    fn apply_grants(&mut self, event: &Event) {
        if let Event::ApprovalAsked { covers, scope, risk, .. } = event {
            let grantable = scope.is_some() && !risk.class.always_asks();
            self.offered = grantable.then(|| covers.clone());
        }
        if let Event::Decided { decision, .. } = event {
            let offered = self.offered.take();
            let (Decision::AllowSession { command }, Some(offered)) = (decision, offered) else { return };
            let grant = match command {
                Some(command) => Grant::Exact { command: command.clone() },
                None => offered,
            };
            if !self.grants.contains(&grant) {
                self.grants.push(grant);
            }
        }
        if let Event::Configured { change: ConfigChange::Revoke(grants), .. } = event {
            self.grants.retain(|grant| !grants.contains(grant));
        }
        if let Event::Configured { change: ConfigChange::ClientTools(_), .. } = event {
            self.grants.clear();
        }
    }

    fn apply_context(&mut self, event: &Event) {
        if let Event::StepStarted { .. } = event {
            (self.progress, self.calls_model) = (None, true);
        }
        if let Event::Replied { .. }
        | Event::ModelFailed { .. }
        | Event::TurnEnded { .. }
        | Event::CancelAsked { .. } = event
        {
            (self.progress, self.calls_model) = (None, false);
        }
        if let Event::Replied { reply, .. } = event
            && reply.usage != Usage::default()
        {
            self.context = reply.usage.input_tokens + reply.usage.output_tokens;
        }
        if let Event::ContextCompacted { compaction } = event {
            self.context = compaction.tokens_after;
        }
        if let Event::HistoryCleared = event {
            self.context = 0;
        }
    }

    pub(super) fn note_window(&mut self, model: &ModelRef, window: Option<u32>) {
        if let Some(window) = window {
            self.window = Some((model.clone(), window));
        }
    }

    /// Records the work that a notice tells. Returns false if the notice is about something else.
    pub(super) fn note_host_work(&mut self, notice: &str) -> bool {
        let work = host_work_of(notice);
        if let Some(work) = work {
            self.host_work = Some(work.to_owned());
        }
        work.is_some()
    }

    pub(super) fn end_host_work(&mut self) {
        self.host_work = None;
    }

    pub(super) fn note_progress(&mut self, progress: Option<ModelProgress>) {
        self.progress = progress;
    }
}

impl Transcript {
    /// Returns the grants that users gave for the session and that have not been revoked.
    pub fn grants(&self) -> &[Grant] {
        &self.resources.grants
    }

    /// Names the hosts on which the current or last turn was not done, because its calls did not reach them, as in
    /// `not done on web1`. Returns `None` if all were reached.
    pub fn missed_hosts(&self) -> Option<String> {
        self.turn.missed_hosts.summary(self.session_info()?.place())
    }

    /// Returns the progress of the model call in flight, if known.
    pub fn progress(&self) -> Option<ModelProgress> {
        self.resources.progress
    }

    /// Returns the work of a host before or after a command, such as `saving files for undo`, while it goes on. `None`
    /// while a proposal awaits its answer: the hosts have been checked. An answer that allows the call ends this phase,
    /// and the hosts are checked once more.
    pub fn host_work(&self) -> Option<&str> {
        let is_at_proposal = matches!(self.phase, SessionPhase::AwaitingApproval { .. });
        self.resources.host_work.as_deref().filter(|_| !is_at_proposal)
    }

    /// Returns true once the session's host has been reached for a call.
    pub(super) fn has_reached_host(&self) -> bool {
        self.resources.host_reached
    }

    /// Returns true while a model call is in flight, even if the phase already shows a pause.
    pub fn calls_model(&self) -> bool {
        self.resources.calls_model
    }

    /// Returns the tokens in the model's context: the tokens of the last request and reply, or what a compaction left.
    pub fn context_tokens(&self) -> u64 {
        self.resources.context
    }

    /// Returns the model's context window in tokens, if known: from the config, the server, or the
    /// table of known models.
    pub fn context_window(&self) -> Option<u32> {
        let facts = self.facts.as_ref()?;
        let told = self.resources.window.as_ref();
        facts
            .configured_window()
            .or_else(|| told.filter(|(model, _)| *model == facts.model).map(|(_, window)| *window))
            .or_else(|| model_table::find(&facts.model).map(|model| model.context_window))
            .filter(|window| *window > 0)
    }

    /// Returns the skills and commands that users can invoke by name, without their text.
    pub fn skills(&self) -> &[Skill] {
        &self.resources.skills
    }

    pub fn jobs(&self) -> &RunningJobs {
        &self.resources.jobs
    }

    /// Returns the time for which a job has been running at `now`, as in `2 min 10 s`.
    pub fn job_run_time(&self, job: JobId, now: Timestamp) -> Option<String> {
        let start = self.resources.job_starts.get(&job)?;
        let seconds = u64::try_from(now.0.saturating_sub(start.0)).unwrap_or_default() / 1_000;
        Some(match seconds {
            0..60 => format!("{seconds} s"),
            _ => ui_text::duration(seconds * 1_000),
        })
    }
}
