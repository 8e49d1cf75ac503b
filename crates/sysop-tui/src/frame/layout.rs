//! How the rows of the screen are shared out.

use ratatui::layout::Rect;

/// The fewest columns on which there is something to see.
pub const COLUMNS_MIN: u16 = 20;
/// The fewest rows on which there is something to see.
pub const ROWS_MIN: u16 = 5;

/// The parts of the screen, from the top to the bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regions {
    /// What was said and done.
    pub history: Rect,
    /// The proposal, a question, or live output; none while there is nothing of this.
    pub middle: Option<Rect>,
    /// The line above the box.
    pub rule: Rect,
    /// The box.
    pub input: Rect,
    /// The line below the box.
    pub status: Rect,
}

/// Shares out an area of at least [`COLUMNS_MIN`] by [`ROWS_MIN`] cells. `middle` and `input` are the rows that these
/// want; none of the middle's means that there is none.
pub fn regions(area: Rect, middle: u16, input: u16) -> Regions {
    // One row each for the two lines; the rest is shared.
    let rest = area.height.saturating_sub(2);
    let others = 1 + u16::from(middle > 0);
    let input = input.clamp(1, (rest / 3).max(1)).min(rest.saturating_sub(others).max(1));
    let rest = rest - input;
    let history = (rest / 4).clamp(1, 6);
    let middle = middle.min(rest.saturating_sub(history));
    let mut top = area.y;
    let mut next = |rows: u16| {
        let part = Rect { y: top, height: rows, ..area };
        top += rows;
        part
    };
    Regions {
        history: next(rest - middle),
        middle: (middle > 0).then(|| next(middle)),
        rule: next(1),
        input: next(input),
        status: next(1),
    }
}
