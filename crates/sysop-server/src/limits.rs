//! What one caller or one peer may use of the server: requests, connections, sessions.
//!
//! Knows no request and no session; counts only. However many peers knock, its memory has an end: who they are is
//! kept for a bounded number of them, and all others share one account.

mod lingering_close;
mod listener;
mod peer_slots;
mod rate;
mod write_timeout;

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

pub use self::listener::Listener;
pub(crate) use self::peer_slots::UnauthenticatedSlot;
pub use self::rate::{Rate, RateLimiter, RetryAfter};

/// What a server lets its callers use.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests of one token, upgrades to sockets among them.
    pub requests: Rate,
    /// Sockets and streams of one token at a time.
    pub connections: usize,
    /// Sessions that one token may open.
    pub sessions: Rate,
    /// Connections of one peer at a time on which no token was shown.
    pub peer_connections: usize,
    /// Requests of one peer that show no token, or a wrong one.
    pub failures: Rate,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: Rate { per_minute: 60_000, burst: 5_000 },
            connections: 1024,
            sessions: Rate { per_minute: 600, burst: 2_000 },
            peer_connections: 1024,
            failures: Rate { per_minute: 120, burst: 200 },
        }
    }
}

/// Counts what is held at the moment, by its holder.
#[derive(Debug)]
pub struct ConcurrencyLimiter<K> {
    in_use: Arc<Mutex<HashMap<K, usize>>>,
    most: usize,
}

impl<K: Hash + Eq + Clone> ConcurrencyLimiter<K> {
    /// Nobody may hold more than `most`.
    pub fn new(most: usize) -> Self {
        Self { in_use: Arc::default(), most }
    }

    /// Takes one for a holder until what is returned is dropped; none where it holds as many as it may.
    pub fn take(&self, holder: &K) -> Option<ConcurrencyPermit<K>> {
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        let count = in_use.get(holder).copied().unwrap_or(0);
        if count >= self.most {
            return None;
        }
        in_use.insert(holder.clone(), count + 1);
        Some(ConcurrencyPermit { in_use: Arc::clone(&self.in_use), holder: holder.clone() })
    }
}

/// One of what is counted, until it is dropped.
#[derive(Debug)]
pub struct ConcurrencyPermit<K: Hash + Eq> {
    in_use: Arc<Mutex<HashMap<K, usize>>>,
    holder: K,
}

impl<K: Hash + Eq> Drop for ConcurrencyPermit<K> {
    fn drop(&mut self) {
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = in_use.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                in_use.remove(&self.holder);
            }
        }
    }
}

/// What stands for a peer in accounts: an IPv4 address, or the /64 that an IPv6 address lies in, which one person has
/// all of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerKey(IpAddr);

impl From<IpAddr> for PeerKey {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ConcurrencyLimiter, PeerKey};

    #[test]
    fn what_is_dropped_is_free_again_and_nothing_is_kept_of_who_holds_nothing() {
        let limiter = ConcurrencyLimiter::new(2);
        let first = limiter.take(&"a").unwrap();
        let second = limiter.take(&"a").unwrap();
        assert!(limiter.take(&"a").is_none());
        assert!(limiter.take(&"b").is_some(), "others are not concerned");
        drop(first);
        drop(limiter.take(&"a").unwrap());
        drop(second);
        assert!(limiter.in_use.lock().unwrap().is_empty());
    }

    #[test]
    fn one_network_of_ipv6_is_one_peer() {
        let key = |text: &str| PeerKey::from(text.parse::<std::net::IpAddr>().unwrap());
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::9"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }
}
