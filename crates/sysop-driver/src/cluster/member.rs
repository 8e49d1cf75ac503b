//! This process as a member of a cluster: the sessions that its front ends have opened, and its reactions to events.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use sysop_core::id::SessionId;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::lease::ClusterLease;
use super::session::{ClusterHandle, ClusterSession, Location, RuntimeFactory, locate};
use super::{AcquireOutcome, Cluster, ClusterContext, ClusterEvent};
use crate::DriverError;
use crate::driver::{DriverInner, OPEN_BUG};
use crate::frontend::SessionHandle;

/// Number of locks for opening sessions; at most this many sessions can be opened from their logs at the same time.
const OPEN_LOCK_SHARDS: usize = 64;
/// Maximum time that a leaving node waits for its inputs to reach the other nodes.
const FLUSH_ON_LEAVE_TIME_MAX: Duration = Duration::from_secs(2);

pub(crate) struct Membership {
    context: ClusterContext,
    /// Sessions that this node's front ends have opened.
    open: Mutex<HashMap<SessionId, Weak<ClusterSession>>>,
    /// Locks that serialize the opening of a session. Sessions whose ids hash to the same index share a lock.
    open_locks: [tokio::sync::Mutex<()>; OPEN_LOCK_SHARDS],
    leaving: AtomicBool,
    /// Ends the task that receives cluster events.
    end: CancellationToken,
    _receiver: DropGuard,
}

impl Membership {
    /// Joins the cluster with no session open. When the node leaves, it waits for `background_tasks`.
    pub(crate) fn new(cluster: Arc<dyn Cluster>, background_tasks: TaskTracker) -> Self {
        let end = CancellationToken::new();
        let receiver = end.clone().drop_guard();
        Self {
            context: ClusterContext { cluster, background_tasks },
            open: Mutex::default(),
            open_locks: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            leaving: AtomicBool::new(false),
            end,
            _receiver: receiver,
        }
    }

    /// Starts the task that handles cluster events. Must be called within a tokio runtime.
    pub(crate) fn receive_events(&self, driver: Weak<DriverInner>) {
        let (end, cluster) = (self.end.clone(), Arc::clone(&self.context.cluster));
        tokio::spawn(async move {
            while let Some(event) = end.run_until_cancelled(cluster.next_event()).await {
                let Some(driver) = driver.upgrade() else { return };
                on_event(&driver, event);
            }
        });
    }

    /// Returns the lease of a session that has no log yet.
    pub(crate) fn new_lease(&self, driver: &DriverInner, id: &SessionId) -> Arc<ClusterLease> {
        let lease = self.context.cluster.new_lease(id);
        ClusterLease::new(id.clone(), lease, self.context.clone(), Arc::clone(&driver.ports.clock))
    }

    pub(crate) async fn acquire(
        &self,
        driver: &DriverInner,
        id: &SessionId,
    ) -> Result<Arc<ClusterLease>, DriverError> {
        match self.context.cluster.acquire(id).await? {
            AcquireOutcome::Owned(lease) => {
                let clock = Arc::clone(&driver.ports.clock);
                Ok(ClusterLease::new(id.clone(), lease, self.context.clone(), clock))
            }
            AcquireOutcome::OwnedBy(node) => Err(DriverError::OwnedByOtherNode(id.clone(), node)),
        }
    }

    pub(crate) fn open_lock(&self, id: &SessionId) -> &tokio::sync::Mutex<()> {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let index = hasher.finish() % OPEN_LOCK_SHARDS as u64;
        &self.open_locks[usize::try_from(index).expect("the index of a lock fits in usize")]
    }

    /// Opens a session here, or follows it if another node owns it.
    pub(crate) async fn open(
        &self,
        driver: &Arc<DriverInner>,
        id: &SessionId,
        runtime_factory: RuntimeFactory,
    ) -> Result<Arc<dyn SessionHandle>, DriverError> {
        if let Some(session) = self.get(id) {
            return Ok(Arc::new(ClusterHandle(session)));
        }
        let (driver, cluster, id) = (Arc::clone(driver), Arc::clone(&self.context.cluster), id.clone());
        // A separate task finishes even if the caller is dropped: otherwise a session could stay owned without work,
        // or watched without a viewer.
        let opening = tokio::spawn(async move {
            let location = locate(&driver, &cluster, &id, &runtime_factory).await?;
            let membership = driver.membership().expect("this driver is in a cluster");
            let session = membership.insert(&driver, &id, runtime_factory, location);
            Ok(Arc::new(ClusterHandle(session)) as Arc<dyn SessionHandle>)
        });
        opening.await.unwrap_or_else(|_| Err(DriverError::Closed(OPEN_BUG.to_owned())))
    }

    /// Returns a session that a front end of this node has opened, if any.
    pub(crate) fn get(&self, id: &SessionId) -> Option<Arc<ClusterSession>> {
        self.open.lock().get(id).and_then(Weak::upgrade)
    }

    /// Adds a session at this location and returns it. If a session with this id is already open, ignores the location
    /// and returns the open session.
    pub(crate) fn insert(
        &self,
        driver: &Arc<DriverInner>,
        id: &SessionId,
        runtime_factory: RuntimeFactory,
        location: Location,
    ) -> Arc<ClusterSession> {
        let mut open = self.open.lock();
        if let Some(session) = open.get(id).and_then(Weak::upgrade) {
            return session;
        }
        open.retain(|_, session| session.strong_count() > 0);
        let session =
            ClusterSession::new(driver, self.context.clone(), id.clone(), runtime_factory, location);
        open.insert(id.clone(), Arc::downgrade(&session));
        drop(open);
        if let Some(follower) = session.follower() {
            follower.catch_up(); // cluster events may have arrived before the follower existed
        }
        session
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Releases all sessions at once, and waits briefly for inputs given here to reach the other nodes.
    pub(crate) async fn leave(&self, driver: &DriverInner) -> Result<(), DriverError> {
        let ClusterContext { cluster, background_tasks } = &self.context;
        self.leaving.store(true, Ordering::SeqCst);
        driver.lose_all_leases();
        for session in self.sessions() {
            if let Some(follower) = session.follower() {
                follower.close();
            }
        }
        let left = cluster.leave().await;
        background_tasks.close();
        tokio::select! {
            () = background_tasks.wait() => {}
            () = driver.ports.clock.sleep(FLUSH_ON_LEAVE_TIME_MAX) => {
                tracing::warn!("some recent inputs may not have reached the other nodes");
            }
        }
        Ok(left?)
    }

    fn sessions(&self) -> Vec<Arc<ClusterSession>> {
        self.open.lock().values().filter_map(Weak::upgrade).collect()
    }
}

/// Handles one cluster event. Never waits.
fn on_event(driver: &DriverInner, event: ClusterEvent) {
    let Some(membership) = driver.membership() else { return };
    let follower = |id: &SessionId| membership.get(id).and_then(|session| session.follower());
    let owned = |id: &SessionId| {
        let handle = driver.live_handle(id)?;
        handle.lease.map(|lease| (handle.live, lease))
    };
    match event {
        ClusterEvent::Appended { id, seq } => {
            if let Some(follower) = follower(&id) {
                follower.on_appended(seq);
            }
        }
        ClusterEvent::Deltas { id, after, deltas } => {
            if let Some(follower) = follower(&id) {
                follower.on_deltas(after, deltas);
            }
        }
        ClusterEvent::Orphaned { id } => {
            if let Some(session) = membership.get(&id) {
                relocate(&session);
            }
        }
        ClusterEvent::InputQueued { id } => {
            if let Some((live, lease)) = owned(&id) {
                lease.drain_queue(&live);
            }
        }
        ClusterEvent::FollowerJoined { id } => {
            if let Some((live, lease)) = owned(&id) {
                lease.start_relay(&live);
            }
        }
        ClusterEvent::Lagged => resync_all(driver, membership),
        ClusterEvent::LeasesLost => {
            driver.lose_all_leases();
            // The watches were lost together with the leases.
            membership.sessions().iter().for_each(relocate);
        }
    }
}

fn relocate(session: &Arc<ClusterSession>) {
    if let Some(follower) = session.follower() {
        follower.close();
    }
    session.spawn_relocate();
}

/// Reads every log and queue again, because events may have been missed.
fn resync_all(driver: &DriverInner, membership: &Membership) {
    for session in membership.sessions() {
        if let Some(follower) = session.follower() {
            follower.on_lagged();
        }
    }
    for handle in driver.live_handles() {
        if let Some(lease) = handle.lease {
            lease.drain_queue(&handle.live);
            lease.start_relay(&handle.live);
        }
    }
}
