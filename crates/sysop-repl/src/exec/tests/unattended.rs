//! Calls that need an approval when nobody can be asked, and calls that are asked about again.

use super::*;

#[tokio::test]
async fn a_long_command_that_needs_approval_is_shown_whole() {
    let long = format!("sudo echo {} && rm -rf hidden", "a".repeat(300));
    for (command, shown) in
        [(long.clone(), format!("  {long}\n")), ("sudo a\nrm b".into(), "  sudo a\n  rm b\n".into())]
    {
        let mut rig = rig(ExecTask::Routine(command));
        rig.context.is_quiet = true;
        let err = rig.err.clone();
        assert_eq!(exit(rig.context).await, Exit::ApprovalNeeded);
        let text = err.text();
        assert!(text.starts_with("error: the command below needs approval, but "), "{text}");
        assert!(text.contains(&shown) && text.ends_with("\nreason: recursive delete\n"), "{text}");
    }
}

#[tokio::test]
async fn a_call_whose_risk_changed_after_the_answer_says_why_it_is_asked_about_again() {
    let mut rig = prompt("rechecked");
    rig.context.ask = Some(answering(ApprovalOutcome::Allow));
    let err = rig.err.clone();
    assert_eq!(exit(rig.context).await, Exit::Done);
    let line = "the risk changed since you answered: makes changes (it was: effect unknown); please answer once more";
    assert_eq!(err.text().matches(line).count(), 1, "{}", err.text());
}

#[tokio::test]
async fn a_stop_that_the_user_chose_is_no_error() {
    let mut rig = prompt("clean");
    rig.context.ask = Some(answering(ApprovalOutcome::StopTurn));
    let err = rig.err.clone();
    assert_eq!(exit(rig.context).await, Exit::Stopped);
    assert!(err.text().ends_with("\nstopped\n") && !err.text().contains("error"), "{}", err.text());
}
