//! A session on a server as a face holds it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::BoxStream;
use sysop_core::event::{Input, Update};
use sysop_core::id::{Seq, SessionId};
use sysop_core::question::QuestionId;
use sysop_driver::face::Session;
use sysop_driver::people::{Answer, Terminal};
use sysop_driver::port::CancellationToken;
use sysop_wire::{ClientMessage, QuestionReply, Secret};
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;
use tokio_util::task::TaskTracker;

use crate::ClientError;
use crate::api::Api;
use crate::hub::Hub;
use crate::lend::{Lender, Lending, Line};
use crate::outbox::{Outbox, WAITING_MAX};
use crate::stream;
use crate::terminal::FarTerminal;

/// How many messages for the moment may wait for the socket; more are dropped.
const NOW_MAX: usize = 1_024;

/// A session on a server. Its connection ends when this is dropped.
pub struct Remote {
    shared: Arc<Shared>,
    _stop: DropGuard,
}

/// What the face's side and the connection's side share.
pub(crate) struct Shared {
    pub(crate) id: SessionId,
    pub(crate) api: Api,
    pub(crate) hub: Arc<Hub>,
    pub(crate) terminal: Arc<FarTerminal>,
    pub(crate) lender: Option<Arc<Lender>>,
    pub(crate) outbox: Mutex<Outbox>,
    now: Mutex<Now>,
    /// Told when there is something to send.
    pub(crate) wake: Notify,
    error: Mutex<Option<String>>,
    /// Whether the session's own host has a terminal.
    has_terminal: bool,
}

/// What is sent at once or not at all.
#[derive(Default)]
struct Now {
    connected: bool,
    waiting: VecDeque<ClientMessage>,
}

/// Which session, and what goes with it.
pub(crate) struct Which {
    pub(crate) id: SessionId,
    /// Whether its own host has a terminal.
    pub(crate) has_terminal: bool,
    /// What this machine lends it.
    pub(crate) lending: Option<Arc<Lending>>,
}

impl Remote {
    /// Follows a session. Connects when a face first subscribes, or at once where tools are lent.
    pub(crate) fn new(api: Api, which: Which, tasks: &TaskTracker) -> Result<Self, ClientError> {
        let Which { id, has_terminal, lending } = which;
        let stop = CancellationToken::new();
        let hub = Arc::new(Hub::new());
        let lender = lending.map(|lending| {
            let (hub, stop) = (Arc::clone(&hub), stop.clone());
            Lender::new(lending, api.server(), id.clone(), hub, stop, tasks.clone()).map(Arc::new)
        });
        let shared = Arc::new(Shared {
            id,
            api,
            hub,
            terminal: Arc::new(FarTerminal::new()),
            lender: lender.transpose()?,
            outbox: Mutex::default(),
            now: Mutex::default(),
            wake: Notify::new(),
            error: Mutex::default(),
            has_terminal,
        });
        let line: Arc<dyn Line> = Arc::clone(&shared) as Arc<dyn Line>;
        shared.terminal.connect(&line);
        tasks.spawn(stream::run(Arc::clone(&shared), stop.clone()));
        Ok(Self { shared, _stop: stop.drop_guard() })
    }
}

impl Shared {
    pub(crate) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a connection; what was for the moment of another one is forgotten.
    pub(crate) fn set_connected(&self, connected: bool) {
        *self.now() = Now { connected, waiting: VecDeque::new() };
    }

    /// The next message that is for the moment.
    pub(crate) fn next_now(&self) -> Option<ClientMessage> {
        self.now().waiting.pop_front()
    }

    /// The session is gone.
    pub(crate) fn fail(&self, why: String) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.terminal.failed("the session is gone");
        self.hub.end();
    }
}

impl Line for Shared {
    fn say_now(&self, message: ClientMessage) {
        {
            let mut now = self.now();
            let result = matches!(message, ClientMessage::ToolResult(_));
            // The server asks for a result again; all else is worth nothing later.
            if !now.connected || (now.waiting.len() >= NOW_MAX && !result) {
                return;
            }
            now.waiting.push_back(message);
        }
        self.wake.notify_one();
    }
}

impl Session for Remote {
    fn id(&self) -> &SessionId {
        &self.shared.id
    }

    fn send(&self, input: Input) -> Result<(), String> {
        if let Some(why) = self.last_error() {
            return Err(why);
        }
        let message = ClientMessage::of(&input).ok_or("that cannot be said to a server")?;
        {
            let mut outbox = self.shared.outbox();
            if outbox.is_full() {
                return Err(format!("the server is away, and {WAITING_MAX} messages wait for it already"));
            }
            // Before it is sent: what comes of it must find it.
            if let Some(lender) = &self.shared.lender {
                lender.said(&input);
            }
            outbox.push(&message);
        }
        self.shared.wake.notify_one();
        Ok(())
    }

    fn subscribe(&self, after: Seq) -> BoxStream<'static, Update> {
        let updates = self.shared.hub.subscribe(after);
        self.shared.wake.notify_one();
        updates
    }

    fn answer(&self, id: QuestionId, answer: Answer) -> bool {
        if id.0 >= crate::lend::OWN_FROM {
            return self.shared.lender.as_ref().is_some_and(|lender| lender.answer(id, answer));
        }
        let reply = match answer {
            Answer::Given { text, .. } => QuestionReply::Given(Secret::from(text)),
            Answer::NoSecret => QuestionReply::NoSecret,
            Answer::Refused => QuestionReply::Refused,
        };
        if !self.shared.now().connected {
            return false;
        }
        self.shared.say_now(ClientMessage::answering(id, reply));
        true
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        if let Some(own) = self.shared.lender.as_ref().and_then(|lender| lender.terminal()) {
            return Some(own);
        }
        self.shared.has_terminal.then(|| Arc::clone(&self.shared.terminal) as Arc<dyn Terminal>)
    }

    fn last_error(&self) -> Option<String> {
        self.shared.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
