//! Another user of the same machine cannot access any stored data.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::ServeProcess;
use crate::World;
use crate::support::{Mock, bash, say};

/// User id of `nobody` on every Linux distribution that we know.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Files, directories and sockets below a directory.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            all.extend(all_below(&entry.path()));
        } else {
            all.push(entry.path());
        }
    }
    all
}

/// Returns true if another user can access the file, or enter the directory or socket.
fn nobody_gets_at(path: &Path) -> bool {
    let look = "test -r \"$0\" || test -w \"$0\" || test -x \"$0\"";
    let mut command = Command::new("sh");
    command.args(["-c", look]).arg(path).current_dir("/").stderr(Stdio::null());
    command.uid(NOBODY).gid(NOBODY);
    command.status().unwrap().success()
}

/// Checks that others have no access to these paths: by their modes, and if we are root, also as another user.
pub(crate) fn is_private(paths: &[PathBuf]) {
    for path in paths {
        let found = fs::symlink_metadata(path).unwrap();
        if !found.file_type().is_socket() {
            assert_eq!(found.permissions().mode() & 0o077, 0, "{}", path.display());
        }
        assert!(!is_root() || !nobody_gets_at(path), "{}", path.display());
    }
}

/// Makes the home directory readable for others, as is common; its contents must then have modes of their own.
pub(crate) fn open_home(world: &World) {
    for folder in [world.home().to_owned(), world.work()] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let open = world.work().join("open");
    fs::write(&open, "").unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(!is_root() || nobody_gets_at(&open), "the search finds an open file");
}

#[test]
fn data_files_are_readable_by_their_owner_only() {
    let mock = Mock::start(&[("much", vec![bash("seq 100000"), say("Done.")])]);
    let world = World::with_openai(&mock.url());
    open_home(&world);
    let served = ServeProcess::start(&world, &["--approve", "auto"]);
    let session = served.session();
    served.call("POST", &format!("{session}/messages"), &json!({ "content": "much" }));
    served.follow(&session, "assistant.done");
    let made = world.finish(&["token", "create", "--name", "n", "--scope", "read"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let kept = all_below(&world.data());
    for name in ["sysop.db", "sysop.db-wal", "audit.jsonl", "artefacts"] {
        assert!(kept.iter().any(|path| path.ends_with(name)), "{name} is not in {kept:?}");
    }
    is_private(&kept);
}

#[test]
fn errors_do_not_reveal_server_paths() {
    let world = World::new().variable("SYSOP_MODEL", "demo");
    let served = ServeProcess::start(&world, &[]);
    let session = served.session();
    let data = world.data();
    let told = |method: &str, path: &str, status: u16| {
        let kind = "content-type: application/json";
        let body = if method == "GET" { "" } else { "{}" };
        let answer = served.ask(method, path, &[&served.bearer(), kind], body);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(!answer.body.contains(data.to_str().unwrap()), "{path}: {answer:?}");
        answer.body
    };
    assert!(told("GET", &format!("{session}/artefacts/none.txt"), 422).contains("none.txt"));
    fs::create_dir(data.join("sysop.db.v1.bak")).unwrap(); // blocks the path of a backup
    assert!(told("DELETE", &session, 500).contains("the backup sysop.db.v1.bak"));
    let log = served.running.kill().err;
    assert!(log.contains(data.to_str().unwrap()), "the operator is warned: {log}");
}

#[test]
fn a_key_readable_by_others_causes_a_warning() {
    let world = World::new().variable("SYSOP_MODEL", "demo");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (world.home().join("cert.pem"), world.home().join("key.pem"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    for (mode, warned) in [(0o600, false), (0o640, false), (0o644, true)] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
        let served = ServeProcess::start(&world, &["--tls-cert", cert, "--tls-key", key]);
        served.running.signal(rustix::process::Signal::TERM);
        let run = served.running.finish();
        assert_eq!(run.err.contains("other users of this machine can read"), warned, "{mode:o}: {run:?}");
    }
}
