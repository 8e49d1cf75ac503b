//! Private use of the shared terminal by people: kept from the model, the log and the recording.
//!
//! Private is what is printed from the first key of a person at a prompt to the end of the command that they run, or
//! until a command of the model's begins. The model is shown a second screen, which has everything but that. It is
//! made when a person first types: until then both are one.

use sysop_driver::prompter::TerminalSize;

use super::screen::TerminalScreen;

/// The private use of one terminal.
#[derive(Default)]
pub(super) struct PrivateUse {
    is_on: bool,
    /// The screen without what was private; `None` where nothing was.
    shared: Option<TerminalScreen>,
    /// Bytes on their way to that screen.
    raw: Vec<u8>,
    /// Bytes on their way to the recording.
    recordable: Vec<u8>,
}

impl PrivateUse {
    /// A person types at a prompt.
    pub(super) fn begin(&mut self, screen: &TerminalScreen) {
        if self.shared.is_none() {
            let mut shared = TerminalScreen::new(screen.size());
            let _ = shared.advance(&screen.picture(0)); // nobody waits for what a copy answers
            self.shared = Some(shared);
        }
        self.is_on = true;
    }

    /// The command of the person is over; a prompt follows, in a line of its own.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.is_on) {
            self.push(b"\r\n", b"\r\n");
        }
    }

    /// Something of the model's begins where the last prompt was.
    pub(super) fn end_silently(&mut self) {
        self.is_on = false;
    }

    /// Returns true while output is private.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Takes what was printed, and how it is shown.
    pub(super) fn push(&mut self, raw: &[u8], shown: &[u8]) {
        if self.is_on {
            return;
        }
        if self.shared.is_some() {
            self.raw.extend_from_slice(raw);
        }
        self.recordable.extend_from_slice(shown);
    }

    /// Takes text without control sequences at once.
    pub(super) fn push_text(&mut self, text: &[u8]) {
        if !self.is_on
            && let Some(shared) = &mut self.shared
        {
            shared.push_text(text);
        }
    }

    /// Draws what was pushed.
    pub(super) fn advance_shared(&mut self) {
        if let Some(shared) = &mut self.shared {
            let _ = shared.advance(&self.raw); // the whole screen answers the program
        }
        self.raw.clear();
    }

    /// Takes the bytes for the recording since the last call.
    pub(super) fn take_recordable(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.recordable)
    }

    pub(super) fn resize(&mut self, size: TerminalSize) {
        if let Some(shared) = &mut self.shared {
            shared.resize(size);
        }
    }

    /// The screen without what was private, where that is another one.
    pub(super) fn shared_screen(&self) -> Option<&TerminalScreen> {
        self.shared.as_ref()
    }
}
