//! Command lines and their meaning.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};
use proptest::prelude::{ProptestConfig, any, prop_oneof, proptest};
use proptest::sample::select;
use proptest::strategy::Strategy;
use sysop_core::catalog::Profile;
use sysop_core::id::SessionId;
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;

use super::{
    Arguments, COMMANDS, Command, DAY_MS, PolicyCommand, TokenLifetime, parse, quick_matches, task_text,
    token_lifetime, token_name,
};
use crate::global_flags::{ResumeTarget, Verbosity};

fn parsed(line: &[&str]) -> Arguments {
    read(line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

fn read(line: &[&str]) -> Result<Arguments, clap::Error> {
    parse(std::iter::once("sysop").chain(line.iter().copied()).map(OsString::from))
}

fn complaint(line: &[&str]) -> String {
    let error = read(line).expect_err("it cannot be read");
    assert_eq!(error.exit_code(), 2, "{line:?}");
    error.to_string()
}

#[test]
fn the_command_line_definition_is_valid() {
    Arguments::command().debug_assert();
    let listed: Vec<String> =
        Arguments::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
    assert_eq!(&COMMANDS[..COMMANDS.len() - 1], listed.as_slice(), "all but `help`");
}

#[test]
fn global_flags_work_before_and_after_the_command() {
    for line in [
        [
            "--model", "openai/a/b", "--approve", "auto", "--profile", "coder", "--no-color", "-vv", "exec",
            "x",
        ],
        [
            "exec", "x", "--model", "openai/a/b", "--approve", "auto", "--profile", "coder", "--no-color",
            "-vv",
        ],
        [
            "--model", "openai/a/b", "--approve", "auto", "exec", "--profile", "coder", "x", "--no-color",
            "-vv",
        ],
    ] {
        let flags = parsed(&line).global;
        assert_eq!(flags.model, Some(ModelRef::new("openai", "a/b")));
        assert_eq!((flags.approve, flags.profile), (Some(ApprovalMode::Auto), Some(Profile::Coder)));
        assert_eq!(flags.verbosity(), Verbosity::Verbose(2));
        assert!(flags.no_color);
    }
}

#[test]
fn no_subcommand_starts_a_conversation() {
    assert!(parsed(&[]).command.is_none());
    let with_task = parsed(&["why is the disk full?", "--approve", "never"]);
    assert_eq!(with_task.task, ["why is the disk full?"]);
    assert!(with_task.command.is_none());
    assert_eq!(parsed(&["uptime"]).task, ["uptime"]);
}

#[test]
fn several_words_are_one_task() {
    let parsed_task = |line: &[&str]| task_text(&parsed(line).task);
    assert_eq!(parsed_task(&["why", "is", "the", "disk", "full"]).as_deref(), Some("why is the disk full"));
    assert_eq!(parsed_task(&["fix", "the", "disk", "-H", "web1"]).as_deref(), Some("fix the disk"));
    assert_eq!(parsed_task(&["--", "run", "the", "tests"]).as_deref(), Some("run the tests"));
    assert_eq!(parsed_task(&["--", "doctr"]).as_deref(), Some("doctr"));
    assert_eq!(parsed_task(&["then", "run", "doctor"]).as_deref(), Some("then run doctor"));
    assert_eq!(parsed_task(&[]), None);
    assert!(
        matches!(parsed(&["run", "the"]).command, Some(Command::Run(_))),
        "a first word that is a command is one"
    );
    let Some(Command::Exec(exec)) = parsed(&["exec", "free", "some", "space"]).command else { panic!() };
    assert_eq!(task_text(&exec.task).as_deref(), Some("free some space"));
}

#[test]
fn short_flags_equal_the_long_ones() {
    let flags = parsed(&["-H", "web1", "-m", "ollama/phi3", "-C", "/srv", "-c"]).global;
    assert_eq!((flags.host.as_deref(), flags.root), (Some("web1"), Some("/srv".into())));
    assert_eq!(flags.model, Some(ModelRef::new("ollama", "phi3")));
    assert_eq!(flags.resume, Some(ResumeTarget::Latest));
    assert_eq!(parsed(&["chat", "--continue"]).global.resume, Some(ResumeTarget::Latest));
    assert!(complaint(&["-c", "--resume"]).contains("cannot be used with"));
}

#[test]
fn a_misspelled_subcommand_is_not_a_task() {
    assert!(complaint(&["doctr"]).contains("tip: a similar command exists: `doctor`"));
    assert!(complaint(&["sesions"]).contains("a similar command exists: `sessions`"));
    assert!(complaint(&["shell-int"]).contains("a similar command exists: `shell-init`"));
    assert!(complaint(&["desktp"]).contains("a similar command exists: `desktop`"));
    assert!(complaint(&["int"]).contains("a similar command exists: `init`"));
    assert!(complaint(&["rnu"]).contains("a similar command exists: `run`"));
    assert!(complaint(&["exce", "fix the disk"]).contains("a similar command exists: `exec`"));
    assert!(complaint(&["exce", "foo"]).contains("a similar command exists: `exec`"));
    assert!(complaint(&["session", "show", "4f"]).contains("a similar command exists: `sessions`"));
    for task in [
        &["sesion", "tickets", "list"][..],
        &["scan", "network"],
        &["server", "down"],
        &["list", "files"],
        &["sever", "connections"],
        &["serv", "my page"],
        &["map"],
        &["mod"],
        &["cat", "my notes"],
        &["update", "nginx"],
    ] {
        assert_eq!(parsed(task).task, task);
    }
    assert!(complaint(&["fix it", "-q", "doctor"]).contains("the task must follow the command"));
    assert!(parsed(&["chat", "connect"]).task.is_empty());
}

#[test]
fn the_words_of_a_command_to_check_are_not_our_options() {
    let checked = |line: &[&str]| {
        let line = [&["policy", "check"], line].concat();
        let parsed = parsed(&line);
        let Some(Command::Policy(PolicyCommand::Check(check))) = parsed.command else { panic!("{line:?}") };
        (check.command_line(), check.json, parsed.global.host)
    };
    let command = |text: &str| (text.to_owned(), false, None);
    assert_eq!(checked(&["df", "-h"]), command("df -h"));
    assert_eq!(checked(&["git", "push", "--force", "--quiet"]), command("git push --force --quiet"));
    assert_eq!(checked(&["rm", "my file", "$HOME"]), command("rm 'my file' '$HOME'"));
    assert_eq!(checked(&["--", "df", "-h"]), command("df -h"));
    assert_eq!(checked(&["--", "lsblk", "--json"]), command("lsblk --json"));
    assert_eq!(checked(&["docker", "ps", "--json"]), command("docker ps --json"));
    assert_eq!(checked(&["df -h | sort"]), command("df -h | sort"));
    let with_options = |text: &str| (text.to_owned(), true, Some("web1".to_owned()));
    assert_eq!(checked(&["--json", "-H", "web1", "df", "-h"]), with_options("df -h"));
    assert_eq!(checked(&["df -h", "--json", "--host", "web1"]), with_options("df -h"));
    assert_eq!(checked(&["ls", "--json", "--host", "web1"]), with_options("ls"));
    assert_eq!(checked(&["ls", "--json", "--host=web1"]), with_options("ls"));
    assert_eq!(checked(&["ls", "--json", "a"]), command("ls --json a"));
    assert_eq!(checked(&["ls", "--host"]), command("ls --host"));
    assert_eq!(checked(&["systemctl", "-H", "web1"]), command("systemctl -H web1"));
    assert_eq!(checked(&["reboot", "-q"]), command("reboot -q"));
    assert!(complaint(&["policy", "check", "df -h", "--jsn"]).contains("--jsn"));
}

#[test]
fn a_command_of_other_programs_names_ours() {
    for (word, command) in
        [("version", "sysop --version"), ("list", "sysop sessions list"), ("login", "sysop init")]
    {
        let text = complaint(&[word]);
        assert!(text.contains(&format!("tip: use `{command}`")), "{text}");
        assert!(text.contains("sysop -- TASK"), "{text}");
    }
    for word in ["update", "upgrade"] {
        assert!(complaint(&[word]).contains("the page \"Install\" of the guide"), "{word}");
    }
}

#[test]
fn markdown_has_two_names_in_every_format() {
    for command in [&["sessions", "export"][..], &["sessions", "report"], &["runbook", "export"]] {
        for name in ["md", "markdown"] {
            let line = [command, &["--format", name]].concat();
            assert!(read(&line).is_ok(), "{line:?}");
        }
    }
}

#[test]
fn the_help_and_a_flag_of_other_programs_lead_on() {
    let help = Arguments::command().render_long_help().to_string();
    assert!(help.contains("Guide:\n  /help/ on the page of `sysop serve`"), "{help}");
    let text = complaint(&["-r"]);
    assert!(text.contains("tip: to resume a session, use --continue or --resume ID\n"), "{text}");
    assert!(!text.contains("as a value"), "{text}");
}

#[test]
fn an_unknown_flag_with_the_name_of_a_config_key_gets_a_tip() {
    let text = complaint(&["--theme", "light"]);
    assert!(text.contains("tip: `theme` is a config key: sysop config set theme VALUE"), "{text}");
    assert!(!text.contains("similar argument"), "{text}");
    assert!(
        complaint(&["exec", "--max-iterations", "3", "x"]).contains("sysop config set max_iterations VALUE")
    );
    assert!(complaint(&["--modle", "x"]).contains("a similar argument exists: '--model'"));
}

#[test]
fn a_flag_that_is_a_config_key_does_not_change_the_usage() {
    let text = complaint(&["exec", "--theme", "light", "hi"]);
    assert!(text.contains("Usage: sysop exec [OPTIONS] <TASK>...\n"), "{text}");
    let text = complaint(&["--bogus", "exec", "hi"]);
    assert!(text.contains("'--bogus' found\n\nUsage: sysop [OPTIONS] [TASK]...\n"), "{text}");
    assert!(complaint(&["--json", "exec", "hi"]).contains("'exec --json' exists"));
}

#[test]
fn a_task_whose_first_word_is_a_command_gets_a_tip_that_works() {
    for line in [
        "audit the logs",
        "guard the firewall",
        "model the load",
        "run the tests",
        "undo the last change",
        "config nginx for tls",
        "init the database schema",
        "help me with nginx",
        "serve the page",
        "-H web1 run the tests",
    ] {
        let text = complaint(&line.split(' ').collect::<Vec<_>>());
        let tip = text.split("to pass it as a task, use `").nth(1);
        let tip = tip.and_then(|rest| rest.split('`').next()).unwrap_or_else(|| panic!("{line}: {text}"));
        assert!(!text.contains("`help`") && !text.contains("'help'"), "{text}");
        let words = shell_words::split(tip).expect("the tip is a command line");
        let parsed = parsed(&words[1..].iter().map(String::as_str).collect::<Vec<_>>());
        let task = line.trim_start_matches("-H web1 ").to_owned();
        assert_eq!((parsed.command.is_none(), task_text(&parsed.task)), (true, Some(task)), "{tip}");
    }
    for line in
        ["audit logs", "audit shwo logs", "exec fix the disk --bogus", "token create a b", "run the --bogus"]
    {
        let text = complaint(&line.split(' ').collect::<Vec<_>>());
        assert!(!text.contains("as a task"), "{line}: {text}");
    }
    let text = complaint(&["run", "the", "tests", "-v"]);
    assert!(text.contains("use `sysop -- TASK`"), "{text}");
    assert!(text.contains("tip: a value of a routine is NAME=VALUE; to pass it"), "{text}");
    let text = complaint(&["exec", "--bounds", "20 comands", "hi"]);
    assert!(text.contains("'20 comands' for '--bounds <BOUNDS>': use a number of commands"), "{text}");
    let text = complaint(&["--canary", "0", "exec", "hi"]);
    assert!(text.contains("'--canary <N>': expected a number of hosts, from 1"), "{text}");
}

#[test]
fn an_unknown_command_of_a_command_is_named_with_a_similar_one() {
    let text = complaint(&["audit", "shwo"]);
    assert!(
        text.contains("unrecognized command `shwo`\n\n  tip: a similar command exists: `show`"),
        "{text}"
    );
    assert!(text.contains("Usage: sysop audit [OPTIONS] <COMMAND>"), "{text}");
    for (line, similar) in [(&["help", "runbok"][..], "runbook"), (&["sessions", "help", "lst"], "list")] {
        let text = complaint(line);
        assert!(text.contains(&format!("\n\n  tip: a similar command exists: `{similar}`\n")), "{text}");
    }
    for line in [&["sessions", "help", "xyzzy"][..], &["help", "sessions", "xyzzy"]] {
        let text = complaint(line);
        assert!(!text.contains("tip:"), "{text}");
    }
}

#[test]
fn a_flag_is_proposed_as_a_value_only_where_words_are_expected() {
    let text = complaint(&["audit", "show", "--json"]);
    assert!(!text.contains("tip:") && text.contains("'--json' found\n\nUsage:"), "{text}");
    let text = complaint(&["exec", "--qqqq", "explain"]);
    assert!(text.contains("use '-- --qqqq'"), "{text}");
}

#[test]
fn sizes_accept_bytes_and_units() {
    for (text, bytes) in [("1", 1), ("4096", 4096), ("64K", 65_536), ("2m", 2 << 20), ("2MB", 2 << 20)] {
        assert_eq!(super::size(text), Ok(bytes), "{text}");
    }
    for text in ["", "0", "K", "-1", "1T", "17M", "99999999999999999999", "18446744073709551615K"] {
        assert!(super::size(text).is_err(), "{text}");
    }
}

#[test]
fn a_token_lifetime_is_a_number_with_a_unit() {
    for (text, expected) in [("30d", 30 * DAY_MS), ("2w", 14 * DAY_MS), ("12h", DAY_MS / 2), ("1m", 60_000)] {
        assert_eq!(token_lifetime(text), Ok(TokenLifetime { milliseconds: expected }));
    }
    for text in ["", "d", "30", "30 d", "-1d", "0d", "1.5d", "30ä", "9999999d", "4294967295w", "1y"] {
        assert!(token_lifetime(text).is_err(), "{text}");
    }
}

#[test]
fn a_token_name_is_one_short_line() {
    assert_eq!(token_name(" laptop "), Ok("laptop".to_owned()));
    for text in ["", "  ", "a\nb", "\u{1b}[31m", &"x".repeat(65), "ada, bob", "a` for `b"] {
        assert!(token_name(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_token_cannot_have_a_name_that_records_of_decisions_use() {
    for name in ["policy", "sysop", "start", " Start ", "a hook", "attach"] {
        assert!(token_name(name).unwrap_err().contains("choose another one"), "{name}");
    }
    assert_eq!(token_name("starter"), Ok("starter".to_owned()));
}

#[test]
fn resume_takes_an_optional_id() {
    let resume = |line: &[&str]| parsed(line).global.resume;
    let session = |id: &str| Some(ResumeTarget::Session(SessionId::new(id)));
    assert_eq!(resume(&[]), None);
    assert_eq!(resume(&["--resume"]), Some(ResumeTarget::Latest));
    assert_eq!(resume(&["--resume", "01a2-5c"]), session("01a2-5c"));
    assert_eq!(resume(&["--resume=01a2-5c", "chat"]), session("01a2-5c"));
    assert_eq!(resume(&["--resume", "01a2-5c", "chat"]), session("01a2-5c"));
    assert_eq!(resume(&["chat", "--resume", "01a2-5c"]), session("01a2-5c"));
    assert_eq!(resume(&["--resume", "--no-color"]), Some(ResumeTarget::Latest));
    assert_eq!(resume(&["--resume=abc"]), session("abc"));
    let with_command = parsed(&["--resume", "chat", "--plain"]);
    assert_eq!(with_command.global.resume, Some(ResumeTarget::Latest));
    assert!(matches!(with_command.command, Some(Command::Chat(_))));
    let with_task = parsed(&["--resume", "go on then"]);
    assert_eq!(
        (with_task.global.resume, with_task.task),
        (Some(ResumeTarget::Latest), vec!["go on then".to_owned()])
    );
    assert_eq!(resume(&["--resume", "01a2"]), session("01a2"));
    for task in [
        &["hi"][..],
        &["add", "a", "user"],
        &["fix", "the", "disk"],
        &["web1", "hangs"],
        &["db1", "is", "down"],
        &["3", "disks", "are", "full"],
        &["0", "bytes", "are", "free"],
        &["8080", "is", "taken"],
    ] {
        let parsed = parsed(&[&["exec", "--resume"], task].concat());
        assert_eq!(parsed.global.resume, Some(ResumeTarget::Latest), "{task:?}");
        let Some(Command::Exec(exec)) = parsed.command else { panic!("{task:?}") };
        assert_eq!(exec.task, task);
    }
    let Some(Command::Exec(exec)) = parsed(&["exec", "--", "--resume"]).command else { panic!() };
    assert_eq!(exec.task, ["--resume"]);
}

#[test]
fn subcommands_take_their_arguments() {
    let Some(Command::Exec(exec)) = parsed(&["exec", "-", "--json"]).command else { panic!() };
    assert_eq!((exec.task, exec.json), (vec!["-".to_owned()], true));
    let Some(Command::Run(run)) = parsed(&["run", "service", "name=nginx", "x=a=b"]).command else {
        panic!()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        (run.routine.as_deref(), run.values),
        (Some("service"), vec![pair("name", "nginx"), pair("x", "a=b")])
    );
    let Some(Command::MockLlm(mock)) = parsed(&["mock-llm"]).command else { panic!() };
    assert_eq!(mock.port, 8000);
}

#[test]
fn usage_errors_name_the_argument() {
    assert!(complaint(&["exec"]).contains("<TASK>"));
    assert!(complaint(&["exec", "  "]).contains("the task is empty"));
    for (flag, value, why) in [
        ("--max-minutes", "x", "expected a number of minutes"),
        ("--max-minutes", "0", "expected a number of minutes from 1 to 10080"),
        ("--limit", "1.5", "expected a number of sessions"),
    ] {
        let told = complaint(&["sessions", "list", flag, value]);
        assert!(told.contains(why) && !told.contains("invalid digit"), "{told}");
    }
    assert!(complaint(&["run", "service", "nginx"]).contains("expected NAME=VALUE"));
    assert!(complaint(&["--model", "openai/", "chat"]).contains("use PROVIDER/NAME"));
    assert!(complaint(&["--model", "opnai/x"]).contains("did you mean `openai`?"));
    assert!(complaint(&["--profile", "coderr", "chat"]).contains("coder"));
    assert!(complaint(&["--approve", "yes", "chat"]).contains("[possible values: each, ask, auto, never]"));
    assert!(complaint(&["--host", "", "chat"]).contains("--host"));
    assert!(complaint(&["--host=-oProxyCommand=x", "chat"]).contains("ssh would read it as an option"));
    assert!(complaint(&["--host= -oProxyCommand=x", "chat"]).contains("ssh would read it as an option"));
    assert!(complaint(&["--canary", "0", "chat"]).contains("--canary"));
    assert!(complaint(&["chat", "-q", "-v"]).contains("cannot be used with"));
}

#[test]
fn the_demo_provider_needs_no_model_name() {
    assert_eq!(parsed(&["--model", "demo"]).global.model, Some(ModelRef::new("demo", "demo")));
}

/// A word of a command line: a command, a flag, a value, or text.
fn word() -> impl Strategy<Value = String> {
    const OTHERS: &[&str] = &[
        "--", "-", "-h", "--help", "-V", "-v", "-vv", "-q", "-c", "--resume", "--resume=x", "--model",
        "openai/x", "--model=openai/x", "-H", "web1", "--host=web1", "--canary", "2", "--approve", "auto",
        "--approve=each", "-C", "/srv", "--no-color", "--json", "--image", "a.png", "--image=a.png", "--yes",
        "list", "show", "add", "get", "serve", "check", "path", "set", "--port", "--port=1", "a=b", "why is",
        "disk", "",
    ];
    prop_oneof![
        3 => select(COMMANDS).prop_map(str::to_owned),
        5 => select(OTHERS).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

proptest! {
    // In a debug build, clap checks the whole definition for each line.
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_line_has_the_same_meaning_whichever_commands_are_defined(
        words in proptest::collection::vec(word(), 0..7)
    ) {
        let line: Vec<OsString> = std::iter::once("sysop".to_owned()).chain(words).map(Into::into).collect();
        let whole = Arguments::command();
        if let Some(quick) = quick_matches(&whole, &line) {
            let meaning = |matches| format!("{:?}", Arguments::from_arg_matches(&matches));
            let slow = whole.try_get_matches_from(&line).expect("the whole definition accepts the line too");
            assert_eq!(meaning(quick), meaning(slow));
        }
    }
}

#[test]
fn ordinary_lines_are_parsed_without_the_other_commands() {
    for line in ["", "why is the disk full", "exec -v x", "config path", "-H web1 exec --json x", "chat"] {
        let line: Vec<OsString> =
            ["sysop"].into_iter().chain(line.split_whitespace()).map(Into::into).collect();
        assert!(quick_matches(&Arguments::command(), &line).is_some(), "{line:?}");
    }
    for line in ["help", "exec --help", "-V", "exec", "--unknown", "config help"] {
        let line: Vec<OsString> =
            ["sysop"].into_iter().chain(line.split_whitespace()).map(Into::into).collect();
        assert!(quick_matches(&Arguments::command(), &line).is_none(), "{line:?}");
    }
}

/// Returns the words after `sysop` if a line of a code block runs it, up to a comment or an operator of the shell.
/// Returns `None` for usage lines with optional words, such as `sysop guard status HOST [ID]`.
fn words_of_example(line: &str) -> Option<Vec<String>> {
    let line = line.trim().trim_start_matches("$ ");
    let is_variable =
        |word: &&str| word.split_once('=').is_some_and(|(name, _)| !name.contains(char::is_lowercase));
    let line = &line[line.split_inclusive(' ').take_while(is_variable).map(str::len).sum()..];
    let line = line.split_once("   ").map_or(line, |(command, _)| command);
    let words = shell_words::split(line).ok()?;
    let is_operator = |word: &String| word.starts_with(['|', '>', '<', '&', ';']) || word == "2>&1";
    let (program, rest) = words.split_first()?;
    let words: Vec<_> = rest.iter().take_while(|word| !is_operator(word)).cloned().collect();
    (program == "sysop" && !words.iter().any(|word| word.contains('['))).then_some(words)
}

#[test]
fn every_command_line_in_the_documentation_can_be_parsed() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let folders = [docs.join("guide"), docs];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("a folder of pages"));
    let pages = files.map(|file| file.expect("a file").path());
    let mut examples = 0;
    for page in pages.filter(|path| path.extension().is_some_and(|ext| ext == "md")) {
        let text = std::fs::read_to_string(&page).expect("a page");
        let lines = text.split("\\\n").map(str::trim_start).collect::<String>();
        for words in lines.split("```").skip(1).step_by(2).flat_map(str::lines).filter_map(words_of_example) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let line = || format!("{}: sysop {}", page.display(), words.join(" "));
            match read(&words) {
                Ok(_) => {}
                Err(error) if error.exit_code() == 0 => {} // --help and --version
                Err(error) => panic!("{}\n{error}", line()),
            }
            examples += 1;
        }
    }
    assert!(examples > 150, "only {examples} examples were found");
}
