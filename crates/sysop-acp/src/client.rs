//! Messages to the editor, and our requests that it has not answered yet.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

/// Maximum number of messages waiting for the editor to read them.
const QUEUED_LINES_MAX: usize = 256;

/// Error codes of JSON-RPC and of the protocol.
pub(crate) mod code {
    pub(crate) const PARSE_ERROR: i32 = -32700;
    pub(crate) const INVALID_REQUEST: i32 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
    pub(crate) const INVALID_PARAMS: i32 = -32602;
    pub(crate) const INTERNAL_ERROR: i32 = -32603;
    pub(crate) const AUTH_REQUIRED: i32 = -32000;
    pub(crate) const RESOURCE_NOT_FOUND: i32 = -32002;
}

/// Error response to a request from the editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl RpcError {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }
}

/// The editor's response to one of our requests; `None` if it was an error.
pub(crate) type Answer = Option<Value>;

/// The editor. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    lines: mpsc::Sender<String>,
    open: Arc<Mutex<OpenRequests>>,
    /// True if the editor can show forms.
    forms: Arc<AtomicBool>,
}

#[derive(Default)]
struct OpenRequests {
    last_id: u64,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
}

impl Client {
    /// Returns the editor, and a receiver that fires when the writer thread exits: when all clones are gone or the
    /// stream is closed. The writer is a thread because an editor that does not read must not delay our exit.
    pub(crate) fn new(mut output: Box<dyn Write + Send>) -> (Self, oneshot::Receiver<()>) {
        let (lines, mut queued) = mpsc::channel::<String>(QUEUED_LINES_MAX);
        let (ended, end) = oneshot::channel();
        std::thread::spawn(move || {
            while let Some(mut line) = queued.blocking_recv() {
                line.push('\n');
                if output.write_all(line.as_bytes()).and_then(|()| output.flush()).is_err() {
                    break;
                }
            }
            // The receiver is gone if nothing is waiting for the end.
            let _ = ended.send(());
        });
        (Self { lines, open: Arc::default(), forms: Arc::default() }, end)
    }

    pub(crate) fn set_forms(&self, are_shown: bool) {
        self.forms.store(are_shown, Ordering::Relaxed);
    }

    /// Returns true if the editor can show forms.
    pub(crate) fn shows_forms(&self) -> bool {
        self.forms.load(Ordering::Relaxed)
    }

    async fn send(&self, message: Value) {
        // Fails if the editor is gone; the end of its input then ends everything.
        let _ = self.lines.send(message.to_string()).await;
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub(crate) async fn update(&self, session: &str, update: Value) {
        self.notify("session/update", json!({ "sessionId": session, "update": update })).await;
    }

    pub(crate) async fn respond(&self, id: Value, result: Result<Value, RpcError>) {
        let message = match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => {
                let error = json!({ "code": error.code, "message": error.message });
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            }
        };
        self.send(message).await;
    }

    /// Sends a request. No response arrives if the editor goes away.
    pub(crate) async fn request(&self, method: &str, params: Value) -> (u64, oneshot::Receiver<Answer>) {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut open = self.open.lock();
            open.last_id += 1;
            let id = open.last_id;
            open.waiting.insert(id, sender);
            id
        };
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        (id, answer)
    }

    /// Withdraws a request whose response no longer matters.
    pub(crate) async fn cancel_request(&self, id: u64) {
        self.open.lock().waiting.remove(&id);
        self.notify("$/cancel_request", json!({ "requestId": id })).await;
    }

    /// Handles a response from the editor. Unknown ids are ignored.
    pub(crate) fn take_answer(&self, id: &Value, answer: Answer) {
        let waiting = id.as_u64().and_then(|id| self.open.lock().waiting.remove(&id));
        if let Some(waiting) = waiting {
            // The session may have ended in the meantime.
            let _ = waiting.send(answer);
        }
    }
}
