//! Advice for small models.

use serde_json::json;

use super::{claims_action, corrected, end_of, listed_repository, no_repository, usage, wrong_idiom};
use crate::id::CallId;
use crate::message::{Arguments, CallEnd, ToolCall};
use crate::outcome::{Outcome, Status};
use crate::spec::REPOSITORY_MARK;

const SYSTEM: &str = "Names of files: data/ (a.csv), shop/ (a git repository: main.c), x.conf\n- Look first.";

fn bash(command: &str) -> ToolCall {
    let Some(arguments) = json!({"command": command}).as_object().cloned() else { panic!("an object") };
    ToolCall {
        id: CallId::new("a"),
        wire_id: None,
        name: "bash".to_owned(),
        arguments: Arguments::Object(arguments),
    }
}

fn hint(command: &str, exit_code: i32, output: &str) -> Option<String> {
    let call = bash(command);
    let status = if exit_code == 0 { Status::Ok } else { Status::Failed };
    let outcome = Outcome { status, exit_code: Some(exit_code), ..Outcome::ok(output) };
    usage(&call, &outcome).or_else(|| no_repository(&call, &outcome, SYSTEM))
}

#[test]
fn an_idiom_with_a_wrong_result_gets_one_line_of_usage() {
    let told = |command: &str| wrong_idiom(&bash(command), &Outcome::ok(""));
    let grep =
        "[grep DB_HOST matches comments and longer names too; usage: grep '^NAME=' FILE | cut -d= -f2]";
    for command in [
        "grep DB_HOST app.conf | cut -d= -f2 >a.txt",
        "cat app.conf | grep 'DB_HOST' | cut -d '=' -f2",
        "grep \"DB_HOST\" app.conf | awk -F'=' '{print $2}'",
    ] {
        assert_eq!(told(command).as_deref(), Some(grep), "{command}");
    }
    let ls = "[sort compares the whole lines of ls, from the permissions on; usage: ls -S DIR (largest first), ls -t \
              DIR (newest first)]";
    for command in ["ls -l data | sort -rh | head -n 1", "ls -la | sort | tail -n 1 >a.txt"] {
        assert_eq!(told(command).as_deref(), Some(ls), "{command}");
    }
    for command in [
        "grep '^DB_HOST=' app.conf | cut -d= -f2",
        "grep -w DB_HOST app.conf | cut -d= -f2",
        "grep DB_HOST app.conf | cut -d: -f2",
        "grep DB_HOST app.conf",
        "ls -l data | sort -k5 -n",
        "ls -l data | sort --key=5",
        "ls -lS data | sort",
        "ls data | sort",
        "ls -l || sort a",
    ] {
        assert_eq!(told(command), None, "{command}");
    }
    let failed = Outcome { status: Status::Failed, ..Outcome::ok("") };
    assert_eq!(wrong_idiom(&bash("ls -l | sort"), &failed), None, "the error says more");
}

#[test]
fn a_command_that_writes_more_than_its_value_is_corrected() {
    for (command, right) in [
        ("wc -l users.txt >count.txt", "wc -l <users.txt >count.txt"),
        ("wc -l users.txt > count.txt", "wc -l <users.txt > count.txt"),
        ("cd a && git log -n 1 --oneline >b", "cd a && git log -n 1 --format=%s >b"),
        ("cat a.conf | grep 'HOST' | cut -d= -f2 >b", "grep '^ *HOST *=' a.conf | cut -d= -f2 >b"),
        ("grep HOST a.conf | cut -d '=' -f2", "grep '^ *HOST *=' a.conf | cut -d '=' -f2"),
        ("wc -l app.log | grep 'no route'", "grep -c 'no route' app.log"),
        ("wc -l app.log | grep -i ERROR >b", "grep -c -i ERROR app.log >b"),
    ] {
        let line = corrected(&bash(command), &Outcome::ok("")).map(|correction| correction.line);
        let ends = line.as_ref().is_some_and(|line| line.ends_with(&format!("; run: {right}]")));
        assert!(ends, "{command}: {line:?}");
    }
    let failed = Outcome { status: Status::Failed, exit_code: Some(1), ..Outcome::ok("[exit code 1]") };
    assert!(corrected(&bash("wc -l a | grep b"), &failed).is_some(), "grep found nothing");
    assert!(corrected(&bash("wc -l a >b"), &failed).is_none(), "the error says more");
    for command in [
        "wc -l users.txt",
        "wc -l <users.txt >count.txt",
        "wc -l a b >count.txt",
        "wc -l users.txt >>count.txt",
        "wc -l *.txt >count.txt",
        "wc -l users.txt >&2",
        "git log --oneline 2>&1",
        "git log --oneline >/dev/null",
        "git log --oneline --author='A <a@b>'",
        "git log --oneline",
        "git log --oneline | cut -d' ' -f2- >b",
        "cat a b | grep HOST | cut -d= -f2",
        "grep -i HOST a.conf | cut -d= -f2",
        "sort a.conf | grep HOST | cut -d= -f2",
        "wc -l app.log | grep 'a > b'",
        "wc -l a b | grep total",
        "wc -l *.log | grep total",
        "wc -l app.log | grep -o '[0-9]*' >n",
        "wc -l app.log | grep -qx '3 app.log'",
        "wc -l a | grep b; rm c",
        "wc -l a >b;reboot",
        "wc -l a >$(mktemp)",
        "wc -l app.log | grep ERROR 2>/dev/null",
        "wc -l app.log | grep ERROR 2>&1",
        "git log --oneline >b && git push",
        "git push && git log --oneline >b",
        "git log --oneline >b & reboot",
        "grep PORT a.conf | cut -d= -f2 && systemctl restart nginx",
        "grep PORT a.conf | cut -d= -f2; reboot",
        "cd $(mktemp) && grep PORT a.conf | cut -d= -f2",
        "cd `x` && grep PORT a.conf | cut -d= -f2",
    ] {
        assert_eq!(corrected(&bash(command), &Outcome::ok("")), None, "{command}");
    }
}

#[test]
fn a_missing_program_is_named() {
    let missing = "[jq is not installed: use another program, or the shell itself]";
    for output in [
        "bash: line 1: jq: command not found",
        "sh: 1: jq: not found\n[exit code 127]",
        "zsh: command not found: jq",
    ] {
        assert_eq!(hint("jq . a.json", 127, output).as_deref(), Some(missing), "{output}");
    }
    assert_eq!(hint("jq . a.json", 1, "jq: command not found"), None, "another exit code");
    assert_eq!(hint("x", 127, "bash: line 1: `rm -rf /`: not found"), None, "the text is not a program name");
}

#[test]
fn git_outside_of_a_repository_is_told_to_change_the_directory() {
    let fatal = "fatal: not a git repository (or any of the parent directories): .git\n[exit code 128]";
    let line = "[the repository is in the directory shop; run: cd shop && git add main.c]";
    assert_eq!(hint("git add shop/main.c", 128, fatal).as_deref(), Some(line));
    let two = format!("a{REPOSITORY_MARK}b), c{REPOSITORY_MARK}d)");
    assert_eq!((listed_repository(&two), listed_repository("")), (None, None));
    assert_eq!(hint("cd repo && git status", 128, fatal), None, "it has been changed");
    assert_eq!(hint("git status", 0, fatal), None, "the command did not fail");
    assert_eq!(hint("git status; rm a", 128, fatal), None, "a part would run once more");
    assert!(
        hint("git add a && git commit -m b 2>&1", 128, fatal).is_some(),
        "nothing ran behind the first part"
    );
}

#[test]
fn a_wrong_option_gets_one_line_of_usage() {
    let sed = Some("[usage: sed -i 's/OLD/NEW/' FILE]".to_owned());
    assert_eq!(hint("sed -q a", 1, "sed: invalid option -- 'q'\nUsage: sed [OPTION]..."), sed);
    assert_eq!(hint("cat a | /usr/bin/sed -q", 1, "/usr/bin/sed: invalid option -- 'q'"), sed);
    assert_eq!(
        hint("find . --name x", 1, "find: unknown predicate `--name'").as_deref(),
        Some("[usage: find DIR -type f -name '*.log' -mtime +7]")
    );
    assert_eq!(
        hint("mytool --bad", 2, "error: unexpected argument '--bad' found").as_deref(),
        Some("[to see the options of mytool, run `mytool --help`]")
    );
    assert_eq!(
        hint("a | b --bad", 2, "error: unexpected argument '--bad'"),
        None,
        "either program may have failed"
    );
    assert_eq!(hint("grep x a", 1, ""), None);
    assert_eq!(hint("echo unknown option", 0, "unknown option"), None, "the command did not fail");
}

#[test]
fn claims_are_distinguished_from_plans_refusals_and_facts() {
    for claim in [
        "The file notes.txt has been created.",
        "I have updated the port to 8080.",
        "Done! Successfully removed all .tmp files.",
    ] {
        assert!(claims_action(claim), "{claim}");
    }
    for other in [
        "Paris.",
        "The file does not exist, so nothing has been created? No.",
        "I would have deleted it.",
        "The file has not been changed.",
        "Should I say that it has been removed?",
        "There are 3 files.",
    ] {
        assert!(!claims_action(other), "{other}");
    }
    let facts = "There are 3 files. ".repeat(1000);
    let claim = "The file has been created. ";
    assert!(claims_action(&format!("{claim}{facts}")) && claims_action(&format!("{facts}é{claim}")));
    assert!(!claims_action(&format!("{facts}{claim}{facts}")), "part of a long answer");
}

#[test]
fn the_end_of_a_call_follows_from_its_outcome() {
    let failed = |code: Option<i32>, output: &str| Outcome { exit_code: code, ..Outcome::failed(output) };
    for (outcome, end) in [
        (Outcome::ok("a"), CallEnd::Done),
        (failed(Some(1), "[exit code 1]"), CallEnd::Done),
        (failed(Some(2), "no such file\n[exit code 2]"), CallEnd::Failed),
        (failed(None, "no file a"), CallEnd::Failed),
        (failed(None, "[killed by signal 9]"), CallEnd::Unfinished),
        (Outcome::unreachable("db1: no route"), CallEnd::Refused),
        (Outcome::new(Status::Rejected, "rejected"), CallEnd::Refused),
        (Outcome::new(Status::Cancelled, "stopped"), CallEnd::Refused),
        (Outcome::new(Status::Timeout, "after 30 s"), CallEnd::Unfinished),
        (Outcome::new(Status::Interrupted, "exited"), CallEnd::Unfinished),
        (Outcome::new(Status::Unknown, "lost"), CallEnd::Unfinished),
    ] {
        assert_eq!(end_of(&outcome), end, "{outcome:?}");
    }
}
