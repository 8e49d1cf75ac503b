//! Classifies a shell command line by its effect, based on its text and the host's report of the circumstances.
//!
//! # Problem
//!
//! A program that lets a model propose commands must decide which of them run without asking the user. `ls -l` may,
//! `rm -rf ~` may not, and most commands lie in between: `sudo -u x ls`, `find . -exec rm {} +`, `FOO=$(curl …) make`.
//! The decision is made before anything runs. The same text means one thing to bash and another to zsh, one thing in
//! the workspace and another in `~/.ssh`. So the host reports the shell, the working directory and the files that paths
//! lead to, in a [`Survey`]; a fact that is missing from the survey is not guessed.
//!
//! # Design
//!
//! [`analyze`] turns a command line of a POSIX shell, bash or zsh into an [`Analysis`]. An analysis consists of a
//! [`RiskClass`], the [`Finding`]s that explain the class (each with its span in the text), the simple commands, and
//! the paths that they use.
//!
//! 1. `syntax_tree` parses the text with the tree-sitter grammar of bash, within bounds. `script` walks the tree and
//!    handles every kind of node by name; an unknown kind makes the command [`RiskClass::Dangerous`].
//! 2. `lexer` splits each simple command into words a second time, by the rules of POSIX. If the two readings disagree
//!    on the end of a word, a command or an expansion, the command counts as unparseable.
//! 3. `simple_command` assesses assignments, redirections and the program. `wrapper` unwraps programs that only start
//!    another one (`sudo`, `env`, `xargs`); `interpreter` and `builtin` handle programs that evaluate text. Text that a
//!    shell would run (`sh -c '…'`) is analyzed as a separate script.
//! 4. `programs` is a table of programs, subcommands, options and operands, written as text files that give each a
//!    class. A command is [`RiskClass::ReadOnly`] only if the table lists every part of the call as reading.
//! 5. `dialect` names the subset that every POSIX shell and zsh read as bash does. A script for such a shell that
//!    leaves the subset is opaque, and a script for fish or csh is always opaque. A shell that the command starts is
//!    assessed in its own dialect.
//! 6. `targets` records each path with the directory it starts from, and assesses the path by its text and by the files
//!    that the host resolved it to; `protected` lists the places that matter. A write to an unknown place is opaque. A
//!    secret named in any program's arguments counts as read, unless that program handles only names (`operands`).
//! 7. `script_file` analyzes a script that was written in this session as if it were part of the command that runs it.
//!    With [`reading_scripts`], it does so with every script.
//!
//! A host makes two passes: it analyzes a command to learn the targets, resolves them, and adds the results to the
//! survey. The policy analyzes the command again with that survey, right before the run.
//!
//! [`grant_for`] and [`covers`] define the scope of a user's "allow for this session". [`highlight()`] splits a
//! command into parts for display in colors.
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
//!
//! - Regular expressions over the text. Quoting, escapes and expansions give every command countless spellings, and a
//!   pattern matches only some of them.
//! - A single parser. The grammar recovers from errors and differs from bash in corner cases, and a lexer alone does
//!   not know where a substitution ends. Text on which both agree is read in the same way by bash.
//! - A deny-list, which is never complete. A program missing from the table counts at least as a change. An unknown
//!   part of a call counts at least as a change too, and makes the call opaque if the program takes verbs (`git`,
//!   `docker`).
//! - A grammar per shell. Three grammars make three times the mistakes, and users and models type almost nothing
//!   outside the common subset.
//! - A dry run or a sandbox as the judge. The result would depend on the machine, and few programs have a dry mode.
//!
//! # Invariants
//!
//! - No command is read-only by mistake: anything not understood counts at least as a change, and may be opaque or
//!   dangerous. The tables in `tests/corpora` hold disguised commands that must stay recognized.
//! - The analysis is bounded: the length of a command, the nesting, the number of commands and words, and the parser's
//!   work have limits, and a command beyond a limit is dangerous. No input causes a panic.
//! - The analysis is pure: nothing is run, opened or resolved, and the same text and survey always give the same
//!   result.
//!
//! The result is advice for a policy, not a sandbox: aliases, functions, options and the `PATH` of the shell that runs
//! the command are unknown here.

mod builtin;
mod context;
mod dialect;
mod expansion;
mod folders;
mod full_screen;
mod grant;
mod hidden_characters;
mod highlight;
pub mod host_names;
mod interpreter;
mod lexer;
mod operands;
mod options;
mod path;
mod path_match;
pub mod preview;
mod program_call;
mod programs;
mod protected;
mod quote;
mod repository;
mod risk;
mod script;
mod script_file;
mod simple_command;
mod state;
mod syntax_tree;
mod targets;
mod wrapper;
mod write_effect;

#[cfg(test)]
mod tests;

use std::rc::Rc;

use program_call::{ScriptOrigin, Stdin};
use state::State;

pub use context::{
    Access, CommandContext, Dialect, GuardOffer, Resolution, ResolvedFile, ResolvedTarget, Survey, Target,
    TerminalFocus, UndoOffer,
};
pub use full_screen::full_screen_program;
pub use grant::{Grant, covers, grant_for};
pub use highlight::{HighlightKind, highlight};
pub use quote::single_quoted;
pub use repository::is_plain_git_setting;
pub use risk::{Finding, NO_ANSWER, NOT_REACHED, Risk, RiskClass};

/// Maximum bytes of a command. A longer command is dangerous and is not analyzed.
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Result of the analysis of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysis {
    /// Class of the command, and the findings behind the class.
    pub risk: Risk,
    /// Each simple command, with wrappers unwrapped (`sudo -u x ls` gives `sudo …` and `ls`).
    pub invocations: Vec<Invocation>,
    /// Each path that the command is known to use.
    pub targets: Vec<Target>,
    /// True if a part of the text could not be analyzed, so that invocations and targets may be missing.
    pub is_partial: bool,
}

/// The words of one simple command, after quote removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Program and arguments. A word that the shell would expand (a variable, substitution, glob or braces) is `None`.
    pub words: Vec<Option<String>>,
    /// Bytes of the simple command in the analyzed text; for a command inside a script such as that of `sh -c`, those
    /// of the word that contains the script.
    pub span: (usize, usize),
}

/// Analyzes a command line under the circumstances that `survey` reports.
pub fn analyze(command: &str, survey: &Survey) -> Analysis {
    let mut state = State::new(Rc::new(survey.clone()));
    state.ordinary_root = targets::ordinary_root(&survey.context);
    let whole = (0, command.len());
    if !survey.context.dialect.is_analyzed() {
        state.note_unknown_syntax(whole);
    }
    if command.len() > COMMAND_BYTES_MAX {
        state.note_unread(whole, "too long to analyze");
    } else if let Some((at, hidden)) = hidden_characters::find(command).first() {
        state.note_unread((*at, at + hidden.len_utf8()), &hidden_characters::describe(command));
    } else {
        state.run_script(command, ScriptOrigin::TopLevel, &Stdin::Inherited);
        let builds = programs::builds(state.invocations());
        targets::note_written_scripts(&mut state, whole, builds);
    }
    state.into_analysis()
}

/// Returns the survey with which [`analyze`] reads all scripts that the command runs, also those that were there before
/// the session. The result says what the scripts do, not how risky the command is.
pub fn reading_scripts(survey: &Survey) -> Survey {
    let mut survey = survey.clone();
    let run = survey.targets.iter_mut().filter(|resolved| resolved.target.access == Access::Run);
    run.flat_map(|resolved| &mut resolved.files).for_each(|file| file.changed_in_session = true);
    survey
}

impl State {
    /// Analyzes a script: the command itself, or a script that a program in the command runs. This method is defined
    /// here so that the rules, which call it, need not depend on `script`.
    fn run_script(&mut self, source: &str, origin: ScriptOrigin, input: &Stdin) {
        script::run(self, source, origin, input);
    }
}
