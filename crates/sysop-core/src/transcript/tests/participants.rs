//! Senders of prompts, shown once several people take part, and of calls that no model proposed.

use super::*;

fn from(turn: u32, by: Option<&str>) -> Step {
    Event::TurnStarted {
        turn: TurnId(turn),
        prompt: format!("prompt {turn}"),
        origin: Origin::Model,
        images: Vec::new(),
        by: by.map(str::to_owned),
    }
    .into()
}

fn opened_by(by: &str) -> Step {
    Event::SessionOpened { spec: spec().into(), opened_by: Some(by.to_owned()) }.into()
}

fn answered(by: &str) -> Step {
    let decision = Decision::Allow { command: None };
    Event::Decided { call: CallId::new("c1"), decision, by: by.to_owned() }.into()
}

/// Returns the sender that is shown with each prompt.
fn senders(steps: &[Step]) -> Vec<Option<String>> {
    let transcript = live(steps);
    let prompts = transcript.items().filter_map(|item| {
        let ItemBody::Prompt(prompt) = &item.body else { return None };
        Some(prompt.sender().map(str::to_owned))
    });
    prompts.collect()
}

#[test]
fn senders_are_shown_once_a_second_person_takes_part() {
    let ada = || Some("ada".to_owned());
    let mut steps = vec![opened_by("ada"), from(1, Some("ada")), answered("ada"), from(2, Some("ada"))];
    assert_eq!(senders(&steps), [None, None]);
    steps.extend([answered("sysop"), answered("a hook")]);
    assert_eq!(senders(&steps), [None, None]);
    let before = live(&steps).items().map(|item| item.revision).collect::<Vec<_>>();
    let mut answered_by_bob = steps.clone();
    answered_by_bob.push(answered("bob"));
    assert_eq!(senders(&answered_by_bob), [ada(), ada()]);
    let after = live(&answered_by_bob).items().map(|item| item.revision).collect::<Vec<_>>();
    assert!(before.iter().zip(&after).all(|(before, after)| before < after), "{before:?} {after:?}");
    steps.push(from(3, Some("bob")));
    assert_eq!(senders(&steps), [ada(), ada(), Some("bob".to_owned())]);
}

#[test]
fn local_front_ends_are_not_people() {
    let steps = [open(), from(1, None), answered("tui"), answered("chat"), from(2, None)];
    assert_eq!(senders(&steps), [None, None]);
}

#[test]
fn a_queued_prompt_names_its_sender_among_several_people() {
    let queued = |by: &str| -> Step {
        let by = Some(by.to_owned());
        Event::PromptQueued { text: "next".to_owned(), images: Vec::new(), by }.into()
    };
    let steps = [opened_by("ada"), from(1, Some("ada")), queued("ada"), queued("bob")];
    let transcript = live(&steps);
    let notices: Vec<_> = transcript
        .items()
        .filter_map(|item| {
            let ItemBody::Notice(notice) = &item.body else { return None };
            Some(notice.text.as_str())
        })
        .collect();
    assert_eq!(notices, ["queued: next", "queued by bob: next"]);
}

/// Returns the phrase about the origin of a call, once it awaits approval and once it has started.
fn origins(call: &ToolCall, origin: Origin, by: Option<&str>) -> [Option<String>; 2] {
    let begins = Event::TurnStarted {
        turn: TurnId(1),
        prompt: String::new(),
        origin,
        images: Vec::new(),
        by: by.map(str::to_owned),
    };
    let command = call_summary(call);
    let asked = Event::ApprovalAsked {
        call: call.clone(),
        covers: Grant::Exact { command: command.clone() },
        command,
        reason: String::new(),
        risk: Risk::default(),
        preview: Vec::new(),
        guarded: None,
        scope: None,
        terms: ApprovalTerms::default(),
    };
    let started = Event::ToolStarted { call: call.clone(), origin };
    [asked, started].map(|event| {
        let transcript = live(&[open(), begins.clone().into(), event.into()]);
        ui_text::origin_summary(transcript.plan(&call.id).expect("the call is shown"))
    })
}

#[test]
fn a_call_without_a_model_names_who_asked_for_it() {
    let both = |text: &str| [Some(text.to_owned()), Some(text.to_owned())];
    let (typed, undo) = (bash("c1", "uptime"), call("c2", "undo", json!({ "call": "direct_1", "step": 3 })));
    assert_eq!(origins(&typed, Origin::User, Some("b\u{1b}[31mob")), both("typed by b\\x1b[31mob"));
    assert_eq!(origins(&typed, Origin::User, None), both("typed by you"));
    assert_eq!(origins(&undo, Origin::User, Some("bob")), both("requested by bob"));
    assert_eq!(origins(&undo, Origin::User, None), both("requested by you"));
    assert_eq!(origins(&typed, Origin::Routine, Some("bob")), both("from a routine, started by bob"));
    assert_eq!(origins(&typed, Origin::Routine, None), both("from a routine"));
    assert_eq!(origins(&typed, Origin::Plan, Some("bob")), both("from the plan, started by bob"));
    assert_eq!(origins(&typed, Origin::Plan, None), both("from the plan"));
    assert_eq!(origins(&typed, Origin::Model, Some("bob")), [None, None]);
    assert_eq!(call_summary(&undo), "undo call 3", "without the ids of calls and records");
}

#[test]
fn the_user_of_this_machine_is_called_you_and_a_token_of_a_server_by_its_name() {
    let typed = |by: &str| -> Step {
        let typed = TypedInput::Activity { keys: 2, seconds: 1 };
        Event::TerminalInput { by: by.to_owned(), typed }.into()
    };
    let notices = |steps: &[Step]| drawn(&live(steps)).lines().filter(|line| line.contains("Note")).count();
    let has = |steps: &[Step], text: &str| drawn(&live(steps)).contains(text);
    let local = [open(), typed("tui"), typed("chat")];
    assert_eq!(notices(&local), 2);
    assert!(has(&local, "Note You used the terminal: 2 keys in 1 s") && !has(&local, "chat"));
    for served in [vec![opened_by("ada"), typed("tui")], vec![open(), from(1, Some("ada")), typed("tui")]] {
        assert!(has(&served, "Note tui used the terminal: 2 keys in 1 s"));
    }
    assert!(has(&[open(), typed("ada")], "Note ada used"));
    let mut attached = Transcript::new();
    attached.set_viewer(Some("tui"));
    for (seq, step) in (1..).zip([opened_by("ada"), typed("tui"), typed("ada")]) {
        let Step::Event(event) = step else { continue };
        let logged = Logged { seq: Seq(seq), at: Timestamp(0), event: *event };
        attached.apply(&Update::Logged(Arc::new(logged)));
    }
    assert!(
        drawn(&attached).contains("Note You used the terminal") && drawn(&attached).contains("Note ada used")
    );
    let at_once = TypedInput::Activity { keys: 1, seconds: 0 };
    let at_once = Event::TerminalInput { by: "tui".to_owned(), typed: at_once };
    assert!(drawn(&live(&[open(), at_once.into()])).contains("Note You used the terminal: 1 key\n"));
    let holds = |by: Option<&str>| Step::Delta(Delta::Control { holder: by.map(str::to_owned) });
    assert_eq!(notices(&[open(), holds(Some("tui")), holds(None)]), 0);
    assert_eq!(notices(&[open(), holds(Some("ada")), holds(None)]), 2);
    let undone = Event::Undone {
        call: CallId::new("c1"),
        step: Some(3),
        by: "tui".to_owned(),
        how: crate::outcome::Reversibility::Exact,
    };
    assert!(has(&[open(), undone.into()], "Note You undid call 3"));
}

#[test]
fn an_interrupted_turn_names_the_process_and_the_command_that_stopped() {
    let interrupted =
        || -> Step { Event::Paused { reason: PauseReason::Interrupted, detail: None, active_ms: 0 }.into() };
    let call = bash("c1", "make");
    let mut steps = vec![open(), started(1, "go").into(), replied(step(1, 1), "", vec![call.clone()]).into()];
    let not_started: Vec<Step> = [steps.clone(), vec![interrupted()]].concat();
    steps.push(Event::ToolStarted { call, origin: Origin::Model }.into());
    steps.push(finished("c1", Outcome::new(Status::Interrupted, "outcome unknown")).into());
    steps.push(interrupted());
    let while_running = steps.clone();
    steps.extend([Event::Resumed.into(), interrupted()]);
    let may_run = "the running command may not have finished";
    for (viewer, who) in [(None, "sysop exited"), (Some("tui"), "the server stopped")] {
        let last_notice = |steps: &[Step]| {
            let mut transcript = Transcript::new();
            transcript.set_viewer(viewer);
            for (step, seq) in steps.iter().zip(1..) {
                let Step::Event(event) = step else { panic!("an event") };
                let logged = Logged { seq: Seq(seq), at: Timestamp(0), event: Event::clone(event) };
                transcript.apply(&Update::Logged(Arc::new(logged)));
            }
            let notice = |item: &Item| {
                if let ItemBody::Notice(notice) = &item.body { Some(notice.text.clone()) } else { None }
            };
            transcript.items().rev().find_map(notice)
        };
        let text = |what| Some(format!("paused: {who} during this turn; {what}"));
        assert_eq!(last_notice(&not_started), text("no command was running"));
        assert_eq!(last_notice(&while_running), text(may_run));
        assert_eq!(last_notice(&steps), text("no command was running"), "after it was resumed");
    }
}
