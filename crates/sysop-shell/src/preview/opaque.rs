//! Commands whose effect cannot be computed without running code: the sentence to show instead.

use super::Planned;
use super::effective::EffectiveCommand;
use super::report::{name, names};
use super::scan::Word;

/// Returns the sentence for a command whose effect depends on code or data that a probe cannot evaluate, or `None` for
/// any other command.
pub(super) fn planned(command: &EffectiveCommand) -> Option<Planned> {
    let words: Vec<String> = command.arguments.iter().filter_map(Word::literal).collect();
    let verb = words.iter().find(|word| !word.starts_with('-')).map_or("", String::as_str);
    let has =
        |option: &str| words.iter().any(|word| word == option || word.starts_with(&format!("{option}=")));
    let operands = || {
        let after = words.iter().skip_while(|word| *word != verb).skip(1);
        let all: Vec<&str> = after.map(String::as_str).filter(|word| !word.starts_with('-')).collect();
        names(all.into_iter())
    };
    let line = match (command.program.as_str(), verb) {
        (
            "pip" | "pip3" | "npm" | "pnpm" | "yarn" | "gem" | "cargo" | "go" | "pipx" | "composer",
            "install" | "i" | "add" | "ci" | "update" | "upgrade",
        ) => {
            let packages = Some(operands()).filter(|packages| !packages.is_empty());
            let packages = packages.map_or_else(String::new, |packages| format!(" ({packages})"));
            format!("downloads packages{packages} and may run their code; the effect cannot be computed")
        }
        ("npm" | "pnpm" | "yarn" | "bun", "run" | "start" | "test")
        | ("make" | "gmake" | "just" | "rake" | "ninja", _) => {
            let words = [command.program.clone(), name(verb), operands()];
            let task: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
            format!("{} runs commands from a file; the effect cannot be computed", task.join(" "))
        }
        ("terraform" | "tofu", "apply" | "destroy") => {
            "the effect is known only from a saved plan: run `terraform plan -out FILE` first".to_owned()
        }
        ("ansible-playbook", _) => {
            "the effects of shell tasks cannot be computed; run with `--check --diff` to see the other tasks"
                .to_owned()
        }
        ("psql" | "mysql" | "mariadb" | "sqlite3", _) => sql(&words)?,
        ("perl" | "ruby", _)
            if words
                .iter()
                .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('i')) =>
        {
            format!("{} edits files with a program; the change cannot be computed", command.program)
        }
        ("gawk" | "awk", _) if has("-i") => {
            "awk edits files with a program; the change cannot be computed".to_owned()
        }
        ("ed" | "ex", _) => {
            format!("{} edits a file with a script; the change cannot be computed", command.program)
        }
        ("aws" | "gcloud" | "az" | "helm", _) => {
            "changes in a cloud or a cluster cannot be computed".to_owned()
        }
        _ => return None,
    };
    Some(Planned::Line(line))
}

fn sql(words: &[String]) -> Option<String> {
    let text = words.iter().map(|word| word.to_ascii_uppercase()).find(|word| word.contains(' '))?;
    let changes = ["UPDATE ", "DELETE ", "DROP ", "TRUNCATE ", "ALTER ", "INSERT "]
        .iter()
        .any(|verb| text.contains(verb));
    let all = (text.contains("UPDATE ") || text.contains("DELETE ")) && !text.contains(" WHERE ");
    let unbounded = if all { "UPDATE or DELETE without WHERE: all rows; " } else { "" };
    let tables = tables(words.iter().find(|word| word.contains(' '))?);
    let tables = if tables.is_empty() { tables } else { format!("changes {tables}: ") };
    changes.then(|| {
        format!("{tables}{unbounded}the number of rows cannot be computed without running the statement")
    })
}

/// Names the tables and other objects that SQL statements change.
fn tables(statements: &str) -> String {
    let mut found: Vec<&str> = Vec::new();
    for statement in statements.split(';') {
        let words: Vec<&str> = statement.split_whitespace().collect();
        let at = |at: usize| words.get(at).map_or_else(String::new, |word| word.to_ascii_uppercase());
        let named = match at(0).as_str() {
            "UPDATE" => 1,
            "DELETE" | "INSERT" => 2,
            "TRUNCATE" if at(1) != "TABLE" => 1,
            "DROP" | "ALTER" if at(2) == "IF" => 4,
            "DROP" | "ALTER" | "TRUNCATE" => 2,
            _ => continue,
        };
        let object = words.get(named).map(|word| word.split('(').next().unwrap_or(word));
        let object = object.map(|word| word.trim_matches(['"', '`', ',']));
        found.extend(object.filter(|object| !object.is_empty() && !found.contains(object)));
    }
    names(found.into_iter())
}

/// Returns the line for a pipeline that runs a downloaded program.
pub(super) fn piped(commands: &[EffectiveCommand]) -> Option<String> {
    let shells = ["sh", "bash", "dash", "zsh", "python", "python3", "perl", "ruby", "node"];
    let at = commands.iter().position(|command| shells.contains(&command.program.as_str()))?;
    let source = commands
        .get(..at)?
        .iter()
        .find(|command| matches!(command.program.as_str(), "curl" | "wget" | "fetch"))?;
    let words = source.arguments.iter().filter_map(Word::literal);
    let host =
        words.filter_map(|word| Some(word.split_once("://")?.1.split(['/', '?']).next()?.to_owned())).next();
    let host =
        host.map_or_else(|| "the network".to_owned(), |host| name(host.rsplit('@').next().unwrap_or(&host)));
    Some(format!("runs an unknown program from {host}; download it, read it, then run that file"))
}

/// Returns true if a command that cannot be parsed contains the name of a program that previews support.
pub(super) fn is_known(command: &str) -> bool {
    let words = command.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    let mut words = words.filter(|word| !word.is_empty());
    words.any(super::is_known)
}
