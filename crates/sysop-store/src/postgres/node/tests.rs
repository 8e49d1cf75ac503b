//! Messages fit into a notification and arrive complete.

use sysop_core::event::Delta;
use sysop_core::id::{CallId, Seq, SessionId, StepId, TurnId};

use super::{NodeMessage, PAYLOAD_BYTES_MAX, payloads};

#[test]
fn deltas_are_split_and_rejoined_in_order() {
    let step = StepId { turn: TurnId(1), step: 1 };
    let call = CallId::new("call_1");
    for text in ["x".repeat(100_000), "\u{1b}".repeat(20_000), "ü\u{1f600}\"\\".repeat(5000)] {
        let deltas = [
            Delta::Text { step, text: text.clone() },
            Delta::Restarted { step },
            Delta::Output { call: call.clone(), text: text.clone() },
        ];
        let payloads = payloads(&SessionId::new("s".repeat(36)), Seq(u64::MAX), &deltas);
        let (mut said, mut output, mut restarted) = (String::new(), String::new(), 0);
        for payload in &payloads {
            assert!(payload.len() <= PAYLOAD_BYTES_MAX, "{} bytes", payload.len());
            let Ok(NodeMessage::Published { deltas, .. }) = serde_json::from_str(payload) else {
                panic!("{payload}")
            };
            for delta in deltas {
                if let Delta::Text { text, .. } = &delta {
                    assert!(restarted == 0 && output.is_empty());
                    said.push_str(text);
                } else if let Delta::Output { text, .. } = &delta {
                    output.push_str(text);
                } else {
                    restarted += 1;
                }
            }
        }
        assert_eq!((said, restarted, output), (text.clone(), 1, text));
    }
}
