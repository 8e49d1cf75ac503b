//! Scope of the answer "allow for this session", which is never wider than one kind of plain command.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::lexer::{Lexer, Token, Word};
use super::program_call::{ProgramCall, Script, ScriptOrigin, Stdin};
use super::{Analysis, programs};
use crate::context::{Access, Survey};
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
    /// Any plain command of this program and subcommand, run in the same directory. None of its words names a path
    /// outside that directory.
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

/// Returns the widest grant that can be offered for a command.
pub fn grant_for(command: &str, analysis: &Analysis, survey: &Survey) -> Grant {
    let exact = Grant::Exact { command: command.to_owned() };
    if analysis.risk.class > RiskClass::Changes {
        return exact;
    }
    match granted(command, analysis, survey) {
        Some((program, subcommand, most)) if analysis.risk.class <= most => {
            Grant::Program { program, subcommand }
        }
        Some(_) | None => exact,
    }
}

/// Returns true if an earlier grant covers this command.
pub fn covers(grant: &Grant, command: &str, analysis: &Analysis, survey: &Survey) -> bool {
    match grant {
        Grant::Exact { command: exact } => exact == command,
        Grant::Program { program, subcommand } => {
            granted(command, analysis, survey).is_some_and(|(name, path, most)| {
                analysis.risk.class <= most && name == *program && path == *subcommand
            })
        }
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
fn granted(
    command: &str,
    analysis: &Analysis,
    survey: &Survey,
) -> Option<(String, Option<String>, RiskClass)> {
    let words = plain_words(command)?;
    let folder = survey.context.folder.as_deref();
    if words.iter().skip(1).any(|word| leaves(word.text(), folder)) || !targets_stay(analysis, survey) {
        return None;
    }
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

/// Returns true if a word may name a path outside the working directory. A path may also follow an `=`, `:` or `,`, or
/// the letters of short options.
fn leaves(word: &str, folder: Option<&str>) -> bool {
    let is_cluster = word.starts_with('-') && !word.starts_with("--");
    let attached = word.char_indices().skip(2).filter_map(|(at, _)| word.get(at..)).filter(|_| is_cluster);
    word.split(['=', ':', ',']).chain(attached).any(|path| {
        path.starts_with('~')
            || path.split('/').any(|name| name == "..")
            || path.starts_with('/') && !folder.is_some_and(|folder| Path::new(path).starts_with(folder))
    })
}

/// Returns true if the files that the host found, behind symbolic links, are in the working directory or below it.
fn targets_stay(analysis: &Analysis, survey: &Survey) -> bool {
    let used = analysis.targets.iter().filter(|target| matches!(target.access, Access::Read | Access::Write));
    let found = used.filter_map(|target| survey.resolved(target)).flatten();
    let folder = survey.context.folder.as_deref();
    found.into_iter().all(|file| folder.is_some_and(|folder| Path::new(&file.path).starts_with(folder)))
}
