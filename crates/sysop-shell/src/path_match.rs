//! Matches a path as written, including globs, against a list of places.

use super::lexer::UNKNOWN;

/// Characters that make a path component non-literal.
const OPEN: [char; 5] = ['*', '?', '[', '{', UNKNOWN];

/// A path split into components, with the positions at which places are matched against it.
#[derive(Debug)]
pub(super) struct PathParts<'p> {
    parts: Vec<&'p str>,
    /// True if the path starts at the root.
    absolute: bool,
    /// Indexes of the components right below somebody's home directory. Places that begin with `~` are matched from
    /// there.
    homes: Vec<usize>,
    /// True if somebody's home directory may lie below the path.
    above_home: bool,
    /// True if the path contains a glob or an expansion.
    open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// The path may be the place or lie below it.
    Within,
    /// The place may lie below the path. Places that are matched at any depth, like `.git/hooks`, are not considered.
    Above,
}

impl<'p> PathParts<'p> {
    /// Splits a path, which must be lowercase. `home` is the user's home directory.
    pub(super) fn new(path: &'p str, home: Option<&str>) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let absolute = path.starts_with('/');
        let tilde = path.starts_with('~').then_some(1);
        let known = ["/root", "/home/*", "/users/*"];
        let folders = known.into_iter().chain(home).filter(|_| absolute);
        let within = folders.clone().filter(|home| starts_with(&parts, home, component_matches));
        let homes = within.map(|home| components(home).count());
        let homes: Vec<usize> = homes.chain(tilde).collect();
        let above_home = folders.into_iter().any(|home| is_above(&parts, home));
        let open = path.contains(OPEN);
        Self { parts, absolute, homes, above_home, open }
    }

    /// Returns true if the path and `place` have this relation.
    pub(super) fn has(&self, relation: Relation, place: &str) -> bool {
        let literal: fn(&str, &str) -> bool = |part, pattern| covers(pattern, part);
        let (component_matches, specific_component_matches) = match self.open {
            true => (component_matches as fn(&str, &str) -> bool, specific_component_matches as _),
            false => (literal, literal),
        };
        match (relation, place.strip_prefix("~/")) {
            (Relation::Within, _) if place.starts_with('/') => {
                self.absolute && starts_with(&self.parts, place, component_matches)
            }
            (Relation::Within, Some(below)) => {
                self.homes().any(|rest| starts_with(rest, below, component_matches))
            }
            (Relation::Within, None) => {
                let anywhere = (0..self.parts.len()).filter_map(|from| self.parts.get(from..));
                anywhere.into_iter().any(|rest| starts_with(rest, place, specific_component_matches))
                    || place.starts_with('.')
                        && self.homes().any(|rest| starts_with(rest, place, component_matches))
            }
            (Relation::Above, _) if place.starts_with('/') => self.absolute && is_above(&self.parts, place),
            (Relation::Above, below) => {
                let place = below.unwrap_or(place);
                (below.is_some() || place.starts_with('.'))
                    && (self.above_home || self.homes().any(|rest| is_above(rest, place)))
            }
        }
    }

    fn homes(&self) -> impl Iterator<Item = &[&'p str]> {
        self.homes.iter().filter_map(|from| self.parts.get(*from..))
    }
}

fn components(place: &str) -> impl Iterator<Item = &str> {
    place.split('/').filter(|part| !part.is_empty())
}

/// Returns false if the first characters of the path and the place rule out a match. Each path is matched against
/// hundreds of places, and this check decides nearly all of them before they are split into components.
fn begins_alike(parts: &[&str], place: &str) -> bool {
    let Some(wanted) = place.trim_start_matches('/').chars().next() else {
        return true;
    };
    let part = parts.first().and_then(|part| part.chars().next());
    part.is_some_and(|part| [part, '*'].contains(&wanted) || OPEN.contains(&part) || part == '}')
}

fn starts_with(parts: &[&str], place: &str, matches: fn(&str, &str) -> bool) -> bool {
    if !begins_alike(parts, place) {
        return false;
    }
    let mut parts = parts.iter();
    components(place).all(|wanted| parts.next().is_some_and(|part| matches(part, wanted)))
}

fn is_above(parts: &[&str], place: &str) -> bool {
    if !parts.is_empty() && !begins_alike(parts, place) {
        return false;
    }
    let mut wanted = components(place);
    parts.iter().all(|part| wanted.next().is_some_and(|wanted| component_matches(part, wanted)))
}

/// Returns true if a path component, which may contain globs, may match a pattern. No glob matches a leading dot.
fn component_matches(part: &str, pattern: &str) -> bool {
    if part == pattern {
        return true;
    }
    if !part.contains(OPEN) {
        return covers(pattern, part);
    }
    if part.contains(UNKNOWN) && !part.contains(|c: char| c.is_ascii_alphanumeric()) {
        return false;
    }
    if pattern.starts_with('.') && part.starts_with(['*', '?', '[']) {
        return false;
    }
    let part: Vec<char> = part.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    overlaps(&part, &pattern)
}

/// Like [`component_matches`], but for patterns that are matched in any directory. Here `*` alone would match every
/// pattern, so a glob must fix at least two letters or digits of the name, or one if both the name and the pattern
/// begin with a dot. If the pattern begins with `*`, the glob must also fix the end of the name, unless both begin with
/// a dot.
fn specific_component_matches(part: &str, pattern: &str) -> bool {
    if !part.contains(OPEN) {
        return covers(pattern, part);
    }
    if part.contains(UNKNOWN) && pattern.contains('*') {
        return false;
    }
    let literal = part.chars().filter(|c| c.is_ascii_alphanumeric()).count();
    let end = |text: &str| text.rsplit(['*', '?', ']', '}', UNKNOWN]).next().unwrap_or("").len();
    let hidden = pattern.starts_with('.') && part.starts_with('.');
    let telling = hidden && literal > 0 || literal >= 2 && (!pattern.starts_with('*') || end(part) > 0);
    telling && component_matches(part, pattern)
}

/// Returns true if a pattern with `*` matches a literal name.
pub(super) fn covers(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|tail| {
            let mut tails = tail.char_indices().map(|(at, _)| at).chain([tail.len()]);
            tails.any(|at| tail.get(at..).is_some_and(|tail| covers(rest, tail)))
        }),
    }
}

/// Returns true if some name matches both the component and the pattern.
fn overlaps(part: &[char], pattern: &[char]) -> bool {
    let columns = pattern.len() + 1;
    let (mut row, mut next) = (vec![false; columns], vec![false; columns]);
    row[0] = true;
    close(&mut row, pattern);
    let mut at = 0;
    while at < part.len() {
        let (many, used) = step(part, at);
        next.fill(false);
        match many {
            Step::Any => {
                // Any number of characters: marks every position from the first reached one.
                let first = row.iter().position(|hit| *hit).unwrap_or(columns);
                next.iter_mut().skip(first).for_each(|hit| *hit = true);
            }
            Step::One(wanted) => {
                for (index, _) in row.iter().enumerate().filter(|(_, hit)| **hit) {
                    match pattern.get(index) {
                        Some('*') => next[index] = true,
                        Some(c) if wanted.is_none_or(|wanted| wanted == *c) => next[index + 1] = true,
                        Some(_) | None => {}
                    }
                }
            }
        }
        close(&mut next, pattern);
        std::mem::swap(&mut row, &mut next);
        at += used;
    }
    row.last().copied().unwrap_or(false)
}

/// Marks the states that are reached because a `*` in the pattern may match nothing.
fn close(row: &mut [bool], pattern: &[char]) {
    for (index, c) in pattern.iter().enumerate() {
        if *c == '*' && row[index] {
            row[index + 1] = true;
        }
    }
}

enum Step {
    Any,
    One(Option<char>),
}

/// Returns the step for the part of a component that begins at an index, and the length of that part in characters.
fn step(part: &[char], at: usize) -> (Step, usize) {
    match part.get(at) {
        Some('*' | '{' | '}' | &UNKNOWN) | None => (Step::Any, 1),
        Some('?') => (Step::One(None), 1),
        Some('[') => {
            let closing = part.iter().skip(at + 2).position(|c| *c == ']');
            match closing {
                Some(length) => (Step::One(None), length + 3),
                None => (Step::One(Some('[')), 1),
            }
        }
        Some(c) => (Step::One(Some(*c)), 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn a_path_that_begins_otherwise_never_matches(
            path in "[ab.]?[ab.*?\\[\\]{}\0]{0,3}(/[ab*]{1,2})?",
            place in "/?[ab.]?[ab.*]{0,3}(/[ab]{1,2})?",
        ) {
            let parts: Vec<&str> = components(&path).collect();
            let (mut left, mut below) = (parts.iter(), components(&place));
            let within = components(&place).all(|wanted| {
                left.next().is_some_and(|part| component_matches(part, wanted))
            });
            let above = parts.iter().all(|part| {
                below.next().is_some_and(|wanted| component_matches(part, wanted))
            });
            prop_assert!(begins_alike(&parts, &place) || !within && (!above || parts.is_empty()));
        }
    }
}
