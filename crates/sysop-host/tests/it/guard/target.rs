//! Machine that a guard protects, and a session on it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use sysop_core::event::TypedInput;
use sysop_core::guard::{GuardEnd, GuardReport, GuardTimeout};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_core::policy::GuardOffer;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter};
use sysop_host::{RemoteSettings, SshConnection, SshHost, SshSettings};
use tempfile::TempDir;

use crate::world::{DEADLINE, not_tested};

/// Builds the namespace: copies of `/etc` and `/run`, a loopback network, the ssh server with its default paths.
const BUILD: &str = r#"set -e; t=$1 user=$2
mount --make-rprivate /; mkdir "$t/layer"; mount -t tmpfs -o size=8m t "$t/layer"; mkdir "$t/layer/up" "$t/layer/work"
mount -t overlay o -o "lowerdir=/etc,upperdir=$t/layer/up,workdir=$t/layer/work" /etc
mount -t tmpfs r /run; mkdir /run/sshd; mount -t tmpfs v /var/lib; ip link set lo up
if [ -f "$t/uname" ]; then mount --bind "$t/uname" "$(command -v uname)"; fi
rm -rf /etc/ssh; mkdir /etc/ssh; cp "$t/host" /etc/ssh/ssh_host_ed25519_key; cp "$t/sshd_config" /etc/ssh/
if [ "$user" != root ]; then
  echo "$user:x:4242:4242::$t/home:/bin/sh" >>/etc/passwd; echo "$user:x:4242:" >>/etc/group
  echo "$user:*:19000:0:99999:7:::" >>/etc/shadow; mkdir -p /etc/sudoers.d
  printf 'Defaults secure_path=/usr/sbin:/usr/bin:/sbin:/bin\nroot ALL=(ALL) ALL\n' >/etc/sudoers; echo "$user ALL=(ALL) NOPASSWD: ALL" >>/etc/sudoers
  chmod 440 /etc/sudoers; chown -R 4242:4242 "$t/home"
fi
/usr/sbin/sshd; until [ -s /run/sshd.pid ]; do sleep 0.02; done; echo ready
while read -r line; do :; done"#;

/// Address of the client at the cable; both exist only in the namespaces.
pub(super) const NEAR: &str = "192.0.2.1";
/// Address of the target.
pub(super) const FAR: &str = "192.0.2.2";
/// Restarts the ssh server of a target.
pub(super) const RELOAD: &str = "kill -HUP $(cat /run/sshd.pid)";

pub(super) struct Target {
    pub(super) home: TempDir,
    namespace: Child,
    /// Network of the client.
    client: Child,
    user: &'static str,
    name: &'static str,
}

/// Choices for a target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    pub(super) user: &'static str,
    /// Name of the host in the client's config.
    pub(super) name: &'static str,
    /// System that `uname` names, if it is not this one.
    pub(super) system: Option<&'static str>,
    /// Lines of the server's config that come first, and win.
    pub(super) config: &'static str,
}

impl Setup {
    pub(super) fn of(user: &'static str) -> Self {
        Self { user, name: "far", system: None, config: "" }
    }
}

/// Recorder of what a host reports.
#[derive(Default)]
pub(super) struct Recorder {
    /// Reports with the name of the host.
    pub(super) guards: Mutex<Vec<(String, GuardReport)>>,
    pub(super) notices: Mutex<Vec<String>>,
}

#[async_trait]
impl Prompter for Recorder {
    async fn ask(&self, _: PromptRequest) -> PromptReply {
        PromptReply::Refused
    }

    fn typed(&self, _: &str, _: TypedInput) {}

    fn control(&self, _: Option<&str>) {}

    fn notice(&self, text: &str) {
        self.notices.lock().push(text.to_owned());
    }

    fn guard(&self, _: &CallId, host: &str, report: GuardReport) {
        self.guards.lock().push((host.to_owned(), report));
    }
}

/// A session on a target.
pub(super) struct Session {
    pub(super) host: SshHost,
    pub(super) connection: SshConnection,
    pub(super) reports: Arc<Recorder>,
}

impl Target {
    /// Starts a target, or returns `None` without the rights to do so.
    pub(super) fn start(user: &'static str) -> Option<Self> {
        Self::with(Setup::of(user))
    }

    pub(super) fn with(setup: Setup) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            not_tested("guards on a target of its own", "only root may make namespaces");
            return None;
        }
        let Setup { user, name, .. } = setup;
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir_all(at("home/.ssh")).unwrap();
        std::os::unix::fs::chown(home.path(), None, None).unwrap();
        fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(at(key))
                .status();
            assert!(made.unwrap().success());
        }
        fs::copy(at("user.pub"), at("home/.ssh/authorized_keys")).unwrap();
        let folder = home.path().display();
        let config = format!(
            "{}HostKey /etc/ssh/ssh_host_ed25519_key\nAuthorizedKeysFile {folder}/home/.ssh/authorized_keys\n\
             PidFile /run/sshd.pid\nSetEnv HOME={folder}/home SYSOP_GUARD_DIR={}\nUsePAM no\nStrictModes no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nUseDNS no\n",
            setup.config,
            if user == "root" { "/etc/guards".to_owned() } else { format!("{folder}/home/guards") },
        );
        // Under sudo, the variable is gone and the directory is the default one.
        let config = if user == "root" {
            config
        } else {
            config.replace(&format!(" SYSOP_GUARD_DIR={folder}/home/guards"), "")
        };
        fs::write(at("sshd_config"), config).unwrap();
        if let Some(system) = setup.system {
            fs::write(at("uname"), format!("#!/bin/sh\necho {system} amd64\n")).unwrap();
            fs::set_permissions(at("uname"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let mut namespace = Command::new("unshare")
            .args(["-m", "-p", "-n", "--fork", "--mount-proc", "--kill-child", "sh", "-c", BUILD, "sh"])
            .arg(home.path())
            .arg(user)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut printed = BufReader::new(namespace.stdout.take().unwrap());
        printed.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the namespace cannot be built");
        let known = fs::read_to_string(at("host.pub")).unwrap();
        fs::write(at("known_hosts"), format!("{FAR} {known}")).unwrap();
        let client = cable(namespace.id());
        let pid = client.id();
        let config = format!(
            "Host {name}\n  HostName {FAR}\n  User {user}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n  \
             IdentityAgent none\n  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  \
             ProxyCommand nsenter -t {pid} -n busybox nc %h %p\n"
        );
        fs::write(at("ssh_config"), config).unwrap();
        Some(Self { home, namespace, client, user, name })
    }

    pub(super) fn session(&self, seconds: u32) -> Session {
        Session::open(self.name, &self.home.path().join("ssh_config"), self.home.path(), seconds)
    }

    /// Returns a path of the target as this process sees it.
    pub(super) fn at(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.namespace.id()))
    }

    pub(super) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    /// Runs a command on the target, not over ssh.
    pub(super) fn inside(&self, command: &str) -> String {
        let pid = self.namespace.id();
        let output = Command::new("nsenter")
            .args(["-t", &pid.to_string(), "-m", "-n", &format!("--pid=/proc/{pid}/ns/pid_for_children")])
            .args(["sh", "-c", command])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `ip` in the network of the client.
    pub(super) fn client_ip(&self, arguments: &str) {
        ip(self.client.id(), arguments);
    }

    /// Logs in once, without an open connection.
    pub(super) fn logs_in(&self) -> bool {
        let mut login = Command::new("ssh");
        login.arg("-F").arg(self.home.path().join("ssh_config"));
        login.args(["-oBatchMode=yes", "-oConnectTimeout=5", self.name, "true"]).stdin(Stdio::null());
        login.output().unwrap().status.success()
    }

    /// Fails unless a login works within the deadline of tests. An ssh server that reads its settings again refuses
    /// connections for a moment.
    pub(super) fn assert_not_locked(&self, what: &str) {
        let until = Instant::now() + DEADLINE;
        while !self.logs_in() {
            assert!(Instant::now() < until, "{what}: still locked out");
        }
    }

    pub(super) fn guards(&self) -> PathBuf {
        self.at(if self.user == "root" { "/etc/guards" } else { "/var/lib/sysop-guard" })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        for namespace in [&mut self.namespace, &mut self.client] {
            drop(namespace.stdin.take());
            namespace.wait().unwrap();
        }
    }
}

/// Makes a network for the client, and connects it with the network of the target.
fn cable(target: u32) -> Child {
    let script = "ip link set lo up && echo made && exec cat >/dev/null";
    let mut client = Command::new("unshare")
        .args(["--net", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "made\n", "the client's namespace cannot be built");
    ip(target, &format!("link add eth0 type veth peer name near netns {}", client.id()));
    ip(target, &format!("addr add {FAR}/24 brd + dev eth0"));
    ip(client.id(), &format!("addr add {NEAR}/24 dev near"));
    ip(client.id(), "link set near up");
    ip(target, "link set eth0 up");
    ip(target, &format!("route add default via {NEAR}"));
    client
}

/// Runs `ip` in the network of a process.
fn ip(process: u32, arguments: &str) {
    let mut command = Command::new("nsenter");
    command.args(["-t", &process.to_string(), "-n", "ip"]).args(arguments.split(' '));
    assert!(command.status().unwrap().success(), "ip {arguments}");
}

impl Session {
    /// Opens a session on a host of an ssh config, with files in a directory.
    pub(super) fn open(host: &str, config: &Path, folder: &Path, seconds: u32) -> Self {
        let mut settings = SshSettings::new(host, folder.join("control"));
        settings.config_file = Some(config.to_owned());
        let connection = SshConnection::new(settings).unwrap();
        let mut settings = RemoteSettings::new(connection.clone(), None, folder.join("artifacts"));
        settings.guard_seconds = seconds;
        settings.undo.bytes_max = sysop_host::UNDO_BYTES_DEFAULT;
        settings.guard_settle = Duration::from_millis(50);
        let host = SshHost::open(settings).unwrap();
        let reports = Arc::new(Recorder::default());
        host.set_prompter(Arc::clone(&reports) as Arc<dyn Prompter>);
        Self { host, connection, reports }
    }

    pub(super) fn call(command: &str) -> ToolCall {
        let serde_json::Value::Object(arguments) = json!({ "command": command }) else { panic!() };
        ToolCall {
            id: CallId::new("call-1"),
            wire_id: None,
            name: "bash".to_owned(),
            arguments: Arguments::Object(arguments),
        }
    }

    pub(super) async fn offer(&self, command: &str) -> GuardOffer {
        self.host.survey(&Self::call(command)).await.guard
    }

    pub(super) async fn guarded_until(&self, command: &str, cancel: CancellationToken) -> Outcome {
        let GuardOffer::Offered { seconds } = self.offer(command).await else {
            panic!("no guard: {:?}", self.offer(command).await)
        };
        let guard = GuardTimeout { seconds };
        let run = self.host.run_guarded(Self::call(command), guard, DeltaSink::none(), cancel);
        tokio::time::timeout(DEADLINE * 4, run).await.expect("the call ends in time")
    }

    pub(super) async fn guarded(&self, command: &str) -> Outcome {
        self.guarded_until(command, CancellationToken::new()).await
    }

    pub(super) fn endings(&self) -> Vec<GuardEnd> {
        let reports = self.reports.guards.lock();
        reports
            .iter()
            .filter_map(|(_, report)| match report {
                GuardReport::Ended { how } => Some(*how),
                GuardReport::Armed { .. } => None,
            })
            .collect()
    }
}

/// Makes each change on a target of its own, all at the same time, and checks that it is rolled back: `state` prints
/// the same as before on the target, and logins work.
pub(super) fn all_heal(setup: Setup, seconds: u32, state: &str, changes: &[&str]) {
    std::thread::scope(|scope| {
        for change in changes {
            scope.spawn(move || {
                let Some(target) = Target::with(setup) else { return };
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let before = target.inside(state);
                assert_ne!(before, "", "{state}");
                let session = target.session(seconds);
                let outcome = runtime.block_on(session.guarded(change));
                assert!(outcome.output.contains("ROLLED BACK"), "{change}: {}", outcome.output);
                assert_eq!(session.endings(), [GuardEnd::Fired], "{change}");
                assert_eq!(target.inside(state), before, "{change}: {}", outcome.output);
                target.assert_not_locked(change);
            });
        }
    });
}
