//! Programs that connect to other machines.

use crate::context::Access;
use crate::lexer::Word;
use crate::options::{Reading, StopPoint, parse};
use crate::program_call::{ProgramCall, Stdin};
use crate::risk::RiskClass;
use crate::state::State;
use crate::targets;

/// Notes an address that contains a command, as in `ext::sh -c …`.
pub(super) fn address(state: &mut State, call: &ProgramCall<'_>, arguments: &[Word]) {
    if arguments.iter().any(|word| word.text().contains("ext::") || word.text().contains("fd::")) {
        state.note(call.span, RiskClass::Opaque, "an address that specifies a program to run");
    }
}

/// Assesses a program that may send its standard input to a server. `wget` also writes a file named after the URL.
pub(super) fn sender(state: &mut State, call: &ProgramCall<'_>, reading: &Reading<'_, '_>) {
    let names = ["O", "output-document", "spider", "P", "directory-prefix"];
    let is_wget = call.words.first().is_some_and(|word| word.text().ends_with("wget"));
    for word in reading.operands.iter().filter(|_| is_wget && !names.iter().any(|name| reading.has(name))) {
        let path = word.text().split(['?', '#']).next().unwrap_or("");
        let name = path
            .split_once("://")
            .map_or(path, |(_, rest)| rest)
            .rsplit_once('/')
            .map_or("", |(_, name)| name);
        let shape = if name.is_empty() { "index.html" } else { name }.to_owned();
        targets::use_path(state, call.span_of(word), &Word { shape, ..(*word).clone() }, Access::Write);
    }
    if *call.input != Stdin::Inherited {
        state.note(call.span, RiskClass::Opaque, "sends standard input to another host");
    }
}

/// Assesses `ssh`. The remote command is analyzed like a command for a local shell, but the call is always
/// opaque, because the aliases and programs of the remote host are unknown.
pub(super) fn ssh(state: &mut State, call: &ProgramCall<'_>) {
    let arguments = call.arguments();
    state.note(call.span, RiskClass::Opaque, "runs commands on another host");
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
                    "batchmode", "connecttimeout", "port", "user", "loglevel", "serveraliveinterval",
                    "connectionattempts",
                ];
                if !harmless.iter().any(|name| lower.starts_with(name)) {
                    state.note(call.span, RiskClass::Opaque, "an ssh setting that may run a program");
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
        None => {
            if let Some(text) = arguments.iter().rev().find(|word| word.text().contains(' ')) {
                call.run_joined(state, std::slice::from_ref(text), Stdin::Inherited);
            }
        }
    }
}
