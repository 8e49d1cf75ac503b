//! Slash commands in a prompt.

use serde_json::{Value, json};
use sysop_core::skill::Skill;
use sysop_core::text::neutralize_line;

use crate::prompt::PromptImage;

/// Commands of this front end: name, description, and a hint for the argument.
const COMMANDS: [(&str, &str, Option<&str>); 5] = [
    ("run", "Run a command on the session's host as you typed it", Some("COMMAND")),
    (
        "undo",
        "Undo the last change (of files: all edits of its turn), or a tool call by its number",
        Some("[CALL]"),
    ),
    ("compact", "Replace older messages with a summary", Some("[FOCUS]")),
    ("continue", "Resume after a pause", None),
    ("trust", "Trust the AGENTS.md and the skills of this workspace", None),
];

#[derive(Debug)]
pub(crate) enum PromptAction {
    /// A prompt for the model with its images. The prompt may invoke a skill or a custom command.
    Ask(String, Vec<PromptImage>),
    Run(String),
    /// Undo the tool call with this number, or the last change if `None`.
    Undo(Option<u64>),
    Compact(Option<String>),
    Continue,
    Trust,
}

pub(crate) fn action(text: String) -> PromptAction {
    let (word, rest) = match text.trim().split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim()),
        None => (text.trim(), ""),
    };
    match (word, rest) {
        ("/run", command) if !command.is_empty() => PromptAction::Run(command.to_owned()),
        ("/undo", "") => PromptAction::Undo(None),
        ("/undo", step) if step.parse().is_ok_and(|step: u64| step > 0) => {
            PromptAction::Undo(step.parse().ok())
        }
        ("/compact", focus) => PromptAction::Compact((!focus.is_empty()).then(|| focus.to_owned())),
        ("/continue", "") => PromptAction::Continue,
        ("/trust", "") => PromptAction::Trust,
        _ => PromptAction::Ask(text, Vec::new()),
    }
}

/// Returns the message that tells the editor which commands are available.
pub(crate) fn available(skills: &[Skill]) -> Value {
    let own = COMMANDS.iter().map(|(name, description, hint)| command(name, description, *hint));
    let skills = skills.iter().map(|skill| {
        let description = neutralize_line(&skill.description);
        let description = if description.is_empty() { skill.path.as_str().into() } else { description };
        command(&skill.name, &description, Some(skill.arguments.as_deref().unwrap_or("ARGUMENTS")))
    });
    let commands: Vec<Value> = own.chain(skills).collect();
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands })
}

fn command(name: &str, description: &str, hint: Option<&str>) -> Value {
    let mut command = json!({ "name": name, "description": description });
    if let Some(hint) = hint {
        command["input"] = json!({ "hint": neutralize_line(hint) });
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_commands_are_recognized_and_everything_else_is_a_prompt() {
        let of = |text: &str| format!("{:?}", action(text.to_owned()));
        assert_eq!(of("/run  ls -la | wc"), r#"Run("ls -la | wc")"#);
        assert_eq!((of("/undo"), of("/undo 3")), ("Undo(None)".to_owned(), "Undo(Some(3))".to_owned()));
        assert_eq!(of("/compact"), "Compact(None)");
        assert_eq!(of("/compact the disk"), r#"Compact(Some("the disk"))"#);
        assert_eq!(of(" /continue "), "Continue");
        assert_eq!(of("/trust"), "Trust");
        for prompt in
            ["/run", "/undo 0", "/undo it", "/continue now", "/deploy web1", "run ls", "why /run ls"]
        {
            assert_eq!(of(prompt), format!("Ask({prompt:?}, [])"));
        }
    }

    #[test]
    fn each_command_has_a_name_and_a_description() {
        let message = available(&[]);
        let commands = message["availableCommands"].as_array().unwrap();
        assert_eq!(commands.len(), COMMANDS.len());
        assert!(
            commands.iter().all(|command| command["name"].is_string() && command["description"].is_string())
        );
    }
}
