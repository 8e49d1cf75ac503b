//! Properties of the agent-rs design that concern the front end, under their original numbers. Real keys, real session.
#![expect(clippy::wildcard_enum_match_arm, reason = "the rest is for others")]

use crossterm::event::KeyCode;
use proptest::collection::vec;
use proptest::prelude::{
    Just, Strategy, any, prop_assert, prop_assert_eq, prop_assert_ne, prop_oneof, proptest,
};
use proptest::test_runner::Config;
use ratatui::layout::Rect;
use sysop_core::event::{Decision, Event, Input};
use sysop_core::message::{FailureKind, Message};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::policy::RiskClass;
use sysop_core::transcript::{ItemBody, SessionPhase, UserPrompt};

use super::world::{World, bash, control, key, says, text_of};
use crate::app::{Action, State};
use crate::frame::{COLUMNS_MIN, ROWS_MIN, regions};

/// Text for a model; lines that start with `!` or `/` would be commands.
fn words() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9,.é漢][a-zA-Z0-9 ,.!é漢]{0,40}[a-z]"
}

/// Commands, including multi-line ones and characters that a text area or terminal might change.
fn command() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}( [a-z0-9./-]{1,12}){0,4}",
        "[a-z]{1,8} [\"'$|&;é漢🙂\t a-z0-9]{0,60}(\n[a-z /.-]{0,20}){0,3}",
        "[a-z]{1,8} [\u{1b}\u{7}\u{202e}\r a-z]{1,20}[a-z]",
    ]
}

const FAILURES: [FailureKind; 6] = [
    FailureKind::Auth,
    FailureKind::UnknownModel,
    FailureKind::Unreachable,
    FailureKind::RateLimited,
    FailureKind::Protocol,
    FailureKind::BadRequest,
];

fn history(world: &World) -> Vec<Message> {
    world.session.messages().cloned().collect()
}

/// Puts a command under review and displays it.
fn in_review(command: &str) -> World {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", command)).is_read();
    world
}

fn any_key() -> impl Strategy<Value = KeyCode> {
    prop_oneof![
        any::<char>().prop_map(KeyCode::Char),
        "[a-z?/@!]".prop_map(|text| KeyCode::Char(text.chars().next().unwrap_or('a'))),
        Just(KeyCode::Enter),
        Just(KeyCode::Backspace),
        Just(KeyCode::Tab),
        Just(KeyCode::Up),
        Just(KeyCode::Down),
        Just(KeyCode::Left),
        Just(KeyCode::Home),
        Just(KeyCode::Delete),
        Just(KeyCode::PageUp),
        Just(KeyCode::F(5)),
    ]
}

/// An event of the front end, in any order.
#[derive(Debug, Clone)]
enum Move {
    Key(KeyCode),
    Control(char),
    Paste(String),
    Waits(u16),
    Replies(u8),
    Ends(u8),
    Prints(String),
    Decides(bool),
    Frame(u16, u16),
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        8 => prop_oneof![any_key(), Just(KeyCode::Esc)].prop_map(Move::Key),
        2 => prop_oneof![Just('c'), Just('p'), Just('r'), Just('o'), Just('g'), Just('j')].prop_map(Move::Control),
        1 => ".{0,200}".prop_map(Move::Paste),
        2 => (0..2_000_u16).prop_map(Move::Waits),
        4 => any::<u8>().prop_map(Move::Replies),
        3 => any::<u8>().prop_map(Move::Ends),
        1 => ".{0,80}".prop_map(Move::Prints),
        1 => any::<bool>().prop_map(Move::Decides),
        3 => (1..130_u16, 1..45_u16).prop_map(|(columns, rows)| Move::Frame(columns, rows)),
    ]
}

fn make(world: &mut World, a_move: Move, number: usize) {
    match a_move {
        Move::Key(code) => {
            world.press(code);
        }
        Move::Control(letter) => {
            world.key(control(letter));
        }
        Move::Paste(text) => {
            world.pastes(&text);
        }
        Move::Waits(time) => {
            world.passes(std::time::Duration::from_millis(u64::from(time)));
        }
        Move::Replies(how) if world.asked.is_some() => {
            match how % 4 {
                0 => world.replies(says("done")),
                1 => world.fails(FAILURES[usize::from(how / 4) % FAILURES.len()]),
                _ => world.replies(bash(&format!("c{number}"), &format!("touch f{number}"))),
            };
        }
        Move::Ends(how) if world.running.is_some() => {
            world.ends(Outcome::new(
                [Status::Ok, Status::Failed, Status::Timeout, Status::Unknown][usize::from(how) % 4],
                "out",
            ));
        }
        Move::Prints(text) if world.running.is_some() => {
            world.prints(&text);
        }
        Move::Decides(allow) => {
            if let SessionPhase::AwaitingApproval { call } = world.app.transcript().phase().clone() {
                let decision = if allow {
                    Decision::Allow { command: None }
                } else {
                    Decision::Reject { reason: String::new() }
                };
                world.tell(Input::Decision { call, decision, by: "web".to_owned(), person: None });
            }
        }
        Move::Frame(columns, rows) => {
            world.frame(columns, rows);
        }
        Move::Replies(_) | Move::Ends(_) | Move::Prints(_) => {}
    }
}

proptest! {
    #![proptest_config(Config::with_cases(128))]

    // **Feature: agent-rs, Property 1: For any input string composed entirely of whitespace characters, submitting it
    // SHALL NOT change the application state from Input, and the message history SHALL remain unchanged.**
    #[test]
    fn property_1_empty_input_rejection(blank in "[ \t\u{a0}\u{2003}]{0,20}") {
        let mut world = World::new();
        world.pastes(&blank).press(KeyCode::Enter);
        prop_assert_eq!(world.app.state(), State::Input);
        prop_assert!(history(&world).is_empty() && world.app.transcript().items().len() == 0);
    }

    // **Feature: agent-rs, Property 2: For any non-empty, non-whitespace input string, submitting it in Input state
    // SHALL transition the application to Thinking state and add the input to message history.**
    #[test]
    fn property_2_valid_input_state_transition(text in words()) {
        let mut world = World::new();
        world.says(&text);
        prop_assert_eq!(world.app.state(), State::Thinking);
        let prompt = ItemBody::Prompt(UserPrompt { text: text.clone(), by: None, is_named: false });
        let shown = world.app.transcript().items().any(|item| item.body == prompt);
        prop_assert!(shown);
        prop_assert_eq!(history(&world), vec![Message::user(text)]);
        prop_assert!(world.app.composer().is_empty());
    }

    // **Feature: agent-rs, Property 5: For any API error during Thinking state, the application SHALL transition back
    // to Input state and set an error message.**
    #[test]
    fn property_5_api_error_recovery(which in 0..FAILURES.len(), text in words()) {
        let mut world = World::new();
        world.says(&text).fails(FAILURES[which]);
        prop_assert_eq!(world.app.state(), State::Input);
        prop_assert!(world.screen(80, 24).contains("the model cannot be reached; start it"));
        world.says("again");
        prop_assert_eq!(world.app.state(), State::Thinking);
    }

    // **Feature: agent-rs, Property 6: For any parsed tool call with a command, transitioning to ReviewAction state
    // SHALL populate the action_textarea with that exact command string.**
    #[test]
    fn property_6_command_display_in_review(command in command()) {
        let mut world = World::that_always_asks();
        world.says("go").replies(bash("c1", &command));
        prop_assert_eq!(world.app.state(), State::ReviewAction);
        let review = world.app.review().expect("in review");
        prop_assert_eq!(review.area().lines().join("\n"), command.clone());
        // An unedited command runs exactly as proposed.
        world.is_read();
        while world.app.review().is_some_and(|review| !review.is_read()) {
            world.press(KeyCode::Enter).is_read();
        }
        world.answers_with('Y');
        let ran = world.running.as_ref().and_then(|call| call.text_argument("command").map(str::to_owned));
        prop_assert_eq!(ran, Some(command));
    }

    // **Feature: agent-rs, Property 7: For any sequence of valid text editing operations (insert, delete, cursor move)
    // on a TextArea, the resulting content SHALL reflect all operations applied in order.**
    #[test]
    fn property_7_textarea_edit_consistency(
        command in "[a-z]{1,8}( [a-z0-9]{1,6}){0,3}",
        edits in vec(prop_oneof![
            4 => "[a-zA-Z0-9 é漢./-]".prop_map(|text| KeyCode::Char(text.chars().next().unwrap_or('a'))),
            2 => Just(KeyCode::Backspace),
            1 => Just(KeyCode::Delete),
            1 => Just(KeyCode::Left),
            1 => Just(KeyCode::Right),
            1 => Just(KeyCode::Home),
            1 => Just(KeyCode::End),
        ], 0..40),
    ) {
        let mut world = in_review(&command);
        world.answers_with('i');
        // Reference implementation on a list of characters.
        let mut expected: Vec<char> = command.chars().collect();
        let mut cursor = expected.len();
        for edit in &edits {
            match edit {
                KeyCode::Char(sign) => {
                    expected.insert(cursor, *sign);
                    cursor += 1;
                }
                KeyCode::Backspace if cursor > 0 => {
                    cursor -= 1;
                    expected.remove(cursor);
                }
                KeyCode::Delete if cursor < expected.len() => {
                    expected.remove(cursor);
                }
                KeyCode::Left => cursor = cursor.saturating_sub(1),
                KeyCode::Right => cursor = (cursor + 1).min(expected.len()),
                KeyCode::Home => cursor = 0,
                KeyCode::End => cursor = expected.len(),
                _ => {}
            }
            world.press(*edit);
        }
        let expected: String = expected.into_iter().collect();
        prop_assert_eq!(world.app.review().expect("in review").command(), expected.clone());
        world.press(KeyCode::Enter);
        // An edited command is shown again with its effect.
        if let Some(takes_capital_y) = world.app.review().map(|review| review.takes_capital_y()) {
            world.is_read();
            if takes_capital_y { world.answers_with('Y') } else { world.press(KeyCode::Enter) };
        }
        if expected.trim().is_empty() {
            prop_assert_eq!(world.app.state(), State::ReviewAction);
        } else {
            let ran = world.running.as_ref().and_then(|call| call.text_argument("command").map(str::to_owned));
            prop_assert_eq!(ran, Some(expected));
        }
    }

    // **Feature: agent-rs, Property 8: For any application in ReviewAction state, pressing Enter SHALL transition to
    // Executing state, and pressing Escape SHALL transition to Input state with action_textarea cleared.**
    #[test]
    fn property_8_review_action_state_transitions(command in "[a-z]{1,8}( [a-z0-9./-]{1,12}){0,4}") {
        let mut allowed = in_review(&command);
        allowed.press(KeyCode::Enter);
        // A random word may be a program that can lock users out (`pw`) and takes a capital Y.
        if allowed.app.review().is_some_and(|review| review.takes_capital_y()) {
            allowed.answers_with('Y');
        }
        prop_assert_eq!(allowed.app.state(), State::Executing);
        prop_assert!(allowed.running.is_some());
        let mut cancelled = in_review(&command);
        cancelled.press(KeyCode::Esc);
        prop_assert_eq!(cancelled.app.state(), State::Input);
        prop_assert!(cancelled.app.review().is_none() && cancelled.running.is_none());
    }

    // **Feature: agent-rs, Property 12: For any message with a given role (User, Model, System), rendering it SHALL
    // produce visually distinct output (different colors or prefixes) from messages with other roles.**
    #[test]
    fn property_12_message_role_styling_distinction(text in "[a-z]{4,12}( [a-z]{2,8}){0,3}") {
        let mut user = World::new();
        user.tell(Input::prompt(text.clone()));
        let mut model = World::new();
        model.says("x").replies(says(&text));
        let mut system = World::new();
        system.delta(sysop_core::event::Delta::Notice { text: text.clone() });
        // The text's row in the history, with its styles.
        let row = |world: &mut World| {
            let buffer = world.frame(80, 24);
            let screen = text_of(&buffer);
            let at = screen.lines().position(|line| line.contains(&text)).unwrap_or_else(|| panic!("{screen}"));
            let y = u16::try_from(at).expect("a screen has few rows");
            let cells: Vec<_> =
                (0..80).map(|x| &buffer[(x, y)]).map(|cell| (cell.symbol().to_owned(), cell.style())).collect();
            cells
        };
        let (user, model, system) = (row(&mut user), row(&mut model), row(&mut system));
        prop_assert_ne!(&user, &model);
        prop_assert_ne!(&user, &system);
        prop_assert_ne!(&model, &system);
    }

    // **Feature: agent-rs, Property 14: For any App instance at any point in execution, the state field SHALL be one of
    // the defined AppState variants, and the UI render function SHALL not panic for that state.**
    #[test]
    fn property_14_state_validity(moves in vec(a_move(), 1..30)) {
        let mut world = World::new();
        for (number, a_move) in moves.into_iter().enumerate() {
            make(&mut world, a_move, number);
            let state = world.app.state();
            world.frame(80, 24);
            // A proposal is shown exactly while it waits, and nothing runs without approval.
            let waits = world.app.review().is_some();
            prop_assert_eq!(waits, state == State::ReviewAction, "{:?}", state);
            if let Some(running) = &world.running {
                let allowed = world.log.iter().any(|event| matches!(event,
                    Event::Decided { call, decision: Decision::Allow { .. } | Decision::AllowSession { .. }, .. }
                    if *call == running.id));
                let granted = world.log.iter().any(|event| matches!(event,
                    Event::Decided { decision: Decision::AllowSession { .. }, .. }));
                let typed = world.log.iter().any(|event| matches!(event,
                    Event::ToolStarted { call, origin: sysop_core::event::Origin::User } if call.id == running.id));
                prop_assert!(allowed || granted || typed);
            }
        }
    }

    // **Feature: agent-rs, Property 15: For any application in Thinking or Finalizing state, keyboard input events
    // (except Escape for emergency quit) SHALL NOT modify input_textarea or action_textarea content.**
    #[test]
    fn property_15_input_blocking_in_async_states(keys in vec(any_key(), 1..30), finalizing in any::<bool>()) {
        let mut world = if finalizing { in_review("ls") } else { World::new() };
        if finalizing {
            world.press(KeyCode::Enter).ends(Outcome::ok("x"));
            prop_assert_eq!(world.app.state(), State::Finalizing);
        } else {
            world.says("go");
            prop_assert_eq!(world.app.state(), State::Thinking);
        }
        let busy = world.app.state();
        let before = history(&world);
        for code in keys {
            let typed = matches!(code, KeyCode::Char(sign) if !sign.is_control());
            let written = world.app.written_now();
            if code == KeyCode::Enter && world.app.composer().text().trim_start().starts_with('/') {
                // Commands such as `/stop` take effect immediately.
                return Ok(());
            }
            world.key(key(code));
            // Typed text goes to the composer for queued prompts.
            prop_assert_eq!(world.app.written_now(), written);
            prop_assert!(world.app.review().is_none());
            prop_assert_eq!(world.app.state(), busy);
            if typed && world.app.overlay().is_some() {
                world.press(KeyCode::Esc);
                prop_assert!(world.app.overlay().is_none());
                return Ok(());
            }
        }
        prop_assert_eq!(history(&world), before);
    }

    // **Feature: agent-rs, Property 16: For any error condition (API failure, command failure, parse failure), the
    // application SHALL transition to a valid state (Input) with error feedback, never to an invalid or stuck state.**
    #[test]
    fn property_16_error_state_recovery(which in 0..FAILURES.len() + 4, text in words()) {
        let mut world = in_review("make");
        let feedback = if let Some(kind) = FAILURES.get(which) {
            world.press(KeyCode::Enter).ends(Outcome::ok("x")).fails(*kind);
            "the model cannot be reached; start it"
        } else {
            let (status, feedback) = [
                (Status::Failed, "failed"),
                (Status::Timeout, "timed out"),
                (Status::Unknown, "outcome unknown"),
                (Status::Cancelled, "canceled"),
            ][which - FAILURES.len()];
            world.press(KeyCode::Enter).ends(Outcome { exit_code: None, ..Outcome::new(status, "no such file") });
            prop_assert_eq!(world.app.state(), State::Finalizing);
            world.replies(says("that did not work"));
            feedback
        };
        prop_assert!(matches!(world.app.state(), State::Input | State::Done), "{:?}", world.app.state());
        let screen = world.screen(100, 40);
        prop_assert!(screen.contains(feedback), "{feedback}: {screen}");
        world.says(&text);
        prop_assert_eq!(world.app.state(), State::Thinking);
    }

    // **Feature: agent-rs, Property 17: For any application state, the middle pane SHALL render the action_textarea
    // when in ReviewAction, execution_output when in Executing, and be empty/hidden otherwise.**
    #[test]
    fn property_17_middle_pane_rendering(name in "[a-z]{5,12}", moves in 0..6_usize) {
        let (proposal, output) = (format!("touch {name}1"), format!("made {name}2"));
        let mut world = World::new();
        if moves > 0 {
            world.says("go");
        }
        if moves > 1 {
            world.replies(bash("c1", &proposal)).is_read();
        }
        if moves > 2 {
            world.press(KeyCode::Enter).prints(&output);
        }
        if moves > 3 {
            world.ends(Outcome::ok("quiet"));
        }
        if moves > 4 {
            world.replies(says("all is well"));
        }
        let state = world.app.state();
        let all = [
            State::Input,
            State::Thinking,
            State::ReviewAction,
            State::Executing,
            State::Finalizing,
            State::Done,
        ];
        prop_assert_eq!(state, all[moves]);
        let rows = crate::frame::middle_of(&world.app, 80, 24);
        let shows = |what: &str| rows.iter().any(|row| row.contains(what));
        prop_assert_eq!(shows(&proposal), state == State::ReviewAction);
        prop_assert_eq!(shows(&output), state == State::Executing);
        prop_assert_eq!(rows.is_empty(), !matches!(state, State::ReviewAction | State::Executing));
        let screen = world.screen(80, 24);
        for row in &rows {
            prop_assert!(screen.contains(row.trim_end()), "{row}: {screen}");
        }
    }

    // **Feature: agent-rs, Property 18: For any terminal dimensions (width, height) above minimum thresholds, the
    // layout SHALL render without panic and all panes SHALL have non-zero dimensions.**
    #[test]
    fn property_18_responsive_layout_adaptation(
        columns in COLUMNS_MIN..300,
        rows in ROWS_MIN..120,
        middle in 0..200_u16,
        input in 0..200_u16,
        stage in 0..3_usize,
    ) {
        let area = Rect::new(0, 0, columns, rows);
        let parts = regions(area, middle, input);
        let all: Vec<Rect> = [parts.history, parts.rule, parts.input, parts.status].into_iter().chain(parts.middle).collect();
        prop_assert!(all.iter().all(|part| part.width == columns && part.height > 0), "{:?}", parts);
        prop_assert_eq!(parts.middle.is_some(), middle > 0);
        prop_assert_eq!(all.iter().map(|part| part.height).sum::<u16>(), rows);
        let mut world = World::new();
        if stage > 0 {
            world.says("a long message 漢字 🙂 that has to wrap somewhere on a small screen").replies(bash("c1", "echo one two three four five six seven"));
        }
        world.frame(columns, rows);
        if stage > 1 {
            world.passes(crate::app::KEY_DEBOUNCE).answers_with('i').frame(columns, rows);
        }
    }

    // **Feature: agent-rs, Property 20: For any command string matching a configured dangerous pattern, the
    // dangerous_command_detected flag SHALL be set to true and the UI SHALL display a warning indicator.**
    #[test]
    fn property_20_dangerous_command_detection(
        before in "([a-z]{1,6} && )?",
        pattern in prop_oneof![Just("rm -rf /"), Just("rm  -rf  /srv"), Just("mkfs.ext4 /dev/sda")],
        harmless in "touch [a-z]{1,8}",
    ) {
        let mut world = in_review(&format!("{before}{pattern}"));
        prop_assert!(world.app.is_dangerous());
        prop_assert_eq!(world.app.risk().map(|risk| risk.class), Some(RiskClass::Dangerous));
        let screen = world.screen(80, 24);
        prop_assert!(screen.contains("⚠ dangerous"), "{screen}");
        // The warning also appears and disappears while the user edits.
        let mut edited = in_review(&harmless);
        prop_assert!(!edited.app.is_dangerous() && !edited.screen(80, 24).contains("⚠"));
        edited.answers_with('i').types(&format!("; {pattern}"));
        prop_assert!(edited.app.is_dangerous());
        prop_assert!(edited.screen(80, 24).contains("⚠ dangerous"));
        for _ in 0..pattern.chars().count() + 2 {
            edited.press(KeyCode::Backspace);
        }
        prop_assert!(!edited.app.is_dangerous());
    }
}

#[test]
fn exiting_is_possible_from_every_state() {
    let mut world = in_review("ls");
    world.key(control('c')).key(control('c')).key(control('c'));
    assert!(world.actions.iter().any(|act| matches!(act, Action::Quit(_))), "{:?}", world.actions);
}
