//! Rate limiter with a sustained rate and a burst: the generic cell rate algorithm (GCRA), with one timestamp per
//! account.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum number of individual accounts; all further holders share one account.
const ACCOUNTS_MAX: usize = 8192;

/// Sustained rate of an action, and its burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub per_minute: u32,
    /// Number of actions that are allowed at once after a pause.
    pub burst: u32,
}

impl Rate {
    fn interval(self) -> Duration {
        Duration::from_secs(60) / self.per_minute.max(1)
    }

    /// Burst tolerance (GCRA): maximum time by which an account's theoretical arrival time may lie in the future.
    fn tolerance(self) -> Duration {
        self.interval() * self.burst.max(1).saturating_sub(1)
    }
}

/// Rate exceeded; the action is possible again after this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryAfter(pub Duration);

impl RetryAfter {
    /// Whole seconds for the `Retry-After` header; never 0.
    pub fn seconds(self) -> u64 {
        self.0.as_secs() + 1
    }
}

/// Enforces a rate per account.
#[derive(Debug)]
pub struct RateLimiter<K> {
    rate: Rate,
    /// Theoretical arrival time (GCRA) of each account. A past time counts as no entry. `None` is the shared account.
    booked: Mutex<HashMap<Option<K>, Instant>>,
}

impl<K: Hash + Eq + Clone> RateLimiter<K> {
    pub fn new(rate: Rate) -> Self {
        Self { rate, booked: Mutex::default() }
    }

    /// Counts one action of an account. Fails if the rate is exceeded; the action is not counted then.
    pub fn try_acquire(&self, account: &K) -> Result<(), RetryAfter> {
        let mut booked = self.booked.lock();
        // Read after taking the lock: with an older time, actions counted meanwhile would look like an exceeded rate.
        let now = Instant::now();
        let mut account = Some(account.clone());
        if booked.len() >= ACCOUNTS_MAX && !booked.contains_key(&account) {
            booked.retain(|_, until| *until > now);
            if booked.len() >= ACCOUNTS_MAX {
                account = None; // the shared account
            }
        }
        let until = booked.get(&account).map_or(now, |until| (*until).max(now));
        let ahead = until - now;
        if let Some(wait) = ahead.checked_sub(self.rate.tolerance()).filter(|wait| !wait.is_zero()) {
            return Err(RetryAfter(wait));
        }
        booked.insert(account, until + self.rate.interval());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ACCOUNTS_MAX, Rate, RateLimiter, RetryAfter};

    const RATE: Rate = Rate { per_minute: 60, burst: 3 };

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_then_the_rate_applies() {
        let limiter = RateLimiter::new(RATE);
        for _ in 0..3 {
            assert_eq!(limiter.try_acquire(&"a"), Ok(()));
        }
        assert_eq!(limiter.try_acquire(&"a"), Err(RetryAfter(Duration::from_secs(1))));
        assert_eq!(limiter.try_acquire(&"b"), Ok(()), "other holders have their own account");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(limiter.try_acquire(&"a"), Ok(()));
        assert!(limiter.try_acquire(&"a").is_err(), "only one action became possible again");
        tokio::time::advance(Duration::from_secs(3600)).await;
        let passed = (0..10).filter(|_| limiter.try_acquire(&"a").is_ok()).count();
        assert_eq!(passed, 3, "a long pause allows no more than the burst");
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_accounts_share_one_limit() {
        let limiter = RateLimiter::new(RATE);
        let passed = (0..ACCOUNTS_MAX + 1000).filter(|account| limiter.try_acquire(account).is_ok()).count();
        assert_eq!(passed, ACCOUNTS_MAX + 3);
        assert!(limiter.booked.lock().len() <= ACCOUNTS_MAX + 1);
        assert_eq!(limiter.try_acquire(&0), Ok(()), "an existing holder keeps its account");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(
            limiter.try_acquire(&usize::MAX),
            Ok(()),
            "after the flood, new holders get accounts again"
        );
        assert_eq!(limiter.booked.lock().len(), 1);
    }
}
