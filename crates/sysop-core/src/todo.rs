//! The agent's todo list.

use serde::{Deserialize, Serialize};

/// Maximum items kept of a todo list; the first ones stay.
pub const LIST_ITEMS_MAX: usize = 100;

pub const ITEM_BYTES_MAX: usize = 500;

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

/// Summarizes a list in one line.
///
/// ```
/// use sysop_core::todo::{TodoItem, TodoState, summary};
///
/// let item = |text: &str, state| TodoItem { text: text.to_owned(), state };
/// let items = [item("look", TodoState::Done), item("clean up", TodoState::Active)];
/// assert_eq!(summary(&items), "1 of 2 done; now: clean up");
/// ```
pub fn summary(items: &[TodoItem]) -> String {
    if items.is_empty() {
        return "the list is empty".to_owned();
    }
    let done = items.iter().filter(|item| item.state == TodoState::Done).count();
    let active = items.iter().find(|item| item.state == TodoState::Active);
    let active = active.map_or_else(String::new, |item| format!("; now: {}", item.text.trim()));
    format!("{done} of {} done{active}", items.len())
}

/// Formats a list with one item per line: `[x]` done, `[>]` in progress, `[ ]` not started.
pub fn as_text(items: &[TodoItem]) -> String {
    let line = |item: &TodoItem| {
        let mark = match item.state {
            TodoState::Pending => ' ',
            TodoState::Active => '>',
            TodoState::Done => 'x',
        };
        format!("[{mark}] {}", item.text.replace(['\n', '\r'], " "))
    };
    items.iter().map(line).collect::<Vec<_>>().join("\n")
}
