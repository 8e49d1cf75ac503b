//! Exit codes of the front ends and of the whole program.

use std::process::ExitCode;

/// Way in which a run of the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// The task failed: a model error, the iteration limit, or a failed command of a routine.
    Failed,
    /// The command line or the config is invalid.
    Usage,
    /// An approval was needed but nobody could give it, so nothing ran.
    ApprovalNeeded,
    /// A user rejected the task's call or stopped the turn, here or in another front end.
    Stopped,
    /// The terminal is gone (SIGHUP).
    HungUp,
    /// The user pressed Ctrl+C (SIGINT).
    Interrupted,
    /// Standard output was closed by its reader.
    PipeClosed,
    /// The process received SIGTERM.
    Terminated,
}

impl Exit {
    /// Returns the exit code for the shell. For a signal, this is 128 plus the signal's number.
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
