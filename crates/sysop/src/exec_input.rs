//! Input for `sysop exec`: the task, the data on standard input, and the schema for the answer.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;

use sysop_core::message::ModelRef;
use sysop_core::redact::KnownSecrets;
use sysop_repl::exec::{self, AnswerSchema, InputLimits, SCHEMA_BYTES_MAX, StandardInput};

use crate::cli::ExecArguments;
use crate::exit::CommandError;
use crate::global_flags::Verbosity;
use crate::settings::Settings;

/// Task argument for reading the task from standard input.
const FROM_STANDARD_INPUT: &str = "-";

/// Everything needed to start a task.
pub(crate) struct ExecInput {
    /// The task, including the data from standard input and the request for JSON.
    pub(crate) task: String,
    pub(crate) schema: Option<AnswerSchema>,
}

/// Reads the input of a task. Fails if the schema cannot be used, the task is empty, or standard input cannot be read.
pub(crate) fn read(
    settings: &Settings,
    model: &ModelRef,
    arguments: &ExecArguments,
) -> Result<ExecInput, CommandError> {
    let schema = arguments.schema.as_deref().map(read_schema).transpose()?;
    let argument = arguments.task.join(" ");
    let task = exec::task_text(&argument, io::stdin())
        .map_err(|bad| CommandError { exit: bad.exit, message: bad.why })?;
    let task = if argument == FROM_STANDARD_INPUT || io::stdin().is_terminal() {
        task
    } else {
        attach_standard_input(settings, model, task)?
    };
    let task = schema.as_ref().map_or_else(|| task.clone(), |schema| schema.demand(&task));
    Ok(ExecInput { task, schema })
}

fn attach_standard_input(
    settings: &Settings,
    model: &ModelRef,
    task: String,
) -> Result<String, CommandError> {
    let limits = InputLimits::for_window(settings.context_window(model));
    let input = exec::read_standard_input(io::stdin(), limits)
        .map_err(|error| CommandError::usage(format!("cannot read standard input: {error}")))?;
    match input {
        StandardInput::Empty => Ok(task),
        StandardInput::Silent => {
            if settings.verbosity != Verbosity::Quiet {
                crate::tell(
                    "note: standard input is open but sent nothing within 1 s; continuing without it",
                );
            }
            Ok(task)
        }
        StandardInput::Data { bytes, end } => {
            let note = exec::truncation_note(bytes.len(), end);
            if let Some(note) = note.filter(|_| settings.verbosity != Verbosity::Quiet) {
                crate::tell(&format!("note: {note}"));
            }
            let secrets = KnownSecrets::new(settings.secrets());
            Ok(exec::attach(&task, &bytes, end, &secrets))
        }
    }
}

fn read_schema(path: &Path) -> Result<AnswerSchema, CommandError> {
    let wrong = |why: String| {
        CommandError::usage(format!(
            "cannot use the schema {}: {why}; pass a JSON Schema file",
            path.display()
        ))
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(SCHEMA_BYTES_MAX as u64 + 1).read_to_string(&mut text))
        .map_err(|error| wrong(error.to_string()))?;
    AnswerSchema::parse(&text).map_err(wrong)
}
