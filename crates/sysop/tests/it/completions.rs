//! Tab in real shells: bash and zsh at a terminal, fish by `complete -C`, which is what its Tab runs.

use std::path::Path;

use crate::World;
use crate::person::{Person, at_a_terminal};
use crate::support::{Mock, say};

const CONFIG: &str = "
[hosts.alpha-one]
tags = ['alphas']
[hosts.alpha-two]
tags = ['alphas']
[hosts.beta]
tags = ['others']
[models.'openai/tiny:7b']
context_window = 4096
[routines.update_all]
description = 'Update all packages'
cmd = 'true'
";
const PROMPT: &str = "PS> ";

/// A home with hosts, a model, a routine and a session, whose id it returns.
fn world() -> (World, String) {
    let mock = Mock::start(&[("remember the milk", vec![say("I will.")])]);
    let binary = Path::new(env!("CARGO_BIN_EXE_sysop")).parent().unwrap().display().to_string();
    let path = format!("{binary}:{}", std::env::var("PATH").unwrap());
    let world = World::with_openai(&mock.url()).file(".config/sysop/config.toml", CONFIG);
    let world = world.variable("PATH", &path).variable("LC_ALL", "C.UTF-8");
    assert_eq!(world.finish(&["exec", "remember the milk"]).code, Some(0));
    let listed = world.finish(&["exec", "--json", "remember the milk"]);
    let id =
        listed.out.split("\"sessionId\":\"").nth(1).expect("an id").split('"').next().unwrap().to_owned();
    (world, id)
}

/// Lines up to Tab, and what Tab makes of each.
fn cases(session: &str) -> Vec<(String, String)> {
    let start = &session[..session.len() - 2];
    [
        ("sysop doc", "doctor"),
        ("sysop --host be", "beta"),
        ("sysop -H alpha-one,alpha-t", "alpha-one,alpha-two"),
        ("sysop -H @al", "@alphas"),
        ("sysop -H alpha-one,@al", "alpha-one,@alphas"),
        ("sysop exec --host=be", "--host=beta"),
        ("sysop -m openai/ti", "openai/tiny:7b"),
        ("sysop -m openai/tiny:7", "openai/tiny:7b"),
        ("sysop run upd", "update_all"),
        ("sysop config set the", "theme"),
        ("sysop config set approve ne", "never"),
        ("sysop config unset routines.update_all.c", "routines.update_all.cmd"),
        ("sysop model get llama", "llama-server"),
        (&format!("sysop sessions show {start}"), session),
        (&format!("sysop undo {start}"), session),
        (&format!("sysop --resume={start}"), &format!("--resume={session}")),
    ]
    .map(|(line, word)| (line.to_owned(), word.to_owned()))
    .into()
}

/// Types each line and Tab at a terminal, and lets the shell print the completed line instead of running it.
async fn tab_completes(mut person: Person, cases: &[(String, String)]) {
    person.sees(PROMPT.trim_end()).await;
    for (line, word) in cases {
        let before = line.rsplit_once(' ').expect("a word to complete").0.replacen("sysop", "", 1);
        person.types(&format!("{line}\t")).await;
        person.sees(word).await;
        // Enter runs a function of this name, which prints its arguments.
        person.types("\r").await;
        person.sees(&format!("<{}>", format!("{} {word}", before.trim()).trim())).await;
        person.sees(PROMPT.trim_end()).await;
    }
}

#[test]
fn bash_completes_names() {
    let (world, session) = world();
    let start = "PS1='PS> '\nbind 'set enable-bracketed-paste off'\nbind 'set bell-style none'\n\
                 eval \"$(sysop completions bash)\"\nsysop() { echo \"<$*>\"; }\n";
    // The function would also answer the script's calls.
    let start = format!(
        "{start}eval \"$(declare -f _clap_complete_sysop | sed 's/\"sysop\" --/command sysop --/')\"\n"
    );
    let world = world.file("rc.bash", &start);
    at_a_terminal(async {
        let person = Person::starts(&world, "bash", &["--noprofile", "--rcfile", "../rc.bash", "-i"]);
        // Flags, which fit an empty word as well, are no candidates beside a name.
        let alone = [("sysop run ".to_owned(), "update_all".to_owned())];
        tab_completes(person, &[&cases(&session)[..], &alone].concat()).await;
    });
}

#[test]
fn zsh_completes_names_from_the_first_tab_on() {
    let (world, session) = world();
    let script = world.finish(&["completions", "zsh"]).out.replace(" sysop -- ", " command sysop -- ");
    let start = "PS1='PS> '\nunset zle_bracketed_paste\nfpath=(~/.zfunc $fpath)\nautoload -Uz compinit\n\
                 compinit -u -D\nsysop() { echo \"<$*>\" }\n";
    let world = world.file(".zfunc/_sysop", &script).file(".zshrc", start);
    at_a_terminal(async {
        let person = Person::starts(&world, "zsh", &["-d", "-i"]);
        tab_completes(person, &cases(&session)).await;
    });
}

#[test]
fn fish_completes_names_and_describes_them() {
    let (world, session) = world();
    let complete = |line: &str| {
        let script = format!("sysop completions fish | source; complete -C '{line}'");
        let run = world.start_program("fish", &["--no-config", "-c", &script]).finish();
        assert_eq!(run.code, Some(0), "{run:?}");
        run.out
    };
    for (line, word) in cases(&session) {
        let out = complete(&line);
        let first = out.lines().next().unwrap_or_default();
        assert_eq!(first.split('\t').next(), Some(word.as_str()), "{line}: {out}");
    }
    assert!(complete("sysop run ").starts_with("update_all\tUpdate all packages\n"));
    assert!(complete("sysop sessions show ").contains("\tremember the milk\n"));
    assert!(complete("sysop -H ").contains("@alphas\t2 hosts\n"));
}

#[test]
fn a_tab_without_a_usable_config_prints_nothing_and_makes_no_database() {
    let world = World::new().file(".config/sysop/config.toml", "this is = = no config");
    let command = |config: bool| {
        let world = if config { &world } else { &World::new() };
        let mut command = world.command(&["--", "sysop", "sessions", "show", ""]);
        let output = command.env("_SYSOP_COMPLETE", "fish").output().unwrap();
        assert_eq!(output.stderr, b"", "{output:?}");
        assert!(!world.home().join(".local/share/sysop/sysop.db").exists());
        String::from_utf8(output.stdout).unwrap()
    };
    let only_flags = |out: &str| out.lines().all(|line| line.starts_with("-"));
    assert!(only_flags(&command(true)));
    assert!(only_flags(&command(false)));
}
