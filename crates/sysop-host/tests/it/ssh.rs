//! Tests of ssh only: connecting, connection errors, and the fate of a command when the connection is lost.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sysop_core::catalog::Profile;
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_host::{RemoteSettings, SshConnection, SshError, SshHost, SshSettings};

use crate::proxy::Proxy;
use crate::sshd::{Login, Sshd, shared};
use crate::world::{DEADLINE, pids, wait_until_gone};

/// Returns a host rooted in the remote home, for tests that change no files.
pub(crate) fn host(connection: &SshConnection) -> SshHost {
    rooted(connection, None, "/nowhere".into())
}

pub(crate) fn rooted(connection: &SshConnection, root: Option<String>, artifacts: PathBuf) -> SshHost {
    SshHost::open(RemoteSettings::new(connection.clone(), root, artifacts)).unwrap()
}

fn tool_call(tool: &str, arguments: Value) -> ToolCall {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    ToolCall {
        id: CallId::new("call-1"),
        wire_id: None,
        name: tool.to_owned(),
        arguments: Arguments::Object(arguments),
    }
}

pub(crate) async fn call(host: &SshHost, tool: &str, arguments: Value) -> Outcome {
    let call = tool_call(tool, arguments);
    let run = host.run(call, DeltaSink::none(), CancellationToken::new());
    tokio::time::timeout(DEADLINE * 2, run).await.expect("the call ends in time")
}

pub(crate) async fn bash(host: &SshHost, command: &str) -> Outcome {
    call(host, "bash", json!({ "command": command })).await
}

/// Runs a command, and calls `act` as soon as it has printed `ready`.
pub(crate) async fn bash_and(
    host: &SshHost,
    arguments: Value,
    act: impl FnOnce() + Send + 'static,
) -> Outcome {
    let act = parking_lot::Mutex::new(Some(act));
    let shown = parking_lot::Mutex::new(String::new());
    let sink = DeltaSink::new(move |text| {
        let mut shown = shown.lock();
        shown.push_str(text);
        if shown.contains("ready\n")
            && let Some(act) = act.lock().take()
        {
            act();
        }
    });
    let run = host.run(tool_call("bash", arguments), sink, CancellationToken::new());
    tokio::time::timeout(DEADLINE * 2, run).await.expect("the call ends in time")
}

/// Kills the processes that a lost connection left behind.
pub(crate) fn end_all(output: &str) {
    let started = pids(output);
    assert!(!started.is_empty(), "{output}");
    for pid in started {
        let process = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    }
}

#[tokio::test]
async fn a_remote_host_reports_its_system() {
    let facts = shared(Login::Zsh).machine_info().await.unwrap();
    assert_eq!((facts.system.as_str(), facts.architecture.as_str()), ("Linux", std::env::consts::ARCH));
    assert!(facts.bash.as_deref().is_some_and(|bash| bash.ends_with("/bash")), "{facts:?}");
    assert!(facts.login_shell.starts_with('/') && facts.home.ends_with("/home"), "{facts:?}");
    assert!(shared(Login::Ash).machine_info().await.unwrap().bash.is_none());
}

#[tokio::test]
async fn a_busybox_only_host_runs_commands() {
    let host = host(&shared(Login::Ash));
    let outcome = bash(&host, "echo a; echo b >&2; command -v bash; exit 7").await;
    assert_eq!((outcome.output.as_str(), outcome.exit_code), ("a\nb\n[exit code 7]", Some(7)));
    let outcome = bash(&host, "kill -9 $$").await;
    assert_eq!(outcome.output, "[killed by signal 9]");
    let command =
        "echo pid $$; sleep 1000 & echo pid $!; setsid sleep 1000 >/dev/null 2>&1 & echo pid $!; wait";
    let outcome = call(&host, "bash", json!({ "command": command, "timeout_s": 1 })).await;
    assert_eq!(outcome.status, Status::Timeout, "{}", outcome.output);
    let started = pids(&outcome.output);
    assert_eq!(started.len(), 3);
    started.into_iter().for_each(wait_until_gone);
}

#[tokio::test]
async fn ssh_config_applies_except_disruptive_options() {
    let server = Sshd::start(Login::Own);
    let witness = server.path("witness");
    server.configure(&format!(
        "Host alias\n  HostName 127.0.0.1\n  Port {}\nHost *\n  RemoteCommand echo remote-command\n  \
         RequestTTY force\n  ControlMaster auto\n  ControlPersist yes\n  ControlPath {}\n  LogLevel QUIET\n  \
         PermitLocalCommand yes\n  LocalCommand touch {}\n  LocalForward 127.0.0.1:1 127.0.0.1:1\n  \
         ExitOnForwardFailure yes\n  EscapeChar ~\n  ForwardAgent yes\n",
        server.port(),
        server.path("users-own").display(),
        witness.display(),
    ));
    let mut settings = server.settings();
    settings.destination = "alias".to_owned();
    let connection = SshConnection::new(settings).unwrap();
    let outcome = bash(&host(&connection), "echo mine; echo ${SSH_AUTH_SOCK-no agent}; tty").await;
    assert_eq!(outcome.output, "mine\nno agent\nnot a tty\n[exit code 1]");
    assert!(!witness.exists() && !server.path("users-own").exists());
}

#[tokio::test]
async fn a_host_behind_a_jump_host_is_reached() {
    let (gate, inner) = (Sshd::start(Login::Own), Sshd::start(Login::Own));
    let known = fs::read_to_string(gate.path("known_hosts")).unwrap()
        + &fs::read_to_string(inner.path("known_hosts")).unwrap();
    fs::write(gate.path("known_hosts"), known).unwrap();
    fs::copy(gate.path("user.pub"), inner.path("authorized")).unwrap();
    gate.configure(&format!("Host inner\n  HostName 127.0.0.1\n  Port {}\n  ProxyJump far\n", inner.port()));
    let mut settings = gate.settings();
    settings.destination = "inner".to_owned();
    let connection = SshConnection::new(settings).unwrap();
    let outcome = bash(&host(&connection), "echo ${SSH_CONNECTION##* }").await;
    assert_eq!(outcome.output, format!("{}\n[exit code 0]", inner.port()));
    let command = connection.terminal_command(Some("exit 5")).await.unwrap();
    assert_eq!(run_terminal_command(command).await.status.code(), Some(5));
}

#[tokio::test]
async fn each_ssh_failure_has_its_own_message() {
    let server = Sshd::start(Login::Own);
    let error =
        |settings: SshSettings| async { SshConnection::new(settings).unwrap().connect().await.unwrap_err() };

    let mut settings = server.settings();
    settings.destination = "nowhere.invalid".to_owned();
    assert_eq!(error(settings).await, SshError::UnknownHost("nowhere.invalid".to_owned()));

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut settings = server.settings();
    settings.port = Some(free);
    assert_eq!(error(settings).await, SshError::Refused { destination: "far".to_owned(), port: Some(free) });

    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = server.settings();
    settings.port = Some(silent.local_addr().unwrap().port());
    settings.connect_timeout = Duration::from_secs(1);
    assert_eq!(error(settings).await, SshError::Timeout("far".to_owned()));

    let mut settings = server.settings();
    settings.user = Some("nobody-of-that-name".to_owned());
    assert_eq!(error(settings).await, SshError::Auth("far".to_owned()));

    let known = fs::read_to_string(server.path("known_hosts")).unwrap();
    fs::write(server.path("known_hosts"), "").unwrap();
    assert_eq!(error(server.settings()).await, SshError::HostKeyUnknown("far".to_owned()));
    let other = fs::read_to_string(server.path("other.pub")).unwrap();
    fs::write(server.path("known_hosts"), format!("[127.0.0.1]:{} {other}", server.port())).unwrap();
    assert_eq!(error(server.settings()).await, SshError::HostKeyChanged("far".to_owned()));
    fs::write(server.path("known_hosts"), known).unwrap();

    server.configure("NoSuchOption yes");
    let error = error(server.settings()).await;
    assert!(matches!(error, SshError::Config(_)), "{error:?}");
}

#[tokio::test]
async fn a_login_shell_that_runs_no_commands_is_reported() {
    let server = Sshd::start(Login::Refusing);
    let connection = server.connection();
    let outcome = bash(&host(&connection), "echo > /tmp/sysop-test-never").await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.output.contains("did not run `sh`"), "{}", outcome.output);
    assert!(outcome.output.contains("This account is currently not available"), "{}", outcome.output);
}

#[tokio::test]
async fn a_missing_root_is_named() {
    let connection = shared(Login::Own);
    let host = rooted(&connection, Some("/no/such/folder".to_owned()), "/nowhere".into());
    for (tool, arguments) in
        [("bash", json!({ "command": "echo ran" })), ("read_file", json!({ "path": "f" })), ("ls", json!({}))]
    {
        let outcome = call(&host, tool, arguments).await;
        assert_eq!(outcome.status, Status::Failed);
        assert!(
            outcome.output.contains("cannot enter the root /no/such/folder on far"),
            "{}",
            outcome.output
        );
    }
}

#[tokio::test]
async fn a_command_on_a_lost_connection_is_unknown_and_not_repeated() {
    let server = Arc::new(Sshd::start(Login::Own));
    let connection = server.connection();
    let host = host(&connection);
    let ran = server.path("ran");
    let command = format!("echo run >> {}; echo pid $$; echo ready; exec sleep 1000", ran.display());
    let killer = Arc::clone(&server);
    let outcome = bash_and(&host, json!({ "command": command }), move || killer.kill_connections()).await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Unknown, None), "{}", outcome.output);
    assert!(outcome.output.contains("ready\n[result unknown: "), "{}", outcome.output);
    end_all(&outcome.output);
    let outcome = bash(&host, &format!("wc -l < {}", ran.display())).await;
    assert_eq!(outcome.output, "1\n[exit code 0]", "the next call reconnects");
}

#[tokio::test]
async fn a_remote_session_killed_from_outside_is_unknown() {
    let outcome = bash(&host(&shared(Login::Own)), "echo a; kill -9 $PPID").await;
    assert_eq!(outcome.status, Status::Unknown, "{}", outcome.output);
}

/// Set in the environment of the process that the test below kills.
const VICTIM: &str = "SYSOP_TEST_SSH_VICTIM";

/// Not a test: the next test runs it as a process, and kills that process.
#[tokio::test]
async fn victim() {
    let Some(config) = std::env::var_os(VICTIM) else { return };
    let control = std::path::Path::new(&config).parent().unwrap().join("control");
    let mut settings = SshSettings::new("far", control);
    settings.config_file = Some(config.into());
    let connection = SshConnection::new(settings).unwrap();
    connection.connect().await.unwrap();
    println!("connected");
    std::future::pending::<()>().await;
}

#[test]
fn a_connection_does_not_outlive_a_killed_process() {
    let server = Sshd::start(Login::Own);
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "ssh::victim"])
        .env(VICTIM, server.path("ssh_config"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "connected"));
    let (there, here) = (server.connections(), masters(&server));
    assert_eq!((there.len(), here.len()), (1, 1));
    victim.kill().unwrap();
    victim.wait().unwrap();
    there.into_iter().chain(here).for_each(wait_until_gone);
}

#[tokio::test]
async fn a_dead_master_connection_is_replaced_silently() {
    let server = Sshd::start(Login::Own);
    let connection = server.connection();
    let host = host(&connection);
    assert_eq!(bash(&host, "echo 1").await.output, "1\n[exit code 0]");
    let masters = masters(&server);
    assert_eq!(masters.len(), 1);
    for pid in masters {
        let process = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
        wait_until_gone(pid);
    }
    assert_eq!(bash(&host, "echo 2").await.output, "2\n[exit code 0]");
}

/// Returns our `ssh` processes that hold connections to a server.
fn masters(server: &Sshd) -> Vec<i32> {
    let config = server.path("ssh_config").display().to_string();
    let listed = Command::new("ps").args(["-A", "-o", "pid=,args="]).output().unwrap().stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let ours = listed.lines().filter(|line| line.contains(&config) && line.contains("ControlMaster=yes"));
    ours.map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect()
}

#[tokio::test]
async fn a_connection_ends_with_its_last_clone_or_when_it_is_closed() {
    let server = Sshd::start(Login::Own);
    let connection = server.connection();
    assert!(server.connections().is_empty(), "nothing connects before it is needed");
    connection.connect().await.unwrap();
    connection.clone().connect().await.unwrap();
    assert_eq!(server.connections().len(), 1);
    connection.close().await;
    assert!(masters(&server).is_empty());
    connection.connect().await.unwrap();
    let (there, here) = (server.connections(), masters(&server));
    let control = server.path("control");
    assert_eq!(fs::read_dir(&control).unwrap().count(), 1);
    drop(connection);
    there.into_iter().chain(here).for_each(wait_until_gone);
    assert_eq!(fs::read_dir(&control).unwrap().count(), 0, "no socket is left");
}

#[tokio::test]
async fn control_paths_stay_within_the_socket_limit() {
    let server = Sshd::start(Login::Own);
    let mut settings = server.settings();
    settings.control_folder = server.path(&"long".repeat(40));
    let connection = SshConnection::new(settings).unwrap();
    assert_eq!(bash(&host(&connection), "echo a").await.output, "a\n[exit code 0]");
}

#[tokio::test]
async fn calls_beyond_the_session_limit_wait() {
    let connection = shared(Login::Own);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..24 {
        let host = host(&connection);
        calls.spawn(async move { (number, bash(&host, &format!("echo {number}")).await.output) });
    }
    while let Some(done) = calls.join_next().await {
        let (number, output) = done.unwrap();
        assert_eq!(output, format!("{number}\n[exit code 0]"));
    }
}

#[tokio::test]
async fn a_server_with_one_session_per_connection_works() {
    let server = Sshd::with(Login::Own, "MaxSessions 1");
    let connection = server.connection();
    let host = host(&connection);
    let command = "echo pid $$; sleep 1000 & echo pid $!; wait";
    let outcome = call(&host, "bash", json!({ "command": command, "timeout_s": 1 })).await;
    assert_eq!(outcome.status, Status::Timeout, "{}", outcome.output);
    pids(&outcome.output).into_iter().for_each(wait_until_gone);
    let (a, b) = tokio::join!(bash(&host, "echo a"), bash(&host, "echo b; exit 255"));
    assert_eq!(a.output, "a\n[exit code 0]");
    assert_eq!(b.output, "b\n[exit code 255]");
}

#[tokio::test]
async fn a_cancelled_call_does_not_wait_for_a_connection() {
    let server = Sshd::start(Login::Own);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = server.settings();
    settings.port = Some(silent.local_addr().unwrap().port());
    let connection = SshConnection::new(settings).unwrap();
    let host = host(&connection);
    let cancel = CancellationToken::new();
    let arguments = json!({ "command": "echo a" });
    let run = host.run(tool_call("bash", arguments), DeltaSink::none(), cancel.clone());
    let stop = async {
        let accepting = tokio::net::TcpListener::from_std({
            silent.set_nonblocking(true).unwrap();
            silent
        })
        .unwrap();
        let connected = accepting.accept().await.unwrap();
        cancel.cancel();
        connected
    };
    let (outcome, _connected) =
        tokio::time::timeout(DEADLINE, async { tokio::join!(run, stop) }).await.unwrap();
    assert_eq!(outcome.status, Status::Cancelled);
    wait_for_no_masters(&server);
}

fn wait_for_no_masters(server: &Sshd) {
    masters(server).into_iter().for_each(wait_until_gone);
}

#[tokio::test]
async fn prompts_go_to_the_configured_askpass_program() {
    let server = Sshd::start(Login::Own);
    let changed = Command::new("ssh-keygen")
        .args(["-q", "-p", "-P", "", "-N", "open sesame", "-f"])
        .arg(server.path("user"))
        .stdout(Stdio::null())
        .status();
    assert!(changed.unwrap().success());
    fs::write(server.path("known_hosts"), "").unwrap();
    let asked = server.path("asked");
    let askpass = server.path("askpass");
    let script = "#!/bin/sh\necho \"$1\" >> \"$ASKED\"\ncase $1 in *fingerprint*) echo yes ;; *) echo \"$ANSWER\" ;; esac\n";
    fs::write(&askpass, script).unwrap();
    fs::set_permissions(&askpass, fs::Permissions::from_mode(0o700)).unwrap();
    let mut settings = server.settings();
    settings.askpass = Some(askpass);
    settings.askpass_env = vec![
        ("ASKED".to_owned(), asked.display().to_string()),
        ("ANSWER".to_owned(), "open sesame".to_owned()),
    ];
    let connection = SshConnection::new(settings).unwrap();
    let outcome = bash(&host(&connection), "echo \"in ${ANSWER-nothing}\"").await;
    assert_eq!(outcome.output, "in nothing\n[exit code 0]");
    let asked = fs::read_to_string(asked).unwrap();
    assert!(asked.contains("fingerprint") && asked.contains("passphrase"), "{asked}");
}

#[tokio::test]
async fn a_full_remote_disk_keeps_the_old_file_and_leaves_no_remnant() {
    let full = Full::new();
    let server = Sshd::start(Login::Own);
    let connection = server.connection();
    let host = rooted(&connection, Some(full.folder.display().to_string()), server.path("artefacts"));
    fs::write(full.folder.join("f"), "old\n").unwrap();
    let content = "new line\n".repeat(100_000);
    for path in ["f", "g"] {
        let outcome = call(&host, "write_file", json!({ "path": path, "content": content })).await;
        assert_eq!(outcome.status, Status::Failed);
        assert_eq!(outcome.output, format!("{path}: no space left on device"));
    }
    assert_eq!(fs::read_to_string(full.folder.join("f")).unwrap(), "old\n");
    assert_eq!(fs::read_dir(&full.folder).unwrap().count(), 1, "no partial file is left");
}

/// File system of 100 kB. Mounting it needs root, which automated test runs have.
struct Full {
    folder: std::path::PathBuf,
    _home: tempfile::TempDir,
}

impl Full {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("full");
        fs::create_dir(&folder).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=100k", "sysop-test"])
            .arg(&folder)
            .status()
            .unwrap();
        assert!(mounted.success(), "a small file system cannot be mounted; run this test as root");
        Self { folder, _home: home }
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.folder).status();
        assert!(unmounted.unwrap().success());
    }
}

#[tokio::test]
async fn a_remote_file_is_synced_before_it_is_renamed() {
    let force = r#"ForceCommand env PATH="$HOME/own:$PATH" sh -c "$SSH_ORIGINAL_COMMAND""#;
    let server = Sshd::with(Login::Own, force);
    let (sync, file) = (server.path("home/own/sync"), server.path("home/f"));
    fs::create_dir(sync.parent().unwrap()).unwrap();
    let script = "#!/bin/sh\n[ \"$1\" != --help ] || exec echo 'Usage: sync [OPTION] [FILE]...'\n\
                  [ ! -e ~/f ] || { echo 'the disk is gone' >&2; exit 1; }\ncat \"$1\" >~/synced\n";
    fs::write(&sync, script).unwrap();
    fs::set_permissions(&sync, fs::Permissions::from_mode(0o755)).unwrap();
    let host =
        rooted(&server.connection(), Some(server.path("home").display().to_string()), server.path("kept"));
    let write = async |content: &str| {
        let outcome = call(&host, "write_file", json!({ "path": "f", "content": content })).await;
        (outcome.status, outcome.output)
    };
    assert_eq!(write("new").await.0, Status::Ok);
    assert_eq!(fs::read_to_string(server.path("home/synced")).unwrap(), "new");
    let (status, told) = write("newer").await;
    assert!(status == Status::Failed && told.contains("the disk is gone"), "{told}");
    assert_eq!(fs::read_to_string(file).unwrap(), "new");
}

#[tokio::test]
async fn scripts_run_concurrently_with_other_calls() {
    let (status, output) =
        shared(Login::Csh).exec_sh("echo \"it's\"\nprintf '\\0!\\n'; exit 3", &[]).await.unwrap();
    assert_eq!((status, output.as_slice()), (3, b"it's\n\0!\n".as_slice()));
}

#[tokio::test]
async fn a_terminal_is_opened_over_the_same_connection() {
    let server = Sshd::start(Login::Own);
    let connection = server.connection();
    let (program, arguments, environment) = connection.terminal_command(Some("tty; exit 5")).await.unwrap();
    let output = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("/dev/pts/"), "{printed}");
    assert_eq!(server.connections().len(), 1);
}

/// Prints end marks with every string that could be the nonce. One line without quotes that need special escaping.
const FORGER: &str = concat!(
    r#"for f in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do tr "\000" "\012" <$f; done 2>/dev/null | "#,
    r#"grep -Eo "[0-9a-f]{16}" | sort -u | while read -r c; do "#,
    r#"printf "\036C%s\036\036E%s;0\036" "$c" "$c"; printf "\036E%s;0\036" "$c" >&2; done; "#,
    r#"echo "n is ${n-unset}"; exit 9"#
);

#[tokio::test]
async fn programs_cannot_see_the_end_mark() {
    let server = Sshd::start(Login::Own);
    // Variables exported at login stay exported in each nested shell.
    for file in [".bashrc", ".zshenv"] {
        fs::write(server.path("home").join(file), "export n=mine l=mine").unwrap();
    }
    let connection = server.connection();
    let host = host(&connection);
    for command in [FORGER.to_owned(), format!("# That's read from standard input.\n{FORGER}")] {
        let outcome = bash(&host, &command).await;
        assert_eq!((outcome.status, outcome.exit_code), (Status::Failed, Some(9)), "{}", outcome.output);
        assert!(outcome.output.contains("n is unset\n"), "{}", outcome.output);
    }
    let (status, output) = connection.exec_sh(FORGER, &[]).await.unwrap();
    assert_eq!(status, 9, "{}", String::from_utf8_lossy(&output));
    assert!(output.ends_with(b"n is unset\n"), "{}", String::from_utf8_lossy(&output));
}

/// Runs the command of a terminal without a terminal; returns its exit code and output.
async fn run_terminal_command(
    (program, arguments, environment): (
        std::ffi::OsString,
        Vec<std::ffi::OsString>,
        Vec<(std::ffi::OsString, std::ffi::OsString)>,
    ),
) -> std::process::Output {
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).env_clear().envs(environment).stdin(Stdio::null());
    tokio::time::timeout(DEADLINE, command.output()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_terminal_reconnects_only_through_the_shared_connection() {
    let server = Sshd::start(Login::Own);
    let connection = server.connection();
    connection.machine_info().await.unwrap();
    for pid in masters(&server) {
        let process = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
        wait_until_gone(pid);
    }
    let command = connection.terminal_command(Some("exit 5")).await.unwrap();
    assert_eq!(masters(&server).len(), 1, "the lost connection was opened again");
    assert_eq!(run_terminal_command(command.clone()).await.status.code(), Some(5));
    connection.close().await;
    let output = run_terminal_command(command).await;
    assert_eq!(output.status.code(), Some(255), "no program may bypass the connection: {output:?}");
}

#[tokio::test]
async fn a_call_canceled_during_its_request_is_not_reported_as_never_started() {
    let server = Sshd::start(Login::Own);
    let proxy = Proxy::start(server.port());
    let mut settings = server.settings();
    settings.port = Some(proxy.port());
    server.configure("NoHostAuthenticationForLocalhost yes");
    let connection = SshConnection::new(settings).unwrap();
    let host = host(&connection);
    assert_eq!(bash(&host, "echo a").await.output, "a\n[exit code 0]");
    for answered in [true, false] {
        proxy.freeze();
        let cancel = CancellationToken::new();
        let arguments = json!({ "command": "sleep 1000" });
        let run = host.run(tool_call("bash", arguments), DeltaSink::none(), cancel.clone());
        let stop = async {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
            if answered {
                proxy.thaw();
            }
        };
        let (outcome, ()) = tokio::time::timeout(DEADLINE, async { tokio::join!(run, stop) }).await.unwrap();
        let expected = if answered { Status::Cancelled } else { Status::Unknown };
        assert_eq!(outcome.status, expected, "{}", outcome.output);
    }
    proxy.thaw();
    assert_eq!(bash(&host, "echo again").await.output, "again\n[exit code 0]");
}

/// The remote side needs long to stop a program that ignores SIGTERM.
#[tokio::test]
async fn slow_stops_wait_for_each_other() {
    let slow = r#"ForceCommand env PATH="$HOME/slow:$PATH" sh -c "$SSH_ORIGINAL_COMMAND""#;
    let server = Sshd::with(Login::Own, slow);
    let sleep = server.path("home/slow/sleep");
    fs::create_dir(sleep.parent().unwrap()).unwrap();
    fs::write(&sleep, "#!/bin/sh\n[ \"$1\" = 0.05 ] && set -- 0.6\nPATH=/bin:/usr/bin exec sleep \"$1\"\n")
        .unwrap();
    fs::set_permissions(&sleep, fs::Permissions::from_mode(0o700)).unwrap();
    let connection = server.connection();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let host = host(&connection);
        calls.spawn(async move {
            let command = "trap '' TERM; echo pid $$; while :; do /bin/sleep 1; done";
            call(&host, "bash", json!({ "command": command, "timeout_s": 1 })).await
        });
    }
    while let Some(outcome) = calls.join_next().await {
        let outcome = outcome.unwrap();
        assert_eq!(outcome.status, Status::Timeout, "{}", outcome.output);
        pids(&outcome.output).into_iter().for_each(wait_until_gone);
    }
    assert_eq!(masters(&server).len(), 1);
}

/// Listens on a port and sends nothing.
async fn silent() -> (tokio::net::TcpListener, u16) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn a_connection_being_opened_is_closed_at_once() {
    let server = Sshd::start(Login::Own);
    let (listener, port) = silent().await;
    let mut settings = server.settings();
    settings.port = Some(port);
    settings.connect_timeout = DEADLINE * 10;
    let connection = SshConnection::new(settings).unwrap();
    let close = async {
        let connected = listener.accept().await.unwrap();
        connection.close().await;
        connected
    };
    let (made, _connected) =
        tokio::time::timeout(DEADLINE, async { tokio::join!(connection.connect(), close) }).await.unwrap();
    assert!(matches!(made, Err(SshError::Dropped { .. })), "{made:?}");
    wait_for_no_masters(&server);
}

#[tokio::test]
async fn a_canceled_file_tool_does_not_wait_for_a_connection() {
    let server = Sshd::start(Login::Own);
    let (listener, port) = silent().await;
    let mut settings = server.settings();
    settings.port = Some(port);
    settings.connect_timeout = DEADLINE * 10;
    let mut settings = RemoteSettings::new(SshConnection::new(settings).unwrap(), None, "/nowhere");
    settings.profile = Profile::Workspace;
    let host = SshHost::open(settings).unwrap();
    for (tool, arguments) in [
        ("stat", json!({ "path": "f" })),
        ("stat", json!({ "path": "/f" })),
        ("mkdir", json!({ "path": "f" })),
        ("write_file", json!({ "path": "f", "content": "" })),
        ("read_file", json!({ "path": "/f" })),
        ("ls", json!({})),
    ] {
        let cancel = CancellationToken::new();
        let run = host.run(tool_call(tool, arguments), DeltaSink::none(), cancel.clone());
        let stop = async {
            let connected = listener.accept().await.unwrap();
            cancel.cancel();
            connected
        };
        let (outcome, _connected) =
            tokio::time::timeout(DEADLINE, async { tokio::join!(run, stop) }).await.expect(tool);
        assert_eq!(outcome.status, Status::Cancelled, "{tool}: {}", outcome.output);
    }
    wait_for_no_masters(&server);
}

#[tokio::test]
async fn a_survey_finds_a_silent_host_unreachable_and_the_attempt_goes_on() {
    let server = Sshd::start(Login::Own);
    let (listener, port) = silent().await;
    let known = fs::read_to_string(server.path("known_hosts")).unwrap();
    let known = known.replace(&format!(":{}", server.port()), &format!(":{port}"));
    fs::write(server.path("known_hosts"), known).unwrap();
    let mut settings = server.settings();
    settings.port = Some(port);
    settings.connect_timeout = DEADLINE * 10;
    settings.survey_timeout = Duration::from_millis(1);
    let host = host(&SshConnection::new(settings).unwrap());
    let df = tool_call("bash", json!({ "command": "df -h" }));
    for _ in 0..2 {
        let survey = tokio::time::timeout(DEADLINE, host.survey(&df)).await.expect("the survey ends");
        let why = survey.unreachable.expect("the host sent nothing");
        assert!(why.starts_with("far: no response in time"), "{why}");
    }
    // The host is slow, not dead.
    let (mut from_ssh, _) = listener.accept().await.unwrap();
    let mut to_server = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let relay =
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut from_ssh, &mut to_server).await });
    host.connection().connect().await.unwrap();
    assert_eq!(masters(&server).len(), 1, "the first attempt connected");
    relay.abort();
}
