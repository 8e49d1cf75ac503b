//! A session wherever it is: on this node or on another one, and from one to the other without its faces' doing.
//!
//! On this node it is a `Handle`; elsewhere its log is followed, and what people say is posted to its owner. When the
//! owner is gone the session is taken over; when this node loses it, it is followed. A face sees one log throughout.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use sysop_core::event::{Input, Update};
use sysop_core::id::{Seq, SessionId};
use sysop_core::question::QuestionId;
use uuid::Uuid;

use crate::cluster::{Cluster, Letter, Nodes};
use crate::face;
use crate::follow::Follow;
use crate::people::{Answer, Terminal};
use crate::port::StoreError;
use crate::{Driver, DriverError, Handle, Inner, Runtime, Updates};

/// Makes the runtime of a session that comes to this node; may be called again when it comes back.
pub type MakeRuntime = Arc<dyn Fn() -> Runtime + Send + Sync>;

/// How many inputs may wait for their way to the owner; one more is refused.
const OUTBOX_LETTERS_MAX: usize = 256;
/// How long a store that fails is left alone.
pub(crate) const FAILURE_PAUSE: Duration = Duration::from_millis(500);
/// How long it takes until what could not be posted is posted again; it doubles up to that.
const POST_PAUSE_FIRST: Duration = Duration::from_millis(20);
/// How long it takes to look again whether a session that nobody holds has nothing to do; it doubles up to the end.
const REST_PAUSE_FIRST: Duration = Duration::from_millis(5);
const REST_PAUSE_END: Duration = Duration::from_secs(2);
/// How often a session may change hands while one looks for it, before it is left alone for a while.
const LOOKS_MAX: usize = 8;

/// A session wherever it is.
pub(crate) struct Placed {
    id: SessionId,
    driver: Weak<Inner>,
    nodes: Nodes,
    make_runtime: MakeRuntime,
    place: Mutex<Place>,
    /// Held by who looks where the session is.
    settling: tokio::sync::Mutex<()>,
    outbox: Mutex<Outbox>,
    runtime: tokio::runtime::Handle,
}

#[derive(Clone)]
pub(crate) enum Place {
    Here(Handle),
    There(Arc<Follow>),
    /// For good; why.
    Gone(String),
}

#[derive(Default)]
struct Outbox {
    letters: VecDeque<Letter>,
    posting: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Placed {
    pub(crate) fn new(
        driver: &Driver,
        nodes: Nodes,
        id: SessionId,
        make_runtime: MakeRuntime,
        place: Place,
    ) -> Arc<Self> {
        let here = match &place {
            Place::Here(handle) => Some(Arc::clone(&handle.live)),
            Place::There(_) | Place::Gone(_) => None,
        };
        let placed = Arc::new(Self {
            id,
            driver: Arc::downgrade(&driver.inner),
            nodes,
            make_runtime,
            place: Mutex::new(place),
            settling: tokio::sync::Mutex::default(),
            outbox: Mutex::default(),
            runtime: tokio::runtime::Handle::current(),
        });
        if let Some(live) = here {
            live.leave_to(Arc::downgrade(&placed));
        }
        placed
    }

    pub(crate) fn place(&self) -> Place {
        lock(&self.place).clone()
    }

    pub(crate) fn follow(&self) -> Option<Arc<Follow>> {
        match &*lock(&self.place) {
            Place::There(follow) => Some(Arc::clone(follow)),
            Place::Here(_) | Place::Gone(_) => None,
        }
    }

    /// Looks where the session is, on a task of its own.
    pub(crate) fn settle_soon(self: &Arc<Self>) {
        let placed = Arc::clone(self);
        self.runtime.spawn(async move { placed.settle().await });
    }

    /// Finds a place for the session where the one that it had is none any more.
    async fn settle(self: &Arc<Self>) {
        let _one = self.settling.lock().await;
        loop {
            match self.place() {
                Place::Here(handle) => match handle.live.closed() {
                    None => return,
                    Some(closed) if !closed.elsewhere => return self.set(Place::Gone(closed.why)),
                    Some(_) => {}
                },
                Place::There(follow) if !follow.is_closed() => return,
                Place::There(_) => {}
                Place::Gone(_) => return,
            }
            let Some(inner) = self.driver.upgrade() else {
                return self.set(Place::Gone("sysop is ending".to_owned()));
            };
            if inner.leaving.load(Ordering::SeqCst) {
                let why = "this node is being shut down; open the session again on another one";
                return self.set(Place::Gone(why.to_owned()));
            }
            let driver = Driver { inner };
            match find(&driver, &self.nodes.cluster, &self.id, &self.make_runtime).await {
                Ok(place) => {
                    self.set(place);
                    if let Some(follow) = self.follow() {
                        follow.read_on(); // words came too early for it
                    }
                    return self.post_soon();
                }
                Err(DriverError::Store(StoreError::Unavailable(why))) => {
                    tracing::warn!(session = %self.id, why, "cannot find out who owns it for now");
                }
                Err(error) => return self.set(Place::Gone(error.to_string())),
            }
            drop(driver);
            if self.wait().await.is_none() {
                return self.set(Place::Gone("sysop is ending".to_owned()));
            }
        }
    }

    fn set(self: &Arc<Self>, place: Place) {
        if let Place::Here(handle) = &place {
            handle.live.leave_to(Arc::downgrade(self));
        }
        let before = std::mem::replace(&mut *lock(&self.place), place);
        if let Place::There(follow) = before {
            follow.close();
        }
    }

    /// Puts an input on its way to the owner, behind those that are on it already.
    fn post(self: &Arc<Self>, input: Input) -> Result<(), String> {
        if !may_be_posted(&input) {
            return Err("only the node of a session can tell it this".to_owned());
        }
        {
            let mut outbox = lock(&self.outbox);
            if outbox.letters.len() >= OUTBOX_LETTERS_MAX {
                return Err("the session's node takes no more inputs for now; try again".to_owned());
            }
            outbox.letters.push_back(letter(input));
        }
        self.post_soon();
        Ok(())
    }

    /// Passes on what was said here while the session was lost; it comes before what was said since.
    pub(crate) fn inherit(self: &Arc<Self>, inputs: Vec<Input>) {
        {
            let mut outbox = lock(&self.outbox);
            for input in inputs.into_iter().rev() {
                outbox.letters.push_front(letter(input));
            }
        }
        self.post_soon();
    }

    fn post_soon(self: &Arc<Self>) {
        {
            let mut outbox = lock(&self.outbox);
            if outbox.posting || outbox.letters.is_empty() {
                return;
            }
            outbox.posting = true;
        }
        let placed = Arc::clone(self);
        let posting = async move { while placed.post_next().await {} };
        self.nodes.errands.spawn_on(posting, &self.runtime);
    }

    /// Posts the oldest; says whether there may be more.
    async fn post_next(self: &Arc<Self>) -> bool {
        let letter = {
            let mut outbox = lock(&self.outbox);
            let letter = outbox.letters.pop_front();
            outbox.posting = letter.is_some();
            letter
        };
        let Some(letter) = letter else { return false };
        let mut pause = POST_PAUSE_FIRST;
        loop {
            let gone = match self.nodes.cluster.post(&self.id, &letter).await {
                Ok(()) => return true,
                Err(StoreError::Unavailable(why)) => {
                    if let Some(follow) = self.follow() {
                        follow.notice(&format!("not passed on yet: {why}"));
                    }
                    matches!(self.place(), Place::Gone(_)) && !self.is_left()
                }
                Err(error) => {
                    self.set(Place::Gone(error.to_string()));
                    true
                }
            };
            if gone || self.wait_for(pause).await.is_none() {
                let mut outbox = lock(&self.outbox);
                outbox.letters.clear();
                outbox.posting = false;
                return false;
            }
            pause = (pause * 2).min(FAILURE_PAUSE);
        }
    }

    /// Whether this node is being shut down: the session goes on elsewhere, with what was said here.
    fn is_left(&self) -> bool {
        self.driver.upgrade().is_some_and(|inner| inner.leaving.load(Ordering::SeqCst))
    }

    /// Leaves a store that fails alone for a while; none where the driver is gone.
    async fn wait(&self) -> Option<()> {
        self.wait_for(FAILURE_PAUSE).await
    }

    async fn wait_for(&self, pause: Duration) -> Option<()> {
        let clock = Arc::clone(&self.driver.upgrade()?.ports.clock);
        clock.sleep(pause).await;
        Some(())
    }

    /// Waits until a log that could not be read may be read again; none where it is deleted.
    async fn log_is_there(&self) -> Option<()> {
        self.wait().await?;
        let store = Arc::clone(&self.driver.upgrade()?.ports.store);
        let found = store.load(&self.id, Seq(0), 1).await;
        (!matches!(found, Err(StoreError::NotFound(_)))).then_some(())
    }

    fn updates(&self, after: Seq) -> Option<Updates> {
        match self.place() {
            Place::Here(handle) => Some(handle.subscribe(after)),
            Place::There(follow) => Some(follow.subscribe(after)),
            Place::Gone(_) => None,
        }
    }
}

/// Ends what it followed, also where somebody still reads the log for it; what nobody here holds any more may be
/// worked on elsewhere.
impl Drop for Placed {
    fn drop(&mut self) {
        let place = self.place.get_mut().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(place, Place::Gone(String::new())) {
            Place::Here(handle) => {
                drop(handle);
                // Not here: who drops it may hold a lock.
                self.runtime.spawn(leave_alone(Weak::clone(&self.driver), self.id.clone()));
            }
            Place::There(follow) => follow.close(),
            Place::Gone(_) => {}
        }
    }
}

/// Whether a person can have said it, so that another node may pass it on.
pub(crate) fn may_be_posted(input: &Input) -> bool {
    match input {
        Input::Prompt { .. }
        | Input::Direct { .. }
        | Input::Decision { .. }
        | Input::Cancel
        | Input::Pause
        | Input::Resume
        | Input::Retry
        | Input::Clear
        | Input::Configure { .. } => true,
        Input::Reply { .. }
        | Input::Outcome { .. }
        | Input::Timer { .. }
        | Input::TerminalInput { .. }
        | Input::Recovered => false,
    }
}

/// An input under a name of its own.
pub(crate) fn letter(input: Input) -> Letter {
    Letter { id: Uuid::new_v4().to_string(), input }
}

/// Takes the session where it can be had, or begins to follow it.
pub(crate) async fn find(
    driver: &Driver,
    cluster: &Arc<dyn Cluster>,
    id: &SessionId,
    make_runtime: &MakeRuntime,
) -> Result<Place, DriverError> {
    for _ in 0..LOOKS_MAX {
        match driver.take(id, || make_runtime()).await {
            Ok(handle) => return Ok(Place::Here(handle)),
            Err(DriverError::Elsewhere(..)) => {}
            Err(error) => return Err(error),
        }
        let watched = cluster.watch(id).await?;
        if let Some(owner) = watched.owner {
            let cluster = Arc::clone(cluster);
            let follow = Follow::new(id.clone(), owner, watched.last, cluster, &driver.inner.ports);
            return Ok(Place::There(follow));
        }
        cluster.unwatch(id).await;
    }
    Err(StoreError::Unavailable(format!("session {id} changes hands all the time; try again")).into())
}

/// Lets go of a session that nobody here holds any more, once it has done what it was told. One that works for longer
/// is left to `Driver::rest`.
async fn leave_alone(driver: Weak<Inner>, id: SessionId) {
    let mut pause = REST_PAUSE_FIRST;
    while pause < REST_PAUSE_END {
        let Some(inner) = driver.upgrade() else { return };
        if inner.placed(&id).is_some() || inner.rest_one(&id) {
            return;
        }
        let clock = Arc::clone(&inner.ports.clock);
        drop(inner);
        clock.sleep(pause).await;
        pause *= 2;
    }
}

/// What faces hold: a session that is where it is.
pub(crate) struct Shared(pub(crate) Arc<Placed>);

impl face::Session for Shared {
    fn id(&self) -> &SessionId {
        &self.0.id
    }

    fn send(&self, input: Input) -> Result<(), String> {
        let placed = &self.0;
        let on_the_way = {
            let outbox = lock(&placed.outbox);
            outbox.posting || !outbox.letters.is_empty()
        };
        match placed.place() {
            Place::Gone(why) => Err(why),
            Place::Here(handle) if !on_the_way => match handle.send(input.clone()) {
                Ok(()) => Ok(()),
                Err(error) => {
                    if handle.live.closed().is_none_or(|closed| !closed.elsewhere) {
                        return Err(error.to_string());
                    }
                    placed.post(input)?;
                    placed.settle_soon();
                    Ok(())
                }
            },
            Place::Here(_) | Place::There(_) => placed.post(input),
        }
    }

    fn subscribe(&self, after: Seq) -> BoxStream<'static, Update> {
        let placed = Arc::clone(&self.0);
        let updates = placed.updates(after);
        futures::stream::unfold((placed, updates, after), |(placed, mut updates, mut seen)| async move {
            loop {
                match updates.as_mut()?.next().await {
                    Some(Update::Logged(logged)) if logged.seq <= seen => {}
                    Some(update) => {
                        if let Update::Logged(logged) = &update {
                            seen = logged.seq;
                        }
                        return Some((update, (placed, updates, seen)));
                    }
                    None => {
                        match placed.place() {
                            // It is where it was: only its log could not be read.
                            Place::Here(handle) if handle.live.closed().is_none() => {
                                placed.log_is_there().await?
                            }
                            Place::There(follow) if !follow.is_closed() => placed.log_is_there().await?,
                            Place::Here(_) | Place::There(_) | Place::Gone(_) => placed.settle().await,
                        }
                        updates = placed.updates(seen);
                    }
                }
            }
        })
        .boxed()
    }

    fn answer(&self, id: QuestionId, answer: Answer) -> bool {
        match self.0.place() {
            Place::Here(handle) => handle.answer(id, answer),
            Place::There(_) | Place::Gone(_) => false,
        }
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        match self.0.place() {
            Place::Here(handle) => handle.terminal(),
            Place::There(_) | Place::Gone(_) => None,
        }
    }

    fn last_error(&self) -> Option<String> {
        match self.0.place() {
            Place::Here(handle) => {
                handle.live.closed().filter(|closed| !closed.elsewhere).map(|closed| closed.why)
            }
            Place::There(_) => None,
            Place::Gone(why) => Some(why),
        }
    }
}
