//! Live terminal of a session on a server. The server sends one screen state and then updates. Keys are sent as they
//! are typed and never delayed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use sysop_driver::prompter::{Terminal, TerminalOutput, TerminalSize, TerminalView};
use sysop_wire::{ClientMessage, Envelope, Secret};
use tokio::sync::{mpsc, oneshot};

use crate::client_tools::Uplink;

/// Maximum time for the server to open a shell.
const OPEN: Duration = Duration::from_secs(30);
/// Maximum number of pending output chunks per watcher; beyond it, the watcher gets a new screen state.
const WAITING_MAX: usize = 1_024;

pub(crate) struct RemoteTerminal {
    state: Mutex<State>,
    uplink: Mutex<Weak<dyn Uplink>>,
}

#[derive(Default)]
struct State {
    watchers: Vec<TerminalWatcher>,
    opening: Vec<oneshot::Sender<Result<(TerminalSize, Bytes), String>>>,
    size: Option<TerminalSize>,
}

struct TerminalWatcher {
    sender: mpsc::Sender<TerminalOutput>,
    /// True if output was lost, so that the watcher needs a new screen state.
    lost: bool,
}

pub(crate) struct TerminalUpdate {
    pub(crate) data: String,
    pub(crate) reset: bool,
    pub(crate) size: Option<TerminalSize>,
    pub(crate) ended: Option<String>,
}

/// Placeholder for a connection that has not been set yet.
struct NoUplink;

impl Uplink for NoUplink {
    fn send_if_connected(&self, _: ClientMessage) {}
}

impl RemoteTerminal {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), uplink: Mutex::new(Weak::<NoUplink>::new()) }
    }

    pub(crate) fn connect(&self, uplink: &Arc<dyn Uplink>) {
        *self.uplink.lock() = Arc::downgrade(uplink);
    }

    fn send(&self, message: ClientMessage) {
        let uplink = self.uplink.lock().upgrade();
        if let Some(uplink) = uplink {
            uplink.send_if_connected(message);
        }
    }

    fn attach(&self) {
        let envelope = Envelope::default();
        self.send(ClientMessage::TerminalAttach { envelope, cols: None, rows: None, scrollback: None });
    }

    /// Must be called after each new connection to the server. If someone watches or opens the terminal, requests a
    /// screen state, after which existing watchers continue.
    pub(crate) fn connected(&self) {
        let watched = {
            let mut state = self.state.lock();
            state.watchers.retain(|watcher| !watcher.sender.is_closed());
            state.opening.retain(|waits| !waits.is_closed());
            !state.watchers.is_empty() || !state.opening.is_empty()
        };
        if watched {
            self.attach();
        }
    }

    /// Returns an error to all callers that are opening the terminal, because the server has no terminal or cannot open
    /// it. Returns true if there was such a caller.
    pub(crate) fn failed(&self, why: &str) -> bool {
        let opening = std::mem::take(&mut self.state.lock().opening);
        let waited = !opening.is_empty();
        opening.into_iter().for_each(|waits| drop(waits.send(Err(why.to_owned()))));
        waited
    }

    /// Passes an update from the server to the watchers and to callers that are opening the terminal.
    pub(crate) fn take(&self, output: TerminalUpdate) {
        let TerminalUpdate { data, reset, size, ended } = output;
        let bytes = Bytes::from(data);
        let mut state = self.state.lock();
        if let Some(size) = size {
            state.size = Some(size);
        }
        if reset {
            let size = state.size.unwrap_or(TerminalSize { columns: 80, rows: 24 });
            for waits in std::mem::take(&mut state.opening) {
                // A caller that has stopped waiting ignores the screen state.
                let _ = waits.send(Ok((size, bytes.clone())));
            }
        }
        let told = size.map(TerminalOutput::Resized).into_iter();
        let told = told.chain((reset || !bytes.is_empty()).then(|| {
            if reset { TerminalOutput::Redrawn(bytes.clone()) } else { TerminalOutput::Bytes(bytes.clone()) }
        }));
        let told: Vec<_> = told.chain(ended.map(TerminalOutput::Ended)).collect();
        let mut lost = false;
        state.watchers.retain_mut(|watcher| {
            if reset {
                watcher.lost = false;
            }
            if watcher.lost {
                lost |= watcher.sender.capacity() > WAITING_MAX / 2;
                return !watcher.sender.is_closed();
            }
            for piece in &told {
                if watcher.sender.try_send(piece.clone()).is_err() {
                    watcher.lost = true;
                }
            }
            !watcher.sender.is_closed()
        });
        let unwatched = state.watchers.is_empty() && state.opening.is_empty();
        drop(state);
        if lost {
            self.attach();
        } else if unwatched {
            self.send(ClientMessage::TerminalDetach { envelope: Envelope::default() });
        }
    }
}

#[async_trait]
impl Terminal for RemoteTerminal {
    async fn watch(&self) -> Result<TerminalView, String> {
        let (opened, opening) = oneshot::channel();
        let (sender, live) = mpsc::channel(WAITING_MAX);
        {
            let mut state = self.state.lock();
            state.opening.retain(|waits| !waits.is_closed()); // drop canceled requests
            state.opening.push(opened);
        }
        self.attach();
        let opened = match tokio::time::timeout(OPEN, opening).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(_)) => Err("the connection to the server was closed".to_owned()),
            Err(_) => Err("the server does not offer the terminal; try again when connected".to_owned()),
        };
        let (size, picture) = opened?;
        // Output since the screen state was taken is missing; another state will replace it.
        self.state.lock().watchers.push(TerminalWatcher { sender, lost: false });
        self.attach();
        let live = futures::stream::unfold(live, |mut live| async {
            let output = live.recv().await?;
            Some((output, live))
        });
        Ok(TerminalView { size, picture, live: live.boxed() })
    }

    fn input(&self, _: &str, bytes: &[u8]) {
        let data = Secret::from(String::from_utf8_lossy(bytes).into_owned());
        self.send(ClientMessage::TerminalInput { envelope: Envelope::default(), data });
    }

    fn release(&self, _: &str) {
        self.send(ClientMessage::TerminalRelease { envelope: Envelope::default() });
    }

    fn resize(&self, size: TerminalSize) {
        let (cols, rows) = (size.columns, size.rows);
        self.send(ClientMessage::TerminalResize { envelope: Envelope::default(), cols, rows });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct RecordedMessages(Mutex<Vec<ClientMessage>>);

    impl Uplink for RecordedMessages {
        fn send_if_connected(&self, message: ClientMessage) {
            self.0.lock().push(message);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_canceled_request_is_forgotten() {
        let said = Arc::new(RecordedMessages(Mutex::default()));
        let terminal = RemoteTerminal::new();
        terminal.connect(&(Arc::clone(&said) as Arc<dyn Uplink>));
        for _ in 0..3 {
            assert!(terminal.watch().await.is_err(), "no server answers");
            assert_eq!(terminal.state.lock().opening.len(), 1);
        }
        said.0.lock().clear();
        terminal.connected();
        assert!(said.0.lock().is_empty(), "no screen is requested without a watcher");
    }
}
