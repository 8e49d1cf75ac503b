//! Reasoning effort: how long a model may think before it answers.

use serde::{Deserialize, Serialize};

/// Reasoning effort in the words of OpenAI's API. Models accept only some of the levels.
///
/// ```
/// use sysop_core::effort::Effort;
///
/// assert_eq!("high".parse(), Ok(Effort::High));
/// assert!("much".parse::<Effort>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
}

impl Effort {
    /// All levels, the lowest first.
    pub const ALL: [Self; 6] = [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
        }
    }
}

/// Error for text that is not an effort level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown effort `{0}`; use none, minimal, low, medium, high or xhigh")]
pub struct UnknownEffort(pub String);

impl std::str::FromStr for Effort {
    type Err = UnknownEffort;

    fn from_str(text: &str) -> Result<Self, UnknownEffort> {
        Self::ALL
            .into_iter()
            .find(|effort| effort.as_str() == text)
            .ok_or_else(|| UnknownEffort(text.to_owned()))
    }
}
