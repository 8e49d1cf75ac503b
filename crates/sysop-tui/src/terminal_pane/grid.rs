//! What is on the terminal's screen, and above it: the model that the bytes of a `TerminalView` are drawn on, and its
//! cells as ratatui's. Whatever is in a cell, only characters that print get out of it.

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
use sysop_driver::prompter::TerminalSize;

use super::keys::TerminalModes;
use crate::screen::Mouse;
use crate::view::ansi::ANSI_COLORS;

/// Rows above the screen that are kept.
const SCROLLBACK_ROWS: usize = 2_000;
/// The most columns or rows of a screen.
const CELLS_MAX: u16 = 1_000;
/// Marks on one letter that are drawn; more are there to break screens.
const MARKS_MAX: usize = 8;
/// Modes of programs that may not be running any more, which a picture does not speak of.
const MODES_OFF: &[u8] = b"\x1b[?6;1000;1002;1003;1006l\x1b[4;20l\x1b[?7h\x1b(B\x0f";

/// The model.
pub(super) struct Grid {
    term: Term<VoidListener>,
    parser: Processor,
}

struct GridSize(TerminalSize);

impl Dimensions for GridSize {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }

    fn screen_lines(&self) -> usize {
        self.0.rows.clamp(1, CELLS_MAX).into()
    }

    fn columns(&self) -> usize {
        // The emulator has no screen of one column.
        self.0.columns.clamp(2, CELLS_MAX).into()
    }
}

impl Grid {
    /// An empty screen on which this is drawn.
    pub(super) fn new(size: TerminalSize, picture: &[u8]) -> Self {
        let config = Config { scrolling_history: SCROLLBACK_ROWS, ..Config::default() };
        let mut grid =
            Self { term: Term::new(config, &GridSize(size), VoidListener), parser: Processor::new() };
        grid.feed(picture);
        grid
    }

    /// Takes in more output.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.term, bytes);
    }

    /// Draws all anew, on a screen that is empty but for what is above it.
    pub(super) fn redraw(&mut self, picture: &[u8]) {
        // What was not whole yet belongs to what was lost.
        self.parser.stop_sync(&mut self.term);
        self.parser = Processor::new();
        self.feed(MODES_OFF);
        self.feed(picture);
    }

    pub(super) fn resize(&mut self, size: TerminalSize) {
        self.term.resize(GridSize(size));
    }

    /// When a program that draws all at once has had long enough for it.
    pub(super) fn synchronized_until(&self) -> Option<Instant> {
        self.parser.sync_timeout().sync_timeout()
    }

    /// Shows what came so far of what a program draws at once.
    pub(super) fn end_synchronized_update(&mut self) {
        self.parser.stop_sync(&mut self.term);
    }

    pub(super) fn modes(&self) -> TerminalModes {
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

    /// Whether a program has the whole screen to itself.
    pub(super) fn is_alternate_screen(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Scrolls up by so many rows; down where it is less than 0.
    pub(super) fn scroll(&mut self, rows: i32) {
        self.term.scroll_display(Scroll::Delta(rows));
    }

    /// Scrolls back to what is on the screen.
    pub(super) fn scroll_to_end(&mut self) {
        self.term.scroll_display(Scroll::Bottom);
    }

    /// How many rows above the end it is scrolled.
    pub(super) fn scrolled(&self) -> usize {
        self.term.grid().display_offset()
    }

    pub(super) fn rows(&self) -> usize {
        self.term.screen_lines()
    }

    /// The row of the screen that is drawn on top of an area of so many rows: of a screen that is taller, the part
    /// with the cursor is drawn.
    pub(super) fn first_row(&self, height: u16) -> usize {
        let height = usize::from(height);
        let cursor = usize::try_from(self.term.grid().cursor.point.line.0).unwrap_or(0);
        let last = self.rows().saturating_sub(height);
        if self.scrolled() > 0 { last } else { (cursor + 1).saturating_sub(height).min(last) }
    }

    /// Draws as much as fits; gives where its cursor is, if that is seen.
    pub(super) fn draw(&self, area: Rect, buffer: &mut Buffer) -> Option<Position> {
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
    // Together with marks a letter may be another, of another width.
    let width = unicode_width::UnicodeWidthStr::width(symbol.as_str());
    if symbol.len() > cell.c.len_utf8() && width == if is_wide { 2 } else { 1 } {
        target.set_symbol(&symbol);
    }
}

/// Whether a character prints and does nothing else: no tab, nothing that turns the text or hides.
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
            // The dim ones are made by `DIM`.
            let name = if name as usize >= NamedColor::DimBlack as usize { name.to_bright() } else { name };
            // The others are the terminal's own.
            ANSI_COLORS.get(name as usize).copied().unwrap_or(Color::Reset)
        }
    }
}
