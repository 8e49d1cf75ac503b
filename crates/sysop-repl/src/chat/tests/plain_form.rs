//! The plain layout, through a pipe.

use super::*;

#[tokio::test]
async fn the_plain_form_works_through_a_pipe() {
    let (text, code) = plain("hello\n\nauto\n!ls\n!false\n/clear\n/exti\n/exit\nnever read\n").await;
    expect![[r#"
        sysop: demo/one on web1, approval ask

        You: hello

        Agent: Hello **there**, how are you?

        You: 

        You: auto

        Agent: Looking.

        [Tool: bash("seq 3")]
        1
        2
        3
        (ok, exit code 0, 12 ms)

        Agent: That is all.

        You: !ls
        ran ls

        You: !false
        ran false
        (failed, exit code 1, 12 ms)

        You: /clear
        (History cleared; earlier messages stay in the log)

        You: /exti
        (unknown command /exti; did you mean /exit?)

        You: /exit
    "#]]
    .assert_eq(&text);
    assert_eq!(code, 0);
}

/// The mode of a session that is opened again is that of the config, which is set behind the end of the log.
#[tokio::test]
async fn the_header_of_a_resumed_session_has_the_settings_in_effect() {
    let (text, _) = plain_form("resumed", "/exit\n").await;
    expect![[r#"
        sysop: demo/one on web1, approval never

        (approval mode set to `never`)

        You: /exit
    "#]]
    .assert_eq(&text);
}

#[tokio::test]
async fn commands_of_other_users_are_shown_with_their_names() {
    let (text, _) = plain("bob\n!ls\n/exit\n").await;
    expect![[r#"
        sysop: demo/one on web1, approval ask

        You: bob

        Agent: Waiting for Bob.

        [Tool: bash("uptime")] (typed by bob)
        ran uptime

        You: !ls
        ran ls

        You: /exit
    "#]]
    .assert_eq(&text);
}

#[tokio::test]
async fn a_command_of_another_user_is_shown_after_the_same_one_was_refused_here() {
    let (text, _) = plain("!w\nbob-w\n/exit\n").await;
    assert!(text.contains("not sent; the session is full"), "{text}");
    assert!(text.contains(r#"[Tool: bash("w")] (typed by bob)"#), "{text}");
}

#[tokio::test]
async fn plain_approvals_are_read_as_input_lines() {
    let edited = "clean\ne\nrm -ri build\n/status\ny\nY\n";
    let (text, code) = plain(&format!("clean\nmaybe\ny\nclean\nn too early\n{edited}clean\ns\n")).await;
    expect![[r#"
        sysop: demo/one on web1, approval ask

        You: clean

        Agent: I will **clean** up.

        Free some space.
        on web1 in /srv/app

        $ rm -rf build && echo done

        risk: effect unknown
        ! rm -rf — recursive delete
        allow for session: any simple `rm …` that stays below this directory
        Run it? [y/n/e/a/s] maybe
        y run once, n [REASON] reject, e [COMMAND] edit, a allow for this session: any simple `rm …` that stays below this directory, s stop
        Run it? [y/n/e/a/s] y
        [Tool: bash("rm -rf build && echo done")]
        ran rm -rf build && echo done
        (ok, exit code 0, 12 ms)

        Agent: Done with `rm -rf build && echo done`.

        You: clean

        Agent: I will **clean** up.

        Free some space.
        on web1 in /srv/app

        $ rm -rf build && echo done

        risk: effect unknown
        ! rm -rf — recursive delete
        allow for session: any simple `rm …` that stays below this directory
        Run it? [y/n/e/a/s] n too early
        (rejected)

        Agent: Then not (too early).

        You: clean

        Agent: I will **clean** up.

        Free some space.
        on web1 in /srv/app

        $ rm -rf build && echo done

        risk: effect unknown
        ! rm -rf — recursive delete
        allow for session: any simple `rm …` that stays below this directory
        Run it? [y/n/e/a/s] e
        Command: rm -ri build

        Free some space.
        on web1 in /srv/app
        edited command:

        $ rm -ri build

        → effect of rm -ri build
        risk: dangerous
        ! rm -ri build — recursive delete
        Run it? [type Y to run, or n/e/s] /status
        answer first; /commands work at the prompt
        Run it? [type Y to run, or n/e/s] y
        dangerous: type Y (a capital letter) to run it
        Run it? [type Y to run, or n/e/s] Y
        [Tool: bash("rm -ri build")]
        ran rm -ri build
        (ok, exit code 0, 12 ms)

        Agent: Done with `rm -ri build`.

        You: clean

        Agent: I will **clean** up.

        Free some space.
        on web1 in /srv/app

        $ rm -rf build && echo done

        risk: effect unknown
        ! rm -rf — recursive delete
        allow for session: any simple `rm …` that stays below this directory
        Run it? [y/n/e/a/s] s
        (rejected)
        (stopped)

        You: 
    "#]].assert_eq(&text);
    assert_eq!(code, 0);
}

#[tokio::test]
async fn end_of_input_at_an_approval_runs_nothing() {
    let (text, code) = plain("clean\n").await;
    assert!(text.contains("Run it? [y/n/e/a/s]"), "{text}");
    assert!(!text.contains("ran rm"), "{text}");
    assert!(text.contains("(the input ended before an answer, so nothing was run)"), "{text}");
    assert_eq!(code, 3);
}

#[tokio::test]
async fn slash_commands_work_in_the_plain_layout() {
    let (text, _) = plain(
        "/host\n/model\n/model phi3\n/approve auto\n/mode\n/mode chat\n/mode agent\n/routines\n/run greet name=you\n/run greet\n/run nope\n\
         /resume\n/resume s-9\n/resume 1\n/retry\nloop\n/resume\nloop\n/stop\nfail\n/cmd uptime\n/undo\n/new\n",
    )
    .await;
    expect![[r#"
        sysop: demo/one on web1, approval ask

        You: /host
        (host: web1, root: /srv/app; idle)
        web1                 the first
        web2                 the second
        (start a session on another host with /host DEST)

        You: /model
        (model: demo/one)

        You: /model phi3
        (model set to demo/phi3)

        You: /approve auto
        (approval mode set to `auto`)

        You: /mode
        (mode: agent (tools available); use /mode chat for a chat without tools)

        You: /mode chat
        (chat mode: the next turn has no tools)

        You: /mode agent
        (agent mode: the next turn has tools)

        You: /routines
        greet                Says hello

        You: /run greet name=you
        [Tool: bash("echo hello you")]
        ran echo hello you

        You: /run greet
        (`name` has no value)

        You: /run nope
        (unknown routine nope; see /routines)

        You: /resume
        1  s-0  3 h ago  web1  /srv/old  hello from before
        (open one with /resume and its number or ID; find one with /sessions WORDS)

        You: /resume s-9
        (there is no session s-9)

        You: /resume 1
        sysop: demo/one on web1, approval ask

        You: hello from before

        Agent: Hello **there**, how are you?

        You: /retry

        You: hello again

        Agent: Hello **there**, how are you?

        You: loop
        (paused: the model repeated the same call 3 times; rephrase the task)

        You: /resume

        Agent: Going on.

        You: loop
        (paused: the model repeated the same call 3 times; rephrase the task)

        You: /stop
        (canceled while paused)

        You: fail
        (no response from http://x; is it running?)

        You: /cmd uptime
        ran uptime

        You: /undo
        ran 

        You: /new
        sysop: demo/one on web1, approval ask

        You: 
    "#]]
    .assert_eq(&text);
}

#[tokio::test]
async fn a_message_at_an_own_undo_is_the_reason_of_its_rejection() {
    let (text, _) = plain("/undo 2\nn hello\n/undo 2\nn\n").await;
    assert_eq!(text.matches("Agent:").count(), 0, "{text}");
    let note = "(no model gets your text; it is the reason of the rejection)";
    assert_eq!(text.matches(note).count(), 1, "{text}");
}

#[tokio::test]
async fn a_text_typed_at_an_own_undo_is_not_sent_but_returns_to_the_input() {
    let mut person = Person::starts("panels", None);
    person.sees(PROMPT).await;
    person.types("/undo 2\r").await;
    person.sees(QUESTION).await;
    person.types("hello\r").await;
    person.sees("Enter: reject and take this text to the input, Esc: back").await;
    person.sees("your text was not sent; it is in the input").await;
    person.sees("rejected: hello").await;
    let text = person.sees(PROMPT).await + &person.sees("hello").await;
    assert!(!text.contains("AGENT RESPONSE"), "{text}");
    person.types("\r").await;
    person.sees("Hello there").await;
}

#[tokio::test]
async fn plain_rejections_say_why() {
    let (text, _) = plain("denied\nchanged\nmistaken\n").await;
    expect![[r#"
        sysop: demo/one on web1, approval ask

        You: denied
        [Tool: bash("touch it")]
        (not run: denied by a hook: no ticket)

        You: changed
        [Tool: bash("act")]
        not called: the definition changed
        (rejected)

        You: mistaken
        [Tool: read_file()]
        (not run: missing argument `path`)

        You: 
    "#]]
    .assert_eq(&text);
}

#[tokio::test]
async fn a_session_that_another_process_changed_ends_with_the_command_that_reopens_it() {
    let (text, code) = plain("taken\n").await;
    assert_eq!(code, 1, "{text}");
    assert_eq!(text.matches("changed by another process").count(), 1, "{text}");
    let end = "(error: session s-1 was changed by another process)\n(To resume this session: sysop chat --resume s-1)\n";
    assert!(text.ends_with(end), "{text}");
}

#[tokio::test]
async fn an_equal_prompt_of_another_process_does_not_count_as_sent() {
    let (text, _) = plain_form("continued", "taken\n").await;
    assert!(text.contains("not sent: taken"), "{text}");
}

#[tokio::test]
async fn a_prompt_that_the_session_reports_as_unsent_is_not_reported_again() {
    let (text, code) = plain("unsent\n").await;
    assert!(code == 1 && text.contains("changed by another process"), "{text}");
    assert!(!text.contains("not sent"), "{text}");
}

#[tokio::test]
async fn a_prompt_that_a_lost_server_has_not_confirmed_is_named() {
    let (text, _) = plain("offline\n").await;
    let notice = text.find("the server is away").expect("the notice");
    assert!(text[notice..].contains("sent, not confirmed yet: count the files; sent again"), "{text}");
}

#[tokio::test]
async fn a_failed_turn_of_another_process_does_not_set_the_exit_code() {
    assert_eq!(plain_form("failed elsewhere", "!true\n").await.1, 0);
}

#[tokio::test]
async fn a_failed_file_tool_says_why() {
    let (text, _) = plain("unmatched\n").await;
    let reason = "`old_string` was not found in a.py\nread the file first\n(failed, 0 ms)\n";
    assert!(text.contains(reason), "{text}");
}

#[tokio::test]
async fn the_plain_form_on_a_terminal_is_stopped_by_ctrl_c_and_drops_early_answers() {
    let mut person = Person::starts("plain", None);
    person.sees("You: ").await;
    person.types("slow\r").await;
    person.sees("Working on it").await;
    person.types("\u{3}").await;
    person.sees("(stopped)").await;
    person.sees("You: ").await;
    person.types("clean\ry\r").await;
    let text = person.sees("Run it? [y/n/e/a/s]").await;
    assert!(!text.contains("ran rm"), "{text}");
    person.types("n no\r").await;
    person.sees("Then not (no).").await;
    person.sees("You: ").await;
    person.types("half a li\u{3}").await;
    person.sees("Press Ctrl+C again").await;
    person.sees("You: ").await;
    person.types("hello\r").await;
    person.sees("Hello **there**").await;
    person.sees("You: ").await;
    person.types("\u{3}").await;
    person.sees("Press Ctrl+C again").await;
    person.types("\u{3}").await;
    person.sees("To resume this session: sysop chat --resume s-1").await;
    assert_eq!(person.leaves().await, 0);
}

#[tokio::test]
async fn a_turn_that_did_not_reach_its_host_says_so_at_its_end() {
    let (text, _) = plain("unreachable\nreached\nmissed\n").await;
    let ends: Vec<&str> = text.lines().filter(|line| line.contains("not done on")).collect();
    assert_eq!(ends, ["(✗ not done on web1)", "(✗ not done on web2)"], "{text}");
}

#[tokio::test]
async fn the_exit_code_tells_if_the_last_turn_of_an_input_failed() {
    assert_eq!(plain("hello\nfail\n").await.1, 1);
    assert_eq!(plain("fail\nhello\n").await.1, 0);
    assert_eq!(plain("hello\n!false\n").await.1, 0, "a typed command may fail");
}

#[tokio::test]
async fn an_output_that_nobody_reads_ends_the_plain_form_quietly() {
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(CHILD_ARGUMENTS)
        .env(FORM, "plain")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("You: ") {
        let read = tokio::time::timeout(DEADLINE, output.read_buf(&mut text)).await;
        assert!(read.unwrap().unwrap() > 0, "{}", String::from_utf8_lossy(&text));
    }
    drop(output);
    child.stdin.take().unwrap().write_all(b"hello\n").await.unwrap();
    let ended = tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap();
    assert_eq!(ended.code(), Some(141));
}
