//! `mv`, `cp` and `install`.

use super::effective::{EffectiveCommand, split};
use super::files::TreeCounts;
use super::probe::{Records, Section};
use super::report::{Report, counted, diff_counts, name, names, size};
use super::scan::{Reason, Word};
use super::{Planned, View};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transfer {
    moves: bool,
    is_recursive: bool,
    /// True if existing files are not overwritten.
    keeps_existing: bool,
    verb: &'static str,
}

/// Compares each source with the path that it would get. The arguments are the target, a letter for its kind, a letter
/// for the action, then the sources. The first letter is `t` if the target must be a directory that receives the
/// sources, and `T` if it must not be. The second letter is `m` for a move, and `p` for a copy that keeps the
/// directories in the names of the sources.
const TRANSFER: &str = r#"
t=$1 k=$2 m=$3; shift 3
case $t in -*) t=./$t;; esac
[ $# -gt 500 ] && { r many $#; exit; }
text() { [ -f "$1" ] && [ "$(stat -Lc %s "$1")" -le 262144 ] && tr -d '\000' <"$1" | cmp -s - "$1"; }
each() {
s=$1 d=$2
if [ -d "$s" ] && [ ! -L "$s" ]; then
r folder "$s"
if [ -d "$d" ]; then
if [ "$m" = m ]; then if find "$d" -mindepth 1 -maxdepth 1 | grep -q .; then r full "$d"; fi
else
a=$(cd "$d" && pwd -P) && r inside "$(cd "$s" && find . ! -type d -exec sh -c 't=$1; shift; for f do if [ -e "$t/$f" ] || [ -L "$t/$f" ]; then printf x; fi; done' sh "$a" {} + | wc -c)"
fi
elif is "$d"; then r blocked "$d"; fi
elif [ -d "$d" ]; then r blocked "$d"
elif is "$d"; then
if [ "$s" -ef "$d" ]; then r same "$d"; else
r overwrites "$d"
if [ $n -eq 1 ] && text "$s" && text "$d"; then printf 'diff\0'; diff -U 1 "$d" "$s" | tail -n +3 | head -c 65536 | tr -d '\000'; printf '\0'; fi
fi
fi
}
n=0; for s do case $s in -*) s=./$s;; esac; if is "$s"; then n=$((n+1)); else r missing "$s"; fi; done
r sources $n
into=; [ -d "$t" ] && [ "$k" != T ] && into=1
if [ ! "$into" ] && { [ $# -gt 1 ] || [ "$k" = t ] || case $t in */) true;; *) false;; esac; } && { [ $# -gt 1 ] || [ ! -d "$1" ] || [ "$k" = t ]; }; then folder "$t" && r notfolder "$t"; exit; fi
if [ "$into" ]; then r into "$t"; p=$t; else r to "$t"; bare "$t"; parent "$bare" || exit; p=$up; fi
v=$(stat -Lc %d "$p")
for s do case $s in -*) s=./$s;; esac; is "$s" || continue
b=${s%/}; [ "$m" = p ] || b=${b##*/}
if [ "$into" ]; then each "$s" "${t%/}/$b"; else each "$s" "$t"; fi
[ "$(stat -c %d "$s")" = "$v" ] || r across "$s"
if [ "$m" != m ] || [ "$(stat -c %d "$s")" != "$v" ]; then r count "$(tree "$s")"; fi
done
r free "$(df -Pk "$p" | awk 'NR==2{printf "%.0f",$4*1024}')"
"#;

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let long = [
        "force", "verbose", "no-clobber", "recursive", "archive", "target-directory=", "no-target-directory",
        "preserve", "preserve=", "mode=", "owner=", "group=", "parents",
    ];
    let (flags, valued) = match command.program.as_str() {
        "mv" => ("fvnT", "t"),
        "cp" => ("fvnTarRpPdx", "t"),
        _ => ("vTDcpC", "tmog"),
    };
    let found = split(&command.arguments, flags, valued, &long)?;
    if command.program == "install" && found.has(&["D"]) {
        return Err("the command creates directories".to_owned());
    }
    let keeps_existing = found.has(&["n", "-no-clobber"]);
    let (target, sources) = match found.value(&["t", "-target-directory"]) {
        Some(folder) => (folder.clone(), found.operands.as_slice()),
        None => match found.operands.split_last() {
            Some((last, sources)) if !sources.is_empty() => (last.clone(), sources),
            Some(_) | None => return Ok(Planned::Nothing),
        },
    };
    if !target.is_single() {
        return Err("the target is not known before the command runs".to_owned());
    }
    let keeps_folders = found.has(&["-parents"]);
    let is_folder = keeps_folders || found.has(&["t", "-target-directory"]);
    let kind = match (found.has(&["T", "-no-target-directory"]), is_folder) {
        (true, _) => "T",
        (_, true) => "t",
        (false, false) => "-",
    };
    let moves = command.program == "mv";
    let is_recursive = moves || found.has(&["a", "r", "R", "-recursive", "-archive"]);
    let view = Transfer { moves, is_recursive, keeps_existing, verb: if moves { "moves" } else { "copies" } };
    let action = match (moves, keeps_folders) {
        (true, _) => "m",
        (false, true) => "p",
        (false, false) => "c",
    };
    let scalars = vec![target, Word::of(kind), Word::of(action)];
    Planned::probe(
        Section::new(TRANSFER, View::Transfer(view)).with_scalars(scalars).with_words(sources.to_vec()),
    )
}

impl Transfer {
    pub(super) fn report(&self, records: &Records) -> Result<Report, Reason> {
        let sources = records.number("sources").ok_or("the files cannot be read")?;
        let mut notes = Vec::new();
        if let Some(failure) = records.folder_failure() {
            return Ok(failure.into());
        }
        let skipped = if self.is_recursive { 0 } else { records.all("folder").count() as u64 };
        let total =
            records.all("count").filter_map(TreeCounts::parse).fold(TreeCounts::default(), |sum, one| {
                TreeCounts {
                    files: sum.files + one.files,
                    folders: sum.folders + one.folders,
                    links: sum.links + one.links,
                    others: sum.others + one.others,
                    bytes: sum.bytes + one.bytes,
                    is_partial: sum.is_partial || one.is_partial,
                }
            });
        notes.push(self.what(records, sources - skipped.min(sources), &total));
        self.conflicts(records, &mut notes);
        if skipped > 0 {
            notes.push(format!("skips {}", counted(skipped, "directory")));
        }
        if records.has("missing") {
            notes.push(format!("fails for {}: does not exist", names(records.all("missing"))));
        }
        let copies = !self.moves || records.has("across");
        if self.moves && records.has("across") {
            notes.push(format!("copies {} across file systems", size(total.bytes)));
        }
        if let Some(free) = records.number("free").filter(|free| copies && total.bytes > *free) {
            notes.push(format!("will fail: only {} free", size(free)));
        }
        let diff: Vec<String> = match records.first("diff").filter(|_| !self.keeps_existing) {
            Some(text) => text.lines().map(str::to_owned).collect(),
            None => Vec::new(),
        };
        if !diff.is_empty() {
            let (removed, added) = diff_counts(&diff);
            notes.push(format!("+{added} −{removed} lines"));
        } else if records.has("diff") && !self.keeps_existing {
            notes.push("same content".to_owned());
        }
        Ok(Report { summary: notes.join("; "), diff })
    }

    fn what(&self, records: &Records, count: u64, total: &TreeCounts) -> String {
        let verb = self.verb;
        let place = match (records.first("into"), records.first("to")) {
            (Some(folder), _) => format!(" into {}", name(folder)),
            (None, Some(path)) if self.moves => format!(" to {}", name(path)),
            (None, Some(path)) => format!(" as {}", name(path)),
            (None, None) => String::new(),
        };
        if count == 0 {
            return format!("nothing to {}", if self.moves { "move" } else { "copy" });
        }
        if self.moves {
            return format!("{verb} {}{place}", counted(count, "entry"));
        }
        let mut total = *total;
        if !self.is_recursive {
            total.folders = 0;
        }
        let bytes = if total.bytes > 0 { format!(", {}", size(total.bytes)) } else { String::new() };
        format!("{verb} {}{bytes}{place}", total.text())
    }

    fn conflicts(&self, records: &Records, notes: &mut Vec<String>) {
        let inside: u64 = records.all("inside").filter_map(|text| text.trim().parse::<u64>().ok()).sum();
        let overwritten: Vec<&str> = records.all("overwrites").collect();
        let count = overwritten.len() as u64 + if self.is_recursive { inside } else { 0 };
        let verb = if self.keeps_existing { "skips" } else { "overwrites" };
        if inside == 0 && !overwritten.is_empty() {
            notes.push(format!("{verb} {} ({})", counted(count, "file"), names(overwritten.into_iter())));
        } else if count > 0 {
            notes.push(format!("{verb} {}", counted(count, "file")));
        }
        if records.has("full") {
            notes.push(format!("fails for {}: is not empty", names(records.all("full"))));
        }
        if records.has("blocked") {
            notes.push(format!(
                "fails for {}: cannot replace a file with a directory, or a directory with a file",
                names(records.all("blocked"))
            ));
        }
        if records.has("same") {
            notes.push(format!("{} is the same file", names(records.all("same"))));
        }
    }
}
