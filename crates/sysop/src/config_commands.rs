//! `sysop config path|show|get|set|unset|edit`.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use sysop_core::text::neutralize;

use crate::cli::ConfigCommand;
use crate::config::{
    EffectiveKey, KeyPath, apply_changes, check_text, create_private_folder, display_path, new_problem,
    parse_key, read_text, remove_key, replace_private_file, save_config, value_in,
};
use crate::exit::{CommandError, Exit};
use crate::global_flags::Verbosity;
use crate::init::{parse_change, require_own_file};
use crate::select_model::{self, ModelChoice};
use crate::settings::Settings;

/// Maximum size of a value on standard input, in bytes.
const VALUE_BYTES_MAX: u64 = 64 * 1024;
/// Initial content of a new config in the editor.
const NEW_CONFIG: &str =
    "# Config of sysop. `sysop config show` lists all values and where they come from.\n";

pub(crate) fn run(command: ConfigCommand, settings: &Settings) -> Result<Exit> {
    match command {
        ConfigCommand::Path => crate::emit(format!("{}\n", settings.config.own_file.display()).as_bytes()),
        ConfigCommand::Show => {
            for error in &settings.config.denials {
                crate::tell(&format!("error: {error}"));
            }
            for warning in settings.warnings() {
                crate::tell(&format!("warning: {warning}"));
            }
            crate::emit(settings.config.show().as_bytes())
        }
        ConfigCommand::Get { key } => get(settings, &key),
        ConfigCommand::Set { key, value } => set(settings, &key, value),
        ConfigCommand::Unset { key } => unset(settings, &key),
        ConfigCommand::Edit => edit(settings),
    }
}

fn get(settings: &Settings, key: &str) -> Result<Exit> {
    let path = parse_key(key).map_err(|error| CommandError::usage(error.to_string()))?;
    let is_verbose = matches!(settings.verbosity, Verbosity::Verbose(_));
    let unset = || CommandError::failed(format!("`{path}` is not set"));
    let text = match settings.config.show_key(&path) {
        EffectiveKey::Value(value) => value.value_line(is_verbose),
        EffectiveKey::Table(values) if values.is_empty() => return Err(unset().into()),
        EffectiveKey::Table(values) => values.iter().map(|value| value.key_line(is_verbose)).collect(),
        EffectiveKey::Unset => {
            let used = select_model::from_environment(settings).filter(|_| path.names() == ["model"]);
            return Err(used.map_or_else(unset, |used| unset_model(&used)).into());
        }
        EffectiveKey::Unknown { meant } => {
            let next = match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "`sysop config show` lists the keys that are set".to_owned(),
            };
            return Err(CommandError::usage(format!("`{path}` is not a config key; {next}")).into());
        }
    };
    crate::emit(neutralize(&text).as_bytes())
}

/// Returns the error for a model that no config sets, but that the environment selects.
fn unset_model(used: &ModelChoice) -> CommandError {
    let ModelChoice { model, reason } = used;
    CommandError::failed(format!("`model` is not set; tasks use {model}, because {reason}"))
}

fn set(settings: &Settings, key: &str, value: String) -> Result<Exit> {
    require_own_file(settings)?;
    let path = &settings.config.own_file;
    let value = if value == "-" { value_of_stdin()? } else { value };
    let usage = |error: &dyn std::fmt::Display| CommandError::usage(error.to_string());
    let before = read_text(path).map_err(|error| usage(&error))?.unwrap_or_default();
    let changes = parse_change(key, value)?;
    let after = apply_changes(&before, &changes).map_err(|error| usage(&error))?;
    if let Some(problem) = new_problem(path, &before, &after).map_err(|error| usage(&error))? {
        return Err(usage(&problem).into());
    }
    save_config(path, &after).with_context(|| format!("cannot write {}", display_path(path)))?;
    for (key, _) in &changes {
        tell_change(settings, key, &before, &after);
    }
    if let Some(variable) = changes.iter().find_map(|(key, _)| settings.config.overriding_variable(key)) {
        crate::tell(&format!("warning: the environment variable {variable} overrides this value"));
    }
    Ok(Exit::Done)
}

fn unset(settings: &Settings, key: &str) -> Result<Exit> {
    require_own_file(settings)?;
    let path = &settings.config.own_file;
    let usage = |error: &dyn std::fmt::Display| CommandError::usage(error.to_string());
    let key = parse_key(key).map_err(|error| usage(&error))?;
    let before = read_text(path).map_err(|error| usage(&error))?.unwrap_or_default();
    let Some(after) = remove_key(&before, &key).map_err(|error| usage(&error))? else {
        return Err(CommandError::failed(format!("`{key}` is not set in {}", display_path(path))).into());
    };
    save_config(path, &after).with_context(|| format!("cannot write {}", display_path(path)))?;
    tell_change(settings, &key, &before, &after);
    Ok(Exit::Done)
}

/// Prints the values of a key in the texts of the user's file before and after a change, one per line.
fn tell_change(settings: &Settings, key: &KeyPath, before: &str, after: &str) {
    if settings.verbosity == Verbosity::Quiet {
        return;
    }
    for (label, text) in [("was", before), ("now", after)] {
        let value = value_in(&settings.config.own_file, text, key);
        crate::tell(&format!("{label}: {value}"));
    }
}

fn value_of_stdin() -> Result<String> {
    let mut line = String::new();
    let read = io::stdin().lock().take(VALUE_BYTES_MAX).read_line(&mut line);
    if read.context("cannot read the value")? == 0 {
        return Err(CommandError::usage("standard input has no value").into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn edit(settings: &Settings) -> Result<Exit> {
    require_own_file(settings)?;
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let why = "an editor needs a terminal; use `sysop config set KEY VALUE`";
        return Err(CommandError::usage(why).into());
    }
    let path = &settings.config.own_file;
    let folder = path.parent().unwrap_or(Path::new("."));
    create_private_folder(folder).with_context(|| format!("cannot create {}", display_path(folder)))?;
    let before = read_text(path).map_err(|error| CommandError::usage(error.to_string()))?;
    let draft = folder.join("config.draft.toml");
    let text = before.clone().unwrap_or_else(|| NEW_CONFIG.to_owned());
    replace_private_file(&draft, text.as_bytes())
        .with_context(|| format!("cannot write {}", display_path(&draft)))?;
    let after = edit_until_valid(settings, &draft, path)?;
    if Some(&after) != before.as_ref() {
        save_config(path, &after).with_context(|| format!("cannot write {}", display_path(path)))?;
    }
    let _ = std::fs::remove_file(&draft); // its content is now in the config
    Ok(Exit::Done)
}

/// Opens the draft in the editor until it is valid or the user gives up.
fn edit_until_valid(settings: &Settings, draft: &Path, path: &Path) -> Result<String> {
    loop {
        open_editor(settings, draft)?;
        let text = read_text(draft).map_err(|error| CommandError::failed(error.to_string()))?;
        let text =
            text.ok_or_else(|| CommandError::failed("the draft was deleted; the config is unchanged"))?;
        let problems = match check_text(path, &text) {
            Ok(problems) if problems.is_empty() => return Ok(text),
            Ok(problems) => problems,
            Err(error) => vec![error.to_string()],
        };
        for problem in &problems {
            crate::tell(&format!("warning: {problem}"));
        }
        let mut err = io::stderr().lock();
        write!(err, "Edit again? [Y/n] ").and_then(|()| err.flush()).context("cannot show the prompt")?;
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line).context("cannot read the answer")?;
        if read == 0 || line.trim().to_lowercase().starts_with('n') {
            let why = format!("the config is unchanged; your text is in {}", display_path(draft));
            return Err(CommandError::failed(why).into());
        }
    }
}

fn open_editor(settings: &Settings, file: &Path) -> Result<()> {
    let editor = settings.environment.first(&["VISUAL", "EDITOR"]).map_or("vi", |(_, editor)| editor);
    let words = shell_words::split(editor).ok().filter(|words| !words.is_empty());
    let words =
        words.ok_or_else(|| CommandError::usage("EDITOR is not a command line; set it to a program"))?;
    let status = std::process::Command::new(&words[0]).args(&words[1..]).arg(file).status();
    let status = status.map_err(|error| {
        CommandError::failed(format!("cannot start the editor {:?} ({error}); set EDITOR", words[0]))
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(CommandError::failed(format!("the editor ended with {status}; the config is unchanged")).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::World;
    use crate::global_flags::GlobalFlags;
    use crate::settings::tests::load;

    #[test]
    fn a_model_that_only_the_environment_names_is_told() {
        let model = |environment: &[(&str, &str)]| {
            let settings = load(&World::new(), &GlobalFlags::default(), environment).expect("it is valid");
            get(&settings, "model").expect_err("no config sets it").to_string()
        };
        assert_eq!(model(&[]), "`model` is not set");
        let server = [("LLM_BASE_URL", "http://127.0.0.1:9/v1"), ("LLM_DEFAULT_MODEL", "qwen")];
        let expected =
            "`model` is not set; tasks use openai/qwen, because LLM_BASE_URL and LLM_DEFAULT_MODEL are set";
        assert_eq!(model(&server), expected);
    }
}
