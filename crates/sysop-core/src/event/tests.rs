//! Encoding of events as JSON.

use serde_json::{Value, from_str, from_value, to_string, to_value};

use super::{Event, Origin};
use crate::id::{CallId, TurnId};
use crate::outcome::Reversibility;

fn started() -> Event {
    Event::TurnStarted {
        turn: TurnId(3),
        prompt: "say \"hi\"".to_owned(),
        origin: Origin::User,
        images: Vec::new(),
        by: None,
    }
}

#[test]
fn the_tag_comes_first_and_fields_follow() {
    let text = to_string(&started()).unwrap();
    assert_eq!(text, r#"{"type":"turn_started","turn":3,"prompt":"say \"hi\"","origin":"typed"}"#);
    assert_eq!(from_str::<Event>(&text).unwrap(), started());
    assert_eq!(to_string(&Event::Resumed).unwrap(), r#"{"type":"resumed"}"#);
    assert_eq!(from_str::<Event>(r#"{"type":"resumed"}"#).unwrap(), Event::Resumed);
}

#[test]
fn a_prompt_names_its_sender_only_if_there_is_one() {
    let by = |by: Option<&str>| Event::PromptQueued {
        text: "go".to_owned(),
        images: Vec::new(),
        by: by.map(str::to_owned),
    };
    for (event, text) in [
        (by(None), r#"{"type":"prompt_queued","text":"go"}"#),
        (by(Some("ada")), r#"{"type":"prompt_queued","text":"go","by":"ada"}"#),
    ] {
        assert_eq!(to_string(&event).unwrap(), text);
        assert_eq!(from_str::<Event>(text).unwrap(), event);
    }
}

#[test]
fn an_undo_of_an_older_log_has_no_number() {
    let old = r#"{"type":"undone","call":"direct_1","by":"tui","how":"exact"}"#;
    let (call, by, how) = (CallId::new("direct_1"), "tui".to_owned(), Reversibility::Exact);
    let event = |step| Event::Undone { call: call.clone(), step, by: by.clone(), how };
    assert_eq!(from_str::<Event>(old).unwrap(), event(None));
    assert_eq!(to_string(&event(None)).unwrap(), old);
    let new = r#"{"type":"undone","call":"direct_1","step":2,"by":"tui","how":"exact"}"#;
    assert_eq!(from_str::<Event>(new).unwrap(), event(Some(2)));
}

#[test]
fn the_tag_may_stand_anywhere() {
    let text = r#"{"turn":3,"prompt":"say \"hi\"","type":"turn_started","origin":"typed"}"#;
    assert_eq!(from_str::<Event>(text).unwrap(), started());
    assert_eq!(from_str::<Event>(r#"{"later":[1],"type":"resumed"}"#).unwrap(), Event::Resumed);
}

#[test]
fn events_parse_from_values_as_from_text_and_ignore_unknown_fields() {
    assert_eq!(from_value::<Event>(to_value(started()).unwrap()).unwrap(), started());
    let later = r#"{"type":"turn_started","turn":3,"new":{"a":[1]},"prompt":"","origin":"model"}"#;
    assert!(matches!(from_str(later).unwrap(), Event::TurnStarted { turn: TurnId(3), .. }));
    assert_eq!(from_str::<Event>(r#"{"type":"resumed","new":{"a":[1]}}"#).unwrap(), Event::Resumed);
}

#[test]
fn invalid_events_are_errors() {
    for text in [
        "{}",
        "[]",
        "null",
        r#""resumed""#,
        r#"{"type":"teleported"}"#,
        r#"{"type":7}"#,
        r#"{"turn":3}"#,
        r#"{"turn_started":{"turn":3,"prompt":""}}"#,
        r#"{"type":"turn_started","turn":3}"#,
        r#"{"type":"turn_started","turn":3,"turn":4,"prompt":""}"#,
        r#"{"type":"resumed""#,
        r#"{"type":"resumed"} {}"#,
    ] {
        assert!(from_str::<Event>(text).is_err(), "{text}");
    }
    assert!(from_value::<Event>(Value::Null).is_err());
}
