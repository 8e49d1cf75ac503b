//! Remote shells, databases, downloads, build tools: what hands text or control to something else.

use super::{any_word, danger, nth, opaque, write_target};
use crate::lexer::Word;
use crate::options::{StopPoint, has_option, options_of, parse, values_of};
use crate::program_call::{ProgramCall, Stdin};
use crate::read_only::is_read_only;
use crate::state::State;

pub(super) fn check(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let arguments = call.arguments();
    match name {
        "ssh" | "mosh" | "rsh" | "slogin" | "autossh" | "dbclient" => ssh(state, call),
        "sftp" | "ftp" | "lftp" | "telnet" => opaque(state, call, "works on another machine"),
        "psql" | "mysql" | "mariadb" | "sqlite3" | "sqlite" | "sqlcmd" | "mongosh" | "mongo"
        | "redis-cli" | "valkey-cli" | "clickhouse-client" | "cqlsh" | "influx" | "duckdb" => {
            database(state, call)
        }
        "dropdb" | "dropuser" => danger(state, call, "drops a database or a role"),
        "mysqladmin" if any_word(arguments, &["drop", "shutdown", "password", "flush-privileges"]) => {
            danger(state, call, "drops or stops a database")
        }
        "pg_restore" if has_option(arguments, "c", &["clean"]) => {
            danger(state, call, "drops before it restores")
        }
        "curl" | "wget" | "aria2c" => download(state, call),
        "nc" | "ncat" | "netcat" | "socat"
            if has_option(arguments, "ec", &["exec", "sh-exec", "lua-exec"])
                || has_text(arguments, &["EXEC:", "SYSTEM:", "exec:", "system:"]) =>
        {
            opaque(state, call, "connects a program to the network");
        }
        "npx" | "uvx" | "bunx" | "pipx" | "dlx" => opaque(state, call, "downloads a program and runs it"),
        "npm" | "pnpm" | "yarn" if matches!(nth(arguments, 0), "exec" | "x" | "dlx" | "explore") => {
            opaque(state, call, "downloads a program and runs it")
        }
        "make" | "gmake" | "ninja"
            if has_option(arguments, "", &["eval"])
                || has_text(arguments, &["SHELL="])
                || any_word(arguments, &["-f-", "-"]) =>
        {
            opaque(state, call, "a build with rules given on the way");
        }
        "cargo"
            if has_option(arguments, "", &["config"])
                || arguments.first().is_some_and(|word| word.text().starts_with('+')) =>
        {
            opaque(state, call, "sets configuration, which may name programs to run");
        }
        "go" if has_text(arguments, &["-exec", "-toolexec", "-vettool"]) => {
            opaque(state, call, "names a program to run")
        }
        "rg" if has_option(arguments, "z", &["pre", "hostname-bin", "search-zip"]) => {
            opaque(state, call, "runs a program on what it reads")
        }
        "entr" | "run-parts" | "logrotate" | "anacron" | "incrond" => {
            opaque(state, call, "runs programs that are named elsewhere");
        }
        "tmux" | "screen" | "zellij" | "byobu" if !is_read_only(name, call.words, false) => {
            opaque(state, call, "types into another terminal, or runs commands in it");
            last_text(state, call);
        }
        "ansible" | "ansible-playbook" | "salt" | "pssh" | "parallel-ssh" | "pdsh" | "clush" | "dsh"
        | "fab" => {
            opaque(state, call, "runs commands on other machines");
            last_text(state, call);
        }
        "xdotool" | "ydotool" => opaque(state, call, "types into other programs"),
        "openssl" if has_text(arguments, &["-engine", "-provider-path"]) => opaque(state, call, "loads code"),
        "ssh-keygen" if has_option(arguments, "D", &[]) => opaque(state, call, "loads code"),
        "ssh-copy-id" => danger(state, call, "changes who may log in"),
        _ => {}
    }
}

fn has_text(arguments: &[Word], texts: &[&str]) -> bool {
    arguments.iter().any(|word| texts.iter().any(|text| word.text().starts_with(text)))
}

/// The last word may be a command in text.
fn last_text(state: &mut State, call: &ProgramCall<'_>) {
    if let Some(text) = call.arguments().iter().rev().find(|word| word.text().contains(' ')) {
        call.run_joined(state, std::slice::from_ref(text), Stdin::Inherited);
    }
}

/// What runs on the other machine is read as a shell there would, but its aliases and programs are unknown.
fn ssh(state: &mut State, call: &ProgramCall<'_>) {
    let arguments = call.arguments();
    opaque(state, call, "works on another machine");
    let list = "-46AaCfGgKkMNnqsTtVvXxYy -BbcDEeFIiJLlmOopPQRSWw:";
    match parse(list, arguments, StopPoint::FirstOperand) {
        Some(parsed) => {
            let behind = arguments.get(parsed.first_operand + 1..).unwrap_or(&[]);
            let late = parse(list, behind, StopPoint::FirstOperand);
            let inner = late.as_ref().and_then(|late| behind.get(late.first_operand..)).unwrap_or(behind);
            let late = late.map_or(Vec::new(), |late| late.options);
            let settings = parsed
                .options
                .iter()
                .chain(&late)
                .filter(|(name, _)| *name == "o")
                .filter_map(|(_, value)| *value);
            for setting in settings {
                let lower = setting.to_lowercase();
                let harmless = [
                    "batchmode",
                    "connecttimeout",
                    "port",
                    "user",
                    "loglevel",
                    "serveraliveinterval",
                    "connectionattempts",
                ];
                if !harmless.iter().any(|name| lower.starts_with(name)) {
                    opaque(state, call, "an ssh setting that may run a program");
                }
            }
            if inner.is_empty() {
                if let Stdin::Text { text, span } = call.input {
                    call.run_text(state, text, *span, Stdin::Inherited);
                }
            } else {
                call.run_joined(state, inner, Stdin::Unknown);
            }
        }
        None => last_text(state, call),
    }
}

fn database(state: &mut State, call: &ProgramCall<'_>) {
    let mut texts: Vec<&str> = call.arguments().iter().map(Word::text).collect();
    if let Stdin::Text { text, .. } = call.input {
        texts.push(text);
    }
    for text in texts {
        let lower = text.to_lowercase();
        let lower: Vec<&str> =
            lower.split(|c: char| c.is_whitespace() || c == '(').filter(|word| !word.is_empty()).collect();
        if drops(&lower) {
            danger(state, call, "drops or empties what a database holds");
        }
        if [
            "\\!",
            "\\copy",
            ".shell",
            ".system",
            "system ",
            "to program",
            "from program",
            "load_extension",
            "into outfile",
        ]
        .iter()
        .any(|sign| text.to_lowercase().contains(sign))
        {
            opaque(state, call, "a database client that runs a command");
        }
    }
}

fn drops(words: &[&str]) -> bool {
    const KINDS: &[&str] = &[
        "table",
        "database",
        "schema",
        "user",
        "role",
        "view",
        "index",
        "tablespace",
        "owned",
        "keyspace",
        "collection",
        "function",
        "trigger",
        "sequence",
        "materialized",
        "extension",
        "column",
    ];
    words.iter().enumerate().any(|(index, word)| {
        let next = words.get(index + 1).copied().unwrap_or("");
        let word = word.trim_start_matches(['"', '\'', ';']);
        match word {
            "drop" => KINDS.contains(&next),
            "truncate" => !next.is_empty(),
            "delete" => next == "from" && !words.get(index..).unwrap_or(&[]).contains(&"where"),
            "flushall" | "flushdb" => true,
            "shutdown" => index == 0,
            _ => word.contains("dropdatabase") || word.contains(".drop") || word.contains("deletemany"),
        }
    })
}

fn download(state: &mut State, call: &ProgramCall<'_>) {
    let arguments = call.arguments();
    let is_curl = call.words.first().is_some_and(|word| word.text().ends_with("curl"));
    let mut targets = values_of(
        arguments,
        if is_curl { 'o' } else { 'O' },
        if is_curl { "output" } else { "output-document" },
    );
    targets.extend(values_of(
        arguments,
        if is_curl { '\u{1}' } else { 'P' },
        if is_curl { "output-dir" } else { "directory-prefix" },
    ));
    for target in targets.iter().filter(|target| **target != "-") {
        write_target(state, target, call.span);
    }
    let uploads = options_of(arguments).any(|text| {
        let long = ["--upload-file", "--post-file", "--body-file"].iter().any(|name| text.starts_with(name));
        long || (is_curl && text.starts_with("-T"))
    });
    let sends_file = arguments.windows(2).any(|pair| match pair {
        [option, value] => {
            (option.text().starts_with("-d")
                || option.text().starts_with("-F")
                || option.text().starts_with("--data")
                || option.text() == "--form")
                && (value.text().starts_with('@') || value.text().contains("=@"))
        }
        _ => false,
    });
    if uploads || sends_file {
        opaque(state, call, "sends a file away");
    }
    if has_option(arguments, if is_curl { "K" } else { "e" }, &["config", "use-askpass", "execute"]) {
        opaque(state, call, "reads settings that may name files or programs");
    }
}
