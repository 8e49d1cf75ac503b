//! Selects the model and records the reason: an explicit choice, otherwise a key in the environment,
//! otherwise a running Ollama server, otherwise a downloaded model.
//!
//! No model is called. The only network access fetches Ollama's list of models.

mod ollama;

use sysop_core::message::ModelRef;
use sysop_core::model_provider::{self, LOCAL, OLLAMA, OPENAI, PROVIDERS};
use sysop_provider::UNNAMED_MODEL;

pub(crate) use self::ollama::{OllamaAnswer, OllamaServer};
use crate::config::{DEMO, Environment, KeyPath};
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
    "no model configured, and {ollama}; {pull}run `sysop init`, set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, \
     or try `sysop --model {DEMO}`"
)]
pub(crate) struct NoModelFound {
    /// Phrase about the Ollama server: it is absent, has no model, or did not answer in time.
    ollama: String,
    /// First hint if the server only lacks a model; empty otherwise.
    pull: &'static str,
}

impl NoModelFound {
    fn new(ollama: &OllamaServer) -> Self {
        let address = ollama.address();
        let (phrase, pull) = match ollama.answer() {
            OllamaAnswer::Models(_) => {
                (format!("Ollama at {address} has no chat model"), "run `ollama pull qwen3`, ")
            }
            OllamaAnswer::Absent | OllamaAnswer::TimedOut => (format!("no Ollama at {address}"), ""),
        };
        Self { ollama: ollama.timeout().unwrap_or(phrase), pull }
    }
}

/// Selects the model. Ollama is asked only if nothing else matches. Fails if no model was found.
pub(crate) fn select_model(settings: &Settings, ollama: &OllamaServer) -> Result<ModelChoice, NoModelFound> {
    if let Some(asked) = &settings.model {
        return Ok(ModelChoice { model: asked.value.clone(), reason: asked.origin.to_string() });
    }
    if let Some(pick) = from_environment(settings) {
        return Ok(pick);
    }
    if let Some(name) = ollama.models().first() {
        let reason = format!("found in Ollama at {}", ollama.address());
        return Ok(ModelChoice { model: ModelRef::new(OLLAMA.name, name.clone()), reason });
    }
    match LocalModels::new(settings).runnable() {
        Some(model) => Ok(ModelChoice {
            model: ModelRef::new(LOCAL.name, model.name.clone()),
            reason: "downloaded with `sysop model get`".to_owned(),
        }),
        None => Err(NoModelFound::new(ollama)),
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
    let named: Option<String> = settings.config.get(KeyPath::new(["providers", provider, "api_key_env"]));
    if of_address.is_none() && named.as_ref().is_some_and(String::is_empty) {
        return None; // the config says that no key is needed
    }
    let usual = || model_provider::find(provider)?.key_variables.first().map(|&name| name.to_owned());
    of_address.or(named).or_else(usual)
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

/// Variables that name the model of `LLM_BASE_URL`; the first one that is set counts.
const NAME_VARIABLES: [&str; 2] = ["LLM_DEFAULT_MODEL", "LLM_SMALL_FAST_MODEL"];

/// Returns true if the model is the one of `LLM_BASE_URL`, and nothing says its name.
pub(crate) fn is_unnamed(settings: &Settings, model: &ModelRef) -> bool {
    let is_named = settings.model.is_some() || settings.environment.first(&NAME_VARIABLES).is_some();
    !is_named && model.provider == OPENAI.name && model.name == UNNAMED_MODEL
}

/// Returns the model that the variables for servers and keys select.
pub(crate) fn from_environment(settings: &Settings) -> Option<ModelChoice> {
    let environment = &settings.environment;
    let has_address = settings.providers.get("openai").is_some_and(|openai| openai.base_url.is_some());
    if environment.value("LLM_BASE_URL").is_some() && has_address {
        let named = environment.first(&NAME_VARIABLES);
        let (name, reason) = match named {
            Some((variable, name)) => (name, format!("LLM_BASE_URL and {variable} are set")),
            // Servers with a single model accept any name; others list theirs.
            None => (UNNAMED_MODEL, "LLM_BASE_URL is set; LLM_DEFAULT_MODEL is not".to_owned()),
        };
        return Some(ModelChoice { model: ModelRef::new("openai", name), reason });
    }
    let (variable, model) = default_models(environment).next()?;
    Some(ModelChoice { model, reason: format!("{variable} is set") })
}

#[cfg(test)]
mod tests;
