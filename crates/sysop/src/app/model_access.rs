//! Restricts models to the hosts whose output they may receive (`[hosts.NAME] models`).
//!
//! The check wraps a host's provider, so it applies to every request from every session on that host, even if
//! a session's model is changed later.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use sysop_core::message::{FailureKind, ModelFailure, ModelRef, ModelRequest};
use sysop_core::policy::glob_matches;
use sysop_driver::port::{ModelEvent, Provider};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModelAccess(Vec<HostModels>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct HostModels {
    host: String,
    models: Vec<String>,
}

impl ModelAccess {
    pub(crate) fn add(&mut self, host: String, models: Vec<String>) {
        self.0.push(HostModels { host, models });
    }

    /// Returns the reason for refusing a model, which names the first host that does not allow it. Returns `None` if
    /// all hosts allow the model.
    pub(crate) fn refusal(&self, model: &ModelRef) -> Option<String> {
        let name = model.to_string();
        let is_refused = |host: &&HostModels| !host.models.iter().any(|glob| glob_matches(glob, &name));
        let HostModels { host, models } = self.0.iter().find(is_refused)?;
        let allowed = match models.as_slice() {
            [] => "none".to_owned(),
            models => models.join(", "),
        };
        Some(format!(
            "{name} may not receive output from {host}: `models` in [hosts.{host}] allows {allowed}; choose an allowed \
             model with --model (in a session: /model), or add this one to `models`"
        ))
    }

    /// Wraps a provider so that only allowed models are called.
    pub(crate) fn restrict(self, provider: Arc<dyn Provider>) -> Arc<dyn Provider> {
        if self.0.is_empty() { provider } else { Arc::new(RestrictedProvider { access: self, provider }) }
    }
}

/// Provider that refuses requests for models that are not allowed.
struct RestrictedProvider {
    access: ModelAccess,
    provider: Arc<dyn Provider>,
}

impl Provider for RestrictedProvider {
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        match self.access.refusal(&request.model) {
            None => self.provider.stream(request),
            Some(message) => {
                let failure = ModelFailure { kind: FailureKind::Withheld, message };
                futures::stream::iter([ModelEvent::Failed(failure)]).boxed()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::message::ModelRef;

    use super::ModelAccess;

    #[test]
    fn each_host_must_allow_the_model_and_the_first_that_does_not_is_named() {
        let mut access = ModelAccess::default();
        let refusal = |access: &ModelAccess, model: &str| access.refusal(&model.parse::<ModelRef>().unwrap());
        assert_eq!(refusal(&access, "openai/gpt"), None);
        access.add("db1".to_owned(), vec!["local/*".to_owned(), "ollama/*".to_owned()]);
        access.add("db2".to_owned(), vec!["ollama/phi3".to_owned()]);
        assert_eq!(refusal(&access, "ollama/phi3"), None);
        let why = refusal(&access, "openai/ollama/phi3").unwrap();
        assert_eq!(
            why,
            "openai/ollama/phi3 may not receive output from db1: `models` in [hosts.db1] allows local/*, ollama/*; \
             choose an allowed model with --model (in a session: /model), or add this one to `models`"
        );
        assert!(refusal(&access, "ollama+ssh/phi3").unwrap().contains("[hosts.db1]"));
        assert!(refusal(&access, "ollama/library/phi4").unwrap().contains("[hosts.db2] allows ollama/phi3;"));
        access.add("db3".to_owned(), Vec::new());
        assert!(refusal(&access, "ollama/phi3").unwrap().contains("[hosts.db3] allows none;"));
    }
}
