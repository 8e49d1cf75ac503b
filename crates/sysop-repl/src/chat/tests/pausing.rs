//! Pauses: output of a call that runs on, requests that have no effect, and questions that are asked again.

use sysop_core::event::{Delta, Event, Logged, Origin, PauseReason, Update};
use sysop_core::id::{CallId, Seq};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::transcript::Transcript;

use super::*;
use crate::chat::fake_session::spec;
use crate::chat::inline_screen::InlineScreen;
use crate::chat::panel_view::PanelView;
use crate::chat::plain_view::PlainView;
use crate::chat::view::ReplView;
use crate::recorded_output::RecordedOutput;

fn shown_by(mut view: Box<dyn ReplView>) -> String {
    let shown = RecordedOutput::default();
    let look = crate::render::RenderOptions { width: 80, color: false };
    let mut screen = InlineScreen::new(Box::new(shown.clone()), look, None);
    let map = serde_json::Map::from_iter([("command".to_owned(), "count".into())]);
    let call = ToolCall {
        id: CallId::new("c"),
        wire_id: None,
        name: "bash".into(),
        arguments: Arguments::Object(map),
    };
    let output = |text: &str| Update::Delta(Delta::Output { call: CallId::new("c"), text: text.to_owned() });
    let log = |seq, event| Update::Logged(Arc::new(Logged { seq: Seq(seq), at: Timestamp(0), event }));
    let mut transcript = Transcript::new();
    for update in [
        log(1, Event::SessionOpened { spec: Arc::new(spec("local")), opened_by: None }),
        log(2, Event::ToolStarted { call, origin: Origin::Model }),
        output("tick 3\n"),
        log(3, Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 }),
        output("tick 4\nFATAL\n"),
    ] {
        transcript.apply(&update);
        view.update(&update, &transcript, &mut screen).expect("the output is in memory");
    }
    shown.text()
}

#[test]
fn the_output_of_a_call_is_shown_while_a_pause_waits_for_its_end() {
    let views: [Box<dyn ReplView>; 2] = [Box::new(PanelView::new(None)), Box::new(PlainView::new(None))];
    for view in views {
        let text = shown_by(view);
        assert!(text.contains("tick 3") && text.contains("tick 4") && text.contains("FATAL"), "{text}");
    }
}

#[tokio::test]
async fn a_paused_turn_is_not_paused_again() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("!sleep 9\r").await;
    person.sees("running sleep 9").await;
    person.types("\u{1c}").await;
    person.sees("paused ›").await;
    person.types("/pause\r").await;
    person.sees("already paused; /resume to resume").await;
    person.sees("paused ›").await;
}

#[tokio::test]
async fn a_question_that_is_asked_again_says_why() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("rechecked\r").await;
    let text = person.sees(QUESTION).await;
    assert!(!text.contains("the risk changed"), "{text}");
    person.types("y").await;
    let text = person.sees(QUESTION).await;
    assert!(text.contains("the risk changed since you answered: makes changes (it was: effect"), "{text}");
    person.types("y").await;
    person.sees("ran reload").await;
}
