//! Instructions for models: the user's own file and skills, notes on hosts, and a trusted workspace's files.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sysop_core::instructions::{
    FoundInstructions, InstructionFile, InstructionSource, Instructions, UntrustedFile,
};
use sysop_core::skill::{FILE_BYTES_MAX, Skill, SkillKind, Skills};
use sysop_driver::port::InstructionReader;
use sysop_host::{
    InstructionKind, InstructionText, read_instruction_files, read_own_skill_files,
    read_remote_instruction_files,
};

use super::machines::{HOME, Machines, ToolLocation};
use crate::config::{InstructionSet, TrustDecision, display_path, read_text};
use crate::settings::{HostChoice, Settings};

const CONFIG_FOLDER: &str = "sysop";
/// Name of the user's own instruction file, in the config directory.
const USER_FILE: &str = "AGENTS.md";
/// Name of the directory with notes on hosts, in the config directory.
const HOST_NOTES: &str = "hosts";
/// Name of the skill directory, both in sysop's config directory and in each directory of [`OTHER_TOOLS`].
const SKILLS: &str = "skills";
/// Other tools' directories, in the home directory, that may contain skills.
const OTHER_TOOLS: [&str; 2] = [".agents", ".claude"];
/// Directory with skills for all users of this machine.
const SYSTEM_SKILLS: &str = "/etc/sysop/skills";
/// Name of the directory with the user's commands, in the config directory.
const COMMANDS: &str = "commands";
/// Name that stands for this machine in the directory with notes on hosts.
const THIS_MACHINE: &str = "local";

/// Reads the instructions for sessions at one location.
pub(crate) struct WorkspaceInstructions {
    machines: Machines,
    place: ToolLocation,
}

impl WorkspaceInstructions {
    pub(crate) fn new(machines: Machines, place: ToolLocation) -> Self {
        Self { machines, place }
    }

    /// Trusts the workspace's files with their current content, and returns them. Fails if the location
    /// cannot be reached or the decision cannot be saved. The error is one sentence.
    pub(crate) async fn trust(&self) -> Result<Vec<InstructionText>, String> {
        let found = self.workspace_files().await?;
        if !found.is_empty() {
            let data = &self.machines.settings().folders.data;
            let saved = self.set(&found).save(data, TrustDecision::Trusted);
            saved.map_err(|error| format!("cannot save the answer to {}: {error}", display_path(data)))?;
        }
        Ok(found)
    }

    async fn workspace_files(&self) -> Result<Vec<InstructionText>, String> {
        match &self.place.host {
            HostChoice::Local => {
                let root = self.place.root.clone();
                let home = self.machines.settings().folders.home.clone();
                let read =
                    tokio::task::spawn_blocking(move || read_instruction_files(&root, Some(&home))).await;
                Ok(read.unwrap_or_default())
            }
            HostChoice::Ssh(target) => {
                let connection = self.machines.connection(target).map_err(|error| error.to_string())?;
                let root = target.root.as_deref().unwrap_or(HOME);
                let read = read_remote_instruction_files(&connection, root).await;
                read.map_err(|error| error.to_string())
            }
            // Several workspaces at once: no file applies to all of them.
            HostChoice::Fleet(_) => Ok(Vec::new()),
        }
    }

    /// Returns true if the workspace's files may be read now. Reading them from an ssh host may open a connection,
    /// which must not happen just because the user asks the model something. Therefore, if the host is not connected,
    /// the files are read only if they are trusted, or were trusted before.
    fn is_worth_reading(&self) -> bool {
        let HostChoice::Ssh(target) = &self.place.host else { return true };
        let settings = self.machines.settings();
        settings.trust_workspace
            || InstructionSet::is_known(&settings.folders.data, &self.place_name())
            || self.machines.connection(target).is_ok_and(|connection| connection.is_connected())
    }

    /// Returns the workspace's name in the file with trust decisions.
    fn place_name(&self) -> String {
        match &self.place.host {
            HostChoice::Local => self.place.display_root(),
            host @ (HostChoice::Ssh(_) | HostChoice::Fleet(_)) => {
                format!("{host}:{}", self.place.display_root())
            }
        }
    }

    fn set(&self, found: &[InstructionText]) -> InstructionSet {
        let files = found.iter().map(|file| (file.path.as_str(), file.bytes, file.text.as_str()));
        InstructionSet::new(&self.place_name(), files)
    }

    fn is_trusted(&self, found: &[InstructionText]) -> bool {
        let settings = self.machines.settings();
        let answer = || self.set(found).answer(&settings.folders.data);
        settings.trust_workspace || answer() == Some(TrustDecision::Trusted)
    }

    /// Returns the user's own file, and the notes on the session's hosts.
    fn own_files(&self) -> Vec<InstructionFile> {
        let folder = self.machines.settings().folders.config.join(CONFIG_FOLDER);
        let mut files: Vec<_> =
            own_file(&folder.join(USER_FILE), InstructionSource::User).into_iter().collect();
        let notes = notes_files(self.machines.settings(), &self.place);
        files.extend(notes.into_iter().filter_map(|path| own_file(&path, InstructionSource::Host)));
        files
    }
}

#[async_trait]
impl InstructionReader for WorkspaceInstructions {
    async fn read(&self) -> FoundInstructions {
        let mut instructions = Instructions { files: self.own_files(), ..Instructions::default() };
        let found = if self.is_worth_reading() { self.workspace_files().await.ok() } else { None };
        let complete = found.is_some();
        let found = found.unwrap_or_default();
        if self.is_trusted(&found) {
            add_skills(&mut instructions.skills, &found, InstructionSource::Workspace);
            let files = found.into_iter().filter(|file| file.kind == InstructionKind::Instructions);
            instructions.files.extend(files.map(|file| {
                InstructionFile::new(file.path, InstructionSource::Workspace, file.text, file.bytes)
            }));
        } else {
            let files = found.into_iter().filter(|file| file.kind != InstructionKind::Attachment);
            let untrusted = files.map(|file| UntrustedFile { path: file.path, bytes: file.bytes });
            instructions.untrusted = untrusted.collect();
        }
        let (skills, commands) = own_skill_folders(self.machines.settings());
        let own = tokio::task::spawn_blocking(move || read_own_skill_files(&skills, &commands)).await;
        add_skills(&mut instructions.skills, &own.unwrap_or_default(), InstructionSource::User);
        FoundInstructions { instructions, complete }
    }
}

/// Returns the directories with the user's and the system's skills, and the directories with the user's commands.
pub(crate) fn own_skill_folders(settings: &Settings) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let config = settings.folders.config.join(CONFIG_FOLDER);
    let mut skills = vec![config.join(SKILLS)];
    skills.extend(OTHER_TOOLS.map(|tool| settings.folders.home.join(tool).join(SKILLS)));
    skills.push(SYSTEM_SKILLS.into());
    (skills, vec![config.join(COMMANDS)])
}

/// Adds to `skills` the skills and commands among the files in `found`.
pub(crate) fn add_skills(skills: &mut Skills, found: &[InstructionText], source: InstructionSource) {
    for (at, file) in found.iter().enumerate() {
        let path = Path::new(&file.path);
        let (kind, name) = match file.kind {
            InstructionKind::Skill => (SkillKind::Skill, path.parent().and_then(Path::file_name)),
            InstructionKind::Command => (SkillKind::Command, path.file_stem()),
            InstructionKind::Instructions | InstructionKind::Attachment => continue,
        };
        let name = name.and_then(|name| name.to_str()).unwrap_or_default();
        let shown = display_path(path);
        if file.bytes > FILE_BYTES_MAX as u64 {
            skills.add(Err(format!("{shown}: larger than {} KiB", FILE_BYTES_MAX / 1024)));
            continue;
        }
        let read = Skill::read(kind, name, &shown, &file.text, source);
        let folder = path.parent().unwrap_or(path);
        let others = found[at + 1..].iter().take_while(|file| file.kind == InstructionKind::Attachment);
        let others = others.filter_map(|other| Path::new(&other.path).strip_prefix(folder).ok()?.to_str());
        skills.add(read.map(|skill| Skill { files: others.map(str::to_owned).collect(), ..skill }));
    }
}

/// Returns the notes file for a location's host; `None` for several hosts.
pub(super) fn notes_file(settings: &Settings, place: &ToolLocation) -> Option<PathBuf> {
    let mut files = notes_files(settings, place);
    files.pop().filter(|_| files.is_empty())
}

fn notes_files(settings: &Settings, place: &ToolLocation) -> Vec<PathBuf> {
    let folder = settings.folders.config.join(CONFIG_FOLDER).join(HOST_NOTES);
    let targets = place.host.targets();
    let mut names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    if targets.is_empty() {
        names.push(THIS_MACHINE);
    }
    let names = names.into_iter().filter(|name| is_file_name(name));
    names.map(|name| folder.join(format!("{name}.md"))).collect()
}

fn own_file(path: &Path, source: InstructionSource) -> Option<InstructionFile> {
    let text = read_text(path).ok().flatten()?;
    let bytes = text.len() as u64;
    Some(InstructionFile::new(display_path(path), source, text, bytes))
}

/// Returns true if a host's name can be used as a file name.
fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}
