//! Checks of settings that belong together.

use sysop_core::message::ModelRef;
use sysop_core::model_table;
use sysop_core::policy::{ApprovalMode, CONFIG_ERROR};

use super::{ProviderSettings, Settings, bare_model};
use crate::config::{
    Config, ConfigOrigin, ConfigValue, ConfigWarning, KeyPath, is_http_url, without_credentials,
};
use crate::exit::CommandError;
use crate::select_model::from_environment;

/// Adds the errors of all checks to the settings' problems, and before them the errors in the user's programs.
pub(super) fn run(settings: &mut Settings) {
    let complaints = [bare_model::check(settings), price(settings), address(settings)];
    let stricter = stricter_host(settings);
    settings.config.warnings.extend(stricter);
    let programs = settings.config.program_errors.iter().map(|error| CommandError::usage(error.to_string()));
    let programs: Vec<_> = programs.collect();
    let found = std::mem::take(&mut settings.problems);
    let found = found.into_iter().chain(complaints.into_iter().flatten());
    settings.problems = programs.into_iter().chain(found).collect();
}

/// Returns a warning if a host overrides the mode of `--approve`.
fn stricter_host(settings: &Settings) -> Option<ConfigWarning> {
    let origin = settings.config.entry("approve")?.origin().clone();
    let asked = settings.config.get::<ApprovalMode>("approve")?;
    let mode = settings.approve(&settings.host);
    if mode == asked || !matches!(origin, ConfigOrigin::Flag { .. }) {
        return None;
    }
    let source = settings.approve_source(&settings.host)?;
    let (mode, asked) = (mode.as_str(), asked.as_str());
    let message = format!("the mode is {mode} from {source}, which is stricter than {asked}");
    Some(ConfigWarning { origin, message })
}

/// Returns the patterns of `deny`. Each error in a part that restricts commands adds one that denies every command.
pub(super) fn deny_patterns(config: &Config) -> Vec<String> {
    let errors = config.denials.iter().map(|error| format!("{CONFIG_ERROR}{}", error.origin));
    errors.chain(config.get::<Vec<String>>("deny").unwrap_or_default()).collect()
}

/// Returns an error if the cost is limited but the model has no known price.
fn price(settings: &Settings) -> Option<CommandError> {
    // A resumed session has a model of its own.
    let is_of_session = settings.resume.is_some() && settings.model.is_none();
    if !settings.limits_cost() || is_of_session {
        return None;
    }
    let model = selected_model(settings)?;
    let known = settings.prices.contains_key(&model.to_string()) || model_table::price(&model).is_some();
    (!known).then(|| {
        CommandError::usage(format!(
            "the price of {model} is unknown, so its cost cannot be limited; set [prices.\"{model}\"] input and \
             output, or use --max-tokens-total"
        ))
    })
}

/// Returns the reason why no key is sent to the server at `LLM_BASE_URL`, or `None` if one is, or a header of the user.
pub(super) fn missing_key(settings: &Settings, provider: &ProviderSettings) -> Option<String> {
    if provider.api_key.is_some() || !provider.headers.is_empty() {
        return None;
    }
    let other = match settings.environment.value("OPENAI_API_KEY") {
        Some(_) => Some("OPENAI_API_KEY"),
        None => provider.api_key_origin.as_ref().map(|_| "the key in the config"),
    };
    let other = other.map(|other| format!(", and {other} is not sent to LLM_BASE_URL")).unwrap_or_default();
    Some(format!("no key was sent: LLM_AUTH_TOKEN is not set{other}"))
}

/// Returns the reason why no key is sent although the config names one or rules it out. Returns `None` if a key or a
/// header of the user is sent. Also returns `None` if the config says nothing about a key.
pub(super) fn configured_without_key(provider: &ProviderSettings) -> Option<String> {
    let why = provider.api_key_origin.as_ref().filter(|_| provider.api_key.is_none());
    let why = why.filter(|_| provider.headers.is_empty());
    why.map(|why| format!("no key was sent: {why}"))
}

/// Returns the configured model, or else the one that the environment selects.
fn selected_model(settings: &Settings) -> Option<ModelRef> {
    let configured = settings.model.as_ref().map(|model| model.value.clone());
    configured.or_else(|| Some(from_environment(settings)?.model))
}

/// Returns an error if the address of the model's provider is no HTTP URL.
fn address(settings: &mut Settings) -> Option<CommandError> {
    let model = selected_model(settings)?;
    let path = KeyPath::new(["providers", &model.provider, "base_url"]);
    let entry = settings.config.entry(&path.to_string())?;
    let ConfigValue::Text(address) = &entry.value else { return None };
    if is_http_url(address) {
        return None;
    }
    let full = format!("http://{address}");
    let next = if address.contains("://") || !is_http_url(&full) {
        "set it to the URL of the server, such as http://127.0.0.1:8000/v1".to_owned()
    } else {
        format!("did you mean `{}`?", without_credentials(&full))
    };
    let origin = entry.origin().clone();
    // The warning says the same.
    settings.config.warnings.retain(|warning| warning.origin != origin);
    let what = match &origin {
        ConfigOrigin::Environment { name } => name.clone(),
        ConfigOrigin::Default | ConfigOrigin::File { .. } | ConfigOrigin::Flag { .. } => {
            format!("{origin}: `{path}`")
        }
    };
    Some(CommandError::usage(format!("{what} is not an http:// or https:// URL; {next}")))
}
