//! A host with the tool `remember`, which adds a line to the user's notes on that host.
//!
//! The notes are stored on this machine, wherever the tools run. Later sessions read them as instructions.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::catalog::{self, REMEMBER_TOOL};
use sysop_core::message::ToolCall;
use sysop_core::outcome::Outcome;
use sysop_core::policy::{Fence, Survey};
use sysop_core::text::neutralize_line;
use sysop_core::tool::ToolSpec;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};

use crate::config::{create_private_folder, display_path};

/// Maximum size of a note, in bytes.
const NOTE_BYTES_MAX: usize = 2_000;
/// Maximum size of a notes file, in bytes; more would not fit into a prompt.
const FILE_BYTES_MAX: u64 = 32 * 1024;

pub(super) struct NotesHost {
    inner: Arc<dyn Host>,
    notes: PathBuf,
    tools: Vec<ToolSpec>,
}

impl NotesHost {
    /// Adds the tool `remember` to a host. `notes` is the path of the host's notes file.
    pub(super) fn new(inner: Arc<dyn Host>, notes: PathBuf) -> Self {
        let remember = catalog::remember();
        let tools = inner.tools().iter().chain([&remember]).cloned().collect();
        Self { inner, notes, tools }
    }

    fn remember(&self, call: &ToolCall) -> Outcome {
        let text = call.text_argument("text").unwrap_or_default();
        let note = neutralize_line(text.trim()).replace("\\n", " ");
        if note.is_empty() || note.len() > NOTE_BYTES_MAX {
            return Outcome::failed(format!("not saved: the note must be 1 to {NOTE_BYTES_MAX} bytes long"));
        }
        match self.append(&note) {
            Ok(()) => Outcome::ok(format!("saved in {}", display_path(&self.notes))),
            Err(error) => Outcome::failed(format!("cannot write {}: {error}", display_path(&self.notes))),
        }
    }

    fn append(&self, note: &str) -> io::Result<()> {
        if let Some(folder) = self.notes.parent() {
            create_private_folder(folder)?;
        }
        let mut options = std::fs::OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.notes)?;
        let length = file.metadata()?.len();
        if length + note.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other(format!("the file has {length} bytes already; remove old notes")));
        }
        writeln!(file, "- {note}")
    }
}

#[async_trait]
impl Host for NotesHost {
    fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    fn wrapped(&self) -> Option<&dyn Host> {
        Some(&*self.inner)
    }

    async fn survey(&self, call: &ToolCall) -> Survey {
        self.inner.survey(call).await
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        match call.name == REMEMBER_TOOL {
            true => self.remember(&call),
            false => self.inner.run(call, sink, cancel).await,
        }
    }

    async fn run_fenced(
        &self,
        call: ToolCall,
        fence: Fence,
        sink: DeltaSink,
        cancel: CancellationToken,
    ) -> Outcome {
        match call.name == REMEMBER_TOOL {
            true => self.remember(&call),
            false => self.inner.run_fenced(call, fence, sink, cancel).await,
        }
    }
}
