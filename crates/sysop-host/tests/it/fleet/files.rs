//! Tests of files on several hosts: each change names its host, and `undo` finds that host again.

use std::sync::Arc;

use serde_json::{Value, json};
use sysop_core::outcome::{FileChange, Outcome, Status};
use sysop_core::policy::UndoOffer;
use sysop_core::undo::NOT_EXACT;
use sysop_driver::port::Host;
use sysop_host::{Fleet, FleetSettings};

use super::{by_host, call, ends, run};
use crate::world::{Factory, Local, World};

fn fleet(worlds: &[(&str, World)]) -> Fleet {
    let hosts = worlds.iter().map(|(name, world)| ((*name).to_owned(), Arc::clone(&world.host)));
    let hosts: Vec<(String, Arc<dyn Host>)> = hosts.collect();
    Fleet::new(hosts, FleetSettings::new("/nonexistent")).unwrap()
}

fn two() -> [(&'static str, World); 2] {
    let worlds = [("web1", Local.full()), ("fe80::1", Local.full())];
    worlds[0].1.put("etc/app.conf", "one\n");
    worlds[1].1.put("etc/app.conf", "two\n");
    worlds
}

async fn write(fleet: &Fleet, content: &str) -> Outcome {
    let outcome = run(fleet, call("write_file", json!({ "path": "etc/app.conf", "content": content }))).await;
    assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
    outcome
}

async fn undo(fleet: &Fleet, changes: &[FileChange]) -> Outcome {
    run(fleet, call("undo", json!({ "changes": serde_json::to_value(changes).unwrap() }))).await
}

#[tokio::test]
async fn changes_on_several_hosts_are_undone_on_each() {
    let worlds = two();
    let fleet = fleet(&worlds);
    let changed = write(&fleet, "new\n").await;
    let paths: Vec<&str> = changed.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["web1:etc/app.conf", "fe80::1:etc/app.conf"]);
    let undone = undo(&fleet, &changed.changes).await;
    assert_eq!(undone.status, Status::Ok, "{undone:?}");
    assert_eq!(undone.output, "== web1, fe80::1 (2 hosts of 2): ok ==\nOK, restored 1 file: etc/app.conf");
    assert_eq!(
        (worlds[0].1.text("etc/app.conf"), worlds[1].1.text("etc/app.conf")),
        ("one\n".into(), "two\n".into())
    );
}

#[tokio::test]
async fn undo_skips_unchanged_hosts_and_reports_failures() {
    let worlds = two();
    let fleet = fleet(&worlds);
    let changed = write(&fleet, "new\n").await;
    let only = undo(&fleet, &changed.changes[1..]).await;
    assert_eq!(by_host(&only), ["fe80::1 ok 1"]);
    assert_eq!(worlds[0].1.text("etc/app.conf"), "new\n");

    let changed = write(&fleet, "newer\n").await;
    worlds[0].1.put("etc/app.conf", "by hand\n");
    let half = undo(&fleet, &changed.changes).await;
    assert_eq!(half.status, Status::Failed);
    assert_eq!(by_host(&half), ["web1 failed 1", "fe80::1 ok 2"]);
    assert!(half.output.contains("etc/app.conf was changed since; nothing was undone"), "{half:?}");
    assert_eq!(
        (worlds[0].1.text("etc/app.conf"), worlds[1].1.text("etc/app.conf")),
        ("by hand\n".into(), "two\n".into())
    );
}

#[tokio::test]
async fn a_change_of_an_unknown_host_is_not_undone() {
    let worlds = two();
    let fleet = fleet(&worlds);
    let mut changed = write(&fleet, "new\n").await.changes;
    changed[1].path = "db1:etc/app.conf".to_owned();
    let refused = undo(&fleet, &changed).await;
    assert_eq!(refused.output, "db1:etc/app.conf is not on a host of this session; nothing was undone");
    assert_eq!(worlds[0].1.text("etc/app.conf"), "new\n", "not even the known host changes its file");
    for wrong in [json!({}), json!({ "changes": [] }), json!({ "changes": "x" })] {
        let refused = run(&fleet, call("undo", wrong)).await;
        assert_eq!((refused.status, refused.hosts.len()), (Status::Failed, 0));
    }
}

#[tokio::test]
async fn files_are_read_on_each_host() {
    let worlds = two();
    let read = run(&fleet(&worlds), call("read_file", json!({ "path": "etc/app.conf" }))).await;
    assert_eq!(
        (read.output.as_str(), read.exit_code, read.changes.len()),
        ("== web1 (1 host of 2): ok ==\none\n== fe80::1 (1 host of 2): ok ==\ntwo", None, 0)
    );
    let hosts: Value = serde_json::to_value(&read.hosts).unwrap();
    assert_eq!(hosts[1]["host"], "fe80::1");
}

#[tokio::test]
async fn the_plan_of_an_undo_names_hosts_and_ends_with_what_is_not_exact() {
    let host = |lines: &[&str]| {
        let lines = lines.iter().map(|&line| line.to_owned()).collect();
        super::Fake { undo: UndoOffer::Offered { lines }, ..ends(Outcome::ok("")) }
    };
    let fleet = super::fleet([
        ("web1", host(&["restore /a", "not exact: /b: its content was not saved and cannot be restored"])),
        ("web2", host(&["restore /a"])),
    ]);
    let record = |host: &str| json!({ "id": "r", "host": host, "rights": "own" });
    let survey = fleet.survey(&call("undo", json!({ "records": [record("web1"), record("web2")] }))).await;
    let UndoOffer::Offered { lines } = survey.undo else { panic!("no offer") };
    let caveat = "not exact: web1: /b: its content was not saved and cannot be restored";
    assert_eq!(lines, ["web1: restore /a", "web2: restore /a", caveat]);
    // The session adds a caveat of its own unless a line begins like this.
    assert!(caveat.starts_with(NOT_EXACT));
}
