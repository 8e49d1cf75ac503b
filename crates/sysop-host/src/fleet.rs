//! Uses several hosts as one: a call runs on all concurrently; one outcome lists the results, outliers first.
//!
//! A [`Fleet`] offers the tools that all its hosts have, except `view_image` and the terminal tools, because every host
//! would need its own terminal and a user's attention. If a canary is set, a call that changes something first runs on
//! a few hosts, and on the other hosts only if these few succeeded with the same result.
//!
//! Changed files are named `HOST:PATH`, so that `undo` finds the right host. Undo is all or nothing on each host, but
//! not across hosts; every host reports its own result.
//!
//! The fleet uses its hosts only through the `Host` trait.

mod line_prefixer;
mod member;
mod progress;
mod prompter;
mod report;
mod survey;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use sysop_core::catalog::VIEW_IMAGE_TOOL;
use sysop_core::guard::GuardTimeout;
use sysop_core::host_names::fold_names;
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{FileChange, Outcome, Status};
use sysop_core::policy::{CommandContext, Dialect, Survey, UndoOffer};
use sysop_core::preview::{PreviewPlan, ProbeResult};
use sysop_core::text::neutralize_line;
use sysop_core::tool::{TERMINAL_TOOLS, ToolEffect, ToolSpec};
use sysop_core::undo::{self, NOT_EXACT, UndoRecord};
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_driver::prompter::Prompter;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::line_prefixer::LinePrefixer;
use self::member::Member;
use self::progress::Progress;
use self::prompter::HostPrompter;
use self::report::{HostResult, report};
use crate::output::OutputLimits;
use crate::output::artifacts::Artifacts;
use crate::settings::ARTIFACT_BYTES_MAX;
use crate::tools::UNDO;
use crate::undo::records_of;

/// Time after which a survey names the hosts that have not answered.
const SURVEY_NOTICE: Duration = Duration::from_secs(2);

/// Default number of hosts on which a call runs concurrently.
pub const HOSTS_AT_ONCE: usize = 16;

#[derive(Debug, Clone)]
pub struct FleetSettings {
    /// Maximum hosts on which a call runs concurrently; at least 1.
    pub at_once: usize,
    /// Number of hosts that run a changing call first. If it is `None`, all hosts run the call at once.
    pub canary: Option<NonZeroUsize>,
    /// Limits on the output of all hosts together.
    pub limits: OutputLimits,
    /// Artifact directory; must be the one that the hosts use.
    pub artifacts: PathBuf,
}

impl FleetSettings {
    pub fn new(artifacts: impl Into<PathBuf>) -> Self {
        Self {
            at_once: HOSTS_AT_ONCE,
            canary: None,
            limits: OutputLimits::default(),
            artifacts: artifacts.into(),
        }
    }
}

/// Reason why hosts cannot form a fleet. `Display` is one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    #[error("no host given; set --host")]
    Empty,
    #[error("invalid host name {0:?}; use printable characters")]
    InvalidName(String),
    /// Two names denote the same host.
    #[error("{0} and {1} are the same host; name each host once")]
    DuplicateHost(String, String),
    /// A `HOST:PATH` could mean a path on either host, because one name starts with the other plus a colon.
    #[error("hosts {0} and {1} are ambiguous in {0}:PATH; rename one of them")]
    AmbiguousNames(String, String),
}

/// Several hosts that are used as one.
pub struct Fleet {
    members: Vec<Arc<Member>>,
    specs: Vec<ToolSpec>,
    at_once: usize,
    canary: Option<NonZeroUsize>,
    limits: OutputLimits,
    artifacts: Artifacts,
    /// Lock held by the host whose question is currently shown to the user.
    prompt_lock: Arc<tokio::sync::Mutex<()>>,
    people: Mutex<Option<Arc<dyn Prompter>>>,
}

struct HostCall {
    member: Arc<Member>,
    call: ToolCall,
    guard: Option<GuardTimeout>,
    /// Reason why the call's survey did not reach the host, so that the call does not run there.
    missed: Option<String>,
}

impl Fleet {
    /// Creates a fleet that uses and reports the hosts in the given order. Does not contact them. Fails if
    /// there is no host, or if the names are invalid, not distinct, or ambiguous in `HOST:PATH`.
    pub fn new(hosts: Vec<(String, Arc<dyn Host>)>, settings: FleetSettings) -> Result<Self, FleetError> {
        check_names(hosts.iter().map(|(name, _)| name.as_str()))?;
        let specs = common_tools(&hosts);
        Ok(Self {
            members: hosts.into_iter().map(|(name, host)| Arc::new(Member::new(&name, host))).collect(),
            specs,
            at_once: settings.at_once.max(1),
            canary: settings.canary,
            limits: settings.limits,
            artifacts: Artifacts::new(settings.artifacts, ARTIFACT_BYTES_MAX),
            prompt_lock: Arc::default(),
            people: Mutex::default(),
        })
    }

    /// Returns the call for each host. For `undo`, each host gets only its own changes; others get no call.
    fn jobs(&self, call: ToolCall, guard: Option<GuardTimeout>) -> Result<Vec<HostCall>, String> {
        if call.name == UNDO {
            return self.undo_jobs(&call);
        }
        if !self.specs.iter().any(|spec| spec.name == call.name) {
            let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
            let name = &call.name;
            return Err(if TERMINAL_TOOLS.contains(&name.as_str()) {
                format!("{name} needs a single terminal, but several hosts are selected; use bash")
            } else {
                format!("the tool {name} is not available on all hosts; available: {}", names.join(", "))
            });
        }
        let job = |member: &Arc<Member>| HostCall {
            member: Arc::clone(member),
            call: call.clone(),
            guard,
            missed: None,
        };
        Ok(self.members.iter().map(job).collect())
    }

    fn undo_jobs(&self, call: &ToolCall) -> Result<Vec<HostCall>, String> {
        let Arguments::Object(arguments) = &call.arguments else {
            return Err("the arguments are not a JSON object; send them again".to_owned());
        };
        let records = records_of(call);
        if !records.is_empty() {
            return self.undo_record_jobs(call, arguments, &records);
        }
        let changes = arguments.get("changes").cloned().unwrap_or_default();
        let changes: Vec<FileChange> = serde_json::from_value(changes)
            .map_err(|error| format!("invalid argument `changes`: {error}"))?;
        if changes.is_empty() {
            return Err("nothing to undo".to_owned());
        }
        let mut of_member = vec![Vec::new(); self.members.len()];
        for change in changes {
            let (place, path) = self.split_host_path(&change.path).ok_or_else(|| {
                format!(
                    "{} is not on a host of this session; nothing was undone",
                    neutralize_line(&change.path)
                )
            })?;
            of_member[place].push(FileChange { path, ..change });
        }
        let with_changes = self.members.iter().zip(of_member).filter(|(_, changes)| !changes.is_empty());
        Ok(with_changes
            .map(|(member, changes)| {
                let changes = serde_json::to_value(changes).unwrap_or(Value::Null);
                let arguments = Arguments::Object(Map::from_iter([("changes".to_owned(), changes)]));
                HostCall {
                    member: Arc::clone(member),
                    call: ToolCall { arguments, ..call.clone() },
                    guard: None,
                    missed: None,
                }
            })
            .collect())
    }

    fn undo_record_jobs(
        &self,
        call: &ToolCall,
        arguments: &Map<String, Value>,
        records: &[UndoRecord],
    ) -> Result<Vec<HostCall>, String> {
        let is_here = |host: &str| self.members.iter().any(|member| &*member.name == host);
        if let Some(record) = records.iter().find(|record| !is_here(&record.host)) {
            let host = neutralize_line(&record.host).into_owned();
            return Err(format!("{host} is not a host of this session; nothing was undone"));
        }
        let of_member = |member: &Arc<Member>| {
            let own = records.iter().filter(|record| *record.host == *member.name);
            let own: Vec<UndoRecord> =
                own.map(|record| UndoRecord { host: String::new(), ..record.clone() }).collect();
            (!own.is_empty()).then(|| {
                let mut arguments = arguments.clone();
                arguments.insert("records".to_owned(), serde_json::to_value(own).unwrap_or(Value::Null));
                let arguments = Arguments::Object(arguments);
                HostCall {
                    member: Arc::clone(member),
                    call: ToolCall { arguments, ..call.clone() },
                    guard: None,
                    missed: None,
                }
            })
        };
        Ok(self.members.iter().filter_map(of_member).collect())
    }

    /// Names the hosts that have not answered the survey of a call yet.
    fn tell_wait(&self, call: &ToolCall, hosts: &[&str]) {
        let what = if call.text_argument("command").is_some() { "command" } else { "call" };
        let (all, left) = (self.members.len(), fold_names(hosts));
        if let Some(people) = &*self.people.lock() {
            people.notice(&format!("checking the {what} on {all} hosts: waiting for {left}…"));
        }
    }

    /// Surveys an undo: each host plans its own records.
    async fn survey_undo(&self, call: &ToolCall) -> Survey {
        let jobs = match self.undo_jobs(call) {
            Ok(jobs) => jobs,
            Err(why) => return Survey { undo: UndoOffer::Refused { why }, ..Survey::default() },
        };
        let surveys = jobs.iter().map(|job| job.member.survey(&job.call));
        let surveys = futures::future::join_all(surveys).await;
        let (mut all, mut caveats) = (Vec::new(), Vec::new());
        for (job, survey) in jobs.iter().zip(surveys) {
            let name = &job.member.name;
            if let Some(why) = survey.incomplete {
                return Survey { undo: UndoOffer::Refused { why }, ..Survey::default() };
            }
            match (survey.unreachable, survey.undo) {
                (Some(why), _) | (None, UndoOffer::Refused { why }) => {
                    return Survey {
                        undo: UndoOffer::Refused { why: format!("{name}: {why}") },
                        ..Survey::default()
                    };
                }
                (None, UndoOffer::Offered { lines }) => {
                    for line in lines {
                        match line.strip_prefix(NOT_EXACT) {
                            Some(caveat) => caveats.push(format!("{NOT_EXACT}{name}: {caveat}")),
                            None => all.push(format!("{name}: {line}")),
                        }
                    }
                }
                (None, UndoOffer::NotNeeded) => {}
            }
        }
        all.append(&mut caveats);
        let undo = if all.is_empty() { UndoOffer::NotNeeded } else { UndoOffer::Offered { lines: all } };
        Survey { undo, ..Survey::default() }
    }

    /// Splits `HOST:PATH` into the host's index and the path.
    fn split_host_path(&self, path: &str) -> Option<(usize, String)> {
        self.members.iter().enumerate().find_map(|(place, member)| {
            let path = path.strip_prefix(&*member.name)?.strip_prefix(':')?;
            Some((place, path.to_owned()))
        })
    }

    /// Returns the number of jobs that run first. All jobs run first if there is no canary, if the call only reads, or
    /// if it is `undo`.
    fn first(&self, jobs: &[HostCall]) -> usize {
        let reads = |job: &HostCall| job.call.name == UNDO || self.only_reads(&job.call);
        match self.canary {
            Some(canary) if !jobs.iter().all(reads) => canary.get().min(jobs.len()),
            Some(_) | None => jobs.len(),
        }
    }

    fn only_reads(&self, call: &ToolCall) -> bool {
        let spec = self.specs.iter().find(|spec| spec.name == call.name);
        match (spec.map(|spec| spec.effect), call.text_argument("command")) {
            (Some(ToolEffect::Reads), _) => true,
            (Some(ToolEffect::Command), Some(command)) => {
                // The hosts may have different shells; for `sh`, the analysis considers both readings.
                let context = CommandContext { dialect: Dialect::Sh, ..CommandContext::default() };
                undo::plan(command, &Survey::elsewhere(context)).is_none()
            }
            (_, _) => false,
        }
    }

    async fn run_everywhere(
        &self,
        call: ToolCall,
        guard: Option<GuardTimeout>,
        sink: DeltaSink,
        cancel: CancellationToken,
    ) -> Outcome {
        let started = Instant::now();
        let mut outcome = match self.jobs(call, guard) {
            Ok(jobs) => self.run_calls(jobs, &sink, &cancel).await,
            Err(why) => Outcome::failed(why),
        };
        outcome.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        outcome
    }

    async fn run_calls(
        &self,
        mut jobs: Vec<HostCall>,
        sink: &DeltaSink,
        cancel: &CancellationToken,
    ) -> Outcome {
        // Hosts that follow later start after other calls were surveyed.
        for job in &mut jobs {
            job.missed = job.member.missed(&job.call.id);
        }
        let progress = Progress::new(jobs.len(), sink.clone());
        let rest = jobs.split_off(self.first(&jobs));
        let mut told = self.run_concurrently(jobs, &progress, cancel).await;
        if !rest.is_empty() {
            match report::canary_failure(&mut told, &self.artifacts).await {
                None => told.extend(self.run_concurrently(rest, &progress, cancel).await),
                Some((status, why)) => {
                    let not_run =
                        |job: HostCall| HostResult::new(&job.member.name, Outcome::new(status, why.clone()));
                    told.extend(rest.into_iter().map(not_run));
                }
            }
        }
        report(told, self.limits, &self.artifacts).await
    }

    /// Runs all jobs, at most `at_once` of them concurrently. Returns the results in the order of the jobs.
    async fn run_concurrently(
        &self,
        jobs: Vec<HostCall>,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Vec<HostResult> {
        let unrun =
            || Outcome::new(Status::Cancelled, "not run: the call was stopped before it reached this host");
        let mut told: Vec<HostResult> =
            jobs.iter().map(|job| HostResult::new(&job.member.name, unrun())).collect();
        let mut waiting = jobs.into_iter().enumerate();
        let mut running = JoinSet::new();
        loop {
            while running.len() < self.at_once
                && !cancel.is_cancelled()
                && let Some((place, HostCall { member, call, guard, missed })) = waiting.next()
            {
                // Remains as the result if the host's task panics.
                told[place].outcome = Outcome::new(Status::Unknown, "internal error; the result is unknown");
                let (progress, cancel) = (progress.clone(), cancel.clone());
                running.spawn(async move {
                    let lines = LinePrefixer::new(&member.name, progress.sink());
                    let outcome = match missed {
                        Some(why) => Outcome::unreachable(why),
                        None => member.run(call, guard, lines.sink(), &cancel).await,
                    };
                    lines.finish();
                    progress.host_ended(&member.name, &outcome);
                    (place, outcome)
                });
            }
            match running.join_next().await {
                Some(Ok((place, outcome))) => told[place].outcome = outcome,
                Some(Err(error)) => tracing::error!(%error, "a host task panicked during a call"),
                None => return told,
            }
        }
    }
}

#[async_trait]
impl Host for Fleet {
    fn tools(&self) -> &[ToolSpec] {
        &self.specs
    }

    async fn survey(&self, call: &ToolCall) -> Survey {
        if call.name == UNDO {
            return self.survey_undo(call).await;
        }
        let names: Vec<&str> = self.members.iter().map(|member| &*member.name).collect();
        let pending = Mutex::new(names.clone());
        let surveys = self.members.iter().map(|member| async {
            let survey = member.survey(call).await;
            pending.lock().retain(|name| *name != &*member.name);
            survey
        });
        let mut surveys = pin!(futures::future::join_all(surveys));
        let mut told = Vec::new();
        loop {
            tokio::select! {
                biased;
                surveys = &mut surveys => return survey::merged(&names, surveys),
                () = tokio::time::sleep(SURVEY_NOTICE) => {}
            }
            let left = pending.lock().clone();
            if left != told {
                self.tell_wait(call, &left);
                told = left;
            }
        }
    }

    async fn probe(&self, plan: &PreviewPlan, cancel: CancellationToken) -> Vec<ProbeResult> {
        let probe = |member: &Arc<Member>| {
            let (member, plan, cancel) = (Arc::clone(member), plan.clone(), cancel.clone());
            async move { member.probe(&plan, cancel).await }
        };
        let probes: Vec<_> = self.members.iter().map(probe).collect();
        futures::stream::iter(probes).buffered(self.at_once).collect().await
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        self.run_everywhere(call, None, sink, cancel).await
    }

    /// Guards the call on each host. The other hosts follow only once the canary's change has been confirmed.
    async fn run_guarded(
        &self,
        call: ToolCall,
        guard: GuardTimeout,
        sink: DeltaSink,
        cancel: CancellationToken,
    ) -> Outcome {
        self.run_everywhere(call, Some(guard), sink, cancel).await
    }
    fn lift_time_limit(&self, call: &CallId) {
        self.members.iter().for_each(|member| member.host.lift_time_limit(call));
    }

    fn redact(&self, output: &str) -> String {
        self.members.iter().fold(output.to_owned(), |output, member| member.host.redact(&output))
    }

    fn set_prompter(&self, people: Arc<dyn Prompter>) {
        *self.people.lock() = Some(Arc::clone(&people));
        for member in &self.members {
            let people = HostPrompter::new(member, Arc::clone(&people), Arc::clone(&self.prompt_lock));
            member.host.set_prompter(Arc::new(people));
        }
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.members.iter().map(|member| &*member.name).collect();
        f.debug_struct("Fleet").field("hosts", &names).field("tools", &self.specs.len()).finish()
    }
}

fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), FleetError> {
    let mut known = std::collections::BTreeMap::new();
    for name in names {
        if name.trim().is_empty() || neutralize_line(name) != name {
            return Err(FleetError::InvalidName(name.to_owned()));
        }
        // Host names are case-insensitive.
        if let Some(other) = known.insert(name.to_ascii_lowercase(), name) {
            return Err(FleetError::DuplicateHost(other.to_owned(), name.to_owned()));
        }
    }
    if known.is_empty() {
        return Err(FleetError::Empty);
    }
    let in_the_way = known.values().find_map(|name| {
        let of_other = |(at, _)| known.values().find(|other| **other == &name[..at]);
        name.match_indices(':').find_map(of_other).map(|other| (*other, *name))
    });
    match in_the_way {
        Some((one, other)) => Err(FleetError::AmbiguousNames(one.to_owned(), other.to_owned())),
        None => Ok(()),
    }
}

/// Returns the tools that all hosts have with the same parameters and effect. The first host describes them.
fn common_tools(hosts: &[(String, Arc<dyn Host>)]) -> Vec<ToolSpec> {
    let Some(((_, first), others)) = hosts.split_first() else { return Vec::new() };
    let alike = |one: &ToolSpec, other: &ToolSpec| {
        (&one.name, &one.parameters, one.effect) == (&other.name, &other.parameters, other.effect)
    };
    let on_all =
        |spec: &&ToolSpec| others.iter().all(|(_, host)| host.tools().iter().any(|other| alike(spec, other)));
    let of_terminal =
        |spec: &&ToolSpec| spec.effect == ToolEffect::Keys || TERMINAL_TOOLS.contains(&spec.name.as_str());
    // A combined outcome has no place for the hosts' images.
    let shows = |spec: &&ToolSpec| spec.name == VIEW_IMAGE_TOOL;
    first.tools().iter().filter(|spec| !of_terminal(spec) && !shows(spec)).filter(on_all).cloned().collect()
}
