//! Undo of a command on a remote host, by the binary over a real sshd.

use std::fs;

use super::RemoteMachineRig;
use crate::support::{bash, say};

const TASK: &str = "change the file there";

#[test]
fn a_step_on_a_remote_host_is_undone_over_ssh() {
    let rig = RemoteMachineRig::with(&[(TASK, vec![bash("echo new >a; rm b; mkdir made"), say("done")])]);
    fs::write(rig.there("a"), "old\n").unwrap();
    fs::write(rig.there("b"), "gone\n").unwrap();
    let ran = rig.world.finish(&["exec", "-v", "--host", "far", "--approve", "auto", TASK]);
    assert_eq!((ran.code, rig.read_there("a").as_str()), (Some(0), "new\n"), "{ran:?}");
    assert!(ran.err.contains("; undo: exact (sysop undo "), "{ran:?}");
    let listed = rig.world.finish(&["sessions", "list"]);
    let line = listed.out.lines().rfind(|line| line.contains(TASK)).unwrap_or_else(|| panic!("{listed:?}"));
    let id = line.split_whitespace().next().unwrap();
    assert!(fs::read_dir(rig.sshd.path("undo")).unwrap().count() == 1, "the record is on the host");

    let undone = rig.world.finish(&["undo", id, "--yes"]);
    assert_eq!((undone.code, rig.read_there("a").as_str()), (Some(0), "old\n"), "{undone:?}");
    assert_eq!(rig.read_there("b"), "gone\n");
    assert!(!rig.there("made").exists());

    fs::write(rig.there("b"), "other\n").unwrap();
    let refused = rig.world.finish(&["undo", id, "1", "--yes"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("changed since the call: "), "{refused:?}");
    rig.nothing_is_left();
}
