//! The directories that the shell may be in: one, several if a `cd` may have succeeded or not, or unknown.

/// Maximum number of directories tracked. If there are more, the directory is unknown.
const FOLDERS_MAX: usize = 16;

/// Directories from which relative paths may start. Empty if the directory is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Folders(Vec<String>);

impl Folders {
    pub(super) fn of(folder: Option<String>) -> Self {
        Self(folder.into_iter().collect())
    }

    /// Returns the directory, if there is exactly one.
    pub(super) fn only(&self) -> Option<&str> {
        match self.0.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns the union of both sets, or unknown if either set is unknown.
    pub(super) fn or(mut self, other: &Self) -> Self {
        if self.is_unknown() || other.is_unknown() {
            return Self::default();
        }
        for folder in &other.0 {
            if !self.0.contains(folder) {
                self.0.push(folder.clone());
            }
        }
        if self.0.len() > FOLDERS_MAX { Self::default() } else { self }
    }

    /// Returns the directories after a change of directory, which `target` applies to each of them. The
    /// result is unknown if `target` returns `None` for any of them.
    pub(super) fn go(&self, target: impl Fn(Option<&str>) -> Option<String>) -> Self {
        if self.is_unknown() {
            return Self::of(target(None));
        }
        let places: Option<Vec<String>> = self.0.iter().map(|folder| target(Some(folder))).collect();
        places
            .unwrap_or_default()
            .into_iter()
            .fold(None, |all: Option<Self>, place| {
                let place = Self::of(Some(place));
                Some(all.map_or(place.clone(), |all| all.or(&place)))
            })
            .unwrap_or_default()
    }
}
