//! A front end shows the same for a remote session as for a local one.

use std::collections::HashSet;

use arbtest::arbitrary::Unstructured;
use arbtest::arbtest;
use sysop_core::event::{Event, Update};
use sysop_core::id::{Seq, SessionId};
use sysop_core::transcript::{Item, ItemBody, Transcript};
use sysop_wire::{Decoder, Encoder, ServerMessage, to_json_line};

use crate::world::World;

/// Sends a message through its text form.
fn over(message: &ServerMessage) -> ServerMessage {
    serde_json::from_str(&to_json_line(message)).expect("what is sent can be read")
}

/// Returns the items without provider-specific ids, the one thing that the wire omits.
fn items(transcript: &Transcript) -> Vec<Item> {
    let mut items: Vec<_> = transcript.items().cloned().collect();
    for item in &mut items {
        if let ItemBody::Proposal(plan) = &mut item.body {
            plan.call.wire_id = None;
        }
    }
    items
}

fn assert_same(far: &Transcript, near: &Transcript) {
    assert_eq!(items(far), items(near));
    assert_eq!(far.phase(), near.phase());
    assert_eq!(far.usage(), near.usage());
    assert_eq!(far.questions(), near.questions());
    assert_eq!(far.holder(), near.holder());
    assert_eq!(far.session_info(), near.session_info());
    assert_eq!(far.missed_hosts(), near.missed_hosts());
    assert_eq!((far.turn(), far.iteration(), far.seq()), (near.turn(), near.iteration(), near.seq()));
}

#[test]
fn a_decoded_transcript_equals_the_logged_one_after_every_update() {
    arbtest(|u| {
        let world = World::random(u)?;
        let mut encoder = Encoder::new(SessionId::new("s"));
        let mut decoder = Decoder::new();
        let (mut near, mut far) = (Transcript::new(), Transcript::new());
        for update in &world.updates {
            near.apply(update);
            let messages = match update {
                Update::Logged(logged) => encoder.encode_event(logged),
                Update::Delta(delta) => vec![encoder.encode_delta(delta)],
            };
            let decoded: Vec<_> = messages.iter().filter_map(|message| decoder.take(over(message))).collect();
            assert_eq!(decoded.len(), 1, "one update gives one update: {messages:?}");
            decoded.iter().for_each(|update| far.apply(update));
            assert_same(&far, &near);
        }
        Ok(())
    })
    .budget_ms(4_000);
}

#[test]
fn a_connection_broken_anywhere_loses_and_duplicates_nothing() {
    arbtest(|u| {
        let log = World::random(u)?.log();
        let mut decoder = Decoder::new();
        let (mut near, mut far) = (Transcript::new(), Transcript::new());
        log.iter().for_each(|logged| near.apply_logged(logged));
        loop {
            // Like a server: folds everything, and sends what follows the last complete event.
            let after = decoder.seq();
            let mut encoder = Encoder::new(SessionId::new("s"));
            let messages: Vec<_> = log
                .iter()
                .flat_map(|logged| {
                    encoder.encode_event(logged).into_iter().map(|message| (logged.seq, message))
                })
                .filter(|(seq, _)| *seq > after || after == Seq(0))
                .map(|(_, message)| over(&message))
                .collect();
            let received = if u.is_empty() { messages.len() } else { u.int_in_range(0..=messages.len())? };
            for message in messages.iter().take(received) {
                if let Some(update) = decoder.take(message.clone()) {
                    far.apply(&update);
                }
            }
            if received == messages.len() {
                break;
            }
        }
        assert_same(&far, &near);
        Ok(())
    })
    .budget_ms(2_000);
}

#[test]
fn an_event_is_complete_despite_broken_connections() {
    let of = |text: &str| serde_json::from_str::<ServerMessage>(text).expect("a message");
    let error = r#"{"type":"error","sessionId":"s","seq":1,"more":true,"message":"it broke"}"#;
    let done = r#"{"type":"assistant.done","sessionId":"s","seq":1,"metadata":{"stopReason":"failed","turn":1,
        "usage":{"inputTokens":0,"outputTokens":0},"iterations":1}}"#;
    for breaks in 0..40 {
        let mut decoder = Decoder::new();
        for _ in 0..=breaks {
            assert_eq!(decoder.take(of(error)), None);
        }
        let Some(Update::Logged(logged)) = decoder.take(of(done)) else { panic!("it is whole") };
        let Event::TurnEnded { error, .. } = &logged.event else { panic!("{logged:?}") };
        assert_eq!(error.as_deref(), Some("it broke"), "after {breaks} breaks");
    }
}

#[test]
fn an_incomplete_event_does_not_leak_into_another() {
    let queued = |seq, more: bool, content: &str| {
        let text = format!(
            r#"{{"type":"prompt.queued","sessionId":"s","seq":{seq},"more":{more},"content":"{content}"}}"#
        );
        serde_json::from_str::<ServerMessage>(&text).expect("a message")
    };
    let mut decoder = Decoder::new();
    let lone = r#"{"type":"error","sessionId":"s","seq":1,"more":true,"message":"it broke"}"#;
    assert_eq!(decoder.take(serde_json::from_str(lone).expect("a message")), None);
    let done = r#"{"type":"assistant.done","sessionId":"s","seq":2,"metadata":{"stopReason":"end_turn","turn":1,
        "usage":{"inputTokens":0,"outputTokens":0},"iterations":1}}"#;
    let Some(Update::Logged(logged)) = decoder.take(serde_json::from_str(done).expect("a message")) else {
        panic!("it is whole")
    };
    assert!(matches!(&logged.event, Event::TurnEnded { error: None, .. }), "{logged:?}");
    for _ in 0..1000 {
        assert_eq!(decoder.take(queued(3, true, "again and again")), None);
    }
    assert!(format!("{decoder:?}").len() < 10_000, "a server cannot fill the memory");
    assert!(decoder.take(queued(3, false, "x")).is_some());
    assert_eq!(decoder.take(queued(3, false, "x")), None, "it came before");
    assert_eq!(decoder.seq(), Seq(3));
}

/// Returns pseudorandom bytes, which depend only on the seed (xorshift).
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).take(512).flatten().collect()
}

#[test]
fn random_sessions_cover_every_message_kind_and_match_the_schema() {
    let mut kinds = HashSet::new();
    let schema = jsonschema::validator_for(&sysop_wire::schema::server()).expect("a schema");
    for seed in 1..=400 {
        let mut encoder = Encoder::new(SessionId::new("s"));
        let world = World::random(&mut Unstructured::new(&bytes(seed))).expect("there are bytes enough");
        for update in &world.updates {
            let messages = match update {
                Update::Logged(logged) => encoder.encode_event(logged),
                Update::Delta(delta) => vec![encoder.encode_delta(delta)],
            };
            for message in messages {
                let value = serde_json::to_value(message).expect("plain data");
                assert!(schema.is_valid(&value), "seed {seed}: the schema refuses {value}");
                let mut later = value.clone();
                let fields = later.as_object_mut().expect("an object");
                fields.insert("zzLater".to_owned(), serde_json::json!({"deep": [1, {"type": "x"}]}));
                let read: ServerMessage =
                    serde_json::from_value(later).expect("unknown fields are passed over");
                assert_eq!(serde_json::to_value(read).expect("plain data"), value);
                let event = value["event"].as_str().unwrap_or_default();
                kinds
                    .insert(format!("{} {event}", value["type"].as_str().expect("a type")).trim().to_owned());
            }
        }
    }
    let expected = [
        "session.created", "configured", "prompt.queued", "user.message", "assistant.delta",
        "assistant.reasoning", "assistant.restarted", "assistant.message", "step.finished", "step.failed",
        "assistant.done", "tool.call", "tool.output", "tool.finished", "approval.request", "approval.closed",
        "state", "state turn_started", "state step_started", "state cancel_asked", "state paused",
        "state resumed", "state compacted", "state history_cleared", "notice", "question", "question.closed",
        "terminal.control", "terminal.typed", "approval.given", "approval.preview", "context.compacted",
        "todo", "job.started", "job.finished", "guard.armed", "guard.ended", "undone", "error",
    ];
    let missing: Vec<_> = expected.iter().filter(|kind| !kinds.contains(**kind)).collect();
    assert!(missing.is_empty(), "never made: {missing:?}");
}
