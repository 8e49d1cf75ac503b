//! Tests of the workspace profile besides git, and of the list of offered tools.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use sysop_core::catalog::{Profile, tools};
use sysop_core::outcome::Status;

use crate::world::{Factory, Setup, World, conformance_with_busybox};

conformance_with_busybox!(
    a_host_offers_its_profile_and_runs_nothing_else,
    a_chunked_file_appears_whole_or_not_at_all,
    chunks_out_of_order_are_refused,
    cat_shows_a_whole_file,
    stat_describes_files_and_directories,
    mkdir_creates_parents_and_accepts_an_existing_directory,
    nothing_deletes_unless_it_is_allowed,
);

fn names(world: &World) -> Vec<String> {
    world.host.tools().iter().map(|tool| tool.name.clone()).collect()
}

async fn a_host_offers_its_profile_and_runs_nothing_else(factory: &impl Factory) {
    for profile in [Profile::Coder, Profile::Workspace, Profile::Full] {
        let world = factory.open(Setup { profile, ..Setup::default() });
        assert_eq!(world.host.tools(), tools(profile), "{profile}");
    }
    let world = factory.workspace();
    let outcome = world.call("bash", json!({ "command": "echo > ran" })).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.output.starts_with("unknown tool bash; available: read_file, "), "{}", outcome.output);
    assert!(!world.at("ran").exists());
}

async fn piece(world: &World, content: &str, index: u64, total: u64) -> (Status, String) {
    let arguments = json!({ "path": "out/f", "content": content, "index": index, "total": total });
    let outcome = world.call("write_file_chunk", arguments).await;
    (outcome.status, outcome.output)
}

async fn a_chunked_file_appears_whole_or_not_at_all(factory: &impl Factory) {
    let world = factory.workspace();
    assert!(piece(&world, "one\n", 0, 3).await.1.starts_with("OK, 1 of 3 pieces"));
    assert!(piece(&world, "two\n", 1, 3).await.1.starts_with("OK, 2 of 3 pieces"));
    assert!(!world.at("out").exists(), "neither a partial file nor its directory exists");
    assert_eq!(piece(&world, "three\n", 2, 3).await, (Status::Ok, "OK, 14 bytes written".to_owned()));
    assert_eq!(world.text("out/f"), "one\ntwo\nthree\n");
    piece(&world, "half", 0, 2).await;
    assert_eq!(world.text("out/f"), "one\ntwo\nthree\n", "the old file stays until the new one is complete");
}

async fn chunks_out_of_order_are_refused(factory: &impl Factory) {
    let world = factory.workspace();
    assert_eq!(piece(&world, "b", 1, 2).await.0, Status::Failed);
    piece(&world, "a", 0, 3).await;
    let (status, why) = piece(&world, "c", 2, 3).await;
    assert_eq!(
        (status, why.as_str()),
        (Status::Failed, "out/f: expected piece 1, got 2; send piece 0 to start again")
    );
    assert_eq!(piece(&world, "x", 3, 3).await.0, Status::Failed);
    assert!(!world.at("out/f").exists());
    let again = json!({ "path": world.at("out/f"), "content": "A", "index": 0, "total": 1 });
    assert_eq!(
        world.call("write_file_chunk", again).await.status,
        Status::Ok,
        "both names mean the same file"
    );
    assert_eq!(world.text("out/f"), "A");
    assert_eq!(piece(&world, "b", 1, 3).await.0, Status::Failed, "the oldest unfinished file is dropped");
}

async fn cat_shows_a_whole_file(factory: &impl Factory) {
    let world = factory.workspace();
    world.put("f", "a\nb\n");
    assert_eq!(world.call("cat", json!({ "path": "f" })).await.output, "a\nb\n");
    assert_eq!(world.call("cat", json!({ "path": "g" })).await.status, Status::Failed);
}

async fn stat_describes_files_and_directories(factory: &impl Factory) {
    let world = factory.workspace();
    world.put("f", "12345");
    std::fs::set_permissions(world.at("f"), std::fs::Permissions::from_mode(0o640)).unwrap();
    let second = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    std::fs::File::options().write(true).open(world.at("f")).unwrap().set_modified(second).unwrap();
    let told = world.call("stat", json!({ "path": "f" })).await.output;
    assert!(told.starts_with("file\nsize: 5 bytes\nmode: 0640\nowner: "), "{told}");
    assert!(told.ends_with("\nmodified: 2001-09-09T01:46:40Z"), "{told}");
    std::os::unix::fs::symlink("/etc/passwd", world.at("link")).unwrap();
    let told = world.call("stat", json!({ "path": "link" })).await.output;
    assert!(told.starts_with("link to /etc/passwd\n"), "{told}");
    assert!(world.call("stat", json!({ "path": "." })).await.output.starts_with("folder\n"));
    assert_eq!(world.call("stat", json!({ "path": "none" })).await.output, "none does not exist");
}

async fn mkdir_creates_parents_and_accepts_an_existing_directory(factory: &impl Factory) {
    let world = factory.workspace();
    for _ in 0..2 {
        let outcome = world.call("mkdir", json!({ "path": "a/b/c" })).await;
        assert_eq!((outcome.status, outcome.output.as_str()), (Status::Ok, "OK"));
    }
    assert!(world.at("a/b/c").is_dir());
    world.put("f", "");
    let outcome = world.call("mkdir", json!({ "path": "f" })).await;
    assert_eq!(outcome.status, Status::Failed, "{}", outcome.output);
    assert!(world.at("f").is_file());
}

async fn nothing_deletes_unless_it_is_allowed(factory: &impl Factory) {
    let world = factory.workspace();
    world.put("f", "x");
    assert!(!names(&world).contains(&"delete_file".to_owned()));
    assert_eq!(world.call("delete_file", json!({ "path": "f" })).await.status, Status::Failed);
    assert_eq!(world.text("f"), "x");

    let world = factory.open(Setup { allow_delete: true, ..Setup::default() });
    world.put("f", "x");
    std::os::unix::fs::symlink("f", world.at("link")).unwrap();
    assert!(names(&world).contains(&"delete_file".to_owned()));
    for path in ["link", ".", "none"] {
        assert_eq!(world.call("delete_file", json!({ "path": path })).await.status, Status::Failed, "{path}");
    }
    assert_eq!(world.text("f"), "x");
    assert_eq!(world.call("delete_file", json!({ "path": "f" })).await.output, "OK, deleted");
    assert!(!world.at("f").exists());
}
