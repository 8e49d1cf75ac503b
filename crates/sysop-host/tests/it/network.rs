//! Tests of a network that fails in the middle of a command: a real one between two network namespaces, and one
//! simulated by a proxy.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::json;
use sysop_core::outcome::Status;
use sysop_host::{SshConnection, SshSettings};

use crate::proxy::Proxy;
use crate::ssh::{bash, bash_and, call, end_all, host, rooted};
use crate::sshd::{Login, Sshd};
use crate::world::{DEADLINE, not_tested};

/// Addresses of both ends of the cable, from a range for documentation; they exist only in the namespaces.
const NEAR: &str = "192.0.2.1";
const FAR: &str = "192.0.2.2";
const PORT: u16 = 2222;

/// Network namespace; dropping it ends it.
struct Namespace(Child);

impl Namespace {
    /// Creates a namespace. Fails if the kernel does not permit namespaces.
    fn new() -> io::Result<Self> {
        let script = "ip link set lo up && echo made && exec cat";
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut said = String::new();
        BufReader::new(holder.stdout.take().expect("it is a pipe")).read_line(&mut said)?;
        if said == "made\n" {
            return Ok(Self(holder));
        }
        let output = holder.wait_with_output()?;
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    /// Runs `ip` in the namespace.
    fn ip(&self, arguments: &str) -> io::Result<()> {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg("ip").args(arguments.split(' '));
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("ip {arguments}: {said}")))
        }
    }

    /// Runs `act` in the namespace, including the processes that it starts.
    fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let entered = File::open(self.path()).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(entered.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                act()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

/// Creates two namespaces connected by a veth pair.
fn cable() -> io::Result<(Namespace, Namespace)> {
    let (near, far) = (Namespace::new()?, Namespace::new()?);
    near.ip(&format!("link add near type veth peer name far netns {}", far.0.id()))?;
    near.ip(&format!("addr add {NEAR}/30 dev near"))?;
    far.ip(&format!("addr add {FAR}/30 dev far"))?;
    near.ip("link set near up")?;
    far.ip("link set far up")?;
    Ok((near, far))
}

/// Cuts the network silently in the middle of a command, then restores it.
async fn survives_a_cut(
    server: &Sshd,
    settings: SshSettings,
    cut: impl FnOnce() + Send + 'static,
    mend: impl FnOnce(),
) {
    let connection = SshConnection::new(settings).unwrap();
    let host = host(&connection);
    let command = "echo run >>~/runs; echo pid $$; echo ready; exec sleep 1000";
    let started = Instant::now();
    let outcome = bash_and(&host, json!({ "command": command, "timeout_s": 1 }), cut).await;
    assert_eq!(outcome.status, Status::Unknown, "{}", outcome.output);
    assert!(outcome.output.contains("may still run"), "{}", outcome.output);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    end_all(&outcome.output);
    mend();
    assert_eq!(bash(&host, "echo again").await.output, "again\n[exit code 0]");
    assert_eq!(fs::read_to_string(server.path("home/runs")).unwrap(), "run\n", "the command ran once");
    connection.close().await;
}

#[tokio::test]
async fn a_call_times_out_on_a_frozen_network() {
    let server = Sshd::start(Login::Own);
    let proxy = Proxy::start(server.port());
    let mut settings = server.settings();
    settings.port = Some(proxy.port());
    server.configure("NoHostAuthenticationForLocalhost yes");
    let freezer = proxy.clone();
    survives_a_cut(&server, settings, move || freezer.freeze(), || proxy.thaw()).await;
}

#[test]
fn a_call_times_out_when_the_cable_is_pulled() {
    let (near, far) = match cable() {
        Ok(cable) => cable,
        Err(error) => {
            let why = format!(
                "this process may make no network namespaces ({error}): run it as root, in a container with \
                 `--privileged`. A proxy that freezes was tested in its place"
            );
            not_tested("a cable that is pulled", &why);
            return;
        }
    };
    let server = far.within(|| Sshd::with(Login::Own, &format!("ListenAddress {FAR}:{PORT}")));
    server.configure(&format!("Host far\n  HostName {FAR}\n  HostKeyAlias cable\n"));
    let key = fs::read_to_string(server.path("host.pub")).unwrap();
    fs::write(server.path("known_hosts"), format!("cable {key}")).unwrap();
    let mut settings = server.settings();
    settings.port = Some(PORT);
    let near = Arc::new(near);
    let puller = Arc::clone(&near);
    let pull = move || puller.ip("link set near down").unwrap();
    near.within(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mend = || near.ip("link set near up").unwrap();
        runtime.block_on(survives_a_cut(&server, settings, pull, mend));
    });
}

#[tokio::test]
async fn a_partially_transferred_file_does_not_appear() {
    let server = Sshd::start(Login::Own);
    let proxy = Proxy::cut_after(server.port(), 2_000_000);
    server.configure("NoHostAuthenticationForLocalhost yes");
    let mut settings = server.settings();
    settings.port = Some(proxy.port());
    let root = server.path("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("f"), "old\n").unwrap();
    let host = rooted(
        &SshConnection::new(settings).unwrap(),
        Some(root.display().to_string()),
        server.path("artefacts"),
    );
    let content = "new line\n".repeat(500_000);
    for path in ["f", "g"] {
        let outcome = call(&host, "write_file", json!({ "path": path, "content": content })).await;
        assert_eq!(outcome.status, Status::Unknown, "{}", outcome.output);
        assert!(outcome.output.starts_with("the result is unknown: "), "{}", outcome.output);
    }
    // The remote side cleans up when it notices the loss.
    let started = Instant::now();
    while fs::read_dir(&root).unwrap().count() > 1 {
        assert!(started.elapsed() < DEADLINE, "a process is left");
        tokio::task::yield_now().await;
    }
    assert_eq!(fs::read_to_string(root.join("f")).unwrap(), "old\n");
}
