//! The session's terminal on the person's own: a screen in memory that takes in what the shell writes, drawn cell by
//! cell. Nothing of the shell's output gets to the person's terminal but characters and colors, and a screen of
//! another size is cut to theirs.

use std::fmt::Write as _;
use std::io::{self, Write};

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::{Color, Processor};
use sysop_driver::prompter::TerminalSize;

use super::editor::sanitize_pasted_text;
use crate::render::cells::{pad, truncate};
use crate::render::{TextRow, paint};

/// The most columns or rows that a screen is kept for.
const CELLS_MAX: u16 = 1_000;

/// What a program may switch on in the person's terminal, by its number in `CSI ? … h`.
const MODES: [(TermMode, u16); 6] = [
    (TermMode::APP_CURSOR, 1),
    (TermMode::MOUSE_REPORT_CLICK, 1000),
    (TermMode::MOUSE_DRAG, 1002),
    (TermMode::MOUSE_MOTION, 1003),
    (TermMode::SGR_MOUSE, 1006),
    (TermMode::BRACKETED_PASTE, 2004),
];

/// The screen.
pub(super) struct TerminalMirror {
    term: Term<VoidListener>,
    parser: Processor,
    size: TerminalSize,
    /// What was drawn last, row by row.
    drawn: Vec<String>,
}

struct MirrorSize(TerminalSize);

impl Dimensions for MirrorSize {
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

impl TerminalMirror {
    /// An empty screen on which this is drawn.
    pub(super) fn new(size: TerminalSize, picture: &[u8]) -> Self {
        let config = Config { scrolling_history: 0, ..Config::default() };
        let term = Term::new(config, &MirrorSize(size), VoidListener);
        let mut mirror = Self { term, parser: Processor::new(), size, drawn: Vec::new() };
        mirror.feed(picture);
        mirror
    }

    /// Takes in more output.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.term, bytes);
    }

    /// Begins again with an empty screen on which this is drawn.
    pub(super) fn redraw(&mut self, picture: &[u8]) {
        let drawn = std::mem::take(&mut self.drawn);
        *self = Self { drawn, ..Self::new(self.size, picture) };
    }

    /// Takes another size.
    pub(super) fn resize(&mut self, size: TerminalSize) {
        self.size = size;
        self.term.resize(MirrorSize(size));
    }

    /// Takes note that nothing of it is on the person's terminal any more.
    pub(super) fn invalidate(&mut self) {
        self.drawn.clear();
    }

    /// What brings a terminal of so many columns and rows up to date; `status` is its last row.
    pub(super) fn frame(&mut self, (columns, rows): (usize, usize), status: TextRow) -> String {
        let rows = rows.max(2);
        let cursor = self.term.grid().cursor.point;
        let cursor_line = usize::try_from(cursor.line.0).unwrap_or(0);
        let lines = self.term.screen_lines();
        // Of a screen that is taller than the terminal, the part with the cursor.
        let first = (cursor_line + 2).saturating_sub(rows).min(lines.saturating_sub(1));
        let mut frame: Vec<String> =
            (first..lines.min(first + rows - 1)).map(|line| self.line(line, columns)).collect();
        frame.resize(rows - 1, String::new());
        let bar = pad(truncate(&status, columns.saturating_sub(1)), columns.saturating_sub(1));
        frame.push(format!("\u{1b}[7m{}", paint(&bar, false)));
        let mut out = String::from("\u{1b}[?25l");
        for (number, row) in frame.iter().enumerate().filter(|(at, row)| self.drawn.get(*at) != Some(row)) {
            let _ = write!(out, "\u{1b}[{};1H\u{1b}[0m{row}\u{1b}[0m\u{1b}[K", number + 1);
        }
        self.drawn = frame;
        let column = cursor.column.0.min(columns.saturating_sub(1));
        let _ = write!(out, "\u{1b}[{};{}H", (cursor_line - first).min(rows - 2) + 1, column + 1);
        if self.term.mode().contains(TermMode::SHOW_CURSOR) {
            out.push_str("\u{1b}[?25h");
        }
        out
    }

    /// The modes that the person's terminal must have, so that its keys, pastes and mouse are what the program wants.
    pub(super) fn modes(&self) -> Vec<u16> {
        let mode = self.term.mode();
        MODES.iter().filter(|(flag, _)| mode.contains(*flag)).map(|(_, number)| *number).collect()
    }

    /// A line as text and colors; blanks at its end are left out.
    fn line(&self, line: usize, columns: usize) -> String {
        let row = &self.term.grid()[Line(i32::try_from(line).unwrap_or(i32::MAX))];
        let (mut out, mut style) = (String::new(), String::new());
        let mut end = 0;
        for column in 0..self.term.columns().min(columns) {
            let cell = &row[Column(column)];
            let spacer = Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER;
            let cut = cell.flags.contains(Flags::WIDE_CHAR) && column + 1 >= columns;
            if cell.flags.intersects(spacer) || cut {
                continue;
            }
            let wanted = style_of(cell);
            if wanted != style {
                let _ = write!(out, "\u{1b}[0{wanted}m");
                style = wanted;
            }
            let before = out.len();
            push_text(&mut out, cell);
            if out[before..] != *" " || !style.is_empty() {
                end = out.len();
            }
        }
        out.truncate(end);
        out
    }
}

fn push_text(out: &mut String, cell: &Cell) {
    if cell.flags.contains(Flags::HIDDEN) || cell.c == '\t' {
        return out.push(' ');
    }
    let mut text = String::from(cell.c);
    text.extend(cell.zerowidth().into_iter().flatten());
    let text = sanitize_pasted_text(&text);
    out.push_str(if text.is_empty() { " " } else { &text });
}

/// The parameters of a cell's SGR sequence after the 0 that begins it.
fn style_of(cell: &Cell) -> String {
    let mut out = String::new();
    for (flag, parameter) in [
        (Flags::BOLD, 1),
        (Flags::DIM, 2),
        (Flags::ITALIC, 3),
        (Flags::ALL_UNDERLINES, 4),
        (Flags::INVERSE, 7),
        (Flags::STRIKEOUT, 9),
    ] {
        if cell.flags.intersects(flag) {
            let _ = write!(out, ";{parameter}");
        }
    }
    push_color(&mut out, cell.fg, 30);
    push_color(&mut out, cell.bg, 40);
    out
}

/// `base` is 30 for the text's color and 40 for the ground's.
fn push_color(out: &mut String, color: Color, base: u16) {
    let _ = match color {
        Color::Named(name) => match name as u16 {
            index @ 0..8 => write!(out, ";{}", base + index),
            index @ 8..16 => write!(out, ";{}", base + 60 + index - 8),
            // The terminal's own colors, and dim ones that `DIM` makes.
            _ => Ok(()),
        },
        Color::Indexed(index) => write!(out, ";{};5;{index}", base + 8),
        Color::Spec(rgb) => write!(out, ";{};2;{};{};{}", base + 8, rgb.r, rgb.g, rgb.b),
    };
}

/// The person's terminal while the session's is on it. Gives it back when it is dropped, whatever the reason.
pub(super) struct AlternateScreen {
    out: Box<dyn Write + Send>,
    /// The modes that are switched on.
    modes: Vec<u16>,
}

impl AlternateScreen {
    /// Goes to the terminal's other screen, so that the conversation is there again afterwards.
    pub(super) fn open(mut out: Box<dyn Write + Send>) -> io::Result<Self> {
        out.write_all(b"\x1b[?1049h\x1b[0m\x1b[2J")?;
        Ok(Self { out, modes: Vec::new() })
    }

    /// Draws, and switches modes on and off.
    pub(super) fn draw(&mut self, frame: &str, modes: Vec<u16>) -> io::Result<()> {
        self.out.write_all(frame.as_bytes())?;
        self.switch(modes)
    }

    fn switch(&mut self, modes: Vec<u16>) -> io::Result<()> {
        for off in self.modes.iter().filter(|mode| !modes.contains(mode)) {
            write!(self.out, "\u{1b}[?{off}l")?;
        }
        for on in modes.iter().filter(|mode| !self.modes.contains(mode)) {
            write!(self.out, "\u{1b}[?{on}h")?;
        }
        self.modes = modes;
        self.out.flush()
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        // The terminal may be gone; there is nobody to tell.
        let _ = self.switch(Vec::new());
        let _ = self.out.write_all(b"\x1b[0m\x1b[?25h\x1b[?1049l").and_then(|()| self.out.flush());
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::render::{Ink, row};

    const SIZE: TerminalSize = TerminalSize { columns: 20, rows: 4 };

    fn frame(mirror: &mut TerminalMirror, size: (usize, usize)) -> String {
        mirror
            .frame(size, row("web1 · Ctrl+] leaves", Ink::Plain))
            .replace('\u{1b}', "^")
            .replace("^[?25", "\n^[?25")
    }

    #[test]
    fn only_what_changed_is_drawn() {
        let mut mirror = TerminalMirror::new(SIZE, b"one \x1b[1;31mred\x1b[0m\r\ntwo");
        expect![[r#"

            ^[?25l^[1;1H^[0mone ^[0;1;31mred^[0m^[K^[2;1H^[0mtwo^[0m^[K^[3;1H^[0m^[0m^[K^[4;1H^[0m^[0m^[K^[5;1H^[0m^[7mweb1 · Ctrl+] leaves  ^[0m^[K^[2;4H
            ^[?25h"#]]
        .assert_eq(&frame(&mut mirror, (23, 5)));
        mirror.feed(b"!");
        expect![[r#"

            ^[?25l^[2;1H^[0mtwo!^[0m^[K^[2;5H
            ^[?25h"#]]
        .assert_eq(&frame(&mut mirror, (23, 5)));
        mirror.redraw(b"three");
        assert!(frame(&mut mirror, (23, 5)).contains("^[1;1H^[0mthree^[0m^[K^[2;1H^[0m^[0m^[K"));
    }

    #[test]
    fn nothing_but_text_and_colors_gets_through() {
        let hostile = b"\x1b]0;owned\x07\x1b]52;c;aGk=\x07\x1b[?1000h\x1b[?2004h\x1bPq#0\x1b\\a\xe2\x80\xaeb\x1b[8mhidden";
        let mut mirror = TerminalMirror::new(SIZE, hostile);
        // A mouse and pastes are for the program that asked for them, and end with it.
        assert_eq!(mirror.modes(), [1000, 2004]);
        let drawn = mirror.frame((23, 5), TextRow::new());
        assert!(drawn.contains("ab"), "{drawn:?}");
        for bad in ["owned", "aGk", "?1000", "?2004", "\u{1b}P", "\u{202e}", "hidden", "\u{7}"] {
            assert!(!drawn.contains(bad), "{bad:?}: {drawn:?}");
        }
    }

    #[test]
    fn a_larger_screen_is_cut_to_where_the_cursor_is() {
        let size = TerminalSize { columns: 40, rows: 9 };
        let mut mirror = TerminalMirror::new(size, "1\r\n2\r\n3\r\n4 long line 漢字\r\n5".as_bytes());
        let drawn = frame(&mut mirror, (14, 4));
        assert!(
            drawn.contains("^[2;1H^[0m4 long line ^[0m") || drawn.contains("^[2;1H^[0m4 long line 漢^[0m"),
            "{drawn}"
        );
        assert!(
            drawn.contains("^[1;1H^[0m3") && drawn.contains("^[3;1H^[0m5") && !drawn.contains('字'),
            "{drawn}"
        );
        mirror.resize(TerminalSize { columns: 14, rows: 3 });
        assert!(frame(&mut mirror, (14, 4)).contains("^[3;2H"));
    }

    /// A terminal whose bytes can be looked at.
    #[derive(Clone, Default)]
    struct Sink(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_window_gives_the_terminal_back_also_after_a_panic() {
        let sink = Sink::default();
        let out = sink.clone();
        let panicked = std::panic::catch_unwind(move || {
            let mut window = AlternateScreen::open(Box::new(out)).unwrap();
            window.draw("drawn", vec![1, 2004]).unwrap();
            window.draw("again", vec![1000, 2004]).unwrap();
            panic!("on purpose");
        });
        assert!(panicked.is_err());
        let written = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap().replace('\u{1b}', "^");
        expect![[
            r#"^[?1049h^[0m^[2Jdrawn^[?1h^[?2004hagain^[?1l^[?1000h^[?1000l^[?2004l^[0m^[?25h^[?1049l"#
        ]]
        .assert_eq(&written);
    }
}
