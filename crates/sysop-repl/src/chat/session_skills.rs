//! The session's skills and custom commands: found in the background, for completion and for invoking them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use sysop_core::id::SessionId;
use sysop_core::skill::Skill;
use sysop_driver::frontend::SessionService;
use sysop_term::command::CompletionNames;
use tokio::task::JoinHandle;

const WAIT_MAX: Duration = Duration::from_secs(2);

pub(super) struct SessionSkills {
    /// Names for completion, which runs in another thread.
    known: Arc<RwLock<CompletionNames>>,
    found: Vec<Skill>,
    finding: Option<JoinHandle<Vec<Skill>>>,
}

impl SessionSkills {
    pub(super) fn new(known: Arc<RwLock<CompletionNames>>) -> Self {
        Self { known, found: Vec::new(), finding: None }
    }

    pub(super) fn find(&mut self, service: &Arc<dyn SessionService>, id: &SessionId) {
        let (service, id, known) = (Arc::clone(service), id.clone(), Arc::clone(&self.known));
        self.finding = Some(tokio::spawn(async move {
            let skills = service.skills(&id).await;
            let mut known = known.write();
            *known = std::mem::take(&mut *known).with_skills(&skills);
            skills
        }));
    }

    /// Returns the skills in the log, or, if the log has none, those found in the background. Waits at most
    /// `WAIT_MAX` for them.
    pub(super) async fn found(&mut self, logged: &[Skill]) -> &[Skill] {
        if let Some(finding) = self.finding.take() {
            let found = tokio::time::timeout(WAIT_MAX, finding).await;
            self.found = found.ok().and_then(Result::ok).unwrap_or_default();
        }
        if !logged.is_empty() {
            self.found = logged.to_vec();
        }
        &self.found
    }

    /// Returns the names and descriptions, for the help.
    pub(super) fn help(&self) -> Vec<(String, String)> {
        self.known.read().skills.clone()
    }
}
