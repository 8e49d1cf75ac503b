//! Programs that delete, overwrite or reassign files.

use super::{danger, opaque, resolved, write_target};
use crate::lexer::{UNKNOWN, Word};
use crate::options::{has_option, operands_of, values_of};
use crate::path;
use crate::program_call::{ArgumentSource, ProgramCall};
use crate::risk::RiskClass;
use crate::state::State;

pub(super) fn check(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    match name {
        "rm" | "unlink" | "rmdir" | "del" | "trash" | "gio" => remove(state, call, name),
        "shred" | "srm" | "wipe" | "scrub" | "truncate" => {
            danger(state, call, "destroys the content of files")
        }
        "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" | "chcon" | "setcap" => {
            reassign(state, call, name)
        }
        "dd" if matches!(call.arguments(), [word] if matches!(word.text(), "--version" | "--help")) => {}
        "dd" => danger(state, call, "writes raw blocks"),
        "mv" | "rename" => {
            for word in operands_of(call.arguments()) {
                let target = resolved(state, word);
                if path::is_broad(&target) && word.text() != "." && !target.starts_with(UNKNOWN) {
                    state.note(call.span_of(word), RiskClass::Dangerous, "moves a whole tree away");
                }
            }
            destinations(state, call, true);
        }
        "cp" | "install" | "ln" | "rsync" | "scp" | "tee" | "touch" | "mkdir" | "mknod" | "mkfifo"
        | "split" | "csplit" | "patch" | "sponge" | "gzip" | "gunzip" | "bzip2" | "xz" | "zstd" => {
            copies(state, call, name)
        }
        "sed" => sed(state, call),
        "find" | "fd" | "fdfind" => find(state, call),
        "tar" | "bsdtar" | "gtar" => tar(state, call),
        "unzip" | "7z" | "cpio" | "zip" => archive(state, call, name),
        "sort" => {
            for target in values_of(call.arguments(), 'o', "output") {
                write_target(state, target, call.span);
            }
            if has_option(call.arguments(), "", &["compress-program"]) {
                opaque(state, call, "runs a program on its data");
            }
        }
        "uniq" | "xxd" | "fmt" => {
            if let Some(output) = operands_of(call.arguments()).nth(1) {
                write_target(state, output.text(), call.span_of(output));
            }
        }
        _ => {}
    }
}

fn remove(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    if name == "gio" && !arguments.first().is_some_and(|word| matches!(word.text(), "trash" | "remove")) {
        return;
    }
    if call.argument_source.is_some() {
        let why = if call.argument_source == Some(ArgumentSource::FoundFiles) {
            "deletes what is found"
        } else {
            "deletes what its input names"
        };
        danger(state, call, why);
    }
    if has_option(arguments, "rR", &["recursive", "no-preserve-root"]) {
        danger(state, call, "recursive delete");
    }
    if arguments.iter().any(|word| word.may_be_option() || word.brace && word.text().starts_with(['-', '{']))
    {
        opaque(state, call, "deletes what is not written out");
    }
    for word in operands_of(arguments) {
        let span = call.span_of(word);
        let target = resolved(state, word);
        let all = word.glob
            && target
                .rsplit('/')
                .next()
                .is_some_and(|last| last.starts_with(['*', '?', '[']) && last.len() < 4);
        if let Some(what) = path::protected(&target) {
            state.note(span, RiskClass::Dangerous, &format!("deletes {what}"));
        } else if all || (path::is_broad(&target) && !target.starts_with(UNKNOWN)) {
            state.note(span, RiskClass::Dangerous, "deletes a whole folder's files");
        } else if word.expands {
            state.note(span, RiskClass::Opaque, "deletes what is not written out");
        }
    }
}

fn reassign(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    let recursive = has_option(arguments, "R", &["recursive"]);
    let mode = operands_of(arguments).next().map_or("", Word::text);
    for word in operands_of(arguments).skip(1) {
        let target = resolved(state, word);
        let span = call.span_of(word);
        if let Some(what) = path::protected(&target) {
            state.note(span, RiskClass::Dangerous, &format!("changes who may use {what}"));
        } else if path::is_broad(&target) && (recursive || target.starts_with(['/', '~'])) {
            state.note(span, RiskClass::Dangerous, "changes rights of a whole tree");
        }
    }
    if recursive && arguments.iter().any(|word| word.expands) {
        danger(state, call, "changes rights of a tree that is not written out");
    }
    let octal = mode.len() > 3 && mode.bytes().all(|b| b.is_ascii_digit()) && !mode.starts_with(['0', '1']);
    let special = name == "chmod" && (octal || (mode.contains('s') && mode.contains(['+', '='])));
    if special || name == "setcap" {
        danger(state, call, "lets a program run with another user's rights");
    }
}

/// Programs whose last operand, or every operand, is written.
fn copies(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    match name {
        "cp" | "install" | "ln" | "scp" => destinations(state, call, false),
        "rsync" => {
            destinations(state, call, false);
            let deletes = [
                "delete",
                "delete-before",
                "delete-after",
                "delete-during",
                "delete-excluded",
                "remove-source-files",
                "del",
            ];
            if has_option(arguments, "", &deletes) {
                danger(state, call, "deletes what the other side does not have");
            }
            if has_option(arguments, "e", &["rsh", "rsync-path"]) {
                opaque(state, call, "names a program to run");
            }
        }
        _ => {
            for word in operands_of(arguments) {
                write_target(state, word.text(), call.span_of(word));
            }
            if name == "split" && has_option(arguments, "", &["filter"]) {
                opaque(state, call, "runs a command for each part");
            }
        }
    }
    if name == "scp" && has_option(arguments, "SoFD", &[]) {
        opaque(state, call, "names a program to run");
    }
}

fn destinations(state: &mut State, call: &ProgramCall<'_>, moves: bool) {
    let arguments = call.arguments();
    let targets = values_of(arguments, 't', "target-directory");
    for target in targets {
        write_target(state, target, call.span);
    }
    let Some(last) = operands_of(arguments).last() else { return };
    let span = call.span_of(last);
    let target = resolved(state, last);
    if moves && target == "/dev/null" {
        state.note(span, RiskClass::Dangerous, "moves files to where nothing is kept");
    }
    write_target(state, last.text(), span);
    for word in operands_of(arguments).filter(|_| moves) {
        let source = resolved(state, word);
        if let Some(what) = path::protected(&source) {
            state.note(call.span_of(word), RiskClass::Dangerous, &format!("moves {what}"));
        }
    }
}

fn sed(state: &mut State, call: &ProgramCall<'_>) {
    let arguments = call.arguments();
    if !has_option(arguments, "i", &["in-place"]) {
        let scripts = values_of(arguments, 'e', "expression");
        let first = operands_of(arguments).next().map(Word::text);
        let all = if scripts.is_empty() { first.into_iter().collect() } else { scripts };
        unread_script(state, call, &all);
        return;
    }
    let mut files = operands_of(arguments).peekable();
    let scripts = values_of(arguments, 'e', "expression");
    let all = if scripts.is_empty() { files.next().map(Word::text).into_iter().collect() } else { scripts };
    unread_script(state, call, &all);
    for word in files {
        write_target(state, word.text(), call.span_of(word));
    }
}

fn unread_script(state: &mut State, call: &ProgramCall<'_>, scripts: &[&str]) {
    let from_file = has_option(call.arguments(), "f", &["file"]);
    if from_file || !crate::sed::only_edits_stream(&scripts.join("\n")) {
        opaque(state, call, "a script that may run commands or write files");
    }
}

fn find(state: &mut State, call: &ProgramCall<'_>) {
    let arguments = call.arguments();
    let is_fd = call.words.first().is_some_and(|name| name.text().contains("fd"));
    let mut index = 0;
    while let Some(word) = arguments.get(index) {
        index += 1;
        match word.text() {
            "-delete" => state.note(call.span_of(word), RiskClass::Dangerous, "deletes what is found"),
            "-exec" | "-execdir" | "-ok" | "-okdir" => index += executed(state, call, index),
            "-x" | "-X" | "--exec" | "--exec-batch" if is_fd => index += executed(state, call, index),
            "-fprint" | "-fprint0" | "-fprintf" | "-fls" => {
                if let Some(target) = arguments.get(index) {
                    write_target(state, target.text(), call.span_of(target));
                }
            }
            _ if word.may_be_option() => {
                state.note(call.span_of(word), RiskClass::Opaque, "may be an action that is not written out");
            }
            _ => {}
        }
    }
}

/// Judges the command from `start` up to `;` or `+`; tells how many words it has.
fn executed(state: &mut State, call: &ProgramCall<'_>, start: usize) -> usize {
    let rest = call.arguments().get(start..).unwrap_or(&[]);
    let length = rest.iter().position(|end| matches!(end.text(), ";" | "+")).unwrap_or(rest.len());
    let inner = rest.get(..length).unwrap_or(&[]);
    if inner.is_empty() {
        opaque(state, call, "runs a program that is not written out");
    } else {
        call.judge_inner(state, inner, Some(ArgumentSource::FoundFiles));
    }
    length
}

fn tar(state: &mut State, call: &ProgramCall<'_>) {
    let arguments = call.arguments();
    let runs = [
        "checkpoint-action",
        "use-compress-program",
        "to-command",
        "rsh-command",
        "rmt-command",
        "info-script",
        "new-volume-script",
    ];
    let bundled = arguments.first().map_or("", Word::text);
    let letters = if bundled.starts_with("--") { "" } else { bundled.trim_start_matches('-') };
    if has_option(arguments, "IF", &runs) || letters.contains(['I', 'F']) {
        opaque(state, call, "names a program to run");
    }
    if has_option(arguments, "", &["remove-files"]) {
        danger(state, call, "deletes the files it packs");
    }
    let extracts = letters.contains('x') || has_option(arguments, "x", &["extract", "get"]);
    if extracts {
        let absolute = has_option(arguments, "P", &["absolute-names"]) || letters.contains('P');
        let over_system = values_of(arguments, 'C', "directory").into_iter().any(|target| {
            let target = path::resolve(state.folder.as_deref(), target);
            path::protected(&target).is_some()
                || matches!(target.as_str(), "/" | "/etc" | "/usr" | "/var" | "~")
        });
        if absolute || over_system {
            danger(state, call, "unpacks over the system");
        }
    }
    let writes = letters.contains('c') || has_option(arguments, "c", &["create"]);
    if writes
        && let Some(archive) =
            operands_of(arguments).map(Word::text).find(|text| text.contains(".t") || text.starts_with('/'))
    {
        write_target(state, archive, call.span);
    }
}

fn archive(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    if name == "zip"
        && has_option(arguments, "T", &["unzip-command"])
        && arguments.iter().any(|word| word.text().starts_with("-TT"))
    {
        opaque(state, call, "names a program to run");
    }
    if name == "cpio" && has_option(arguments, "", &["rsh-command"]) {
        opaque(state, call, "names a program to run");
    }
    for target in values_of(arguments, 'd', "directory") {
        write_target(state, target, call.span);
        if matches!(target, "/" | "/etc" | "/usr") {
            danger(state, call, "unpacks over the system");
        }
    }
}
