//! Sequences of calls: each call is decided by the outcome of the one before.

use serde_json::Map;
use sysop_core::outcome::{HostOutcome, Status};

use super::*;

/// Sequence that runs one command per answer or outcome, and records what it was told.
struct Script {
    actions: std::vec::IntoIter<SequenceAction>,
    events: Arc<Mutex<Vec<String>>>,
}

impl CommandSequence for Script {
    fn next(&mut self, event: SequenceEvent<'_>) -> SequenceStep {
        let event = match event {
            SequenceEvent::Started => "started".to_owned(),
            SequenceEvent::Ended(outcome) => format!("ended {:?}", outcome.exit_code),
            SequenceEvent::Answered(answer) => format!("{answer:?}"),
        };
        self.events.lock().push(event.clone());
        let finish = SequenceAction::Finish { exit: Exit::Done, error: None };
        SequenceStep { progress: vec![format!("-- {event}")], action: self.actions.next().unwrap_or(finish) }
    }
}

fn run_command(command: &str, role: CallRole) -> SequenceAction {
    let arguments = Map::from_iter([("command".to_owned(), command.into())]);
    SequenceAction::Run(SequenceCall {
        tool: "bash".to_owned(),
        arguments,
        role,
        delay: Duration::ZERO,
        host: None,
    })
}

fn sequence(actions: Vec<SequenceAction>) -> (Rig, Arc<Mutex<Vec<String>>>) {
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let script = Script { actions: actions.into_iter(), events: Arc::clone(&events) };
    (rig(ExecTask::Sequence(Box::new(script))), events)
}

#[tokio::test]
async fn each_outcome_decides_the_next_call() {
    let (rig, events) = sequence(vec![
        run_command("echo a; false", CallRole::Probe),
        run_command("echo b", CallRole::Step),
        run_command("echo c; false", CallRole::Step),
    ]);
    check(
        rig,
        expect![[r#"
            exit 0
            --- out
            ran echo b
            ran echo c; false
            --- err
            -- started
            [Tool: bash("echo a; false")]
              ran echo a; false
            -- ended Some(1)
            [Tool: bash("echo b")]
              ok, 12 ms
            -- ended Some(0)
            [Tool: bash("echo c; false")]
              failed, exit code 1, 12 ms
            -- ended Some(1)
        "#]],
    )
    .await;
    assert_eq!(*events.lock(), ["started", "ended Some(1)", "ended Some(0)", "ended Some(1)"]);
}

#[tokio::test]
async fn a_check_of_the_host_is_shown_only_if_calls_are() {
    for (call_output, shown) in [(CallOutput::Hidden, false), (CallOutput::Excerpt, true)] {
        let (mut rig, _) = sequence(vec![run_command("echo a; false", CallRole::HostCheck)]);
        rig.context.call_output = call_output;
        let err = rig.err.clone();
        assert_eq!(exit(rig.context).await, Exit::Done);
        assert_eq!(
            err.text().contains("[Tool: bash(") && err.text().contains("exit code 1"),
            shown,
            "{}",
            err.text()
        );
    }
}

#[tokio::test]
async fn a_question_is_answered_by_a_person_or_by_nobody() {
    let ask = || vec![SequenceAction::Ask("Go on?".to_owned()), run_command("echo b", CallRole::Step)];
    let (nobody, events) = sequence(ask());
    assert_eq!(exit(nobody.context).await, Exit::Done);
    assert_eq!(*events.lock(), ["started", "Unavailable", "ended Some(0)"]);
    for (answer, event) in [(ApprovalOutcome::Allow, "Yes"), (ApprovalOutcome::Reject(String::new()), "No")] {
        let (mut person, events) = sequence(ask());
        person.context.confirm = Some(ConfirmHandler(Arc::new(move |question: &str, _: &AtomicBool| {
            assert_eq!(question, "Go on?");
            Ok(answer.clone())
        })));
        assert_eq!(exit(person.context).await, Exit::Done);
        assert_eq!(events.lock()[1], event);
    }
    let (mut person, events) = sequence(ask());
    person.context.confirm = Some(ConfirmHandler(Arc::new(|_, _| Ok(ApprovalOutcome::Interrupt))));
    assert_eq!(exit(person.context).await, Exit::Interrupted);
    assert_eq!(*events.lock(), ["started"]);
}

#[tokio::test]
async fn a_call_without_consent_ends_the_run() {
    let (rig, events) =
        sequence(vec![run_command("sudo reboot", CallRole::Step), run_command("echo b", CallRole::Step)]);
    assert_eq!(exit(rig.context).await, Exit::ApprovalNeeded);
    assert_eq!(*events.lock(), ["started"]);
}

#[tokio::test]
async fn an_error_of_the_run_is_printed_with_its_hint() {
    let error = Some("stopped at step 2; continue".to_owned());
    let (rig, _) = sequence(vec![SequenceAction::Finish { exit: Exit::Failed, error }]);
    check(
        rig,
        expect![[r#"
            exit 1
            --- out
            --- err
            -- started
            error: stopped at step 2
            hint: continue
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_signal_between_two_calls_ends_the_run_at_once() {
    let SequenceAction::Run(call) = run_command("echo b", CallRole::Step) else {
        unreachable!("it is a call")
    };
    let delay = Duration::from_secs(3600);
    let (rig, events) = sequence(vec![SequenceAction::Run(SequenceCall { delay, ..call })]);
    rig.stop.send(StopSignal::Interrupt).unwrap();
    assert_eq!(exit(rig.context).await, Exit::Interrupted);
    assert_eq!(*events.lock(), ["started"]);
}

#[tokio::test]
async fn a_call_is_shown_with_its_whole_command() {
    let command = format!("echo {}; rm -rf /srv/data", "x".repeat(80));
    let SequenceAction::Run(mut call) = run_command(&command, CallRole::Step) else { unreachable!("a call") };
    call.arguments =
        Map::from_iter([("timeout_s".to_owned(), 9.into()), ("command".to_owned(), command.clone().into())]);
    let (rig, _) = sequence(vec![SequenceAction::Run(call)]);
    let err = rig.err.clone();
    assert_eq!(exit(rig.context).await, Exit::Done);
    assert!(err.text().contains(&format!("[Tool: bash(\"{command}\", ...)]")), "{}", err.text());
}

#[test]
fn the_last_line_of_the_output_of_several_hosts_is_finished() {
    let (out, err) = (RecordedOutput::default(), RecordedOutput::default());
    let (task, output) = (ExecTask::Routine(String::new()), Box::new(out.clone()));
    let mut printer = printer::ExecPrinter::new(None, output, None, Box::new(err.clone()), &task);
    let host = HostOutcome {
        host: "web1".into(),
        status: Status::Ok,
        exit_code: Some(0),
        duration_ms: 0,
        group: 1,
        unreachable: None,
    };
    let outcome = Outcome { hosts: vec![host], ..Outcome::ok("== web1 (1 of 1): exit code 0 ==") };
    let event = Event::ToolFinished { call: CallId::new("c"), outcome };
    let finished = Update::Logged(Arc::new(Logged { seq: Seq(1), at: Timestamp(0), event }));
    printer.update(&finished, &Transcript::new()).expect("the output is in memory");
    assert_eq!(out.text(), "== web1 (1 of 1): exit code 0 ==\n");
}
