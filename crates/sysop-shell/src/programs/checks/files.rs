//! Programs that find, delete, move, unpack or reassign files.

use crate::context::Access;
use crate::lexer::{UNKNOWN, Word};
use crate::operands::shows_names_only;
use crate::options::{Effect, Reading, StopPoint, Style, is_listed, is_one_word, read, rules};
use crate::program_call::{ArgumentSource, ProgramCall};
use crate::risk::RiskClass;
use crate::state::State;
use crate::{path, targets};

/// Resolves a word as a path, relative to the shell's directory.
fn resolved(state: &State, word: &Word) -> String {
    let folder = if state.has_moved() { state.folders.only() } else { Some("") };
    path::resolve(folder, word.text())
}

pub(super) fn remove(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    match call.argument_source {
        Some(ArgumentSource::FoundFiles) => {
            state.note(call.span, RiskClass::Dangerous, "deletes the files found")
        }
        Some(ArgumentSource::Stdin) => {
            state.note(call.span, RiskClass::Dangerous, "deletes files that standard input names")
        }
        None => {}
    }
    if reading.unknown.iter().any(|word| !word.text().starts_with('-')) {
        state.note(call.span, RiskClass::Opaque, "deletes a path that is computed at run time");
    }
    for word in &reading.operands {
        let span = call.span_of(word);
        let target = resolved(state, word);
        let last = target.rsplit('/').next().unwrap_or("");
        let all = word.glob && last.starts_with(['*', '?', '[']) && last.len() < 4;
        if all
            || path::protected(&target).is_none() && path::is_broad(&target) && !target.starts_with(UNKNOWN)
        {
            state.note(span, RiskClass::Dangerous, "deletes all files in a directory");
        } else if word.expands {
            state.note(span, RiskClass::Opaque, "deletes a path that is computed at run time");
        }
    }
}

pub(super) fn rights(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let recursive = reading.has("R") || reading.has("recursive");
    let mode = reading.operands.first().map_or("", |word| word.text());
    for word in reading.operands.iter().skip(1) {
        let target = resolved(state, word);
        if path::is_broad(&target) && (recursive || target.starts_with(['/', '~'])) {
            let why = if recursive {
                "changes permissions recursively"
            } else {
                "changes permissions of a system path or a home directory"
            };
            state.note(call.span_of(word), RiskClass::Dangerous, why);
        }
        if recursive && word.expands {
            state.note(
                call.span,
                RiskClass::Dangerous,
                "changes permissions of a directory tree that is chosen at run time",
            );
        }
    }
    if call.argument_source == Some(ArgumentSource::Stdin) {
        state.note(call.span, RiskClass::Dangerous, "the targets come from standard input");
    }
    let octal = mode.len() > 3 && mode.bytes().all(|b| b.is_ascii_digit()) && !mode.starts_with(['0', '1']);
    let is_mode = call.words.first().is_some_and(|word| word.text().ends_with("chmod"));
    if is_mode && (octal || (mode.contains('s') && mode.contains(['+', '=']))) {
        state.note(call.span, RiskClass::Dangerous, "sets the setuid or setgid bit");
    }
}

pub(super) fn moves(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    if call.argument_source == Some(ArgumentSource::Stdin) {
        state.note(call.span, RiskClass::Dangerous, "the targets come from standard input");
    }
    for word in &reading.operands {
        let target = resolved(state, word);
        let part =
            word.glob && word.text().trim_start_matches(['*', '?']).len() > 1 && !word.text().contains('/');
        if path::is_broad(&target) && !part && word.text() != "." && !target.starts_with(UNKNOWN) {
            state.note(call.span_of(word), RiskClass::Dangerous, "moves a directory tree away");
        }
    }
    if reading.operands.last().is_some_and(|word| resolved(state, word) == "/dev/null") {
        state.note(call.span, RiskClass::Dangerous, "moves files to /dev/null");
    }
}

/// Tests and flags of `find` that only read and take no value.
const FIND_FLAGS: &str = "-print -print0 -ls -prune -empty -depth -d -mount -xdev -follow -daystart -true -false -not -a \
    -o -and -or -readable -writable -executable -nouser -nogroup -noleaf -L -P -H ! ( ) , -quit -warn -nowarn \
    -ignore_readdir_race -noignore_readdir_race -O0 -O1 -O2 -O3";
/// Tests and actions of `find` that only read and take one word as a value.
const FIND_VALUED: &str = "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size \
    -mtime -atime -ctime -mmin -amin -cmin -newer -anewer -cnewer -newermt -newerct -newerat -user -group -uid -gid -perm \
    -maxdepth -mindepth -links -inum -samefile -lname -ilname -printf -fstype -used -context";

/// Assesses `find` and `fd`. Returns true if every part is understood.
pub(super) fn find(state: &mut State, call: &ProgramCall<'_>) -> bool {
    let arguments = call.arguments();
    let is_fd = call.words.first().is_some_and(|name| name.text().contains("fd"));
    let mut understood = !is_fd;
    let mut index = 0;
    let mut starts = true;
    let mut folders: Vec<&Word> = Vec::new();
    let mut reads = false;
    while let Some(word) = arguments.get(index) {
        index += 1;
        let text = word.text();
        let next = arguments.get(index);
        starts &= !text.starts_with(['-', '(', '!']) || is_listed("-L -P -H", text);
        match text {
            "-delete" => state.note(call.span_of(word), RiskClass::Dangerous, "deletes the files found"),
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                reads |= !next.is_some_and(|program| shows_names_only(program.text()));
                index += executed(state, call, index, word);
            }
            _ if is_fd && fd_executes(text) => {
                state.note(call.span_of(word), RiskClass::Opaque, "runs a program on the files found");
                index += executed(state, call, index, word);
            }
            "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                if let Some(target) = next {
                    targets::use_path(state, call.span_of(target), target, Access::Write);
                }
                index += usize::from(text == "-fprintf") + 1;
                state.raise(RiskClass::Changes);
            }
            _ if is_listed(FIND_VALUED, text) => {
                understood &= next.is_some_and(is_one_word);
                index += 1;
            }
            _ if word.may_be_option() => {
                state.note(call.span_of(word), RiskClass::Opaque, "the action is computed at run time");
                understood = false;
            }
            _ if is_listed(FIND_FLAGS, text) => {}
            _ if starts => folders.push(word),
            _ => understood = false,
        }
    }
    if reads {
        // Found files are read, so secrets below the directories count too.
        let here = Word { shape: ".".to_owned(), ..Word::default() };
        let all = if folders.is_empty() { vec![&here] } else { folders.clone() };
        for word in all {
            targets::note_secret(state, call.span, word, true);
        }
    }
    for word in folders {
        targets::use_path(state, call.span_of(word), word, Access::Read);
    }
    understood
}

/// Returns true for an option of `fd` that runs a command: `-x` or `-X` in any cluster, or any abbreviation of `--exec`
/// and `--exec-batch` from `--exe` on.
fn fd_executes(text: &str) -> bool {
    match text.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next().unwrap_or("");
            name.starts_with("exe") && "exec-batch".starts_with(name)
        }
        None => text.starts_with('-') && text.contains(['x', 'X']),
    }
}

/// Assesses the command that begins at index `start`, after `action`, and ends before `;` or `+`. Returns its number of
/// words.
fn executed(state: &mut State, call: &ProgramCall<'_>, start: usize, action: &Word) -> usize {
    let rest = call.arguments().get(start..).unwrap_or(&[]);
    let length = rest.iter().position(|end| matches!(end.text(), ";" | "+")).unwrap_or(rest.len());
    let inner = rest.get(..length).unwrap_or(&[]);
    if inner.is_empty() {
        state.note(call.span, RiskClass::Opaque, "runs a program that is chosen at run time");
    } else {
        let why = "runs a program on the files found";
        state.note(call.span_of(action), RiskClass::Changes, why);
        call.judge_inner(state, inner, Some(ArgumentSource::FoundFiles));
    }
    (length + 1).min(rest.len())
}

/// Known options of `tar`.
const TAR_KNOWN: &str = "-cxtrudAvzjJZakmpSswOhWlnRGiUM -fCTXbgKNVLH: --create --extract --get --list --append --update \
    --diff --compare --verbose --gzip --gunzip --bzip2 --xz --zstd --lzma --lzip --auto-compress --keep-old-files \
    --keep-newer-files --overwrite --touch --preserve-permissions --same-owner --no-same-owner --no-same-permissions \
    --numeric-owner --sparse --to-stdout --dereference --verify --file=write --directory=fill --files-from=read \
    --exclude-from=read --exclude= --exclude-vcs --exclude-vcs-ignores --exclude-caches --strip-components= --transform= \
    --xform= --owner= --group= --mode= --mtime= --sort= --format= --wildcards --no-wildcards --anchored --totals? \
    --one-file-system --no-recursion --recursion --null --warning= --ignore-failed-read --use-compress-program= \
    --skip-old-files --unlink-first --full-time --show-transformed-names --checkpoint? --pax-option= --no-unquote \
    --listed-incremental= --ignore-zeros --occurrence? --no-auto-compress --acls --xattrs --selinux --no-xattrs --no-acls \
    --absolute-names -P --remove-files --recursive-unlink --to-command= --checkpoint-action= --rsh-command= --rmt-command= \
    --info-script= --new-volume-script= -I: -F: --force-local --record-size= --blocking-factor= --keep-directory-symlink";
/// Options of `tar` that name a program.
const TAR_RUNS: &str = "checkpoint-action use-compress-program to-command rsh-command rmt-command info-script new-volume-script I F";

/// Assesses the files that `tar` packs and unpacks, and the programs that it runs. Returns true if every part is
/// understood.
pub(super) fn tar(state: &mut State, call: &ProgramCall<'_>) -> bool {
    let mut words: Vec<Word> = call.arguments().to_vec();
    expand_bundle(&mut words);
    let Some(known) = rules(TAR_KNOWN, Style::Gnu, Effect::Known) else { return false };
    let reading = read(&known, Style::Gnu, &words, StopPoint::End);
    let has = |names: &str| reading.options.iter().any(|option| is_listed(names, option.rule.name));
    let note = |state: &mut State, class, why: &str| state.note(call.span, class, why);
    if has(TAR_RUNS) {
        note(state, RiskClass::Opaque, "specifies a program to run");
    }
    if has("remove-files recursive-unlink") {
        note(state, RiskClass::Dangerous, "deletes files");
    }
    let (extracts, writes) = (has("x extract get"), has("c r u A create append update"));
    let to_output = has("O to-stdout");
    if extracts && has("P absolute-names") {
        note(state, RiskClass::Dangerous, "unpacks over system directories");
    }
    let mut filled = false;
    for option in &reading.options {
        let Some(value) = option.value else { continue };
        let word = Word { shape: value.to_owned(), ..option.word.clone() };
        let span = call.span_of(&word);
        match option.rule.name {
            "C" | "directory" if extracts => {
                let folder = resolved(state, &word);
                if matches!(folder.as_str(), "/" | "/etc" | "/usr" | "/var" | "~") {
                    note(state, RiskClass::Dangerous, "unpacks over system directories");
                }
                filled = true;
                targets::fill_folder(state, span, &word);
            }
            "f" | "file" if value != "-" => {
                if value.split('/').next().is_some_and(|host| host.contains(':')) {
                    note(state, RiskClass::Opaque, "an archive on a remote host");
                } else {
                    let access = if writes { Access::Write } else { Access::Read };
                    targets::use_path(state, span, &word, access);
                }
            }
            "T" | "files-from" | "X" | "exclude-from" => targets::use_path(state, span, &word, Access::Read),
            _ => {}
        }
    }
    if extracts && !filled && !to_output {
        let here = Word { shape: ".".to_owned(), ..Word::default() };
        targets::fill_folder(state, call.span, &here);
    }
    for word in reading.operands.iter().filter(|_| writes) {
        targets::use_path(state, call.span_of(word), word, Access::Read);
    }
    if !has("t list d diff compare") || extracts && !to_output || writes {
        state.note(call.span, RiskClass::Changes, "packs or unpacks files");
    }
    reading.unknown.is_empty()
}

/// Rewrites `xzf a` as `-x -z -f a`. The first word may be a cluster of options without a dash; the values of these
/// options follow the cluster in order.
fn expand_bundle(words: &mut Vec<Word>) {
    let Some(first) = words.first().filter(|word| !word.text().starts_with('-') && word.literal().is_some())
    else {
        return;
    };
    let letters: Vec<char> = first.text().chars().collect();
    let template = first.clone();
    let mut rest = words.split_off(1).into_iter();
    words.clear();
    for letter in letters {
        words.push(Word { shape: format!("-{letter}"), ..template.clone() });
        if "fCTXbgKNVLHIF".contains(letter) {
            words.extend(rest.next());
        }
    }
    words.extend(rest);
}
