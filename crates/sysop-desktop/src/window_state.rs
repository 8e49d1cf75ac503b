//! State kept from one window to the next: its size and position, and the server's port. A stable port keeps
//! the page's origin, and with it the page's stored settings such as the theme.

use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Initial size, in logical pixels.
const SIZE: (f64, f64) = (900.0, 700.0);
/// Smallest usable size, in logical pixels.
pub(crate) const SIZE_MIN: (f64, f64) = (360.0, 320.0);
/// Largest accepted size, in logical pixels.
const SIZE_MAX: f64 = 16_384.0;
/// Lowest accepted port; lower ports are privileged.
const PORT_MIN: u16 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WindowState {
    /// In logical pixels.
    pub(crate) width: f64,
    /// In logical pixels.
    pub(crate) height: f64,
    /// Upper left corner in logical pixels, if the display reports positions.
    pub(crate) position: Option<(f64, f64)>,
    /// True if the window is maximized. The stored size is then the size before it was maximized.
    pub(crate) maximized: bool,
    pub(crate) port: Option<u16>,
}

impl Default for WindowState {
    fn default() -> Self {
        Self { width: SIZE.0, height: SIZE.1, position: None, maximized: false, port: None }
    }
}

impl WindowState {
    /// Loads the stored state, or the default if the file is missing or damaged.
    pub(crate) fn load(folders: &DataDirs) -> Self {
        let text = std::fs::read(folders.state_file()).unwrap_or_default();
        serde_json::from_slice::<Self>(&text).unwrap_or_default().clamped()
    }

    /// Stores the state. Fails if the file cannot be written.
    pub(crate) fn save(self, folders: &DataDirs) -> Result<()> {
        let file = folders.state_file();
        let new = file.with_extension("json.new");
        let text = serde_json::to_vec(&self.clamped())?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o600);
        let written = options.open(&new).and_then(|mut opened| opened.write_all(&text));
        written
            .and_then(|()| std::fs::rename(&new, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Replaces values that no window can have.
    fn clamped(mut self) -> Self {
        if !self.width.is_finite() || !self.height.is_finite() {
            (self.width, self.height) = SIZE;
        }
        self.width = self.width.clamp(SIZE_MIN.0, SIZE_MAX).round();
        self.height = self.height.clamp(SIZE_MIN.1, SIZE_MAX).round();
        let believed = |(x, y): &(f64, f64)| x.abs() <= SIZE_MAX && y.abs() <= SIZE_MAX;
        self.position = self.position.filter(believed);
        self.port = self.port.filter(|port| *port >= PORT_MIN);
        self
    }
}

/// Directories of this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataDirs {
    pub(crate) state: PathBuf,
    /// Directory for runtime files, which last until the user logs out.
    pub(crate) runtime: PathBuf,
}

impl DataDirs {
    /// Determines the directories from environment variables. Fails if no home directory is set.
    pub(crate) fn of(environment: &dyn Fn(&str) -> Option<OsString>) -> Result<Self> {
        // The XDG specification requires relative paths to be ignored.
        let folder = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = match folder("XDG_STATE_HOME") {
            Some(state) => state,
            None => {
                folder("HOME").context("no state directory; set XDG_STATE_HOME or HOME")?.join(".local/state")
            }
        };
        let state = state.join("sysop");
        let runtime =
            folder("XDG_RUNTIME_DIR").map_or_else(|| state.clone(), |runtime| runtime.join("sysop"));
        Ok(Self { state, runtime })
    }

    /// Creates missing directories, accessible only to their owner.
    pub(crate) fn create_all(&self) -> Result<()> {
        for folder in [&self.state, &self.runtime, &self.web()] {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.with_context(|| format!("cannot create the directory {}", folder.display()))?;
        }
        Ok(())
    }

    /// Directory for the page's own storage.
    pub(crate) fn web(&self) -> PathBuf {
        self.state.join("desktop")
    }

    /// Deletes the page's cookies. The next window gets a new cookie, so an old one is only a risk.
    pub(crate) fn forget_cookie(&self) {
        // The file is missing if no cookie has been stored.
        let _ = std::fs::remove_file(self.web().join("cookies"));
    }

    fn state_file(&self) -> PathBuf {
        Path::new(&self.state).join("desktop.json")
    }
}

#[cfg(test)]
mod tests {
    use super::{DataDirs, WindowState};

    fn folders() -> (tempfile::TempDir, DataDirs) {
        let home = tempfile::tempdir().unwrap();
        let folders = DataDirs::of(&|name| (name == "HOME").then(|| home.path().into())).unwrap();
        folders.create_all().unwrap();
        (home, folders)
    }

    #[test]
    fn window_state_is_saved_readable_by_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let (home, folders) = folders();
        assert_eq!(WindowState::load(&folders), WindowState::default());
        let state = WindowState {
            width: 1000.0,
            position: Some((5.0, 6.0)),
            port: Some(4000),
            ..WindowState::default()
        };
        state.save(&folders).unwrap();
        assert_eq!(WindowState::load(&folders), state);
        let file = home.path().join(".local/state/sysop/desktop.json");
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn invalid_window_sizes_are_ignored() {
        let (_home, folders) = folders();
        let load = |text: &str| {
            std::fs::write(folders.state_file(), text).unwrap();
            WindowState::load(&folders)
        };
        assert_eq!(load("{"), WindowState::default());
        assert_eq!(load("{\"width\":\"wide\"}"), WindowState::default());
        let odd = load("{\"width\":1,\"height\":1e300,\"position\":[1e300,0],\"port\":22}");
        assert_eq!((odd.width, odd.height, odd.position, odd.port), (360.0, 16384.0, None, None));
    }

    #[test]
    fn directories_follow_the_environment() {
        let of = |given: &[(&str, &str)]| {
            DataDirs::of(&|name| {
                given.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            })
        };
        let folders = of(&[("XDG_STATE_HOME", "/s"), ("XDG_RUNTIME_DIR", "/r"), ("HOME", "/h")]).unwrap();
        assert_eq!((folders.state.to_str(), folders.runtime.to_str()), (Some("/s/sysop"), Some("/r/sysop")));
        let folders = of(&[("XDG_STATE_HOME", "relative"), ("HOME", "/h")]).unwrap();
        assert_eq!(folders.runtime.to_str(), Some("/h/.local/state/sysop"));
        assert!(of(&[]).is_err());
    }
}
