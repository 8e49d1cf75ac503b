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
    let after_verb: Vec<&str> =
        words.iter().map(String::as_str).skip_while(|word| *word != verb).skip(1).collect();
    let operands = || names(after_verb.iter().copied().filter(|word| !word.starts_with('-')));
    let line = match (command.program.as_str(), verb) {
        (
            "pip" | "pip3" | "npm" | "pnpm" | "yarn" | "gem" | "cargo" | "go" | "pipx" | "composer",
            "install" | "i" | "add" | "ci" | "update" | "upgrade",
        ) => {
            let packages = match command.program.as_str() {
                "pip" | "pip3" => pip_packages(&after_verb),
                _ => operands(),
            };
            let packages = if packages.is_empty() { packages } else { format!(" ({packages})") };
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
    let statements = words.iter().find(|word| word.contains(' '))?;
    let text = statements.to_ascii_uppercase();
    let changes = ["UPDATE ", "DELETE ", "DROP ", "TRUNCATE ", "ALTER ", "INSERT "]
        .iter()
        .any(|verb| text.contains(verb));
    let all = (text.contains("UPDATE ") || text.contains("DELETE ")) && !text.contains(" WHERE ");
    let unbounded = if all { "UPDATE or DELETE without WHERE: all rows; " } else { "" };
    let tables = tables(statements);
    let tables = if tables.is_empty() { tables } else { format!("changes {tables}: ") };
    changes.then(|| {
        format!("{tables}{unbounded}the number of rows cannot be computed without running the statement")
    })
}

/// Words between the verb of an SQL statement and the first object that it changes, apart from the kind of the object.
const SQL_MODIFIERS: &[&str] = &[
    "CONCURRENTLY", "DELAYED", "EXISTS", "FROM", "HIGH_PRIORITY", "IF", "IGNORE", "INTO", "LOW_PRIORITY",
    "ONLY", "QUICK",
];

/// Words before the kind of an object: `DROP MATERIALIZED VIEW v`.
const SQL_KIND_MODIFIERS: &[&str] = &["FOREIGN", "MATERIALIZED", "TEMPORARY", "UNIQUE"];

/// Names the tables and other objects that SQL statements change.
fn tables(statements: &str) -> String {
    let mut found: Vec<String> = Vec::new();
    for statement in statements.split(';') {
        for object in changed_objects(statement) {
            if !found.contains(&object) {
                found.push(object);
            }
        }
    }
    names(found.iter().map(String::as_str))
}

/// Returns the objects that one SQL statement changes: a name, or a list of names with commas between them.
fn changed_objects(statement: &str) -> Vec<String> {
    let spaced = statement.replace(',', " , ").replace('(', " ( ");
    let mut words = spaced.split_whitespace().peekable();
    let is_one_of = |word: &str, known: &[&str]| known.iter().any(|known| word.eq_ignore_ascii_case(known));
    match words.next().unwrap_or("").to_ascii_uppercase().as_str() {
        "UPDATE" | "INSERT" | "DELETE" => {
            // `INSERT OR REPLACE INTO t`
            if words.next_if(|word| word.eq_ignore_ascii_case("OR")).is_some() {
                words.next();
            }
        }
        "TRUNCATE" => {
            words.next_if(|word| word.eq_ignore_ascii_case("TABLE"));
        }
        "DROP" | "ALTER" => {
            while words.next_if(|word| is_one_of(word, SQL_KIND_MODIFIERS)).is_some() {}
            words.next();
        }
        _ => return Vec::new(),
    }
    let mut objects = Vec::new();
    loop {
        while words.next_if(|word| is_one_of(word, SQL_MODIFIERS)).is_some() {}
        let Some(object) = words.next_if(|word| !matches!(*word, "," | "(")) else { return objects };
        let object = object.trim_matches(['"', '`']);
        if !object.is_empty() {
            objects.push(object.to_owned());
        }
        // PostgreSQL: `TRUNCATE a *, b *`
        words.next_if_eq(&"*");
        if words.next_if_eq(&",").is_none() {
            return objects;
        }
    }
}

/// Options of `pip install` whose value is neither a package nor a file that lists packages.
const PIP_VALUED: &[&str] = &[
    "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-t", "--target",
    "--prefix", "--root", "--src", "--python", "--proxy", "--trusted-host", "--cache-dir",
];

/// Names the packages after `pip install`, and the files that list packages.
fn pip_packages(words: &[&str]) -> String {
    let (mut packages, mut lists) = (Vec::new(), Vec::new());
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let attached = word.strip_prefix("--requirement=");
        let attached = attached.or_else(|| word.strip_prefix("-r").filter(|list| !list.is_empty()));
        if matches!(word, "-r" | "--requirement") {
            lists.extend(words.next());
        } else if let Some(list) = attached {
            lists.push(list);
        } else if PIP_VALUED.contains(&word) {
            words.next();
        } else if !word.starts_with('-') {
            packages.push(word);
        }
    }
    let lists =
        if lists.is_empty() { String::new() } else { format!("listed in {}", names(lists.into_iter())) };
    let parts = [names(packages.into_iter()), lists];
    parts.iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join("; ")
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
