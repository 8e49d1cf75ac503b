//! Sessions with a log on disk, from the host through driver and REPL to the user: a program's password prompt, and the
//! bounds of `auto`.

use std::path::Path;
use std::sync::OnceLock;

use async_trait::async_trait;
use futures::stream::BoxStream;
use secrecy::ExposeSecret as _;
use serde_json::json;
use sysop_core::id::Seq;
use sysop_core::message::{ModelRef, ModelRequest, ToolCall};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{ApprovalMode, CommandContext, Survey};
use sysop_core::question::QuestionKind;
use sysop_core::spec::SessionSpec;
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_driver::port::{CancellationToken, DeltaSink, Host, ModelEvent, Provider};
use sysop_driver::prompter::{PromptReply as Given, PromptRequest, Prompter};
use sysop_driver::{Driver, Ports, Runtime, system_clock};
use sysop_store::SqliteStore;

use super::*;

/// The program; reads a password from its standard input.
const PROGRAM: &str =
    r#"read -r given; test "$given" = "geheim und lang" && echo let in || { echo kept out; exit 1; }"#;

/// Host whose commands need a password.
struct AskingHost {
    tools: Vec<ToolSpec>,
    people: OnceLock<Arc<dyn Prompter>>,
}

#[async_trait]
impl Host for AskingHost {
    fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    async fn survey(&self, _: &ToolCall) -> Survey {
        Survey::elsewhere(CommandContext::bash())
    }

    async fn run(&self, call: ToolCall, _sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        let asked = PromptRequest {
            kind: QuestionKind::Secret,
            from: "sudo on web1".into(),
            details: Vec::new(),
            prompt: "[sudo] password for joe: ".into(),
            call: Some(call.id),
        };
        let answer = tokio::select! {
            answer = self.people.get().expect("it was told of them").ask(asked) => answer,
            () = cancel.cancelled() => return Outcome::new(Status::Cancelled, ""),
        };
        let Given::Given { text, .. } = answer else {
            return Outcome::failed("sudo: no password was provided");
        };
        let mut child = tokio::process::Command::new("sh")
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(text.expose_secret().as_bytes()).await.unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        let status = if output.status.success() { Status::Ok } else { Status::Failed };
        let text = String::from_utf8(output.stdout).unwrap();
        Outcome { exit_code: output.status.code(), ..Outcome::new(status, text) }
    }

    fn set_prompter(&self, people: Arc<dyn Prompter>) {
        assert!(self.people.set(people).is_ok(), "the prompter is set once");
    }
}

/// Provider that is never called.
struct SilentProvider;

impl Provider for SilentProvider {
    fn stream(&self, _request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        panic!("no model is called");
    }
}

/// Returns a session whose host is an [`AskingHost`], with its log in `file`.
pub(super) fn session(file: &Path) -> AttachedSession {
    let tool = ToolSpec {
        name: "bash".into(),
        description: "".into(),
        parameters: json!({}).into(),
        effect: ToolEffect::Command,
    };
    let spec = SessionSpec {
        model: ModelRef::new("demo", "one"),
        system: String::new(),
        tools: vec![tool.clone()],
        approve: ApprovalMode::Ask,
        dangerous_patterns: Vec::new(),
        deny: Vec::new(),
        policy: Default::default(),
        max_iterations: 20,
        max_history_messages: 20,
        text_system: None,
        ledger_only: false,
        canary: None,
        models: Default::default(),
        budget: Default::default(),
        instructions: false,
        effort: None,
        max_output_tokens: None,
        temperature: None,
        host: "web1".into(),
        root: "/srv/app".into(),
        profile: "full".into(),
    };
    let store = Arc::new(SqliteStore::open(file).unwrap());
    let driver = Driver::new(Ports { store, clock: system_clock() });
    let host = Arc::new(AskingHost { tools: vec![tool], people: OnceLock::new() });
    let handle = driver.create_lazy(
        SessionId::new("s-1"),
        spec.clone(),
        Runtime { host, provider: Arc::new(SilentProvider), instructions: None, hooks: None },
    );
    AttachedSession { session: Arc::new(handle), last: Seq(0), spec: Arc::new(spec) }
}

#[tokio::test]
async fn a_password_reaches_the_program_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut person = Person::starts("driven", Some(&folder.path().join("history")));
    person.sees(PROMPT).await;
    person.types("!sudo id\r").await;
    person.sees("[sudo] password for joe:").await;
    person.sees("Esc: decline").await;
    person.types("geheim und lang\r").await;
    person.sees("│ let in").await;
    person.sees(PROMPT).await;
    person.types("!sudo id\r").await;
    person.sees("Esc: decline").await;
    person.types("geheim und falsch\r").await;
    person.sees("│ kept out").await;
    person.sees(PROMPT).await;
    person.types("!sudo id\r").await;
    person.sees("Esc: decline").await;
    person.types("geheim\u{1b}").await;
    person.sees("no password was provided").await;
    person.sees(PROMPT).await;
    // Leaving with an open question restores the terminal.
    person.types("!sudo id\r").await;
    person.sees("Esc: decline").await;
    person.signals(rustix::process::Signal::TERM);
    assert!(!person.seen.contains("geheim"), "{}", bare(&person.seen));
    assert_eq!(person.leaves().await, 143);
    let mut log = String::new();
    let entries = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    for file in entries.filter(|path| path.is_file()) {
        log.push_str(&String::from_utf8_lossy(&std::fs::read(file).unwrap()));
    }
    assert!(log.contains("[sudo] password for joe:"), "the log records that an answer was given");
    assert!(!log.contains("geheim"), "the log contains the answer");
}

#[tokio::test]
async fn the_first_command_of_a_session_shows_its_effect_before_the_next_prompt() {
    let (text, _) = plain_form("driven plain", "/model phi3\n/exit\n").await;
    assert!(text.contains("You: /model phi3\n(model set to demo/phi3)\n\nYou: /exit\n"), "{text}");
}

#[tokio::test]
async fn the_prompt_counts_down_the_bounds_of_auto_and_follows_the_mode() {
    let folder = tempfile::tempdir().unwrap();
    let mut person = Person::starts("driven", Some(&folder.path().join("history")));
    person.sees(PROMPT).await;
    person.types("/auto 3s, 9 commands\r").await;
    // No key is pressed: the label changes by itself.
    person.sees("auto (9 commands, 1s left)").await;
    person.sees("auto ended after 3s").await;
    person.sees(&format!("{PROMPT}› ")).await;
    person.types("\u{4}").await;
    assert_eq!(person.leaves().await, 0);
}
