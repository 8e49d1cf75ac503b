//! What a shell command would do, read off its grammar.
//!
//! Pure: text in, an [`Analysis`] out. It never runs, opens or resolves anything, and never panics. It is advice for
//! the policy, not a fence: aliases, functions and `PATH` of the shell that runs the command are unknown here.
//!
//! The tree comes from the bash grammar; the words of each simple command are read a second time by a lexer of our
//! own ([`word`]). Where the two disagree on where a word, a command or an expansion ends, the command counts as
//! one that cannot be parsed. Only what is on an allow-list of programs *and* flags is [`RiskClass::ReadOnly`].

mod builtin;
mod danger;
mod expansion;
mod grant;
mod highlight;
mod interpreter;
mod lexer;
mod options;
mod path;
mod read_only;
mod script;
mod sed;
mod simple_command;
mod state;
mod wrapper;

#[cfg(test)]
mod tests;

use crate::policy::{Risk, RiskClass};

pub use grant::{covers, grant_for};
pub use highlight::{HighlightKind, highlight};

/// Longest command that is looked at, in bytes; a longer one is dangerous unread.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// What is known of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysis {
    /// How much it can do, and why.
    pub risk: Risk,
    /// Each simple command in it, wrappers unwrapped (`sudo -u x ls` gives `sudo …` and `ls`).
    pub invocations: Vec<Invocation>,
}

/// One simple command: its words after quote removal, where all are literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Program and arguments; a word that the shell would expand (variable, substitution, glob, braces) is `None`.
    pub words: Vec<Option<String>>,
}

/// Analyses a command line of a POSIX shell or bash.
pub fn analyse(command: &str) -> Analysis {
    let mut state = state::State::default();
    let whole = (0, command.len());
    if command.len() > COMMAND_BYTES_MAX {
        state.note(whole, RiskClass::Dangerous, "too long to analyse");
    } else if let Some((at, hidden)) = command.char_indices().find(|(_, c)| is_hidden(*c)) {
        state.note(
            (at, at + hidden.len_utf8()),
            RiskClass::Dangerous,
            "holds control or invisible characters",
        );
    } else {
        script::run(&mut state, command, script::ScriptOrigin::TopLevel, &simple_command::Stdin::Inherited);
    }
    state.into_analysis()
}

/// Characters that make a command look like something else than it is: controls, direction marks, zero width.
fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' => {
            true
        }
        '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' => true,
        '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control() || (other.is_whitespace() && other != ' '),
    }
}
