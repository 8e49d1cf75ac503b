//! Signals, and the line at the end of a run that was stopped.

use super::*;
use crate::chat::program_prompt::ProgramPrompt;

/// Runs a task whose command asks a question, and sends these signals while the question is open. Returns the exit and
/// what was said.
async fn stopped(task: &str, signals: &'static [StopSignal]) -> (Exit, String) {
    let mut rig = prompt(task);
    let stop = rig.stop.clone();
    rig.context.ask_for_program =
        Some(ProgramPromptHandler(Arc::new(move |_: &ProgramPrompt, withdrawn: &AtomicBool| {
            for signal in signals {
                stop.send(*signal).expect("it listens");
            }
            while !withdrawn.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Ok(PromptOutcome::Withdrawn)
        })));
    let exit = exit(rig.context).await;
    (exit, rig.err.text())
}

#[tokio::test]
async fn a_stop_says_what_became_of_the_command_and_how_to_resume() {
    let resume = "; resume with `sysop exec --resume s-1 TASK`\n";
    let (exit, said) = stopped("sudo now", &[StopSignal::Terminate]).await;
    assert_eq!(exit, Exit::Terminated);
    assert!(said.ends_with(&format!("stopped: the running command was killed{resume}")), "{said}");
    let (exit, said) = stopped("sudo stubborn", &[StopSignal::Interrupt; 2]).await;
    assert_eq!(exit, Exit::Interrupted);
    assert!(said.ends_with(&format!("stopped: the running command may still be running{resume}")), "{said}");
    let (_, said) = stopped("login now", &[StopSignal::Interrupt]).await;
    assert!(said.ends_with(&format!("stopped: the running call was canceled{resume}")), "no command: {said}");
    let (_, said) = stopped("login stubborn", &[StopSignal::Interrupt; 2]).await;
    assert!(said.ends_with(&format!("stopped: the running call may still be running{resume}")), "{said}");
}

#[tokio::test]
async fn a_stop_without_a_running_command_claims_none() {
    let mut rig = prompt("clean");
    rig.context.ask = Some(answering(ApprovalOutcome::Interrupt));
    let err = rig.err.clone();
    assert_eq!(exit(rig.context).await, Exit::Interrupted);
    assert!(
        err.text().ends_with("\nstopped; resume with `sysop exec --resume s-1 TASK`\n"),
        "{}",
        err.text()
    );
    let mut rig = prompt("clean");
    (rig.context.ask, rig.context.resume_flags) =
        (Some(answering(ApprovalOutcome::Interrupt)), "--approve each ".into());
    let err = rig.err.clone();
    exit(rig.context).await;
    assert!(err.text().ends_with("--resume s-1 --approve each TASK`\n"), "{}", err.text());
    let rig = rig_of_routine();
    let err = rig.err.clone();
    assert_eq!(exit(rig.context).await, Exit::Interrupted);
    assert_eq!(err.text(), "stopped\n", "a routine cannot be resumed");
}

fn rig_of_routine() -> Rig {
    let mut rig = rig(ExecTask::Routine("sudo reboot".into()));
    rig.context.ask = Some(answering(ApprovalOutcome::Interrupt));
    rig
}

#[tokio::test]
async fn a_stop_is_told_after_an_open_question_has_left_the_terminal() {
    for signals in [1, 2] {
        let mut rig = prompt("clean");
        let (stop, err) = (rig.stop.clone(), rig.err.clone());
        rig.context.ask = Some(ApprovalHandler(Arc::new(move |_, withdrawn| {
            (0..signals).for_each(|_| stop.send(StopSignal::Terminate).expect("it listens"));
            while !withdrawn.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            writeln!(err.clone(), "the question has ended")?;
            Ok(ApprovalOutcome::Withdrawn)
        })));
        let err = rig.err.clone();
        assert_eq!(exit(rig.context).await, Exit::Terminated);
        let end = "the question has ended\nstopped; resume with `sysop exec --resume s-1 TASK`\n";
        assert!(err.text().ends_with(end), "{}", err.text());
    }
}

#[tokio::test]
async fn signals_stop_the_turn_and_set_the_exit_code() {
    for (stop, expected) in
        [(StopSignal::Interrupt, 130), (StopSignal::Terminate, 143), (StopSignal::HangUp, 129)]
    {
        let rig = prompt("slow");
        rig.stop.send(stop).expect("it listens");
        assert_eq!(exit(rig.context).await.code(), expected);
        assert!(rig.fake.inputs().contains(&Input::Cancel), "the turn was stopped first");
    }
}

#[tokio::test]
async fn a_second_signal_exits_at_once() {
    let rig = prompt("stubborn");
    rig.stop.send(StopSignal::Interrupt).expect("it listens");
    rig.stop.send(StopSignal::Interrupt).expect("it listens");
    let begun = std::time::Instant::now();
    assert_eq!(exit(rig.context).await, Exit::Interrupted);
    assert!(begun.elapsed() < CANCEL_WAIT / 2);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_stopping_turn_is_bounded() {
    let rig = prompt("stubborn");
    rig.stop.send(StopSignal::Interrupt).expect("it listens");
    let begun = Instant::now();
    assert_eq!(run(rig.context).await, Exit::Interrupted);
    assert_eq!(begun.elapsed().as_secs(), CANCEL_WAIT.as_secs());
}

#[tokio::test]
async fn a_rejected_undo_says_once_that_nothing_ran() {
    let mut rig = rig(ExecTask::Undo { step: Some(2), plan_only: false });
    rig.context.ask = Some(answering(ApprovalOutcome::Reject(String::new())));
    let (out, err) = (rig.out.clone(), rig.err.clone());
    exit(rig.context).await;
    assert_eq!(out.text(), "");
    let told: Vec<_> =
        err.text().lines().filter(|line| line.contains("nothing ran")).map(str::to_owned).collect();
    assert_eq!(told, ["  rejected; nothing ran"], "{}", err.text());
}
