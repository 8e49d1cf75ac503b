//! What is switched on in the person's terminal while the front end is on it, and how each is switched off again.
//!
//! Nothing here asks the terminal anything: an answer may take a second over a slow line, or never come. Modes that a
//! terminal does not know, it ignores.

use sysop_term::grid::Mouse;

/// Which kind of terminal it is, as far as it matters to what may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalKind {
    /// Whether keys may be told apart better than a teletype could (the protocol of kitty), and the cursor may have
    /// another shape. The console of Linux would print parts of both.
    rich: bool,
}

impl TerminalKind {
    /// The terminal of this `TERM`.
    pub fn of(term: &str) -> Self {
        Self { rich: term != "linux" }
    }
}

/// Switches the mouse from one mode to another.
pub(super) fn switch_mouse(from: Mouse, to: Mouse) -> String {
    match (from.number(), to.number()) {
        (before, after) if before == after => String::new(),
        (None, Some(after)) => format!("\x1b[?{after};1006h"),
        (Some(before), None) => format!("\x1b[?{before};1006l"),
        (Some(before), Some(after)) => format!("\x1b[?{before}l\x1b[?{after};1006h"),
        (None, None) => String::new(),
    }
}

/// Goes to the other screen and switches on: pastes that are marked, focus. Lines do not wrap, so that a character
/// that is wider than was thought moves nothing but its own row.
pub(super) fn enter(kind: TerminalKind) -> String {
    let mut all = String::from("\x1b[?1049h\x1b[?2004h\x1b[?1004h\x1b[?7l");
    if kind.rich {
        // Keys that would be ambiguous are told as what they are; the cursor is a bar, as in editors.
        all.push_str("\x1b[>1u\x1b[6 q");
    }
    all.push_str("\x1b[0m\x1b[2J");
    all
}

/// Takes all of it back, in the opposite order, whatever was being drawn.
pub(super) fn leave(kind: TerminalKind, mouse: Mouse) -> String {
    // The first ends a link and a frame that was not finished.
    let mut all = String::from("\x1b]8;;\x1b\\\x1b[?2026l");
    all.push_str(&switch_mouse(mouse, Mouse::Off));
    if kind.rich {
        all.push_str("\x1b[0 q\x1b[<1u");
    }
    all.push_str("\x1b[?7h\x1b[?1004l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l");
    all
}

/// Around a frame, so that it is shown at once (DEC 2026).
pub(super) const FRAME: (&str, &str) = ("\x1b[?2026h", "\x1b[?2026l");
