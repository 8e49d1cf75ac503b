//! The file that remembers how the models of local servers call tools: `tool-calling.json` in the data directory.
//!
//! An unreadable file counts as empty: the models are asked again. Writers replace the whole file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sysop_core::message::ModelRef;
use sysop_provider::{ToolCallingReport, ToolCallingStore};

use crate::config::{create_private_folder, replace_private_file};

/// Maximum number of models that are remembered. With more models, the file starts over.
const MODELS_MAX: usize = 200;

pub(crate) struct ToolCallingFile(PathBuf);

type Reports = BTreeMap<String, ToolCallingReport>;

impl ToolCallingFile {
    pub(crate) fn new(data: &Path) -> Self {
        Self(data.join("tool-calling.json"))
    }

    pub(crate) fn store(data: &Path) -> Arc<dyn ToolCallingStore> {
        Arc::new(Self::new(data))
    }

    /// Returns the remembered reports by `MODEL` or `MODEL ADDRESS`.
    pub(crate) fn reports(&self) -> Reports {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn write(&self, reports: &Reports) -> std::io::Result<()> {
        if let Some(folder) = self.0.parent() {
            create_private_folder(folder)?;
        }
        replace_private_file(&self.0, serde_json::to_string_pretty(reports)?.as_bytes())
    }
}

fn key(model: &ModelRef, address: &str) -> String {
    format!("{model} {address}").trim_end().to_owned()
}

impl ToolCallingStore for ToolCallingFile {
    fn load(&self, model: &ModelRef, address: &str, server: &str) -> Option<ToolCallingReport> {
        self.reports().remove(&key(model, address)).filter(|report| report.server == server)
    }

    fn save(&self, model: &ModelRef, address: &str, report: &ToolCallingReport) {
        let mut reports = self.reports();
        if reports.len() >= MODELS_MAX {
            reports.clear();
        }
        reports.insert(key(model, address), report.clone());
        if let Err(error) = self.write(&reports) {
            crate::tell(&format!("cannot write {}: {error}", crate::config::display_path(&self.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::message::ModelRef;
    use sysop_provider::{CallForm, ToolCalling, ToolCallingReport, ToolCallingStore as _};

    use super::ToolCallingFile;

    #[test]
    fn a_report_counts_for_its_model_address_and_version_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = ToolCallingFile::new(folder.path());
        let model = ModelRef::new("openai", "m");
        let report = ToolCallingReport {
            calling: ToolCalling::Constrained,
            form: Some(CallForm::Fenced),
            native: 1,
            constrained: Some(4),
            text: Some(2),
            server: "llama.cpp b1".to_owned(),
        };
        assert_eq!(file.load(&model, "http://a:1", "llama.cpp b1"), None);
        file.save(&model, "http://a:1", &report);
        assert_eq!(file.load(&model, "http://a:1", "llama.cpp b1"), Some(report.clone()));
        assert_eq!(file.load(&model, "http://a:1", "llama.cpp b2"), None, "a new version is asked again");
        assert_eq!(file.load(&model, "http://a:2", "llama.cpp b1"), None);
        assert_eq!(file.load(&ModelRef::new("openai", "n"), "http://a:1", "llama.cpp b1"), None);
        std::fs::write(folder.path().join("tool-calling.json"), "{").expect("writable");
        assert_eq!(file.load(&model, "http://a:1", "llama.cpp b1"), None, "a broken file counts as empty");
        file.save(&model, "http://a:1", &report);
        assert_eq!(file.reports().len(), 1);
    }
}
