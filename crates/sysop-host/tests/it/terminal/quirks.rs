//! Tests of unusual terminals: custom prompts and shell options, output that imitates our marks, and arbitrary bytes.

use sysop_core::outcome::Status;

use super::rig::{Rig, Shell};
use crate::world::{pids, wait_until_gone};

#[tokio::test]
async fn any_shell_prompt_works() {
    let bash = [
        "PS1='\\[\\e[1;31m\\]\\u \\$(false)$? > \\[\\e[0m\\]\n$ '",
        "PS1=",
        "PROMPT_COMMAND='PS1=\"$RANDOM %% \\$ \"; false'",
        "PROMPT_COMMAND=('true' 'PS1=two\\ ' 'echo noise >/dev/null')",
        "PROMPT_COMMAND='true;'; PS1='\\033]7717;0;B\\007> '",
        "trap 'x=$BASH_COMMAND' DEBUG; set -o vi; shopt -s histverify",
        "bind 'set enable-bracketed-paste off'; PS2='more> '; stty -ixon",
        "alias echo='echo aliased'; alias eval=false printf=false; unalias echo",
        "echo a banner; printf 'and a line without end'",
        "sleep 0.3; echo slow; sleep 0.3",
    ];
    let zsh = [
        "PROMPT='%F{red}%n%f %# '; RPROMPT='%T'; setopt promptsubst",
        "precmd() { PS1=\"$RANDOM> \"; false }; preexec() { print -n }",
        "bindkey -v; setopt nobanghist extendedglob interactivecomments; PS1=",
        "unsetopt zle; PS1='z%# '",
    ];
    let fish = [
        "function fish_prompt; echo 'two'; echo -n 'lines> '; end",
        "set fish_greeting; function fish_right_prompt; date; end; fish_vi_key_bindings",
    ];
    let posix = ["PS1='$(echo x) $? $ '", "PS1=", "set -u; PS1='\\$ ! # '"];
    for (shell, files) in [
        (Shell::Bash, &bash[..]),
        (Shell::Zsh, &zsh),
        (Shell::Fish, &fish),
        (Shell::Dash, &posix),
        (Shell::Ash, &posix),
    ] {
        for rc in files {
            let rig = Rig::with_rc(shell, rc);
            for code in [0, 3] {
                let outcome = rig.run(&format!("echo a; sh -c 'exit {code}'")).await;
                let expected = format!("a\n[exit code {code}]");
                assert_eq!((outcome.output, outcome.exit_code), (expected, Some(code)), "{shell:?}: {rc}");
            }
        }
    }
}

#[tokio::test]
async fn shells_ended_by_options_are_reported() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Dash, Shell::Ash] {
        let rig = Rig::new(shell);
        assert_eq!(rig.output("set -u; echo on").await, "on\n", "{shell:?}");
        assert_eq!(rig.output("echo still").await, "still\n", "{shell:?}");
        assert_eq!(rig.output("set +u; set -e; echo on").await, "on\n", "{shell:?}");
        assert_eq!(rig.output("if false; then :; fi; echo still").await, "still\n", "{shell:?}");
        let outcome = rig.run("false; echo never").await;
        assert_eq!((outcome.status, outcome.exit_code), (Status::Failed, Some(1)), "{shell:?}: {outcome:?}");
        assert!(outcome.output.contains("the shell ended with exit code 1"), "{shell:?}: {}", outcome.output);
        assert!(rig.run("echo new").await.output.ends_with("new\n[exit code 0]"), "{shell:?}");
    }
}

#[tokio::test]
async fn tracing_shows_little_of_our_own_code() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Dash, Shell::Ash] {
        let rig = Rig::new(shell);
        rig.run("set -x").await;
        let outcome = rig.run("echo traced").await;
        assert_eq!(outcome.exit_code, Some(0), "{shell:?}: {outcome:?}");
        assert!(outcome.output.contains("traced\n"), "{shell:?}: {}", outcome.output);
        for ours in ["7717", "__sysop_m", "__sysop_f"] {
            assert!(!outcome.output.contains(ours), "{shell:?}: {}", outcome.output);
        }
    }
}

#[tokio::test]
async fn removed_marks_are_restored() {
    for (shell, command) in [
        (Shell::Bash, "PROMPT_COMMAND=; PS1='new$ '"),
        (Shell::Bash, "exec 2>&1; PROMPT_COMMAND=true; sh -c 'exit 6'"),
        (Shell::Dash, "PS1='new$ '"),
        (Shell::Ash, "PS1='new$ '"),
        (Shell::Zsh, "precmd_functions=(); PS1='new$ '"),
    ] {
        let rig = Rig::new(shell);
        let outcome = rig.run(command).await;
        let known =
            outcome.exit_code.is_some_and(|code| [0, 6].contains(&code)) || outcome.status == Status::Unknown;
        assert!(known, "{shell:?}: {command}: {outcome:?}");
        let outcome = rig.run("echo here; sh -c 'exit 2'").await;
        assert_eq!(
            (outcome.output.as_str(), outcome.exit_code),
            ("here\n[exit code 2]", Some(2)),
            "{shell:?}: {command}"
        );
    }
}

#[tokio::test]
async fn a_shell_with_redirected_output_works() {
    let rig = Rig::new(Shell::Bash);
    assert_eq!(rig.output("exec >log").await, "");
    assert_eq!(rig.output("echo in the file; exec >/dev/tty").await, "");
    assert_eq!(rig.output("cat log").await, "in the file\n");
}

#[tokio::test]
async fn the_model_gets_program_output_as_plain_text() {
    let rig = Rig::new(Shell::Bash);
    let all = "printf '\\033[1;31mred\\033[0m \\033]0;title\\007\\033]52;c;eA==\\007\\033P+q\\033\\\\\\033_x\\033\\\\ok\\n'";
    assert_eq!(rig.output(all).await, "red ok\n");
    assert_eq!(rig.output("printf '10%%\\r50%%\\r100%%\\n'").await, "100%\n");
    assert_eq!(rig.output("printf 'no newline'").await, "no newline\n");
    assert_eq!(rig.output("printf 'a\\303'; sleep 0.1; printf '\\244b\\n'").await, "aäb\n");
    assert_eq!(rig.output("echo known-secret-1").await, "[redacted]\n");
    assert!(!rig.recorded().contains("known-secret-1\\r"), "{}", rig.recorded());
    // All control characters; terminal queries are answered, and the shell continues.
    let noise = "i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %o $i)\"; i=$((i+1)); done; printf '\\033[c\\033[6n\\033[?25h\\033c'";
    let outcome = rig.run(noise).await;
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
    assert!(!outcome.output.contains('\u{1b}'));
    rig.keys("Ctrl+C").await;
    assert_eq!(rig.output("echo fine").await, "fine\n");
}

#[tokio::test]
async fn long_output_is_bounded_and_kept_as_an_artifact() {
    let rig = Rig::new(Shell::Bash);
    let outcome = rig.run("seq 200000").await;
    assert_eq!((outcome.exit_code, outcome.truncated), (Some(0), true));
    assert!(outcome.output.starts_with("1\n2\n") && outcome.output.contains("200000\n[exit code 0]"));
    let kept = std::fs::read_to_string(rig.artifacts().join(outcome.artifact.unwrap())).unwrap();
    assert_eq!(kept, (1..=200_000).map(|number| format!("{number}\n")).collect::<String>());
}

#[tokio::test]
async fn commands_that_cannot_be_typed_are_rejected() {
    let rig = Rig::new(Shell::Bash);
    let outcome = rig.run(&"x".repeat(1024 * 1024)).await;
    assert!(outcome.output.contains("write it to a file first"), "{}", outcome.output);
    assert!(rig.run("  \n ").await.output.contains("must not be empty"));
    let long = format!("echo {}", "y".repeat(60_000));
    assert_eq!(rig.run(&long).await.exit_code, Some(0));
}

#[tokio::test]
async fn programs_in_the_terminal_end_with_the_host() {
    let rig = Rig::new(Shell::Bash);
    let command = "sleep 1000 & echo pid $!; echo pid $$; sh -c 'echo pid $$; exec sleep 1000'";
    let outcome = rig.run_for(command, 1).await;
    let pids = pids(&outcome.output);
    assert!(pids.len() >= 3, "{outcome:?}");
    drop(rig);
    tokio::task::spawn_blocking(move || pids.into_iter().for_each(wait_until_gone)).await.unwrap();
}
