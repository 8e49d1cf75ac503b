//! Three nodes on one database behind a plain load balancer, under load and with random failures.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::world::{
    Balancer, Client, Database, Model, Node, NodeClient, exported, token, wait_for, wait_until,
};
use crate::World;
use crate::pg::Server;
use crate::support::{DEADLINE, bash, say};

/// Number of nodes behind the load balancer.
const NODES: usize = 3;
/// Number of clients, each with its own session.
const SESSIONS: usize = 6;
/// Number of scripted turns per session; more than fit into the test's duration.
const TURNS_MAX: usize = 200;
/// Maximum attempts for one turn.
const TIMES_MAX: usize = 8;
/// Time without data after which a client reconnects, because its node may be frozen.
const SILENCE: Duration = Duration::from_secs(3);

/// Failures; each occurs once per run, in random order.
#[derive(Debug, Clone, Copy)]
enum ChaosEvent {
    /// A node is killed, and another one is started in its place.
    Kill,
    /// A node is frozen until it counts as dead, and for a while longer.
    Freeze,
    /// The database crashes and restarts.
    Crash,
    /// All connections to the database are cut.
    Cut,
}

/// Small deterministic generator: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).unwrap()
    }

    fn blows(&mut self) -> Vec<ChaosEvent> {
        let mut left = vec![ChaosEvent::Kill, ChaosEvent::Freeze, ChaosEvent::Crash, ChaosEvent::Cut];
        let mut blows = Vec::new();
        while !left.is_empty() {
            blows.push(left.swap_remove(self.below(left.len())));
        }
        blows
    }
}

/// Prompt of one attempt; each prompt is unique, so that its outcome can be found.
fn prompt(session: usize, turn: usize, time: usize) -> String {
    format!("{}.", witness(session, turn, time))
}

/// Name of the file that gets a line for each run of a prompt's call.
fn witness(session: usize, turn: usize, time: usize) -> String {
    format!("job-{session}-{turn}-{time}")
}

/// Waits until `count` more turns have ended; `count` may be 0.
fn wait_for_turns(ended: &Receiver<usize>, count: usize) {
    let until = Instant::now() + DEADLINE;
    for done in 0..count {
        let left = until.saturating_duration_since(Instant::now());
        if let Err(error) = ended.recv_timeout(left) {
            panic!("{done} of {count} turns ended within {DEADLINE:?}: {error}");
        }
    }
}

/// Runs turns until `stop`, and reports each end. Returns the client with everything it received.
fn work(mut client: Client, number: usize, stop: &AtomicBool, ended: &Sender<usize>) -> Client {
    for turn in 0..TURNS_MAX {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let times = client.turn_somehow(|time| prompt(number, turn, time));
        assert!(times <= TIMES_MAX, "{number}-{turn} needed {times} prompts");
        let _ = ended.send(number); // the last ones are not counted
    }
    client
}

/// Waits until a session is idle: a repeated prompt may still be running.
fn rest(reach: &NodeClient, session: &str) {
    let path = format!("/api/agent/sessions/{session}");
    wait_until(&format!("{session} comes to its end"), || {
        let state = reach.ask("GET", &path, &Value::Null).map(|(_, shown)| shown["state"]["state"].clone());
        if state == Some(json!("paused")) {
            reach.say(session, "resume", &json!({}));
        }
        state == Some(json!("idle"))
    });
}

/// Stops the clients when the test ends for any reason.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Chaos {
    server: Server,
    database: Database,
    model: Model,
    balancer: Balancer,
    root: tempfile::TempDir,
    nodes: Vec<Node>,
}

impl Chaos {
    fn start(outside: &World) -> Self {
        let scenarios: Vec<_> = (0..SESSIONS)
            .flat_map(|session| (0..TURNS_MAX).map(move |turn| (session, turn)))
            .flat_map(|(session, turn)| (0..TIMES_MAX).map(move |time| (session, turn, time)))
            .map(|(session, turn, time)| {
                let command = format!("echo ran >> {}; sleep 0.3", witness(session, turn, time));
                (prompt(session, turn, time), vec![bash(&command), say("It is done.")])
            })
            .collect();
        let server = Server::start();
        let mut chaos = Self {
            database: Database::on(&server),
            server,
            model: Model::start(outside, &scenarios),
            balancer: Balancer::start(),
            root: tempfile::tempdir().unwrap(),
            nodes: Vec::new(),
        };
        for _ in 0..NODES {
            chaos.nodes.push(chaos.node(World::with_openai(&chaos.model.url)));
        }
        *chaos.balancer.nodes.lock() = chaos.nodes.iter().map(|node| node.address).collect();
        chaos
    }

    fn node(&self, world: World) -> Node {
        let allowed = self.balancer.address.to_string();
        Node::start(world, &self.database, self.root.path(), &["--allow-host", &allowed])
    }

    fn strike(&mut self, blow: ChaosEvent, random: &mut Random, ended: &Receiver<usize>) {
        let chosen = random.below(NODES);
        match blow {
            ChaosEvent::Kill => {
                let Node { world, running, .. } = self.nodes.remove(chosen);
                running.kill();
                self.nodes.insert(chosen, self.node(world));
                self.balancer.nodes.lock()[chosen] = self.nodes[chosen].address;
            }
            ChaosEvent::Freeze => {
                let frozen = &self.nodes[chosen];
                frozen.running.signal(Signal::STOP);
                let name = frozen.name();
                let alive = format!("SELECT 1 FROM sysop_nodes WHERE {name} AND until > clock_timestamp()");
                wait_until("the lease of a frozen node ends", || {
                    !self.database.holds(&format!("EXISTS ({alive})"))
                });
                wait_for_turns(ended, random.below(SESSIONS));
                self.nodes[chosen].running.signal(Signal::CONT);
            }
            ChaosEvent::Crash => {
                self.server.crash();
                self.server.start_again();
            }
            ChaosEvent::Cut => {
                let cut = "(SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity \
                           WHERE datname = current_database() AND pid <> pg_backend_pid())";
                assert!(self.database.holds(cut), "there was no connection to cut");
            }
        }
    }

    /// Checks that the log and the witness files of a session match everything its client received.
    fn check(&self, outside: &World, number: usize, client: &Client) -> (usize, usize) {
        let log = exported(outside, &self.database, &client.session);
        // A client that was never disconnected receives the same events, from every node.
        let mut again = Client::new(&client.reach, &client.session);
        wait_until("the log is told again", || {
            again.next();
            again.acknowledged >= client.acknowledged
        });
        again.told.retain(|seq, _| *seq <= client.acknowledged);
        assert_eq!(again.told, client.told, "session {number}");
        let messages: Vec<&Value> = client.told.values().flatten().collect();
        let of = |kind: &str| messages.iter().filter(|message| message["type"] == kind).collect::<Vec<_>>();
        let asked: Vec<&str> =
            of("tool.call").iter().map(|call| call["toolCallId"].as_str().unwrap()).collect();
        assert_eq!(asked.len(), asked.iter().collect::<BTreeSet<_>>().len(), "a call was shown twice");
        let lines_of = |kind: &str| -> Vec<String> {
            let kind = format!("\"{kind}\"");
            log.iter().map(Value::to_string).filter(|line| line.contains(&kind)).collect()
        };
        let (turns, begun, ended) =
            (lines_of("turn_started"), lines_of("tool_started"), lines_of("tool_finished"));
        let count = |lines: &[String], text: &str| lines.iter().filter(|line| line.contains(text)).count();
        for (turn, time) in (0..TURNS_MAX).flat_map(|turn| (0..TIMES_MAX).map(move |time| (turn, time))) {
            let name = witness(number, turn, time);
            let ran = std::fs::read_to_string(self.root.path().join(&name)).unwrap_or_default();
            let ran = ran.lines().count();
            if ran == 0 && count(&turns, &format!("{name}.")) == 0 {
                continue;
            }
            assert_eq!(count(&turns, &format!("{name}.")), 1, "{name}: {log:#?}");
            let calls = count(&begun, &format!("{name};"));
            assert!(calls <= 1 && ran <= calls, "{name} began {calls} times and ran {ran} times: {log:#?}");
            let done =
                of("tool.call").into_iter().filter(|call| call.to_string().contains(&format!("{name};")));
            let done = done.filter(|call| {
                of("tool.finished")
                    .iter()
                    .any(|end| end["toolCallId"] == call["toolCallId"] && end["status"] == "ok")
            });
            let done = done.count();
            assert!(ran >= done, "{name} succeeded {done} times and ran {ran} times");
        }
        assert_eq!(begun.len(), ended.len(), "{log:#?}");
        let interrupted = of("tool.finished").iter().filter(|end| end["status"] == "interrupted").count();
        (of("assistant.done").len(), interrupted)
    }
}

#[test]
fn failures_under_load_lose_nothing_and_run_nothing_twice() {
    let seed = std::env::var("SYSOP_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = seed.unwrap_or_else(now);
    eprintln!("SYSOP_TEST_SEED={seed}");
    let mut random = Random(seed);
    let outside = World::new();
    let mut chaos = Chaos::start(&outside);
    let token = token(&outside, &chaos.database);
    let reach = NodeClient { address: chaos.balancer.address, token, patience: SILENCE };

    let stop = AtomicBool::new(false);
    let (tell, ended) = channel();
    let clients: Vec<Client> = std::thread::scope(|scope| {
        let working: Vec<_> = (0..SESSIONS)
            .map(|number| {
                let (reach, stop, tell) = (&reach, &stop, tell.clone());
                scope.spawn(move || work(Client::new(reach, &reach.create()), number, stop, &tell))
            })
            .collect();
        // Stops the clients when the test ends for any reason.
        let _stopping = StopOnDrop(&stop);
        wait_for_turns(&ended, SESSIONS);
        for blow in random.blows() {
            eprintln!("{blow:?}");
            chaos.strike(blow, &mut random, &ended);
            while ended.try_recv().is_ok() {}
            wait_for_turns(&ended, SESSIONS + random.below(SESSIONS));
        }
        stop.store(true, Ordering::SeqCst);
        working.into_iter().map(|client| client.join().unwrap()).collect()
    });

    let (mut turns, mut interrupted) = (0, 0);
    for (number, client) in clients.iter().enumerate() {
        rest(&reach, &client.session);
        let (ended, cut_short) = chaos.check(&outside, number, client);
        turns += ended;
        interrupted += cut_short;
    }
    for node in &chaos.nodes {
        let reach = NodeClient::of(node, &reach.token);
        wait_for("each node is ready again", || reach.missing().is_none().then_some(()));
    }
    eprintln!("{turns} turns ended, {interrupted} calls were interrupted");
}
