//! Exit codes: the ways in which a front end, and with it the program, ends.

use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It did what it should.
    Done,
    /// The task failed: a model error, the iteration limit, a command of a routine.
    Failed,
    /// The command line or the config cannot be used.
    Usage,
    /// An approval was needed and nobody could give it; nothing ran.
    ApprovalNeeded,
    /// Someone else stopped it.
    Stopped,
    /// The terminal is gone (SIGHUP).
    HungUp,
    /// Ctrl-C (SIGINT).
    Interrupted,
    /// Nobody reads standard output any more.
    PipeClosed,
    /// SIGTERM.
    Terminated,
}

impl Exit {
    /// The number that the shell sees; above 128 it is 128 and the signal.
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
