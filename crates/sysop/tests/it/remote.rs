//! The binary against a real sshd: work on a remote host as a user sees it.

mod approvals;
mod broken;
mod errors;
mod fleet;
mod instructions;
mod models;
mod pickers;
mod repl;
mod rolling;
mod runbook;
mod secrets;
mod tools;
mod undo;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::World;
use crate::sshd::{Login, Sshd};
use crate::support::{DEADLINE, Mock, files_below, processes_with, wait_until_gone};

/// Maximum time for a process's children and connections to disappear after its end.
const GONE_MAX: Duration = Duration::from_secs(10);

/// A host that ssh reaches as `far`, a model, and the home of the local user.
struct RemoteMachineRig {
    sshd: Sshd,
    mock: Mock,
    world: World,
}

impl RemoteMachineRig {
    /// Creates the rig; the scenarios are triggers and responses.
    fn with(scenarios: &[(&str, Vec<Value>)]) -> Self {
        Self::with_sshd("", scenarios)
    }

    /// Creates the rig with more lines in the config of sshd.
    fn with_sshd(lines: &str, scenarios: &[(&str, Vec<Value>)]) -> Self {
        let sshd = quiet(Sshd::with(Login::Own, lines));
        let mock = Mock::start(scenarios);
        let config = format!("[hosts.far]\nhost = 'far'\nroot = '{}'\n", text(&sshd.path("home")));
        let world = World::with_openai(&mock.url())
            .variable("SYSOP_SSH_CONFIG", &text(&sshd.path("ssh_config")))
            .file(".config/sysop/config.toml", &config);
        Self { sshd, mock, world }
    }

    /// Uses the model in `mock`.
    fn with_model(mut self) -> Self {
        let url = format!("{}/v1", self.mock.url());
        self.world = self.world.variable("SYSOP_PROVIDERS__OPENAI__BASE_URL", &url);
        self
    }

    /// Path in the home on the remote host.
    fn there(&self, name: &str) -> std::path::PathBuf {
        self.sshd.path("home").join(name)
    }

    fn read_there(&self, name: &str) -> String {
        let path = self.there(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Path of the ssh config, which is on the command line of every `ssh` that sysop starts.
    fn mark(&self) -> String {
        text(&self.sshd.path("ssh_config"))
    }

    /// Checks that every `ssh` of this rig and its connections have ended.
    fn nothing_runs(&self) {
        wait_until_gone(&self.mark(), GONE_MAX);
        let until = Instant::now() + GONE_MAX;
        while !self.sshd.connections().is_empty() {
            assert!(Instant::now() < until, "connections are left");
            std::thread::yield_now();
        }
    }

    /// Checks that every `ssh` of this rig and its connections have ended, and that sysop has removed its sockets.
    fn nothing_is_left(&self) {
        self.nothing_runs();
        assert_eq!(self.sockets(), Vec::<String>::new());
    }

    /// Sockets of connections and of password prompts.
    fn sockets(&self) -> Vec<String> {
        let folder = fs::read_dir(self.world.home().join(".cache/sysop/ssh")).into_iter().flatten();
        folder.map(|entry| entry.unwrap().file_name().display().to_string()).collect()
    }

    /// Waits until a file exists on the remote host.
    fn wait_for(&self, name: &str) {
        let until = Instant::now() + DEADLINE;
        while !self.there(name).exists() {
            assert!(Instant::now() < until, "{name} never appeared");
            std::thread::yield_now();
        }
    }

    /// Exported log of the only session.
    fn log(&self) -> Vec<Value> {
        self.world.exported(&self.world.only_session())
    }
}

/// Adds hosts to a world, each with its home as the root. Without a root, commands would run in the real home of the
/// login user.
fn with_hosts<'a>(world: World, tag: &str, hosts: impl Iterator<Item = (String, &'a Sshd)>) -> World {
    let mut ssh = "Host down\n  HostName 127.0.0.1\n  Port 1\n".to_owned();
    let mut config = String::new();
    for (name, machine) in hosts {
        ssh.push_str(&format!(
            "Host {name}\n  HostName 127.0.0.1\n  Port {}\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             IdentityAgent none\n  UserKnownHostsFile {}\n",
            machine.port(),
            text(&machine.path("user")),
            text(&machine.path("known_hosts")),
        ));
        let root = text(&machine.path("home"));
        config.push_str(&format!("[hosts.{name}]\nhost = '{name}'\nroot = '{root}'\ntags = ['{tag}']\n"));
    }
    let world = world.file("hosts.ssh", &ssh).file(".config/sysop/config.toml", &config);
    let path = text(&world.home().join("hosts.ssh"));
    world.variable("SYSOP_SSH_CONFIG", &path)
}

/// Makes the shell print a message at startup, which must not matter.
fn quiet(sshd: Sshd) -> Sshd {
    fs::write(sshd.path("home").join(".bashrc"), "echo 'Welcome to bash!'\n").unwrap();
    sshd
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Outcomes of the calls in the log.
fn outcomes(log: &[Value]) -> Vec<&Value> {
    let events = log.iter().map(|logged| &logged["event"]);
    events.filter(|event| event["type"] == "tool_finished").map(|event| &event["outcome"]).collect()
}

/// All call results sent to the model, in order.
fn results(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap().iter();
    let results = messages.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Files below a directory that contain the text anywhere.
fn files_with(folder: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let holds = |path: &std::path::PathBuf| {
        // A file removed during the listing contains nothing.
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    files_below(folder).into_iter().filter(holds).collect()
}

/// Processes with the text in their command line or environment.
fn processes_given(text: &str) -> Vec<String> {
    let mut found = processes_with(text);
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(format!("the environment of {}", entry.file_name().display()));
        }
    }
    found
}

/// Sets a passphrase on the key for a host.
fn with_passphrase(sshd: &Sshd, passphrase: &str) {
    let changed = Command::new("ssh-keygen")
        .args(["-q", "-p", "-P", "", "-N", passphrase, "-f"])
        .arg(sshd.path("user"))
        .stdout(Stdio::null())
        .status();
    assert!(changed.unwrap().success());
}

#[test]
fn guards_of_a_host_are_listed_and_decided_by_hand() {
    let rig = RemoteMachineRig::with(&[]);
    let file = rig.there("kept");
    fs::write(&file, "old").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../sysop-host/src/ssh/guard/guard.sh");
    let arm = |id: &str| {
        let armed = std::process::Command::new("sh")
            .args(["-c", r#"S=$(cat "$0"); eval "$S""#, script, "arm", id, "60"])
            .arg(rustix::process::geteuid().as_raw().to_string())
            .args(["", "", "", &text(&file)])
            .env("SYSOP_GUARD_DIR", rig.sshd.path("guards"))
            .output()
            .unwrap();
        assert!(armed.status.success(), "{armed:?}");
    };
    let run = |words: &[&str]| rig.world.finish(words);
    assert_eq!(run(&["guard", "list", "far"]).code, Some(0));
    assert_eq!(run(&["guard", "status", "far"]).code, Some(2));
    arm("g1");
    fs::write(&file, "new").unwrap();
    assert!(run(&["guard", "list", "far"]).out.starts_with("g1  armed"));
    assert!(run(&["guard", "status", "far"]).out.contains("timer=alive"));
    let confirmed = run(&["guard", "confirm", "far"]);
    assert_eq!(confirmed.code, Some(1), "a confirmation needs a terminal: {confirmed:?}");
    let fired = run(&["guard", "fire", "far"]);
    assert_eq!((fired.code, fs::read_to_string(&file).unwrap().as_str()), (Some(0), "old"), "{fired:?}");
    assert_eq!(run(&["guard", "fire", "far", "g1"]).code, Some(1), "too late");
    assert_eq!(run(&["guard", "status", "far", "nobody"]).code, Some(2));
    assert_eq!(run(&["guard", "list", "local"]).code, Some(2));
    rig.nothing_is_left();
}
