//! The screen of an xterm-like terminal with a scrollback.
//!
//! This module returns the replies to programs' queries, but does no I/O itself.

use std::cell::{RefCell, RefMut};
use std::fmt::Write as _;
use std::sync::mpsc::{Receiver, Sender, channel};

use alacritty_terminal::event::{Event, EventListener, WindowSize};
use alacritty_terminal::grid::{Dimensions, Row};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::{Color, NamedColor, Processor, Rgb, StdSyncHandler};
use sysop_driver::prompter::TerminalSize;

use super::keys::KeyMode;

/// Maximum rows kept above the screen.
const SCROLLBACK_ROWS: usize = 10_000;

/// Maximum bytes that rows above the screen take up in a snapshot.
const PICTURE_SCROLLBACK_BYTES_MAX: usize = 512 * 1024;

/// Cell flags that change the look of a character.
const STYLES: Flags = Flags::BOLD
    .union(Flags::DIM)
    .union(Flags::ITALIC)
    .union(Flags::UNDERLINE)
    .union(Flags::DOUBLE_UNDERLINE)
    .union(Flags::INVERSE)
    .union(Flags::HIDDEN)
    .union(Flags::STRIKEOUT);

/// Size of `waiting`, in bytes, beyond which text that will never be seen is dropped from it.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Screen of a terminal, which parses its output lazily: plain text is parsed when the screen is read. By then, most of
/// a flood of output has left the scrollback and need not be parsed, so parsing does not slow down the program that
/// prints the flood.
pub(super) struct TerminalScreen {
    model: RefCell<ScreenModel>,
    size: TerminalSize,
}

/// Terminal emulator and the text not yet parsed by it.
struct ScreenModel {
    term: Term<ReplyListener>,
    parser: Processor<StdSyncHandler>,
    replies: Receiver<Event>,
    /// Plain text received after everything that was parsed.
    waiting: Vec<u8>,
    /// True if a scrolling region smaller than the screen appears to be set.
    has_region: bool,
}

impl ScreenModel {
    /// Parses the waiting text, but skips the oldest part, which would already have scrolled out of the scrollback.
    fn settle(&mut self, rows: u16) {
        if !self.waiting.is_empty() {
            let seen = self.visible_from(rows).unwrap_or(0);
            self.parser.advance(&mut self.term, &self.waiting[seen..]);
            self.waiting.clear();
        }
    }

    /// Passes the primary screen to `look` while the alternate screen is active. The alternate screen is restored
    /// afterwards.
    fn draw_primary_screen(&mut self, look: impl FnOnce(&Term<ReplyListener>)) {
        let kept = self.term.grid().clone();
        self.term.swap_alt();
        look(&self.term);
        self.term.swap_alt();
        *self.term.grid_mut() = kept; // restored, because the swap erased it
    }

    /// Drops the oldest part of the waiting text, which would already have scrolled out of the scrollback. If that part
    /// is unknown, parses the waiting text instead.
    fn trim_pending(&mut self, rows: u16) {
        match self.visible_from(rows) {
            Some(seen) => drop(self.waiting.drain(..seen)),
            None => self.settle(rows),
        }
    }

    /// Returns the offset of the first waiting byte that is still on the screen or in the scrollback once all waiting
    /// text is drawn. Returns `None` if nothing can be dropped safely.
    fn visible_from(&self, rows: u16) -> Option<usize> {
        if self.has_region || self.term.mode().contains(TermMode::ALT_SCREEN) {
            return None;
        }
        let kept = SCROLLBACK_ROWS + usize::from(rows);
        let cut = memchr::memrchr_iter(b'\n', &self.waiting).nth(kept)?;
        (cut > 0 && self.waiting[cut - 1] == b'\r').then_some(cut + 1)
    }
}

/// Forwards the emulator's events to a channel.
struct ReplyListener(Sender<Event>);

impl EventListener for ReplyListener {
    fn send_event(&self, event: Event) {
        // The receiver lives as long as the emulator.
        let _ = self.0.send(event);
    }
}

struct GridSize(TerminalSize);

impl Dimensions for GridSize {
    fn total_lines(&self) -> usize {
        usize::from(self.0.rows)
    }

    fn screen_lines(&self) -> usize {
        usize::from(self.0.rows)
    }

    fn columns(&self) -> usize {
        usize::from(self.0.columns)
    }
}

impl TerminalScreen {
    pub(super) fn new(size: TerminalSize) -> Self {
        let (sender, replies) = channel();
        let config = Config { scrolling_history: SCROLLBACK_ROWS, ..Config::default() };
        let term = Term::new(config, &GridSize(size), ReplyListener(sender));
        let parser = Processor::new();
        Self {
            model: RefCell::new(ScreenModel {
                term,
                parser,
                replies,
                waiting: Vec::new(),
                has_region: false,
            }),
            size,
        }
    }

    /// Returns the model after parsing all waiting text.
    fn model(&self) -> RefMut<'_, ScreenModel> {
        let mut model = self.model.borrow_mut();
        model.settle(self.size.rows);
        model
    }

    /// Takes output that consists only of text, tabs and line ends.
    pub(super) fn push_text(&mut self, text: &[u8]) {
        let model = self.model.get_mut();
        if model.waiting.len() + text.len() > WAITING_BYTES_MAX {
            model.trim_pending(self.size.rows);
        }
        model.waiting.extend_from_slice(text);
    }

    /// Parses output. Returns the replies to the program.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Vec<u8> {
        let model = self.model.get_mut();
        model.settle(self.size.rows);
        model.parser.advance(&mut model.term, bytes);
        if let Some(has_region) = sets_region(bytes, self.size.rows) {
            model.has_region = has_region;
        }
        let mut answer = Vec::new();
        while let Ok(event) = model.replies.try_recv() {
            match event {
                Event::PtyWrite(text) => answer.extend(text.into_bytes()),
                Event::ColorRequest(index, format) => answer.extend(format(color(index)).into_bytes()),
                Event::TextAreaSizeRequest(format) => {
                    let size = WindowSize {
                        num_lines: self.size.rows,
                        num_cols: self.size.columns,
                        cell_width: 8,
                        cell_height: 16,
                    };
                    answer.extend(format(size).into_bytes());
                }
                Event::MouseCursorDirty
                | Event::Title(_)
                | Event::ResetTitle
                | Event::ClipboardStore(..)
                | Event::ClipboardLoad(..)
                | Event::CursorBlinkingChange
                | Event::Wakeup
                | Event::Bell
                | Event::Exit
                | Event::ChildExit(_) => {}
            }
        }
        answer
    }

    pub(super) fn resize(&mut self, size: TerminalSize) {
        let mut model = self.model();
        model.term.resize(GridSize(size));
        // Resizing resets the emulator's scrolling region to the whole screen.
        model.has_region = false;
        drop(model);
        self.size = size;
    }

    pub(super) fn size(&self) -> TerminalSize {
        self.size
    }

    pub(super) fn key_mode(&self) -> KeyMode {
        KeyMode { application_cursor: self.model().term.mode().contains(TermMode::APP_CURSOR) }
    }

    /// Returns true if the program has enabled bracketed paste.
    pub(super) fn takes_paste(&self) -> bool {
        self.model().term.mode().contains(TermMode::BRACKETED_PASTE)
    }

    /// Returns true if a program uses the alternate (full) screen.
    pub(super) fn is_full(&self) -> bool {
        self.model().term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Returns row and column of the cursor, from 0.
    pub(super) fn cursor(&self) -> (usize, usize) {
        let point = self.model().term.grid().cursor.point;
        (usize::try_from(point.line.0).unwrap_or(0), point.column.0)
    }

    /// Returns the screen as text, without trailing spaces in the rows and without blank rows at the end.
    pub(super) fn text(&self) -> String {
        let rows: Vec<String> = (0..usize::from(self.size.rows)).map(|row| self.row(row)).collect();
        rows.join("\n").trim_end().to_owned()
    }

    /// Returns the row of the cursor up to the cursor, including trailing spaces.
    pub(super) fn line_to_cursor(&self) -> String {
        let (row, column) = self.cursor();
        self.letters(row, column)
    }

    /// Returns true if the row of the cursor continues the row above, because their line is wider than the screen.
    pub(super) fn is_continued(&self) -> bool {
        let (row, _) = self.cursor();
        let model = self.model();
        let grid = model.term.grid();
        let above = Line(line(row).0 - 1);
        above >= grid.topmost_line() && grid[above][grid.last_column()].flags.contains(Flags::WRAPLINE)
    }

    /// Returns the text between a position and the cursor, and true if only blanks follow the cursor in its row.
    /// Returns `None` if the cursor is before that position.
    pub(super) fn typed_since(&self, (row, column): (usize, usize)) -> Option<(String, bool)> {
        let (cursor_row, cursor_column) = self.cursor();
        if (cursor_row, cursor_column) < (row, column) {
            return None;
        }
        let all = usize::from(self.size.columns);
        let mut text = String::new();
        for line in row..=cursor_row {
            let end = if line == cursor_row { cursor_column } else { all };
            let letters = self.letters(line, end);
            let start = if line == row { self.letters(line, column).len() } else { 0 };
            text.push_str(letters.get(start..)?);
        }
        let before_cursor = self.letters(cursor_row, cursor_column).len();
        let is_last = self.letters(cursor_row, all).get(before_cursor..)?.trim().is_empty();
        Some((text, is_last))
    }

    fn row(&self, row: usize) -> String {
        self.letters(row, usize::from(self.size.columns)).trim_end().to_owned()
    }

    /// Returns the first `columns` columns of a row as text.
    pub(super) fn letters(&self, row: usize, columns: usize) -> String {
        let model = self.model();
        let cells = &model.term.grid()[line(row)];
        let mut text = String::new();
        for cell in (0..columns).map(|column| &cells[Column(column)]) {
            if !is_spacer(cell) {
                push_letters(&mut text, cell);
            }
        }
        text
    }

    /// Returns bytes that draw this screen on another screen of the same size, including the modes that affect the
    /// keyboard. If `scrollback_rows` is above 0, the bytes also replace the other screen's scrollback and, if a
    /// program uses the alternate screen, its primary screen.
    pub(super) fn picture(&self, scrollback_rows: usize) -> Vec<u8> {
        let mut out = String::from("\x1b[?1049l");
        let mut model = self.model();
        let mode = *model.term.mode();
        let is_full = mode.contains(TermMode::ALT_SCREEN);
        if is_full && scrollback_rows > 0 {
            model.draw_primary_screen(|term| draw(term, scrollback_rows, &mut out));
        }
        if is_full {
            out.push_str("\x1b[?1049h");
        }
        draw(&model.term, scrollback_rows, &mut out);
        let switch = |flag: TermMode, number: &str| {
            format!("\x1b[?{number}{}", if mode.contains(flag) { 'h' } else { 'l' })
        };
        out.push_str(&switch(TermMode::LINE_WRAP, "7"));
        out.push_str(&switch(TermMode::SHOW_CURSOR, "25"));
        out.push_str(&switch(TermMode::APP_CURSOR, "1"));
        out.push_str(&switch(TermMode::BRACKETED_PASTE, "2004"));
        // Switching off one mouse mode switches off all three, so the modes that are off come first.
        let mut mice = [
            (TermMode::MOUSE_REPORT_CLICK, "1000"),
            (TermMode::MOUSE_DRAG, "1002"),
            (TermMode::MOUSE_MOTION, "1003"),
        ];
        mice.sort_by_key(|(flag, _)| mode.contains(*flag));
        mice.iter().for_each(|(flag, number)| out.push_str(&switch(*flag, number)));
        out.push_str(&switch(TermMode::SGR_MOUSE, "1006"));
        out.push_str(if mode.contains(TermMode::APP_KEYPAD) { "\x1b=" } else { "\x1b>" });
        out.into_bytes()
    }
}

/// Appends bytes to `out` that clear another screen, and draw this screen and up to `scrollback_rows` rows above it.
fn draw(term: &Term<ReplyListener>, scrollback_rows: usize, out: &mut String) {
    let rows = i32::try_from(term.screen_lines()).unwrap_or(i32::MAX);
    let first = first_row(term, scrollback_rows);
    // Rows are written in sequence without cursor movement, so that the target can join wrapped lines again.
    out.push_str("\x1b[0m\x1b[r\x1b[?7h\x1b[H\x1b[2J");
    if scrollback_rows > 0 {
        out.push_str("\x1b[3J"); // some terminals move a cleared screen into their scrollback
    }
    let mut pen = CellPen::default();
    let mut joined = false;
    for row in first..rows {
        joined = pen.draw(&term.grid()[Line(row)], joined, out);
        if !joined && row + 1 < rows {
            out.push_str("\r\n");
        }
    }
    let cursor = term.grid().cursor.point;
    write!(out, "\x1b[0m\x1b[{};{}H", cursor.line.0 + 1, cursor.column.0 + 1)
        .expect("writing to a string cannot fail");
}

/// Returns the first row to draw: at most `wanted` rows above the screen, limited by `PICTURE_SCROLLBACK_BYTES_MAX`.
fn first_row(term: &Term<ReplyListener>, wanted: usize) -> i32 {
    let above = wanted.min(term.history_size());
    let mut row_bytes = String::new();
    let mut bytes = 0;
    let fits = |up: &usize| {
        row_bytes.clear();
        CellPen::default().draw(&term.grid()[Line(-i32::try_from(*up).unwrap_or(0))], false, &mut row_bytes);
        bytes += row_bytes.len() + "\r\n".len();
        bytes <= PICTURE_SCROLLBACK_BYTES_MAX
    };
    let fitting = (1..=above).take_while(fits).count();
    -i32::try_from(fitting).unwrap_or(0)
}

/// Draws cells, with an SGR sequence wherever the look changes.
#[derive(Default)]
struct CellPen {
    look: Option<(Flags, Color, Color)>,
}

impl CellPen {
    /// Draws a row without trailing blanks. `joined` means that the row continues the previous one after a wrap.
    /// Returns true if the next row continues this one.
    fn draw(&mut self, cells: &Row<Cell>, joined: bool, out: &mut String) -> bool {
        let columns = cells.len();
        let goes_on = columns > 0 && cells[Column(columns - 1)].flags.contains(Flags::WRAPLINE);
        let used =
            (0..columns).rev().find(|&column| !is_blank(&cells[Column(column)])).map_or(0, |last| last + 1);
        // At least one character must be written to wrap into the next row.
        let used = if goes_on { columns } else { used.max(usize::from(joined)) };
        for cell in (0..used).map(|column| &cells[Column(column)]) {
            if is_spacer(cell) {
                continue;
            }
            let look = (cell.flags & STYLES, cell.fg, cell.bg);
            if self.look != Some(look) {
                self.look = Some(look);
                out.push_str(&sgr_of(cell));
            }
            push_letters(out, cell);
        }
        goes_on
    }
}

/// Returns true if the last DECSTBM sequence in `bytes` sets a region smaller than the screen, or `None` without one.
fn sets_region(bytes: &[u8], rows: u16) -> Option<bool> {
    let sequences = memchr::memmem::find_iter(bytes, b"\x1b[");
    let regions = sequences.filter_map(|start| {
        let rest = &bytes[start + 2..];
        let end = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';'))?;
        let parameters = std::str::from_utf8(rest.get(..end)?).ok().filter(|_| rest[end] == b'r')?;
        let (top, bottom) = parameters.split_once(';').unwrap_or((parameters, ""));
        let from_top = top.parse().unwrap_or(0_u16) <= 1;
        let bottom = bottom.parse().unwrap_or(0_u16);
        Some(!from_top || (bottom != 0 && bottom < rows))
    });
    regions.last()
}

fn line(row: usize) -> Line {
    Line(i32::try_from(row).unwrap_or(i32::MAX))
}

fn is_spacer(cell: &Cell) -> bool {
    cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER)
}

fn is_blank(cell: &Cell) -> bool {
    matches!(cell.c, ' ' | '\t') && cell.flags.is_empty() && cell.bg == Color::Named(NamedColor::Background)
}

/// Appends the text of a cell. The emulator keeps a tab in the cell where it began, followed by blank cells.
fn push_letters(text: &mut String, cell: &Cell) {
    text.push(if cell.c == '\t' { ' ' } else { cell.c });
    text.extend(cell.zerowidth().unwrap_or_default());
}

fn sgr_of(cell: &Cell) -> String {
    const CODES: [(Flags, &str); 8] = [
        (Flags::BOLD, ";1"),
        (Flags::DIM, ";2"),
        (Flags::ITALIC, ";3"),
        (Flags::UNDERLINE, ";4"),
        (Flags::DOUBLE_UNDERLINE, ";21"),
        (Flags::INVERSE, ";7"),
        (Flags::HIDDEN, ";8"),
        (Flags::STRIKEOUT, ";9"),
    ];
    let mut look = String::from("\x1b[0");
    for (flag, code) in CODES {
        if cell.flags.contains(flag) {
            look.push_str(code);
        }
    }
    push_color(&mut look, cell.fg, 30);
    push_color(&mut look, cell.bg, 40);
    look.push('m');
    look
}

/// Appends a color to SGR parameters; `base` is 30 for the foreground and 40 for the background.
fn push_color(look: &mut String, color: Color, base: usize) {
    let wrote = match color {
        Color::Named(name) => match name as usize {
            index @ 0..=7 => write!(look, ";{}", base + index),
            index @ 8..=15 => write!(look, ";{}", base + 60 + index - 8),
            _ => Ok(()),
        },
        Color::Indexed(index) => write!(look, ";{};5;{index}", base + 8),
        Color::Spec(Rgb { r, g, b }) => write!(look, ";{};2;{r};{g};{b}", base + 8),
    };
    wrote.expect("writing to a string cannot fail");
}

/// Color reported to programs that ask: light text on black.
fn color(index: usize) -> Rgb {
    let light = Rgb { r: 0xdd, g: 0xdd, b: 0xdd };
    if index == NamedColor::Background as usize { Rgb { r: 0, g: 0, b: 0 } } else { light }
}

#[cfg(test)]
mod tests {
    use alacritty_terminal::grid::Dimensions;
    use alacritty_terminal::index::{Column, Line};
    use alacritty_terminal::term::cell::Flags;
    use sysop_driver::prompter::TerminalSize;

    use super::{TerminalScreen, push_letters, sets_region};

    fn screen(output: &str) -> TerminalScreen {
        let mut screen = TerminalScreen::new(TerminalSize { columns: 20, rows: 5 });
        screen.advance(output.as_bytes());
        screen
    }

    #[test]
    fn text_and_cursor_match_the_screen() {
        let screen = screen("one\r\n\x1b[31mzwei 日本 e\u{301}\x1b[0m\r\na\tb $ ");
        assert_eq!(screen.text(), "one\nzwei 日本 e\u{301}\na       b $");
        assert_eq!(screen.cursor(), (2, 12));
        assert_eq!(screen.line_to_cursor(), "a       b $ ");
    }

    #[test]
    fn a_thinned_flood_ends_with_the_same_screen() {
        let line = |number: usize| format!("line {number} {}\r\n", "x".repeat(number % 50));
        let size = TerminalSize { columns: 20, rows: 5 };
        let (mut flooded, mut drawn) = (TerminalScreen::new(size), TerminalScreen::new(size));
        for screen in [&mut flooded, &mut drawn] {
            screen.advance(b"\x1b[31mbegun");
        }
        for number in 0..200_000 {
            flooded.push_text(line(number).as_bytes());
            if number >= 150_000 {
                drawn.advance(line(number).as_bytes());
            }
        }
        assert!(flooded.model.borrow().waiting.len() <= super::WAITING_BYTES_MAX);
        assert_eq!(flooded.picture(0), drawn.picture(0));
        let rows = |screen: &TerminalScreen| screen.model().term.grid().history_size();
        assert_eq!(rows(&flooded), super::SCROLLBACK_ROWS);
    }

    #[test]
    fn a_flood_is_thinned_unless_a_scroll_region_is_set() {
        for (sequences, has_region) in [
            ("\x1b]0;root\x07\x1b[1;32mroot@web1\x1b[0m:~# ", None),
            ("\x1b[2;4r", Some(true)),
            ("\x1b[1;4r", Some(true)),
            ("\x1b[2r", Some(true)),
            ("\x1b[2;4rx\x1b[r", Some(false)),
            ("\x1b[2;4rx\x1b[1;5r\x1b[?25hr", Some(false)),
            ("\x1b[r\x1b[;3r\x1b[", Some(true)),
            ("\x1b[?1r\x1b[1$r", None),
        ] {
            assert_eq!(sets_region(sequences.as_bytes(), 5), has_region, "{sequences:?}");
            let mut screen = screen(sequences);
            for _ in 0..super::WAITING_BYTES_MAX / 10 {
                screen.push_text(b"a line\r\n");
            }
            let waiting = screen.model.get_mut().waiting.len();
            screen.push_text(&vec![b'x'; super::WAITING_BYTES_MAX - waiting + 1]);
            let thinned = screen.model.get_mut().waiting.starts_with(b"a line");
            assert_eq!(thinned, has_region != Some(true), "{sequences:?}");
        }
    }

    #[test]
    fn terminal_queries_are_answered() {
        let mut screen = screen("");
        assert_eq!(screen.advance(b"ab\x1b[6n"), b"\x1b[1;3R");
        assert!(screen.advance(b"\x1b[c").starts_with(b"\x1b[?"));
        assert!(screen.advance(b"\x1b]11;?\x07").starts_with(b"\x1b]11;rgb:"));
    }

    #[test]
    fn a_snapshot_redraws_the_same_screen() {
        for output in [
            "a\r\n\x1b[1;4;38;5;200mb\x1b[0m c\r\n\x1b[41m  \x1b[0m日本\x1b[48;2;1;2;3mx",
            "\x1b[?1049h\x1b[3;4Hfull\x1b[7mx\x1b[?25l\x1b[?1h\x1b=",
            "\x1b[?2004h$ \x1b[97;100mbright",
            "\x1b[2;4r1\r\n2\r\n3\r\n4\r\n5\r\n6",
            "\x1b[?1002;1006hmouse",
        ] {
            let first = screen(output);
            let mut second = TerminalScreen::new(first.size());
            second.advance(&first.picture(0));
            assert_eq!(second.text(), first.text());
            assert_eq!(second.cursor(), first.cursor());
            assert_eq!(second.picture(0), first.picture(0));
            assert_eq!((second.is_full(), second.takes_paste()), (first.is_full(), first.takes_paste()));
            assert_eq!(second.model().term.mode(), first.model().term.mode());
        }
    }

    /// Returns all rows including the scrollback, with `+` after wrapped rows.
    fn all_rows(screen: &TerminalScreen) -> Vec<String> {
        let model = screen.model();
        let grid = model.term.grid();
        let above = i32::try_from(grid.history_size()).unwrap();
        let row = |row: i32| {
            let cells = &grid[Line(row)];
            let mut text = String::new();
            (0..20).for_each(|column| push_letters(&mut text, &cells[Column(column)]));
            let joins = cells[Column(19)].flags.contains(Flags::WRAPLINE);
            format!("{}{}", text.trim_end(), if joins { "+" } else { "" })
        };
        (-above..5).map(row).collect()
    }

    #[test]
    fn a_snapshot_with_scrollback_redraws_the_scrollback() {
        let lines: String = (1..=30).map(|number| format!("\x1b[32mline {number}\x1b[0m\r\n")).collect();
        let long = format!("{}\r\n{}\r\n", "w".repeat(50), " ".repeat(45) + "x");
        for output in [
            lines.clone(),
            format!("{long}{lines}{long}$ "),
            format!("{long}\x1b[2;3Hx"),
            "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n".to_owned(),
            "ends exactly here---".repeat(7),
            "日本日本日本日本日本x日本".repeat(5),
            String::new(),
        ] {
            let first = screen(&output);
            // The previous contents of the other screen are replaced.
            let mut second = screen(&"of the past\r\n".repeat(40));
            second.advance(&first.picture(1_000));
            assert_eq!(all_rows(&second), all_rows(&first), "{output:?}");
            assert_eq!(second.cursor(), first.cursor());
            assert_eq!(second.picture(1_000), first.picture(1_000));
        }
        let picture = String::from_utf8(screen(&lines).picture(10)).unwrap();
        assert!(picture.contains("\x1b[0;32mline 17\r\n") && !picture.contains("line 16"), "{picture:?}");
    }

    #[test]
    fn the_normal_screen_is_kept_under_the_alternate_one() {
        let lines: String = (1..=30).map(|number| format!("line {number}\r\n")).collect();
        let mut first = screen(&format!("{lines}$ vi\x1b[?1049h\x1b[H\x1b[2Jthe file\x1b[5;1H:q"));
        let before = (first.text(), first.cursor());
        let mut second = screen("");
        second.advance(&first.picture(1_000));
        assert_eq!((first.text(), first.cursor()), before, "reading the screen changes nothing");
        assert_eq!((second.text(), second.cursor()), before);
        assert!(second.is_full());
        for screen in [&mut first, &mut second] {
            screen.advance(b"\x1b[?1049l");
        }
        assert_eq!(all_rows(&second), all_rows(&first));
        assert_eq!(second.cursor(), first.cursor());
        assert!(first.text().ends_with("line 30\n$ vi"), "{:?}", first.text());
    }

    #[test]
    fn scrollback_is_bounded() {
        let colors: String = (0..20).map(|number| format!("\x1b[38;2;1;2;{number}mx")).collect();
        let screen = screen(&(colors + "\r\n").repeat(5_000));
        let picture = screen.picture(usize::MAX);
        assert!(picture.len() < super::PICTURE_SCROLLBACK_BYTES_MAX + 10_000, "{}", picture.len());
        assert!(picture.len() > super::PICTURE_SCROLLBACK_BYTES_MAX / 2, "{}", picture.len());
    }
}
