//! Selects the model and records the reason: an explicit choice, otherwise a key in the environment,
//! otherwise a running Ollama server, otherwise a downloaded model.
//!
//! No model is called. The only network access, fetching Ollama's list of models, is passed in as a function.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use sysop_core::message::ModelRef;
use sysop_core::model_provider::{self, LOCAL, OLLAMA, PROVIDERS};

use crate::config::{DEMO, Environment, KeyPath, without_credentials};
use crate::exit::CommandError;
use crate::local_model::LocalModels;
use crate::settings::Settings;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelChoice {
    pub(crate) model: ModelRef,
    /// Short reason for display: `flag --model`, `GEMINI_API_KEY is set`.
    pub(crate) reason: String,
}

/// No model was found. `Display` is one sentence with a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no model configured, and no Ollama with a model at {ollama}; run `sysop init`, set OPENAI_API_KEY, \
     ANTHROPIC_API_KEY or GEMINI_API_KEY, or try `sysop --model {DEMO}`"
)]
pub(crate) struct NoModelFound {
    ollama: String,
}

/// Selects the model. `installed` lists the models of the Ollama server at a base URL; it is called only if
/// nothing else matches. Fails if no model was found.
pub(crate) fn select_model(
    settings: &Settings,
    installed: impl FnOnce(&str) -> Option<Vec<String>>,
) -> Result<ModelChoice, NoModelFound> {
    if let Some(asked) = &settings.model {
        return Ok(ModelChoice { model: asked.value.clone(), reason: asked.origin.to_string() });
    }
    if let Some(pick) = from_environment(settings) {
        return Ok(pick);
    }
    let address = ollama_address(settings);
    match installed(&address).and_then(|models| models.into_iter().next()) {
        Some(name) => {
            let reason = format!("found in Ollama at {}", without_credentials(&address));
            Ok(ModelChoice { model: ModelRef::new("ollama", name), reason })
        }
        None => match LocalModels::new(settings).runnable() {
            Some(model) => Ok(ModelChoice {
                model: ModelRef::new(LOCAL.name, model.name.clone()),
                reason: "downloaded with `sysop model get`".to_owned(),
            }),
            None => Err(NoModelFound { ollama: without_credentials(&address) }),
        },
    }
}

/// Fails if the provider of the selected model needs a key and has none. The error names the setting that is missing.
pub(crate) fn require_key(settings: &Settings, pick: &ModelChoice) -> Result<(), CommandError> {
    let ModelChoice { model, reason } = pick;
    let is_of_session = settings.resume.is_some() && settings.model.is_none();
    if is_of_session || !crate::app::providers(settings, None).lacks_key(&model.provider) {
        return Ok(());
    }
    let provider = settings.providers.get(&model.provider);
    let why = provider.and_then(|provider| provider.api_key_origin.as_ref());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let variable = key_variable(settings, &model.provider);
    let next = variable.map(|name| format!("set {name}, ")).unwrap_or_default();
    Err(CommandError::usage(format!(
        "no API key for {model} ({reason}){why}; {next}run `sysop init`, or choose another model with --model"
    )))
}

/// Returns the variable whose value would be used as the key of this provider, which has none now.
fn key_variable(settings: &Settings, provider: &str) -> Option<String> {
    let of_address = settings.providers.get(provider).and_then(|it| it.sources.api_key.clone());
    let named = || settings.config.get(KeyPath::new(["providers", provider]).child("api_key_env"));
    let usual = || model_provider::find(provider)?.key_variables.first().map(|&name| name.to_owned());
    of_address.or_else(named).or_else(usual)
}

pub(crate) fn ollama_address(settings: &Settings) -> String {
    let configured = settings.providers.get("ollama").and_then(|ollama| ollama.base_url.clone());
    configured.unwrap_or_else(|| OLLAMA.base_url.to_owned())
}

/// Returns the default model of each provider whose key is in the environment.
pub(crate) fn models_with_keys(settings: &Settings) -> Vec<ModelRef> {
    default_models(&settings.environment).map(|(_, model)| model).collect()
}

/// Returns the variables that hold a provider key, each with the default model of its provider.
fn default_models(environment: &Environment) -> impl Iterator<Item = (&'static str, ModelRef)> {
    PROVIDERS.into_iter().filter_map(|provider| {
        let (variable, _) = environment.first(provider.key_variables)?;
        Some((variable, ModelRef::new(provider.name, provider.default_model)))
    })
}

/// Returns the model that the variables for servers and keys select.
pub(crate) fn from_environment(settings: &Settings) -> Option<ModelChoice> {
    let environment = &settings.environment;
    let has_address = settings.providers.get("openai").is_some_and(|openai| openai.base_url.is_some());
    if environment.value("LLM_BASE_URL").is_some() && has_address {
        let named = environment.first(&["LLM_DEFAULT_MODEL", "LLM_SMALL_FAST_MODEL"]);
        let (name, reason) = match named {
            Some((variable, name)) => (name, format!("LLM_BASE_URL and {variable} are set")),
            // Servers with a single model accept any name; others list theirs.
            None => ("default", "LLM_BASE_URL is set; LLM_DEFAULT_MODEL is not".to_owned()),
        };
        return Some(ModelChoice { model: ModelRef::new("openai", name), reason });
    }
    let (variable, model) = default_models(environment).next()?;
    Some(ModelChoice { model, reason: format!("{variable} is set") })
}

pub(crate) const PROBE_TIME_MAX: Duration = Duration::from_millis(300);

const PROBE_BYTES_MAX: u64 = 1024 * 1024;

/// Returns the chat models of the Ollama server at this URL; `None` if it does not respond in time.
pub(crate) fn installed_models(address: &str) -> Option<Vec<String>> {
    let (answered, answer) = mpsc::sync_channel(1);
    let address = address.to_owned();
    // Name resolution has no timeout, so a slow thread is abandoned.
    std::thread::Builder::new()
        .name("ollama-probe".to_owned())
        .spawn(move || answered.send(list_models(&address)))
        .ok()?;
    answer.recv_timeout(PROBE_TIME_MAX).ok().flatten()
}

fn list_models(address: &str) -> Option<Vec<String>> {
    let started = Instant::now();
    let url = url::Url::parse(address).ok().filter(|url| url.scheme() == "http")?;
    let host = url.host_str()?;
    let port = url.port_or_known_default()?;
    let bare_host = host.trim_start_matches('[').trim_end_matches(']');
    let mut stream = (bare_host, port)
        .to_socket_addrs()
        .ok()?
        .find_map(|socket| TcpStream::connect_timeout(&socket, time_left(started)?).ok())?;
    stream.set_read_timeout(time_left(started)).ok()?;
    stream.set_write_timeout(time_left(started)).ok()?;
    let path = url.path().trim_end_matches('/');
    // HTTP/1.0, so that the body is not chunked and ends when the connection is closed.
    write!(stream, "GET {path}/api/tags HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: application/json\r\n\r\n")
        .ok()?;
    let mut answer = Vec::new();
    stream.take(PROBE_BYTES_MAX).read_to_end(&mut answer).ok()?;
    chat_models(&answer)
}

fn time_left(started: Instant) -> Option<Duration> {
    PROBE_TIME_MAX.checked_sub(started.elapsed()).filter(|left| !left.is_zero())
}

#[derive(serde::Deserialize)]
struct OllamaTags {
    models: Vec<OllamaTag>,
}

#[derive(serde::Deserialize)]
struct OllamaTag {
    name: String,
    #[serde(default)]
    capabilities: Vec<String>,
}

fn chat_models(answer: &[u8]) -> Option<Vec<String>> {
    let head_end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let status = answer.split(|byte| *byte == b' ').nth(1)?;
    if status != b"200" {
        return None;
    }
    let tags: OllamaTags = serde_json::from_slice(&answer[head_end + 4..]).ok()?;
    let chats = |tag: &OllamaTag| match tag.capabilities.as_slice() {
        [] => !tag.name.contains("embed"),
        known => known.iter().any(|word| word == "completion"),
    };
    Some(tags.models.into_iter().filter(chats).map(|tag| tag.name).collect())
}

#[cfg(test)]
mod tests;
