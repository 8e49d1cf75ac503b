//! Decisions to trust workspace files, by path and content. The user is asked once, and the answer is stored in the
//! data directory, next to the sessions.
//!
//! This module does not ask the user. A front end asks, and passes the decision to [`save_trust`]. A decision
//! becomes invalid once the file has changed.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::private_files::{create_private_folder, replace_private_file};

/// A workspace's config file, parts of which are ignored because the user does not trust it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UntrustedWorkspace {
    /// Path of the file, under the canonical root.
    pub(crate) path: PathBuf,
    /// BLAKE3 hash of the file's content, in hex.
    pub(crate) hash: String,
    /// Ignored parts, as sanitized lines of TOML.
    pub(crate) left_out: Vec<String>,
    /// Set if the user has rejected this content and need not be asked again.
    pub(crate) refused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TrustDecision {
    /// The file takes full effect, like the user's own file.
    Trusted,
    /// The file may only make settings stricter.
    Refused,
}

/// Maximum number of remembered files; the oldest decisions are dropped first.
const FILES_MAX: usize = 1_000;

#[derive(Debug, Default, Serialize, Deserialize)]
struct TrustFile {
    #[serde(default)]
    workspace: Vec<WorkspaceTrust>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct WorkspaceTrust {
    path: String,
    hash: String,
    answer: TrustDecision,
}

/// Returns the BLAKE3 hash, in hex, by which a trust decision identifies a file's content.
pub(super) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

pub(crate) fn trust_file(data: &Path) -> PathBuf {
    data.join("trust.toml")
}

fn load(data: &Path) -> TrustFile {
    // If the file cannot be read, nothing is trusted.
    super::file::read(&trust_file(data))
        .ok()
        .flatten()
        .and_then(|text| toml::from_str(&text).ok())
        .unwrap_or_default()
}

/// Returns the decision on a file with this content, if any.
pub(super) fn answer(data: &Path, path: &Path, hash: &str) -> Option<TrustDecision> {
    known_answer(data, path.to_str()?, hash)
}

fn known_answer(data: &Path, path: &str, hash: &str) -> Option<TrustDecision> {
    let remembered = load(data);
    let known = remembered.workspace.iter().find(|known| known.path == path && known.hash == hash);
    known.map(|known| known.answer)
}

/// Identity of a workspace's instruction files: their location and a hash of their content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstructionSet {
    place: String,
    hash: String,
}

impl InstructionSet {
    /// Identifies the files at a location such as `web1:/srv`, each given as path, size in bytes, and text.
    pub(crate) fn new<'a>(place: &str, files: impl Iterator<Item = (&'a str, u64, &'a str)>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for (path, bytes, text) in files {
            for part in [path, &bytes.to_string(), text] {
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
            }
        }
        Self { place: place_key(place), hash: hasher.finalize().to_hex().to_string() }
    }

    /// Returns true if the user has trusted any files at this location before.
    pub(crate) fn is_known(data: &Path, place: &str) -> bool {
        let place = place_key(place);
        let trusted = |known: &WorkspaceTrust| known.path == place && known.answer == TrustDecision::Trusted;
        load(data).workspace.iter().any(trusted)
    }

    /// Returns the decision on exactly these files.
    pub(crate) fn answer(&self, data: &Path) -> Option<TrustDecision> {
        known_answer(data, &self.place, &self.hash)
    }

    /// Saves the decision on these files. Fails if the data directory is not writable.
    pub(crate) fn save(&self, data: &Path, answer: TrustDecision) -> io::Result<()> {
        save(data, &self.place, &self.hash, answer)
    }
}

/// Returns the path under which the decision for a location is saved. No file has this path.
fn place_key(place: &str) -> String {
    format!("{place} (instructions)")
}

/// Saves the decision on this file with this content. The decision takes effect the next time settings are
/// loaded. Fails if the data directory is not writable or the path is not UTF-8.
pub(crate) fn save_trust(data: &Path, file: &UntrustedWorkspace, answer: TrustDecision) -> io::Result<()> {
    let path = file.path.to_str().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the workspace's path is not valid UTF-8, so the answer cannot be saved",
        )
    })?;
    save(data, path, &file.hash, answer)
}

/// Removes the decisions on the workspace `root`, of which `place` is the location of its instructions. Returns the
/// decision, which is `Trusted` if any of them was, or `None` if there were none. Fails if the data directory is not
/// writable.
pub(crate) fn revoke_trust(data: &Path, root: &Path, place: &str) -> io::Result<Option<TrustDecision>> {
    let mut remembered = load(data);
    let (file, place) = (root.join(super::WORKSPACE_FILE), place_key(place));
    let is_of_workspace = |known: &WorkspaceTrust| Path::new(&known.path) == file || known.path == place;
    let (removed, rest): (Vec<_>, _) = remembered.workspace.into_iter().partition(is_of_workspace);
    let is_trusted = removed.iter().any(|known| known.answer == TrustDecision::Trusted);
    if removed.is_empty() {
        return Ok(None);
    }
    remembered.workspace = rest;
    write(data, &remembered)?;
    Ok(Some(if is_trusted { TrustDecision::Trusted } else { TrustDecision::Refused }))
}

fn save(data: &Path, path: &str, hash: &str, answer: TrustDecision) -> io::Result<()> {
    let mut remembered = load(data);
    remembered.workspace.retain(|known| known.path != path);
    remembered.workspace.push(WorkspaceTrust { path: path.to_owned(), hash: hash.to_owned(), answer });
    let surplus = remembered.workspace.len().saturating_sub(FILES_MAX);
    remembered.workspace.drain(..surplus);
    write(data, &remembered)
}

fn write(data: &Path, remembered: &TrustFile) -> io::Result<()> {
    let text = toml::to_string(remembered).map_err(io::Error::other)?;
    create_private_folder(data)?;
    replace_private_file(&trust_file(data), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{TrustDecision, place_key, revoke_trust, save};

    #[test]
    fn a_revocation_tells_a_refusal_from_trust() {
        let data = tempfile::tempdir().unwrap();
        let revoke = || revoke_trust(data.path(), Path::new("/srv"), "/srv").unwrap();
        assert_eq!(revoke(), None);
        save(data.path(), &place_key("/srv"), "1", TrustDecision::Refused).unwrap();
        save(data.path(), &place_key("/other"), "1", TrustDecision::Trusted).unwrap();
        assert_eq!(revoke(), Some(TrustDecision::Refused));
        save(data.path(), &place_key("/srv"), "1", TrustDecision::Refused).unwrap();
        save(data.path(), "/srv/.sysop.toml", "2", TrustDecision::Trusted).unwrap();
        assert_eq!(revoke(), Some(TrustDecision::Trusted));
        assert_eq!(revoke(), None);
    }
}
