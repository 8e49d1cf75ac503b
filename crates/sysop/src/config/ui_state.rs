//! Choices made in a front end that are kept for the next start: the theme. They are stored with the
//! sessions; the user's config file is never written. This layer is between the defaults and the user's file.

use std::io;
use std::path::{Path, PathBuf};

use super::file::{self, Flavor};
use super::private_files::{create_private_folder, replace_private_file};
use super::{ConfigLayer, ConfigOrigin, KeyPath, value};

const THEME: &str = "theme";

pub(crate) fn ui_state_file(data: &Path) -> PathBuf {
    data.join("chosen.toml")
}

/// Loads the layer. Errors in its file become warnings, so they do not prevent startup.
pub(super) fn layer(data: &Path) -> ConfigLayer {
    let path = ui_state_file(data);
    let read = file::read(&path).and_then(|text| match text {
        Some(text) => file::parse(&path, &text, Flavor::Own),
        None => Ok(ConfigLayer::default()),
    });
    let mut layer = read.unwrap_or_else(|_| {
        let mut layer = ConfigLayer::default();
        let origin = ConfigOrigin::File { path: path.as_path().into(), line: 1 };
        layer.warn(origin, "ignoring this unreadable file; `/theme` rewrites it".to_owned());
        layer
    });
    let theme = KeyPath::from(THEME);
    for (path, entry) in layer.entries.extract_if(.., |(path, _)| *path != theme).collect::<Vec<_>>() {
        let message = format!("ignoring `{path}`: this file stores only `{THEME}`");
        layer.warn(entry.origin().clone(), message);
    }
    layer
}

/// Saves the theme for the next start.
pub(crate) fn keep_theme(data: &Path, theme: &str) -> io::Result<()> {
    create_private_folder(data)?;
    replace_private_file(&ui_state_file(data), format!("{THEME} = {}\n", value::quoted(theme)).as_bytes())
}

/// Removes the saved theme, so that the theme follows the terminal again.
pub(crate) fn forget_theme(data: &Path) -> io::Result<()> {
    match std::fs::remove_file(ui_state_file(data)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
