//! Tests of `bash`: output, exit codes, timeouts, and the end of all processes that a command started.

use serde_json::json;
use sysop_core::outcome::Status;
use sysop_driver::port::{CancellationToken, DeltaSink};

use crate::world::{DEADLINE, Factory, conformance_of_shells, is_gone, pids, wait_until_gone};

conformance_of_shells!(
    output_and_errors_come_combined_and_in_order,
    exit_codes_are_stated,
    every_exit_code_is_reported,
    a_failure_hidden_by_a_pipe_is_stated,
    death_by_a_signal_is_stated,
    every_command_arrives_unchanged,
    colors_are_returned_as_styles,
    the_longest_command_runs,
    standard_input_is_empty_and_there_is_no_terminal,
    commands_start_in_the_root_and_in_a_session_of_their_own,
    programs_use_no_pager_and_ask_no_questions,
    a_command_that_begins_like_an_option_is_a_command,
    wrong_arguments_are_named,
    a_command_that_times_out_keeps_its_output,
    a_command_without_a_limit_ends_by_itself,
    a_lifted_time_limit_stops_nothing,
    a_stopped_command_keeps_its_output,
    a_stop_ends_the_whole_tree,
    a_stop_before_the_start_starts_nothing,
    a_dropped_call_ends_the_whole_tree,
    a_program_in_the_background_does_not_hold_the_call,
    a_program_in_the_background_may_go_on_printing,
    a_command_that_closes_its_output_is_waited_for,
);

async fn output_and_errors_come_combined_and_in_order(factory: &impl Factory) {
    let world = factory.full();
    let outcome =
        world.call("bash", json!({ "command": "echo a; echo b >&2; echo c", "reason": "to see" })).await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Ok, Some(0)));
    assert_eq!(outcome.output, "a\nb\nc\n[exit code 0]");
    assert!(!outcome.truncated && outcome.artifact.is_none());
}

async fn exit_codes_are_stated(factory: &impl Factory) {
    let world = factory.full();
    let outcome = world.call("bash", json!({ "command": "printf x; exit 3" })).await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Failed, Some(3)));
    assert_eq!(outcome.output, "x\n[exit code 3]");
    let outcome = world.call("bash", json!({ "command": "no-such-program-here" })).await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Failed, Some(127)));
    assert!(outcome.output.contains("not found"), "{}", outcome.output);
}

async fn every_exit_code_is_reported(factory: &impl Factory) {
    let world = factory.full();
    for code in [1, 2, 40, 41, 126, 127, 128, 129, 130, 137, 141, 143, 192, 254, 255] {
        let outcome = world.call("bash", json!({ "command": format!("exit {code}") })).await;
        assert_eq!((outcome.status, outcome.exit_code), (Status::Failed, Some(code)));
        assert_eq!(outcome.output, format!("[exit code {code}]"));
    }
}

async fn a_failure_hidden_by_a_pipe_is_stated(factory: &impl Factory) {
    let world = factory.full();
    let hidden = "[exit codes of the last pipeline: ";
    for (command, codes) in [
        ("(exit 3) | cat", Some("3 0")),
        ("echo a\nls /no-such-file 2>/dev/null | sort | cat", Some("2 0 0")),
        ("yes | head -n 1 >/dev/null", None),
        ("true | false", None),
        ("false | cat || true; true", None),
        ("true || false", None),
        ("(exit 3) | (exit 4)", None),
        ("trap 'echo mine' EXIT; false | cat", None),
    ] {
        let outcome = world.call("bash", json!({ "command": command })).await;
        let told = outcome.output.lines().find_map(|line| line.strip_prefix(hidden)?.strip_suffix(']'));
        assert_eq!(told, codes, "{command}: {}", outcome.output);
        let code = outcome.exit_code.expect("it exits");
        assert!(outcome.output.ends_with(&format!("[exit code {code}]")), "{command}: {}", outcome.output);
    }
}

/// Commands that some shell reads differently, with their output in bash.
const HORRORS: [(&str, &str); 16] = [
    ("echo 'single' \"double\" \\\\back", "single double \\back\n"),
    ("echo \"it's $((1 + 1))\"", "it's 2\n"),
    ("echo hi! !! !x '!$'", "hi! !! !x !$\n"),
    ("printf '%s|' a  b\t'c\td' \"\"", "a|b|c\td||"),
    ("for i in 1 2; do\n  echo $i\ndone", "1\n2\n"),
    ("cat <<'END'\n$HOME `x` \\ 'q' !\nEND\necho after", "$HOME `x` \\ 'q' !\nafter\n"),
    ("cat <<END | tr a-z A-Z\nhere $((2 * 3))\nEND", "HERE 6\n"),
    ("x='a  b'; echo \"$x\" $x # a comment", "a  b a b\n"),
    ("echo ~ | head -c 1; echo", "/\n"),
    ("echo 'größe €' | wc -c | tr -d ' '", "12\n"),
    ("printf 'caf\\351' | od -An -tx1 | tr -d ' '", "636166e9\n"),
    ("echo a; # c'omment\necho b", "a\nb\n"),
    ("echo {a,b} $'t\\tab' 2>&1", "a b t\tab\n"),
    ("printf '%s' '\\012' \"\\\\n\" ';' '&' '|' '*' '?' '['", "\\012\\n;&|*?["),
    ("set -eu; false || echo on; (exit 3) || true; echo ${unset-none}", "on\nnone\n"),
    ("printf '\\036S0;1\\036'; printf '\\036E0;0\\036'; echo x", "\u{1e}S0;1\u{1e}\u{1e}E0;0\u{1e}x\n"),
];

async fn every_command_arrives_unchanged(factory: &impl Factory) {
    let world = factory.full();
    for (command, printed) in HORRORS {
        let outcome = world.call("bash", json!({ "command": command })).await;
        let end = if printed.ends_with('\n') { "" } else { "\n" };
        let expected = sysop_core::text::strip_controls(printed).into_owned();
        assert_eq!(outcome.output, format!("{expected}{end}[exit code 0]"), "{command}");
    }
}

async fn colors_are_returned_as_styles(factory: &impl Factory) {
    let world = factory.full();
    let command = "printf 'a\\033[1;31mred\\033[0m\\033]0;t\\007\\033[2J b\\n'; exit 3";
    let outcome = world.call("bash", json!({ "command": command })).await;
    assert_eq!(outcome.output, "ared b\n[exit code 3]");
    let pieces: Vec<(&str, String)> =
        outcome.styles.runs(&outcome.output).map(|(piece, look)| (piece, look.to_sgr())).collect();
    let plain = String::new;
    assert_eq!(pieces, [("a", plain()), ("red", "1;31".to_owned()), (" b\n[exit code 3]", plain())]);
    // Head and tail have their own styles, the notice between them has no style.
    let flood = "for i in $(seq 2000); do printf '\\033[32m%s\\033[0m\\n' $i; done";
    let outcome = world.call("bash", json!({ "command": flood })).await;
    let styles: Vec<(&str, String)> =
        outcome.styles.runs(&outcome.output).map(|(piece, look)| (piece, look.to_sgr())).collect();
    assert!(outcome.truncated);
    // The name of the artifact in the notice may contain any digits.
    let (said, _) =
        styles.iter().find(|(piece, _)| piece.contains("omitted")).expect("it says what is missing");
    let look_of =
        |wanted: &str| styles.iter().find(|(piece, _)| *piece == wanted).map(|(_, look)| look.as_str());
    assert_eq!((look_of("1"), look_of(said), look_of("2000")), (Some("32"), Some(""), Some("32")));
}

async fn the_longest_command_runs(factory: &impl Factory) {
    let world = factory.full();
    for (before, after) in [("echo '", "' | wc -c"), ("echo \"it's ", "\" | wc -c")] {
        let filling = "x".repeat(128 * 1024 - 1 - before.len() - after.len());
        let outcome = world.call("bash", json!({ "command": format!("{before}{filling}{after}") })).await;
        let echoed = before.len() - "echo '".len() + filling.len() + 1;
        assert_eq!(outcome.output, format!("{echoed}\n[exit code 0]"));
    }
}

async fn death_by_a_signal_is_stated(factory: &impl Factory) {
    let world = factory.full();
    let outcome = world.call("bash", json!({ "command": "echo a; kill -9 $$" })).await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Failed, None));
    assert_eq!(outcome.output, "a\n[killed by signal 9]");
    for signal in [1, 6, 11, 15] {
        let outcome = world.call("bash", json!({ "command": format!("kill -{signal} $$") })).await;
        assert_eq!(outcome.output, format!("[killed by signal {signal}]"));
    }
}

async fn standard_input_is_empty_and_there_is_no_terminal(factory: &impl Factory) {
    let world = factory.full();
    let command = "cat; (echo x > /dev/tty) 2> /dev/null || echo none";
    let outcome = world.call("bash", json!({ "command": command })).await;
    assert_eq!(outcome.output, "none\n[exit code 0]");
}

async fn commands_start_in_the_root_and_in_a_session_of_their_own(factory: &impl Factory) {
    let world = factory.full();
    let command = "pwd; read -r stat < /proc/$$/stat; set -- ${stat##*)}; echo session $3 $4";
    let outcome = world.call("bash", json!({ "command": command })).await;
    let root = std::fs::canonicalize(world.root()).unwrap();
    let rest = outcome.output.strip_prefix(&format!("{}\nsession ", root.display())).expect("the root");
    let (group, session) = rest.strip_suffix("\n[exit code 0]").unwrap().split_once(' ').unwrap();
    assert_eq!(group, session, "the process is in the group of the session's leader");
    // Parsed as text, because in a container the session of the tests may have a leader outside it, and is then 0.
    let ours = std::fs::read_to_string("/proc/self/stat").unwrap();
    let ours = ours.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap();
    assert!(session != ours && session != "0", "{session} is not a session of its own ({ours})");
}

async fn programs_use_no_pager_and_ask_no_questions(factory: &impl Factory) {
    let world = factory.full();
    let command = "echo $PAGER $GIT_PAGER -$SYSTEMD_PAGER- $GIT_TERMINAL_PROMPT $DEBIAN_FRONTEND $TERM";
    let outcome = world.call("bash", json!({ "command": command })).await;
    assert_eq!(outcome.output, "cat cat -- 0 noninteractive dumb\n[exit code 0]");
}

async fn a_command_that_begins_like_an_option_is_a_command(factory: &impl Factory) {
    let world = factory.full();
    let outcome = world.call("bash", json!({ "command": "-x; echo still" })).await;
    assert!(outcome.output.contains("-x: command not found"), "{}", outcome.output);
    assert!(outcome.output.ends_with("still\n[exit code 0]"), "{}", outcome.output);
}

async fn wrong_arguments_are_named(factory: &impl Factory) {
    let world = factory.full();
    let cases = [
        (json!({}), "`command`"),
        (json!({ "command": 3 }), "`command`"),
        (json!({ "command": "true", "timeout_s": "soon" }), "`timeout_s`"),
        (json!({ "command": "true", "timeout_s": 0 }), "`timeout_s`"),
        (json!({ "command": "true", "timeout_s": 3601 }), "`timeout_s`"),
        (json!({ "command": "true", "cwd": "/" }), "`cwd`"),
        (json!({ "command": "echo a\0b" }), "NUL byte"),
        (json!({ "command": "x".repeat(128 * 1024) }), "write it to a file"),
    ];
    for (arguments, named) in cases {
        let outcome = world.call("bash", arguments).await;
        assert_eq!(outcome.status, Status::Failed, "{}", outcome.output);
        assert!(outcome.output.contains(named), "{}", outcome.output);
    }
    let outcome = world.call("rm_rf", json!({})).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.output.contains("unknown tool rm_rf"), "{}", outcome.output);
}

async fn a_command_that_times_out_keeps_its_output(factory: &impl Factory) {
    let world = factory.full();
    let command = "trap 'echo asked' TERM; echo pid $$; echo begun; sleep 1000 & wait; sleep 1000";
    let outcome = world.call("bash", json!({ "command": command, "timeout_s": 1 })).await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Timeout, None));
    assert!(outcome.output.contains("begun\n"), "{}", outcome.output);
    assert!(outcome.output.contains("asked\n"), "the process got SIGTERM first: {}", outcome.output);
    assert!(outcome.output.ends_with("\n[timed out after 1 s; stopped]"), "{}", outcome.output);
    assert!(pids(&outcome.output).into_iter().all(is_gone));
}

async fn a_command_without_a_limit_ends_by_itself(factory: &impl Factory) {
    let world = factory.full();
    for option in [json!({ "on_timeout": "background" }), json!({ "background": true })] {
        let mut arguments = json!({ "command": "sleep 1.5; echo done", "timeout_s": 1 });
        let both = arguments.as_object_mut().unwrap();
        both.extend(option.as_object().unwrap().clone());
        let outcome = world.call("bash", arguments).await;
        assert_eq!(
            (outcome.status, outcome.output.as_str()),
            (Status::Ok, "done\n[exit code 0]"),
            "{option}"
        );
    }
}

async fn a_lifted_time_limit_stops_nothing(factory: &impl Factory) {
    let world = factory.full();
    let call =
        world.tool_call("bash", json!({ "command": "echo begun; sleep 1.5; echo done", "timeout_s": 1 }));
    let (host, id) = (world.host.clone(), call.id.clone());
    let sink = DeltaSink::new(move |_| host.lift_time_limit(&id));
    let run = world.host.run(call, sink, CancellationToken::new());
    let outcome = tokio::time::timeout(DEADLINE, run).await.expect("the call ends in time");
    assert_eq!((outcome.status, outcome.output.as_str()), (Status::Ok, "begun\ndone\n[exit code 0]"));
}

async fn a_stopped_command_keeps_its_output(factory: &impl Factory) {
    let world = factory.full();
    let command = "echo before; echo ready; sleep 1000";
    let outcome =
        world.call_until("bash", json!({ "command": command }), |text| text.contains("ready")).await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Cancelled, None));
    assert_eq!(outcome.output, "before\nready\n[stopped]");
}

/// Starts a child, one that ignores SIGTERM, one in its own session, and one whose parents are gone.
const TREE: &str = "echo pid $$
sleep 1000 & echo pid $!
(trap '' TERM; echo pid $BASHPID; while :; do sleep 1000; done) &
setsid sleep 1000 > /dev/null 2>&1 & echo pid $!
setsid sh -c 'setsid sh -c \"echo pid \\$\\$; exec sleep 1000\" & exit' &
wait";

fn all_there(shown: &str) -> bool {
    shown.ends_with('\n') && pids(shown).len() == 5
}

async fn a_stop_ends_the_whole_tree(factory: &impl Factory) {
    let world = factory.full();
    let outcome = world.call_until("bash", json!({ "command": TREE }), all_there).await;
    assert_eq!(outcome.status, Status::Cancelled);
    let pids = pids(&outcome.output);
    assert_eq!(pids.len(), 5, "{}", outcome.output);
    for pid in pids {
        assert!(is_gone(pid), "{pid} is still running:\n{}", outcome.output);
    }
}

async fn a_stop_before_the_start_starts_nothing(factory: &impl Factory) {
    let world = factory.full();
    let cancel = CancellationToken::new();
    cancel.cancel();
    for (tool, arguments) in [
        ("bash", json!({ "command": "echo > ran" })),
        ("write_file", json!({ "path": "ran", "content": "" })),
    ] {
        let call = world.tool_call(tool, arguments);
        let outcome = world.host.run(call, DeltaSink::none(), cancel.clone()).await;
        assert_eq!((outcome.status, outcome.output.as_str()), (Status::Cancelled, "stopped"));
    }
    assert!(!world.at("ran").exists());
}

async fn a_dropped_call_ends_the_whole_tree(factory: &impl Factory) {
    let world = factory.full();
    let (seen, mut ready) = tokio::sync::mpsc::unbounded_channel();
    let sink = DeltaSink::new(move |text| {
        // The receiver is closed once the test has seen enough.
        let _ = seen.send(text.to_owned());
    });
    let call = world.tool_call("bash", json!({ "command": TREE }));
    let run = world.host.run(call, sink, CancellationToken::new());
    let mut shown = String::new();
    let watch = async {
        while !all_there(&shown) {
            shown.push_str(&ready.recv().await.expect("it prints until all are there"));
        }
    };
    tokio::select! {
        outcome = run => panic!("result unknown: {outcome:?}"),
        () = watch => {}
    }
    let pids = pids(&shown);
    assert_eq!(pids.len(), 5, "{shown}");
    for pid in pids {
        wait_until_gone(pid);
    }
}

async fn a_program_in_the_background_does_not_hold_the_call(factory: &impl Factory) {
    let world = factory.full();
    let command = "sleep 1000 & echo pid $!";
    let outcome = world.call("bash", json!({ "command": command })).await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Ok, Some(0)));
    assert!(
        outcome.output.ends_with(
            "\n[a process started by the command is still running in the background]\n[exit code 0]"
        ),
        "{}",
        outcome.output
    );
    for pid in pids(&outcome.output) {
        assert!(!is_gone(pid), "a process left in the background on purpose survives");
        end(pid);
    }
}

async fn a_program_in_the_background_may_go_on_printing(factory: &impl Factory) {
    let world = factory.full();
    let command = "mkfifo go done; (read word < go; yes | head -c 3000000 && echo $word > done || echo dead > done) & echo begun";
    let outcome = world.call("bash", json!({ "command": command })).await;
    assert!(outcome.output.starts_with("begun\n"), "{}", outcome.output);
    std::fs::write(world.at("go"), "alive\n").unwrap();
    let done = world.at("done");
    let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(done));
    let word = tokio::time::timeout(DEADLINE, reading).await.expect("it is not stuck in its output");
    assert_eq!(word.unwrap().unwrap(), "alive\n");
}

async fn a_command_that_closes_its_output_is_waited_for(factory: &impl Factory) {
    let world = factory.full();
    let command = "echo a; exec > /dev/null 2>&1; echo b > late; exit 4";
    let outcome = world.call("bash", json!({ "command": command })).await;
    assert_eq!((outcome.exit_code, outcome.output.as_str()), (Some(4), "a\n[exit code 4]"));
    assert_eq!(world.text("late"), "b\n");
}

fn end(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
