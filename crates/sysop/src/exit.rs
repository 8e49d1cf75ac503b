//! Errors that determine the exit code.

pub(crate) use sysop_repl::Exit;

/// Error that determines the exit code. An error of any other type exits the program with [`Exit::Failed`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CommandError {
    pub(crate) exit: Exit,
    /// The failure, followed by a hint after `; ` (see `sysop_core::ui_text::split_hint`).
    pub(crate) message: String,
}

impl CommandError {
    /// Creates an error about an invalid command line or config.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into() }
    }
}

/// The user ended a dialog before anything was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("canceled; nothing was changed")]
pub(crate) struct Cancellation;

pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<CommandError>())
        .map_or(Exit::Failed, |failure| failure.exit)
}
