//! `sysop init`: asks for the model, its key, the default host and the approval mode, shows the changes, and
//! writes them if the user agrees.
//!
//! A key is never written to the config. It stays in an environment variable, or is written to a separate
//! file that only the user can read.

mod key;

pub(crate) use key::choose_key;

use std::io::{self, BufRead, IsTerminal as _, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use secrecy::{ExposeSecret as _, SecretString};
use sysop_core::model_provider::{self, LOCAL, OLLAMA};
use sysop_core::text::neutralize;
use sysop_core::ui_text::counted;

use crate::config::{
    ConfigChangeError, ConfigOrigin, KeyPath, apply_changes, check_text, create_private_folder, display_path,
    parse_key, read_text, remove_key, replace_private_file, save_config, without_credentials,
};
use crate::exit::{Cancellation, CommandError};
use crate::fit_lines::fit_lines;
use crate::global_flags::GlobalFlags;
use crate::known_host;
use crate::local_model::{GetConsent, LocalModels, download_model, human_bytes};
use crate::model_lists;
use crate::select_model::{OllamaAnswer, OllamaServer, from_environment, select_model};
use crate::settings::{ConfiguredValue, HostChoice, Settings};

const ANSWER_BYTES_MAX: u64 = 4096;
/// Minimum number of characters of an answer that is taken for an API key.
const KEY_CHARS_MIN: usize = 20;
/// Beginnings of keys of Anthropic, OpenAI and others, of Google, of Groq, and of xAI.
const KEY_PREFIXES: [&str; 4] = ["sk-", "AIza", "gsk_", "xai-"];
/// Maximum number of invalid answers to one question before the wizard gives up.
const ATTEMPTS_MAX: u32 = 5;
/// Smallest number after `host:` that counts as a port. Smaller ones may be tags of models.
const PORT_MIN: u16 = 80;
/// Maximum number of hosts to list as examples.
const HOSTS_SHOWN_MAX: usize = 8;

/// Key of the config for the file with a provider's API key.
const KEY_FILE: &str = "api_key_file";

/// Keys to set, in order, with their values as typed.
pub(crate) type Changes = Vec<(KeyPath, String)>;

/// Answers of the user, which are not written yet.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) changes: Changes,
    /// Keys to remove from the config, where it has them.
    removed: Vec<KeyPath>,
    /// Key to store, and the file for it.
    pub(crate) key: Option<(PathBuf, SecretString)>,
}

pub(crate) struct Prompter<'a> {
    input: &'a mut dyn BufRead,
    output: &'a mut dyn Write,
    /// Width of the terminal on which the questions appear, if there is one.
    columns: Option<usize>,
}

impl<'a> Prompter<'a> {
    /// Creates a prompter. `output` is standard error if it is a terminal.
    pub(crate) fn new(input: &'a mut dyn BufRead, output: &'a mut dyn Write) -> Self {
        let columns = io::stderr().is_terminal().then(sysop_repl::terminal_width);
        Self { input, output, columns }
    }

    pub(crate) fn say(&mut self, text: &str) -> Result<()> {
        let text = self.fitted(text);
        writeln!(self.output, "{text}").context("cannot show the prompt")
    }

    /// Returns text without control characters, in lines that fit the terminal.
    fn fitted(&self, text: &str) -> String {
        let text = neutralize(text);
        self.columns.map_or_else(|| text.to_string(), |columns| fit_lines(&text, columns, menu_indent))
    }

    /// Asks for a name until the answer does not begin like an API key. Fails like [`Self::ask_until`].
    pub(crate) fn ask(&mut self, question: &str) -> Result<String> {
        self.ask_name(question, |_| None)
    }

    /// Like [`Self::ask`], until `problem` finds nothing wrong with the answer either.
    fn ask_name(&mut self, question: &str, problem: impl Fn(&str) -> Option<String>) -> Result<String> {
        let seen =
            |answer: &str| begins_like_key(answer).then(|| format!("{SEEN_KEY}Answer again; q quits."));
        self.ask_until(question, |answer| seen(answer).or_else(|| problem(answer)))
    }

    /// Asks a question and returns the trimmed answer. Fails at `q`, which every question names, and at the end of the
    /// input.
    fn read_answer(&mut self, question: &str) -> Result<String> {
        write!(self.output, "{} ", self.fitted(question.trim_end()))
            .and_then(|()| self.output.flush())
            .context("cannot show the prompt")?;
        let mut line = String::new();
        let read = io::Read::take(&mut *self.input, ANSWER_BYTES_MAX).read_line(&mut line);
        if read.context("cannot read the answer")? == 0 {
            // The input ended on the row of the question.
            writeln!(self.output).context("cannot show the prompt")?;
            return Err(Cancellation.into());
        }
        let answer = line.trim();
        if answer.eq_ignore_ascii_case("q") {
            return Err(Cancellation.into());
        }
        Ok(answer.to_owned())
    }

    /// Asks until `problem` finds nothing wrong with the answer. Fails like [`Self::read_answer`], or after too many
    /// bad answers.
    pub(crate) fn ask_until(
        &mut self,
        question: &str,
        problem: impl Fn(&str) -> Option<String>,
    ) -> Result<String> {
        for _ in 0..ATTEMPTS_MAX {
            let answer = self.read_answer(question)?;
            match problem(&answer) {
                None => return Ok(answer),
                Some(why) => self.say(&why)?,
            }
        }
        Err(CommandError::failed("too many invalid answers; nothing was changed").into())
    }

    /// Asks until the answer is one of `answers`. Fails like [`Self::ask_until`].
    pub(crate) fn choice(&mut self, question: &str, answers: &[&str]) -> Result<String> {
        self.choose(question, &Choices { answers, words: &[], default: None })
    }

    /// Like [`Self::choice`], but Enter alone means `default`.
    pub(crate) fn choice_or(&mut self, question: &str, answers: &[&str], default: &str) -> Result<String> {
        self.choice_or_word(question, answers, &[], default)
    }

    /// Like [`Self::choice_or`]. Each of `words` means the answer at the same position.
    fn choice_or_word(
        &mut self,
        question: &str,
        answers: &[&str],
        words: &[&str],
        default: &str,
    ) -> Result<String> {
        let question = format!("{question}, Enter for {default}, q quits]: ");
        self.choose(&question, &Choices { answers, words, default: Some(default) })
    }

    fn choose(&mut self, question: &str, choices: &Choices<'_>) -> Result<String> {
        let answer = self.ask_until(question, |answer| choices.problem(answer))?;
        Ok(choices.find(&answer).expect("an answer without a problem is one of the choices").to_owned())
    }

    /// Asks for a secret, which must not be empty, without echoing it on a terminal.
    fn secret(&mut self, question: &str) -> Result<String> {
        let _hidden = HiddenInput::begin();
        // Enter is not echoed either.
        let problem = |answer: &str| answer.is_empty().then(|| "\nNothing was entered.".to_owned());
        let answer = self.ask_until(question, problem);
        writeln!(self.output).context("cannot show the prompt")?;
        answer
    }
}

/// Answers to a question.
struct Choices<'a> {
    answers: &'a [&'a str],
    /// Other words for the answers, in the same order.
    words: &'a [&'a str],
    /// Meaning of Enter alone.
    default: Option<&'a str>,
}

impl<'a> Choices<'a> {
    fn find(&self, typed: &str) -> Option<&'a str> {
        if typed.is_empty() {
            return self.default;
        }
        let position = |all: &[&str]| all.iter().position(|known| known.eq_ignore_ascii_case(typed));
        position(self.answers).or_else(|| position(self.words)).map(|at| self.answers[at])
    }

    fn problem(&self, typed: &str) -> Option<String> {
        let (last, others) = self.answers.split_last()?;
        let is_long_word = typed.len() >= KEY_CHARS_MIN && !typed.contains(char::is_whitespace);
        let may_be_key = looks_like_key(typed) || is_long_word && !typed.contains("://");
        let seen = if may_be_key { SEEN_KEY } else { "" };
        let none = self.find(typed).is_none();
        none.then(|| format!("{seen}Enter {} or {last} (q quits).", others.join(", ")))
    }
}

/// Beginning of the response to a key that was pasted where the terminal shows what is typed.
const SEEN_KEY: &str =
    "That looks like an API key. It was not stored, but it is visible on your screen: clear the screen. ";

/// Returns true for an answer that may be an API key: it begins like one, or is a long word of letters and digits
/// that is no URL and does not begin like a path.
fn looks_like_key(answer: &str) -> bool {
    let has = |test: fn(&char) -> bool| answer.chars().any(|character| test(&character));
    let is_place = answer.contains("://") || answer.starts_with(['/', '~', '.']);
    let is_long = answer.len() >= KEY_CHARS_MIN && !is_place;
    let is_mixed = || is_long && has(char::is_ascii_digit) && has(char::is_ascii_lowercase);
    let is_prefixed = KEY_PREFIXES.iter().any(|prefix| answer.starts_with(prefix));
    !has(|character| character.is_whitespace()) && (is_prefixed || is_mixed())
}

/// Returns true for an answer that begins like an API key and is as long as one, where names of models and hosts may
/// look random as well.
fn begins_like_key(answer: &str) -> bool {
    answer.len() >= KEY_CHARS_MIN
        && KEY_PREFIXES.iter().any(|prefix| answer.starts_with(prefix))
        && !answer.contains(|character: char| character.is_whitespace() || ".,:/@".contains(character))
}

/// Returns the column at which a continued line of a menu starts: below the text after `[1]`.
fn menu_indent(line: &str) -> usize {
    let blanks = line.len() - line.trim_start().len();
    let mark = line[blanks..].find("] ").filter(|_| line[blanks..].starts_with('['));
    blanks + mark.map_or(0, |at| at + 2)
}

/// Disables echo on standard input until dropped, if it is a terminal.
struct HiddenInput(Option<rustix::termios::Termios>);

impl HiddenInput {
    fn begin() -> Self {
        let stdin = io::stdin();
        let Some(before) = tcgetattr(&stdin).ok().filter(|_| stdin.is_terminal()) else { return Self(None) };
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        let done = tcsetattr(&stdin, OptionalActions::Flush, &hidden);
        Self(done.is_ok().then_some(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before); // the terminal may be gone
        }
    }
}

/// Runs the wizard on standard input and standard error.
pub(crate) fn run(flags: GlobalFlags) -> Result<()> {
    let flags = flags.without_overrides();
    let settings = &crate::load(&flags)?;
    require_own_file(settings)?;
    let (mut input, mut output) = (io::stdin().lock(), io::stderr().lock());
    let mut prompter = Prompter::new(&mut input, &mut output);
    let ollama = OllamaServer::new(settings).with_patience();
    let (setup, download) = choose(&mut prompter, settings, &ollama)?;
    let written = propose(&mut prompter, settings, &setup)?;
    drop((input, output));
    if let Some(name) = download {
        match crate::wait_for(download_model(settings, Some(&name), GetConsent::Ask)) {
            Err(error) if error.is::<Cancellation>() => {
                tell(&format!("Not downloaded. Run `sysop model get {name}` before you use the model."))?;
            }
            downloaded => {
                downloaded?;
            }
        }
    }
    if has_new_key(&setup.changes) || (written == ConfigWrite::Changed && concerns_model(&setup.changes)) {
        let answer = crate::wait_for(written_server_answer(load_as_written(settings, &flags, &setup)?))?;
        answer.map_or(Ok(()), |line| tell(&line))?;
    }
    let is_model = |(key, _): &(KeyPath, String)| *key == KeyPath::from("model");
    tell(if setup.changes.iter().any(is_model) || has_model(settings, &ollama) {
        "Done. Check the result with `sysop doctor`; start with `sysop`. The guide is at /help/ of `sysop serve`."
    } else {
        "No model is set: `sysop` will ask again."
    })
}

/// Prints a message to standard error, in lines that fit the terminal.
fn tell(text: &str) -> Result<()> {
    Prompter::new(&mut io::stdin().lock(), &mut io::stderr().lock()).say(text)
}

/// Returns true if a start finds a model: in the config, or by a key or an address in the environment.
fn has_model(settings: &Settings, ollama: &OllamaServer) -> bool {
    settings.model.is_some() || select_model(settings, ollama).is_ok()
}

/// Returns true if the user pasted a key, which is in a file of its own. The config may be the same as before.
fn has_new_key(changes: &Changes) -> bool {
    changes.iter().any(|(key, _)| key.names().last().is_some_and(|name| name == KEY_FILE))
}

fn concerns_model(changes: &Changes) -> bool {
    let tables = ["model", "providers"];
    changes.iter().any(|(key, _)| key.names().first().is_some_and(|name| tables.contains(&name.as_str())))
}

/// Returns the keys that `setup` writes, with their values. An address that it removes has none: then the server is the
/// provider's own.
fn written_keys<'a>(
    settings: &'a Settings,
    setup: &'a Setup,
) -> impl Iterator<Item = (&'a KeyPath, Option<&'a str>)> {
    let written = setup.changes.iter().map(|(key, value)| (key, Some(value.as_str())));
    let is_address =
        |key: &&KeyPath| settings.config.file_servers.keys().any(|table| table.child("base_url") == **key);
    written.chain(setup.removed.iter().filter(is_address).map(|key| (key, None)))
}

/// Returns the settings after these changes were written, as if no variable overrode them.
fn load_as_written(
    settings: &Settings,
    flags: &GlobalFlags,
    setup: &Setup,
) -> Result<Settings, CommandError> {
    let keys = written_keys(settings, setup);
    let variables: Vec<&str> = keys.filter_map(|(key, _)| settings.config.overriding_variable(key)).collect();
    let environment = settings.environment.without(&variables);
    Settings::from_parts(flags, environment, settings.folders.clone(), settings.color)
}

/// Returns a line that says if the server of the written model answers, so that a mistyped key or address is noticed
/// now. Returns `None` for a model without a server.
async fn written_server_answer(settings: Settings) -> Result<Option<String>> {
    let Some(model) = settings.model.as_ref().map(|model| model.value.clone()) else { return Ok(None) };
    if model_provider::find(&model.provider).is_none() {
        return Ok(None);
    }
    let base_url = settings.providers.get(&model.provider).and_then(|provider| provider.base_url.clone());
    let answer = model_lists::answer_of(settings, &model.provider).await;
    Ok(Some(answer_line(&model.provider, base_url, answer)))
}

/// Returns a warning about each change that has no effect until a variable is unset.
fn override_warnings(settings: &Settings, setup: &Setup) -> Vec<String> {
    let effective = |key: &KeyPath| match key.names() {
        [name] if name == "model" => settings.model.as_ref().map(|model| model.value.to_string()),
        _ => settings.config.get(key.clone()),
    };
    let warning = |(key, value): (&KeyPath, Option<&str>)| {
        let variable = settings.config.overriding_variable(key)?;
        let used = effective(key);
        let names = used.as_deref().map(without_credentials).map(|used| format!(": sysop uses {used}"));
        let names = names.unwrap_or_default();
        let warning = format!("warning: the variable {variable} overrides `{key}`{names} until you unset it");
        (used.as_deref() != value).then_some(warning)
    };
    written_keys(settings, setup).filter_map(warning).collect()
}

/// Returns the line about a server's answer. A server other than the provider's own is named by its address.
fn answer_line(provider: &str, base_url: Option<String>, answer: Result<usize, String>) -> String {
    let name = || match provider {
        "openai" => "OpenAI".to_owned(),
        "vertex" => "Vertex AI".to_owned(),
        name => name[..1].to_uppercase() + &name[1..],
    };
    match answer {
        Ok(models) => {
            let server = base_url.map_or_else(name, |url| without_credentials(&url));
            format!("{server} answers and offers {}.", counted(models as u64, "model"))
        }
        Err(problem) => format!("warning: {problem}"),
    }
}

/// Fails if the user's settings are in another program's config file.
pub(crate) fn require_own_file(settings: &Settings) -> Result<(), CommandError> {
    let own = settings.folders.config.join("sysop").join("config.toml");
    let file = &settings.config.own_file;
    if *file == own || settings.explicit_config.is_some() {
        return Ok(());
    }
    Err(CommandError::usage(format!(
        "the config file {} belongs to another program; copy the file to {}, then retry",
        display_path(file),
        display_path(&own)
    )))
}

/// Asks all questions. Returns the changes, and the local model to download, if any.
fn choose(
    prompter: &mut Prompter<'_>,
    settings: &Settings,
    ollama: &OllamaServer,
) -> Result<(Setup, Option<String>)> {
    let models = LocalModels::new(settings);
    let recommended = models.catalog.recommended(&sysop_local::Machine::examine());
    let offer = download_offer(recommended);
    let recommended = recommended.name.clone();
    let keep = match select_model(settings, ollama) {
        Ok(found) if settings.model.is_some() || from_environment(settings).is_some() => {
            let of_file = |model: &ConfiguredValue<_>| matches!(model.origin, ConfigOrigin::File { .. });
            let is_of_file = settings.model.as_ref().is_some_and(of_file);
            let reason = if is_of_file { String::new() } else { format!(" ({})", found.reason) };
            format!("keep the current setting: {}{reason}", found.model)
        }
        Ok(found) => format!("set no model: sysop then takes {}", found.model),
        Err(_) => "set no model yet".to_owned(),
    };
    let place = ollama.setting().map_or_else(String::new, |_| format!(" at {}", ollama.address()));
    prompter.say(&format!(
        "Which model?\n  [1] {offer}\n  [2] use an API key, or another server\n  [3] use Ollama{place}\n  [4] {keep}"
    ))?;
    let mut download = None;
    let mut setup = match prompter.choice("Your choice [1-4, q quits]: ", &["1", "2", "3", "4"])?.as_str() {
        "1" => {
            let change = (KeyPath::from("model"), format!("{}/{recommended}", LOCAL.name));
            download = Some(recommended);
            Setup { changes: vec![change], ..Setup::default() }
        }
        "2" => choose_key(prompter, settings)?,
        "3" => Setup { changes: choose_ollama(prompter, ollama)?, ..Setup::default() },
        _ => Setup::default(),
    };
    choose_host(prompter, settings, &mut setup.changes)?;
    choose_mode(prompter, settings, &mut setup.changes)?;
    Ok((setup, download))
}

/// Asks when commands may run. A mode that is set stays if the user presses Enter.
fn choose_mode(prompter: &mut Prompter<'_>, settings: &Settings, changes: &mut Changes) -> Result<()> {
    const MODES: [&str; 4] = ["ask", "each", "auto", "never"];
    let entry = settings.config.entry("approve").filter(|entry| *entry.origin() != ConfigOrigin::Default);
    let current = entry.and_then(|_| settings.config.get::<String>("approve"));
    let keep = current.as_ref().map(|mode| format!("\n  [5] keep the current setting: {mode}"));
    prompter.say(&format!(
        "When may commands run?\n  [1] ask: run read-only commands, ask before everything else (recommended)\n  [2] \
         each: ask before every command\n  [3] auto: run changes, too; ask before dangerous ones and code that cannot be \
         checked\n  [4] never: run read-only commands only{}",
        keep.as_deref().unwrap_or_default()
    ))?;
    let (choices, default): (&[&str], _) =
        if keep.is_some() { (&["1", "2", "3", "4", "5"], "5") } else { (&["1", "2", "3", "4"], "1") };
    let question = format!("Your choice [1-{}", choices.len());
    let answer = prompter.choice_or_word(&question, choices, &MODES, default)?;
    let chosen = choices.iter().position(|choice| *choice == answer).and_then(|at| MODES.get(at));
    changes.extend(chosen.map(|mode| (KeyPath::from("approve"), (*mode).to_owned())));
    Ok(())
}

/// Returns the choice of a model that runs on this machine, for a menu.
pub(crate) fn download_offer(model: &sysop_local::ModelEntry) -> String {
    let size = model.pin.size.map_or_else(|| "size unknown".to_owned(), human_bytes);
    format!("download {} ({size}, {}) and run it on this machine", model.name, model.license)
}

fn choose_ollama(prompter: &mut Prompter<'_>, ollama: &OllamaServer) -> Result<Changes> {
    let problem = |answer: &str| {
        let hint = "To use another Ollama, press q and set OLLAMA_HOST to its address.";
        let is_offered = ollama.models().iter().any(|model| model == answer);
        (is_address(answer) && !is_offered)
            .then(|| format!("That is an address. Enter the name of a model. {hint}"))
    };
    let name = match ollama.models() {
        [] => {
            prompter.say(&no_ollama_model(ollama))?;
            prompter.ask_name("Model name, such as qwen3 [Enter for none, q quits]: ", problem)?
        }
        models @ [first, ..] => {
            prompter.say(&format!("Ollama has: {}", models.join(", ")))?;
            let name = prompter.ask_name(&format!("Model [Enter for {first}, q quits]: "), problem)?;
            if name.is_empty() { first.clone() } else { name }
        }
    };
    let change = (KeyPath::from("model"), format!("{}/{name}", OLLAMA.name));
    Ok(if name.is_empty() { Changes::new() } else { vec![change] })
}

/// Returns true for an address in the place of a model's name: a URL, or a host and a port.
fn is_address(answer: &str) -> bool {
    let is_host_port = |(host, port): (&str, &str)| {
        let is_host = host == "localhost" || (host.contains('.') && !host.contains(['/', '@']));
        // The names of models have dots, too, and a tag, which is hardly ever a number.
        is_host && port.parse::<u16>().is_ok_and(|port| port >= PORT_MIN)
    };
    let is_place =
        || answer.parse::<SocketAddr>().is_ok() || answer.rsplit_once(':').is_some_and(is_host_port);
    answer.contains("://") || is_place()
}

/// Returns the reason why the models of an Ollama cannot be listed, and what to do.
fn no_ollama_model(ollama: &OllamaServer) -> String {
    let address = ollama.address();
    match (ollama.answer(), ollama.timeout()) {
        (_, Some(timeout)) => format!("{timeout}."),
        (OllamaAnswer::Models(_), _) => {
            format!("Ollama at {address} has no chat model. `ollama pull NAME` gets one.")
        }
        _ if ollama.is_https() => {
            format!("The models of {address} are not listed here, because it uses HTTPS.")
        }
        _ if ollama.is_on_this_machine() => {
            let setting = ollama.setting().unwrap_or("OLLAMA_HOST");
            format!(
                "Ollama is not responding at {address}. `ollama serve` starts it. If it runs on another machine, press q \
                 and set {setting} to its address."
            )
        }
        _ => {
            let setting = ollama.setting().unwrap_or("the address");
            format!("Ollama is not responding at {address}. Check that it runs there, and {setting}.")
        }
    }
}

/// Asks for the default host. Hosts that are set stay if the user presses Enter.
fn choose_host(prompter: &mut Prompter<'_>, settings: &Settings, changes: &mut Changes) -> Result<()> {
    let current = settings.config.get::<String>("connection.host");
    let current = current.filter(|_| settings.host != HostChoice::Local);
    let mut known = settings.ssh_names();
    known.extend(settings.hosts.known.iter().map(|host| host.target.name.clone()));
    known.sort();
    known.dedup();
    let more = if known.len() > HOSTS_SHOWN_MAX { ", …" } else { "" };
    known.truncate(HOSTS_SHOWN_MAX);
    let examples = if known.is_empty() { String::new() } else { format!(" ({}{more})", known.join(", ")) };
    let enter = current.as_ref().map(|hosts| format!("Enter for {hosts}, `local` for this machine"));
    let enter = enter.as_deref().unwrap_or("Enter for this machine");
    let question = format!("Host to run on{examples} [{enter}, q quits]: ");
    for _ in 0..ATTEMPTS_MAX {
        let host = prompter.ask(&question)?;
        if host.is_empty() {
            return Ok(());
        }
        let problem = match settings.hosts.resolve(&host) {
            Ok(HostChoice::Local) if current.is_none() => return Ok(()),
            Ok(choice) => {
                crate::wait_for(async { Ok(known_host::check_host(settings, &choice).await.err()) })?
            }
            Err(error) => {
                prompter.say(&error.message)?;
                continue;
            }
        };
        if let Some(problem) = problem {
            prompter.say(&format!(
                "warning: {}\n  [1] enter another host\n  [2] continue anyway",
                problem.message
            ))?;
            if prompter.choice_or("Your choice [1-2", &["1", "2"], "1")? == "1" {
                continue;
            }
        }
        changes.push((KeyPath::from("connection.host"), host));
        return Ok(());
    }
    Err(CommandError::failed("too many invalid answers; nothing was changed").into())
}

/// Outcome of proposed changes that the user did not decline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigWrite {
    Changed,
    /// The config has these values already.
    Unchanged,
}

/// Shows the changes, and writes the config and a new key if the user agrees. Fails if a change is invalid or a file
/// cannot be written, and with a [`Cancellation`] if the user declines.
pub(crate) fn propose(
    prompter: &mut Prompter<'_>,
    settings: &Settings,
    setup: &Setup,
) -> Result<ConfigWrite> {
    require_own_file(settings)?;
    let (path, changes) = (&settings.config.own_file, &setup.changes);
    if changes.is_empty() {
        prompter.say("Nothing to change.")?;
        return Ok(ConfigWrite::Unchanged);
    }
    let before = read_text(path).map_err(|error| CommandError::usage(error.to_string()))?.unwrap_or_default();
    let usage = |error: ConfigChangeError| CommandError::usage(error.to_string());
    let mut after = apply_changes(&before, changes).map_err(usage)?;
    let mut removed = Vec::new();
    for key in &setup.removed {
        if let Some(without) = remove_key(&after, key).map_err(usage)? {
            after = without;
            removed.push(key.to_string());
        }
    }
    check_text(path, &after).map_err(|error| CommandError::usage(error.to_string()))?;
    let warnings = override_warnings(settings, setup);
    if before == after {
        store_key(setup)?;
        prompter.say("The config has these settings already.")?;
        warnings.iter().try_for_each(|warning| prompter.say(warning))?;
        return Ok(ConfigWrite::Unchanged);
    }
    let old: Vec<&str> = before.lines().collect();
    let added: Vec<&str> = after.lines().filter(|line| !line.is_empty() && !old.contains(line)).collect();
    let file = display_path(path);
    if !added.is_empty() {
        prompter.say(&format!("{file} will get:\n  {}", added.join("\n  ")))?;
    }
    match (added.is_empty(), removed.is_empty()) {
        (_, true) => {}
        (false, false) => prompter.say(&format!("and lose: {}", removed.join(", ")))?,
        (true, false) => prompter.say(&format!("{file} will lose: {}", removed.join(", ")))?,
    }
    warnings.iter().try_for_each(|warning| prompter.say(warning))?;
    if prompter.choice_or_word("Write it? [y/n", &["y", "n"], &["yes", "no"], "y")? == "n" {
        return Err(Cancellation.into());
    }
    let old_key = read_old_key(setup)?;
    store_key(setup)?;
    let saved = save_config(path, &after).with_context(|| format!("cannot write {}", display_path(path)));
    match saved {
        Ok(()) => Ok(ConfigWrite::Changed),
        Err(error) => Err(restore_key(setup, old_key.as_deref(), error)),
    }
}

/// Returns the content of the file that a new key will replace, or `None` if there is none.
fn read_old_key(setup: &Setup) -> Result<Option<Vec<u8>>> {
    let Some((file, _)) = &setup.key else { return Ok(None) };
    match std::fs::read(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", display_path(file))),
    }
}

/// Undoes [`store_key`] after `error`, so that the server of the old config does not get the new key. Returns that
/// error, and the reason why the old key cannot be restored if it cannot.
fn restore_key(setup: &Setup, old: Option<&[u8]>, error: anyhow::Error) -> anyhow::Error {
    let Some((file, _)) = &setup.key else { return error };
    let restored = match old {
        Some(bytes) => replace_private_file(file, bytes),
        None => std::fs::remove_file(file),
    };
    match restored {
        Ok(()) => error,
        Err(why) => error.context(format!("cannot restore the key in {}: {why}", display_path(file))),
    }
}

/// Writes a new key to its file, which only the user can read.
fn store_key(setup: &Setup) -> Result<()> {
    let Some((file, key)) = &setup.key else { return Ok(()) };
    if let Some(folder) = file.parent() {
        create_private_folder(folder).with_context(|| format!("cannot create {}", display_path(folder)))?;
    }
    replace_private_file(file, format!("{}\n", key.expose_secret()).as_bytes())
        .with_context(|| format!("cannot write {}", display_path(file)))
}

/// Converts a key and its value to a change, as for `sysop config set`.
pub(crate) fn parse_change(key: &str, value: String) -> Result<Changes, CommandError> {
    let path = parse_key(key).map_err(|error| CommandError::usage(error.to_string()))?;
    Ok(vec![(path, value)])
}

#[cfg(test)]
mod tests;
