//! Errors that end the program with an exit code of their own.

pub(crate) use sysop_repl::Exit;

/// A bad end whose kind is known. An error of any other type ends the program as [`Exit::Failed`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CommandError {
    /// How the program ends.
    pub(crate) exit: Exit,
    /// What failed, and what to do after a `; ` (see `sysop_core::ui_text::split_hint`).
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
