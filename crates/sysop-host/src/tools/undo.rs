//! `undo`: restores files to their state before the given changes: all, or none if any has changed since.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use sysop_core::outcome::{FileChange, Outcome};
use sysop_core::ui_text::counted;
use sysop_core::undo::named_files;

use super::files::GONE;
use super::{CallContext, ToolError, ToolOutcome, Toolbox};
use crate::machine::{FILE_BYTES_MAX, MachineError, Precondition};
use crate::path::RootPath;

/// Maximum changes per call.
const CHANGES_MAX: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Undo {
    changes: Vec<FileChange>,
    /// Number and call of the step, for the log.
    #[serde(default, rename = "step")]
    _step: Option<u64>,
    #[serde(default, rename = "call")]
    _call: Option<String>,
    /// True if the plan needed an approval, which was given.
    #[serde(default, rename = "ask")]
    _ask: bool,
}

struct Restoration {
    path: RootPath,
    /// Bytes before all changes; `None` if the file did not exist.
    bytes: Option<Vec<u8>>,
    /// Required current state.
    precondition: Precondition,
}

impl Toolbox {
    pub(super) async fn undo(&self, arguments: Undo, call: &CallContext<'_>) -> ToolOutcome {
        if arguments.changes.is_empty() {
            return Err(ToolError::Refused("nothing to undo".to_owned()));
        }
        if arguments.changes.len() > CHANGES_MAX {
            return Err(ToolError::Refused(format!("cannot undo more than {CHANGES_MAX} changes at once")));
        }
        let mut restorations = Vec::new();
        for change in collapsed(arguments.changes) {
            restorations.push(self.prepare(change, call).await?);
        }
        let total = restorations.len();
        let text = done_text(&restorations);
        for (done, restoration) in restorations.into_iter().enumerate() {
            let told = restoration.path.to_string();
            if let Err(error) = self.restore(restoration).await {
                let why = format!("{error}; {done} of {total} files were restored before {told}");
                return Err(ToolError::Refused(why));
            }
        }
        Ok(Outcome::ok(text))
    }

    /// Verifies that a file is as the last change left it, and finds its earlier bytes. Makes no changes.
    async fn prepare(&self, change: FileChange, call: &CallContext<'_>) -> Result<Restoration, ToolError> {
        let path = self.path(&change.path, call).await?;
        let now = match self.machine.read(&path, call.cancel).await {
            Ok(bytes) => Some(bytes),
            Err(MachineError::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let hash =
            now.as_ref().map_or_else(|| GONE.to_owned(), |bytes| blake3::hash(bytes).to_hex().to_string());
        if hash != change.after_hash {
            let why = format!("{path} was changed since; nothing was undone");
            return Err(ToolError::Refused(why));
        }
        let bytes = match change.before {
            Some(name) => Some(self.preimage(name, &path).await?),
            None => None,
        };
        Ok(Restoration { path, bytes, precondition: Precondition::of(now.map(Arc::new)) })
    }

    async fn preimage(&self, name: String, path: &RootPath) -> Result<Vec<u8>, ToolError> {
        let artifacts = self.artifacts.clone();
        let reading = tokio::task::spawn_blocking(move || artifacts.preimage(&name, FILE_BYTES_MAX));
        let read = reading.await.map_err(|error| ToolError::Refused(error.to_string()))?;
        read.map_err(|error| {
            ToolError::Refused(format!("{path}: cannot read the saved file ({error}); nothing was undone"))
        })
    }

    async fn restore(&self, restoration: Restoration) -> Result<(), MachineError> {
        let Restoration { path, bytes, precondition } = restoration;
        match bytes {
            Some(bytes) => self.machine.write(&path, bytes, precondition).await,
            None if precondition == Precondition::Absent => Ok(()),
            None => self.machine.remove(&path, precondition).await,
        }
    }
}

/// Says what was done to the files: `OK, removed 1 file: new.txt; restored 2 files: a.txt, b.txt`.
fn done_text(restorations: &[Restoration]) -> String {
    let is_removed = |it: &&Restoration| it.bytes.is_none() && it.precondition != Precondition::Absent;
    let is_restored = |it: &&Restoration| it.bytes.is_some();
    let paths = |is_done: &dyn Fn(&&Restoration) -> bool| -> Vec<String> {
        restorations.iter().rev().filter(|it| is_done(it)).map(|it| it.path.to_string()).collect()
    };
    let parts = [("removed", paths(&is_removed)), ("restored", paths(&is_restored))];
    let parts = parts.iter().filter_map(|(what, paths)| {
        let named = named_files(paths.iter().map(String::as_str), 0)?;
        Some(format!("{what} {}: {named}", counted(paths.len() as u64, "file")))
    });
    match parts.collect::<Vec<_>>().join("; ") {
        // The files were created and removed again.
        none if none.is_empty() => "OK, the files are as they were before".to_owned(),
        parts => format!("OK, {parts}"),
    }
}

/// Merges the changes so that each file has only one, with the state before its first change and the state after its
/// last change. The newest come first.
fn collapsed(changes: Vec<FileChange>) -> Vec<FileChange> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<FileChange> = Vec::new();
    for change in changes {
        match places.get(&change.path) {
            Some(&place) => kept[place].after_hash = change.after_hash,
            None => {
                places.insert(change.path.clone(), kept.len());
                kept.push(change);
            }
        }
    }
    kept.reverse();
    kept
}
