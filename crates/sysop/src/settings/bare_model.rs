//! The error for a model without a provider, such as `--model gpt-4`: it names the providers that are configured, and a
//! model that was probably meant.

use sysop_core::message::ModelRef;
use sysop_core::model_provider::{
    self, ANTHROPIC, GEMINI, OLLAMA, OPENAI, PROVIDERS, ProviderInfo, is_known,
};
use sysop_core::model_table;

use super::Settings;
use crate::config::{KeyPath, nearest_word};
use crate::exit::CommandError;

/// Starts of the names of models, with the provider of these models. The first that fits counts.
const FAMILIES: [(&str, &ProviderInfo); 9] = [
    ("gpt", OPENAI),
    ("ft:", OPENAI),
    ("chatgpt", OPENAI),
    ("o1", OPENAI),
    ("o3", OPENAI),
    ("o4", OPENAI),
    ("codex", OPENAI),
    ("claude", ANTHROPIC),
    ("gemini", GEMINI),
];

/// Returns an error if the configured model is a name without a provider.
pub(super) fn check(settings: &Settings) -> Option<CommandError> {
    let config = &settings.config;
    let entry = config.entry("model.provider").or_else(|| config.entry("model.name"))?;
    let (name, provider) = (config.get::<String>("model.name"), config.get::<String>("model.provider"));
    let bare = provider.filter(|_| name.is_none_or(|name| name.is_empty()))?;
    let configured = configured_providers(settings);
    let list = match configured.as_slice() {
        [] => "no provider is configured, see `sysop init`".to_owned(),
        some => {
            let names = some.iter().map(|(provider, origin)| format!("{} ({origin})", provider.name));
            format!("configured: {}", names.collect::<Vec<_>>().join(", "))
        }
    };
    let meant = suggestion(settings, &bare, &configured);
    let origin = entry.origin();
    let what = if is_known(&bare) { "is a provider, not a model" } else { "names no provider" };
    Some(CommandError::usage(format!("{origin}: {bare:?} {what}; did you mean `{meant}`? ({list})")))
}

/// Returns the providers that have a key, an address or a project, with the place where it is set.
fn configured_providers(settings: &Settings) -> Vec<(&'static ProviderInfo, String)> {
    let keys = ["base_url", "api_key", "api_key_env", "api_key_file", "project"];
    let origin_of = |provider: &ProviderInfo| {
        let table = KeyPath::new(["providers", provider.name]);
        let entry = keys.iter().find_map(|key| settings.config.entries.get(&table.child(key)));
        entry.map(|entry| entry.origin().to_string())
    };
    PROVIDERS.into_iter().filter_map(|provider| Some((provider, origin_of(provider)?))).collect()
}

/// Returns the model that `bare` probably means: of the listed models the one with this name, else the name with its
/// vendor or with the configured provider, else the most similar listed model.
fn suggestion(settings: &Settings, bare: &str, configured: &[(&ProviderInfo, String)]) -> String {
    if let Some(provider) = model_provider::find(bare) {
        let name = if provider.default_model.is_empty() { "NAME" } else { provider.default_model };
        return format!("{bare}/{name}");
    }
    let own = settings.models.keys().chain(settings.prices.keys()).map(String::as_str);
    let mut listed: Vec<&str> = own.collect();
    for name in model_table::names() {
        listed.push(name);
    }
    let name_of = |model: &str| model.split_once('/').map(|(_, name)| name.to_owned()).unwrap_or_default();
    if let Some(same) = listed.iter().find(|model| name_of(model) == bare) {
        return (*same).to_owned();
    }
    let has_vendor = !bare.starts_with("gpt-oss"); // open weights, which any server may have
    let family = FAMILIES.iter().find(|(start, _)| has_vendor && bare.starts_with(start));
    let may_correct = |provider: &ProviderInfo| ![OPENAI.name, OLLAMA.name].contains(&provider.name);
    let nearest = || {
        let names: Vec<String> = listed.iter().map(|model| name_of(model)).collect();
        let near = nearest_word(bare, names.iter().map(String::as_str))?;
        listed.iter().find(|model| name_of(model) == near).map(|model| (*model).to_owned())
    };
    let with = |provider: &ProviderInfo| ModelRef::new(provider.name, bare).to_string();
    match (family, configured) {
        // New models of these vendors appear often, so that an unknown name may be right.
        (Some((_, vendor)), _) => nearest().filter(|_| may_correct(vendor)).unwrap_or_else(|| with(vendor)),
        (None, [(only, _)]) => with(only),
        // A name with a tag, as in `qwen3:4b`, is one of Ollama's.
        (None, _) => nearest().filter(|_| !bare.contains(':')).unwrap_or_else(|| with(OLLAMA)),
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::message::ModelRef;

    use crate::config::tests::World;
    use crate::global_flags::GlobalFlags;
    use crate::settings::tests::load;

    fn complaint(file: &str, environment: &[(&str, &str)], model: &str) -> String {
        let world = World::new().file(".config/sysop/config.toml", file);
        let flags = GlobalFlags { model: Some(ModelRef::new(model, "")), ..GlobalFlags::default() };
        load(&world, &flags, environment).unwrap().require_runnable().unwrap_err().to_string()
    }

    #[test]
    fn a_bare_name_gets_the_provider_that_was_probably_meant() {
        let ollama = [("OLLAMA_HOST", "10.0.0.1")];
        for (file, environment, model, meant) in [
            ("", &[][..], "gpt-4", "openai/gpt-4"),
            ("", &ollama, "gpt-4", "openai/gpt-4"),
            ("", &[], "claude-fable-5", "anthropic/claude-fable-5"),
            ("", &[], "claude-fabel-5", "anthropic/claude-fable-5"),
            ("", &[], "phi3", "ollama/phi3"),
            ("", &[], "gpt-oss:20b", "ollama/gpt-oss:20b"),
            ("", &[], "gpt-oss", "ollama/gpt-oss"),
            ("", &[], "qwen3:4b", "ollama/qwen3:4b"),
            ("", &[("LLM_BASE_URL", "http://127.0.0.1:1/v1")], "qwen3:4b", "openai/qwen3:4b"),
            ("", &ollama, "ft:gpt-4o:org::id", "openai/ft:gpt-4o:org::id"),
            ("", &[("LLM_BASE_URL", "http://127.0.0.1:1/v1")], "qwen3-4b", "openai/qwen3-4b"),
            (
                "[models.'openai/house-model']\ncontext_window = 9000\n",
                &ollama,
                "house-model",
                "openai/house-model",
            ),
            ("", &[], "anthropic", "anthropic/claude-sonnet-5-5"),
        ] {
            let said = complaint(file, environment, model);
            assert!(said.contains(&format!("; did you mean `{meant}`?")), "{model}: {said}");
            assert!(said.starts_with("flag --model: "), "{said}");
        }
    }

    #[test]
    fn the_configured_providers_are_named_with_their_source() {
        let said = complaint(
            "[providers.gemini]\napi_key_env = 'MY_KEY'\n",
            &[("LLM_BASE_URL", "http://127.0.0.1:1/v1")],
            "gpt-4",
        );
        let list = "(configured: openai (environment LLM_BASE_URL), gemini (";
        assert!(said.contains(list) && said.ends_with("config.toml:2))"), "{said}");
        assert!(complaint("", &[], "gpt-4").ends_with("(no provider is configured, see `sysop init`)"));
    }
}
