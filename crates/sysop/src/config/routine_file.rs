//! Routines in a single file, outside the layers of the config.

use std::collections::BTreeMap;
use std::path::Path;

use super::file::{self, Flavor};
use super::{Config, ConfigError, ConfigOrigin, KeyPath, Routine};

#[derive(Debug, Default)]
pub(crate) struct RoutineFile {
    pub(crate) routines: BTreeMap<String, Routine>,
    /// Problems, each with its line.
    pub(crate) warnings: Vec<(usize, String)>,
}

/// Parses the routines in a file, ignoring all other keys. Fails if it is missing, unreadable or not TOML.
pub(crate) fn routines_in(path: &Path) -> Result<RoutineFile, ConfigError> {
    let text = file::read(path)?.ok_or_else(|| ConfigError::Missing(path.to_owned()))?;
    routines_of_text(path, &text)
}

/// Like [`routines_in`], for text that has already been read from a file.
pub(crate) fn routines_of_text(path: &Path, text: &str) -> Result<RoutineFile, ConfigError> {
    let mut config = Config::default();
    config.merge(file::parse(path, text, Flavor::Own)?);
    let mut routines: BTreeMap<String, Routine> = config.get("routines").unwrap_or_default();
    config.add_steps(&mut routines);
    let mut warnings: Vec<(usize, String)> = config
        .denials
        .iter()
        .chain(&config.warnings)
        .map(|warning| match &warning.origin {
            ConfigOrigin::File { line, .. } => (*line, warning.message.clone()),
            ConfigOrigin::Default | ConfigOrigin::Environment { .. } | ConfigOrigin::Flag { .. } => {
                (1, warning.message.clone())
            }
        })
        .collect();
    for (name, routine) in &routines {
        if routine.cmd.is_empty() && !config.steps.contains_key(name) {
            let table = KeyPath::new(["routines", name]);
            let line = config.below(&table).find_map(|(_, entry)| match entry.origin() {
                ConfigOrigin::File { line, .. } => Some(*line),
                ConfigOrigin::Default | ConfigOrigin::Environment { .. } | ConfigOrigin::Flag { .. } => None,
            });
            warnings.push((line.unwrap_or(1), format!("the routine {name:?} has neither `cmd` nor `steps`")));
        }
    }
    routines.retain(|name, routine| !routine.cmd.is_empty() || config.steps.contains_key(name));
    Ok(RoutineFile { routines, warnings })
}
