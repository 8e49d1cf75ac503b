//! Runs tools on a machine: file tools confined to a root, commands in sessions of their own, bounded output.
//!
//! A [`LocalHost`] offers the tools of a profile on this machine. Each tool is written once, over the small internal
//! trait `machine::Machine`, so that support for another kind of machine is one more implementation of that trait.
//! Nothing in this crate asks a user, decides whether a call may run, or talks to a model.
//!
//! The kernel confines file tools to the root. Commands are not confined to it: they run with all privileges
//! of their user, except inside a fence (`sandbox`).

mod askpass;
mod environment;
mod fleet;
mod ignore_rules;
mod instruction_files;
mod learning_prompter;
mod local;
mod machine;
mod outcome_builder;
mod output;
mod path;
mod pipe;
pub mod platform;
mod probe;
mod sandbox;
mod settings;
mod skill_files;
mod spawn;
mod ssh;
mod survey;
mod terminal;
mod tools;
mod undo;
mod watchdog;

use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::catalog::{self, Profile};
use sysop_core::guard::GuardTimeout;
use sysop_core::id::CallId;
use sysop_core::message::ToolCall;
use sysop_core::outcome::Outcome;
use sysop_core::policy::{Fence, ResolvedTarget, SandboxMode, Survey, Target, UndoOffer};
use sysop_core::preview::{PreviewPlan, ProbeResult};
use sysop_core::redact::shapes::redact_cut_shapes;
use sysop_core::tool::ToolSpec;
use sysop_driver::port::{CancellationToken, DeltaSink, Host};
use sysop_driver::prompter::{Prompter, Terminal};

pub use crate::askpass::{ASKPASS_VARIABLE, run_as_askpass};
pub use crate::fleet::{Fleet, FleetError, FleetSettings, HOSTS_AT_ONCE};
pub use crate::instruction_files::{
    InstructionKind, InstructionText, read_instruction_files, read_remote_instruction_files,
};
use crate::learning_prompter::LearningPrompter;
use crate::local::LocalMachine;
pub use crate::local::{PipedCommand, PipedProgram, ProgramPipes};
use crate::machine::Machine;
pub use crate::machine::{FILE_BYTES_MAX, FIND_FILES_MAX, LIST_ENTRIES_MAX};
pub use crate::outcome_builder::OutcomeBuilder;
pub use crate::output::OutputLimits;
use crate::output::artifacts::Artifacts;
use crate::output::capture::redacted_text;
pub use crate::output::images::{ImageStoreError, load_image, store_image, store_image_file};
pub use crate::output::purge_session::purge_session;
use crate::output::redact::Secrets;
pub use crate::sandbox::SandboxSupport;
pub use crate::settings::{ARTIFACT_BYTES_MAX, HostError, LocalSettings, RemoteSettings};
pub use crate::skill_files::read_own_skill_files;
pub use crate::ssh::{
    CONNECT_TIMEOUT_DEFAULT, GUARD_SECONDS_DEFAULT, GUARD_SETTLE_DEFAULT, GuardStatus, GuardVerb,
    MachineInfo, PortForward, SURVEY_TIMEOUT_DEFAULT, SshConnection, SshError, SshSettings, is_container,
};
use crate::ssh::{Guards, SshMachine, guarded_command};
use crate::terminal::SharedTerminal;
use crate::tools::Toolbox;
pub use crate::undo::{UNDO_BYTES_DEFAULT, UndoSettings};

pub use crate::local::survey_here;

/// Tools on this machine.
pub struct LocalHost {
    toolbox: Toolbox,
}

impl LocalHost {
    /// Opens the root and prepares the tools. Starts no process and creates no file. The tools must be called on a
    /// tokio runtime with IO and time.
    pub fn open(settings: LocalSettings) -> Result<Self, HostError> {
        let profile = settings.profile;
        let secrets = Arc::new(Secrets::new(&settings.secrets));
        let machine = LocalMachine::open(&settings.root, &settings.scrub_env, &secrets)?;
        let machine: Arc<dyn Machine> = Arc::new(
            machine
                .with_terminal_shell(settings.shell)
                .with_file_bytes_max(settings.file_bytes_max)
                .with_session_start(settings.session_start)
                .with_sandbox(settings.sandbox),
        );
        let artifacts = Artifacts::new(settings.artifacts, settings.artifact_bytes_max);
        let mut specs = specs(profile, settings.allow_delete);
        if settings.sandbox_mode == SandboxMode::Auto && settings.sandbox.is_usable() {
            catalog::offer_outside_sandbox(&mut specs);
        }
        let mut toolbox = toolbox(machine, specs, settings.limits, artifacts, secrets);
        toolbox.undo_settings = settings.undo;
        toolbox.root = std::fs::canonicalize(&settings.root).unwrap_or(settings.root);
        Ok(Self { toolbox })
    }

    /// Resolves targets to files, as a survey does. Returns `None` if they cannot be resolved.
    pub async fn resolve(&self, targets: Vec<Target>) -> Option<Vec<ResolvedTarget>> {
        self.toolbox.resolve(targets).await
    }
}

/// Tools on another machine, over ssh.
pub struct SshHost {
    toolbox: Toolbox,
    guards: Guards,
    connection: SshConnection,
}

impl SshHost {
    /// Prepares the tools. The connection is opened when a tool is first used.
    pub fn open(settings: RemoteSettings) -> Result<Self, HostError> {
        let secrets = Arc::new(Secrets::new(&settings.secrets));
        let machine =
            Arc::new(SshMachine::new(&settings.connection, settings.root.as_deref(), settings.session_start));
        let artifacts = Artifacts::new(settings.artifacts, settings.artifact_bytes_max);
        let specs = specs(settings.profile, settings.allow_delete);
        let mut toolbox = toolbox(machine, specs, settings.limits, artifacts, secrets);
        toolbox.undo_settings = settings.undo;
        let guards = Guards::new(&settings.connection, settings.guard_seconds, settings.guard_settle);
        Ok(Self { toolbox, guards, connection: settings.connection })
    }

    /// Resolves targets to files, as a survey does. Returns `None` if the machine cannot be reached.
    pub async fn resolve(&self, targets: Vec<Target>) -> Option<Vec<ResolvedTarget>> {
        self.toolbox.resolve(targets).await
    }

    pub fn connection(&self) -> &SshConnection {
        &self.connection
    }
}

fn toolbox(
    machine: Arc<dyn Machine>,
    specs: Vec<ToolSpec>,
    limits: OutputLimits,
    artifacts: Artifacts,
    secrets: Arc<Secrets>,
) -> Toolbox {
    Toolbox {
        terminal: SharedTerminal::new(Arc::clone(&machine), artifacts.clone(), Arc::clone(&secrets)),
        fenced_terminal: parking_lot::Mutex::default(),
        machine,
        specs,
        root: std::path::PathBuf::new(),
        limits,
        artifacts,
        secrets,
        chunked: parking_lot::Mutex::default(),
        time_limits: tools::TimeLimits::default(),
        undo_settings: UndoSettings::default(),
        capture_timeouts: undo::CaptureTimeouts::default(),
        last_survey: parking_lot::Mutex::default(),
    }
}

fn specs(profile: Profile, allow_delete: bool) -> Vec<ToolSpec> {
    let mut specs = catalog::tools(profile);
    if allow_delete {
        specs.push(catalog::delete_file());
    }
    specs
}

#[async_trait]
impl Host for LocalHost {
    fn tools(&self) -> &[ToolSpec] {
        &self.toolbox.specs
    }

    async fn survey(&self, call: &ToolCall) -> Survey {
        self.toolbox.survey(call, &Fence::Off).await
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        self.toolbox.run(call, &Fence::Off, sink, &cancel).await
    }

    async fn probe(&self, plan: &PreviewPlan, cancel: CancellationToken) -> Vec<ProbeResult> {
        let usable = SandboxSupport::of_kernel().is_usable();
        let fence = if usable { Fence::ReadOnly { network: false } } else { Fence::Off };
        vec![self.toolbox.probe(plan, &fence, &cancel).await]
    }

    async fn survey_fenced(&self, call: &ToolCall, shell: &Fence) -> Survey {
        self.toolbox.survey(call, shell).await
    }

    async fn run_fenced(
        &self,
        call: ToolCall,
        fence: Fence,
        sink: DeltaSink,
        cancel: CancellationToken,
    ) -> Outcome {
        self.toolbox.run(call, &fence, sink, &cancel).await
    }

    fn set_prompter(&self, people: Arc<dyn Prompter>) {
        self.toolbox.terminal.set_prompter(LearningPrompter::wrap(people, &self.toolbox.secrets));
    }

    fn lift_time_limit(&self, call: &CallId) {
        self.toolbox.time_limits.lift(call);
    }

    fn redact(&self, output: &str) -> String {
        redacted_text(Some(&self.toolbox.secrets), output, redact_cut_shapes).0
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        Some(Arc::clone(&self.toolbox.terminal) as Arc<dyn Terminal>)
    }
}

#[async_trait]
impl Host for SshHost {
    fn tools(&self) -> &[ToolSpec] {
        &self.toolbox.specs
    }

    async fn survey(&self, call: &ToolCall) -> Survey {
        let survey = self.toolbox.survey(call, &Fence::Off).await;
        match guarded_command(call) {
            // An undo touches what the undone command touched.
            Some(undone) if matches!(survey.undo, UndoOffer::Offered { .. }) => {
                let of_command = self.toolbox.survey(&undone, &Fence::Off).await;
                Survey { guard: self.guards.offer(&undone, &of_command).await, ..survey }
            }
            Some(_) => survey,
            None => Survey { guard: self.guards.offer(call, &survey).await, ..survey },
        }
    }

    async fn run(&self, call: ToolCall, sink: DeltaSink, cancel: CancellationToken) -> Outcome {
        self.toolbox.run(call, &Fence::Off, sink, &cancel).await
    }

    async fn run_guarded(
        &self,
        call: ToolCall,
        guard: GuardTimeout,
        sink: DeltaSink,
        cancel: CancellationToken,
    ) -> Outcome {
        self.guards.run(&self.toolbox, call, guard, sink, &cancel).await
    }

    async fn probe(&self, plan: &PreviewPlan, cancel: CancellationToken) -> Vec<ProbeResult> {
        vec![self.toolbox.probe(plan, &Fence::Off, &cancel).await]
    }

    fn set_prompter(&self, people: Arc<dyn Prompter>) {
        let people = LearningPrompter::wrap(people, &self.toolbox.secrets);
        self.connection.set_prompter(Arc::clone(&people));
        self.guards.set_prompter(Arc::clone(&people));
        self.toolbox.terminal.set_prompter(people);
    }

    fn lift_time_limit(&self, call: &CallId) {
        self.toolbox.time_limits.lift(call);
    }

    fn redact(&self, output: &str) -> String {
        redacted_text(Some(&self.toolbox.secrets), output, redact_cut_shapes).0
    }

    fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        Some(Arc::clone(&self.toolbox.terminal) as Arc<dyn Terminal>)
    }
}

impl std::fmt::Debug for SshHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SshHost").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for LocalHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalHost").field("tools", &self.toolbox.specs.len()).finish()
    }
}
