//! Terminal output for one client: converts bytes to text, splitting only between characters.

use std::sync::LazyLock;

use futures::StreamExt;
use futures::stream::BoxStream;
use sysop_core::id::SessionId;
use sysop_driver::prompter::{TerminalOutput, TerminalSize, TerminalView};
use sysop_wire::ServerMessage;

/// Id of this process, with which all its shells end.
static INSTANCE: LazyLock<String> = LazyLock::new(|| uuid::Uuid::new_v4().simple().to_string());

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
        let mut first = watching.output(data, true, Some(view.size), None);
        if let ServerMessage::TerminalOutput { instance, .. } = &mut first {
            *instance = Some(INSTANCE.clone());
        }
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
            instance: None,
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

    fn view(picture: &'static [u8]) -> TerminalView {
        TerminalView {
            size: TerminalSize { columns: 80, rows: 24 },
            picture: bytes::Bytes::from_static(picture),
            live: futures::stream::empty().boxed(),
        }
    }

    #[test]
    fn the_first_message_of_each_attachment_names_the_server_process() {
        let instance = || {
            let (_, message) = TerminalFeed::new(SessionId::new("s"), view(b"$ "));
            let ServerMessage::TerminalOutput { instance: Some(instance), .. } = message else {
                panic!("{message:?}")
            };
            instance
        };
        assert_eq!(instance(), instance());
    }

    #[test]
    fn characters_are_sent_whole_for_any_chunking() {
        let (mut watching, first) = TerminalFeed::new(SessionId::new("s"), view(b"a\xc3"));
        let ServerMessage::TerminalOutput { data, reset: true, cols: Some(80), .. } = first else {
            panic!("{first:?}")
        };
        assert_eq!(data, "a");
        assert_eq!(watching.text(b"\xbc\xf0\x9f"), "ü");
        assert_eq!(watching.text(b"\x98"), "");
        assert_eq!(watching.text(b"\x80\xffb"), "😀\u{fffd}b");
    }
}
