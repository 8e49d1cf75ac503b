//! Terminal modes while no line editor or question is open: keys are not echoed, and Ctrl+C and Ctrl+\ still send
//! signals. Dropping the guard restores the previous mode.
//!
//! A background process group that sets the mode is stopped by SIGTTOU, and the mode is the foreground program's. So a
//! task that runs in the background leaves the mode alone.

use std::io::IsTerminal as _;

use rustix::process::getpgrp;
use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

use super::keyboard::with_keyboard;

/// Guard for the quiet mode.
pub(crate) struct NoEcho {
    before: Termios,
    quiet: Termios,
}

impl NoEcho {
    /// Enters the mode of a front end that reads the keys later. Returns `None` without a keyboard.
    pub(crate) fn new() -> Option<Self> {
        Self::with(|mode| {
            mode.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            // Do not let a signal discard type-ahead.
            mode.local_modes.insert(LocalModes::ISIG | LocalModes::NOFLSH);
            // Keep Enter distinguishable from Ctrl+J for the line editor.
            mode.input_modes.remove(InputModes::ICRNL);
        })
    }

    /// Only hides keys; the next program reads them as lines. Returns `None` without a keyboard, or if another program
    /// may set the terminal's mode: the shell during a background task, or a pager that reads the output.
    pub(crate) fn of_keys() -> Option<Self> {
        if !std::io::stdout().is_terminal() || !is_in_foreground() {
            return None;
        }
        Self::with(|mode| mode.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL))
    }

    fn with(change: impl FnOnce(&mut Termios)) -> Option<Self> {
        let before = with_keyboard(|terminal| tcgetattr(terminal)).ok()?;
        let mut quiet = before.clone();
        change(&mut quiet);
        let guard = Self { before, quiet };
        guard.apply();
        Some(guard)
    }

    /// Enters the quiet mode again after another program has used the terminal.
    pub(crate) fn apply(&self) {
        set(&self.quiet);
    }

    /// Restores the previous mode for a program that uses the terminal. Does nothing in the background.
    pub(crate) fn restore(&self) {
        if is_in_foreground() {
            set(&self.before);
        }
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Returns false if another process group uses the terminal. Only a controlling terminal stops a process.
fn is_in_foreground() -> bool {
    with_keyboard(|terminal| tcgetpgrp(terminal)).ok().is_none_or(|group| group == getpgrp())
}

fn set(mode: &Termios) {
    // If the terminal is gone, its mode does not matter.
    let _ = with_keyboard(|terminal| tcsetattr(terminal, OptionalActions::Now, mode));
}
