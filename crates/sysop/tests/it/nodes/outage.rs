//! Nodes and their sessions while their database is down, and after it returns.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::world::{Client, Database, Model, Node, NodeClient, exported, token, wait_for, wait_until};
use crate::World;
use crate::pg::Server;
use crate::support::{bash, say};

/// Maximum time for a server to shut down, even without its database.
const DRAIN_MAX: Duration = Duration::from_secs(15);

#[test]
fn sessions_continue_when_their_database_is_back() {
    let outside = World::new();
    let gate = outside.home().join("gate");
    let long = format!("echo ran >> lines; until [ -e {} ]; do sleep 0.02; done", gate.display());
    let scenarios = [
        ("greet", vec![say("Good day.")]),
        ("the long job", vec![bash(&long), say("It was done.")]),
        ("and then", vec![say("That too.")]),
    ];
    let model = Model::start(&outside, &scenarios.map(|(trigger, steps)| (trigger.to_owned(), steps)));
    let server = Server::start();
    let database = Database::on(&server);
    let start = || Node::start(World::with_openai(&model.url), &database, outside.home(), &[]);
    let nodes = [start(), start()];
    let token = token(&outside, &database);
    let reaches = nodes.each_ref().map(|node| NodeClient::of(node, &token));
    let id = reaches[0].create();
    let mut clients = reaches.each_ref().map(|reach| Client::new(reach, &id));
    clients[0].turn("greet");
    assert!(reaches[1].say(&id, "messages", &json!({ "content": "the long job" })));
    let lines = outside.home().join("lines");
    wait_until("the job begins", || lines.exists());

    server.crash();
    for reach in &reaches {
        let missing = wait_for("it says what is missing", || reach.missing());
        assert!(missing.contains("database"), "{missing}");
    }
    // After the lease has expired, running calls are stopped, because another node might own the session.
    for reach in &reaches {
        wait_until("its lease is over", || {
            reach.missing().is_some_and(|missing| missing.contains("cannot renew its lease in database"))
        });
    }
    server.start_again();
    for reach in &reaches {
        wait_until("it is ready again", || reach.missing().is_none());
    }
    // Watchers are still connected on the same connections, and receive the outcome of the call.
    for client in &mut clients {
        let finished = client.until("the call is interrupted", |told| told["type"] == "tool.finished");
        assert_eq!(finished["status"], "interrupted");
    }
    std::fs::write(&gate, "").unwrap();
    wait_until("it is resumed", || reaches[0].say(&id, "resume", &json!({})));
    for client in &mut clients {
        client.until("the turn ends", |told| told["type"] == "assistant.done");
    }
    clients[1].turn("and then");
    assert_eq!(std::fs::read_to_string(lines).unwrap(), "ran\n");
    exported(&outside, &database, &id);
}

#[test]
fn a_node_without_database_reports_it_and_hides_the_password() {
    let server = Server::start();
    let database = Database::on(&server);
    let url = database.url().replace("postgres@", "postgres:open-sesame@");
    let world = World::with_openai("http://127.0.0.1:1").variable("SYSOP_DATABASE", &url);
    let mut running = world.start(&["serve", "--port", "0", "-vv"]);
    let said = running.out.wait_for("address", |said| said.contains('\n'));
    let (page, token) = crate::support::served(&said);
    let address = page.trim_start_matches("http://").trim_end_matches('/');
    let reach = NodeClient { address: address.parse().unwrap(), token, patience: crate::support::DEADLINE };
    assert_eq!(reach.missing(), None);
    let id = reach.create();
    let mut client = Client::new(&reach, &id);
    assert!(reach.say(&id, "configure", &json!({ "approve": "auto" })));
    client.until("it is followed", |_| true);
    server.crash();
    let missing = wait_for("it says that it is not ready", || reach.missing());
    assert!(missing.contains("database"), "{missing}");
    let asked = Instant::now();
    running.signal(Signal::TERM);
    assert!(running.ends_within(DRAIN_MAX), "it did not end within {DRAIN_MAX:?}");
    eprintln!("ended within {:?} without its database", asked.elapsed());
    let run = running.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!run.err.contains("open-sesame") && !missing.contains("open-sesame"), "{missing}\n{}", run.err);
    let shown = world.finish(&["config", "show"]);
    assert!(shown.out.contains("database = [set]") && !shown.out.contains("open-sesame"), "{shown:?}");
    for bad in ["mysql://root:open-sesame@db/sysop", "postgres://u:open-sesame@:x/y", "open-sesame"] {
        let run = world.finish(&["sessions", "list", "--database", bad]);
        assert!(run.code != Some(0) && !run.err.contains("open-sesame"), "{bad}: {run:?}");
        assert!(run.err.contains("postgres://USER:PASSWORD@HOST:PORT/DATABASE"), "{bad}: {run:?}");
    }
}

#[test]
fn an_unusable_database_is_reported_in_one_sentence() {
    let server = Server::start();
    let good = Database::on(&server);
    let world = World::with_openai("http://127.0.0.1:1");
    let nobody = "postgres://postgres:open-sesame@127.0.0.1:1/sysop";
    for (url, about) in
        [(nobody.to_owned(), "cannot reach"), (good.url().replace("test_", "nowhere_"), "does not exist")]
    {
        let run = world.finish(&["serve", "--port", "0", "--database", &url]);
        assert!(run.code.is_some_and(|code| code != 0), "{run:?}");
        assert!(run.err.contains(about) && run.err.matches("error: ").count() == 1, "{run:?}");
        assert!(!run.err.contains("open-sesame"), "{run:?}");
    }
}
