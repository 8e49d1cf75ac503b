//! Colours, each with a meaning. No meaning hangs on a colour alone: signs, words or weight tell it too.

use ratatui::style::{Color, Modifier, Style};

/// Which colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ThemeName {
    /// On a dark ground.
    #[default]
    Dark,
    /// On a light ground.
    Light,
    /// Those of the terminal's own palette.
    Terminal,
    /// None.
    None,
}

impl ThemeName {
    /// All, in the order in which a person goes through them.
    pub const ALL: [Self; 4] = [Self::Dark, Self::Light, Self::Terminal, Self::None];

    /// The theme of that word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == word)
    }

    /// The word for it in a config file and on the screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Terminal => "terminal",
            Self::None => "none",
        }
    }
}

/// What a piece of text is, and so how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ink {
    /// Plain text.
    Text,
    /// What matters less: gutters, counts, hints.
    Dim,
    /// Strong text.
    Strong,
    /// Headings and titles.
    Title,
    /// What a person said; has a ground of its own where there are colours.
    Prompt,
    /// Signs that lead the eye: of a prompt, of an answer.
    Sign,
    /// What can be chosen and is.
    Chosen,
    /// Went well.
    Good,
    /// Went wrong.
    Bad,
    /// Needs a look.
    Warn,
    /// Code within text.
    Code,
    /// Text that leads somewhere.
    Link,
    /// The part of a command that a finding is about.
    Marked,
    /// A line that comes.
    Added,
    /// What is new in a line that comes.
    AddedPart,
    /// A line that goes.
    Removed,
    /// What is gone in a line that goes.
    RemovedPart,
    /// In code: a comment.
    Comment,
    /// In code: a word of the language.
    Keyword,
    /// In code: a text.
    String,
    /// In code: a number, or a word that stands for a value.
    Number,
    /// In code: what is called.
    Function,
    /// In code: a type.
    Type,
    /// In code: a variable or an expansion.
    Variable,
    /// In code: the name of a value.
    Key,
    /// In code: sections, attributes, directives.
    Meta,
    /// In code: an operator.
    Operator,
}

impl Ink {
    /// All of them.
    pub const ALL: [Self; 27] = [
        Self::Text,
        Self::Dim,
        Self::Strong,
        Self::Title,
        Self::Prompt,
        Self::Sign,
        Self::Chosen,
        Self::Good,
        Self::Bad,
        Self::Warn,
        Self::Code,
        Self::Link,
        Self::Marked,
        Self::Added,
        Self::AddedPart,
        Self::Removed,
        Self::RemovedPart,
        Self::Comment,
        Self::Keyword,
        Self::String,
        Self::Number,
        Self::Function,
        Self::Type,
        Self::Variable,
        Self::Key,
        Self::Meta,
        Self::Operator,
    ];
}

/// How things look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Theme {
    /// Which colours.
    pub name: ThemeName,
}

impl Theme {
    /// The theme of that name.
    pub fn new(name: ThemeName) -> Self {
        Self { name }
    }

    /// The style of an ink.
    pub fn style(self, ink: Ink) -> Style {
        match self.name {
            ThemeName::Dark => dark(ink),
            ThemeName::Light => light(ink),
            ThemeName::Terminal => terminal(ink),
            ThemeName::None => none(ink),
        }
    }

    /// Whether there are colours at all.
    pub fn colour(self) -> bool {
        self.name != ThemeName::None
    }
}

const fn fg(colour: u8) -> Style {
    Style::new().fg(Color::Indexed(colour))
}

const fn on(colour: u8, ground: u8) -> Style {
    fg(colour).bg(Color::Indexed(ground))
}

// Only colours from 16 on, which no palette changes.
fn dark(ink: Ink) -> Style {
    match ink {
        Ink::Text | Ink::Operator => Style::new(),
        Ink::Strong => Style::new().add_modifier(Modifier::BOLD),
        Ink::Dim | Ink::Comment => fg(246),
        Ink::Title => fg(117).add_modifier(Modifier::BOLD),
        Ink::Prompt => on(255, 236),
        Ink::Sign => fg(117).add_modifier(Modifier::BOLD),
        Ink::Chosen => on(231, 24).add_modifier(Modifier::BOLD),
        Ink::Good | Ink::Added => fg(114),
        Ink::Bad | Ink::Removed => fg(210),
        Ink::Warn => fg(221),
        Ink::Code => fg(180),
        Ink::Link => fg(111).add_modifier(Modifier::UNDERLINED),
        Ink::Marked => on(231, 124).add_modifier(Modifier::BOLD.union(Modifier::UNDERLINED)),
        Ink::AddedPart => on(231, 22).add_modifier(Modifier::BOLD),
        Ink::RemovedPart => on(231, 88).add_modifier(Modifier::BOLD),
        Ink::Keyword => fg(141),
        Ink::String => fg(150),
        Ink::Number => fg(215),
        Ink::Function | Ink::Key => fg(117),
        Ink::Type => fg(222),
        Ink::Variable => fg(180),
        Ink::Meta => fg(176),
    }
}

fn light(ink: Ink) -> Style {
    match ink {
        Ink::Text | Ink::Operator => Style::new(),
        Ink::Strong => Style::new().add_modifier(Modifier::BOLD),
        Ink::Dim | Ink::Comment => fg(240),
        Ink::Title => fg(24).add_modifier(Modifier::BOLD),
        Ink::Prompt => on(233, 254),
        Ink::Sign => fg(24).add_modifier(Modifier::BOLD),
        Ink::Chosen => on(16, 153).add_modifier(Modifier::BOLD),
        Ink::Good | Ink::Added => fg(22),
        Ink::Bad | Ink::Removed => fg(124),
        Ink::Warn => fg(94),
        Ink::Code => fg(88),
        Ink::Link => fg(25).add_modifier(Modifier::UNDERLINED),
        Ink::Marked => on(231, 124).add_modifier(Modifier::BOLD.union(Modifier::UNDERLINED)),
        Ink::AddedPart => on(16, 157).add_modifier(Modifier::BOLD),
        Ink::RemovedPart => on(16, 224).add_modifier(Modifier::BOLD),
        Ink::Keyword => fg(91),
        Ink::String => fg(22),
        Ink::Number => fg(94),
        Ink::Function | Ink::Key => fg(24),
        Ink::Type => fg(23),
        Ink::Variable => fg(88),
        Ink::Meta => fg(90),
    }
}

fn terminal(ink: Ink) -> Style {
    let style = Style::new();
    match ink {
        Ink::Text | Ink::Operator => style,
        Ink::Strong => style.add_modifier(Modifier::BOLD),
        Ink::Dim | Ink::Comment => style.add_modifier(Modifier::DIM),
        Ink::Title | Ink::Sign => style.fg(Color::Cyan).add_modifier(Modifier::BOLD),
        Ink::Prompt => style.add_modifier(Modifier::BOLD),
        Ink::Chosen => style.add_modifier(Modifier::REVERSED),
        Ink::Good | Ink::Added | Ink::String => style.fg(Color::Green),
        Ink::Bad | Ink::Removed => style.fg(Color::Red),
        Ink::Warn | Ink::Number => style.fg(Color::Yellow),
        Ink::Code | Ink::Function | Ink::Key => style.fg(Color::Cyan),
        Ink::Link => style.fg(Color::Blue).add_modifier(Modifier::UNDERLINED),
        Ink::Marked => style.fg(Color::Red).add_modifier(Modifier::BOLD.union(Modifier::REVERSED)),
        Ink::AddedPart => style.fg(Color::Green).add_modifier(Modifier::REVERSED),
        Ink::RemovedPart => style.fg(Color::Red).add_modifier(Modifier::REVERSED),
        Ink::Keyword | Ink::Meta => style.fg(Color::Magenta),
        Ink::Type => style.fg(Color::Yellow),
        Ink::Variable => style.fg(Color::Blue),
    }
}

fn none(ink: Ink) -> Style {
    let style = Style::new();
    match ink {
        Ink::Dim | Ink::Comment => style.add_modifier(Modifier::DIM),
        Ink::Strong | Ink::Title | Ink::Prompt | Ink::Sign | Ink::Bad | Ink::Warn | Ink::Keyword => {
            style.add_modifier(Modifier::BOLD)
        }
        Ink::Chosen => style.add_modifier(Modifier::REVERSED),
        Ink::Link => style.add_modifier(Modifier::UNDERLINED),
        Ink::Marked => style.add_modifier(Modifier::BOLD.union(Modifier::REVERSED)),
        Ink::AddedPart | Ink::RemovedPart => style.add_modifier(Modifier::REVERSED),
        Ink::Code => style.add_modifier(Modifier::BOLD),
        Ink::Text
        | Ink::Good
        | Ink::Added
        | Ink::Removed
        | Ink::String
        | Ink::Number
        | Ink::Function
        | Ink::Type
        | Ink::Variable
        | Ink::Key
        | Ink::Meta
        | Ink::Operator => style,
    }
}
