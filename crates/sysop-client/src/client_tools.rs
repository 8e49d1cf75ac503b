//! This machine's tools, lent to a session on a server. Each call runs at most once, and only if the policy
//! of this client's user permits it. When a call ends, the user sees one line about it.

mod ledger;
mod local_policy;
mod local_prompts;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use secrecy::ExposeSecret;
use sysop_core::event::{ConfigChange, Event, Input, Logged, Origin};
use sysop_core::id::{CallId, SessionId};
use sysop_core::message::ToolCall;
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{ApprovalMode, Policy, PolicyOptions, Survey};
use sysop_core::question::{QuestionId, QuestionKind};
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_core::tool_time_limit;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter, Terminal};
use sysop_wire::{ClientMessage, Envelope, ManifestTool, ToolResult};
use tokio_util::task::TaskTracker;

use self::ledger::{CallClaim, Ledger};
use self::local_policy::{LocalPolicy, LocalVerdict};
use self::local_prompts::{CurrentSessionPrompter, LocalPrompts};
use crate::api::sentence;
use crate::fanout::UpdateFanout;
use crate::{ClientError, ServerAddress};

pub(crate) use self::local_policy::LocalPermission;

/// Maximum number of concurrent calls. A session usually runs one call at a time, or the few calls of one reply.
const RUNNING_MAX: usize = 16;
/// Interval at which the client tells the server that a call is still running.
const RUNS_STILL: Duration = Duration::from_secs(20);
/// Maximum time to survey a call, that is, to collect the facts about this machine that the policy needs.
const SURVEY_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum number of written files that the line about a finished call names.
const FILES_NAMED_MAX: usize = 4;
/// Maximum length of a command, path or other argument in the line about a finished call, in characters.
const SHOWN_CHARS_MAX: usize = 80;

/// Settings for lending this machine's tools to sessions: the tools, and the policy for their calls.
pub struct LocalToolsSettings {
    pub host: Arc<dyn Host>,
    /// Root directory of the file tools, as shown to users and to the model.
    pub root: String,
    /// Names of the tools to lend; `None` lends all.
    pub tools: Option<Vec<String>>,
    /// Approval mode that the user of this client chose for these tools.
    pub approve: ApprovalMode,
    /// Patterns of commands that always need approval.
    pub dangerous: Vec<String>,
    /// Patterns of commands that never run.
    pub deny: Vec<String>,
    /// Other options of the local policy, including the user's rules.
    pub policy: PolicyOptions,
    /// Directory of the call ledgers; created when needed.
    pub ledgers: PathBuf,
}

/// The tools that this machine lends, with the policy that decides which of their calls run.
pub struct LocalTools {
    host: Arc<dyn Host>,
    root: String,
    tools: Vec<ToolSpec>,
    approve: ApprovalMode,
    policy: Policy,
    ledgers: PathBuf,
    people: Arc<CurrentSessionPrompter>,
}

impl LocalTools {
    /// Selects the tools and prepares their policy, but does not offer the tools to a session. Fails if a named tool
    /// does not exist on the host, or is one that a client cannot provide, such as the todo list.
    pub fn new(settings: LocalToolsSettings) -> Result<Self, ClientError> {
        let LocalToolsSettings { host, root, tools, approve, dangerous, deny, policy, ledgers } = settings;
        // Completing a task and its todo list concern only the session and its model.
        let of_session =
            |tool: &&ToolSpec| matches!(tool.effect, ToolEffect::Completes | ToolEffect::Session);
        let offered: Vec<ToolSpec> = host.tools().iter().filter(|tool| !of_session(tool)).cloned().collect();
        let offered = match tools {
            None => offered,
            Some(names) => {
                if let Some(none) = names.iter().find(|name| !offered.iter().any(|tool| tool.name == **name))
                {
                    let known: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
                    return Err(ClientError::Unknown(format!(
                        "unknown tool {none:?}; available: {}",
                        known.join(", ")
                    )));
                }
                offered.into_iter().filter(|tool| names.contains(&tool.name)).collect()
            }
        };
        let people = Arc::new(CurrentSessionPrompter::default());
        host.set_prompter(Arc::clone(&people) as Arc<dyn Prompter>);
        let policy = Policy::new(&dangerous, &deny).with_options(policy);
        Ok(Self { host, root, tools: offered, approve, policy, ledgers, people })
    }

    /// Sets the time limit of commands whose calls specify none, in seconds.
    pub fn with_time_limit(mut self, seconds: u64) -> Self {
        tool_time_limit::set_time_limit(&mut self.tools, seconds);
        self
    }
}

/// Sending side of the connection to the server.
pub(crate) trait Uplink: Send + Sync {
    /// Sends the message immediately if there is a connection, and drops it otherwise.
    fn send_if_connected(&self, message: ClientMessage);
}

/// Runs the tools that one session borrows from this machine.
pub(crate) struct LocalToolExecutor {
    local_tools: Arc<LocalTools>,
    session: SessionId,
    ledger: Ledger,
    local_policy: Mutex<LocalPolicy>,
    prompts: Arc<LocalPrompts>,
    fanout: Arc<UpdateFanout>,
    running: Mutex<HashMap<CallId, CancellationToken>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl LocalToolExecutor {
    pub(crate) fn new(
        local_tools: Arc<LocalTools>,
        server: &ServerAddress,
        session: SessionId,
        fanout: Arc<UpdateFanout>,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Result<Self, ClientError> {
        let ledger = Ledger::open(&local_tools.ledgers, &server.display_url(), session.as_str())?;
        let prompts = Arc::new(LocalPrompts::new(Arc::clone(&fanout)));
        local_tools.people.set_current(&prompts);
        let local_policy = Mutex::new(LocalPolicy::new(local_tools.approve));
        Ok(Self {
            local_tools,
            session,
            ledger,
            local_policy,
            prompts,
            fanout,
            running: Mutex::default(),
            stop,
            tasks,
        })
    }

    /// Returns the tool specifications to send to the server.
    pub(crate) fn manifest(&self) -> Vec<ManifestTool> {
        let tools = self.local_tools.tools.iter();
        tools
            .map(|tool| ManifestTool {
                name: tool.name.clone(),
                description: (*tool.description).to_owned(),
                parameters: (*tool.parameters).clone(),
            })
            .collect()
    }

    pub(crate) fn root(&self) -> &str {
        &self.local_tools.root
    }

    /// Returns this machine's terminal, or `None` if no lent tool types into it.
    pub(crate) fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        let types = self
            .local_tools
            .tools
            .iter()
            .any(|tool| tool.effect == ToolEffect::Keys || tool.name == "run_command");
        if types { self.local_tools.host.terminal() } else { None }
    }

    /// Records the permission that the user gives by an input, and returns it, if there is one.
    pub(crate) fn observe_input(&self, input: &Input) -> Option<LocalPermission> {
        let LocalTools { policy, tools, .. } = &*self.local_tools;
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "no other input approves a tool call on this client"
        )]
        match input {
            Input::Decision { call, decision, .. } => {
                self.local_policy.lock().record_decision(policy, tools, call, decision)
            }
            Input::Direct { tool, arguments, origin: Origin::User, .. } => {
                Some(self.local_policy.lock().record_typed(tool, arguments))
            }
            Input::Configure { change: ConfigChange::Approve(mode) } => {
                Some(self.local_policy.lock().set_mode(*mode))
            }
            _ => None,
        }
    }

    /// Revokes the permission of an input that did not reach the server.
    pub(crate) fn revoke(&self, permission: LocalPermission) {
        self.local_policy.lock().revoke(permission);
    }

    /// Revokes the permissions for single calls that have not begun. The user is asked here if the server requests
    /// them later.
    pub(crate) fn revoke_single_calls(&self) {
        self.local_policy.lock().revoke_single_calls();
    }

    /// Applies the approval mode of a new session on this machine, if it is stricter than the mode here.
    pub(crate) fn tighten_mode(&self, mode: ApprovalMode) {
        self.local_policy.lock().tighten_mode(mode);
    }

    /// Returns true if the session has announced that it runs this tool on this client. Otherwise, an approval request
    /// for a tool of this name is about the session's own tool, and approving it permits nothing on this client.
    pub(crate) fn is_announced(&self, tool: &str) -> bool {
        self.local_policy.lock().is_announced(tool)
    }

    /// Returns the event as the user of this client sees it. If the event proposes a call that runs on this client, its
    /// risk, grant and displayed command are computed locally, and those sent by the server are ignored.
    pub(crate) fn judge_event(&self, logged: Arc<Logged>) -> Arc<Logged> {
        let LocalTools { policy, tools, root, .. } = &*self.local_tools;
        #[expect(clippy::wildcard_enum_match_arm, reason = "other events are left to the server")]
        match &logged.event {
            Event::Configured { change: ConfigChange::ClientTools(client_tools), .. } => {
                self.local_policy.lock().record_announcement(client_tools, tools, root);
                logged
            }
            Event::ApprovalAsked { call, reason, .. } => {
                let judged = self.local_policy.lock().judge_proposal(policy, tools, call, reason);
                match judged {
                    Some(event) => Arc::new(Logged { event, ..(*logged).clone() }),
                    None => logged,
                }
            }
            _ => logged,
        }
    }

    /// Answers one of this machine's own questions. Returns true if the question was pending.
    pub(crate) fn answer(&self, id: QuestionId, answer: PromptReply) -> bool {
        self.prompts.answer(id, answer)
    }

    pub(crate) fn run(self: &Arc<Self>, call: ToolCall, origin: Origin, line: Arc<dyn Uplink>) {
        match self.ledger.claim(&call.id) {
            CallClaim::Running => {}
            CallClaim::Done(result) => line.send_if_connected(ClientMessage::ToolResult(*result)),
            CallClaim::Claimed => {
                let cancel = self.stop.child_token();
                let count = {
                    let mut running = self.running.lock();
                    running.insert(call.id.clone(), cancel.clone());
                    running.len()
                };
                let tool_executor = Arc::clone(self);
                self.tasks.spawn(async move {
                    let id = call.id.clone();
                    let outcome = if count > RUNNING_MAX {
                        Outcome::failed("the client is already running too many calls; nothing ran")
                    } else {
                        tool_executor.run_once(&call, origin, &line, cancel).await
                    };
                    tool_executor.fanout.notice(summary(&call, &outcome));
                    let result = ToolResult::new(id.clone(), outcome);
                    tool_executor.ledger.end(&result);
                    tool_executor.running.lock().remove(&id);
                    line.send_if_connected(ClientMessage::ToolResult(result));
                });
            }
        }
    }

    pub(crate) fn cancel(&self, call: &CallId) {
        if let Some(cancel) = self.running.lock().get(call) {
            cancel.cancel();
        }
    }

    /// Returns true while calls are running.
    pub(crate) fn is_busy(&self) -> bool {
        !self.running.lock().is_empty()
    }

    async fn run_once(
        &self,
        call: &ToolCall,
        origin: Origin,
        line: &Arc<dyn Uplink>,
        cancel: CancellationToken,
    ) -> Outcome {
        let Some(spec) = self.local_tools.tools.iter().find(|tool| tool.name == call.name) else {
            return rejected(format!("this client does not offer `{}`; not run", call.name));
        };
        let lives = self.send_keepalives(&call.id, line);
        let done = async {
            if let Err(why) = self.check_permission(spec, call, origin, &cancel).await {
                return why;
            }
            let changes = local_policy::changes(&self.local_tools.policy, spec, call);
            if let Err(error) = self.ledger.begin(&call.id, changes) {
                let why = format!("cannot write the client's call log ({error}); the call was not run");
                return Outcome::failed(why);
            }
            let call = tool_time_limit::with_time_limit(spec, call.clone());
            let sink = self.sink(&call.id, line);
            self.local_tools.host.run(call, sink, cancel.clone()).await
        };
        tokio::select! {
            outcome = done => outcome,
            () = lives => Outcome::failed("the client's timer stopped"),
        }
    }

    async fn check_permission(
        &self,
        spec: &ToolSpec,
        call: &ToolCall,
        origin: Origin,
        cancel: &CancellationToken,
    ) -> Result<(), Outcome> {
        let mut agreed = None;
        loop {
            let survey = self.survey(call, cancel).await;
            let verdict =
                self.local_policy.lock().evaluate(&self.local_tools.policy, &survey, spec, call, origin);
            match verdict {
                LocalVerdict::Run => return Ok(()),
                LocalVerdict::Refuse(why) => return Err(rejected(why)),
                // The circumstances may have changed while the user read the question.
                LocalVerdict::Ask { class, .. } if agreed.is_some_and(|agreed| class <= agreed) => {
                    return Ok(());
                }
                LocalVerdict::Ask { prompt, class, findings } => {
                    self.ask_person(call, prompt, findings, cancel).await?;
                    agreed = Some(class);
                }
            }
        }
    }

    /// Surveys a call. Returns an empty survey if the survey takes too long or the call is canceled.
    async fn survey(&self, call: &ToolCall, cancel: &CancellationToken) -> Survey {
        tokio::select! {
            survey = self.local_tools.host.survey(call) => survey,
            () = tokio::time::sleep(SURVEY_TIME_MAX) => Survey::default(),
            () = cancel.cancelled() => Survey::default(),
        }
    }

    async fn ask_person(
        &self,
        call: &ToolCall,
        prompt: String,
        findings: Vec<String>,
        cancel: &CancellationToken,
    ) -> Result<(), Outcome> {
        let asked = PromptRequest {
            kind: QuestionKind::Text,
            from: "sysop on this machine".to_owned(),
            details: findings,
            prompt,
            call: Some(call.id.clone()),
        };
        let answer = tokio::select! {
            answer = self.prompts.ask(asked) => answer,
            () = cancel.cancelled() => {
                return Err(Outcome::new(Status::Cancelled, "stopped before the client's user answered; nothing ran"));
            }
        };
        match answer {
            PromptReply::Given { text, .. } if text.expose_secret().trim().eq_ignore_ascii_case("yes") => {
                Ok(())
            }
            PromptReply::Given { .. } | PromptReply::NoSecret | PromptReply::Refused => {
                Err(rejected("the client's user rejected the call; nothing ran"))
            }
        }
    }

    fn sink(&self, call: &CallId, line: &Arc<dyn Uplink>) -> DeltaSink {
        let (call, session, line) = (call.clone(), self.session.clone(), Arc::clone(line));
        DeltaSink::new(move |text| line.send_if_connected(output(&session, &call, text)))
    }

    /// Reports periodically that a call is still running. Never returns.
    async fn send_keepalives(&self, call: &CallId, line: &Arc<dyn Uplink>) {
        loop {
            tokio::time::sleep(RUNS_STILL).await;
            line.send_if_connected(output(&self.session, call, ""));
        }
    }
}

fn output(session: &SessionId, call: &CallId, text: &str) -> ClientMessage {
    let envelope = Envelope { session_id: Some(session.clone()), ..Envelope::default() };
    ClientMessage::ToolOutput { envelope, tool_call_id: call.clone(), content: text.to_owned() }
}

fn rejected(why: impl Into<String>) -> Outcome {
    Outcome::new(Status::Rejected, why)
}

/// Describes a finished call in one line.
fn summary(call: &ToolCall, outcome: &Outcome) -> String {
    let what = ["command", "path", "keys", "pattern"].iter().find_map(|name| call.text_argument(name));
    let what: String = what.unwrap_or_default().chars().take(SHOWN_CHARS_MAX).collect();
    let mut line = format!("here: {}", call.name);
    if !what.is_empty() {
        line.push(' ');
        line.push_str(&what);
    }
    line.push_str(&format!(" · {}", outcome.status.as_str()));
    if let Some(code) = outcome.exit_code.filter(|code| *code != 0) {
        line.push_str(&format!(" {code}"));
    }
    line.push_str(&format!(" · {} ms", outcome.duration_ms));
    let files: Vec<&str> = outcome.changes.iter().map(|change| change.path.as_str()).collect();
    if let Some(named) = files.get(..files.len().min(FILES_NAMED_MAX)).filter(|named| !named.is_empty()) {
        line.push_str(&format!(" · wrote {}", named.join(", ")));
        if files.len() > FILES_NAMED_MAX {
            line.push_str(&format!(" and {} more", files.len() - FILES_NAMED_MAX));
        }
    }
    sentence(&line)
}

#[cfg(test)]
mod tests;
