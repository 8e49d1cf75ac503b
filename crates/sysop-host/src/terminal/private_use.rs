//! Private use of the shared terminal by people: hidden from the model, the log and the recording.
//!
//! Output is private from the first key that a person types at a prompt to the end of the command they run,
//! or until one of the model's commands starts. The model sees a second screen without the private output.
//! That screen is created when a person first types; until then, the model sees the full screen.

use sysop_driver::prompter::TerminalSize;

use super::screen::TerminalScreen;

#[derive(Default)]
pub(super) struct PrivateUse {
    is_on: bool,
    /// The screen without private output; `None` if there has been no private output so far.
    shared: Option<TerminalScreen>,
    /// Bytes not yet applied to `shared`.
    raw: Vec<u8>,
    /// Bytes not yet written to the recording.
    recordable: Vec<u8>,
}

impl PrivateUse {
    /// Begins private use, because a person types at a prompt.
    pub(super) fn begin(&mut self, screen: &TerminalScreen) {
        if self.shared.is_none() {
            let mut shared = TerminalScreen::new(screen.size());
            let _ = shared.advance(&screen.picture(0)); // a copy has no program to reply to
            self.shared = Some(shared);
        }
        self.is_on = true;
    }

    /// Ends private use after the person's command. The next prompt starts on a new line.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.is_on) {
            self.push(b"\r\n", b"\r\n");
        }
    }

    /// Ends private use without a new line, because one of the model's commands starts at the last prompt.
    pub(super) fn end_silently(&mut self) {
        self.is_on = false;
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Appends output. `raw` is for the shared screen; `shown`, its filtered form, is for the recording.
    pub(super) fn push(&mut self, raw: &[u8], shown: &[u8]) {
        if self.is_on {
            return;
        }
        if self.shared.is_some() {
            self.raw.extend_from_slice(raw);
        }
        self.recordable.extend_from_slice(shown);
    }

    /// Draws text on the shared screen immediately. The text must not contain control sequences.
    pub(super) fn push_text(&mut self, text: &[u8]) {
        if !self.is_on
            && let Some(shared) = &mut self.shared
        {
            shared.push_text(text);
        }
    }

    /// Draws the pushed bytes on the shared screen.
    pub(super) fn advance_shared(&mut self) {
        if let Some(shared) = &mut self.shared {
            let _ = shared.advance(&self.raw); // replies to the program come from the full screen
        }
        self.raw.clear();
    }

    /// Returns the bytes for the recording since the last call.
    pub(super) fn take_recordable(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.recordable)
    }

    pub(super) fn resize(&mut self, size: TerminalSize) {
        if let Some(shared) = &mut self.shared {
            shared.resize(size);
        }
    }

    /// Returns the screen without private output, or `None` if it equals the full screen.
    pub(super) fn shared_screen(&self) -> Option<&TerminalScreen> {
        self.shared.as_ref()
    }
}
