//! Text that the user types while a turn is running.

use super::*;

/// Returns the user once the turn of this line is running.
async fn during(line: &str) -> Person {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types(&format!("{line}\r")).await;
    person.sees("Ctrl+C stop").await;
    person
}

async fn quits(mut person: Person) {
    person.sees(PROMPT).await;
    person.types("\u{4}").await;
    assert_eq!(person.leaves().await, 0);
}

#[tokio::test]
async fn a_line_typed_during_a_turn_is_queued_and_its_turn_follows() {
    let mut person = during("!sleep 9").await;
    person.types("hello").await;
    person.sees("› hello").await;
    person.types("\r").await;
    person.sees("· queued: hello").await;
    // A command about the turn does not wait for its end.
    person.types("/background\r").await;
    person.sees("› /background").await;
    person.sees("│ to the background").await;
    person.sees("╭─ PROMPT ─").await;
    person.sees("│ hello").await;
    person.sees("│ Hello there, how are you?").await;
    person.sees("STATUS").await;
    person.sees(PROMPT).await;
    // The line is in the history.
    person.types("\u{1b}[A\u{1b}[A").await;
    person.sees("hello").await;
    person.types("\r").await;
    person.sees("│ Hello there, how are you?").await;
    quits(person).await;
}

#[tokio::test]
async fn ctrl_c_clears_the_unfinished_line_before_it_stops_the_turn() {
    let mut person = during("slow").await;
    person.types("hello\r").await;
    person.sees("· queued: hello").await;
    person.types("again").await;
    person.sees("› again").await;
    person.types("\u{3}").await;
    let text = person.sees("draft cleared; Ctrl+C again stops the turn").await;
    assert!(!text.contains("Stopping"), "{text}");
    person.sees("Ctrl+C stop").await;
    person.types("\u{3}").await;
    person.sees("queued prompt not sent; it is back in the input").await;
    person.sees(PROMPT).await;
    person.sees("› hello").await;
    person.types("\r").await;
    person.sees("│ Hello there, how are you?").await;
    person.sees(PROMPT).await;
    // The cleared line is in the history.
    person.types("\u{1b}[A\u{1b}[A").await;
    person.sees("again").await;
    person.types("\u{15}").await;
    quits(person).await;
}

#[tokio::test]
async fn a_command_that_would_disturb_the_turn_runs_after_it() {
    let mut person = during("slow").await;
    person.types("/new\r").await;
    person.sees("› /new · waits for the end of the turn").await;
    person.types("/stop\r").await;
    person.sees("Stopping… Ctrl+C again to quit").await;
    person.sees("queued prompt not sent; it is back in the input").await;
    person.sees("› /new").await;
    person.types("\u{15}!sleep 9\r").await;
    person.sees("Ctrl+C stop").await;
    person.types("!echo later\r").await;
    person.sees("› !echo later · waits for the end of the turn").await;
    person.signals(rustix::process::Signal::USR2);
    person.sees("│ ran echo later").await;
    quits(person).await;
}

#[tokio::test]
async fn text_typed_before_a_proposal_is_kept_for_the_next_prompt() {
    let mut person = during("!sleep 9").await;
    person.types("clean\r").await;
    person.sees("· queued: clean").await;
    person.types("hel").await;
    person.sees("› hel").await;
    // The turn ends, and the queued prompt's turn proposes a command.
    person.signals(rustix::process::Signal::USR2);
    person.sees(QUESTION).await;
    person.types("y").await;
    person.sees("│ ran rm -rf build && echo done").await;
    person.sees(PROMPT).await;
    person.sees("hel").await;
    person.types("lo\r").await;
    person.sees("│ Hello there, how are you?").await;
}

#[tokio::test]
async fn an_answer_typed_before_its_question_is_not_left_for_the_next_prompt() {
    let mut person = during("!sleep 9").await;
    person.types("clean\r").await;
    person.sees("· queued: clean").await;
    person.types("y").await;
    person.sees("› y").await;
    // The turn ends, and the queued prompt's turn proposes a command.
    person.signals(rustix::process::Signal::USR2);
    person.sees(QUESTION).await;
    person.types("y").await;
    person.sees("│ ran rm -rf build && echo done").await;
    person.sees(PROMPT).await;
    person.types("hello\r").await;
    let text = person.sees("│ Hello there, how are you?").await;
    assert!(text.contains("hello") && !text.contains("yhello"), "{text}");
}

#[tokio::test]
async fn the_word_exit_during_a_turn_quits_after_it() {
    let mut person = during("!sleep 9").await;
    person.types("exit\r").await;
    person.sees("sysop quits once this turn and what is queued have ended").await;
    person.signals(rustix::process::Signal::USR2);
    assert_eq!(person.leaves().await, 0);
}

#[tokio::test]
async fn leaving_while_text_is_typed_restores_the_terminal() {
    let mut person = during("stubborn").await;
    person.types("never sent").await;
    person.sees("› never sent").await;
    person.types("!").await;
    person.signals(rustix::process::Signal::TERM);
    person.sees("To resume this session").await;
    while person.reads().await {}
    assert!(!person.seen[person.at..].contains("never sent"), "the row is gone: {}", bare(&person.seen));
    // The terminal's modes are compared with those of before.
    assert_eq!(person.leaves().await, 143);
}

#[tokio::test]
async fn a_stop_in_a_pause_returns_the_queued_line() {
    let mut person = during("!sleep 9").await;
    person.types("hello\r").await;
    person.sees("· queued: hello").await;
    person.types("\u{1c}").await;
    person.sees("paused ›").await;
    person.types("/stop\r").await;
    person.sees("queued prompt not sent").await;
    person.sees("› hello").await;
}

#[tokio::test]
async fn ctrl_d_during_a_turn_quits_after_it() {
    let mut person = during("!sleep 9").await;
    person.types("\u{4}").await;
    person.sees("sysop quits once this turn and what is queued have ended").await;
    person.signals(rustix::process::Signal::USR2);
    person.sees("To resume this session").await;
    assert_eq!(person.leaves().await, 0);
}

#[tokio::test]
async fn lines_after_a_waiting_command_keep_their_order() {
    let mut person = during("!sleep 9").await;
    person.types("!echo one\r").await;
    person.sees("› !echo one · waits for the end of the turn").await;
    person.types("hello\r").await;
    person.sees("› hello · waits for the end of the turn").await;
    person.types("/retry\r").await;
    person.sees("› /retry · waits for the end of the turn").await;
    person.signals(rustix::process::Signal::USR2);
    person.sees("│ ran echo one").await;
    person.sees("│ Hello there, how are you?").await;
    person.sees("› /retry").await;
    person.sees("│ Hello there, how are you?").await;
    quits(person).await;
}

#[tokio::test]
async fn a_waiting_command_waits_in_a_pause_too() {
    let mut person = during("!sleep 9").await;
    person.types("!echo later\r").await;
    person.sees("› !echo later · waits for the end of the turn").await;
    person.types("\u{1c}").await;
    let text = person.sees("paused ›").await;
    assert!(!text.contains("ran echo later"), "{text}");
    person.types("/resume\r").await;
    person.sees("Going on.").await;
    person.sees("│ ran echo later").await;
    quits(person).await;
}

#[tokio::test]
async fn a_prompt_in_a_pause_does_not_wait_behind_a_waiting_command() {
    let mut person = during("!sleep 9").await;
    person.types("!echo later\r").await;
    person.sees("› !echo later · waits for the end of the turn").await;
    person.types("\u{1c}").await;
    person.sees("paused ›").await;
    person.types("hello\r").await;
    let text = person.sees("│ Hello there, how are you?").await;
    assert!(!text.contains("› hello · waits"), "{text}");
    // The paused turn was canceled, which returns what waited for its end.
    person.sees("it is back in the input").await;
    person.sees("› !echo later").await;
}

#[tokio::test]
async fn a_command_sent_at_the_prompt_while_another_user_runs_one_waits_for_its_end() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("!echo mine").await;
    person.sees("!echo mine").await;
    person.signals(rustix::process::Signal::USR2);
    person.sees("typed by carol").await;
    person.types("\r").await;
    person.sees("› !echo mine · waits for the end of the turn").await;
    person.types("/jobs read 1\r").await;
    person.sees("› /jobs read 1 · waits for the end of the turn").await;
    person.signals(rustix::process::Signal::USR2);
    person.sees("│ ran echo mine").await;
    quits(person).await;
}
