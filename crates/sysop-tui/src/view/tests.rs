//! Tests of the view: what is drawn, and that it stays within its cells.

mod cells;
mod code;
mod colors;
mod history;
mod items;
mod markdown;
mod output;
mod terminal;

use std::sync::Arc;

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::json;
use sysop_core::event::{Delta, Event, Logged, Origin, Update};
use sysop_core::id::{CallId, Seq, StepId, Timestamp, TurnId};
use sysop_core::message::{Arguments, Reply, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_core::spec::SessionSpec;
use sysop_core::transcript::Transcript;

use super::cells::TextRow;
use super::history::HistoryView;
use super::theme::{Theme, ThemeName};

const DARK: Theme = Theme { name: ThemeName::Dark };
const STEP: StepId = StepId { turn: TurnId(1), step: 1 };

/// Text that terminals, layouts and people stumble over.
const NASTY: [&str; 22] = [
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://evil\u{1b}\\click\u{1b}]8;;\u{1b}\\",
    "\u{9b}31m",
    "\u{90}q\u{9c}",
    "a\rb",
    "\u{8}\u{8}",
    "\u{202e}desrever\u{202c}",
    "\u{2066}isolate\u{2069}",
    "zero\u{200b}width\u{feff}",
    "tab\there",
    "日本語のテキスト",
    "e\u{301}a\u{308}\u{300}",
    "👩\u{200d}👩\u{200d}👧 👍🏽 ❤\u{fe0f} 1\u{fe0f}\u{20e3} 🇩🇪",
    "שלום עולם مرحبا لا",
    "ｶﾞｷﾞ \u{ff9e}",
    "\u{301}mark first",
    "क्षि नमस्ते กำ",
    "\u{1b}[38;5;1mred\u{1b}[0m",
    "\u{0}nul",
    "ᄒ\u{1161}\u{11ab} \u{1161}",
    "&#27;[31m &lt;b&gt;",
];

fn buffer(columns: u16, rows: u16) -> Buffer {
    Buffer::empty(Rect::new(0, 0, columns, rows))
}

/// The rows as they look, one below the other, without blanks at their ends.
fn drawn(rows: &[TextRow], columns: u16) -> String {
    let mut buffer = buffer(columns, u16::try_from(rows.len()).unwrap());
    for (row, y) in rows.iter().zip(0..) {
        row.draw(&mut buffer, 0, y, columns);
    }
    screen(&buffer)
}

/// What a person sees of a buffer.
fn screen(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let mut line = String::new();
        let mut x = buffer.area.left();
        while x < buffer.area.right() {
            let (shown, _) = super::link::shown(buffer[(x, y)].symbol());
            line.push_str(shown);
            x += u16::try_from(super::cells::width(shown).max(1)).unwrap();
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The first cell that holds what it must not: a control character outside of the link that we put around it.
fn intruder(buffer: &Buffer) -> Option<String> {
    buffer.content.iter().map(|cell| cell.symbol()).find_map(|symbol| {
        let (shown, target) = super::link::shown(symbol);
        let bad = |c: char| {
            c.is_control()
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}'..='\u{200f}')
        };
        let bad_target = target.is_some_and(|target| !target.bytes().all(|b| b.is_ascii_graphic()));
        (shown.contains(bad) || bad_target).then(|| symbol.to_owned())
    })
}

/// A session in the making.
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
        let turn = self.transcript.turn().next();
        self.step = 0;
        self.log(Event::TurnStarted { turn, prompt: text.to_owned(), origin: Origin::Model })
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

/// Text that is full of what the layouts have to look at.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-z]{1,9} ",
        2 => proptest::sample::select(NASTY.to_vec()).prop_map(str::to_owned),
        3 => Just("\n".to_owned()),
        2 => Just("\n\n".to_owned()),
        4 => proptest::sample::select(vec![
            "**", "*", "_", "~~", "`", "```", "```sh\n", "~~~\n", "- ", "  - ", "1. ", "   ", "# ", "> ", "[a](http://b.c/)", "[",
            "](", "| a | b |\n|---|:-:|\n| 1 | ", "|", "---\n", "===\n", "\\", "<b>", "<!--", "&amp;", "http://x.y/z_(q)", "- [x] ",
            "\t", "    ",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..50).prop_map(|pieces| pieces.concat())
}
