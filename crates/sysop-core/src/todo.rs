//! The agent's todo list.

use serde::{Deserialize, Serialize};

/// Maximum items kept of a todo list; the first ones stay.
pub const LIST_ITEMS_MAX: usize = 100;

/// One item of the todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TodoItem {
    /// The task in one line.
    pub text: String,
    /// Progress of the task.
    pub state: TodoState,
}

/// Progress of a todo item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TodoState {
    /// Not started.
    #[default]
    Pending,
    /// In progress.
    Active,
    /// Finished.
    Done,
}
