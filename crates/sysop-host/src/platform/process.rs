//! Facts about a process, the same on each system.

/// One process of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEntry {
    /// Name of the program, cut to about 15 bytes. A process can choose it.
    pub name: String,
    pub state: ProcessState,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    /// Number that stands for the controlling terminal in this table; 0 if there is none.
    pub terminal: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// Waits for an event, such as input.
    Sleeping,
    /// Has ended, but was not reaped.
    Ended,
    /// Runs, is stopped, or waits uninterruptibly.
    Other,
}

/// Real and effective user id of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserIds {
    pub(crate) real: u32,
    pub(crate) effective: u32,
}
