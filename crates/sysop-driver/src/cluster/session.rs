//! A session at any location: owned by this node, or owned by another node and followed here.
//!
//! An owned session is a [`Handle`]. A remote session is a follower of its log, with inputs enqueued for its owner. If
//! the owner is gone, this node takes the session over; if this node loses the session, it follows the new owner. A
//! front end sees one continuous log.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use sysop_core::event::{Input, Update};
use sysop_core::id::{Seq, SessionId};
use sysop_core::question::QuestionId;

use super::follow::SessionFollower;
use super::lease::InputForwarder;
use super::member::Membership;
use super::queue::forwarded_input;
use super::{Cluster, ClusterContext, FAILURE_PAUSE, ForwardedInput};
use crate::driver::{DriverInner, Handle};
use crate::frontend;
use crate::port::StoreError;
use crate::prompter::{PromptReply, Terminal};
use crate::queue_limits::is_user_input;
use crate::{DriverError, Runtime, Updates};

/// Builds the runtime of a session that this node runs. Called again if the session leaves this node and returns.
pub type RuntimeFactory = Arc<dyn Fn() -> Runtime + Send + Sync>;

/// Maximum inputs waiting for delivery to the owner; further inputs are refused.
const OUTBOX_INPUTS_MAX: usize = 256;
/// First pause before a failed delivery is retried. It doubles with each retry, up to `FAILURE_PAUSE`.
const DELIVERY_PAUSE_FIRST: Duration = Duration::from_millis(20);
/// First pause before checking again if an unused session is idle. It doubles with each check, up to `EVICT_PAUSE_MAX`.
const EVICT_PAUSE_FIRST: Duration = Duration::from_millis(5);
const EVICT_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Maximum attempts to locate a session whose owner changes during each attempt.
const LOCATE_ATTEMPTS_MAX: usize = 8;

pub(crate) struct ClusterSession {
    id: SessionId,
    driver: Weak<DriverInner>,
    context: ClusterContext,
    runtime_factory: RuntimeFactory,
    place: Mutex<Location>,
    /// Lock held while the session is being located.
    relocate_lock: tokio::sync::Mutex<()>,
    outbox: Mutex<Outbox>,
    executor: tokio::runtime::Handle,
}

#[derive(Clone)]
pub(crate) enum Location {
    Local(Handle),
    Remote(Arc<SessionFollower>),
    /// The session has ended for good; the text is the reason.
    Closed(String),
}

#[derive(Default)]
struct Outbox {
    inputs: VecDeque<ForwardedInput>,
    delivering: bool,
}

impl ClusterSession {
    pub(crate) fn new(
        driver: &Arc<DriverInner>,
        context: ClusterContext,
        id: SessionId,
        runtime_factory: RuntimeFactory,
        place: Location,
    ) -> Arc<Self> {
        let lease = match &place {
            Location::Local(handle) => handle.lease.clone(),
            Location::Remote(_) | Location::Closed(_) => None,
        };
        let cluster_session = Arc::new(Self {
            id,
            driver: Arc::downgrade(driver),
            context,
            runtime_factory,
            place: Mutex::new(place),
            relocate_lock: tokio::sync::Mutex::default(),
            outbox: Mutex::default(),
            executor: tokio::runtime::Handle::current(),
        });
        if let Some(lease) = lease {
            lease.set_successor(cluster_session.as_successor());
        }
        cluster_session
    }

    pub(crate) fn location(&self) -> Location {
        self.place.lock().clone()
    }

    pub(crate) fn follower(&self) -> Option<Arc<SessionFollower>> {
        match &*self.place.lock() {
            Location::Remote(follow) => Some(Arc::clone(follow)),
            Location::Local(_) | Location::Closed(_) => None,
        }
    }

    /// Locates the session again, in a separate task.
    pub(crate) fn spawn_relocate(self: &Arc<Self>) {
        let cluster_session = Arc::clone(self);
        self.executor.spawn(async move { cluster_session.relocate().await });
    }

    /// Determines a new location if the current one is no longer valid.
    async fn relocate(self: &Arc<Self>) {
        let _one = self.relocate_lock.lock().await;
        loop {
            match self.location() {
                Location::Local(handle) => match handle.live.closed() {
                    None => return,
                    Some(closed) if !closed.elsewhere => return self.set(Location::Closed(closed.why)),
                    Some(_) => {}
                },
                Location::Remote(follow) if !follow.is_closed() => return,
                Location::Remote(_) => {}
                Location::Closed(_) => return,
            }
            let Some(inner) = self.driver.upgrade() else {
                return self.set(Location::Closed("sysop is shutting down".to_owned()));
            };
            if inner.membership().is_some_and(Membership::is_leaving) {
                let why = "this node is shutting down; reopen the session on another node";
                return self.set(Location::Closed(why.to_owned()));
            }
            match locate(&inner, &self.context.cluster, &self.id, &self.runtime_factory).await {
                Ok(place) => {
                    self.set(place);
                    if let Some(follow) = self.follower() {
                        follow.catch_up(); // cluster events may have arrived before the follower existed
                    }
                    return self.spawn_delivery();
                }
                Err(DriverError::Store(StoreError::Unavailable(why))) => {
                    tracing::warn!(session = %self.id, why, "cannot determine the session's owner; retrying");
                }
                Err(error) => return self.set(Location::Closed(error.to_string())),
            }
            drop(inner);
            if self.wait().await.is_none() {
                return self.set(Location::Closed("sysop is shutting down".to_owned()));
            }
        }
    }

    fn set(self: &Arc<Self>, place: Location) {
        if let Location::Local(Handle { lease: Some(lease), .. }) = &place {
            lease.set_successor(self.as_successor());
        }
        let before = std::mem::replace(&mut *self.place.lock(), place);
        if let Location::Remote(follow) = before {
            follow.close();
        }
    }

    /// Appends an input to the outbox. Fails if only the owner accepts this kind, or the outbox is full.
    fn enqueue(self: &Arc<Self>, input: Input) -> Result<(), String> {
        if !is_user_input(&input) {
            return Err("only the owning node accepts this input".to_owned());
        }
        {
            let mut outbox = self.outbox.lock();
            if outbox.inputs.len() >= OUTBOX_INPUTS_MAX {
                return Err("the session's node is busy; try again".to_owned());
            }
            outbox.inputs.push_back(forwarded_input(input));
        }
        self.spawn_delivery();
        Ok(())
    }

    fn as_successor(self: &Arc<Self>) -> InputForwarder {
        let session = Arc::downgrade(self);
        Box::new(move |inputs| match session.upgrade() {
            Some(session) => {
                session.accept_pending(inputs);
                Ok(())
            }
            None => Err(inputs),
        })
    }

    /// Puts inputs that were accepted but not stored when the session was lost into the outbox, ahead of later inputs.
    fn accept_pending(self: &Arc<Self>, inputs: Vec<Input>) {
        {
            let mut outbox = self.outbox.lock();
            for input in inputs.into_iter().rev() {
                outbox.inputs.push_front(forwarded_input(input));
            }
        }
        self.spawn_delivery();
    }

    fn spawn_delivery(self: &Arc<Self>) {
        {
            let mut outbox = self.outbox.lock();
            if outbox.delivering || outbox.inputs.is_empty() {
                return;
            }
            outbox.delivering = true;
        }
        let cluster_session = Arc::clone(self);
        let delivering = async move { while cluster_session.deliver_next().await {} };
        self.context.background_tasks.spawn_on(delivering, &self.executor);
    }

    /// Delivers the oldest input of the outbox. Returns true if there may be more inputs to deliver.
    async fn deliver_next(self: &Arc<Self>) -> bool {
        let forwarded_input = {
            let mut outbox = self.outbox.lock();
            let forwarded_input = outbox.inputs.pop_front();
            outbox.delivering = forwarded_input.is_some();
            forwarded_input
        };
        let Some(forwarded_input) = forwarded_input else { return false };
        let mut pause = DELIVERY_PAUSE_FIRST;
        loop {
            let gone = match self.context.cluster.enqueue(&self.id, &forwarded_input).await {
                Ok(()) => return true,
                Err(StoreError::Unavailable(why)) => {
                    if let Some(follow) = self.follower() {
                        follow.notice(&format!("your input has not reached the session's node yet: {why}"));
                    }
                    matches!(self.location(), Location::Closed(_)) && !self.is_node_leaving()
                }
                Err(error) => {
                    self.set(Location::Closed(error.to_string()));
                    true
                }
            };
            if gone || self.wait_for(pause).await.is_none() {
                let mut outbox = self.outbox.lock();
                outbox.inputs.clear();
                outbox.delivering = false;
                return false;
            }
            pause = (pause * 2).min(FAILURE_PAUSE);
        }
    }

    /// Returns true if this node is shutting down. The session and its inputs then continue on another node.
    fn is_node_leaving(&self) -> bool {
        self.driver.upgrade().is_some_and(|inner| inner.membership().is_some_and(Membership::is_leaving))
    }

    /// Pauses after a store failure. Returns `None` if the driver is gone.
    async fn wait(&self) -> Option<()> {
        self.wait_for(FAILURE_PAUSE).await
    }

    async fn wait_for(&self, pause: Duration) -> Option<()> {
        let clock = Arc::clone(&self.driver.upgrade()?.ports.clock);
        clock.sleep(pause).await;
        Some(())
    }

    /// Pauses until the log may be readable again. Returns `None` if the log was deleted or the driver is gone.
    async fn wait_for_log(&self) -> Option<()> {
        self.wait().await?;
        let store = Arc::clone(&self.driver.upgrade()?.ports.store);
        let found = store.load(&self.id, Seq(0), 1).await;
        (!matches!(found, Err(StoreError::NotFound(_)))).then_some(())
    }

    fn updates(&self, after: Seq) -> Option<Updates> {
        match self.location() {
            Location::Local(handle) => Some(handle.subscribe(after)),
            Location::Remote(follow) => Some(follow.subscribe(after)),
            Location::Closed(_) => None,
        }
    }
}

/// Ends the follower, even if a task is still reading its log. If this node owns the session, and no other
/// front end here uses it, the session is evicted once it is idle, so that another node can own it.
impl Drop for ClusterSession {
    fn drop(&mut self) {
        let place = self.place.get_mut();
        match std::mem::replace(place, Location::Closed(String::new())) {
            Location::Local(handle) => {
                drop(handle);
                // In a separate task: the caller may hold a lock.
                self.executor.spawn(evict_when_idle(Weak::clone(&self.driver), self.id.clone()));
            }
            Location::Remote(follow) => follow.close(),
            Location::Closed(_) => {}
        }
    }
}

/// Acquires the session if possible, otherwise follows it.
pub(crate) async fn locate(
    driver: &Arc<DriverInner>,
    cluster: &Arc<dyn Cluster>,
    id: &SessionId,
    runtime_factory: &RuntimeFactory,
) -> Result<Location, DriverError> {
    for _ in 0..LOCATE_ATTEMPTS_MAX {
        match driver.open_local(id, || runtime_factory()).await {
            Ok(handle) => return Ok(Location::Local(handle)),
            Err(DriverError::OwnedByOtherNode(..)) => {}
            Err(error) => return Err(error),
        }
        let watched = cluster.watch(id).await?;
        if let Some(owner) = watched.owner {
            let cluster = Arc::clone(cluster);
            let follow = SessionFollower::new(id.clone(), owner, watched.last, cluster, &driver.ports);
            return Ok(Location::Remote(follow));
        }
        cluster.unwatch(id).await;
    }
    Err(StoreError::Unavailable(format!("session {id} keeps moving between nodes; try again")).into())
}

/// Evicts a session that no front end here uses, once it has processed its inputs. A session that stays busy
/// for longer is left to `Driver::evict_idle`.
async fn evict_when_idle(driver: Weak<DriverInner>, id: SessionId) {
    let mut pause = EVICT_PAUSE_FIRST;
    while pause < EVICT_PAUSE_MAX {
        let Some(inner) = driver.upgrade() else { return };
        if inner.cluster_session(&id).is_some() || inner.evict_if_idle(&id) {
            return;
        }
        let clock = Arc::clone(&inner.ports.clock);
        drop(inner);
        clock.sleep(pause).await;
        pause *= 2;
    }
}

/// Handle for front ends. It forwards to the session at its current location, local or remote.
pub(crate) struct ClusterHandle(pub(crate) Arc<ClusterSession>);

impl frontend::SessionHandle for ClusterHandle {
    fn id(&self) -> &SessionId {
        &self.0.id
    }

    fn send(&self, input: Input) -> Result<(), String> {
        let cluster_session = &self.0;
        let on_the_way = {
            let outbox = cluster_session.outbox.lock();
            outbox.delivering || !outbox.inputs.is_empty()
        };
        match cluster_session.location() {
            Location::Closed(why) => Err(why),
            Location::Local(handle) if !on_the_way => match handle.send(input.clone()) {
                Ok(()) => Ok(()),
                Err(error) => {
                    if handle.live.closed().is_none_or(|closed| !closed.elsewhere) {
                        return Err(error.to_string());
                    }
                    cluster_session.enqueue(input)?;
                    cluster_session.spawn_relocate();
                    Ok(())
                }
            },
            Location::Local(_) | Location::Remote(_) => cluster_session.enqueue(input),
        }
    }

    fn subscribe(&self, after: Seq) -> BoxStream<'static, Update> {
        let cluster_session = Arc::clone(&self.0);
        let updates = cluster_session.updates(after);
        futures::stream::unfold(
            (cluster_session, updates, after),
            |(cluster_session, mut updates, mut seen)| async move {
                loop {
                    match updates.as_mut()?.next().await {
                        Some(Update::Logged(logged)) if logged.seq <= seen => {}
                        Some(update) => {
                            if let Update::Logged(logged) = &update {
                                seen = logged.seq;
                            }
                            return Some((update, (cluster_session, updates, seen)));
                        }
                        None => {
                            match cluster_session.location() {
                                // The location is unchanged; only the log could not be read.
                                Location::Local(handle) if handle.live.closed().is_none() => {
                                    cluster_session.wait_for_log().await?
                                }
                                Location::Remote(follow) if !follow.is_closed() => {
                                    cluster_session.wait_for_log().await?
                                }
                                Location::Local(_) | Location::Remote(_) | Location::Closed(_) => {
                                    cluster_session.relocate().await
                                }
                            }
                            updates = cluster_session.updates(seen);
                        }
                    }
                }
            },
        )
        .boxed()
    }

    fn answer(&self, id: QuestionId, answer: PromptReply) -> bool {
        match self.0.location() {
            Location::Local(handle) => handle.answer(id, answer),
            Location::Remote(_) | Location::Closed(_) => false,
        }
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        match self.0.location() {
            Location::Local(handle) => handle.terminal(),
            Location::Remote(_) | Location::Closed(_) => None,
        }
    }

    fn is_by_another_process(&self, event: Seq) -> bool {
        match self.0.location() {
            Location::Local(handle) => handle.is_by_another_process(event),
            Location::Remote(_) | Location::Closed(_) => false,
        }
    }

    fn last_error(&self) -> Option<String> {
        match self.0.location() {
            Location::Local(handle) => {
                handle.live.closed().filter(|closed| !closed.elsewhere).map(|closed| closed.why)
            }
            Location::Remote(_) => None,
            Location::Closed(why) => Some(why),
        }
    }
}
