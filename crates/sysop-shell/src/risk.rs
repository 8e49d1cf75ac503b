//! Result of an analysis: the class of a command, and the parts of the command that explain the class.

use serde::{Deserialize, Serialize};

/// Risk classes, from lowest to highest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RiskClass {
    /// Known to only read.
    ReadOnly,
    /// Only reads, but connects to another machine or resolves a name.
    ReadsRemote,
    /// Makes changes that the text of the command shows.
    #[default]
    Changes,
    /// Has an effect that the text of the command does not show: `eval`, a sourced file, a program given to an
    /// interpreter.
    Opaque,
    /// Reads a secret: a private key, a password file, a token.
    ReadsSecret,
    /// Matches a dangerous pattern, destroys data, or cannot be parsed.
    Dangerous,
    /// May lock people out of the host, because it affects logins, the network or accounts.
    Lockout,
}

/// Risk of a call, which is shown together with the call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Risk {
    /// Worst class of all parts.
    pub class: RiskClass,
    /// Findings in the order of discovery.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// Reason for the risk of one part of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Byte offset in the command where the finding starts.
    pub start: usize,
    /// Byte offset right after the finding.
    pub end: usize,
    /// Severity of the finding.
    pub class: RiskClass,
    /// Short reason: `recursive delete`, `writes to a block device`.
    pub why: String,
}

/// Clause of a reason why facts are missing: a host did not answer in time. The time follows.
pub const NO_ANSWER: &str = "did not answer within";

/// End of a finding about hosts that cannot be reached, after their names and the reason.
pub const NOT_REACHED: &str = "; nothing will run there";

impl Finding {
    /// Returns a finding about hosts on which a call will not run. `line` has their names and the reason. The class is
    /// the lowest, because the command is as risky on the other hosts.
    pub fn unreached(line: &str) -> Self {
        Self { start: 0, end: 0, class: RiskClass::ReadOnly, why: format!("{line}{NOT_REACHED}") }
    }

    /// Returns true if the finding is about hosts on which the call will not run.
    pub fn is_unreached(&self) -> bool {
        self.class == RiskClass::ReadOnly && self.end == 0 && self.why.ends_with(NOT_REACHED)
    }

    /// Returns true if the finding is due to a host that did not answer, not to the command.
    pub fn lacks_answer(&self) -> bool {
        self.class == RiskClass::Opaque && self.why.contains(NO_ANSWER)
    }
}

impl RiskClass {
    /// Returns true if no grant, rule, bound or hook covers this class: the user is asked each time.
    pub fn always_asks(self) -> bool {
        self >= Self::ReadsSecret
    }
}
