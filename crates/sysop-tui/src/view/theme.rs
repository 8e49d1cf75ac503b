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
