//! `read_file`, `cat`, `write_file`, `edit_file`, `delete_file`.
//!
//! A change reads the current file, stores it for undo, and writes if the file is unchanged since.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use sysop_core::message::ToolCall;
use sysop_core::outcome::{FileChange, Outcome, Status};
use sysop_core::policy::Fence;
use sysop_core::redact::shapes::redact_shapes;
use sysop_core::text::strip_controls;
use sysop_core::ui_text::{counted, grouped};
use sysop_driver::port::{CancellationToken, DeltaSink};

use super::edit::{edit, has_crlf_lines, with_crlf};
use super::{CallContext, EDIT_FILE, ToolError, ToolOutcome, Toolbox, read};
use crate::machine::{MachineError, Precondition};
use crate::output::capture::joined;
use crate::output::head_tail::HeadTail;
use crate::path::RootPath;

/// A file with a NUL byte within this prefix counts as binary.
const BINARY_LOOK_BYTES: usize = 8 * 1024;
/// Maximum time of the check whether an edit would apply. After that, the call is decided without the check.
const EDIT_CHECK_MAX: Duration = Duration::from_secs(3);
/// Hash recorded for undo if the file does not exist after the change.
pub(crate) const GONE: &str = "";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    path: String,
    start_line: Option<u64>,
    end_line: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathArguments {
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

/// Content of a file before and after an edit.
struct EditedFile {
    path: RootPath,
    before: Vec<u8>,
    after: Vec<u8>,
}

pub(super) struct ChangeRecord {
    pub(super) change: Option<FileChange>,
    /// Remark for the model: the reason why the change cannot be undone, or that the file was not changed.
    pub(super) note: Option<String>,
}

impl Toolbox {
    pub(super) async fn read_file(&self, arguments: ReadFile, call: &CallContext<'_>) -> ToolOutcome {
        let path = self.path(&arguments.path, call).await?;
        let bytes = self.machine.read(&path, call.cancel).await?;
        if bytes[..bytes.len().min(BINARY_LOOK_BYTES)].contains(&0) {
            let size = counted(bytes.len() as u64, "byte");
            return Err(ToolError::Refused(format!("{path} is a binary file of {size}")));
        }
        let (first, range) = lines(&bytes, arguments.start_line, arguments.end_line)
            .map_err(|why| ToolError::Refused(format!("{path} {why}")))?;
        Ok(self.excerpt_outcome(range, first))
    }

    pub(super) async fn cat(&self, arguments: PathArguments, call: &CallContext<'_>) -> ToolOutcome {
        let whole = ReadFile { path: arguments.path, start_line: None, end_line: None };
        self.read_file(whole, call).await
    }

    pub(super) async fn write_file(&self, arguments: WriteFile, call: &CallContext<'_>) -> ToolOutcome {
        let path = self.path(&arguments.path, call).await?;
        let content = arguments.content;
        self.write_whole(&path, content, call).await
    }

    /// Writes a whole file. If all lines of the existing file end in CRLF, so do the lines of the new file.
    pub(super) async fn write_whole(
        &self,
        path: &RootPath,
        content: String,
        call: &CallContext<'_>,
    ) -> ToolOutcome {
        let content_bytes = content.len();
        let before = match self.machine.read(path, call.cancel).await {
            Ok(bytes) => Some(bytes),
            Err(MachineError::NotFound(_)) => None,
            Err(MachineError::TooLarge { .. }) => {
                return self.write_over_large(path, content).await;
            }
            Err(error) => return Err(error.into()),
        };
        let crlf = before.as_deref().is_some_and(has_crlf_lines);
        let after = if crlf { with_crlf(&content) } else { content };
        let changed = self.change(path, before, after.into_bytes()).await?;
        Ok(change_outcome(format!("OK, {} written", counted(content_bytes as u64, "byte")), changed))
    }

    async fn write_over_large(&self, path: &RootPath, content: String) -> ToolOutcome {
        let bytes = counted(content.len() as u64, "byte");
        self.machine.write(path, content.into_bytes(), Precondition::Any).await?;
        let note = Some("the previous file is too large to be saved for undo".to_owned());
        Ok(change_outcome(format!("OK, {bytes} written"), ChangeRecord { change: None, note }))
    }

    pub(super) async fn edit_file(&self, arguments: EditFile, call: &CallContext<'_>) -> ToolOutcome {
        let EditedFile { path, before, after } = self.edited(arguments, call).await?;
        let changed = self.change(&path, Some(before), after).await?;
        Ok(change_outcome("OK".to_owned(), changed))
    }

    /// Applies an edit to the content of the file, and writes nothing.
    async fn edited(&self, arguments: EditFile, call: &CallContext<'_>) -> Result<EditedFile, ToolError> {
        let path = self.path(&arguments.path, call).await?;
        let before = self.machine.read(&path, call.cancel).await?;
        let EditFile { old_string, new_string, .. } = arguments;
        let editing = tokio::task::spawn_blocking(move || {
            let after = edit(&before, &old_string, &new_string);
            (before, after)
        });
        let (before, after) = editing.await.map_err(|error| ToolError::Refused(error.to_string()))?;
        let after = after.map_err(|error| ToolError::Refused(format!("{path}: {error}")))?;
        Ok(EditedFile { path, before, after })
    }

    /// Returns the text with which an edit would fail now. Returns `None` if the edit would succeed, if that is not
    /// known within a short time, and for every other tool.
    pub(crate) async fn certain_failure(&self, call: &ToolCall) -> Option<String> {
        if call.name != EDIT_FILE {
            return None;
        }
        let (fence, sink, cancel) = (&Fence::Off, DeltaSink::none(), &CancellationToken::new());
        let context = CallContext { id: &call.id, fence, guard: None, sink, cancel };
        let editing = async { self.edited(read(&call.arguments)?, &context).await };
        let error = tokio::time::timeout(EDIT_CHECK_MAX, editing).await.ok()?.err()?;
        match error {
            ToolError::Machine(
                MachineError::Unreachable(_)
                | MachineError::Unknown(_)
                | MachineError::Cancelled
                | MachineError::Changed(_)
                | MachineError::Refused(_),
            ) => None,
            ToolError::Machine(_) | ToolError::Arguments(_) | ToolError::Refused(_) => {
                Some(redact_shapes(&self.failed(&error).await.output).into_owned())
            }
        }
    }

    pub(super) async fn delete_file(&self, arguments: PathArguments, call: &CallContext<'_>) -> ToolOutcome {
        let path = self.path(&arguments.path, call).await?;
        let before = self.machine.read(&path, call.cancel).await?;
        let before = Arc::new(before);
        let precondition = Precondition::of(Some(Arc::clone(&before)));
        let kept = self.store_preimage(before).await;
        self.machine.remove(&path, precondition).await?;
        Ok(change_outcome("OK, deleted".to_owned(), change_record(&path, kept.map(Some), GONE.to_owned())))
    }

    /// Replaces the content of a file with `after`. Fails if the content is no longer `before`, which was read earlier.
    pub(super) async fn change(
        &self,
        path: &RootPath,
        before: Option<Vec<u8>>,
        after: Vec<u8>,
    ) -> Result<ChangeRecord, ToolError> {
        if before.as_ref() == Some(&after) {
            return Ok(ChangeRecord {
                change: None,
                note: Some("the file already had this content".to_owned()),
            });
        }
        let before = before.map(Arc::new);
        let precondition = Precondition::of(before.clone());
        let hash = blake3::hash(&after).to_hex().to_string();
        let kept = match before {
            Some(bytes) => self.store_preimage(bytes).await.map(Some),
            None => Ok(None),
        };
        self.machine.write(path, after, precondition).await?;
        Ok(change_record(path, kept, hash))
    }

    async fn store_preimage(&self, bytes: Arc<Vec<u8>>) -> Result<String, String> {
        let artifacts = self.artifacts.clone();
        let keeping = tokio::task::spawn_blocking(move || artifacts.store_preimage(&bytes));
        match keeping.await {
            Ok(Ok(name)) => Ok(name),
            Ok(Err(error)) => Err(format!("cannot save the previous file for undo: {error}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns file contents within the limits. The full content needs no artifact, because it is in the file itself.
    fn excerpt_outcome(&self, bytes: &[u8], first_line: u64) -> Outcome {
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
                    0 => format!("… [{bytes} of line {} omitted] …", grouped(from)),
                    lines => format!(
                        "… [lines {} to {} omitted ({bytes}); read them with start_line and end_line] …",
                        grouped(from),
                        grouped(from + lines - 1)
                    ),
                };
                joined(&told(&excerpt.head), &notice, &told(&excerpt.tail))
            }
        };
        if lossy {
            output.push_str("\n[invalid UTF-8 is shown as \u{FFFD}]");
        }
        Outcome { truncated: excerpt.gap.is_some(), ..Outcome::ok(output) }
    }
}

fn lines(bytes: &[u8], start: Option<u64>, end: Option<u64>) -> Result<(u64, &[u8]), String> {
    let first = start.unwrap_or(1);
    let last = end.unwrap_or(u64::MAX);
    if first == 0 || last < first {
        return Err(
            "was not read: start_line must be at least 1, and end_line at least start_line".to_owned()
        );
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
    from.map(|from| (first, &bytes[from..to])).ok_or_else(|| format!("has only {}", counted(count, "line")))
}

fn change_record(path: &RootPath, kept: Result<Option<String>, String>, after_hash: String) -> ChangeRecord {
    match kept {
        Ok(before) => {
            let path = path.as_str().to_owned();
            ChangeRecord { change: Some(FileChange { path, before, after_hash }), note: None }
        }
        Err(why) => ChangeRecord { change: None, note: Some(format!("cannot undo this: {why}")) },
    }
}

fn change_outcome(text: String, changed: ChangeRecord) -> Outcome {
    let text = match changed.note {
        Some(note) => format!("{text} ({note})"),
        None => text,
    };
    Outcome { changes: changed.change.into_iter().collect(), ..Outcome::new(Status::Ok, text) }
}
