//! One session per host: runs other agents' calls as turns, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use sysop_core::event::{Decision, Event, Input, PauseReason, Update};
use sysop_core::id::{CallId, Seq, SessionId, TurnId};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::READ_ONLY_REFUSAL;
use sysop_driver::frontend::{AttachedSession, SessionHandle};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::McpServerSettings;
use crate::approval::{Caller, ClientAnswer, PROGRESS_INTERVAL};

/// Reason logged if nobody could approve a call.
const NOBODY: &str = "no one could approve the call";

/// Result of a call, for the caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallEnd {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

impl CallEnd {
    pub(crate) fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }

    fn of(outcome: &Outcome, settings: &McpServerSettings) -> Self {
        // The sentence for sysop's own model mentions its plan.
        let text = match outcome.output == READ_ONLY_REFUSAL {
            true => format!("not run: this server is read-only. {}", settings.read_only_hint),
            false => outcome.output.clone(),
        };
        Self { text, is_error: outcome.status != Status::Ok }
    }
}

pub(crate) struct HostSession {
    session: Arc<dyn SessionHandle>,
    host: String,
    /// True until the session has been named.
    is_unnamed: AtomicBool,
    /// Position of the last event seen; locked while a call is running.
    seen: Mutex<Seq>,
}

/// Progress of the turn started by a call.
#[derive(Default)]
struct Turn {
    id: Option<TurnId>,
    outcome: Option<Outcome>,
    /// Text of the model's last reply.
    reply: String,
    /// Sentence that tells the caller how a call can be approved; set if nobody could be asked.
    hint: Option<String>,
}

impl HostSession {
    pub(crate) fn new(opened: AttachedSession) -> Self {
        let host = opened.spec.host.clone();
        let (is_unnamed, seen) = (AtomicBool::new(true), Mutex::new(opened.last));
        Self { session: opened.session, host, is_unnamed, seen }
    }

    pub(crate) fn id(&self) -> &SessionId {
        self.session.id()
    }

    /// Returns true the first time, if the session has no name yet.
    pub(crate) fn take_unnamed(&self) -> bool {
        self.is_unnamed.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.session.last_error().is_none()
    }

    /// Runs one call to completion. If the caller cancels, the turn is stopped.
    pub(crate) async fn run(
        &self,
        input: Input,
        caller: &Caller,
        settings: &McpServerSettings,
    ) -> Result<CallEnd, String> {
        let mut seen = self.seen.lock().await;
        let mut updates = self.session.subscribe(*seen);
        let call = input.clone();
        self.session.send(input)?;
        let mut turn = Turn::default();
        let mut is_stopping = false;
        let mut patience = Instant::now() + PROGRESS_INTERVAL;
        loop {
            let update = tokio::select! {
                update = updates.next() => update,
                () = caller.canceled.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    self.session.send(Input::Cancel)?;
                    continue;
                }
                () = sleep_until(patience) => {
                    patience = Instant::now() + PROGRESS_INTERVAL;
                    caller.report_progress("still working").await;
                    continue;
                }
            };
            let Some(update) = update else {
                return Err(self
                    .session
                    .last_error()
                    .unwrap_or_else(|| "the session no longer exists".to_owned()));
            };
            let Update::Logged(logged) = &update else { continue };
            *seen = logged.seq;
            // Another process may have continued the session; its turns come first.
            let is_foreign = self.session.is_by_another_process(logged.seq);
            if turn.id.is_none() && (is_foreign || !call.begins(&logged.event)) {
                continue;
            }
            if let Some(end) = self.handle(&logged.event, &mut turn, caller, settings).await? {
                return Ok(end);
            }
        }
    }

    async fn handle(
        &self,
        event: &Event,
        turn: &mut Turn,
        caller: &Caller,
        settings: &McpServerSettings,
    ) -> Result<Option<CallEnd>, String> {
        if let Event::TurnStarted { turn: id, .. } = event {
            turn.id.get_or_insert(*id);
        } else if let Event::Replied { reply, .. } = event {
            turn.reply.clone_from(&reply.text);
        } else if let Event::ToolFinished { outcome, .. } = event {
            turn.outcome = Some(outcome.clone());
        } else if let Event::ApprovalAsked { call, .. } = event {
            turn.hint = self.approve(&call.id, event, caller, settings).await?.or(turn.hint.take());
        } else if let Event::Paused { reason: PauseReason::Loop | PauseReason::Budget, .. } = event {
            self.session.send(Input::Cancel)?;
        } else if let Event::TurnEnded { turn: id, error, .. } = event
            && turn.id == Some(*id)
        {
            return Ok(Some(end_of(turn, error.as_deref(), settings)));
        }
        Ok(None)
    }

    /// Gets a call approved or rejected. Returns a sentence for the caller if nobody could be asked.
    async fn approve(
        &self,
        call: &CallId,
        asked: &Event,
        caller: &Caller,
        settings: &McpServerSettings,
    ) -> Result<Option<String>, String> {
        if (settings.is_watched)(self.session.id()) {
            caller.report_progress("waiting for approval in sysop").await;
            return Ok(None); // whoever is watching decides, and the turn continues
        }
        let decide = |decision| {
            self.session.send(Input::Decision {
                call: call.clone(),
                decision,
                by: caller.name(),
                person: None,
            })
        };
        match caller.ask(&self.host, asked).await {
            ClientAnswer::Allow => decide(Decision::Allow { command: None })?,
            ClientAnswer::Reject => decide(Decision::Reject { reason: "rejected by the user".to_owned() })?,
            ClientAnswer::Unable => {
                decide(Decision::Reject { reason: NOBODY.to_owned() })?;
                return Ok(Some(format!("not run: the call needs approval. {}", settings.hint)));
            }
        }
        Ok(None)
    }
}

fn end_of(turn: &mut Turn, error: Option<&str>, settings: &McpServerSettings) -> CallEnd {
    if let Some(hint) = turn.hint.take() {
        return CallEnd::failed(hint);
    }
    let reply = std::mem::take(&mut turn.reply);
    match (reply.trim().is_empty(), &turn.outcome, error) {
        (false, _, None) => CallEnd::ok(reply),
        (false, _, Some(error)) => CallEnd::failed(format!("{reply}\n[{error}]")),
        (true, Some(outcome), _) => CallEnd::of(outcome, settings),
        (true, None, Some(error)) => CallEnd::failed(error),
        (true, None, None) => CallEnd::ok("done"),
    }
}
