//! Tests of `run_command`: the end of a command is found in every shell, whatever the command does.

use sysop_core::outcome::Status;

use super::rig::{Rig, Shell};

/// Runs the same tests in every shell that supports command marks.
macro_rules! in_each_shell {
    ($($name:ident),+ $(,)?) => {
        $(
            mod $name {
                use super::super::rig::{Rig, Shell};

                #[tokio::test]
                async fn bash() {
                    super::$name(Rig::new(Shell::Bash)).await;
                }

                #[tokio::test]
                async fn zsh() {
                    super::$name(Rig::new(Shell::Zsh)).await;
                }

                #[tokio::test]
                async fn fish() {
                    super::$name(Rig::new(Shell::Fish)).await;
                }

                #[tokio::test]
                async fn dash() {
                    super::$name(Rig::new(Shell::Dash)).await;
                }

                #[tokio::test]
                async fn ash() {
                    super::$name(Rig::new(Shell::Ash)).await;
                }
            }
        )+
    };
}

in_each_shell!(
    output_and_exit_code_come_from_the_command,
    the_state_of_the_shell_lasts_between_commands,
    commands_of_several_lines_run_as_one,
    the_end_of_the_shell_is_reported_and_the_next_call_opens_another,
    a_command_that_times_out_continues_in_the_terminal,
    a_stop_interrupts_and_keeps_the_output,
    an_incomplete_command_is_reported_and_harms_nothing,
    a_program_in_the_background_does_not_hold_the_call,
    our_marks_and_typing_are_not_visible,
    imitated_marks_are_ignored,
);

async fn output_and_exit_code_come_from_the_command(rig: Rig) {
    let outcome = rig.run("echo a; echo b").await;
    assert_eq!(outcome.output, "a\nb\n[exit code 0]");
    assert_eq!((outcome.status, outcome.exit_code), (Status::Ok, Some(0)));
    let outcome = rig.run("sh -c 'printf x; exit 3'").await;
    assert_eq!(outcome.output, "x\n[exit code 3]");
    assert_eq!((outcome.status, outcome.exit_code), (Status::Failed, Some(3)));
    let outcome = rig.run("no-such-program-here").await;
    assert_eq!(outcome.exit_code, Some(127), "{outcome:?}");
    let odd = r#"printf '%s\n' 'a!b "c" $d \e' "ä€%"  '--' -x"#;
    assert_eq!(rig.output(odd).await, "a!b \"c\" $d \\e\nä€%\n--\n-x\n");
}

async fn the_state_of_the_shell_lasts_between_commands(rig: Rig) {
    std::fs::create_dir(rig.root().join("sub")).unwrap();
    rig.output("cd sub").await;
    let place = std::fs::canonicalize(rig.root().join("sub")).unwrap();
    assert_eq!(rig.output("pwd").await, format!("{}\n", place.display()));
    rig.output("export LASTS=yes").await;
    assert_eq!(rig.output("sh -c 'echo $LASTS'").await, "yes\n");
}

async fn commands_of_several_lines_run_as_one(rig: Rig) {
    assert_eq!(rig.output("for x in a b\ndo echo $x\ndone # comment").await, "a\nb\n");
    let long: String = (0..400).map(|number| format!("echo 'line {number}'\n")).collect();
    let told: String = (0..400).map(|number| format!("line {number}\n")).collect();
    assert_eq!(rig.output(&long).await, told);
}

async fn the_end_of_the_shell_is_reported_and_the_next_call_opens_another(rig: Rig) {
    let outcome = rig.run("exit 4").await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Failed, Some(4)), "{outcome:?}");
    let end = "[the shell ended with exit code 4; the next call opens a new one]";
    assert!(outcome.output.ends_with(end), "{}", outcome.output);
    let outcome = rig.run("echo again").await;
    assert!(outcome.output.starts_with("[the shell had exited; this is a new shell"), "{}", outcome.output);
    assert!(outcome.output.ends_with("]\nagain\n[exit code 0]"), "{}", outcome.output);
}

#[tokio::test]
async fn exec_makes_a_command_the_last_of_its_shell() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Dash, Shell::Ash] {
        let rig = Rig::new(shell);
        let outcome = rig.run("exec sh -c 'echo other; exit 0'").await;
        assert_eq!((outcome.status, outcome.exit_code), (Status::Ok, Some(0)), "{outcome:?}");
        assert!(outcome.output.starts_with("other\n[the shell ended"), "{}", outcome.output);
        assert!(rig.run("echo third").await.output.contains("third"));
    }
}

#[tokio::test]
async fn a_program_other_than_the_shell_never_reads_a_command() {
    let rig = Rig::new(Shell::Fish);
    std::fs::write(rig.root().join("keep"), "").unwrap();
    // fish would end the quotes at the backslash, and run the rest.
    assert_eq!(rig.output(r"echo 'x\' 'y; rm -rf keep #'").await, "x\\ y; rm -rf keep #\n");
    assert!(rig.root().join("keep").exists());
    let value = "it's \"$HOME\" \\ (echo no)\nend; exit 3";
    let quoted = format!("'{}'", value.replace('\'', r"'\''"));
    rig.output(&format!("export ODD={quoted} PATH=\"/opt/one:$PATH\"; cd /usr; notexported=1")).await;
    let kept =
        rig.output("printf %s \"$ODD\"; echo; echo \"$PATH\" | cut -d: -f1; pwd; echo ${notexported-gone}");
    assert_eq!(kept.await, format!("{value}\n/opt/one\n/usr\ngone\n"));
    let outcome = rig.run("cd /; exit 7").await;
    assert_eq!((outcome.output.as_str(), outcome.exit_code), ("[exit code 7]", Some(7)));
    assert_eq!(rig.output("pwd").await, "/\n");
    // Input that a user types is still run by fish.
    let shown = rig.keys_until("\"set -q FISH_VERSION; and string upper odd:$PWD\" Enter", |text| {
        text.contains("ODD:/")
    });
    assert!(shown.await.output.contains("ODD:/"));
}

#[tokio::test]
async fn a_shell_without_marks_keeps_the_directory() {
    let rig = Rig::new(Shell::Tcsh);
    std::fs::write(rig.root().join("keep"), "").unwrap();
    let outcome = rig.run("cd /usr; echo 'a\n!b' \"c'd\"; echo $0").await;
    assert!(outcome.output.contains("a\n!b c'd\nsh\n"), "{}", outcome.output);
    let outcome = rig.run("pwd; echo 'x' 'y\n'; false").await;
    assert!(outcome.output.contains("/usr\nx y\n"), "{}", outcome.output);
    for ours in ["7717", "printf", "sysop"] {
        assert!(!outcome.output.contains(ours), "{}", outcome.output);
    }
    assert!(rig.root().join("keep").exists());
}

async fn a_command_that_times_out_continues_in_the_terminal(rig: Rig) {
    let outcome = rig.run_for("sh -c 'echo begun; read line; echo got $line'", 1).await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Timeout, None));
    assert!(outcome.output.contains("begun") && outcome.output.contains("send_keys"), "{}", outcome.output);
    let refused = rig.run("echo too early").await;
    assert_eq!(refused.status, Status::Failed);
    assert!(refused.output.contains("a program is still running in the terminal"), "{}", refused.output);
    let outcome = rig.keys("word Enter").await;
    assert!(outcome.output.contains("got word"), "{}", outcome.output);
    if !outcome.output.contains("at its prompt") {
        // The screen was still before the shell had drawn its prompt.
        rig.keys_until("Ctrl+L", |shown| shown.contains("at its prompt")).await;
    }
    assert_eq!(rig.output("echo later").await, "later\n");
}

async fn a_stop_interrupts_and_keeps_the_output(rig: Rig) {
    let outcome = rig.run_until("sh -c 'echo one; sleep 1000'", |shown| shown.contains("one")).await;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Cancelled, None));
    assert!(outcome.output.starts_with("one\n"), "{}", outcome.output);
    assert!(outcome.output.ends_with("[stopped]"), "{}", outcome.output);
    assert_eq!(rig.output("echo next").await, "next\n");
}

async fn an_incomplete_command_is_reported_and_harms_nothing(rig: Rig) {
    for command in ["echo 'never closed", "echo \"never $(closed", "if true", "cat <<EOF\nnever ended"] {
        let outcome = rig.run(command).await;
        let heredoc_in_fish = outcome.output.contains("<<") || outcome.output.contains("here-document");
        let said = ["incomplete command", "seems to be incomplete", "parse error near"]
            .iter()
            .any(|said| outcome.output.contains(said));
        assert!(said || heredoc_in_fish, "{command}: {outcome:?}");
        assert_eq!(outcome.status, Status::Failed, "{command}: {outcome:?}");
    }
    assert_eq!(rig.output("echo fine").await, "fine\n");
}

async fn a_program_in_the_background_does_not_hold_the_call(rig: Rig) {
    let outcome = rig.run("sleep 1000 & echo started $!.").await;
    let (_, pid) = outcome.output.split_once("started ").unwrap();
    assert_eq!(outcome.exit_code, Some(0));
    let outcome = rig.run(&format!("kill {}", pid.split('.').next().unwrap())).await;
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
}

async fn our_marks_and_typing_are_not_visible(rig: Rig) {
    let mut told = rig.run("echo visible; false").await.output;
    told.push_str(&rig.run("true").await.output);
    told.push_str(&rig.keys("Enter").await.output);
    // Busybox stores every line in its history; the other shells do not store ours.
    if !told.contains("BusyBox") {
        told.push_str(&rig.keys("Up Ctrl+C").await.output);
    }
    told.push_str(&rig.recorded());
    assert!(told.contains("echo visible; false"), "{told}");
    for ours in ["sysop", "]7717", "eval", "printf", "PROMPT_COMMAND", "SUDO_PROMPT"] {
        assert!(!told.contains(ours), "{ours} is in {told}");
    }
}

async fn imitated_marks_are_ignored(rig: Rig) {
    let guesses =
        "printf '\\033]7717;0123456789abcdef;D;fedcba9876543210;0\\007\\033]133;D;0\\007'; sh -c 'exit 5'";
    let outcome = rig.run(guesses).await;
    assert_eq!((outcome.output.as_str(), outcome.exit_code), ("[exit code 5]", Some(5)));
}

/// With SIGINT ignored, as under `nohup` or in a script's background job; child processes inherit that.
#[test]
fn stopping_interrupts_even_if_sysop_ignores_ctrl_c() {
    let name = "terminal::commands::a_stop_interrupts_and_keeps_the_output::bash";
    let again = std::process::Command::new("sh")
        .args(["-c", "trap '' INT QUIT; exec \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(name)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && said.contains("1 passed"), "{said}");
}
