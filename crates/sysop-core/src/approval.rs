//! Conditions under which an approval is answered: its expiry, and the number of people who must allow the call.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::auto_bounds::{SECONDS_SHOWN_BELOW, countdown_change};
use crate::id::{Seq, SessionId, Timestamp};

/// Conditions of one approval, fixed when it was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApprovalTerms {
    /// Time after which the call is rejected; `None` for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Number of different people who must allow the call; at least 1.
    pub people: u32,
}

impl Default for ApprovalTerms {
    fn default() -> Self {
        Self { expires: None, people: 1 }
    }
}

impl ApprovalTerms {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the call can no longer be allowed at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Returns a phrase about the expiry for users: `expires in 4 min`, or `None` if the approval never expires.
    /// Minutes are rounded up.
    pub fn expiry(&self, now: Timestamp) -> Option<String> {
        let seconds = u64::try_from(self.expires?.0.saturating_sub(now.0)).unwrap_or(0).div_ceil(1000);
        let minutes = seconds.div_ceil(60);
        let left = match (minutes / 60, minutes % 60) {
            _ if seconds == 0 => return Some("expired".to_owned()),
            _ if seconds < SECONDS_SHOWN_BELOW => format!("{seconds} s"),
            (0, minutes) => format!("{minutes} min"),
            (hours, 0) => format!("{hours} h"),
            (hours, minutes) => format!("{hours} h {minutes} min"),
        };
        Some(format!("expires in {left}"))
    }

    /// Returns the time after which [`expiry`](Self::expiry) changes; `None` if nothing is counted down.
    pub fn next_change(&self, now: Timestamp) -> Option<Duration> {
        countdown_change(self.expires?, now)
    }

    /// Returns a phrase for users, such as `0 of 2 people have allowed this`, or `None` if one person is enough.
    pub fn progress(&self, given: usize) -> Option<String> {
        (self.people > 1).then(|| format!("{given} of {} people have allowed this", self.people))
    }
}

/// Number of characters of the session id that an approval id contains.
const SESSION_CHARS: usize = 6;

/// Returns the id by which users refer to an approval: the end of the session id and the position of the
/// request, as in `4f3a91-17`. The position ensures that an answer never applies to a later request.
pub fn approval_id(session: &SessionId, asked: Seq) -> String {
    let plain: Vec<char> = session.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    let end: String = plain[plain.len().saturating_sub(SESSION_CHARS)..].iter().collect();
    format!("{end}-{}", asked.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ApprovalTerms, approval_id};
    use crate::id::{Seq, SessionId, Timestamp};

    #[test]
    fn an_approval_is_named_by_the_end_of_its_session_and_its_position() {
        let id = SessionId::new("01890a5d-ac96-774b-bcce-b302099a8057");
        assert_eq!(approval_id(&id, Seq(17)), "9a8057-17");
        assert_eq!(approval_id(&SessionId::new("s1"), Seq(2)), "s1-2");
        assert_eq!(approval_id(&SessionId::new("\u{1b}[2J"), Seq(2)), "2J-2");
    }

    #[test]
    fn the_expiry_is_counted_down_in_minutes_then_in_seconds() {
        let terms = ApprovalTerms { expires: Some(Timestamp(10_000_000)), ..ApprovalTerms::default() };
        let at = |left_ms: i64| {
            let now = Timestamp(10_000_000 - left_ms);
            let change = terms.next_change(now).map(|change| i64::try_from(change.as_millis()).unwrap());
            let after = |ms: i64| terms.expiry(Timestamp(now.0 + ms));
            if let Some(change) = change {
                assert_eq!(after(change - 1), after(0), "{left_ms}");
                assert_ne!(after(change), after(0), "{left_ms}");
            }
            terms.expiry(now).unwrap()
        };
        for (left_ms, phrase) in [
            (3_900_000, "expires in 1 h 5 min"),
            (3_600_000, "expires in 1 h"),
            (200_500, "expires in 4 min"),
            (119_000, "expires in 119 s"),
            (500, "expires in 1 s"),
            (0, "expired"),
            (-5, "expired"),
        ] {
            assert_eq!(at(left_ms), phrase, "{left_ms}");
        }
        assert_eq!(terms.next_change(Timestamp(10_000_000)), None);
        assert_eq!(terms.next_change(Timestamp(9_999_999)), Some(Duration::from_millis(1)));
        let never = ApprovalTerms::default();
        assert_eq!((never.expiry(Timestamp(0)), never.next_change(Timestamp(0))), (None, None));
    }
}
