//! Colors: they are readable, and no meaning depends on them alone.

use ratatui::style::{Color, Modifier, Style};

use crate::theme::{StyleRole, Theme, ThemeName};

#[expect(clippy::wildcard_enum_match_arm, reason = "the colors that a terminal chooses by itself")]
fn channels(color: Color) -> Option<[f64; 3]> {
    let levels = [0, 95, 135, 175, 215, 255];
    let rgb = match color {
        Color::Indexed(number @ 16..=231) => {
            let at = usize::from(number - 16);
            [levels[at / 36], levels[at / 6 % 6], levels[at % 6]]
        }
        Color::Indexed(number @ 232..) => [8 + 10 * (u32::from(number) - 232); 3],
        Color::Rgb(r, g, b) => [r.into(), g.into(), b.into()],
        _ => return None,
    };
    Some(rgb.map(|channel| f64::from(channel) / 255.0))
}

/// Relative luminance as defined by WCAG 2.
fn luminance(color: Color) -> Option<f64> {
    let linear = |c: f64| if c <= 0.03928 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
    let [r, g, b] = channels(color)?.map(linear);
    Some(0.2126 * r + 0.7152 * g + 0.0722 * b)
}

fn contrast(a: Color, b: Color) -> f64 {
    let (a, b) = (luminance(a).unwrap(), luminance(b).unwrap());
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn every_foreground_is_readable_on_its_background() {
    let grounds = [
        (ThemeName::Dark, [Color::Rgb(0, 0, 0), Color::Rgb(40, 42, 54)]),
        (ThemeName::Light, [Color::Rgb(255, 255, 255), Color::Rgb(253, 246, 227)]),
    ];
    for (name, grounds) in grounds {
        for ink in StyleRole::ALL {
            let style = Theme::new(name).style(ink);
            let Some(text) = style.fg else { continue };
            for ground in style.bg.map_or(grounds.to_vec(), |own| vec![own]) {
                let contrast = contrast(text, ground);
                assert!(contrast >= 4.5, "{name:?} {ink:?}: {contrast:.2}");
            }
        }
    }
}

#[test]
fn only_standard_terminal_colors_are_used() {
    for ink in StyleRole::ALL {
        let style = Theme::new(ThemeName::None).style(ink);
        assert_eq!((style.fg, style.bg), (None, None), "{ink:?}");
        let style = Theme::new(ThemeName::Terminal).style(ink);
        let sixteen = |color: Option<Color>| !matches!(color, Some(Color::Indexed(_) | Color::Rgb(..)));
        assert!(sixteen(style.fg) && sixteen(style.bg), "{ink:?}");
    }
}

#[test]
fn warnings_stand_out_without_colors() {
    let none = Theme::new(ThemeName::None);
    for ink in [
        StyleRole::Marked,
        StyleRole::Warn,
        StyleRole::Bad,
        StyleRole::Link,
        StyleRole::AddedPart,
        StyleRole::RemovedPart,
        StyleRole::Chosen,
    ] {
        assert_ne!(none.style(ink), Style::new(), "{ink:?}");
    }
    assert!(none.style(StyleRole::Link).add_modifier.contains(Modifier::UNDERLINED));
}
