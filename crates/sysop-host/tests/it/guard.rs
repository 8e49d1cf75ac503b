//! Guards over a real sshd. The target has its own mount, process and network namespace, so that the tests change the
//! real paths (`/etc/ssh`, `/etc/sudoers`) of a copy. Needs root; without it, each test returns at once.

use std::fs;
use std::path::PathBuf;
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
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::GuardOffer;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter};
use sysop_host::{GuardVerb, RemoteSettings, SshConnection, SshHost, SshSettings};
use tempfile::TempDir;

use crate::world::DEADLINE;

/// Builds the namespace: copies of `/etc` and `/run`, a loopback network, the ssh server with its default paths.
const BUILD: &str = r#"set -e; t=$1 user=$2
mount --make-rprivate /; mkdir "$t/layer"; mount -t tmpfs -o size=8m t "$t/layer"; mkdir "$t/layer/up" "$t/layer/work"
mount -t overlay o -o "lowerdir=/etc,upperdir=$t/layer/up,workdir=$t/layer/work" /etc
mount -t tmpfs r /run; mkdir /run/sshd; mount -t tmpfs v /var/lib; ip link set lo up
rm -rf /etc/ssh; mkdir /etc/ssh; cp "$t/host" /etc/ssh/ssh_host_ed25519_key; cp "$t/sshd_config" /etc/ssh/
if [ "$user" != root ]; then
  echo "$user:x:4242:4242::$t/home:/bin/sh" >>/etc/passwd; echo "$user:x:4242:" >>/etc/group
  echo "$user:*:19000:0:99999:7:::" >>/etc/shadow; mkdir -p /etc/sudoers.d
  echo "root ALL=(ALL) ALL" >/etc/sudoers; echo "$user ALL=(ALL) NOPASSWD: ALL" >>/etc/sudoers
  chmod 440 /etc/sudoers; chown -R 4242:4242 "$t/home"
fi
/usr/sbin/sshd; until [ -s /run/sshd.pid ]; do sleep 0.02; done; echo ready
while read -r line; do :; done"#;

struct Target {
    home: TempDir,
    namespace: Child,
    user: &'static str,
}

#[derive(Default)]
struct Recorder(Mutex<Vec<GuardReport>>, Mutex<Vec<String>>);

#[async_trait]
impl Prompter for Recorder {
    async fn ask(&self, _: PromptRequest) -> PromptReply {
        PromptReply::Refused
    }

    fn typed(&self, _: &str, _: TypedInput) {}

    fn control(&self, _: Option<&str>) {}

    fn notice(&self, text: &str) {
        self.1.lock().push(text.to_owned());
    }

    fn guard(&self, _: &CallId, host: &str, report: GuardReport) {
        assert_eq!(host, "far");
        self.0.lock().push(report);
    }
}

/// A session on a target.
struct Session {
    host: SshHost,
    connection: SshConnection,
    reports: Arc<Recorder>,
}

impl Target {
    /// Starts a target, or returns `None` without the rights to do so.
    fn start(user: &'static str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
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
            "HostKey /etc/ssh/ssh_host_ed25519_key\nAuthorizedKeysFile {folder}/home/.ssh/authorized_keys\n\
             PidFile /run/sshd.pid\nSetEnv HOME={folder}/home SYSOP_GUARD_DIR={}\nUsePAM no\nStrictModes no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nUseDNS no\n\
             ListenAddress 127.0.0.1\n",
            if user == "root" { "/etc/guards".to_owned() } else { format!("{folder}/home/guards") },
        );
        // Under sudo, the variable is gone and the folder is the default one.
        let config = if user == "root" {
            config
        } else {
            config.replace(&format!(" SYSOP_GUARD_DIR={folder}/home/guards"), "")
        };
        fs::write(at("sshd_config"), config).unwrap();
        let mut namespace = Command::new("unshare")
            .args(["-m", "-p", "-n", "--fork", "--mount-proc", "--kill-child", "sh", "-c", BUILD, "sh"])
            .arg(home.path())
            .arg(user)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut printed = std::io::BufReader::new(namespace.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut printed, &mut line).unwrap();
        assert_eq!(line, "ready\n", "the namespace cannot be built");
        let known = fs::read_to_string(at("host.pub")).unwrap();
        fs::write(at("known_hosts"), format!("127.0.0.1 {known}")).unwrap();
        let pid = namespace.id();
        let client = format!(
            "Host far\n  HostName 127.0.0.1\n  User {user}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n  \
             IdentityAgent none\n  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  \
             ProxyCommand nsenter -t {pid} -n busybox nc %h %p\n"
        );
        fs::write(at("ssh_config"), client).unwrap();
        Some(Self { home, namespace, user })
    }

    fn session(&self, seconds: u32) -> Session {
        let mut settings = SshSettings::new("far", self.home.path().join("control"));
        settings.config_file = Some(self.home.path().join("ssh_config"));
        let connection = SshConnection::new(settings).unwrap();
        let mut settings = RemoteSettings::new(connection.clone(), None, self.home.path().join("artifacts"));
        settings.guard_seconds = seconds;
        settings.guard_settle = Duration::from_millis(50);
        let host = SshHost::open(settings).unwrap();
        let reports = Arc::new(Recorder::default());
        host.set_prompter(Arc::clone(&reports) as Arc<dyn Prompter>);
        Session { host, connection, reports }
    }

    /// Returns a path of the target as this process sees it.
    fn at(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.namespace.id()))
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    /// Runs a command on the target, not over ssh.
    fn inside(&self, command: &str) -> String {
        let pid = self.namespace.id();
        let output = Command::new("nsenter")
            .args(["-t", &pid.to_string(), "-m", "-n", &format!("--pid=/proc/{pid}/ns/pid_for_children")])
            .args(["sh", "-c", command])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn guards(&self) -> PathBuf {
        self.at(if self.user == "root" { "/etc/guards" } else { "/var/lib/sysop-guard" })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.namespace.stdin.take());
        self.namespace.wait().unwrap();
    }
}

impl Session {
    fn call(command: &str) -> ToolCall {
        let serde_json::Value::Object(arguments) = json!({ "command": command }) else { panic!() };
        ToolCall {
            id: CallId::new("call-1"),
            wire_id: None,
            name: "bash".to_owned(),
            arguments: Arguments::Object(arguments),
        }
    }

    async fn offer(&self, command: &str) -> GuardOffer {
        self.host.survey(&Self::call(command)).await.guard
    }

    async fn guarded_until(&self, command: &str, cancel: CancellationToken) -> Outcome {
        let GuardOffer::Offered { seconds } = self.offer(command).await else {
            panic!("no guard: {:?}", self.offer(command).await)
        };
        let guard = GuardTimeout { seconds };
        let run = self.host.run_guarded(Self::call(command), guard, DeltaSink::none(), cancel);
        tokio::time::timeout(DEADLINE * 4, run).await.expect("the call ends in time")
    }

    async fn guarded(&self, command: &str) -> Outcome {
        self.guarded_until(command, CancellationToken::new()).await
    }

    fn endings(&self) -> Vec<GuardEnd> {
        let reports = self.reports.0.lock();
        reports
            .iter()
            .filter_map(|report| match report {
                GuardReport::Ended { how } => Some(*how),
                GuardReport::Armed { .. } => None,
            })
            .collect()
    }

    async fn logs_in(&self, target: &Target) -> bool {
        let config = target.home.path().join("ssh_config");
        let done =
            Command::new("ssh").arg("-F").arg(config).args(["-oBatchMode=yes", "far", "true"]).output();
        done.unwrap().status.success()
    }
}

const RELOAD: &str = "kill -HUP $(cat /run/sshd.pid)";

#[tokio::test]
async fn a_harmless_change_is_confirmed_by_two_fresh_logins() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(60);
    let began = Instant::now();
    let outcome =
        session.guarded(&format!("echo '# hello' >>/etc/ssh/sshd_config; {RELOAD}; echo done")).await;
    eprintln!("a guarded change took {:?}", began.elapsed());
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.output);
    assert!(
        outcome.output.starts_with("done\n") && outcome.output.contains("confirmed after two fresh logins")
    );
    assert_eq!(session.endings(), [GuardEnd::Confirmed]);
    assert!(target.text("/etc/ssh/sshd_config").ends_with("# hello\n"));
    let listed = session.connection.guards().await.unwrap();
    assert_eq!((listed.len(), listed[0].state.as_str()), (1, "confirmed"));
}

#[tokio::test]
async fn a_mistake_that_locks_out_heals_itself() {
    for change in [
        format!("echo 'AllowUsers nobody' >>/etc/ssh/sshd_config; {RELOAD}"),
        format!("echo 'Port 2222' >>/etc/ssh/sshd_config; {RELOAD}"),
        "rm ~/.ssh/authorized_keys".to_owned(),
    ] {
        let Some(target) = Target::start("root") else { return };
        let session = target.session(60);
        let before = target.text("/etc/ssh/sshd_config");
        let outcome = session.guarded(&change).await;
        assert_eq!(outcome.status, Status::Failed, "{change}: {}", outcome.output);
        assert!(outcome.output.contains("ROLLED BACK"), "{change}: {}", outcome.output);
        assert_eq!(session.endings(), [GuardEnd::Fired]);
        assert_eq!(target.text("/etc/ssh/sshd_config"), before);
        let until = Instant::now() + DEADLINE;
        while !session.logs_in(&target).await {
            assert!(Instant::now() < until, "{change}: still locked out");
        }
    }
}

#[tokio::test]
async fn a_broken_config_is_rolled_back_by_its_check() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(60);
    let outcome = session.guarded("echo Prot 1 >>/etc/ssh/sshd_config").await;
    assert!(outcome.output.contains("Bad configuration option"), "{}", outcome.output);
    assert!(!target.text("/etc/ssh/sshd_config").contains("Prot"));
    let outcome =
        session.guarded("kill $(cat /run/sshd.pid); echo AllowUsers x >>/etc/ssh/sshd_config").await;
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    assert!(session.logs_in(&target).await, "the dead server was started again");
}

#[tokio::test]
async fn a_firewall_that_refuses_new_logins_is_rolled_back() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(20);
    let before = target.inside("nft -s list ruleset");
    let rules = "table inet t { chain c { type filter hook input priority 0; ct state established accept; \
                 tcp dport 22 reject with tcp reset; }; }";
    let outcome = session.guarded(&format!("echo '{rules}' | nft -f -")).await;
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    assert_eq!(target.inside("nft -s list ruleset"), before);
    assert!(session.logs_in(&target).await);
}

#[tokio::test]
async fn broken_sudo_rules_are_rolled_back_though_sudo_is_gone() {
    let Some(target) = Target::start("ann") else { return };
    let session = target.session(30);
    let before = target.text("/etc/sudoers");
    let outcome = session.guarded("sudo sed -i /NOPASSWD/d /etc/sudoers").await;
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    assert_eq!(target.text("/etc/sudoers"), before);
    assert_eq!(target.inside("id >/dev/null; sudo -u ann sudo -n id -u"), "0\n");
}

#[tokio::test]
async fn a_cut_connection_leaves_the_decision_to_the_host() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(6);
    // The change kills the connection, and its mistake lets nobody in again.
    let change = format!(
        "echo AllowUsers nobody >>/etc/ssh/sshd_config; {RELOAD}; sleep 0.3; pkill -f 'sshd: root'; sleep 100"
    );
    let outcome = session.guarded(&change).await;
    assert!(!target.text("/etc/ssh/sshd_config").contains("nobody"), "{}", outcome.output);
    assert!(outcome.output.contains("guard:"), "{}", outcome.output);
    assert_ne!(session.endings(), [GuardEnd::Confirmed], "{}", outcome.output);
    assert!(session.logs_in(&target).await);
}

#[tokio::test]
async fn a_change_that_cuts_the_connection_and_works_is_confirmed() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(40);
    let change = format!("echo '# ok' >>/etc/ssh/sshd_config; {RELOAD}; sleep 0.3; pkill -f 'sshd: root'");
    let outcome = session.guarded(&change).await;
    assert_eq!(session.endings(), [GuardEnd::Confirmed], "{}", outcome.output);
    assert!(target.text("/etc/ssh/sshd_config").ends_with("# ok\n"));
}

#[tokio::test]
async fn a_stopped_call_is_rolled_back() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(60);
    let before = target.text("/etc/ssh/sshd_config");
    let cancel = CancellationToken::new();
    let (stop, file) = (cancel.clone(), target.at("/etc/ssh/sshd_config"));
    let stopping = tokio::task::spawn_blocking(move || {
        let until = Instant::now() + DEADLINE;
        while !fs::read_to_string(&file).unwrap_or_default().contains("# half") {
            assert!(Instant::now() < until);
        }
        stop.cancel();
    });
    let outcome = session.guarded_until("echo '# half' >>/etc/ssh/sshd_config; sleep 100", cancel).await;
    stopping.await.unwrap();
    assert_eq!(outcome.status, Status::Cancelled, "{}", outcome.output);
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    assert_eq!(target.text("/etc/ssh/sshd_config"), before);
}

#[tokio::test]
async fn a_full_disk_does_not_stop_the_rollback() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(60);
    let before = target.text("/etc/ssh/sshd_config");
    let change = format!(
        "echo AllowUsers nobody >>/etc/ssh/sshd_config; {RELOAD}; cat /dev/zero >/etc/full 2>&1; true"
    );
    let outcome = session.guarded(&change).await;
    assert!(outcome.output.contains("guard:"), "{}", outcome.output);
    assert_eq!(target.text("/etc/ssh/sshd_config"), before, "{}", outcome.output);
    assert!(session.logs_in(&target).await, "{}", outcome.output);
}

#[tokio::test]
async fn keys_of_the_login_user_are_guarded_without_root() {
    let Some(target) = Target::start("ann") else { return };
    target.inside("sed -i /NOPASSWD/d /etc/sudoers");
    let session = target.session(30);
    let keys = format!("{}/home/.ssh/authorized_keys", target.home.path().display());
    let before = target.text(&keys);
    let outcome = session.guarded(&format!("echo nothing >{keys}")).await;
    assert!(outcome.output.contains("ROLLED BACK"), "{}", outcome.output);
    assert_eq!(target.text(&keys), before);
    let GuardOffer::Refused { why } = session.offer("sudo systemctl restart sshd").await else { panic!() };
    assert!(why.contains("needs root"), "{why}");
}

#[tokio::test]
async fn an_open_guard_is_named_when_a_session_connects_and_blocks_a_second_one() {
    let Some(target) = Target::start("root") else { return };
    let guards = target.guards();
    let script = target.home.path().join("guard.sh");
    fs::write(&script, include_str!("../../src/ssh/guard/guard.sh")).unwrap();
    let armed = target.inside(&format!(
        "SYSOP_GUARD_DIR=/etc/guards sh -c 'S=$(cat {0}); . {0}' sysop-guard arm other 60 0 '' '' '' /etc/hosts",
        script.display()
    ));
    assert!(armed.starts_with("G other armed"), "{armed}");
    let session = target.session(60);
    let outcome = session.guarded("echo '# no' >>/etc/ssh/sshd_config").await;
    assert!(
        outcome.output.contains("not run: the guard could not be armed (guard other is open"),
        "{}",
        outcome.output
    );
    assert!(session.reports.1.lock().iter().any(|notice| notice.contains("far: guard other waits")));
    assert!(!target.text("/etc/ssh/sshd_config").contains("# no") && session.endings().is_empty());
    let fired = session.connection.guard(GuardVerb::Fire, "other").await.unwrap().unwrap();
    assert_eq!(fired.state, "fired");
    let late = session.connection.guard(GuardVerb::Confirm, "other").await.unwrap().unwrap();
    assert_eq!(late.state, "fired");
    assert_eq!(session.connection.guard(GuardVerb::Status, "nobody").await.unwrap(), None);
    assert!(guards.join("other/fired").exists());
}

#[tokio::test]
async fn a_host_without_fresh_logins_is_asked_about_without_a_guard() {
    let Some(target) = Target::start("root") else { return };
    let session = target.session(60);
    let change = "echo '# x' >>/etc/ssh/sshd_config";
    assert!(matches!(session.offer(change).await, GuardOffer::Offered { seconds: 60 }));
    target.inside("mv /run/sshd.pid /run/x; kill $(cat /run/x)");
    let run = session.host.run_guarded(
        Session::call(change),
        GuardTimeout { seconds: 60 },
        DeltaSink::none(),
        CancellationToken::new(),
    );
    let outcome = run.await;
    assert!(outcome.output.contains("fresh login fails even before the change"), "{}", outcome.output);
    let GuardOffer::Refused { why } = session.offer(change).await else { panic!("offered") };
    assert!(why.contains("fresh login failed"), "{why}");
    assert!(!target.text("/etc/ssh/sshd_config").contains("# x"));
}
