//! The animated picture for the README: pictures of the TUI, one after the other, in one SVG.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::workspace::root;

/// Pictures in the order in which they are shown, each with its duration in seconds.
const FRAMES: [(&str, u32); 4] = [("review", 5), ("live", 3), ("danger", 6), ("answer", 7)];
/// Index of the picture shown to people who prefer reduced motion.
const STILL: usize = 2;
const TOUR_BYTES_MAX: usize = 150 * 1024;

/// Writes `docs/pictures/tour.svg` from the pictures in the same directory.
pub(super) fn write() -> Result<()> {
    let folder = root().join("docs/pictures");
    let mut frames = Vec::new();
    for (name, seconds) in FRAMES {
        let path = folder.join(format!("{name}.svg"));
        let picture = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        frames.push((picture, seconds));
    }
    let tour = compose(&frames)?;
    if tour.len() > TOUR_BYTES_MAX {
        bail!("the tour is too large ({} bytes)", tour.len());
    }
    let path = folder.join("tour.svg");
    fs::write(&path, tour).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("    {}: the pictures one after the other", path.display());
    Ok(())
}

/// Joins pictures that have the same size and style.
fn compose(frames: &[(String, u32)]) -> Result<String> {
    let total: u32 = frames.iter().map(|(_, seconds)| seconds).sum();
    let (head, _) = parts(frames.first().map(|(picture, _)| picture.as_str()).unwrap_or_default())?;
    let mut rules = String::new();
    let mut bodies = String::new();
    let mut begin = 0;
    for (index, (picture, seconds)) in frames.iter().enumerate() {
        let (other, body) = parts(picture)?;
        if other != head {
            bail!("picture {index} has another size or style than the first; take all pictures again");
        }
        let percent = |second: u32| f64::from(second) * 100.0 / f64::from(total);
        let end = begin + seconds;
        write!(
            rules,
            "    .frame{index} {{ animation-name: frame{index}; }}\n    @keyframes frame{index} {{ "
        )?;
        if begin > 0 {
            write!(rules, "0% {{ visibility: hidden; }} ")?;
        }
        write!(rules, "{:.2}% {{ visibility: visible; }} ", percent(begin))?;
        if end < total {
            write!(rules, "{:.2}% {{ visibility: hidden; }} ", percent(end))?;
        }
        rules.push_str("}\n");
        writeln!(bodies, "<g class=\"frame frame{index}\">{body}</g>")?;
        begin = end;
    }
    let (open, style) = head;
    Ok(format!(
        "{open}<style>{style}    .frame {{ visibility: hidden; animation: {total}s steps(1) infinite; }}\n{rules}    \
         @media (prefers-reduced-motion: reduce) {{ .frame {{ animation: none; }} .frame{STILL} {{ visibility: visible; }} \
         }}\n  </style>\n{bodies}</svg>\n"
    ))
}

/// Splits a picture into its head (beginning and style) and its content.
fn parts(picture: &str) -> Result<((&str, &str), &str)> {
    let split = || {
        let (open, rest) = picture.split_once("<style>")?;
        let (style, rest) = rest.split_once("</style>")?;
        let (body, _) = rest.rsplit_once("</svg>")?;
        Some(((open, style), body.trim()))
    };
    split().context("a picture has an unexpected form")
}

#[cfg(test)]
mod tests {
    use super::compose;

    #[test]
    fn pictures_are_shown_one_after_the_other() {
        let picture =
            |text: &str| format!("<svg a=\"1\"><style>\n.x {{}}\n</style>\n<svg>{text}</svg>\n</svg>\n");
        let tour = compose(&[(picture("one"), 1), (picture("two"), 3)]).unwrap();
        assert!(tour.starts_with("<svg a=\"1\"><style>\n.x {}\n") && tour.ends_with("</svg>\n"), "{tour}");
        assert!(
            tour.contains(
                "@keyframes frame0 { 0.00% { visibility: visible; } 25.00% { visibility: hidden; } }"
            )
        );
        assert!(
            tour.contains("@keyframes frame1 { 0% { visibility: hidden; } 25.00% { visibility: visible; } }")
        );
        assert_eq!(tour.matches("<svg").count(), tour.matches("</svg>").count());
        assert!(compose(&[(picture("one"), 1), (picture("two").replace("a=", "b="), 3)]).is_err());
    }
}
