//! Nodes that share a PostgreSQL: each has a driver and a runtime of its own, so that it can die separately.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sysop_core::event::{Decision, Delta, Event, Input, Logged, Origin, Update};
use sysop_core::id::{CallId, Seq, SessionId};
use sysop_core::message::{Message, ModelRequest, Reply, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{CommandContext, Survey};
use sysop_core::spec::SessionSpec;
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_driver::cluster::{AcquireOutcome, Cluster, ForwardedInput, Lease};
use sysop_driver::port::{CancellationToken, DeltaSink, Host, ModelEvent, Provider, Store, StoreError};
use sysop_driver::{Driver, DriverError, Ports, RuntimeFactory, frontend, system_clock};
use sysop_store::{PostgresNode, PostgresStore};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, Semaphore};

use crate::events::{id, opened, queued};
use crate::server::shared;

/// Longer than any step of these tests.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// Maximum takeover time that the product promises.
const TAKEOVER_MAX: Duration = Duration::from_secs(10);

/// Number of chunks that a talking model sends.
const PIECES: usize = 1000;
/// Time to wait for a live chunk that may be lost, before the next is sent.
const PIECE_TIME: Duration = Duration::from_millis(500);

/// State shared by the nodes of a test besides their database.
pub(crate) struct World {
    /// Every call begun by a host, on any node.
    pub(crate) ran: Mutex<Vec<(String, CallId)>>,
    /// Notified when a tool begins to wait.
    pub(crate) waits: Notify,
    /// The model sends one chunk per permit.
    pieces: Semaphore,
}

/// Answers `talk` chunk by chunk, and everything else immediately.
struct Model(Arc<World>);

impl Provider for Model {
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        let asked = request.messages.iter().rev().find_map(|message| match message.message() {
            Message::User { text, .. } => Some(text.clone()),
            Message::Assistant { .. } | Message::ToolResults { .. } => None,
        });
        let done =
            |text: &str| ModelEvent::Done(Box::new(Reply { text: text.to_owned(), ..Reply::default() }));
        if asked.as_deref() != Some("talk") {
            return futures::stream::iter([done("done")]).boxed();
        }
        let world = Arc::clone(&self.0);
        let pieces = futures::stream::unfold((world, 0), |(world, number)| async move {
            if number == PIECES {
                return None;
            }
            world.pieces.acquire().await.unwrap().forget();
            Some((ModelEvent::Text(format!("{number} ")), (world, number + 1)))
        });
        pieces.chain(futures::stream::iter([done("all said")])).boxed()
    }
}

/// Runs nothing; `wait` ends only when canceled.
struct Tools {
    world: Arc<World>,
    session: String,
    tools: Vec<ToolSpec>,
}

#[async_trait]
impl Host for Tools {
    fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    async fn survey(&self, _: &ToolCall) -> Survey {
        Survey::elsewhere(CommandContext::bash())
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        self.world.ran.lock().push((self.session.clone(), call.id.clone()));
        sink.output("begun\n");
        if call.text_argument("command") == Some("wait") {
            self.world.waits.notify_one();
            cancel.cancelled().await;
            return Outcome::new(Status::Cancelled, "stopped");
        }
        Outcome::ok("ok")
    }
}

fn bash() -> ToolSpec {
    ToolSpec {
        name: "bash".into(),
        description: "".into(),
        parameters: json!({"type": "object"}).into(),
        effect: ToolEffect::Command,
    }
}

fn spec() -> SessionSpec {
    let Event::SessionOpened { spec, .. } = opened("local", "/srv") else { unreachable!("it is one") };
    SessionSpec { tools: vec![bash()], ..(*spec).clone() }
}

/// A node that can die.
pub(crate) struct Node {
    pub(crate) runtime: Option<Runtime>,
    pub(crate) driver: Driver,
    cluster: PostgresNode,
    world: Arc<World>,
}

impl Node {
    pub(crate) async fn start(name: &'static str, url: &str, world: &Arc<World>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = url.to_owned();
        let started = runtime.spawn(async move {
            let store = PostgresStore::connect(&url).await.unwrap();
            let cluster = PostgresNode::join(&store, name).await.unwrap();
            let ports = Ports { store: Arc::new(store), clock: system_clock() };
            (Driver::clustered(ports, Arc::new(cluster.clone())), cluster)
        });
        let (driver, cluster) = started.await.unwrap();
        Self { runtime: Some(runtime), driver, cluster, world: Arc::clone(world) }
    }

    pub(crate) fn make_runtime(&self, name: &str) -> RuntimeFactory {
        let (world, session) = (Arc::clone(&self.world), name.to_owned());
        Arc::new(move || {
            let world = Arc::clone(&world);
            let tools = Tools { world: Arc::clone(&world), session: session.clone(), tools: vec![bash()] };
            sysop_driver::Runtime {
                host: Arc::new(tools),
                provider: Arc::new(Model(world)),
                instructions: None,
                hooks: None,
            }
        })
    }

    /// Stops all work of the node at once, like `kill -9`.
    pub(crate) fn die(mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }

    pub(crate) async fn create(&self, name: &str) -> TestClient {
        let (driver, id, make_runtime) = (self.driver.clone(), SessionId::new(name), self.make_runtime(name));
        let created = self
            .runtime
            .as_ref()
            .unwrap()
            .spawn(async move { driver.create(id, spec(), make_runtime).await.unwrap() });
        TestClient::new(created.await.unwrap())
    }

    /// Releases all leases of the node.
    pub(crate) async fn evict_idle(&self) {
        let driver = self.driver.clone();
        let resting = self.runtime.as_ref().unwrap().spawn(async move {
            while driver.live_sessions() > 0 {
                driver.evict_idle(Duration::ZERO);
                tokio::task::yield_now().await;
            }
        });
        tokio::time::timeout(DEADLINE, resting).await.expect("nobody holds them").unwrap();
    }

    /// Returns true if the other nodes consider this node dead.
    pub(crate) fn is_lost(&self) -> bool {
        self.cluster.ready().is_err()
    }

    pub(crate) async fn open(&self, name: &str) -> TestClient {
        self.try_open(name).await.unwrap()
    }

    pub(crate) async fn try_open(&self, name: &str) -> Result<TestClient, DriverError> {
        let (driver, id, make_runtime) = (self.driver.clone(), SessionId::new(name), self.make_runtime(name));
        let open = self.runtime.as_ref().unwrap().spawn(async move { driver.open(&id, make_runtime).await });
        Ok(TestClient::new(open.await.unwrap()?))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// View of a user at a node.
pub(crate) struct TestClient {
    pub(crate) session: Arc<dyn frontend::SessionHandle>,
    pub(crate) updates: BoxStream<'static, Update>,
    pub(crate) log: Vec<Arc<Logged>>,
    text: String,
    output: String,
}

impl TestClient {
    fn new(session: Arc<dyn frontend::SessionHandle>) -> Self {
        let updates = session.subscribe(Seq(0));
        Self { session, updates, log: Vec::new(), text: String::new(), output: String::new() }
    }

    pub(crate) fn say(&self, input: Input) {
        self.session.send(input).unwrap();
    }

    pub(crate) async fn see(&mut self) {
        let seen = tokio::time::timeout(DEADLINE, self.next()).await.expect("an update comes");
        assert!(seen.is_some(), "the session is gone: {:?}", self.session.last_error());
    }

    /// Returns the next logged update; fails once the session is gone.
    pub(crate) async fn next(&mut self) -> Option<Option<Arc<Logged>>> {
        match self.updates.next().await? {
            Update::Logged(logged) => {
                assert_eq!(logged.seq, Seq(self.log.len() as u64 + 1), "each once, in order");
                self.log.push(Arc::clone(&logged));
                return Some(Some(logged));
            }
            Update::Delta(Delta::Text { text, .. }) => self.text.push_str(&text),
            Update::Delta(Delta::Output { text, .. }) => self.output.push_str(&text),
            Update::Delta(_) => {}
        }
        Some(None)
    }

    /// Reads until an event arrives, and returns it.
    pub(crate) async fn until<T>(&mut self, wanted: impl Fn(&Event) -> Option<T>) -> T {
        let mut looked_at = 0;
        loop {
            for logged in &self.log[looked_at..] {
                if let Some(found) = wanted(&logged.event) {
                    return found;
                }
            }
            looked_at = self.log.len();
            self.see().await;
        }
    }

    /// Reads until a prompt was answered.
    pub(crate) async fn until_answered(&mut self, prompt: &str) {
        let turn = self
            .until(|event| match event {
                Event::TurnStarted { turn, prompt: asked, .. } if asked == prompt => Some(*turn),
                _ => None,
            })
            .await;
        self.until(|event| {
            matches!(event, Event::TurnEnded { turn: ended, .. } if *ended == turn).then_some(())
        })
        .await;
    }
}

pub(crate) fn prompt(text: impl Into<String>) -> Input {
    Input::prompt(text.into())
}

pub(crate) fn direct(command: &str) -> Input {
    let arguments = Map::from_iter([("command".to_owned(), Value::from(command))]);
    Input::Direct { tool: "bash".into(), arguments, origin: Origin::User, by: None }
}

pub(crate) async fn database() -> (String, String) {
    let name = shared().database().await;
    let url = shared().url(&name);
    (name, url)
}

pub(crate) fn new_world() -> Arc<World> {
    Arc::new(World { ran: Mutex::default(), waits: Notify::new(), pieces: Semaphore::new(0) })
}

/// Starts two nodes on a new database; returns its name, too.
pub(crate) async fn two_nodes(world: &Arc<World>) -> (Node, Node, String) {
    let (name, url) = database().await;
    (Node::start("a", &url, world).await, Node::start("b", &url, world).await, name)
}

pub(crate) fn owned(acquired: AcquireOutcome) -> Arc<dyn Lease> {
    match acquired {
        AcquireOutcome::Owned(lease) => lease,
        AcquireOutcome::OwnedBy(node) => panic!("{node} has it"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_owns_a_session_and_the_database_rejects_others() {
    let (_, url) = database().await;
    let (a, b) = (PostgresStore::connect(&url).await.unwrap(), PostgresStore::connect(&url).await.unwrap());
    let (node_a, node_b) =
        (PostgresNode::join(&a, "a").await.unwrap(), PostgresNode::join(&b, "b").await.unwrap());
    assert_eq!(node_a.ready(), Ok(()));
    let missing = node_a.acquire(&id("s")).await.err();
    assert_eq!(missing, Some(StoreError::NotFound(id("s"))));

    let begun = node_a.new_lease(&id("s"));
    assert_eq!(begun.append(Seq(0), &queued(0, 2, "a"), &[]).await, Ok(Seq(2)));
    assert!(matches!(node_b.acquire(&id("s")).await.unwrap(), AcquireOutcome::OwnedBy(node) if node == "a"));
    let refused = b.append(&id("s"), Seq(2), &queued(2, 1, "nobody")).await.unwrap_err();
    assert_eq!(refused, StoreError::LeaseLost { id: id("s"), by: "a".into() });
    assert_eq!(refused.to_string(), "session s is now owned by node a; reopen it");
    // This node's earlier lease ends when it acquires the session again.
    let again = owned(node_a.acquire(&id("s")).await.unwrap());
    let refused = begun.append(Seq(2), &queued(2, 1, "old"), &[]).await.unwrap_err();
    assert!(matches!(refused, StoreError::LeaseLost { .. }), "{refused}");
    assert_eq!(again.append(Seq(2), &queued(2, 1, "new"), &[]).await, Ok(Seq(3)));

    node_a.leave().await.unwrap();
    assert!(!again.is_valid());
    assert!(node_a.acquire(&id("s")).await.is_err());
    assert!(node_a.ready().is_err());
    let lease = owned(node_b.acquire(&id("s")).await.unwrap());
    assert_eq!(lease.append(Seq(3), &queued(3, 1, "b"), &[]).await, Ok(Seq(4)));
    assert_eq!(a.load(&id("s"), Seq(0), 10).await.unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_session_can_be_opened_on_another_node() {
    let world = new_world();
    let (a, b, _) = two_nodes(&world).await;
    drop(a.create("s").await);
    a.evict_idle().await;
    // No one at this node would see it.
    let mut frontend = b.open("s").await;
    frontend.say(prompt("hello"));
    frontend.until_answered("hello").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_rejects_a_stale_owner() {
    let (name, url) = database().await;
    let (a, b) = (PostgresStore::connect(&url).await.unwrap(), PostgresStore::connect(&url).await.unwrap());
    let (node_a, node_b) =
        (PostgresNode::join(&a, "a").await.unwrap(), PostgresNode::join(&b, "b").await.unwrap());
    let stale = node_a.new_lease(&id("s"));
    stale.append(Seq(0), &queued(0, 1, "a"), &[]).await.unwrap();
    // Simulates a node that sleeps: its own clock has not noticed the end of its lease.
    shared().run(&name, "UPDATE sysop_nodes SET until = clock_timestamp() WHERE name = 'a'").await;
    let lease = owned(node_b.acquire(&id("s")).await.unwrap());
    assert!(stale.is_valid(), "its clock says so");
    let refused = stale.append(Seq(1), &queued(1, 1, "stale"), &[]).await.unwrap_err();
    assert_eq!(refused, StoreError::LeaseLost { id: id("s"), by: "b".into() });
    assert_eq!(lease.append(Seq(1), &queued(1, 1, "b"), &[]).await, Ok(Seq(2)));
    let log = a.load(&id("s"), Seq(0), 10).await.unwrap();
    assert_eq!(
        log.last().unwrap().event,
        Event::PromptQueued { text: "b 0".into(), images: Vec::new(), by: None }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_nodes_takes_over_a_dead_nodes_session() {
    let (name, url) = database().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    for round in 0..5 {
        let session = id(&format!("s{round}"));
        let dead = PostgresNode::join(&store, "dead").await.unwrap();
        dead.new_lease(&session).append(Seq(0), &queued(0, 1, "a"), &[]).await.unwrap();
        let mut nodes = Vec::new();
        for _ in 0..6 {
            nodes.push(PostgresNode::join(&store, "heir").await.unwrap());
        }
        shared().run(&name, "UPDATE sysop_nodes SET until = clock_timestamp() WHERE name = 'dead'").await;
        let wishes = nodes.iter().map(|node| node.acquire(&session));
        let won = futures::future::join_all(wishes).await;
        let leases: Vec<_> = won
            .into_iter()
            .filter_map(|acquired| match acquired.unwrap() {
                AcquireOutcome::Owned(lease) => Some(lease),
                AcquireOutcome::OwnedBy(by) => {
                    assert_eq!(by, "heir");
                    None
                }
            })
            .collect();
        assert_eq!(leases.len(), 1);
        assert_eq!(leases[0].append(Seq(1), &queued(1, 1, "b"), &[]).await, Ok(Seq(2)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_input_counts_once_however_often_it_is_posted() {
    let (_, url) = database().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let (node, other) =
        (PostgresNode::join(&store, "a").await.unwrap(), PostgresNode::join(&store, "b").await.unwrap());
    let lease = node.new_lease(&id("s"));
    lease.append(Seq(0), &queued(0, 1, "a"), &[]).await.unwrap();
    let letter = |id: &str| ForwardedInput { id: id.into(), input: prompt(id) };
    for name in ["one", "two", "one", "three"] {
        other.enqueue(&id("s"), &letter(name)).await.unwrap();
    }
    let said = |waiting: Vec<sysop_driver::cluster::QueuedInput>| {
        waiting.into_iter().map(|letter| (letter.number, letter.input)).collect::<Vec<_>>()
    };
    let waiting = said(lease.queued_inputs().await.unwrap());
    let inputs: Vec<_> = waiting.iter().map(|(_, input)| input.clone()).collect();
    assert_eq!(inputs, [prompt("one"), prompt("two"), prompt("three")]);
    // With an append, and without.
    lease.append(Seq(1), &queued(1, 1, "b"), &[waiting[1].0]).await.unwrap();
    lease.append(Seq(2), &[], &[waiting[0].0]).await.unwrap();
    for name in ["one", "two", "three"] {
        other.enqueue(&id("s"), &letter(name)).await.unwrap();
    }
    assert_eq!(said(lease.queued_inputs().await.unwrap()), waiting[2..]);
    // A node that lost the session consumes no inputs.
    let next = owned(node.acquire(&id("s")).await.unwrap());
    let refused = lease.append(Seq(2), &[], &[waiting[2].0]).await.unwrap_err();
    assert!(matches!(refused, StoreError::LeaseLost { .. }), "{refused}");
    let refused = lease.append(Seq(2), &queued(2, 1, "c"), &[waiting[2].0]).await.unwrap_err();
    assert!(matches!(refused, StoreError::LeaseLost { .. }), "{refused}");
    assert_eq!(said(next.queued_inputs().await.unwrap()), waiting[2..]);
    assert_eq!(other.enqueue(&id("none"), &letter("x")).await, Err(StoreError::NotFound(id("none"))));
    // A session without an owner accepts inputs for its next owner.
    node.leave().await.unwrap();
    other.enqueue(&id("s"), &letter("four")).await.unwrap();
    let lease = owned(other.acquire(&id("s")).await.unwrap());
    assert_eq!(lease.queued_inputs().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_input_whose_notification_was_lost_is_found() {
    let world = new_world();
    let (name, url) = database().await;
    let a = Node::start("a", &url, &world).await;
    let mut here = a.create("s").await;
    let letter = "INSERT INTO sysop_letters (id, session, body) VALUES ('x', 's', '{\"prompt\":{\"text\":\"found\"}}')";
    shared().run(&name, letter).await;
    here.until_answered("found").await;
    let of_a_later_day = "INSERT INTO sysop_letters (id, session, body) VALUES ('y', 's', '{\"dream\":{}}')";
    shared().run(&name, of_a_later_day).await;
    here.say(prompt("still there?"));
    here.until_answered("still there?").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_sees_all_events_and_can_send_inputs() {
    let world = new_world();
    let (a, b, _) = two_nodes(&world).await;
    let mut here = a.create("s").await;
    let mut there = b.open("s").await;
    there.say(prompt("talk"));
    there.until(|event| matches!(event, Event::StepStarted { .. }).then_some(())).await;
    let said = |frontend: &TestClient| -> Vec<usize> {
        frontend.text.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    // A live chunk may be lost; those that arrive do so in order, once, and while the model talks.
    for _ in 0..PIECES {
        world.pieces.add_permits(1);
        tokio::time::timeout(PIECE_TIME, there.see()).await.ok();
        if said(&there).len() >= 3 {
            break;
        }
    }
    assert!(said(&there).len() >= 3, "{:?}", there.text);
    world.pieces.add_permits(PIECES);
    there.until_answered("talk").await;
    here.until_answered("talk").await;
    assert!(said(&there).is_sorted_by(|a, b| a < b), "{}", there.text);
    assert_eq!(said(&here).len(), PIECES);

    there.say(direct("wait"));
    world.waits.notified().await;
    there.say(Input::Cancel);
    let status = |event: &Event| match event {
        Event::ToolFinished { outcome, .. } => Some(outcome.status),
        _ => None,
    };
    assert_eq!(there.until(status).await, Status::Cancelled);
    assert_eq!(here.until(status).await, Status::Cancelled);
    assert_eq!(world.ran.lock().len(), 1);
    assert!(there.session.terminal().is_none());
    assert_eq!(there.session.last_error(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_from_all_nodes_arrive_once_in_order() {
    let world = new_world();
    let (a, b, name) = two_nodes(&world).await;
    let mut here = a.create("s").await;
    let mut there = b.open("s").await;
    let cut_off = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    for round in 0..4 {
        for number in 0..6 {
            there.say(prompt(format!("there {round} {number}")));
            here.say(prompt(format!("here {round} {number}")));
            if number == 3 {
                shared().run(&name, cut_off).await;
            }
        }
        for number in 0..6 {
            here.until_answered(&format!("there {round} {number}")).await;
            there.until_answered(&format!("here {round} {number}")).await;
            there.until_answered(&format!("there {round} {number}")).await;
        }
    }
    for whose in ["here", "there"] {
        let said: Vec<_> = there
            .log
            .iter()
            .filter_map(|logged| match &logged.event {
                Event::TurnStarted { prompt, .. } if prompt.starts_with(whose) => Some(prompt.clone()),
                _ => None,
            })
            .collect();
        let expected: Vec<_> =
            (0..4).flat_map(|round| (0..6).map(move |number| format!("{whose} {round} {number}"))).collect();
        assert_eq!(said, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_nodes_session_is_taken_over_in_time_without_double_runs() {
    let world = new_world();
    let (a, b, _) = two_nodes(&world).await;
    let here = a.create("s").await;
    let mut there = b.open("s").await;
    here.say(direct("wait"));
    world.waits.notified().await;
    there.until(|event| matches!(event, Event::ToolStarted { .. }).then_some(())).await;
    let begun = Instant::now();
    a.die();
    there.say(prompt("are you there?"));
    let status = |event: &Event| match event {
        Event::ToolFinished { outcome, .. } => Some(outcome.status),
        _ => None,
    };
    assert_eq!(there.until(status).await, Status::Interrupted);
    assert!(begun.elapsed() < TAKEOVER_MAX, "{:?}", begun.elapsed());
    there.say(Input::Resume);
    there.until_answered("are you there?").await;
    assert_eq!(world.ran.lock().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_sleeps_past_its_lease_becomes_a_follower() {
    let world = new_world();
    let (a, b, name) = two_nodes(&world).await;
    let mut here = a.create("s").await;
    let mut there = b.open("s").await;
    here.say(direct("wait"));
    world.waits.notified().await;
    shared().run(&name, "UPDATE sysop_nodes SET until = clock_timestamp() WHERE name = 'a'").await;
    let status = |event: &Event| match event {
        Event::ToolFinished { outcome, .. } => Some(outcome.status),
        _ => None,
    };
    assert_eq!(there.until(status).await, Status::Interrupted);
    there.say(Input::Cancel);
    there.say(prompt("who has it?"));
    there.until_answered("who has it?").await;
    // The node that lost the session sees the same log, and its inputs reach the new owner.
    here.until_answered("who has it?").await;
    assert_eq!(here.until(status).await, Status::Interrupted);
    here.say(prompt("and me?"));
    there.until_answered("and me?").await;
    here.until_answered("and me?").await;
    assert_eq!(world.ran.lock().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaving_node_releases_its_sessions_at_once() {
    let world = new_world();
    let (a, b, _) = two_nodes(&world).await;
    let mut here = a.create("s").await;
    let mut there = b.open("s").await;
    here.say(prompt("before"));
    there.until_answered("before").await;
    let begun = Instant::now();
    a.driver.leave().await.unwrap();
    there.say(prompt("after"));
    there.until_answered("after").await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let end = async { while here.updates.next().await.is_some() {} };
    tokio::time::timeout(DEADLINE, end).await.expect("its own faces are sent away");
    assert!(here.session.last_error().unwrap().contains("shutting down"));
    assert!(a.cluster.ready().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_can_answer_an_approval_and_the_first_answer_counts() {
    let world = new_world();
    let (a, b, _) = two_nodes(&world).await;
    let mut here = a.create("s").await;
    let mut there = b.open("s").await;
    let arguments = Map::from_iter([("command".to_owned(), json!("touch x"))]);
    here.say(Input::Direct { tool: "bash".into(), arguments, origin: Origin::Routine, by: None });
    let asked = |event: &Event| match event {
        Event::ApprovalAsked { call, .. } => Some(call.id.clone()),
        _ => None,
    };
    let call = there.until(asked).await;
    for by in ["first", "second"] {
        let decision = Decision::Allow { command: None };
        there.say(Input::Decision { call: call.clone(), decision, by: by.into(), person: None });
    }
    let decided = |event: &Event| match event {
        Event::Decided { by, .. } => Some(by.clone()),
        _ => None,
    };
    assert_eq!(here.until(decided).await, "first");
    there.until(|event| matches!(event, Event::TurnEnded { .. }).then_some(())).await;
    assert_eq!(*world.ran.lock(), [("s".to_owned(), call)]);
}
