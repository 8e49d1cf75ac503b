//! Machines of a process: the hosts that run tools, and one connection per machine.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Result;
use async_trait::async_trait;
use parking_lot::Mutex;
use sysop_core::catalog::Profile;
use sysop_core::policy::SandboxMode;
use sysop_driver::port::Host;
use sysop_host::{
    Fleet, FleetSettings, LocalHost, LocalSettings, OutcomeBuilder, OutputLimits, RemoteSettings,
    SandboxSupport, SshConnection, SshError, SshHost, SshSettings, UndoSettings,
};
use sysop_mcp::{McpHost, McpHostSettings};
use sysop_provider::{ForwardedPort, RemoteError, RemoteMachine};

use crate::exit::CommandError;
use crate::mcp;
use crate::settings::{HostChoice, Settings, SshTarget};

/// Name of the directory, next to the database, for complete outputs and changed files' previous content.
pub(super) const ARTIFACTS: &str = "artefacts";
/// Name of the directory, next to the database, for the records from which changes on this machine are undone.
pub(super) const UNDO: &str = "undo";

/// Returns the artifact directory in sysop's data directory.
pub(crate) fn artifacts(data: &Path) -> PathBuf {
    data.join(ARTIFACTS)
}
/// Name of the directory for connection sockets, in the cache directory.
pub(crate) const SOCKETS: &str = "ssh";
/// Default root of a remote machine: the user's home directory there.
pub(crate) const HOME: &str = "~";

/// Factory for hosts. Cheap to clone; clones share connections.
#[derive(Clone)]
pub(crate) struct Machines {
    settings: Arc<Settings>,
    connections: Arc<Mutex<SshConnections>>,
}

/// Connections by destination and port.
type SshConnections = HashMap<(String, Option<u16>), SshConnection>;

impl Machines {
    /// Creates the factory without connecting.
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, connections: Arc::default() }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Creates a location's host. Fails if the root or the hosts are invalid.
    pub(crate) fn host(&self, place: &ToolLocation, profile: Profile) -> Result<Arc<dyn Host>> {
        match &place.host {
            HostChoice::Local => Ok(Arc::new(self.local(place, profile)?)),
            HostChoice::Ssh(target) => Ok(Arc::new(self.ssh_host(target, profile, place.session_start)?)),
            HostChoice::Fleet(targets) => {
                let far = |target: &SshTarget| -> Result<(String, Arc<dyn Host>)> {
                    Ok((target.name.clone(), Arc::new(self.ssh_host(target, profile, place.session_start)?)))
                };
                let hosts = targets.iter().map(far).collect::<Result<Vec<_>>>()?;
                let fleet = FleetSettings {
                    canary: self.settings.canary,
                    limits: self.limits(),
                    ..FleetSettings::new(self.artifacts())
                };
                let fleet =
                    Fleet::new(hosts, fleet).map_err(|error| CommandError::usage(error.to_string()))?;
                Ok(Arc::new(fleet))
            }
        }
    }

    /// Creates the host whose tools are offered to a server. Fails if the root is invalid.
    pub(crate) fn client_tools_host(
        &self,
        root: PathBuf,
        profile: Profile,
        allow_delete: bool,
        file_bytes_max: u64,
    ) -> Result<Arc<dyn Host>> {
        // The server's policy decides on calls and does not know this machine's sandbox.
        let sandbox_mode = SandboxMode::Off;
        let settings = self.local_settings(root, profile);
        let settings = LocalSettings { allow_delete, file_bytes_max, sandbox_mode, ..settings };
        let host = LocalHost::open(settings).map_err(|error| CommandError::usage(error.to_string()))?;
        Ok(Arc::new(host))
    }

    fn local(&self, place: &ToolLocation, profile: Profile) -> Result<LocalHost> {
        let settings = LocalSettings {
            session_start: place.session_start,
            ..self.local_settings(place.root.clone(), profile)
        };
        LocalHost::open(settings).map_err(|error| CommandError::usage(error.to_string()).into())
    }

    fn local_settings(&self, root: PathBuf, profile: Profile) -> LocalSettings {
        LocalSettings {
            profile,
            limits: self.limits(),
            scrub_env: self.settings.secret_variables.clone(),
            secrets: self.settings.secrets(),
            sandbox: self.sandbox(),
            sandbox_mode: self.settings.sandbox_mode(),
            undo: self.local_undo(),
            ..LocalSettings::new(root, self.artifacts())
        }
    }

    /// Returns the undo settings for this machine, whose records are stored next to the artifacts.
    fn local_undo(&self) -> UndoSettings {
        let folder = self.artifacts().with_file_name(UNDO);
        let folders = &self.settings.folders;
        let own = [&folders.data, &folders.cache].into_iter().filter_map(|folder| folder.to_str());
        UndoSettings {
            bytes_max: self.settings.undo_bytes,
            folder: folder.to_str().map(str::to_owned),
            own: own.map(str::to_owned).collect(),
        }
    }

    /// Returns the kernel's sandbox features. If the sandbox is off, returns none without a query.
    fn sandbox(&self) -> SandboxSupport {
        match self.settings.sandbox_mode() {
            SandboxMode::Off => SandboxSupport::NONE,
            SandboxMode::Auto | SandboxMode::On => SandboxSupport::of_kernel(),
        }
    }

    fn ssh_host(&self, target: &SshTarget, profile: Profile, session_start: SystemTime) -> Result<SshHost> {
        let connection = self.connection(target)?;
        let settings = RemoteSettings {
            profile,
            limits: self.limits(),
            secrets: self.settings.secrets(),
            session_start,
            guard_seconds: self.settings.guard_seconds,
            undo: UndoSettings { bytes_max: self.settings.undo_bytes, ..UndoSettings::default() },
            ..RemoteSettings::new(connection, target.root.clone(), self.artifacts())
        };
        SshHost::open(settings).map_err(|error| CommandError::usage(error.to_string()).into())
    }

    /// Returns the connection to a machine, shared by all callers. Fails if `ssh` rejects the destination.
    pub(crate) fn connection(&self, target: &SshTarget) -> Result<SshConnection, CommandError> {
        let mut connections = self.connections.lock();
        let key = (target.destination.clone(), target.port);
        if let Some(connection) = connections.get(&key) {
            return Ok(connection.clone());
        }
        let settings = SshSettings {
            port: target.port,
            config_file: self.settings.ssh_config.clone(),
            askpass_helper: std::env::current_exe().ok(),
            ..SshSettings::new(target.destination.clone(), self.settings.folders.cache.join(SOCKETS))
        };
        let connection =
            SshConnection::new(settings).map_err(|error| CommandError::usage(error.to_string()))?;
        connections.insert(key, connection.clone());
        Ok(connection)
    }

    /// Returns the machine that runs `ollama+ssh` models, or `None` unless the host is a single, valid ssh host.
    pub(crate) fn remote_machine(&self, host: &HostChoice) -> Option<Arc<dyn RemoteMachine>> {
        let HostChoice::Ssh(target) = host else { return None };
        let connection = self.connection(target).ok()?;
        Some(Arc::new(SshRemoteMachine(connection)))
    }

    /// Adds the MCP servers that the user has agreed to.
    pub(super) fn with_mcp_servers(&self, host: Arc<dyn Host>) -> McpHost {
        let settings = McpHostSettings {
            servers: mcp::ready_servers(&self.settings),
            outcomes: OutcomeBuilder::new(self.limits(), self.artifacts(), &self.settings.secrets()),
            record_change: mcp::recorder(&self.settings),
        };
        McpHost::new(host, settings)
    }

    /// Closes all connections and terminates the commands that use them.
    pub(crate) async fn close(&self) {
        let connections = std::mem::take(&mut *self.connections.lock());
        futures::future::join_all(connections.values().map(SshConnection::close)).await;
    }

    fn limits(&self) -> OutputLimits {
        let limits = &self.settings.limits;
        OutputLimits { bytes: limits.output_bytes, lines: limits.output_lines }
    }

    /// Returns the directory for calls' complete outputs and for the previous content of changed files.
    pub(super) fn artifacts(&self) -> PathBuf {
        artifacts(&self.settings.folders.data)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ToolLocation {
    pub(crate) host: HostChoice,
    /// Root of the file tools on this machine; `host` has the roots on remote machines.
    pub(crate) root: PathBuf,
    /// Start of the session. The policy checks the content of scripts that have changed since then.
    pub(crate) session_start: SystemTime,
}

impl ToolLocation {
    pub(crate) fn new(host: HostChoice, root: PathBuf) -> Self {
        Self { host, root, session_start: SystemTime::now() }
    }

    pub(crate) fn display_root(&self) -> String {
        let mut roots: Vec<&str> =
            self.host.targets().iter().map(|target| target.root.as_deref().unwrap_or(HOME)).collect();
        roots.dedup();
        match roots[..] {
            [] => self.root.display().to_string(),
            [one] => one.to_owned(),
            _ => roots.join(", "),
        }
    }
}

/// Connection to a remote machine, for providers that use the models on that machine.
struct SshRemoteMachine(SshConnection);

#[async_trait]
impl RemoteMachine for SshRemoteMachine {
    async fn forward(&self, to: &str) -> Result<ForwardedPort, RemoteError> {
        match self.0.forward(to).await {
            Ok(forward) => Ok(ForwardedPort::new(forward.address(), forward)),
            Err(SshError::ForwardNobody { .. }) => Err(RemoteError::NotListening),
            Err(error) => Err(RemoteError::Failed(error.to_string())),
        }
    }

    async fn ollama_host(&self) -> Result<Option<String>, RemoteError> {
        let asked = self.0.exec_sh(r#"printf %s "$OLLAMA_HOST""#, &[]).await;
        let (_, told) = asked.map_err(|error| RemoteError::Failed(error.to_string()))?;
        let told = String::from_utf8_lossy(&told).trim().to_owned();
        Ok((!told.is_empty()).then_some(told))
    }
}
