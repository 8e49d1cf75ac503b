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

#[tokio::test]
async fn a_task_whose_call_an_error_in_the_config_denied_ends_as_bad_config() {
    let rig = prompt("misconfigured");
    let err = rig.err.clone();
    assert_eq!(exit(rig.context).await, Exit::Usage, "{}", err.text());
    let lines =
        "error: not done: the config error at config.toml:2 denies all commands\nhint: fix it first\n";
    assert!(err.text().ends_with(lines), "{}", err.text());
}

#[tokio::test]
async fn hosts_that_cannot_be_reached_are_named_beside_the_call() {
    let rig = prompt("down");
    let err = rig.err.clone();
    assert_eq!(exit(rig.context).await, Exit::ApprovalNeeded);
    let text = err.text();
    let line = "\ndead1: connection refused\\x1b[2K; nothing will run there\n";
    assert!(text.contains(line) && !text.contains("reason:"), "{text}");
}

#[tokio::test]
async fn a_call_of_several_in_a_reply_is_asked_about_with_its_number() {
    let mut rig = prompt("both");
    let titles = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&titles);
    rig.context.ask = Some(ApprovalHandler(Arc::new(move |question, _| {
        seen.lock().push(question.rows[0].text());
        Ok(ApprovalOutcome::StopTurn)
    })));
    assert_eq!(exit(rig.context).await, Exit::Stopped);
    let titles = titles.lock();
    assert!(titles.len() == 1 && titles[0].contains(" PLAN 1 of 2 "), "{titles:?}");
}

#[tokio::test]
async fn a_spent_budget_says_how_to_raise_its_limit() {
    let told = async |last: u64, tokens: Option<u64>| {
        let mut rig = prompt("spent");
        rig.context.resume_flags = "--approve auto ".into();
        rig.context.opened.last = Seq(last);
        rig.context.budget.session.tokens = tokens;
        let err = rig.err.clone();
        assert_eq!(exit(rig.context).await, Exit::Failed);
        err.text()
    };
    let error = "error: stopped by the budget: the session has used 1407 of 2000 tokens, \
                 and the next call takes about 900";
    let hint =
        "hint: raise the limit with `sysop exec --resume s-1 --approve auto --max-tokens-total N TASK`\n";
    assert_eq!(told(0, Some(2000)).await, format!("{error}\n{hint}"));
    assert!(told(1, Some(2000)).await.ends_with(&format!("{error}\n{hint}")));
    let kept = format!("{error} (the limit is kept from an earlier run)\n{hint}");
    let text = told(1, None).await;
    assert!(text.ends_with(&kept), "{text}");
}
