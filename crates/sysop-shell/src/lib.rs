//! Tells what a shell command line would do, given its text and what its host tells of the circumstances.
//!
//! # The problem
//! A program that lets a model (or anybody else) propose commands has to decide which of them may run without a person
//! being asked. `ls -l` may, `rm -rf ~` may not, and most of what matters is in between: `sudo -u x ls`,
//! `find . -exec rm {} +`, `FOO=$(curl …) make`. The decision is made before anything runs. The same text means one thing
//! to bash and another to zsh, one thing in the workspace and another in `~/.ssh`: a [`Survey`] of the host tells the
//! shell, the folder, and the files that paths lead to. What it does not tell is not guessed.
//!
//! # The design
//! [`analyze`] takes a command line of a POSIX shell, bash or zsh to an [`Analysis`]: a [`RiskClass`], the [`Finding`]s
//! that led to it, each with its place in the text, the simple commands in it, and the paths that it uses.
//!
//! 1. `syntax_tree` parses the text with the grammar of tree-sitter-bash, within bounds; `script` walks the tree. Every
//!    kind of node is named there; an unknown one makes the command [`RiskClass::Dangerous`].
//! 2. `lexer` reads the words of each simple command a second time, by the rules of POSIX. Where the two readings
//!    disagree on the end of a word, a command or an expansion, the command counts as one that cannot be parsed.
//! 3. `simple_command` judges assignments, redirections and the program. `wrapper` takes off what only starts another
//!    program (`sudo`, `env`, `xargs`), `interpreter` and `builtin` handle what runs text. Text that a shell would run (`sh -c '…'`) is analyzed as a script of its own.
//! 4. `programs` is a table of programs, subcommands, options and operands: text files that say of each what it does.
//!    Only a command whose every part is on it as reading is [`RiskClass::ReadOnly`].
//!
//! 5. `dialect` names what every POSIX shell and zsh read as bash does. A script for such a shell that leaves this subset
//!    is opaque; one for fish or csh always is. A shell that the command starts is judged in its own dialect.
//! 6. `targets` records each path with the folder it starts from and judges it by its text and by the files that the host
//!    resolved it to; `protected` is the list of places that matter. A write whose place is not known is opaque. A secret
//!    that any program names is read by it, unless that program looks at names alone (`operands`).
//! 7. `script_file` reads a script that the session wrote like the command that runs it.
//!
//! A host takes two steps: it analyzes a command to learn its targets, resolves them, and puts what it found into the
//! survey with which the policy analyzes the command again, right before the run.
//!
//! [`grant_for`] and [`covers`] say what a person's "allow this for the session" stands for. [`mod@highlight`] gives the
//! parts of a command for display in colors.
//!
//! ```
//! use sysop_shell::{CommandContext, RiskClass, Survey, analyze};
//!
//! let bash = Survey::elsewhere(CommandContext::bash());
//! assert_eq!(analyze("df -h | sort -k 5", &bash).risk.class, RiskClass::ReadOnly);
//! assert_eq!(analyze("sudo systemctl restart nginx", &bash).risk.class, RiskClass::Changes);
//! assert_eq!(analyze("eval \"$x\"", &bash).risk.class, RiskClass::Opaque);
//!
//! let risk = analyze("cd /tmp && rm -rf /etc", &bash).risk;
//! assert_eq!(risk.class, RiskClass::Lockout);
//! assert!(risk.findings.iter().all(|finding| finding.end <= "cd /tmp && rm -rf /etc".len()));
//! ```
//!
//! # Rejected
//! - Patterns over the text. Quoting, escapes and expansions give every command countless spellings; a pattern sees one.
//! - One parser. The grammar recovers from errors and differs from bash in corners; a lexer alone does not know where a
//!   substitution ends. What both read alike is what bash reads.
//! - A deny-list. It is never complete: what the table does not know is at least a change, and opaque for programs with
//!   verbs.
//! - A grammar for each shell. Three readings are three times the mistakes; the subset that is read alike is what people
//!   and models type.
//! - Running the command in a dry mode or a sandbox. Its effect would depend on the machine, and few programs have one.
//!
//! # Invariants
//! - Never read-only by mistake: what is not understood is opaque or dangerous. The tables in `tests/corpora` hold
//!   disguises that have to stay recognized.
//! - Bounded: the length of a command, the depth, the number of commands and words, and the work of the parser have
//!   limits; past one of them the command is dangerous. No input makes it panic.
//! - Pure: it runs, opens and resolves nothing, and the same text and survey always give the same result.
//!
//! The result is advice for a policy and no sandbox: aliases, functions, options and the `PATH` of the shell that runs the
//! command are unknown here.
#![warn(missing_docs)]

mod builtin;
mod context;
mod dialect;
mod expansion;
mod folders;
mod grant;
mod highlight;
mod interpreter;
mod lexer;
mod operands;
mod options;
mod path;
mod path_match;
mod program_call;
mod programs;
mod protected;
mod repository;
mod risk;
mod script;
mod script_file;
mod simple_command;
mod state;
mod syntax_tree;
mod targets;
mod wrapper;

#[cfg(test)]
mod tests;

use std::rc::Rc;

use program_call::{ScriptOrigin, Stdin};
use state::State;

pub use context::{
    Access, CommandContext, Dialect, Resolution, ResolvedFile, ResolvedTarget, Survey, Target, TerminalFocus,
};
pub use grant::{Grant, covers, grant_for};
pub use highlight::{HighlightKind, highlight};
pub use repository::is_plain_git_setting;
pub use risk::{Finding, Risk, RiskClass};

/// Longest command that is looked at, in bytes; a longer one is dangerous unread.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// What is known of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysis {
    /// How much it can do, and why.
    pub risk: Risk,
    /// Each simple command in it, wrappers unwrapped (`sudo -u x ls` gives `sudo …` and `ls`).
    pub invocations: Vec<Invocation>,
    /// Each path that it is known to use.
    pub targets: Vec<Target>,
}

/// One simple command: its words after quote removal, where all are literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Program and arguments; a word that the shell would expand (variable, substitution, glob, braces) is `None`.
    pub words: Vec<Option<String>>,
}

/// Analyzes a command line in its circumstances.
pub fn analyze(command: &str, survey: &Survey) -> Analysis {
    let mut state = State::new(Rc::new(survey.clone()));
    state.ordinary_root = targets::ordinary_root(&survey.context);
    let whole = (0, command.len());
    if !survey.context.dialect.is_analyzed() {
        state.note(whole, RiskClass::Opaque, "for a shell whose language is not analyzed");
    }
    if command.len() > COMMAND_BYTES_MAX {
        state.note(whole, RiskClass::Dangerous, "too long to analyze");
    } else if let Some((at, hidden)) = command.char_indices().find(|(_, c)| is_hidden(*c)) {
        state.note(
            (at, at + hidden.len_utf8()),
            RiskClass::Dangerous,
            "holds control or invisible characters",
        );
    } else {
        state.run_script(command, ScriptOrigin::TopLevel, &Stdin::Inherited);
        let builds = programs::builds(state.invocations());
        targets::note_written_scripts(&mut state, whole, builds);
    }
    state.into_analysis()
}

impl State {
    /// Analyzes a script: the command itself, or one that a program in it runs. Defined above the rules, which call it, so
    /// that none of them depends on the module that calls them.
    fn run_script(&mut self, source: &str, origin: ScriptOrigin, input: &Stdin) {
        script::run(self, source, origin, input);
    }
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
