//! Conditions under which an approval is answered: its expiry, and the number of people who must allow the call.

use serde::{Deserialize, Serialize};

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
    use super::approval_id;
    use crate::id::{Seq, SessionId};

    #[test]
    fn an_approval_is_named_by_the_end_of_its_session_and_its_position() {
        let id = SessionId::new("01890a5d-ac96-774b-bcce-b302099a8057");
        assert_eq!(approval_id(&id, Seq(17)), "9a8057-17");
        assert_eq!(approval_id(&SessionId::new("s1"), Seq(2)), "s1-2");
        assert_eq!(approval_id(&SessionId::new("\u{1b}[2J"), Seq(2)), "2J-2");
    }
}
