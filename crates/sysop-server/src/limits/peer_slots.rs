//! Limits the unauthenticated connections per peer: when a peer exceeds its limit, its longest idle connection is
//! dropped.
//!
//! A peer may be a proxy, or one address of many users. If idle connections could use up its limit, all other users of
//! that address would be locked out until timeouts expire. Therefore, a connection without a token never keeps its slot
//! if a new connection needs it. A connection is active only at the moments when it is opened, when the head of a
//! request is complete, and when the request is answered. Other bytes do not count, so neither an unfinished head nor
//! an unfinished body holds a slot.
//!
//! Behind a trusted proxy, a request counts for the client address that the proxy forwards; between requests, the
//! connection counts for the proxy.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::PeerKey;

#[derive(Debug)]
pub(super) struct PeerSlots {
    most: usize,
    accounts: Mutex<Accounts>,
}

#[derive(Debug, Default)]
struct Accounts {
    next: u64,
    /// Connections that count against the limit of their peer, by peer and number. The connection with the smallest
    /// number has been idle the longest.
    by_peer: HashMap<PeerKey, BTreeMap<u64, CancellationToken>>,
}

/// Position of a connection in a peer's account.
#[derive(Debug, Clone, Copy)]
struct Place {
    peer: PeerKey,
    number: u64,
}

impl Accounts {
    /// Adds a connection as the most recently active one of its peer; drops the longest idle ones beyond the limit.
    fn enter(&mut self, peer: PeerKey, most: usize, dropped: CancellationToken) -> Place {
        while self.by_peer.get(&peer).is_some_and(|account| account.len() >= most.max(1)) {
            self.drop_oldest(peer);
        }
        let number = self.next;
        self.next += 1;
        self.by_peer.entry(peer).or_default().insert(number, dropped);
        Place { peer, number }
    }

    /// Removes a connection. Returns false if it was dropped before.
    fn leave(&mut self, Place { peer, number }: Place) -> bool {
        let Some(account) = self.by_peer.get_mut(&peer) else { return false };
        let had = account.remove(&number).is_some();
        if account.is_empty() {
            self.by_peer.remove(&peer);
        }
        had
    }

    fn drop_oldest(&mut self, peer: PeerKey) {
        let oldest = self.by_peer.get(&peer).and_then(|account| account.iter().next());
        let Some((&number, dropped)) = oldest else { return };
        dropped.cancel();
        self.leave(Place { peer, number });
    }
}

impl PeerSlots {
    /// Allows `most` connections per peer; at least one.
    pub(super) fn new(most: usize) -> Self {
        Self { most, accounts: Mutex::default() }
    }

    pub(super) fn open(self: &Arc<Self>, peer: PeerKey) -> ConnectionSlot {
        let dropped = CancellationToken::new();
        let place = self.accounts.lock().enter(peer, self.most, dropped.clone());
        let slot = Slot { slots: Arc::clone(self), place: Mutex::new(Some(place)), dropped };
        ConnectionSlot(UnauthenticatedSlot(Arc::new(slot)))
    }

    /// Drops the longest idle connection of the peer with the most connections. Returns false if there is none.
    pub(super) fn make_room(&self) -> bool {
        let mut accounts = self.accounts.lock();
        let fullest = accounts.by_peer.iter().max_by_key(|(_, account)| account.len()).map(|(peer, _)| *peer);
        fullest.is_some_and(|peer| {
            accounts.drop_oldest(peer);
            true
        })
    }
}

/// Slot of one connection; freed on drop.
#[derive(Debug)]
pub(super) struct ConnectionSlot(UnauthenticatedSlot);

impl ConnectionSlot {
    pub(super) fn unauthenticated(&self) -> &UnauthenticatedSlot {
        &self.0
    }

    /// Canceled when the connection must close to free its slot.
    pub(super) fn dropped(&self) -> CancellationToken {
        self.0.0.dropped.clone()
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.0.free();
    }
}

/// Marks a connection as unauthenticated; it counts against its peer until it presents a valid token.
#[derive(Debug, Clone)]
pub(crate) struct UnauthenticatedSlot(Arc<Slot>);

impl UnauthenticatedSlot {
    /// Frees the slot once a valid token was presented; the connection then no longer counts.
    pub(crate) fn mark_authenticated(&self) {
        self.0.free();
    }

    /// Moves the connection to another peer's account as the most recently active connection there, unless the
    /// connection no longer counts.
    pub(super) fn count_for(&self, peer: PeerKey) {
        let Slot { slots, place, dropped } = &*self.0;
        let mut place = place.lock();
        let Some(before) = place.take() else { return };
        let mut accounts = slots.accounts.lock();
        if accounts.leave(before) {
            *place = Some(accounts.enter(peer, slots.most, dropped.clone()));
        }
    }
}

/// State of a slot. Locks are taken in the order `place`, `accounts`. Dropping the oldest connection locks only
/// `accounts`, so a `place` may refer to an entry that is gone.
#[derive(Debug)]
struct Slot {
    slots: Arc<PeerSlots>,
    place: Mutex<Option<Place>>,
    dropped: CancellationToken,
}

impl Slot {
    fn free(&self) {
        if let Some(place) = self.place.lock().take() {
            self.slots.accounts.lock().leave(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use super::{ConnectionSlot, PeerKey, PeerSlots};

    fn peer(last: u8) -> PeerKey {
        IpAddr::from([192, 0, 2, last]).into()
    }

    fn dropped<const N: usize>(slots: [&ConnectionSlot; N]) -> [bool; N] {
        slots.map(|slot| slot.dropped().is_cancelled())
    }

    #[test]
    fn the_longest_silent_connection_makes_room() {
        let slots = Arc::new(PeerSlots::new(2));
        let [first, second] = [0; 2].map(|_| slots.open(peer(1)));
        first.unauthenticated().count_for(peer(1));
        let other = slots.open(peer(2));
        let third = slots.open(peer(1));
        assert_eq!(dropped([&first, &second, &third, &other]), [false, true, false, false]);
        second.unauthenticated().count_for(peer(1));
        assert_eq!(dropped([&first, &third]), [false, false], "a dropped connection does not count again");
        let fourth = slots.open(peer(1));
        assert_eq!(dropped([&first, &third, &fourth]), [true, false, false]);
        drop((first, second, third, fourth, other));
        assert!(slots.accounts.lock().by_peer.is_empty());
    }

    #[test]
    fn a_connection_with_a_token_is_never_dropped() {
        let slots = Arc::new(PeerSlots::new(1));
        let first = slots.open(peer(1));
        first.unauthenticated().mark_authenticated();
        first.unauthenticated().count_for(peer(1));
        let (second, third) = (slots.open(peer(1)), slots.open(peer(1)));
        assert_eq!(dropped([&first, &second, &third]), [false, true, false]);
    }

    #[test]
    fn a_proxied_request_counts_for_its_original_address() {
        let slots = Arc::new(PeerSlots::new(2));
        let (proxy, far, near) = (peer(1), peer(2), peer(3));
        let through = |address| {
            let slot = slots.open(proxy);
            slot.unauthenticated().count_for(address);
            slot
        };
        let one = through(near);
        let [first, second, third] = [far; 3].map(through);
        assert_eq!(dropped([&one, &first, &second, &third]), [false, true, false, false]);
        one.unauthenticated().count_for(proxy);
        let silent = slots.open(proxy);
        drop(slots.open(proxy));
        assert_eq!(dropped([&one, &silent, &second, &third]), [true, false, false, false]);
    }

    #[test]
    fn without_file_descriptors_the_peer_with_most_connections_makes_room() {
        let slots = Arc::new(PeerSlots::new(3));
        assert!(!slots.make_room());
        let one = slots.open(peer(1));
        let [first, second] = [0; 2].map(|_| slots.open(peer(2)));
        assert!(slots.make_room());
        assert_eq!(dropped([&one, &first, &second]), [false, true, false]);
    }

    #[test]
    fn concurrent_use_leaks_no_slots() {
        let slots = Arc::new(PeerSlots::new(3));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let slots = &slots;
                scope.spawn(move || {
                    for turn in 0..2000_u32 {
                        let slot = slots.open(peer(1));
                        slot.unauthenticated().count_for(peer(2 + (turn % 2) as u8));
                        if turn % 5 == thread {
                            slot.unauthenticated().mark_authenticated();
                        }
                        slot.unauthenticated().count_for(peer(1));
                    }
                });
            }
        });
        assert!(slots.accounts.lock().by_peer.is_empty());
    }
}
