//! Questions about a provider with a key: the provider, where the key is, and the model, of those that the server
//! offers. The key and the address are tried before anything is written.

use std::path::{Path, PathBuf};

use anyhow::Result;
use secrecy::SecretString;
use sysop_core::message::FailureKind;
use sysop_core::model_provider::{self, ProviderInfo};
use sysop_provider::{ProbeResult, Providers, with_api_path};

use super::{ATTEMPTS_MAX, Changes, KEY_FILE, Prompter, SEEN_KEY, Setup, is_address, looks_like_key};
use crate::app::providers;
use crate::config::{ConfigOrigin, KeyPath, display_path, is_http_url, is_same_server, without_credentials};
use crate::exit::CommandError;
use crate::settings::{KEY_SETTINGS, Settings};

/// Maximum number of the server's models to name.
const MODELS_SHOWN_MAX: usize = 8;
/// Maximum number of attempts with different keys and addresses.
const PROBES_MAX: u32 = 10;
/// Variable with the address of a server that gets no key but that of `LLM_AUTH_TOKEN` or of sysop's own variables.
const LLM_BASE_URL: &str = "LLM_BASE_URL";

/// The provider that the user chose.
struct ChosenProvider {
    info: &'static ProviderInfo,
    /// Address of a server other than the provider's own.
    base_url: Option<String>,
}

impl ChosenProvider {
    /// Returns the server that the config will name, or `None` if that of the config stays.
    fn written_url(&self) -> Option<&str> {
        // The wizard removes another address only for this provider.
        let vendors = (self.info.name == model_provider::OPENAI.name).then_some(self.info.base_url);
        self.base_url.as_deref().or(vendors)
    }
}

/// Place of the key, and the key itself if it is known.
struct ChosenKey {
    setting: KeySetting,
    key: Option<SecretString>,
    /// Origin of the key, for the hint about a rejected key.
    source: Option<String>,
    /// File to write the key to.
    file: Option<PathBuf>,
}

/// Effect of the choice of a key on the config. Only one of the keys in [`KEY_SETTINGS`] stays.
enum KeySetting {
    Set(&'static str, String),
    /// The provider's usual variable, which no setting names.
    Usual,
    /// A variable overrides this key of the config.
    Overridden(&'static str),
}

/// Asks for a provider, its key and a model. The key itself is not part of the changes.
pub(crate) fn choose_key(prompter: &mut Prompter<'_>, settings: &Settings) -> Result<Setup> {
    prompter.say(
        "Which provider?\n  [1] Anthropic\n  [2] OpenAI\n  [3] Gemini\n  [4] another OpenAI-compatible server",
    )?;
    let answer = prompter.choice("Your choice [1-4, q quits]: ", &["1", "2", "3", "4"])?;
    let info = match answer.as_str() {
        "1" => model_provider::ANTHROPIC,
        "3" => model_provider::GEMINI,
        _ => model_provider::OPENAI,
    };
    let base_url = match answer.as_str() {
        "4" => Some(ask_url(prompter)?),
        _ => None,
    };
    let mut provider = ChosenProvider { info, base_url };
    let (key, offered) = choose_working_key(prompter, settings, &mut provider)?;
    let of_variable = match key.setting {
        // The key stays in the config, so the server for which it was chosen does, too.
        KeySetting::Set(..) if provider.base_url.is_none() => address_without_password(settings, info)?,
        KeySetting::Set(..) | KeySetting::Usual | KeySetting::Overridden(_) => None,
    };
    let model = choose_model(prompter, &provider, &offered)?;
    provider.base_url = provider.base_url.or(of_variable);
    let table = KeyPath::new(["providers", info.name]);
    let has_no_url = provider.base_url.is_none();
    let is_other_server =
        provider.written_url().is_some_and(|url| has_secrets_of_other_server(settings, info, url));
    let mut changes = Changes::new();
    changes.extend(provider.base_url.map(|base_url| (table.child("base_url"), base_url)));
    changes.push((KeyPath::from("model"), format!("{}/{model}", info.name)));
    let is_vendors = info.name == model_provider::OPENAI.name && has_no_url;
    let mut removed = if is_vendors { vec![table.child("base_url")] } else { Vec::new() };
    removed.extend(is_other_server.then(|| table.child("headers")));
    let set = match key.setting {
        KeySetting::Set(name, value) => {
            changes.push((table.child(name), value));
            Some(name)
        }
        KeySetting::Usual => None,
        KeySetting::Overridden(name) if !is_other_server => {
            // A variable that is named in a file comes before any `api_key_file`.
            removed.extend((name == KEY_FILE).then(|| table.child("api_key_env")));
            return Ok(Setup { changes, removed, key: None });
        }
        // The keys of the old server would go to the new one once the variable is unset.
        KeySetting::Overridden(_) => None,
    };
    removed.extend(KEY_SETTINGS.iter().filter(|name| Some(**name) != set).map(|name| table.child(name)));
    Ok(Setup { changes, removed, key: key.file.zip(key.key) })
}

fn ask_url(prompter: &mut Prompter<'_>) -> Result<String> {
    prompter.ask_until("Base URL, such as http://127.0.0.1:8000/v1 [q quits]: ", url_problem)
}

/// Returns what is wrong with the address of a server, or `None` if it is an HTTP URL.
fn url_problem(address: &str) -> Option<String> {
    let seen = if looks_like_key(address) { SEEN_KEY } else { "" };
    let host = address.split('/').next().unwrap_or_default();
    let why = if !address.contains("://") && is_address(host) {
        format!("Not a URL: did you mean `http://{address}`?")
    } else {
        "Not a URL. Start it with http:// or https://, such as http://127.0.0.1:8000/v1.".to_owned()
    };
    (!is_http_url(address)).then(|| format!("{seen}{why}"))
}

/// Origin of a key, which decides how to get another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyPlace {
    Pasted,
    Chosen,
    /// A variable that no choice can replace.
    Overridden,
}

impl ChosenKey {
    fn place(&self) -> KeyPlace {
        match self.setting {
            KeySetting::Overridden(_) => KeyPlace::Overridden,
            KeySetting::Set(..) | KeySetting::Usual if self.file.is_some() => KeyPlace::Pasted,
            KeySetting::Set(..) | KeySetting::Usual => KeyPlace::Chosen,
        }
    }
}

/// Response to a server that refuses the key or does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Remedy {
    NewKey,
    /// Paste another key at a hidden prompt.
    PasteKey,
    /// Choose another place, after a key that was pasted.
    OtherPlace,
    NewUrl,
    /// Use this base URL, at which the server answers.
    OtherUrl(String),
    Retry,
    Continue,
}

impl Remedy {
    /// Returns the responses that fit a failure, the most likely one first. `has_url` is true if the user entered the
    /// base URL, and `other_url` is one at which the server answers.
    fn all(failure: FailureKind, has_url: bool, place: KeyPlace, other_url: Option<String>) -> Vec<Self> {
        let new_key = || match place {
            KeyPlace::Pasted => vec![Self::PasteKey, Self::OtherPlace],
            KeyPlace::Chosen => vec![Self::NewKey],
            KeyPlace::Overridden => Vec::new(),
        };
        let new_url = || if has_url { vec![Self::NewUrl] } else { Vec::new() };
        let mut remedies = match failure {
            FailureKind::Auth => new_key(),
            FailureKind::BadRequest => [new_key(), new_url()].concat(),
            FailureKind::Unreachable | FailureKind::RateLimited => [vec![Self::Retry], new_url()].concat(),
            FailureKind::Protocol
            | FailureKind::UnknownModel
            | FailureKind::ContextOverflow
            | FailureKind::Withheld
            | FailureKind::Budget => {
                let other_url = other_url.map(Self::OtherUrl).into_iter().collect();
                [other_url, if has_url { new_url() } else { new_key() }].concat()
            }
        };
        remedies.push(Self::Continue);
        remedies
    }

    fn label(&self) -> String {
        match self {
            Self::NewKey => "try another key".to_owned(),
            Self::PasteKey => "paste another key, hidden".to_owned(),
            Self::OtherPlace => "choose another source for the key".to_owned(),
            Self::NewUrl => "change the URL".to_owned(),
            Self::OtherUrl(url) => format!("use {url}, where the server answers"),
            Self::Retry => "try again".to_owned(),
            Self::Continue => "continue anyway".to_owned(),
        }
    }
}

/// Asks for a key until the server accepts it at its base URL, or the user goes on without. Returns the models that the
/// server offers, if it answered.
fn choose_working_key(
    prompter: &mut Prompter<'_>,
    settings: &Settings,
    provider: &mut ChosenProvider,
) -> Result<(ChosenKey, Vec<String>)> {
    confirm_address(prompter, settings, provider)?;
    let mut key = choose_place(prompter, settings, provider)?;
    for _ in 0..PROBES_MAX {
        let needs_key = provider.base_url.is_none();
        if needs_key && key.key.is_none() {
            return Ok((key, Vec::new())); // nothing to try
        }
        let answer = offered(settings, provider, &key)?;
        let Some(problem) = answer.problem else { return Ok((key, answer.models)) };
        prompter.say(&format!("warning: {}", problem.message))?;
        let other_url =
            if problem.kind == FailureKind::Protocol { working_url(settings, provider, &key)? } else { None };
        let has_url = provider.base_url.is_some();
        match choose_remedy(prompter, &Remedy::all(problem.kind, has_url, key.place(), other_url))? {
            Remedy::PasteKey => key = paste_key(prompter, settings, provider)?,
            Remedy::NewKey | Remedy::OtherPlace => key = choose_place(prompter, settings, provider)?,
            Remedy::NewUrl => key = change_url(prompter, settings, provider, key)?,
            Remedy::OtherUrl(url) => provider.base_url = Some(url),
            Remedy::Retry => {}
            Remedy::Continue => return Ok((key, Vec::new())),
        }
    }
    Err(CommandError::failed("the server accepted none of these settings; nothing was changed").into())
}

/// Asks for another URL. Another server gets the same key only if the user agrees; otherwise, its key is asked for.
fn change_url(
    prompter: &mut Prompter<'_>,
    settings: &Settings,
    provider: &mut ChosenProvider,
    key: ChosenKey,
) -> Result<ChosenKey> {
    let url = ask_url(prompter)?;
    let old = provider.base_url.replace(url.clone());
    if old.is_some_and(|old| is_same_server(&old, &url)) {
        return Ok(key);
    }
    let is_kept = match (key.place(), &key.source) {
        (KeyPlace::Pasted, _) => may_send(prompter, "the pasted key", &url)?,
        (KeyPlace::Chosen, Some(variable)) => may_send(prompter, &format!("the key of {variable}"), &url)?,
        (KeyPlace::Chosen, None) => true, // there is no key
        (KeyPlace::Overridden, _) => false,
    };
    if is_kept { Ok(key) } else { choose_place(prompter, settings, provider) }
}

fn choose_remedy(prompter: &mut Prompter<'_>, remedies: &[Remedy]) -> Result<Remedy> {
    let numbers: Vec<String> = (1..=remedies.len()).map(|number| number.to_string()).collect();
    let menu: Vec<String> = numbers
        .iter()
        .zip(remedies)
        .map(|(number, remedy)| format!("  [{number}] {}", remedy.label()))
        .collect();
    prompter.say(&menu.join("\n"))?;
    let choices: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let answer = prompter.choice_or(&format!("Your choice [1-{}", remedies.len()), &choices, "1")?;
    let at = numbers.iter().position(|number| *number == answer);
    Ok(at.and_then(|at| remedies.get(at)).cloned().unwrap_or(Remedy::Continue))
}

/// Returns the usual address of the API on the user's server, if the server answers there, even if it wants another
/// key.
fn working_url(settings: &Settings, provider: &ChosenProvider, key: &ChosenKey) -> Result<Option<String>> {
    let Some(url) = provider.base_url.as_deref().and_then(with_api_path) else { return Ok(None) };
    let other = ChosenProvider { info: provider.info, base_url: Some(url.clone()) };
    let answer = offered(settings, &other, key)?;
    let answers = answer.problem.is_none_or(|problem| problem.kind == FailureKind::Auth);
    Ok(answers.then_some(url))
}

fn choose_place(
    prompter: &mut Prompter<'_>,
    settings: &Settings,
    provider: &ChosenProvider,
) -> Result<ChosenKey> {
    let variable = provider.info.key_variables.first().copied().unwrap_or("OPENAI_API_KEY");
    let value =
        |name: &str| settings.environment.value(name).map(|value| SecretString::from(value.to_owned()));
    if let Some((setting, name)) = settings.overridden_key(provider.info.name) {
        return confirm_overriding(prompter, settings, provider, setting, name);
    }
    let (state, default) = if value(variable).is_some() { ("set", "1") } else { ("not set", "3") };
    let file = key_file(settings, provider);
    let is_own_server = provider.base_url.is_some();
    let none_needed = if is_own_server { "\n  [4] the server needs no key" } else { "" };
    prompter.say(&format!(
        "Where is the API key?\n  [1] in the environment variable {variable} ({state})\n  [2] in another environment \
         variable\n  [3] paste it at the next prompt, hidden; it goes to {}, which only you can read{none_needed}",
        brief_path(&file, &settings.folders.home)
    ))?;
    // The usual variable holds the vendor's key, which another server gets only if the user says so.
    let place = if is_own_server {
        prompter.choice("Your choice [1-4, q quits]: ", &["1", "2", "3", "4"])?
    } else {
        prompter.choice_or("Your choice [1-3", &["1", "2", "3"], default)?
    };
    let of_variable = |name: String, setting: KeySetting| {
        let key = value(&name);
        ChosenKey { setting, key, source: Some(name), file: None }
    };
    Ok(match place.as_str() {
        "1" => {
            if value(variable).is_none() {
                prompter.say(&format!("Set {variable} before you start sysop."))?;
            }
            let name = variable.to_owned();
            let named = KeySetting::Set("api_key_env", name.clone());
            of_variable(name, if is_own_server { named } else { KeySetting::Usual })
        }
        "2" => {
            let name = prompter.ask_until("Name of the variable [q quits]: ", variable_problem)?;
            if value(&name).is_none() {
                prompter.say(&format!("Set {name} before you start sysop."))?;
            }
            of_variable(name.clone(), KeySetting::Set("api_key_env", name))
        }
        "3" => paste_key(prompter, settings, provider)?,
        _ => {
            let setting = KeySetting::Set("api_key_env", String::new());
            ChosenKey { setting, key: None, source: None, file: None }
        }
    })
}

/// Returns the key of a variable that overrides the config. Another server than the provider's own gets it only if the
/// user agrees; otherwise nothing can be chosen, and this fails.
fn confirm_overriding(
    prompter: &mut Prompter<'_>,
    settings: &Settings,
    provider: &ChosenProvider,
    setting: &'static str,
    variable: String,
) -> Result<ChosenKey> {
    prompter.say(&format!("The variable {variable} is set: its key comes before any other."))?;
    if let Some(url) = &provider.base_url
        && !may_send(prompter, "its key", url)?
    {
        return Err(unset_first(&variable));
    }
    let key = settings.overriding_key(provider.info.name, setting);
    Ok(ChosenKey { setting: KeySetting::Overridden(setting), key, source: Some(variable), file: None })
}

/// Asks if the server that takes the vendor's place by a variable may get the key, and fails if not. It also fails for
/// `LLM_BASE_URL`, whose server gets no key that could be chosen.
fn confirm_address(
    prompter: &mut Prompter<'_>,
    settings: &Settings,
    provider: &ChosenProvider,
) -> Result<()> {
    let address = address_of_variable(settings, provider.info).filter(|_| provider.base_url.is_none());
    let Some((variable, url)) = address else { return Ok(()) };
    if variable == LLM_BASE_URL && settings.overridden_key(provider.info.name).is_none() {
        let next = "LLM_BASE_URL is set: its server takes the place of OpenAI's. That server gets only the key in \
                    LLM_AUTH_TOKEN and needs no `sysop init`. To set up OpenAI, unset LLM_BASE_URL; nothing was changed";
        return Err(CommandError::failed(next).into());
    }
    if !is_http_url(&url) {
        let next = format!(
            "{variable} is not an http:// or https:// URL; correct it or unset it; nothing was changed"
        );
        return Err(CommandError::failed(next).into());
    }
    prompter
        .say(&format!("The variable {variable} is set: its server takes the place of the provider's own."))?;
    if may_send(prompter, "the key", &url)? { Ok(()) } else { Err(unset_first(&variable)) }
}

/// Returns true if the user agrees that the key goes to this server. Enter alone declines.
fn may_send(prompter: &mut Prompter<'_>, key: &str, url: &str) -> Result<bool> {
    let question = format!("Send {key} to {}? [y/n", without_credentials(url));
    Ok(prompter.choice_or_word(&question, &["y", "n"], &["yes", "no"], "n")? == "y")
}

fn unset_first(variable: &str) -> anyhow::Error {
    CommandError::failed(format!("unset {variable} and run `sysop init` again; nothing was changed")).into()
}

/// Asks for a key at a hidden prompt.
fn paste_key(
    prompter: &mut Prompter<'_>,
    settings: &Settings,
    provider: &ChosenProvider,
) -> Result<ChosenKey> {
    let key = prompter.secret("API key (not shown) [q quits]: ")?;
    let file = key_file(settings, provider);
    let setting = KeySetting::Set(KEY_FILE, file.to_string_lossy().into_owned());
    let source = Some("as pasted".to_owned());
    Ok(ChosenKey { setting, key: Some(SecretString::from(key)), source, file: Some(file) })
}

/// Returns the file for a key that the user pastes.
fn key_file(settings: &Settings, provider: &ChosenProvider) -> PathBuf {
    settings.config.own_file.with_file_name(format!("{}.key", provider.info.name))
}

/// Returns what is wrong with the name of a variable, or `None` if nothing is. Does not repeat it: it may be a key.
fn variable_problem(name: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = name.chars().all(is_plain) && !name.starts_with(|c: char| c.is_ascii_digit());
    match (looks_like_key(name), is_name && name.len() > 1) {
        (true, _) => Some(format!("{SEEN_KEY}Enter the name of a variable; q quits.")),
        (false, false) => {
            Some("Not a name: use letters, digits and `_`, as in OPENAI_API_KEY; q quits.".to_owned())
        }
        (false, true) => None,
    }
}

/// Returns the variable that sets the provider's base URL, and that URL, or `None` if no variable does.
fn address_of_variable(settings: &Settings, provider: &ProviderInfo) -> Option<(String, String)> {
    let path = KeyPath::new(["providers", provider.name, "base_url"]);
    match settings.config.entries.get(&path)?.origin() {
        ConfigOrigin::Environment { name } => Some((name.clone(), settings.config.get(path)?)),
        ConfigOrigin::Default | ConfigOrigin::File { .. } | ConfigOrigin::Flag { .. } => None,
    }
}

/// Returns the address of the variable that sets the provider's base URL, to write to the config. Fails if it contains
/// a password, which neither the config nor the screen should have.
fn address_without_password(settings: &Settings, provider: &ProviderInfo) -> Result<Option<String>> {
    let Some((variable, url)) = address_of_variable(settings, provider) else { return Ok(None) };
    if without_credentials(&url) == url {
        return Ok(Some(url));
    }
    let next = format!(
        "the address in {variable} contains a user name or password, which is not written to the config; remove it from \
         the address, or choose the provider's usual variable for the key; nothing was changed"
    );
    Err(CommandError::failed(next).into())
}

/// Returns true if the keys and headers in the provider's table of the config are for another server than this one.
fn has_secrets_of_other_server(settings: &Settings, provider: &ProviderInfo, url: &str) -> bool {
    let table = KeyPath::new(["providers", provider.name]);
    settings.config.server_of_files(&table).is_some_and(|old| !is_same_server(old, url))
}

/// Asks the server for its models, with this key.
fn offered(settings: &Settings, provider: &ChosenProvider, key: &ChosenKey) -> Result<ProbeResult> {
    let mut all = providers(settings, None);
    let endpoint = match provider.info.name {
        name if name == model_provider::ANTHROPIC.name => &mut all.anthropic,
        name if name == model_provider::GEMINI.name => &mut all.gemini,
        _ => &mut all.openai,
    };
    let of_variable = address_of_variable(settings, provider.info);
    if provider.base_url.is_some() {
        endpoint.base_url.clone_from(&provider.base_url);
        endpoint.sources.base_url = Some("the URL".to_owned());
    } else if provider.info.name == model_provider::OPENAI.name && of_variable.is_none() {
        (endpoint.base_url, endpoint.sources.base_url) = (None, None);
    }
    // The settings of the server of a variable have no headers of another one.
    if (provider.base_url.is_some() || of_variable.is_none())
        && let Some(url) = provider.written_url()
        && has_secrets_of_other_server(settings, provider.info, url)
    {
        endpoint.headers.clear();
    }
    endpoint.api_key.clone_from(&key.key);
    // Other settings of the key have no part in this attempt.
    endpoint.sources.no_key = key.key.is_none().then(|| "no key was sent".to_owned());
    endpoint.sources.api_key = key.source.clone();
    let clients = Providers::new(all);
    crate::wait_for(async { Ok(clients.probe(provider.info.name).await) })
}

fn choose_model(
    prompter: &mut Prompter<'_>,
    provider: &ChosenProvider,
    offered: &[String],
) -> Result<String> {
    let own = Some(provider.info.default_model).filter(|_| provider.base_url.is_none());
    let is_listed = |name: &str| offered.iter().any(|model| model == name);
    let is_offered = |name: &str| offered.is_empty() || is_listed(name);
    let default = own.filter(|name| !name.is_empty() && is_offered(name));
    let default = default.or_else(|| offered.first().map(String::as_str));
    if !offered.is_empty() {
        let shown = offered.iter().take(MODELS_SHOWN_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = offered.len().saturating_sub(MODELS_SHOWN_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        prompter.say(&format!("The server answers. It offers {shown}{more}."))?;
    }
    let question = default.map_or_else(
        || "Model [q quits]: ".to_owned(),
        |default| format!("Model [Enter for {default}, q quits]: "),
    );
    let problem = |answer: &str| {
        (is_address(answer) && !is_listed(answer))
            .then(|| "That is an address. Enter the name of a model; q quits.".to_owned())
    };
    for _ in 0..ATTEMPTS_MAX {
        let name = prompter.ask_name(&question, problem)?;
        let name = if name.is_empty() { default.unwrap_or_default().to_owned() } else { name };
        if name.is_empty() {
            return Err(CommandError::failed("no model given; nothing was changed").into());
        }
        if is_offered(&name) {
            return Ok(name);
        }
        prompter.say(&format!(
            "warning: the server does not list {name}\n  [1] enter another model\n  [2] continue anyway"
        ))?;
        if prompter.choice_or("Your choice [1-2", &["1", "2"], "1")? == "2" {
            return Ok(name);
        }
    }
    Err(CommandError::failed("too many invalid answers; nothing was changed").into())
}

/// Returns a path with `~` for the home directory.
fn brief_path(path: &Path, home: &Path) -> String {
    match path.strip_prefix(home) {
        Ok(rest) => format!("~/{}", display_path(rest)),
        Err(_) => display_path(path),
    }
}

#[cfg(test)]
mod tests {
    use sysop_core::message::FailureKind;

    use super::KeyPlace;
    use super::Remedy::{self, Continue, NewKey, NewUrl, OtherPlace, OtherUrl, PasteKey, Retry};

    #[test]
    fn the_choices_fit_the_failure() {
        let url = || "http://h/v1".to_owned();
        let own = |failure| Remedy::all(failure, true, KeyPlace::Chosen, None);
        let vendor = |failure| Remedy::all(failure, false, KeyPlace::Chosen, None);
        assert_eq!(own(FailureKind::Auth), [NewKey, Continue]);
        assert_eq!(vendor(FailureKind::Auth), [NewKey, Continue]);
        assert_eq!(own(FailureKind::Unreachable), [Retry, NewUrl, Continue]);
        assert_eq!(vendor(FailureKind::Unreachable), [Retry, Continue]);
        assert_eq!(own(FailureKind::Protocol), [NewUrl, Continue]);
        assert_eq!(vendor(FailureKind::Protocol), [NewKey, Continue]);
        let found = Remedy::all(FailureKind::Protocol, true, KeyPlace::Pasted, Some(url()));
        assert_eq!(found, [OtherUrl(url()), NewUrl, Continue]);
        assert_eq!(own(FailureKind::BadRequest), [NewKey, NewUrl, Continue]);
        let pasted = Remedy::all(FailureKind::BadRequest, true, KeyPlace::Pasted, None);
        assert_eq!(pasted, [PasteKey, OtherPlace, NewUrl, Continue]);
        let overridden = |failure| Remedy::all(failure, true, KeyPlace::Overridden, None);
        assert_eq!(overridden(FailureKind::Auth), [Continue]);
        assert_eq!(overridden(FailureKind::BadRequest), [NewUrl, Continue]);
    }
}
