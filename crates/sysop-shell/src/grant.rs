//! Scope of the answer "allow for this session", which is never wider than one kind of plain command.

use serde::{Deserialize, Serialize};

use super::lexer::{Lexer, Token, Word};
use super::program_call::{ProgramCall, Script, ScriptOrigin, Stdin};
use super::{Analysis, programs};
use crate::risk::RiskClass;

/// Set of calls that the answer "allow for this session" covers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Exactly this command.
    Exact {
        /// The command, byte for byte.
        command: String,
    },
    /// Any plain command of this program and subcommand.
    Program {
        /// As in `git`.
        program: String,
        /// As in `status` or `compose up`; `None` if the program has no subcommands.
        subcommand: Option<String>,
    },
    /// Any call of this tool (file tools).
    Tool {
        /// Tool name, as in `write_file`.
        name: String,
    },
}

pub fn grant_for(command: &str, analysis: &Analysis) -> Grant {
    let exact = Grant::Exact { command: command.to_owned() };
    if analysis.risk.class > RiskClass::Changes {
        return exact;
    }
    match granted(command) {
        Some((program, subcommand, most)) if analysis.risk.class <= most => {
            Grant::Program { program, subcommand }
        }
        Some(_) | None => exact,
    }
}

/// Returns true if an earlier grant covers this command.
pub fn covers(grant: &Grant, command: &str, analysis: &Analysis) -> bool {
    match grant {
        Grant::Exact { command: exact } => exact == command,
        Grant::Program { program, subcommand } => granted(command).is_some_and(|(name, path, most)| {
            analysis.risk.class <= most && name == *program && path == *subcommand
        }),
        Grant::Tool { .. } => false,
    }
}

/// Returns the words of a plain command, or `None` for any other command. A plain command has no expansion, glob,
/// redirection or leading assignment, and no second command.
fn plain_words(command: &str) -> Option<Vec<Word>> {
    let mut lexer = Lexer::new(command, 0, &[]);
    let mut words = Vec::new();
    loop {
        match lexer.next().ok()? {
            Token::End => return Some(words),
            Token::Word(word) => {
                word.literal()?;
                if word.ansi || word.odd || word.history || word.value_at.is_some() && words.is_empty() {
                    return None;
                }
                words.push(word);
            }
            Token::Redirect(_) | Token::Operator(..) | Token::Comment => return None,
        }
    }
}

/// Returns the program and subcommand that a grant by name for this command would cover, and the worst class that it
/// covers. `None` if no grant by name can cover the command.
fn granted(command: &str) -> Option<(String, Option<String>, RiskClass)> {
    let words = plain_words(command)?;
    let script = Script { source: command, origin: ScriptOrigin::TopLevel };
    let call = ProgramCall {
        script: &script,
        words: &words,
        span: (0, command.len()),
        input: &Stdin::Inherited,
        argument_source: None,
    };
    programs::granted_kind(&call)
}
