//! Terminal output for one client: converts bytes to text, splitting only between characters.

use futures::StreamExt;
use futures::stream::BoxStream;
use sysop_core::id::SessionId;
use sysop_driver::prompter::{TerminalOutput, TerminalSize, TerminalView};
use sysop_wire::ServerMessage;

pub(crate) struct TerminalFeed {
    session: SessionId,
    live: BoxStream<'static, TerminalOutput>,
    /// Incomplete UTF-8 sequence at the end of the output so far.
    begun: Vec<u8>,
}

impl TerminalFeed {
    /// Starts a stream; the returned first message contains the current screen.
    pub(crate) fn new(session: SessionId, view: TerminalView) -> (Self, ServerMessage) {
        let mut watching = Self { session, live: view.live, begun: Vec::new() };
        let data = watching.text(&view.picture);
        let first = watching.output(data, true, Some(view.size), None);
        (watching, first)
    }

    /// Returns the next message, or `None` once the terminal is closed for good. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<ServerMessage> {
        loop {
            let message = match self.live.next().await? {
                TerminalOutput::Bytes(bytes) => {
                    let data = self.text(&bytes);
                    if data.is_empty() {
                        continue; // only part of a character so far
                    }
                    self.output(data, false, None, None)
                }
                TerminalOutput::Resized(size) => self.output(String::new(), false, Some(size), None),
                TerminalOutput::Redrawn(bytes) => {
                    self.begun.clear();
                    let data = self.text(&bytes);
                    self.output(data, true, None, None)
                }
                TerminalOutput::Ended(why) => self.output(String::new(), false, None, Some(why)),
            };
            return Some(message);
        }
    }

    fn output(
        &self,
        data: String,
        reset: bool,
        size: Option<TerminalSize>,
        ended: Option<String>,
    ) -> ServerMessage {
        ServerMessage::TerminalOutput {
            session_id: self.session.clone(),
            data,
            reset,
            cols: size.map(|size| size.columns),
            rows: size.map(|size| size.rows),
            ended,
        }
    }

    /// Decodes all complete characters; invalid bytes become U+FFFD.
    fn text(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.begun.len());
        let mut rest: &[u8] = &self.begun;
        loop {
            match std::str::from_utf8(rest) {
                Ok(whole) => {
                    text.push_str(whole);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (whole, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(whole));
                    rest = after;
                    let Some(bad) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[bad..];
                }
            }
        }
        self.begun = rest.to_vec();
        text
    }
}

/// Waits for the next terminal message; never completes if no terminal is attached. Cancel safe.
pub(crate) async fn next_terminal_message(terminal: &mut Option<TerminalFeed>) -> ServerMessage {
    loop {
        match terminal {
            Some(watching) => match watching.next().await {
                Some(message) => return message,
                None => *terminal = None,
            },
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_sent_whole_for_any_chunking() {
        let view = TerminalView {
            size: TerminalSize { columns: 80, rows: 24 },
            picture: bytes::Bytes::from_static(b"a\xc3"),
            live: futures::stream::empty().boxed(),
        };
        let (mut watching, first) = TerminalFeed::new(SessionId::new("s"), view);
        let ServerMessage::TerminalOutput { data, reset: true, cols: Some(80), .. } = first else {
            panic!("{first:?}")
        };
        assert_eq!(data, "a");
        assert_eq!(watching.text(b"\xbc\xf0\x9f"), "ü");
        assert_eq!(watching.text(b"\x98"), "");
        assert_eq!(watching.text(b"\x80\xffb"), "😀\u{fffd}b");
    }
}
