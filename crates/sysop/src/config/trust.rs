//! Trusted workspace files, by path and content; asked once and stored beside the sessions.
//!
//! This module does not ask: a front end does and passes the answer to [`save_trust`]. A changed file is unknown again.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::private_files::{create_private_folder, replace_private_file};

/// A workspace's config file of which parts are ignored, because the user does not trust it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UntrustedWorkspace {
    /// File below the canonical root.
    pub(crate) path: PathBuf,
    /// BLAKE3 hash of the file's content, in hex.
    pub(crate) hash: String,
    /// Ignored parts as sanitized lines of TOML.
    pub(crate) left_out: Vec<String>,
    /// Set if the user refused this content and need not be asked again.
    pub(crate) refused: bool,
}

/// Decision on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TrustDecision {
    /// Full effect, like the user's own file.
    Trusted,
    /// May only make things stricter.
    Refused,
}

/// Maximum number of remembered files; the oldest decision is dropped first.
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

/// Returns the hash of a file's content.
pub(super) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Returns the path of the decisions in the data directory.
pub(crate) fn trust_file(data: &Path) -> PathBuf {
    data.join("trust.toml")
}

fn load(data: &Path) -> TrustFile {
    // An unreadable file means no trust.
    super::file::read(&trust_file(data))
        .ok()
        .flatten()
        .and_then(|text| toml::from_str(&text).ok())
        .unwrap_or_default()
}

/// Returns the decision on a file with this content.
pub(super) fn answer(data: &Path, path: &Path, hash: &str) -> Option<TrustDecision> {
    let path = path.to_str()?;
    let remembered = load(data);
    let known = remembered.workspace.iter().find(|known| known.path == path && known.hash == hash);
    known.map(|known| known.answer)
}

/// Saves the decision on this file and content; effective when settings are loaded again.
///
/// # Errors
/// If the data directory is not writable, or the path is not UTF-8.
pub(crate) fn save_trust(data: &Path, file: &UntrustedWorkspace, answer: TrustDecision) -> io::Result<()> {
    let path = file.path.to_str().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the workspace's path is not valid UTF-8, so the answer cannot be saved",
        )
    })?;
    let mut remembered = load(data);
    remembered.workspace.retain(|known| known.path != path);
    remembered.workspace.push(WorkspaceTrust { path: path.to_owned(), hash: file.hash.clone(), answer });
    let surplus = remembered.workspace.len().saturating_sub(FILES_MAX);
    remembered.workspace.drain(..surplus);
    let text = toml::to_string(&remembered).map_err(io::Error::other)?;
    create_private_folder(data)?;
    replace_private_file(&trust_file(data), text.as_bytes())
}
