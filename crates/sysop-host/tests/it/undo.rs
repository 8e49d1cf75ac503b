//! Tests of `undo`: it restores the previous state completely or changes nothing.

use serde_json::{Value, json};
use sysop_core::outcome::{FileChange, Outcome, Status};

use crate::world::{Factory, Setup, World, conformance_with_busybox};

conformance_with_busybox!(
    changed_files_are_restored_and_new_ones_removed,
    several_changes_of_a_file_are_one,
    a_file_changed_since_stops_the_whole_undo,
    a_deleted_file_is_restored,
    changes_that_are_not_ours_are_refused,
    a_change_that_changes_nothing_records_nothing,
    a_change_that_cannot_be_undone_says_so,
);

async fn undo(world: &World, changes: &[FileChange]) -> Outcome {
    world.call("undo", json!({ "changes": changes })).await
}

async fn change(world: &World, tool: &str, arguments: Value) -> Vec<FileChange> {
    let outcome = world.call(tool, arguments).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.output);
    outcome.changes
}

async fn changed_files_are_restored_and_new_ones_removed(factory: &impl Factory) {
    let world = factory.open(Setup { profile: sysop_core::catalog::Profile::Workspace, ..Setup::default() });
    world.put("old", "before\r\n");
    let mut changes = change(&world, "write_file", json!({ "path": "old", "content": "after\n" })).await;
    changes.extend(change(&world, "write_file", json!({ "path": "a/new", "content": "x" })).await);
    let piece = json!({ "path": "chunked", "content": "x", "index": 0, "total": 1 });
    changes.extend(change(&world, "write_file_chunk", piece).await);
    let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["old", "a/new", "chunked"]);
    assert_eq!(changes[1].before, None);
    assert_eq!(changes[0].after_hash, blake3::hash(b"after\r\n").to_hex().as_str());
    let outcome = undo(&world, &changes).await;
    assert_eq!(
        (outcome.status, outcome.output.as_str()),
        (Status::Ok, "OK, removed 2 files: a/new, chunked; restored 1 file: old")
    );
    assert_eq!(world.text("old"), "before\r\n");
    assert!(!world.at("a/new").exists() && !world.at("chunked").exists());
    assert!(!world.host.tools().iter().any(|tool| tool.name == "undo"), "the tool is not offered to models");
}

async fn several_changes_of_a_file_are_one(factory: &impl Factory) {
    let world = factory.full();
    world.put("f", "1");
    let mut changes = Vec::new();
    for (old, new) in [("1", "2"), ("2", "3"), ("3", "4")] {
        let edit = json!({ "path": "f", "old_string": old, "new_string": new });
        changes.extend(change(&world, "edit_file", edit).await);
    }
    changes.extend(change(&world, "write_file", json!({ "path": "g", "content": "x" })).await);
    changes.extend(change(&world, "write_file", json!({ "path": "g", "content": "y" })).await);
    assert_eq!(undo(&world, &changes).await.output, "OK, removed 1 file: g; restored 1 file: f");
    assert_eq!(world.text("f"), "1");
    assert!(!world.at("g").exists());
}

async fn a_file_changed_since_stops_the_whole_undo(factory: &impl Factory) {
    let world = factory.full();
    world.put("a", "a1");
    let mut changes = change(&world, "write_file", json!({ "path": "a", "content": "a2" })).await;
    changes.extend(change(&world, "write_file", json!({ "path": "b", "content": "b2" })).await);
    world.put("a", "by a person");
    let outcome = undo(&world, &changes).await;
    assert_eq!(
        (outcome.status, outcome.output.as_str()),
        (Status::Failed, "a was changed since; nothing was undone")
    );
    assert_eq!((world.text("a"), world.text("b")), ("by a person".to_owned(), "b2".to_owned()));
    std::fs::remove_file(world.at("a")).unwrap();
    assert_eq!(undo(&world, &changes).await.status, Status::Failed);
    assert!(!world.at("a").exists() && world.at("b").exists());
}

async fn a_deleted_file_is_restored(factory: &impl Factory) {
    let world = factory.open(Setup { allow_delete: true, ..Setup::default() });
    world.put("f", "x");
    let changes = change(&world, "delete_file", json!({ "path": "f" })).await;
    assert!(!world.at("f").exists());
    assert_eq!(undo(&world, &changes).await.status, Status::Ok);
    assert_eq!(world.text("f"), "x");
}

async fn changes_that_are_not_ours_are_refused(factory: &impl Factory) {
    let world = factory.full();
    world.put("f", "x");
    std::fs::write(world.home().join("secret"), "s").unwrap();
    let after_hash = blake3::hash(b"x").to_hex().to_string();
    let outside = world.outside();
    for before in ["../secret", "preimages/../../secret", "/etc/passwd", "preimages/00"] {
        let change =
            FileChange { path: "f".into(), before: Some(before.into()), after_hash: after_hash.clone() };
        assert_eq!(undo(&world, &[change]).await.status, Status::Failed, "{before}");
    }
    let secret_hash = blake3::hash(b"s").to_hex().to_string();
    let change = FileChange { path: "../secret".into(), before: None, after_hash: secret_hash };
    assert_eq!(undo(&world, &[change]).await.status, Status::Failed);
    assert_eq!(undo(&world, &[]).await.status, Status::Failed);
    assert_eq!(world.text("f"), "x");
    assert_eq!(world.outside(), outside);
}

async fn a_change_that_changes_nothing_records_nothing(factory: &impl Factory) {
    let world = factory.full();
    world.put("f", "same");
    let outcome = world.call("write_file", json!({ "path": "f", "content": "same" })).await;
    assert_eq!(outcome.status, Status::Ok);
    assert!(
        outcome.output.starts_with("OK") && outcome.output.contains("already had this content"),
        "{}",
        outcome.output
    );
    assert!(outcome.changes.is_empty());
}

async fn a_change_that_cannot_be_undone_says_so(factory: &impl Factory) {
    let world = factory.open(Setup {
        artifacts: "a-file/artefacts",
        prepare: |home| std::fs::write(home.join("a-file"), "").unwrap(),
        ..Setup::default()
    });
    world.put("f", "old");
    let outcome = world.call("write_file", json!({ "path": "f", "content": "new" })).await;
    assert_eq!(outcome.status, Status::Ok);
    assert!(outcome.output.contains("cannot undo this"), "{}", outcome.output);
    assert!(outcome.changes.is_empty());
    let large = std::fs::File::create(world.at("large")).unwrap();
    large.set_len(sysop_host::FILE_BYTES_MAX + 1).unwrap();
    let outcome = world.call("write_file", json!({ "path": "large", "content": "small" })).await;
    assert!(outcome.output.contains("too large to be saved"), "{}", outcome.output);
    assert_eq!(world.text("large"), "small");
}
