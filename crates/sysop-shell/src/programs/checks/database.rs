//! Database clients: statements that drop data, and statements that run a command.

use crate::lexer::Word;
use crate::program_call::{ProgramCall, Stdin};
use crate::risk::RiskClass;
use crate::state::State;

/// Assesses the text of statements in the arguments or on standard input.
pub(super) fn check(state: &mut State, call: &ProgramCall<'_>) {
    let mut texts: Vec<&str> = call.arguments().iter().map(Word::text).collect();
    match call.input {
        Stdin::Text { text, .. } => texts.push(text),
        Stdin::Unknown => state.note(call.span, RiskClass::Opaque, "runs statements from standard input"),
        Stdin::Inherited => {}
    }
    for text in texts {
        if matches!(
            text.to_lowercase().as_str(),
            "eval" | "evalsha" | "fcall" | "script" | "module" | "config"
        ) || text.starts_with("--eval")
        {
            state.note(call.span, RiskClass::Opaque, "a database client that makes the server run a program");
        }
        let lower = text.to_lowercase();
        let lower: Vec<&str> =
            lower.split(|c: char| c.is_whitespace() || c == '(').filter(|word| !word.is_empty()).collect();
        if drops(&lower) {
            state.note(call.span, RiskClass::Dangerous, "drops or truncates database tables");
        }
        if [
            "\\!", "\\copy", ".shell", ".system", "system ", "to program", "from program", "load_extension",
            "into outfile",
        ]
        .iter()
        .any(|sign| text.to_lowercase().contains(sign))
        {
            state.note(call.span, RiskClass::Opaque, "a database client that runs a command");
        }
    }
}

fn drops(words: &[&str]) -> bool {
    const KINDS: &[&str] = &[
        "table", "database", "schema", "user", "role", "view", "index", "tablespace", "owned", "keyspace",
        "collection", "function", "trigger", "sequence", "materialized", "extension", "column",
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
