//! The plain form, through a pipe.

use expect_test::expect;

use super::plain;

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

        [Tool: bash("seq 3", ...)]

        Agent: That is all.

        You: !ls
        ran ls

        You: !false
        ran false
        (failed, exit code 1, 12 ms)
        (the command ended with exit code 1)

        You: /clear
        (the history was cleared)

        You: /exti
        (there is no /exti; did you mean /exit?)

        You: /exit
    "#]]
    .assert_eq(&text);
    assert_eq!(code, 0);
}

#[tokio::test]
async fn plain_approvals_are_asked_on_the_same_lines() {
    let (text, code) = plain("clean\nmaybe\ny\nclean\nn too early\nclean\ne\nrm -ri build\nclean\ns\n").await;
    expect![[r#"
        sysop: demo/one on web1, approval ask

        You: clean

        Agent: I will **clean** up.

        Free some space.
        on web1 in /srv/app

        $ rm -rf build && echo done

        risk: effect unknown
        ! rm -rf — recursive delete
        for this session would cover: any plain `rm …`, in this folder
        Run it? [y/n/e/a/s] maybe
        y runs it once, n [REASON] does not, e [COMMAND] changes it, a allows for this session: any plain `rm …`, in this folder, s stops.
        Run it? [y/n/e/a/s] y
        [Tool: bash("rm -rf build && echo done")]

        Agent: Done with `rm -rf build && echo done`.

        You: clean

        Agent: I will **clean** up.

        Free some space.
        on web1 in /srv/app

        $ rm -rf build && echo done

        risk: effect unknown
        ! rm -rf — recursive delete
        for this session would cover: any plain `rm …`, in this folder
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
        for this session would cover: any plain `rm …`, in this folder
        Run it? [y/n/e/a/s] e
        Command: rm -ri build
        [Tool: bash("rm -ri build")]

        Agent: Done with `rm -ri build`.

        You: clean

        Agent: I will **clean** up.

        Free some space.
        on web1 in /srv/app

        $ rm -rf build && echo done

        risk: effect unknown
        ! rm -rf — recursive delete
        for this session would cover: any plain `rm …`, in this folder
        Run it? [y/n/e/a/s] s
        (rejected)
        (stopped)

        You: 
    "#]].assert_eq(&text);
    assert_eq!(code, 0);
}

#[tokio::test]
async fn the_end_of_the_input_in_a_question_runs_nothing() {
    let (text, code) = plain("clean\n").await;
    assert!(text.contains("Run it? [y/n/e/a/s]"), "{text}");
    assert!(!text.contains("ran rm"), "{text}");
    assert_eq!(code, 0);
}

#[tokio::test]
async fn plain_commands_do_what_they_say() {
    let (text, _) = plain(
        "/host\n/model\n/model phi3\n/approve auto\n/mode\n/mode chat\n/mode agent\n/routines\n/run greet name=you\n/run greet\n/run nope\n\
         /resume\n/resume s-9\n/resume s-0\n/retry\nloop\n/resume\nloop\n/stop\nfail\n/cmd uptime\n/undo\n/new\n",
    )
    .await;
    expect![[r#"
        sysop: demo/one on web1, approval ask

        You: /host
        (commands run on web1, files are below /srv/app; nothing runs there)
        (web1                 the first
        web2                 the second)
        (/host DEST begins a session there)

        You: /model
        (the model is demo/one)

        You: /model phi3
        (the model is demo/phi3 from now on)

        You: /approve auto
        (approval is `auto` from now on)

        You: /mode
        (the model has tools; /mode chat takes them away for a plain chat)

        You: /mode chat
        (plain chat from the next turn on: the model has no tools)

        You: /mode agent
        (the model may use its tools from the next turn on)

        You: /routines
        (greet                Says hello)

        You: /run greet name=you
        [Tool: bash("echo hello you")]
        ran echo hello you

        You: /run greet
        (`name` has no value)

        You: /run nope
        (there is no routine nope; /routines lists them)

        You: /resume
        (s-0  web1  hello from before)
        (/resume ID opens one)

        You: /resume s-9
        (there is no session s-9)

        You: /resume s-0
        sysop: demo/one on web1, approval ask

        You: hello from before

        Agent: Hello **there**, how are you?

        You: /retry

        Agent: Hello **there**, how are you?

        You: loop
        (paused: the same call had the same result three times in a row)

        You: /resume

        Agent: Going on.

        You: loop
        (paused: the same call had the same result three times in a row)

        You: /stop
        (given up while it was paused)

        You: fail
        (nobody answers at http://x; is it running?)

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
