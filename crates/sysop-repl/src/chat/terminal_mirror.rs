//! Shows the session's terminal on the user's terminal. A screen in memory processes the shell's output and is drawn
//! cell by cell. So only characters and colors of the output reach the user's terminal, and a screen of another size is
//! clipped.

use std::fmt::Write as _;
use std::io::{self, Write};

use sysop_driver::prompter::TerminalSize;
use sysop_term::grid::{Grid, GridSize};
use sysop_term::{TextRow, paint};

use crate::render::{pad, truncate};

/// An in-memory screen, and the lines of it that have been drawn.
pub(super) struct TerminalMirror {
    grid: Grid,
    size: TerminalSize,
    /// Lines as last drawn.
    drawn: Vec<String>,
}

fn grid(size: TerminalSize, picture: &[u8]) -> Grid {
    Grid::new(GridSize { columns: size.columns, rows: size.rows }, picture)
}

impl TerminalMirror {
    /// Creates a mirror that shows `picture`, a snapshot of the terminal.
    pub(super) fn new(size: TerminalSize, picture: &[u8]) -> Self {
        Self { grid: grid(size, picture), size, drawn: Vec::new() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.grid.feed(bytes);
    }

    /// Replaces the content with `picture`, a snapshot of the terminal.
    pub(super) fn redraw(&mut self, picture: &[u8]) {
        self.grid = grid(self.size, picture);
    }

    pub(super) fn resize(&mut self, size: TerminalSize) {
        self.size = size;
        self.grid.resize(GridSize { columns: size.columns, rows: size.rows });
    }

    /// Records that no part of the screen is visible any more, so that the next frame redraws everything.
    pub(super) fn invalidate(&mut self) {
        self.drawn.clear();
    }

    /// Returns the output that updates a terminal of this size. `status` becomes its last row.
    pub(super) fn frame(&mut self, (columns, rows): (usize, usize), status: &TextRow) -> String {
        let rows = rows.max(2);
        let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let frame = self.grid.frame(cells(columns.max(1)), cells(rows - 1));
        let mut lines = frame.lines;
        let bar = pad(truncate(status, columns.saturating_sub(1)), columns.saturating_sub(1));
        lines.push(format!("\u{1b}[7m{}", paint::row(&bar, false)));
        let mut out = String::from("\u{1b}[?25l");
        for (number, line) in lines.iter().enumerate().filter(|(at, line)| self.drawn.get(*at) != Some(line))
        {
            let _ = write!(out, "\u{1b}[{};1H\u{1b}[0m{line}\u{1b}[0m\u{1b}[K", number + 1);
        }
        self.drawn = lines;
        if let Some((column, row)) = frame.cursor {
            let _ = write!(out, "\u{1b}[{};{}H\u{1b}[?25h", row + 1, column + 1);
        }
        out
    }

    /// Returns the modes (numbers of `CSI ? … h`) to enable on the user's terminal, so that keys, pastes and the mouse
    /// are reported as the program expects.
    pub(super) fn modes(&self) -> Vec<u16> {
        let modes = self.grid.modes();
        let number = |on: bool, number| on.then_some(number);
        [
            number(modes.application_cursor, 1),
            modes.mouse.number(),
            number(modes.sgr_mouse, 1006),
            number(modes.marked_paste, 2004),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The user's terminal while the session's terminal is shown on it. Dropping the value restores the user's terminal.
pub(super) struct AlternateScreen {
    out: Box<dyn Write + Send>,
    modes: Vec<u16>,
}

impl AlternateScreen {
    /// Switches to the alternate screen, so that the conversation reappears afterwards.
    pub(super) fn open(mut out: Box<dyn Write + Send>) -> io::Result<Self> {
        out.write_all(b"\x1b[?1049h\x1b[0m\x1b[2J")?;
        Ok(Self { out, modes: Vec::new() })
    }

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
        // The terminal may be gone; the error cannot be reported.
        let _ = self.switch(Vec::new());
        let _ = self.out.write_all(b"\x1b[0m\x1b[?25h\x1b[?1049l").and_then(|()| self.out.flush());
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use expect_test::expect;

    use super::*;
    use sysop_term::StyleRole;

    use crate::recorded_output::RecordedOutput;
    use crate::render::row;

    const SIZE: TerminalSize = TerminalSize { columns: 20, rows: 4 };

    fn frame(mirror: &mut TerminalMirror, size: (usize, usize)) -> String {
        mirror
            .frame(size, &row("web1 · Ctrl+] leaves", StyleRole::Text))
            .replace('\u{1b}', "^")
            .replace("^[?25", "\n^[?25")
    }

    #[test]
    fn only_changes_are_drawn() {
        let mut mirror = TerminalMirror::new(SIZE, b"one \x1b[1;31mred\x1b[0m\r\ntwo");
        expect![[r#"

            ^[?25l^[1;1H^[0mone ^[1;31mred^[0m^[0m^[K^[2;1H^[0mtwo^[0m^[K^[3;1H^[0m^[0m^[K^[4;1H^[0m^[0m^[K^[5;1H^[0m^[7mweb1 · Ctrl+] leaves  ^[0m^[K^[2;4H
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
    fn only_text_and_colors_are_drawn() {
        let hostile = b"\x1b]0;owned\x07\x1b]52;c;aGk=\x07\x1b[?1000h\x1b[?2004h\x1bPq#0\x1b\\a\xe2\x80\xaeb\x1b[8mhidden";
        let mut mirror = TerminalMirror::new(SIZE, hostile);
        // Mouse and paste reporting belong to the program that requested them and end with it.
        assert_eq!(mirror.modes(), [1000, 2004]);
        let drawn = mirror.frame((23, 5), &TextRow::default());
        assert!(drawn.contains("ab"), "{drawn:?}");
        for bad in ["owned", "aGk", "?1000", "?2004", "\u{1b}P", "\u{202e}", "hidden", "\u{7}"] {
            assert!(!drawn.contains(bad), "{bad:?}: {drawn:?}");
        }
    }

    #[test]
    fn a_larger_screen_is_cropped_around_the_cursor() {
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

    #[test]
    fn the_terminal_is_restored_even_after_a_panic() {
        let sink = RecordedOutput::default();
        let out = sink.clone();
        let panicked = std::panic::catch_unwind(AssertUnwindSafe(move || {
            let mut window = AlternateScreen::open(Box::new(out)).unwrap();
            window.draw("drawn", vec![1, 2004]).unwrap();
            window.draw("again", vec![1000, 2004]).unwrap();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        let written = sink.text().replace('\u{1b}', "^");
        expect![[
            r#"^[?1049h^[0m^[2Jdrawn^[?1h^[?2004hagain^[?1l^[?1000h^[?1000l^[?2004l^[0m^[?25h^[?1049l"#
        ]]
        .assert_eq(&written);
    }
}
