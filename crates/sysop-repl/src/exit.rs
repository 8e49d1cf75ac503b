//! Exit codes of the front ends and the program.

use std::process::ExitCode;

/// Result of a program run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// The task failed: a model error, the iteration limit, or a failed command of a routine.
    Failed,
    /// Invalid command line or config.
    Usage,
    /// An approval was needed and nobody could give it; nothing ran.
    ApprovalNeeded,
    /// Stopped by another front end.
    Stopped,
    /// The terminal is gone (SIGHUP).
    HungUp,
    /// Ctrl+C (SIGINT).
    Interrupted,
    /// Standard output was closed by its reader.
    PipeClosed,
    /// SIGTERM.
    Terminated,
}

impl Exit {
    /// Exit code for the shell; for signals 128 plus the signal's number.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::ApprovalNeeded => 3,
            Self::Stopped => 4,
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::PipeClosed => 141,
            Self::Terminated => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
