//! Exit codes, standard streams and signals of tasks without a screen.

use parking_lot::Mutex;

use expect_test::{Expect, expect};
use sysop_core::event::{Delta, Logged};
use sysop_core::id::{Seq, Timestamp};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{ChangeKind, Outcome, SystemChange};
use sysop_core::question::QuestionKind;
use sysop_term::testing::{HOSTILE, painted_intruder as intruder};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::call_output::{LINE_CHARS_MAX, call_output_lines};
use super::*;
use crate::chat::fake_session::FakeSession;
use crate::chat::program_prompt::PromptOutcome;
use crate::recorded_output::RecordedOutput;

mod reloading;
mod sequence;
mod stopping;
mod unattended;

/// Maximum duration of any step.
const DEADLINE: Duration = Duration::from_secs(20);

/// Pipe without a reader.
struct Broken;

impl Write for Broken {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

struct Rig {
    fake: Arc<FakeSession>,
    out: RecordedOutput,
    err: RecordedOutput,
    stop: UnboundedSender<StopSignal>,
    context: ExecContext,
}

fn rig(task: ExecTask) -> Rig {
    let fake = FakeSession::new();
    let (out, err) = (RecordedOutput::default(), RecordedOutput::default());
    let (stop, stops) = unbounded_channel();
    let context = ExecContext {
        opened: fake.opened(),
        chosen_title: None,
        task,
        images: Vec::new(),
        schema: None,
        form: ExecFormat::Human,
        out: Box::new(out.clone()),
        terminal: None,
        err: Box::new(err.clone()),
        call_output: CallOutput::Hidden,
        is_quiet: false,
        ask: None,
        ask_for_program: None,
        confirm: None,
        service: None,
        resume_flags: String::new(),
        budget: Budget::default(),
        hides_keys: false,
        stops,
    };
    Rig { fake, out, err, stop, context }
}

fn prompt(text: &str) -> Rig {
    rig(ExecTask::Prompt(text.into()))
}

async fn exit(context: ExecContext) -> Exit {
    tokio::time::timeout(DEADLINE, run(context)).await.expect("it ends in time")
}

async fn check(rig: Rig, expected: Expect) {
    let code = exit(rig.context).await.code();
    expected.assert_eq(&format!("exit {code}\n--- out\n{}--- err\n{}", rig.out.text(), rig.err.text()));
}

fn answering(answer: ApprovalOutcome) -> ApprovalHandler {
    ApprovalHandler(Arc::new(move |_, _| Ok(answer.clone())))
}

#[tokio::test]
async fn only_the_answer_is_on_standard_output() {
    check(
        prompt("auto"),
        expect![[r#"
        exit 0
        --- out
        That is all.
        --- err
        Looking.
        [Tool: bash("seq 3")]
          ok, exit code 0, 12 ms
    "#]],
    )
    .await;
}

#[tokio::test]
async fn an_answer_in_a_pipe_keeps_its_joiners_and_no_control() {
    let rig = prompt("joined");
    assert_eq!(exit(rig.context).await, Exit::Done);
    assert_eq!(rig.out.text(), "👩\u{200d}💻 می\u{200c}خواهم\n");
}

#[tokio::test]
async fn a_task_whose_host_was_not_reached_fails() {
    check(
        prompt("unreachable"),
        expect![[r#"
            exit 1
            --- out
            I could not log in.
            --- err
            [Tool: bash("uptime")]
              not run: web1 refused the connection; check the port, and that sshd is running
            error: web1 refused the connection
            hint: check the port, and that sshd is running
        "#]],
    )
    .await;
    let rig = prompt("reached");
    assert_eq!(exit(rig.context).await, Exit::Done, "{}", rig.err.text());
}

#[tokio::test]
async fn a_task_that_did_not_reach_a_host_of_several_fails() {
    check(
        prompt("missed"),
        expect![[r#"
            exit 1
            --- out
            --- err
            [Tool: bash("touch made")]
              web2: not run: web2 refused the connection; check the port
              web1: exit 0, 200 ms
              not run on 1 of 2 hosts, 200 ms
            error: not done on web2: web2 refused the connection
            hint: check the port
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_quiet_run_prints_the_answer_and_what_was_not_done() {
    let mut rig = prompt("auto");
    rig.context.is_quiet = true;
    check(
        rig,
        expect![[r#"
            exit 0
            --- out
            That is all.
            --- err
        "#]],
    )
    .await;
    let mut rig = prompt("denied");
    rig.context.is_quiet = true;
    assert_eq!(exit(rig.context).await, Exit::Done);
    assert!(rig.err.text().contains("denied by a hook: no ticket"), "{}", rig.err.text());
}

#[tokio::test]
async fn a_change_without_an_undo_says_why() {
    check(
        prompt("unsaved"),
        expect![[r#"
            exit 0
            --- out
            --- err
            [Tool: bash("rm -r /srv/big x")]
              gone
              failed, exit code 1, 0 ms
              [no undo: /srv/big is 120 MB: its content is not saved]
        "#]],
    )
    .await;
    let mut rig = prompt("unsaved");
    rig.context.call_output = CallOutput::Excerpt;
    let err = rig.err.clone();
    exit(rig.context).await;
    assert_eq!(err.text().matches("[no undo: ").count(), 1, "{}", err.text());
}

#[tokio::test]
async fn verbose_output_includes_each_calls_output() {
    let mut rig = prompt("auto");
    rig.context.call_output = CallOutput::Excerpt;
    check(
        rig,
        expect![[r#"
        exit 0
        --- out
        That is all.
        --- err
        Looking.
        [Tool: bash("seq 3")]
          1
          2
          3
          ok, exit code 0, 12 ms
    "#]],
    )
    .await;
}

#[test]
fn a_calls_output_is_printed_before_the_call_ends() {
    let err = RecordedOutput::default();
    let (task, out) = (ExecTask::Prompt("count".into()), RecordedOutput::default());
    let mut printer = ExecPrinter::new(None, Box::new(out), None, Box::new(err.clone()), &task);
    printer.call_output = CallOutput::Excerpt;
    let call = ToolCall {
        id: CallId::new("c1"),
        wire_id: None,
        name: "bash".into(),
        arguments: Arguments::Object(serde_json::Map::new()),
    };
    let started = Event::ToolStarted { call: call.clone(), origin: Origin::Model };
    let logged = Logged { seq: Seq(1), at: Timestamp(0), event: started };
    let paused = Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 };
    let mut transcript = Transcript::new();
    for update in [
        Update::Logged(Arc::new(logged)),
        Update::Delta(Delta::Output { call: call.id.clone(), text: "one\n".into() }),
        Update::Logged(Arc::new(Logged { seq: Seq(2), at: Timestamp(0), event: paused })),
        Update::Delta(Delta::Output { call: call.id, text: "two\n".into() }),
    ] {
        transcript.apply(&update);
        printer.update(&update, &transcript).unwrap();
    }
    assert!(err.text().ends_with("\n  one\n  two\n"), "{}", err.text());
}

#[test]
fn live_output_in_json_is_redacted() {
    let out = RecordedOutput::default();
    let encoder = Some(Box::new(sysop_wire::Encoder::new(SessionId::new("s"))));
    let task = ExecTask::Prompt("count".into());
    let mut printer = ExecPrinter::new(encoder, Box::new(out.clone()), None, Box::new(io::sink()), &task);
    let finished = Event::ToolFinished { call: CallId::new("c1"), outcome: Outcome::ok("") };
    for update in [
        Update::Delta(Delta::Output { call: CallId::new("c1"), text: "one\nDB_PASSWORD=hun".into() }),
        Update::Delta(Delta::Output { call: CallId::new("c1"), text: "ter22".into() }),
        Update::Logged(Arc::new(Logged { seq: Seq(1), at: Timestamp(0), event: finished })),
    ] {
        printer.update(&update, &Transcript::new()).unwrap();
    }
    let lines: Vec<serde_json::Value> =
        out.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<_> = lines.iter().filter_map(|line| line["content"].as_str()).collect();
    assert_eq!(shown, ["one\n", "DB_PASSWORD=[redacted: secret]"]);
    assert_eq!(lines.last().unwrap()["type"], "tool.finished");
}

#[test]
fn the_name_of_a_changed_file_is_not_taken_for_the_command_that_undoes() {
    let err = RecordedOutput::default();
    let (task, out) = (ExecTask::Prompt("count".into()), RecordedOutput::default());
    let mut printer = ExecPrinter::new(None, Box::new(out), None, Box::new(err.clone()), &task);
    let changed =
        vec![SystemChange { kind: ChangeKind::File, name: "/tmp/a (/undo 3)".into(), how: "created".into() }];
    let outcome = Outcome { changed, ..Outcome::ok("") };
    let finished = Event::ToolFinished { call: CallId::new("c1"), outcome };
    let update = Update::Logged(Arc::new(Logged { seq: Seq(1), at: Timestamp(0), event: finished }));
    printer.update(&update, &Transcript::new()).unwrap();
    assert!(err.text().contains("changed: /tmp/a (/undo 3) created\n"), "{}", err.text());
}

#[test]
fn a_quiet_run_does_not_tell_what_a_host_does_around_a_call() {
    let err = RecordedOutput::default();
    let (task, out) = (ExecTask::Prompt("count".into()), RecordedOutput::default());
    let mut printer = ExecPrinter::new(None, Box::new(out), None, Box::new(err.clone()), &task);
    printer.is_quiet = true;
    for text in ["saving files for undo on web1…", "the session is blocked: the disk is full"] {
        let update = Update::Delta(Delta::Notice { text: text.into() });
        printer.update(&update, &Transcript::new()).unwrap();
    }
    assert_eq!(err.text(), "the session is blocked: the disk is full\n");
}

#[tokio::test]
async fn a_call_that_could_not_run_is_named_with_its_reason() {
    check(
        prompt("mistaken"),
        expect![[r#"
            exit 0
            --- out
            --- err
            [Tool: read_file()]
              not run: missing argument `path`
        "#]],
    )
    .await;
}

#[tokio::test]
async fn long_output_is_excerpted_unless_very_verbose() {
    for (shown, lines) in [(CallOutput::Hidden, 3), (CallOutput::Excerpt, 40), (CallOutput::Whole, 500)] {
        let mut rig = prompt("many");
        rig.context.call_output = shown;
        exit(rig.context).await;
        let text = rig.err.text();
        let count = text.lines().filter(|line| line.starts_with("  line ")).count();
        assert_eq!(count, lines, "{shown:?}: {text}");
        let gap = "\n  line 20\n  … 460 lines omitted; use -vv to show them …\n  line 481\n";
        assert_eq!(text.contains(gap), shown == CallOutput::Excerpt, "{shown:?}: {text}");
        assert_eq!(rig.out.text(), "That is all.\n", "only the answer goes to standard output");
    }
    let long = call_output_lines(&Outcome::ok("ä".repeat(LINE_CHARS_MAX + 1)), CallOutput::Excerpt);
    assert_eq!(long, ["ä".repeat(LINE_CHARS_MAX) + "…"]);
}

#[tokio::test]
async fn a_completing_summary_is_the_answer() {
    check(
        prompt("complete"),
        expect![[r#"
        exit 0
        --- out
        All is *well*.
        --- err
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_model_error_exits_1_with_its_message() {
    check(
        prompt("fail"),
        expect![[r#"
            exit 1
            --- out
            --- err
            error: no response from http://x
            hint: is it running?
        "#]],
    )
    .await;
}

#[tokio::test]
async fn the_iteration_limit_exits_1() {
    check(
        prompt("limit"),
        expect![[r#"
            exit 1
            --- out
            --- err
            error: stopped after 1 model calls
            hint: send `continue`, or raise max_iterations
        "#]],
    )
    .await;
}

#[tokio::test]
async fn the_loop_guard_exits_1() {
    check(
        prompt("loop"),
        expect![[r#"
            exit 1
            --- out
            --- err
            error: stopped: the model repeated the same call 3 times
            hint: rephrase the task
        "#]],
    )
    .await;
}

#[tokio::test]
async fn without_a_prompt_an_approval_exits_3_and_runs_nothing() {
    let rig = prompt("clean");
    let fake = rig.fake.clone();
    check(
        rig,
        expect![[r#"
        exit 3
        --- out
        --- err
        I will **clean** up.
        error: `rm -rf build && echo done` needs approval, but there is no terminal to ask on; it did not run
        hint: run it on a terminal, because this call needs approval in every mode
        reason: recursive delete
    "#]],
    )
    .await;
    let inputs = fake.inputs();
    let Some([Input::Decision { decision, by, .. }, Input::Cancel]) = inputs.last_chunk() else {
        panic!("{inputs:?}")
    };
    let reason = "there is no terminal to ask on".to_owned();
    assert_eq!((by.as_str(), decision), (Decision::BY_SYSOP, &Decision::Reject { reason }));
}

#[tokio::test]
async fn a_password_prompt_without_a_terminal_exits_3() {
    let rig = prompt("sudo now");
    let fake = rig.fake.clone();
    check(
        rig,
        expect![[r#"
        exit 3
        --- out
        --- err
        [Tool: bash("sudo id")]
        error: sudo on web1 asks `[sudo] password for joe:`, but there is no terminal to ask on
        hint: run interactively
    "#]],
    )
    .await;
    assert_eq!(fake.answers(), ["[refused]"]);
}

#[tokio::test]
async fn a_program_prompt_is_answered_and_later_output_waits() {
    let mut rig = prompt("twice");
    let fake = rig.fake.clone();
    rig.context.ask_for_program = Some(ProgramPromptHandler(Arc::new(move |sheet, _| {
        let answer = if sheet.kind == QuestionKind::Secret { "geheim" } else { "123456" };
        Ok(PromptOutcome::Given(answer.to_owned().into()))
    })));
    check(
        rig,
        expect![[r#"
        exit 0
        --- out
        --- err
        [Tool: bash("sudo id")]
        You answered `[sudo] password for joe:`: [password entered]
        You answered `One-time code:`: 123456
          ok, exit code 0, 12 ms
    "#]],
    )
    .await;
    assert_eq!(fake.answers(), ["geheim", "123456"]);
}

#[tokio::test]
async fn an_answer_of_another_client_withdraws_a_program_prompt() {
    let mut rig = prompt("sudo now");
    let fake = rig.fake.clone();
    rig.context.ask_for_program = Some(ProgramPromptHandler(Arc::new(move |_, withdrawn: &AtomicBool| {
        fake.answer_as_other();
        let deadline = std::time::Instant::now() + DEADLINE;
        while !withdrawn.load(Ordering::Relaxed) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        Ok(PromptOutcome::Withdrawn)
    })));
    assert_eq!(exit(rig.context).await, Exit::Done);
}

#[tokio::test]
async fn fleet_results_are_grouped() {
    check(
        prompt("fleet"),
        expect![[r#"
            exit 0
            --- out
            --- err
            [Tool: bash("systemctl is-active app")]
              db1: exit 1, 100 ms
              2 hosts (web1, web2): exit 0, 200 ms
              db1: inactive
              failed on 1 of 3 hosts, 200 ms
        "#]],
    )
    .await;
    check(
        prompt("unknown"),
        expect![[r#"
            exit 0
            --- out
            --- err
            [Tool: bash("reboot")]
              outcome unknown: the connection or the output was lost; not run again
        "#]],
    )
    .await;
    check(
        prompt("shared"),
        expect![[r#"
            exit 0
            --- out
            Seen.
            --- err
            web is using the terminal; agent paused
            web typed into the terminal: ls -la Enter
            the agent is using the terminal again
        "#]],
    )
    .await;
}

#[tokio::test]
async fn an_edited_command_is_shown_again_and_then_allowed() {
    let mut rig = prompt("clean");
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&asked);
    rig.context.ask = Some(ApprovalHandler(Arc::new(move |question, _| {
        let mut seen = seen.lock();
        seen.push(question.rows.iter().map(|row| row.text() + "\n").collect());
        let edits = ApprovalOutcome::Edited("rm -ri build".into());
        Ok(if seen.len() == 1 { edits } else { ApprovalOutcome::Allow })
    })));
    check(
        rig,
        expect![[r#"
        exit 0
        --- out
        Done with `rm -ri build`.
        --- err
        I will **clean** up.
        [Tool: bash("rm -ri build")]
          ok, exit code 0, 12 ms
    "#]],
    )
    .await;
    let asked = asked.lock();
    assert_eq!(asked.len(), 2);
    assert!(!asked[0].contains("rm -ri build") && asked[0].contains("allow for session"), "{}", asked[0]);
    for text in ["rm -ri build", "effect of rm -ri build", "risk: "] {
        assert!(asked[1].contains(text), "{text}: {}", asked[1]);
    }
    assert!(!asked[1].contains("allow for session"), "{}", asked[1]);
}

#[tokio::test]
async fn a_rejection_reaches_the_model_and_stop_exits_4() {
    let mut rejecting = prompt("clean");
    rejecting.context.ask = Some(answering(ApprovalOutcome::Reject("not today".into())));
    check(
        rejecting,
        expect![[r#"
        exit 0
        --- out
        Then not (not today).
        --- err
        I will **clean** up.
          rejected; nothing ran
    "#]],
    )
    .await;
    let mut stopping = prompt("clean");
    stopping.context.ask = Some(answering(ApprovalOutcome::StopTurn));
    assert_eq!(exit(stopping.context).await, Exit::Stopped);
    let mut interrupting = prompt("clean");
    interrupting.context.ask = Some(answering(ApprovalOutcome::Interrupt));
    assert_eq!(exit(interrupting.context).await, Exit::Interrupted);
}

#[tokio::test]
async fn an_answer_of_another_client_withdraws_the_proposal() {
    let mut rig = prompt("clean");
    let fake = rig.fake.clone();
    rig.context.ask = Some(ApprovalHandler(Arc::new(move |_, withdrawn: &AtomicBool| {
        let decision = Decision::Allow { command: None };
        fake.send_as_other(Input::Decision {
            call: CallId::new("c1"),
            decision,
            by: "web".into(),
            person: None,
        });
        let deadline = std::time::Instant::now() + DEADLINE;
        while !withdrawn.load(Ordering::Relaxed) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        Ok(ApprovalOutcome::Withdrawn)
    })));
    assert_eq!(exit(rig.context).await, Exit::Done);
    assert_eq!(rig.out.text(), "Done with `rm -rf build && echo done`.\n");
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_is_shown_on_a_terminal_and_leaves_no_row() {
    let mut rig = prompt("silent");
    rig.context.terminal = Some(RenderOptions { width: 60, color: false });
    let mut ended = std::pin::pin!(run(rig.context));
    assert!(tokio::time::timeout(Duration::from_millis(3_500), ended.as_mut()).await.is_err());
    let shown = rig.out.text();
    assert!(shown.ends_with("waiting for demo/one · 2 s\r") && !shown.contains("· 1 s"), "{shown:?}");
    rig.fake.send_as_other(Input::Cancel);
    assert_eq!(ended.await, Exit::Stopped);
    let cleared = rig.out.text();
    assert!(cleared.ends_with("· 2 s\r\r\u{1b}[J"), "{cleared:?}");
}

#[tokio::test]
async fn a_stop_by_another_client_exits_4() {
    let rig = prompt("slow");
    let fake = rig.fake.clone();
    let ended = tokio::spawn(exit(rig.context));
    tokio::task::yield_now().await;
    while fake.inputs().is_empty() {
        tokio::task::yield_now().await;
    }
    fake.send_as_other(Input::Cancel);
    assert_eq!(ended.await.expect("it does not panic"), Exit::Stopped);
}

#[tokio::test]
async fn a_closed_session_exits_1_with_the_reason() {
    let rig = prompt("slow");
    let fake = rig.fake.clone();
    let ended = tokio::spawn(exit(rig.context));
    while fake.inputs().is_empty() {
        tokio::task::yield_now().await;
    }
    fake.close();
    assert_eq!(ended.await.expect("it does not panic"), Exit::Failed);
    assert_eq!(rig.err.text(), "error: the disk is full\n");
}

#[tokio::test]
async fn a_broken_pipe_stops_the_turn() {
    let mut rig = prompt("hello");
    rig.context.out = Box::new(Broken);
    assert_eq!(exit(rig.context).await, Exit::PipeClosed);
    assert_eq!(rig.err.text(), "");
}

#[tokio::test]
async fn earlier_turns_of_a_resumed_session_are_ignored() {
    let rig = prompt("hello");
    rig.fake.send_as_other(Input::prompt("loop"));
    let mut context = rig.context;
    context.opened = rig.fake.opened();
    assert_eq!(exit(context).await, Exit::Done);
    assert_eq!(rig.out.text(), "Hello **there**, how are you?\n");
    assert_eq!(rig.err.text(), "resumed on web1 with demo/one\n");
    let rig = prompt("hello");
    rig.fake.send_as_other(Input::prompt("loop"));
    let chosen_title = Some("clean \"up\"".to_owned());
    let context = ExecContext { opened: rig.fake.opened(), chosen_title, ..rig.context };
    assert_eq!(exit(context).await, Exit::Done);
    assert_eq!(rig.err.text(), "resuming \"clean 'up'\" on web1 in /srv/app\nresumed with demo/one\n");
}

#[tokio::test]
async fn a_routine_prints_its_output_and_exits_with_its_failure() {
    check(
        rig(ExecTask::Routine("echo hi".into())),
        expect![[r#"
        exit 0
        --- out
        ran echo hi
        --- err
        [Tool: bash("echo hi")]
    "#]],
    )
    .await;
    check(
        rig(ExecTask::Routine("echo x; false".into())),
        expect![[r#"
            exit 1
            --- out
            ran echo x; false
            --- err
            [Tool: bash("echo x; false")]
              failed, exit code 1, 12 ms
            error: the command ended with exit code 1
        "#]],
    )
    .await;
    check(
        rig(ExecTask::Routine("sudo reboot".into())),
        expect![[r#"
        exit 3
        --- out
        --- err
        error: `sudo reboot` needs approval, but there is no terminal to ask on; it did not run
        hint: run it on a terminal, because this call needs approval in every mode
        reason: recursive delete
    "#]],
    )
    .await;
}

#[tokio::test]
async fn an_undo_that_nobody_can_approve_names_the_command_that_needs_no_approval() {
    let rig = rig(ExecTask::Undo { step: Some(4), plan_only: false });
    let hint = undo_hint(&rig.context.task, &SessionId::new("0198-a")).unwrap();
    assert_eq!(hint, "run interactively, or run `sysop undo 0198-a 4 --yes`");
    assert_eq!(undo_hint(&ExecTask::Prompt("hello".into()), &SessionId::new("0198-a")), None);
}

#[tokio::test]
async fn a_change_that_always_asks_is_not_recommended_to_be_allowed() {
    check(
        rig(ExecTask::Routine("sudo systemctl restart sshd".into())),
        expect![[r#"
        exit 3
        --- out
        --- err
        error: `sudo systemctl restart sshd` needs approval, but there is no terminal to ask on; it did not run
        hint: run it on a terminal, because this call needs approval in every mode
        reason: recursive delete
        guarded: rolls back by itself after 120 s unless a fresh login works
    "#]],
    )
    .await;
}

#[tokio::test]
async fn text_streams_to_a_terminal_without_control_sequences() {
    let mut rig = prompt("evil");
    rig.context.terminal = Some(RenderOptions { width: 60, color: true });
    rig.context.call_output = CallOutput::Whole;
    let (out, err) = (rig.out.clone(), rig.err.clone());
    assert_eq!(exit(rig.context).await, Exit::Done);
    let text = out.text().replace("\r\u{1b}[K", "");
    assert_eq!(intruder(&text), None, "{text:?}");
    assert!(text.contains("gone"));
    assert_eq!(intruder(&err.text()), None);
    let mut rig = prompt("again");
    rig.context.terminal = Some(RenderOptions { width: 60, color: false });
    assert_eq!(exit(rig.context).await, Exit::Done);
    assert_eq!(rig.out.text().replace("\r\u{1b}[K", "|"), "One|One th|One th\nAnother thing.\n");
}

#[tokio::test]
async fn hostile_task_text_in_messages_is_escaped() {
    for hostile in HOSTILE {
        let rig = rig(ExecTask::Routine(format!("x {hostile}")));
        assert_eq!(exit(rig.context).await, Exit::ApprovalNeeded);
        assert_eq!(intruder(&rig.err.text()), None, "{hostile:?}");
        let text = rig.err.text();
        let is_ours =
            |line: &str| ["error: ", "hint: ", "  ", "reason: "].iter().any(|own| line.starts_with(own));
        assert!(text.lines().all(is_ours), "each line of the command is indented: {text:?}");
    }
}

#[tokio::test]
async fn only_json_is_on_standard_output() {
    let mut rig = prompt("auto");
    rig.context.form = ExecFormat::Json;
    assert_eq!(exit(rig.context).await, Exit::Done);
    let kinds: Vec<String> = rig
        .out
        .text()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["type"].to_string())
        .collect();
    expect![[r#"
        "user.message"
        "state"
        "state"
        "assistant.delta"
        "assistant.message"
        "step.finished"
        "tool.call"
        "state"
        "tool.output"
        "tool.finished"
        "state"
        "assistant.delta"
        "assistant.delta"
        "assistant.delta"
        "assistant.message"
        "step.finished"
        "state"
        "assistant.done""#]]
    .assert_eq(&kinds.join("\n"));
}

#[test]
fn the_task_is_the_argument_or_standard_input() {
    struct Forbidden;
    impl Read for Forbidden {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("standard input is read only for `-`")
        }
    }
    assert_eq!(task_text("do it", Forbidden), Ok("do it".into()));
    assert_eq!(task_text("-", &b"from a pipe\n"[..]), Ok("from a pipe\n".into()));
    assert!(task_text(" \n", Forbidden).unwrap_err().why.contains("empty"));
    assert!(task_text("-", &b""[..]).unwrap_err().why.contains("empty"));
    assert!(task_text("-", &b"\xff"[..]).unwrap_err().why.contains("UTF-8"));
    assert_eq!(task_text("", Forbidden).unwrap_err().exit.code(), 2);
    assert!(task_text("-", io::repeat(b'x')).unwrap_err().why.contains("longer"));
}
