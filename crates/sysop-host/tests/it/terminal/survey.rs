//! Tests of surveys of the terminal, with real shells.

use serde_json::{Value, json};
use sysop_core::id::CallId;
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_core::policy::{Dialect, Resolution, Survey, TerminalFocus};
use sysop_driver::port::{CancellationToken, DeltaSink, Host};

use super::rig::{Rig, Shell};

fn call(tool: &str, arguments: Value) -> ToolCall {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    ToolCall {
        id: CallId::new("surveyed"),
        wire_id: None,
        name: tool.to_owned(),
        arguments: Arguments::Object(arguments),
    }
}

async fn survey(rig: &Rig, tool: &str, arguments: Value) -> Survey {
    rig.host.survey(&call(tool, arguments)).await
}

/// Surveys a call, runs `happens`, and then runs the call.
async fn after(rig: &Rig, call: ToolCall, happens: &str) -> Outcome {
    rig.host.survey(&call).await;
    if !happens.is_empty() {
        rig.run(happens).await;
    }
    rig.host.run(call, DeltaSink::none(), CancellationToken::new()).await
}

async fn of_command(rig: &Rig) -> Survey {
    survey(rig, "run_command", json!({"command": "ls", "reasoning": "a test"})).await
}

async fn focus(rig: &Rig) -> TerminalFocus {
    survey(rig, "send_keys", json!({"keys": "a", "reasoning": "a test"})).await.terminal
}

fn real(path: &std::path::Path) -> Option<String> {
    Some(path.canonicalize().unwrap().to_str().unwrap().to_owned())
}

const SHELLS: [(Shell, Dialect); 6] = [
    (Shell::Bash, Dialect::Bash),
    (Shell::Zsh, Dialect::Zsh),
    // Commands run in a separate bash.
    (Shell::Fish, Dialect::Bash),
    (Shell::Dash, Dialect::Sh),
    (Shell::Ash, Dialect::Sh),
    // Commands run in a separate sh.
    (Shell::Tcsh, Dialect::Sh),
];

#[tokio::test]
async fn the_shell_and_its_directory_are_known_before_and_after_cd() {
    for (shell, dialect) in SHELLS {
        let rig = Rig::new(shell);
        let told = of_command(&rig).await;
        assert_eq!((told.context.dialect, told.resolution), (dialect, Resolution::Host), "{shell:?}");
        assert!(!told.context.own_shell, "{shell:?} goes on after the command");
        assert_eq!(told.context.folder, real(&rig.root()), "{shell:?}");
        std::fs::create_dir(rig.root().join("ä b;c")).unwrap();
        std::os::unix::fs::symlink("ä b;c", rig.root().join("link")).unwrap();
        rig.run("cd link").await;
        let told = of_command(&rig).await;
        assert_eq!(told.context.folder, real(&rig.root().join("link")), "{shell:?}");
        assert_eq!(told.context.root, real(&rig.root()), "{shell:?}");
        // Changing the variables does not change the directory.
        rig.run("PWD=/; OLDPWD=/").await;
        assert_eq!(of_command(&rig).await.context.folder, real(&rig.root().join("link")), "{shell:?}");
    }
}

#[tokio::test]
async fn a_startup_file_chooses_directory_and_home() {
    let rig = Rig::with_rc(Shell::Bash, "cd /usr; HOME=/opt");
    let context = of_command(&rig).await.context;
    assert_eq!((context.folder.as_deref(), context.home.as_deref()), (Some("/usr"), Some("/opt")));
    rig.run("HOME=/srv").await;
    assert_eq!(of_command(&rig).await.context.home.as_deref(), Some("/srv"));
}

#[tokio::test]
async fn a_program_in_the_terminal_is_the_reason_why_nothing_is_known_of_a_command() {
    let rig = Rig::new(Shell::Bash);
    assert_eq!(of_command(&rig).await.incomplete, None);
    rig.run_for("cat", 1).await;
    let told = of_command(&rig).await;
    let why = "a program runs in the terminal; the command will not run until it ends";
    assert_eq!((told.context.dialect, told.incomplete.as_deref()), (Dialect::Unknown, Some(why)));
    assert!(rig.run("ls").await.output.contains("`exit` for a shell"));
}

#[tokio::test]
async fn an_inner_shell_reports_its_own_directory() {
    let rig = Rig::new(Shell::Bash);
    rig.run("cd /usr; dash").await;
    let told = of_command(&rig).await;
    assert_eq!((told.context.dialect, told.context.folder.as_deref()), (Dialect::Sh, Some("/usr")));
    rig.run("cd /etc; fish -N").await;
    let told = of_command(&rig).await;
    assert_eq!((told.context.dialect, told.context.folder.as_deref()), (Dialect::Sh, Some("/etc")));
    let keys = survey(&rig, "send_keys", json!({"keys": "a", "reasoning": "a test"})).await;
    assert_eq!(keys.context.dialect, Dialect::Fish);
}

#[tokio::test]
async fn the_text_at_the_cursor_is_surveyed() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Dash, Shell::Ash] {
        let rig = Rig::new(shell);
        let at = |line: &str, at_end| TerminalFocus::Prompt { line: line.to_owned(), at_end };
        assert_eq!(focus(&rig).await, at("", true), "no {shell:?} yet");
        rig.output("echo a").await;
        assert_eq!(focus(&rig).await, at("", true), "{shell:?}");
        rig.keys_until("\"rm -rf\" Space", |text| text.contains("rm -rf")).await;
        assert_eq!(focus(&rig).await, at("rm -rf ", true), "{shell:?}");
        if shell != Shell::Dash {
            rig.keys("Left Left").await;
            assert_eq!(focus(&rig).await, at("rm -r", false), "{shell:?}");
        }
        rig.keys("Ctrl+C").await;
        let outcome = rig.run_for("sleep 1000", 1).await;
        assert!(outcome.output.contains("still running"), "{outcome:?}");
        assert_eq!(focus(&rig).await, TerminalFocus::Program { name: "sleep".to_owned() }, "{shell:?}");
        rig.keys("Ctrl+C").await;
        rig.run("sh -c 'printf \"\\033[?1049h\"; exec cat'").await;
        assert_eq!(focus(&rig).await, TerminalFocus::FullScreen, "{shell:?}");
    }
}

#[tokio::test]
async fn no_shell_is_reported_while_a_program_runs() {
    let rig = Rig::new(Shell::Bash);
    rig.run_for("sleep 1000", 1).await;
    assert_eq!(of_command(&rig).await.context.dialect, Dialect::Unknown);
}

#[tokio::test]
async fn read_only_git_runs_no_program_and_leaves_nothing() {
    for (shell, _) in SHELLS {
        let rig = Rig::new(shell);
        rig.run("git init -q; git config core.fsmonitor 'touch ran; false'; touch a").await;
        let outcome = rig.run("git status").await;
        assert!(outcome.output.contains("No commits yet"), "{shell:?}: {outcome:?}");
        assert!(!rig.root().join("ran").exists(), "{shell:?}");
        let kept = rig.run("env").await.output;
        assert!(!kept.contains("GIT_CONFIG_"), "{shell:?}: {kept}");
        rig.run("git add a").await;
        assert!(rig.root().join("ran").exists(), "{shell:?}");
    }
}

#[tokio::test]
async fn a_command_does_not_run_in_another_directory_than_judged() {
    for (shell, _) in SHELLS {
        let rig = Rig::new(shell);
        let touch = || call("run_command", json!({"command": "touch made", "reasoning": "a test"}));
        std::fs::create_dir(rig.root().join("sub")).unwrap();
        let outcome = after(&rig, touch(), "cd sub").await;
        assert!(outcome.output.contains("the shell changed its directory"), "{shell:?}: {outcome:?}");
        assert!(!rig.root().join("sub/made").exists(), "{shell:?}");
        let outcome = after(&rig, touch(), "").await;
        assert!(rig.root().join("sub/made").exists(), "{shell:?}: {outcome:?}");
    }
    let rig = Rig::new(Shell::Bash);
    let outcome =
        after(&rig, call("run_command", json!({"command": "touch made", "reasoning": "a test"})), "fish -N")
            .await;
    assert!(outcome.output.contains("another shell took over the terminal"), "{outcome:?}");
}

#[tokio::test]
async fn keys_are_not_sent_to_a_line_that_was_not_judged() {
    let rig = Rig::new(Shell::Bash);
    rig.output("echo a").await;
    let enter = || call("send_keys", json!({"keys": "Enter", "reasoning": "a test"}));
    rig.host.survey(&enter()).await;
    rig.keys_until("\"touch\" Space \"made\"", |text| text.contains("touch made")).await;
    let outcome = rig.host.run(enter(), DeltaSink::none(), CancellationToken::new()).await;
    assert!(outcome.output.contains("the text at the cursor changed"), "{outcome:?}");
    assert!(!rig.root().join("made").exists());
}

#[tokio::test]
async fn a_continued_line_is_unknown() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Dash, Shell::Ash] {
        let rig = Rig::new(shell);
        rig.output("echo a").await;
        rig.keys("\"echo 'a\" Enter").await;
        assert_eq!(focus(&rig).await, TerminalFocus::Unknown, "{shell:?}");
        let seen = rig.keys("b").await;
        assert_eq!(focus(&rig).await, TerminalFocus::Unknown, "{shell:?}: {seen:?}");
        rig.keys("Ctrl+C").await;
        rig.keys("\"true &&\" Enter b").await;
        assert_eq!(focus(&rig).await, TerminalFocus::Unknown, "{shell:?}");
    }
}
