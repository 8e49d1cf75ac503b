//! Styles of program output: colors and attributes of its characters, and no other terminal function.
//!
//! Styles are stored separately from the text, never in it. Readers of the text (a model, an export, a message) see no
//! sequences, and code that draws the text can draw only the styles that a [`TextStyle`] expresses.

use std::fmt::Write as _;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[cfg(test)]
mod tests;

/// Maximum number of style changes in one string. The text after the last change is plain.
pub const STYLE_CHANGES_MAX: usize = 4_096;

/// Style of characters. Attributes that would hide text (concealed, blinking) cannot be expressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextStyle {
    /// Foreground color; `None` for the terminal's default.
    pub foreground: Option<Color>,
    /// Background color; `None` for the terminal's default.
    pub background: Option<Color>,
    attributes: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// Index into the 256-color palette; the first 16 are the named ANSI colors.
    Indexed(u8),
    /// Red, green, blue.
    Rgb(u8, u8, u8),
}

/// Attributes of characters other than color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextAttribute {
    Bold = 1,
    Dim = 2,
    Italic = 4,
    Underlined = 8,
    /// Foreground and background swapped.
    Reversed = 16,
    /// Crossed out.
    Struck = 32,
}

impl TextAttribute {
    /// All attributes, each with its SGR parameter.
    pub const ALL: [(Self, u8); 6] = [
        (Self::Bold, 1),
        (Self::Dim, 2),
        (Self::Italic, 3),
        (Self::Underlined, 4),
        (Self::Reversed, 7),
        (Self::Struck, 9),
    ];
}

impl TextStyle {
    pub const PLAIN: Self = Self { foreground: None, background: None, attributes: 0 };

    /// Returns the default style modified by these SGR parameters.
    pub fn of(parameters: &str) -> Self {
        let mut look = Self::default();
        look.select(parameters);
        look
    }

    /// Returns true if the attribute is set.
    pub fn has(self, mark: TextAttribute) -> bool {
        self.attributes & mark as u8 != 0
    }

    /// Applies the parameters of an SGR sequence (ECMA-48, and ITU T.416 for colors). Unknown parameters are ignored.
    ///
    /// ```
    /// use sysop_core::style::{Color, TextAttribute, TextStyle};
    ///
    /// let mut style = TextStyle::PLAIN;
    /// style.select("1;31");
    /// assert!(style.has(TextAttribute::Bold));
    /// assert_eq!(style.foreground, Some(Color::Indexed(1)));
    /// ```
    pub fn select(&mut self, parameters: &str) {
        let mut groups = parameters.split(';');
        while let Some(group) = groups.next() {
            let mut parts = group.split(':');
            let number = parts.next().map_or(0, number);
            let parts: Vec<&str> = parts.collect();
            match number {
                38 | 48 | 58 => {
                    let color =
                        if parts.is_empty() { semicolon_color(&mut groups) } else { colon_color(&parts) };
                    match (number, color) {
                        (38, Some(color)) => self.foreground = Some(color),
                        (48, Some(color)) => self.background = Some(color),
                        _ => {}
                    }
                }
                // Underline style 0 means no underline.
                4 if parts.first() == Some(&"0") => self.clear_attribute(TextAttribute::Underlined),
                _ => self.apply_parameter(number),
            }
        }
    }

    /// Returns the style, but without its background if it equals the foreground, because that would hide the text.
    pub fn legible(self) -> Self {
        Self { background: self.background.filter(|background| self.foreground != Some(*background)), ..self }
    }

    /// Returns the SGR parameters that select exactly this style after a reset; empty for the default style.
    pub fn to_sgr(self) -> String {
        let mut out = String::new();
        let mut add = |text: std::fmt::Arguments<'_>| {
            let border = if out.is_empty() { "" } else { ";" };
            write!(out, "{border}{text}").expect("writing to a string cannot fail");
        };
        for (mark, number) in TextAttribute::ALL {
            if self.has(mark) {
                add(format_args!("{number}"));
            }
        }
        for (color, base) in [(self.foreground, 30), (self.background, 40)] {
            match color {
                None => {}
                Some(Color::Indexed(index @ 0..8)) => add(format_args!("{}", base + index)),
                Some(Color::Indexed(index @ 8..16)) => add(format_args!("{}", base + 60 + index - 8)),
                Some(Color::Indexed(index)) => add(format_args!("{};5;{index}", base + 8)),
                Some(Color::Rgb(r, g, b)) => add(format_args!("{};2;{r};{g};{b}", base + 8)),
            }
        }
        out
    }

    fn apply_parameter(&mut self, number: u8) {
        match number {
            0 => *self = Self::default(),
            1 => self.set_attribute(TextAttribute::Bold),
            2 => self.set_attribute(TextAttribute::Dim),
            3 => self.set_attribute(TextAttribute::Italic),
            4 | 21 => self.set_attribute(TextAttribute::Underlined),
            7 => self.set_attribute(TextAttribute::Reversed),
            9 => self.set_attribute(TextAttribute::Struck),
            22 => {
                self.clear_attribute(TextAttribute::Bold);
                self.clear_attribute(TextAttribute::Dim);
            }
            23 => self.clear_attribute(TextAttribute::Italic),
            24 => self.clear_attribute(TextAttribute::Underlined),
            27 => self.clear_attribute(TextAttribute::Reversed),
            29 => self.clear_attribute(TextAttribute::Struck),
            30..=37 => self.foreground = Some(Color::Indexed(number - 30)),
            90..=97 => self.foreground = Some(Color::Indexed(number - 90 + 8)),
            40..=47 => self.background = Some(Color::Indexed(number - 40)),
            100..=107 => self.background = Some(Color::Indexed(number - 100 + 8)),
            39 => self.foreground = None,
            49 => self.background = None,
            _ => {}
        }
    }

    fn set_attribute(&mut self, mark: TextAttribute) {
        self.attributes |= mark as u8;
    }

    fn clear_attribute(&mut self, mark: TextAttribute) {
        self.attributes &= !(mark as u8);
    }
}

/// Parses an SGR parameter. An empty one means 0. An invalid one becomes 255, which is undefined and thus ignored.
fn number(text: &str) -> u8 {
    if text.is_empty() { 0 } else { text.parse().unwrap_or(u8::MAX) }
}

fn byte(text: Option<&str>) -> Option<u8> {
    text.and_then(|text| if text.is_empty() { Some(0) } else { text.parse().ok() })
}

/// Parses the color parameters after 38 or 48.
fn semicolon_color<'a>(groups: &mut impl Iterator<Item = &'a str>) -> Option<Color> {
    match byte(groups.next())? {
        5 => byte(groups.next()).map(Color::Indexed),
        2 => Some(Color::Rgb(byte(groups.next())?, byte(groups.next())?, byte(groups.next())?)),
        _ => None,
    }
}

/// Parses a color in colon-separated form, with or without a color space id.
fn colon_color(parts: &[&str]) -> Option<Color> {
    match parts {
        ["5", index, ..] => byte(Some(index)).map(Color::Indexed),
        ["2", _, r, g, b, ..] | ["2", r, g, b] => {
            Some(Color::Rgb(byte(Some(r))?, byte(Some(g))?, byte(Some(b))?))
        }
        _ => None,
    }
}

/// Styles of the text, as runs: the byte offset where each style begins.
///
/// Logged and sent as a list of offsets and SGR parameters, which are validated as strictly as parameters from a
/// program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "Vec<(usize, String)>"))]
pub struct StyleRuns(Vec<(u32, TextStyle)>);

impl StyleRuns {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn changes(&self) -> impl Iterator<Item = (usize, TextStyle)> {
        self.0.iter().map(|(at, look)| (usize::try_from(*at).unwrap_or(usize::MAX), *look))
    }

    /// Starts a run at the byte offset `at`. Offsets must not decrease; a run that begins before the last one is
    /// ignored.
    pub fn begin(&mut self, at: usize, look: TextStyle) {
        let Ok(at) = u32::try_from(at) else { return };
        if self.0.last().is_some_and(|(last, _)| *last >= at) {
            if self.0.last().is_some_and(|(last, _)| *last > at) {
                return;
            }
            self.0.pop();
        }
        let before = self.0.last().map_or_else(TextStyle::default, |(_, look)| *look);
        let look = match self.0.len() {
            full if full >= STYLE_CHANGES_MAX => return,
            // The last free slot ends the styling.
            last if last + 1 == STYLE_CHANGES_MAX => TextStyle::default(),
            _ => look,
        };
        if look != before {
            self.0.push((at, look));
        }
    }

    /// Appends the runs of text that starts at byte `at`. The styles end where the text ends.
    pub fn append(&mut self, at: usize, text: &str, styles: &Self) {
        for (place, look) in styles.changes().filter(|(place, _)| *place <= text.len()) {
            self.begin(at + place, look);
        }
        self.begin(at + text.len(), TextStyle::default());
    }

    /// Splits the text into runs. Offsets outside of the text or inside a character are ignored.
    pub fn runs<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (&'a str, TextStyle)> {
        let mut changes = self.changes().filter(|(at, _)| text.is_char_boundary(*at)).peekable();
        let (mut at, mut look, mut ended) = (0, TextStyle::default(), false);
        std::iter::from_fn(move || {
            while !ended {
                let (piece, next) = match changes.next() {
                    Some((next, then)) if next >= at => (&text[at..next], Some((next, then))),
                    Some(_) => continue,
                    None => (&text[at..], None),
                };
                let shown = (piece, look);
                match next {
                    Some((next, then)) => (at, look) = (next, then),
                    None => ended = true,
                }
                if !shown.0.is_empty() {
                    return Some(shown);
                }
            }
            None
        })
    }
}

impl Serialize for StyleRuns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(at, look)| (at, look.to_sgr())))
    }
}

impl<'de> Deserialize<'de> for StyleRuns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StyleRunsVisitor;

        impl<'de> Visitor<'de> for StyleRunsVisitor {
            type Value = StyleRuns;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of positions and SGR parameters")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<StyleRuns, A::Error> {
                let mut styles = StyleRuns::default();
                while let Some((at, parameters)) = list.next_element::<(usize, String)>()? {
                    styles.begin(at, TextStyle::of(&parameters));
                }
                Ok(styles)
            }
        }

        deserializer.deserialize_seq(StyleRunsVisitor)
    }
}
