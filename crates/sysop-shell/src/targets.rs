//! Paths that a command uses: recorded for the host to resolve, and judged.

use super::lexer::Word;
use super::path;
use super::state::{Span, State};
use crate::context::{Access, Target};
use crate::risk::RiskClass;

/// Records that a command reads, writes or runs the path in a word, and judges it.
pub(super) fn use_path(state: &mut State, span: Span, word: &Word, access: Access) {
    let target =
        Target { word: word.text().to_owned(), glob: word.glob, folder: state.folder.clone(), access };
    state.add_target(target);
    let resolved = path::resolve(state.folder.as_deref(), word.text());
    if access == Access::Write
        && let Some(what) = path::protected(&resolved)
    {
        state.note(span, RiskClass::Dangerous, &format!("changes {what}"));
    }
}

/// Judges a folder into which a command writes files whose names are not in the command, as unpacking does.
pub(super) fn fill_folder(state: &mut State, span: Span, word: &Word) {
    use_path(state, span, word, Access::Write);
}

/// Judges the place that a new link leads to: who writes through the link writes there.
pub(super) fn link_to(state: &mut State, span: Span, word: &Word) {
    use_path(state, span, word, Access::Write);
}
