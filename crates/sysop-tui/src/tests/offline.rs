//! A lost connection to the server of the session: what is shown, what waits, and what is refused.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use secrecy::ExposeSecret as _;
use sysop_core::event::{Delta, Event, Input};
use sysop_core::policy::ApprovalMode;
use sysop_core::question::{QuestionId, QuestionKind};
use sysop_core::session::QUEUED_PROMPTS_MAX;
use sysop_driver::frontend::{SERVER_AWAY, ServerConnection};
use sysop_driver::prompter::PromptReply;

use super::keys::{decisions, in_review};
use super::world::{World, bash, control};
use crate::RunningTurnPolicy;
use crate::app::{Action, AppOptions};

fn lost(undelivered: &[&str]) -> ServerConnection {
    let undelivered = undelivered.iter().map(|text| (*text).to_owned()).collect();
    ServerConnection { is_lost: true, undelivered, unconfirmed: Vec::new() }
}

fn unconfirmed(is_lost: bool, prompts: &[&str]) -> ServerConnection {
    let unconfirmed = prompts.iter().map(|text| (*text).to_owned()).collect();
    ServerConnection { is_lost, undelivered: Vec::new(), unconfirmed }
}

/// A front end whose session continues on a server without it.
fn attached() -> World {
    let options = AppOptions { leaving: RunningTurnPolicy::Continue, ..AppOptions::default() };
    World::with(options)
}

/// Presses a key. Returns the actions that it requests.
fn pressed(world: &mut World, key: KeyEvent) -> Vec<Action> {
    world.app.key(key, world.now)
}

#[test]
fn a_lost_server_is_named_until_it_is_back() {
    let mut world = attached();
    world.says("go").replies(bash("c1", "make")).is_read().press(KeyCode::Enter);
    assert!(world.screen(100, 24).contains("Esc stop"));
    assert!(
        world.app.set_connection(lost(&[]), world.now) && !world.app.set_connection(lost(&[]), world.now)
    );
    let screen = world.screen(100, 24);
    assert!(screen.contains("offline · reconnecting"), "{screen}");
    assert!(!screen.contains("Esc stop") && !screen.contains("Ctrl+P"), "{screen}");
    world.says("/status");
    let screen = world.screen(100, 24);
    let state = screen.lines().find(|line| line.contains("state ")).expect("the state");
    assert!(state.contains("offline · reconnecting"), "{screen}");
    world.press(KeyCode::Esc);
    world.app.set_connection(ServerConnection::default(), world.now);
    let screen = world.screen(100, 24);
    assert!(!screen.contains("offline") && screen.contains("Esc stop"), "{screen}");
}

#[test]
fn a_session_that_was_lost_while_it_was_read_is_named_offline() {
    let mut app = crate::app::App::new(AppOptions::default());
    app.set_connection(lost(&[]), Duration::ZERO);
    let status = app.status(Duration::ZERO);
    assert_eq!(status[0].text, "offline · reconnecting");
}

#[test]
fn an_answer_to_a_proposal_is_not_sent_while_the_server_is_away() {
    let mut world = in_review("touch x");
    world.app.set_connection(lost(&[]), world.now);
    for key in [KeyCode::Enter, KeyCode::Esc, KeyCode::BackTab] {
        world.press(key);
        assert!(world.screen(100, 24).contains(SERVER_AWAY), "{key:?}: {}", world.screen(100, 24));
    }
    world.key(control('p')).says("no, leave it");
    let log = world.log.clone();
    assert!(decisions(&world).is_empty() && world.app.review().is_some());
    assert!(!log.iter().any(|event| matches!(event, Event::CancelAsked { .. } | Event::Paused { .. })));
    assert_eq!(world.app.transcript().session_info().unwrap().approve, ApprovalMode::Each);
    assert!(world.screen(100, 24).contains("no, leave it"), "the text stays");
    world.app.set_connection(ServerConnection::default(), world.now);
    world.key(control('u')).press(KeyCode::Enter);
    assert_eq!(decisions(&world).len(), 1);
}

#[test]
fn commands_stay_in_the_box_while_the_server_is_away() {
    let mut world = attached();
    world.app.set_connection(lost(&[]), world.now);
    for line in ["!touch x", "/approve never", "/clear", "/undo"] {
        let before = world.log.len();
        world.says(line);
        assert_eq!(world.log.len(), before, "{line}");
        assert_eq!(world.app.composer().text(), line);
        assert!(world.screen(100, 24).contains(SERVER_AWAY), "{line}");
        world.key(control('u'));
    }
}

#[test]
fn a_prompt_that_waits_for_the_server_is_shown_and_taken_back() {
    let mut world = attached();
    world.app.set_connection(lost(&[]), world.now);
    world.types("ping A");
    let sent = pressed(&mut world, KeyEvent::from(KeyCode::Enter));
    let is_prompt =
        |action: &Action| matches!(action, Action::Send(Input::Prompt { text, .. }) if text == "ping A");
    assert!(sent.iter().any(is_prompt), "{sent:?}");
    world.app.set_connection(lost(&["ping A"]), world.now);
    let screen = world.screen(100, 24);
    assert!(screen.contains("· not delivered yet: ping A") && screen.contains("↑ take back"), "{screen}");
    assert!(world.app.activity(world.now).is_none(), "nothing runs yet");
    for key in [KeyCode::Up, KeyCode::Esc] {
        let actions = pressed(&mut world, KeyEvent::from(key));
        assert!(
            matches!(actions.as_slice(), [Action::TakeBack(texts)] if texts == &["ping A"]),
            "{actions:?}"
        );
    }
    world.app.set_connection(lost(&[]), world.now);
    world.app.taken_back(vec!["ping A".to_owned()]);
    assert_eq!(world.app.composer().text(), "ping A");
    assert!(!world.screen(100, 24).contains("not delivered"));
}

#[test]
fn a_prompt_whose_confirmation_is_late_is_shown_until_it_is_confirmed() {
    let mut world = attached();
    world.types("say once");
    pressed(&mut world, KeyEvent::from(KeyCode::Enter));
    world.app.set_connection(unconfirmed(false, &["say once"]), world.now);
    assert!(!world.screen(100, 24).contains("not confirmed"), "a confirmation takes a moment");
    let before = world.now;
    world.passes(Duration::from_secs(2));
    let shown = "· sent, not confirmed yet: say once\n";
    assert!(world.screen(100, 24).contains(shown), "{}", world.screen(100, 24));
    assert!(world.app.next_change(before).is_some_and(|next| next <= world.now), "a frame is due");
    assert!(world.app.next_change(world.now).is_none(), "and no other one");
    world.app.set_connection(unconfirmed(true, &["say once"]), world.now);
    let shown = "say once (sent again once the server is back, never twice)";
    assert!(world.screen(100, 24).contains(shown), "{}", world.screen(100, 24));
    world.app.set_connection(ServerConnection::default(), world.now);
    assert!(!world.screen(100, 24).contains("not confirmed"));
}

#[test]
fn a_prompt_in_the_log_is_not_called_unconfirmed() {
    let mut world = attached();
    let both = unconfirmed(false, &["go", "go"]);
    world.app.set_connection(both, world.now);
    world.tell(Input::prompt("go".to_owned())).passes(Duration::from_secs(2));
    assert_eq!(world.screen(100, 24).matches("not confirmed yet: go").count(), 1);
    world.tell(Input::prompt("go".to_owned()));
    assert!(!world.screen(100, 24).contains("not confirmed"));
}

#[test]
fn prompts_that_are_not_confirmed_and_not_delivered_share_the_rows() {
    let mut world = attached();
    let long = "x".repeat(200);
    let mut connection = unconfirmed(true, &[&long]);
    connection.undelivered = ["one", "two", "three"].map(str::to_owned).to_vec();
    world.app.set_connection(connection.clone(), world.now);
    let screen = world.screen(100, 24);
    assert!(screen.contains("x… (sent again once the server is back, never twice)\n"), "{screen}");
    assert!(screen.contains("· not delivered yet: one") && screen.contains("· 2 more not delivered yet"));
    let screen = world.screen(60, 24);
    assert!(screen.contains("xxx…\n"), "no room for the note: {screen}");
    connection.unconfirmed = vec!["go".to_owned(); 4];
    world.app.set_connection(connection, world.now);
    assert!(world.screen(100, 24).contains("· 5 more not confirmed yet"));
}

#[test]
fn many_waiting_prompts_are_counted() {
    let mut world = attached();
    world.app.set_connection(lost(&["one", "two", "three", "four"]), world.now);
    let screen = world.screen(60, 24);
    assert!(screen.contains("yet: one") && screen.contains("yet: two"), "{screen}");
    assert!(screen.contains("· 2 more not delivered yet"), "{screen}");
}

#[test]
fn a_waiting_prompt_that_the_session_queues_is_taken_back_from_its_queue() {
    let mut world = attached();
    world.says("go");
    world.app.set_connection(lost(&[]), world.now);
    world.types("ping A");
    pressed(&mut world, KeyEvent::from(KeyCode::Enter));
    world.app.set_connection(ServerConnection::default(), world.now);
    world.tell(Input::prompt("ping A".to_owned()));
    world.press(KeyCode::Up);
    assert_eq!(world.app.composer().text(), "ping A");
    assert!(world.log.iter().any(|event| matches!(event, Event::PromptWithdrawn { .. })));
}

#[test]
fn a_proposal_that_was_answered_before_the_loss_opens_again() {
    let mut world = in_review("touch x");
    pressed(&mut world, KeyEvent::from(KeyCode::Enter));
    assert!(world.app.review().is_none());
    world.delta(Delta::Notice { text: "connection lost; reconnecting…".to_owned() });
    world.app.set_connection(lost(&[]), world.now);
    assert!(world.app.review().is_some());
}

#[test]
fn two_keys_quit_while_the_server_is_away() {
    let mut world = in_review("touch x");
    world.app.set_connection(lost(&[]), world.now);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    world.key(interrupt);
    assert!(!world.actions.iter().any(|action| matches!(action, Action::Quit(_))));
    world.key(interrupt);
    assert!(world.actions.iter().any(|action| matches!(action, Action::Quit(_))));
    assert!(!world.log.iter().any(|event| matches!(event, Event::CancelAsked { .. })));
}

#[test]
fn no_more_prompts_wait_for_the_server_than_it_queues() {
    let mut world = attached();
    let waiting = vec!["more"; QUEUED_PROMPTS_MAX];
    world.app.set_connection(lost(&waiting), world.now);
    world.types("one too many");
    let sent = pressed(&mut world, KeyEvent::from(KeyCode::Enter));
    assert!(!sent.iter().any(|action| matches!(action, Action::Send(_))), "{sent:?}");
    assert_eq!(world.app.composer().text(), "one too many");
    assert!(world.screen(100, 24).contains("the queue is full (32 messages)"));
}

#[test]
fn a_command_picked_from_the_palette_is_not_sent_while_the_server_is_away() {
    let mut world = attached();
    world.says("go").replies(bash("c1", "make")).is_read().press(KeyCode::Enter);
    world.app.set_connection(lost(&[]), world.now);
    world.press(KeyCode::F(1)).types("/pause");
    let actions = pressed(&mut world, KeyEvent::from(KeyCode::Enter));
    assert!(actions.is_empty(), "{actions:?}");
    assert!(world.screen(100, 24).contains(SERVER_AWAY), "{}", world.screen(100, 24));
    world.app.set_connection(ServerConnection::default(), world.now);
    let actions = pressed(&mut world, control('p'));
    assert!(matches!(actions.as_slice(), [Action::Send(Input::Pause)]), "not paused before: {actions:?}");
}

#[test]
fn an_answer_to_a_question_stays_in_its_prompt_while_the_server_is_away() {
    let mut world = attached();
    world.asks(1, QuestionKind::Text, "Continue?").is_read().types("yes");
    world.app.set_connection(lost(&[]), world.now);
    world.press(KeyCode::Enter).key(control('c'));
    assert!(world.answers.is_empty() && world.app.question_prompt().is_some());
    world.app.set_connection(ServerConnection::default(), world.now);
    world.press(KeyCode::Enter);
    let [(_, PromptReply::Given { text, .. })] = world.answers.as_slice() else { panic!("one answer") };
    assert_eq!(text.expose_secret(), "yes");
}

#[test]
fn a_question_of_this_machine_is_answered_while_the_server_is_away() {
    let mut world = attached();
    world.asks(QuestionId::OF_CLIENT_FROM + 1, QuestionKind::Text, "Continue?").is_read();
    world.app.set_connection(lost(&[]), world.now);
    world.types("yes").press(KeyCode::Enter);
    let [(_, PromptReply::Given { text, .. })] = world.answers.as_slice() else { panic!("one answer") };
    assert_eq!(text.expose_secret(), "yes");
}

#[test]
fn a_question_of_this_machine_is_answered_before_one_of_the_server_that_is_away() {
    let mut world = attached();
    world.asks(1, QuestionKind::Text, "Continue?");
    world.asks(QuestionId::OF_CLIENT_FROM + 1, QuestionKind::Text, "Continue here?").is_read();
    world.app.set_connection(lost(&[]), world.now);
    world.is_read().types("yes").press(KeyCode::Enter);
    let [(id, PromptReply::Given { .. })] = world.answers.as_slice() else { panic!("one answer") };
    assert_eq!(id.0, QuestionId::OF_CLIENT_FROM + 1);
}

#[test]
fn a_prompt_that_returns_to_the_box_does_not_wait_anymore() {
    let mut world = attached();
    world.says("go");
    world.types("ping A");
    pressed(&mut world, KeyEvent::from(KeyCode::Enter));
    world.app.set_connection(lost(&["ping A"]), world.now);
    world.app.set_connection(lost(&[]), world.now);
    world.app.taken_back(vec!["ping A".to_owned()]);
    world.key(control('u'));
    world.types("ping B");
    pressed(&mut world, KeyEvent::from(KeyCode::Enter));
    world.app.not_sent(Some("ping B".to_owned()), "cannot send the image".to_owned(), world.now);
    assert_eq!(world.app.composer().text(), "ping B");
    world.app.set_connection(ServerConnection::default(), world.now);
    world.key(control('u'));
    let actions = pressed(&mut world, KeyEvent::from(KeyCode::Up));
    assert!(actions.is_empty(), "nothing waits: {actions:?}");
}

#[test]
fn taking_back_is_offered_only_in_the_empty_box() {
    let offers = |world: &mut World| world.screen(100, 24).contains("↑ take back");
    let mut world = attached();
    world.app.set_connection(lost(&["ping A"]), world.now);
    assert!(offers(&mut world));
    world.types("more");
    assert!(!offers(&mut world));
    let mut world = in_review("touch x");
    world.app.set_connection(lost(&["ping A"]), world.now);
    assert!(!offers(&mut world));
}
