//! Result of a call that used the terminal.

use sysop_core::outcome::Status;

use crate::machine::MachineError;

#[derive(Debug)]
pub(crate) struct CallEnd {
    pub(crate) status: Status,
    pub(crate) exit_code: Option<i32>,
    /// Lines shown below the output.
    pub(crate) notes: Vec<String>,
}

/// Reason why a call did nothing.
#[derive(Debug)]
pub(crate) enum CallError {
    Machine(MachineError),
    Refused(String),
}

impl From<MachineError> for CallError {
    fn from(error: MachineError) -> Self {
        Self::Machine(error)
    }
}

impl CallEnd {
    pub(super) fn new(status: Status, note: impl Into<String>) -> Self {
        Self { status, exit_code: None, notes: vec![note.into()] }
    }

    pub(super) fn exited(code: i32) -> Self {
        let status = if code == 0 { Status::Ok } else { Status::Failed };
        Self { status, exit_code: Some(code), notes: vec![format!("exit code {code}")] }
    }
}
