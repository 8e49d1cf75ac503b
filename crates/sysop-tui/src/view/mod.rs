//! Draws what there is to read: the history, cards, Markdown, highlighted code, diffs. Knows no session and no key.
pub mod cells;
pub mod link;
pub mod plan;
pub mod theme;
pub use cells::{Row, Span};
use sysop_core::transcript::{ItemId, Transcript};
pub use theme::{Ink, Theme, ThemeName};
/// x
#[derive(Default)]
pub struct History {
    f: Option<ItemId>,
}
/// x
pub enum Scroll {
    /// x
    Up(usize),
    /// x
    Down(usize),
    /// x
    PageUp,
    /// x
    PageDown,
    /// x
    Top,
    /// x
    End,
}
#[allow(missing_docs)]
impl History {
    pub fn draw(
        &mut self,
        t: &Transcript,
        _m: Option<&ItemId>,
        theme: Theme,
        area: ratatui::layout::Rect,
        b: &mut ratatui::buffer::Buffer,
        _n: std::time::Duration,
    ) {
        let rows: Vec<String> =
            t.items().map(|i| format!("{:?}", i.body).chars().take(70).collect()).collect();
        for (y, r) in (area.top()..area.bottom()).zip(rows.iter().rev()) {
            Row::of(r, theme.style(Ink::Text)).draw(b, area.x, y, area.width);
        }
    }
    pub fn scroll(&mut self, _: Scroll) {}
    pub fn follows(&self) -> bool {
        true
    }
    pub fn focus_last(&mut self, t: &Transcript) {
        self.f = t.items().next_back().map(|i| i.id.clone());
    }
    pub fn focus_next(&mut self, _: &Transcript) {}
    pub fn focus_previous(&mut self, _: &Transcript) {}
    pub fn focused(&self) -> Option<&ItemId> {
        self.f.as_ref()
    }
    pub fn unfocus(&mut self) {
        self.f = None
    }
    pub fn toggle(&mut self) {}
}
