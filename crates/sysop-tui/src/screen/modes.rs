//! Terminal modes that the front end enables, and the sequences that reset them.
//!
//! Nothing here waits for the terminal: a reply could take a second over a slow connection, or never arrive.
//! Terminals ignore modes that they do not support.

use sysop_term::grid::Mouse;

/// Kind of terminal, as far as it affects the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalKind {
    /// True if the terminal handles or ignores the kitty keyboard protocol and cursor shapes. The Linux console would
    /// print parts of both.
    rich: bool,
    /// True if the terminal shows rxvt notifications (OSC 777) rather than iTerm2 ones (OSC 9).
    rxvt_notifications: bool,
    /// True if mouse events stay with the terminal, as the user wishes.
    leaves_mouse: bool,
}

impl TerminalKind {
    /// Returns the kind for a value of `TERM`.
    pub fn of(term: &str) -> Self {
        let rxvt_notifications = ["foot", "rxvt"].iter().any(|name| term.starts_with(name));
        Self { rich: term != "linux", rxvt_notifications, leaves_mouse: false }
    }

    /// Captures the mouse only if `captures` is true.
    #[must_use]
    pub fn with_mouse(self, captures: bool) -> Self {
        Self { leaves_mouse: !captures, ..self }
    }

    /// Returns the mouse mode to use in place of `wanted`.
    pub(super) fn mouse(self, wanted: Mouse) -> Mouse {
        if self.leaves_mouse { Mouse::Off } else { wanted }
    }
}

/// Returns the escape sequence for a notification. The text must have no control characters or semicolons.
pub(super) fn notification(kind: TerminalKind, text: &str) -> String {
    match kind {
        // The Linux console would print the sequence.
        TerminalKind { rich: false, .. } => String::new(),
        TerminalKind { rxvt_notifications: true, .. } => format!("\x1b]777;notify;sysop;{text}\x07"),
        TerminalKind { rxvt_notifications: false, .. } => format!("\x1b]9;{text}\x07"),
    }
}

/// Returns the query for the background color; empty for a terminal that would print the query.
pub(super) fn background_query(kind: TerminalKind) -> &'static str {
    if kind.rich { "\x1b]11;?\x07" } else { "" }
}

pub(super) fn switch_mouse(from: Mouse, to: Mouse) -> String {
    match (from.number(), to.number()) {
        (before, after) if before == after => String::new(),
        (None, Some(after)) => format!("\x1b[?{after};1006h"),
        (Some(before), None) => format!("\x1b[?{before};1006l"),
        (Some(before), Some(after)) => format!("\x1b[?{before}l\x1b[?{after};1006h"),
        (None, None) => String::new(),
    }
}

/// Returns the sequences that enter the alternate screen and enable bracketed paste and focus reports. They disable
/// line wrap, so that a character wider than expected affects only its own row.
pub(super) fn enter(kind: TerminalKind) -> String {
    let mut all = String::from("\x1b[?1049h\x1b[?2004h\x1b[?1004h\x1b[?7l");
    if kind.rich {
        // Unambiguous keys of the kitty protocol; bar cursor, as in editors.
        all.push_str("\x1b[>1u\x1b[6 q");
    }
    all.push_str("\x1b[0m\x1b[2J");
    all
}

/// Returns the sequences that reset all modes in reverse order. They work even in the middle of a frame.
pub(super) fn leave(kind: TerminalKind, mouse: Mouse) -> String {
    // End an open hyperlink and an unfinished synchronized update.
    let mut all = String::from("\x1b]8;;\x1b\\\x1b[?2026l");
    all.push_str(&switch_mouse(mouse, Mouse::Off));
    if kind.rich {
        all.push_str("\x1b[0 q\x1b[<1u");
    }
    all.push_str("\x1b[?7h\x1b[?1004l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l");
    all
}

/// Start and end of a synchronized update (DEC 2026), which makes a frame appear all at once.
pub(super) const FRAME: (&str, &str) = ("\x1b[?2026h", "\x1b[?2026l");
