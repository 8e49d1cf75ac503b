//! Assesses the paths in the arguments of any program: secrets that are read, and directories whose contents
//! are overwritten.
//!
//! The rules for single programs say how each uses its operands. The rules here apply to all programs, listed or not: a
//! word that names a secret counts as a read of that secret, unless the program is known to handle only names. So a new
//! program or an unlisted option cannot read a key unnoticed.

use super::lexer::Word;
use super::options::{has_option, is_listed, operands_of, values_of};
use super::program_call::ProgramCall;
use super::state::State;
use super::targets;

/// Programs that use the names, metadata or locations of files, but never show their content.
const NAMES_ONLY: &str = "ls ll dir vdir exa eza lsd tree stat test [ cd pushd popd du df basename dirname realpath readlink tee \
    echo printf touch mkdir rmdir rm unlink chmod chown chgrp chattr lsattr setfacl getfacl namei find fd fdfind \
    locate which type command whereis true false : export alias unset declare local readonly ssh-keygen umount mount \
    mountpoint findmnt shred wc file truncate ln trash mktemp inotifywait sleep kill pgrep ps man id ssh-add \
    ssh systemctl service journalctl";

/// Returns true if a program with this name never shows file content, whatever its arguments are.
pub(super) fn shows_names_only(name: &str) -> bool {
    is_listed(NAMES_ONLY, name.rsplit('/').next().unwrap_or(name))
}

/// Programs that read whole directory trees, including hidden files, if given certain options, with the short and long
/// forms of these options.
const RECURSIVE: &[(&str, &str, &[&str])] = &[
    ("grep", "rRd", &["recursive", "dereference-recursive", "directories"]),
    ("egrep", "rRd", &["recursive", "dereference-recursive", "directories"]),
    ("fgrep", "rRd", &["recursive", "dereference-recursive", "directories"]),
    ("zgrep", "rR", &["recursive"]),
    ("rg", "u.", &["hidden", "unrestricted", "no-ignore"]),
    ("ag", "ua", &["hidden", "unrestricted", "all-types"]),
    ("ack", "", &["nofilter"]),
    ("cp", "raR", &["recursive", "archive"]),
    ("scp", "r", &[]),
    ("rsync", "ra", &["recursive", "archive"]),
    ("zip", "r", &["recurse-paths"]),
    ("diff", "r", &["recursive"]),
];

/// Programs that always read whole directory trees, including hidden files.
const ALWAYS_RECURSIVE: &str = "tar bsdtar gtar 7z 7za 7zr restic borg duplicity rclone ugrep dar zpaq";

/// Assesses the paths in the arguments of a call.
pub(super) fn check(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    secrets(state, call, name);
    match name {
        "cp" | "install" | "mv" => copies(state, call, name),
        "rsync" => rsync(state, call),
        "ln" => {
            let operands: Vec<&Word> = operands_of(call.arguments()).collect();
            let sources = if operands.len() > 1 { operands.len() - 1 } else { operands.len() };
            for word in operands.iter().take(sources) {
                targets::link_to(state, call.span_of(word), word);
            }
        }
        "tar" | "bsdtar" | "gtar" | "unzip" | "7z" | "7za" | "cpio" | "unrar" | "ar" | "pax" => {
            unpacks(state, call, name)
        }
        "rm" | "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" => trees(state, call, name),
        _ => {}
    }
}

/// Returns the parts of a word that may be a path: the word itself, the text after `=` or a short option, and the
/// pieces between `@`, `:` and `,`.
fn parts(word: &Word) -> Vec<Word> {
    let text = word.text();
    let mut found = vec![text];
    if let Some((_, value)) = text.split_once('=') {
        found.push(value);
    }
    for mark in ['@', ':', ','] {
        found.extend(text.split(mark).filter(|part| part.len() < text.len()));
    }
    if text.starts_with('-') && !text.starts_with("--") {
        found.extend(text.get(2..));
    }
    let part = |text: &str| Word { shape: text.trim_start_matches('@').to_owned(), ..word.clone() };
    found.into_iter().filter(|text| !text.is_empty()).map(part).collect()
}

/// Returns true if a call uses file names, but never shows file content.
pub(super) fn reads_names_only(call: &ProgramCall<'_>, name: &str) -> bool {
    let verb = || operands_of(call.arguments()).next().map_or("", Word::text);
    let shows_public_parts =
        name == "openssl" && matches!(verb(), "x509" | "crl" | "verify" | "s_client" | "version");
    shows_public_parts || NAMES_ONLY.split_whitespace().any(|known| known == name)
}

fn always_reads_below(call: &ProgramCall<'_>, name: &str) -> bool {
    let verb = || operands_of(call.arguments()).next().map_or("", Word::text);
    match name {
        "docker" | "podman" => {
            matches!(verb(), "cp" | "run" | "create" | "build" | "buildx" | "container" | "image")
        }
        _ => ALWAYS_RECURSIVE.split(' ').any(|known| known == name),
    }
}

fn secrets(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    let below = matches!(name, "find" | "fd" | "fdfind" | "ls" | "tree" | "locate");
    let only_names = reads_names_only(call, name);
    let listed = |(program, short, long): &(&str, &str, &[&str])| {
        *program == name && has_option(arguments, short, long)
    };
    let searches = RECURSIVE.iter().any(listed);
    let recursive = searches || always_reads_below(call, name);
    let program =
        matches!(name, "grep" | "egrep" | "fgrep" | "rg" | "sed" | "awk" | "gawk" | "mawk" | "jq" | "yq");
    let pattern = operands_of(arguments).next().filter(|_| program && operands_of(arguments).count() > 1);
    let written = operands_of(arguments).last().filter(|_| matches!(name, "cp" | "mv" | "install" | "scp"));
    let identity = if matches!(name, "scp" | "sftp") { values_of(arguments, 'i', "") } else { Vec::new() };
    let is_left_out = |word: &Word| {
        let is = |other: Option<&Word>| other.is_some_and(|other| other.start == word.start);
        is(pattern) || is(written) || identity.contains(&word.text())
    };
    for word in arguments.iter().filter(|word| !is_left_out(word)) {
        let span = call.span_of(word);
        if only_names {
            if targets::names_secret(state, word, below) {
                state.secret_name.get_or_insert(span);
            }
            continue;
        }
        if word.text().starts_with('-') && !word.text().contains(['=', '/', '~', '.']) {
            continue;
        }
        // A Go template, as in `docker ps --format`.
        if word.literal().is_some_and(|text| text.starts_with("{{")) {
            continue;
        }
        for part in parts(word) {
            targets::note_secret(state, span, &part, recursive);
        }
    }
    let fed = call.argument_source.is_some();
    let open = |word: &Word| word.expands && word.text().contains(super::lexer::UNKNOWN);
    state.reads_names |= !only_names && (fed || arguments.iter().any(open));
    if is_listed("rg ag ack", name) && !recursive {
        for word in operands_of(arguments).skip(1) {
            targets::note_visible_secrets(state, call.span_of(word), word);
        }
        if operands_of(arguments).count() <= 1 {
            let here = Word { shape: ".".to_owned(), ..Word::default() };
            targets::note_visible_secrets(state, call.span, &here);
        }
    }
    if searches && operands_of(arguments).count() <= usize::from(program) {
        let here = Word { shape: ".".to_owned(), ..Word::default() };
        targets::note_secret(state, call.span, &here, true);
    }
}

fn copies(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    let operands: Vec<&Word> = operands_of(arguments).collect();
    let named = values_of(arguments, 't', "target-directory");
    let (target, sources) = match (named.first(), operands.split_last()) {
        (Some(folder), _) => (Word { shape: (*folder).to_owned(), ..Word::default() }, operands.as_slice()),
        (None, Some((last, sources))) => ((*last).clone(), sources),
        (None, None) => return,
    };
    let span = call.span;
    let whole = name == "cp" && has_option(arguments, "raR", &["recursive", "archive"]);
    for source in sources {
        let text = source.text().trim_end_matches('/');
        let unnamed = source.glob || text.ends_with("/.") || matches!(text, "." | "..") || source.expands;
        let onto = name == "cp" && has_option(arguments, "T", &["no-target-directory"]);
        if whole && (unnamed || onto) || source.glob {
            targets::fill_folder(state, span, &target);
        } else {
            targets::copy_to(state, span, &target, source);
        }
        if name == "mv" {
            targets::change_tree(state, call.span_of(source), source);
        }
    }
    if has_option(arguments, "sl", &["symbolic-link", "link"]) && name == "cp" {
        for source in sources {
            targets::link_to(state, call.span_of(source), source);
        }
    }
}

fn rsync(state: &mut State, call: &ProgramCall<'_>) {
    let operands: Vec<&Word> = operands_of(call.arguments()).collect();
    if let [.., _, target] = operands.as_slice()
        && !target.text().contains(':')
    {
        targets::fill_folder(state, call.span_of(target), target);
    }
}

/// Assesses the directory into which an archive is unpacked, the one that an option names or the current one.
fn unpacks(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    let first = arguments.first().map_or("", Word::text);
    let letters = if first.starts_with("--") { "" } else { first.trim_start_matches('-') };
    let (short, long) = match name {
        "unzip" => ('d', "d"),
        "cpio" => ('D', "directory"),
        "7z" | "7za" => ('o', "o"),
        _ => ('C', "directory"),
    };
    let reads = match name {
        "tar" | "bsdtar" | "gtar" => {
            let extracts = letters.contains('x') || has_option(arguments, "x", &["extract", "get"]);
            !extracts
        }
        "unzip" => has_option(arguments, "lvtpZ", &[]),
        "7z" | "7za" => !matches!(first, "x" | "e"),
        "cpio" => !has_option(arguments, "ip", &["extract", "pass-through"]),
        "ar" | "unrar" => !letters.starts_with('x'),
        _ => !has_option(arguments, "rR", &[]),
    };
    if reads {
        return;
    }
    let mut folders: Vec<&str> = values_of(arguments, short, long);
    if folders.is_empty() {
        folders.push(".");
    }
    for folder in folders {
        let shape = folder.to_owned();
        let expands = folder.contains(super::lexer::UNKNOWN);
        targets::fill_folder(state, call.span, &Word { shape, expands, ..Word::default() });
    }
}

fn trees(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    let skipped = usize::from(name != "rm");
    for word in operands_of(arguments).skip(skipped) {
        let span = call.span_of(word);
        let whole = has_option(arguments, "rR", &["recursive"]) || name != "rm";
        if whole {
            targets::change_tree(state, span, word);
        } else {
            targets::use_path(state, span, word, crate::context::Access::Write);
        }
    }
}
