//! Models on the remote host, and a config as Jexida writes it.

use std::fs;
use std::time::Instant;

use serde_json::json;

use super::{RemoteMachineRig, outcomes, text};
use crate::person::{Person, at_a_terminal};
use crate::serve::serve;
use crate::support::{DEADLINE, bash, calls, processes_with, say};
use crate::viewer::Viewer;

/// A remote host whose Ollama is the scripted model, on the port that the host's environment names.
fn with_server(scenarios: &[(&str, Vec<serde_json::Value>)]) -> RemoteMachineRig {
    with_sshd_and_server("", scenarios)
}

/// Like [`with_server`], with more lines for the config of sshd.
fn with_sshd_and_server(lines: &str, scenarios: &[(&str, Vec<serde_json::Value>)]) -> RemoteMachineRig {
    let far = RemoteMachineRig::with_sshd(lines, scenarios);
    let address = far.mock.address();
    // The login shell's startup file sets the environment of commands.
    fs::write(far.there(".bashrc"), format!("export OLLAMA_HOST={address}\n")).unwrap();
    far
}

#[test]
fn a_remote_model_is_reached_through_the_connection() {
    let far = with_server(&[("count", vec![bash("echo 4 files"), say("There are four.")])]);
    let line = ["exec", "--host", "far", "--model", "ollama+ssh/qwen3", "--approve", "auto", "count them"];
    let run = far.world.finish(&line);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "There are four.\n"), "{run:?}");
    let requests = far.mock.requests();
    assert!(
        requests.iter().all(|request| request.path.starts_with("/api/")),
        "the requests use Ollama's native API"
    );
    assert_eq!(outcomes(&far.log())[0]["output"], "4 files\n[exit code 0]");
    far.nothing_is_left();
}

#[test]
fn a_resumed_session_uses_the_models_of_its_host() {
    let mut far =
        with_server(&[("count", vec![bash("touch counted; echo 4 files"), say("There are four.")])]);
    // Default host of new sessions.
    let path = ".config/sysop/config.toml";
    let config = fs::read_to_string(far.world.home().join(path)).unwrap();
    far.world = far.world.file(path, &format!("{config}[connection]\nhost = 'nowhere.invalid'\n"));
    let begun = far.world.finish(&["exec", "--host", "far", "--model", "openai/test-model", "count them"]);
    assert_eq!(begun.code, Some(3), "{begun:?}");
    let resume = format!("--resume={}", far.world.only_session());
    let before = far.mock.requests().len();
    let line = ["exec", &resume, "--model", "ollama+ssh/qwen3", "--approve", "auto", "count them"];
    let run = far.world.finish(&line);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "There are four.\n"), "{run:?}");
    let requests = far.mock.requests();
    assert!(requests.len() > before);
    assert!(
        requests[before..].iter().all(|request| request.path.starts_with("/api/")),
        "over its connection"
    );
    far.nothing_is_left();
}

/// Lets `first` also reach the host of `second`, under another name.
fn joined(first: &RemoteMachineRig, second: &RemoteMachineRig, name: &str) {
    let path = |file: &str| text(&second.sshd.path(file));
    first.sshd.configure(&format!(
        "Host {name}\n  HostName 127.0.0.1\n  Port {}\n  IdentityFile {}\n  UserKnownHostsFile {}\n",
        second.sshd.port(),
        path("user"),
        path("known_hosts"),
    ));
}

#[test]
fn a_background_session_keeps_using_the_models_of_its_host() {
    let wait = "until [ -e go ]; do sleep 0.05; done; echo 4 files";
    let first = with_server(&[("count", vec![bash(wait), say("There are four.")])]);
    let second = with_server(&[("count", vec![say("I know nothing of files.")])]);
    joined(&first, &second, "other");
    let asked =
        |far: &RemoteMachineRig| far.mock.requests().iter().filter(|it| it.path == "/api/chat").count();
    at_a_terminal(async {
        let line = ["--host", "far", "--model", "ollama+ssh/qwen3", "--approve", "auto", "count them"];
        let mut viewer = Viewer::sits_down(&first.world, &line);
        viewer.sees("until [ -e go ]").await;
        viewer.types("/host other\r").await;
        viewer
            .sees_that("a session on the other host", |screen| {
                screen.lines().last().unwrap_or_default().trim().starts_with("other ·")
            })
            .await;
        let before = asked(&first);
        fs::write(first.there("go"), "").unwrap();
        let until = Instant::now() + DEADLINE;
        while asked(&first) == before && asked(&second) == 0 {
            assert!(Instant::now() < until, "no model was called for the second step");
            std::thread::yield_now();
        }
        assert_eq!((asked(&first), asked(&second)), (before + 1, 0), "requests to each host's Ollama");
        assert!(first.mock.last_body().to_string().contains("4 files"));
        viewer.types("\x15\x15\x04").await;
        viewer.ends().await;
    });
}

#[test]
fn without_forwarding_a_remote_program_relays_the_requests() {
    let long = "word ".repeat(20_000);
    let answers = vec![bash("echo 4 files"), say(&long)];
    let far = with_sshd_and_server("AllowTcpForwarding no", &[("count", answers)]);
    let line = ["exec", "--host", "far", "--model", "ollama+ssh/qwen3", "--approve", "auto", "count them"];
    let run = far.world.finish(&line);
    assert_eq!((run.code, run.out.trim()), (Some(0), long.trim()), "{}", run.err);
    assert!(!run.err.contains("note"), "the user sees nothing about the tunnel: {}", run.err);
    assert_eq!(outcomes(&far.log())[0]["output"], "4 files\n[exit code 0]");
    let requests = far.mock.requests();
    assert!(
        requests.iter().all(|request| request.path.starts_with("/api/")),
        "the requests use Ollama's native API"
    );
    far.nothing_is_left();
}

#[test]
fn a_stopped_remote_ollama_is_reported() {
    for lines in ["", "AllowTcpForwarding no"] {
        let far = with_sshd_and_server(lines, &[]);
        fs::write(far.there(".bashrc"), "export OLLAMA_HOST=127.0.0.1:1\n").unwrap();
        let run = far.world.finish(&["exec", "--host", "far", "--model", "ollama+ssh/qwen3", "count them"]);
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
        for told in ["cannot connect to Ollama at http://127.0.0.1:1 on the remote host", "`ollama serve`"] {
            assert!(run.err.contains(told), "{run:?}");
        }
        far.nothing_is_left();
    }
}

/// Jexida's flow: question, PLAN, confirmation, output, analysis; with only Jexida's own config file.
#[test]
fn a_jexida_config_works_unchanged() {
    let look = calls("Look at the disk.", &[("", "bash", json!({ "command": "echo free: 4 GB" }))]);
    let answers = vec![look, say("Four gigabytes are free.")];
    let far = with_sshd_and_server("AllowTcpForwarding no", &[("how much space", answers)]);
    fs::remove_file(far.world.home().join(".config/sysop/config.toml")).unwrap();
    let RemoteMachineRig { sshd, mock, world } = far;
    let config = "[connection]\nhost = 'far'\nuser = 'root'\n[model]\nname = 'phi3'\n[routines]\n\
                  look = { description = 'Look', cmd = 'echo looked' }\n";
    let mut world = world.file(".jexida/config.toml", config);
    world.environment.retain(|(name, _)| name == "SYSOP_SSH_CONFIG" || name == "OLLAMA_HOST");
    let far = RemoteMachineRig { sshd, mock, world };
    at_a_terminal(async {
        let mut person = Person::sits_down(&far.world, &["chat"]);
        person.sees("ollama+ssh/phi3").await;
        person.sees("›").await;
        person.types("how much space is left?\r").await;
        person.sees("PLAN").await;
        person.sees("Look at the disk.").await;
        person.sees("on far as root in ~").await;
        person.sees("$ echo free: 4 GB").await;
        person.sees("Run it?").await;
        person.types("y").await;
        person.sees("COMMAND OUTPUT").await;
        person.sees("free: 4 GB").await;
        person.sees("✓").await;
        person.sees("AGENT RESPONSE").await;
        person.sees("Four gigabytes are free.").await;
        person.sees("STATUS").await;
        person.sees("root@far · ollama+ssh/phi3 · exit code 0").await;
        person.sees("›").await;
        person.types("/run look\r").await;
        person.sees("$ echo looked").await;
        person.sees("Run it?").await;
        person.types("y").await;
        person.sees("REMOTE COMMAND").await;
        person.sees("looked").await;
        person.sees("›").await;
        person.types("\u{4}").await;
        let (code, seen) = person.leaves().await;
        assert_eq!(code, 0, "{seen}");
    });
    assert!(processes_with(&far.mark()).is_empty(), "the tunnel ends with sysop");
    far.nothing_is_left();
}

/// A host whose output only `openai` models with names that begin with `own-` may see.
fn with_own_models() -> RemoteMachineRig {
    let steps = || vec![bash("echo the-se''cret"), say("Done.")];
    let mut far = RemoteMachineRig::with(&[("count", steps()), ("again", vec![say("Once more.")])]);
    let config = format!(
        "approve = 'auto'\n[hosts.far]\nroot = '{}'\nmodels = ['local/*', 'openai/own-*']\n",
        text(&far.there(""))
    );
    far.world = far.world.file(".config/sysop/config.toml", &config);
    far
}

const REFUSED: &str = "may not receive output from far: `models` in [hosts.far] allows local/*, openai/own-*\n\
                       hint: choose an allowed model with --model (in a session: /model), or add this one to `models`";

#[test]
fn a_model_not_allowed_for_a_host_gets_none_of_its_output() {
    let far = with_own_models();
    for host in ["far", "root@far"] {
        let run = far.world.finish(&["exec", "--host", host, "--model", "openai/other", "count them"]);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
        assert!(run.err.contains(&format!("openai/other {REFUSED}")), "{run:?}");
    }
    let run = far.world.finish(&["exec", "--host", "far", "--model", "openai/own-1", "count them"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Done.\n"), "{run:?}");
    let before = far.mock.requests().len();
    let id = far.world.only_session();
    let line = ["exec", &format!("--resume={id}"), "--model", "openai/other", "again"];
    let run = far.world.finish(&line);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    assert!(run.err.contains(&format!("openai/other {REFUSED}")), "{run:?}");
    assert_eq!(far.mock.requests().len(), before, "nothing was sent");
    let shown = far.world.finish(&["sessions", "show", &id]);
    assert!(shown.out.ends_with("[tool output was sent to openai/own-1]\n"), "{shown:?}");
    far.nothing_is_left();
}

#[test]
fn a_later_model_not_allowed_for_a_host_is_blocked_until_switched() {
    let far = with_own_models();
    at_a_terminal(async {
        let line = ["chat", "--host", "far", "--model", "openai/own-1"];
        let mut person = Person::sits_down(&far.world, &line);
        person.sees("›").await;
        person.types("count them\r").await;
        person.sees("Done.").await;
        person.types("/model openai/other\r").await;
        person.sees("model set to openai/other").await;
        let before = far.mock.requests().len();
        person.types("again\r").await;
        person.sees("may not receive output from far").await;
        assert_eq!(far.mock.requests().len(), before, "nothing was sent");
        person.types("/model openai/own-2\r").await;
        person.sees("model set to openai/own-2").await;
        person.types("again\r").await;
        person.sees("Once more.").await;
        person.types("\u{4}").await;
        person.leaves().await;
    });
    far.nothing_is_left();
}

#[test]
fn a_server_enforces_the_allowed_models_of_a_host() {
    let far = with_own_models();
    let server = serve(&far.world, &["--host", "far", "--model", "openai/other"]);
    let post = |path: &str, body: serde_json::Value| server.post_as(&server.token, path, &body);
    let (status, answer) = post("/api/agent/sessions", json!({ "host": "far", "model": "openai/another" }));
    assert!(status == 422 && answer.contains("may not receive output from far"), "{answer}");
    let (_, answer) = post("/chat", json!({ "message": "again" }));
    assert!(answer.contains("may not receive output from far"), "{answer}");
    assert!(far.mock.requests().is_empty(), "nothing was sent");
}
