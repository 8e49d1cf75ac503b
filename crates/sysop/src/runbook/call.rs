//! Tool calls made by steps: the commands with their directory and variables, and the file edits.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use sysop_core::catalog::BASH_TOOL;
use sysop_core::guard::{GUARD_ARGUMENT, GuardRequest};
use sysop_repl::exec::{CallRole, SequenceCall};

use super::Runbook;
use crate::config::{ABSENT, EditContent, FileEdit, RoutineError, RunbookStep, StepAction};

/// A command or an edit with all values filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepCall {
    Command(String),
    Edit(FileEdit),
}

impl StepCall {
    /// Returns the text shown to users.
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Command(command) => command.clone(),
            Self::Edit(FileEdit { file, content: EditContent::Whole(content), .. }) => {
                format!("write {} bytes to {file}", content.len())
            }
            Self::Edit(FileEdit { file, content: EditContent::Replace { old, new }, .. }) => {
                format!("in {file}, replace {old:?} with {new:?}")
            }
        }
    }

    /// Returns the tool call. `reason` is shown when a command needs approval.
    pub(super) fn to_call(&self, reason: &str, timeout_s: u64, guard: Option<GuardRequest>) -> SequenceCall {
        let (tool, arguments) = match self {
            Self::Command(command) => {
                let mut arguments = json!({
                    "command": command, "reason": reason, "timeout_s": timeout_s, "on_timeout": "kill",
                });
                if let Some(guard) = guard {
                    arguments[GUARD_ARGUMENT] = guard.to_value();
                }
                (BASH_TOOL, arguments)
            }
            Self::Edit(FileEdit { file, content: EditContent::Whole(content), .. }) => {
                ("write_file", json!({ "path": file, "content": content }))
            }
            Self::Edit(FileEdit { file, content: EditContent::Replace { old, new }, .. }) => {
                ("edit_file", json!({ "path": file, "old_string": old, "new_string": new }))
            }
        };
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        SequenceCall {
            tool: tool.to_owned(),
            arguments,
            role: CallRole::Step,
            delay: Duration::ZERO,
            host: None,
        }
    }
}

impl Runbook {
    /// Returns one of the step's commands, with the step's directory and variables.
    pub(super) fn command(
        &self,
        step: &RunbookStep,
        template: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<String, RoutineError> {
        let command = self.routine.fill(template, values)?;
        let mut env = String::new();
        for (name, value) in &step.env {
            let value = self.routine.fill_plain(value, values)?;
            env.push_str(&format!("export {name}={}\n", shell_words::quote(&value)));
        }
        let Some(cwd) = &step.cwd else { return Ok(env + &command) };
        let cwd = self.routine.fill_plain(cwd, values)?;
        let cwd = shell_words::quote(&cwd);
        // Without operators, the command needs no group; its effect can then be shown.
        if env.is_empty() && !command.contains(|c: char| "\n;&|()#<".contains(c)) {
            return Ok(format!("cd -- {cwd} && {command}"));
        }
        Ok(format!("cd -- {cwd} && {{\n{env}{command}\n}}"))
    }

    /// Returns the call that makes the change, or `None` for a manual step.
    pub(super) fn action(
        &self,
        step: &RunbookStep,
        values: &BTreeMap<String, String>,
    ) -> Result<Option<StepCall>, RoutineError> {
        Ok(match &step.action {
            StepAction::Manual => None,
            StepAction::Command(template) => Some(StepCall::Command(self.command(step, template, values)?)),
            StepAction::Edit(edit) => {
                let fill = |text: &str| self.routine.fill_plain(text, values);
                let content = match &edit.content {
                    EditContent::Whole(content) => EditContent::Whole(fill(content)?),
                    EditContent::Replace { old, new } => {
                        EditContent::Replace { old: fill(old)?, new: fill(new)? }
                    }
                };
                let file = fill(&edit.file)?;
                Some(StepCall::Edit(FileEdit { file, content, sha256: edit.sha256.clone() }))
            }
        })
    }

    /// Returns the call that undoes a step, or `None` if there is none. Unless the step says otherwise,
    /// replaced text is restored, and a new file is removed.
    pub(super) fn undo(
        &self,
        step: &RunbookStep,
        values: &BTreeMap<String, String>,
    ) -> Result<Option<StepCall>, RoutineError> {
        if let Some(template) = &step.undo {
            return Ok(Some(StepCall::Command(self.command(step, template, values)?)));
        }
        let Some(StepCall::Edit(edit)) = self.action(step, values)? else { return Ok(None) };
        Ok(match edit.content {
            EditContent::Replace { old, new } if !new.is_empty() => {
                let content = EditContent::Replace { old: new, new: old };
                Some(StepCall::Edit(FileEdit { content, sha256: None, ..edit }))
            }
            EditContent::Whole(_) if edit.sha256.as_deref() == Some(ABSENT) => {
                Some(StepCall::Command(format!("rm -- {}", shell_words::quote(&edit.file))))
            }
            EditContent::Replace { .. } | EditContent::Whole(_) => None,
        })
    }
}

/// Returns the command that prints the hash of a file, or `absent` if the file does not exist.
pub(super) fn hash_command(file: &str) -> String {
    let file = shell_words::quote(file);
    format!("test ! -e {file} && echo {ABSENT} || sha256sum -- {file}")
}
