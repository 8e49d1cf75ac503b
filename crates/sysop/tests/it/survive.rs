//! Failures around the binary: servers, disks, files, bytes. Each run ends with the right exit code and one clear
//! sentence, keeps the session, and never prints the key.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    EVENTS_HEAD, Mock, RawServer, bash, call, event, files_below, hang, http, lines_of_json, say, streamed,
};
use crate::{Run, World};

/// The key; it has leaked if it is found anywhere except in requests.
const CANARY: &str = "sk-canary-7d21f0b94e6c";

/// A world with a key and a short timeout.
fn world(url: &str) -> World {
    World::with_openai(url)
        .variable("OPENAI_API_KEY", CANARY)
        .variable("SYSOP_PROVIDERS__OPENAI__TIMEOUT_S", "1")
}

/// Checks that no output and no file contains the key or a trace of a crash.
fn check_clean(world: &World, run: &Run) {
    for text in [&run.out, &run.err] {
        assert!(!text.contains(CANARY), "the key was printed: {run:?}");
        for trace in ["panicked", "RUST_BACKTRACE", "stack backtrace", "internal error"] {
            assert!(!text.contains(trace), "{run:?}");
        }
        assert!(!text.contains('\u{1b}'), "{run:?}");
    }
    check_disk(world);
}

fn check_disk(world: &World) {
    for file in files_below(world.home()) {
        let bytes = fs::read(&file).unwrap();
        let found = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        assert!(!found, "the key is in {}", file.display());
    }
}

/// The single error of a failed run, with its hint; notices about retries do not count.
fn sentence(run: &Run) -> String {
    let lines =
        |label: &str| -> Vec<&str> { run.err.lines().filter_map(|line| line.strip_prefix(label)).collect() };
    let (errors, hints) = (lines("error: "), lines("hint: "));
    assert!(errors.len() == 1 && hints.len() <= 1, "one error: {run:?}");
    [errors, hints].concat().join("; ")
}

/// Checks that the task failed with exit code 1, and that its output and the session contain `words`.
fn check_model_failure(world: &World, run: &Run, words: &[&str]) {
    check_clean(world, run);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    let said = sentence(run);
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(said.contains("openai"), "the message names the provider: {said}");
    let events = world.exported(&world.only_session());
    let last = &events.last().unwrap()["event"];
    assert_eq!((&last["type"], &last["reason"]), (&json!("turn_ended"), &json!("failed")), "{last}");
    assert!(said.ends_with(last["error"].as_str().unwrap()), "the log contains the same error: {last}");
}

/// Runs a task against a failing server and checks the error.
fn fails(server: &RawServer, words: &[&str]) -> Run {
    let world = world(&server.url());
    let run = world.finish(&["exec", "go"]);
    check_model_failure(&world, &run, words);
    run
}

#[test]
fn a_model_server_that_hangs_before_answering_times_out() {
    let server = RawServer::start(|_, _, stream| hang(stream));
    fails(&server, &["for 1 s (tried 2 times)", "timeout_s"]);
    assert_eq!(server.bodies().len(), 2, "the request was retried once");
}

#[test]
fn a_model_server_that_hangs_midway_times_out() {
    let server = RawServer::start(|_, _, stream| {
        let begun = event(&json!({ "role": "assistant", "content": "I was about to" }), None);
        let _ = stream.write_all(format!("{EVENTS_HEAD}{begun}").as_bytes());
        hang(stream);
    });
    fails(&server, &["for 1 s (tried 2 times)", "timeout_s"]);
}

#[test]
fn a_broken_model_stream_is_reported() {
    let begun = event(&json!({ "role": "assistant", "content": "I was about to" }), None);
    let server = RawServer::replies(vec![format!("{EVENTS_HEAD}{begun}").into_bytes()]);
    fails(&server, &["reply", "tried"]);
    assert!(server.bodies().len() > 1, "the request was retried");
}

#[test]
fn a_stream_broken_once_is_retried_and_its_partial_answer_discarded() {
    let begun = event(&json!({ "role": "assistant", "content": "Half of an" }), None);
    let server =
        RawServer::replies(vec![format!("{EVENTS_HEAD}{begun}").into_bytes(), streamed("A whole answer.")]);
    let world = world(&server.url());
    let run = world.finish(&["exec", "go"]);
    check_clean(&world, &run);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "A whole answer.\n"), "{run:?}");
    assert!(run.err.contains("retrying in "), "a retry is shown: {run:?}");
}

#[test]
fn a_connection_reset_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            // Closing a connection with unread data makes the system reset it.
            let _ = stream.read(&mut [0; 1]);
        }
    });
    let world = world(&url);
    let run = world.finish(&["exec", "go"]);
    check_model_failure(&world, &run, &["reset", "OPENAI__BASE_URL"]);
}

#[test]
fn an_unreachable_model_server_is_reported() {
    // A port that was free a moment ago.
    let url = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let world = world(&url);
    let run = world.finish(&["exec", "go"]);
    check_model_failure(&world, &run, &["refused", "OPENAI__BASE_URL"]);
}

#[test]
fn garbage_from_a_model_server_is_reported() {
    let garbage: Vec<u8> =
        (0..20_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let framed = [EVENTS_HEAD.as_bytes(), &garbage].concat();
    let words = format!("{EVENTS_HEAD}data: this is \u{1b}[31mno\u{1b}[0m JSON\n\n").into_bytes();
    let half = http("200 OK", "application/json", "[1, 2");
    std::thread::scope(|scope| {
        for (reply, said) in [
            (garbage, &["OPENAI__BASE_URL"][..]),
            (framed, &["OPENAI__BASE_URL"]),
            (words, &["JSON", "OPENAI__BASE_URL"]),
            (half, &["OPENAI__BASE_URL"]),
        ] {
            scope.spawn(move || fails(&RawServer::replies(vec![reply]), said));
        }
    });
}

#[test]
fn a_web_page_from_a_model_server_is_reported() {
    let page = "<!DOCTYPE html>\n<html><body><h1>Welcome to the proxy</h1></body></html>";
    fails(&RawServer::replies(vec![http("200 OK", "text/html", page)]), &["web page", "OPENAI__BASE_URL"]);
    fails(&RawServer::replies(vec![http("404 Not Found", "text/html", page)]), &["404"]);
}

#[test]
fn a_ten_megabyte_line_is_accepted_and_an_endless_one_is_not() {
    let long = "long ".repeat(2_000_000);
    let server = RawServer::replies(vec![streamed(&long)]);
    let taken = world(&server.url());
    let run = taken.finish(&["exec", "go"]);
    check_clean(&taken, &run);
    assert_eq!((run.code, run.out.len()), (Some(0), long.len()), "{}", run.err);
    let server = RawServer::start(|_, _, stream| {
        let _ = stream.write_all(format!("{EVENTS_HEAD}data: ").as_bytes());
        while stream.write_all(&[b'x'; 64 * 1024]).is_ok() {}
    });
    fails(&server, &[]);
}

#[test]
fn a_model_server_that_keeps_the_connection_open_does_not_block() {
    let server = RawServer::start(|_, _, stream| {
        let _ = stream.write_all(&streamed("All said."));
        hang(stream);
    });
    let world = World::with_openai(&server.url());
    let run = world.start(&["exec", "go"]).finish_within(Duration::from_secs(15));
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(0), "All said.\n", ""), "{run:?}");
}

/// An OpenAI error that repeats the key, as some servers do.
fn refusal(status: &str, message: &str) -> Vec<u8> {
    let body =
        json!({ "error": { "message": format!("{message} (key {CANARY})"), "type": "error", "code": null } });
    http(status, "application/json", &body.to_string())
}

#[test]
fn rejections_show_the_servers_message_without_the_key() {
    for (status, words) in [
        ("401 Unauthorized", "OPENAI_API_KEY"),
        ("403 Forbidden", "key"),
        ("404 Not Found", "OPENAI__BASE_URL"),
        ("400 Bad Request", "openai"),
    ] {
        let server = RawServer::replies(vec![refusal(status, "So it is")]);
        fails(&server, &["So it is", &status[..3], words]);
        assert_eq!(server.bodies().len(), 1, "{status} is not retried");
    }
}

#[test]
fn a_failing_model_server_is_retried_a_limited_number_of_times() {
    std::thread::scope(|scope| {
        for (status, words) in [("500 Internal Server Error", "tried"), ("429 Too Many Requests", "wait")] {
            scope.spawn(move || {
                let server = RawServer::replies(vec![refusal(status, "Not now")]);
                let run = fails(&server, &["Not now", &status[..3], words]);
                assert!(run.err.contains("retrying in "), "{run:?}");
                assert!((2..=5).contains(&server.bodies().len()), "{}", server.bodies().len());
            });
        }
        scope.spawn(|| {
            let server =
                RawServer::replies(vec![refusal("503 Service Unavailable", "Soon"), streamed("Here I am.")]);
            let world = world(&server.url());
            let run = world.finish(&["exec", "go"]);
            check_clean(&world, &run);
            assert_eq!((run.code, run.out.as_str()), (Some(0), "Here I am.\n"), "{run:?}");
        });
        scope.spawn(|| {
            let body = r#"{"error":{"message":"Come back tomorrow"}}"#;
            let reply = format!(
                "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 86400\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let server = RawServer::replies(vec![reply.into_bytes()]);
            fails(&server, &["Come back tomorrow", "86400 s"]);
            assert_eq!(server.bodies().len(), 1);
        });
    });
}

#[test]
fn a_redirect_does_not_forward_the_key() {
    let other = RawServer::start(|_, head, stream| {
        assert!(!head.contains(CANARY));
        let _ = stream.write_all(&streamed("I am another server."));
    });
    let reply = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: {}/v1/chat/completions\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        other.url()
    );
    fails(&RawServer::replies(vec![reply.into_bytes()]), &["307", "OPENAI__BASE_URL"]);
    assert_eq!(other.bodies().len(), 0);
}

#[test]
fn a_failed_session_can_continue() {
    let server = RawServer::replies(vec![refusal("401 Unauthorized", "No"), streamed("Now it works.")]);
    let world = world(&server.url());
    assert_eq!(world.finish(&["exec", "the first"]).code, Some(1));
    let run = world.finish(&["exec", "the second", "--resume"]);
    check_clean(&world, &run);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Now it works.\n"), "{run:?}");
    assert!(server.bodies()[1].to_string().contains("the first"), "its history is kept");
}

// Keys.

#[test]
fn the_key_reaches_no_command_model_or_disk() {
    // The script is older than the session, so its text is not judged.
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/scripts/read_parent.sh");
    let mock = Mock::start(&[(
        "go",
        vec![
            bash("env; printenv"),
            bash(&format!("sh {script}")),
            // More output than a model receives: all of it is stored in a file.
            bash(&format!("sh {script} often")),
            call("read_file", json!({ "path": "leak.txt" })),
            say("I looked around."),
        ],
    )]);
    let world = world(&mock.url());
    // Our own copy, which must not be found on the disk afterwards.
    let leak = world.work().join("leak.txt");
    fs::write(&leak, format!("the key is {CANARY}, they say\n")).unwrap();
    let run = world.finish(&["exec", "--approve", "auto", "--json", "go"]);
    fs::remove_file(&leak).unwrap();
    assert_eq!(run.code, Some(0), "{run:?}");
    check_clean(&world, &run);
    let finished: Vec<Value> =
        lines_of_json(&run.out).into_iter().filter(|message| message["type"] == "tool.finished").collect();
    assert_eq!(finished.len(), 4);
    assert!(finished[0]["output"].as_str().unwrap().contains("HOME="), "the command did run");
    assert!(finished[2]["artefact"].is_string(), "{}", finished[2]);
    for request in mock.requests() {
        assert_eq!(request.header("authorization"), Some(&*format!("Bearer {CANARY}")));
        assert!(!request.body.to_string().contains(CANARY), "the model was sent the key");
    }
    for line in [&["config", "show"][..], &["doctor"], &["sessions", "show", &world.only_session()]] {
        let run = world.finish(line);
        check_clean(&world, &run);
    }
}

// Disks.

/// Runs a task in a world with unusable storage; no model is called.
fn storage_fails(world: &World, words: &[&str]) {
    let mock_asked = world.finish(&["exec", "go"]);
    check_clean(world, &mock_asked);
    assert_eq!((mock_asked.code, mock_asked.out.as_str()), (Some(1), ""), "{mock_asked:?}");
    let said = sentence(&mock_asked);
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
    for line in [&["sessions", "list"][..], &["exec", "--resume", "go on"]] {
        let run = world.finish(line);
        assert_eq!((run.code, run.err.matches("error: ").count()), (Some(1), 1), "{line:?}: {run:?}");
    }
    let mut chat = world.start_with_input(&["chat", "--plain"]);
    chat.type_text("go\n");
    chat.end_input();
    let run = chat.finish();
    check_clean(world, &run);
    assert_eq!(run.code, Some(1), "{run:?}");
}

#[test]
fn an_unusable_data_directory_is_reported() {
    let mock = Mock::start(&[("go", vec![say("never said")])]);
    let file_in_its_place =
        world(&mock.url()).file("data", "a file").variable("XDG_DATA_HOME", "/dev/null/data");
    storage_fails(&file_in_its_place, &["/dev/null/data", "XDG_DATA_HOME"]);
    let at = file_in_its_place.home().join("data");
    let file_in_its_place = file_in_its_place.variable("XDG_DATA_HOME", at.to_str().unwrap());
    storage_fails(&file_in_its_place, &["data", "XDG_DATA_HOME"]);
    let no_such_place = world(&mock.url()).variable("XDG_DATA_HOME", "/proc/no-such-place");
    storage_fails(&no_such_place, &["/proc/no-such-place", "XDG_DATA_HOME"]);
    let a_folder = world(&mock.url()).file(".local/share/sysop/sysop.db/inside", "x");
    storage_fails(&a_folder, &["sysop.db", "is a directory"]);
    assert_eq!(mock.requests().len(), 0, "the model was called for a task that could not be stored");
}

#[test]
fn a_damaged_database_is_reported_and_left_unchanged() {
    let mock = Mock::start(&[("go", vec![say("never said")])]);
    for content in
        ["this is no database, whatever its name says ".repeat(500), "SQLite format 3\0".repeat(500)]
    {
        let world = world(&mock.url()).file(".local/share/sysop/sysop.db", &content);
        storage_fails(&world, &["sysop.db", "damaged", "move it away"]);
        assert_eq!(
            fs::read_to_string(world.data().join("sysop.db")).unwrap(),
            content,
            "the file was changed"
        );
    }
    assert_eq!(mock.requests().len(), 0);
}

/// A small tmpfs; unmounted on drop.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=512k,mode=0700", "sysop-test"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A task that fills the log: each step prints 40 KB.
fn talkative() -> Mock {
    let steps = (0..18).map(|step| bash(&format!("seq -f 'step {step} line %g of many' 1 450"))).collect();
    Mock::start(&[("go", steps)])
}

#[test]
fn a_full_disk_is_reported() {
    let mock = talkative();
    // A file size limit stands in for a full disk where mounting is not possible; this variant runs everywhere.
    let limited = world(&mock.url());
    let script = "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_sysop"), "exec", "--approve", "auto", "go"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", limited.home())
        .envs(limited.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(limited.work())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    check_full(&limited, &Run::of(output));

    let roomy = world(&mock.url());
    let place = roomy.home().join("small");
    let Some(disk) = SmallDisk::mount(&place) else { return };
    let small = roomy.variable("XDG_DATA_HOME", place.to_str().unwrap());
    let run = small.finish(&["exec", "--approve", "auto", "go"]);
    check_clean(&small, &run);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    assert!(sentence(&run).contains("is full"), "{run:?}");
    let kept = small.exported(&small.only_session());
    assert!(kept.len() >= 5, "printed messages are stored: {}", kept.len());
    drop(disk);
}

fn check_full(world: &World, run: &Run) {
    check_clean(world, run);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    assert!(sentence(run).contains("sysop.db"), "{run:?}");
    let kept = world.exported(&world.only_session());
    let seqs: Vec<u64> = kept.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=kept.len() as u64).collect::<Vec<_>>());
    assert!(kept.len() >= 5, "printed messages are stored: {}", kept.len());
    // With free space, the session continues.
    let run = world.finish(&["exec", "--resume", "please continue"]);
    assert_eq!(run.code, Some(0), "{run:?}");
}

#[test]
fn unwritable_output_is_reported() {
    let mock = Mock::start(&[("go", vec![say("An answer.")])]);
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let start = |world: &World, json: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sysop"));
        command
            .args(["exec", "go"])
            .args(json)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", world.home())
            .envs(world.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(world.work())
            .stdin(Stdio::null());
        command
    };
    for json in [&[][..], &["--json"]] {
        let world = world(&mock.url());
        let run = Run::of(start(&world, json).stdout(full()).output().unwrap());
        check_clean(&world, &run);
        assert_eq!(run.code, Some(1), "an answer that cannot be written is a failure: {run:?}");
        assert!(sentence(&run).contains("standard output"), "{run:?}");
        let run = Run::of(start(&world, json).stderr(full()).output().unwrap());
        assert_eq!(run.code, Some(0), "progress messages may be lost: {run:?}");
        // A closed pipe is not reported.
        let mut child = start(&world, json).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let run = Run::of(child.wait_with_output().unwrap());
        assert_eq!((run.code, run.err.as_str()), (Some(141), ""), "{run:?}");
    }
}

// Files and bytes.

#[test]
fn an_unreadable_config_is_reported() {
    let broken =
        world("http://127.0.0.1:1").file(".config/sysop/config.toml", "max_iterations = 3\nmodel = \n");
    let run = broken.finish(&["exec", "go"]);
    check_clean(&broken, &run);
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
    assert!(sentence(&run).contains("config.toml:2"), "{run:?}");
    let folder = world("http://127.0.0.1:1").file(".config/sysop/config.toml/inside", "x");
    let run = folder.finish(&["exec", "go"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(sentence(&run).contains("config.toml"), "{run:?}");
    let bytes = world("http://127.0.0.1:1").file(".config/sysop/config.toml", "");
    fs::write(bytes.home().join(".config/sysop/config.toml"), b"model = 'openai/m'\n# \xff\xfe\n").unwrap();
    let run = bytes.finish(&["exec", "go"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(sentence(&run).contains("config.toml") && sentence(&run).contains("UTF-8"), "{run:?}");
    let missing = world("http://127.0.0.1:1");
    let run = missing.finish(&["exec", "go", "--config", "nowhere.toml"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(sentence(&run).contains("nowhere.toml"), "{run:?}");
}

#[test]
fn a_config_mistake_causes_a_warning_and_the_rest_applies() {
    let mock = Mock::start(&[("go", vec![say("An answer.")])]);
    let world = world(&mock.url()).file(
        ".config/sysop/config.toml",
        "max_iteration = 3\nmax_output_lines = 'many'\nmax_history_messages = 7\n",
    );
    let run = world.finish(&["exec", "go"]);
    check_clean(&world, &run);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "An answer.\n"), "{run:?}");
    assert!(run.err.contains("config.toml:1") && run.err.contains("config.toml:2"), "{run:?}");
    assert!(world.finish(&["config", "show"]).out.contains("max_history_messages = 7"));
}

#[test]
fn invalid_utf8_is_handled() {
    let mock = Mock::start(&[(
        "go",
        vec![
            call("read_file", json!({ "path": "latin.txt" })),
            call("read_file", json!({ "path": "binary" })),
            bash("printf 'a\\377\\376b\\033]0;title\\007\\033[2Jc\\000d\\n'; cat latin.txt"),
            call("edit_file", json!({ "path": "latin.txt", "old_string": "plain", "new_string": "simple" })),
            bash("printf '\\360\\237' ; printf '\\230\\200\\n'"),
            say("Read \u{1b}[31mall\u{1b}[0m."),
        ],
    )]);
    let world = world(&mock.url()).file("work/latin.txt", "").file("work/binary", "");
    let latin = b"caf\xe9 is plain\r\nna\xefve\r\n";
    fs::write(world.work().join("latin.txt"), latin).unwrap();
    fs::write(world.work().join("binary"), [0, 159, 146, 150, 255, 0]).unwrap();
    let run = world.finish(&["exec", "--approve", "auto", "go"]);
    check_clean(&world, &run);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Read all.\n"), "{run:?}");
    let after = fs::read(world.work().join("latin.txt")).unwrap();
    let edited = b"caf\xe9 is simple\r\nna\xefve\r\n";
    assert!(after == latin || after == edited, "other bytes were changed: {after:?}");
    let messages = mock.last_body()["messages"].to_string();
    assert!(messages.contains("\u{1F600}"), "a character split over two writes is complete: {messages}");
    assert!(!messages.contains("\\u001b"), "the model gets no control sequences: {messages}");
    let json = world.finish(&["exec", "--approve", "auto", "--json", "go"]);
    assert_eq!(json.code, Some(0), "{json:?}");
    assert!(lines_of_json(&json.out).len() > 10);
    for line in [&["sessions", "list"][..], &["sessions", "show", &world.session_ids()[0]]] {
        let run = world.finish(line);
        assert_eq!(run.code, Some(0), "{run:?}");
        check_clean(&world, &run);
    }
}

#[test]
fn a_non_utf8_environment_is_handled() {
    use std::os::unix::ffi::OsStrExt;
    let mock = Mock::start(&[("go", vec![bash("echo fine"), say("Done.")])]);
    let world = world(&mock.url());
    let output = Command::new(env!("CARGO_BIN_EXE_sysop"))
        .args(["exec", "--approve", "auto", "go"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", world.home())
        .env("ODD", std::ffi::OsStr::from_bytes(b"\xff\xfe"))
        .envs(world.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(world.work())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let run = Run::of(output);
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Done.\n"), "{run:?}");
    // A task that is not valid text cannot be sent to a model.
    let output = Command::new(env!("CARGO_BIN_EXE_sysop"))
        .arg("exec")
        .arg(std::ffi::OsStr::from_bytes(b"go \xff"))
        .env_clear()
        .env("HOME", world.home())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
