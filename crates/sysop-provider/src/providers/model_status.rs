//! Facts about the model in use, for users: the way in which it gets its tools, and the address of its server.

use sysop_core::message::ModelRef;
use sysop_core::model_provider::{ANTHROPIC, GEMINI, LOCAL, OLLAMA, OLLAMA_SSH, OPENAI, VERTEX};

use super::{Providers, base_of, origin};
use crate::api::{FORMAT, ModelQuirks, RESPONSE_FORMAT};
use crate::settings::Endpoint;
use crate::tool_calling::ToolCalling;

/// Way in which a model gets its tools, and its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelStatus {
    /// `None` before the first request to the model, which may decide it.
    pub calling: Option<ToolCalling>,
    /// Scheme, host and port of the server, or a description of a server without an address of its own.
    pub server: String,
}

impl Providers {
    /// Returns the status of a model. Does no I/O.
    pub fn model_status(&self, model: &ModelRef) -> ModelStatus {
        let provider = model.provider.as_str();
        let quirks = self.known_quirks.of(&model.to_string());
        let was_asked = self.shared.chosen.lock().contains(&model.to_string());
        // The other providers' models all have native tools.
        let decides = [OPENAI, OLLAMA, OLLAMA_SSH, LOCAL].iter().any(|known| known.name == provider);
        let is_open = decides && !was_asked && quirks == ModelQuirks::default();
        let refuses = |name: &&str| [FORMAT, RESPONSE_FORMAT].contains(name);
        let has_schema = decides && !quirks.unsupported_params.iter().any(refuses);
        let is_ollama = provider == OLLAMA.name;
        let is_text = quirks.text_protocol
            || is_ollama && self.shared.ollama.model(&model.name).uses_text_protocol(&quirks);
        let calling = match (is_text, has_schema) {
            (false, _) => ToolCalling::Native,
            (true, true) => ToolCalling::Constrained,
            (true, false) => ToolCalling::Text,
        };
        ModelStatus { calling: (!is_open).then_some(calling), server: self.server_label(model) }
    }

    fn server_label(&self, model: &ModelRef) -> String {
        let shared = &self.shared;
        let own = |endpoint: &Endpoint, vendor: &str| Ok(base_of(endpoint, vendor).to_owned());
        let address = match model.provider.as_str() {
            name if name == OPENAI.name => shared.openai.address(""),
            name if name == OLLAMA.name => shared.ollama.address(""),
            name if name == ANTHROPIC.name => own(&shared.settings.anthropic, ANTHROPIC.base_url),
            name if name == GEMINI.name => own(&shared.settings.gemini, GEMINI.base_url),
            name if name == LOCAL.name => return "llama-server on this machine".to_owned(),
            name if name == OLLAMA_SSH.name => return "Ollama on the remote host".to_owned(),
            name if name == VERTEX.name => return "Vertex AI".to_owned(),
            _ => return "unknown".to_owned(),
        };
        address.map(|address: String| origin(&address)).unwrap_or_default()
    }
}
