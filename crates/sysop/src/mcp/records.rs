//! Record files for servers, in the data directory.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use sysop_mcp::record::ServerRecord;
use sysop_mcp::settings::ServerName;

use crate::config::{create_private_folder, replace_private_file};
use crate::settings::Settings;

/// Directory for the records, in the data directory.
const FOLDER: &str = "mcp";

#[derive(Debug, Clone)]
pub(super) struct Records {
    folder: PathBuf,
    /// File names for servers that an editor named.
    of_editor: BTreeMap<ServerName, String>,
}

impl Records {
    pub(super) fn new(settings: &Settings) -> Self {
        let of_editor = settings.mcp.iter().filter(|server| server.is_of_editor);
        let of_editor = of_editor.map(|server| {
            // A dot keeps the file apart from the file of a server in the config.
            (server.settings.name.clone(), format!("editor.{}.json", server.identity))
        });
        Self { folder: settings.folders.data.join(FOLDER), of_editor: of_editor.collect() }
    }

    fn path(&self, name: &ServerName) -> PathBuf {
        let file = self.of_editor.get(name).cloned().unwrap_or_else(|| format!("{name}.json"));
        self.folder.join(file)
    }

    /// Returns a server's record. If the record is missing or unreadable, the result contains no consent.
    pub(super) fn load(&self, name: &ServerName) -> ServerRecord {
        let bytes = std::fs::read(self.path(name)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Saves a server's record. Fails if the data directory is not writable.
    pub(super) fn save(&self, name: &ServerName, record: &ServerRecord) -> io::Result<()> {
        create_private_folder(&self.folder)?;
        let bytes = serde_json::to_vec_pretty(record).map_err(io::Error::other)?;
        replace_private_file(&self.path(name), &bytes)
    }

    /// Removes a server's record. Fails if the record exists but cannot be removed.
    pub(super) fn remove(&self, name: &ServerName) -> io::Result<()> {
        match std::fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
