//! `ls`, `stat`, `find_files`, `mkdir`.

use std::fmt::Write;

use globset::GlobBuilder;
use jiff::Timestamp;
use serde::Deserialize;
use sysop_core::outcome::Outcome;
use sysop_core::ui_text::grouped;

use super::files::PathArguments;
use super::{CallContext, ToolError, ToolOutcome, Toolbox, unless_empty};
use crate::machine::{FileKind, FileSearch, LIST_ENTRIES_MAX};
use crate::path::shown;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ls {
    #[serde(default, deserialize_with = "unless_empty")]
    path: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FindFiles {
    pattern: String,
    #[serde(default, deserialize_with = "unless_empty")]
    path: Option<String>,
}

impl Toolbox {
    pub(super) async fn ls(&self, arguments: Ls, call: &CallContext<'_>) -> ToolOutcome {
        let path = self.path(arguments.path.as_deref().unwrap_or("."), call).await?;
        let listing = self.machine.list(&path, call.cancel).await?;
        let mut text = String::new();
        for (name, kind) in &listing.entries {
            let name = shown(name);
            match kind {
                FileKind::File => writeln!(text, "{name}"),
                FileKind::Folder => writeln!(text, "{name}/"),
                FileKind::Link { target } => writeln!(text, "{name} -> {}", shown(target)),
                FileKind::Special => writeln!(text, "{name} (special)"),
            }
            .expect("writing to a string cannot fail");
        }
        if listing.more {
            text.push_str(&format!("[more than {} entries]\n", grouped(LIST_ENTRIES_MAX as u64)));
        }
        if text.is_empty() {
            text.push_str("[empty directory]");
        }
        Ok(self.outcome_text(text).await)
    }

    pub(super) async fn stat(&self, arguments: PathArguments, call: &CallContext<'_>) -> ToolOutcome {
        let path = self.path(&arguments.path, call).await?;
        let found = self.machine.stat(&path, call.cancel).await?;
        let kind = match found.kind {
            FileKind::File => "file".to_owned(),
            FileKind::Folder => "folder".to_owned(),
            FileKind::Link { target } => format!("link to {}", shown(&target)),
            FileKind::Special => "special file".to_owned(),
        };
        let modified = Timestamp::from_second(found.modified_s)
            .map_or_else(|_| format!("{} s since the Unix epoch", found.modified_s), |time| time.to_string());
        let (user, group) = found.owner;
        Ok(Outcome::ok(format!(
            "{kind}\nsize: {} bytes\nmode: {:04o}\nowner: {user}:{group}\nmodified: {modified}",
            found.bytes, found.mode
        )))
    }

    pub(super) async fn mkdir(&self, arguments: PathArguments, call: &CallContext<'_>) -> ToolOutcome {
        let path = self.path(&arguments.path, call).await?;
        self.machine.make_folder(&path, call.cancel).await?;
        Ok(Outcome::ok("OK"))
    }

    pub(super) async fn find_files(&self, arguments: FindFiles, call: &CallContext<'_>) -> ToolOutcome {
        let folder = self.path(arguments.path.as_deref().unwrap_or("."), call).await?;
        let pattern = arguments.pattern.strip_prefix("./").unwrap_or(&arguments.pattern);
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| ToolError::Arguments(format!("invalid argument `pattern`: {}", error.kind())))?;
        let by_name = !pattern.contains('/');
        let search = FileSearch { folder, glob: glob.compile_matcher(), by_name };
        let found = self.machine.find(search, call.cancel).await?;
        let mut text: String = found.paths.iter().map(|path| shown(path) + "\n").collect();
        if let Some(why) = found.incomplete {
            text.push_str(&format!("[{why}]\n"));
        }
        if text.is_empty() {
            text.push_str("[no matching files]");
        }
        Ok(self.outcome_text(text).await)
    }
}
