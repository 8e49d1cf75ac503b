//! The REPL in a real terminal and through a pipe.
//!
//! The REPL uses the process's standard streams, so it runs in a process of its own: this test program with the test
//! below that acts as the binary. The file is long because of the screens that it shows.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use sysop_core::id::{SessionId, Timestamp};
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;
use sysop_driver::frontend::{NamedItem, Routine, SessionSelector};
use sysop_driver::port::SessionSummary;
use sysop_term::testing::painted_intruder as intruder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::fake_session::FakeSession;
use super::*;
use crate::exec;

mod answer_width;
mod approval_keys;
mod calls;
mod end_to_end;
mod line_keys;
mod pausing;
mod plain_form;
mod prompter;
mod type_ahead;

/// Maximum duration of any step.
const DEADLINE: Duration = Duration::from_secs(20);
const FORM: &str = "SYSOP_TEST_CHAT_FORM";
const HISTORY: &str = "SYSOP_TEST_CHAT_HISTORY";
const CHILD: &str = "chat::tests::plays_the_binary";
const CHILD_ARGUMENTS: [&str; 4] = [CHILD, "--exact", "--nocapture", "--test-threads=1"];

/// Entry point of the child process that acts as the binary; not a test of its own.
#[test]
fn plays_the_binary() {
    let Ok(form) = std::env::var(FORM) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let code = runtime.block_on(async {
        let fake = FakeSession::new();
        match form.as_str() {
            "panels" => run(context(fake, ReplLayout::Panels { color: true })).await.unwrap(),
            "plain" => run(context(fake, ReplLayout::Plain)).await.unwrap(),
            "resumed" => {
                let context = context(Arc::clone(&fake), ReplLayout::Plain);
                let change = sysop_core::event::ConfigChange::Approve(ApprovalMode::Never);
                fake.send_as_other(sysop_core::event::Input::Configure { change });
                run(context).await.unwrap()
            }
            "continued" | "failed elsewhere" => {
                let prompt = if form == "continued" { "taken" } else { "fail" };
                fake.continue_elsewhere(sysop_core::event::Input::prompt(prompt));
                run(context(fake, ReplLayout::Plain)).await.unwrap()
            }
            "task" | "plain task" => {
                let layout =
                    if form == "task" { ReplLayout::Panels { color: true } } else { ReplLayout::Plain };
                run(ReplContext { task: Some("hello".into()), ..context(fake, layout) }).await.unwrap()
            }
            "terminal" => run(context(FakeSession::with_terminal(false), ReplLayout::Panels { color: true }))
                .await
                .unwrap(),
            "driven" => {
                let file = PathBuf::from(std::env::var_os(HISTORY).unwrap()).with_file_name("log.db");
                let opened = end_to_end::session(&file);
                run(ReplContext { opened, ..context(fake, ReplLayout::Panels { color: true }) })
                    .await
                    .unwrap()
            }
            "driven plain" => {
                let folder = tempfile::tempdir().unwrap();
                let opened = end_to_end::session(&folder.path().join("log.db"));
                run(ReplContext { opened, ..context(fake, ReplLayout::Plain) }).await.unwrap()
            }
            "far" => run(context(FakeSession::with_terminal(true), ReplLayout::Panels { color: true }))
                .await
                .unwrap(),
            task => exec::run(exec_context(&fake, task)).await,
        }
    });
    std::process::exit(code.code().into());
}

fn exec_context(fake: &Arc<FakeSession>, task: &str) -> exec::ExecContext {
    exec::ExecContext {
        opened: fake.opened(),
        chosen_title: None,
        task: exec::ExecTask::Prompt(task.into()),
        images: Vec::new(),
        schema: None,
        form: exec::ExecFormat::Human,
        out: Box::new(std::io::stdout()),
        terminal: Some(crate::render::RenderOptions { width: 80, color: true }),
        err: Box::new(std::io::stderr()),
        call_output: exec::CallOutput::Hidden,
        is_quiet: false,
        ask: Some(exec::ask_on_terminal(true)),
        ask_for_program: Some(exec::ask_for_programs_on_terminal(true)),
        confirm: Some(exec::confirm_on_terminal(true)),
        service: None,
        resume_flags: String::new(),
        budget: Default::default(),
        hides_keys: true,
        stops: exec::signals().unwrap(),
    }
}

fn context(fake: Arc<FakeSession>, form: ReplLayout) -> ReplContext {
    let opened = fake.opened();
    let other = fake.clone();
    // Another front end gives a task on this signal.
    let mut told = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1()).unwrap();
    tokio::spawn(async move {
        while told.recv().await.is_some() {
            fake.send_as_other(sysop_core::event::Input::prompt("clean from elsewhere"));
        }
    });
    let mut answered = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined2()).unwrap();
    tokio::spawn(async move {
        while answered.recv().await.is_some() {
            other.answer_as_other();
        }
    });
    let earlier = FakeSession::new();
    earlier.send_as_other(sysop_core::event::Input::prompt("hello from before"));
    ReplContext {
        opened,
        task: None,
        service: Arc::new(TestSessionService { earlier }),
        shell: Box::new(|| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", "echo in the shell; read line; echo got $line"]);
            command
        }),
        history: std::env::var_os(HISTORY).map(PathBuf::from),
        form,
        prices: Default::default(),
        resume_command: "sysop chat --resume ".to_owned(),
        leaving: super::ExitBehavior::StopTurn,
    }
}

/// Service with one earlier session, two hosts and a routine.
struct TestSessionService {
    earlier: Arc<FakeSession>,
}

#[async_trait::async_trait]
impl SessionService for TestSessionService {
    async fn open(&self, which: SessionSelector) -> Result<AttachedSession, String> {
        match which {
            SessionSelector::New | SessionSelector::NewAfter(_) => Ok(FakeSession::new().opened()),
            SessionSelector::NewOnHost { host, .. } if host == "gone" => {
                Err("gone cannot be reached; is its name right?".into())
            }
            SessionSelector::NewOnHost { host, .. } => Ok(FakeSession::on(&host).opened()),
            SessionSelector::Existing(id) if id == "s-0" => Ok(self.earlier.opened()),
            SessionSelector::Existing(id) => Err(format!("there is no session {id}")),
            SessionSelector::Fork { .. } => Err("the REPL forks nothing".into()),
        }
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, String> {
        Ok(vec![SessionSummary {
            id: SessionId::new("s-0"),
            title: "hello from before".into(),
            created: Timestamp(0),
            changed: Timestamp(crate::render::words::now().0 - 3 * 3_600_000),
            last_seq: sysop_core::id::Seq(4),
            host: "web1".into(),
            root: "/srv/old".into(),
            pinned: false,
        }])
    }

    async fn models(&self) -> Vec<ModelRef> {
        Vec::new()
    }

    async fn artifact(&self, _: &SessionId, name: &str) -> Result<Vec<u8>, String> {
        Err(format!("there is no artifact {name}"))
    }

    async fn paths(&self, _: &SessionId, _: &str, _: usize) -> Vec<String> {
        Vec::new()
    }

    fn hosts(&self) -> Vec<NamedItem> {
        let named = |name: &str, what: &str| NamedItem { name: name.into(), description: what.into() };
        vec![named("web1", "the first"), named("web2", "the second")]
    }

    fn routines(&self) -> Vec<Routine> {
        vec![Routine {
            name: "greet".into(),
            description: "Says hello".into(),
            variables: vec![NamedItem { name: "name".into(), description: "whom to greet".into() }],
            render: Arc::new(greeting),
        }]
    }
}

/// Renders the routine; its variable needs a value.
fn greeting(_host: &str, values: &[(String, String)]) -> Result<String, String> {
    let value = values.iter().find(|(name, _)| name == "name").map(|(_, value)| value);
    value.map(|value| format!("echo hello {value}")).ok_or_else(|| "`name` has no value".to_owned())
}

/// Returns the output of the plain layout for these input lines.
async fn plain(input: &str) -> (String, i32) {
    plain_form("plain", input).await
}

async fn plain_form(form: &str, input: &str) -> (String, i32) {
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(CHILD_ARGUMENTS)
        .arg("--quiet")
        .env(FORM, form)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = tokio::time::timeout(DEADLINE, child.wait_with_output()).await.unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Skip the output of the test harness.
    let text = text.split_once("running 1 test\n").map_or(text.clone(), |(_, rest)| rest.to_owned());
    (text, output.status.code().unwrap_or(-1))
}

/// User at a terminal.
struct Person {
    read: pty_process::OwnedReadPty,
    write: pty_process::OwnedWritePty,
    child: tokio::process::Child,
    terminal: std::os::fd::OwnedFd,
    before: rustix::termios::Termios,
    seen: String,
    /// End of the text that was matched so far.
    at: usize,
}

impl Person {
    fn sits_down(history: Option<&std::path::Path>) -> Self {
        Self::starts("panels", history)
    }

    fn starts(form: &str, history: Option<&std::path::Path>) -> Self {
        Self::starts_after("", form, history)
    }

    /// Starts the REPL on a terminal at which this text has been typed.
    fn starts_after(typed: &str, form: &str, history: Option<&std::path::Path>) -> Self {
        let command = pty_process::Command::new(std::env::current_exe().unwrap()).args(CHILD_ARGUMENTS);
        Self::runs(typed, form, history, command)
    }

    /// Runs this command at a terminal at which this text has been typed.
    fn runs(
        typed: &str,
        form: &str,
        history: Option<&std::path::Path>,
        command: pty_process::Command,
    ) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(pty_process::Size::new(30, 80)).unwrap();
        let terminal = std::os::fd::AsFd::as_fd(&pty).try_clone_to_owned().unwrap();
        let before = rustix::termios::tcgetattr(&terminal).unwrap();
        assert_eq!(rustix::io::write(&terminal, typed.as_bytes()).unwrap(), typed.len());
        let mut command = command.env(FORM, form).env("TERM", "xterm-256color").kill_on_drop(true);
        if let Some(history) = history {
            command = command.env(HISTORY, history);
        }
        let child = command.spawn(pts).unwrap();
        let (read, write) = pty.into_split();
        Self { read, write, child, terminal, before, seen: String::new(), at: 0 }
    }

    /// Waits for the text after the previous match; returns the output up to it.
    async fn sees(&mut self, text: &str) -> String {
        let waiting = async {
            loop {
                let fresh = &self.seen[self.at..];
                if bare(fresh).contains(text) {
                    // Not further than the text, because the same chunk may contain the next one.
                    let ends: Vec<usize> = fresh.char_indices().map(|(at, c)| at + c.len_utf8()).collect();
                    let end = ends[ends.partition_point(|end| !bare(&fresh[..*end]).contains(text))];
                    let fresh = bare(&fresh[..end]);
                    self.at += end;
                    return fresh;
                }
                if !self.reads().await {
                    return String::new();
                }
            }
        };
        match tokio::time::timeout(DEADLINE, waiting).await {
            Ok(fresh) if !fresh.is_empty() => fresh,
            Ok(_) | Err(_) => panic!("{text:?} did not appear; seen: {}", bare(&self.seen)),
        }
    }

    async fn reads(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let Ok(count) = self.read.read(&mut bytes).await else { return false };
        let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
        // The line editor queries the cursor position and needs an answer.
        for _ in text.matches("\u{1b}[6n") {
            self.write.write_all(b"\x1b[1;1R").await.unwrap();
        }
        self.seen.push_str(&text);
        count > 0
    }

    fn signals(&self, signal: rustix::process::Signal) {
        let id = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    }

    async fn types(&mut self, text: &str) {
        self.write.write_all(text.as_bytes()).await.unwrap();
    }

    /// Waits until the program ends, and returns its exit code. The terminal must be restored, and the alternate screen
    /// must never have been opened.
    async fn leaves(self) -> i32 {
        assert!(!self.seen.contains("\u{1b}[?1049"), "another screen was opened");
        self.leaves_screen().await
    }

    /// Like `leaves`, but allows the alternate screen, on which the session's terminal is shown.
    async fn leaves_screen(mut self) -> i32 {
        let ended = async {
            while self.reads().await {}
            self.child.wait().await.unwrap().code().unwrap_or(-1)
        };
        let code = tokio::time::timeout(DEADLINE, ended).await.expect("it ends");
        let mode = rustix::termios::tcgetattr(&self.terminal).unwrap();
        assert_eq!(mode.local_modes, self.before.local_modes);
        assert_eq!(mode.input_modes, self.before.input_modes);
        assert_eq!(self.seen.matches("\u{1b}[?1049h").count(), self.seen.matches("\u{1b}[?1049l").count());
        assert_eq!(self.seen.matches("\u{1b}[?2004h").count(), self.seen.matches("\u{1b}[?2004l").count());
        code
    }
}

/// Removes control sequences.
fn bare(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            if chars.next() == Some('[') {
                while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
        } else if c != '\r' {
            out.push(c);
        }
    }
    out
}

const PROMPT: &str = "web1 demo/one ";
const QUESTION: &str = "Run it?";

#[tokio::test]
async fn an_answer_streams_into_its_panel() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("hello\r").await;
    let text = person.sees("STATUS").await;
    assert!(text.contains("╭─ AGENT RESPONSE ─"), "{text}");
    assert!(text.contains("│ Hello there, how are you?"), "{text}");
    person.sees(PROMPT).await;
    person.types("\u{4}").await;
    assert_eq!(person.leaves().await, 0);
}

#[tokio::test]
async fn a_proposal_is_allowed_edited_or_refused_by_keys() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("clean\r").await;
    let text = person.sees(QUESTION).await;
    assert!(text.contains("╭─ PLAN ─"), "{text}");
    assert!(text.contains("$ rm -rf build && echo done"), "{text}");
    assert!(text.contains("! rm -rf — recursive delete"), "{text}");
    assert!(text.contains("allow for session: any simple `rm …`"), "{text}");
    person.types("y").await;
    person.sees("allowed").await;
    person.sees("│ ran rm -rf build && echo done").await;
    person.sees(PROMPT).await;

    person.types("clean\r").await;
    person.sees(QUESTION).await;
    person.types("e").await;
    person.sees("rm -rf build && echo done").await;
    person.types("\u{1}: \r").await;
    person.sees("edited command:").await;
    person.sees("→ effect of : rm -rf build && echo done").await;
    person.sees(QUESTION).await;
    person.types("y").await;
    person.sees("allowed, edited").await;
    person.sees("│ ran : rm -rf build && echo done").await;
    person.sees(PROMPT).await;

    person.types("clean\r").await;
    person.sees(QUESTION).await;
    person.types("n").await;
    person.sees("feedback for the model").await;
    person.types("too early\r").await;
    person.sees("Then not (too early).").await;
    person.sees(PROMPT).await;

    person.types("clean\r").await;
    person.sees(QUESTION).await;
    person.types("a").await;
    person.sees("press a again to allow it for this session").await;
    person.types("a").await;
    person.sees("allowed for this session").await;
    person.sees(PROMPT).await;
}

#[tokio::test]
async fn a_text_typed_at_a_proposal_rejects_it() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("clean\r").await;
    person.sees(QUESTION).await;
    person.types("you know, stop\r").await;
    person.sees("feedback for the model › yo").await;
    let text = person.sees("Then not (you know, stop).").await;
    assert!(!text.contains("ran rm"), "{text}");
    person.sees(PROMPT).await;
}

#[tokio::test]
async fn esc_discards_the_edit_of_a_command() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("clean\r").await;
    for leave in ["\u{1b}", "\u{3}"] {
        person.sees(QUESTION).await;
        person.types("e").await;
        person.sees("command › rm -rf build && echo done").await;
        person.types("zzz").await;
        person.sees("zzz").await;
        person.types(leave).await;
        person.sees("edit discarded").await;
        person.sees("$ rm -rf build && echo done ").await;
    }
    person.sees(QUESTION).await;
    person.types("y").await;
    person.sees("│ ran rm -rf build && echo done ").await;
    person.sees(PROMPT).await;
}

#[tokio::test]
async fn keys_pressed_before_the_question_do_not_answer_it() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    // In one write: the keys arrive before the proposal can be drawn.
    person.types("clean\ryyyy\ry").await;
    let text = person.sees(QUESTION).await;
    assert!(!text.contains("ran rm"), "{text}");
    person.types("s").await;
    let text = person.sees(PROMPT).await;
    assert!(!text.contains("ran rm"), "{text}");
    assert!(text.contains("rejected: stop"), "{text}");
}

#[tokio::test]
async fn a_long_proposal_is_paged_before_it_can_be_allowed() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("long\r").await;
    let mut pages = 0;
    loop {
        let text = person.sees("n no").await;
        assert!(!text.contains(QUESTION));
        pages += 1;
        person.types(" ").await;
        if text.contains("page 7 of 8") {
            break;
        }
        assert!(pages < 8, "{text}");
    }
    person.sees(QUESTION).await;
    person.types("s").await;
    person.sees(PROMPT).await;
}

#[tokio::test]
async fn ctrl_c_stops_the_turn_and_a_second_one_exits() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("slow\r").await;
    person.sees("Working on it").await;
    person.types("\u{3}").await;
    person.sees("Stopping… Ctrl+C again to quit").await;
    person.sees(PROMPT).await;
    person.types("stubborn\r").await;
    person.sees("Working on it").await;
    person.types("\u{3}").await;
    person.sees("Stopping… Ctrl+C again to quit").await;
    person.types("\u{3}").await;
    assert_eq!(person.leaves().await, 130);
}

#[tokio::test]
async fn ctrl_c_twice_at_the_prompt_exits() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("\u{3}").await;
    person.sees("Press Ctrl+C again").await;
    person.types("\u{3}").await;
    assert_eq!(person.leaves().await, 0);
}

#[tokio::test]
async fn ctrl_c_clears_a_draft_which_the_history_brings_back() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("\u{3}").await;
    person.sees("Press Ctrl+C again").await;
    // Typing disarms the key.
    person.types("half a line").await;
    person.sees("half a line").await;
    person.types("\u{3}").await;
    person.sees("draft cleared; ↑ brings it back").await;
    person.sees(PROMPT).await;
    person.types("\u{1b}[A").await;
    person.sees("half a line").await;
    person.types("\u{3}").await;
    person.sees("draft cleared").await;
    person.types("\u{3}").await;
    person.sees("Press Ctrl+C again").await;
    person.types("\u{3}").await;
    assert_eq!(person.leaves().await, 0);
}

#[tokio::test]
async fn a_line_that_begins_with_a_space_is_not_in_the_history_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let mut person = Person::sits_down(Some(&path));
    person.sees(PROMPT).await;
    person.types(" hello 1\r").await;
    person.sees("Hello there, how are you?").await;
    person.sees(PROMPT).await;
    for (draft, said) in [(" secret 1", "draft cleared"), ("open 1", "draft cleared; ↑ brings it back")] {
        person.types(draft).await;
        person.sees(draft.trim()).await;
        person.types("\u{3}").await;
        person.sees(said).await;
        person.sees(PROMPT).await;
    }
    person.types("\u{4}").await;
    assert_eq!(person.leaves().await, 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), "open 1");
}

#[tokio::test]
async fn ctrl_z_keeps_the_line_that_is_being_edited() {
    // No shell can continue this process, so the kernel ignores the request to suspend it.
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("hel").await;
    person.sees("hel").await;
    person.types("\u{1a}").await;
    person.sees("hel").await;
    person.types("lo\r").await;
    person.sees("Hello there, how are you?").await;
    person.sees(PROMPT).await;
    person.types("\u{4}").await;
    assert_eq!(person.leaves().await, 0);
}

#[tokio::test]
async fn a_message_during_a_command_is_on_its_frame() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("!sleep 9; echo first\r").await;
    person.sees("│ first ").await;
    person.types("\u{1c}").await;
    let text = person.sees("pausing after this command…").await;
    assert!(text.contains("├ pausing") && !text.contains('╰'), "{text}");
    let text = person.sees("paused ›").await;
    assert_eq!(text.matches('╰').count(), 1, "it is closed once: {text}");
}

#[tokio::test]
async fn a_prompt_typed_in_a_pause_is_not_repeated() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("!sleep 9\r").await;
    person.sees("running sleep 9").await;
    person.types("\u{1c}").await;
    person.sees("paused ›").await;
    person.types("hello\r").await;
    let text = person.sees("Hello there").await;
    assert!(!text.contains("queued"), "{text}");
}

#[tokio::test]
async fn help_continues_below_its_descriptions() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("/help\r").await;
    let text = person.sees("/theme").await;
    let is_continuation = |line: &str| line.starts_with(&" ".repeat(28)) && !line[28..].starts_with(' ');
    assert!(text.lines().any(is_continuation), "{text}");
    assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
}

#[tokio::test]
async fn each_change_of_the_approval_mode_is_shown() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("/approve auto\r").await;
    person.sees("· approval mode set to `auto`").await;
    person.sees(PROMPT).await;
    person.types("/approve never\r").await;
    person.sees("· approval mode set to `never`").await;
}

#[tokio::test]
async fn text_typed_during_a_turn_is_shown_and_stays_for_the_prompt() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("!sleep 9\r").await;
    person.sees("running sleep 9").await;
    person.types("hello later").await;
    person.sees("Enter queue · Ctrl+C clear line › hello later").await;
    person.types("\u{1c}").await;
    person.sees("pausing after this command…").await;
    let text = person.sees("paused ›").await;
    assert!(text.contains("paused; Ctrl+P or /resume"), "the pause is told once it begins: {text}");
    person.sees("hello later").await;
}

#[tokio::test]
async fn the_prompt_history_is_private_and_persistent() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data/history");
    let mut person = Person::sits_down(Some(&file));
    person.sees(PROMPT).await;
    person.types("hello number one\r").await;
    person.sees("STATUS").await;
    person.sees(PROMPT).await;
    person.types("/nonsense\r").await;
    person.sees("unknown command /nonsense").await;
    person.sees(PROMPT).await;
    person.types("/exit\r").await;
    assert_eq!(person.leaves().await, 0);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "hello number one\n/nonsense\n/exit\n");

    let mut person = Person::sits_down(Some(&file));
    person.sees(PROMPT).await;
    person.types("\u{12}number").await;
    person.sees("hello number one").await;
    person.types("\r\r").await;
    person.sees("STATUS").await;
}

#[tokio::test]
async fn several_lines_and_pastes_are_one_prompt() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("\u{1b}[200~auto\nrm -rf /\u{1b}]0;x\u{7}\u{1b}[201~").await;
    person.sees("rm -rf /").await;
    person.types("\r").await;
    // One turn, started by the first word.
    person.sees("That is all.").await;
    person.sees(PROMPT).await;
    assert!(!person.seen.contains("\u{1b}]0;x"), "{:?}", person.seen);
    person.types("one \\\rtwo\u{1b}\rthree").await;
    person.sees("three").await;
}

#[tokio::test]
async fn a_shell_gets_the_terminal() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("/shell\r").await;
    person.sees("in the shell").await;
    person.types("words\n").await;
    person.sees("got words").await;
    person.sees(PROMPT).await;
    person.types("hello\r").await;
    person.sees("STATUS").await;
}

#[tokio::test]
async fn hostile_text_reaches_the_terminal_escaped() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    let before = person.seen.len();
    person.types("evil\r").await;
    person.sees("STATUS").await;
    let text = &person.seen[before..];
    let from = text.find("AGENT RESPONSE").expect("the panel came");
    let to = text.find("STATUS").expect("the turn ended");
    // The reader of typed text switches the marking of pastes at any moment.
    let own = ["\u{1b}[?2004h", "\u{1b}[?2004l", "\r\r\u{1b}[J"];
    let drawn = own.iter().fold(text[from..to].to_owned(), |text, own| text.replace(own, ""));
    let drawn = drawn.replace("\r\n", "\n");
    assert_eq!(intruder(&drawn), None, "{drawn:?}");
}

#[tokio::test]
async fn events_of_other_clients_appear_above_the_unchanged_input_line() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("half a li").await;
    person.sees("half a li").await;
    person.signals(rustix::process::Signal::QUIT);
    person.sees("nothing to pause").await;
    person.sees("half a li").await;
    person.signals(rustix::process::Signal::USR1);
    let text = person.sees(QUESTION).await;
    assert!(text.contains("│ clean from elsewhere"), "{text}");
    let title = person.seen.find("PLAN").expect("the proposal");
    let above = &person.seen[..person.seen[..title].rfind('╭').expect("its frame")];
    let from = above.rfind('\n').max(above.rfind("\u{1b}[J")).expect("an earlier row");
    assert_eq!(bare(&above[from..]).trim(), "", "the proposal starts a row");
    person.types("s").await;
    person.sees("rejected: stop").await;
    person.sees("half a li").await;
    person.signals(rustix::process::Signal::TERM);
    assert_eq!(person.leaves().await, 143);
}

#[tokio::test]
async fn a_command_of_another_user_is_shown_with_a_name() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("bob\r").await;
    let text = person.sees("ran uptime").await;
    assert!(text.contains("typed by bob") && text.contains("$ uptime"), "{text}");
    person.sees(PROMPT).await;
    person.types("!ls\r").await;
    let text = person.sees("ran ls").await;
    assert!(!text.contains("typed by"), "{text}");
    person.signals(rustix::process::Signal::TERM);
    assert_eq!(person.leaves().await, 143);
}

#[tokio::test]
async fn exec_prompts_on_its_terminal_and_exits_130_on_ctrl_c() {
    let mut person = Person::starts("clean", None);
    let text = person.sees(QUESTION).await;
    assert!(text.contains("I will clean up."), "{text}");
    assert!(text.contains("on web1 in /srv/app"), "{text}");
    person.types("y").await;
    person.sees("Done with rm -rf build && echo done.").await;
    assert_eq!(person.leaves().await, 0);

    let mut person = Person::starts("slow", None);
    person.sees("Working on it").await;
    person.types("\u{3}").await;
    assert_eq!(person.leaves().await, 130);

    let mut person = Person::starts("clean", None);
    person.sees(QUESTION).await;
    person.types("\u{3}").await;
    assert_eq!(person.leaves().await, 130);
}

#[test]
fn the_layout_follows_the_terminal() {
    let around = TerminalTraits { plain: false, no_color: false, term: "xterm", terminal: true };
    assert_eq!(ReplLayout::choose(around), ReplLayout::Panels { color: true });
    assert_eq!(
        ReplLayout::choose(TerminalTraits { no_color: true, ..around }),
        ReplLayout::Panels { color: false }
    );
    for plain in [
        TerminalTraits { plain: true, ..around },
        TerminalTraits { term: "dumb", ..around },
        TerminalTraits { term: "", ..around },
        TerminalTraits { terminal: false, ..around },
    ] {
        assert_eq!(ReplLayout::choose(plain), ReplLayout::Plain);
    }
}
