//! Tests that file tools cannot leave the root: by `..`, links, names or races.
//!
//! The cases come from published escapes of agents and file servers (CVE-2025-54794, CVE-2025-53109, CVE-2025-53110,
//! CVE-2025-54135, CVE-2026-25724, CVE-2026-27545, CVE-2026-34452 among them).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use sysop_core::catalog::Profile;
use sysop_core::outcome::Status;

use crate::world::{DEADLINE, Factory, Setup, World, conformance};

conformance!(
    no_path_leads_outside_of_the_root,
    the_target_of_a_dangling_link_is_not_created,
    a_cycle_of_links_is_an_error,
    links_inside_are_followed,
    unusual_names_are_accepted,
    a_root_behind_a_link_is_a_root,
    a_search_does_not_follow_links,
    swapping_a_link_at_any_moment_leads_nowhere,
);

const SECRET: &str = "the-secret";

/// Prepares `outside/` next to the root, with a file, a directory and a sibling whose name starts with the name of the
/// root.
fn trap(factory: &impl Factory, profile: Profile) -> World {
    let world = factory.open(Setup {
        profile,
        allow_delete: true,
        prepare: |home| {
            for folder in ["outside/folder", "root-evil"] {
                fs::create_dir_all(home.join(folder)).unwrap();
                fs::write(home.join(folder).join("secret"), SECRET).unwrap();
            }
            fs::write(home.join("outside/secret"), SECRET).unwrap();
        },
        ..Setup::default()
    });
    let outside = world.home().join("outside");
    world.put("a/inside", "inside");
    for (link, target) in [
        ("file-link", Path::new("../outside/secret")),
        ("folder-link", Path::new("../outside/folder")),
        ("up", Path::new("..")),
        ("a/up-up", Path::new("../..")),
        ("by-link", Path::new("up/outside")),
        ("absolute-file", &outside.join("secret")),
        ("absolute-folder", &outside),
        ("system", Path::new("/etc")),
        ("proc-root", Path::new("/proc/self/root")),
        ("proc-cwd", Path::new("/proc/self/cwd")),
    ] {
        symlink(target, world.at(link)).unwrap();
    }
    world
}

/// Returns paths that lead to a file outside of the root.
fn ways_out(world: &World) -> Vec<String> {
    let home = world.home().display().to_string();
    let relative = [
        "../outside/secret",
        "./../outside/secret",
        "a/../../outside/secret",
        "a/.././../outside//secret",
        "../root/../outside/secret",
        "../root-evil/secret",
        "file-link",
        "folder-link/secret",
        "folder-link/../secret",
        "up/outside/secret",
        "a/up-up/outside/secret",
        "by-link/secret",
        "absolute-file",
        "absolute-folder/secret",
        "absolute-folder/folder/../secret",
    ];
    let absolute = [
        format!("{home}/outside/secret"),
        format!("{home}/root/../outside/secret"),
        format!("{home}/root-evil/secret"),
        format!("//{home}/outside/secret"),
        format!("/proc/self/root{home}/outside/secret"),
        format!("proc-root{home}/outside/secret"),
        format!("proc-root{home}/root/a/inside"),
        format!("{home}/root/folder-link/secret"),
        "proc-cwd/Cargo.toml".to_owned(),
        "system/hostname".to_owned(),
        "/etc/hostname".to_owned(),
    ];
    relative.into_iter().map(str::to_owned).chain(absolute).collect()
}

async fn no_path_leads_outside_of_the_root(factory: &impl Factory) {
    for profile in [Profile::Workspace, Profile::Full] {
        let world = trap(factory, profile);
        let before = world.outside();
        for path in ways_out(&world) {
            for (tool, arguments) in calls_with(&path) {
                if !world.offers(tool) {
                    continue;
                }
                let outcome = world.call(tool, arguments.clone()).await;
                assert_eq!(outcome.status, Status::Failed, "{tool} {arguments}: {}", outcome.output);
                assert!(!outcome.output.contains(SECRET), "{tool} {arguments}");
                assert!(
                    outcome.output.contains("outside the root"),
                    "{tool} {arguments}: {}",
                    outcome.output
                );
            }
        }
        assert_eq!(world.outside(), before);
    }
}

/// Returns all kinds of tool calls on a file outside.
fn calls_with(path: &str) -> Vec<(&'static str, Value)> {
    let folder = Path::new(path).parent().unwrap().to_str().unwrap();
    let mut calls = vec![
        ("read_file", json!({ "path": path })),
        ("read_file", json!({ "path": path, "start_line": 1 })),
        ("cat", json!({ "path": path })),
        ("write_file", json!({ "path": path, "content": "x" })),
        ("write_file_chunk", json!({ "path": path, "content": "x", "index": 0, "total": 1 })),
        ("edit_file", json!({ "path": path, "old_string": "secret", "new_string": "x" })),
        ("delete_file", json!({ "path": path })),
    ];
    // A link in the root itself may be read, and files next to it may be created.
    if !folder.is_empty() && !path.ends_with("root/a/inside") {
        calls.extend([
            ("write_file", json!({ "path": format!("{path}-new"), "content": "x" })),
            ("write_file", json!({ "path": format!("{path}-new/deep/er"), "content": "x" })),
            ("mkdir", json!({ "path": format!("{path}-folder") })),
            ("ls", json!({ "path": folder })),
            ("stat", json!({ "path": path })),
            ("find_files", json!({ "pattern": "*", "path": folder })),
        ]);
    }
    calls
}

async fn the_target_of_a_dangling_link_is_not_created(factory: &impl Factory) {
    let world = trap(factory, Profile::Workspace);
    let before = world.outside();
    symlink("../outside/new", world.at("dangling")).unwrap();
    symlink(world.home().join("outside/new"), world.at("dangling-absolute")).unwrap();
    symlink("not-there", world.at("dangling-inside")).unwrap();
    symlink("../outside/new-folder", world.at("dangling-folder")).unwrap();
    for path in ["dangling", "dangling-absolute", "dangling-inside", "dangling-folder/x"] {
        for arguments in [json!({ "path": path, "content": "x" }), json!({ "path": path })] {
            let tool = if arguments.get("content").is_some() { "write_file" } else { "mkdir" };
            let outcome = world.call(tool, arguments).await;
            assert_eq!(outcome.status, Status::Failed, "{tool} {path}: {}", outcome.output);
        }
    }
    assert_eq!(world.outside(), before);
    assert!(!world.at("not-there").exists());
}

async fn a_cycle_of_links_is_an_error(factory: &impl Factory) {
    let world = trap(factory, Profile::Workspace);
    symlink("ring-b", world.at("ring-a")).unwrap();
    symlink("ring-a", world.at("ring-b")).unwrap();
    for (tool, arguments) in [
        ("read_file", json!({ "path": "ring-a" })),
        ("write_file", json!({ "path": "ring-a", "content": "x" })),
        ("ls", json!({ "path": "ring-a" })),
        ("mkdir", json!({ "path": "ring-a/x" })),
    ] {
        let outcome = world.call(tool, arguments).await;
        assert_eq!(outcome.status, Status::Failed, "{tool}");
        assert!(outcome.output.contains("too many levels of symbolic links"), "{tool}: {}", outcome.output);
    }
}

async fn links_inside_are_followed(factory: &impl Factory) {
    let world = trap(factory, Profile::Workspace);
    symlink("a", world.at("inner")).unwrap();
    symlink("a/inside", world.at("inner-file")).unwrap();
    symlink("../inner/inside", world.at("a/back")).unwrap();
    for path in ["inner/inside", "inner-file", "a/back", "a/../inner/./inside"] {
        assert_eq!(world.call("read_file", json!({ "path": path })).await.output, "inside", "{path}");
    }
    let outcome = world.call("write_file", json!({ "path": "inner/new", "content": "x" })).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.output);
    assert_eq!(world.text("a/new"), "x");
}

async fn unusual_names_are_accepted(factory: &impl Factory) {
    let world = trap(factory, Profile::Workspace);
    let before = world.outside();
    for name in [
        "-rf", "a\nb", "\u{1b}[31m", "..x", "x..", "~", "$HOME", "A", "\u{e9}", "e\u{301}", "a\\b", "C:\\x",
        "\\\\?\\x",
    ] {
        let outcome = world.call("write_file", json!({ "path": name, "content": name })).await;
        assert_eq!(outcome.status, Status::Ok, "{name:?}: {}", outcome.output);
        assert_eq!(world.text(name), name);
        let outcome = world.call("read_file", json!({ "path": format!("{name}/x") })).await;
        assert!(!outcome.output.contains('\n') && !outcome.output.contains('\u{1b}'), "{:?}", outcome.output);
    }
    assert!(!world.at("a/A").exists(), "the file system is case-sensitive");
    assert_eq!(world.outside(), before);
}

async fn a_root_behind_a_link_is_a_root(factory: &impl Factory) {
    let world = factory.open(Setup {
        root: "link",
        prepare: |home| symlink("root", home.join("link")).unwrap(),
        ..Setup::default()
    });
    fs::write(world.home().join("root/f"), "x").unwrap();
    for root in ["link", "root"] {
        let path = world.home().join(root).join("f");
        assert_eq!(world.call("read_file", json!({ "path": path })).await.output, "x", "{root}");
    }
    // The root is opened once, so the link's new target does not matter.
    fs::create_dir(world.home().join("other")).unwrap();
    fs::write(world.home().join("other/f"), SECRET).unwrap();
    fs::remove_file(world.home().join("link")).unwrap();
    symlink("other", world.home().join("link")).unwrap();
    assert_eq!(world.call("read_file", json!({ "path": "f" })).await.output, "x");
}

async fn a_search_does_not_follow_links(factory: &impl Factory) {
    let world = trap(factory, Profile::Workspace);
    let outcome = world.call("find_files", json!({ "pattern": "**" })).await;
    for line in outcome.output.lines() {
        assert!(world.at(line).is_symlink() || line == "a/inside", "{line}");
    }
    let outcome = world.call("find_files", json!({ "pattern": "secret" })).await;
    assert_eq!(outcome.output, "[no matching files]");
    // Ignore rules are not read from outside either.
    fs::write(world.home().join("outside/rules"), "inside\n").unwrap();
    symlink("../outside/rules", world.at(".gitignore")).unwrap();
    let outcome = world.call("find_files", json!({ "pattern": "inside" })).await;
    assert_eq!(outcome.output, "a/inside\n");
}

/// Minimum swaps of directory and link while the tools run.
const SWAPS_MIN: usize = 100_000;
/// Minimum number of calls that succeed, and of calls that are refused.
const CALLS_MIN: usize = 10;

async fn swapping_a_link_at_any_moment_leads_nowhere(factory: &impl Factory) {
    for profile in [Profile::Workspace, Profile::Full] {
        let world = trap(factory, profile);
        // Both lead to files with the same names; only one of them is inside.
        world.put("swapped/secret", "inside");
        world.put("swapped/sub/secret", "inside");
        fs::create_dir(world.home().join("outside/folder/sub")).unwrap();
        fs::write(world.home().join("outside/folder/sub/secret"), SECRET).unwrap();
        let before = world.outside();
        let (folder, link) = (world.at("swapped"), world.at("folder-link"));
        let (swaps, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, stop) = (Arc::clone(&swaps), Arc::clone(&enough));
        let swapping = tokio::task::spawn_blocking(move || {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (mut rounds, mut done, mut refused) = (0, 0, 0);
        let started = Instant::now();
        while swaps.load(Ordering::Relaxed) < SWAPS_MIN || done <= CALLS_MIN || refused <= CALLS_MIN {
            assert!(started.elapsed() < DEADLINE, "{done} done and {refused} refused in {rounds} rounds");
            rounds += 1;
            for (tool, arguments) in swap_calls(rounds) {
                if !world.offers(tool) {
                    continue;
                }
                let outcome = world.call(tool, arguments).await;
                assert!(!outcome.output.contains(SECRET), "{tool}: {}", outcome.output);
                done += usize::from(outcome.status == Status::Ok);
                refused += usize::from(outcome.output.contains("outside the root"));
            }
        }
        enough.store(true, Ordering::Relaxed);
        swapping.await.unwrap();
        assert_eq!(world.outside(), before);
        assert!(!kept(&world).contains(SECRET), "the secret was stored for undo");
    }
}

/// Returns the contents of all pre-images.
fn kept(world: &World) -> String {
    let preimages = fs::read_dir(world.home().join("artefacts/preimages")).unwrap();
    preimages
        .map(|entry| String::from_utf8_lossy(&fs::read(entry.unwrap().path()).unwrap()).into_owned())
        .collect()
}

fn swap_calls(round: usize) -> Vec<(&'static str, Value)> {
    let numbered = |text: &str| format!("{text}-{round}");
    vec![
        ("read_file", json!({ "path": "swapped/secret" })),
        ("cat", json!({ "path": "swapped/sub/secret" })),
        ("write_file", json!({ "path": "swapped/secret", "content": numbered("inside") })),
        ("edit_file", json!({ "path": "swapped/secret", "old_string": "s", "new_string": "S" })),
        ("write_file", json!({ "path": numbered("swapped/new"), "content": "x" })),
        ("write_file", json!({ "path": numbered("swapped/sub/deep") + "/er", "content": "x" })),
        ("mkdir", json!({ "path": numbered("swapped/sub/folder") })),
        ("ls", json!({ "path": "swapped/sub" })),
        ("delete_file", json!({ "path": numbered("swapped/new") })),
        ("delete_file", json!({ "path": "swapped/sub/secret" })),
        ("write_file", json!({ "path": "swapped/sub/secret", "content": "inside" })),
        ("find_files", json!({ "pattern": "*", "path": "swapped" })),
    ]
}
