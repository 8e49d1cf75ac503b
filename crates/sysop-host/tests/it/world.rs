//! Test fixture: a host with its own root, and a directory outside that must not change.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;
use sysop_core::catalog::Profile;
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_host::{LocalHost, LocalSettings, OutputLimits, RemoteSettings, SshHost};
use tempfile::TempDir;

use crate::sshd::{Login, shared};

/// Maximum time of any wait.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Runs the tests of a suite on every kind of machine.
macro_rules! conformance {
    ($($name:ident),+ $(,)?) => {
        crate::world::run_on!(on_this_machine, crate::world::Local, $($name),+);
        crate::world::run_on!(over_ssh, crate::world::Ssh(crate::sshd::Login::Own), $($name),+);
    };
}
pub(crate) use conformance;

/// Like `conformance`, and also with every supported login shell on the remote machine.
macro_rules! conformance_of_shells {
    ($($name:ident),+ $(,)?) => {
        crate::world::conformance!($($name),+);
        crate::world::run_on!(over_ssh_to_bash, crate::world::Ssh(crate::sshd::Login::Bash), $($name),+);
        crate::world::run_on!(over_ssh_to_zsh, crate::world::Ssh(crate::sshd::Login::Zsh), $($name),+);
        crate::world::run_on!(over_ssh_to_fish, crate::world::Ssh(crate::sshd::Login::Fish), $($name),+);
        crate::world::run_on!(over_ssh_to_dash, crate::world::Ssh(crate::sshd::Login::Dash), $($name),+);
        crate::world::run_on!(over_ssh_to_csh, crate::world::Ssh(crate::sshd::Login::Csh), $($name),+);
        crate::world::run_on!(over_ssh_to_tcsh, crate::world::Ssh(crate::sshd::Login::Tcsh), $($name),+);
    };
}
pub(crate) use conformance_of_shells;

/// Like `conformance`, and also on a remote machine that has only busybox.
macro_rules! conformance_with_busybox {
    ($($name:ident),+ $(,)?) => {
        crate::world::conformance!($($name),+);
        crate::world::run_on!(over_ssh_to_busybox, crate::world::Ssh(crate::sshd::Login::Ash), $($name),+);
    };
}
pub(crate) use conformance_with_busybox;

macro_rules! run_on {
    ($module:ident, $factory:expr, $($name:ident),+) => {
        mod $module {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(&$factory).await;
                }
            )+
        }
    };
}
pub(crate) use run_on;

/// Opens hosts on one kind of machine whose files are also reachable locally.
pub(crate) trait Factory {
    fn open(&self, setup: Setup) -> World;

    fn full(&self) -> World {
        self.open(Setup::default())
    }

    fn workspace(&self) -> World {
        self.open(Setup { profile: Profile::Workspace, ..Setup::default() })
    }
}

pub(crate) struct Setup {
    pub(crate) profile: Profile,
    pub(crate) limits: OutputLimits,
    pub(crate) artifact_bytes_max: u64,
    pub(crate) secrets: Vec<String>,
    pub(crate) allow_delete: bool,
    /// Directory for artifacts, below the home of the world.
    pub(crate) artifacts: &'static str,
    /// Root directory, below the home of the world.
    pub(crate) root: &'static str,
    /// Prepares the home before the host is opened.
    pub(crate) prepare: fn(&Path),
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            profile: Profile::Full,
            limits: OutputLimits::default(),
            artifact_bytes_max: 64 * 1024 * 1024,
            secrets: Vec::new(),
            allow_delete: false,
            artifacts: "artefacts",
            root: "root",
            prepare: |_| {},
        }
    }
}

/// This machine, through `LocalHost`.
pub(crate) struct Local;

impl Factory for Local {
    fn open(&self, setup: Setup) -> World {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("root")).unwrap();
        (setup.prepare)(home.path());
        let mut settings =
            LocalSettings::new(home.path().join(setup.root), home.path().join(setup.artifacts));
        settings.profile = setup.profile;
        settings.limits = setup.limits;
        settings.artifact_bytes_max = setup.artifact_bytes_max;
        settings.secrets = setup.secrets.into_iter().map(Into::into).collect();
        settings.allow_delete = setup.allow_delete;
        let host = Arc::new(LocalHost::open(settings).unwrap());
        let root = home.path().join(setup.root);
        World { home, root, host, calls: AtomicU32::new(0) }
    }
}

/// This machine, through an sshd and a login shell.
pub(crate) struct Ssh(pub(crate) Login);

impl Factory for Ssh {
    fn open(&self, setup: Setup) -> World {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("root")).unwrap();
        (setup.prepare)(home.path());
        let root = home.path().join(setup.root);
        let mut settings = RemoteSettings::new(
            shared(self.0),
            Some(root.to_str().unwrap().to_owned()),
            home.path().join(setup.artifacts),
        );
        settings.profile = setup.profile;
        settings.limits = setup.limits;
        settings.artifact_bytes_max = setup.artifact_bytes_max;
        settings.secrets = setup.secrets.into_iter().map(Into::into).collect();
        settings.allow_delete = setup.allow_delete;
        let host = Arc::new(SshHost::open(settings).unwrap());
        World { home, root, host, calls: AtomicU32::new(0) }
    }
}

pub(crate) struct World {
    home: TempDir,
    root: PathBuf,
    pub(crate) host: Arc<dyn Host>,
    calls: AtomicU32,
}

impl World {
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Converts a path below the root to a local path.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.at(path)).unwrap()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes(path)).unwrap()
    }

    pub(crate) fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.at(path)).unwrap().permissions().mode() & 0o7777
    }

    pub(crate) fn tool_call(&self, tool: &str, arguments: Value) -> ToolCall {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        ToolCall {
            id: CallId::new(format!("call-{number}")),
            wire_id: None,
            name: tool.to_owned(),
            arguments: Arguments::Object(arguments),
        }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        let call = self.tool_call(tool, arguments);
        let run = self.host.run(call, DeltaSink::none(), CancellationToken::new());
        tokio::time::timeout(DEADLINE, run).await.expect("the call ends in time")
    }

    /// Runs a call, and cancels it once `enough` accepts its output.
    pub(crate) async fn call_until(
        &self,
        tool: &str,
        arguments: Value,
        enough: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Outcome {
        let cancel = CancellationToken::new();
        let display = Display::default();
        let (stop, shown) = (cancel.clone(), display.clone());
        let sink = DeltaSink::new(move |text| {
            shown.take(text);
            if enough(&shown.text()) {
                stop.cancel();
            }
        });
        let run = self.host.run(self.tool_call(tool, arguments), sink, cancel);
        tokio::time::timeout(DEADLINE, run).await.expect("the call ends in time")
    }

    /// Returns everything in the home except root and artifacts, without following links, to detect changes.
    pub(crate) fn outside(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        snapshot(self.home(), &["root", "artefacts"].map(|name| self.home().join(name)), &mut seen);
        seen
    }

    pub(crate) fn offers(&self, tool: &str) -> bool {
        self.host.tools().iter().any(|spec| spec.name == tool)
    }
}

fn snapshot(folder: &Path, but: &[PathBuf], seen: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap();
        if but.contains(&path) {
            continue;
        }
        if kind.is_dir() {
            seen.insert(path.clone(), "folder".to_owned());
            snapshot(&path, but, seen);
        } else if kind.is_symlink() {
            seen.insert(path.clone(), format!("link to {}", fs::read_link(&path).unwrap().display()));
        } else {
            seen.insert(path.clone(), String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
        }
    }
}

#[derive(Clone, Default)]
pub(crate) struct Display(Arc<Mutex<Vec<String>>>);

impl Display {
    pub(crate) fn sink(&self) -> DeltaSink {
        let display = self.clone();
        DeltaSink::new(move |text| display.take(text))
    }

    pub(crate) fn take(&self, text: &str) {
        self.0.lock().push(text.to_owned());
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().concat()
    }

    pub(crate) fn pieces(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// Says that something is not tested here. Fails if `SYSOP_TESTS_COMPLETE` is set, as `cargo xtask test` does for root.
pub(crate) fn not_tested(what: &str, why: &str) {
    assert!(std::env::var_os("SYSOP_TESTS_COMPLETE").is_none(), "{what} cannot be tested here: {why}");
    // Written past the test harness, which would capture the note.
    let _ = std::io::stderr().write_all(format!("\nNOT TESTED: {what}: {why}\n").as_bytes());
}

/// Waits, without keeping a processor busy, until a command of the shell succeeds.
pub(crate) fn wait_until(condition: &str) {
    let script = format!("until {{ {condition}; }} >/dev/null 2>&1; do sleep 0.02; done");
    let limit = (DEADLINE * 2).as_secs().to_string();
    let ended =
        std::process::Command::new("timeout").arg(limit).args(["sh", "-c", &script]).status().unwrap();
    assert!(ended.success(), "the condition never became true: {condition}");
}

/// Waits until a process has ended, whether it is a child or not.
pub(crate) fn wait_until_gone(pid: i32) {
    let Ok(descriptor) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else { return };
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    let deadline = Timespec { tv_sec: DEADLINE.as_secs().cast_signed(), tv_nsec: 0 };
    let ended = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&deadline))).unwrap();
    assert_eq!(ended, 1, "process {pid} is still there");
}

pub(crate) fn is_gone(pid: i32) -> bool {
    let Ok(descriptor) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else { return true };
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

/// Returns the numbers on lines of the form `pid N`.
pub(crate) fn pids(text: &str) -> Vec<i32> {
    text.lines().filter_map(|line| line.strip_prefix("pid ")?.parse().ok()).collect()
}
