//! How the program ends: the exit codes of the contract, and the sentence that goes with a bad end.

use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
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
    pub(crate) fn code(self) -> u8 {
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

/// A bad end whose kind is known. An error of any other type ends the program as [`Exit::Failed`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CommandError {
    /// How the program ends.
    pub(crate) exit: Exit,
    /// What happened and what to do next, in one sentence.
    pub(crate) message: String,
}

impl CommandError {
    /// A command line or config that cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    /// A task that failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into() }
    }
}

/// The exit that an error stands for.
pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<CommandError>())
        .map_or(Exit::Failed, |failure| failure.exit)
}
