//! Adds and removes `[mcp.NAME]` in the user's config file, preserving the rest of the file.
//!
//! Each edit is checked: the file must be valid before and after, and must differ only in the server.
//! Otherwise, nothing is written.

use std::path::Path;

use toml::Table;

use crate::config::{create_private_folder, display_path, replace_private_file};

/// Adds tables to the file. `tables` is TOML whose only table is `mcp`. Fails with one sentence if the file
/// cannot be read, parsed or written, or already contains one of the servers.
pub(super) fn add(file: &Path, tables: &str) -> Result<(), String> {
    let text = read(file)?;
    let before = parse(file, &text)?;
    let fresh: Table = tables.parse().map_err(|error| format!("invalid entry: {error}"))?;
    let mut expected = before.clone();
    let servers = expected.entry("mcp").or_insert_with(|| Table::new().into());
    let servers = servers.as_table_mut().ok_or("`mcp` is not a table")?;
    let added = fresh.get("mcp").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    for (name, table) in added {
        if servers.contains_key(&name) {
            return Err(format!("{} already has the MCP server {name}", display_path(file)));
        }
        servers.insert(name, table);
    }
    let gap = match text.as_str() {
        "" => "",
        text if text.ends_with("\n\n") => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    write(file, &format!("{text}{gap}{tables}"), &expected)
}

/// Removes a server from the file. Fails with one sentence if the file cannot be read, parsed or written, or
/// does not contain the server in a form that can be removed.
pub(super) fn remove(file: &Path, name: &str) -> Result<(), String> {
    let text = read(file)?;
    let mut expected = parse(file, &text)?;
    let servers = expected.get_mut("mcp").and_then(toml::Value::as_table_mut);
    let removed = servers.and_then(|servers| servers.remove(name));
    if removed.is_none() {
        return Err(format!("{} has no MCP server {name}", display_path(file)));
    }
    if expected.get("mcp").and_then(toml::Value::as_table).is_some_and(Table::is_empty) {
        expected.remove("mcp");
    }
    write(file, &without_tables(&text, name), &expected)
}

/// Returns the text without the lines of the tables `[mcp.NAME]` and `[mcp.NAME.…]`.
fn without_tables(text: &str, name: &str) -> String {
    let mut kept = String::new();
    let mut is_inside = false;
    for line in text.split_inclusive('\n') {
        if let Some(header) = header(line) {
            is_inside = header.first().is_some_and(|first| first == "mcp")
                && header.get(1).is_some_and(|second| second == name);
        }
        if !is_inside {
            kept.push_str(line);
        }
    }
    kept
}

/// Returns the names in a table header, or `None` if the line is not a header.
fn header(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    let inside = line.strip_prefix('[')?;
    // Parsing only the header finds its names, however they are quoted.
    let end = inside.rfind(']')?;
    let table: Table = format!("[{}]", inside[..end].trim_matches(['[', ']'])).parse().ok()?;
    let mut names = Vec::new();
    let mut at = &table;
    while let Some((name, value)) = at.iter().next() {
        names.push(name.clone());
        at = value.as_table()?;
    }
    Some(names)
}

fn read(file: &Path) -> Result<String, String> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(format!("cannot read {}: {error}", display_path(file))),
    }
}

fn parse(file: &Path, text: &str) -> Result<Table, String> {
    let reason = |error: toml::de::Error| error.message().to_owned();
    text.parse().map_err(|error| format!("{} is not valid TOML: {}", display_path(file), reason(error)))
}

fn write(file: &Path, text: &str, expected: &Table) -> Result<(), String> {
    let is_expected = text.parse::<Table>().is_ok_and(|written| written == *expected);
    if !is_expected {
        return Err(format!(
            "sysop cannot edit {} in its current form; edit it yourself",
            display_path(file)
        ));
    }
    let failed = |error| format!("cannot write {}: {error}", display_path(file));
    if let Some(folder) = file.parent() {
        create_private_folder(folder).map_err(failed)?;
    }
    replace_private_file(file, text.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::{add, remove};

    fn edited(
        text: &str,
        edit: impl Fn(&std::path::Path) -> Result<(), String>,
    ) -> (Result<(), String>, String) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sysop/config.toml");
        std::fs::create_dir(folder.path().join("sysop")).unwrap();
        std::fs::write(&file, text).unwrap();
        let done = edit(&file);
        (done, std::fs::read_to_string(&file).unwrap())
    }

    const OTHERS: &str = "# mine\nmodel = 'demo/demo'\n\n[mcp.other]\ncommand = 'x' # keep\n";

    #[test]
    fn an_added_server_can_be_removed_without_a_trace() {
        let entry = "[mcp.\"a-b\"]\ncommand = \"uvx\"\n\n[mcp.\"a-b\".env]\nA = \"1\"\n";
        let (done, text) = edited(OTHERS, |file| add(file, entry));
        assert_eq!((done, text.as_str()), (Ok(()), format!("{OTHERS}\n{entry}").as_str()));
        let (done, text) = edited(&text, |file| remove(file, "a-b"));
        assert_eq!((done, text.trim_end()), (Ok(()), OTHERS.trim_end()));
        let (done, text) = edited(OTHERS, |file| remove(file, "other"));
        assert_eq!((done, text.as_str()), (Ok(()), "# mine\nmodel = 'demo/demo'\n\n"));
    }

    #[test]
    fn an_edit_that_would_change_anything_else_is_refused() {
        for (text, name) in [
            ("mcp = { a = { command = 'x' } }\n", "a"),
            ("[mcp]\na.command = 'x'\n", "a"),
            ("x = '''\n[mcp.a]\n'''\n[mcp.a]\ncommand = 'x'\n", "a"),
            ("[mcp.b]\ncommand = 'x'\n", "a"),
            ("not toml", "a"),
        ] {
            let (done, after) = edited(text, |file| remove(file, name));
            assert!(done.is_err() && after == text, "{text:?}: {done:?}");
        }
        let (done, after) = edited(OTHERS, |file| add(file, "[mcp.other]\ncommand = 'y'\n"));
        assert!(done.unwrap_err().contains("already has") && after == OTHERS);
    }
}
