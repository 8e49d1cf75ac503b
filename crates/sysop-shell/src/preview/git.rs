//! Git commands that lose work: `clean`, `reset --hard`, `checkout`, `restore`, `stash drop`, `branch -D`, `push`.
//!
//! A repository's own settings can name programs that git runs. A repository with such settings has no preview.

use super::effective::{EffectiveCommand, SplitArguments, split};
use super::probe::{Records, Section};
use super::report::{Report, counted, name, names};
use super::scan::{Reason, Word};
use super::{Planned, View};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GitView {
    Clean,
    Reset,
    Restore,
    Switch,
    StashDrop,
    StashClear,
    DeleteBranch,
    Push,
    Pull,
    Rebase,
}

/// Script that defines `g`, which runs git without hooks or pagers. The script fails if git is not installed, if the
/// directory is not in a repository, or if the repository's settings can make git run programs or read other files.
const GUARD: &str = r#"
command -v git >/dev/null || r failed 'git is not installed'
g() { git --no-pager --no-optional-locks --no-replace-objects -c core.fsmonitor=false -c core.hooksPath=/dev/null -c diff.external= -c core.pager=cat -c core.untrackedCache=false -c submodule.recurse=false -c protocol.allow=never "$@"; }
g rev-parse --git-dir >/dev/null || { r failed 'not a git repository'; exit; }
if git config --local --includes --name-only --get-regexp '^(filter|diff|merge|include|includeif|alias|gpg|credential|difftool|interactive|core\.(fsmonitor|hookspath|editor|pager|sshcommand|gitproxy|askpass|alternaterefscommand|worktree|attributesfile|excludesfile)|extensions\.(worktreeconfig|partialclone))(\.|$)' | grep -q .; then r failed 'settings of the repository can run programs'; exit; fi
if git config --name-only --get-regexp '^filter\.' | grep -q . && g ls-files -- ':(top,glob)**/.gitattributes' | grep -q .; then r failed 'git filters run programs'; exit; fi
"#;

/// Counts and lists the paths that differ from `HEAD`. The arguments limit the comparison to some paths.
const CHANGED: &str = r#"
z() { tr -dc '\000' | wc -c; }
r changed "$(g diff --no-ext-diff --no-textconv --ignore-submodules --name-only -z HEAD "$@" | z)"
r stat "$(g diff --no-ext-diff --no-textconv --ignore-submodules --shortstat HEAD "$@")"
printf 'names\0'; g diff --no-ext-diff --no-textconv --ignore-submodules --name-only -z HEAD "$@" | tr '\n\000' '?\n' | head -n 4; printf '\0'
"#;

pub(super) fn planned(command: &EffectiveCommand) -> Result<Planned, Reason> {
    let mut words = command.arguments.as_slice();
    let mut folder = None;
    while let Some(first) = words.first().and_then(Word::literal).filter(|text| text.starts_with('-')) {
        match first.as_str() {
            "-C" if folder.is_none() => {
                let value =
                    words.get(1).filter(|word| word.is_single() && !word.beginning().starts_with('-'));
                folder = Some(value.ok_or("the directory is unknown")?.clone());
                words = words.get(2..).unwrap_or(&[]);
            }
            "--no-pager" => words = words.get(1..).unwrap_or(&[]),
            _ => return Err(format!("the option {} of git is unknown", name(&first))),
        }
    }
    let Some((verb, arguments)) = words.split_first() else { return Ok(Planned::Nothing) };
    let verb = verb.literal().ok_or("the subcommand is not known before the command runs")?;
    let Some((body, view, words)) = subcommand(&verb, arguments)? else { return Ok(Planned::Nothing) };
    let enter = if folder.is_some() {
        "cd -- \"$1\" || { r failed 'the directory does not exist'; exit; }; shift\n"
    } else {
        ""
    };
    let section = Section::new(format!("{enter}{GUARD}{body}"), View::Git(view));
    Planned::probe(section.with_scalars(folder.into_iter().collect()).with_words(words))
}

type GitProbe = (String, GitView, Vec<Word>);

fn subcommand(verb: &str, arguments: &[Word]) -> Result<Option<GitProbe>, Reason> {
    match verb {
        "clean" => clean(arguments).map(Some),
        "reset" => {
            let found = split(arguments, "q", "", &["hard", "soft", "mixed", "merge", "keep", "quiet"])?;
            if !found.has(&["-hard"]) {
                return Ok(None);
            }
            let target = revision(&found)?;
            let all = CHANGED.replace(" HEAD \"$@\"", " HEAD --");
            let body = format!(
                "case $1 in -*) r failed 'the target is unknown'; exit;; esac\n{all}r to \"$1\"; r lost \"$(g rev-list --count \"$1\"..HEAD --)\"\n"
            );
            Ok(Some((body, GitView::Reset, vec![target])))
        }
        "checkout" | "restore" | "switch" => checkout(verb, arguments),
        "stash" => match arguments.first().and_then(Word::literal).as_deref() {
            Some("drop") => {
                let stash = arguments.get(1).cloned().unwrap_or_else(|| Word::of("stash@{0}"));
                let body = "case $1 in -*) r failed 'the stash is unknown'; exit;; esac\nr stat \"$(g stash show --no-ext-diff --no-textconv --shortstat \"$1\")\"; r subject \"$(g log -1 --format=%s \"$1\" --)\"\n";
                Ok(Some((body.to_owned(), GitView::StashDrop, vec![stash])))
            }
            Some("clear") => Ok(Some((
                "r count \"$(g stash list | wc -l)\"\n".to_owned(),
                GitView::StashClear,
                Vec::new(),
            ))),
            _ => Ok(None),
        },
        "branch" => {
            let found = split(arguments, "Ddf", "", &["delete", "force"])?;
            if !found.has(&["D", "d", "-delete"]) {
                return Ok(None);
            }
            let body = "for b do case $b in -*) continue;; esac\nif g rev-parse -q --verify \"refs/heads/$b\" >/dev/null; then r branch \"$b\"; r lost \"$(g rev-list --count \"refs/heads/$b\" --not HEAD --remotes --)\"; else r missing \"$b\"; fi; done\n";
            Ok(Some((body.to_owned(), GitView::DeleteBranch, found.operands)))
        }
        "push" => {
            let found = split(
                arguments,
                "fuq",
                "",
                &["force", "force-with-lease", "set-upstream", "quiet", "no-verify"],
            )?;
            let force = found.has(&["f", "-force", "-force-with-lease"]);
            if found.operands.len() > 2
                || found
                    .operands
                    .iter()
                    .any(|word| word.literal().is_none_or(|text| text.contains([':', '+'])))
            {
                return Err("the branches are unknown".to_owned());
            }
            let body = "r force \"$1\"; shift\nu=$(g rev-parse --abbrev-ref --symbolic-full-name '@{u}') || u=\n[ $# -ge 2 ] && u=$1/$2\nb=HEAD; [ $# -ge 2 ] && b=refs/heads/$2\nr upstream \"$u\"\n[ \"$u\" ] && r count \"$(g rev-list --left-right --count \"refs/remotes/$u...$b\" --)\"\n";
            let mut words = vec![Word::of(if force { "f" } else { "-" })];
            words.extend(found.operands);
            Ok(Some((body.to_owned(), GitView::Push, words)))
        }
        "pull" | "rebase" => {
            let view = if verb == "pull" { GitView::Pull } else { GitView::Rebase };
            if !arguments.is_empty() {
                return Err("the branches are unknown".to_owned());
            }
            let count = "r count \"$(g rev-list --left-right --count '@{u}...HEAD' --)\"\n";
            let all = CHANGED.replace(" HEAD \"$@\"", " HEAD --");
            Ok(Some((format!("{count}{all}"), view, Vec::new())))
        }
        _ => Ok(None),
    }
}

fn revision(found: &SplitArguments) -> Result<Word, Reason> {
    match found.operands.as_slice() {
        [] => Ok(Word::of("HEAD")),
        [one] if one.is_single() && !one.beginning().starts_with('-') => Ok(one.clone()),
        _ => Err("the target is unknown".to_owned()),
    }
}

fn clean(arguments: &[Word]) -> Result<GitProbe, Reason> {
    let found = split(arguments, "fdxXqn", "e", &["force", "quiet", "dry-run", "exclude="])?;
    if found.has(&["e", "-exclude"]) {
        return Err("exclusions are not supported in previews".to_owned());
    }
    let mut flags = String::from("-n");
    for flag in ["d", "x", "X"] {
        if found.has(&[flag]) {
            flags.push_str(flag);
        }
    }
    if found.options.iter().filter(|(name, _)| matches!(name.as_str(), "f" | "-force")).count() > 1 {
        flags.push_str("ff");
    }
    // `clean -n` names whole directories; `find` counts their contents.
    let body = format!(
        r#"
o=$(g -c core.quotePath=false clean {flags} -- "$@" | sed -n 's/^Would remove //p')
r skipped "$(g clean {flags} -- "$@" | grep -c '^Would skip')"
case $o in *'"'*) r failed 'a name has special characters'; exit;; esac
r listed "$o"
set --; [ "$o" ] && while IFS= read -r p; do is "$p" && set -- "$@" "./$p"; [ $# -gt 1000 ] && break; done <<X
$o
X
[ $# -gt 1000 ] && {{ r many $#; exit; }}
[ $# -gt 0 ] && r count "$(tree "$@")"
"#
    );
    Ok((body, GitView::Clean, found.operands))
}

fn checkout(verb: &str, arguments: &[Word]) -> Result<Option<GitProbe>, Reason> {
    let paths_after = arguments.iter().position(|word| word.literal().as_deref() == Some("--"));
    let (before, paths) = match paths_after {
        Some(at) => (&arguments[..at], arguments[at + 1..].to_vec()),
        None => (arguments, Vec::new()),
    };
    let found = split(
        before,
        "fqbBcCWSm",
        "s",
        &["force", "quiet", "source=", "worktree", "staged", "discard-changes", "merge"],
    )?;
    if found.has(&["s", "-source", "S", "-staged", "m", "-merge"]) {
        return Err("only changes restored from the index can be previewed".to_owned());
    }
    let mut paths = paths;
    if verb == "restore" {
        paths.extend(found.operands.clone());
    } else if paths.is_empty()
        && found.operands.len() == 1
        && found.operands[0].literal().as_deref() == Some(".")
    {
        paths.push(Word::of("."));
    } else if !found.operands.is_empty() && !paths.is_empty() {
        return Err("only changes restored from the index can be previewed".to_owned());
    }
    if !paths.is_empty() {
        // Compared with the index, because staged changes stay.
        let body = CHANGED.replace(" HEAD \"$@\"", " -- \"$@\"");
        return Ok(Some((body, GitView::Restore, paths)));
    }
    let force = found.has(&["f", "-force", "-discard-changes"]);
    if !force {
        return Ok(None);
    }
    let body = CHANGED.replace(" HEAD \"$@\"", " HEAD --");
    Ok(Some((body, GitView::Switch, Vec::new())))
}

impl GitView {
    pub(super) fn report(self, records: &Records) -> Result<Report, Reason> {
        let text = match self {
            Self::Clean => clean_text(records)?,
            Self::Reset => {
                let mut text = lost_text(records, "loses")?;
                if let Some(lost) = records.number("lost").filter(|lost| *lost > 0) {
                    let to = name(records.first("to").unwrap_or("there"));
                    text = format!("{text}; drops {} that are not in {to}", counted(lost, "commit"));
                }
                text
            }
            Self::Restore | Self::Switch => lost_text(records, "loses")?,
            Self::StashDrop => {
                let stat = records
                    .first("stat")
                    .map(str::trim)
                    .filter(|stat| !stat.is_empty())
                    .ok_or("there is no such stash")?;
                format!(
                    "drops the stash \"{}\": {}",
                    name(records.first("subject").unwrap_or("")),
                    name(stat)
                )
            }
            Self::StashClear => match records.number("count") {
                None => return Err("the stashes cannot be counted".to_owned()),
                Some(0) => "there is no stash".to_owned(),
                Some(1) => "drops 1 stash".to_owned(),
                Some(count) => format!("drops {count} stashes"),
            },
            Self::DeleteBranch => branch_text(records),
            Self::Push => push_text(records)?,
            Self::Pull | Self::Rebase => {
                let (behind, ahead) = left_right(records).ok_or("there is no upstream branch")?;
                let changed = records.number("changed").unwrap_or(0);
                let mut text = format!(
                    "as last fetched: {} ahead, {} behind",
                    counted(ahead, "commit"),
                    counted(behind, "commit")
                );
                if changed > 0 {
                    text.push_str(&format!("; {} with uncommitted changes", counted(changed, "file")));
                }
                text
            }
        };
        Ok(text.into())
    }
}

fn clean_text(records: &Records) -> Result<String, Reason> {
    let listed = records.first("listed").ok_or("the files cannot be listed")?;
    if listed.is_empty() {
        return Ok("removes nothing".to_owned());
    }
    let counts = records
        .first("count")
        .and_then(super::files::TreeCounts::parse)
        .ok_or("the files cannot be counted")?;
    Ok(format!("removes {}, {}: {}", counts.text(), super::report::size(counts.bytes), names(listed.lines())))
}

fn lost_text(records: &Records, verb: &str) -> Result<String, Reason> {
    let changed = records.number("changed").ok_or("the changes cannot be counted")?;
    if changed == 0 {
        return Ok(format!("{verb} no changes"));
    }
    let stat = records.first("stat").unwrap_or("");
    let lines = |word: &str| {
        let part = stat.split(',').find(|part| part.contains(word))?;
        part.split_whitespace().next()?.parse::<u64>().ok()
    };
    let (added, removed) = (lines("insertion").unwrap_or(0), lines("deletion").unwrap_or(0));
    let shown: Vec<&str> = records.first("names").unwrap_or("").lines().collect();
    Ok(format!(
        "{verb} changes in {} (+{added} −{removed}): {}",
        counted(changed, "file"),
        names(shown.into_iter().take(changed.min(3) as usize))
    ))
}

fn branch_text(records: &Records) -> String {
    let mut notes = Vec::new();
    for (branch, lost) in records.all("branch").zip(records.all("lost")) {
        let lost = lost.trim().parse::<u64>().unwrap_or(0);
        notes.push(match lost {
            0 => format!("deletes {}; its commits are also in HEAD or a remote branch", name(branch)),
            lost => {
                format!(
                    "deletes {} with {} that are neither in HEAD nor in a remote branch",
                    name(branch),
                    counted(lost, "commit")
                )
            }
        });
    }
    if records.has("missing") {
        notes.push(format!("fails for {}: no such branch", names(records.all("missing"))));
    }
    notes.join("; ")
}

fn left_right(records: &Records) -> Option<(u64, u64)> {
    let mut numbers = records.first("count")?.split_whitespace().map(str::parse::<u64>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn push_text(records: &Records) -> Result<String, Reason> {
    let upstream = name(records.first("upstream").unwrap_or(""));
    let (behind, ahead) = left_right(records).ok_or("there is no upstream branch")?;
    let force = records.first("force") == Some("f");
    let mut text = format!("pushes {} to {upstream}, as last fetched", counted(ahead, "commit"));
    if behind > 0 {
        let what = counted(behind, "commit");
        text.push_str(&if force {
            format!("; drops {what} from the remote branch")
        } else {
            format!("; will be rejected: the remote branch is {what} ahead")
        });
    }
    Ok(text)
}
