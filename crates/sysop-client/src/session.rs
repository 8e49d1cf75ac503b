//! Handle of a session on a server, for front ends.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::stream::BoxStream;
use parking_lot::Mutex;
use sysop_core::event::{ConfigChange, Input, Update};
use sysop_core::id::{CallId, Seq, SessionId};
use sysop_core::policy::ApprovalMode;
use sysop_core::question::QuestionId;
use sysop_driver::frontend::{OfferedRule, SERVER_AWAY, ServerConnection, SessionHandle};
use sysop_driver::port::CancellationToken;
use sysop_driver::prompter::{PromptReply, Terminal};
use sysop_wire::{ClientMessage, ErrorCode, QuestionReply, Secret};
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;
use tokio_util::task::TaskTracker;

use crate::ClientError;
use crate::api::Api;
use crate::client_tools::{LocalPermission, LocalToolExecutor, LocalTools, Uplink};
use crate::fanout::UpdateFanout;
use crate::outbox::{Outbox, OutboxLoss, PENDING_MAX, Refusal, UndeliveredPrompt};
use crate::own_name::OwnName;
use crate::server_machine::ServerMachine;
use crate::stream;
use crate::terminal::RemoteTerminal;

/// Reason to refuse what starts a turn before the session has its first mode.
const LACKS_MODE: &str =
    "not sent; the approval mode of this session is not set yet; try again, or choose one with /approve";
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
    pub(crate) server_machine: ServerMachine,
    /// Prompts that the server did not confirm before sessions of this client ended.
    pub(crate) unsent: Arc<Mutex<Vec<UndeliveredPrompt>>>,
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
    /// Receives the prompts that the server had not confirmed when the session ended.
    pub(crate) unsent: Arc<Mutex<Vec<UndeliveredPrompt>>>,
}

impl RemoteSession {
    /// Follows a session. Connects when a front end first subscribes, or at once if tools are lent.
    pub(crate) fn new(
        api: Api,
        which: RemoteSessionOptions,
        tasks: &TaskTracker,
    ) -> Result<Self, ClientError> {
        let RemoteSessionOptions { id, has_terminal, local_tools, own_name, unsent } = which;
        let stop = CancellationToken::new();
        let fanout = Arc::new(UpdateFanout::new());
        let tool_executor = local_tools.map(|local_tools| {
            let (fanout, stop) = (Arc::clone(&fanout), stop.clone());
            LocalToolExecutor::new(local_tools, api.server(), id.clone(), fanout, stop, tasks.clone())
                .map(Arc::new)
        });
        let server_machine = ServerMachine::of(api.server());
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
            server_machine,
            unsent,
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

    /// Sets the approval mode of a new session before any prompt reaches it, also after a lost connection. On this
    /// machine, a stricter mode stays. Fails if the session is gone.
    pub(crate) fn set_first_mode(&self, mode: ApprovalMode) -> Result<(), String> {
        if let Some(why) = self.last_error() {
            return Err(why);
        }
        let input = Input::Configure { change: ConfigChange::Approve(mode) };
        let message = ClientMessage::from_input(&input).expect("the protocol has approval modes");
        // The server chose the mode, so that it must not loosen the policy of this machine.
        if let Some(tool_executor) = &self.shared.tool_executor {
            tool_executor.tighten_mode(mode);
        }
        self.shared.outbox.lock().push_first_mode(&message);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Shows a line to the user of the first front end, once it has the log up to `after`.
    pub(crate) fn set_first_notice(&self, text: String, after: Seq) {
        self.shared.fanout.set_first_notice(text, after);
    }
}

impl RemoteSessionInner {
    /// Sets the connection state. Pending transient messages of the old connection are dropped.
    pub(crate) fn set_connected(&self, connected: bool) {
        *self.transient.lock() = TransientQueue { connected, waiting: VecDeque::new() };
    }

    /// Records that the connection is lost, drops the messages that must not take effect later, and revokes the
    /// permissions that came with them, and those for calls that have not begun. Returns clauses about the messages for
    /// the user.
    pub(crate) fn connection_lost(&self) -> Vec<String> {
        let mut outbox = self.outbox.lock();
        let OutboxLoss { clauses, permissions } = outbox.disconnected();
        if let Some(tool_executor) = &self.tool_executor {
            permissions.into_iter().rev().for_each(|permission| tool_executor.revoke(permission));
            tool_executor.revoke_single_calls();
        }
        clauses
    }

    /// Records that the server refused a message, and revokes the permission that came with it.
    pub(crate) fn message_refused(&self, id: &str, code: ErrorCode) -> Refusal {
        let mut outbox = self.outbox.lock();
        let (refusal, permission) = outbox.refused(id, code);
        if let (Some(tool_executor), Some(permission)) = (&self.tool_executor, permission) {
            tool_executor.revoke(permission);
        }
        refusal
    }

    /// Records the permission for lent tools that an input gives, if any, and returns it.
    fn observe_input(&self, input: &Input) -> Option<LocalPermission> {
        self.tool_executor.as_ref().and_then(|tool_executor| tool_executor.observe_input(input))
    }

    /// Hands over the prompts that the server has not confirmed, because the session ends.
    pub(crate) fn give_up_prompts(&self) {
        self.unsent.lock().append(&mut self.outbox.lock().unconfirmed());
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
            if outbox.is_lost() && !matches!(input, Input::Prompt { .. }) {
                return Err(SERVER_AWAY.to_owned());
            }
            if outbox.must_wait_unseen(&message) {
                return Err(LACKS_MODE.to_owned());
            }
            if outbox.is_full() {
                return Err(format!(
                    "the server is unreachable, and the queue is full ({PENDING_MAX} messages)"
                ));
            }
            // Before sending: the input must be recorded when the response arrives.
            let permission = self.shared.observe_input(&input);
            outbox.push(&message, permission);
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
        if id.is_of_client() {
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

    fn connection(&self) -> ServerConnection {
        let outbox = self.shared.outbox.lock();
        let is_lost = outbox.is_lost();
        let mut unconfirmed = outbox.unconfirmed();
        let undelivered = match self.last_error() {
            Some(_) => unconfirmed.drain(..).map(|prompt| prompt.text).collect(),
            None if is_lost || outbox.makes_prompts_wait() => outbox.undelivered(),
            // With a connection, other prompts wait only for the next moment.
            None => Vec::new(),
        };
        unconfirmed.retain(|prompt| prompt.may_have_arrived);
        let unconfirmed = unconfirmed.into_iter().map(|prompt| prompt.text).collect();
        ServerConnection { is_lost, undelivered, unconfirmed }
    }

    fn take_back(&self, prompt: &str) -> bool {
        self.shared.outbox.lock().take_back(prompt)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::StreamExt as _;
    use sysop_core::event::{Decision, Delta, Origin};

    use super::*;
    use crate::ServerAddress;

    const DEADLINE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn only_prompts_wait_while_the_server_is_away() {
        // Nobody listens there anymore.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let server = ServerAddress::parse(&format!("http://{address}"), Some("t".to_owned().into())).unwrap();
        let (tasks, unsent) = (TaskTracker::new(), Arc::<Mutex<Vec<UndeliveredPrompt>>>::default());
        let options = RemoteSessionOptions {
            id: SessionId::new("s"),
            has_terminal: false,
            local_tools: None,
            own_name: None,
            unsent: Arc::clone(&unsent),
        };
        let session = RemoteSession::new(Api::new(server).unwrap(), options, &tasks).unwrap();
        let direct = || Input::Direct {
            tool: "bash".to_owned(),
            arguments: serde_json::Map::new(),
            origin: Origin::User,
            by: None,
        };
        session.send(direct()).unwrap();
        let mut updates = session.subscribe(Seq(0));
        let update = tokio::time::timeout(DEADLINE, updates.next()).await.unwrap();
        let Some(Update::Delta(Delta::Notice { text })) = &update else { panic!("{update:?}") };
        assert!(text.ends_with("; your command was not sent; reconnecting…"), "{text}");
        assert!(session.connection().is_lost && session.shared.outbox.lock().next().is_none());
        let decision = Decision::Allow { command: None };
        for input in [
            Input::Decision { call: CallId::new("c1"), decision, by: "tui".to_owned(), person: None },
            Input::Configure { change: ConfigChange::Approve(ApprovalMode::Never) },
            direct(),
            Input::Cancel,
        ] {
            assert_eq!(session.send(input), Err(SERVER_AWAY.to_owned()));
        }
        let prompts = ["one", "two"].map(str::to_owned);
        for prompt in &prompts {
            session.send(Input::prompt(prompt.clone())).unwrap();
        }
        let connection = session.connection();
        assert_eq!(connection.undelivered, prompts);
        assert!(connection.unconfirmed.is_empty());
        assert!(session.take_back("one") && !session.take_back("one"));
        session.shared.outbox.lock().connected(None);
        session.shared.outbox.lock().note_caught_up();
        assert!(session.shared.outbox.lock().next().is_some());
        let connection = session.connection();
        assert_eq!((connection.undelivered.len(), connection.unconfirmed), (0, vec!["two".to_owned()]));
        assert!(!session.take_back("two"), "it may have arrived");
        drop(session);
        tasks.close();
        tokio::time::timeout(DEADLINE, tasks.wait()).await.unwrap();
        let prompt = UndeliveredPrompt { text: "two".to_owned(), may_have_arrived: true };
        assert_eq!(*unsent.lock(), [prompt]);
    }
}
