//! Notices about a requested pause, about queued prompts and about retries, and calls that never started.

use super::*;

fn newest_notice(transcript: &Transcript) -> String {
    let newest = transcript.items().rev().find_map(|item| {
        let ItemBody::Notice(notice) = &item.body else { return None };
        Some(notice.text.clone())
    });
    newest.expect("there is a notice")
}

#[test]
fn a_pause_is_announced_until_the_running_work_ends() {
    let call = bash("c1", "make");
    let pause = || Step::from(Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 });
    let thinking: Vec<Step> =
        vec![open(), started(1, "go").into(), Event::StepStarted { step: step(1, 1) }.into()];
    let mut running = thinking.clone();
    running.push(replied(step(1, 1), "", vec![call.clone()]).into());
    running.push(Event::ToolStarted { call, origin: Origin::Model }.into());
    for (mut steps, delay, notice) in [
        (thinking, PauseDelay::Step, "pausing after this step"),
        (running, PauseDelay::Command, "pausing after this command"),
    ] {
        steps.push(pause());
        let transcript = live(&steps);
        assert_eq!(transcript.pause_delay(), Some(delay));
        assert_eq!(newest_notice(&transcript), notice);
    }
    let transcript = live(&[open(), started(1, "go").into(), pause()]);
    assert_eq!((transcript.pause_delay(), newest_notice(&transcript)), (None, "paused".to_owned()));
}

/// A turn in which a command runs, and a pause was requested.
fn pausing(tool: ToolCall) -> Vec<Step> {
    vec![
        open(),
        started(1, "go").into(),
        Event::StepStarted { step: step(1, 1) }.into(),
        replied(step(1, 1), "", vec![tool.clone()]).into(),
        Event::ToolStarted { call: tool, origin: Origin::Model }.into(),
        Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 }.into(),
    ]
}

#[test]
fn an_answer_goes_on_after_a_pause_was_requested() {
    let text = |text: &str| Step::Delta(Delta::Text { step: step(1, 1), text: text.into() });
    let pause = || Step::from(Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 });
    let mut steps: Vec<Step> =
        vec![open(), started(1, "go").into(), Event::StepStarted { step: step(1, 1) }.into()];
    steps.extend([text("one "), pause(), text("two "), Event::Resumed.into(), text("three")]);
    let answer = |steps: &[Step]| {
        let transcript = live(steps);
        let answer = transcript.item(&ItemId::Answer(step(1, 1))).map(|item| item.body.clone());
        let Some(ItemBody::Answer(text)) = answer else { panic!("there is an answer") };
        text.text
    };
    assert_eq!(answer(&steps), "one two three");
    // A chunk that comes after the reply belongs to the text in the log.
    steps.extend([pause(), replied(step(1, 1), "one two three.", Vec::new()).into(), text("late")]);
    assert_eq!(answer(&steps), "one two three.");
}

#[test]
fn the_notice_of_a_pause_follows_it_from_the_request_to_its_end() {
    let mut steps = pausing(bash("c1", "make"));
    assert_eq!(newest_notice(&live(&steps)), "pausing after this command");
    let mut withdrawn = steps.clone();
    withdrawn.push(Event::Resumed.into());
    assert_eq!(newest_notice(&live(&withdrawn)), "pause canceled");
    steps.push(finished("c1", Outcome::ok("made")).into());
    let paused = live(&steps);
    assert_eq!((paused.pause_delay(), newest_notice(&paused)), (None, "paused".to_owned()));
    assert!(paused.pause_notice().is_some(), "the phase says the same");
    steps.push(Event::Resumed.into());
    let resumed = live(&steps);
    assert_eq!(resumed.pause_notice(), None);
    assert_eq!(newest_notice(&resumed), "paused, then resumed");
    assert!(!drawn(&resumed).contains("Warning"), "it is no warning any more: {}", drawn(&resumed));
}

#[test]
fn a_pause_waits_for_a_command_only_if_one_runs() {
    let read = call("c1", "read_file", json!({ "path": "/etc/hosts" }));
    assert_eq!(live(&pausing(read)).pause_delay(), Some(PauseDelay::Step));
    let mut asked = pausing(bash("c1", "make"));
    asked.truncate(4);
    asked.push(Step::from(super::asked(&bash("c1", "make"))));
    assert_eq!(live(&asked).work_before_pause(), Some(PauseDelay::Step));
}

#[test]
fn prompts_that_a_cancel_drops_are_no_longer_called_queued() {
    let queued =
        |text: &str| Step::from(Event::PromptQueued { text: text.to_owned(), images: Vec::new(), by: None });
    let mut steps: Vec<Step> = vec![open(), started(1, "go").into(), queued("first"), queued("second")];
    assert_eq!(newest_notice(&live(&steps)), "queued: second");
    let mut next = steps.clone();
    steps.push(Event::CancelAsked { then: CancelFollowUp::Nothing }.into());
    let notices = |steps: &[Step]| drawn(&live(steps)).matches("queued:").count();
    assert_eq!(notices(&steps), 0);
    assert_eq!(newest_notice(&live(&steps)), "not sent: second");
    // A prompt whose turn has started is not called back by a cancel of that turn.
    next.push(ended(1, StopReason::EndTurn).into());
    next.push(started(2, "first").into());
    assert!(!drawn(&live(&next)).contains("queued: first"), "{}", drawn(&live(&next)));
    next.push(Event::CancelAsked { then: CancelFollowUp::Nothing }.into());
    assert_eq!(newest_notice(&live(&next)), "not sent: second");
    assert!(!drawn(&live(&next)).contains("not sent: first"));
}

#[test]
fn a_pause_that_stopped_nothing_leaves_no_notice() {
    let pause = || Step::from(Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 });
    let mut steps: Vec<Step> =
        vec![open(), started(1, "go").into(), Event::StepStarted { step: step(1, 1) }.into(), pause()];
    assert_eq!(newest_notice(&live(&steps)), "pausing after this step");
    let mut alone = steps.clone();
    alone.extend([replied(step(1, 1), "done", Vec::new()).into(), ended(1, StopReason::EndTurn).into()]);
    assert!(!drawn(&live(&alone)).contains("pau"), "{}", drawn(&live(&alone)));
    // The pause stops the queued prompt instead.
    let queued = Event::PromptQueued { text: "next".to_owned(), images: Vec::new(), by: None };
    steps.extend([queued.into(), replied(step(1, 1), "done", Vec::new()).into()]);
    steps.extend([ended(1, StopReason::EndTurn).into(), started(2, "next").into(), pause()]);
    let transcript = live(&steps);
    assert_eq!(transcript.phase(), &SessionPhase::Paused { reason: PauseReason::Asked });
    assert_eq!(drawn(&transcript).matches("Warning paused").count(), 1, "{}", drawn(&transcript));
}

#[test]
fn the_retries_of_a_request_are_one_notice() {
    let notice = |text: &str| Step::Delta(Delta::Notice { text: text.into() });
    check(
        vec![
            open(),
            started(1, "x").into(),
            Event::StepStarted { step: step(1, 1) }.into(),
            notice(&ui_text::retrying("0.5 s", 2, 5, "no answer")),
            notice(&ui_text::retrying("1 s", 3, 5, "no answer")),
            notice(&ui_text::retrying("2 s", 4, 5, "busy")),
            notice("unrelated"),
        ],
        expect![[r#"
            prompt-1: x
            live-1 (live): Note retrying in 2 s, attempt 4 of 5: busy
            live-2 (live): Note unrelated
            Thinking { step: StepId { turn: TurnId(1), step: 1 } }
        "#]],
    );
}

#[test]
fn the_retries_of_replies_that_break_off_are_one_notice() {
    let breaks = |attempt| {
        [
            Delta::Text { step: step(1, 1), text: "half".into() },
            Delta::Notice { text: ui_text::retrying("1 s", attempt, 5, "the connection broke") },
            Delta::Restarted { step: step(1, 1) },
        ]
    };
    let mut steps = vec![open(), started(1, "x").into(), Event::StepStarted { step: step(1, 1) }.into()];
    steps.extend([2, 3].into_iter().flat_map(breaks).map(Step::Delta));
    check(
        steps,
        expect![[r#"
            prompt-1: x
            live-1 (live): Note retrying in 1 s, attempt 3 of 5: the connection broke
            Thinking { step: StepId { turn: TurnId(1), step: 1 } }
        "#]],
    );
}

#[test]
fn a_notice_does_not_come_between_a_call_and_its_result() {
    let call = bash("c1", "make");
    check(
        vec![
            open(),
            started(1, "go").into(),
            Event::StepStarted { step: step(1, 1) }.into(),
            replied(step(1, 1), "", vec![call.clone()]).into(),
            asked(&call).into(),
            Event::PromptQueued { text: "and then".to_owned(), images: Vec::new(), by: None }.into(),
            decided("c1", Decision::Allow { command: None }).into(),
            Event::ToolStarted { call, origin: Origin::Model }.into(),
            finished("c1", Outcome::ok("made")).into(),
        ],
        expect![[r#"
            prompt-1: go
            plan-c1: "make" Allowed { by: Person("tui"), scope: Once } from None
            output-c1: bash ok "made"
            notice-6: Note queued: and then
            Thinking { step: StepId { turn: TurnId(1), step: 1 } }
        "#]],
    );
}

#[test]
fn only_a_call_that_the_policy_rejected_is_rejected() {
    let at = step(1, 1);
    check(
        vec![
            open(),
            started(1, "x").into(),
            Event::StepStarted { step: at }.into(),
            replied(at, "", vec![bash("c1", "a"), bash("c2", "b"), bash("c3", "c")]).into(),
            finished("c1", Outcome::new(Status::Rejected, "denied by the rule `a`")).into(),
            finished("c2", Outcome::failed("cannot connect to web1")).into(),
            finished("c3", Outcome::not_run()).into(),
        ],
        expect![[r#"
            prompt-1: x
            plan-c1: "a" Rejected { by: Policy, reason: "" } from None
            output-c1: bash rejected "denied by the rule `a`"
            plan-c2: "b" NotRun from None
            output-c2: bash failed "cannot connect to web1"
            plan-c3: "c" NotRun from None
            output-c3: bash cancelled "not run: the turn was stopped"
            Thinking { step: StepId { turn: TurnId(1), step: 1 } }
        "#]],
    );
}

/// A turn on a host in which the model has replied with these calls.
fn replied_on(host: &str, calls: Vec<ToolCall>) -> Vec<Step> {
    let spec = SessionSpec { host: host.into(), ..spec() };
    vec![
        Event::SessionOpened { spec: spec.into(), opened_by: None }.into(),
        turn_started(1, "disk full", Origin::Model).into(),
        Event::StepStarted { step: step(1, 1) }.into(),
        replied(step(1, 1), "Let me look.", calls).into(),
    ]
}

#[test]
fn a_call_whose_host_is_surveyed_is_pending_and_no_model_answers() {
    let (first, second) = (bash("c1", "df -h"), call("c2", "read_file", json!({ "path": "a" })));
    let preparing = |steps: &[Step]| {
        let transcript = live(steps);
        (transcript.pending_call().cloned(), ui_text::preparing_call(&transcript))
    };
    let mut steps = replied_on("slow", vec![first.clone(), second.clone()]);
    assert_eq!(preparing(&steps[..3]), (None, None), "the model is answering");
    assert_eq!(preparing(&steps), (Some(first.clone()), Some("connecting to slow".to_owned())));
    let local = replied_on("local", vec![first.clone()]);
    assert_eq!(preparing(&local), (Some(first.clone()), Some("checking the command".to_owned())));
    steps.push(asked(&first).into());
    assert_eq!(preparing(&steps), (None, None), "it waits for approval");
    steps.push(decided("c1", Decision::Allow { command: None }).into());
    assert_eq!(preparing(&steps).1.as_deref(), Some("preparing the call"));
    steps.push(Event::ToolStarted { call: first, origin: Origin::Model }.into());
    assert_eq!(preparing(&steps), (None, None), "it runs");
    steps.push(finished("c1", Outcome::ok("full")).into());
    assert_eq!(preparing(&steps), (Some(second), Some("checking the call on slow".to_owned())));
    steps.push(finished("c2", Outcome::ok("text")).into());
    assert_eq!(preparing(&steps), (None, None));
}

#[test]
fn a_typed_command_waits_for_its_host_and_not_for_the_model() {
    let mut steps = replied_on("slow", Vec::new());
    steps.truncate(1);
    steps.push(turn_started(1, "", Origin::User).into());
    assert_eq!(ui_text::preparing_call(&live(&steps)).as_deref(), Some("connecting to slow"));
    steps.push(ended(1, StopReason::EndTurn).into());
    assert_eq!(ui_text::preparing_call(&live(&steps)), None);
}

#[test]
fn the_wait_before_a_retry_counts_down() {
    let text = ui_text::retrying("4 s", 3, 5, "no answer");
    let after =
        |milliseconds| ui_text::retry_countdown(&text, std::time::Duration::from_millis(milliseconds));
    assert_eq!(after(0), text);
    assert_eq!(after(1_200), "retrying in 3 s, attempt 3 of 5: no answer");
    assert_eq!(after(3_500), "retrying in 0.5 s, attempt 3 of 5: no answer");
    assert_eq!(after(4_000), "trying again, attempt 3 of 5: no answer");
    let other = "retrying in a while";
    assert_eq!(ui_text::retry_countdown(other, std::time::Duration::from_secs(9)), other);
}

#[test]
fn the_notice_of_a_retry_does_not_stay_above_the_failure() {
    let failure =
        ModelFailure { kind: FailureKind::Unreachable, message: "no answer (tried 5 times)".to_owned() };
    check(
        vec![
            open(),
            started(1, "x").into(),
            Event::StepStarted { step: step(1, 1) }.into(),
            Step::Delta(Delta::Notice { text: "unrelated".to_owned() }),
            Step::Delta(Delta::Notice { text: ui_text::retrying("4 s", 5, 5, "no answer") }),
            Event::ModelFailed { step: step(1, 1), failure }.into(),
            ended(1, StopReason::Failed).into(),
        ],
        expect![[r#"
            prompt-1: x
            live-1 (live): Note unrelated
            end-1: failed Some("no answer (tried 5 times)") 0+0 tokens, 1 steps
            Idle
        "#]],
    );
}

#[test]
fn a_check_of_the_hosts_shows_again_once_the_call_is_allowed() {
    let checking = "checking the command on 4 hosts: waiting for dead";
    let notice = || Step::Delta(Delta::Notice { text: format!("{checking}…") });
    let call = bash("c1", "rm a");
    let mut steps: Vec<Step> = vec![
        open(),
        started(1, "go").into(),
        replied(step(1, 1), "", vec![call.clone()]).into(),
        asked(&call).into(),
        notice(),
    ];
    assert_eq!(live(&steps).host_work(), None, "a late notice of the first check");
    steps.extend([decided("c1", Decision::Allow { command: None }).into(), notice()]);
    assert_eq!(live(&steps).host_work(), Some(checking));
}

#[test]
fn the_work_of_a_host_around_a_command_is_no_notice_and_ends_with_the_next_news() {
    let notice = |text: &str| Step::Delta(Delta::Notice { text: text.to_owned() });
    let begun: Vec<Step> = vec![
        open(),
        started(1, "go").into(),
        Event::ToolStarted { call: bash("c1", "rm a"), origin: Origin::Model }.into(),
    ];
    let items = live(&begun).items().len();
    let with = |steps: Vec<Step>| {
        let transcript = live(&[begun.clone(), steps].concat());
        (transcript.host_work().map(str::to_owned), transcript.items().len() - items)
    };
    let saving = || notice("saving files for undo on web1…");
    assert_eq!(with(vec![saving()]), (Some("saving files for undo on web1".to_owned()), 0));
    let of_host = notice("web1: comparing files on web1…");
    assert_eq!(with(vec![of_host]).0.as_deref(), Some("web1: comparing files on web1"));
    let waiting = "checking the command on 4 hosts: waiting for dead";
    assert_eq!(with(vec![notice(&format!("{waiting}…"))]).0.as_deref(), Some(waiting));
    let output = Delta::Output { call: CallId::new("c1"), text: "x".to_owned() };
    assert_eq!(with(vec![saving(), Step::Delta(output)]), (None, 0));
    assert_eq!(with(vec![saving(), finished("c1", Outcome::ok("")).into()]), (None, 0));
    for other in ["saving files for undoing…", "restoring files", "loading…"] {
        assert_eq!(with(vec![notice(other)]), (None, 1), "{other}");
    }
}
