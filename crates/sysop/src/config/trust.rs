//! Which workspace files the person trusts: path and content, asked once, kept beside the sessions.
//!
//! Nothing here asks: a front end does, and hands the answer to [`save_trust`]. A file that changed is unknown again.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::private_files::{create_private_folder, replace_private_file};

/// A workspace's config file of which parts are left out, because the person has not said that they trust it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UntrustedWorkspace {
    /// The file, under the canonical root.
    pub(crate) path: PathBuf,
    /// BLAKE3 of the bytes that were read, in hex.
    pub(crate) hash: String,
    /// What is left out, each as a line of TOML that is safe to show.
    pub(crate) left_out: Vec<String>,
    /// Whether the person has said no to it as it is, and need not be asked again.
    pub(crate) refused: bool,
}

/// What the person said of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TrustDecision {
    /// It counts like their own.
    Trusted,
    /// It may only make things stricter.
    Refused,
}

/// The most files that are remembered; the oldest answer is forgotten first.
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

/// The hash of a file's content.
pub(super) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Where answers are kept in the data folder.
pub(crate) fn trust_file(data: &Path) -> PathBuf {
    data.join("trust.toml")
}

fn load(data: &Path) -> TrustFile {
    // What cannot be read is no yes.
    super::file::read(&trust_file(data))
        .ok()
        .flatten()
        .and_then(|text| toml::from_str(&text).ok())
        .unwrap_or_default()
}

/// What the person said of the file with this content.
pub(super) fn answer(data: &Path, path: &Path, hash: &str) -> Option<TrustDecision> {
    let path = path.to_str()?;
    let remembered = load(data);
    let known = remembered.workspace.iter().find(|known| known.path == path && known.hash == hash);
    known.map(|known| known.answer)
}

/// Remembers what the person said of this file as it was read; takes effect when settings are loaded again.
///
/// # Errors
/// The data folder cannot be written, or the path is not UTF-8.
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
