//! Edits a config file as a person would: keys are set one by one, and everything else is preserved.
//!
//! Before the file is written, each value is checked against the table of keys, and the whole new text is
//! parsed. Text that would not load is never written.

use std::io;
use std::path::{Path, PathBuf};

use secrecy::ExposeSecret as _;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Key, Table, TableLike, Value};

use super::file::{self, Flavor};
use super::keys::{self, KeyPath};
use super::value::{self, ConfigValue};
use super::{ConfigError, ConfigLayer, ConfigWarning, private_files};

/// A change that cannot be made. The file is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigChangeError {
    #[error("{0:?} is not a config key; write dotted names, such as `providers.openai.base_url`")]
    Path(String),
    /// The key does not exist.
    #[error("`{path}` is not a config key{meant}")]
    Unknown {
        path: KeyPath,
        /// `; did you mean …?`, or empty.
        meant: String,
    },
    #[error("`{path}` {why}")]
    Value { path: KeyPath, why: String },
    #[error("`{path}` is not a table in the config file; edit the file with `sysop config edit`")]
    NoTable { path: KeyPath },
    /// The file is not valid.
    #[error("{0}; fix it with `sysop config edit`")]
    Syntax(String),
}

/// Parses a key as in TOML: names are separated by dots, and quoted if they contain other characters.
pub(crate) fn parse_key(text: &str) -> Result<KeyPath, ConfigChangeError> {
    let names = Key::parse(text).map_err(|_| ConfigChangeError::Path(text.to_owned()))?;
    Ok(KeyPath::new(names.iter().map(Key::get)))
}

/// Returns the text of a config file with these keys set, in order. `model` takes `PROVIDER/NAME`. Fails if a
/// key, a value or the text is invalid.
pub(crate) fn apply_changes(text: &str, changes: &[(KeyPath, String)]) -> Result<String, ConfigChangeError> {
    let mut document = parse(text)?;
    for (path, value) in changes {
        if path.names() == ["model"] {
            set_model(&mut document, path, value)?;
        } else if path.names() == ["hooks"] {
            document.insert("hooks", Item::ArrayOfTables(tables(path, value)?));
        } else {
            set(document.as_table_mut(), path, to_item(path, value)?)?;
        }
    }
    Ok(document.to_string())
}

/// Returns the text of a config file without a key or table. Returns `None` if the text does not set it. Fails if the
/// text is invalid.
pub(crate) fn remove_key(text: &str, path: &KeyPath) -> Result<Option<String>, ConfigChangeError> {
    let mut document = parse(text)?;
    let Some((name, tables)) = path.names().split_last() else { return Ok(None) };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for name in tables {
        let Some(inner) = table.get_mut(name).and_then(Item::as_table_like_mut) else { return Ok(None) };
        table = inner;
    }
    Ok(table.remove(name).map(|_| document.to_string()))
}

fn parse(text: &str) -> Result<DocumentMut, ConfigChangeError> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        ConfigChangeError::Syntax(error.message().lines().collect::<Vec<_>>().join(", "))
    })
}

/// Parses a list of tables, such as `[{ on = "end", run = ["/usr/local/bin/log"] }]`.
fn tables(path: &KeyPath, text: &str) -> Result<ArrayOfTables, ConfigChangeError> {
    let failed = || ConfigChangeError::Value {
        path: path.clone(),
        why: "must be a list of tables, such as `[{ on = \"end\", run = [\"/usr/local/bin/log\"] }]`"
            .to_owned(),
    };
    let Ok(Value::Array(array)) = text.parse::<Value>() else { return Err(failed()) };
    array
        .into_iter()
        .map(|value| match value {
            Value::InlineTable(table) => Ok(table.into_table()),
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_) => Err(failed()),
        })
        .collect()
}

fn to_item(path: &KeyPath, text: &str) -> Result<Value, ConfigChangeError> {
    let Some(key) = keys::find(path) else {
        let meant = keys::nearest(path).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        return Err(ConfigChangeError::Unknown { path: path.clone(), meant });
    };
    let (parsed, problems) = value::from_text(key.kind, text);
    let failed = |why: String| ConfigChangeError::Value { path: path.clone(), why };
    if let Some(problem) = problems.into_iter().next() {
        return Err(failed(problem.why));
    }
    Ok(match parsed.ok_or_else(|| failed("has no value".to_owned()))? {
        ConfigValue::Text(text) => text.into(),
        ConfigValue::Secret(secret) => secret.expose_secret().into(),
        ConfigValue::Integer(number) => number.into(),
        ConfigValue::Number(number) => number.into(),
        ConfigValue::Switch(on) => on.into(),
        ConfigValue::Texts(texts) => Value::Array(texts.into_iter().collect::<Array>()),
    })
}

/// Sets `model = "PROVIDER/NAME"`, or the two keys in `[model]` if the file has that table.
fn set_model(document: &mut DocumentMut, path: &KeyPath, text: &str) -> Result<(), ConfigChangeError> {
    let failed = |why: String| ConfigChangeError::Value { path: path.clone(), why };
    let (provider, name) = match text.split_once('/') {
        Some((provider, name)) if !name.is_empty() => (provider, name),
        None if text == keys::DEMO => (keys::DEMO, keys::DEMO),
        Some(_) | None => return Err(failed("must be PROVIDER/NAME, such as `ollama/qwen3`".to_owned())),
    };
    if !sysop_core::model_provider::is_known(provider) {
        return Err(failed(format!("has an {}", keys::unknown_provider(provider))));
    }
    if document.get("model").is_some_and(Item::is_table_like) {
        let table = document.as_table_mut();
        set(table, &path.child("provider"), provider.into())?;
        return set(table, &path.child("name"), name.into());
    }
    set(document.as_table_mut(), path, format!("{provider}/{name}").into())
}

fn set(table: &mut Table, path: &KeyPath, value: Value) -> Result<(), ConfigChangeError> {
    let (last, outer) = path.names().split_last().expect("a key path has at least one name");
    let mut inner: &mut dyn TableLike = table;
    for (depth, name) in outer.iter().enumerate() {
        let fresh = || {
            // Only the innermost table gets a header.
            let mut table = Table::new();
            table.set_implicit(depth + 1 < outer.len());
            Item::Table(table)
        };
        let item = inner.entry(name).or_insert_with(fresh);
        let no_table = || ConfigChangeError::NoTable { path: KeyPath::new(&outer[..=depth]) };
        inner = item.as_table_like_mut().ok_or_else(no_table)?;
    }
    match inner.get_mut(last) {
        // The old value's decoration holds the surrounding spaces and the trailing comment.
        Some(Item::Value(old)) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        Some(_) => return Err(ConfigChangeError::NoTable { path: path.clone() }),
        None => {
            inner.insert(last, Item::Value(value));
        }
    }
    Ok(())
}

/// Returns the problems in a config file's text, each with its line. Fails if the text is not TOML.
pub(crate) fn check_text(path: &Path, text: &str) -> Result<Vec<String>, ConfigError> {
    let layer = file::parse(path, text, Flavor::Own)?;
    Ok(problems(&layer).map(ToString::to_string).collect())
}

fn problems(layer: &ConfigLayer) -> impl Iterator<Item = &ConfigWarning> {
    layer.program_errors.iter().chain(&layer.denials).chain(&layer.warnings)
}

/// Returns the first problem of the text `after` that the text `before` does not have. A change moves lines, so the
/// numbers of lines do not count, and the problem names no place: `after` is in no file.
pub(crate) fn new_problem(path: &Path, before: &str, after: &str) -> Result<Option<String>, ConfigError> {
    let known = file::parse(path, before, Flavor::Own).unwrap_or_default();
    let mut known: Vec<&str> = problems(&known).map(|known| known.message.as_str()).collect();
    let layer = file::parse(path, after, Flavor::Own)?;
    for problem in problems(&layer) {
        match known.iter().position(|known| *known == problem.message) {
            Some(at) => {
                known.swap_remove(at);
            }
            None => return Ok(Some(problem.message.clone())),
        }
    }
    Ok(None)
}

/// Writes a config file atomically, readable only by the user. A symbolic link is followed and kept.
pub(crate) fn save_config(path: &Path, text: &str) -> io::Result<()> {
    let target: PathBuf = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = target.parent() {
        private_files::create_private_folder(folder)?;
    }
    private_files::replace_private_file(&target, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, changes: &[(&str, &str)]) -> Result<String, ConfigChangeError> {
        let changes: Vec<_> =
            changes.iter().map(|(key, value)| (parse_key(key).unwrap(), (*value).to_owned())).collect();
        apply_changes(text, &changes)
    }

    #[test]
    fn comments_order_and_other_keys_stay() {
        let before = "# mine\nmax_iterations = 3   # few\n\n[hosts.web1]\nhost = \"10.0.0.1\" # the first\n";
        let after = changed(before, &[("max_iterations", "7"), ("hosts.web1.user", "root")]).unwrap();
        assert_eq!(
            after,
            "# mine\nmax_iterations = 7   # few\n\n[hosts.web1]\nhost = \"10.0.0.1\" # the first\nuser = \"root\"\n"
        );
    }

    #[test]
    fn a_removed_key_leaves_the_rest() {
        let text =
            "# mine\napprove = \"ask\"\n\n[hosts.web1]\nhost = \"10.0.0.1\" # the first\nuser = \"root\"\n";
        let without = |key: &str| remove_key(text, &parse_key(key).unwrap()).unwrap();
        let rest = "# mine\napprove = \"ask\"\n\n[hosts.web1]\nhost = \"10.0.0.1\" # the first\n";
        assert_eq!(without("hosts.web1.user").as_deref(), Some(rest));
        assert_eq!(without("hosts.web1").as_deref(), Some("# mine\napprove = \"ask\"\n"));
        for unset in ["model", "hosts.web2.user", "approve.mode"] {
            assert_eq!(without(unset), None, "{unset}");
        }
    }

    #[test]
    fn a_new_problem_is_found_in_place_of_an_old_one() {
        let new = |before: &str, after: &str| new_problem(Path::new("/c.toml"), before, after).unwrap();
        let (odd, bad) = ("aprove = 'each'\n", "max_iterations = 0\n");
        let found = new(odd, bad).expect("the text has another problem");
        assert!(found.starts_with("`max_iterations` must be"), "{found}");
        assert_eq!(new(odd, &format!("theme = 'light'\n{odd}")), None, "the problem only moved");
        assert_eq!(new(&format!("{odd}{bad}"), odd), None);
    }

    #[test]
    fn values_get_the_type_of_their_key() {
        let after = changed(
            "",
            &[
                ("approve", "each"),
                ("ledger_only", "true"),
                ("temperature", "0.5"),
                ("sandbox_write", "[\"~/a\", \"/b\"]"),
                ("models.\"local/x\".size", "12"),
            ],
        );
        assert_eq!(
            after.unwrap(),
            "approve = \"each\"\nledger_only = true\ntemperature = 0.5\nsandbox_write = [\"~/a\", \"/b\"]\n\n\
             [models.\"local/x\"]\nsize = 12\n"
        );
    }

    #[test]
    fn the_model_is_set_in_the_form_that_the_file_has() {
        assert_eq!(changed("", &[("model", "local/x")]).unwrap(), "model = \"local/x\"\n");
        let table = "[model]\nname = \"phi3\"\n";
        assert_eq!(
            changed(table, &[("model", "openai/gpt")]).unwrap(),
            "[model]\nname = \"gpt\"\nprovider = \"openai\"\n"
        );
    }

    #[test]
    fn programs_of_the_user_are_set() {
        let hooks = "[{ on = 'end', run = ['/bin/log'] }, { on = 'prompt', run = ['x'] }]";
        let after = changed("approve = \"ask\"\n", &[("notify.command", "['ntfy', '-q']"), ("hooks", hooks)])
            .unwrap();
        assert_eq!(check_text(Path::new("x"), &after).unwrap(), Vec::<String>::new(), "{after}");
        assert!(after.contains("[notify]\ncommand = [\"ntfy\", \"-q\"]\n"), "{after}");
        assert_eq!(after.matches("[[hooks]]\n").count(), 2, "{after}");
        let again = changed(&after, &[("hooks", "[{ on = 'end', run = [] }]")]).unwrap();
        assert_eq!(again.matches("[[hooks]]\n").count(), 1, "{again}");
        assert!(check_text(Path::new("x"), &again).unwrap()[0].contains("must name a program"), "{again}");
    }

    #[test]
    fn invalid_changes_are_refused_with_a_hint() {
        for (key, value, words) in [
            ("aprove", "ask", "did you mean `approve`?"),
            ("approve", "perhaps", "must be one of"),
            ("theme", "auto", "the terminal's background decides: `sysop config unset theme`"),
            ("max_iterations", "many", "must be an integer"),
            ("model", "phi3", "PROVIDER/NAME"),
            ("model", "olama/phi3", "did you mean `ollama`?"),
            ("providers.openai.base_url", "localhost", "is not an http"),
            ("notify.timeout_s", "601", "from 1 to 600"),
            ("notify.comand", "[]", "did you mean `notify.command`?"),
            ("hooks", "end", "must be a list of tables"),
            ("hooks", "['end']", "must be a list of tables"),
        ] {
            let error = changed("", &[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(words), "{key} {value}: {error}");
        }
        assert!(matches!(parse_key("a b"), Err(ConfigChangeError::Path(_))));
        assert!(matches!(changed("a = ", &[("approve", "ask")]), Err(ConfigChangeError::Syntax(_))));
        assert!(matches!(
            changed("hosts = 1", &[("hosts.a.user", "b")]),
            Err(ConfigChangeError::NoTable { .. })
        ));
    }

    #[test]
    fn a_secret_is_not_quoted_in_an_error() {
        let error = changed("providers = 1", &[("providers.openai.api_key", "sk-secret")]).unwrap_err();
        assert!(!error.to_string().contains("sk-secret"), "{error}");
    }

    #[test]
    fn a_linked_config_stays_a_link_and_becomes_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("dotfiles.toml"), dir.path().join("config.toml"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        save_config(&link, "approve = \"ask\"\n").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "approve = \"ask\"\n");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
