//! Drawn output in a real terminal emulator: the text measured as N cells takes N cells.

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::{Config, Term};
use alacritty_terminal::vte::ansi::{Processor, StdSyncHandler};
use proptest::prelude::{ProptestConfig, proptest};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::style::Style;

use super::{DARK, NASTY, any_text, buffer};
use crate::cells::{Span, TextRow, width};
use crate::link;
use crate::markdown::MarkdownDocument;

struct Size(usize, usize);

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.1
    }
    fn screen_lines(&self) -> usize {
        self.1
    }
    fn columns(&self) -> usize {
        self.0
    }
}

/// Returns the screen of a terminal that received the changes from each buffer to the next.
fn shown(buffers: &[Buffer]) -> Term<VoidListener> {
    let area = buffers[0].area;
    let size = Size(usize::from(area.width), usize::from(area.height));
    let mut term = Term::new(Config::default(), &size, VoidListener);
    let mut parser = Processor::<StdSyncHandler>::new();
    let mut before = Buffer::empty(area);
    for buffer in buffers {
        let mut bytes = Vec::new();
        CrosstermBackend::new(&mut bytes).draw(before.diff(buffer).into_iter()).unwrap();
        parser.advance(&mut term, &bytes);
        before = buffer.clone();
    }
    term
}

fn compare(buffer: &Buffer, term: &Term<VoidListener>) {
    for y in 0..buffer.area.height {
        let mut x = 0;
        while x < buffer.area.width {
            let (symbol, target) = link::shown(buffer[(x, y)].symbol());
            let cell = &term.grid()[Line(i32::from(y))][Column(usize::from(x))];
            assert_eq!(cell.c, symbol.chars().next().unwrap(), "at {x},{y} of {buffer:?}");
            assert_eq!(cell.hyperlink().map(|link| link.uri().to_owned()).as_deref(), target);
            let wide = width(symbol).max(1);
            assert_eq!(
                cell.flags.contains(Flags::WIDE_CHAR),
                symbol
                    .chars()
                    .next()
                    .is_some_and(|c| { unicode_width::UnicodeWidthChar::width(c) == Some(2) }),
                "{symbol:?}"
            );
            x += u16::try_from(wide).unwrap();
        }
    }
}

fn page(text: &str, columns: u16) -> Buffer {
    let mut buffer = buffer(columns, 12);
    let document = MarkdownDocument::of(text, usize::from(columns), DARK, Style::new());
    for y in 0..12 {
        document.row(usize::from(y)).cloned().unwrap_or_default().draw(&mut buffer, 0, y, columns);
    }
    buffer
}

#[test]
fn computed_widths_match_a_terminal() {
    for nasty in NASTY {
        let mut buffer = buffer(60, 1);
        TextRow::from(vec![Span::new(nasty, Style::new()), Span::new("|end", Style::new())])
            .draw(&mut buffer, 0, 0, 60);
        compare(&buffer, &shown(std::slice::from_ref(&buffer)));
    }
}

#[test]
fn hyperlinks_end_with_their_text() {
    let buffer = page("see https://docs.rs/a_b and 日本 [text](http://x.y/)", 40);
    let term = shown(std::slice::from_ref(&buffer));
    compare(&buffer, &term);
    let leads = |x: &usize| {
        term.grid()[Line(0)][Column(*x)].hyperlink().is_some_and(|link| link.uri().contains("docs"))
    };
    let linked = (0..40).filter(leads).count();
    assert_eq!(linked, "https://docs.rs/a_b".len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn frame_updates_leave_no_remnants(a in any_text(), b in any_text(), columns in 4u16..50) {
        let (first, second) = (page(&a, columns), page(&b, columns));
        compare(&second, &shown(&[first, second.clone()]));
    }
}
