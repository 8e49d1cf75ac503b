//! Tests of the analysis: data tables first, then grants, bounds and properties.

mod bounds;
mod containers;
mod corpora;
mod dialects;
mod forms;
mod grants;
mod previews;
mod properties;
mod secrets;
mod targets;

use super::{CommandContext, Dialect, Survey, analyze};
use crate::risk::RiskClass;

pub(crate) fn class_of(command: &str) -> (RiskClass, String) {
    let analysis = analyze(command, &bash());
    let why =
        analysis.risk.findings.iter().map(|finding| finding.why.as_str()).collect::<Vec<_>>().join("; ");
    (analysis.risk.class, why)
}

/// Returns a survey of bash on this machine, in the workspace of an ordinary user.
fn bash() -> Survey {
    Survey::elsewhere(CommandContext {
        dialect: Dialect::Bash,
        own_shell: false,
        folder: Some("/home/ada/work".to_owned()),
        root: Some("/home/ada/work".to_owned()),
        home: Some("/home/ada".to_owned()),
        user: Some("ada".to_owned()),
        uid: Some(1000),
        host: None,
    })
}
