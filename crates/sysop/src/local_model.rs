//! Models on this machine: the locations of their files and server, and the connection from a session.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::model_provider::LOCAL;
use sysop_local::{Catalog, CatalogError, InstalledServer, ModelEntry, ModelFolder, SupervisorCommand};
use sysop_provider::LocalServer;

use crate::config::UserDirs;
use crate::settings::Settings;

mod commands;
mod get;

pub(crate) use commands::run;
pub(crate) use get::{GetConsent, download_model, human_bytes};

/// Directory for the models, in the data directory.
const MODELS: &str = "models";
/// Directory for the supervisor's socket, in the cache directory, if the system has no directory for sockets.
const RUN: &str = "run";

#[derive(Debug)]
pub(crate) struct LocalModels {
    pub(crate) catalog: Catalog,
    /// Config entries that cannot be used.
    pub(crate) errors: Vec<CatalogError>,
    pub(crate) folder: ModelFolder,
    path: Option<String>,
}

impl LocalModels {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (catalog, errors) = Catalog::with(settings.local_models.iter().cloned());
        let folder = ModelFolder::new(settings.folders.data.join(MODELS));
        Self { catalog, errors, folder, path: absolute_path(settings.environment.value("PATH")) }
    }

    /// Returns the program that runs models, if one is installed.
    pub(crate) fn server(&self) -> Option<InstalledServer> {
        let build = self.catalog.server(std::env::consts::OS, std::env::consts::ARCH);
        self.folder.server(build, self.path.as_deref())
    }

    pub(crate) fn installed(&self) -> impl Iterator<Item = &ModelEntry> {
        self.catalog.models().iter().filter(|model| self.folder.installed(model).is_some())
    }

    /// Returns the first downloaded model, if a program that runs it is also installed.
    pub(crate) fn runnable(&self) -> Option<&ModelEntry> {
        let model = self.installed().next()?;
        self.server().map(|_| model)
    }
}

/// Returns PATH without its relative entries, because a workspace must not choose what runs.
fn absolute_path(path: Option<&str>) -> Option<String> {
    let entries = std::env::split_paths(path?).filter(|entry| entry.is_absolute());
    std::env::join_paths(entries).ok()?.into_string().ok()
}

/// Returns the directory for the supervisor's socket.
fn runtime_folder(settings: &Settings) -> PathBuf {
    let of_system = settings.environment.value("XDG_RUNTIME_DIR").map(PathBuf::from);
    match of_system.filter(|folder| folder.is_absolute() && folder.is_dir()) {
        Some(folder) => folder.join("sysop"),
        None => of_cache(&settings.folders),
    }
}

fn of_cache(folders: &UserDirs) -> PathBuf {
    folders.cache.join(RUN)
}

pub(crate) fn servers(settings: &Settings) -> sysop_local::LocalServers {
    let mut arguments = vec!["model".into(), "supervise".into()];
    if let Some(config) = &settings.explicit_config {
        arguments.extend(["--config".into(), config.clone().into_os_string()]);
    }
    // If the path of this program is unknown, sysop was replaced while running; the new one is on the PATH.
    let program = std::env::current_exe().unwrap_or_else(|_| "sysop".into());
    sysop_local::LocalServers::new(runtime_folder(settings), SupervisorCommand { program, arguments })
}

/// The servers as seen by the providers.
pub(crate) struct ServersOfMachine(sysop_local::LocalServers);

impl ServersOfMachine {
    pub(crate) fn shared(settings: &Settings) -> Arc<dyn sysop_provider::LocalServers> {
        Arc::new(Self(servers(settings)))
    }
}

#[async_trait]
impl sysop_provider::LocalServers for ServersOfMachine {
    async fn server(&self, model: &str) -> Result<LocalServer, String> {
        let lease = self.0.lease(model).await?;
        Ok(LocalServer::new(lease.base_url.clone(), lease.key.clone(), lease))
    }
}

/// Returns the context window, in tokens, that a local model will have on this machine; `None` for other models.
pub(crate) fn context_window(settings: &Settings, model: &sysop_core::message::ModelRef) -> Option<u32> {
    if model.provider != LOCAL.name {
        return None;
    }
    let models = LocalModels::new(settings);
    let model = models.catalog.model(&model.name)?;
    Some(sysop_local::context_for(model, &sysop_local::Machine::examine()))
}
