//! Assesses a program call by its subcommand, options and operands, using the program table.
//!
//! The table is text in the directory `programs`; [`grammar`] defines its language. A call with an unlisted
//! option, subcommand or operand is not understood. Such a call is never read-only, and it is opaque if the
//! program takes verbs, because an unknown verb may do anything. Rules that the table language cannot
//! express are in [`checks`].
//!
//! Git subcommands such as `status`, `diff` and `show` may run programs that the repository's own configuration names;
//! see [`repository`](super::repository).

mod checks;
mod grammar;
mod operands;
#[cfg(test)]
mod page;
mod sed;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::OnceLock;

use grammar::{Entry, Index, Kind};
pub(super) use sed::only_edits_stream;

use super::lexer::{UNKNOWN, Word};
use super::options::{Effect, Reading, StopPoint, read};
use super::program_call::{ArgumentSource, ProgramCall};
use super::state::State;
use crate::Invocation;
use crate::context::{CommandContext, Survey};
use crate::repository;
use crate::risk::RiskClass;

/// Files of the table, in the order of the generated page.
const FILES: &[&str] = &[
    include_str!("../programs/files.txt"),
    include_str!("../programs/text.txt"),
    include_str!("../programs/archives.txt"),
    include_str!("../programs/git.txt"),
    include_str!("../programs/build.txt"),
    include_str!("../programs/packages.txt"),
    include_str!("../programs/services.txt"),
    include_str!("../programs/containers.txt"),
    include_str!("../programs/processes.txt"),
    include_str!("../programs/system.txt"),
    include_str!("../programs/disks.txt"),
    include_str!("../programs/accounts.txt"),
    include_str!("../programs/network.txt"),
    include_str!("../programs/remote.txt"),
];

/// Returns the table. The entry of a program is parsed on first use. A test checks every statement.
fn table() -> &'static Index {
    static TABLE: OnceLock<Index> = OnceLock::new();
    TABLE.get_or_init(|| Index::new(FILES))
}

/// A call matched against the table.
struct Match<'w> {
    entry: &'static Entry,
    /// Names of the subcommands, outermost first.
    path: Vec<&'static str>,
    /// Options that come before each of the subcommands.
    before: Vec<Reading<'static, 'w>>,
    /// Arguments after the last subcommand.
    arguments: &'w [Word],
    reading: Reading<'static, 'w>,
}

/// Matches a call against the table. The innermost subcommand that the table lists determines the entry.
fn lookup<'w>(program: &'static Entry, arguments: &'w [Word]) -> Match<'w> {
    let mut found = Match {
        entry: program,
        path: Vec::new(),
        before: Vec::new(),
        arguments,
        reading: Reading::default(),
    };
    loop {
        let entry = found.entry;
        if !entry.subs.is_empty() {
            let before = read(&entry.options, entry.style, found.arguments, StopPoint::FirstOperand);
            let first = before.operands.first().and_then(|word| word.literal());
            if let Some(sub) = first.and_then(|name| entry.sub(name)) {
                found.arguments = found.arguments.get(before.first_operand + 1..).unwrap_or(&[]);
                found.path.extend(sub.names.first());
                found.before.push(before);
                found.entry = sub;
                continue;
            }
        }
        let ends = entry.stops || entry.operands.iter().any(|operand| operand.kind == Kind::Command);
        let stop = if ends { StopPoint::FirstOperand } else { StopPoint::End };
        found.reading = read(&entry.options, entry.style, found.arguments, stop);
        return found;
    }
}

impl Match<'_> {
    /// Assesses the call. Returns true if every part of it is understood.
    fn judge(&self, state: &mut State, call: &ProgramCall<'_>) -> bool {
        let entry = self.entry;
        let mut understood = true;
        let own =
            if entry.check.is_some_and(checks::Check::reads_arguments) { None } else { Some(&self.reading) };
        for reading in self.before.iter().chain([&self.reading]) {
            if let Some(hidden) = reading.unknown.iter().find(|word| entry.may_turn_worse_by(word)) {
                state.note_run_time_option(call.span_of(hidden));
            }
        }
        let mut lowered = None;
        for reading in self.before.iter().chain(own) {
            understood &= reading.unknown.iter().all(|word| entry.harmless && word.literal().is_none());
            for option in &reading.options {
                if let Effect::Lowers(class) = option.rule.effect {
                    lowered = lowered.max(Some(class));
                }
            }
        }
        if own.is_some() {
            understood &= operands::judge(state, call, entry, &self.reading);
        }
        for reading in self.before.iter().chain(own) {
            for option in &reading.options {
                understood &= operands::judge_option(state, call, entry, option);
            }
        }
        if let Some(check) = entry.check {
            understood &= check.run(state, call, self.arguments, &self.reading);
        }
        let bare = entry.bare.filter(|_| self.reading.operands.is_empty());
        let class = lowered.or(bare).filter(|_| understood).unwrap_or(entry.class);
        match (class, entry.why) {
            (RiskClass::ReadOnly, _) => {}
            (class, "") => state.note(call.span, class, plain_reason(class)),
            (class, why) => state.note(call.span, class, why),
        }
        if !understood && entry.has_verbs {
            state.note(call.span, RiskClass::Opaque, "an unknown subcommand, option or operand");
        } else if !understood {
            state.note(call.span, RiskClass::Changes, "an unknown option or operand");
        }
        understood
    }
}

/// Returns the default reason for a class, used for entries that give no reason.
fn plain_reason(class: RiskClass) -> &'static str {
    match class {
        RiskClass::ReadOnly => "reads only",
        RiskClass::ReadsRemote => "uses the network or resolves names",
        RiskClass::Changes => "makes changes",
        RiskClass::Opaque => "effect unknown",
        RiskClass::ReadsSecret => "reads secrets",
        RiskClass::Dangerous => "may destroy data",
        RiskClass::Lockout => "may lock you out",
    }
}

/// Assesses a call to a program that is neither a builtin nor an interpreter. `name` is the program that will
/// run. If it is not `trusted`, the program may differ from the one that the table lists under that name.
pub(super) fn judge(state: &mut State, call: &ProgramCall<'_>, name: &str, trusted: bool) -> RiskClass {
    let found = state.class_of(|state| {
        judge_call(state, call, name);
        if !trusted {
            state.note(call.span, RiskClass::Changes, "may not be the usual program with that name");
        }
    });
    let Some(source) = call.argument_source else { return found };
    let harmless = match source {
        ArgumentSource::Stdin => {
            found == RiskClass::ReadOnly && table().program(name).is_some_and(|program| program.harmless)
        }
        ArgumentSource::FoundFiles => found == RiskClass::ReadOnly,
    };
    if !harmless {
        state.note(call.span, RiskClass::Opaque, "runs with arguments that are computed at run time");
        return found.max(RiskClass::Opaque);
    }
    found
}

/// Returns true if the words call a program by its plain name, and the program only reads, whatever arguments it gets.
pub(super) fn takes_any_text(words: &[Word]) -> bool {
    let Some((first, arguments)) = words.split_first() else { return false };
    let Some(program) = first.literal().filter(|_| !first.quoted).and_then(|name| table().program(name))
    else {
        return false;
    };
    let takes_text = program.operands.iter().all(|operand| operand.kind == Kind::Text);
    let is_text = program.harmless && takes_text && program.class == RiskClass::ReadOnly;
    is_text || program.check.is_some_and(|check| check.judges_expansions(arguments))
}

/// Returns true if any of the commands calls a program that runs instructions from its directory, like a build tool.
pub(super) fn builds(invocations: &[Invocation]) -> bool {
    let area =
        |name: &str| table().program(name.rsplit('/').next().unwrap_or(name)).map(|program| program.area);
    invocations.iter().any(|invocation| {
        let name = invocation.words.first().and_then(Option::as_deref).unwrap_or("");
        matches!(area(name), Some("Build tools and languages" | "Containers, clusters and clouds"))
    })
}

/// Returns true if `printf` with these arguments evaluates nothing in any shell.
pub(super) fn is_plain_printf(arguments: &[Word]) -> bool {
    checks::Check::Printf.judges_expansions(arguments)
}

fn judge_call(state: &mut State, call: &ProgramCall<'_>, name: &str) {
    let table = table();
    if let [only] = call.arguments()
        && matches!(only.literal(), Some("--version" | "--help"))
        && table.is_versioned(name)
    {
        return;
    }
    let Some(program) = table.program(name) else {
        return state.note(call.span, RiskClass::Changes, "unknown program");
    };
    let found = lookup(program, call.arguments());
    let understood = found.judge(state, call);
    if !understood && program.has_verbs && found.path.is_empty() {
        note_worst_verb(state, call, program);
    }
    let connects =
        found.entry.class == RiskClass::ReadsRemote || found.entry.check == Some(checks::Check::Sender);
    if connects && call.arguments().iter().any(|word| word.text().contains(UNKNOWN)) {
        state.note(call.span, RiskClass::Opaque, "sends data that is computed at run time");
    }
    if name == "git" && found.entry.class <= RiskClass::ReadsRemote && found.path != ["config"] {
        repository::judge(state, call.span, found.entry.class == RiskClass::ReadsRemote);
    }
}

/// Notes the worst subcommand that is named among the words. Used if the actual subcommand cannot be determined.
fn note_worst_verb(state: &mut State, call: &ProgramCall<'_>, program: &Entry) {
    let named = call.arguments().iter().filter_map(|word| program.sub(word.text()));
    if let Some(worst) = named.max_by_key(|sub| sub.class)
        && worst.class >= RiskClass::Dangerous
    {
        let why = if worst.why.is_empty() { plain_reason(worst.class) } else { worst.why };
        state.note(call.span, worst.class, why);
    }
}

/// Returns the program and subcommand that a grant by name covers, and the worst class that it covers. Returns `None`
/// unless the whole call is understood and the table allows such a grant.
pub(super) fn granted_kind(call: &ProgramCall<'_>) -> Option<(String, Option<String>, RiskClass)> {
    let name = call.words.first()?.literal()?;
    let program = table().program(name)?;
    let found = lookup(program, call.arguments());
    let mut aside = State::new(Rc::new(Survey::elsewhere(CommandContext::bash())));
    let understood = found.judge(&mut aside, call);
    if !understood || !found.entry.grants_any() || program.has_verbs && found.path.is_empty() {
        return None;
    }
    let before = found.before.iter().any(|reading| !reading.options.is_empty());
    let path = (!found.path.is_empty()).then(|| found.path.join(" "));
    let most = if path.is_some() { RiskClass::Changes } else { found.entry.class };
    (!before).then(|| (name.to_owned(), path, most))
}
