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
async fn the_words_exit_and_quit_leave() {
    for word in ["exit", "quit"] {
        let mut person = Person::sits_down(None);
        person.sees(PROMPT).await;
        person.types(&format!("{word}\r")).await;
        assert_eq!(person.leaves().await, 0);
    }
}
