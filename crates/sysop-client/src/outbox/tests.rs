//! Deliveries, refusals and lost connections, message by message.

use sysop_core::event::{ConfigChange, Input, Origin};
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;
use sysop_wire::Envelope;

use super::*;

fn say(text: &str) -> ClientMessage {
    ClientMessage::UserMessage { envelope: Envelope::default(), content: text.to_owned(), images: Vec::new() }
}

/// Connects to a server process whose session is not paused.
fn connect(outbox: &mut Outbox, instance: &str) -> Vec<&'static str> {
    let lost = outbox.connected(Some(instance));
    outbox.note_caught_up();
    lost
}

fn written(outbox: &mut Outbox) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    while let Some((line, _)) = outbox.next() {
        let value: Value = serde_json::from_str(&line).unwrap();
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        lines.push((text("content"), text("messageId")));
    }
    lines
}

#[test]
fn unconfirmed_messages_are_resent_to_the_same_process_under_the_same_id() {
    let mut outbox = Outbox::default();
    assert!(connect(&mut outbox, "a").is_empty());
    outbox.push(&say("one"), None);
    outbox.push(&say("two"), None);
    let first = written(&mut outbox);
    outbox.confirmed(1);
    assert!(connect(&mut outbox, "a").is_empty());
    assert_eq!(written(&mut outbox), first[1..]);
    outbox.confirmed(3);
    assert!(outbox.pending.is_empty());
}

fn message(input: &Input) -> ClientMessage {
    ClientMessage::from_input(input).unwrap()
}

#[test]
fn a_lost_connection_drops_everything_but_prompts() {
    let mut outbox = Outbox::default();
    connect(&mut outbox, "a");
    let direct = Input::Direct {
        tool: "bash".to_owned(),
        arguments: serde_json::Map::new(),
        origin: Origin::User,
        by: None,
    };
    outbox.push(&message(&direct), None);
    outbox.next();
    outbox.push(&say("first"), None);
    outbox.next();
    let mode = |mode| Input::Configure { change: ConfigChange::Approve(mode) };
    let model = ConfigChange::Model(ModelRef::new("demo", "one"));
    let changes = [model, ConfigChange::Revoke(Vec::new())].map(|change| Input::Configure { change });
    let others = [Input::Cancel, Input::Pause, Input::Clear, Input::Background];
    for input in [mode(ApprovalMode::Auto)].into_iter().chain(changes).chain(others) {
        outbox.push(&message(&input), None);
    }
    outbox.push_first_mode(&message(&mode(ApprovalMode::Never)));
    outbox.push(&say("later"), None);
    assert!(!outbox.is_lost());
    assert_eq!(
        outbox.disconnected().clauses,
        [
            "your command may not have arrived",
            "your last message may not have arrived",
            "your change of the approval mode was not sent",
            "your change of the model was not sent",
            "your change of a setting was not sent",
            "your stop request was not sent",
            "your pause request was not sent",
            "your request to clear the history was not sent",
            "your request to move the command to the background was not sent",
        ]
    );
    assert!(outbox.is_lost());
    let unconfirmed: Vec<_> =
        outbox.unconfirmed().into_iter().map(|prompt| (prompt.text, prompt.may_have_arrived)).collect();
    assert_eq!(unconfirmed, [("first".to_owned(), true), ("later".to_owned(), false)]);
    assert!(outbox.disconnected().clauses.iter().all(|clause| clause.starts_with("your last message")));
    connect(&mut outbox, "a");
    assert!(!outbox.is_lost());
    let kinds: Vec<_> = outbox.pending.iter().map(|pending| pending.what).collect();
    assert_eq!(kinds, ["your last message", "your change of the approval mode", "your last message"]);
}

#[test]
fn a_prompt_that_a_server_refuses_at_its_end_waits_for_the_next_one() {
    let mut outbox = Outbox::default();
    connect(&mut outbox, "a");
    for text in ["one", "two", "three"] {
        outbox.push(&say(text), None);
    }
    let sent = written(&mut outbox);
    outbox.confirmed(1);
    for (text, id) in &sent[..2] {
        // The first one is confirmed, the second one is not.
        assert_eq!(outbox.refused(id, ErrorCode::Draining).0, Refusal::PromptWaits, "{text}");
    }
    assert_eq!(outbox.refused("unknown", ErrorCode::Draining).0, Refusal::Dropped);
    outbox.confirmed(3);
    assert!(outbox.next().is_none(), "not to the same connection");
    assert!(outbox.disconnected().clauses.is_empty());
    assert_eq!(outbox.undelivered(), ["one", "two"]);
    connect(&mut outbox, "b");
    assert_eq!(written(&mut outbox), sent[..2]);
    assert_eq!(outbox.refused(&sent[0].1, ErrorCode::TooMany).0, Refusal::Dropped);
    assert_eq!(outbox.unconfirmed().len(), 1);
}

fn approve(mode: ApprovalMode) -> ClientMessage {
    message(&Input::Configure { change: ConfigChange::Approve(mode) })
}

/// Writes the next message. Returns its approval mode or its text, its id, and the number of its ping.
fn write_next(outbox: &mut Outbox) -> Option<(String, String, u64)> {
    let (line, ping) = outbox.next()?;
    let value: Value = serde_json::from_str(&line).unwrap();
    let text = value["approve"].as_str().or(value["content"].as_str()).unwrap();
    Some((text.to_owned(), value["messageId"].as_str().unwrap().to_owned(), ping))
}

#[test]
fn each_process_gets_the_first_mode_before_any_prompt_until_one_confirms_it() {
    let mut outbox = Outbox::default();
    connect(&mut outbox, "a");
    outbox.push_first_mode(&approve(ApprovalMode::Never));
    outbox.push(&say("fix it"), None);
    for process in ["b", "b", "c"] {
        assert_eq!(write_next(&mut outbox).unwrap().0, "never");
        assert_eq!(write_next(&mut outbox), None, "the prompt waits for the confirmation");
        assert!(outbox.disconnected().clauses.is_empty());
        assert!(connect(&mut outbox, process).is_empty());
    }
    let (mode, _, ping) = write_next(&mut outbox).unwrap();
    outbox.confirmed(ping);
    assert_eq!((mode.as_str(), write_next(&mut outbox)), ("never", None), "the log does not show it");
    assert!(outbox.makes_prompts_wait() && outbox.awaits_confirmation());
    outbox.note_mode(ApprovalMode::Ask);
    assert_eq!(write_next(&mut outbox), None, "the session has another mode");
    outbox.note_mode(ApprovalMode::Never);
    assert!(!outbox.makes_prompts_wait());
    assert_eq!(write_next(&mut outbox).unwrap().0, "fix it");
}

/// Returns the outbox of a session in mode `shown`, in which a prompt waits for the first mode, `never`.
fn prompt_behind_never(shown: ApprovalMode) -> Outbox {
    let mut outbox = Outbox::default();
    connect(&mut outbox, "a");
    outbox.note_mode(shown);
    outbox.push_first_mode(&approve(ApprovalMode::Never));
    outbox.push(&say("fix it"), None);
    outbox
}

#[test]
fn a_first_mode_that_the_session_has_already_is_confirmed_once_the_server_has_read_it() {
    let mut outbox = prompt_behind_never(ApprovalMode::Never);
    let (_, _, ping) = write_next(&mut outbox).unwrap();
    assert_eq!(write_next(&mut outbox), None);
    outbox.confirmed(ping);
    assert_eq!(write_next(&mut outbox).unwrap().0, "fix it");
}

#[test]
fn a_first_mode_that_is_refused_after_its_confirmation_releases_no_prompt() {
    let mut outbox = prompt_behind_never(ApprovalMode::Ask);
    let (_, mode, ping) = write_next(&mut outbox).unwrap();
    outbox.confirmed(ping);
    assert_eq!(write_next(&mut outbox), None);
    assert_eq!(outbox.refused(&mode, ErrorCode::TooMany).0, Refusal::PromptsNeedMode);
    assert_eq!((write_next(&mut outbox), outbox.undelivered()), (None, vec!["fix it".to_owned()]));
}

#[test]
fn a_prompt_from_before_a_pause_waits_for_its_end_or_for_another_prompt() {
    for ends in [true, false] {
        let mut outbox = Outbox::default();
        connect(&mut outbox, "a");
        outbox.disconnected();
        outbox.push(&say("later"), None);
        outbox.connected(Some("b"));
        assert_eq!(write_next(&mut outbox), None, "it is not known yet if the turn is paused");
        outbox.note_pause(true);
        assert!(!outbox.makes_prompts_wait() && outbox.note_caught_up() && outbox.makes_prompts_wait());
        assert_eq!((write_next(&mut outbox), outbox.undelivered()), (None, vec!["later".to_owned()]));
        assert!(!outbox.note_caught_up(), "it is told once");
        let next = if ends {
            outbox.note_pause(false);
            None
        } else {
            outbox.push(&say("now"), None);
            Some("now".to_owned())
        };
        assert_eq!(write_next(&mut outbox).unwrap().0, "later");
        assert_eq!(write_next(&mut outbox).map(|(text, ..)| text), next);
    }
}

#[test]
fn a_prompt_that_is_written_during_a_known_pause_ends_it_after_a_lost_connection_too() {
    let mut outbox = Outbox::default();
    connect(&mut outbox, "a");
    outbox.note_pause(true);
    outbox.disconnected();
    outbox.push(&say("go on"), None);
    assert!(connect(&mut outbox, "b").is_empty());
    assert_eq!(write_next(&mut outbox).unwrap().0, "go on");
}

#[test]
fn a_prompt_that_a_server_refuses_at_its_end_does_not_end_the_pause_that_this_causes() {
    let mut outbox = Outbox::default();
    connect(&mut outbox, "a");
    outbox.push(&say("later"), None);
    let (_, id, ping) = write_next(&mut outbox).unwrap();
    outbox.confirmed(ping);
    outbox.note_pause(true);
    assert_eq!(outbox.refused(&id, ErrorCode::Draining).0, Refusal::PromptWaits);
    outbox.disconnected();
    connect(&mut outbox, "b");
    assert_eq!(write_next(&mut outbox), None);
    outbox.note_pause(false);
    assert_eq!(write_next(&mut outbox).unwrap().0, "later");
}

#[test]
fn a_first_mode_that_a_server_refuses_at_its_end_reaches_the_next_one_before_the_prompts() {
    for is_confirmed in [false, true] {
        let mut outbox = Outbox::default();
        connect(&mut outbox, "a");
        outbox.push_first_mode(&approve(ApprovalMode::Never));
        let (_, mode, ping) = write_next(&mut outbox).unwrap();
        outbox.push(&say("fix it"), None);
        if is_confirmed {
            outbox.confirmed(ping);
        }
        assert_eq!(outbox.refused(&mode, ErrorCode::Draining).0, Refusal::SettingWaits);
        assert_eq!(write_next(&mut outbox), None, "not to the same connection");
        assert!(outbox.disconnected().clauses.is_empty());
        connect(&mut outbox, "b");
        let (again, _, ping) = write_next(&mut outbox).unwrap();
        assert_eq!((again.as_str(), write_next(&mut outbox)), ("never", None));
        outbox.confirmed(ping);
        outbox.note_mode(ApprovalMode::Never);
        assert_eq!(write_next(&mut outbox).unwrap().0, "fix it");
    }
}

#[test]
fn prompts_wait_for_the_users_mode_if_the_first_one_is_refused() {
    let mut outbox = Outbox::default();
    connect(&mut outbox, "a");
    outbox.push_first_mode(&approve(ApprovalMode::Never));
    let (_, mode, ping) = write_next(&mut outbox).unwrap();
    outbox.confirmed(ping);
    assert_eq!(outbox.refused(&mode, ErrorCode::TooMany).0, Refusal::PromptsNeedMode);
    outbox.push(&say("fix it"), None);
    assert_eq!(write_next(&mut outbox), None);
    assert!(outbox.makes_prompts_wait() && outbox.undelivered() == ["fix it"]);
    let permission = || Some(LocalPermission::Mode { before: ApprovalMode::Ask });
    outbox.push(&approve(ApprovalMode::Auto), permission());
    let (_, mode, ping) = write_next(&mut outbox).unwrap();
    outbox.confirmed(ping);
    assert_eq!(outbox.refused(&mode, ErrorCode::TooMany).0, Refusal::Dropped);
    assert!(outbox.makes_prompts_wait(), "the user's mode is refused, too");
    outbox.push(&approve(ApprovalMode::Ask), permission());
    let (mode, _, ping) = write_next(&mut outbox).unwrap();
    assert_eq!((mode.as_str(), write_next(&mut outbox)), ("ask", None));
    outbox.confirmed(ping);
    assert_eq!(write_next(&mut outbox), None, "the log does not show it");
    outbox.note_mode(ApprovalMode::Ask);
    assert_eq!(write_next(&mut outbox).unwrap().0, "fix it");
    assert!(!outbox.makes_prompts_wait());
}

#[test]
fn a_mode_that_the_user_chooses_instead_of_a_wider_first_one_reaches_the_next_process() {
    let permission = || Some(LocalPermission::Mode { before: ApprovalMode::Never });
    for is_confirmed in [false, true] {
        let mut outbox = Outbox::default();
        connect(&mut outbox, "a");
        outbox.push_first_mode(&approve(ApprovalMode::Auto));
        let (_, first, _) = write_next(&mut outbox).unwrap();
        assert_eq!(outbox.refused(&first, ErrorCode::TooMany).0, Refusal::PromptsNeedMode);
        outbox.push(&say("fix it"), None);
        outbox.push(&approve(ApprovalMode::Ask), permission());
        let (mode, chosen, ping) = write_next(&mut outbox).unwrap();
        assert_eq!((mode.as_str(), write_next(&mut outbox)), ("ask", None));
        if is_confirmed {
            outbox.confirmed(ping);
        }
        assert!(outbox.disconnected().clauses.is_empty());
        connect(&mut outbox, "b");
        outbox.note_mode(ApprovalMode::Auto);
        let (again, id, ping) = write_next(&mut outbox).unwrap();
        assert_eq!((again.as_str(), &id, write_next(&mut outbox)), ("ask", &chosen, None));
        outbox.confirmed(ping);
        let (refusal, revoked) = outbox.refused(&id, ErrorCode::TooMany);
        assert!(refusal == Refusal::PromptsNeedMode && revoked.is_some());
        assert!(write_next(&mut outbox).is_none() && outbox.makes_prompts_wait());
        outbox.push(&approve(ApprovalMode::Ask), permission());
        assert_eq!(write_next(&mut outbox).unwrap().0, "ask");
        outbox.note_mode(ApprovalMode::Ask);
        assert_eq!(write_next(&mut outbox).unwrap().0, "fix it");
    }
}

#[test]
fn a_wider_mode_from_before_does_not_end_the_wait_for_the_mode_that_the_user_chose_last() {
    let mut outbox = Outbox::default();
    connect(&mut outbox, "a");
    outbox.push_first_mode(&approve(ApprovalMode::Ask));
    outbox.push(&approve(ApprovalMode::Auto), None);
    outbox.push(&say("fix it"), None);
    let modes = [(); 2].map(|()| write_next(&mut outbox).unwrap());
    assert_eq!([&*modes[0].0, &modes[1].0], ["ask", "auto"]);
    outbox.confirmed(modes[1].2);
    outbox.push(&approve(ApprovalMode::Each), None);
    outbox.note_mode(ApprovalMode::Auto);
    assert_eq!(write_next(&mut outbox).unwrap().0, "each");
    assert_eq!(write_next(&mut outbox), None);
    connect(&mut outbox, "b");
    assert_eq!(write_next(&mut outbox).unwrap().0, "each");
    assert_eq!(write_next(&mut outbox), None);
    outbox.note_mode(ApprovalMode::Each);
    assert_eq!(write_next(&mut outbox).unwrap().0, "fix it");
}

#[test]
fn a_prompt_that_is_refused_while_the_session_closes_is_kept_whatever_the_reason() {
    for code in [ErrorCode::TooMany, ErrorCode::Draining, ErrorCode::Forbidden] {
        let mut outbox = Outbox::default();
        connect(&mut outbox, "a");
        outbox.push(&say("one"), None);
        let (_, id, ping) = write_next(&mut outbox).unwrap();
        outbox.begin_close();
        outbox.confirmed(ping);
        assert_eq!(outbox.refused(&id, code).0, Refusal::PromptWaits, "{code:?}");
        let unsent = UndeliveredPrompt { text: "one".to_owned(), may_have_arrived: false };
        assert_eq!(outbox.unconfirmed(), [unsent]);
    }
}

#[test]
fn only_a_prompt_that_was_not_written_is_taken_back() {
    let mut outbox = Outbox::default();
    connect(&mut outbox, "a");
    outbox.push(&say("one"), None);
    outbox.next();
    outbox.push(&say("two"), None);
    assert_eq!(outbox.undelivered(), ["two"]);
    assert!(!outbox.take_back("one") && outbox.take_back("two") && !outbox.take_back("two"));
    assert!(outbox.undelivered().is_empty() && outbox.next().is_none());
}

#[test]
fn a_new_process_gets_only_messages_that_were_never_sent() {
    let mut outbox = Outbox::default();
    connect(&mut outbox, "a");
    outbox.push(&say("one"), None);
    written(&mut outbox);
    outbox.push(&say("two"), None);
    assert_eq!(connect(&mut outbox, "b"), ["your last message"]);
    assert_eq!(written(&mut outbox)[0].0, "two");
    assert_eq!(
        outbox.connected(None),
        ["your last message"],
        "a server without an identity counts as another one"
    );
}
