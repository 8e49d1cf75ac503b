//! Limits per token and per client address: requests, connections, sessions.
//!
//! This module only counts; it does not depend on requests or sessions. Its memory is bounded however many clients
//! connect: a limited number of them is tracked individually, and all others share one account.

mod lingering_close;
mod listener;
mod peer_slots;
mod rate;
mod write_timeout;

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

pub use self::listener::Listener;
pub(crate) use self::peer_slots::UnauthenticatedSlot;
pub use self::rate::{Rate, RateLimiter, RetryAfter};

#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests per token, including WebSocket upgrades and messages on sockets.
    pub requests: Rate,
    /// Simultaneous requests, sockets and streams per token.
    pub connections: usize,
    /// Sessions opened per token.
    pub sessions: Rate,
    /// Simultaneous connections per client address that have not presented a valid token.
    pub peer_connections: usize,
    /// Failed authentications per client address.
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

/// Limits the number of permits held at a time, per holder.
#[derive(Debug)]
pub struct ConcurrencyLimiter<K> {
    in_use: Arc<Mutex<HashMap<K, usize>>>,
    most: usize,
}

impl<K: Hash + Eq + Clone> ConcurrencyLimiter<K> {
    pub fn new(most: usize) -> Self {
        Self { in_use: Arc::default(), most }
    }

    /// Takes a permit, or returns `None` if the holder has used up its limit. Dropping the permit releases it.
    pub fn take(&self, holder: &K) -> Option<ConcurrencyPermit<K>> {
        let mut in_use = self.in_use.lock();
        let count = in_use.get(holder).copied().unwrap_or(0);
        if count >= self.most {
            return None;
        }
        in_use.insert(holder.clone(), count + 1);
        Some(ConcurrencyPermit { in_use: Arc::clone(&self.in_use), holder: holder.clone() })
    }
}

/// Held permit; released on drop.
#[derive(Debug)]
pub struct ConcurrencyPermit<K: Hash + Eq> {
    in_use: Arc<Mutex<HashMap<K, usize>>>,
    holder: K,
}

impl<K: Hash + Eq> Drop for ConcurrencyPermit<K> {
    fn drop(&mut self) {
        let mut in_use = self.in_use.lock();
        if let Some(count) = in_use.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                in_use.remove(&self.holder);
            }
        }
    }
}

/// Accounting key of a client address: an IPv4 address, or the /64 prefix of an IPv6 address, which one customer
/// usually owns entirely.
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
    fn dropped_slots_are_freed_and_idle_peers_forgotten() {
        let limiter = ConcurrencyLimiter::new(2);
        let first = limiter.take(&"a").unwrap();
        let second = limiter.take(&"a").unwrap();
        assert!(limiter.take(&"a").is_none());
        assert!(limiter.take(&"b").is_some(), "other holders are not affected");
        drop(first);
        drop(limiter.take(&"a").unwrap());
        drop(second);
        assert!(limiter.in_use.lock().is_empty());
    }

    #[test]
    fn one_ipv6_network_counts_as_one_peer() {
        let key = |text: &str| PeerKey::from(text.parse::<std::net::IpAddr>().unwrap());
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::9"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }
}
