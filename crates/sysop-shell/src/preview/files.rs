//! `rm`, `rmdir`, `ln` and `truncate`.

use super::effective::{EffectiveCommand, split};
use super::probe::{FILES, Records, Section};
use super::report::{Report, counted, first_names, name, names, size};
use super::scan::{Reason, Word};
use super::{Planned, View};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TreeCounts {
    pub(super) files: u64,
    pub(super) folders: u64,
    pub(super) links: u64,
    pub(super) others: u64,
    pub(super) bytes: u64,
    /// True if a part of the tree could not be read.
    pub(super) is_partial: bool,
}

impl TreeCounts {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        Some(Self {
            files: next()?,
            folders: next()?,
            links: next()?,
            others: next()?,
            bytes: next()?,
            is_partial: next()? != 0,
        })
    }

    /// Returns the counts in words: `12 files, 2 directories`.
    pub(super) fn text(&self) -> String {
        let parts = [
            (self.files, "file"),
            (self.links, "link"),
            (self.others, "special file"),
            (self.folders, "directory"),
        ];
        let parts: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, noun)| counted(*count, noun)).collect();
        let least = if self.is_partial { "at least " } else { "" };
        if parts.is_empty() { "nothing".to_owned() } else { format!("{least}{}", parts.join(", ")) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remove {
    is_recursive: bool,
    /// True if empty directories are removed.
    takes_folders: bool,
    /// True if a missing file is not an error.
    is_forced: bool,
    verb: &'static str,
}

const REMOVE: &str = r#"
for p do
if [ -d "$p" ] && [ ! -L "$p" ]; then r folder "$p"; [ -e "$p/.git" ] && r git "$p"; [ $# -le 20 ] && mounts "$p"
if [ "$1" ] && ! find "$p" -mindepth 1 -maxdepth 1 -print -quit 2>/dev/null | grep -q .; then r empty "$p"; fi
fi
done
"#;

const COUNT: &str = r#"[ $# -gt 0 ] && r count "$(tree "$@")"
[ $# -eq 1 ] && r one "$1"
"#;
/// Counts the arguments, without the contents of directories.
const COUNT_SHALLOW: &str = r#"[ $# -gt 0 ] && r count "$(tree "$@" -maxdepth 0)"
[ $# -eq 1 ] && r one "$1"
"#;

pub(super) fn remove(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let long = [
        "recursive",
        "force",
        "verbose",
        "dir",
        "one-file-system",
        "preserve-root",
        "no-preserve-root",
        "interactive=",
        "ignore-fail-on-non-empty",
        "zero",
    ];
    let (flags, valued) = match command.program.as_str() {
        "rm" => ("rRfiIvd", ""),
        "rmdir" => ("v", ""),
        "unlink" => ("", ""),
        _ => ("fuvzx", "ns"),
    };
    let found = split(&command.arguments, flags, valued, &long)?;
    if found.operands.is_empty() {
        return Ok(Planned::Nothing);
    }
    if found.has(&["-one-file-system"]) {
        return Err("`--one-file-system` is not supported in previews".to_owned());
    }
    let view = Remove {
        is_recursive: found.has(&["r", "R", "-recursive"]),
        takes_folders: found.has(&["d", "-dir"]) || command.program == "rmdir",
        is_forced: found.has(&["f", "-force"]) && command.program == "rm",
        verb: if command.program == "shred" { "overwrites" } else { "removes" },
    };
    let count = if view.is_recursive { COUNT } else { COUNT_SHALLOW };
    let section = Section::new(format!("{FILES}{REMOVE}{count}"), View::Remove(view));
    Planned::probe(section.with_words(found.operands))
}

/// Names the first of `count` operands after a colon. Empty if none is known.
pub(super) fn objects<'a>(known: impl Iterator<Item = &'a str>, count: u64) -> String {
    let names = first_names(known, count);
    if names.is_empty() { names } else { format!(": {names}") }
}

impl Remove {
    pub(super) fn report(&self, records: &Records) -> Result<Report, Reason> {
        let mut counts = match records.first("count") {
            Some(text) => TreeCounts::parse(text).ok_or("the files cannot be counted")?,
            None => TreeCounts::default(),
        };
        let mut notes: Vec<String> = Vec::new();
        let missing: Vec<&str> = records.all("missing").collect();
        let mut kept: Vec<&str> = Vec::new();
        if !self.is_recursive {
            let (empty, all): (Vec<_>, Vec<_>) =
                (records.all("empty").collect(), records.all("folder").collect());
            let removed = if self.takes_folders { empty.len() as u64 } else { 0 };
            let refused = counts.folders.saturating_sub(removed);
            counts.folders = removed;
            if refused > 0 {
                let why = if self.takes_folders { "is not empty" } else { "is a directory" };
                let refused: Vec<&str> =
                    all.iter().filter(|path| removed == 0 || !empty.contains(path)).copied().collect();
                kept.clone_from(&refused);
                notes.push(format!("fails for {}: {why}", names(refused.into_iter())));
            }
        }
        if !missing.is_empty() && !self.is_forced {
            notes.push(format!("fails for {}: does not exist", names(missing.iter().copied())));
        }
        for mount in records.all("mount").take(2) {
            notes.push(format!("crosses mount {}", name(mount)));
        }
        if let (Some(tree), true) = (records.first("git"), self.is_recursive) {
            notes.push(format!("{} is a git work tree", name(tree)));
        }
        let what = counts.text();
        let is_nothing = what == "nothing";
        let mut text = if is_nothing {
            format!("nothing to {}", self.verb.trim_end_matches('s'))
        } else {
            format!("{} {what}", self.verb)
        };
        if counts.bytes > 0 {
            text.push_str(&format!(", {}", size(counts.bytes)));
        }
        if let (Some(one), true) = (records.first("one"), self.is_recursive && counts.folders > 0) {
            text.push_str(&format!(" in {}", name(one)));
        } else if !is_nothing {
            let operands = records.number("operands").unwrap_or(0).saturating_sub(kept.len() as u64);
            text.push_str(&objects(records.all("at").filter(|path| !kept.contains(path)), operands));
        }
        notes.insert(0, text);
        Ok(notes.join("; ").into())
    }
}

/// Prints the path and the target of a new link, and what exists at that path. The arguments are the target, the path,
/// and `n` if an existing link at the path is not followed.
const LINK: &str = r#"
s=$1 d=$2 k=$3; t=$d
case $t in -*) t=./$t;; esac
if [ -d "$t" ] && { [ "$k" != n ] || [ ! -L "$t" ]; }; then b=${s%/}; t=${t%/}/${b##*/}; fi
r link "$t"; r to "$s"
if [ -L "$t" ]; then r old "$(readlink "$t")"; elif [ -d "$t" ]; then r blocked folder; elif [ -e "$t" ]; then r file "$t"; fi
parent "$t"
"#;

pub(super) fn link(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let found = split(&command.arguments, "sfnvT", "", &["symbolic", "force", "no-dereference", "verbose"])?;
    let [target, at] = found.operands.as_slice() else {
        return Err("the command creates several links".to_owned());
    };
    if !target.is_single() || !at.is_single() {
        return Err("the arguments are not known before the command runs".to_owned());
    }
    let keeps = if found.has(&["n", "T", "-no-dereference"]) { "n" } else { "-" };
    let force = if found.has(&["f", "-force"]) { "f" } else { "-" };
    let words = vec![target.clone(), at.clone(), Word::of(keeps), Word::of(force)];
    let body = format!("{LINK}r force \"$4\"\n");
    Planned::probe(Section::new(body, View::Link).with_scalars(words))
}

pub(super) fn link_report(records: &Records) -> Result<Report, Reason> {
    let (Some(at), Some(to)) = (records.first("link"), records.first("to")) else {
        return Err("the link cannot be read".to_owned());
    };
    if let Some(failure) = records.folder_failure() {
        return Ok(failure.into());
    }
    let (at, to) = (name(at), name(to));
    let is_forced = records.first("force") == Some("f");
    let old = records.first("old").map(name);
    let text = match (old, records.has("file"), is_forced) {
        _ if records.has("blocked") => format!("fails: {at} is a directory"),
        (Some(_), _, false) | (None, true, false) => format!("fails: {at} exists"),
        (Some(old), _, true) => format!("repoints {at}: {old} → {to}"),
        (None, true, true) => format!("replaces the file {at} with a link to {to}"),
        (None, false, _) => format!("links {at} → {to}"),
    };
    Ok(text.into())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Truncate {
    bytes: u64,
    /// True if missing files are created.
    creates: bool,
}

/// Names the arguments that are in no directory.
const UNPLACED: &str = r#"[ $# -gt 2000 ] || for p do case $p in -*) p=./$p;; esac
is "$p" || parent "$p" >/dev/null || r unplaced "$p"; done
"#;

const SIZES: &str = r#"
for p do if [ -f "$p" ]; then r size "$(stat -Lc %s "$p")"; else r special "$p"; fi; done
"#;

pub(super) fn truncate(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let found = split(&command.arguments, "c", "s", &["size=", "no-create"])?;
    let size = found.value(&["s", "-size"]).and_then(Word::literal).ok_or("the size is unknown")?;
    let bytes = parse_size(&size).ok_or("relative sizes are not supported in previews")?;
    let creates = !found.has(&["c", "-no-create"]);
    let view = View::Truncate(Truncate { bytes, creates });
    let section = Section::new(format!("{UNPLACED}{FILES}{SIZES}"), view);
    Planned::probe(section.with_words(found.operands))
}

/// Parses an absolute size such as `0`, `10K` or `1G`.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text.get(digits.len()..)? {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "KB" => 1_000,
        "MB" => 1_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

impl Truncate {
    pub(super) fn report(&self, records: &Records) -> Result<Report, Reason> {
        let sizes: Vec<u64> = records.all("size").filter_map(|text| text.trim().parse().ok()).collect();
        let lost: u64 = sizes.iter().map(|bytes| bytes.saturating_sub(self.bytes)).sum();
        let grown = sizes.iter().filter(|bytes| **bytes < self.bytes).count() as u64;
        let mut notes = Vec::new();
        if lost > 0 {
            let count = sizes.iter().filter(|bytes| **bytes > self.bytes).count() as u64;
            notes.push(format!("drops {} of {}", size(lost), counted(count, "file")));
        }
        if grown > 0 {
            notes.push(format!("grows {} to {}", counted(grown, "file"), size(self.bytes)));
        }
        if let Some(last) = notes.last_mut() {
            last.push_str(&objects(records.all("at"), records.number("operands").unwrap_or(0)));
        }
        let (unplaced, placed): (Vec<_>, Vec<_>) = records
            .all("missing")
            .filter(|_| self.creates)
            .partition(|path| records.all("unplaced").any(|unplaced| unplaced == *path));
        if !placed.is_empty() {
            let count = counted(placed.len() as u64, "file");
            notes.push(format!("creates {count}: {}", names(placed.into_iter())));
        }
        if !unplaced.is_empty() {
            notes.push(format!("fails for {}: the directory does not exist", names(unplaced.into_iter())));
        }
        if let Some(path) = records.first("special") {
            notes.push(format!("{} is not a regular file", name(path)));
        }
        Ok(if notes.is_empty() { "no size changes".to_owned() } else { notes.join("; ") }.into())
    }
}
