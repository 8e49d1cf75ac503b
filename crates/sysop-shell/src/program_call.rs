//! A program call as written in a script, and related types that all rules share.
//!
//! [`ProgramCall::judge`], which rules call for programs that others start, is in [`super::simple_command`].

use tree_sitter::Node;

use super::lexer::Word;
use super::state::{Span, State};
use crate::risk::RiskClass;

/// Position of a script in the command being analyzed.
#[derive(Debug, Clone, Copy)]
pub(super) enum ScriptOrigin {
    TopLevel,
    /// The script is written at this span of the command, where its findings are reported.
    Embedded(Span),
}

#[derive(Debug)]
pub(super) struct Script<'s> {
    pub(super) source: &'s str,
    pub(super) origin: ScriptOrigin,
}

impl Script<'_> {
    pub(super) fn span(&self, start: usize, end: usize) -> Span {
        match self.origin {
            ScriptOrigin::TopLevel => (start, end),
            ScriptOrigin::Embedded(span) => span,
        }
    }

    pub(super) fn span_of(&self, node: Node<'_>) -> Span {
        self.span(node.start_byte(), node.end_byte())
    }

    pub(super) fn text(&self, node: Node<'_>) -> &str {
        self.source.get(node.byte_range()).unwrap_or("")
    }
}

/// Standard input of a command, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stdin {
    /// The standard input of the whole command line.
    Inherited,
    /// A pipe or file whose content is not known.
    Unknown,
    /// Text that is written in the command.
    Text { text: String, span: Span },
}

/// Origin of additional arguments that are not written in the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentSource {
    /// Words that are read from standard input (`xargs`).
    Stdin,
    /// Files that were found (`find -exec`).
    FoundFiles,
}

#[derive(Debug)]
pub(super) struct ProgramCall<'a> {
    pub(super) script: &'a Script<'a>,
    pub(super) words: &'a [Word],
    pub(super) span: Span,
    pub(super) input: &'a Stdin,
    pub(super) argument_source: Option<ArgumentSource>,
}

impl<'a> ProgramCall<'a> {
    pub(super) fn arguments(&self) -> &'a [Word] {
        self.words.get(1..).unwrap_or(&[])
    }

    pub(super) fn span_of(&self, word: &Word) -> Span {
        self.script.span(word.start, word.end)
    }

    pub(super) fn span_of_program(&self) -> Span {
        self.words.first().map_or(self.span, |word| self.span_of(word))
    }

    /// Returns the call of a program that this program starts, with the same script and standard input.
    pub(super) fn with(&self, words: &'a [Word], argument_source: Option<ArgumentSource>) -> ProgramCall<'a> {
        let span = match (words.first(), words.last()) {
            (Some(first), Some(last)) => self.script.span(first.start, last.end),
            (None, _) | (_, None) => self.span,
        };
        ProgramCall { script: self.script, words, span, input: self.input, argument_source }
    }

    pub(super) fn judge_inner(
        &self,
        state: &mut State,
        words: &[Word],
        argument_source: Option<ArgumentSource>,
    ) {
        state.with_depth(self.span, |state| self.with(words, argument_source).judge(state));
    }

    /// Joins words with spaces and analyzes the text as a separate script.
    pub(super) fn run_joined(&self, state: &mut State, words: &[Word], input: Stdin) {
        let (Some(first), Some(last)) = (words.first(), words.last()) else { return };
        let span = self.script.span(first.start, last.end);
        if words.iter().any(|word| word.expands || word.brace) {
            state.note(span, RiskClass::Opaque, "a command that is computed at run time");
            return;
        }
        let text: Vec<&str> = words.iter().map(Word::text).collect();
        self.run_text(state, &text.join(" "), span, input);
    }

    /// Analyzes text as a separate script.
    pub(super) fn run_text(&self, state: &mut State, text: &str, span: Span, input: Stdin) {
        state.with_depth(span, |state| state.run_script(text, ScriptOrigin::Embedded(span), &input));
    }
}
