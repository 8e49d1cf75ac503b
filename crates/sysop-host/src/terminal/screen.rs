//! What is on the screen: the model of a terminal of xterm's kind, with a scrollback.
//!
//! Answers what programs ask of a terminal. Never writes anywhere by itself.

use std::cell::{RefCell, RefMut};
use std::fmt::Write as _;
use std::sync::mpsc::{Receiver, Sender, channel};

use alacritty_terminal::event::{Event, EventListener, WindowSize};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::{Color, NamedColor, Processor, Rgb, StdSyncHandler};
use sysop_driver::people::TerminalSize;

use super::keys::KeyMode;

/// Rows above the screen that are kept.
const SCROLLBACK_ROWS: usize = 10_000;

/// Bytes of plain text that wait before it is looked whether all of them will be seen.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The screen. Plain text is put into the model only when somebody looks: of a flood, most has gone through the
/// scrollback by then, and the model would be what holds the program up.
pub(super) struct Screen {
    model: RefCell<Model>,
    size: TerminalSize,
}

/// The model of the terminal.
struct Model {
    term: Term<Replies>,
    parser: Processor<StdSyncHandler>,
    replies: Receiver<Event>,
    /// Plain text that came after all that is in the model.
    waiting: Vec<u8>,
    /// Whether only a part of the screen scrolls, as far as is known.
    has_region: bool,
}

impl Model {
    /// Puts all into the model that waits and can still be seen.
    fn settle(&mut self, rows: u16) {
        if !self.waiting.is_empty() {
            let seen = self.seen(rows).unwrap_or(0);
            self.parser.advance(&mut self.term, &self.waiting[seen..]);
            self.waiting.clear();
        }
    }

    /// Drops what would have left the scrollback before anybody could see it.
    fn thin(&mut self, rows: u16) {
        match self.seen(rows) {
            Some(seen) => drop(self.waiting.drain(..seen)),
            None => self.settle(rows),
        }
    }

    /// Where in the waiting text that begins which would not have left the scrollback at its end.
    fn seen(&self, rows: u16) -> Option<usize> {
        if self.has_region || self.term.mode().contains(TermMode::ALT_SCREEN) {
            return None;
        }
        let kept = SCROLLBACK_ROWS + usize::from(rows);
        let cut = memchr::memrchr_iter(b'\n', &self.waiting).nth(kept)?;
        (cut > 0 && self.waiting[cut - 1] == b'\r').then_some(cut + 1)
    }
}

/// Takes what the model wants to tell.
struct Replies(Sender<Event>);

impl EventListener for Replies {
    fn send_event(&self, event: Event) {
        // The receiver lives as long as the model does.
        let _ = self.0.send(event);
    }
}

struct Cells(TerminalSize);

impl Dimensions for Cells {
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

impl Screen {
    pub(super) fn new(size: TerminalSize) -> Self {
        let (sender, replies) = channel();
        let config = Config { scrolling_history: SCROLLBACK_ROWS, ..Config::default() };
        let term = Term::new(config, &Cells(size), Replies(sender));
        let parser = Processor::new();
        Self {
            model: RefCell::new(Model { term, parser, replies, waiting: Vec::new(), has_region: false }),
            size,
        }
    }

    /// The model, with all in it that came.
    fn model(&self) -> RefMut<'_, Model> {
        let mut model = self.model.borrow_mut();
        model.settle(self.size.rows);
        model
    }

    /// Takes output that is text, tabs and ends of lines, and nothing else.
    pub(super) fn text_came(&mut self, text: &[u8]) {
        let model = self.model.get_mut();
        if model.waiting.len() + text.len() > WAITING_BYTES_MAX {
            model.thin(self.size.rows);
        }
        model.waiting.extend_from_slice(text);
    }

    /// Takes output; gives what is to be answered to the program.
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
        model.term.resize(Cells(size));
        // The model takes the whole screen again.
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

    /// Whether pasted text is to be marked.
    pub(super) fn takes_paste(&self) -> bool {
        self.model().term.mode().contains(TermMode::BRACKETED_PASTE)
    }

    /// Whether a program has the whole screen to itself.
    pub(super) fn is_full(&self) -> bool {
        self.model().term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Row and column of the cursor, from 0.
    pub(super) fn cursor(&self) -> (usize, usize) {
        let point = self.model().term.grid().cursor.point;
        (usize::try_from(point.line.0).unwrap_or(0), point.column.0)
    }

    /// The screen as text, without blank ends.
    pub(super) fn text(&self) -> String {
        let rows: Vec<String> = (0..usize::from(self.size.rows)).map(|row| self.row(row)).collect();
        rows.join("\n").trim_end().to_owned()
    }

    /// The row of the cursor as far as the cursor, with its last blank.
    pub(super) fn line_to_cursor(&self) -> String {
        let (row, column) = self.cursor();
        self.letters(row, column)
    }

    fn row(&self, row: usize) -> String {
        self.letters(row, usize::from(self.size.columns)).trim_end().to_owned()
    }

    fn letters(&self, row: usize, columns: usize) -> String {
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

    /// Bytes that draw the screen on an empty one of its size, with the modes that matter to a keyboard.
    pub(super) fn picture(&self) -> Vec<u8> {
        let mut out = String::new();
        out.push_str(if self.is_full() { "\x1b[?1049h" } else { "\x1b[?1049l" });
        out.push_str("\x1b[0m\x1b[r\x1b[H\x1b[2J");
        let mut look = String::from("\x1b[0m");
        for row in 0..usize::from(self.size.rows) {
            self.draw_row(row, &mut look, &mut out);
        }
        let (row, column) = self.cursor();
        let mode = *self.model().term.mode();
        let switch = |flag: TermMode, number: &str| {
            format!("\x1b[?{number}{}", if mode.contains(flag) { 'h' } else { 'l' })
        };
        out.push_str("\x1b[0m");
        write!(out, "\x1b[{};{}H", row + 1, column + 1).expect("a string takes all");
        out.push_str(&switch(TermMode::SHOW_CURSOR, "25"));
        out.push_str(&switch(TermMode::APP_CURSOR, "1"));
        out.push_str(&switch(TermMode::BRACKETED_PASTE, "2004"));
        // Switching one of the three off switches off all: so those that are off come first.
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

    fn draw_row(&self, row: usize, look: &mut String, out: &mut String) {
        let model = self.model();
        let cells = &model.term.grid()[line(row)];
        let columns = usize::from(self.size.columns);
        let used =
            (0..columns).rev().find(|&column| !is_blank(&cells[Column(column)])).map_or(0, |last| last + 1);
        if used == 0 {
            return;
        }
        write!(out, "\x1b[{};1H", row + 1).expect("a string takes all");
        for cell in (0..used).map(|column| &cells[Column(column)]) {
            if is_spacer(cell) {
                continue;
            }
            let next = look_of(cell);
            if next != *look {
                out.push_str(&next);
                *look = next;
            }
            push_letters(out, cell);
        }
    }
}

/// Whether only a part of the screen scrolls after these whole sequences; none where they do not say (DECSTBM).
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

/// A tab is kept in the cell where it began; the cells after it are blank.
fn push_letters(text: &mut String, cell: &Cell) {
    text.push(if cell.c == '\t' { ' ' } else { cell.c });
    text.extend(cell.zerowidth().unwrap_or_default());
}

fn look_of(cell: &Cell) -> String {
    const STYLES: [(Flags, &str); 8] = [
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
    for (flag, code) in STYLES {
        if cell.flags.contains(flag) {
            look.push_str(code);
        }
    }
    push_color(&mut look, cell.fg, 30);
    push_color(&mut look, cell.bg, 40);
    look.push('m');
    look
}

/// Adds a color to the parameters of SGR; `base` is 30 for letters and 40 for what is behind them.
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
    wrote.expect("a string takes all");
}

/// What a program is told that asks for a color: light letters on black.
fn color(index: usize) -> Rgb {
    let light = Rgb { r: 0xdd, g: 0xdd, b: 0xdd };
    if index == NamedColor::Background as usize { Rgb { r: 0, g: 0, b: 0 } } else { light }
}

#[cfg(test)]
mod tests {
    use alacritty_terminal::grid::Dimensions;
    use sysop_driver::people::TerminalSize;

    use super::{Screen, sets_region};

    fn screen(output: &str) -> Screen {
        let mut screen = Screen::new(TerminalSize { columns: 20, rows: 5 });
        screen.advance(output.as_bytes());
        screen
    }

    #[test]
    fn text_and_cursor_are_those_of_the_screen() {
        let screen = screen("one\r\n\x1b[31mzwei 日本 e\u{301}\x1b[0m\r\na\tb $ ");
        assert_eq!(screen.text(), "one\nzwei 日本 e\u{301}\na       b $");
        assert_eq!(screen.cursor(), (2, 12));
        assert_eq!(screen.line_to_cursor(), "a       b $ ");
    }

    #[test]
    fn a_flood_leaves_the_screen_that_it_would_have_left() {
        let line = |number: usize| format!("line {number} {}\r\n", "x".repeat(number % 50));
        let size = TerminalSize { columns: 20, rows: 5 };
        let (mut flooded, mut drawn) = (Screen::new(size), Screen::new(size));
        for screen in [&mut flooded, &mut drawn] {
            screen.advance(b"\x1b[31mbegun");
        }
        for number in 0..200_000 {
            flooded.text_came(line(number).as_bytes());
            if number >= 150_000 {
                drawn.advance(line(number).as_bytes());
            }
        }
        assert!(flooded.model.borrow().waiting.len() <= super::WAITING_BYTES_MAX);
        assert_eq!(flooded.picture(), drawn.picture());
        let rows = |screen: &Screen| screen.model().term.grid().history_size();
        assert_eq!(rows(&flooded), super::SCROLLBACK_ROWS);
    }

    #[test]
    fn a_flood_is_thinned_unless_a_part_of_the_screen_scrolls() {
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
                screen.text_came(b"a line\r\n");
            }
            let waiting = screen.model.get_mut().waiting.len();
            screen.text_came(&vec![b'x'; super::WAITING_BYTES_MAX - waiting + 1]);
            let thinned = screen.model.get_mut().waiting.starts_with(b"a line");
            assert_eq!(thinned, has_region != Some(true), "{sequences:?}");
        }
    }

    #[test]
    fn questions_of_programs_are_answered() {
        let mut screen = screen("");
        assert_eq!(screen.advance(b"ab\x1b[6n"), b"\x1b[1;3R");
        assert!(screen.advance(b"\x1b[c").starts_with(b"\x1b[?"));
        assert!(screen.advance(b"\x1b]11;?\x07").starts_with(b"\x1b]11;rgb:"));
    }

    #[test]
    fn a_picture_draws_the_same_screen() {
        for output in [
            "a\r\n\x1b[1;4;38;5;200mb\x1b[0m c\r\n\x1b[41m  \x1b[0m日本\x1b[48;2;1;2;3mx",
            "\x1b[?1049h\x1b[3;4Hfull\x1b[7mx\x1b[?25l\x1b[?1h\x1b=",
            "\x1b[?2004h$ \x1b[97;100mbright",
            "\x1b[2;4r1\r\n2\r\n3\r\n4\r\n5\r\n6",
            "\x1b[?1002;1006hmouse",
        ] {
            let first = screen(output);
            let mut second = Screen::new(first.size());
            second.advance(&first.picture());
            assert_eq!(second.text(), first.text());
            assert_eq!(second.cursor(), first.cursor());
            assert_eq!(second.picture(), first.picture());
            assert_eq!((second.is_full(), second.takes_paste()), (first.is_full(), first.takes_paste()));
            assert_eq!(second.model().term.mode(), first.model().term.mode());
        }
    }
}
