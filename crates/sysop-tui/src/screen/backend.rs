//! Encodes frames: the changed cells with their hyperlinks, and no control character in any cell.
//!
//! Draws into memory only. The output is written as one piece when the terminal is ready.

use std::fmt::Write as _;
use std::io;

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect, Size};
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

/// A clickable part of the screen (OSC 8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hyperlink {
    /// Area of the link, within one row.
    pub area: Rect,
    /// Target of the link. Only plain `http` and `https` addresses become clickable.
    pub address: String,
}

/// Maximum length of a link target, in bytes; longer ones fail in some browsers.
const ADDRESS_BYTES_MAX: usize = 2083;

/// Encoder for the frames of one terminal.
pub(super) struct CellBackend {
    output: String,
    size: Size,
    cursor: Position,
    links: Vec<Hyperlink>,
}

impl CellBackend {
    pub(super) fn new(size: Size) -> Self {
        Self { output: String::new(), size, cursor: Position::ORIGIN, links: Vec::new() }
    }

    pub(super) fn size_now(&self) -> Size {
        self.size
    }

    pub(super) fn resize(&mut self, size: Size) {
        self.size = size;
    }

    /// Output since [`Self::clear_output`].
    pub(super) fn output(&self) -> &str {
        &self.output
    }

    /// Discards the output after it was written.
    pub(super) fn clear_output(&mut self) {
        self.output.clear();
    }

    /// Sets the links of a frame whose cells are already drawn, and redraws the cells whose link changed.
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

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.output.write_fmt(text).expect("a string takes all");
    }
}

/// Returns true for a printable `http` or `https` address.
fn is_plain(address: &str) -> bool {
    let web = address.starts_with("https://") || address.starts_with("http://");
    web && address.len() <= ADDRESS_BYTES_MAX && address.bytes().all(|byte| byte.is_ascii_graphic())
}

fn address(links: &[Hyperlink], at: Position) -> Option<&str> {
    links.iter().find(|link| link.area.contains(at)).map(|link| link.address.as_str())
}

/// Returns true if all terminals agree that the symbol is one cell wide. After any other symbol the cursor is positioned
/// explicitly.
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
        let mut next = None;
        let mut look = None;
        let mut link = None;
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                self.put(format_args!("\x1b[{};{}H", y + 1, x + 1));
            }
            let leads = address(&links, Position { x, y });
            if leads != link {
                self.put(format_args!("\x1b]8;;{}\x1b\\", leads.unwrap_or_default()));
                link = leads;
            }
            let wanted = (cell.fg, cell.bg, cell.underline_color, cell.modifier);
            if look != Some(wanted) {
                push_style(cell, &mut self.output);
                look = Some(wanted);
            }
            push_symbol(cell.symbol(), &mut self.output);
            next = is_one_cell(cell.symbol()).then_some((x.saturating_add(1), y));
        }
        if link.is_some() {
            self.output.push_str("\x1b]8;;\x1b\\");
        }
        if look.is_some() {
            self.output.push_str("\x1b[0m");
        }
        self.links = links;
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.output.push_str("\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.output.push_str("\x1b[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // The terminal is never queried.
        Ok(self.cursor)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.cursor = position.into();
        self.put(format_args!("\x1b[{};{}H", self.cursor.y + 1, self.cursor.x + 1));
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.output.push_str(match clear_type {
            ClearType::All => "\x1b[2J",
            ClearType::AfterCursor => "\x1b[J",
            ClearType::BeforeCursor => "\x1b[1J",
            ClearType::CurrentLine => "\x1b[2K",
            ClearType::UntilNewLine => "\x1b[K",
        });
        Ok(())
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

fn push_symbol(symbol: &str, out: &mut String) {
    if symbol.chars().any(char::is_control) {
        debug_assert!(false, "a control character would reach the terminal: {symbol:?}");
        out.extend(symbol.chars().map(|sign| if sign.is_control() { '\u{fffd}' } else { sign }));
    } else {
        out.push_str(if symbol.is_empty() { " " } else { symbol });
    }
}

/// Appends the SGR sequence for a cell's style, independent of the previous style.
fn push_style(cell: &Cell, out: &mut String) {
    const STYLES: [(Modifier, &str); 9] = [
        (Modifier::BOLD, ";1"),
        (Modifier::DIM, ";2"),
        (Modifier::ITALIC, ";3"),
        (Modifier::UNDERLINED, ";4"),
        (Modifier::SLOW_BLINK, ";5"),
        (Modifier::RAPID_BLINK, ";6"),
        (Modifier::REVERSED, ";7"),
        (Modifier::HIDDEN, ";8"),
        (Modifier::CROSSED_OUT, ";9"),
    ];
    out.push_str("\x1b[0");
    for (style, parameter) in STYLES {
        if cell.modifier.contains(style) {
            out.push_str(parameter);
        }
    }
    push_color(cell.fg, 30, out);
    push_color(cell.bg, 40, out);
    // Underlines support only these two forms of color.
    if matches!(cell.underline_color, Color::Indexed(_) | Color::Rgb(..)) {
        push_color(cell.underline_color, 50, out);
    }
    out.push('m');
}

/// Appends the SGR parameter of a color. `base` is 30 for the foreground, 40 for the background and 50 for the underline.
fn push_color(color: Color, base: u16, out: &mut String) {
    let named = |index: u16| if index < 8 { base + index } else { base + 60 + index - 8 };
    let wrote = match color {
        Color::Reset => Ok(()),
        Color::Black => write!(out, ";{}", named(0)),
        Color::Red => write!(out, ";{}", named(1)),
        Color::Green => write!(out, ";{}", named(2)),
        Color::Yellow => write!(out, ";{}", named(3)),
        Color::Blue => write!(out, ";{}", named(4)),
        Color::Magenta => write!(out, ";{}", named(5)),
        Color::Cyan => write!(out, ";{}", named(6)),
        Color::Gray => write!(out, ";{}", named(7)),
        Color::DarkGray => write!(out, ";{}", named(8)),
        Color::LightRed => write!(out, ";{}", named(9)),
        Color::LightGreen => write!(out, ";{}", named(10)),
        Color::LightYellow => write!(out, ";{}", named(11)),
        Color::LightBlue => write!(out, ";{}", named(12)),
        Color::LightMagenta => write!(out, ";{}", named(13)),
        Color::LightCyan => write!(out, ";{}", named(14)),
        Color::White => write!(out, ";{}", named(15)),
        Color::Indexed(index) => write!(out, ";{};5;{index}", base + 8),
        Color::Rgb(red, green, blue) => write!(out, ";{};2;{red};{green};{blue}", base + 8),
    };
    wrote.expect("a string takes all");
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ratatui::Terminal;
    use ratatui::style::{Style, Stylize};
    use ratatui::text::{Line, Span};

    use super::*;

    fn terminal() -> Terminal<CellBackend> {
        Terminal::new(CellBackend::new(Size::new(20, 3))).unwrap()
    }

    fn taken(terminal: &mut Terminal<CellBackend>) -> String {
        let output = terminal.backend().output().replace('\x1b', "^");
        terminal.backend_mut().clear_output();
        output
    }

    #[test]
    fn only_what_changed_is_drawn_with_its_look() {
        let mut terminal = terminal();
        let line = |last: &'static str| {
            Line::from(vec![Span::raw("ok "), "red".red().bold(), " 漢字".into(), last.into()])
        };
        terminal.draw(|frame| frame.render_widget(line("1"), frame.area())).unwrap();
        expect!["^[1;1H^[0mok^[1;4H^[0;1;31mred^[1;8H^[0m漢^[1;10H字^[1;12H1^[0m^[?25l"]
            .assert_eq(&taken(&mut terminal));
        terminal.draw(|frame| frame.render_widget(line("2"), frame.area())).unwrap();
        expect!["^[1;12H^[0m2^[0m^[?25l"].assert_eq(&taken(&mut terminal));
    }

    #[test]
    fn colors_are_those_of_the_cell() {
        let mut out = String::new();
        let style = Style::new().fg(Color::DarkGray).bg(Color::Indexed(200)).underlined();
        let mut cell = Cell::EMPTY;
        push_style(cell.set_style(style.underline_color(Color::Rgb(1, 2, 3))), &mut out);
        assert_eq!(out, "\x1b[0;4;90;48;5;200;58;2;1;2;3m");
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
        expect![["^[1;1H^[0mabcdef^[0m^[?25l^[1;3H^]8;;https://a.example/^\\^[0mcd^]8;;^\\^[0m"]]
            .assert_eq(&draw("https://a.example/"));
        expect!["^[?25l"].assert_eq(&draw("https://a.example/"));
        for bad in ["file:///etc/passwd", "https://a/\x1b]52;c;aGk=\x07", "https://a b", "javascript:1"] {
            draw("https://a.example/");
            assert_eq!(draw(bad), "^[?25l^[1;3H^[0mcd^[0m", "{bad:?}");
        }
    }

    #[test]
    #[should_panic(expected = "a control character would reach the terminal")]
    fn a_control_character_does_not_get_through() {
        let mut out = String::new();
        push_symbol("\x1b", &mut out);
    }
}
