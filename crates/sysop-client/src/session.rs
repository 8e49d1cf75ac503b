//! Handle of a session on a server, for front ends.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::stream::BoxStream;
use parking_lot::Mutex;
use sysop_core::event::{Input, Update};
use sysop_core::id::{CallId, Seq, SessionId};
use sysop_core::question::QuestionId;
use sysop_driver::frontend::{OfferedRule, SessionHandle};
use sysop_driver::port::CancellationToken;
use sysop_driver::prompter::{PromptReply, Terminal};
use sysop_wire::{ClientMessage, QuestionReply, Secret};
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;
use tokio_util::task::TaskTracker;

use crate::ClientError;
use crate::api::Api;
use crate::client_tools::{LocalToolExecutor, LocalTools, Uplink};
use crate::fanout::UpdateFanout;
use crate::outbox::{Outbox, PENDING_MAX};
use crate::own_name::OwnName;
use crate::stream;
use crate::terminal::RemoteTerminal;

/// Maximum number of transient messages that wait for the socket; more are dropped.
const TRANSIENT_MAX: usize = 1_024;

/// A session on a server. Dropping it closes its connection.
pub struct RemoteSession {
    shared: Arc<RemoteSessionInner>,
    _stop: DropGuard,
}

pub(crate) struct RemoteSessionInner {
    pub(crate) id: SessionId,
    pub(crate) api: Api,
    pub(crate) fanout: Arc<UpdateFanout>,
    pub(crate) terminal: Arc<RemoteTerminal>,
    pub(crate) tool_executor: Option<Arc<LocalToolExecutor>>,
    pub(crate) outbox: Mutex<Outbox>,
    transient: Mutex<TransientQueue>,
    /// Notified when there is something to send.
    pub(crate) wake: Notify,
    error: Mutex<Option<String>>,
    /// Rule that came with the server's newest approval request and that the server offers to save.
    offered: Mutex<Option<OfferedRule>>,
    /// True if the session has a host of its own, whose terminal can be shown.
    has_terminal: bool,
    pub(crate) own_name: Option<OwnName>,
}

/// Messages that are sent immediately if there is a connection, and dropped otherwise.
#[derive(Default)]
struct TransientQueue {
    connected: bool,
    waiting: VecDeque<ClientMessage>,
}

pub(crate) struct RemoteSessionOptions {
    pub(crate) id: SessionId,
    /// True if the session has a host of its own, whose terminal can be shown.
    pub(crate) has_terminal: bool,
    pub(crate) local_tools: Option<Arc<LocalTools>>,
    pub(crate) own_name: Option<OwnName>,
}

impl RemoteSession {
    /// Follows a session. Connects when a front end first subscribes, or at once if tools are lent.
    pub(crate) fn new(
        api: Api,
        which: RemoteSessionOptions,
        tasks: &TaskTracker,
    ) -> Result<Self, ClientError> {
        let RemoteSessionOptions { id, has_terminal, local_tools, own_name } = which;
        let stop = CancellationToken::new();
        let fanout = Arc::new(UpdateFanout::new());
        let tool_executor = local_tools.map(|local_tools| {
            let (fanout, stop) = (Arc::clone(&fanout), stop.clone());
            LocalToolExecutor::new(local_tools, api.server(), id.clone(), fanout, stop, tasks.clone())
                .map(Arc::new)
        });
        let shared = Arc::new(RemoteSessionInner {
            id,
            api,
            fanout,
            terminal: Arc::new(RemoteTerminal::new()),
            tool_executor: tool_executor.transpose()?,
            outbox: Mutex::default(),
            transient: Mutex::default(),
            wake: Notify::new(),
            error: Mutex::default(),
            offered: Mutex::default(),
            has_terminal,
            own_name,
        });
        let uplink: Arc<dyn Uplink> = Arc::clone(&shared) as Arc<dyn Uplink>;
        shared.terminal.connect(&uplink);
        tasks.spawn(stream::run(Arc::clone(&shared), stop.clone()));
        Ok(Self { shared, _stop: stop.drop_guard() })
    }
}

impl RemoteSession {
    /// Returns the rule that the server offers to save for a call, or `None` if it offers none.
    pub(crate) fn offered_rule(&self, call: &CallId) -> Option<OfferedRule> {
        self.shared.offered_rule(call)
    }
}

impl RemoteSessionInner {
    /// Sets the connection state. Pending transient messages of the old connection are dropped.
    pub(crate) fn set_connected(&self, connected: bool) {
        *self.transient.lock() = TransientQueue { connected, waiting: VecDeque::new() };
    }

    /// Takes the oldest pending transient message, or returns `None` if there is none.
    pub(crate) fn next_transient(&self) -> Option<ClientMessage> {
        self.transient.lock().waiting.pop_front()
    }

    /// Records the rule that the server offers with an approval request, if any.
    pub(crate) fn set_offered_rule(&self, offered: Option<OfferedRule>) {
        *self.offered.lock() = offered;
    }

    /// Returns the rule that the server offers to save for a call, or `None` if it offers none.
    fn offered_rule(&self, call: &CallId) -> Option<OfferedRule> {
        let offered = self.offered.lock();
        offered.clone().filter(|offered| offered.call == *call)
    }

    /// Ends the session for all front ends.
    pub(crate) fn fail(&self, why: String) {
        self.error.lock().get_or_insert(why);
        self.terminal.failed("the session was closed");
        self.fanout.end();
    }
}

impl Uplink for RemoteSessionInner {
    fn send_if_connected(&self, message: ClientMessage) {
        {
            let mut transient = self.transient.lock();
            let result = matches!(message, ClientMessage::ToolResult(_));
            // The server requests a lost result again; other transient messages are worthless later.
            if !transient.connected || (transient.waiting.len() >= TRANSIENT_MAX && !result) {
                return;
            }
            transient.waiting.push_back(message);
        }
        self.wake.notify_one();
    }
}

impl SessionHandle for RemoteSession {
    fn id(&self) -> &SessionId {
        &self.shared.id
    }

    fn send(&self, input: Input) -> Result<(), String> {
        if let Some(why) = self.last_error() {
            return Err(why);
        }
        let message = ClientMessage::from_input(&input).ok_or("not supported by the server protocol")?;
        {
            let mut outbox = self.shared.outbox.lock();
            if outbox.is_full() {
                return Err(format!(
                    "the server is unreachable, and the queue is full ({PENDING_MAX} messages)"
                ));
            }
            // Before sending: the input must be recorded when the response arrives.
            if let Some(tool_executor) = &self.shared.tool_executor {
                tool_executor.observe_input(&input);
            }
            outbox.push(&message);
        }
        self.shared.wake.notify_one();
        Ok(())
    }

    fn subscribe(&self, after: Seq) -> BoxStream<'static, Update> {
        let updates = self.shared.fanout.subscribe(after);
        self.shared.wake.notify_one();
        updates
    }

    fn answer(&self, id: QuestionId, answer: PromptReply) -> bool {
        if id.0 >= crate::client_tools::LOCAL_QUESTION_IDS_FROM {
            return self
                .shared
                .tool_executor
                .as_ref()
                .is_some_and(|tool_executor| tool_executor.answer(id, answer));
        }
        let reply = match answer {
            PromptReply::Given { text, .. } => QuestionReply::Given(Secret::from(text)),
            PromptReply::NoSecret => QuestionReply::NoSecret,
            PromptReply::Refused => QuestionReply::Refused,
        };
        if !self.shared.transient.lock().connected {
            return false;
        }
        self.shared.send_if_connected(ClientMessage::question_answer(id, reply));
        true
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        if let Some(own) =
            self.shared.tool_executor.as_ref().and_then(|tool_executor| tool_executor.terminal())
        {
            return Some(own);
        }
        self.shared.has_terminal.then(|| Arc::clone(&self.shared.terminal) as Arc<dyn Terminal>)
    }

    fn is_by_another_process(&self, _: Seq) -> bool {
        false
    }

    fn last_error(&self) -> Option<String> {
        self.shared.error.lock().clone()
    }

    fn viewer(&self) -> Option<&str> {
        self.shared.own_name.as_ref().map(|own| own.here.as_str())
    }
}
