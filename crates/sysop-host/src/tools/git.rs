//! `git_*`: runs git so that nothing in the repository can name a program to run or a place outside the root.
//!
//! A repository's config names programs (hooks, filters, `textconv`, external diffs, fsmonitor, signers), and a
//! repository may come from anywhere. Settings on the command line override the settings of the repository. Settings
//! with names that are not known in advance (`filter.NAME.clean`) are looked up first. Arguments are never options.
//! Only the repository at the root is used: a repository above it is not used, a repository inside it is not entered,
//! and a repository that is stored elsewhere or borrows objects is refused (`repository.rs`).

mod repository;

use std::time::Duration;

use serde::Deserialize;
use sysop_core::catalog::{GIT_LOG_COMMITS_DEFAULT, GIT_LOG_COMMITS_MAX};

use self::repository::Repository;
use super::{CallContext, ToolError, ToolOutcome, Toolbox, ended, unless_empty};
use crate::machine::Program;
use crate::machine::TimeLimit;

const GIT_TIMEOUT: Duration = Duration::from_secs(60);

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

/// Empty trees to read attributes from, by hash algorithm.
const EMPTY_TREE_SHA1: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
const EMPTY_TREE_SHA256: &str = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321";

/// Options for plain text patches that git itself generates.
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
            return Err(ToolError::Arguments("invalid argument `paths`: must not be empty".to_owned()));
        }
        let mut line = strings(&["add", "--"]);
        for path in &arguments.paths {
            line.push(self.path(path, call).await?.as_str().to_owned());
        }
        let repository = self.repository(call).await?;
        if let Some(filter) = repository.filters.first() {
            // Without the filter, the wrong bytes would be staged.
            return Err(ToolError::Refused(format!(
                "the repository's own config defines programs for the filter {filter}, which this tool does not run; \
                 if you trust these programs, stage the file in a shell"
            )));
        }
        self.git_in(&repository, line, call).await
    }

    pub(super) async fn git_commit(&self, arguments: GitCommit, call: &CallContext<'_>) -> ToolOutcome {
        let mut line = strings(&["commit", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace"]);
        line.push(format!("--message={}", arguments.message));
        self.git(line, call).await
    }

    /// Appends a revision and a path to a command line, so that git takes neither of them for an option.
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
                return Err(ToolError::Arguments(
                    "invalid argument `revision`: must not be empty, begin with `-` or contain control characters"
                        .to_owned(),
                ));
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
            // The filters are off by name; without attributes, none is requested in the first place.
            let tree = if repository.sha256 { EMPTY_TREE_SHA256 } else { EMPTY_TREE_SHA1 };
            arguments.push(format!("--attr-source={tree}"));
        }
        arguments.extend(line);
        let mut settings = settings();
        settings.extend(repository.overrides.iter().cloned());
        let mut capture = self.capture(call.sink.clone());
        let program = Program::Git { arguments, settings };
        let exec = self
            .machine
            .exec(program, call.fence, &TimeLimit::new(GIT_TIMEOUT), &mut capture, call.cancel)
            .await?;
        Ok(ended(exec, GIT_TIMEOUT, capture.finish().await, false))
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn settings() -> Vec<(String, String)> {
    SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
