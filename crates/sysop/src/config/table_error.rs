//! Words for errors of tables in a config: the key, and what its value must be, instead of the deserializer's terms.

/// Returns an error of an entry as one sentence that names the key, if it is known.
pub(crate) fn table_error(error: &toml::de::Error) -> String {
    // The keys follow the message, from the outermost to the innermost.
    let text = error.to_string();
    let path = text.lines().last().and_then(|line| line.strip_prefix("in `")?.strip_suffix('`'));
    let key = path.and_then(|path| path.rsplit('.').next());
    let key = key.map_or_else(|| "the value".to_owned(), |key| format!("`{key}`"));
    let message = error.message().lines().collect::<Vec<_>>().join(" ");
    reworded(&message, &key).unwrap_or(message)
}

/// Returns other words for an error of the deserializer, or `None` if its own are plain.
fn reworded(text: &str, key: &str) -> Option<String> {
    let (what, expected) = text.split_once(", expected ").unwrap_or((text, ""));
    if let Some(found) = what.strip_prefix("unknown variant ") {
        let words: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        let found = found.trim_matches('`');
        return Some(format!("{key} is {found:?}, but must be one of {}", words.join(", ")));
    }
    if let Some(found) = what.strip_prefix("unknown field ") {
        return Some(format!("unknown key {found}, expected {expected}"));
    }
    if let Some(name) = what.strip_prefix("missing field ") {
        return Some(format!("{name} is missing"));
    }
    // The deserializer reads an enum from a table, too; the config has only strings.
    if text == "wanted string or table" {
        return Some(format!("{key} must be a string"));
    }
    let is_wrong = what.starts_with("invalid type: ") || what.starts_with("invalid value: ");
    is_wrong.then(|| format!("{key} must be {}", kind(expected)))
}

/// Returns the config's word for a type of the deserializer.
fn kind(expected: &str) -> &str {
    match expected {
        "a sequence" => "a list",
        "a boolean" => "true or false",
        "a map" => "a table",
        "string only" => "a string",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "f32" | "f64" => "a number",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::IntoDeserializer as _;

    use super::table_error;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        Allow,
        Deny,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only errors are examined")]
    struct Entry {
        mode: Mode,
        run: Option<Vec<String>>,
        wait: Option<u64>,
        on: Option<bool>,
    }

    #[test]
    fn an_error_of_a_table_names_the_key_and_what_is_valid() {
        for (text, words) in [
            ("mode = 'bogus'", "`mode` is \"bogus\", but must be one of allow, deny"),
            ("mode = 5", "`mode` must be a string"),
            ("mode = 'deny'\nrun = 'x'", "`run` must be a list"),
            ("mode = 'deny'\nrun = [1]", "`run` must be a string"),
            ("mode = 'deny'\nwait = 'x'", "`wait` must be a whole number from 0"),
            ("mode = 'deny'\nwait = -1", "`wait` must be a whole number from 0"),
            ("mode = 'deny'\non = 1", "`on` must be true or false"),
            ("mode = 'deny'\nmore = 1", "unknown key `more`, expected one of `mode`, `run`, `wait`, `on`"),
            ("run = []", "`mode` is missing"),
        ] {
            let error = toml::from_str::<toml::Table>(text).unwrap().try_into::<Entry>().unwrap_err();
            assert_eq!(table_error(&error), words, "{text}");
            let table = toml::de::DeTable::parse(text).unwrap();
            let error = Entry::deserialize(table.into_deserializer()).unwrap_err();
            assert_eq!(table_error(&error), words, "{text}");
        }
    }
}
