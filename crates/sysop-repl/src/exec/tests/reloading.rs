//! Tasks in a session that another process continues before their turn.

use super::*;

#[tokio::test]
async fn a_turn_of_another_process_is_not_the_turn_of_the_task() {
    for theirs in ["complete", "auto", "fail"] {
        let rig = prompt("auto");
        rig.fake.continue_elsewhere(Input::prompt(theirs));
        check(
            rig,
            expect![[r#"
                exit 0
                --- out
                That is all.
                --- err
                the session was continued in another process
                resumed on web1 with demo/one
                Looking.
                [Tool: bash("seq 3")]
                  ok, exit code 0, 12 ms
            "#]],
        )
        .await;
    }
}

#[tokio::test]
async fn a_call_of_another_process_is_not_the_call_of_the_task() {
    let rig = rig(ExecTask::Routine("echo ours".into()));
    rig.fake.continue_elsewhere(direct("echo theirs"));
    assert_eq!(exit(rig.context).await, Exit::Done, "{}", rig.err.text());
    assert!(!rig.out.text().contains("theirs"), "{}", rig.out.text());
    let rig = self::rig(ExecTask::Routine("echo ours".into()));
    rig.fake.continue_elsewhere(direct("touch theirs"));
    assert_eq!(exit(rig.context).await, Exit::Done, "their approval is not ours: {}", rig.err.text());
}

#[tokio::test]
async fn messages_for_programs_are_of_the_turn_of_the_task() {
    for theirs in ["auto", "complete"] {
        let mut rig = prompt("auto");
        rig.context.form = ExecFormat::Json;
        rig.fake.continue_elsewhere(Input::prompt(theirs));
        assert_eq!(exit(rig.context).await, Exit::Done);
        let out = rig.out.text();
        for kind in ["user.message", "assistant.done"] {
            assert_eq!(out.matches(&format!(r#""type":"{kind}""#)).count(), 1, "{theirs}: {out}");
        }
        assert!(!out.contains("All is *well*."), "{out}");
    }
}

#[tokio::test]
async fn a_session_is_named_before_a_prompt_is_sent_to_it() {
    let mut rig = prompt("unsent");
    rig.context.chosen_title = Some("clean up".to_owned());
    assert_eq!(exit(rig.context).await, Exit::Failed);
    let err = rig.err.text();
    assert!(err.starts_with("resuming \"clean up\" on web1 in /srv/app\n"), "{err}");
}
