//! Several hosts as one: a call runs on all of them side by side, and one outcome tells what came of it, the
//! hosts that stand out first.
//!
//! A [`Fleet`] offers the tools that all its hosts have, but not those of the terminal: one terminal for each host
//! would need one pair of hands for each. Where the canary is set, a call that changes something runs on the first
//! few hosts, and on the rest only where these ended well and alike.
//!
//! Files that were changed are named `HOST:PATH`, so that `undo` finds its way back to the right host. It is all or
//! nothing on each host, as ever, but not across hosts: each says for itself what became of it.
//!
//! Nothing here knows how a host does its work.

mod line_prefixer;
mod member;
mod prompter;
mod report;
mod survey;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{FileChange, Outcome, Status};
use sysop_core::policy::Survey;
use sysop_core::text::neutralize_line;
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_driver::prompter::Prompter;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::line_prefixer::LinePrefixer;
use self::member::Member;
use self::prompter::HostPrompter;
use self::report::{HostResult, report};
use crate::output::OutputLimits;
use crate::output::artifacts::Artifacts;
use crate::settings::ARTIFACT_BYTES_MAX;
use crate::tools::UNDO;

/// On how many hosts a call runs at once, where the settings do not say otherwise.
pub const HOSTS_AT_ONCE: usize = 16;

/// The tools of a terminal, which several hosts do not have in common.
const TERMINAL_TOOLS: [&str; 2] = ["run_command", "send_keys"];

/// How several hosts are used as one.
#[derive(Debug, Clone)]
pub struct FleetSettings {
    /// On how many hosts a call runs at once; at least one.
    pub at_once: usize,
    /// How many hosts go first with what changes something; none where all may go at once.
    pub canary: Option<NonZeroUsize>,
    /// How much the model is told of all hosts together.
    pub limits: OutputLimits,
    /// The folder of whole outputs; that of the hosts.
    pub artifacts: PathBuf,
}

impl FleetSettings {
    /// The contract's settings.
    pub fn new(artifacts: impl Into<PathBuf>) -> Self {
        Self {
            at_once: HOSTS_AT_ONCE,
            canary: None,
            limits: OutputLimits::default(),
            artifacts: artifacts.into(),
        }
    }
}

/// Why these hosts cannot be used as one. `Display` is one sentence that says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// There is no host.
    #[error("no host given; set --host")]
    Empty,
    /// A name cannot be shown, or is none.
    #[error("{0:?} is no name for a host; give it one that can be read")]
    InvalidName(String),
    /// Two names mean the same host.
    #[error("the hosts {0} and {1} are one and the same; name each host once")]
    DuplicateHost(String, String),
    /// A path on the one could be taken for a path on the other.
    #[error("the hosts {0} and {1} cannot be told apart in {0}:PATH; give one of them another name")]
    AmbiguousNames(String, String),
}

/// Several hosts as one.
pub struct Fleet {
    members: Vec<Arc<Member>>,
    specs: Vec<ToolSpec>,
    at_once: usize,
    canary: Option<NonZeroUsize>,
    limits: OutputLimits,
    artifacts: Artifacts,
    /// Held by the host whose question is before the people.
    prompt_lock: Arc<tokio::sync::Mutex<()>>,
}

/// One host's part of a call.
struct HostCall {
    member: Arc<Member>,
    call: ToolCall,
}

impl Fleet {
    /// Takes hosts together, in the order in which they are to be used and told. Asks them nothing.
    ///
    /// # Errors
    /// There is no host, or the names do not tell the hosts apart.
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
        })
    }

    /// What each host is to do; for `undo` each gets its own changes, and those without any do nothing.
    fn jobs(&self, call: ToolCall) -> Result<Vec<HostCall>, String> {
        if call.name == UNDO {
            return self.undo_jobs(&call);
        }
        if !self.specs.iter().any(|spec| spec.name == call.name) {
            let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
            let name = &call.name;
            return Err(if TERMINAL_TOOLS.contains(&name.as_str()) {
                format!("{name} needs one terminal, and there are several hosts; use bash")
            } else {
                format!("no tool {name} on all these hosts; available: {}", names.join(", "))
            });
        }
        let job = |member: &Arc<Member>| HostCall { member: Arc::clone(member), call: call.clone() };
        Ok(self.members.iter().map(job).collect())
    }

    fn undo_jobs(&self, call: &ToolCall) -> Result<Vec<HostCall>, String> {
        let Arguments::Object(arguments) = &call.arguments else {
            return Err("the arguments are not a JSON object; send them again".to_owned());
        };
        let changes = arguments.get("changes").cloned().unwrap_or_default();
        let changes: Vec<FileChange> =
            serde_json::from_value(changes).map_err(|error| format!("wrong argument `changes`: {error}"))?;
        if changes.is_empty() {
            return Err("there is nothing to undo".to_owned());
        }
        let mut of_member = vec![Vec::new(); self.members.len()];
        for change in changes {
            let (place, path) = self.split_host_path(&change.path).ok_or_else(|| {
                format!("{} is on none of these hosts; nothing was undone", neutralize_line(&change.path))
            })?;
            of_member[place].push(FileChange { path, ..change });
        }
        let with_changes = self.members.iter().zip(of_member).filter(|(_, changes)| !changes.is_empty());
        Ok(with_changes
            .map(|(member, changes)| {
                let changes = serde_json::to_value(changes).unwrap_or(Value::Null);
                let arguments = Arguments::Object(Map::from_iter([("changes".to_owned(), changes)]));
                HostCall { member: Arc::clone(member), call: ToolCall { arguments, ..call.clone() } }
            })
            .collect())
    }

    /// The host of `HOST:PATH`, and the path there.
    fn split_host_path(&self, path: &str) -> Option<(usize, String)> {
        self.members.iter().enumerate().find_map(|(place, member)| {
            let path = path.strip_prefix(&*member.name)?.strip_prefix(':')?;
            Some((place, path.to_owned()))
        })
    }

    /// How many of the jobs go first; all of them where there is no canary, or nothing to fear.
    fn first(&self, tool: &str, jobs: usize) -> usize {
        let looks = self.specs.iter().any(|spec| spec.name == tool && spec.effect == ToolEffect::Reads);
        match self.canary {
            Some(canary) if !looks && tool != UNDO => canary.get().min(jobs),
            Some(_) | None => jobs,
        }
    }

    async fn run_calls(
        &self,
        mut jobs: Vec<HostCall>,
        sink: &DeltaSink,
        cancel: &CancellationToken,
    ) -> Outcome {
        let tool = jobs.first().map(|job| job.call.name.clone()).unwrap_or_default();
        let rest = jobs.split_off(self.first(&tool, jobs.len()));
        let mut told = self.run_concurrently(jobs, sink, cancel).await;
        if !rest.is_empty() {
            match report::canary_failure(&mut told, &self.artifacts).await {
                None => told.extend(self.run_concurrently(rest, sink, cancel).await),
                Some((status, why)) => {
                    let not_run =
                        |job: HostCall| HostResult::new(&job.member.name, Outcome::new(status, why.clone()));
                    told.extend(rest.into_iter().map(not_run));
                }
            }
        }
        report(told, self.limits, &self.artifacts).await
    }

    /// Runs all jobs, so many at once; gives what came of each, in their order.
    async fn run_concurrently(
        &self,
        jobs: Vec<HostCall>,
        sink: &DeltaSink,
        cancel: &CancellationToken,
    ) -> Vec<HostResult> {
        let unrun = || Outcome::new(Status::Cancelled, "not run: stopped before its turn");
        let mut told: Vec<HostResult> =
            jobs.iter().map(|job| HostResult::new(&job.member.name, unrun())).collect();
        let mut waiting = jobs.into_iter().enumerate();
        let mut running = JoinSet::new();
        loop {
            while running.len() < self.at_once
                && !cancel.is_cancelled()
                && let Some((place, HostCall { member, call })) = waiting.next()
            {
                // This stands if the host's own code breaks.
                told[place].outcome = Outcome::new(Status::Unknown, "sysop broke; nobody knows how it ended");
                let (sink, cancel) = (sink.clone(), cancel.clone());
                running.spawn(async move {
                    let lines = LinePrefixer::new(&member.name, sink);
                    let outcome = member.run(call, lines.sink(), &cancel).await;
                    lines.finish();
                    (place, outcome)
                });
            }
            match running.join_next().await {
                Some(Ok((place, outcome))) => told[place].outcome = outcome,
                Some(Err(error)) => tracing::error!(%error, "a host broke in the middle of a call"),
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
        let names: Vec<&str> = self.members.iter().map(|member| &*member.name).collect();
        let surveys = self.members.iter().map(|member| member.survey(call));
        survey::merged(&names.join(","), futures::future::join_all(surveys).await)
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        let started = Instant::now();
        let mut outcome = match self.jobs(call) {
            Ok(jobs) => self.run_calls(jobs, &sink, &cancel).await,
            Err(why) => Outcome::failed(why),
        };
        outcome.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        outcome
    }

    fn set_prompter(&self, people: Arc<dyn Prompter>) {
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
        // Names of machines do not know case.
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

/// The tools that all hosts have alike, as the first one describes them.
fn common_tools(hosts: &[(String, Arc<dyn Host>)]) -> Vec<ToolSpec> {
    let Some(((_, first), others)) = hosts.split_first() else { return Vec::new() };
    let alike = |one: &ToolSpec, other: &ToolSpec| {
        (&one.name, &one.parameters, one.effect) == (&other.name, &other.parameters, other.effect)
    };
    let on_all =
        |spec: &&ToolSpec| others.iter().all(|(_, host)| host.tools().iter().any(|other| alike(spec, other)));
    let of_terminal =
        |spec: &&ToolSpec| spec.effect == ToolEffect::Keys || TERMINAL_TOOLS.contains(&spec.name.as_str());
    first.tools().iter().filter(|spec| !of_terminal(spec)).filter(on_all).cloned().collect()
}
