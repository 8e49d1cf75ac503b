//! Colours, each with a meaning.

/// Which colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
#[allow(missing_docs)]
impl ThemeName {
    pub const ALL: [Self; 4] = [Self::Dark, Self::Light, Self::Terminal, Self::None];
    pub fn of(n: &str) -> Option<Self> { Self::ALL.into_iter().find(|t| t.as_str() == n) }
    pub fn as_str(self) -> &'static str { match self { Self::Dark => "dark", Self::Light => "light", Self::Terminal => "terminal", Self::None => "none" } }
    pub fn what(self) -> &'static str { "" }
}
