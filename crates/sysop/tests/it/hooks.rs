//! Hooks, the notifier and the journal, by the binary: the examples of the documentation as a user sets them up.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::World;
use crate::approvals::{asked, only_id};
use crate::serve::serve;
use crate::sshd::{Login, Sshd};
use crate::support::{DEADLINE, Mock, bash, call, say, served};

const TASK: &str = "change the file";
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

/// Returns the first TOML block of a page that contains `text`, with the examples at their places in the repository.
fn documented(page: &str, text: &str) -> String {
    let page = fs::read_to_string(Path::new(DOCS).join(page)).unwrap();
    let blocks =
        page.split("```toml").skip(1).filter_map(|rest| rest.split_once('\n')?.1.split("```").next());
    let block = blocks.into_iter().find(|block| block.contains(text)).expect("the page has the example");
    block.replace("/usr/local/bin/", &format!("{DOCS}/examples/"))
}

/// Starts an HTTP server that accepts everything. The channel receives each complete request.
fn listener() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (send, requests) = channel();
    // Ends with the test process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            let (mut request, mut piece) = (String::new(), [0; 4096]);
            while let Ok(read @ 1..) = stream.read(&mut piece) {
                request.push_str(&String::from_utf8_lossy(&piece[..read]));
                let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
                if length.is_none_or(|length| length.trim().parse() == Ok(body.len())) {
                    break;
                }
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if send.send(request).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

fn one_change() -> Mock {
    Mock::start(&[(TASK, vec![bash("touch made"), say("That is it.")])])
}

fn configured(mock: &Mock, config: &str) -> World {
    World::with_openai(&mock.url()).file(".config/sysop/config.toml", config)
}

#[test]
fn the_documented_ntfy_notifier_pushes_an_approval_that_can_then_be_answered() {
    let mock = one_change();
    let (address, requests) = listener();
    let config =
        documented("approvals.md", "notify-ntfy.sh").replace("https://ntfy.sh", &format!("http://{address}"));
    let world = configured(&mock, &config);
    let server = serve(&world, &[]);
    let session = asked(&server, &json!({}));
    let request = requests.recv_timeout(DEADLINE).unwrap();
    let id = only_id(&world.finish(&["approve"]));
    for part in [
        "POST /my-secret-topic ".to_owned(),
        "Title: sysop waits for approval on local\r\n".to_owned(),
        format!("Click: https://ops.example.org/#/s/{session}\r\n"),
        format!("\r\n\r\ntouch made\nsysop approve {id}"),
    ] {
        assert!(request.contains(&part), "{part:?} is not in\n{request}");
    }
    assert!(!request.contains(&server.token));
    let mut events = server.events(&session, 0);
    assert_eq!(world.finish(&["approve", &id]).code, Some(0));
    events.until("assistant.done");
    assert!(world.has("made"));
}

#[test]
fn the_ntfy_notifier_shows_a_command_as_it_is() {
    let (address, requests) = listener();
    let mut notifier = Command::new("sh")
        .args([&format!("{DOCS}/examples/notify-ntfy.sh"), &format!("http://{address}/topic")])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // curl would take the content of a file for `@`.
    let command = r#"@echo "a b" >c\d"#;
    let event =
        json!({ "event": "approval", "id": "s-1", "host": "web1", "command": command, "url": "http://x" });
    notifier.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
    assert!(notifier.wait().unwrap().success());
    let request = requests.recv_timeout(DEADLINE).unwrap();
    assert!(request.ends_with(&format!("\r\n\r\n{command}\nsysop approve s-1")), "{request}");
}

#[test]
fn the_documented_webhook_posts_approvals_and_ends_of_commands() {
    let mock = one_change();
    let (address, requests) = listener();
    let hook = |on: &str| {
        format!(
            "[[hooks]]\non = '{on}'\nrun = ['{DOCS}/examples/chat-webhook.sh', 'http://{address}/hooks/x']\n"
        )
    };
    let world = configured(&mock, &format!("{}{}", hook("approval"), hook("command.after")));
    let server = serve(&world, &[]);
    let session = asked(&server, &json!({}));
    let request = requests.recv_timeout(DEADLINE).unwrap();
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let text = body["text"].as_str().unwrap();
    assert!(text.starts_with("sysop approval on local: touch made http://"), "{text}");
    assert!(text.ends_with(&format!("/#/s/{session}")), "{text}");
    world.finish(&["approve", &only_id(&world.finish(&["approve"]))]);
    let request = requests.recv_timeout(DEADLINE).unwrap();
    assert!(request.contains(r#"{"text":"sysop command.after on local: touch made "}"#), "{request}");
}

/// Two hosts over ssh: `prod-db` and `lab`.
fn prod_and_lab(mock: &Mock, config: &str) -> (World, Vec<Sshd>) {
    let machines: Vec<Sshd> = (0..2).map(|_| Sshd::start(Login::Own)).collect();
    let (mut ssh, mut config) = (String::new(), format!("{config}\n"));
    for (name, machine) in ["prod-db", "lab"].iter().zip(&machines) {
        ssh.push_str(&format!(
            "Host {name}\n  HostName 127.0.0.1\n  Port {}\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             IdentityAgent none\n  UserKnownHostsFile {}\n",
            machine.port(),
            machine.path("user").display(),
            machine.path("known_hosts").display(),
        ));
        let root = machine.path("home");
        config.push_str(&format!("[hosts.{name}]\nhost = '{name}'\nroot = '{}'\n", root.display()));
    }
    let world = configured(mock, &config).file("hosts.ssh", &ssh);
    let path = world.home().join("hosts.ssh").display().to_string();
    (world.variable("SYSOP_SSH_CONFIG", &path), machines)
}

#[test]
fn the_documented_ticket_hook_denies_changes_on_production_only() {
    let restart = |reason: &str| {
        call("bash", json!({ "command": "touch made; : systemctl restart x", "reason": reason }))
    };
    let mock = Mock::start(&[
        ("without", vec![restart("it hangs"), say("No ticket.")]),
        ("with", vec![restart("it hangs, CHG-1234"), say("Done.")]),
    ]);
    let (world, machines) = prod_and_lab(&mock, &documented("hooks.md", "require-ticket.sh"));
    let made = |host: usize| machines[host].path("home/made").exists();
    let run = |host: &str, task: &str| world.finish(&["exec", "--approve", "auto", "--host", host, task]);
    let denied = run("prod-db", "without a ticket");
    assert_eq!((denied.code, made(0)), (Some(0), false), "{denied:?}");
    let told = mock.last_body().to_string();
    assert!(told.contains("denied by a hook: changes on production need a ticket"), "{told}");
    let elsewhere = run("lab", "without a ticket");
    assert_eq!((elsewhere.code, made(1)), (Some(0), true), "{elsewhere:?}");
    let allowed = run("prod-db", "with a ticket");
    assert_eq!((allowed.code, made(0)), (Some(0), true), "{allowed:?}");
}

#[test]
fn the_documented_syslog_hook_writes_each_command() {
    let mock = one_change();
    let folder = tempfile::tempdir().unwrap();
    let socket = UnixDatagram::bind(folder.path().join("log")).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let path = folder.path().join("log").display().to_string();
    let config =
        format!("[[hooks]]\non = 'command.after'\nrun = ['{DOCS}/examples/to-syslog.sh', '{path}']\n");
    let world = configured(&mock, &config);
    let run = world.finish(&["exec", "--approve", "auto", TASK]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let mut bytes = [0; 16384];
    let length = socket.recv(&mut bytes).unwrap();
    let line = String::from_utf8_lossy(&bytes[..length]);
    for part in ["sysop", r#""event":"command.after""#, r#""command":"touch made""#, r#""exitCode":0"#] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
}

/// Starts a server whose journal is the socket in `folder`. Without the right to mount, returns `None`.
fn serve_with_journal(world: &World, folder: &Path) -> Option<std::process::Child> {
    let binary = env!("CARGO_BIN_EXE_sysop");
    let script = r#"mkdir -p /run/systemd/journal && mount --bind "$1" /run/systemd/journal && exec "$2" serve --port 0 --approve auto"#;
    let unshare = if rustix::process::geteuid().is_root() { &["-m"][..] } else { &["-m", "-r"] };
    let can_mount = std::process::Command::new("unshare")
        .args(unshare)
        .args(["sh", "-c", r#"mount --bind "$1" "$1""#, "sh"])
        .arg(folder)
        .status();
    if !can_mount.is_ok_and(|status| status.success()) {
        return None;
    }
    let child = std::process::Command::new("unshare")
        .args(unshare)
        .args(["--kill-child", "--fork", "sh", "-c", script, "sh"])
        .arg(folder)
        .arg(binary)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", world.home())
        .envs(world.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(world.work())
        .stdout(std::process::Stdio::piped())
        .spawn();
    Some(child.unwrap())
}

/// Ends the process when dropped.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn first_line(child: &mut std::process::Child) -> String {
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    line
}

/// Fields of a datagram in the journal's native protocol.
fn fields(datagram: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(datagram).lines().map(str::to_owned).collect()
}

#[test]
fn the_documented_audit_reaches_the_journal() {
    let mock = one_change();
    let world = configured(&mock, &documented("hooks.md", "journald"));
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let Some(child) = serve_with_journal(&world, folder.path()) else {
        eprintln!("skipped: no right to mount");
        return;
    };
    let mut server = Ended(child);
    let (page, token) = served(&first_line(&mut server.0));
    let post = |path: &str, body: &Value| -> String {
        let output = std::process::Command::new("curl")
            .args([
                "--silent",
                "--fail",
                "--data",
                &body.to_string(),
                "--header",
                "Content-Type: application/json",
            ])
            .args(["--header", &format!("Authorization: Bearer {token}")])
            .arg(format!("{}{path}", page.trim_end_matches('/')))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let made: Value = serde_json::from_str(&post("/api/agent/sessions", &json!({}))).unwrap();
    let session = made["sessionId"].as_str().unwrap();
    post(&format!("/api/agent/sessions/{session}/messages"), &json!({ "content": TASK }));
    let mut bytes = [0; 65536];
    let started = loop {
        let length = socket.recv(&mut bytes).expect("the audit line of the command");
        let line = fields(&bytes[..length]);
        if line.iter().any(|field| field == "SYSOP_KIND=started") {
            break line;
        }
    };
    for field in [
        "SYSLOG_IDENTIFIER=sysop",
        &format!("SYSOP_SESSION={session}"),
        "SYSOP_WHAT=touch made",
        "SYSOP_TOOL=bash",
    ] {
        assert!(started.iter().any(|line| line == field), "{field} is not in {started:?}");
    }
}

fn script(world: World, text: &str) -> World {
    world.file("hook.sh", text)
}

#[test]
fn a_hook_of_prompts_keeps_a_secret_from_the_model() {
    let mock = Mock::start(&[("password", vec![say("I know it.")]), ("harmless", vec![say("Fine.")])]);
    let world = World::with_openai(&mock.url());
    let path = world.home().join("hook.sh").display().to_string();
    let config = format!("[[hooks]]\non = 'prompt'\nmatch = 'password'\nrun = ['/bin/sh', '{path}']\n");
    let world =
        script(world.file(".config/sysop/config.toml", &config), "echo 'it has a password' >&2; exit 2\n");
    let denied = world.finish(&["exec", "the password is hunter2"]);
    assert_eq!(denied.code, Some(1), "{denied:?}");
    assert!(denied.err.contains("a hook denied the prompt: it has a password"), "{denied:?}");
    assert!(mock.requests().is_empty(), "no model was called");
    let resume = format!("--resume={}", world.only_session());
    let next = world.finish(&["exec", &resume, "a harmless question"]);
    assert_eq!((next.code, next.out.as_str()), (Some(0), "Fine.\n"), "{next:?}");
    assert!(!mock.last_body().to_string().contains("hunter2"));
}

#[test]
fn a_hook_of_approvals_rejects_before_anyone_answers() {
    let mock = one_change();
    let world = World::with_openai(&mock.url());
    let path = world.home().join("hook.sh").display().to_string();
    let config = format!("[[hooks]]\non = 'approval'\nrun = ['/bin/sh', '{path}']\n");
    let world = script(
        world.file(".config/sysop/config.toml", &config),
        "echo '{\"decision\":\"deny\",\"reason\":\"change freeze\"}'\n",
    );
    let server = serve(&world, &[]);
    let session = asked(&server, &json!({}));
    server.events(&session, 0).until("assistant.done");
    assert!(!world.has("made"));
    let closed = server.events(&session, 0).until("approval.closed").pop().unwrap();
    assert_eq!((&closed["by"], &closed["reason"]), (&json!("a hook"), &json!("change freeze")), "{closed}");
    assert!(mock.last_body().to_string().contains("change freeze"));
}
