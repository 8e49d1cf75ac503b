//! Rows of the panel layout for given updates.

use serde_json::json;
use sysop_core::event::Origin;
use sysop_core::id::{Seq, TurnId};
use sysop_core::message::{Arguments, Reply, ToolCall};
use sysop_core::outcome::{ChangeKind, FileChange, Outcome, Reversibility, Status, SystemChange};

use super::*;
use crate::chat::fake_session;
use crate::recorded_output::RecordedOutput;
use crate::render::RenderOptions;

/// A session whose updates are drawn.
struct PanelRig {
    view: PanelView,
    transcript: Transcript,
    screen: InlineScreen,
    shown: RecordedOutput,
}

impl PanelRig {
    /// Begins a turn.
    fn new() -> Self {
        let shown = RecordedOutput::default();
        let look = RenderOptions { width: 80, color: false };
        let screen = InlineScreen::new(Box::new(shown.clone()), look, None);
        let mut rig = Self { view: PanelView::new(None), transcript: Transcript::new(), screen, shown };
        let spec = std::sync::Arc::new(fake_session::spec("local"));
        rig.log(Event::SessionOpened { spec, opened_by: None });
        let (prompt, images) = ("go".to_owned(), Vec::new());
        rig.log(Event::TurnStarted { turn: TurnId(1), prompt, origin: Origin::Model, images, by: None });
        rig.log(Event::StepStarted { step: step() });
        rig.shown.clear();
        rig
    }

    fn log(&mut self, event: Event) {
        let logged = Logged { seq: Seq(self.transcript.seq().0 + 1), at: Timestamp(0), event };
        self.update(Update::Logged(std::sync::Arc::new(logged)));
    }

    fn stream(&mut self, text: &str) {
        self.update(Update::Delta(Delta::Text { step: step(), text: text.to_owned() }));
    }

    fn reply(&mut self, text: &str) {
        let reply = Reply { text: text.to_owned(), ..Reply::default() };
        self.log(Event::Replied { step: step(), reply });
    }

    fn end(&mut self) {
        let (turn, reason) = (TurnId(1), StopReason::EndTurn);
        self.log(Event::TurnEnded { turn, reason, error: None, active_ms: 0 });
    }

    fn update(&mut self, update: Update) {
        self.transcript.apply(&update);
        self.view.update(&update, &self.transcript, &mut self.screen).expect("the output is in memory");
    }

    /// Returns the permanent rows, without frames and blanks at their ends.
    fn rows(&mut self) -> Vec<String> {
        self.screen.last_row(None).expect("the output is in memory");
        let text = self.shown.text().replace('\r', "");
        let finished = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let rows = finished.filter_map(|line| line.rsplit("\u{1b}[J").next());
        rows.map(|row| row.trim_end_matches(['─', '╮', '╯', ' ', '│', '┤']).to_owned()).collect()
    }
}

fn step() -> StepId {
    StepId { turn: TurnId(1), step: 1 }
}

#[test]
fn a_message_during_an_answer_is_between_two_panels_with_its_text() {
    let mut rig = PanelRig::new();
    rig.stream("One.\n\nTwo, th");
    rig.log(Event::PromptQueued { text: "and then".into(), images: Vec::new(), by: None });
    rig.stream("ree.\n\nFo");
    rig.reply("One.\n\nTwo, three.\n\nFour.");
    rig.end();
    let rows = rig.rows();
    let shown: Vec<&str> = rows.iter().map(String::as_str).filter(|row| !row.is_empty()).collect();
    let expected = [
        "╭─ AGENT RESPONSE",
        "│ One.",
        "╰",
        "· queued: and then",
        "╭─ AGENT RESPONSE, continued",
        "│ Two, three.",
        "│ Four.",
        "╰",
    ];
    assert_eq!(shown[..expected.len()], expected, "{rows:#?}");
    assert_eq!(shown.len(), expected.len() + 1, "the status follows: {rows:#?}");
}

#[test]
fn a_panel_that_a_message_closes_is_not_empty() {
    let mut rig = PanelRig::new();
    rig.stream("Half a li");
    rig.log(Event::PromptQueued { text: "and then".into(), images: Vec::new(), by: None });
    rig.reply("Half a line.");
    let rows = rig.rows();
    let expected = [
        "╭─ AGENT RESPONSE",
        "│ Half a li …",
        "╰",
        "· queued: and then",
        "╭─ AGENT RESPONSE, continued",
        "│ Half a line.",
        "╰",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_pause_that_the_end_of_the_turn_overtakes_is_not_announced() {
    let paused = || Event::Paused { reason: PauseReason::Asked, detail: None, active_ms: 0 };
    let mut ended = PanelRig::new();
    ended.log(paused());
    ended.reply("Done.");
    ended.end();
    ended.view.settle(&ended.transcript, &mut ended.screen).expect("the output is in memory");
    let rows = ended.rows();
    assert!(!rows.iter().any(|row| row.contains("paused")), "{rows:#?}");
    let mut waiting = PanelRig::new();
    waiting.log(paused());
    waiting.reply("");
    for _ in 0..2 {
        waiting.view.settle(&waiting.transcript, &mut waiting.screen).expect("the output is in memory");
    }
    let rows = waiting.rows();
    assert_eq!(rows.iter().filter(|row| row.starts_with("paused; Ctrl+P")).count(), 1, "{rows:#?}");
}

#[test]
fn an_interruption_names_the_process_and_the_command_that_stopped() {
    let paused = || Event::Paused { reason: PauseReason::Interrupted, detail: None, active_ms: 0 };
    let text = |rig: &mut PanelRig| rig.rows().join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut idle = PanelRig::new();
    idle.log(paused());
    let rows = text(&mut idle);
    assert!(rows.contains("exited during this turn; no command was running; /resume or /stop"), "{rows}");
    let mut running = PanelRig::new();
    running.transcript.set_viewer(Some("chat"));
    let make = call("bash", json!({ "command": "make" }));
    let reply = Reply { calls: vec![make.clone()], ..Reply::default() };
    running.log(Event::Replied { step: step(), reply });
    running.log(Event::ToolStarted { call: make.clone(), origin: Origin::Model });
    let outcome = Outcome::new(Status::Interrupted, "outcome unknown");
    running.log(Event::ToolFinished { call: make.id, outcome });
    running.log(paused());
    let rows = text(&mut running);
    assert!(rows.contains("the server stopped during this turn;"), "{rows}");
    assert!(rows.contains("may not have finished; check it, then /resume or /stop"), "{rows}");
}

fn call(name: &str, arguments: serde_json::Value) -> ToolCall {
    let serde_json::Value::Object(map) = arguments else { panic!("arguments are an object") };
    ToolCall { id: CallId::new("c"), wire_id: None, name: name.into(), arguments: Arguments::Object(map) }
}

#[test]
fn a_file_tool_tells_what_it_changed_and_how_to_undo_it() {
    let mut rig = PanelRig::new();
    let write = call("write_file", json!({ "content": "a\n", "path": "notes.txt" }));
    let id = write.id.clone();
    let reply = Reply { calls: vec![write.clone()], ..Reply::default() };
    rig.log(Event::Replied { step: step(), reply });
    rig.log(Event::ToolStarted { call: write, origin: Origin::Model });
    let before = Some("old".to_owned());
    let outcome = Outcome {
        changes: vec![FileChange { path: "notes.txt".into(), before, after_hash: "0".into() }],
        changed: vec![SystemChange {
            kind: ChangeKind::File,
            name: "notes.txt".into(),
            how: "edited".into(),
        }],
        undo: Some(Reversibility::Exact),
        ..Outcome::new(Status::Ok, "wrote notes.txt")
    };
    rig.log(Event::ToolFinished { call: id, outcome });
    let rows = rig.rows();
    let line = "· changed: notes.txt edited; undo: exact (/undo 1)";
    assert_eq!(rows.last().map(String::as_str), Some(line), "{rows:#?}");
}
