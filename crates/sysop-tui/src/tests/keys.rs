//! Effects of keys.
#![expect(clippy::wildcard_enum_match_arm, reason = "the rest is of no interest")]

use std::time::Duration;

use crossterm::event::KeyCode;
use secrecy::ExposeSecret as _;
use serde_json::json;
use sysop_core::event::{ConfigChange, Decision, Delta, Event, Input, StopReason};
use sysop_core::id::{Seq, SessionId, Timestamp, TurnId};
use sysop_core::message::{ModelRef, Reply};
use sysop_core::outcome::Outcome;
use sysop_core::policy::ApprovalMode;
use sysop_core::question::{QuestionId, QuestionKind};
use sysop_core::session::QUEUED_PROMPTS_MAX;
use sysop_core::transcript::SessionPhase;
use sysop_driver::frontend::{SessionSelector, ToolServer};
use sysop_driver::port::SessionSummary;
use sysop_driver::prompter::PromptReply;

use super::world::{World, bash, control, key, says, spec};
use crate::app::{
    Action, BackgroundStatus, EditTarget, ExitReason, KEY_DEBOUNCE, OPENING, PromptHistory, ReviewMode, State,
};

pub(super) fn in_review(command: &str) -> World {
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", command)).is_read();
    world
}

pub(super) fn decisions(world: &World) -> Vec<Decision> {
    let decided = |event: &Event| match event {
        Event::Decided { decision, .. } => Some(decision.clone()),
        _ => None,
    };
    world.log.iter().filter_map(decided).collect()
}

fn left(world: &World) -> Option<&ExitReason> {
    world.actions.iter().find_map(|act| match act {
        Action::Quit(left) => Some(left),
        _ => None,
    })
}

fn running(world: &World) -> Option<&str> {
    world.running.as_ref()?.text_argument("command")
}

#[test]
fn a_key_pressed_before_the_proposal_appeared_runs_nothing() {
    let mut world = World::new();
    world.says("go").replies(bash("c1", "touch x"));
    // Not displayed yet, or not long enough.
    world.press(KeyCode::Enter).press(KeyCode::Char('a'));
    assert!(!world.screen(80, 24).contains("Enter run"));
    world.passes(KEY_DEBOUNCE - Duration::from_millis(50)).press(KeyCode::Enter);
    assert_eq!((world.app.state(), running(&world)), (State::ReviewAction, None));
    // Each early key restarts the delay.
    world.passes(KEY_DEBOUNCE - Duration::from_millis(50)).press(KeyCode::Enter);
    assert_eq!(running(&world), None);
    world.passes(KEY_DEBOUNCE);
    assert!(world.screen(80, 24).contains("Enter run"));
    world.press(KeyCode::Enter);
    assert_eq!(running(&world), Some("touch x"));
}

#[test]
fn only_capital_y_runs_a_dangerous_command() {
    for command in ["sudo rm -rf /srv", "shutdown now"] {
        let mut world = in_review(command);
        assert!(world.screen(120, 24).contains("Y run"), "{command}");
        world.press(KeyCode::Enter).press(KeyCode::Char('y')).press(KeyCode::Char(' ')).key(control('u'));
        assert!(
            decisions(&world).is_empty() && world.screen(120, 24).contains("press Y to run"),
            "{command}"
        );
        // Enter in the editor does not run it either.
        world.answers_with('i').press(KeyCode::Enter);
        assert!(decisions(&world).is_empty(), "{command}");
        world.is_read().answers_with('Y');
        assert_eq!(decisions(&world), [Decision::Allow { command: None }], "{command}");
    }
}

#[test]
fn shift_tab_cycles_the_approval_modes_except_auto() {
    let mut world = World::new();
    let mode = |world: &World| world.app.transcript().session_info().unwrap().approve;
    for expected in [ApprovalMode::Each, ApprovalMode::Never, ApprovalMode::Ask] {
        world.press(KeyCode::BackTab);
        assert_eq!(mode(&world), expected);
    }
    world.says("/approve auto").press(KeyCode::BackTab);
    assert_eq!(mode(&world), ApprovalMode::Ask);
    world.press(KeyCode::F(1));
    assert!(world.screen(100, 30).contains("/approve"), "{}", world.screen(100, 30));
}

#[test]
fn tab_leads_from_the_proposal_to_the_cards_and_esc_back() {
    let mut world = in_review("touch x");
    world.press(KeyCode::Tab).press(KeyCode::Enter);
    assert!(decisions(&world).is_empty());
    world.press(KeyCode::Tab).press(KeyCode::Enter);
    assert!(decisions(&world).is_empty());
    world.press(KeyCode::Esc).press(KeyCode::Enter);
    assert_eq!(decisions(&world), [Decision::Allow { command: None }]);
}

#[test]
fn a_proposal_is_edited_in_place_and_undone() {
    let mut world = in_review("touch x");
    world.answers_with('i').types("y").press(KeyCode::Backspace).types("z").key(control('w')).types("new");
    assert_eq!(world.app.review().map(|it| it.command()).as_deref(), Some("touch new"));
    let undo = crossterm::event::KeyEvent::new(KeyCode::Char('u'), crossterm::event::KeyModifiers::ALT);
    for _ in 0..4 {
        world.key(undo);
    }
    assert_eq!(world.app.review().map(|it| it.command()).as_deref(), Some("touch xz"));
    world.press(KeyCode::Enter);
    assert_eq!(world.app.review().map(|it| it.mode()), Some(ReviewMode::Deciding));
    world.is_read().press(KeyCode::Enter);
    assert_eq!(decisions(&world), [Decision::Allow { command: Some("touch xz".to_owned()) }]);
    assert_eq!(running(&world), Some("touch xz"));
}

#[test]
fn a_proposal_is_allowed_for_the_session_rejected_or_edited_elsewhere() {
    let mut world = in_review("touch x");
    world.press(KeyCode::Char('a')).is_read().press(KeyCode::Char('a'));
    assert_eq!(decisions(&world), [Decision::AllowSession { command: None }]);
    let mut world = in_review("touch x");
    world.answers_with('r').types("not there").press(KeyCode::Enter);
    assert_eq!(decisions(&world), [Decision::Reject { reason: "not there".to_owned() }]);
    assert_eq!(world.app.state(), State::Finalizing);
    let mut world = in_review("touch x");
    world.answers_with('e');
    assert!(
        matches!(&world.actions[..], [.., Action::OpenEditor(EditTarget::Proposal, text)] if text == "touch x")
    );
    let actions = world.app.edited(EditTarget::Proposal, Some("touch y\n".to_owned()), world.now);
    let [Action::Send(request @ Input::PreviewCommand { command, .. })] = &actions[..] else {
        panic!("the preview follows the edit: {actions:?}")
    };
    assert_eq!(command, "touch y");
    world.tell(request.clone()).is_read().press(KeyCode::Enter);
    assert_eq!(running(&world), Some("touch y"));
}

#[test]
fn an_empty_command_is_not_run_and_hidden_characters_are_named() {
    let mut world = in_review("x");
    world.answers_with('i').press(KeyCode::Backspace).press(KeyCode::Enter);
    assert!(decisions(&world).is_empty() && world.screen(80, 24).contains("the command is empty"));
    let mut world = in_review("echo \u{202e}hi");
    assert!(world.screen(80, 24).contains(r"\u{202e}"));
    world.answers_with('i');
    assert_eq!(world.app.review().map(|it| it.command()).as_deref(), Some("echo hi"));
    assert!(world.screen(120, 24).contains("invisible characters from the edited command"));
}

#[test]
fn ctrl_d_quits_while_a_proposal_waits_and_runs_nothing() {
    let mut world = in_review("rm x");
    world.key(control('d'));
    assert_eq!(left(&world), Some(&ExitReason::Quit));
    assert!(world.log.iter().all(|event| !matches!(event, Event::ToolStarted { .. })));
}

#[test]
fn a_long_proposal_must_be_scrolled_to_its_end() {
    let command = (0..60).map(|at| format!("echo line{at}")).collect::<Vec<_>>().join("\n");
    let mut world = in_review(&command);
    let mut pages = 0;
    while world.app.review().is_some() {
        let last = world.screen(80, 24).contains("echo line59");
        world.passes(KEY_DEBOUNCE).press(KeyCode::Enter);
        assert_eq!(world.app.review().is_none(), last, "page {pages}");
        pages += 1;
    }
    assert!(pages > 3 && running(&world) == Some(&command), "{pages}");
}

#[test]
fn a_proposal_answered_elsewhere_closes_and_names_the_user() {
    let mut world = in_review("touch x");
    let SessionPhase::AwaitingApproval { call } = world.app.transcript().phase().clone() else {
        panic!("it waits")
    };
    world.tell(Input::Decision {
        call,
        decision: Decision::Allow { command: None },
        by: "web".to_owned(),
        person: None,
    });
    assert!(world.app.review().is_none() && world.app.state() == State::Executing);
    assert!(world.screen(80, 24).contains("allowed by web"));
}

#[test]
fn escape_stops_the_turn_and_keeps_the_draft() {
    let mut world = in_review("touch x");
    world.press(KeyCode::Enter).types("a draft").press(KeyCode::Esc);
    assert!(world.log.iter().any(|event| matches!(event, Event::CancelAsked { .. })));
    assert_eq!((world.app.state(), world.app.composer().text().as_str()), (State::Input, "a draft"));
    world.ends(Outcome::new(sysop_core::outcome::Status::Cancelled, ""));
    assert!(matches!(world.log.last(), Some(Event::TurnEnded { reason: StopReason::Cancelled, .. })));
    assert_eq!(world.app.composer().text(), "a draft");
}

#[test]
fn ctrl_c_stops_the_turn_and_then_exits() {
    let mut world = in_review("touch x");
    world.press(KeyCode::Enter).key(control('c'));
    assert!(left(&world).is_none() && world.app.is_stopping());
    world.key(control('c'));
    assert!(left(&world).is_some(), "the command does not end");
    let mut world = World::new();
    world.key(control('c'));
    assert!(left(&world).is_none() && world.screen(80, 24).contains("Press Ctrl+C again"));
    world.passes(Duration::from_secs(10)).key(control('c'));
    assert!(left(&world).is_none());
    world.key(control('c'));
    assert_eq!(left(&world), Some(&ExitReason::Quit));
    let mut world = World::new();
    world.types("x").key(control('d'));
    assert!(left(&world).is_none());
    world.press(KeyCode::Backspace).key(control('d'));
    assert_eq!(left(&world), Some(&ExitReason::Quit));
}

#[test]
fn a_message_waits_for_the_end_of_the_turn() {
    let mut world = World::new();
    world.says("first").says("second");
    assert!(
        world.log.iter().any(|event| matches!(event, Event::PromptQueued { text, .. } if text == "second"))
    );
    assert!(world.screen(100, 24).contains("1 queued"));
    world.replies(says("one"));
    assert!(!world.screen(100, 24).contains("1 queued"));
    assert_eq!(world.app.transcript().turn(), TurnId(2));
}

#[test]
fn a_turn_is_paused_and_resumed() {
    let mut world = in_review("touch x");
    world.key(control('p')).press(KeyCode::Enter).ends(Outcome::ok("x"));
    assert!(matches!(world.app.transcript().phase(), SessionPhase::Paused { .. }) && world.asked.is_none());
    world.key(control('p'));
    assert!(world.asked.is_some() && world.app.state().is_busy());
}

#[test]
fn arrows_and_search_recall_earlier_messages() {
    let mut world = World::new();
    world.app.set_prompt_history(PromptHistory::read("one\ntwo<\\n>lines\nthree\n"));
    world.types("begun").press(KeyCode::Up);
    assert_eq!(world.app.composer().text(), "three");
    world.press(KeyCode::Up);
    assert_eq!(world.app.composer().text(), "two\nlines");
    // Within a multi-line prompt, the arrows first move the cursor.
    world.press(KeyCode::Up).press(KeyCode::Up);
    assert_eq!(world.app.composer().text(), "one");
    world.press(KeyCode::Down).press(KeyCode::Down).press(KeyCode::Down);
    assert_eq!(world.app.composer().text(), "begun");
    world.key(control('r')).types("tw").press(KeyCode::Enter);
    assert_eq!(world.app.composer().text(), "two\nlines");
    world.press(KeyCode::Enter);
    assert!(matches!(&world.actions[..], [.., Action::AppendPromptHistory(text)] if text == "two\nlines"));
    assert_eq!(PromptHistory::line("two\nlines"), "two<\\n>lines\n");
}

#[test]
fn a_large_paste_is_folded_and_sent_completely() {
    let mut world = World::new();
    let paste = "a line\r\n\u{1b}[31mof it\u{202e}\n".repeat(20);
    world.types("look: ").pastes(&paste).types(" thanks");
    assert_eq!(world.app.composer().display_text(), "look: [paste 1: 40 lines] thanks");
    let expected = format!("look: {} thanks", "a line\n[31mof it\n".repeat(20));
    assert_eq!(world.app.composer().text(), expected);
    // A placeholder is deleted as a whole, and the deletion can be undone.
    for _ in 0.." thanks".len() {
        world.press(KeyCode::Backspace);
    }
    world.press(KeyCode::Backspace);
    assert_eq!(world.app.composer().text(), "look: ");
    world.pastes("short\npaste").press(KeyCode::Enter);
    assert!(matches!(&world.log[..], [.., Event::TurnStarted { prompt, .. }, Event::StepStarted { .. }]
        if prompt == "look: short\npaste"));
}

#[test]
fn completion_offers_commands_and_paths() {
    let mut world = World::new();
    world.types("/appr").press(KeyCode::Tab);
    assert_eq!(world.app.composer().text(), "/approve ");
    world.press(KeyCode::Down).press(KeyCode::Down).press(KeyCode::Down).press(KeyCode::Enter);
    assert_eq!(world.app.composer().text(), "/approve auto ");
    world.press(KeyCode::Enter);
    assert_eq!(world.app.transcript().session_info().map(|facts| facts.approve), Some(ApprovalMode::Auto));
    world.types("look at @src/ma");
    assert!(matches!(&world.actions[..], [.., Action::FindPaths(word)] if word == "src/ma"));
    // Results for another word are not offered.
    world.app.offer_paths("src/m", vec!["src/mine".to_owned()]);
    assert!(world.app.completion().is_none());
    world.app.offer_paths("src/ma", vec!["src/main.rs".to_owned(), "src/many/".to_owned()]);
    world.press(KeyCode::Tab);
    assert_eq!(world.app.composer().text(), "look at @src/main.rs ");
    // Completion continues inside a directory.
    world.types("@src/man");
    world.app.offer_paths("src/man", vec!["src/many/".to_owned()]);
    world.press(KeyCode::Tab);
    assert!(matches!(&world.actions[..], [.., Action::FindPaths(word)] if word == "src/many/"));
}

#[test]
fn lines_that_start_with_a_slash_are_commands() {
    let mut world = World::new();
    world
        .says("/model other")
        .says("/new")
        .says("/resume abc")
        .says("/host db1")
        .says("/model")
        .press(KeyCode::Esc)
        .says("/sessions")
        .press(KeyCode::Esc);
    assert_eq!(
        world.app.transcript().session_info().map(|facts| facts.model.clone()),
        Some(ModelRef::new("ollama", "other"))
    );
    let opened: Vec<&SessionSelector> = world
        .actions
        .iter()
        .filter_map(|act| match act {
            Action::OpenSession(which) => Some(which),
            _ => None,
        })
        .collect();
    assert_eq!(
        opened,
        [
            &SessionSelector::new_after(world.app.transcript()),
            &SessionSelector::Existing("abc".to_owned()),
            &SessionSelector::on_host_after("db1".to_owned(), world.app.transcript())
        ]
    );
    assert!(world.actions.iter().any(|act| matches!(act, Action::ListModels)));
    assert!(world.actions.iter().any(|act| matches!(act, Action::ListSessions)));
    // An abbreviated command runs if it is offered.
    world.says("/sess");
    assert!(matches!(world.actions.last(), Some(Action::ListSessions)));
    world.press(KeyCode::Esc);
    world.says("/frobnicate");
    assert!(world.screen(80, 24).contains("unknown command /frobnicate"));
    world.key(control('u')).says("!touch x");
    assert_eq!(running(&world), Some("touch x"));
    world.ends(Outcome::ok("")).says("/exit");
    assert_eq!(left(&world), Some(&ExitReason::Quit));
}

#[test]
fn mcp_servers_are_listed_with_their_state_and_tools() {
    let server = |name: &str, state: &str| ToolServer {
        name: name.to_owned(),
        state: state.to_owned(),
        tools: vec![format!("mcp__{name}__echo")],
    };
    let mut world = World::new();
    world.says("/mcp");
    assert!(matches!(world.actions.last(), Some(Action::ListToolServers)));
    let servers =
        vec![server("time", "running (time 1)"), server("logs", "failed: it exited with 3.\nno token")];
    world.app.pick_tool_server(Ok(servers), world.now);
    let screen = world.screen(80, 24);
    for part in ["time", "running (time 1)", "mcp__time__echo", "logs", "failed: it exited with 3."] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    world.press(KeyCode::Down);
    assert!(world.screen(80, 24).contains("no token"), "the whole state is in the preview");
    world.press(KeyCode::Enter);
    assert!(!world.screen(80, 24).contains("mcp__logs__echo"));
    world.says("/mcp");
    world.app.pick_tool_server(Ok(Vec::new()), world.now);
    assert!(world.screen(80, 24).contains("sysop mcp add NAME"));
}

#[test]
fn model_theme_and_message_pickers_work() {
    let mut world = World::new();
    // Text typed while the list is loading is searched for in it.
    world.says("/model").types("demo");
    assert!(world.screen(80, 24).contains("loading…"));
    world.app.pick_model(vec![ModelRef::new("ollama", "qwen"), ModelRef::new("demo", "demo")]);
    world.press(KeyCode::Enter);
    assert_eq!(
        world.app.transcript().session_info().map(|facts| facts.model.clone()),
        Some(ModelRef::new("demo", "demo"))
    );
    let before = world.app.theme();
    world.says("/theme").press(KeyCode::Down);
    assert_ne!(world.app.theme(), before);
    world.press(KeyCode::Esc);
    assert_eq!(world.app.theme(), before);
    world.says("/theme light");
    assert_eq!(world.app.theme(), sysop_term::theme::ThemeName::Light);
    let kept = |world: &World| {
        let kept = world.actions.iter().filter_map(|act| match act {
            Action::SaveTheme(theme) => Some(theme.as_str()),
            _ => None,
        });
        kept.collect::<Vec<_>>()
    };
    // A theme that was only previewed is not saved.
    assert_eq!(kept(&world), ["light"]);
    world.says("/theme").types("term").press(KeyCode::Enter);
    assert_eq!(kept(&world), ["light", "terminal"]);
    world.says("/theme").types("auto").press(KeyCode::Enter);
    assert_eq!(kept(&world), ["light", "terminal", "auto"]);
    assert_eq!(world.app.theme(), sysop_term::theme::ThemeName::Terminal, "until the terminal has answered");
    world.says("first").replies(says("1")).says("second").replies(says("2")).says("/fork").types("first");
    world.press(KeyCode::Enter);
    let forked = world.actions.iter().any(|act| {
        matches!(act, Action::OpenSession(SessionSelector::Fork { before, from, .. }) if *before == TurnId(1) && from.as_str() == "s1")
    });
    assert!(forked && world.app.composer().text() == "first");
}

#[test]
fn a_secret_is_entered_without_echo() {
    let mut world = in_review("sudo ls");
    world.press(KeyCode::Enter).types("draft").asks(7, QuestionKind::Secret, "Password: ");
    // Keys typed before the question was displayed are not an answer.
    world.types("early").press(KeyCode::Enter);
    assert!(world.answers.is_empty());
    world.is_read().types("geheim");
    assert!(!world.screen(80, 24).contains("geheim") && world.screen(80, 24).contains("Password:"));
    world.press(KeyCode::Enter);
    let Some((id, PromptReply::Given { by, text })) = world.answers.pop() else { panic!("it was answered") };
    assert_eq!((id.0, by.as_str(), text.expose_secret()), (7, "tui", "geheim"));
    world.delta(Delta::QuestionClosed { id, by: Some("tui".to_owned()) });
    assert!(world.app.question_prompt().is_none() && world.app.composer().text() == "draft");
    // Another question is declined, and a third is answered elsewhere.
    world.asks(8, QuestionKind::PerhapsSecret, "PIN: ").is_read().press(KeyCode::Char('n'));
    assert!(matches!(world.answers.pop(), Some((_, PromptReply::NoSecret))));
    assert!(world.actions.iter().any(|act| matches!(act, Action::ShowTerminal)));
    world.asks(9, QuestionKind::Text, "yes/no? ").is_read().press(KeyCode::Esc);
    assert!(matches!(world.answers.pop(), Some((_, PromptReply::Refused))));
    world.asks(10, QuestionKind::Text, "yes/no? ").is_read();
    let id = sysop_core::question::QuestionId(10);
    world.delta(Delta::QuestionClosed { id, by: Some("web".to_owned()) });
    assert!(world.screen(80, 24).contains("web answered sudo on web1"));
}

#[test]
fn cards_unfold_and_open_in_the_pager() {
    let mut world = in_review("seq 100");
    let output: String = (1..=100).map(|number| format!("number {number}\n")).collect();
    let outcome = Outcome { artifact: Some("a1".to_owned()), ..Outcome::ok(output) };
    world.press(KeyCode::Enter).ends(outcome).replies(says("done"));
    assert!(!world.screen(80, 40).contains("number 50"));
    assert!(world.screen(80, 40).contains("0 ms · /output 1 shows all"));
    world.press(KeyCode::Tab);
    while !matches!(world.app.history.focused(), Some(sysop_core::transcript::ItemId::ToolOutput(_))) {
        world.press(KeyCode::Up);
    }
    world.press(KeyCode::Char('o'));
    assert!(matches!(&world.actions[..], [.., Action::PageArtifact(name)] if name == "a1"));
    world.press(KeyCode::Enter);
    assert!(world.screen(80, 140).contains("number 50"));
    // A letter returns to the composer.
    world.types("x");
    assert_eq!(world.app.composer().text(), "x");
    world.actions.clear();
    world.press(KeyCode::Backspace).types("/output 1").press(KeyCode::Enter);
    assert!(matches!(&world.actions[..], [.., Action::PageArtifact(name)] if name == "a1"));
    world.types("/output 7").press(KeyCode::Enter);
    assert!(world.screen(80, 24).contains("no output kept for call 7"));
}

#[test]
fn the_history_scrolls_and_follows_again() {
    let mut world = World::new();
    let text: String = (1..=60).map(|number| format!("- row {number}\n")).collect();
    world.says("go").replies(says(&text));
    assert!(world.screen(80, 24).contains("row 60"));
    world.press(KeyCode::PageUp).press(KeyCode::PageUp);
    let screen = world.screen(80, 24);
    assert!(!screen.contains("row 60") && screen.contains("End latest"), "{screen}");
    world.delta(Delta::Notice { text: "something new".to_owned() });
    assert!(!world.screen(80, 24).contains("something new"));
    world.press(KeyCode::End);
    assert!(world.screen(80, 24).contains("something new"));
}

#[test]
fn an_idle_screen_does_not_change() {
    let mut world = World::new();
    assert_eq!(world.app.next_change(world.now), None);
    world.says("go");
    assert!(world.app.next_change(world.now).is_some());
    world.replies(says("done"));
    assert_eq!(world.app.next_change(world.now), None);
    world.app.show_flash("for a while", world.now);
    let until = world.app.next_change(world.now).expect("it goes away");
    world.passes(until - world.now);
    assert_eq!((world.app.flash(), world.app.next_change(world.now)), (None, None));
    // A waiting proposal schedules no frames once it accepts keys.
    let mut world = in_review("ls");
    world.passes(Duration::from_secs(5));
    assert_eq!(world.app.next_change(world.now), None);
    world.key(key(KeyCode::F(3)));
    assert_eq!(world.app.next_change(world.now), None);
}

#[test]
fn cost_is_shown_if_the_price_is_known() {
    use sysop_core::message::{Reply, Usage};
    let price =
        sysop_core::model_table::ModelPrice { input: 3.0, output: 15.0, cached: Some(0.3), above: None };
    let setup = crate::app::AppOptions {
        prices: [("ollama/qwen".to_owned(), price)].into(),
        ..crate::app::AppOptions::default()
    };
    let mut world = World::with(setup);
    let usage = Usage { input_tokens: 1_000_000, output_tokens: 100_000, cached_tokens: 500_000 };
    world.says("go").replies(Reply { usage, ..says("done") });
    assert!(world.screen(120, 24).contains("$3.15"), "{}", world.screen(120, 24));
    world.says("/model openai/unlisted").says("again").replies(Reply { usage, ..says("done") });
    assert!(!world.screen(120, 24).contains('$'));
}

#[test]
fn a_hidden_proposal_is_not_answered() {
    // Keys typed in an editor, pager or terminal are not answers.
    let mut world = in_review("touch x");
    world.app.reset_debounce();
    world.press(KeyCode::Enter).press(KeyCode::Char('a')).passes(KEY_DEBOUNCE * 2).press(KeyCode::Enter);
    assert!(decisions(&world).is_empty());
    world.is_read().press(KeyCode::Enter);
    assert_eq!(running(&world), Some("touch x"));
    // The window is too small to show the proposal.
    let mut world = World::new();
    world.says("go").replies(bash("c1", "touch x"));
    assert!(world.screen(18, 4).contains("window too small"));
    world.passes(KEY_DEBOUNCE * 2).press(KeyCode::Enter);
    assert!(decisions(&world).is_empty());
    // A frame drawn before the proposal arrived does not count.
    let mut world = World::new();
    world.says("go").frame(80, 24);
    world.replies(bash("c1", "touch x"));
    world.app.note_displayed(world.now);
    world.passes(KEY_DEBOUNCE * 2).press(KeyCode::Enter);
    assert!(decisions(&world).is_empty());
}

#[test]
fn an_edited_long_command_must_be_scrolled_to_its_end() {
    let lines: Vec<String> = (0..60).map(|line| format!("echo {line}")).collect();
    let mut world = World::that_always_asks();
    world.says("go").replies(bash("c1", &lines.join("\n")));
    world.frame(40, 12);
    world.passes(KEY_DEBOUNCE).answers_with('i');
    world.frame(40, 12);
    world.press(KeyCode::Enter);
    assert!(decisions(&world).is_empty());
    assert_eq!(world.app.review().map(|it| it.mode()), Some(ReviewMode::Deciding));
    world.frame(40, 12);
    let mut read = String::new();
    for _ in 0..60 {
        world.passes(KEY_DEBOUNCE);
        read.push_str(&world.screen(40, 12));
        world.press(KeyCode::Enter);
    }
    assert!(lines.iter().all(|line| read.contains(line.as_str())));
    assert_eq!(decisions(&world).len(), 1);
}

#[test]
fn stopping_a_turn_does_not_mention_queued_messages() {
    let mut world = World::new();
    world.says("go").says("and then");
    assert!(world.screen(120, 24).contains("1 queued"));
    world.press(KeyCode::Esc);
    assert!(!world.screen(120, 24).contains("1 queued"));
}

#[test]
fn a_message_that_starts_with_a_space_is_not_saved() {
    let mut world = World::new();
    world.says(" this").types(" and this");
    world.tell(Input::Cancel).key(control('c')).key(control('c')).key(control('c'));
    let kept = |world: &World| {
        world.actions.iter().filter(|act| matches!(act, Action::AppendPromptHistory(_))).count()
    };
    assert!(left(&world).is_some() && kept(&world) == 0);
    let mut world = World::new();
    world.says("that");
    assert_eq!(kept(&world), 1);
    // Within the session, the arrows still find it.
    let mut world = World::new();
    world.says(" this").press(KeyCode::Up);
    assert_eq!(world.app.composer().text(), " this");
}

#[test]
fn a_remark_applies_to_its_own_proposal_only() {
    let mut world = in_review("echo a\u{202e}b");
    world.answers_with('i');
    assert!(world.screen(100, 24).contains("removed control and invisible"));
    world
        .press(KeyCode::Enter)
        .is_read()
        .answers_with('Y')
        .ends(Outcome::ok(""))
        .replies(bash("c2", "touch x"));
    assert!(!world.screen(100, 24).contains("removed control and invisible"));
    world.press(KeyCode::Esc);
    let mut world = World::new();
    world.says("go").key(control('p'));
    assert!(world.screen(100, 24).contains("pausing after this step…"));
    world.key(control('p'));
    assert!(world.screen(100, 24).contains("Resumed"));
}

#[test]
fn a_command_with_hidden_characters_does_not_run_from_the_editor() {
    let mut world = in_review("rm a\u{200b}b\u{2060}c\u{e0041}\u{ad}\u{feff}\td");
    world.answers_with('i');
    assert!(world.screen(120, 24).contains("invisible characters from the edited command"));
    world.pastes("e\u{200b}f").press(KeyCode::Enter).is_read().answers_with('Y');
    assert_eq!(running(&world), Some("rm abc\tdef"));
}

#[test]
fn every_argument_of_a_proposal_is_shown() {
    let proposed = |name: &str, arguments: serde_json::Value| {
        let mut world = World::that_always_asks();
        let calls = vec![super::world::call("c1", name, arguments)];
        world.says("go").replies(Reply { calls, ..Reply::default() }).is_read().screen(100, 24)
    };
    let screen = proposed("bash", json!({ "command": "ls", "folder": "/etc/secret" }));
    assert!(screen.contains("$ ls") && screen.contains("folder: /etc/secret"), "{screen}");
    // A tool that is not a shell, with an argument named like a command.
    let screen = proposed("edit_file", json!({ "path": "a", "command": "ls", "mode": "all" }));
    assert!(screen.contains("command: ls") && screen.contains("mode: all"), "{screen}");
    assert!(screen.contains("path: a") && !screen.contains("$ ") && !screen.contains("i edit"), "{screen}");
}

#[test]
fn the_rest_of_an_unexpected_terminal_reply_is_dropped() {
    let mut world = in_review("sudo ls");
    world.press(KeyCode::Enter).asks(7, QuestionKind::Secret, "Password: ").is_read().types("gehei");
    // The command was ended by its time limit.
    world.delta(Delta::QuestionClosed { id: QuestionId(7), by: None });
    for sign in "mnis".chars() {
        world.passes(Duration::from_millis(500)).press(KeyCode::Char(sign));
    }
    world.pastes("geheim").press(KeyCode::Enter);
    assert!(world.answers.is_empty() && world.app.composer().text().is_empty());
    assert!(
        !world.actions.iter().any(|act| matches!(act, Action::AppendPromptHistory(text) if text != "go"))
    );
    world.passes(Duration::from_secs(1)).types("and then");
    assert_eq!(world.app.composer().text(), "and then");
}

#[test]
fn the_message_picker_needs_an_open_session() {
    let mut world = World::new();
    world.says("first").replies(says("1"));
    let other = SessionSummary {
        id: SessionId::new("s2"),
        title: "other".to_owned(),
        created: Timestamp(0),
        changed: Timestamp(0),
        last_seq: Seq(1),
        host: "web1".to_owned(),
        root: "/srv".to_owned(),
        pinned: false,
    };
    // A list that the user has closed does not open again.
    world.says("/sessions").press(KeyCode::Esc).types("hm");
    world.app.pick_session(vec![other.clone()], |_| String::new(), world.now);
    assert!(world.app.overlay().is_none() && world.app.composer().text() == "hm");
    world.key(control('u')).says("/sessions");
    world.app.pick_session(vec![other], |_| String::new(), world.now);
    world.press(KeyCode::Tab);
    assert!(world.actions.iter().any(|act| matches!(act, Action::OpenSession(SessionSelector::Existing(_)))));
    world.app.open_failed("it is gone".to_owned(), world.now);
    world.says("second");
    assert!(world.app.overlay().is_none());
}

#[test]
fn queued_messages_return_to_the_composer_after_a_stop() {
    let mut world = World::new();
    world.says("go").says("and then this").says("and that").types("half");
    assert!(world.screen(100, 24).contains("2 queued"));
    world.press(KeyCode::Esc);
    assert_eq!(world.app.composer().text(), "and then this\nand that\nhalf");
    assert!(!world.screen(100, 24).contains("queued"));
    // Prompts queued by other front ends are not put into this composer.
    let mut world = World::new();
    world.says("go").tell(Input::prompt("from elsewhere"));
    assert!(world.screen(100, 24).contains("1 queued"));
    world.press(KeyCode::Esc);
    assert!(world.app.composer().is_empty());
}

#[test]
fn switching_providers_names_the_one_that_saw_output() {
    let mut world = World::new();
    world.says("go").replies(bash("1", "df -h")).ends(Outcome::ok("shown")).replies(says("Done."));
    assert!(!world.screen(120, 24).contains("also seen by"), "the model that is asked is named anyway");
    let provider = world.app.transcript().session_info().unwrap().model.provider.clone();
    let other = "elsewhere/x".parse().unwrap();
    world.tell(Input::Configure { change: ConfigChange::Model(other) });
    let wanted = format!("output also seen by {provider}");
    assert!(world.screen(120, 24).contains(&wanted), "{}", world.screen(120, 24));
}

#[test]
fn leaving_a_running_session_is_announced() {
    let mut world = World::new();
    let other = SessionId::new("s2");
    world.app.set_background_status(&other, Some(BackgroundStatus::Running), world.now);
    assert!(world.screen(100, 24).contains("the other session is still running"));
    world.passes(Duration::from_secs(5));
    assert!(world.screen(100, 24).contains("1 session in background"));
    world.app.set_background_status(&other, Some(BackgroundStatus::AwaitingUser), world.now);
    assert!(world.screen(100, 24).contains("another session needs approval"));
    world.passes(Duration::from_secs(5));
    assert!(world.screen(100, 24).contains("1 session awaiting approval"));
    let summary = SessionSummary {
        id: other.clone(),
        title: "other".to_owned(),
        created: Timestamp(0),
        changed: Timestamp(0),
        last_seq: Seq(1),
        host: "web1".to_owned(),
        root: "/srv".to_owned(),
        pinned: false,
    };
    world.says("/sessions");
    world.app.pick_session(vec![summary], |_| "just now".to_owned(), world.now);
    assert!(world.screen(100, 24).contains("web1 · just now · needs approval"));
    world.press(KeyCode::Esc);
    world.app.set_background_status(&other, None, world.now);
    world.passes(Duration::from_secs(5));
    assert!(!world.screen(100, 24).contains("another"));
    // The session is in the foreground now; late status updates are ignored.
    world.app.set_background_status(&other, Some(BackgroundStatus::Running), world.now);
    world.app.opened(other.clone(), Seq(0), &spec());
    world.app.set_background_status(&other, Some(BackgroundStatus::AwaitingUser), world.now);
    assert!(!world.screen(100, 24).contains("another"));
}

#[test]
fn opening_a_session_is_shown_until_it_is_open() {
    let mut world = World::new();
    world.app.show_flash(OPENING, world.now);
    assert!(world.screen(80, 24).contains(OPENING));
    world.app.opened(SessionId::new("s2"), Seq(0), &spec());
    assert!(!world.screen(80, 24).contains(OPENING));
}

#[test]
fn a_message_that_cannot_be_queued_stays_in_the_composer() {
    let mut world = World::new();
    world.says("go");
    for number in 0..QUEUED_PROMPTS_MAX {
        world.says(&format!("message {number}"));
    }
    world.says("one more");
    assert_eq!(world.app.composer().text(), "one more");
    let waiting = world.log.iter().filter(|event| matches!(event, Event::PromptQueued { .. })).count();
    assert_eq!(waiting, QUEUED_PROMPTS_MAX);
    assert!(world.screen(120, 24).contains("the queue is full (32 messages)"));
}
