//! The terminal's mode while nothing is read: keys are not echoed and stay in the terminal until the next prompt;
//! Ctrl+C and Ctrl+\ still are signals. The mode before is put back when this is dropped.

use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Keeps the terminal quiet.
pub(crate) struct NoEcho {
    before: Termios,
}

impl NoEcho {
    /// Quiets the terminal; none where standard input is no terminal.
    pub(crate) fn new() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let quiet = Self { before };
        quiet.apply();
        Some(quiet)
    }

    /// Quiets it again, after someone else had it.
    pub(crate) fn apply(&self) {
        let mut mode = self.before.clone();
        mode.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        // A signal does not throw away what was typed.
        mode.local_modes.insert(LocalModes::ISIG | LocalModes::NOFLSH);
        // Enter stays what it is, so that the line editor knows it from Ctrl+J.
        mode.input_modes.remove(InputModes::ICRNL);
        set(&mode);
    }

    /// Puts the mode before back, for a program that wants the terminal.
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
    // A terminal that is gone needs no mode.
    let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, mode);
}
