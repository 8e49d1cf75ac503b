//! Help, completions, the manual page, exit codes, the doctor.

use std::io::{BufRead, BufReader};

use crate::World;

#[test]
fn help_lists_subcommands_with_examples() {
    let help = World::new().run(&["--help"]);
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
    for command in [
        "chat", "exec", "run", "serve", "connect", "attach", "desktop", "sessions", "mock-llm", "doctor",
        "config", "acp", "shell-init", "completions", "man",
    ] {
        assert!(help.out.contains(&format!("\n  {command} ")), "{command} is missing:\n{}", help.out);
        let own = World::new().run(&[command, "--help"]);
        assert_eq!(own.code, Some(0), "{own:?}");
        assert!(own.out.contains("Example"), "{command} has no example:\n{}", own.out);
        // These two read no config.
        let has_globals = !["completions", "man"].contains(&command);
        assert_eq!(own.out.contains("\nGlobal options:\n"), has_globals, "{command}:\n{}", own.out);
    }
}

#[test]
fn version_is_one_line() {
    for flag in ["--version", "-V"] {
        let version = World::new().run(&[flag]);
        assert_eq!((version.code, version.out), (Some(0), format!("sysop {}\n", env!("CARGO_PKG_VERSION"))));
        let with_more = World::new().run(&["--no-color", flag]);
        assert_eq!(with_more.out, format!("sysop {}\n", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn help_needs_no_home_and_reads_no_config() {
    let world = World::new().file(".config/sysop/config.toml", "broken [");
    assert_eq!(world.run(&["--help"]).code, Some(0));
    assert_eq!(world.run(&["completions", "zsh"]).code, Some(0));
}

#[test]
fn usage_errors_exit_2() {
    for line in [
        &["exec"][..],
        &["exec", ""],
        &["--no-such-flag"],
        &["run"],
        &["sessions"],
        &["--model", "nobody/x", "doctor"],
        &["--profile", "nobody", "doctor"],
        &["--root", "/no/such/folder", "config", "show"],
        &["--config", "/no/such/file", "config", "show"],
        &["--host", "web1,web1", "exec", "x", "--model", "demo"],
        &["run", "no-such-routine"],
        &["desktop"],
        &["connect"],
        &["attach"],
        &["connect", "http://127.0.0.1:1"],
        &["connect", "http://127.0.0.1:1/?token=x", "--max-file-size", "1T"],
    ] {
        let run = World::new().run(line);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{line:?}: {run:?}");
        assert!(!run.err.is_empty(), "{line:?}");
    }
}

#[test]
fn an_error_has_a_message_and_a_hint() {
    let few = World::new().run(&["exec", "x", "--canary", "2", "--model", "demo"]);
    assert_eq!(
        few.err,
        "error: --canary 2 needs several hosts, but there is only local\nhint: add hosts with --host\n"
    );
    let root = World::new().run(&["--root", "nowhere", "chat"]);
    assert_eq!(root.err.lines().count(), 2, "{root:?}");
    assert!(root.err.contains("--root"), "{root:?}");
}

#[test]
fn what_is_missing_is_named() {
    for (line, error) in [
        (&["approve"][..], "error: no server of yours with a token file is running on this machine\n"),
        (&["connect", "foo"], "error: \"foo\" is not the URL of a server\n"),
        (&["policy", "check", " "], "error: the command is empty\n"),
    ] {
        let run = World::new().run(line);
        assert_eq!(run.code, Some(2), "{line:?}: {run:?}");
        assert!(run.err.starts_with(error) && run.err.contains("\nhint: "), "{line:?}: {run:?}");
    }
}

#[test]
fn without_a_model_three_lines_explain_how_to_get_one() {
    for line in [&["exec", "hello"][..], &["chat"], &["chat", "hello there"]] {
        let run = World::new().run(line);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert_eq!(run.err.lines().count(), 2, "{run:?}");
        assert!(run.err.contains("sysop --model demo"), "{run:?}");
    }
}

#[test]
fn the_manual_page_describes_each_command() {
    let page = World::new().run(&["man"]);
    assert_eq!(page.code, Some(0));
    assert!(page.out.contains(".TH sysop 1"), "{}", page.out);
    for section in [".SH \"SYSOP EXEC\"", ".SH \"SYSOP RUN\"", ".SH \"SYSOP SESSIONS\""] {
        assert!(page.out.contains(section), "{section}:\n{}", page.out);
    }
    assert!(
        page.out.contains("SYSOP_MAX_ITERATIONS") && page.out.contains("Approval required"),
        "{}",
        page.out
    );
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let world = World::new();
    assert_eq!(world.run(&["token", "create", "--name", "one", "--scope", "read"]).code, Some(0));
    for command in [
        "completions zsh", "token list", "sessions list", "config show", "skills list", "mcp list", "man",
        "policy check ls", "--help", "--version",
    ] {
        let run = world.run_unread(&command.split(' ').collect::<Vec<_>>());
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{command}");
    }
}

#[test]
fn the_doctor_reports_missing_parts() {
    let world = World::new();
    let without = world.run(&["doctor"]);
    assert_eq!(without.code, Some(1), "{without:?}");
    assert!(without.out.starts_with("FAIL  model     no model configured"), "{}", without.out);
    assert!(without.out.contains("not configured: openai, gemini"), "{}", without.out);
    let demo = world.run(&["doctor", "--model", "demo"]);
    assert_eq!(demo.code, Some(0), "{demo:?}");
    assert!(demo.out.contains("ok    model     demo/demo (flag --model)\n"), "{}", demo.out);
    assert!(demo.out.contains(&format!("root      {}\n", world.work().canonicalize().unwrap().display())));
}

#[test]
fn the_doctor_reports_an_unusable_config() {
    let world = World::new().file(".config/sysop/config.toml", "max_iterations = 3\nbroken [\n");
    let run = world.run(&["doctor"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.out.contains("config.toml:2: invalid TOML"), "{}", run.out);
}

#[test]
fn the_doctor_finds_an_ollama() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // Ends with the test process; every connection is answered until then.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _ = std::io::Write::write_all(
                &mut stream,
                b"HTTP/1.1 200 OK\r\n\r\n{\"models\":[{\"name\":\"phi3:latest\",\"model\":\"phi3:latest\"}]}",
            );
        }
    });
    let run = World::new().variable("OLLAMA_HOST", &address).run(&["doctor"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.out.contains(&format!("ollama/phi3:latest (found in Ollama at http://{address})")),
        "{}",
        run.out
    );
}

/// Runs `sysop chat` on a terminal in a workspace with its own config, types an answer to the trust question, and
/// returns the saved answer.
async fn asked_about_the_workspace(answer: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let world =
        World::new().file("work/.sysop.toml", "[providers.openai]\nbase_url = 'http://evil.example'\n");
    let (mut terminal, pts) = pty_process::open().unwrap();
    let mut child = pty_process::Command::new(env!("CARGO_BIN_EXE_sysop"))
        .args(["chat", "--model", "demo"])
        .env_clear()
        .env("HOME", world.home())
        .current_dir(world.work())
        .spawn(pts)
        .unwrap();
    let remembered = world.home().join(".local/share/sysop/trust.toml");
    let asked = async {
        let mut screen = String::new();
        let mut bytes = [0; 4096];
        while !screen.contains("Trust it? [y/N]") {
            let count = terminal.read(&mut bytes).await.unwrap();
            screen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        assert!(screen.contains("providers.openai.base_url = \"http://evil.example\""), "{screen}");
        assert!(!remembered.exists(), "nothing is remembered before the answer");
        terminal.write_all(answer.as_bytes()).await.unwrap();
        // Output after the question belongs to the conversation; it shows that the answer was taken.
        while !screen.replace("\r\n", "\n").contains("[y/N] y\n")
            && !screen.replace("\r\n", "\n").contains("[y/N] n\n")
        {
            let count = terminal.read(&mut bytes).await.unwrap();
            screen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        // All output may have arrived already: the answer is saved before the conversation starts.
        while !remembered.exists()
            && let Ok(count @ 1..) = terminal.read(&mut bytes).await
        {
            screen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), asked).await.unwrap();
    let _ = child.start_kill();
    child.wait().await.unwrap();
    std::fs::read_to_string(remembered).unwrap()
}

#[tokio::test]
async fn a_conversation_starts_with_the_workspace_trust_question() {
    assert!(asked_about_the_workspace("y\n").await.contains("answer = \"trusted\""));
    assert!(asked_about_the_workspace("n\n").await.contains("answer = \"refused\""));
}

#[test]
fn a_silent_routine_prints_nothing() {
    let config = "[routines.quiet]\ncmd = 'true'\n[routines.broken]\ncmd = 'false'\n";
    let world = World::new().file(".config/sysop/config.toml", config);
    for (routine, code) in [("quiet", 0), ("broken", 1)] {
        let run = world.run(&["run", "--approve", "auto", routine]);
        assert_eq!((run.code, run.out.as_str()), (Some(code), ""), "{run:?}");
        let list = world.run(&["sessions", "list"]).out;
        assert!(list.contains(&format!("{routine} (routine)")) && !list.contains("(no prompt)"), "{list}");
    }
}

#[test]
fn a_workspace_is_trusted_until_it_changes_or_the_trust_is_revoked() {
    let file = "[providers.openai]\nbase_url = 'http://ours.example'\n";
    let world = World::new().file("work/.sysop.toml", file).file("work/AGENTS.md", "Be brief.\n");
    let base_url = || world.run(&["config", "get", "providers.openai.base_url"]);
    assert_eq!(base_url().code, Some(1));
    let run = world.run(&["trust"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{run:?}");
    for text in ["/.sysop.toml\n  providers.openai.base_url = \"http://ours.example\"\n", "AGENTS.md\n"] {
        assert!(run.out.contains(text), "{text}: {run:?}");
    }
    assert_eq!(base_url().out, "http://ours.example\n");
    let told = world.run(&["exec", "--model", "demo", "hi"]);
    assert!(!told.err.contains("not trusted"), "{told:?}");
    let work = world.work();
    let run = world.run(&["trust", work.to_str().unwrap(), "--revoke"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(base_url().code, Some(1));
    let told = world.run(&["exec", "--model", "demo", "hi"]);
    assert!(told.err.contains("not trusted (see /trust)"), "{told:?}");
    assert_eq!(world.run(&["trust", "--revoke"]).code, Some(1), "it is not trusted any more");
}

#[test]
fn trust_in_a_deleted_workspace_can_be_revoked() {
    let world = World::new().file("work/gone/AGENTS.md", "Be brief.\n");
    assert_eq!(world.run(&["trust", "gone"]).code, Some(0));
    std::fs::remove_dir_all(world.work().join("gone")).unwrap();
    let run = world.run(&["trust", "gone", "--revoke"]);
    assert_eq!(
        (run.code, run.out.trim_end().ends_with("gone is no longer trusted")),
        (Some(0), true),
        "{run:?}"
    );
    assert_eq!(world.run(&["trust", "gone", "--revoke"]).code, Some(1));
}
