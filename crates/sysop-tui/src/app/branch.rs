//! The branch of the repository at the session's root, for the status line, and when to ask for it again.

use std::mem::take;

use sysop_core::event::Event;
use sysop_core::id::CallId;
use sysop_core::message::ToolCall;

#[derive(Debug, Default)]
pub(super) struct Branch {
    pub(super) name: Option<String>,
    /// Calls in progress that may switch the branch.
    switching: Vec<CallId>,
    is_stale: bool,
}

impl Branch {
    #[expect(clippy::wildcard_enum_match_arm, reason = "other events switch no branch")]
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::ToolStarted { call, .. } if may_switch(call) => self.switching.push(call.id.clone()),
            Event::ToolFinished { call, .. } => {
                let before = self.switching.len();
                self.switching.retain(|id| id != call);
                self.is_stale |= self.switching.len() < before;
            }
            _ => {}
        }
    }

    /// Returns true once after calls that may have switched the branch.
    pub(super) fn take_stale(&mut self) -> bool {
        take(&mut self.is_stale)
    }
}

/// Returns true for commands, keys, and tools for git.
fn may_switch(call: &ToolCall) -> bool {
    ["command", "keys"].iter().any(|name| call.text_argument(name).is_some()) || call.name.starts_with("git_")
}

#[cfg(test)]
mod tests {
    use sysop_core::id::CallId;
    use sysop_core::message::{Arguments, ToolCall};

    use super::may_switch;

    #[test]
    fn commands_keys_and_git_tools_may_switch_the_branch_and_reads_may_not() {
        for (name, argument, expected) in [
            ("bash", "command", true),
            ("send_keys", "keys", true),
            ("git_commit", "message", true),
            ("read_file", "path", false),
        ] {
            let map = serde_json::Map::from_iter([(argument.to_owned(), "x".into())]);
            let arguments = Arguments::Object(map);
            let call = ToolCall { id: CallId::new("c"), wire_id: None, name: name.to_owned(), arguments };
            assert_eq!(may_switch(&call), expected, "{name}");
        }
    }
}
