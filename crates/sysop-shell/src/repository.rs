//! Assesses read-only git calls by the repository's configuration.
//!
//! A repository's configuration is not copied by a clone, but it is part of an archive, so anybody may have written it.
//! Some settings name programs that git runs even in read-only calls: for text conversion, external diffs, filters and
//! signature checks. Any setting that is not listed here as plain is assumed to name a program.

use crate::context::{Access, Resolution, ResolvedFile, Target};
use crate::options::is_listed;
use crate::risk::RiskClass;
use crate::state::{Span, State};

/// Sections whose settings do not name programs that git runs in read-only calls.
const PLAIN_SECTIONS: &str = "advice alias branch checkout clone color column commit difftool fetch gc gitg github gitlab gui \
    hub i18n include includeif index init instaweb mergetool notes pack pager pull push rebase receive rerere safe sendemail \
    stash status submodule svn svn-remote tag transfer uploadpack user versionsort worktree";
/// Sections whose settings are plain unless their names contain a subsection. Settings in a subsection may name
/// programs, as in `diff.NAME.textconv`.
const PLAIN_WITHOUT_SUBSECTION: &str = "blame diff extensions feature format grep log maintenance merge";
/// Sections whose settings have an effect only if git connects to a server.
const NETWORK_SECTIONS: &str = "credential http remote url";
/// Plain settings in sections that also have settings that are not plain.
const PLAIN_SETTINGS: &str = "core.abbrev core.attributesfile core.autocrlf core.bare core.checkstat core.commitgraph \
    core.compression core.editor core.eol core.excludesfile core.filemode core.hookspath core.ignorecase \
    core.logallrefupdates core.longpaths core.multipackindex core.pager core.precomposeunicode core.preloadindex \
    core.protecthfs core.protectntfs core.quotepath core.repositoryformatversion core.safecrlf core.sharedrepository \
    core.sparsecheckout core.sparsecheckoutcone core.symlinks core.trustctime core.untrackedcache core.whitespace \
    core.worktree lfs.repositoryformatversion";
/// Exceptions within the sections above: settings that name a program or another file.
const EXCEPTIONS: &str = "diff.external extensions.worktreeconfig";

/// Assesses a read-only git call in each possible directory. `connects` means that git connects to a server.
pub(super) fn judge(state: &mut State, span: Span, connects: bool) {
    if state.survey.resolution == Resolution::Elsewhere {
        if state.has_moved() {
            let why = "runs git in another directory, where the git config may run programs";
            state.note(span, RiskClass::Changes, why);
        }
        return;
    }
    let folders: Vec<String> = state.folders.iter().map(str::to_owned).collect();
    if folders.is_empty() {
        state.note(
            span,
            RiskClass::Opaque,
            "runs git in an unknown directory, where the git config may run programs",
        );
    }
    for folder in folders {
        let target =
            Target { word: ".".to_owned(), glob: false, folder: Some(folder), access: Access::Repository };
        let settings = state.survey.resolved(&target).map(|files| named_program(files, connects));
        match settings {
            Some(None) => {}
            Some(Some(why)) => state.note(span, RiskClass::Opaque, &why),
            None => state.note(span, RiskClass::Opaque, "runs git with an unreadable config"),
        }
        state.add_target(target);
    }
}

/// Returns the reason why the settings of a repository may make git run a program, or `None` if they cannot.
fn named_program(files: &[ResolvedFile], connects: bool) -> Option<String> {
    for file in files {
        let Some(names) = &file.script else {
            return Some("runs git with an unreadable config".to_owned());
        };
        if let Some(name) = names.lines().find(|name| !is_plain(name, connects)) {
            return Some(format!("the repository sets {name}, which may run a program"));
        }
    }
    None
}

/// Returns true if this setting of a repository does not make git run a program in a read-only call that does not
/// connect. `name` has the form that `git config --list` prints, with section and variable in lowercase.
pub fn is_plain_git_setting(name: &str) -> bool {
    is_plain(name, false)
}

/// Returns true if this setting makes git run no program in read-only calls. `connects` means that git connects to a
/// server.
fn is_plain(name: &str, connects: bool) -> bool {
    let (section, rest) = name.split_once('.').unwrap_or((name, ""));
    if is_listed(EXCEPTIONS, name) {
        return false;
    }
    is_listed(PLAIN_SETTINGS, name)
        || is_listed(PLAIN_SECTIONS, section)
        || (is_listed(PLAIN_WITHOUT_SUBSECTION, section) && !rest.contains('.'))
        || (!connects && (is_listed(NETWORK_SECTIONS, section) || name == "core.sshcommand"))
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn settings_that_name_programs_are_not_plain() {
        for name in [
            "diff.x.textconv",
            "diff.x.command",
            "diff.external",
            "filter.lfs.clean",
            "filter.x.process",
            "gpg.program",
            "gpg.ssh.program",
            "core.fsmonitor",
            "core.alternaterefscommand",
            "merge.x.driver",
            "extensions.worktreeconfig",
            "lfs.extension.x.clean",
            "protocol.ext.allow",
            "anything.else",
        ] {
            assert!(!is_plain(name, false), "{name}");
        }
        for name in [
            "core.bare",
            "user.name",
            "submodule.x.url",
            "diff.renames",
            "core.hookspath",
            "lfs.repositoryformatversion",
        ] {
            assert!(is_plain(name, false) && is_plain(name, true), "{name}");
        }
        for name in
            ["core.sshcommand", "remote.origin.uploadpack", "url.ext::sh.insteadof", "credential.helper"]
        {
            assert!(is_plain(name, false) && !is_plain(name, true), "{name}");
        }
    }
}
