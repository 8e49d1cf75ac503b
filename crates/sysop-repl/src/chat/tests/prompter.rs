//! Remote hosts in the REPL: prompts of programs, the session's terminal, and the display of the location.

use rustix::process::Signal;

use super::*;

/// Text that must appear nowhere after it was typed.
const SECRET: &str = "geheim";

#[tokio::test]
async fn a_password_prompt_does_not_echo() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history");
    let mut person = Person::sits_down(Some(&file));
    person.sees(PROMPT).await;
    person.types("sudo now\r").await;
    let text = person.sees("Esc: decline").await;
    assert!(text.contains("╭─ QUESTION ─") && text.contains("│ sudo on web1 asks:"), "{text}");
    assert!(text.contains("│   [sudo] password for joe:"), "{text}");
    let before = person.seen.len();
    person.types("geheim").await;
    person.types("x\u{7f}\r").await;
    let text = person.sees("all right").await;
    assert!(text.contains("· You answered `[sudo] password for joe:`: [password entered]"), "{text}");
    person.sees(PROMPT).await;
    let after = bare(&person.seen[before..]);
    assert!(!after.contains(SECRET) && !after.contains('•') && !after.contains('*'), "{after}");
    // The line editor has it neither in the history nor as a draft.
    person.types("\u{1b}[A").await;
    person.sees("sudo now").await;
    person.types("\u{15}/exit\r").await;
    assert_eq!(person.seen.find(SECRET), None);
    assert_eq!(person.leaves().await, 0);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "sudo now\n/exit\n");
}

#[tokio::test]
async fn input_before_the_prompt_is_not_a_password() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("sudo now\rgeheim\rgeheim").await;
    person.sees("Esc: decline").await;
    person.types("other\r").await;
    person.sees("not right").await;
    person.sees(PROMPT).await;
}

#[tokio::test]
async fn the_rest_of_a_paste_after_a_password_is_dropped() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("sudo now\r").await;
    person.sees("Esc: decline").await;
    person.types(&format!("geheim\r{}\r", "-----MORE-----".repeat(60))).await;
    person.sees("all right").await;
    person.sees(PROMPT).await;
    person.types("/exit\r").await;
    assert!(!person.seen.contains("MORE"), "{}", bare(&person.seen));
    assert_eq!(person.leaves().await, 0);
}

#[tokio::test]
async fn ctrl_c_declines_a_prompt_before_it_stops_the_turn() {
    for refusal in ["\u{3}", "\u{1b}", "half\u{3}", "\u{4}"] {
        let mut person = Person::sits_down(None);
        person.sees(PROMPT).await;
        person.types("twice\r").await;
        person.sees("[sudo] password for joe:").await;
        person.sees("Esc: decline").await;
        person.types(refusal).await;
        // The turn continues with the next prompt.
        person.sees("declined; press Ctrl+C to stop the turn").await;
        let text = person.sees("Esc: decline").await;
        assert!(text.contains("One-time code:"), "{text}");
        person.types("123456\r").await;
        person.sees("not right").await;
        person.sees(PROMPT).await;
    }
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("twice\r").await;
    person.sees("Esc: decline").await;
    // A signal from elsewhere declines like the key; the second one stops the turn.
    person.signals(Signal::INT);
    person.sees("One-time code:").await;
    person.sees("Esc: decline").await;
    person.signals(Signal::INT);
    person.sees("canceled").await;
    person.sees(PROMPT).await;
    person.types("thrice\r").await;
    person.sees("Esc: decline").await;
    person.types("\u{3}").await;
    person.sees("One-time code:").await;
    person.sees("Esc: decline").await;
    person.types("\u{3}").await;
    // The third prompt is withdrawn with the turn.
    let text = person.sees("canceled").await;
    assert!(!text.contains("Again:"), "{text}");
    person.sees(PROMPT).await;
}

#[tokio::test]
async fn several_prompts_appear_one_at_a_time() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("twice\r").await;
    let text = person.sees("Esc: decline").await;
    assert!(!text.contains("One-time code"), "{text}");
    person.types("geheim\r").await;
    let text = person.sees("Esc: decline").await;
    assert!(text.contains("One-time code:") && text.contains("Enter: send"), "{text}");
    person.types("123456").await;
    person.sees("› 123456").await;
    person.types("\r").await;
    person.sees("You answered `One-time code:`: 123456").await;
    person.sees("all right").await;
    person.sees(PROMPT).await;
}

#[tokio::test]
async fn an_unknown_host_key_is_shown_completely_and_needs_a_typed_yes() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    let before = person.seen.len();
    person.types("hostkey\r").await;
    let text = person.sees("Esc: decline").await;
    assert!(text.contains("│   SHA256:8sX8cJmQ1bC9x0mV3mGk0m9wq1eJ2z8QkqYh1dQ3abc. "), "{text}");
    let drawn = &person.seen[before..];
    assert!(!drawn.contains("\u{1b}[2J"), "{drawn:?}");
    person.types("yes").await;
    person.sees("› yes").await;
    person.types("\r").await;
    let text = person.sees("all right").await;
    assert!(text.contains("· You answered `"), "{text}");
}

#[tokio::test]
async fn the_user_decides_whether_an_unclear_prompt_is_secret() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("perhaps\r").await;
    person.sees("secret prompt?").await;
    person.types("y").await;
    person.sees("Input is hidden").await;
    person.types("geheim\r").await;
    person.sees("all right").await;
    person.sees(PROMPT).await;
    assert!(!person.seen.contains(SECRET));
    person.types("perhaps\r").await;
    person.sees("secret prompt?").await;
    person.types("n").await;
    person.sees("not right").await;
    person.sees(PROMPT).await;
    person.types("perhaps\r").await;
    person.sees("secret prompt?").await;
    person.types("\u{1b}").await;
    person.sees("declined").await;
    person.sees(PROMPT).await;
}

#[tokio::test]
async fn an_answer_of_another_client_closes_the_prompt() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("sudo now\r").await;
    person.sees("Esc: decline").await;
    person.types("half").await;
    person.signals(Signal::USR2);
    person.sees("web answered sudo on web1").await;
    let text = person.sees(PROMPT).await;
    assert!(text.contains("all right"), "{text}");
    assert!(!text.contains("half"), "{text}");
    person.types("/exit\r").await;
    assert_eq!(person.leaves().await, 0);
}

#[tokio::test]
async fn the_terminal_is_restored_if_the_repl_ends_during_a_prompt() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("sudo now\r").await;
    person.sees("Esc: decline").await;
    person.types("gehe").await;
    person.signals(Signal::TERM);
    assert_eq!(person.leaves().await, 143);
}

#[tokio::test]
async fn the_plain_layout_prompts_without_echo() {
    let mut person = Person::starts("plain", None);
    person.sees("You: ").await;
    person.types("sudo now\r").await;
    let text = person.sees("Esc: decline").await;
    assert!(text.contains("sudo on web1 asks:\n  [sudo] password for joe:"), "{text}");
    let before = person.seen.len();
    person.types("geheim\r").await;
    person.sees("[password entered]").await;
    person.sees("You: ").await;
    assert!(!person.seen[before..].contains(SECRET), "{}", bare(&person.seen));
    person.types("/exit\r").await;
    assert_eq!(person.leaves().await, 0);
}

#[tokio::test]
async fn piped_input_answers_a_prompt_with_its_next_line() {
    let (text, code) = plain("sudo now\ngeheim\nperhaps\ny\ngeheim\nhostkey\nyes\nsudo\n").await;
    expect![[r#"
        sysop: demo/one on web1, approval ask

        You: sudo now
        [Tool: bash("sudo id")]

        sudo on web1 asks:
          [sudo] password for joe:
        Answer: 
        (You answered `[sudo] password for joe:`: [password entered])
        all right
        (ok, exit code 0, 12 ms)

        You: perhaps
        [Tool: bash("sudo id")]

        sudo on web1 asks:
          Your name?
        Is this a password or secret prompt? [y/n] 
        Answer: 
        (You answered `Your name?`: [password entered])
        all right
        (ok, exit code 0, 12 ms)

        You: hostkey
        [Tool: bash("sudo id")]

        sudo on web1 asks:
          The authenticity of host 'web1 (10.0.0.1)' can't be established.
          ED25519 key fingerprint is SHA256:8sX8cJmQ1bC9x0mV3mGk0m9wq1eJ2z8QkqYh1dQ3abc.
          \x1b[2JAre you sure you want to continue connecting (yes/no/[fingerprint])?
        Answer: 
        (You answered `\x1b[2JAre you sure you want to continue connecting (yes/no/[fi…`: yes)
        all right
        (ok, exit code 0, 12 ms)

        You: sudo
        [Tool: bash("sudo id")]

        sudo on web1 asks:
          [sudo] password for joe:
        Answer: 
        (declined; press Ctrl+C to stop the turn)
        not right
        (failed, exit code 1, 12 ms)

        You: 
    "#]]
    .assert_eq(&text);
    assert_eq!(code, 0);
}

#[tokio::test]
async fn exec_prompts_on_its_terminal() {
    let mut person = Person::starts("sudo now", None);
    let text = person.sees("Esc: decline").await;
    assert!(text.contains("sudo on web1 asks:"), "{text}");
    let before = person.seen.len();
    person.types("geheim\r").await;
    person.sees("You answered `[sudo] password for joe:`: [password entered]").await;
    assert!(!person.seen[before..].contains(SECRET));
    assert_eq!(person.leaves().await, 0);

    let mut person = Person::starts("twice", None);
    person.sees("Esc: decline").await;
    person.types("\u{3}").await;
    person.sees("One-time code:").await;
    person.sees("Esc: decline").await;
    person.types("123456\r").await;
    person.sees("failed").await;
    assert_eq!(person.leaves().await, 0);

    let mut person = Person::starts("sudo now", None);
    person.sees("Esc: decline").await;
    person.signals(Signal::INT);
    assert_eq!(person.leaves().await, 130);
}

#[tokio::test]
async fn the_session_terminal_opens_and_closes() {
    let mut person = Person::starts("terminal", None);
    person.sees(PROMPT).await;
    person.types("/shell\r").await;
    person.sees("Ctrl+] to return").await;
    person.sees("a remote shell").await;
    person.sees("web1 · Ctrl+] to return").await;
    // All rows but our last one belong to the shell.
    person.sees("[80x29]").await;
    person.types("hello\r").await;
    person.sees("chat said HELLO").await;
    assert!(person.seen.contains("\u{1b}[?1049h") && !person.seen.contains("\u{1b}[?1049l"));
    person.types("\u{1d}").await;
    person.sees("You typed into the terminal: something").await;
    person.sees(PROMPT).await;
    assert_eq!(person.seen.matches("\u{1b}[?1049l").count(), 1);
    person.types("hello\r").await;
    person.sees("STATUS").await;
    person.sees(PROMPT).await;
    // Again, until the shell ends.
    person.types("/shell\r").await;
    person.sees("a remote shell").await;
    person.types("exit\r").await;
    person.sees("the shell ended with 0").await;
    person.sees(PROMPT).await;
    person.types("/shell\r").await;
    person.sees("a remote shell").await;
    person.signals(Signal::TERM);
    assert_eq!(person.leaves_screen().await, 143);
}

#[tokio::test]
async fn a_prompt_interrupts_the_terminal_and_returns_to_it() {
    let mut person = Person::starts("far", None);
    person.sees(PROMPT).await;
    person.types("/shell\r").await;
    person.sees("ssh web1 asks:").await;
    person.sees("Esc: decline").await;
    person.types("geheim\r").await;
    person.sees("a remote shell").await;
    person.types("ask\r").await;
    person.sees("sudo on web1 asks:").await;
    person.sees("Esc: decline").await;
    person.types("geheim\r").await;
    person.sees("a remote shell").await;
    person.types("more\r").await;
    person.sees("chat said MORE").await;
    person.types("\u{1d}").await;
    person.sees(PROMPT).await;
    assert!(!person.seen.contains(SECRET));
    person.types("\u{4}").await;
    assert_eq!(person.leaves_screen().await, 0);
    // After a failure to open the terminal, the prompt remains.
    let mut person = Person::starts("far", None);
    person.sees(PROMPT).await;
    person.types("/shell\r").await;
    person.sees("Esc: decline").await;
    person.types("\u{1b}").await;
    person.sees("web1 denied access; enter a passphrase").await;
    person.sees(PROMPT).await;
    person.types("\u{4}").await;
    assert_eq!(person.leaves_screen().await, 0);
}

#[tokio::test]
async fn declaring_a_prompt_not_secret_opens_the_terminal() {
    let mut person = Person::starts("terminal", None);
    person.sees(PROMPT).await;
    person.types("perhaps\r").await;
    person.sees("secret prompt?").await;
    person.types("n").await;
    person.sees("a remote shell").await;
    person.types("joe\r").await;
    person.sees("chat said JOE").await;
    person.types("\u{1d}").await;
    person.sees(PROMPT).await;
}

#[tokio::test]
async fn the_second_ctrl_backslash_opens_the_terminal_of_a_running_turn() {
    let mut person = Person::starts("terminal", None);
    person.sees(PROMPT).await;
    person.types("slow\r").await;
    person.sees("Working on it").await;
    person.types("\u{1c}").await;
    person.sees("Ctrl+P to resume, Ctrl+\\ to open the terminal").await;
    person.types("\u{1c}").await;
    person.sees("a remote shell").await;
    person.types("\u{1d}").await;
}

#[tokio::test]
async fn ctrl_p_pauses_a_turn_and_resumes_it() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("slow\r").await;
    person.sees("Ctrl+P pause").await;
    person.types("half a li\u{10}").await;
    person.sees("Ctrl+P to resume").await;
    person.types("\u{10}").await;
    person.sees("Going on.").await;
    person.sees("half a li").await;
}

#[tokio::test]
async fn ctrl_p_in_the_empty_line_of_a_paused_turn_resumes_it() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("loop\r").await;
    person.sees("paused ›").await;
    // In a line with text, the key recalls an earlier line.
    person.types("l").await;
    person.sees("paused › l").await;
    person.types("\u{10}").await;
    person.sees("paused › loop").await;
    person.types("\u{15}").await;
    person.sees("paused › ").await;
    person.types("\u{10}").await;
    person.sees("Going on.").await;
}

#[tokio::test]
async fn a_folded_output_is_shown_whole_on_request() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("/output\r").await;
    person.sees("no call has ended yet").await;
    person.types("many\r").await;
    let text = person.sees("420 rows omitted; /output 1 shows all").await;
    assert!(!text.contains("line 250"), "{text}");
    person.sees(PROMPT).await;
    person.types("/output\r").await;
    let text = person.sees("line 500").await;
    assert!(text.contains("OUTPUT 1") && text.contains("line 250"), "{text}");
    person.sees(PROMPT).await;
    person.types("/output 7\r").await;
    person.sees("no output kept for call 7").await;
}

#[tokio::test]
async fn a_truncated_output_names_the_file_that_has_all_of_it() {
    let rest = "omitted; truncated: /output 1 shows more, 1-output.txt has all";
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("flood\r").await;
    person.sees(rest).await;
    let (text, _) = plain("flood\n").await;
    assert!(text.contains(rest), "{text}");
}

#[tokio::test]
async fn commands_on_a_remote_host_show_the_host() {
    let mut person = Person::sits_down(None);
    let text = person.sees(PROMPT).await;
    assert!(text.contains("host web1"), "{text}");
    person.types("!uptime\r").await;
    let text = person.sees("STATUS").await;
    assert!(text.contains("╭─ REMOTE COMMAND ─"), "{text}");
    let text = person.sees(PROMPT).await;
    assert!(text.contains(" · web1 · demo/one · exit code 0 · 3.0 s"), "{text}");
    person.types("/run greet name=you\r").await;
    let text = person.sees("STATUS").await;
    assert!(text.contains("╭─ REMOTE COMMAND ─"), "{text}");
    person.sees(PROMPT).await;
    person.types("/keys ls Enter\r").await;
    let text = person.sees("STATUS").await;
    assert!(text.contains("╭─ TERMINAL ─") && text.contains("│ $ ls Enter"), "{text}");
    person.sees(PROMPT).await;
    person.types("auto\r").await;
    let text = person.sees("STATUS").await;
    assert!(text.contains("╭─ COMMAND OUTPUT ─") && !text.contains("REMOTE"), "{text}");
}

#[tokio::test]
async fn switching_hosts_opens_another_session() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("/host joe@web2\r").await;
    person.sees("host web2 · user joe").await;
    person.sees("joe@web2 demo/one ").await;
    person.types("/host gone\r").await;
    person.sees("gone cannot be reached; is its name right?").await;
    person.sees("joe@web2 demo/one ").await;
    person.types("/host local\r").await;
    person.sees("local demo/one ").await;
    person.types("!uptime\r").await;
    let text = person.sees("STATUS").await;
    assert!(text.contains("COMMAND OUTPUT"), "{text}");
}

#[tokio::test]
async fn every_host_of_a_fleet_is_named_before_the_answer() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("/host web1,web2,db1\r").await;
    person.sees("3 hosts demo/one ").await;
    person.types("clean\r").await;
    let text = person.sees(QUESTION).await;
    assert!(text.contains("on 3 hosts: web1, web2, db1 in /srv/app"), "{text}");
    person.types("s").await;
    person.sees("3 hosts demo/one ").await;
    person.types("fleet\r").await;
    let text = person.sees("STATUS").await;
    let places = ["db1: exit 1, 100 ms\n", "2 hosts (web1, web2): exit 0, 200 ms\n", "│ inactive"];
    let places = places.map(|line| text.find(line));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {text}");
    assert!(!text.contains("│ db1: inactive"), "{text}");
    person.sees("3 hosts demo/one ").await;
    person.types("unknown\r").await;
    person.sees("outcome unknown").await;
    person.sees("not run again").await;
}

#[tokio::test]
async fn a_call_that_a_hook_denied_is_named() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("denied\r").await;
    let text = person.sees("STATUS").await;
    let command = text.find("$ touch it").expect("the command");
    let reason = text.find("not run: denied by a hook: no ticket").expect("the reason");
    assert!(command < reason, "{text}");
}

#[tokio::test]
async fn a_call_that_could_not_run_is_named_with_its_reason() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("mistaken\r").await;
    let text = person.sees("STATUS").await;
    let call = text.find("read_file").expect("the call");
    let reason = text.find("not run: missing argument `path`").expect("the reason");
    assert!(call < reason && !text.contains("failed"), "{text}");
}

#[tokio::test]
async fn retries_share_the_moving_row() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("retried\r").await;
    let text = person.sees("At last.").await;
    // A printed row ends in a line feed, after its colors; the moving row does not.
    let ends_row = |rest: &str| {
        let mut rest = rest;
        while let Some(after) = rest.strip_prefix("\u{1b}[") {
            rest = after.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).get(1..).unwrap_or("");
        }
        rest.starts_with(['\r', '\n']) && rest.trim_start_matches('\r').starts_with('\n')
    };
    assert!(text.contains("retrying in 0.5 s"), "{text:?}");
    for reason in ["retrying in", "no answer", "busy"] {
        assert!(!text.split(reason).skip(1).any(ends_row), "{text:?}");
    }
}

#[tokio::test]
async fn the_output_of_a_call_that_was_rejected_after_its_start_ends_with_its_outcome() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("changed\r").await;
    let text = person.sees("STATUS").await;
    let output = text.find("│ not called: the definition changed").expect("the output");
    let rest = &text[output..];
    let closed = rest.find("╰─").unwrap_or_else(|| panic!("the panel is open: {text}"));
    assert!(rest[closed..].contains("rejected"), "{text}");
}

#[tokio::test]
async fn each_terminal_action_of_others_is_one_line() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("shared\r").await;
    person.sees("· web is using the terminal; agent paused\n").await;
    person.sees("· web typed into the terminal: ls -la Enter\n").await;
    person.sees("· the agent is using the terminal again\n").await;
    let (text, _) = plain("shared\n").await;
    assert!(
        text.contains(
            "(web is using the terminal; agent paused)\n(web typed into the terminal: ls -la Enter)\n"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn a_routine_reports_missing_variables() {
    let (text, _) =
        plain("/run greet\n/run greet nmae=x\n/run greet name='a b'\n/run greet name='$(id)'\n").await;
    expect![[r#"
        sysop: demo/one on web1, approval ask

        You: /run greet
        (`name` has no value)

        You: /run greet nmae=x
        (`name` has no value)

        You: /run greet name='a b'
        [Tool: bash("echo hello a b")]
        ran echo hello a b

        You: /run greet name='$(id)'
        [Tool: bash("echo hello $(id)")]
        ran echo hello $(id)

        You: 
    "#]]
    .assert_eq(&text);
}
