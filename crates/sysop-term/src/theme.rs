//! Colors by meaning. Each meaning that a color conveys is also conveyed by a sign, a word or the weight of the text.

use ratatui::style::{Color, Modifier, Style};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ThemeName {
    #[default]
    Dark,
    Light,
    /// The terminal's own palette.
    Terminal,
    None,
}

impl ThemeName {
    /// All themes, in the order in which users cycle through them.
    pub const ALL: [Self; 4] = [Self::Dark, Self::Light, Self::Terminal, Self::None];

    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == word)
    }

    /// Returns the name used in config files and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Terminal => "terminal",
            Self::None => "none",
        }
    }
}

/// A user's choice of the theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThemeChoice {
    Named(ThemeName),
    /// The theme that fits the background of the terminal.
    Auto,
}

impl ThemeChoice {
    /// All choices, in the order of the list.
    pub const ALL: [Self; 5] = [
        Self::Named(ThemeName::Dark),
        Self::Named(ThemeName::Light),
        Self::Named(ThemeName::Terminal),
        Self::Named(ThemeName::None),
        Self::Auto,
    ];

    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.as_str() == word)
    }

    /// Returns the name to type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Named(name) => name.as_str(),
            Self::Auto => "auto",
        }
    }
}

/// Meaning of a piece of text, which determines its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StyleRole {
    Text,
    /// Less important text: gutters, counts, hints.
    Dim,
    Strong,
    Title,
    /// A user's prompt, which has its own background if there are colors.
    Prompt,
    /// Signs that guide the eye, such as those before a prompt or an answer.
    Sign,
    Chosen,
    /// A match of a search, except the current one.
    Found,
    Good,
    Bad,
    Warn,
    Code,
    Link,
    /// The part of a command that a finding refers to.
    Marked,
    Added,
    AddedPart,
    Removed,
    RemovedPart,
    /// In code: a comment.
    Comment,
    /// In code: a keyword.
    Keyword,
    /// In code: a string.
    String,
    /// In code: a number or a constant.
    Number,
    /// In code: a called function.
    Function,
    /// In code: a type.
    Type,
    /// In code: a variable or an expansion.
    Variable,
    /// In code: the name of a value.
    Key,
    /// In code: a section, attribute or directive.
    Meta,
    /// In code: an operator.
    Operator,
}

impl StyleRole {
    pub const ALL: [Self; 28] = [
        Self::Text,
        Self::Dim,
        Self::Strong,
        Self::Title,
        Self::Prompt,
        Self::Sign,
        Self::Chosen,
        Self::Found,
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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Theme {
    pub name: ThemeName,
}

impl Theme {
    pub fn new(name: ThemeName) -> Self {
        Self { name }
    }

    pub fn style(self, role: StyleRole) -> Style {
        match self.name {
            ThemeName::Dark => dark(role),
            ThemeName::Light => light(role),
            ThemeName::Terminal => terminal(role),
            ThemeName::None => none(role),
        }
    }

    /// Returns true if the theme has colors.
    pub fn color(self) -> bool {
        self.name != ThemeName::None
    }
}

const fn fg(color: u8) -> Style {
    Style::new().fg(Color::Indexed(color))
}

const fn on(color: u8, ground: u8) -> Style {
    fg(color).bg(Color::Indexed(ground))
}

// Uses only colors from 16 on, which no palette changes.
fn dark(role: StyleRole) -> Style {
    match role {
        StyleRole::Text | StyleRole::Operator => Style::new(),
        StyleRole::Strong => Style::new().add_modifier(Modifier::BOLD),
        StyleRole::Dim | StyleRole::Comment => fg(246),
        StyleRole::Title => fg(117).add_modifier(Modifier::BOLD),
        StyleRole::Prompt => on(255, 236),
        StyleRole::Sign => fg(117).add_modifier(Modifier::BOLD),
        StyleRole::Chosen => on(231, 24).add_modifier(Modifier::BOLD),
        StyleRole::Found => fg(221).add_modifier(Modifier::UNDERLINED),
        StyleRole::Good | StyleRole::Added => fg(114),
        StyleRole::Bad | StyleRole::Removed => fg(210),
        StyleRole::Warn => fg(221),
        StyleRole::Code => fg(180),
        StyleRole::Link => fg(111).add_modifier(Modifier::UNDERLINED),
        StyleRole::Marked => on(231, 124).add_modifier(Modifier::BOLD.union(Modifier::UNDERLINED)),
        StyleRole::AddedPart => on(231, 22).add_modifier(Modifier::BOLD),
        StyleRole::RemovedPart => on(231, 88).add_modifier(Modifier::BOLD),
        StyleRole::Keyword => fg(141),
        StyleRole::String => fg(150),
        StyleRole::Number => fg(215),
        StyleRole::Function | StyleRole::Key => fg(117),
        StyleRole::Type => fg(222),
        StyleRole::Variable => fg(180),
        StyleRole::Meta => fg(176),
    }
}

fn light(role: StyleRole) -> Style {
    match role {
        StyleRole::Text | StyleRole::Operator => Style::new(),
        StyleRole::Strong => Style::new().add_modifier(Modifier::BOLD),
        StyleRole::Dim | StyleRole::Comment => fg(240),
        StyleRole::Title => fg(24).add_modifier(Modifier::BOLD),
        StyleRole::Prompt => on(233, 254),
        StyleRole::Sign => fg(24).add_modifier(Modifier::BOLD),
        StyleRole::Chosen => on(16, 153).add_modifier(Modifier::BOLD),
        StyleRole::Found => fg(94).add_modifier(Modifier::UNDERLINED),
        StyleRole::Good | StyleRole::Added => fg(22),
        StyleRole::Bad | StyleRole::Removed => fg(124),
        StyleRole::Warn => fg(94),
        StyleRole::Code => fg(88),
        StyleRole::Link => fg(25).add_modifier(Modifier::UNDERLINED),
        StyleRole::Marked => on(231, 124).add_modifier(Modifier::BOLD.union(Modifier::UNDERLINED)),
        StyleRole::AddedPart => on(16, 157).add_modifier(Modifier::BOLD),
        StyleRole::RemovedPart => on(16, 224).add_modifier(Modifier::BOLD),
        StyleRole::Keyword => fg(91),
        StyleRole::String => fg(22),
        StyleRole::Number => fg(94),
        StyleRole::Function | StyleRole::Key => fg(24),
        StyleRole::Type => fg(23),
        StyleRole::Variable => fg(88),
        StyleRole::Meta => fg(90),
    }
}

fn terminal(role: StyleRole) -> Style {
    let style = Style::new();
    match role {
        StyleRole::Text | StyleRole::Operator => style,
        StyleRole::Strong => style.add_modifier(Modifier::BOLD),
        StyleRole::Dim | StyleRole::Comment => style.add_modifier(Modifier::DIM),
        StyleRole::Title | StyleRole::Sign => style.fg(Color::Cyan).add_modifier(Modifier::BOLD),
        StyleRole::Prompt => style.add_modifier(Modifier::BOLD),
        StyleRole::Chosen => style.add_modifier(Modifier::REVERSED),
        StyleRole::Found => style.fg(Color::Yellow).add_modifier(Modifier::UNDERLINED),
        StyleRole::Good | StyleRole::Added | StyleRole::String => style.fg(Color::Green),
        StyleRole::Bad | StyleRole::Removed => style.fg(Color::Red),
        StyleRole::Warn | StyleRole::Number => style.fg(Color::Yellow),
        StyleRole::Code | StyleRole::Function | StyleRole::Key => style.fg(Color::Cyan),
        StyleRole::Link => style.fg(Color::Blue).add_modifier(Modifier::UNDERLINED),
        StyleRole::Marked => style.fg(Color::Red).add_modifier(Modifier::BOLD.union(Modifier::REVERSED)),
        StyleRole::AddedPart => style.fg(Color::Green).add_modifier(Modifier::REVERSED),
        StyleRole::RemovedPart => style.fg(Color::Red).add_modifier(Modifier::REVERSED),
        StyleRole::Keyword | StyleRole::Meta => style.fg(Color::Magenta),
        StyleRole::Type => style.fg(Color::Yellow),
        StyleRole::Variable => style.fg(Color::Blue),
    }
}

fn none(role: StyleRole) -> Style {
    let style = Style::new();
    match role {
        StyleRole::Dim | StyleRole::Comment => style.add_modifier(Modifier::DIM),
        StyleRole::Strong
        | StyleRole::Title
        | StyleRole::Prompt
        | StyleRole::Sign
        | StyleRole::Bad
        | StyleRole::Warn
        | StyleRole::Keyword => style.add_modifier(Modifier::BOLD),
        StyleRole::Chosen => style.add_modifier(Modifier::REVERSED),
        StyleRole::Link | StyleRole::Found => style.add_modifier(Modifier::UNDERLINED),
        StyleRole::Marked => style.add_modifier(Modifier::BOLD.union(Modifier::REVERSED)),
        StyleRole::AddedPart | StyleRole::RemovedPart => style.add_modifier(Modifier::REVERSED),
        StyleRole::Code => style.add_modifier(Modifier::BOLD),
        StyleRole::Text
        | StyleRole::Good
        | StyleRole::Added
        | StyleRole::Removed
        | StyleRole::String
        | StyleRole::Number
        | StyleRole::Function
        | StyleRole::Type
        | StyleRole::Variable
        | StyleRole::Key
        | StyleRole::Meta
        | StyleRole::Operator => style,
    }
}
