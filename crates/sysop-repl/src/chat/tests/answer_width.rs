//! The panel of an answer that streams while the width of the terminal changes.

use sysop_core::event::{Delta, Update};
use sysop_core::id::{StepId, TurnId};
use sysop_core::transcript::Transcript;
use sysop_term::cells::width;

use crate::chat::inline_screen::InlineScreen;
use crate::chat::panel_view::PanelView;
use crate::chat::view::ReplView as _;
use crate::recorded_output::RecordedOutput;
use crate::render::RenderOptions;

#[test]
fn the_frame_of_an_answer_follows_the_width_of_the_terminal() {
    let shown = RecordedOutput::default();
    let mut screen =
        InlineScreen::new(Box::new(shown.clone()), RenderOptions { width: 120, color: false }, None);
    let mut view = PanelView::new(None);
    let (transcript, step) = (Transcript::new(), StepId { turn: TurnId(1), step: 0 });
    let mut stream = |text: String, screen: &mut InlineScreen| {
        view.update(&Update::Delta(Delta::Text { step, text }), &transcript, screen).unwrap();
    };
    stream("several words of an answer ".repeat(8), &mut screen);
    shown.clear();
    screen.resize(70).unwrap();
    stream("several words of an answer ".repeat(8) + "\n\nthe end\n\n", &mut screen);
    let text = shown.text().replace('\r', "");
    let live_rows = text.split("\u{1b}[J").flat_map(str::lines);
    assert!(live_rows.clone().all(|row| width(row) < 70), "{text}");
    let rows: Vec<&str> = text.lines().filter_map(|line| line.rsplit("\u{1b}[J").next()).collect();
    let framed = rows.iter().filter(|row| row.starts_with('│') && row.ends_with('│') && width(row) == 69);
    assert!(framed.count() > 5, "{text}");
}
