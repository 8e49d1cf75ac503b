//! `kill`, `pkill` and `killall`.

use super::effective::{EffectiveCommand, split};
use super::probe::{Records, Section};
use super::report::{Report, counted, name};
use super::scan::{Reason, Word};
use super::{Planned, View};

/// Defines `show`, which prints a record about process `$1`. It prints nothing for a process of the probe itself, and
/// another record if the probe descends from the process.
const LIST: &str = r#"
own() { q=$$; while [ "${q:-0}" -gt 1 ]; do [ "$q" = "$1" ] && tr '\000' ' ' <"/proc/$1/cmdline" | grep -q sysop-preview && return 0; q=$(awk '/^PPid/{print $2}' "/proc/$q/status"); done; return 1; }
parent() { q=$$; while [ "${q:-0}" -gt 1 ]; do [ "$q" = "$1" ] && return 0; q=$(awk '/^PPid/{print $2}' "/proc/$q/status"); done; return 1; }
show() {
[ -d "/proc/$1" ] || { r gone "$1"; return; }
own "$1" && return
u=$(awk '/^Uid/{print $2}' "/proc/$1/status")
[ "$(id -u)" = 0 ] || [ "$u" = "$(id -u)" ] || r denied "$1"
parent "$1" && r parent "$1"
r process "$1 $(tr '\000' ' ' <"/proc/$1/cmdline" | head -c 200 | grep . || cat "/proc/$1/comm")"
}
"#;

const SIGNALS: &[&str] =
    &["HUP", "INT", "QUIT", "KILL", "TERM", "USR1", "USR2", "STOP", "CONT", "ABRT", "ALRM", "WINCH"];

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let words: Option<Vec<String>> = command.arguments.iter().map(Word::literal).collect();
    let mut rest = words.ok_or("the processes are not known before the command runs")?;
    let Some(verb) = verb(&take_signal(&mut rest)) else { return Ok(Planned::Nothing) };
    let rest: Vec<Word> = rest.iter().map(|word| Word::of(word)).collect();
    let program = command.program.as_str();
    let (find, operands) = match program {
        "kill" => ("for p do show \"$p\"; done\n".to_owned(), process_ids(&rest)?),
        "pkill" => ("for p in $(pgrep \"$@\"); do show \"$p\"; done\n".to_owned(), pattern_options(&rest)?),
        _ => by_name(&rest)?,
    };
    let needs = "command -v pgrep >/dev/null || r failed 'pgrep is not installed'\n";
    let needs = if program == "kill" { "" } else { needs };
    let body = format!("{needs}{LIST}{find}r verb '{verb}'\n");
    Planned::probe(Section::new(body, View::Processes).with_words(operands))
}

/// Removes the signal from the arguments. Returns its name or number, or an empty string if there is none.
fn take_signal(words: &mut Vec<String>) -> String {
    let signal = |word: &String| {
        let signal = word.strip_prefix('-')?;
        let signal = signal.strip_prefix("SIG").unwrap_or(signal);
        let is_number = !signal.is_empty() && signal.bytes().all(|byte| byte.is_ascii_digit());
        (is_number || SIGNALS.contains(&signal)).then(|| signal.to_owned())
    };
    let found = words.iter().enumerate().find_map(|(at, word)| Some((at, signal(word)?)));
    if let Some((at, found)) = found {
        words.remove(at);
        return found;
    }
    match words.as_slice() {
        [first, value, ..] if first == "-s" => {
            let value = value.trim_start_matches("SIG").to_owned();
            words.drain(..2);
            value
        }
        _ => String::new(),
    }
}

/// Returns the phrase for a signal, or `None` for signal 0, which does nothing.
fn verb(signal: &str) -> Option<&'static str> {
    match signal {
        "0" => None,
        "" | "TERM" | "15" | "KILL" | "9" | "INT" | "2" | "QUIT" | "3" => Some("ends"),
        "HUP" | "1" => Some("sends HUP to"),
        _ => Some("signals"),
    }
}

fn process_ids(words: &[Word]) -> Result<Vec<Word>, Reason> {
    let ids = words.iter().filter(|word| word.literal().as_deref() != Some("--"));
    let is_id = |word: &Word| {
        word.literal().is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let ids: Vec<Word> = ids.cloned().collect();
    if ids.iter().all(is_id) {
        Ok(ids)
    } else {
        Err("process groups and jobs are not supported in previews".to_owned())
    }
}

/// Returns the arguments with which `pgrep` finds the processes that `pkill` would signal.
fn pattern_options(words: &[Word]) -> Result<Vec<Word>, Reason> {
    let long = ["full", "exact", "newest", "oldest", "euid=", "uid=", "parent=", "ignore-case"];
    let found = split(words, "fxinoz", "uUgGPtsF", &long)?;
    if found.has(&["F"]) {
        return Err("the command reads process ids from a file".to_owned());
    }
    let mut options = Vec::new();
    for (name, value) in &found.options {
        options.push(Word::of(&format!("-{name}")));
        options.extend(value.clone());
    }
    options.push(Word::of("--"));
    options.extend(found.operands);
    Ok(options)
}

/// Returns the search script for `killall`, which matches whole names, and the names to search for.
fn by_name(words: &[Word]) -> Result<(String, Vec<Word>), Reason> {
    let found = split(words, "eIqrvw", "u", &["exact", "user=", "quiet", "wait"])?;
    if found.has(&["r"]) {
        return Err("patterns are not supported in previews".to_owned());
    }
    let user = found.value(&["u", "-user"]).and_then(Word::literal);
    let plain = |user: &str| {
        user.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)) && !user.starts_with('-')
    };
    if user.as_deref().is_some_and(|user| !plain(user)) {
        return Err("the user is unknown".to_owned());
    }
    let user = user.map_or(String::new(), |user| format!("-u {user} "));
    let find = format!(
        "for n do e=$(printf '%s' \"$n\" | sed 's/[][\\.*^$+?(){{}}|]/\\\\&/g'); for p in $(pgrep {user}-x -- \"$e\"); do show \"$p\"; done; done\n"
    );
    Ok((find, found.operands))
}

pub(super) fn report(records: &Records) -> Result<Report, Reason> {
    let verb = records.first("verb").ok_or("the processes cannot be listed")?.to_owned();
    let processes: Vec<&str> = records.all("process").collect();
    let mut notes = Vec::new();
    if processes.is_empty() {
        notes.push("matches no processes".to_owned());
    } else {
        let shown: Vec<String> = processes.iter().take(3).map(|text| name(text.trim())).collect();
        let more = if processes.len() > 3 { ", …" } else { "" };
        notes.push(format!(
            "{verb} {}: {}{more}",
            counted(processes.len() as u64, "process"),
            shown.join(", ")
        ));
    }
    if records.has("parent") {
        notes.push("one of these processes runs this session".to_owned());
    }
    let denied = records.all("denied").count() as u64;
    if denied > 0 {
        notes.push(format!("{} of other users: not permitted", counted(denied, "process")));
    }
    let gone: Vec<&str> = records.all("gone").collect();
    if !gone.is_empty() {
        notes.push(format!("fails for {}: no such process", super::report::names(gone.into_iter())));
    }
    Ok(notes.join("; ").into())
}
