//! Models on this machine: their download, the server that runs them, the first start, and changes of the config.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::World;
use crate::hub::{self, Hub};
use crate::person::{Person, at_a_terminal};
use crate::support::{DEADLINE, Mock, RawServer, answering, http, say};

const STAND_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sysop-local/tests/it/llama-server.py");

fn sha256(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bytes");
    fs::write(&file, bytes).unwrap();
    let output = std::process::Command::new("sha256sum").arg(&file).output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

/// Config with the model `local/tiny` at a URL.
fn config(url: &str, sha256: &str, size: usize) -> String {
    format!(
        "[models.\"local/tiny\"]\nurl = \"{url}\"\nsha256 = \"{sha256}\"\nsize = {size}\nlicense = \"CC0\"\n"
    )
}

impl World {
    /// Adds the model `local/tiny`, to be downloaded from a hub, and the stand-in for `llama-server` on PATH.
    fn with_tiny(self, url: &str, bytes: &[u8]) -> Self {
        let bin = self.home().join("bin");
        fs::create_dir_all(&bin).unwrap();
        let (program, log) = (bin.join("llama-server"), self.home().join("starts"));
        fs::write(&log, "").unwrap();
        let script = format!("#!/bin/sh\nSTAND_IN_LOG='{}' exec '{STAND_IN}' \"$@\"\n", log.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let text = config(url, &sha256(bytes), bytes.len());
        self.file(".config/sysop/config.toml", &text).variable("PATH", &path)
    }

    fn model_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.data().join("models")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    fn only_model(&self) -> Vec<u8> {
        let files = self.model_files();
        assert!(files.len() == 1 && files[0].extension().unwrap() == "gguf", "{files:?}");
        fs::read(&files[0]).unwrap()
    }

    /// Process ids of the servers that were started.
    fn servers(&self) -> Vec<Pid> {
        let log = fs::read_to_string(self.home().join("starts")).unwrap();
        let ids = log.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap());
        ids.map(|id| Pid::from_raw(id).unwrap()).collect()
    }
}

fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !is_true() {
        assert!(Instant::now() < until, "{what} did not happen");
        std::thread::yield_now();
    }
}

fn ended(pid: Pid) -> bool {
    // A process that nobody waits for stays as a zombie in some containers.
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_err() || stat.contains(") Z ")
}

#[test]
fn a_model_is_downloaded_only_after_a_yes_and_removed_again() {
    let bytes = vec![5; 100_000];
    let hub = Hub::start(&bytes, &sha256(&bytes));
    let world = World::new().with_tiny(&hub.url(), &bytes);
    let refused = world.finish(&["model", "get", "tiny"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    for shown in ["100 kB", "CC0", &hub.url(), &sha256(&bytes), "--yes"] {
        assert!(refused.err.contains(shown), "{shown}: {refused:?}");
    }
    assert!(world.model_files().is_empty() && hub.state.lock().requests.is_empty());
    let done = world.finish(&["model", "get", "local/tiny", "--yes"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(world.only_model() == bytes && done.err.contains("sysop --model local/tiny"), "{done:?}");
    let list = world.finish(&["model", "list"]).out;
    let line = list.lines().find(|line| line.starts_with("tiny ")).unwrap();
    assert!(line.contains("CC0") && line.contains("downloaded"), "{list}");
    assert_eq!(world.finish(&["models", "local"]).out, "local/tiny\n");
    assert_eq!(world.finish(&["model", "remove", "tiny"]).code, Some(0));
    assert!(world.model_files().is_empty());
    assert_eq!(world.finish(&["model", "remove", "tiny"]).code, Some(2));
}

#[test]
fn a_download_continues_after_kill_9() {
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|at| (at % 253) as u8).collect();
    let hub = Hub::start(&bytes, "");
    {
        let mut state = hub.state.lock();
        (state.cuts, state.hangs) = (vec![1_500_000], true);
    }
    let world = World::new().with_tiny(&hub.url(), &bytes);
    let running = world.start(&["model", "get", "tiny", "--yes"]);
    let size =
        || world.model_files().first().and_then(|file| fs::metadata(file).ok()).map_or(0, |file| file.len());
    wait_until("a part of the file", || size() == 1_500_000);
    running.kill();
    let listed = world.finish(&["model", "list"]).out;
    assert!(listed.contains("75% downloaded"), "{listed}");
    let done = world.finish(&["model", "get", "tiny", "--yes"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.err.contains("continuing after 1.5 MB"), "{done:?}");
    assert_eq!(hub.ranges(), [None, Some("bytes=1500000-".to_owned())]);
    assert!(world.only_model() == bytes);
}

#[test]
fn wrong_bytes_install_nothing() {
    let bytes = vec![5; 100_000];
    let hub = Hub::start(&vec![6; 100_000], "");
    let world = World::new().with_tiny(&hub.url(), &bytes);
    let run = world.finish(&["model", "get", "tiny", "--yes"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(
        run.err.contains("not the pinned one") && run.err.contains("\nhint: use another mirror"),
        "{run:?}"
    );
    assert!(world.model_files().is_empty());
}

#[test]
fn a_model_without_a_known_hash_is_refused() {
    let text = "[models.\"local/new\"]\nurl = \"http://127.0.0.1:1/new.gguf\"\n";
    let world = World::new().file(".config/sysop/config.toml", text);
    let run = world.finish(&["model", "get", "new", "--yes"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.err.contains("the SHA-256 of new is unknown"), "{run:?}");
    let unknown = world.finish(&["model", "get", "qwen2.5-coder-1.5", "--yes"]);
    assert!(unknown.err.contains("did you mean `qwen2.5-coder-1.5b`?"), "{unknown:?}");
}

#[test]
fn a_download_goes_through_the_proxy() {
    let bytes = b"model".to_vec();
    let body = String::from_utf8(bytes.clone()).unwrap();
    let proxy = RawServer::start(move |_, head, stream| {
        let known = head.starts_with("GET http://models.example/tiny.gguf HTTP/1.1");
        let status = if known { "200 OK" } else { "502 Bad Gateway" };
        let _ = stream.write_all(&http(status, "application/octet-stream", &body));
    });
    let world = World::new()
        .with_tiny("http://models.example/tiny.gguf", &bytes)
        .variable("http_proxy", &proxy.url());
    let run = world.finish(&["model", "get", "tiny", "--yes"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(world.only_model() == bytes);
}

/// Returns a world in which `local/tiny` is downloaded.
fn world_with_model() -> World {
    let bytes = b"a fine model".to_vec();
    let source = tempfile::NamedTempFile::new().unwrap();
    fs::write(source.path(), &bytes).unwrap();
    let world = World::new().with_tiny(&format!("file://{}", source.path().display()), &bytes);
    let run = world.finish(&["model", "get", "tiny", "--yes"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    world
}

#[test]
fn a_task_runs_with_a_local_model_whose_server_ends_with_it() {
    let world = world_with_model();
    // The downloaded model is found without any setting.
    let run = world.finish(&["exec", "-v", "who are you?"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "I am tiny.\n"), "{run:?}");
    assert!(run.err.contains("model: local/tiny (downloaded"), "{run:?}");
    let servers = world.servers();
    assert_eq!(servers.len(), 1);
    wait_until("the end of the server", || servers.iter().all(|server| ended(*server)));
    let missing = world.finish(&["exec", "--model", "local/qwen3.5-2b", "who are you?"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(missing.err.contains("sysop model get qwen3.5-2b"), "{missing:?}");
}

/// The steps of `cargo xtask demo --model`, with a mirror and a small file in place of the model.
#[test]
fn the_default_model_comes_from_a_mirror_and_does_a_task() {
    let bytes = b"a small model".to_vec();
    let hub = Hub::start(&bytes, &sha256(&bytes));
    let name = "qwen2.5-coder-1.5b";
    let world = World::new().with_tiny(&hub.url(), &bytes);
    let text = config(&format!("https://huggingface.co{}", hub::PATH), &sha256(&bytes), bytes.len());
    let world = world
        .file(".config/sysop/config.toml", &text.replace("local/tiny", &format!("local/{name}")))
        .variable("HF_ENDPOINT", &hub.base());
    let got = world.finish(&["model", "get", name, "--yes"]);
    assert_eq!(got.code, Some(0), "{got:?}");
    assert!(world.only_model() == bytes);
    assert!(got.err.contains(&format!("source   {}", hub.base())), "the mirror is named: {got:?}");
    let model = format!("local/{name}");
    let run = world.finish(&["exec", "-v", "--approve", "auto", "--model", &model, "who are you?"]);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "I am qwen2.5-coder-1.5b.\n"), "{run:?}");
    // A second demo downloads nothing.
    let requests = hub.state.lock().requests.len();
    assert_eq!(world.finish(&["model", "get", name, "--yes"]).code, Some(0));
    assert_eq!(hub.state.lock().requests.len(), requests);
}

#[test]
fn a_killed_supervisor_takes_its_server_with_it() {
    let world = world_with_model();
    let serving = world.start(&["model", "serve"]);
    serving.out.wait_for_text("Serving tiny at http://127.0.0.1:");
    let server = world.servers()[0];
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.as_raw_nonzero())).unwrap();
    let parent = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap();
    let command = fs::read_to_string(format!("/proc/{parent}/cmdline")).unwrap();
    assert!(command.contains("supervise"), "{command}");
    let environment = fs::read_to_string(format!("/proc/{}/cmdline", server.as_raw_nonzero())).unwrap();
    assert!(!environment.contains("api-key"), "the key is in no command line: {environment}");
    kill_process(Pid::from_raw(parent).unwrap(), Signal::KILL).unwrap();
    wait_until("the end of the server", || ended(server));
}

#[test]
fn the_first_start_offers_a_download_a_key_and_the_demo() {
    at_a_terminal(async {
        let world = World::new();
        let mut person = Person::sits_down(&world, &["chat"]);
        person.sees("No model configured.").await;
        person.sees("[1] download qwen2.5-coder-").await;
        person.sees("[2] use an API key").await;
        person.sees("[3] try the demo, without a model").await;
        person.types("3\r").await;
        person.sees("demo").await;
        person.sees("› ").await;
        person.types("/quit\r").await;
        assert_eq!(person.leaves().await.0, 0);
    });
}

#[test]
fn declining_the_download_of_the_first_start_leads_back_to_the_choice() {
    at_a_terminal(async {
        let world = World::new();
        let mut person = Person::sits_down(&world, &["chat"]);
        person.sees("Your choice [1-3, q quits]").await;
        person.types("1\r").await;
        person.sees("Download? [y/N]").await;
        person.types("\r").await;
        person.sees("Your choice [1-3, q quits]").await;
        person.types("q\r").await;
        let (code, seen) = person.leaves().await;
        assert_eq!((code, seen.matches("[3] try the demo, without a model").count()), (1, 2), "{seen}");
        assert!(!seen.contains("not downloaded"), "{seen}");
    });
}

#[test]
fn declining_the_choice_of_the_first_start_is_no_bad_usage() {
    at_a_terminal(async {
        let world = World::new();
        let mut person = Person::sits_down(&world, &["chat"]);
        person.sees("Your choice [1-3, q quits]").await;
        person.types("q\r").await;
        let (code, seen) = person.leaves().await;
        assert_eq!(code, 1, "{seen}");
        assert!(seen.contains("no model chosen"), "{seen}");
    });
}

#[test]
fn a_start_asks_ollama_for_its_models_once() {
    let lists = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&lists);
    let address = answering(move |head, _, stream| {
        if head.starts_with("GET /api/tags HTTP/1.0") {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
        let models = r#"{"models":[{"name":"phi3:latest"}]}"#;
        let _ = stream.write_all(&http("200 OK", "application/json", models));
    });
    at_a_terminal(async {
        let world = World::new().variable("OLLAMA_HOST", &address.to_string());
        let mut person = Person::sits_down(&world, &["chat"]);
        person.sees("› ").await;
        assert_eq!(lists.load(std::sync::atomic::Ordering::SeqCst), 1);
        person.types("/quit\r").await;
        assert_eq!(person.leaves().await.0, 0);
    });
}

#[test]
fn a_pasted_key_is_tried_and_goes_to_a_file_of_its_own() {
    let mock = Mock::start(&[("hi", vec![say("Hello.")])]);
    at_a_terminal(async {
        let world = World::new();
        let mut person = Person::sits_down(&world, &["chat"]);
        let url = format!("{}/v1", mock.url());
        let answers = [
            ("Your choice", "2"),
            ("Which provider?", "4"),
            ("Base URL", "not a url"),
            ("Not a URL.", &url),
            ("Where is the API key?", "3"),
        ];
        for (question, answer) in answers {
            person.sees(question).await;
            person.types(&format!("{answer}\r")).await;
        }
        person.sees("API key (not shown)").await;
        person.types("\r").await;
        person.sees("Nothing was entered.").await;
        person.sees("API key (not shown)").await;
        person.types("sk-very-secret\r").await;
        person.sees("The server answers. It offers").await;
        person.sees("Model [").await;
        person.types("\r").await;
        person.sees("Write it? [y/n, Enter for y, q quits]").await;
        let key = world.home().join(".config/sysop/openai.key");
        assert!(!key.exists(), "nothing is written before the answer");
        person.types("y\r").await;
        person.sees("› ").await;
        person.types("/quit\r").await;
        let (code, seen) = person.leaves().await;
        assert!(code == 0 && !seen.contains("sk-very-secret"), "{seen}");
        assert_eq!(fs::read_to_string(&key).unwrap(), "sk-very-secret\n");
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        let doctor = world.finish(&["config", "show"]).out;
        assert!(doctor.contains("model = \"openai/") && doctor.contains("api_key_file"), "{doctor}");
    });
}

#[test]
fn a_wrong_key_is_noticed_before_anything_is_written() {
    let body = r#"{"error":{"message":"bad key."}}"#;
    let address = answering(move |_, _, stream| {
        let _ = stream.write_all(&http("401 Unauthorized", "application/json", body));
    });
    let url = format!("http://{address}/v1");
    let world = World::new();
    let mut running = world.start_with_input(&["init"]);
    // The provider, its address, a key, another key, keep that one; the model, the host, the mode; and no.
    running.type_text(&format!("2\n4\n{url}\n3\nsk-1\n1\nsk-2\n3\nqwen\n\n\nn\n"));
    running.end_input();
    let run = running.finish();
    assert_eq!(run.code, Some(1), "{run:?}");
    let warning = "returned 401: bad key; check the key (as pasted)\n";
    assert_eq!(run.err.matches(warning).count(), 2, "{run:?}");
    assert!(!world.home().join(".config/sysop/openai.key").exists(), "{run:?}");
}

#[test]
fn init_proposes_the_path_of_the_api_if_the_server_has_none_at_its_root() {
    let address = answering(|head, _, stream| {
        let _ = stream.write_all(&if head.starts_with("GET /v1/models ") {
            http("200 OK", "application/json", r#"{"data":[{"id":"qwen"}]}"#)
        } else {
            http("404 Not Found", "application/json", "{}")
        });
    });
    let root = format!("http://{address}");
    let world = World::new();
    let mut running = world.start_with_input(&["init"]);
    // The provider, its root, no key, the proposed URL by Enter; the model, the host, the mode; and yes.
    running.type_text(&format!("2\n4\n{root}\n4\n\n\n\n\ny\n"));
    let run = running.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    let url = format!("{root}/v1");
    for text in
        [format!("[1] use {url}, where the server answers\n  [2] change the URL"), format!("\"{url}\"")]
    {
        assert!(run.err.contains(&text), "{text}: {run:?}");
    }
}

#[test]
fn config_set_checks_the_value_and_keeps_the_rest() {
    let before = "# mine\napprove = \"ask\"   # careful\n";
    let world = World::new().file(".config/sysop/config.toml", before);
    let file = world.home().join(".config/sysop/config.toml");
    let bad = world.finish(&["config", "set", "aprove", "each"]);
    assert_eq!(bad.code, Some(2), "{bad:?}");
    assert!(bad.err.contains("did you mean `approve`?"), "{bad:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    assert_eq!(world.finish(&["config", "set", "approve", "each"]).code, Some(0));
    assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\napprove = \"each\"   # careful\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_command_that_writes_the_config_creates_the_file_that_was_named() {
    let world = World::new();
    let run = world.finish(&["config", "set", "--config", "new/own.toml", "approve", "each"]);
    let told = "was: approve is not set\nnow: approve = \"each\"\n";
    assert_eq!((run.code, run.err.as_str()), (Some(0), told), "{run:?}");
    assert_eq!(fs::read_to_string(world.work().join("new/own.toml")).unwrap(), "approve = \"each\"\n");
    let mut running = world.start_with_input(&["init", "--config", "other.toml"]);
    running.type_text("4\n\n2\ny\n");
    let run = running.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(fs::read_to_string(world.work().join("other.toml")).unwrap(), "approve = \"each\"\n");
    let run = world.finish(&["config", "show", "--config", "none.toml"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.err.contains("config file not found: none.toml"), "{run:?}");
}

#[test]
fn config_set_says_that_a_variable_overrides_the_value() {
    let world = World::new().variable("SYSOP_MODEL", "demo");
    let run = world.finish(&["config", "set", "model", "ollama/phi3"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let warning = "warning: the environment variable SYSOP_MODEL overrides this value\n";
    assert_eq!(run.err.matches(warning).count(), 1, "{run:?}");
    let other = world.finish(&["config", "set", "approve", "each"]).err;
    assert!(other.contains("now: ") && !other.contains("warning"), "{other}");
}

#[test]
fn a_key_pasted_into_a_menu_is_not_repeated() {
    let (world, key) = (World::new(), "sk-ant-api03-abcdefghij0123456789");
    for place in [key.to_owned(), format!("2\n{key}")] {
        let mut running = world.start_with_input(&["init"]);
        running.type_text(&format!("2\n4\nhttp://127.0.0.1:9/v1\n{place}\nq\n"));
        running.end_input();
        let run = running.finish();
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.err.contains("looks like an API key. It was not stored"), "{run:?}");
        assert!(!run.err.contains(key), "{run:?}");
    }
}

#[test]
fn init_writes_after_showing_and_only_after_a_yes() {
    let world = World::new().file(".config/sysop/config.toml", "# mine\n");
    let file = world.home().join(".config/sysop/config.toml");
    let answers = |last: &str| {
        let mut running = world.start_with_input(&["init"]);
        running.type_text(&format!("2\n4\nhttp://127.0.0.1:9/v1\n4\n3\nqwen\n\n2\n{last}\n"));
        running.end_input();
        running.finish()
    };
    assert_eq!(answers("n").code, Some(1));
    assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\n");
    let run = answers("y");
    assert_eq!(run.code, Some(0), "{run:?}");
    for line in ["model = \"openai/qwen\"", "approve = \"each\"", "base_url = \"http://127.0.0.1:9/v1\""] {
        assert!(
            run.err.contains(line) && fs::read_to_string(&file).unwrap().contains(line),
            "{line}: {run:?}"
        );
    }
    assert!(fs::read_to_string(&file).unwrap().contains("# mine"));
    assert!(run.err.contains("warning: cannot connect to openai"), "nobody answers there: {run:?}");
}

#[test]
fn init_loads_like_other_commands_and_asks_the_server_only_after_a_change() {
    let mock = Mock::start(&[]);
    let url = format!("{}/v1", mock.url());
    let world = World::new()
        .file(".config/sysop/config.toml", "moue = true\napprove = \"ask\"\nmodel = \"openai/old\"\n")
        .variable("SYSOP_PROVIDERS__OPENAI__BASE_URL", &url)
        .variable("SYSOP_MODEL", "demo")
        .variable("OPENAI_API_KEY", "sk-of-the-environment");
    let mut keeping = world.start_with_input(&["init"]);
    keeping.err.wait_for_text("Your choice [1-4, q quits]");
    // The memory of a non-dumpable process is closed to other programs of its user.
    let shown = fs::read(format!("/proc/{}/environ", keeping.pid())).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&shown).contains("sk-of-the-environment"));
    keeping.type_text("4\n\n5\n");
    let run = keeping.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.err.contains("warning: ") && run.err.contains("did you mean `mouse`?"), "{run:?}");
    assert!(run.err.contains("Nothing to change.") && !run.err.contains("answers and offers"), "{run:?}");

    let mut changing = world.start_with_input(&["init"]);
    changing.type_text(&format!("2\n4\n{url}\n1\nnew\n2\n\n5\ny\n"));
    let run = changing.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.err.contains(&format!("{url} answers and offers 1 model.\n")), "{run:?}");
    let warning =
        "warning: the variable SYSOP_MODEL overrides `model`: sysop uses demo/demo until you unset it\n";
    assert!(run.err.contains(warning) && run.err.contains("keep the current setting: demo/demo"), "{run:?}");

    let mut again = world.start_with_input(&["init"]);
    again.type_text(&format!("2\n4\n{url}\n1\nnew\n2\n\n5\n"));
    let run = again.finish();
    assert!(
        run.err.contains("has these settings already") && !run.err.contains("answers and offers"),
        "{run:?}"
    );
}

#[test]
fn without_a_usable_model_every_start_exits_2() {
    let keyless = World::new().variable("SYSOP_MODEL", "anthropic/claude-x");
    let unset = World::new().variable("OLLAMA_HOST", "127.0.0.1:1");
    let bare = World::new().variable("SYSOP_MODEL", "gpt-4");
    for (world, hint) in [(keyless, "ANTHROPIC_API_KEY"), (unset, "OPENAI_API_KEY"), (bare, "`openai/gpt-4`")]
    {
        for line in
            [&["exec", "hi"][..], &["chat", "--plain"], &["serve", "--port", "0"], &["exec", "--json", "hi"]]
        {
            let run = world.finish(line);
            assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{line:?}: {run:?}");
            let told = run.err.lines().find(|line| line.starts_with("hint: ")).unwrap_or_default();
            assert!(told.contains(hint), "{line:?}: {run:?}");
        }
    }
}

#[test]
fn an_unknown_host_is_reported_with_a_suggestion() {
    let text = "[hosts.'web1.invalid']\nhost = '127.0.0.1'\n";
    let world = World::new().file(".config/sysop/config.toml", text).variable("SYSOP_MODEL", "demo");
    let run = world.finish(&["chat", "--plain", "--host", "web9.invalid"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(
        run.err.contains("unknown host web9.invalid") && run.err.contains("did you mean `web1.invalid`?"),
        "{run:?}"
    );
    // One wrong name in a list stops the task before it changes the other hosts; a name in the config is never wrong.
    let run = world.finish(&["exec", "--host", "web1.invalid,web9.invalid", "hello"]);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
    assert!(
        run.err.contains("unknown host web9.invalid") && run.err.contains("did you mean `web1.invalid`?"),
        "{run:?}"
    );
    let run = world.finish(&["exec", "--host", "web9.invalid,nowhere.invalid", "hello"]);
    let faults = "error: unknown host web9.invalid, unknown host nowhere.invalid\nhint: did you mean `web1.invalid`?\n";
    assert!(run.err.contains(faults), "{run:?}");
    let run = world.finish(&["chat", "--plain", "--host", "127.0.0.1:8941"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.err.contains("hint: for a port, write `ssh://USER@HOST:PORT`"), "{run:?}");
    let world =
        World::new().file(".config/sysop/config.toml", "model = 'demo'\n[connection]\nhost = 'x.invalid'\n");
    let run = world.finish(&["exec", "hello"]);
    assert!(run.err.contains("config.toml:3: unknown host x.invalid\n"), "{run:?}");
    assert!(run.err.contains("or add the name as `Host` to ~/.ssh/config"), "{run:?}");
}

#[test]
fn init_without_a_model_says_so() {
    let world = World::new().variable("OLLAMA_HOST", "127.0.0.1:1");
    let init = |answers: &str| {
        let mut running = world.start_with_input(&["init"]);
        running.type_text(answers);
        running.end_input();
        running.finish()
    };
    // No model, an unknown host and then none, and the mode.
    let run = init("4\nnowhere.invalid\n1\n\n5\n1\ny\n");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!run.err.contains("keep the current setting"), "there is none: {run:?}");
    assert!(run.err.contains("[4] set no model yet"), "{run:?}");
    assert!(run.err.contains("warning: unknown host nowhere.invalid; check the spelling"), "{run:?}");
    assert!(run.err.contains("No model is set: `sysop` will ask again.\n"), "{run:?}");
    assert!(!run.err.contains("Done."), "{run:?}");
    for answers in ["", "2\n", "q\n", "2\nq\n", "2\n4\nq\n", "2\n1\nq\n", "4\n\nq\n"] {
        let run = init(answers);
        assert_eq!(run.code, Some(1), "{answers}: {run:?}");
        assert!(
            run.err.ends_with("canceled; nothing was changed\n") && !run.err.contains("error:"),
            "{answers}: {run:?}"
        );
    }
}
