//! Tool lending over a connection that the test reads.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::json;
use sysop_core::catalog;
use sysop_core::event::{Delta, Update};
use sysop_core::id::Seq;
use sysop_core::message::Arguments;
use sysop_core::policy::CommandContext;
use sysop_core::question::Question;
use tokio::sync::{Notify, mpsc};

use super::*;

/// Host that records its calls and ends them on release or cancellation.
#[derive(Default)]
struct Counting {
    tools: Vec<ToolSpec>,
    calls: Mutex<Vec<ToolCall>>,
    ran: AtomicUsize,
    gate: Notify,
}

#[async_trait]
impl Host for Counting {
    fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    async fn survey(&self, _: &ToolCall) -> Survey {
        Survey::elsewhere(CommandContext::bash())
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        let ran = self.ran.fetch_add(1, Ordering::SeqCst) + 1;
        self.calls.lock().push(call.clone());
        sink.output("begun");
        tokio::select! {
            () = self.gate.notified() => Outcome::ok(format!("{} ran, number {ran}", call.name)),
            () = cancel.cancelled() => Outcome::new(Status::Cancelled, "stopped"),
        }
    }
}

/// Connection whose other end the test holds.
struct Wire(mpsc::UnboundedSender<ClientMessage>);

impl Uplink for Wire {
    fn send_if_connected(&self, message: ClientMessage) {
        let _ = self.0.send(message);
    }
}

struct World {
    host: Arc<Counting>,
    tool_executor: Arc<LocalToolExecutor>,
    line: Arc<dyn Uplink>,
    said: mpsc::UnboundedReceiver<ClientMessage>,
    updates: BoxStream<'static, Update>,
    folder: tempfile::TempDir,
}

fn tool_executor(
    host: &Arc<Counting>,
    fanout: &Arc<UpdateFanout>,
    folder: &std::path::Path,
) -> Arc<LocalToolExecutor> {
    let local_tools = LocalTools::new(LocalToolsSettings {
        host: Arc::clone(host) as Arc<dyn Host>,
        root: "/work".to_owned(),
        tools: None,
        approve: ApprovalMode::Ask,
        dangerous: Vec::new(),
        deny: Vec::new(),
        policy: PolicyOptions::default(),
        ledgers: folder.to_owned(),
    });
    let local_tools = local_tools.unwrap().with_time_limit(600);
    let server = ServerAddress::parse("http://127.0.0.1:1", Some("t".to_owned().into())).unwrap();
    let session = SessionId::new("s");
    let stop = CancellationToken::new();
    let tool_executor = LocalToolExecutor::new(
        Arc::new(local_tools),
        &server,
        session,
        Arc::clone(fanout),
        stop,
        TaskTracker::new(),
    );
    Arc::new(tool_executor.unwrap())
}

impl World {
    fn new() -> Self {
        let host =
            Arc::new(Counting { tools: catalog::tools(catalog::Profile::Full), ..Counting::default() });
        let folder = tempfile::tempdir().unwrap();
        let fanout = Arc::new(UpdateFanout::new());
        let updates = fanout.subscribe(Seq(0));
        let tool_executor = tool_executor(&host, &fanout, folder.path());
        let (sender, said) = mpsc::unbounded_channel();
        Self { host, tool_executor, line: Arc::new(Wire(sender)), said, updates, folder }
    }

    fn asks(&self, id: &str, name: &str) {
        let map = json!({ "path": "a", "content": "b", "command": "touch a" });
        let arguments = Arguments::Object(map.as_object().unwrap().clone());
        let call = ToolCall { id: CallId::new(id), wire_id: None, name: name.to_owned(), arguments };
        self.tool_executor.run(call, Origin::Model, Arc::clone(&self.line));
    }

    async fn begun(&mut self) {
        let said = self.said.recv().await.unwrap();
        assert!(matches!(&said, ClientMessage::ToolOutput { content, .. } if content == "begun"), "{said:?}");
    }

    async fn result(&mut self) -> (Status, String) {
        loop {
            if let ClientMessage::ToolResult(result) = self.said.recv().await.unwrap() {
                return (result.status.unwrap(), result.output);
            }
        }
    }

    async fn question(&mut self) -> Question {
        loop {
            if let Update::Delta(Delta::Question { question }) = self.updates.next().await.unwrap() {
                return question;
            }
        }
    }

    fn ran(&self) -> usize {
        self.host.ran.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_repeated_call_id_runs_once_and_is_answered_each_time() {
    let mut world = World::new();
    world.asks("1", "ls");
    world.begun().await;
    world.asks("1", "ls");
    world.host.gate.notify_one();
    let first = world.result().await;
    assert_eq!(first, (Status::Ok, "ls ran, number 1".to_owned()));
    world.asks("1", "ls");
    assert_eq!(world.result().await, first);
    assert_eq!(world.ran(), 1);
}

#[tokio::test]
async fn an_interrupted_call_does_not_run_in_the_next_process() {
    let mut world = World::new();
    world.asks("1", "ls");
    world.begun().await;
    // A killed process leaves its ledger behind, but no lock.
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(world.folder.path()).unwrap().flatten() {
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    world.tool_executor = tool_executor(&world.host, &Arc::new(UpdateFanout::new()), copy.path());
    world.asks("1", "ls");
    assert_eq!(world.result().await.0, Status::Interrupted);
    assert_eq!(world.ran(), 1);
}

#[tokio::test]
async fn a_call_without_approval_asks_on_this_client() {
    let mut world = World::new();
    for (id, word, runs) in [("1", "no", false), ("2", "yes", true)] {
        world.asks(id, "bash");
        let question = world.question().await;
        assert!(question.id.is_of_client() && question.prompt.contains("touch a"), "{question:?}");
        let given = PromptReply::Given { by: "me".to_owned(), text: word.to_owned().into() };
        assert!(world.tool_executor.answer(question.id, given.clone()));
        assert!(!world.tool_executor.answer(question.id, given), "the question was already answered");
        if runs {
            world.begun().await;
            world.host.gate.notify_one();
        }
        assert_eq!(world.result().await.0 == Status::Ok, runs);
    }
    assert_eq!(world.ran(), 1);
}

/// The call of the server has no time limit of its own, as a user or a model wrote it.
#[tokio::test]
async fn a_lent_command_runs_with_the_time_limit_of_this_client() {
    let mut world = World::new();
    world.asks("1", "bash");
    let question = world.question().await;
    let given = PromptReply::Given { by: "me".to_owned(), text: "yes".to_owned().into() };
    assert!(world.tool_executor.answer(question.id, given));
    world.begun().await;
    world.asks("2", "ls");
    world.begun().await;
    let limits: Vec<_> =
        world.host.calls.lock().iter().map(|call| call.arguments.to_value()["timeout_s"].clone()).collect();
    assert_eq!(limits, [json!(600), json!(null)]);
}

#[tokio::test]
async fn stopping_ends_running_calls_and_open_questions() {
    let mut world = World::new();
    world.asks("1", "ls");
    world.begun().await;
    world.tool_executor.cancel(&CallId::new("1"));
    assert_eq!(world.result().await.0, Status::Cancelled);
    world.asks("2", "bash");
    let question = world.question().await;
    world.tool_executor.cancel(&CallId::new("2"));
    assert_eq!(world.result().await.0, Status::Cancelled);
    assert!(!world.tool_executor.answer(question.id, PromptReply::Refused), "the question was withdrawn");
    assert_eq!(world.ran(), 1);
    assert!(!world.tool_executor.is_busy());
}

#[tokio::test]
async fn a_tool_that_is_not_lent_does_not_run() {
    let mut world = World::new();
    world.asks("1", "delete_file");
    assert_eq!(world.result().await.0, Status::Rejected);
    world.asks("2", "task_complete");
    assert_eq!(world.result().await.0, Status::Rejected);
    assert_eq!(world.ran(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_silent_call_sends_heartbeats() {
    let mut world = World::new();
    world.asks("1", "ls");
    world.begun().await;
    for _ in 0..3 {
        let said = world.said.recv().await.unwrap();
        assert!(matches!(&said, ClientMessage::ToolOutput { content, .. } if content.is_empty()), "{said:?}");
    }
}

#[test]
fn a_call_is_announced_on_one_escaped_line() {
    let map = json!({ "path": "a\n\u{1b}[2J" });
    let arguments = Arguments::Object(map.as_object().unwrap().clone());
    let call = ToolCall { id: CallId::new("1"), wire_id: None, name: "write_file".into(), arguments };
    let change = |path: &str| sysop_core::outcome::FileChange {
        path: path.to_owned(),
        before: None,
        after_hash: String::new(),
    };
    let changes = ["a", "b", "c", "d", "e", "f"].map(change).to_vec();
    let line = summary(&call, &Outcome { changes, duration_ms: 7, ..Outcome::ok("") });
    assert!(line.ends_with("· ok · 7 ms · wrote a, b, c, d and 2 more"), "{line}");
    assert!(!line.contains(char::is_control), "{line:?}");
}
