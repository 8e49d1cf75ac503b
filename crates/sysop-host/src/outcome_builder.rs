//! Builds the outcomes of calls that run outside this crate, such as calls to MCP servers: within the output limits,
//! without control sequences and secrets, and with the full output as an artifact.

use std::path::PathBuf;

use secrecy::SecretString;
use sysop_core::image::{ImageRef, check};
use sysop_core::outcome::{Outcome, Status};
use sysop_core::redact::shapes::redact_shapes;
use sysop_driver::port::DeltaSink;

use crate::output::OutputLimits;
use crate::output::artifacts::Artifacts;
use crate::output::capture::{Capture, redacted_text};
use crate::output::images::ImageStoreError;
use crate::output::redact::Secrets;
use crate::settings::ARTIFACT_BYTES_MAX;

/// Bytes that are passed to the capture at once.
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub struct OutcomeBuilder {
    limits: OutputLimits,
    artifacts: Artifacts,
    secrets: Secrets,
}

impl OutcomeBuilder {
    /// Creates a builder. `artifacts` is the directory for full outputs; `secrets` are the values to redact.
    pub fn new(limits: OutputLimits, artifacts: PathBuf, secrets: &[SecretString]) -> Self {
        let artifacts = Artifacts::new(artifacts, ARTIFACT_BYTES_MAX);
        Self { limits, artifacts, secrets: Secrets::new(secrets) }
    }

    pub async fn outcome(&self, status: Status, text: &str) -> Outcome {
        let mut capture = Capture::new(self.limits, &self.secrets, &self.artifacts, DeltaSink::none());
        for chunk in text.as_bytes().chunks(CHUNK_BYTES) {
            capture.settle().await;
            capture.take(chunk);
        }
        let captured = capture.finish().await;
        Outcome {
            styles: captured.styles,
            truncated: captured.truncated,
            artifact: captured.artifact,
            ..Outcome::new(status, captured.text)
        }
    }

    /// Checks an image and stores it as an artifact. `name` is for display.
    ///
    /// # Errors
    /// If the image is not accepted, or if the directory of artifacts cannot be written.
    pub async fn store_image(&self, bytes: Vec<u8>, name: &str) -> Result<ImageRef, ImageStoreError> {
        let header = check(&bytes)?;
        let artifacts = self.artifacts.clone();
        let storing = tokio::task::spawn_blocking(move || artifacts.store_image(&bytes, header.format));
        let artifact = storing.await.map_err(std::io::Error::other)??;
        Ok(ImageRef::new(artifact, header, name))
    }

    /// Removes control sequences and secrets from short text.
    pub fn redact(&self, text: &str) -> String {
        redacted_text(Some(&self.secrets), text, redact_shapes).0
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::outcome::Status;

    use super::{OutcomeBuilder, OutputLimits};

    #[tokio::test]
    async fn outcomes_are_bounded_redacted_and_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let limits = OutputLimits { bytes: 1_000, lines: 100 };
        let builder = OutcomeBuilder::new(limits, folder.path().into(), &["hunter22".into()]);
        let short = builder.outcome(Status::Ok, "a \u{1b}[31mred\u{1b}[0m hunter22").await;
        assert_eq!((short.output.as_str(), short.truncated), ("a red [redacted]", false));
        let text = "line hunter22\n".repeat(20_000);
        let long = builder.outcome(Status::Ok, &text).await;
        assert!(long.truncated && long.output.len() < 1_300 && !long.output.contains("hunter22"));
        let kept = folder.path().join(long.artifact.expect("it was kept"));
        assert_eq!(std::fs::read_to_string(kept).expect("a file"), text.replace("hunter22", "[redacted]"));
    }
}
