//! The script of a probe, and the records that it prints.
//!
//! A probe prints pairs of a key and a value, each followed by a NUL byte. A value can hold any text that a file name
//! or a program's output can hold, and never looks like a key. The script of a section is constant text; the words of
//! the user's command reach it as `"$@"` only.

use super::View;
use super::effective::RunsAs;
use super::report::name;
use super::scan::{Word, quoted};

/// Extent of a probe's own side effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeClass {
    /// Writes nothing, takes no lock, connects nowhere.
    ReadOnly,
    /// Creates temporary files of its own, or takes read locks.
    Temporary,
    /// Queries a service or a server.
    Network,
}

/// Part of a probe that belongs to one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// Words before `words`, each exactly one word.
    pub(super) scalars: Vec<Word>,
    pub(super) words: Vec<Word>,
    /// Script for `sh`. Its arguments are `scalars`, then `words`.
    pub(super) body: String,
    pub(super) view: View,
    pub(super) class: ProbeClass,
    pub(super) seconds: u64,
    /// True if the section runs without `sudo` even if the command uses it.
    pub(super) is_unprivileged: bool,
}

impl Section {
    pub(super) fn new(body: impl Into<String>, view: View) -> Self {
        Self {
            scalars: Vec::new(),
            words: Vec::new(),
            body: body.into(),
            view,
            class: ProbeClass::ReadOnly,
            seconds: SECONDS,
            is_unprivileged: false,
        }
    }

    pub(super) fn with_words(self, words: Vec<Word>) -> Self {
        Self { words, ..self }
    }

    pub(super) fn with_scalars(self, scalars: Vec<Word>) -> Self {
        Self { scalars, ..self }
    }
}

/// Time limit of a probe in seconds.
pub(super) const SECONDS: u64 = 2;
/// Time limit in seconds of a probe that queries a package manager or a server.
pub(super) const SECONDS_SLOW: u64 = 10;

/// Functions for all bodies. `r KEY VALUE` prints a record, `is` tests if a path exists, `tree` counts the entries that
/// `find` finds, and `mounts` prints the mount points below a directory. `folder` and `parent` test if a path, or the
/// directory above it, is a directory; if not, they print a record and set `why`, and another record if a directory
/// above may not be entered, so that nobody can tell. `parent` sets `up` to that directory, and `bare` sets `bare` to a
/// path without slashes at its end.
const PRELUDE: &str = r#"r() { printf '%s\0%s\0' "$1" "$2"; }
unset GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_SSH GIT_SSH_COMMAND GIT_PROXY_COMMAND GIT_ASKPASS SSH_ASKPASS GREP_OPTIONS
export GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_NO_LAZY_FETCH=1 PAGER=cat SYSTEMD_PAGER= SYSTEMD_COLORS=0 LESSSECURE=1
gnu=; find / -maxdepth 0 -printf '' && gnu=1
is() { [ -e "$1" ] || [ -L "$1" ]; }
folder() {
[ -d "$1" ] && return
if is "$1"; then why="$1 is not a directory"; r notfolder "$1"; return 1; fi
why="the directory $1 does not exist"; r nofolder "$1"
seen=$1
while ! is "$seen"; do case $seen in /|.) break;; */*) seen=${seen%/*}; seen=${seen:-/};; *) seen=.;; esac; done
[ -d "$seen" ] && [ ! -x "$seen" ] && r unseen "$1"
return 1
}
parent() { case $1 in */*) up=${1%/*}; up=${up:-/};; *) up=.;; esac; folder "$up"; }
bare() { bare=$1; while case $bare in /) false;; */) true;; *) false;; esac; do bare=${bare%/}; done; }
tree() {
if [ "$gnu" ]; then
{ find "$@" -printf '%y %s\n' || echo E; } | awk '$1=="E"{e=1;next}{n[$1]++;if($1=="f")b+=$2}END{o=0;for(k in n)if(k!="f"&&k!="d"&&k!="l")o+=n[k];printf "%d %d %d %d %.0f %d",n["f"],n["d"],n["l"],o,b,e}'
else
a=$(find "$@" -print0 | tr -dc '\000' | wc -c) f=$(find "$@" -type f -print0 | tr -dc '\000' | wc -c)
d=$(find "$@" -type d -print0 | tr -dc '\000' | wc -c) l=$(find "$@" -type l -print0 | tr -dc '\000' | wc -c)
b=$(find "$@" -type f -exec stat -c %s {} + | awk '{b+=$1}END{printf "%.0f",b}') e=0; find "$@" -name . >/dev/null || e=1
echo $((f)) $((d)) $((l)) $((a-f-d-l)) $((b)) $e
fi
}
mounts() {
x=$(cd "$1" && pwd -P) || return 0
while read -r _ m _; do case $m in "${x%/}"/*) r mount "$m";; esac; done </proc/mounts
}
"#;

/// Replaces the arguments with those that exist, in a form that no program parses as an option. Leaves out paths below
/// another argument. Not a function, because a function cannot replace its caller's `$@`.
pub(super) const FILES: &str = r#"[ $# -gt 2000 ] && { r many $#; exit; }
k=$#; j=$#
while [ $k -gt 0 ]; do p=$1; shift; k=$((k-1)); case $p in -*) p=./$p;; esac
if is "$p"; then c=
if [ $j -le 64 ]; then o=${p#./}; for q do q=${q#./}; case ${o%/}/ in "${q%/}"/*) c=1; break;; esac; done; fi
[ "$c" ] || set -- "$@" "$p"
else r missing "$p"; fi; done
r operands $#
k=0; for p do k=$((k+1)); [ $k -gt 4 ] && break; r at "$p"; done
"#;

/// Returns the script of one section, for the shell that would run the command.
pub(super) fn section_text(
    index: usize,
    section: &Section,
    before: &[String],
    runs_as: &RunsAs,
    sudo: bool,
) -> String {
    let words: Vec<String> = section.scalars.iter().chain(&section.words).map(Word::source).collect();
    let body = one_word(&format!("exec </dev/null 2>/dev/null\n{PRELUDE}{}", section.body));
    let mut text = format!("(r section {index}\n");
    for line in before {
        text.push_str(line);
        text.push('\n');
    }
    // An empty list of words must not print the shell's variables.
    text.push_str(&format!("set -- {}\nb={body}\n", words.join(" ")));
    let plain = r#"sh -c "$b" sh "$@""#;
    let run = match runs_as {
        RunsAs::Sudo(user) if !section.is_unprivileged => {
            let user = user.as_deref().unwrap_or("root");
            let me = "[ \"$(id -un)\" = ".to_owned() + &one_word(user) + " ]";
            if sudo {
                let sudo = format!("sudo -n -u {}", one_word(user));
                format!(
                    "if {me}; then {plain}; elif {sudo} true; then {sudo} {plain}; else r nosudo 1; {plain}; fi"
                )
            } else {
                format!("{me} || r nosudo 1; {plain}")
            }
        }
        RunsAs::Sudo(_) | RunsAs::Caller => plain.to_owned(),
    };
    text.push_str(&run);
    text.push_str("\nr end 1)\n");
    text
}

fn one_word(text: &str) -> String {
    match quoted(text) {
        text if text.is_empty() => "''".to_owned(),
        text => text,
    }
}

/// First lines of a probe.
pub(super) const OPENING: &str =
    "# sysop-preview\nexec </dev/null 2>/dev/null\nr() { printf '%s\\0%s\\0' \"$1\" \"$2\"; }\n";

/// Records that one section printed, in order.
#[derive(Debug, Default)]
pub(super) struct Records(Vec<(String, String)>);

impl Records {
    pub(super) fn by_section(output: &[u8], count: usize) -> Vec<Self> {
        let mut sections: Vec<Self> = std::iter::repeat_with(Self::default).take(count).collect();
        let mut current: Option<usize> = None;
        let mut fields =
            output.split(|byte| *byte == 0).map(|field| String::from_utf8_lossy(field).into_owned());
        while let (Some(key), Some(value)) = (fields.next(), fields.next()) {
            if key == "section" {
                let next = value.parse().ok();
                current = next.filter(|next| *next == current.map_or(0, |at| at + 1) && *next < count);
            } else if let Some(section) = current.and_then(|at| sections.get_mut(at)) {
                section.0.push((key, value));
            }
        }
        sections
    }

    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn first(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.first(key).is_some()
    }

    /// Returns the reason why a command fails that creates something in a directory, as the function `folder` of the
    /// probe found it. Returns `None` if the directory exists.
    pub(super) fn folder_failure(&self) -> Option<String> {
        let missing =
            self.first("nofolder").map(|path| format!("the directory {} does not exist", name(path)));
        let other = || self.first("notfolder").map(|path| format!("{} is not a directory", name(path)));
        missing.or_else(other).map(|why| format!("fails: {why}"))
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.first(key)?.trim().parse().ok()
    }
}
