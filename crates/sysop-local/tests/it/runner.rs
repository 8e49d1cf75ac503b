//! The supervisor and its clients, with a stand-in for `llama-server`.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use sysop_local::{
    Catalog, LocalServers, ModelFolder, ModelOverride, Supervisor, SupervisorCommand, SupervisorError,
};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Deadline on a busy machine for anything that should happen at once.
const DEADLINE: Duration = Duration::from_secs(60);

struct Bench {
    dir: TempDir,
    idle: Duration,
}

impl Bench {
    /// Creates a directory with the models `one`, `two`, `broken` and `open`, and the stand-in on PATH.
    fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap(), idle: Duration::from_secs(600) };
        let folder = bench.folder();
        folder.create().unwrap();
        for (name, text) in [("one", "fine"), ("two", "fine"), ("broken", "crash"), ("open", "open")] {
            let catalog = bench.catalog();
            fs::write(folder.model_file(catalog.model(name).unwrap()).unwrap(), text).unwrap();
        }
        let bin = bench.path("bin");
        fs::create_dir(&bin).unwrap();
        let log = bench.path("log");
        fs::write(&log, "").unwrap();
        let stand_in = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/llama-server.py");
        let script = format!("#!/bin/sh\nSTAND_IN_LOG='{}' exec '{stand_in}' \"$@\"\n", log.display());
        let program = bin.join("llama-server");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn folder(&self) -> ModelFolder {
        ModelFolder::new(self.path("models"))
    }

    fn catalog(&self) -> Catalog {
        let entry = |name: &str| ModelOverride {
            name: name.to_owned(),
            url: Some("http://127.0.0.1:1/none.gguf".to_owned()),
            sha256: Some("a".repeat(64)),
            ..ModelOverride::default()
        };
        Catalog::with(["one", "two", "broken", "open", "missing"].map(entry)).0
    }

    fn supervisor(&self) -> Supervisor {
        Supervisor {
            runtime_folder: self.path("run"),
            catalog: self.catalog(),
            folder: self.folder(),
            path: Some(format!("{}:/usr/bin:/bin", self.path("bin").display())),
            launcher: None,
            idle: self.idle,
        }
    }

    /// Starts the supervisor in this process.
    fn start(&self) -> (JoinHandle<Result<(), SupervisorError>>, Arc<Notify>) {
        fs::create_dir_all(self.path("run")).unwrap();
        let stop = Arc::new(Notify::new());
        let (supervisor, stopped) = (self.supervisor(), Arc::clone(&stop));
        (tokio::spawn(supervisor.run(async move { stopped.notified().await })), stop)
    }

    fn client(&self) -> LocalServers {
        // The tests start the supervisor themselves.
        let command = SupervisorCommand { program: "/bin/true".into(), arguments: Vec::new() };
        LocalServers::new(self.path("run"), command)
    }

    /// Starts of the server so far: process and model.
    fn starts(&self) -> Vec<(i32, String)> {
        let log = fs::read_to_string(self.path("log")).unwrap();
        let pairs = log.lines().map(|line| line.split_once(' ').unwrap());
        pairs.map(|(pid, model)| (pid.parse().unwrap(), model.to_owned())).collect()
    }

    async fn wait_until_ended(&self) {
        let alive = |pid: i32| {
            rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid).unwrap()).is_ok()
        };
        wait_for(|| self.starts().into_iter().all(|(pid, _)| !alive(pid))).await;
    }
}

async fn wait_for(is_true: impl Fn() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    let all = async {
        while !is_true() {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(DEADLINE, all).await.expect("the deadline passed");
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("the deadline passed")
}

#[tokio::test]
async fn clients_share_one_server_which_ends_with_the_last_of_them() {
    let bench = Bench::new();
    let (supervisor, _stop) = bench.start();
    let (first, second) = (bench.client(), bench.client());
    let one = within(first.lease("one")).await.unwrap();
    let other = within(second.lease("one")).await.unwrap();
    assert_eq!((&one.base_url, one.key.expose_secret()), (&other.base_url, other.key.expose_secret()));
    assert!(one.context >= 4_096, "{}", one.context);
    assert_eq!(bench.starts().len(), 1);
    drop((one, first));
    let again = within(second.lease("one")).await.unwrap();
    assert_eq!(bench.starts().len(), 1, "the server runs while a client is connected");
    drop((other, again, second));
    within(supervisor).await.unwrap().unwrap();
    bench.wait_until_ended().await;
}

#[tokio::test]
async fn another_model_waits_until_the_current_one_is_free() {
    let bench = Bench::new();
    let (_supervisor, _stop) = bench.start();
    let client = Arc::new(bench.client());
    let lease = within(client.lease("one")).await.unwrap();
    let other = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.lease("two").await.map(drop) }
    });
    assert_eq!(bench.starts().len(), 1);
    drop(lease);
    within(other).await.unwrap().unwrap();
    let models: Vec<_> = bench.starts().into_iter().map(|(_, model)| model).collect();
    assert_eq!(models, ["one", "two"]);
}

#[tokio::test]
async fn an_idle_server_is_stopped_although_a_client_stays() {
    let bench = Bench { idle: Duration::from_millis(200), ..Bench::new() };
    let (supervisor, _stop) = bench.start();
    let client = bench.client();
    drop(within(client.lease("one")).await.unwrap());
    within(supervisor).await.unwrap().unwrap();
    bench.wait_until_ended().await;
    // The client finds the next supervisor.
    let (_supervisor, _stop) = bench.start();
    within(client.lease("one")).await.unwrap();
    assert_eq!(bench.starts().len(), 2);
}

#[tokio::test]
async fn a_server_that_crashed_is_started_again() {
    let bench = Bench::new();
    let (_supervisor, _stop) = bench.start();
    let client = bench.client();
    drop(within(client.lease("one")).await.unwrap());
    let pid = rustix::process::Pid::from_raw(bench.starts()[0].0).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    within(async {
        while bench.starts().len() < 2 {
            drop(client.lease("one").await);
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_cannot_load_its_model_reports_why() {
    let bench = Bench::new();
    let (_supervisor, _stop) = bench.start();
    let client = bench.client();
    let why = within(client.lease("broken")).await.unwrap_err();
    assert!(why.contains("failed to load model"), "{why}");
    for (name, hint) in [("missing", "sysop model get missing"), ("unknown", "sysop model list")] {
        let why = within(client.lease(name)).await.unwrap_err();
        assert!(why.contains(hint), "{why}");
    }
    within(client.lease("one")).await.unwrap();
}

#[tokio::test]
async fn a_server_that_ignores_its_key_is_refused() {
    let bench = Bench::new();
    let (_supervisor, _stop) = bench.start();
    let why = within(bench.client().lease("open")).await.unwrap_err();
    assert!(why.contains("ignores its API key"), "{why}");
    bench.wait_until_ended().await;
}

#[tokio::test]
async fn a_second_supervisor_leaves_at_once_and_a_socket_left_behind_is_replaced() {
    let bench = Bench::new();
    fs::create_dir(bench.path("run")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(bench.path("run/model.sock")).unwrap());
    let (supervisor, stop) = bench.start();
    let client = bench.client();
    drop(within(client.lease("one")).await.unwrap());
    let second = within(bench.supervisor().run(std::future::pending())).await;
    assert!(matches!(second, Err(SupervisorError::Running)));
    stop.notify_one();
    within(supervisor).await.unwrap().unwrap();
    bench.wait_until_ended().await;
}
