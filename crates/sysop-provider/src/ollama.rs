//! Ollama's native API. Its OpenAI-compatible API is not used because it cannot set the context window.
//!
//! Sources: ollama v0.33.0-rc2, `server/routes.go`, `server/prompt.go`, `api/types.go`, `envconfig/config.go`.

mod address;
mod decode;
mod encode;
pub(crate) mod errors;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use sysop_core::message::{FailureKind, Message, ModelFailure, ModelRequest};
use sysop_core::mode::Mode;

use crate::api::{ErrorAction, FORMAT, Framing, HttpRequest, ModelApi, ModelQuirks, ReplyDecoder};
use crate::settings::OllamaSettings;
use crate::transport::{error_text, query};

pub use address::ollama_base_url;
use decode::{OllamaDecoder, PromptSize};
use encode::ChatParams;

/// Number of model parameters below which a model uses the text protocol even if it has native tools.
const SMALL_PARAMETERS_MAX: f64 = 4e9;

/// Default for the longest silence between two bytes. Long, because loading a model takes minutes and a tool call is
/// sent only when it is complete.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(600);
/// Default context window in tokens: the smallest one that is useful for an agent.
pub const NUM_CTX_DEFAULT: u32 = 32_768;
/// Maximum number of models with cached information.
const MODELS_MAX: usize = 256;

/// Parameter that turns thinking on or off.
const THINK: &str = "think";

/// Words for messages that distinguish the local Ollama from the remote one.
#[derive(Debug, Clone, Copy)]
struct OllamaLabels {
    table: &'static str,
    /// Location, appended to the name `Ollama`; empty for this machine.
    place: &'static str,
    /// Location where the user is to run a suggested command; empty for this machine.
    there: &'static str,
}

const LOCAL: OllamaLabels = OllamaLabels { table: "ollama", place: "", there: "" };
const REMOTE: OllamaLabels =
    OllamaLabels { table: "ollama+ssh", place: " on the remote host", there: " there" };

/// One Ollama server. Clones share the cached information about its models.
#[derive(Clone)]
pub(crate) struct Ollama {
    labels: OllamaLabels,
    base_url: Result<String, String>,
    key: Option<SecretString>,
    headers: Vec<(String, SecretString)>,
    silence: Duration,
    num_ctx: u32,
    keep_alive: Option<String>,
    models: Arc<Mutex<HashMap<String, OllamaModelInfo>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct OllamaModelInfo {
    /// True if the server has been queried for the model's capabilities.
    asked: bool,
    tools: Option<bool>,
    thinking: bool,
    /// True if the model accepts images; `None` if the server does not report it.
    vision: Option<bool>,
    window_checked: bool,
    /// Context window that the server loaded the model with, in tokens.
    window: Option<u64>,
}

impl Ollama {
    /// Stores the settings; does no I/O.
    pub(crate) fn new(settings: &OllamaSettings) -> Self {
        Self::with_labels(settings, LOCAL)
    }

    /// Creates the Ollama of the remote machine. Its address is the one seen from that machine, until
    /// [`through_tunnel`](Self::through_tunnel) replaces it.
    pub(crate) fn remote(settings: &OllamaSettings) -> Self {
        Self::with_labels(settings, REMOTE)
    }

    /// Returns the same server at another address. `host` is sent as the `Host` header.
    pub(crate) fn through_tunnel(&self, base_url: String, host: &str) -> Self {
        let mut other = self.clone();
        other.base_url = Ok(base_url);
        other.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("host"));
        other.headers.push(("host".to_owned(), host.into()));
        other
    }

    fn with_labels(settings: &OllamaSettings, labels: OllamaLabels) -> Self {
        let endpoint = &settings.endpoint;
        Self {
            labels,
            base_url: ollama_base_url(endpoint.base_url.as_deref().unwrap_or_default()),
            key: endpoint.api_key.clone(),
            headers: endpoint.headers.clone(),
            silence: endpoint.timeout.unwrap_or(SILENCE_MAX),
            num_ctx: settings.num_ctx.unwrap_or(NUM_CTX_DEFAULT),
            keep_alive: settings.keep_alive.clone(),
            models: Arc::default(),
        }
    }

    pub(crate) fn model(self: &Arc<Self>, name: &str) -> OllamaModel {
        OllamaModel { server: Arc::clone(self), name: name.to_owned() }
    }

    /// Appends a path to the base URL.
    pub(crate) fn address(&self, path: &str) -> Result<String, ModelFailure> {
        match &self.base_url {
            Ok(base) => Ok(format!("{base}{path}")),
            Err(problem) => Err(ModelFailure { kind: FailureKind::BadRequest, message: problem.clone() }),
        }
    }

    /// Returns the headers that every request carries.
    pub(crate) fn headers(&self) -> Vec<(String, SecretString)> {
        let mut headers = self.headers.clone();
        let authorized = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if let Some(key) = self.key.as_ref().filter(|_| !authorized) {
            headers.push(("authorization".to_owned(), format!("Bearer {}", key.expose_secret()).into()));
        }
        headers
    }

    /// Returns the longest allowed silence between two bytes.
    pub(crate) fn silence(&self) -> Duration {
        self.silence
    }

    fn model_info(&self, model: &str) -> OllamaModelInfo {
        self.models.lock().get(model).copied().unwrap_or_default()
    }

    fn update_model_info(&self, model: &str, change: impl FnOnce(&mut OllamaModelInfo)) {
        let mut models = self.models.lock();
        if models.len() >= MODELS_MAX && !models.contains_key(model) {
            models.clear();
        }
        change(models.entry(model.to_owned()).or_default());
    }

    /// Returns the server's version, or `None` if the server does not answer.
    pub(crate) async fn version(&self, http: &reqwest::Client) -> Option<String> {
        let answer = self.query(http.get(self.address("/api/version").ok()?)).await?;
        Some(format!("ollama {}", answer["version"].as_str()?))
    }

    /// Sends a query about models. Returns `None` if no usable response arrives in time.
    async fn query(&self, request: reqwest::RequestBuilder) -> Option<Value> {
        query(request, &self.headers()).await
    }
}

#[derive(Clone)]
pub(crate) struct OllamaModel {
    server: Arc<Ollama>,
    name: String,
}

impl OllamaModel {
    pub(crate) fn uses_text_protocol(&self, quirks: &ModelQuirks) -> bool {
        quirks.text_protocol
            || (!quirks.native_tools && self.server.model_info(&self.name).tools == Some(false))
    }

    async fn ask_capabilities(&self, http: &reqwest::Client) {
        let Ok(address) = self.server.address("/api/show") else { return };
        if self.server.model_info(&self.name).asked {
            return;
        }
        let question = http.post(address).body(json!({"model": self.name}).to_string());
        let Some(shown) = self.server.query(question).await else { return };
        let capabilities = shown["capabilities"].as_array();
        let has =
            |name: &str| capabilities.is_some_and(|list| list.iter().any(|capability| capability == name));
        let small = shown["details"]["parameter_size"].as_str().and_then(parameters).is_some_and(is_small);
        let (known, tools, thinking) = (capabilities.is_some(), has("tools") && !small, has("thinking"));
        let vision = has("vision");
        self.server.update_model_info(&self.name, |model| {
            model.asked = true;
            model.tools = known.then_some(tools);
            model.thinking = thinking;
            model.vision = known.then_some(vision);
        });
    }

    async fn check_loaded_window(&self, http: &reqwest::Client) -> Option<String> {
        if self.server.model_info(&self.name).window_checked {
            return None;
        }
        let address = self.server.address("/api/ps").ok()?;
        let loaded = self.server.query(http.get(address)).await?;
        let window = loaded["models"]
            .as_array()?
            .iter()
            .find(|model| model["name"].as_str().is_some_and(|name| is_same_model(name, &self.name)))?["context_length"]
            .as_u64();
        self.server.update_model_info(&self.name, |model| {
            model.window_checked = true;
            model.window = window;
        });
        let (window, asked) = (window?, u64::from(self.server.num_ctx));
        (window < asked).then(|| {
            format!(
                "Ollama gave {} a context window of {window} tokens instead of {asked}; long sessions will not fit",
                self.name
            )
        })
    }
}

impl OllamaModel {
    /// Returns the context window in tokens: the configured one, or the smaller one of the loaded model.
    fn window(&self) -> u64 {
        let asked = u64::from(self.server.num_ctx);
        self.server.model_info(&self.name).window.map_or(asked, |window| window.min(asked))
    }
}

impl ModelApi for OllamaModel {
    fn prepare<'a>(&'a self, http: &'a reqwest::Client) -> BoxFuture<'a, Result<(), ModelFailure>> {
        Box::pin(async {
            self.ask_capabilities(http).await;
            Ok(())
        })
    }

    fn after_reply<'a>(
        &'a self,
        http: &'a reqwest::Client,
        _model: &'a str,
    ) -> BoxFuture<'a, Option<String>> {
        Box::pin(self.check_loaded_window(http))
    }

    fn context_window(&self, _model: &str) -> Option<u32> {
        u32::try_from(self.window()).ok()
    }

    fn vision(&self) -> Option<bool> {
        self.server.model_info(&self.name).vision
    }

    fn calls_as_text(&self, request: &ModelRequest, quirks: &ModelQuirks) -> bool {
        request.mode == Mode::Agent && (request.calls_as_text || self.uses_text_protocol(quirks))
    }

    fn build(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Result<HttpRequest, ModelFailure> {
        let text_protocol = self.calls_as_text(request, quirks);
        let thinking = self.server.model_info(&self.name).thinking;
        // Ollama enforces a schema only after the thoughts, and small models think endlessly.
        let quiet = text_protocol && thinking && !quirks.unsupported_params.contains(&THINK);
        let params = ChatParams {
            text_protocol,
            think: quiet.then_some(false),
            thinks: thinking && !quiet,
            num_ctx: self.server.num_ctx,
            keep_alive: self.server.keep_alive.as_deref(),
            unsupported_params: &quirks.unsupported_params,
        };
        Ok(HttpRequest {
            url: self.server.address("/api/chat")?,
            headers: self.server.headers(),
            body: encode::body(request, &params),
            framing: Framing::Lines,
            first_byte: self.server.silence,
        })
    }

    fn decoder(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Box<dyn ReplyDecoder> {
        let prompt_size = PromptSize {
            bytes: prompt_bytes(request),
            window: self.window(),
            table: self.server.labels.table,
        };
        let text_protocol = self.calls_as_text(request, quirks);
        Box::new(OllamaDecoder::new(request.model.clone(), text_protocol, prompt_size))
    }

    fn classify_error(&self, status: u16, body: &str, quirks: &mut ModelQuirks) -> Option<ErrorAction> {
        let text = error_text(body);
        let lower = text.to_ascii_lowercase();
        let fail = |kind, message| Some(ErrorAction::Fail(ModelFailure { kind, message }));
        let (name, OllamaLabels { table, place, there }) = (&self.name, self.server.labels);
        if status == 403 && text.trim().is_empty() {
            let message = "Ollama rejected the host name (403); use its IP address or localhost";
            return fail(FailureKind::Auth, message.to_owned());
        }
        if lower.contains("does not support tools") && !quirks.text_protocol {
            quirks.text_protocol = true;
            return Some(ErrorAction::RetryNow);
        }
        if lower.contains("does not support thinking") && mark_unsupported(quirks, THINK) {
            return Some(ErrorAction::RetryNow);
        }
        let refuses_format = lower.contains("grammar") || lower.contains("format");
        if refuses_format && self.uses_text_protocol(quirks) && mark_unsupported(quirks, FORMAT) {
            return Some(ErrorAction::RetryNow);
        }
        if lower.contains("does not support chat") {
            return fail(
                FailureKind::BadRequest,
                format!("{name} does not support chat; choose another model with /model or --model"),
            );
        }
        if errors::is_overflow(&lower) {
            let message = format!(
                "the prompt exceeds the context window ({text}); raise num_ctx in [providers.{table}], or start a \
                 new session"
            );
            return fail(FailureKind::ContextOverflow, message);
        }
        if errors::is_out_of_memory(&lower) {
            let message = format!(
                "not enough memory for {name} ({text}); choose a smaller model, or lower num_ctx in [providers.{table}]"
            );
            return fail(FailureKind::BadRequest, message);
        }
        if status == 404 && lower.contains("not found") && lower.contains("model") {
            return fail(
                FailureKind::UnknownModel,
                format!("no model {name} in Ollama{place}; run `ollama pull {name}`{there}"),
            );
        }
        None
    }
}

fn mark_unsupported(quirks: &mut ModelQuirks, name: &'static str) -> bool {
    if quirks.unsupported_params.contains(&name) {
        return false;
    }
    quirks.unsupported_params.push(name);
    true
}

/// Parses a number of model parameters in Ollama's format, such as `1.5B` or `494.03M`.
fn parameters(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at(text.len().checked_sub(1).filter(|&at| text.is_char_boundary(at))?);
    let unit = match unit {
        "K" => 1e3,
        "M" => 1e6,
        "B" => 1e9,
        _ => return None,
    };
    number.trim().parse::<f64>().ok().map(|number| number * unit)
}

/// Returns true for models that do better with the text protocol than with native tools. Measured with
/// Qwen2.5-Coder-1.5B on 20 tasks: with the text protocol, 19 ended with an answer; with native tools, the model
/// repeated calls endlessly.
pub(crate) fn is_small(parameters: f64) -> bool {
    parameters < SMALL_PARAMETERS_MAX
}

/// Returns true if two names mean the same model, as `phi3` and `phi3:latest` do.
fn is_same_model(name: &str, other: &str) -> bool {
    let full = |name: &str| {
        let tagged = name.rsplit('/').next().unwrap_or(name).contains(':');
        if tagged { name.to_ascii_lowercase() } else { format!("{}:latest", name.to_ascii_lowercase()) }
    };
    full(name) == full(other)
}

/// Returns a low estimate of the number of prompt bytes that the tokenizer sees.
fn prompt_bytes(request: &ModelRequest) -> u64 {
    let said = request.messages.iter().map(|message| match message.message() {
        Message::User { text, .. } => text.len(),
        Message::Assistant { reply } => reply.text.len(),
        Message::ToolResults { results } => results.iter().map(|result| result.output.len()).sum(),
    });
    (request.system.len() + said.sum::<usize>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_models_are_recognized_by_parameter_count() {
        for (text, small) in
            [("1.5B", true), ("494.03M", true), ("3.8B", true), ("4.0B", false), ("8B", false)]
        {
            assert_eq!(parameters(text).map(is_small), Some(small), "{text}");
        }
        for text in ["", "B", "many", "7", "1.5é"] {
            assert_eq!(parameters(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_without_a_tag_means_the_latest() {
        assert!(is_same_model("phi3:latest", "phi3"));
        assert!(is_same_model("Phi3", "phi3"));
        assert!(is_same_model("host:80/a/phi3", "host:80/a/phi3:latest"));
        assert!(!is_same_model("phi3:mini", "phi3"));
    }
}
