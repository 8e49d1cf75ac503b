//! Expansion of a skill or command that a user invokes: its arguments, and the commands to run first.

use super::{Skill, SkillKind};

/// Maximum number of commands that one skill or custom command may run; further commands stay in its text but do not
/// run.
const COMMANDS_MAX: usize = 10;

/// Result of expanding a prompt that invokes a skill or command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expansion {
    /// Text for the model.
    pub text: String,
    /// Commands to run first, because the text refers to their outputs. The user's arguments in them are quoted for the
    /// shell. The policy treats them like the model's commands.
    pub commands: Vec<String>,
}

impl Expansion {
    /// Replaces `$ARGUMENTS`, `$1` to `$9` and `${1:-default}` in the skill's text with the arguments. If the
    /// text has no such placeholder, the arguments are appended. The commands in `` !`…` `` are moved to
    /// `commands`. Inserted arguments are not expanded again.
    pub(super) fn new(skill: &Skill, arguments: &str) -> Self {
        let words = shell_words::split(arguments)
            .unwrap_or_else(|_| arguments.split_whitespace().map(str::to_owned).collect());
        let arguments = Given { line: arguments, words };
        let mut expansion = Self { text: String::new(), commands: Vec::new() };
        let mut placed = false;
        let mut rest = skill.body.as_str();
        while let Some(at) = rest.find("!`") {
            let Some(length) = rest[at + 2..].find(['`', '\n']) else { break };
            let end = at + 2 + length;
            let command = &rest[at + 2..end];
            if !rest[end..].starts_with('`') || command.trim().is_empty() {
                expansion.text.push_str(&arguments.put(&rest[..at + 2], false, &mut placed));
                rest = &rest[at + 2..];
                continue;
            }
            expansion.text.push_str(&arguments.put(&rest[..at], false, &mut placed));
            expansion.add_command(arguments.put(command.trim(), true, &mut placed));
            rest = &rest[end + 1..];
        }
        expansion.text.push_str(&arguments.put(rest, false, &mut placed));
        if !placed && !arguments.line.is_empty() {
            expansion.text.push_str(&format!("\n\nArguments: {}", arguments.line));
        }
        if skill.kind == SkillKind::Skill {
            expansion.text.push_str(&format!("\n\nDirectory of these instructions: {}", skill.folder()));
        }
        expansion
    }

    fn add_command(&mut self, command: String) {
        if self.commands.len() < COMMANDS_MAX {
            self.text.push_str(&format!("(see the output of `{command}`)"));
            self.commands.push(command);
        } else {
            self.text.push_str(&format!("(not run, more than {COMMANDS_MAX} commands: `{command}`)"));
        }
    }
}

/// Arguments as given by the user.
struct Given<'a> {
    line: &'a str,
    words: Vec<String>,
}

impl Given<'_> {
    /// Replaces the placeholders in `text`, and sets `placed` if there was one. In a command, the arguments are quoted
    /// for the shell.
    fn put(&self, text: &str, is_command: bool, placed: &mut bool) -> String {
        let quoted = |word: &str| {
            if is_command { shell_words::quote(word).into_owned() } else { word.to_owned() }
        };
        let mut whole = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            whole.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("$ARGUMENTS") {
                let line = || shell_words::join(&self.words);
                whole.push_str(&if is_command { line() } else { self.line.to_owned() });
                (*placed, rest) = (true, after);
            } else if let Some((number, default, after)) = placeholder(rest) {
                let word = self.words.get(number - 1).map(String::as_str).or(default).unwrap_or_default();
                whole.push_str(&quoted(word));
                (*placed, rest) = (true, after);
            } else {
                whole.push('$');
                rest = &rest[1..];
            }
        }
        whole + rest
    }
}

/// Parses `$N` or `${N:-default}` at the beginning of the text. Returns the number, the default and the remaining text,
/// or `None` if there is no placeholder.
fn placeholder(text: &str) -> Option<(usize, Option<&str>, &str)> {
    let digit = |text: &str| text.chars().next()?.to_digit(10).filter(|digit| *digit > 0);
    let text = text.strip_prefix('$')?;
    if let Some(inner) = text.strip_prefix('{') {
        let (inner, after) = inner.split_once('}')?;
        let number = digit(inner)?;
        let default = match &inner[1..] {
            "" => None,
            default => Some(default.strip_prefix(":-")?),
        };
        return Some((number as usize, default, after));
    }
    let number = digit(text)?;
    // `$10` is not `$1` followed by a zero.
    let after = &text[1..];
    (!after.starts_with(|c: char| c.is_ascii_digit())).then_some((number as usize, None, after))
}

#[cfg(test)]
mod tests {
    use super::Expansion;
    use crate::instructions::InstructionSource;
    use crate::skill::{Skill, SkillKind};

    fn expand(body: &str, arguments: &str) -> Expansion {
        let skill = Skill::read(SkillKind::Command, "x", "/c/x.md", body, InstructionSource::User);
        Expansion::new(&skill.expect("a command"), arguments)
    }

    #[test]
    fn arguments_take_the_place_of_placeholders() {
        let cases = [
            ("Fix $1 on ${2:-web1}", "nginx", "Fix nginx on web1"),
            ("Fix $1 on ${2:-web1}", "'two words' db1", "Fix two words on db1"),
            ("All: $ARGUMENTS.", "a 'b c'", "All: a 'b c'."),
            ("No place", "a b", "No place\n\nArguments: a b"),
            ("No place", "", "No place"),
            ("$2 costs $10 and $HOME, $", "a", " costs $10 and $HOME, $"),
            ("${x} ${1} ${1", "a", "${x} a ${1"),
            ("$1", "$2 b", "$2"),
            ("$1", "it's", "it's"),
        ];
        for (body, arguments, expected) in cases {
            assert_eq!(expand(body, arguments).text, expected, "{body} with {arguments}");
        }
    }

    #[test]
    fn commands_are_taken_out_with_quoted_arguments() {
        let found = expand("Log:\n!`journalctl -u $1 -n ${2:-20}`\nDone", "'a; rm -rf ~'");
        assert_eq!(found.commands, ["journalctl -u 'a; rm -rf ~' -n 20"]);
        let expected = "Log:\n(see the output of `journalctl -u 'a; rm -rf ~' -n 20`)\nDone";
        assert_eq!(found.text, expected);
        assert_eq!(expand("!`ls $ARGUMENTS`", "a 'b c' $(id)").commands, ["ls a 'b c' '$(id)'"]);
    }

    #[test]
    fn an_argument_is_not_a_command() {
        let found = expand("Say $ARGUMENTS", "!`id`");
        assert_eq!((found.text.as_str(), found.commands.len()), ("Say !`id`", 0));
    }

    #[test]
    fn unfinished_commands_are_text() {
        for body in ["a !`", "a !`b\nc`", "a !`` b", "a !` ` b"] {
            let found = expand(body, "");
            assert_eq!((found.text.as_str(), found.commands.len()), (body.trim(), 0));
        }
    }

    #[test]
    fn too_many_commands_are_named_and_not_run() {
        let found = expand(&"!`id` ".repeat(12), "");
        assert_eq!(found.commands.len(), 10);
        assert!(found.text.contains("not run, more than 10 commands: `id`"), "{}", found.text);
    }
}
