//! Errors of a user who cannot log in: one sentence that says what to do next.

use std::fs;

use super::{RemoteMachineRig, outcomes, results, text};
use crate::Run;
use crate::support::{bash, say};

/// Runs a routine on the host, the shortest way to a connection.
fn routine(far: &RemoteMachineRig, host: &str) -> Run {
    far.world.finish(&["run", "--host", host, "--approve", "auto", "look"])
}

fn far() -> RemoteMachineRig {
    let mut far = RemoteMachineRig::with(&[]);
    let path = ".config/sysop/config.toml";
    let config = fs::read_to_string(far.world.home().join(path)).unwrap();
    far.world = far.world.file(path, &format!("{config}[routines.look]\ncmd = 'echo seen'\n"));
    far
}

/// The only line with the reason of the failure.
fn sentence(run: &Run) -> &str {
    // Call, duration, and reason.
    let lines: Vec<&str> = run.err.lines().collect();
    assert_eq!((&lines[0][..7], &lines[1][..8]), ("[Tool: ", "  failed"), "{run:?}");
    assert!(
        lines[2].starts_with("error: ") && lines[3..].iter().all(|line| line.starts_with("hint: ")),
        "{run:?}"
    );
    &run.err[run.err.find("error: ").unwrap()..]
}

#[test]
fn a_successful_login_prints_nothing() {
    let run = routine(&far(), "far");
    assert_eq!((run.code, run.out.as_str()), (Some(0), "seen\n"), "{run:?}");
}

#[test]
fn each_ssh_failure_is_distinguished() {
    let far = far();
    far.sshd.configure(&format!(
        "Host nowhere\n  HostName nowhere.invalid\nHost closed\n  HostName 127.0.0.1\n  Port 1\n\
         Host other\n  HostName 127.0.0.1\n  Port {0}\n  IdentityFile {1}\n  IdentitiesOnly yes\n\
         Host changed\n  HostName 127.0.0.1\n  Port {0}\n  UserKnownHostsFile {2}\n\
         Host new\n  HostName 127.0.0.1\n  Port {0}\n  UserKnownHostsFile /dev/null\n",
        far.sshd.port(),
        text(&far.sshd.path("other")),
        text(&far.sshd.path("changed_hosts")),
    ));
    let other = fs::read_to_string(far.sshd.path("other.pub")).unwrap();
    fs::write(far.sshd.path("changed_hosts"), format!("[127.0.0.1]:{} {other}", far.sshd.port())).unwrap();
    // ssh accumulates `IdentityFile` entries; the right key must not apply to `other`.
    let config = fs::read_to_string(far.sshd.path("ssh_config")).unwrap();
    let config = config.replace("Host *\n", "Host * !other\n");
    let known = text(&far.sshd.path("known_hosts"));
    let rest = format!("Host *\n  IdentityAgent none\n  UserKnownHostsFile {known}\n");
    fs::write(far.sshd.path("ssh_config"), format!("{config}{rest}")).unwrap();
    for (host, expected) in [
        ("closed", "closed: connection refused (port 1)\nhint: check the port, and that sshd is running"),
        ("other", "other: all keys and passwords were rejected\nhint: try `ssh other`"),
        ("changed", "the host key of changed has CHANGED: the connection may be intercepted"),
    ] {
        let run = routine(&far, host);
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{host}: {run:?}");
        assert!(sentence(&run).contains(expected), "{host}: {run:?}");
    }
    let run = routine(&far, "nowhere");
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
    assert!(run.err.contains("unknown host nowhere.invalid"), "{run:?}");
    // A user might confirm the key, but nobody can be asked.
    let run = routine(&far, "new");
    assert_eq!((run.code, run.out.as_str(), run.err.lines().count()), (Some(3), "", 2), "{run:?}");
    let asked = "error: ssh new asks `The authenticity of host";
    let why = "there is no terminal to ask on";
    assert!(run.err.contains(asked) && run.err.contains(why), "{run:?}");
    let next = "hint: run `ssh new` once, compare the fingerprint and accept it\n";
    assert!(run.err.ends_with(next), "{run:?}");
    far.nothing_is_left();
}

#[test]
fn an_overlong_socket_path_does_not_prevent_connecting() {
    let mut far = far();
    let home = far.world.home().join("a-home-with-quite-a-long-name-".repeat(5));
    fs::create_dir(&home).unwrap();
    // Only the home's path changes, and with it the path of the sockets.
    far.world = far.world.variable("XDG_CACHE_HOME", &text(&home.join(".cache")));
    let run = routine(&far, "far");
    assert_eq!((run.code, run.out.as_str()), (Some(0), "seen\n"), "{run:?}");
    far.nothing_is_left();
    assert!(crate::support::files_below(&home).is_empty());
}

#[test]
fn the_model_gets_the_reason_that_nothing_runs() {
    let far = RemoteMachineRig::with(&[("look", vec![bash("echo seen"), say("It is closed.")])]);
    far.sshd.configure("Host closed\n  HostName 127.0.0.1\n  Port 1\n");
    let run = far.world.finish(&["exec", "--host", "closed", "--approve", "auto", "look"]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), "It is closed.\n"), "{run:?}");
    let told = results(&far.mock.last_body());
    assert!(told[0].contains("closed: connection refused (port 1); check the port"), "{told:?}");
    assert_eq!(outcomes(&far.log())[0]["status"], "failed");
}

#[test]
fn a_host_that_ssh_would_misinterpret_is_rejected() {
    let far = far();
    for host in ["-oProxyCommand=touch made", "a b", "", "far,,far"] {
        let run = far.world.finish(&["run", &format!("--host={host}"), "look"]);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{host:?}: {run:?}");
        assert!(run.err.lines().next().is_some_and(|line| line.contains("host")), "{host:?}: {run:?}");
    }
    assert!(!far.world.has("made"));
}
