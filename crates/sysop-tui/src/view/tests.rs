//! Tests of the view: its content, and that it stays within its cells.

mod history;
mod items;

use std::sync::Arc;

use ratatui::buffer::Buffer;
use serde_json::json;
use sysop_core::event::{Delta, Event, Logged, Origin, Update};
use sysop_core::id::{CallId, Seq, StepId, Timestamp, TurnId};
use sysop_core::message::{Arguments, Reply, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_core::spec::SessionSpec;
use sysop_core::transcript::Transcript;
use sysop_term::testing::{NASTY, buffer, drawn, intruder, screen};
use sysop_term::theme::{Theme, ThemeName};

use super::history::HistoryView;

const DARK: Theme = Theme { name: ThemeName::Dark };
const STEP: StepId = StepId { turn: TurnId(1), step: 1 };

/// Builds a session event by event.
#[derive(Default)]
struct Story {
    transcript: Transcript,
    seq: u64,
    step: u32,
}

impl Story {
    fn new() -> Self {
        let spec = SessionSpec { host: String::new(), root: String::new(), ..crate::tests::world::spec() };
        Self { transcript: Transcript::of(&spec), ..Self::default() }
    }

    fn log(&mut self, event: Event) -> &mut Self {
        self.seq += 1;
        let logged = Logged { seq: Seq(self.seq), at: Timestamp(0), event };
        self.transcript.apply(&Update::Logged(Arc::new(logged)));
        self
    }

    fn delta(&mut self, delta: Delta) -> &mut Self {
        self.transcript.apply(&Update::Delta(delta));
        self
    }

    fn prompt(&mut self, text: &str) -> &mut Self {
        self.prompt_by(text, None)
    }

    fn prompt_by(&mut self, text: &str, by: Option<&str>) -> &mut Self {
        let turn = self.transcript.turn().next();
        self.step = 0;
        self.log(Event::TurnStarted {
            turn,
            prompt: text.to_owned(),
            origin: Origin::Model,
            images: Vec::new(),
            by: by.map(str::to_owned),
        })
    }

    fn step(&mut self) -> StepId {
        self.step += 1;
        let step = StepId { turn: self.transcript.turn(), step: self.step };
        self.log(Event::StepStarted { step });
        step
    }

    fn answer(&mut self, text: &str) -> &mut Self {
        let step = self.step();
        self.log(Event::Replied { step, reply: Reply { text: text.to_owned(), ..Reply::default() } })
    }

    fn ran(&mut self, call: ToolCall, outcome: Outcome) -> &mut Self {
        let id = call.id.clone();
        self.log(Event::ToolStarted { call, origin: Origin::Model });
        self.log(Event::ToolFinished { call: id, outcome })
    }

    fn buffer(&self, columns: u16, rows: u16) -> Buffer {
        let mut buffer = buffer(columns, rows);
        HistoryView::default().draw(&self.transcript, None, DARK, buffer.area, &mut buffer);
        assert_eq!(intruder(&buffer), None);
        buffer
    }

    fn screen(&self, columns: u16, rows: u16) -> String {
        screen(&self.buffer(columns, rows))
    }
}

fn call(id: &str, name: &str, arguments: serde_json::Value) -> ToolCall {
    let serde_json::Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    ToolCall {
        id: CallId::new(id),
        wire_id: None,
        name: name.to_owned(),
        arguments: Arguments::Object(arguments),
    }
}

fn bash(id: &str, command: &str) -> ToolCall {
    call(id, "bash", json!({ "command": command }))
}
