//! `git`: what throws work away, and the many options that name a program to run.

use super::{any_word, danger, nth, opaque, write_target};
use crate::lexer::Word;
use crate::options::{StopPoint, has_option, operands_of, parse, values_of};
use crate::program_call::ProgramCall;
use crate::state::State;

/// Subcommands that are git's own; another name may be an alias, and an alias may be a shell command.
const OWN: &[&str] = &[
    "add",
    "am",
    "annotate",
    "apply",
    "archive",
    "bisect",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-ref-format",
    "checkout",
    "cherry",
    "cherry-pick",
    "clean",
    "clone",
    "commit",
    "commit-tree",
    "config",
    "count-objects",
    "describe",
    "diff",
    "diff-index",
    "diff-tree",
    "fetch",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "help",
    "init",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "merge",
    "merge-base",
    "merge-tree",
    "mv",
    "name-rev",
    "notes",
    "pack-refs",
    "prune",
    "pull",
    "push",
    "range-diff",
    "read-tree",
    "rebase",
    "reflog",
    "remote",
    "repack",
    "replace",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "sparse-checkout",
    "stash",
    "status",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "update-index",
    "update-ref",
    "var",
    "verify-commit",
    "verify-tag",
    "version",
    "whatchanged",
    "worktree",
    "write-tree",
    "lfs",
    "maintenance",
    "filter-branch",
];

pub(super) fn check(state: &mut State, call: &ProgramCall<'_>) {
    let arguments = call.arguments();
    let list = "-Ppc: -C: --no-pager --paginate --git-dir= --work-tree= --namespace= --bare --no-replace-objects --literal-pathspecs \
         --no-optional-locks --exec-path? --config-env= --version --help --html-path --attr-source= -v -h";
    let Some(parsed) = parse(list, arguments, StopPoint::FirstOperand) else {
        return opaque(state, call, "git options that are not understood");
    };
    if ["c", "exec-path", "config-env", "p", "paginate"].iter().any(|name| parsed.has(name)) {
        opaque(state, call, "sets configuration, which may name programs to run");
    }
    let rest = arguments.get(parsed.first_operand..).unwrap_or(&[]);
    let Some(first) = rest.first() else { return };
    match first.literal() {
        Some(verb) if OWN.contains(&verb) => {
            destroys(state, call, verb, rest.get(1..).unwrap_or(&[]));
            runs(state, call, verb, rest.get(1..).unwrap_or(&[]));
        }
        Some(_) | None => opaque(state, call, "a subcommand that may be an alias for a shell command"),
    }
    if arguments.iter().any(|word| word.text().contains("ext::") || word.text().contains("fd::")) {
        opaque(state, call, "an address that names a program to run");
    }
}

fn destroys(state: &mut State, call: &ProgramCall<'_>, verb: &str, rest: &[Word]) {
    let first = nth(rest, 0);
    let forced = has_option(rest, "f", &["force"]);
    match verb {
        "push" => {
            let rewrites = forced
                || has_option(
                    rest,
                    "d",
                    &["force-with-lease", "force-if-includes", "mirror", "delete", "prune"],
                )
                || operands_of(rest).skip(1).any(|word| word.text().starts_with(['+', ':']));
            if rewrites {
                danger(state, call, "overwrites or deletes on the server");
            }
        }
        "reset" if has_option(rest, "", &["hard", "merge", "keep"]) => {
            danger(state, call, "throws uncommitted work away")
        }
        "clean" if !has_option(rest, "n", &["dry-run"]) => {
            danger(state, call, "deletes files that git does not know")
        }
        "checkout" if forced || any_word(rest, &["--", "."]) => {
            danger(state, call, "throws uncommitted work away")
        }
        "switch" if forced || has_option(rest, "", &["discard-changes"]) => {
            danger(state, call, "throws uncommitted work away")
        }
        "restore" if !has_option(rest, "S", &["staged"]) || has_option(rest, "W", &["worktree"]) => {
            danger(state, call, "throws uncommitted work away")
        }
        "stash" if matches!(first, "drop" | "clear") => danger(state, call, "throws stashed work away"),
        "branch" if has_option(rest, "D", &[]) || (forced && has_option(rest, "dM", &["delete", "move"])) => {
            danger(state, call, "deletes a branch unmerged")
        }
        "reflog" if matches!(first, "expire" | "delete") => danger(state, call, "forgets old states"),
        "gc" | "prune" if verb == "prune" || has_option(rest, "", &["prune"]) => {
            danger(state, call, "forgets old states")
        }
        "update-ref" if has_option(rest, "d", &["stdin"]) => danger(state, call, "deletes a reference"),
        "filter-branch" => danger(state, call, "rewrites history"),
        "worktree" | "submodule" if forced && matches!(first, "remove" | "deinit") => {
            danger(state, call, "throws uncommitted work away")
        }
        "rm" if forced => danger(state, call, "deletes files with their changes"),
        _ => {}
    }
}

fn runs(state: &mut State, call: &ProgramCall<'_>, verb: &str, rest: &[Word]) {
    let first = nth(rest, 0);
    let programs = [
        "upload-pack",
        "receive-pack",
        "exec",
        "open-files-in-pager",
        "ext-diff",
        "textconv",
        "filters",
        "extcmd",
        "exec-batch",
        "strategy",
    ];
    let short = match verb {
        "grep" => "O",
        "rebase" => "xs",
        "clone" => "uc",
        "merge" | "pull" | "cherry-pick" | "revert" => "s",
        _ => "",
    };
    if has_option(rest, short, &programs)
        || (verb == "clone" && has_option(rest, "", &["config", "template"]))
    {
        opaque(state, call, "names a program to run");
    }
    for target in values_of(rest, '\u{1}', "output") {
        write_target(state, target, call.span);
    }
    let commands =
        matches!((verb, first), ("bisect", "run") | ("submodule", "foreach") | ("maintenance", "start"));
    if commands {
        opaque(state, call, "runs a command of its own");
        let words: Vec<&Word> = operands_of(rest).collect();
        if let Some(start) = words.get(1)
            && let Some(at) = rest.iter().position(|word| word == *start)
        {
            let inner = rest.get(at..).unwrap_or(&[]);
            call.run_joined(state, inner, crate::program_call::Stdin::Inherited);
        }
    }
    let reads =
        has_option(rest, "l", &["get", "get-all", "get-regexp", "list", "show-origin", "get-urlmatch"])
            || matches!(first, "get" | "list");
    if verb == "config" && !reads {
        opaque(state, call, "changes configuration, which may name programs to run");
    }
}
