//! What a shell command would do, read off its grammar. Pure; advice for the policy, not a fence.

use crate::policy::{Finding, Grant, Risk};

/// What is known of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysis {
    /// How much it can do, and why.
    pub risk: Risk,
    /// Each simple command in it, wrappers unwrapped (`sudo -u x ls` gives `sudo …` and `ls`).
    pub invocations: Vec<Invocation>,
}

/// One simple command: its words after quote removal, where all are literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Program and arguments; a word that is not literal is `None`.
    pub words: Vec<Option<String>>,
}

/// Analyses a command line of a POSIX shell or bash.
pub fn analyse(_command: &str) -> Analysis {
    Analysis::default()
}

/// What "allow for this session" should cover for this command.
pub fn grant_for(command: &str, _analysis: &Analysis) -> Grant {
    Grant::Exact { command: command.to_owned() }
}

/// Whether a grant given earlier covers this command.
pub fn covers(grant: &Grant, command: &str, _analysis: &Analysis) -> bool {
    matches!(grant, Grant::Exact { command: exact } if exact == command)
}

/// Finding type re-export for signatures.
pub type ShellFinding = Finding;
