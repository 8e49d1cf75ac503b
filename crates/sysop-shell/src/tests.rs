//! Tests of the analysis: data tables first, then grants, bounds and properties.

mod bounds;
mod corpora;
mod forms;
mod grants;
mod properties;

use super::analyze;
use crate::risk::RiskClass;

/// The class of a command, and a text that says why.
fn class_of(command: &str) -> (RiskClass, String) {
    let analysis = analyze(command);
    let why =
        analysis.risk.findings.iter().map(|finding| finding.why.as_str()).collect::<Vec<_>>().join("; ");
    (analysis.risk.class, why)
}
