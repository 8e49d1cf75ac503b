//! The table itself: every statement parses, and holds for each of its entries.

use std::path::PathBuf;

use super::grammar::{Count, Entry, Kind, Table, kind};
use super::{FILES, page, table};
use crate::options::{Arity, Effect, OptionRule, Style};
use crate::risk::RiskClass;
use crate::tests::class_of;

#[test]
fn every_statement_of_the_table_parses() {
    let (table, wrong) = Table::parse(FILES);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(table.programs.len() > 300);
}

#[test]
fn a_program_loaded_alone_equals_the_one_in_the_whole_table() {
    for program in &Table::parse(FILES).0.programs {
        for name in &program.names {
            let alone = table().program(name).expect("the index finds each name");
            assert_eq!(format!("{alone:?}"), format!("{program:?}"), "{name}");
        }
    }
}

#[test]
fn errors_in_a_table_are_reported() {
    for (table, why) in [
        ("program read_only a\nprogram read_only a", "twice"),
        ("program read_only a\n sub read_only b\n sub read_only b", "twice"),
        ("program read_only a\n options -x\n changes -x", "listed twice"),
        ("program harmful a", "no word"),
        ("program read_only a (thing)", "unknown kind"),
        ("program read_only a\n options --b=thing", "unknown kind"),
        ("program read_only a\n options b", "not an option"),
        ("program read_only a\n frobs -x", "no word"),
        ("program read_only a\n check nothing", "unknown check"),
        ("program read_only a\n grant some", "`any` or `exact`"),
        ("program read_only a\n options @b", "unknown list"),
        ("sub read_only a", "no program"),
        ("program read_only a\n sub read_only b c", "first"),
        ("list a -x\nlist a -y", "exists"),
    ] {
        let (_, wrong) = Table::parse(&[table]);
        assert!(wrong.iter().any(|wrong| wrong.contains(why)), "{table:?}: {wrong:?}");
    }
}

/// Returns a call with its operands filled in, without options.
fn call(path: &str, entry: &Entry) -> String {
    let mut call = path.to_owned();
    for operand in &entry.operands {
        if let Count::One | Count::Some = operand.count {
            call.push(' ');
            call.push_str(example(operand.kind));
        }
    }
    call
}

fn example(kind: Kind) -> &'static str {
    let examples = [
        (Kind::Format, "+%F"),
        (Kind::Host, "http://x.example/"),
        (Kind::Command, "ls"),
        (Kind::Script, "ls"),
        (Kind::Setting, "Acquire::Retries=3"),
    ];
    examples.iter().find(|(known, _)| *known == kind).map_or("7", |(_, example)| example)
}

/// Returns every spelling of an option.
fn spellings(rule: &OptionRule<'_>, entry: &Entry) -> Vec<String> {
    let value = kind(rule.kind).map_or("7", example);
    let name = rule.name;
    let dashes = if rule.is_long && entry.style == Style::Gnu { "--" } else { "-" };
    let mut spellings = match (name, rule.arity, rule.is_long) {
        ("#", _, _) => vec!["-5".to_owned()],
        (_, Arity::Flag, _) => vec![format!("{dashes}{name}")],
        (_, Arity::Value, true) => vec![format!("{dashes}{name}={value}"), format!("{dashes}{name} {value}")],
        (_, Arity::Value, false) => vec![format!("-{name}{value}"), format!("-{name} {value}")],
        (_, Arity::Attached, true) => vec![format!("{dashes}{name}"), format!("{dashes}{name}={value}")],
        (_, Arity::Attached, false) => vec![format!("-{name}"), format!("-{name}{value}")],
        (_, Arity::AttachedOrNext, _) => vec![format!("-{name}{value}"), format!("-{name} {value}")],
    };
    if rule.is_long && entry.style == Style::Gnu {
        let unique = |prefix: &str| {
            entry.options.iter().filter(|other| other.is_long && other.name.starts_with(prefix)).count() == 1
        };
        let shortest = (1..name.len()).filter_map(|end| name.get(..end)).find(|prefix| unique(prefix));
        let ending = if rule.arity == Arity::Value { format!("={value}") } else { String::new() };
        spellings.extend(shortest.map(|prefix| format!("--{prefix}{ending}")));
    } else if rule.arity == Arity::Flag {
        let flag = |other: &&OptionRule<'_>| {
            !other.is_long && other.arity == Arity::Flag && other.effect == Effect::Known && other.name != "#"
        };
        spellings.extend(entry.options.iter().find(flag).map(|other| format!("-{}{name}", other.name)));
    }
    spellings
}

/// Visits each entry that is described by the table's options alone.
fn each(entry: &Entry, path: &str, visit: &mut impl FnMut(&str, &Entry)) {
    let runs = entry.operands.iter().any(|operand| matches!(operand.kind, Kind::Command | Kind::Script));
    if !entry.check.is_some_and(super::checks::Check::reads_arguments) && !runs {
        visit(path, entry);
    }
    for sub in &entry.subs {
        each(sub, &format!("{path} {}", sub.names.first().expect("a name")), visit);
    }
}

fn each_entry(mut visit: impl FnMut(&str, &Entry)) {
    for program in &Table::parse(FILES).0.programs {
        let name = program.names.first().expect("a name");
        // Skips shell keywords, and programs that the rules for wrappers and builtins judge before the table.
        if !matches!(*name, "env" | "hash" | "wait" | "jobs" | "strace" | "nsenter" | "time") {
            each(program, name, &mut visit);
        }
    }
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_listed_option_keeps_the_class_in_each_spelling() {
    let mut wrong = Vec::new();
    let mut count = 0;
    each_entry(|path, entry| {
        let call = call(path, entry);
        let alone = class_of(&call).0;
        for rule in &entry.options {
            for spelling in spellings(rule, entry) {
                let command = call.replacen(path, &format!("{path} {spelling}"), 1);
                let (found, why) = class_of(&command);
                count += 1;
                let as_said = match rule.effect {
                    Effect::Known if kind(rule.kind) == Ok(Kind::Text) => {
                        found <= alone.max(RiskClass::Changes) || !entry.has_verbs
                    }
                    Effect::Known | Effect::Lowers(_) => true,
                    Effect::Raises(class, _) => found >= class,
                };
                // This check decides from the options if names are resolved.
                let reads = entry.class == RiskClass::ReadOnly
                    && entry.check != Some(super::checks::Check::Numeric)
                    && rule.effect == Effect::Known
                    && matches!(kind(rule.kind), Ok(Kind::Text | Kind::Word | Kind::Read))
                    && alone == RiskClass::ReadOnly;
                if !as_said || reads && found != RiskClass::ReadOnly {
                    wrong.push(format!("{found:?}: {command} ({why})"));
                }
            }
        }
    });
    assert!(count > 5_000, "{count}");
    assert_none(&wrong);
}

#[test]
fn an_unlisted_option_is_never_read_only() {
    let mut wrong = Vec::new();
    each_entry(|path, entry| {
        let call = call(path, entry);
        for option in ["--unheard-of", "--unheard-of=x", "-\u{e9}"] {
            let command = call.replacen(path, &format!("{path} {option}"), 1);
            let found = class_of(&command).0;
            let least = if entry.has_verbs { RiskClass::Opaque } else { RiskClass::Changes };
            if found < least {
                wrong.push(format!("{found:?}: {command}"));
            }
        }
    });
    assert_none(&wrong);
}

#[test]
fn an_operand_too_many_is_never_read_only() {
    let mut wrong = Vec::new();
    each_entry(|path, entry| {
        if entry.operands.iter().any(|operand| matches!(operand.count, Count::Any | Count::Some)) {
            return;
        }
        let mut command = path.to_owned();
        for operand in &entry.operands {
            command.push(' ');
            command.push_str(example(operand.kind));
        }
        command.push_str(" zzz");
        let found = class_of(&command).0;
        let least = if entry.has_verbs { RiskClass::Opaque } else { RiskClass::Changes };
        if found < least {
            wrong.push(format!("{found:?}: {command}"));
        }
    });
    assert_none(&wrong);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test compares a file, and writes it if asked to")]
fn the_documentation_of_the_table_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/programs.md");
    let page = page::page(&Table::parse(FILES).0);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).expect("a folder that can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "run `UPDATE=1 cargo test -p sysop-shell the_documentation_of_the_table_is_up_to_date`"
    );
}

#[test]
fn sysop_commands_are_for_users_except_read_only_ones() {
    for command in [
        "sysop token create --name x --scope decide",
        "sysop token list",
        "sysop serve",
        "sysop exec x",
        "sysop sessions delete x",
        "/usr/bin/sysop run x",
        "env -i sysop attach x",
        "sysop",
        "sysop -- tidy up",
    ] {
        assert!(class_of(command).0 >= RiskClass::Dangerous, "{command}");
    }
    for command in [
        "sysop doctor",
        "sysop policy check 'ls'",
        "sysop config show",
        "sysop sessions list",
        "sysop sessions list -n 5",
        "sysop sessions list --all",
        "sysop config get -v model",
        "sysop --version",
    ] {
        assert_eq!(class_of(command).0, RiskClass::ReadOnly, "{command}");
    }
    for command in ["sysop mcp list", "sysop mcp list --definitions"] {
        assert_eq!(class_of(command).0, RiskClass::Changes, "{command}");
    }
    for command in ["cat sysop-127.0.0.1-8765.token", "cat /srv/x/sysop-__1-80.token"] {
        assert_eq!(class_of(command).0, RiskClass::ReadsSecret, "{command}");
    }
}
