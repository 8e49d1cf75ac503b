//! Sessions that move from node to node, and their client tools.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::world::{Client, Database, Model, Node, NodeClient, exported, token, wait_for, wait_until};
use crate::World;
use crate::support::{DEADLINE, bash, call, say};

/// Maximum time for a server to shut down, whatever its clients do. The server grants them five seconds.
const DRAIN_MAX: Duration = Duration::from_secs(15);

/// Two nodes on one database, and a token that both accept.
struct Pair {
    _outside: World,
    _model: Model,
    database: Database,
    root: tempfile::TempDir,
    nodes: [Node; 2],
    token: String,
}

impl Pair {
    fn start<const N: usize>(scenarios: [(&str, Vec<serde_json::Value>); N]) -> Self {
        let outside = World::new();
        let model = Model::start(&outside, &scenarios.map(|(trigger, steps)| (trigger.to_owned(), steps)));
        let database = Database::new();
        let root = tempfile::tempdir().unwrap();
        let start = || Node::start(World::with_openai(&model.url), &database, root.path(), &[]);
        let nodes = [start(), start()];
        let token = token(&outside, &database);
        Self { _outside: outside, _model: model, database, root, nodes, token }
    }

    fn reaches(&self) -> [NodeClient; 2] {
        self.nodes.each_ref().map(|node| NodeClient::of(node, &self.token))
    }

    /// Index of the node that owns a session.
    fn owner(&self, session: &str) -> usize {
        let owns = |node: &Node| {
            let owner = "SELECT 1 FROM sysop_sessions AS session JOIN sysop_nodes AS node ON node.id = owner";
            self.database
                .holds(&format!("EXISTS ({owner} WHERE session.id = '{session}' AND node.{})", node.name()))
        };
        usize::from(!owns(&self.nodes[0]))
    }
}

#[test]
fn a_session_continues_on_another_node_after_a_shutdown() {
    let job = "echo ran >> lines; sleep 600";
    let mut pair = Pair::start([
        ("the long job", vec![bash(job), say("It was done.")]),
        ("greet", vec![say("Good day.")]),
        ("the second job", vec![say("Done.")]),
    ]);
    let reaches = pair.reaches();
    for reach in &reaches {
        assert_eq!(reach.missing(), None);
    }

    // A turn requested on one node may run on the other node, which owns the session.
    let id = reaches[0].create();
    let mut clients = reaches.each_ref().map(|reach| Client::new(reach, &id));
    clients[0].turn("greet");
    clients[1].turn("the second job");
    assert!(reaches[0].say(&id, "messages", &json!({ "content": "the long job" })));
    let lines = pair.root.path().join("lines");
    wait_until("the job begins", || lines.exists());

    let ending = pair.owner(&id);
    let there = &reaches[1 - ending];
    let client = &mut clients[1 - ending];
    let asked = Instant::now();
    pair.nodes[ending].running.signal(Signal::TERM);
    // The handover is immediate: long before the lease would expire.
    let finished = client.until("the call is told to be interrupted", |told| told["type"] == "tool.finished");
    let took = asked.elapsed();
    assert_eq!(finished["status"], "interrupted");
    assert!(there.say(&id, "resume", &json!({})));
    client.until("the turn ends", |told| told["type"] == "assistant.done");
    assert_eq!(std::fs::read_to_string(lines).unwrap(), "ran\n");
    assert!(
        pair.nodes[ending].running.ends_within(DRAIN_MAX.saturating_sub(asked.elapsed())),
        "it did not end within {DRAIN_MAX:?}"
    );
    eprintln!("handed over after {took:?}, ended within {:?}", asked.elapsed());
    exported(&World::new(), &pair.database, &id);
}

#[test]
fn client_tools_work_on_any_node() {
    let pair = Pair::start([("look", vec![call("look", json!({ "path": "." })), say("I looked.")])]);
    let [here, there] = pair.reaches();
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let tool = json!({ "name": "look", "description": "Looks.", "inputSchema": schema });
    let new = json!({ "host": "none", "toolManifest": [tool], "workspaceRoot": "/home/me" });
    // Both nodes accept the token, although it is new.
    let made = here.post("/api/agent/sessions", &new).expect("a session");
    let id = made["sessionId"].as_str().unwrap();
    // A watcher alone does not keep the session on a node without other clients.
    let mut watcher = Client::new(&there, id);
    watcher.until("it is followed", |_| true);
    let elsewhere = format!(
        "NOT EXISTS (SELECT 1 FROM sysop_sessions AS session JOIN sysop_nodes AS node ON node.id = owner \
         WHERE session.id = '{id}' AND node.{})",
        pair.nodes[0].name()
    );
    wait_until("the session is given back", || pair.database.holds(&elsewhere));
    let path = format!("/api/agent/sessions/{id}/events?lend=true");
    let mut events = wait_for("a stream of events", || there.stream(&path, 0));
    assert!(there.say(id, "messages", &json!({ "content": "look" })));
    let until = Instant::now() + DEADLINE;
    let mut next = |kind: &str| {
        loop {
            let (message, _) = events.next(until).unwrap_or_else(|| panic!("no {kind} within {DEADLINE:?}"));
            if message["type"] == kind {
                return message;
            }
        }
    };
    let called = next("tool.call");
    assert!(there.say(id, "tool-results", &json!({ "toolCallId": called["toolCallId"], "output": "seen" })));
    assert_eq!(next("tool.finished")["status"], "ok");
    next("assistant.done");
}
