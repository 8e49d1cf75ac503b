//! `sed -i` and `patch`.

use super::effective::{EffectiveCommand, SplitArguments, split};
use super::probe::{FILES, ProbeClass, Records, Section};
use super::report::{Report, counted, diff_counts, names, number};
use super::scan::{Reason, RedirectKind, Word};
use super::{Planned, View};
use crate::programs::only_edits_stream;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StreamEdit {
    suffix: Option<String>,
}

/// Runs `edit`, which the caller must define, on each file, and prints the difference between the file and the output.
/// The arguments are the files.
const EDIT: &str = r#"
x=; sed --sandbox -n p </dev/null && x=--sandbox
n=0
for p do
if [ ! -f "$p" ]; then r special "$p"; continue; fi
n=$((n+1)); [ $n -gt 200 ] && { r many $n; exit; }
[ -r "$p" ] || { r unreadable "$p"; continue; }
if [ "$(stat -Lc %s "$p")" -gt 1048576 ] || ! tr -d '\000' <"$p" | cmp -s - "$p"; then r large "$p"; continue; fi
r file "$p"
printf 'diff\0'; { edit "$p" || printf '!failed\n' >&3; } 3>&1 | diff -U 1 "$p" - | tail -n +3 | head -c 65536 | tr -d '\000'; printf '\0'
done
command -v diff >/dev/null || r failed 'diff is not installed'
"#;

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let (arguments, suffix, in_place) = without_in_place(&command.arguments)?;
    let long = [
        "expression=", "regexp-extended", "quiet", "silent", "separate", "null-data", "line-length=", "posix",
    ];
    let found = split(&arguments, "Ernsuz", "el", &long)?;
    if !in_place {
        return Ok(Planned::Nothing);
    }
    let mut operands = found.operands.clone();
    let mut scripts: Vec<Word> = values(&found, &["e", "-expression"]);
    if scripts.is_empty() {
        if operands.is_empty() {
            return Ok(Planned::Nothing);
        }
        scripts.push(operands.remove(0));
    }
    // Busybox reads a script with the flags before it.
    let mut options = String::new();
    for (name, flag) in [
        ("E", "-E"),
        ("r", "-E"),
        ("-regexp-extended", "-E"),
        ("n", "-n"),
        ("-quiet", "-n"),
        ("-silent", "-n"),
        ("z", "-z"),
        ("-null-data", "-z"),
    ] {
        if found.has(&[name]) {
            options.push_str(&format!(" {flag}"));
        }
    }
    for script in &scripts {
        let text = script.literal().ok_or("the script is not known before the command runs")?;
        if !(only_edits_stream(&text) || only_inserts(&text)) {
            return Err("the script may run programs or write files".to_owned());
        }
        options.push_str(&format!(" -e {}", script.source()));
    }
    // The options are quoted literals that were checked above.
    let edit = format!("edit() {{ sed $x{options} -- \"$1\"; }}\n");
    let view = StreamEdit { suffix };
    let body = format!("{FILES}{edit}{EDIT}");
    Planned::probe(Section::new(body, View::StreamEdit(view)).with_words(operands))
}

fn values(found: &SplitArguments, names: &[&str]) -> Vec<Word> {
    let all = found.options.iter().filter(|(name, _)| names.contains(&name.as_str()));
    all.filter_map(|(_, value)| value.clone()).collect()
}

/// Removes `-i`, `-iSUFFIX` and `--in-place` from the arguments, also in groups such as `-ni`.
fn without_in_place(arguments: &[Word]) -> Result<(Vec<Word>, Option<String>, bool), Reason> {
    let (mut rest, mut suffix, mut found) = (Vec::new(), None, false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.literal().unwrap_or_default();
        if text == "--" {
            rest.push(word.clone());
            rest.extend(words.cloned());
            break;
        }
        if matches!(text.as_str(), "-e" | "--expression" | "-f" | "-l") {
            rest.push(word.clone());
            rest.extend(words.next().cloned());
        } else if let Some(after) = text.strip_prefix("--in-place") {
            found = true;
            suffix = after.strip_prefix('=').map(str::to_owned).or(suffix);
        } else if text.starts_with('-')
            && !text.starts_with("--")
            && !text.starts_with("-e")
            && text.contains('i')
        {
            let (before, after) = text.split_once('i').ok_or("the options are not recognized")?;
            found = true;
            if !after.is_empty() {
                suffix = Some(after.to_owned());
            }
            if before.len() > 1 {
                rest.push(Word::of(before));
            }
        } else {
            rest.push(word.clone());
        }
    }
    Ok((rest, suffix, found))
}

/// Returns true for `ADDRESS a TEXT`, `i` and `c`, which take the rest of the line as text.
fn only_inserts(script: &str) -> bool {
    if script.contains('\n') {
        return false;
    }
    let rest = match script.strip_prefix('/') {
        Some(pattern) => match pattern.split_once('/') {
            // A backslash or a bracket could hide the end of the pattern.
            Some((pattern, rest)) if !pattern.contains(['\\', '[']) => rest,
            Some(_) | None => return false,
        },
        None => script
            .strip_prefix('$')
            .unwrap_or_else(|| script.trim_start_matches(|c: char| c.is_ascii_digit())),
    };
    let rest = rest.trim_start_matches([' ', '!']);
    rest.starts_with(['a', 'i', 'c']) && rest.len() > 1
}

impl StreamEdit {
    pub(super) fn report(&self, records: &Records) -> Result<Report, Reason> {
        if let Some(path) = records.first("large").or_else(|| records.first("unreadable")) {
            return Err(format!("{} cannot be compared", super::report::name(path)));
        }
        let (mut diff, mut edited) = (Vec::new(), Vec::new());
        let (mut files, mut removed, mut added) = (0, 0, 0);
        for (path, text) in records.all("file").zip(records.all("diff")) {
            if text.len() >= 65_536 {
                return Err("the change is too large to show".to_owned());
            }
            if text.lines().any(|line| line == "+!failed") {
                return Ok("fails: sed rejects the script".to_owned().into());
            }
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if lines.is_empty() {
                continue;
            }
            files += 1;
            edited.push(path);
            let (minus, plus) = diff_counts(&lines);
            (removed, added) = (removed + minus, added + plus);
            diff.push(format!("--- {}", super::report::name(path)));
            diff.extend(lines);
        }
        let all = records.all("file").count() as u64;
        let mut notes = vec![match files {
            0 if all == 0 => "changes nothing".to_owned(),
            0 => format!("changes nothing in {}", names(records.all("file"))),
            _ => format!(
                "edits {} of {} ({}): +{} −{} lines",
                number(files),
                counted(all, "file"),
                names(edited.into_iter()),
                number(added),
                number(removed)
            ),
        }];
        if let Some(suffix) = self.suffix.as_deref().filter(|_| all > 0) {
            notes.push(format!("keeps backups *{}", super::report::name(suffix)));
        }
        if records.has("missing") {
            notes.push(format!("fails for {}: does not exist", names(records.all("missing"))));
        }
        if records.has("special") {
            notes.push(format!("fails for {}: not a regular file", names(records.all("special"))));
        }
        Ok(Report { summary: notes.join("; "), diff })
    }
}

/// Prints the output of `patch --dry-run`. The arguments are the patch file, then options of `patch`.
const PATCH: &str = r#"
i=$1; shift
command -v patch >/dev/null || { r failed 'patch is not installed'; exit; }
o=$(patch --dry-run -f "$@" -i "$i" 2>&1 | tr -d '\000' | head -c 20000); r out "$o"
"#;

pub(super) fn patch(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let found =
        split(&command.arguments, "fNRE", "pid", &["strip=", "input=", "directory=", "forward", "reverse"])?;
    let input = found.value(&["i", "-input"]).cloned();
    let redirect = command.redirects.iter().find(|redirect| redirect.kind == RedirectKind::Read);
    let input =
        input.or_else(|| redirect.map(|redirect| redirect.target.clone())).ok_or("the input is unknown")?;
    if !input.is_single() || !found.operands.is_empty() {
        return Err("the files are unknown".to_owned());
    }
    let mut words = Vec::new();
    for (names, option) in [(["p", "-strip"], "-p"), (["d", "-directory"], "-d")] {
        if let Some(value) = found.value(&names) {
            let value = value.literal().ok_or("the options are not recognized")?;
            words.push(Word::of(&format!("{option}{value}")));
        }
    }
    for (names, option) in [(["R", "-reverse"], "-R"), (["N", "-forward"], "-N")] {
        if found.has(&names) {
            words.push(Word::of(option));
        }
    }
    let mut section = Section::new(PATCH, View::Patch).with_scalars(vec![input]).with_words(words);
    section.class = ProbeClass::Temporary;
    Planned::probe(section)
}

/// Returns the result of a dry run of `patch`.
pub(super) fn patch_report(records: &Records) -> Result<Report, Reason> {
    let text = records.first("out").ok_or("the patch cannot be tried")?;
    let checked: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("checking file ")).collect();
    let files = checked.len() as u64;
    let rejected =
        text.lines().filter(|line| line.starts_with("Hunk #") && line.contains("FAILED")).count() as u64;
    let fuzzy =
        text.lines().filter(|line| line.starts_with("Hunk #") && line.contains("with fuzz")).count() as u64;
    if files == 0 {
        return Ok("fails: the patch does not apply to any file".to_owned().into());
    }
    let mut notes = vec![format!("patches {}: {}", counted(files, "file"), names(checked.into_iter()))];
    if rejected > 0 {
        notes.push(format!("{} rejected", counted(rejected, "hunk")));
    }
    if fuzzy > 0 {
        notes.push(format!("{} with fuzz", counted(fuzzy, "hunk")));
    }
    Ok(notes.join("; ").into())
}
