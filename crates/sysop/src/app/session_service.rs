//! Session service for the front ends of this process.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use sysop_core::event::{Event, Input, Logged};
use sysop_core::id::SessionId;
use sysop_core::image::ImageRef;
use sysop_core::message::ModelRef;
use sysop_core::model_provider::DEMO;
use sysop_core::skill::Skill;
use sysop_core::transcript::{Proposal, Transcript};
use sysop_driver::frontend::{
    AttachedSession, NamedItem, OfferedRule, Routine, SessionHandle, SessionSelector, SessionService,
    ToolServer, allow_by_rule,
};
use sysop_driver::port::{InstructionReader as _, SearchHit, SessionSummary};
use sysop_driver::system_clock;
use sysop_provider::ToolCalling;

use super::{Services, ToolLocation};
use crate::commands::approve_flag;
use crate::config::RoutineError;
use crate::local_model::LocalModels;
use crate::runbook;
use crate::select_model::{self, OllamaServer};
use crate::sessions::{self, DisplayOptions, ExportFormat, SESSIONS_MAX, resolve_id};
use crate::settings::{HostChoice, Settings};
use crate::tool_calling_file::ToolCallingFile;

/// Number of characters of a commit hash to show if no branch is checked out.
const COMMIT_CHARS: usize = 8;
/// Maximum number of bytes to read from a Git file.
const GIT_FILE_BYTES_MAX: u64 = 4096;
const COMPLETION_ENTRIES_MAX: usize = 65_536;
/// Maximum number of exports of a session under its default name in one directory.
const EXPORTS_MAX: u32 = 1000;

#[async_trait]
impl SessionService for Services {
    async fn open(&self, which: SessionSelector) -> Result<AttachedSession, String> {
        let opened = match which {
            SessionSelector::New => self.create_lazy(),
            SessionSelector::NewAfter(previous) => self.create_after(&previous),
            SessionSelector::NewOnHost { host, model, approve } => {
                let place = self.settings.hosts.resolve(&host).map_err(|error| error.to_string())?;
                let known = crate::known_host::check_host(&self.settings, &place).await;
                known.map_err(|error| error.to_string())?;
                self.create_on(&host, model, approve)
            }
            SessionSelector::Existing(id) => match resolve_id(self.store.as_ref(), &id).await {
                Ok(id) => self.resume(&id).await,
                Err(error) => return Err(error.to_string()),
            },
            SessionSelector::Fork { from, before, approve } => {
                let id = SessionId::new(uuid::Uuid::now_v7().to_string());
                match self.driver.fork(&from, before, &id, None).await {
                    Ok(()) => self.resume_at_least(&id, approve).await,
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
        opened.map_err(|error| format!("{error:#}"))
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, String> {
        self.store.list(SESSIONS_MAX).await.map_err(|error| error.to_string())
    }

    async fn models(&self) -> Vec<ModelRef> {
        let mut models = vec![self.model.clone()];
        let ollama = OllamaServer::new(&self.settings);
        // Blocks for a short timeout.
        let installed = tokio::task::spawn_blocking(move || ollama.models().to_vec());
        let offered = crate::model_lists::offered(&self.settings, &self.machines);
        let (installed, offered) = futures::join!(installed, offered);
        let known = installed.unwrap_or_default().into_iter().map(|name| ModelRef::new("ollama", name));
        let local = LocalModels::new(&self.settings);
        let local = local
            .installed()
            .map(|model| ModelRef::new(sysop_core::model_provider::LOCAL.name, model.name.clone()));
        let known = known.chain(select_model::models_with_keys(&self.settings));
        for model in known.chain(local).chain(offered) {
            if !models.contains(&model) {
                models.push(model);
            }
        }
        models
    }

    async fn artifact(&self, _: &SessionId, name: &str) -> Result<Vec<u8>, String> {
        let path = self.artifact_path(name)?;
        let read = tokio::fs::read(&path).await;
        read.map_err(|error| format!("cannot read the full output at {}: {error}", path.display()))
    }

    fn artifact_directory(&self) -> Option<PathBuf> {
        Some(self.machines.artifacts())
    }

    async fn attach_image(&self, session: &SessionId, path: &Path) -> Result<Option<ImageRef>, String> {
        let path = match path.strip_prefix("~") {
            Ok(rest) => self.settings.folders.home.join(rest),
            Err(_) => match self.place_of(session).await {
                Ok(ToolLocation { host: HostChoice::Local, root, .. }) => root.join(path),
                Ok(_) | Err(_) => path.to_owned(),
            },
        };
        let folder = self.machines.artifacts();
        let storing = tokio::task::spawn_blocking(move || sysop_host::store_image_file(&folder, &path)).await;
        storing.map_err(|error| error.to_string())?
    }

    async fn store_image(&self, _: &SessionId, bytes: Vec<u8>, name: &str) -> Result<ImageRef, String> {
        let (folder, name) = (self.machines.artifacts(), name.to_owned());
        let storing =
            tokio::task::spawn_blocking(move || sysop_host::store_image(&folder, &bytes, &name)).await;
        storing.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    async fn tool_servers(&self, session: &SessionId) -> Result<Vec<ToolServer>, String> {
        let hosts = self.mcp_hosts.lock();
        let of_session = hosts.iter().rev().find(|of| of.session.as_ref() == Some(session));
        let servers = of_session.and_then(|of| of.host.upgrade()).map(|host| host.servers());
        drop(hosts);
        Ok(crate::mcp::servers(&self.settings, &servers.unwrap_or_default()))
    }

    async fn paths(&self, session: &SessionId, prefix: &str, limit: usize) -> Vec<String> {
        let root = match self.place_of(session).await {
            Ok(ToolLocation { host: HostChoice::Local, root, .. }) => root,
            Ok(_) | Err(_) => return Vec::new(),
        };
        let prefix = prefix.to_owned();
        let found = tokio::task::spawn_blocking(move || paths_below(&root, &prefix, limit)).await;
        found.unwrap_or_default()
    }

    fn offered_rule(
        &self,
        _: &SessionId,
        transcript: &Transcript,
        proposal: &Proposal,
    ) -> Option<OfferedRule> {
        OfferedRule::for_proposal(transcript, proposal, self.rules_file())
    }

    async fn allow_always(
        &self,
        session: &dyn SessionHandle,
        offered: &OfferedRule,
        by: &str,
    ) -> Result<(), String> {
        let rule = offered.rule.as_ref().ok_or("no rule to write; the command is still pending")?;
        let rule = self.write_rule(rule)?;
        allow_by_rule(session, rule, offered.call.clone(), by)
    }

    fn hosts(&self) -> Vec<NamedItem> {
        let hosts = self.settings.host_names().into_iter();
        hosts.map(|(name, description)| NamedItem { name, description }).collect()
    }

    async fn skills(&self, session: &SessionId) -> Vec<Skill> {
        let Ok(place) = self.place_of(session).await else { return Vec::new() };
        let found = self.instructions(&place).read().await;
        found.instructions.skills.found.iter().map(Skill::without_body).collect()
    }

    async fn search(&self, text: &str) -> Result<Vec<SearchHit>, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        self.store.search(&words, SESSIONS_MAX).await.map_err(|error| error.to_string())
    }

    async fn git_branch(&self, session: &SessionId) -> Option<String> {
        let place = self.place_of(session).await.ok()?;
        if !matches!(place.host, HostChoice::Local) {
            return None;
        }
        tokio::task::spawn_blocking(move || git_branch(&place.root)).await.ok()?
    }

    async fn model_status(&self, session: &SessionId, model: &ModelRef) -> Option<String> {
        if model.provider == DEMO {
            return Some("none; the demo follows a script".to_owned());
        }
        let place = self.place_of(session).await.ok()?;
        let status = self.models.status(&place.host, model);
        let calling = status.calling.map_or("decided by the first request", ToolCalling::as_str);
        let reports = ToolCallingFile::new(&self.settings.folders.data).reports();
        let version = reports.get(&format!("{model} {}", status.server)).map(|report| &report.server);
        let version = version.filter(|version| !version.is_empty());
        let version = version.map(|version| format!(" ({version})")).unwrap_or_default();
        Some(format!("{calling}; {}{version}", status.server))
    }

    async fn model_problem(&self, session: &SessionId, model: &ModelRef) -> Option<String> {
        let place = self.place_of(session).await.ok()?;
        crate::model_lists::problem_of(&self.settings, &self.machines, &place.host, model).await
    }

    async fn export(&self, session: &SessionId, file: Option<&str>) -> Result<String, String> {
        let path = file.map(|file| match Path::new(file).strip_prefix("~") {
            Ok(rest) => self.settings.folders.home.join(rest),
            Err(_) => std::env::current_dir().unwrap_or_default().join(file),
        });
        let view =
            DisplayOptions { now: system_clock().now(), zone: jiff::tz::TimeZone::system(), width: None };
        let mut text = Vec::new();
        let id = session.as_str();
        let read = sessions::export(self.store.as_ref(), id, ExportFormat::Markdown, &view, &mut text).await;
        read.map_err(|error| error.to_string())?;
        let stem = format!("sysop-{session}");
        let writing = tokio::task::spawn_blocking(move || match path {
            Some(path) => write_export(&path, &text),
            None => write_free_export(&std::env::current_dir().unwrap_or_default(), &stem, &text),
        });
        writing.await.map_err(|error| error.to_string())?
    }

    async fn trust_workspace(&self, session: &dyn SessionHandle) -> Result<String, String> {
        let place = self.place_of(session.id()).await?;
        let files = self.instructions(&place).trust().await?;
        if files.is_empty() {
            return Ok("this workspace has no instructions for models, such as an AGENTS.md".to_owned());
        }
        session.send(Input::ReloadInstructions)?;
        let names: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
        Ok(format!("trusted until it changes: {}", names.join(", ")))
    }

    fn routines(&self) -> Vec<Routine> {
        let routines = self.settings.routines.iter();
        routines.map(|(name, routine)| routine_view(name, routine, &self.settings)).collect()
    }
}

impl Services {
    /// Returns the location of a session's tools. The error is one sentence.
    async fn place_of(&self, session: &SessionId) -> Result<ToolLocation, String> {
        let log = self.store.load(session, sysop_core::id::Seq(0), 1).await.unwrap_or_default();
        match log.first() {
            Some(Logged { at, event: Event::SessionOpened { spec, .. }, .. }) => {
                self.location_of(spec, *at).map_err(|error| format!("{error:#}"))
            }
            Some(_) | None => Ok(self.unsaved_places.get(session).unwrap_or_else(|| self.configured_place())),
        }
    }
}

/// Returns a routine for front ends, which run no steps.
fn routine_view(name: &str, routine: &crate::config::Routine, settings: &Arc<Settings>) -> Routine {
    let variables = routine
        .vars
        .iter()
        .map(|(name, variable)| NamedItem { name: name.clone(), description: variable.description.clone() });
    let description = match (routine.steps.is_empty(), routine.description.as_str()) {
        (true, description) => description.to_owned(),
        (false, "") => "steps; only with `sysop run`".to_owned(),
        (false, description) => format!("{description} (steps; only with `sysop run`)"),
    };
    let (rendered, owned_name, settings) = (routine.clone(), name.to_owned(), Arc::clone(settings));
    let render = move |host: &str, values: &[(String, String)]| {
        rendered.render(values).map_err(|error| {
            if error != RoutineError::HasSteps {
                return error.to_string();
            }
            let flags = format!("{}{}", runbook::host_flag(&settings, host), approve_flag(&settings));
            let command = runbook::invocation(&flags, &owned_name, values);
            format!("this routine has steps; run it in a shell: {command}")
        })
    };
    Routine { name: name.to_owned(), description, variables: variables.collect(), render: Arc::new(render) }
}

/// Returns the current branch of the repository that contains `folder`, or the start of the commit hash if no
/// branch is checked out. Only reads Git's files; runs nothing.
fn git_branch(folder: &Path) -> Option<String> {
    let git = folder.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())?;
    // In a worktree or submodule, `.git` is a file that names the directory.
    let directory = match git.is_dir() {
        true => git,
        false => {
            let text = read_start(&git)?;
            git.parent()?.join(text.strip_prefix("gitdir:")?.trim())
        }
    };
    let head = read_start(&directory.join("HEAD"))?;
    let head = head.trim();
    match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => Some(branch.to_owned()),
        None => Some(head.chars().take(COMMIT_CHARS).collect()).filter(|commit: &String| !commit.is_empty()),
    }
}

/// Reads the start of a small file.
fn read_start(path: &Path) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(GIT_FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Writes an export into a new file. Returns a sentence that names the file, or says why it was not written.
fn write_export(path: &Path, text: &[u8]) -> Result<String, String> {
    let shown = path.display();
    match write_new(path, text) {
        Ok(()) => Ok(format!("session written to {shown}")),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(format!("{shown} already exists; choose another name"))
        }
        Err(error) => Err(format!("cannot write {shown} ({error})")),
    }
}

/// Like [`write_export`], for the first of the files `STEM.md`, `STEM-2.md`, … that does not exist.
fn write_free_export(folder: &Path, stem: &str, text: &[u8]) -> Result<String, String> {
    let more = (2..=EXPORTS_MAX).map(|number| format!("{stem}-{number}.md"));
    let mut paths = std::iter::once(format!("{stem}.md")).chain(more).map(|name| folder.join(name));
    let free = paths.find(|path| path.symlink_metadata().is_err());
    write_export(&free.unwrap_or_else(|| folder.join(format!("{stem}.md"))), text)
}

/// Creates a file that only its owner can read. Fails if the file already exists.
fn write_new(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)
}

/// Returns at most `limit` paths under `root` that contain `prefix`, ignoring case. Paths that start with
/// `prefix` come first, then paths with fewer components. Hidden and ignored files are left out.
fn paths_below(root: &std::path::Path, prefix: &str, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let walk = ignore::WalkBuilder::new(root).follow_links(false).require_git(false).build();
    for entry in walk.flatten().take(COMPLETION_ENTRIES_MAX) {
        let Ok(path) = entry.path().strip_prefix(root) else { continue };
        let Some(path) = path.to_str().filter(|path| !path.is_empty()) else { continue };
        if !path.to_lowercase().contains(&prefix.to_lowercase()) {
            continue;
        }
        let folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        found.push(if folder { format!("{path}/") } else { path.to_owned() });
    }
    // Prefix matches first, then short paths.
    found
        .sort_by_key(|path| (!path.starts_with(prefix), path.matches('/').count(), path.len(), path.clone()));
    found.truncate(limit);
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::StreamExt as _;
    use sysop_core::event::{ConfigChange, Origin, Update};
    use sysop_core::id::{Seq, Timestamp, TurnId};
    use sysop_core::policy::ApprovalMode;
    use sysop_driver::frontend::PreviousSession;

    use super::*;
    use crate::config::tests::World;
    use crate::global_flags::GlobalFlags;
    use crate::settings::ColorMode;

    const WEB: &str = "[hosts.web1]\nhost = '127.0.0.1'\napprove = 'auto'\n\
                       [hosts.careful]\nhost = '127.0.0.2'\napprove = 'each'\n";

    /// Services that start on the host `web1`.
    fn services(world: &World) -> Services {
        std::fs::create_dir_all(world.folders().data).unwrap();
        let flags = GlobalFlags { host: Some("web1".to_owned()), ..GlobalFlags::default() };
        let environment = [("PATH", std::env::var("PATH").unwrap())].into_iter().collect();
        let settings = Settings::from_parts(&flags, environment, world.folders(), ColorMode::Off).unwrap();
        Services::new(settings, ModelRef::new("openai", "configured")).unwrap()
    }

    fn previous(host: &str, root: &str, approve: ApprovalMode) -> PreviousSession {
        let model = ModelRef::new("openai", "chosen");
        PreviousSession { host: host.to_owned(), root: root.to_owned(), model, approve }
    }

    fn place(opened: &AttachedSession) -> (&str, &str, ApprovalMode) {
        (&opened.spec.host, &opened.spec.root, opened.spec.approve)
    }

    #[tokio::test]
    async fn a_new_session_keeps_place_and_model_of_the_session_that_is_left_and_is_no_looser() {
        let world = World::new().own(WEB);
        let services = services(&world);
        let root = world.root().display().to_string();
        for (host, root, left, new) in [
            ("local", root.as_str(), ApprovalMode::Never, ApprovalMode::Never),
            ("local", root.as_str(), ApprovalMode::Auto, ApprovalMode::Ask),
            ("web1", "~", ApprovalMode::Each, ApprovalMode::Each),
            ("web1", "/srv", ApprovalMode::Auto, ApprovalMode::Auto),
        ] {
            let previous = previous(host, root, left);
            let opened = SessionService::open(&services, SessionSelector::NewAfter(previous)).await.unwrap();
            assert_eq!(place(&opened), (host, root, new));
            assert_eq!(opened.spec.model.name, "chosen");
        }
        let configured = SessionService::open(&services, SessionSelector::New).await.unwrap();
        assert_eq!(place(&configured), ("web1", "~", ApprovalMode::Auto));
        assert_eq!(configured.spec.model.name, "configured");
    }

    #[tokio::test]
    async fn a_routine_with_steps_names_the_command_that_runs_it_on_the_host_of_the_session() {
        let steps = "[routines.good]\ndescription = 'Renew'\nvars = { site = {} }\n\
                     [[routines.good.steps]]\nname = 'a'\ncmd = 'echo {{site}}'\n";
        let routines = services(&World::new().own(&format!("{WEB}{steps}"))).routines();
        assert_eq!(routines[0].description, "Renew (steps; only with `sysop run`)");
        for (host, flag) in [
            ("local", " --host local"),
            ("web1", " --host web1"),
            ("web1, careful", " --host web1,careful"),
            ("", ""),
        ] {
            let why = (routines[0].render)(host, &[("site".to_owned(), "a b".to_owned())]).unwrap_err();
            let command = format!("sysop run{flag} good site='a b'");
            assert_eq!(why, format!("this routine has steps; run it in a shell: {command}"));
        }
    }

    #[tokio::test]
    async fn a_new_session_on_another_host_keeps_a_stricter_mode() {
        let world = World::new().own(WEB);
        let services = services(&world);
        for (host, left, new, never_asks) in [
            ("local", None, ApprovalMode::Ask, false),
            ("local", Some(ApprovalMode::Never), ApprovalMode::Never, false),
            ("local", Some(ApprovalMode::Auto), ApprovalMode::Ask, false),
            ("careful", Some(ApprovalMode::Ask), ApprovalMode::Each, false),
            ("careful", Some(ApprovalMode::Never), ApprovalMode::Never, true),
        ] {
            let host = host.to_owned();
            let selector = SessionSelector::NewOnHost { host, model: None, approve: left };
            let opened = SessionService::open(&services, selector).await.unwrap();
            assert_eq!((opened.spec.approve, opened.spec.policy.never_asks), (new, never_asks));
        }
    }

    #[tokio::test]
    async fn a_new_session_on_another_host_keeps_the_model_unless_the_host_does_not_allow_it() {
        let private = "[hosts.private]\nhost = '127.0.0.3'\nmodels = ['openai/configured']\n";
        let world = World::new().own(&format!("{WEB}{private}"));
        let services = services(&world);
        for (host, name) in [("local", "chosen"), ("web1", "chosen"), ("private", "configured")] {
            let (host, model) = (host.to_owned(), Some(ModelRef::new("openai", "chosen")));
            let selector = SessionSelector::NewOnHost { host, model, approve: None };
            let opened = SessionService::open(&services, selector).await.unwrap();
            assert_eq!(opened.spec.model, ModelRef::new("openai", name));
        }
    }

    #[tokio::test]
    async fn a_fork_is_no_looser_than_the_session_that_is_left() {
        let world = World::new().own(WEB);
        let services = services(&world);
        let from = SessionId::new("s1");
        let host = "careful".to_owned();
        let selector = SessionSelector::NewOnHost { host, model: None, approve: None };
        let model = SessionService::open(&services, selector).await;
        let opened = Event::SessionOpened { spec: model.unwrap().spec, opened_by: None };
        let turn = Event::TurnStarted {
            turn: TurnId(1),
            prompt: "go".to_owned(),
            origin: Origin::Model,
            images: Vec::new(),
            by: None,
        };
        let log: Vec<_> = [opened, turn]
            .into_iter()
            .zip(1..)
            .map(|(event, seq)| Arc::new(Logged { seq: Seq(seq), at: Timestamp(0), event }))
            .collect();
        services.store.append(&from, Seq(0), &log).await.unwrap();
        let approve = Some(ApprovalMode::Never);
        let fork = SessionSelector::Fork { from: from.clone(), before: TurnId(1), approve };
        let opened = SessionService::open(&services, fork).await.unwrap();
        let mut updates = opened.session.subscribe(opened.last);
        let mut change = async || {
            loop {
                let next = tokio::time::timeout(Duration::from_secs(30), updates.next()).await;
                if let Some(Update::Logged(logged)) = next.unwrap()
                    && let Event::Configured { change, .. } = &logged.event
                {
                    return change.clone();
                }
            }
        };
        assert_eq!(change().await, ConfigChange::Approve(ApprovalMode::Never));
        let rules = change().await;
        let ConfigChange::Rules { options: Some(options), .. } = &rules else { panic!("{rules:?}") };
        assert!(options.never_asks, "the host's config asks before each command");
    }

    #[tokio::test]
    async fn facts_about_a_session_that_is_not_saved_yet_are_those_of_its_own_host() {
        let world = World::new()
            .own(WEB)
            .file("work/.git/HEAD", "ref: refs/heads/main\n")
            .file("work/notes.md", "x")
            .file("work/AGENTS.md", "Be brief.");
        let services = services(&world);
        let far = SessionService::open(&services, SessionSelector::New).await.unwrap();
        let previous = previous("local", &world.root().display().to_string(), ApprovalMode::Ask);
        let here = SessionService::open(&services, SessionSelector::NewAfter(previous)).await.unwrap();
        assert_eq!(services.git_branch(far.session.id()).await, None);
        assert_eq!(services.paths(far.session.id(), "notes", 5).await, Vec::<String>::new());
        assert_eq!(services.git_branch(here.session.id()).await.as_deref(), Some("main"));
        assert_eq!(services.paths(here.session.id(), "notes", 5).await, ["notes.md"]);
        let trusted = services.trust_workspace(here.session.as_ref()).await.unwrap();
        assert!(trusted.contains("AGENTS.md"), "{trusted}");
    }

    #[test]
    fn the_branch_is_read_from_the_files_of_git() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("repo/src");
        std::fs::create_dir_all(root.path().join("repo/.git/worktrees/other")).unwrap();
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir_all(root.path().join("other")).unwrap();
        std::fs::write(root.path().join("repo/.git/HEAD"), "ref: refs/heads/feature/disk\n").unwrap();
        let worktree = root.path().join("repo/.git/worktrees/other/HEAD");
        std::fs::write(worktree, "0123456789abcdef\n").unwrap();
        std::fs::write(root.path().join("other/.git"), "gitdir: ../repo/.git/worktrees/other\n").unwrap();
        assert_eq!(git_branch(&inner).as_deref(), Some("feature/disk"));
        assert_eq!(git_branch(&root.path().join("other")).as_deref(), Some("01234567"));
        assert_eq!(git_branch(root.path()), None);
    }

    #[test]
    fn an_export_replaces_no_file_and_its_default_name_gets_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (text, name) in [("1", "sysop-s.md"), ("2", "sysop-s-2.md"), ("3", "sysop-s-3.md")] {
            let written = write_free_export(folder.path(), "sysop-s", text.as_bytes());
            assert_eq!(written, Ok(format!("session written to {}", at(name).display())));
            assert_eq!(std::fs::read_to_string(at(name)).unwrap(), text);
        }
        let again = write_export(&at("sysop-s.md"), b"4");
        let why = format!("{} already exists; choose another name", at("sysop-s.md").display());
        assert_eq!(again, Err(why));
        assert_eq!(std::fs::read_to_string(at("sysop-s.md")).unwrap(), "1");
    }

    #[test]
    fn paths_that_start_with_the_word_come_first() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("src/deep")).unwrap();
        for name in ["src/main.rs", "src/deep/main.rs", "README.md", ".hidden", "kept.log"] {
            std::fs::write(root.path().join(name), "x").unwrap();
        }
        std::fs::write(root.path().join(".gitignore"), "*.log\n").unwrap();
        assert_eq!(paths_below(root.path(), "src/", 10), ["src/main.rs", "src/deep/", "src/deep/main.rs"]);
        assert_eq!(paths_below(root.path(), "main", 1), ["src/main.rs"]);
        assert_eq!(paths_below(root.path(), "readme", 10), ["README.md"]);
        assert!(
            paths_below(root.path(), "kept", 10).is_empty()
                && paths_below(root.path(), "hidden", 10).is_empty()
        );
    }
}
