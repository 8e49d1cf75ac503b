//! Terminal mode while no line editor or question is open: keys are not echoed, and Ctrl+C and Ctrl+\ still send
//! signals. Dropping the guard restores the previous mode.

use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Guard for the quiet mode.
pub(crate) struct NoEcho {
    before: Termios,
}

impl NoEcho {
    /// Enters the quiet mode. Returns `None` if standard input is not a terminal.
    pub(crate) fn new() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let quiet = Self { before };
        quiet.apply();
        Some(quiet)
    }

    /// Enters the quiet mode again after another program has used the terminal.
    pub(crate) fn apply(&self) {
        let mut mode = self.before.clone();
        mode.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        // Do not let a signal discard type-ahead.
        mode.local_modes.insert(LocalModes::ISIG | LocalModes::NOFLSH);
        // Keep Enter distinguishable from Ctrl+J for the line editor.
        mode.input_modes.remove(InputModes::ICRNL);
        set(&mode);
    }

    /// Restores the previous mode for a program that uses the terminal.
    pub(crate) fn restore(&self) {
        set(&self.before);
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        self.restore();
    }
}

fn set(mode: &Termios) {
    // If the terminal is gone, its mode does not matter.
    let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, mode);
}
