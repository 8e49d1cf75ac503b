//! Properties of the agent-rs design that concern the session, under their original numbers.

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::test_runner::Config;
use sysop_core::event::{Decision, Event, Input};
use sysop_core::message::{FailureKind, Message};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::{ApprovalMode, Policy, RiskClass};
use sysop_core::session::Activity;

use crate::world::{World, bash, calls, says, spec};

fn messages(world: &World) -> Vec<Message> {
    world.session.messages().cloned().collect()
}

fn words() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 ,.!?é漢🙂\n]{0,40}[a-z]"
}

fn command() -> impl Strategy<Value = String> {
    "[a-z]{1,8}( [a-z0-9./-]{1,12}){0,4}"
}

const FAILURES: [FailureKind; 7] = [
    FailureKind::Auth,
    FailureKind::UnknownModel,
    FailureKind::Unreachable,
    FailureKind::RateLimited,
    FailureKind::Protocol,
    FailureKind::BadRequest,
    FailureKind::Withheld,
];

proptest! {
    #![proptest_config(Config::with_cases(128))]

    // **Feature: agent-rs, Property 1: For any input string composed entirely of whitespace characters, submitting it
    // SHALL NOT change the application state from Input, and the message history SHALL remain unchanged.**
    #[test]
    fn property_1_empty_input_rejection(blank in r"[ \t\r\n\u{a0}\u{2003}]{0,20}") {
        let mut world = World::each();
        world.prompt("before").reply(says("yes"));
        let before = messages(&world);
        world.prompt(&blank);
        prop_assert_eq!(world.session.activity(), Activity::Idle);
        prop_assert!(world.last.events.is_empty() && world.last.effects.is_empty());
        prop_assert_eq!(messages(&world), before);
    }

    // **Feature: agent-rs, Property 2: For any non-empty, non-whitespace input string, submitting it in Input state
    // SHALL transition the application to Thinking state and add the input to message history.**
    #[test]
    fn property_2_valid_input_state_transition(text in words()) {
        let mut world = World::each();
        world.prompt(&text);
        prop_assert_eq!(world.session.activity(), Activity::Thinking);
        prop_assert_eq!(messages(&world), vec![Message::user(text)]);
    }

    // **Feature: agent-rs, Property 4: For any AI response string that does not contain valid tool call JSON, the
    // response SHALL be added to message history as a Model message and state SHALL transition to Input.**
    #[test]
    fn property_4_non_tool_response_handling(text in words()) {
        let mut world = World::each();
        world.prompt("go").reply(says(&text));
        prop_assert_eq!(world.session.activity(), Activity::Idle);
        let history = messages(&world);
        let added = matches!(history.last(), Some(Message::Assistant { reply }) if reply.text == text);
        prop_assert!(added);
    }

    // **Feature: agent-rs, Property 5: For any API error during Thinking state, the application SHALL transition back
    // to Input state and set an error message.**
    #[test]
    fn property_5_api_error_recovery(which in 0..FAILURES.len(), text in words()) {
        let mut world = World::each();
        world.prompt(&text).fail(FAILURES[which]);
        prop_assert_eq!(world.session.activity(), Activity::Idle);
        let error = matches!(world.last.events.last(), Some(Event::TurnEnded { error: Some(error), .. }) if !error.is_empty());
        prop_assert!(error);
        world.prompt("again");
        prop_assert_eq!(world.session.activity(), Activity::Thinking);
    }

    // **Feature: agent-rs, Property 8: For any application in ReviewAction state, pressing Enter SHALL transition to
    // Executing state, and pressing Escape SHALL transition to Input state with action_textarea cleared.**
    #[test]
    fn property_8_review_action_state_transitions(command in command(), enter in any::<bool>()) {
        let mut world = World::each();
        world.prompt("go").reply(calls(vec![bash("b", &command)]));
        prop_assert_eq!(world.session.activity(), Activity::AwaitingApproval);
        if enter {
            world.allow();
            prop_assert_eq!(world.session.activity(), Activity::Running);
            prop_assert_eq!(world.ran[0].text_argument("command"), Some(command.as_str()));
        } else {
            world.tell(Input::Cancel);
            prop_assert_eq!(world.session.activity(), Activity::Idle);
            prop_assert!(world.ran.is_empty() && world.waiting().is_none());
        }
    }

    // **Feature: agent-rs, Property 10: For any completed command execution, the command and its output SHALL be added
    // to message history, and the application SHALL transition to Finalizing then back to Thinking to get AI
    // analysis.**
    #[test]
    fn property_10_feedback_loop_consistency(command in command(), output in ".{0,80}", code in 0_i32..256) {
        let mut world = World::each();
        world.prompt("go").reply(calls(vec![bash("b", &command)])).allow();
        let status = if code == 0 { Status::Ok } else { Status::Failed };
        world.outcome(Outcome { exit_code: Some(code), ..Outcome::new(status, output.clone()) });
        prop_assert_eq!(world.session.activity(), Activity::Thinking);
        let history = messages(&world);
        let [.., Message::Assistant { reply }, Message::ToolResults { results }] = &history[..] else {
            panic!("the call and its result are the newest messages")
        };
        prop_assert_eq!(reply.calls[0].text_argument("command"), Some(command.as_str()));
        prop_assert_eq!(&results[0].output, &output);
    }

    // **Feature: agent-rs, Property 11: For any new message added to the conversation, the messages vector length SHALL
    // increase by exactly one, and the last element SHALL equal the added message.**
    #[test]
    fn property_11_message_history_append(turns in proptest::collection::vec((words(), words()), 1..8)) {
        let mut world = World::each();
        for (prompt, answer) in turns {
            let before = messages(&world).len();
            world.prompt(&prompt);
            prop_assert_eq!(messages(&world).len(), before + 1);
            prop_assert_eq!(messages(&world).pop(), Some(Message::user(prompt)));
            world.reply(says(&answer));
            prop_assert_eq!(messages(&world).len(), before + 2);
            let history = messages(&world);
            let last = matches!(history.last(), Some(Message::Assistant { reply }) if reply.text == answer);
            prop_assert!(last);
        }
    }

    // **Feature: agent-rs, Property 15: For any application in Thinking or Finalizing state, keyboard input events
    // (except Escape for emergency quit) SHALL NOT modify input_textarea or action_textarea content.**
    #[test]
    fn property_15_input_blocking_in_async_states(text in words(), typed in words()) {
        let mut world = World::each();
        world.prompt(&text);
        let (step, before) = (world.asked.clone(), messages(&world));
        world.prompt(&typed).tell(Input::Resume);
        world.tell(Input::Decision {
            call: sysop_core::id::CallId::new("b"),
            decision: Decision::Allow { command: Some(typed) },
            by: "tester".to_owned(), person: None });
        prop_assert_eq!(world.session.activity(), Activity::Thinking);
        prop_assert_eq!(world.asked.as_ref(), step.as_ref());
        prop_assert_eq!(messages(&world), before);
    }

    // **Feature: agent-rs, Property 16: For any error condition (API failure, command failure, parse failure), the
    // application SHALL transition to a valid state (Input) with error feedback, never to an invalid or stuck state.**
    #[test]
    fn property_16_error_state_recovery(which in 0_usize..9, text in words()) {
        let mut world = World::auto();
        world.prompt(&text);
        match which {
            0..6 => {
                world.fail(FAILURES[which]);
            }
            6 => {
                world.reply(calls(vec![bash("b", "touch a")]));
                world.outcome(Outcome { exit_code: Some(1), ..Outcome::failed(text.clone()) });
                world.fail(FailureKind::Unreachable);
            }
            7 => {
                world.reply(calls(vec![crate::world::call("x", "no_such_tool", serde_json::json!({}))]));
                world.fail(FailureKind::Unreachable);
            }
            _ => {
                world.direct("bash", &text, sysop_core::event::Origin::User).fail(FailureKind::Unreachable);
            }
        }
        prop_assert_eq!(world.session.activity(), Activity::Idle);
        let feedback = world.log.iter().any(|event| matches!(event, Event::TurnEnded { error: Some(_), .. }));
        prop_assert!(feedback);
    }

    // **Feature: agent-rs, Property 20: For any command string matching a configured dangerous pattern, the
    // dangerous_command_detected flag SHALL be set to true and the UI SHALL display a warning indicator.**
    #[test]
    fn property_20_dangerous_command_detection(before in "[a-z ;]{0,20}", after in "[a-z /]{0,20}", which in 0_usize..5) {
        let patterns = [r"rm\s+-rf\s+/", "mkfs", r"dd\s+if=", r":\(\)\s*\{", r">\s*/dev/sd"].map(str::to_owned);
        let matching = ["rm  -rf /", "mkfs", "dd if=", ":() {", "> /dev/sd"][which];
        let command = format!("{before} {matching}{after}");
        let risk = Policy::new(&patterns, &[]).risk(&command, &crate::world::survey());
        prop_assert_eq!(risk.class, RiskClass::Dangerous);
        let start = command.find(matching).expect("it is there");
        let marked = risk.findings.iter().any(|f| f.start <= start && start < f.end && f.class == RiskClass::Dangerous);
        prop_assert!(marked, "{:?}", risk);
        let mut world = World::new(sysop_core::spec::SessionSpec { dangerous_patterns: patterns.to_vec(), ..spec(ApprovalMode::Auto) });
        world.prompt("go").reply(calls(vec![bash("b", &command)]));
        let asked = matches!(world.last.events.last(), Some(Event::ApprovalAsked { risk, .. }) if risk.class == RiskClass::Dangerous);
        prop_assert!(asked, "auto mode asks: {}", world.lines());
    }

    // **Feature: agent-rs, Property 21: For any conversation with more than max_history_messages, the API request SHALL
    // include only the system prompt plus the most recent max_history_messages, preserving conversation continuity.**
    #[test]
    fn property_21_sliding_window_history_management(turns in 1_usize..30, keep in 3_usize..20, tools in 0_usize..12) {
        let mut spec = spec(ApprovalMode::Auto);
        spec.max_history_messages = keep;
        let mut world = World::new(spec);
        for n in 0..turns {
            world.prompt(&format!("p{n}")).reply(says("ok"));
        }
        world.prompt("last");
        for n in 0..tools {
            world.reply(calls(vec![bash(&format!("c{n}"), &format!("touch f{n}"))])).outcome(Outcome::ok(n.to_string()));
        }
        let (_, request) = world.asked.clone().expect("asked");
        let sent: Vec<_> = request.messages.iter().map(|message| message.message().clone()).collect();
        let whole = messages(&world);
        prop_assert!(sent.len() <= keep);
        prop_assert!(sent.contains(&Message::user("last")), "the turn's own prompt is sent");
        let tail = &sent[1..];
        prop_assert_eq!(tail, &whole[whole.len() - tail.len()..], "the newest, without a gap");
        if whole.len() <= keep {
            prop_assert_eq!(sent.len(), whole.len());
        } else {
            prop_assert!(sent.len() + 2 >= keep, "no more is left out than pairs ask for");
        }
    }
}
