//! What is remembered from one window to the next, and where: its size and place, and the port of its server, so that
//! what the page keeps for itself (its theme) is found again.

use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The first size, in logical pixels.
const SIZE: (f64, f64) = (900.0, 700.0);
/// The smallest size that can be used.
pub(crate) const SIZE_MIN: (f64, f64) = (360.0, 320.0);
/// The largest that is believed.
const SIZE_MAX: f64 = 16_384.0;
/// Lower ports are not for everybody.
const PORT_MIN: u16 = 1024;

/// What is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WindowState {
    /// In logical pixels.
    pub(crate) width: f64,
    /// In logical pixels.
    pub(crate) height: f64,
    /// Its left upper corner, in logical pixels, where the display says that.
    pub(crate) position: Option<(f64, f64)>,
    /// Whether it fills the display; the size is then the one before.
    pub(crate) maximized: bool,
    /// The port of its server.
    pub(crate) port: Option<u16>,
}

impl Default for WindowState {
    fn default() -> Self {
        Self { width: SIZE.0, height: SIZE.1, position: None, maximized: false, port: None }
    }
}

impl WindowState {
    /// What is remembered there, or the first state: a file that is damaged is not worth an error.
    pub(crate) fn load(folders: &DataDirs) -> Self {
        let text = std::fs::read(folders.state_file()).unwrap_or_default();
        serde_json::from_slice::<Self>(&text).unwrap_or_default().clamped()
    }

    /// Remembers.
    ///
    /// # Errors
    /// The disk does not take it.
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

    /// With what no window can be replaced by what one can.
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

/// Where things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataDirs {
    /// What lasts.
    pub(crate) state: PathBuf,
    /// What lasts as long as the person is logged in.
    pub(crate) runtime: PathBuf,
}

impl DataDirs {
    /// As the environment says.
    ///
    /// # Errors
    /// There is no home.
    pub(crate) fn of(environment: &dyn Fn(&str) -> Option<OsString>) -> Result<Self> {
        // The specification wants relative paths to be ignored.
        let folder = |name| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = match folder("XDG_STATE_HOME") {
            Some(state) => state,
            None => folder("HOME").context("neither XDG_STATE_HOME nor HOME is set")?.join(".local/state"),
        };
        let state = state.join("sysop");
        let runtime =
            folder("XDG_RUNTIME_DIR").map_or_else(|| state.clone(), |runtime| runtime.join("sysop"));
        Ok(Self { state, runtime })
    }

    /// Makes those that are not there, for their owner alone.
    ///
    /// # Errors
    /// The disk does not.
    pub(crate) fn create_all(&self) -> Result<()> {
        for folder in [&self.state, &self.runtime, &self.web()] {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        Ok(())
    }

    /// What the page keeps for itself.
    pub(crate) fn web(&self) -> PathBuf {
        self.state.join("desktop")
    }

    /// Forgets the page's cookie: the next window gets its own, and one that lies there is only a danger.
    pub(crate) fn forget_cookie(&self) {
        // There is none where none was kept.
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
    fn what_is_saved_is_remembered_by_the_owner_alone() {
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
    fn what_no_window_can_be_is_not_believed() {
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
    fn folders_are_where_the_environment_says() {
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
