//! Commands run on the remote machine, and the meaning of their exit codes and errors.
//!
//! Each is one line for a POSIX `sh` without `!`, so any login shell passes it on unchanged. A model's name is checked
//! before it becomes part of a command.

use sysop_core::message::{FailureKind, ModelFailure};

use crate::ollama::errors;

/// Exit code of a shell that does not find a command.
const NOT_FOUND: i32 = 127;
const NAME_BYTES_MAX: usize = 256;
/// Maximum characters quoted from the program in a message.
const QUOTE_CHARS_MAX: usize = 300;
/// Extends `PATH`: a non-login shell often lacks the folder where Ollama is installed.
const FIND: &str = "PATH=\"$PATH:/usr/local/bin:/opt/homebrew/bin:$HOME/.local/bin\"; export PATH; \
    command -v ollama >/dev/null 2>&1 || exit 127; ";

#[derive(Debug, Clone, Copy)]
pub(super) struct OllamaRunCommand<'a> {
    pub(super) model: &'a str,
    /// `OLLAMA_HOST`, if it overrides the remote machine's own.
    pub(super) address: Option<&'a str>,
    /// JSON schema that constrains the reply, if any.
    pub(super) schema: Option<&'a str>,
    /// Time the model stays loaded, as written in the config.
    pub(super) keep_alive: Option<&'a str>,
}

impl OllamaRunCommand<'_> {
    /// Returns the command, which reads the prompt from standard input.
    ///
    /// `ollama show` runs first, because `ollama run` would download a missing model, gigabytes of data, without
    /// asking. Flags are used only if this version supports them, and a schema only if the version can hide thoughts
    /// (0.9).
    pub(super) fn command(&self) -> String {
        let model = shell_quote(self.model);
        let mut command = format!("{FIND}{}", export_ollama_host(self.address));
        command.push_str(&format!("ollama show --modelfile {model} >/dev/null </dev/null || exit; "));
        command.push_str("flags=$(ollama run --help 2>&1 </dev/null); set --; ");
        let mut when = |known: &str, flags: &str| {
            command.push_str(&format!("case $flags in *{known}*) set -- \"$@\" {flags} ;; esac; "));
        };
        when("--nowordwrap", "--nowordwrap");
        when("--verbose", "--verbose");
        when("--hidethinking", "--hidethinking");
        when("--think", "--think=false");
        if let Some(duration) = self.keep_alive.and_then(duration) {
            when("--keepalive", &format!("--keepalive {}", shell_quote(&duration)));
        }
        if let Some(schema) = self.schema {
            command.push_str(&format!(
                "case $flags in *--hidethinking*) set -- \"$@\" --format {} ;; *--format*) set -- \"$@\" --format json ;; esac; ",
                shell_quote(schema)
            ));
        }
        command.push_str(&format!("exec ollama run \"$@\" {model}"));
        command
    }
}

/// Returns the command that lists the models, which also proves that Ollama runs.
pub(super) fn list(address: Option<&str>) -> String {
    format!("{FIND}{}exec ollama list </dev/null", export_ollama_host(address))
}

fn export_ollama_host(address: Option<&str>) -> String {
    address
        .map(|address| format!("OLLAMA_HOST={}; export OLLAMA_HOST; ", shell_quote(address)))
        .unwrap_or_default()
}

/// Parses the names in the table printed by `ollama list`.
pub(super) fn parse_model_list(table: &str) -> Vec<String> {
    let names = table.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "NAME").map(str::to_owned).collect()
}

/// Accepts the characters that Ollama allows in names, and nothing that a program could take for a flag.
///
/// # Errors
/// The name is not usable as a model name.
pub(super) fn check_model_name(name: &str) -> Result<(), ModelFailure> {
    let is_fit =
        |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '.' | '_' | '-' | '/' | ':' | '@');
    let begins_well = name.chars().next().is_some_and(|first| first.is_ascii_alphanumeric() || first == '_');
    if begins_well && name.len() <= NAME_BYTES_MAX && name.chars().all(is_fit) {
        return Ok(());
    }
    let name: String = name.chars().take(80).collect();
    let message = format!("invalid Ollama model {name:?}; use a name like ollama+ssh/phi3:mini");
    Err(ModelFailure { kind: FailureKind::UnknownModel, message })
}

fn shell_quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Converts a duration to the syntax of `ollama run`; a bare number means seconds.
fn duration(text: &str) -> Option<String> {
    let text = text.trim();
    if text.parse::<i64>().is_ok() {
        return Some(format!("{text}s"));
    }
    let is_fit =
        !text.is_empty() && text.chars().all(|sign| sign.is_ascii_alphanumeric() || "+-.".contains(sign));
    is_fit.then(|| text.to_owned())
}

/// Returns the failure for a program that ended badly. `errors` is its standard error without terminal noise.
pub(super) fn failure(program: &str, model: &str, code: Option<i32>, errors: &str) -> ModelFailure {
    let words = error_line(errors);
    let lower = words.to_ascii_lowercase();
    let fail = |kind, message| ModelFailure { kind, message };
    if code == Some(NOT_FOUND) {
        let message = "`ollama` not found on the remote host; install it there (https://ollama.com/download), or \
         choose another model with --model";
        return fail(FailureKind::Unreachable, message.to_owned());
    }
    if lower.contains("could not connect") || lower.contains("connection refused") {
        let message = "Ollama is not running on the remote host; start it there with `ollama serve`, or check \
         OLLAMA_HOST there";
        return fail(FailureKind::Unreachable, message.to_owned());
    }
    if lower.contains("not found") && lower.contains("model") {
        let message =
            format!("no model {model} in Ollama on the remote host; run `ollama pull {model}` there");
        return fail(FailureKind::UnknownModel, message);
    }
    if errors::is_out_of_memory(&lower) {
        let message =
            format!("the remote machine is too small for {model} ({words}); choose a smaller model");
        return fail(FailureKind::BadRequest, message);
    }
    if errors::is_overflow(&lower) {
        let message = format!(
            "the prompt does not fit the window ({words}); say how large it is with num_ctx of \
             [providers.ollama+ssh], or begin a new chat"
        );
        return fail(FailureKind::ContextOverflow, message);
    }
    let how = match code {
        Some(code) => format!("with exit code {code}"),
        None => "by a signal".to_owned(),
    };
    let said = if words.is_empty() { String::new() } else { format!(": {words}") };
    let (kind, _) = errors::classify_message(&words);
    let message = format!("`{program}` on the remote machine ended {how}{said}; look at Ollama's log there");
    fail(kind, message)
}

/// Returns the error in a program's output as one line: the text after `Error:`, or else the last line.
fn error_line(errors: &str) -> String {
    let lines = || errors.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().rev().find_map(|line| Some(line.split_once("Error:")?.1.trim()));
    error.or_else(|| lines().next_back()).unwrap_or_default().chars().take(QUOTE_CHARS_MAX).collect()
}

/// Parses the token counts of prompt and reply from the statistics that `--verbose` prints.
pub(super) fn token_counts(errors: &str) -> (u64, u64) {
    let count = |name: &str| {
        let lines = errors.lines().filter_map(|line| line.trim().strip_prefix(name));
        lines.filter_map(|rest| rest.split_whitespace().next()?.parse().ok()).next_back().unwrap_or(0)
    };
    (count("prompt eval count:"), count("eval count:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_models_get_into_a_command() {
        for name in ["phi3", "phi3:mini", "hf.co/bartowski/Qwen_2.5-GGUF:Q4_K_M", "me/x@sha256:ab"] {
            check_model_name(name).unwrap();
        }
        for name in ["", "-rf", "--help", "a b", "a;id", "a'b", "$(id)", "a\nb", "é", "a!b", &"a".repeat(300)]
        {
            let failure = check_model_name(name).unwrap_err();
            assert_eq!(failure.kind, FailureKind::UnknownModel, "{name}");
            assert!(!failure.message.contains('\n'), "{}", failure.message);
        }
    }

    #[test]
    fn a_command_is_one_line_that_every_shell_hands_on() {
        let run = OllamaRunCommand {
            model: "phi3",
            address: Some("http://me'n:1"),
            schema: Some("{\"a\":\"it's\"}"),
            keep_alive: Some("300"),
        };
        let command = run.command();
        assert!(!command.contains('\n') && !command.contains('!'), "{command}");
        assert!(command.contains(r"OLLAMA_HOST='http://me'\''n:1'"), "{command}");
        assert!(command.contains(r#"--format '{"a":"it'\''s"}'"#), "{command}");
        assert!(command.contains("--keepalive '300s'"), "{command}");
    }

    #[test]
    fn durations_are_written_as_go_reads_them() {
        for (text, written) in [
            ("5m", Some("5m")),
            (" -1 ", Some("-1s")),
            ("0", Some("0s")),
            ("1h30m", Some("1h30m")),
            ("a b", None),
            ("", None),
        ] {
            assert_eq!(duration(text).as_deref(), written, "{text}");
        }
    }

    #[test]
    fn counts_are_read_from_the_statistics() {
        let errors = "total duration:       1.2s\nprompt eval count:    26 token(s)\n\
            prompt eval duration: 1ms\neval count:           298 token(s)\neval rate: 9 tokens/s\n";
        assert_eq!(token_counts(errors), (26, 298));
        assert_eq!(token_counts("Error: x"), (0, 0));
    }

    #[test]
    fn a_list_is_read_without_its_head() {
        let table = "NAME             ID              SIZE      MODIFIED    \nphi3:latest      4f2222927938    2.2 GB    5 weeks ago\n\
            qwen3:8b  500a1f067a9f  5.2 GB  2 days ago\n";
        assert_eq!(parse_model_list(table), ["phi3:latest", "qwen3:8b"]);
        assert_eq!(parse_model_list(""), [""; 0]);
    }
}
