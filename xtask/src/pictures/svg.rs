//! Renders a screen (the output of `tmux capture-pane -e`) as SVG, cell by cell. Supports colors and attributes only.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

/// Size of a cell, and of the margin around the screen, in pixels.
const CELL: (f64, f64) = (8.4, 18.0);
const EDGE: f64 = 14.0;
/// Distance of the baseline from the top of a row, in pixels.
const BASE: f64 = 13.5;
const FONT: &str = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace";
const PAPER: &str = "#16181d";
const INK: &str = "#d7dae0";
const PALETTE: [&str; 16] = [
    "#1f2229", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#c8ccd4", "#5c6370",
    "#ff7a85", "#b5e090", "#ffd68a", "#7cc4ff", "#dd8ff2", "#6fd3e0", "#ffffff",
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct CellStyle {
    ink: Option<String>,
    paper: Option<String>,
    bold: bool,
    dim: bool,
    italic: bool,
    underlined: bool,
    reversed: bool,
    crossed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct StyledRun {
    column: usize,
    columns: usize,
    text: String,
    cell_style: CellStyle,
}

/// Draws a screen of `columns` by `rows`; `cursor` is its position, if visible.
pub(super) fn draw(screen: &str, (columns, rows): (usize, usize), cursor: Option<(usize, usize)>) -> String {
    let (width, height) = (CELL.0 * columns as f64 + 2.0 * EDGE, CELL.1 * rows as f64 + 2.0 * EDGE);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"{FONT}\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAPER}\"/>\n"
    );
    let mut cell_style = CellStyle::default();
    for (row, line) in screen.lines().take(rows).enumerate() {
        for run in runs(line, &mut cell_style) {
            draw_run(&run, row, &mut out);
        }
    }
    if let Some((column, row)) = cursor {
        let (x, y) = (EDGE + CELL.0 * column as f64, EDGE + CELL.1 * row as f64);
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"2\" height=\"{}\" fill=\"{INK}\"/>",
            CELL.1
        );
    }
    out.push_str("</svg>\n");
    out
}

fn draw_run(run: &StyledRun, row: usize, out: &mut String) {
    let cell_style = &run.cell_style;
    let (x, y) = (EDGE + CELL.0 * run.column as f64, EDGE + CELL.1 * row as f64);
    let width = CELL.0 * run.columns as f64;
    let ink = cell_style.ink.clone().unwrap_or_else(|| INK.to_owned());
    let (ink, paper) = if cell_style.reversed {
        (cell_style.paper.clone().unwrap_or_else(|| PAPER.to_owned()), Some(ink))
    } else {
        (ink, cell_style.paper.clone())
    };
    if let Some(paper) = paper {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{paper}\"/>",
            CELL.1
        );
    }
    // A screen is mostly blanks.
    let text = run.text.trim_end();
    let before = text.len() - text.trim_start().len();
    let text = text.trim_start();
    if text.is_empty() && !cell_style.underlined {
        return;
    }
    let columns: usize = text.chars().map(|letter| letter.width().unwrap_or(0)).sum();
    let (x, length) = (x + CELL.0 * before as f64, CELL.0 * columns as f64);
    let mut style = String::new();
    for (is, attribute) in [
        (cell_style.bold, " font-weight=\"bold\""),
        (cell_style.dim, " opacity=\"0.65\""),
        (cell_style.italic, " font-style=\"italic\""),
        (cell_style.underlined, " text-decoration=\"underline\""),
        (cell_style.crossed, " text-decoration=\"line-through\""),
    ] {
        style.push_str(if is { attribute } else { "" });
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{ink}\" textLength=\"{length:.1}\" xml:space=\"preserve\"{style}>{text}</text>",
        y + BASE
    );
}

/// Splits a row into runs of equal style. The style carries over to the next row.
fn runs(line: &str, cell_style: &mut CellStyle) -> Vec<StyledRun> {
    let mut runs: Vec<StyledRun> = Vec::new();
    let (mut column, mut rest) = (0, line);
    while let Some(letter) = rest.chars().next() {
        if let Some(sequence) = rest.strip_prefix("\x1b[") {
            let end = sequence.find(|byte: char| byte.is_ascii_alphabetic()).unwrap_or(sequence.len());
            let (parameters, after) = sequence.split_at(end);
            if after.starts_with('m') {
                apply_sgr(cell_style, parameters);
            }
            rest = after.get(1..).unwrap_or_default();
            continue;
        }
        if rest.starts_with("\x1b]") {
            // A hyperlink.
            rest = rest.split_once("\x1b\\").map_or("", |(_, after)| after);
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        let columns = letter.width().unwrap_or(0);
        match runs.last_mut() {
            // Wide characters and line drawing are positioned one by one, independent of the font.
            Some(last)
                if last.cell_style == *cell_style && is_plain(letter) == last.text.chars().all(is_plain) =>
            {
                last.text.push(letter);
                last.columns += columns;
            }
            _ => runs.push(StyledRun {
                column,
                columns,
                text: letter.to_string(),
                cell_style: cell_style.clone(),
            }),
        }
        column += columns;
    }
    runs
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii()
}

/// Applies the parameters of an SGR sequence.
fn apply_sgr(cell_style: &mut CellStyle, parameters: &str) {
    let mut numbers = parameters.split([';', ':']).map(|number| number.parse::<u16>().unwrap_or(0));
    while let Some(number) = numbers.next() {
        match number {
            0 => *cell_style = CellStyle::default(),
            1 => cell_style.bold = true,
            2 => cell_style.dim = true,
            3 => cell_style.italic = true,
            4 => cell_style.underlined = true,
            7 => cell_style.reversed = true,
            9 => cell_style.crossed = true,
            22 => (cell_style.bold, cell_style.dim) = (false, false),
            23 => cell_style.italic = false,
            24 => cell_style.underlined = false,
            27 => cell_style.reversed = false,
            29 => cell_style.crossed = false,
            30..=37 => cell_style.ink = color(number - 30),
            40..=47 => cell_style.paper = color(number - 40),
            90..=97 => cell_style.ink = color(number - 90 + 8),
            100..=107 => cell_style.paper = color(number - 100 + 8),
            39 => cell_style.ink = None,
            49 => cell_style.paper = None,
            38 => cell_style.ink = extended(&mut numbers),
            48 => cell_style.paper = extended(&mut numbers),
            58 => drop(extended(&mut numbers)),
            _ => {}
        }
    }
}

fn extended(numbers: &mut impl Iterator<Item = u16>) -> Option<String> {
    match numbers.next()? {
        5 => color(numbers.next()?),
        2 => {
            let (red, green, blue) = (numbers.next()?, numbers.next()?, numbers.next()?);
            Some(format!("#{red:02x}{green:02x}{blue:02x}"))
        }
        _ => None,
    }
}

/// Returns a color of the 256-color palette.
fn color(index: u16) -> Option<String> {
    let level = |step: u16| if step == 0 { 0 } else { 55 + 40 * step };
    Some(match index {
        0..=15 => PALETTE[usize::from(index)].to_owned(),
        16..=231 => {
            let cube = index - 16;
            format!("#{:02x}{:02x}{:02x}", level(cube / 36), level(cube / 6 % 6), level(cube % 6))
        }
        232..=255 => {
            let gray = 8 + 10 * (index - 232);
            format!("#{gray:02x}{gray:02x}{gray:02x}")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{CellStyle, color, draw, runs};

    #[test]
    fn rows_are_cut_where_the_look_changes() {
        let mut cell_style = CellStyle::default();
        let row =
            runs("ab \x1b[1;38;5;196mc\x1b]8;;https://x/\x1b\\d\x1b]8;;\x1b\\\x1b[0m漢e", &mut cell_style);
        let parts: Vec<_> = row.iter().map(|run| (run.column, run.columns, run.text.as_str())).collect();
        assert_eq!(parts, [(0, 3, "ab "), (3, 2, "cd"), (5, 2, "漢"), (7, 1, "e")]);
        assert_eq!((row[1].cell_style.ink.as_deref(), row[1].cell_style.bold), (Some("#ff0000"), true));
        assert_eq!(cell_style, CellStyle::default());
    }

    #[test]
    fn a_picture_holds_its_text_and_no_markup_of_it() {
        let svg = draw("<b>&\n\x1b[7mx", (10, 2), Some((1, 1)));
        assert!(svg.contains(">&lt;b&gt;&amp;</text>") && !svg.contains('\x1b'), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 3);
        assert_eq!(color(16).as_deref(), Some("#000000"));
        assert_eq!(color(255).as_deref(), Some("#eeeeee"));
        assert_eq!(color(256), None);
    }
}
