//! `read_file`, `cat`, `write_file`, `edit_file`, `delete_file`.
//!
//! A change is: read what is there, keep it for undo, write what is to be there — if what was read is still
//! there.

use std::sync::Arc;

use serde::Deserialize;
use sysop_core::outcome::{FileChange, Outcome, Status};
use sysop_core::text::strip_controls;

use super::edit::{edit, has_crlf_lines, with_crlf};
use super::{Answer, Call, ToolError, Toolbox};
use crate::machine::{Before, MachineError};
use crate::output::capture::joined;
use crate::output::head_tail::HeadTail;
use crate::output::{counted, grouped};
use crate::path::RootPath;

/// A file with a zero byte this near to its beginning is not shown as text.
const BINARY_LOOK_BYTES: usize = 8 * 1024;
/// What undo records of a file that is gone.
pub(super) const GONE: &str = "";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    path: String,
    #[serde(default)]
    start_line: Option<u64>,
    #[serde(default)]
    end_line: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OnePath {
    pub(super) path: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    path: String,
    content: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EditFile {
    path: String,
    old_string: String,
    new_string: String,
}

/// What a change came to.
pub(super) struct Changed {
    pub(super) change: Option<FileChange>,
    /// Why it cannot be taken back.
    pub(super) note: Option<String>,
}

impl Toolbox {
    pub(super) async fn read_file(&self, arguments: ReadFile, call: &Call<'_>) -> Answer {
        let path = self.path(&arguments.path, call).await?;
        let bytes = self.machine.read(&path, call.cancel).await?;
        if bytes[..bytes.len().min(BINARY_LOOK_BYTES)].contains(&0) {
            let size = counted(bytes.len() as u64, "byte");
            return Err(ToolError::Refused(format!("{path} is a binary file of {size}")));
        }
        let (first, range) = lines(&bytes, arguments.start_line, arguments.end_line)
            .map_err(|why| ToolError::Refused(format!("{path} {why}")))?;
        Ok(self.shown(range, first))
    }

    pub(super) async fn cat(&self, arguments: OnePath, call: &Call<'_>) -> Answer {
        let whole = ReadFile { path: arguments.path, start_line: None, end_line: None };
        self.read_file(whole, call).await
    }

    pub(super) async fn write_file(&self, arguments: WriteFile, call: &Call<'_>) -> Answer {
        let path = self.path(&arguments.path, call).await?;
        let content = arguments.content;
        self.put(&path, content, call).await
    }

    /// Writes a whole file; where all lines of the file that is there end in CRLF, the new ones do too.
    pub(super) async fn put(&self, path: &RootPath, content: String, call: &Call<'_>) -> Answer {
        let content_bytes = content.len();
        let before = match self.machine.read(path, call.cancel).await {
            Ok(bytes) => Some(bytes),
            Err(MachineError::NotFound(_)) => None,
            Err(MachineError::TooLarge { .. }) => {
                return self.put_over_large(path, content).await;
            }
            Err(error) => return Err(error.into()),
        };
        let crlf = before.as_deref().is_some_and(has_crlf_lines);
        let after = if crlf { with_crlf(&content) } else { content };
        let changed = self.change(path, before, after.into_bytes()).await?;
        Ok(said(format!("OK, {} written", counted(content_bytes as u64, "byte")), changed))
    }

    async fn put_over_large(&self, path: &RootPath, content: String) -> Answer {
        let bytes = counted(content.len() as u64, "byte");
        self.machine.write(path, content.into_bytes(), Before::Any).await?;
        let note = Some("the file that was there is too large to be kept".to_owned());
        Ok(said(format!("OK, {bytes} written"), Changed { change: None, note }))
    }

    pub(super) async fn edit_file(&self, arguments: EditFile, call: &Call<'_>) -> Answer {
        let path = self.path(&arguments.path, call).await?;
        let before = self.machine.read(&path, call.cancel).await?;
        let EditFile { old_string, new_string, .. } = arguments;
        let editing = tokio::task::spawn_blocking(move || {
            let after = edit(&before, &old_string, &new_string);
            (before, after)
        });
        let (before, after) = editing.await.map_err(|error| ToolError::Refused(error.to_string()))?;
        let after = after.map_err(|error| ToolError::Refused(format!("{path}: {error}")))?;
        let changed = self.change(&path, Some(before), after).await?;
        Ok(said("OK".to_owned(), changed))
    }

    pub(super) async fn delete_file(&self, arguments: OnePath, call: &Call<'_>) -> Answer {
        let path = self.path(&arguments.path, call).await?;
        let before = self.machine.read(&path, call.cancel).await?;
        let before = Arc::new(before);
        let guard = Before::of(Some(Arc::clone(&before)));
        let kept = self.keep(before).await;
        self.machine.remove(&path, guard).await?;
        Ok(said("OK, deleted".to_owned(), recorded(&path, kept.map(Some), GONE.to_owned())))
    }

    /// Replaces what was read by what is to be there.
    pub(super) async fn change(
        &self,
        path: &RootPath,
        before: Option<Vec<u8>>,
        after: Vec<u8>,
    ) -> Result<Changed, ToolError> {
        if before.as_ref() == Some(&after) {
            return Ok(Changed { change: None, note: Some("the file was like this already".to_owned()) });
        }
        let before = before.map(Arc::new);
        let guard = Before::of(before.clone());
        let hash = blake3::hash(&after).to_hex().to_string();
        let kept = match before {
            Some(bytes) => self.keep(bytes).await.map(Some),
            None => Ok(None),
        };
        self.machine.write(path, after, guard).await?;
        Ok(recorded(path, kept, hash))
    }

    /// Keeps the bytes of a file for undo.
    async fn keep(&self, bytes: Arc<Vec<u8>>) -> Result<String, String> {
        let artefacts = self.artefacts.clone();
        let keeping = tokio::task::spawn_blocking(move || artefacts.keep_preimage(&bytes));
        match keeping.await {
            Ok(Ok(name)) => Ok(name),
            Ok(Err(error)) => Err(format!("what was there could not be kept: {error}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// File contents within the limits; the whole needs no artefact, it is the file.
    fn shown(&self, bytes: &[u8], first_line: u64) -> Outcome {
        let text = String::from_utf8_lossy(bytes);
        let lossy = matches!(text, std::borrow::Cow::Owned(_));
        let redacted = self.secrets.redact(&text);
        let mut excerpt = HeadTail::new(self.limits);
        excerpt.push(redacted.as_bytes());
        let excerpt = excerpt.finish();
        let told = |text: &str| self.secrets.redact(&strip_controls(text)).into_owned();
        let mut output = match excerpt.gap {
            None => told(&excerpt.head),
            Some(gap) => {
                let from = first_line + excerpt.head.matches('\n').count() as u64;
                let bytes = counted(gap.bytes, "byte");
                let notice = match gap.lines {
                    0 => format!("… [{bytes} of line {} left out] …", grouped(from)),
                    lines => format!(
                        "… [lines {} to {} left out ({bytes}); read them with start_line and end_line] …",
                        grouped(from),
                        grouped(from + lines - 1)
                    ),
                };
                joined(&told(&excerpt.head), &notice, &told(&excerpt.tail))
            }
        };
        if lossy {
            output.push_str("\n[not all of it is UTF-8 text; \u{FFFD} stands for what is not]");
        }
        Outcome { truncated: excerpt.gap.is_some(), ..Outcome::ok(output) }
    }
}

/// The asked lines of a file, and the number of the first.
fn lines(bytes: &[u8], start: Option<u64>, end: Option<u64>) -> Result<(u64, &[u8]), String> {
    let first = start.unwrap_or(1);
    let last = end.unwrap_or(u64::MAX);
    if first == 0 || last < first {
        return Err("has lines from 1; end_line cannot be before start_line".to_owned());
    }
    if start.is_none() && end.is_none() {
        return Ok((1, bytes));
    }
    let mut at = 0;
    let (mut from, mut to) = (None, bytes.len());
    let mut count = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        count += 1;
        if count == first {
            from = Some(at);
        }
        at += line.len();
        if count == last {
            to = at;
            break;
        }
    }
    from.map(|from| (first, &bytes[from..to])).ok_or_else(|| format!("has {}", counted(count, "line")))
}

fn recorded(path: &RootPath, kept: Result<Option<String>, String>, after_hash: String) -> Changed {
    match kept {
        Ok(before) => {
            let path = path.as_str().to_owned();
            Changed { change: Some(FileChange { path, before, after_hash }), note: None }
        }
        Err(why) => Changed { change: None, note: Some(format!("this cannot be undone: {why}")) },
    }
}

fn said(text: String, changed: Changed) -> Outcome {
    let text = match changed.note {
        Some(note) => format!("{text} ({note})"),
        None => text,
    };
    Outcome { changes: changed.change.into_iter().collect(), ..Outcome::new(Status::Ok, text) }
}
