//! Generates `docs/programs.md` from the table.

use std::fmt::Write as _;

use super::grammar::{Count, Entry, Kind, Table, kind};
use crate::options::{Arity, Effect, OptionRule, Style};
use crate::risk::RiskClass;

const INTRODUCTION: &str = "# Programs that sysop knows

The policy judges commands by this table of programs, subcommands, options and operands. To see what it says about one
command, run `sysop policy check 'COMMAND'`.

An unlisted program counts as a plain change: `auto` runs it, `ask` asks, `never` denies it. So does a listed program with
an unlisted option or operand. For programs marked *verbs*, an unlisted subcommand is opaque, and `auto` asks as well. Long
options may be abbreviated to a unique prefix.

Classes: `read_only` only reads; `reads_remote` reads, and uses the network or resolves names; `changes` makes changes; `opaque` has
effects that its text does not show; `reads_secret`, `dangerous` and `lockout` always ask.

The columns: *operands* are those that a call may have (`text`, or paths that it reads, writes or fills with files; `*` any
number, `+` at least one). *options* are those that it may have. *with* lists options that raise the class, or change it
(\"then\") if the rest of the call is understood. *session* is what \"allow for this session\" covers: any understood call of
that kind (`any`), or only this exact command (`this`).

The table is generated from `crates/sysop-shell/programs/*.txt`; do not edit it by hand. After changing those files, run
`UPDATE=1 cargo test -p sysop-shell the_documentation_of_the_table_is_up_to_date`.
";

pub(super) fn page(table: &Table) -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut area = "";
    for program in &table.programs {
        if program.area != area {
            area = program.area;
            let _ = write!(page, "\n## {area}\n\n| call | class | operands | options | with | session |\n");
            page.push_str("| --- | --- | --- | --- | --- | --- |\n");
        }
        let verbs = if program.has_verbs { " *verbs*" } else { "" };
        let _ = writeln!(page, "| `{}`{verbs} | {} |", program.names.join("`, `"), cells(program, None));
        subcommands(&mut page, program, program.names.first().unwrap_or(&""));
    }
    page
}

/// Writes the rows of the subcommands. Adjacent subcommands with the same properties share one row.
fn subcommands(page: &mut String, entry: &Entry, before: &str) {
    let mut calls = String::new();
    for (index, sub) in entry.subs.iter().enumerate() {
        let own = cells(sub, Some(entry));
        let separator = if calls.is_empty() { "" } else { ", " };
        let _ = write!(calls, "{separator}`{before} {}`", sub.names.first().unwrap_or(&""));
        if entry.subs.get(index + 1).is_none_or(|next| cells(next, Some(entry)) != own) {
            let _ = writeln!(page, "| {calls} | {own} |");
            calls.clear();
        }
    }
    for sub in &entry.subs {
        subcommands(page, sub, &format!("{before} {}", sub.names.first().unwrap_or(&"")));
    }
}

/// Returns the cells of a row, except for the first one. Options that the parent row already lists are left out.
fn cells(entry: &Entry, parent: Option<&Entry>) -> String {
    let is_new = |rule: &&OptionRule<'_>| {
        !parent.is_some_and(|parent| parent.everywhere && parent.options.contains(rule))
    };
    let count = |count| match count {
        Count::One => "",
        Count::Optional => "?",
        Count::Any => "*",
        Count::Some => "+",
    };
    let operands: Vec<String> = entry
        .operands
        .iter()
        .map(|operand| format!("{}{}", kind_name(operand.kind), count(operand.count)))
        .collect();
    let mut plain = Vec::new();
    let mut with: Vec<String> = Vec::new();
    for rule in entry.options.iter().filter(is_new) {
        let spelled = spelled(rule, entry.style);
        match rule.effect {
            Effect::Known => plain.push(spelled),
            Effect::Raises(class, _) => with.push(format!("`{spelled}` {}", class_name(class))),
            Effect::Lowers(class) => with.push(format!("`{spelled}` then {}", class_name(class))),
        }
    }
    if let Some(class) = entry.bare {
        with.push(format!("no operand then {}", class_name(class)));
    }
    let options = if plain.is_empty() { String::new() } else { format!("`{}`", plain.join(" ")) };
    let why = if entry.why.is_empty() { String::new() } else { format!(": {}", entry.why) };
    let session = if entry.grants_any() { "any" } else { "this" };
    let class = class_name(entry.class);
    format!("{class}{why} | {} | {options} | {} | {session}", operands.join(" "), with.join(", "))
}

fn spelled(rule: &OptionRule<'_>, style: Style) -> String {
    let dashes = if rule.is_long && style == Style::Gnu { "--" } else { "-" };
    let kind = kind(rule.kind).map_or("", kind_name);
    match rule.arity {
        Arity::Flag if rule.name == "#" => "-5".to_owned(),
        Arity::Flag => format!("{dashes}{}", rule.name),
        Arity::Value => format!("{dashes}{}={kind}", rule.name),
        Arity::Attached | Arity::AttachedOrNext => format!("{dashes}{}[={kind}]", rule.name),
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Word => "word",
        Kind::Key => "name",
        Kind::Format => "+format",
        Kind::Read => "path read",
        Kind::Write => "path written",
        Kind::Fill => "directory filled",
        Kind::Link => "path linked",
        Kind::Run => "path run",
        Kind::Source => "place read",
        Kind::Target => "place written",
        Kind::Host => "address",
        Kind::Data | Kind::Cookie => "data",
        Kind::Pretty => "format",
        Kind::Setting => "setting",
        Kind::Unit => "unit",
        Kind::Package => "package",
        Kind::Removed => "package removed",
        Kind::Process => "process",
        Kind::Command => "command",
        Kind::Script => "script",
    }
}

fn class_name(class: RiskClass) -> &'static str {
    match class {
        RiskClass::ReadOnly => "read_only",
        RiskClass::ReadsRemote => "reads_remote",
        RiskClass::Changes => "changes",
        RiskClass::Opaque => "opaque",
        RiskClass::ReadsSecret => "reads_secret",
        RiskClass::Dangerous => "dangerous",
        RiskClass::Lockout => "lockout",
    }
}
