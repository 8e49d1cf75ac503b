//! Keys and words of the line editor that quit the REPL, or do not.

use super::{PROMPT, Person};

#[tokio::test]
async fn ctrl_c_in_a_search_of_the_history_ends_only_the_search() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("\u{3}").await;
    person.sees("Press Ctrl+C again").await;
    person.sees(PROMPT).await;
    person.types("\u{12}zz").await;
    person.sees("no match for: zz").await;
    person.types("\u{3}").await;
    let text = person.sees(PROMPT).await;
    assert!(!text.contains("Press Ctrl+C"), "{text}");
    // The search has disarmed the key.
    person.types("\u{3}").await;
    person.sees("Press Ctrl+C again").await;
    person.types("hello\r").await;
    person.sees("Hello there, how are you?").await;
}

#[tokio::test]
async fn lines_typed_before_the_first_prompt_are_sent_and_the_rest_is_its_draft() {
    let mut person = Person::starts_after("hello\rhel", "panels", None);
    person.sees("│ Hello there, how are you?").await;
    person.sees("STATUS").await;
    person.sees("› hel").await;
    person.types("lo\r").await;
    person.sees("│ Hello there, how are you?").await;
}

#[tokio::test]
async fn the_words_exit_and_quit_leave() {
    for word in ["exit", "quit"] {
        let mut person = Person::sits_down(None);
        person.sees(PROMPT).await;
        person.types(&format!("{word}\r")).await;
        assert_eq!(person.leaves().await, 0);
    }
}

#[tokio::test]
async fn a_long_paste_is_folded_in_the_line_and_whole_in_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let lines: String = (1..=201).map(|number| format!("auto {number}\n")).collect();
    let mut person = Person::sits_down(Some(&path));
    person.sees(PROMPT).await;
    person.types(&format!("\u{1b}[200~{lines}\u{1b}[201~")).await;
    person.sees("[paste 1: 201 lines]").await;
    // The session gets the text, not the sign: its first word selects the answer.
    person.types("\r").await;
    let text = person.sees("That is all.").await;
    assert!(!text.contains("auto 7"), "{text}");
    person.sees(PROMPT).await;
    person.types("\u{4}").await;
    assert_eq!(person.leaves().await, 0);
    let history = std::fs::read_to_string(&path).unwrap();
    assert!(history.contains("auto 201") && !history.contains("[paste"), "{history}");
}

#[tokio::test]
async fn ctrl_j_starts_a_new_line() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("hello\nthere").await;
    person.sees("· there").await;
    person.types("\r").await;
    person.sees("│ Hello there, how are you?").await;
}
