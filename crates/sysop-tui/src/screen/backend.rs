//! Encodes frames: uses ratatui's encoding of the changed cells, adds hyperlinks and removes control characters.
//!
//! Draws only into memory. The output is written in one piece when the terminal is ready.

use std::io::{self, Write as _};

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect, Size};
use unicode_width::UnicodeWidthStr;

/// A clickable part of the screen (OSC 8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hyperlink {
    /// Area of the link, within one row.
    pub area: Rect,
    /// Target of the link. Only plain `http` and `https` URLs become clickable.
    pub address: String,
}

/// Maximum length of a link target, in bytes. Longer targets fail in some browsers.
const ADDRESS_BYTES_MAX: usize = 2083;

/// Encoder for the frames of one terminal.
pub(super) struct CellBackend {
    output: Vec<u8>,
    size: Size,
    cursor: Position,
    links: Vec<Hyperlink>,
}

impl CellBackend {
    pub(super) fn new(size: Size) -> Self {
        Self { output: Vec::new(), size, cursor: Position::ORIGIN, links: Vec::new() }
    }

    pub(super) fn size_now(&self) -> Size {
        self.size
    }

    pub(super) fn resize(&mut self, size: Size) {
        self.size = size;
    }

    /// Returns the output since the last [`Self::clear_output`].
    pub(super) fn output(&self) -> &[u8] {
        &self.output
    }

    /// Discards the output once it has been written.
    pub(super) fn clear_output(&mut self) {
        self.output.clear();
    }

    /// Sets the links of a frame whose cells have been drawn, and redraws the cells whose link changed.
    pub(super) fn set_links(&mut self, links: &[Hyperlink], cells: &Buffer) -> io::Result<()> {
        let links = links.iter().filter(|link| is_plain(&link.address)).cloned().collect();
        let before = std::mem::replace(&mut self.links, links);
        let mut changed: Vec<(u16, u16)> = before
            .iter()
            .chain(&self.links)
            .flat_map(|link| link.area.positions())
            .filter(|at| address(&before, *at) != address(&self.links, *at))
            .map(|at| (at.y, at.x))
            .collect();
        changed.sort_unstable();
        changed.dedup();
        // Drawing a cell that is covered by a wide character would destroy that character.
        let mut covered = (0, 0);
        let changed: Vec<(u16, u16, &Cell)> = changed
            .into_iter()
            .filter_map(|(y, x)| {
                let cell = cells.cell((x, y))?;
                if y == covered.0 && x < covered.1 {
                    return None;
                }
                covered = (y, x.saturating_add(u16::try_from(cell.symbol().width()).unwrap_or(1)));
                Some((x, y, cell))
            })
            .collect();
        self.draw(changed.into_iter())
    }

    /// Draws and clears `run`, adjacent cells that share a link or have no link. Positions the cursor first.
    fn draw_run(&mut self, run: &mut Vec<(u16, u16, &Cell)>, link: Option<&str>) -> io::Result<()> {
        if run.is_empty() {
            return Ok(());
        }
        if let Some(link) = link {
            write!(self.output, "\x1b]8;;{link}\x1b\\")?;
        }
        self.encoder().draw(run.drain(..))?;
        if link.is_some() {
            self.output.extend_from_slice(b"\x1b]8;;\x1b\\");
        }
        Ok(())
    }

    /// Returns ratatui's encoder, which appends to the output.
    fn encoder(&mut self) -> CrosstermBackend<&mut Vec<u8>> {
        CrosstermBackend::new(&mut self.output)
    }
}

/// Returns true for an `http` or `https` URL that is printable ASCII and not too long.
fn is_plain(address: &str) -> bool {
    let web = address.starts_with("https://") || address.starts_with("http://");
    web && address.len() <= ADDRESS_BYTES_MAX && address.bytes().all(|byte| byte.is_ascii_graphic())
}

fn address(links: &[Hyperlink], at: Position) -> Option<&str> {
    links.iter().find(|link| link.area.contains(at)).map(|link| link.address.as_str())
}

/// Returns true if terminals agree that the symbol is one cell wide. After others, the cursor must be moved.
fn is_one_cell(symbol: &str) -> bool {
    let mut signs = symbol.chars();
    matches!((signs.next(), signs.next()), (Some(' '..='~' | '\u{2500}'..='\u{259f}'), None))
}

impl Backend for CellBackend {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let links = std::mem::take(&mut self.links);
        let mut run = Vec::new();
        let mut run_link = None;
        for (x, y, cell) in content {
            let link = address(&links, Position { x, y });
            if link != run_link {
                self.draw_run(&mut run, run_link)?;
                run_link = link;
            }
            run.push((x, y, safe(cell)));
            if !is_one_cell(cell.symbol()) {
                self.draw_run(&mut run, run_link)?;
            }
        }
        self.draw_run(&mut run, run_link)?;
        self.links = links;
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.encoder().hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.encoder().show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // The terminal is never queried.
        Ok(self.cursor)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.cursor = position.into();
        let cursor = self.cursor;
        self.encoder().set_cursor_position(cursor)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.encoder().clear()
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.encoder().clear_region(clear_type)
    }

    fn size(&self) -> io::Result<Size> {
        Ok(self.size)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the cell, or a cell with U+FFFD if it contains a control character.
fn safe(cell: &Cell) -> &Cell {
    const REPLACEMENT: &Cell = &Cell::new("\u{fffd}");
    let has_control = cell.symbol().chars().any(char::is_control);
    debug_assert!(!has_control, "a control character would reach the terminal: {:?}", cell.symbol());
    if has_control { REPLACEMENT } else { cell }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ratatui::Terminal;
    use ratatui::style::Stylize;
    use ratatui::text::{Line, Span};

    use super::*;

    fn terminal() -> Terminal<CellBackend> {
        Terminal::new(CellBackend::new(Size::new(20, 3))).unwrap()
    }

    fn taken(terminal: &mut Terminal<CellBackend>) -> String {
        let output = String::from_utf8_lossy(terminal.backend().output()).replace('\x1b', "^");
        terminal.backend_mut().clear_output();
        output
    }

    #[test]
    fn only_changed_cells_are_drawn_with_their_style() {
        let mut terminal = terminal();
        let line = |last: &'static str| {
            Line::from(vec![Span::raw("ok "), "red".red().bold(), " 漢字".into(), last.into()])
        };
        terminal.draw(|frame| frame.render_widget(line("1"), frame.area())).unwrap();
        expect![["^[1;1Hok^[1;4H^[1m^[38;5;1;49mred^[1;8H^[22m^[39;49m漢^[39m^[49m^[59m^[0m\
             ^[1;10H字^[39m^[49m^[59m^[0m^[1;12H1^[39m^[49m^[59m^[0m^[?25l"]]
        .assert_eq(&taken(&mut terminal));
        terminal.draw(|frame| frame.render_widget(line("2"), frame.area())).unwrap();
        expect!["^[1;12H2^[39m^[49m^[59m^[0m^[?25l"].assert_eq(&taken(&mut terminal));
    }

    #[test]
    fn links_lead_to_plain_addresses_only() {
        let mut terminal = terminal();
        let mut draw = |address: &str| {
            let area = Rect::new(2, 0, 2, 1);
            let buffer =
                terminal.draw(|frame| frame.render_widget("abcdef", frame.area())).unwrap().buffer.clone();
            let links = [Hyperlink { area, address: address.to_owned() }];
            terminal.backend_mut().set_links(&links, &buffer).unwrap();
            taken(&mut terminal)
        };
        expect![[r#"^[1;1Habcdef^[39m^[49m^[59m^[0m^[?25l^]8;;https://a.example/^\^[1;3Hcd^[39m^[49m^[59m^[0m^]8;;^\"#]]
            .assert_eq(&draw("https://a.example/"));
        expect!["^[?25l"].assert_eq(&draw("https://a.example/"));
        for bad in ["file:///etc/passwd", "https://a/\x1b]52;c;aGk=\x07", "https://a b", "javascript:1"] {
            draw("https://a.example/");
            assert_eq!(draw(bad), "^[?25l^[1;3Hcd^[39m^[49m^[59m^[0m", "{bad:?}");
        }
    }

    #[test]
    #[should_panic(expected = "a control character would reach the terminal")]
    fn control_characters_are_not_written() {
        safe(&Cell::new("\x1b"));
    }
}
