//! Runs tools on a machine: files inside a root, commands in a session of their own, output limits.
//!
//! A [`LocalHost`] offers the tools of a profile on this machine. Each tool is written once, over a small
//! inner trait (`machine::Machine`), so that another machine is another implementation of that trait and
//! nothing else. Nothing here asks a person, decides whether a call may run, or speaks to a model.
//!
//! File tools are confined to the root by the system; commands are not: they run with all rights of their user.

#[cfg(not(target_os = "linux"))]
compile_error!("tools run on Linux only so far: sessions, process trees and waiting use its own calls");

mod local;
mod machine;
mod output;
mod path;
mod settings;
mod terminal;
mod tools;

use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::catalogue;
use sysop_core::message::ToolCall;
use sysop_core::outcome::Outcome;
use sysop_core::tool::ToolSpec;
use sysop_driver::people::{People, Terminal};
use sysop_driver::port::{CancellationToken, DeltaSink, Host};

use crate::local::LocalMachine;
use crate::machine::Machine;
pub use crate::machine::{FILE_BYTES_MAX, FIND_FILES_MAX, LIST_ENTRIES_MAX};
pub use crate::output::OutputLimits;
use crate::output::artefacts::Artefacts;
use crate::output::redact::Secrets;
pub use crate::settings::{ARTEFACT_BYTES_MAX, HostError, LocalSettings};
use crate::terminal::SharedTerminal;
use crate::tools::Toolbox;

/// This machine's tools.
pub struct LocalHost {
    toolbox: Toolbox,
}

impl LocalHost {
    /// Opens the root and prepares the tools. Starts no process and creates no file. Calls have to be run on
    /// a tokio runtime with IO and time.
    pub fn open(settings: LocalSettings) -> Result<Self, HostError> {
        let profile = settings.profile;
        let secrets = Arc::new(Secrets::new(&settings.secrets));
        let machine = LocalMachine::open(&settings.root, &settings.scrub_env, &secrets)?;
        let machine: Arc<dyn Machine> = Arc::new(machine.with_terminal_shell(settings.shell));
        let artefacts = Artefacts::new(settings.artefacts, settings.artefact_bytes_max);
        let mut specs = catalogue::tools(profile);
        if settings.allow_delete {
            specs.push(catalogue::delete_file());
        }
        let toolbox = Toolbox {
            terminal: SharedTerminal::new(Arc::clone(&machine), artefacts.clone(), Arc::clone(&secrets)),
            machine,
            specs,
            limits: settings.limits,
            artefacts,
            secrets,
            chunked: std::sync::Mutex::default(),
        };
        Ok(Self { toolbox })
    }
}

#[async_trait]
impl Host for LocalHost {
    fn tools(&self) -> &[ToolSpec] {
        &self.toolbox.specs
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        self.toolbox.run(call, sink, &cancel).await
    }

    fn attend(&self, people: Arc<dyn People>) {
        self.toolbox.terminal.attend(people);
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        Some(Arc::clone(&self.toolbox.terminal) as Arc<dyn Terminal>)
    }
}

impl std::fmt::Debug for LocalHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalHost").field("tools", &self.toolbox.specs.len()).finish()
    }
}
