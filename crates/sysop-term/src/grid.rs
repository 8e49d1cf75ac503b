//! Model of a terminal's screen and its scrollback. The bytes of a `TerminalView` are drawn on the model,
//! which is then converted to ratatui cells. Whatever a cell contains, only printable characters leave it.

use std::borrow::Cow;
use std::time::Instant;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::{Dimensions, Scroll};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::{Color as AnsiColor, NamedColor, Processor};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use sysop_core::text::neutralize_line;

use crate::ansi::ANSI_COLORS;
use crate::paint;

const SCROLLBACK_ROWS: usize = 2_000;
/// Maximum number of columns or rows of a screen.
const CELLS_MAX: u16 = 1_000;
/// Maximum number of combining marks to draw per character. More marks only serve to garble the screen.
const MARKS_MAX: usize = 8;
/// Sequences that reset modes which an earlier program may have left enabled. A snapshot of the screen
/// does not reset them.
const MODES_OFF: &[u8] = b"\x1b[?6;1000;1002;1003;1006l\x1b[4;20l\x1b[?7h\x1b(B\x0f";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TerminalModes {
    /// DECCKM: arrow keys, Home and End are sent as `ESC O` and a letter.
    pub application_cursor: bool,
    pub marked_paste: bool,
    /// Mouse events requested by the program.
    pub mouse: Mouse,
    /// Mouse events are sent in the SGR encoding, which has no limit on columns.
    pub sgr_mouse: bool,
}

/// Mouse events that a program can request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mouse {
    /// No mouse events, so that the mouse selects text.
    #[default]
    Off,
    /// Wheel and clicks.
    Clicks,
    /// Wheel, clicks, and motion while a button is held.
    Drags,
    /// Wheel, clicks, and all motion.
    Moves,
}

impl Mouse {
    /// Returns the number of the DEC private mode that requests these events, or `None` for [`Self::Off`].
    pub fn number(self) -> Option<u16> {
        match self {
            Self::Off => None,
            Self::Clicks => Some(1000),
            Self::Drags => Some(1002),
            Self::Moves => Some(1003),
        }
    }
}

/// The model of a terminal's screen.
pub struct Grid {
    term: Term<VoidListener>,
    parser: Processor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridSize {
    /// Cells per row.
    pub columns: u16,
    /// Rows of the screen, not counting scrollback.
    pub rows: u16,
}

impl Dimensions for GridSize {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }

    fn screen_lines(&self) -> usize {
        self.rows.clamp(1, CELLS_MAX).into()
    }

    fn columns(&self) -> usize {
        // The emulator does not support a single column.
        self.columns.clamp(2, CELLS_MAX).into()
    }
}

impl Grid {
    /// Creates a screen that shows `picture`, a snapshot in the form of terminal output.
    pub fn new(size: GridSize, picture: &[u8]) -> Self {
        let config = Config { scrolling_history: SCROLLBACK_ROWS, ..Config::default() };
        let mut grid = Self { term: Term::new(config, &size, VoidListener), parser: Processor::new() };
        grid.feed(picture);
        grid
    }

    /// Processes more output.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.term, bytes);
    }

    /// Replaces the screen with `picture`, a snapshot, after part of the output has been lost. Keeps the scrollback.
    pub fn redraw(&mut self, picture: &[u8]) {
        // An incomplete sequence belongs to the lost output.
        self.parser.stop_sync(&mut self.term);
        self.parser = Processor::new();
        self.feed(MODES_OFF);
        self.feed(picture);
    }

    pub fn resize(&mut self, size: GridSize) {
        self.term.resize(size);
    }

    /// Returns the deadline of the synchronized update in progress, if any.
    pub fn synchronized_until(&self) -> Option<Instant> {
        self.parser.sync_timeout().sync_timeout()
    }

    /// Ends a synchronized update that the program has not finished, so that its current state is shown.
    pub fn end_synchronized_update(&mut self) {
        self.parser.stop_sync(&mut self.term);
    }

    pub fn modes(&self) -> TerminalModes {
        let has = |mode: TermMode| self.term.mode().contains(mode);
        let mouse = if has(TermMode::MOUSE_MOTION) {
            Mouse::Moves
        } else if has(TermMode::MOUSE_DRAG) {
            Mouse::Drags
        } else if has(TermMode::MOUSE_REPORT_CLICK) {
            Mouse::Clicks
        } else {
            Mouse::Off
        };
        TerminalModes {
            application_cursor: has(TermMode::APP_CURSOR),
            marked_paste: has(TermMode::BRACKETED_PASTE),
            mouse,
            sgr_mouse: has(TermMode::SGR_MOUSE),
        }
    }

    /// Returns true if a program uses the alternate screen.
    pub fn is_alternate_screen(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Scrolls up by a number of rows, or down if the number is negative.
    pub fn scroll(&mut self, rows: i32) {
        self.term.scroll_display(Scroll::Delta(rows));
    }

    pub fn scroll_to_end(&mut self) {
        self.term.scroll_display(Scroll::Bottom);
    }

    /// Returns the number of rows by which the view is scrolled up from the end.
    pub fn scrolled(&self) -> usize {
        self.term.grid().display_offset()
    }

    pub fn rows(&self) -> usize {
        self.term.screen_lines()
    }

    /// Returns the row of the screen that is drawn at the top of an area of this height. If the screen is taller than
    /// the area, the part that contains the cursor is drawn.
    pub fn first_row(&self, height: u16) -> usize {
        let height = usize::from(height);
        let cursor = usize::try_from(self.term.grid().cursor.point.line.0).unwrap_or(0);
        let last = self.rows().saturating_sub(height);
        if self.scrolled() > 0 { last } else { (cursor + 1).saturating_sub(height).min(last) }
    }

    /// Returns the part of the screen that fits into this number of columns and rows.
    pub fn frame(&self, columns: u16, rows: u16) -> GridFrame {
        let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
        let cursor = self.draw(buffer.area, &mut buffer).map(|at| (at.x, at.y));
        GridFrame { lines: (0..rows).map(|y| paint::buffer_line(&buffer, y)).collect(), cursor }
    }

    /// Draws the part of the screen that fits into `area`. Returns the cursor's position if it is visible.
    pub fn draw(&self, area: Rect, buffer: &mut Buffer) -> Option<Position> {
        let grid = self.term.grid();
        let first = self.first_row(area.height);
        let above = i32::try_from(self.scrolled()).unwrap_or(0);
        for (y, row) in (area.top()..area.bottom()).zip(first..self.rows()) {
            let line = Line(i32::try_from(row).unwrap_or(0) - above);
            let cells = &grid[line];
            for (x, column) in (area.left()..area.right()).zip(0..grid.columns()) {
                let cell = &cells[Column(column)];
                if !cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
                    let is_last = x + 1 == area.right() || column + 1 == grid.columns();
                    draw_cell(cell, is_last, x, y, buffer);
                }
            }
        }
        let cursor = grid.cursor.point;
        let row = usize::try_from(cursor.line.0).ok()?.checked_sub(first)?;
        let seen = self.term.mode().contains(TermMode::SHOW_CURSOR) && above == 0;
        let at = Position {
            x: area.x.checked_add(u16::try_from(cursor.column.0).ok()?)?,
            y: area.y.checked_add(u16::try_from(row).ok()?)?,
        };
        (seen && area.contains(at)).then_some(at)
    }
}

/// Content of the screen, for printing line by line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridFrame {
    /// Lines as text with color sequences, without trailing blanks.
    pub lines: Vec<String>,
    /// Column and row of the cursor, if it is visible.
    pub cursor: Option<(u16, u16)>,
}

fn draw_cell(cell: &Cell, is_last: bool, x: u16, y: u16, buffer: &mut Buffer) {
    let is_wide = cell.flags.contains(Flags::WIDE_CHAR);
    let target = &mut buffer[(x, y)];
    target.set_style(style_of(cell));
    // Half of a wide character cannot be drawn.
    if cell.flags.contains(Flags::HIDDEN) || (is_wide && is_last) || !is_printable(cell.c) {
        target.set_char(' ');
        return;
    }
    target.set_char(cell.c);
    let marks = cell.zerowidth().into_iter().flatten().filter(|mark| is_printable(**mark)).take(MARKS_MAX);
    let symbol: String = std::iter::once(cell.c).chain(marks.copied()).collect();
    // A character with marks may have a different width.
    let width = unicode_width::UnicodeWidthStr::width(symbol.as_str());
    if symbol.len() > cell.c.len_utf8() && width == if is_wide { 2 } else { 1 } {
        target.set_symbol(&symbol);
    }
}

/// Returns true for characters that only print, false for tabs and for characters that reorder or hide text.
fn is_printable(letter: char) -> bool {
    letter.is_ascii_graphic()
        || letter == ' '
        || matches!(neutralize_line(letter.encode_utf8(&mut [0; 4])), Cow::Borrowed(_))
}

fn style_of(cell: &Cell) -> Style {
    let mut style = Style::reset().fg(color(cell.fg)).bg(color(cell.bg));
    for (flag, modifier) in [
        (Flags::BOLD, Modifier::BOLD),
        (Flags::DIM, Modifier::DIM),
        (Flags::ITALIC, Modifier::ITALIC),
        (Flags::ALL_UNDERLINES, Modifier::UNDERLINED),
        (Flags::INVERSE, Modifier::REVERSED),
        (Flags::STRIKEOUT, Modifier::CROSSED_OUT),
    ] {
        if cell.flags.intersects(flag) {
            style = style.add_modifier(modifier);
        }
    }
    style
}

fn color(color: AnsiColor) -> Color {
    match color {
        AnsiColor::Spec(rgb) => Color::Rgb(rgb.r, rgb.g, rgb.b),
        AnsiColor::Indexed(index) => Color::Indexed(index),
        AnsiColor::Named(name) => {
            // Dim colors are produced by `DIM`.
            let name = if name as usize >= NamedColor::DimBlack as usize { name.to_bright() } else { name };
            // The remaining ones are the terminal's defaults.
            ANSI_COLORS.get(name as usize).copied().unwrap_or(Color::Reset)
        }
    }
}
