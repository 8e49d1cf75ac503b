//! The nodes that share a store: who works on a session, and how word of it reaches the others. Ports of the driver.
//!
//! One node owns a session, by a lease that the store knows: what a node appends without it is refused. A node that
//! is not heard of for a while is dead; whoever follows its sessions takes them over. Other nodes follow a session by
//! its log, and post what their people say as letters. See `docs/adr/0011`.

use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::event::{Delta, Input, Logged};
use sysop_core::id::{Seq, SessionId};
use tokio_util::task::TaskTracker;

use crate::port::{Store, StoreError};

/// How many letters are taken out at a time.
pub const LETTERS_MAX: usize = 64;

/// The nodes that share a store, as one of them sees them.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// A session that no log has yet. It becomes this node's with its first append.
    fn found(&self, id: &SessionId) -> Arc<dyn Lease>;

    /// Takes a session for this node, unless another that lives has it. A lease that this node had before ends.
    async fn acquire(&self, id: &SessionId) -> Result<Acquired, StoreError>;

    /// Puts an input where the session's owner finds it; durable on return. The same letter twice is one letter.
    async fn post(&self, id: &SessionId, letter: &Letter) -> Result<(), StoreError>;

    /// Words about the session reach this node from now on, until `unwatch` was called as often as this.
    async fn watch(&self, id: &SessionId) -> Result<Watched, StoreError>;

    /// Takes one `watch` back.
    async fn unwatch(&self, id: &SessionId);

    /// The next word; one task waits for it.
    async fn word(&self) -> Word;

    /// Gives all sessions back at once, and takes no other.
    async fn leave(&self) -> Result<(), StoreError>;
}

/// What came of the wish for a session.
pub enum Acquired {
    /// It is this node's.
    Owned(Arc<dyn Lease>),
    /// That node, which lives, has it.
    HeldBy(String),
}

/// What is known of a session when one begins to watch it: all that comes later is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The last event of its log.
    pub last: Seq,
    /// The node that has it; none where nobody has, or one that is dead.
    pub owner: Option<String>,
}

/// The right of this node to work on one session.
#[async_trait]
pub trait Lease: Send + Sync {
    /// Whether it is certain that no other node has the session; asked before anything is done, and never wrong,
    /// however slow the answers of the store are.
    fn holds(&self) -> bool;

    /// As `Store::append`, if the lease is the session's newest; in the same step the letters count as taken, for
    /// ever. Without events only the letters do. May wait for as long as the store is away, so that what came of it is
    /// known when it returns.
    async fn append(
        &self,
        after: Seq,
        events: &[Arc<Logged>],
        letters: &[LetterNumber],
    ) -> Result<Seq, StoreError>;

    /// The letters that wait, in the order in which they were posted, at most `LETTERS_MAX`.
    async fn letters(&self) -> Result<Vec<Waiting>, StoreError>;

    /// Tells those who follow something for the moment, as well as may be; what came before it in the log is `after`.
    /// Says whether anybody follows.
    async fn tell(&self, after: Seq, deltas: &[Delta]) -> Result<bool, StoreError>;

    /// Gives the session back, if the lease is its newest: whoever wants it may have it at once.
    async fn release(&self) -> Result<(), StoreError>;

    /// Why an append has to wait, in one sentence, where it has to.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// A place in a session's letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LetterNumber(pub u64);

/// An input on its way to the owner of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Letter {
    /// Chosen by who posts it.
    pub id: String,
    /// What it says.
    pub input: Input,
}

/// A letter that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// Its place.
    pub number: LetterNumber,
    /// What it says.
    pub input: Input,
}

/// What a node has to know, as it happens. Only what is worth a look is told: the log and the letters count.
#[derive(Debug, Clone, PartialEq)]
pub enum Word {
    /// The log of a session that is watched here goes on, at least to there.
    Appended {
        /// The session.
        id: SessionId,
        /// An event that is durable.
        seq: Seq,
    },
    /// Something for the moment, of a session that is watched here.
    Told {
        /// The session.
        id: SessionId,
        /// The last event before it.
        after: Seq,
        /// What is told.
        deltas: Vec<Delta>,
    },
    /// A session that is watched here has no owner, or a dead one. Told again and again while that is so.
    Free {
        /// The session.
        id: SessionId,
    },
    /// A session of this node has a letter.
    Posted {
        /// The session.
        id: SessionId,
    },
    /// Somebody began to follow a session of this node.
    Followed {
        /// The session.
        id: SessionId,
    },
    /// Any word may have been missed.
    Missed,
    /// This node counts as dead for the others: none of its leases holds any more.
    Lost,
}

/// The other nodes, and what is still on its way to them.
#[derive(Clone)]
pub(crate) struct Nodes {
    pub(crate) cluster: Arc<dyn Cluster>,
    /// Whoever leaves waits for these.
    pub(crate) errands: TaskTracker,
}

/// The lease of a node that shares its store with nobody: it always holds.
pub(crate) struct Alone {
    pub(crate) id: SessionId,
    pub(crate) store: Arc<dyn Store>,
}

#[async_trait]
impl Lease for Alone {
    fn holds(&self) -> bool {
        true
    }

    async fn append(
        &self,
        after: Seq,
        events: &[Arc<Logged>],
        _: &[LetterNumber],
    ) -> Result<Seq, StoreError> {
        self.store.append(&self.id, after, events).await
    }

    async fn letters(&self) -> Result<Vec<Waiting>, StoreError> {
        Ok(Vec::new())
    }

    async fn tell(&self, _: Seq, _: &[Delta]) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn release(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
