//! Tests of a shell behind a program that forwards its terminal, as `ssh -tt` does: here `script`, which needs no
//! server. The local terminal is always raw and does not show the modes of the terminal behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_core::event::TypedInput;
use sysop_core::id::CallId;
use sysop_core::outcome::{Status, WAITS_FOR_ANSWER};
use sysop_core::policy::{CommandContext, Fence, ResolvedTarget, Target};
use sysop_core::question::QuestionKind;
use sysop_driver::port::{CancellationToken, DeltaSink};
use sysop_driver::prompter::{PromptReply, PromptRequest, Prompter};

use super::{CallEnd, SharedTerminal};
use crate::local::LocalMachine;
use crate::machine::TimeLimit;
use crate::machine::{
    Echo, ExecResult, FileSearch, FileSearchResult, FileStat, Foreground, Listing, Machine, MachineError,
    Precondition, Program, TerminalStart,
};
use crate::output::OutputLimits;
use crate::output::artifacts::Artifacts;
use crate::output::capture::Capture;
use crate::output::redact::Secrets;
use crate::path::RootPath;

const DEADLINE: Duration = Duration::from_secs(20);

/// A machine whose terminal is behind another terminal.
struct RemoteMachine {
    machine: LocalMachine,
    shell: &'static str,
    /// True if the remote terminal can be queried outside its connection.
    beside: bool,
    echo_queries: AtomicU32,
}

#[async_trait]
impl Machine for RemoteMachine {
    async fn path(&self, text: &str) -> Result<RootPath, MachineError> {
        self.machine.path(text).await
    }

    async fn exec(
        &self,
        program: Program,
        fence: &Fence,
        limit: &TimeLimit,
        capture: &mut Capture<'_>,
        cancel: &CancellationToken,
    ) -> Result<ExecResult, MachineError> {
        self.machine.exec(program, fence, limit, capture, cancel).await
    }

    fn uses_sudo(&self) -> bool {
        self.machine.uses_sudo()
    }

    async fn read(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Vec<u8>, MachineError> {
        self.machine.read(path, cancel).await
    }

    async fn write(&self, path: &RootPath, bytes: Vec<u8>, before: Precondition) -> Result<(), MachineError> {
        self.machine.write(path, bytes, before).await
    }

    async fn remove(&self, path: &RootPath, before: Precondition) -> Result<(), MachineError> {
        self.machine.remove(path, before).await
    }

    async fn make_folder(&self, path: &RootPath, cancel: &CancellationToken) -> Result<(), MachineError> {
        self.machine.make_folder(path, cancel).await
    }

    async fn stat(&self, path: &RootPath, cancel: &CancellationToken) -> Result<FileStat, MachineError> {
        self.machine.stat(path, cancel).await
    }

    async fn list(&self, path: &RootPath, cancel: &CancellationToken) -> Result<Listing, MachineError> {
        self.machine.list(path, cancel).await
    }

    async fn find(
        &self,
        search: FileSearch,
        cancel: &CancellationToken,
    ) -> Result<FileSearchResult, MachineError> {
        self.machine.find(search, cancel).await
    }

    async fn context(&self) -> Result<CommandContext, MachineError> {
        self.machine.context().await
    }

    async fn resolve(&self, targets: Vec<Target>, home: Option<&str>) -> Option<Vec<ResolvedTarget>> {
        self.machine.resolve(targets, home).await
    }

    fn resolutions_max(&self) -> usize {
        1
    }

    async fn foreground(&self, tty: &str, shell: u32) -> Option<Foreground> {
        if !self.beside {
            return None;
        }
        let stat = std::fs::read_to_string(format!("/proc/{shell}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let modes = std::process::Command::new("stty").args(["-a", "-F", tty]).output().ok()?.stdout;
        let is_raw = String::from_utf8_lossy(&modes).contains("-icanon");
        let program = std::fs::read_to_string(format!("/proc/{}/comm", fields[5])).unwrap_or_default();
        let program = program.trim().to_owned();
        Some(Foreground { is_shell: fields[2] == fields[5], is_raw, program })
    }

    async fn terminal(&self) -> Result<TerminalStart, MachineError> {
        let start = self.machine.terminal().await?;
        Ok(TerminalStart {
            program: "/usr/bin/script".into(),
            arguments: ["-qec", self.shell, "/dev/null"].map(Into::into).to_vec(),
            remote_host: Some("web1".to_owned()),
            ..start
        })
    }

    async fn echo(&self, tty: &str) -> Option<Echo> {
        self.echo_queries.fetch_add(1, Ordering::Relaxed);
        if self.beside { self.machine.echo(tty).await } else { None }
    }
}

/// Answers every prompt, and records prompts and reported typing.
#[derive(Default)]
struct AnsweringPrompter(Mutex<Vec<PromptRequest>>, Mutex<Vec<TypedInput>>);

#[async_trait]
impl Prompter for AnsweringPrompter {
    async fn ask(&self, asked: PromptRequest) -> PromptReply {
        self.0.lock().push(asked);
        PromptReply::Given { by: "ann".to_owned(), text: "correct horse".into() }
    }

    fn typed(&self, _: &str, typed: TypedInput) {
        self.1.lock().push(typed);
    }

    fn control(&self, _: Option<&str>) {}

    fn notice(&self, _: &str) {}
}

struct Rig {
    terminal: Arc<SharedTerminal>,
    people: Arc<AnsweringPrompter>,
    remote_host: Arc<RemoteMachine>,
    artifacts: Artifacts,
    _home: tempfile::TempDir,
}

fn rig(shell: &'static str, beside: bool) -> Rig {
    let home = tempfile::tempdir().unwrap();
    let machine = LocalMachine::open(home.path(), &[], &Secrets::default()).unwrap();
    let artifacts = Artifacts::new(home.path().join("artefacts"), 1024 * 1024);
    let remote_host = Arc::new(RemoteMachine { machine, shell, beside, echo_queries: AtomicU32::new(0) });
    let machine = Arc::clone(&remote_host) as Arc<dyn Machine>;
    let terminal = SharedTerminal::new(machine, artifacts.clone(), Arc::default());
    let people = Arc::new(AnsweringPrompter::default());
    terminal.set_prompter(Arc::clone(&people) as Arc<dyn Prompter>);
    Rig { terminal, people, remote_host, artifacts, _home: home }
}

impl Rig {
    async fn run(&self, command: &str) -> (CallEnd, String) {
        let secrets = Secrets::default();
        let mut capture = Capture::new(OutputLimits::default(), &secrets, &self.artifacts, DeltaSink::none());
        let (call, cancel) = (CallId::new("call"), CancellationToken::new());
        let run = self.terminal.run_command(command, DEADLINE, &mut capture, &call, &cancel);
        let end = tokio::time::timeout(DEADLINE, run).await.expect("the call ends in time").unwrap();
        (end, capture.finish().await.text)
    }

    async fn keys(&self, keys: &str) -> (Result<CallEnd, String>, String) {
        let secrets = Secrets::default();
        let mut capture = Capture::new(OutputLimits::default(), &secrets, &self.artifacts, DeltaSink::none());
        let (call, cancel) = (CallId::new("call"), CancellationToken::new());
        let press = self.terminal.send_keys(keys, &mut capture, &call, &cancel);
        let end = tokio::time::timeout(DEADLINE, press).await.expect("the call ends in time");
        (end.map_err(|why| format!("{why:?}")), capture.finish().await.text)
    }

    /// Waits until the row of the cursor contains only this text.
    async fn shows(&self, text: &str) {
        let live = self.terminal.current().unwrap();
        let shown = live.until(DEADLINE, |inner| (inner.screen.line_to_cursor() == text).then_some(()));
        assert!(shown.await.is_some(), "no {text:?} in {}", live.state().screen.text());
    }

    async fn ready(&self) {
        let live = self.terminal.current().unwrap();
        let ready = live.until(DEADLINE, |inner| inner.ready.then_some(())).await;
        assert!(ready.is_some(), "a program is still running: {}", live.state().screen.text());
    }

    /// Types as a person, one key at a time.
    fn types(&self, text: &str) {
        for byte in text.bytes() {
            self.terminal.typed("ann", &[byte]);
        }
    }

    /// Returns the typing reported since the last call, with durations set to 0.
    fn told(&self) -> Vec<TypedInput> {
        let mut told = std::mem::take(&mut *self.people.1.lock());
        for typed in &mut told {
            if let TypedInput::Activity { seconds, .. } = typed {
                assert!(*seconds < DEADLINE.as_secs());
                *seconds = 0;
            }
        }
        told
    }

    async fn is(&self, command: &str, expected: &str, code: i32) {
        let (end, text) = self.run(command).await;
        assert_eq!((text.as_str(), end.exit_code), (expected, Some(code)), "{command}: {end:?}");
    }
}

/// Shell commands that ask for a secret with echo off.
const ASKS: &str =
    "stty -echo; printf 'Say the %s: ' WORD; read -r word; stty echo; echo; echo \"$word\" | wc -c";

#[tokio::test]
async fn every_remote_shell_reports_its_commands() {
    for shell in ["bash --norc", "zsh -f", "fish -N", "dash", "busybox ash"] {
        let rig = rig(shell, true);
        rig.is("echo a; sh -c 'exit 3'", "a\n", 3).await;
        rig.is("cd /; sh -c pwd", "/\n", 0).await;
        let (end, _) = rig.run("exit 5").await;
        assert_eq!((end.status, end.exit_code), (Status::Failed, Some(5)), "{shell}: {end:?}");
    }
}

#[tokio::test]
async fn a_command_that_removes_the_marks_still_ends() {
    for command in [
        "export PROMPT_COMMAND='history -a'",
        "unset PROMPT_COMMAND",
        "PS1='$ '; PROMPT_COMMAND=true",
        "PROMPT_COMMAND=; sh -c 'exit 3'",
    ] {
        let rig = rig("bash --norc", true);
        let code = if command.ends_with("3'") { 3 } else { 0 };
        // The prompt that appeared without a mark counts as output.
        let (end, text) = rig.run(command).await;
        assert_eq!(end.exit_code, Some(code), "{command}: {end:?}");
        assert!(text.is_empty() || text.ends_with(['#', '$', ' ']), "{command}: {text:?}");
        rig.is("cd /usr; sh -c 'pwd; exit 4'", "/usr\n", 4).await;
    }
}

#[tokio::test]
async fn a_program_that_waits_for_an_answer_shows_its_question_once() {
    let rig = rig("bash --norc", true);
    // The quotes keep the echo of the command from passing for the question.
    let (end, text) = rig.run("echo first; read -p 'Con''tinue? [y/N] ' -r reply; echo \"got $reply\"").await;
    assert_eq!((end.status, end.notes), (Status::Unknown, vec![WAITS_FOR_ANSWER.to_owned()]));
    assert_eq!(text, "first\nContinue? [y/N] ");
    assert!(rig.keys("y Enter").await.1.contains("got y"));
}

#[tokio::test]
async fn a_lost_connection_has_no_exit_code() {
    let rig = rig("bash --norc", true);
    let (end, _) = rig.run("exit 255").await;
    assert_eq!(end.status, Status::Unknown);
    assert!(end.notes[0].starts_with("the connection ended"), "{end:?}");
}

#[tokio::test]
async fn a_remote_terminal_reports_whether_echo_is_off() {
    let rig = rig("bash --norc", true);
    rig.is(&ASKS.replace("WORD", "word"), "Say the word: [password entered]\n14\n", 0).await;
    let asked = rig.people.0.lock().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].kind, QuestionKind::Secret);
    assert_eq!(asked[0].from, "bash (the shell of this terminal) on web1");
    assert!(asked[0].details[0].starts_with("Started by the model: `stty -echo;"), "{asked:?}");
}

#[tokio::test]
async fn without_echo_information_the_user_decides() {
    let rig = rig("bash --norc", false);
    rig.is(&ASKS.replace("WORD", "password"), "Say the password: [password entered]\n14\n", 0).await;
    let asked = rig.people.0.lock().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].kind, asked[0].prompt.as_str()), (QuestionKind::PerhapsSecret, "Say the password:"));
}

#[tokio::test]
async fn the_sudo_mark_shows_a_secret_prompt_but_not_its_program() {
    let rig = rig("bash --norc", false);
    rig.is(
        "printf \"${SUDO_PROMPT%\\[*}word, \"; read -rs word; echo; echo ${#word}",
        "word, [password entered]\n13\n",
        0,
    )
    .await;
    let asked = rig.people.0.lock().clone();
    assert_eq!((asked[0].kind, asked[0].from.as_str()), (QuestionKind::Secret, "a program on web1"));
    assert!(asked[0].details[1].starts_with("Warning: "), "{asked:?}");
}

/// Returns a report of this many keys in 0 seconds.
fn activity(keys: u64) -> TypedInput {
    TypedInput::Activity { keys, seconds: 0 }
}

fn secret(prompt: &str) -> TypedInput {
    TypedInput::Secret { prompt: prompt.to_owned() }
}

#[tokio::test]
async fn input_that_a_remote_terminal_hides_is_not_logged() {
    for shell in ["bash --norc", "zsh -f"] {
        let rig = rig(shell, true);
        rig.is("ask() { printf %s \"$1\"; read -rs word; echo; echo ${#word}; }", "", 0).await;
        for prompt in ["Say it ", "Token (will be hidden): ", "Enter PEM pass phrase:"] {
            for paste in [false, true] {
                let command = format!("ask '{prompt}'");
                rig.types(&format!("{command}\r"));
                rig.shows(prompt).await;
                if paste {
                    rig.terminal.typed("ann", b"hunter2\r");
                } else {
                    rig.types("hunter2\r");
                }
                rig.ready().await;
                // Prompts from a program that a person started are private.
                assert_eq!(rig.told(), [secret("")], "{shell}: {prompt}, {paste}");
            }
        }
        let news = rig.terminal.take_typed_notice().unwrap();
        assert!(news.contains("ann entered a password"), "{news}");
        assert!(!news.contains("hunter2") && !news.contains("ask"), "{news}");
        assert_eq!(rig.terminal.secrets.redact("it is hunter2"), "it is [redacted]");
    }
}

#[tokio::test]
async fn a_pause_while_typing_a_secret_reveals_nothing() {
    let rig = rig("bash --norc", true);
    rig.is("true", "", 0).await;
    rig.types("read -rsp 'Say it ' word\r");
    rig.shows("Say it ").await;
    rig.types("hun");
    let news = rig.terminal.take_typed_notice().unwrap();
    assert!(news.starts_with("ann typed into the terminal for ") && !news.contains("Say"), "{news}");
    rig.types("ter2\x7f\r");
    rig.ready().await;
    assert_eq!(rig.told(), [activity(25), secret("")]);
    assert_eq!(rig.terminal.secrets.redact("hunter2 hunter"), "[redacted]2 [redacted]");
}

#[tokio::test]
async fn remote_input_is_logged_as_a_number_of_keys() {
    let rig = rig("bash --norc", true);
    rig.is("true", "", 0).await;
    rig.types("read -rp 'Name ' word\r");
    rig.shows("Name ").await;
    rig.types("ann");
    rig.shows("Name ann").await;
    rig.types("\r");
    rig.ready().await;
    assert_eq!(rig.told(), []);
    rig.terminal.user_released("ann");
    assert_eq!(rig.told(), [activity(26)]);
    assert_eq!(rig.terminal.secrets.redact("ann"), "ann");
}

/// Shell function that reads a secret and echoes an asterisk per letter.
const MASKS: &str = "mask() { stty -echo -icanon; printf %b \"$1\"; local c; while IFS= read -rn1 c && [ -n \"$c\" ]; do printf '*'; done; stty echo icanon; echo; }";

#[tokio::test]
async fn a_masked_secret_is_not_logged() {
    let rig = rig("bash --norc", false);
    rig.is(MASKS, "", 0).await;
    for (command, prompt) in [
        ("mask 'Say it '", "Say it "),
        ("mask \"${SUDO_PROMPT%\\[*}word \"", "word "),
        ("mask Password:", "Password:"),
    ] {
        rig.types(&format!("{command}\r"));
        rig.shows(prompt).await;
        rig.told();
        for typed in 1..=7 {
            rig.types("hunter2".get(typed - 1..typed).unwrap());
            rig.shows(&format!("{prompt}{}", "*".repeat(typed))).await;
        }
        rig.types("\r");
        rig.ready().await;
        assert_eq!(rig.told(), [secret("")], "{command}: {prompt}");
    }
}

#[tokio::test]
async fn only_a_user_types_into_a_started_masked_prompt() {
    let rig = rig("bash --norc", false);
    rig.is(MASKS, "", 0).await;
    rig.types("mask \"${SUDO_PROMPT%\\[*}word \"\r");
    rig.shows("word ").await;
    rig.types("h");
    rig.shows("word *").await;
    rig.terminal.user_released("ann");
    let (end, _) = rig.keys("guess Enter").await;
    assert!(end.unwrap_err().contains("only the user may enter"));
}

#[tokio::test]
async fn keys_after_a_line_that_prompts_for_a_secret_are_dropped() {
    let rig = rig("bash --norc", true);
    rig.is("true", "", 0).await;
    let (end, text) = rig.keys("\"read -rsp 'Say it ' word\" Enter hunter2 Enter").await;
    let notes = end.unwrap().notes.join("\n");
    assert!(notes.contains("the remaining keys were not sent"), "{notes}: {text}");
    // The prompt is still open; the next call asks for the answer and types nothing.
    let (end, _) = rig.keys("guess Enter").await;
    assert!(end.unwrap_err().contains("password entered"));
    rig.ready().await;
    rig.is("echo ${#word}", "13\n", 0).await;
}

#[tokio::test]
async fn no_keys_or_commands_enter_a_new_remote_secret_prompt() {
    let rig = rig("bash --norc", true);
    rig.is("true", "", 0).await;
    for tool in ["keys", "command"] {
        rig.types("read -rsp 'Say it ' word\r");
        rig.shows("Say it ").await;
        rig.terminal.user_released("ann");
        if tool == "keys" {
            let (end, _) = rig.keys("guess Enter").await;
            assert!(end.unwrap_err().contains("only the user may enter"));
        } else {
            let secrets = Secrets::default();
            let mut capture =
                Capture::new(OutputLimits::default(), &secrets, &rig.artifacts, DeltaSink::none());
            let (call, cancel) = (CallId::new("call"), CancellationToken::new());
            let end = rig.terminal.run_command("echo guess", DEADLINE, &mut capture, &call, &cancel).await;
            assert!(format!("{:?}", end.unwrap_err()).contains("only the user may enter"));
        }
        rig.ready().await;
        rig.is("echo ${#word}", "13\n", 0).await;
    }
}

#[tokio::test]
async fn a_line_that_may_be_in_transit_is_withdrawn() {
    let rig = rig("bash --norc", true);
    rig.is("true", "", 0).await;
    rig.ready().await;
    let link = rig.terminal.current().unwrap().pid().unwrap();
    rustix::process::kill_process(link, rustix::process::Signal::STOP).unwrap();
    let (end, _) = rig.run("sleep 5; echo ran >ran").await;
    rustix::process::kill_process(link, rustix::process::Signal::CONT).unwrap();
    assert_eq!((end.status, end.exit_code), (Status::Unknown, None));
    assert!(end.notes[0].contains("it is unknown whether the shell accepted the command"), "{end:?}");
    rig.is("cat ran 2>/dev/null || echo not run", "not run\n", 0).await;
}

#[tokio::test]
async fn a_partial_remote_line_is_not_a_prompt() {
    let rig = rig("bash --norc", true);
    rig.is("printf 'wait '; sleep 3.5; echo over", "wait over\n", 0).await;
    let (end, text) = rig.keys("\"sleep 0.7; echo $((40+2))\" Enter").await;
    assert!(end.is_ok() && text.contains("\n42\n"), "{text}");
}

#[tokio::test]
async fn a_shell_on_another_host_is_not_queried_for_echo() {
    let rig = rig("bash --norc", true);
    rig.is("mkdir bin; printf '#!/bin/sh\necho db1\n' >bin/uname; chmod +x bin/uname", "", 0).await;
    let echo_queries = || rig.remote_host.echo_queries.swap(0, Ordering::Relaxed);
    let slow = "printf 'wait '; sleep 1.5; echo";
    rig.is(slow, "wait \n", 0).await;
    assert!(echo_queries() > 0);
    let (end, _) = rig.run("env PATH=\"$PWD/bin:$PATH\" bash --norc").await;
    assert!(end.notes[0].contains("another shell"), "{end:?}");
    echo_queries();
    rig.is(slow, "wait \n", 0).await;
    assert_eq!(echo_queries(), 0);
    rig.run("exit").await;
    rig.is(slow, "wait \n", 0).await;
    assert!(echo_queries() > 0);
}

#[tokio::test]
async fn a_user_typing_outside_a_runtime_releases_control() {
    let rig = rig("bash --norc", true);
    rig.is("true", "", 0).await;
    let terminal = Arc::clone(&rig.terminal);
    std::thread::spawn(move || terminal.typed("ann", b" ")).join().unwrap();
    let live = rig.terminal.current().unwrap();
    let over = live.until(DEADLINE, |_| rig.terminal.holder().is_none().then_some(())).await;
    assert!(over.is_some(), "the lease ends by itself");
}
