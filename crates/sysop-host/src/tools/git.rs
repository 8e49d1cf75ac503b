//! `git_*`: git run so that nothing in the repository can name a program for it to run.
//!
//! Config of a repository names programs (hooks, filters, `textconv`, external diffs, fsmonitor, signers), and
//! a repository comes from anywhere. Settings that the call brings along beat the repository's; those whose
//! names are not known beforehand (`filter.NAME.clean`) are looked up first. Arguments are never options. The
//! repository is the one at the root: one above it is not used, one inside it is not entered.

use std::time::Duration;

use serde::Deserialize;
use sysop_core::catalog::{GIT_LOG_COMMITS_DEFAULT, GIT_LOG_COMMITS_MAX};

use super::{CallContext, ToolError, ToolOutcome, Toolbox, ended, unless_empty};
use crate::machine::{ExitReason, MachineError, Program};
use crate::output::capture::Capture;

/// How long git may take.
const GIT_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of all names in a repository's config.
const CONFIG_BYTES_MAX: usize = 1024 * 1024;
/// The most settings of a repository that are overridden.
const OVERRIDES_MAX: usize = 1_000;

/// Settings that beat those of any repository.
const SETTINGS: [(&str, &str); 15] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("safe.bareRepository", "explicit"),
    ("protocol.allow", "never"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("rerere.enabled", "false"),
    ("log.showSignature", "false"),
    ("commit.gpgSign", "false"),
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
    ("diff.submodule", "short"),
    ("diff.ignoreSubmodules", "dirty"),
    ("color.ui", "never"),
];

/// Trees without a file, to read attributes from, by the hash that a repository uses.
const EMPTY_TREE_SHA1: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
const EMPTY_TREE_SHA256: &str = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321";

/// Patches as text, by git itself.
const PLAIN_DIFF: [&str; 5] =
    ["--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--submodule=short"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArguments {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GitDiff {
    #[serde(default)]
    staged: bool,
    #[serde(default, deserialize_with = "unless_empty")]
    revision: Option<String>,
    #[serde(default, deserialize_with = "unless_empty")]
    path: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GitLog {
    #[serde(default, deserialize_with = "unless_empty")]
    revision: Option<String>,
    #[serde(default, deserialize_with = "unless_empty")]
    path: Option<String>,
    #[serde(default)]
    limit: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GitShow {
    revision: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GitAdd {
    paths: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GitCommit {
    message: String,
}

/// What a repository's own config says that matters here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Repository {
    overrides: Vec<(String, String)>,
    /// Filters that it names programs for.
    filters: Vec<String>,
    sha256: bool,
}

impl Toolbox {
    pub(super) async fn git_status(&self, _: NoArguments, call: &CallContext<'_>) -> ToolOutcome {
        let arguments =
            ["status", "--short", "--branch", "--untracked-files=normal", "--ignore-submodules=dirty"];
        self.git(strings(&arguments), call).await
    }

    pub(super) async fn git_diff(&self, arguments: GitDiff, call: &CallContext<'_>) -> ToolOutcome {
        let mut line = strings(&["diff"]);
        line.extend(strings(&PLAIN_DIFF));
        if arguments.staged {
            line.push("--cached".to_owned());
        }
        self.limit(&mut line, arguments.revision, arguments.path, call).await?;
        self.git(line, call).await
    }

    pub(super) async fn git_log(&self, arguments: GitLog, call: &CallContext<'_>) -> ToolOutcome {
        let limit = arguments.limit.unwrap_or(GIT_LOG_COMMITS_DEFAULT).clamp(1, GIT_LOG_COMMITS_MAX);
        let mut line = strings(&["log", "--no-patch", "--no-show-signature", "--date=short"]);
        line.extend(strings(&PLAIN_DIFF));
        line.push("--format=%h %ad %an: %s".to_owned());
        line.push(format!("--max-count={limit}"));
        self.limit(&mut line, arguments.revision, arguments.path, call).await?;
        self.git(line, call).await
    }

    pub(super) async fn git_show(&self, arguments: GitShow, call: &CallContext<'_>) -> ToolOutcome {
        let mut line = strings(&["show", "--no-show-signature", "--format=medium", "--date=iso-strict"]);
        line.extend(strings(&PLAIN_DIFF));
        self.limit(&mut line, Some(arguments.revision), None, call).await?;
        self.git(line, call).await
    }

    pub(super) async fn git_add(&self, arguments: GitAdd, call: &CallContext<'_>) -> ToolOutcome {
        if arguments.paths.is_empty() {
            return Err(ToolError::Arguments("wrong argument `paths`: name at least one".to_owned()));
        }
        let mut line = strings(&["add", "--"]);
        for path in &arguments.paths {
            line.push(self.path(path, call).await?.as_str().to_owned());
        }
        let repository = self.repository(call).await?;
        if let Some(filter) = repository.filters.first() {
            // Without the filter the wrong bytes would be staged.
            return Err(ToolError::Refused(format!(
                "this repository's own config names programs for the filter {filter}, which this tool does not \
                 run; stage it in a shell, if you trust it"
            )));
        }
        self.git_in(&repository, line, call).await
    }

    pub(super) async fn git_commit(&self, arguments: GitCommit, call: &CallContext<'_>) -> ToolOutcome {
        let mut line = strings(&["commit", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace"]);
        line.push(format!("--message={}", arguments.message));
        self.git(line, call).await
    }

    /// Ends a command line with a revision and a path, neither of which can be an option.
    async fn limit(
        &self,
        line: &mut Vec<String>,
        revision: Option<String>,
        path: Option<String>,
        call: &CallContext<'_>,
    ) -> Result<(), ToolError> {
        if let Some(revision) = revision {
            let odd = revision.is_empty() || revision.starts_with('-') || revision.contains(char::is_control);
            if odd {
                return Err(ToolError::Arguments("wrong argument `revision`: it is no revision".to_owned()));
            }
            line.extend(["--end-of-options".to_owned(), revision]);
        }
        line.push("--".to_owned());
        if let Some(path) = path {
            line.push(self.path(&path, call).await?.as_str().to_owned());
        }
        Ok(())
    }

    async fn git(&self, line: Vec<String>, call: &CallContext<'_>) -> ToolOutcome {
        let repository = self.repository(call).await?;
        self.git_in(&repository, line, call).await
    }

    async fn git_in(
        &self,
        repository: &Repository,
        line: Vec<String>,
        call: &CallContext<'_>,
    ) -> ToolOutcome {
        let mut arguments = strings(&["--no-pager"]);
        if !repository.filters.is_empty() {
            // The filters are off by name; without attributes none is asked for in the first place.
            let tree = if repository.sha256 { EMPTY_TREE_SHA256 } else { EMPTY_TREE_SHA1 };
            arguments.push(format!("--attr-source={tree}"));
        }
        arguments.extend(line);
        let mut settings = settings();
        settings.extend(repository.overrides.iter().cloned());
        let mut capture = self.capture(call.sink.clone());
        let program = Program::Git { arguments, settings };
        let exec = self.machine.exec(program, call.fence, GIT_TIMEOUT, &mut capture, call.cancel).await?;
        Ok(ended(exec, GIT_TIMEOUT, capture.finish().await, false))
    }

    /// Reads the names in the repository's own config; that runs nothing.
    async fn repository(&self, call: &CallContext<'_>) -> Result<Repository, ToolError> {
        let arguments = strings(&["--no-pager", "config", "--list", "--show-scope", "--null"]);
        let mut capture = Capture::for_tool(CONFIG_BYTES_MAX);
        let program = Program::Git { arguments, settings: settings() };
        let exec = self.machine.exec(program, call.fence, GIT_TIMEOUT, &mut capture, call.cancel).await?;
        let bytes = capture.into_bytes();
        match (exec.end, bytes) {
            (ExitReason::Exited(0), Some(bytes)) => {
                parse(&bytes).map_err(|why| ToolError::Refused(format!("the repository's config {why}")))
            }
            (ExitReason::Cancelled, _) => Err(MachineError::Cancelled.into()),
            (ExitReason::Unknown { why }, _) => Err(ToolError::Refused(why)),
            (ExitReason::Exited(_) | ExitReason::Killed { .. } | ExitReason::TimedOut, Some(bytes)) => {
                let said = String::from_utf8_lossy(&bytes);
                Err(ToolError::Refused(format!("the repository's config cannot be read: {}", said.trim())))
            }
            (_, None) => Err(ToolError::Refused("the repository's config is too large".to_owned())),
        }
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn settings() -> Vec<(String, String)> {
    SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Reads `scope NUL key LF value NUL`. What the person set for all repositories is theirs and stays; what
/// this repository set is overridden where it names a program.
fn parse(bytes: &[u8]) -> Result<Repository, String> {
    let mut repository = Repository::default();
    let mut fields = bytes.split(|byte| *byte == 0);
    while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
        let setting = std::str::from_utf8(setting).map_err(|_| "is no UTF-8 text".to_owned())?;
        let (key, value) = setting.split_once('\n').unwrap_or((setting, ""));
        if key == "extensions.objectformat" {
            repository.sha256 = value.eq_ignore_ascii_case("sha256");
        }
        if scope == b"local" || scope == b"worktree" {
            repository.override_program(key);
        }
        if repository.overrides.len() > OVERRIDES_MAX {
            return Err("names too many programs".to_owned());
        }
    }
    Ok(repository)
}

impl Repository {
    /// `key` is as git lists it: section and variable in lower case, the name between them as it is.
    fn override_program(&mut self, key: &str) {
        let Some((subsection, variable)) = key.rsplit_once('.') else { return };
        let mut set = |name: &str, value: &str| {
            self.overrides.push((format!("{subsection}.{name}"), value.to_owned()));
        };
        if let Some(filter) = subsection.strip_prefix("filter.") {
            if matches!(variable, "clean" | "smudge" | "process" | "required") {
                set("clean", "");
                set("smudge", "");
                set("process", "");
                set("required", "false");
                if !self.filters.iter().any(|known| known == filter) {
                    self.filters.push(filter.to_owned());
                }
            }
        } else if subsection.starts_with("hook.") {
            set("enabled", "false");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Repository, parse};

    #[test]
    fn programs_of_the_repository_are_overridden_by_name() {
        let config = b"global\0filter.lfs.clean\ngit-lfs clean\0local\0core.bare\nfalse\0\
            local\0filter.a=b.c.clean\nevil\0worktree\0hook.x.command\nevil\0";
        let repository = parse(config).unwrap();
        assert_eq!(repository.filters, ["a=b.c"]);
        let keys: Vec<&str> = repository.overrides.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "filter.a=b.c.clean",
                "filter.a=b.c.smudge",
                "filter.a=b.c.process",
                "filter.a=b.c.required",
                "hook.x.enabled"
            ]
        );
    }

    #[test]
    fn the_hash_of_the_repository_is_known() {
        assert!(parse(b"local\0extensions.objectformat\nsha256\0").unwrap().sha256);
        assert_eq!(parse(b"").unwrap(), Repository::default());
    }

    #[test]
    fn config_that_is_no_text_or_too_long_is_an_error() {
        assert!(parse(b"local\0filter.\xff.clean\nx\0").is_err());
        let many: Vec<u8> =
            (0..300).flat_map(|n| format!("local\0filter.{n}.clean\nx\0").into_bytes()).collect();
        assert!(parse(&many).is_err());
    }
}
