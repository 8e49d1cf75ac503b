//! `tar -x`, `unzip` and `rsync`.

use super::effective::{EffectiveCommand, split};
use super::probe::{Records, Section};
use super::report::{Report, counted, name, number, size};
use super::scan::{Reason, Word};
use super::{Planned, View};

/// Counts the archive's entries, those with paths outside of the target directory, and those that exist in it. `$a` is
/// the archive and `$d` the target directory; `$creates` is not empty if the program creates that directory.
const TEST: &str = r#"
case $a in -*) a=./$a;; esac
[ -f "$a" ] || { r failed 'the archive does not exist'; exit; }
l=$(list | head -c 4000000) || { r failed 'the archive cannot be read'; exit; }
[ "$l" ] || { r failed 'the archive cannot be read'; exit; }
r from "$a"; r into "$d"
r entries "$(printf '%s\n' "$l" | grep -vc '/$')"
r outside "$(printf '%s\n' "$l" | grep -cE '^/|(^|/)\.\.(/|$)')"
if ! cd -- "$d"; then
if [ "$creates" ] && bare "$d" && ! is "$bare"; then parent "$bare" && r creates "$d"
else folder "$d" && r failed 'the directory cannot be entered'; fi
exit
fi
r existing "$(printf '%s\n' "$l" | grep -v '/$' | { n=0; while IFS= read -r f; do { [ -e "./$f" ] || [ -L "./$f" ]; } && n=$((n+1)); done; echo $n; })"
"#;

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    if command.program == "unzip" {
        let found = split(&command.arguments, "oqnjuaL", "d", &[])?;
        if found.has(&["j", "L"]) || found.operands.len() != 1 {
            return Err("only a part of the archive is extracted".to_owned());
        }
        let folder = found.value(&["d"]).cloned().unwrap_or_else(|| Word::of("."));
        let list = "creates=1\nlist() { unzip -Z1 \"$a\"; }\n";
        return extract(list, found.operands.into_iter().next(), folder);
    }
    // `tar xzf A` has its option letters without a dash.
    let mut arguments = command.arguments.clone();
    if let Some(first) = arguments.first().and_then(Word::literal).filter(|text| !text.starts_with('-')) {
        arguments[0] = Word::of(&format!("-{first}"));
    }
    let long = ["extract", "file=", "directory=", "gzip", "verbose", "bzip2", "xz", "get"];
    let found = split(&arguments, "xzjJvpmPkctu", "fC", &long)?;
    if !found.has(&["x", "-extract", "-get"]) {
        return Ok(Planned::Nothing);
    }
    if !found.operands.is_empty() {
        return Err("only a part of the archive is extracted".to_owned());
    }
    let archive = found.value(&["f", "-file"]).cloned();
    let folder = found.value(&["C", "-directory"]).cloned().unwrap_or_else(|| Word::of("."));
    let kind = ["z", "j", "J"].iter().find(|letter| found.has(&[letter])).map_or("", |letter| letter);
    extract(&format!("creates=\nlist() {{ tar -t{kind}f \"$a\"; }}\n"), archive, folder)
}

fn extract(list: &str, archive: Option<Word>, folder: Word) -> Result<Planned, Reason> {
    let archive = archive.filter(Word::is_single).ok_or("the archive is unknown")?;
    if archive.literal().is_none_or(|text| text == "-" || text.contains(':')) || !folder.is_single() {
        return Err("the archive is unknown".to_owned());
    }
    let body = format!("a=$1 d=$2\n{list}{TEST}");
    let mut section = Section::new(body, View::Archive).with_scalars(vec![archive, folder]);
    section.seconds = 5;
    Planned::probe(section)
}

pub(super) fn report(records: &Records) -> Result<Report, Reason> {
    if let Some(failure) = records.folder_failure() {
        return Ok(failure.into());
    }
    let entries = records.number("entries").ok_or("the archive cannot be read")?;
    let outside = records.number("outside").unwrap_or(0);
    let mut text = format!("extracts {}", counted(entries, "file"));
    if let (Some(archive), Some(folder)) = (records.first("from"), records.first("into")) {
        let folder = if folder == "." { "the current directory".to_owned() } else { name(folder) };
        text.push_str(&format!(" from {} into {folder}", name(archive)));
    }
    let mut notes = vec![text];
    if let Some(existing) = records.number("existing") {
        notes.push(format!("overwrites {}", number(existing)));
    }
    if let Some(folder) = records.first("creates") {
        notes.push(format!("creates the directory {}", name(folder)));
    }
    if outside > 0 {
        notes.push(format!("{} outside of the directory", counted(outside, "name")));
    }
    Ok(notes.join("; ").into())
}

pub(super) fn rsync(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let long = [
        "delete", "delete-after", "delete-before", "delete-during", "archive", "verbose", "exclude=",
        "include=", "recursive", "checksum", "times", "perms", "links", "progress", "stats", "compress",
        "human-readable", "partial", "ignore-existing", "update", "dry-run", "delete-excluded", "force",
        "size-only",
    ];
    let found = split(&command.arguments, "avrlptgoDHAXxuczhqPSn", "", &long)?;
    if found.has(&["n", "-dry-run"]) {
        return Ok(Planned::Nothing);
    }
    // A colon names another host, to which the probe would connect.
    let is_local = |word: &Word| word.is_single() && word.literal().is_some_and(|text| !text.contains(':'));
    if !found.operands.iter().all(is_local) || found.operands.len() < 2 {
        return Err("the command connects to another host".to_owned());
    }
    let mut words = Vec::new();
    for (option, value) in &found.options {
        if matches!(
            option.as_str(),
            "v" | "q" | "P" | "h" | "-verbose" | "-progress" | "-stats" | "-human-readable" | "-partial"
        ) {
            continue;
        }
        let text = match value {
            Some(value) => format!("-{option}={}", value.literal().ok_or("the options are not recognized")?),
            None => format!("-{option}"),
        };
        words.push(Word::of(&text));
    }
    words.push(Word::of("--"));
    for operand in &found.operands {
        words.push(operand.clone());
    }
    let body = r#"
command -v rsync >/dev/null || { r failed 'rsync is not installed'; exit; }
unset RSYNC_RSH RSYNC_PROXY RSYNC_CONNECT_PROG
for p do :; done; r into "$p"; bare "$p"; parent "$bare" || exit
o=$(LC_ALL=C rsync --dry-run --no-motd --out-format=%i%l "$@" 2>/dev/null | tr -d '\000' | awk '/^\*deleting/{d++;next}/^[<>ch]f\+/{n++;b+=substr($0,12);next}/^[<>]f/{c++;b+=substr($0,12)}END{printf "%d %d %d %.0f",n,c,d,b}')
r counts "$o"
"#;
    let mut section = Section::new(body, View::Rsync).with_words(words);
    section.seconds = super::probe::SECONDS_SLOW;
    Planned::probe(section)
}

pub(super) fn rsync_report(records: &Records) -> Result<Report, Reason> {
    if let Some(failure) = records.folder_failure() {
        return Ok(failure.into());
    }
    let counts: Vec<u64> =
        records.first("counts").unwrap_or("").split(' ').filter_map(|text| text.parse().ok()).collect();
    let [new, changed, deleted, bytes] = counts.as_slice() else {
        return Err("rsync did not respond".to_owned());
    };
    let mut notes = Vec::new();
    if *deleted > 0 {
        notes.push(format!("deletes {}", counted(*deleted, "entry")));
    }
    if *new > 0 {
        notes.push(format!("creates {}", counted(*new, "file")));
    }
    if *changed > 0 {
        notes.push(format!("overwrites {}", counted(*changed, "file")));
    }
    if *bytes > 0 {
        notes.push(size(*bytes));
    }
    let text = if notes.is_empty() { "changes no files".to_owned() } else { notes.join("; ") };
    let place = records.first("into").map_or_else(String::new, |folder| format!(" in {}", name(folder)));
    Ok(format!("{text}{place}").into())
}
