//! Division of the screen into regions.

use ratatui::layout::Rect;

/// Minimum width of the window, in columns.
pub const COLUMNS_MIN: u16 = 20;
/// Minimum height of the window, in rows.
pub const ROWS_MIN: u16 = 5;

/// Regions of the screen, from top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regions {
    pub history: Rect,
    /// Proposal, question or live output, if any.
    pub middle: Option<Rect>,
    /// Line above the composer.
    pub rule: Rect,
    pub input: Rect,
    /// Line below the composer.
    pub status: Rect,
}

impl Regions {
    /// Takes rows from the history for a message above the line above the composer. Returns `None` if there is no
    /// message, or no room for it.
    pub(super) fn take_rows_above_rule(&mut self, rows: usize) -> Option<Rect> {
        let rows = u16::try_from(rows).ok().filter(|rows| *rows > 0 && *rows < self.history.height)?;
        self.history.height -= rows;
        if let Some(middle) = &mut self.middle {
            middle.y -= rows;
        }
        Some(Rect { y: self.rule.y - rows, height: rows, ..self.rule })
    }
}

/// Minimum width of the screen, in columns, for showing the history to the left of the session's terminal.
const BESIDE_COLUMNS_MIN: u16 = 168;
/// Minimum height of the screen, in rows, for showing the history above the session's terminal.
const ABOVE_ROWS_MIN: u16 = 33;
/// Minimum width of the session's terminal when it shares the screen, in columns; `TERMINAL_ROWS` is the height.
const TERMINAL_COLUMNS: u16 = 100;
const TERMINAL_ROWS: u16 = 24;

/// Regions of the screen while the session's terminal is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PaneRegions {
    /// History, and the border between it and the terminal, if they fit.
    pub(super) history: Option<(Rect, Rect)>,
    pub(super) pane: Rect,
}

/// Divides the screen between the history and the session's terminal.
pub(super) fn pane_regions(area: Rect) -> PaneRegions {
    if area.width >= BESIDE_COLUMNS_MIN {
        let left = (area.width - TERMINAL_COLUMNS - 1).min(area.width / 2);
        let history = Rect { width: left, ..area };
        let border = Rect { x: area.x + left, width: 1, ..area };
        let pane = Rect { x: area.x + left + 1, width: area.width - left - 1, ..area };
        return PaneRegions { history: Some((history, border)), pane };
    }
    if area.height >= ABOVE_ROWS_MIN {
        let above = (area.height - TERMINAL_ROWS - 1).min(area.height / 2);
        let history = Rect { height: above, ..area };
        let border = Rect { y: area.y + above, height: 1, ..area };
        let pane = Rect { y: area.y + above + 1, height: area.height - above - 1, ..area };
        return PaneRegions { history: Some((history, border)), pane };
    }
    PaneRegions { history: None, pane: area }
}

/// Divides an area of at least [`COLUMNS_MIN`] by [`ROWS_MIN`] cells. `middle` and `input` are the numbers of
/// rows needed by the middle pane and the composer. If `middle` is 0, there is no middle pane.
pub fn regions(area: Rect, middle: u16, input: u16) -> Regions {
    // The two lines take one row each.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_pane_fits_every_screen_size() {
        for width in 1..400 {
            for height in 1..120 {
                let area = Rect::new(0, 0, width, height);
                let PaneRegions { history, pane } = pane_regions(area);
                let Some((history, border)) = history else {
                    assert_eq!(pane, area);
                    continue;
                };
                assert!(pane.width >= TERMINAL_COLUMNS.min(width) || pane.width == width, "{area:?}");
                assert!(pane.height >= TERMINAL_ROWS.min(height) && !history.is_empty(), "{area:?}");
                assert_eq!(history.area() + border.area() + pane.area(), area.area(), "{area:?}");
                assert!(!history.intersects(pane) && area.contains(pane.as_position()));
            }
        }
    }
}
