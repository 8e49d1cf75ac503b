//! The whole binary against a real sshd: what a person gets who works on another machine.

mod broken;
mod errors;
mod fleet;
mod models;
mod pickers;
mod repl;
mod secrets;
mod tools;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::World;
use crate::sshd::{Login, Sshd};
use crate::support::{DEADLINE, Mock, files_below, processes_with, wait_until_gone};

/// How soon what belongs to a process must have gone after its end.
const GONE_MAX: Duration = Duration::from_secs(10);

/// A machine that ssh reaches as `far`, a model, and the home of who works there.
struct RemoteMachineRig {
    sshd: Sshd,
    mock: Mock,
    world: World,
}

impl RemoteMachineRig {
    /// The model's answers are scenarios: trigger and responses.
    fn with(scenarios: &[(&str, Vec<Value>)]) -> Self {
        Self::with_sshd("", scenarios)
    }

    /// With more lines for the config of the server.
    fn with_sshd(lines: &str, scenarios: &[(&str, Vec<Value>)]) -> Self {
        let sshd = quiet(Sshd::with(Login::Own, lines));
        let mock = Mock::start(scenarios);
        let config = format!("[hosts.far]\nhost = 'far'\nroot = '{}'\n", text(&sshd.path("home")));
        let world = World::with_openai(&mock.url())
            .variable("SYSOP_SSH_CONFIG", &text(&sshd.path("ssh_config")))
            .file(".config/sysop/config.toml", &config);
        Self { sshd, mock, world }
    }

    /// Asks the model that is in `mock` now.
    fn with_model(mut self) -> Self {
        let url = format!("{}/v1", self.mock.url());
        self.world = self.world.variable("SYSOP_PROVIDERS__OPENAI__BASE_URL", &url);
        self
    }

    /// A path in the home of the remote machine.
    fn there(&self, name: &str) -> std::path::PathBuf {
        self.sshd.path("home").join(name)
    }

    fn read_there(&self, name: &str) -> String {
        let path = self.there(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The config of ssh, which is in the command line of every `ssh` of ours.
    fn mark(&self) -> String {
        text(&self.sshd.path("ssh_config"))
    }

    /// Every `ssh` of ours has ended, and so has what it was connected to.
    fn nothing_runs(&self) {
        wait_until_gone(&self.mark(), GONE_MAX);
        let until = Instant::now() + GONE_MAX;
        while !self.sshd.connections().is_empty() {
            assert!(Instant::now() < until, "connections are left");
            std::thread::yield_now();
        }
    }

    /// The same, and sysop has taken its sockets away.
    fn nothing_is_left(&self) {
        self.nothing_runs();
        assert_eq!(self.sockets(), Vec::<String>::new());
    }

    /// The sockets of connections, and of who asks for passwords.
    fn sockets(&self) -> Vec<String> {
        let folder = fs::read_dir(self.world.home().join(".cache/sysop/ssh")).into_iter().flatten();
        folder.map(|entry| entry.unwrap().file_name().display().to_string()).collect()
    }

    /// Waits until a file is there.
    fn wait_for(&self, name: &str) {
        let until = Instant::now() + DEADLINE;
        while !self.there(name).exists() {
            assert!(Instant::now() < until, "{name} never appeared");
            std::thread::yield_now();
        }
    }

    /// The log of the only session, as it is exported.
    fn log(&self) -> Vec<Value> {
        self.world.exported(&self.world.only_session())
    }
}

/// The same, with a shell whose start says something and changes nothing.
fn quiet(sshd: Sshd) -> Sshd {
    fs::write(sshd.path("home").join(".bashrc"), "echo 'Welcome to bash!'\n").unwrap();
    sshd
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// What came of each call, as the log tells it.
fn outcomes(log: &[Value]) -> Vec<&Value> {
    let events = log.iter().map(|logged| &logged["event"]);
    events.filter(|event| event["type"] == "tool_finished").map(|event| &event["outcome"]).collect()
}

/// Everything that the model was told as the result of a call, in order.
fn results(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap().iter();
    let results = messages.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The files below a folder that hold a text, whatever is around it.
fn files_with(folder: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let holds = |path: &std::path::PathBuf| {
        // A file that went away while it was listed holds nothing.
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    files_below(folder).into_iter().filter(holds).collect()
}

/// The processes that were given a text, in their command line or their environment.
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

/// Gives the key that a machine lets in a passphrase.
fn with_passphrase(sshd: &Sshd, passphrase: &str) {
    let changed = Command::new("ssh-keygen")
        .args(["-q", "-p", "-P", "", "-N", passphrase, "-f"])
        .arg(sshd.path("user"))
        .stdout(Stdio::null())
        .status();
    assert!(changed.unwrap().success());
}
