//! Keys of an approval question, on a console with its own clock.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sysop_core::id::CallId;
use sysop_driver::frontend::OfferedRule;
use sysop_term::{StyleRole, TextRow, paint};

use super::{PROMPT, Person, QUESTION};
use crate::chat::approval::{self, ApprovalIo, ApprovalOutcome, ApprovalPrompt, GUARD, SETTLE};
use crate::render::row;

/// Console with its own clock and keys at given times.
struct Scripted {
    now: Duration,
    keys: Vec<(u64, char)>,
    drawn: Vec<String>,
    edits: Vec<Option<String>>,
}

impl ApprovalIo for Scripted {
    fn key(&mut self, wait: Duration) -> std::io::Result<Option<KeyEvent>> {
        let next = self.keys.first().map(|(at, _)| Duration::from_millis(*at));
        match next {
            Some(at) if at <= self.now + wait => {
                self.now = self.now.max(at);
                let (_, c) = self.keys.remove(0);
                let code = match c {
                    '\u{10}' => return Ok(Some(KeyEvent::new(KeyCode::Char('p'), KeyModifiers::CONTROL))),
                    '\n' => KeyCode::Enter,
                    '\u{1b}' => KeyCode::Esc,
                    '▼' => KeyCode::End,
                    '▲' => KeyCode::PageUp,
                    c => KeyCode::Char(c),
                };
                Ok(Some(KeyEvent::from(code)))
            }
            Some(_) | None => {
                self.now += wait;
                assert!(self.now < Duration::from_secs(60), "nothing answers: {:?}", self.drawn);
                Ok(None)
            }
        }
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn row(&mut self, row: &TextRow) -> std::io::Result<()> {
        self.drawn.push(format!("{} {}", self.now.as_millis(), paint::row(row, false)));
        Ok(())
    }

    fn size(&self) -> (usize, usize) {
        (80, 24)
    }

    fn erase_row(&mut self) -> std::io::Result<()> {
        self.drawn.pop();
        Ok(())
    }

    fn suspend(&mut self) -> std::io::Result<()> {
        self.drawn.push(format!("{} suspended", self.now.as_millis()));
        Ok(())
    }

    fn edit(&mut self, label: &str, text: &str) -> std::io::Result<Option<String>> {
        self.drawn.push(format!("{} [{label}] {text:?}", self.now.as_millis()));
        Ok(self.edits.remove(0))
    }
}

const NO_RULE: &str = "no rule possible: only commands can have one";

fn asked(keys: &[(u64, char)], edits: Vec<Option<String>>) -> (ApprovalOutcome, Vec<String>, Duration) {
    asked_with(&prompt(), keys, edits)
}

/// Returns the question about a command that is not dangerous.
fn prompt() -> ApprovalPrompt {
    ApprovalPrompt {
        ask: approval::RUN,
        rows: vec![row("$ rm x", StyleRole::Code)],
        command: Some("rm \u{1b}x".into()),
        is_dangerous: false,
        covers: "any plain `rm …`".into(),
        rule: None,
        no_rule: NO_RULE,
        late_effect: Default::default(),
        text_use: approval::TextUse::Feedback,
    }
}

fn dangerous() -> ApprovalPrompt {
    ApprovalPrompt { is_dangerous: true, covers: String::new(), ..prompt() }
}

fn asked_with(
    question: &ApprovalPrompt,
    keys: &[(u64, char)],
    edits: Vec<Option<String>>,
) -> (ApprovalOutcome, Vec<String>, Duration) {
    let mut console = Scripted { now: Duration::ZERO, keys: keys.to_vec(), drawn: Vec::new(), edits };
    let answer = approval::ask(&mut console, question, &std::sync::atomic::AtomicBool::new(false)).unwrap();
    (answer, console.drawn, console.now)
}

/// Returns keys of a text that is typed after the question appears, one per `period` in milliseconds.
fn typing(text: &str, period: u64) -> Vec<(u64, char)> {
    (0..).zip(text.chars()).map(|(at, c)| (400 + at * period, c)).collect()
}

#[test]
fn a_key_counts_only_after_the_question() {
    assert_eq!(
        asked(&[(0, 'y'), (299, 'y'), (900, 'n'), (1400, 's')], vec![None]).0,
        ApprovalOutcome::StopTurn
    );
    let (answer, drawn, at) = asked(&[(100, 'y'), (350, 'y'), (700, 'y')], vec![]);
    assert_eq!((answer, at), (ApprovalOutcome::Allow, Duration::from_millis(700) + SETTLE));
    // Each early key restarts the guard time, and the question comes only after it.
    assert_eq!(drawn[0], "0 $ rm x");
    assert!(drawn[1].starts_with(&format!("{} Run it?", 350 + GUARD.as_millis())), "{drawn:?}");
}

#[test]
fn approval_keys_do_what_they_say() {
    assert_eq!(asked(&[(400, 'n')], vec![Some(" why ".into())]).0, ApprovalOutcome::Reject("why".into()));
    assert_eq!(asked(&[(400, 'n'), (900, 'y')], vec![None]).0, ApprovalOutcome::Allow);
    let (answer, drawn, _) = asked(&[(400, 'e')], vec![Some("rm -i x".into())]);
    assert_eq!(answer, ApprovalOutcome::Edited("rm -i x".into()));
    assert!(drawn.contains(&"800 [command] \"rm x\"".to_owned()), "{drawn:?}");
    assert_eq!(asked(&[(400, 'e'), (1200, 's')], vec![Some("  ".into())]).0, ApprovalOutcome::StopTurn);
}

#[test]
fn an_effect_that_becomes_known_is_shown_at_the_open_question() {
    let question = prompt();
    question.late_effect.show(vec!["→ removes 3 files".to_owned()]);
    let (answer, drawn, _) = asked_with(&question, &[(500, 'y')], vec![]);
    assert_eq!(answer, ApprovalOutcome::Allow);
    let rows: Vec<&str> = drawn.iter().map(|row| row.split_once(' ').unwrap().1).collect();
    assert_eq!((rows[0], rows[2]), ("$ rm x", "→ removes 3 files"), "{rows:?}");
    assert!(rows.len() == 4 && rows[1].starts_with("Run it?") && rows[1] == rows[3], "{rows:?}");
}

#[test]
fn a_rejected_edit_of_a_file_is_called_a_change() {
    let question = ApprovalPrompt { ask: approval::APPLY, command: None, ..prompt() };
    let (_, drawn, _) = asked_with(&question, &[(400, 'n')], vec![Some(String::new())]);
    assert!(drawn.iter().any(|row| row.contains("Enter rejects the change, Esc")), "{drawn:?}");
}

#[test]
fn enter_after_a_letter_answers_at_once() {
    let (answer, _, at) = asked(&[(400, 'y'), (450, '\n')], vec![]);
    assert_eq!((answer, at), (ApprovalOutcome::Allow, Duration::from_millis(450)));
    assert_eq!(asked(&[(400, 'n'), (450, '\n')], vec![]).0, ApprovalOutcome::Reject(String::new()));
}

#[test]
fn other_keys_leave_the_question_alone() {
    let (answer, drawn, _) = asked(&[(400, 'x'), (900, ' '), (901, '\n'), (902, 'y')], vec![]);
    assert_eq!(answer, ApprovalOutcome::Allow);
    assert_eq!(drawn.iter().filter(|row| row.contains("Run it?")).count(), 1, "{drawn:?}");
    assert_eq!(asked(&[(400, 'y'), (500, '\u{1b}'), (1000, 's')], vec![]).0, ApprovalOutcome::StopTurn);
}

#[test]
fn a_text_typed_at_the_question_is_feedback() {
    for text in
        ["you know what, stop", "Yes, but later", "also do b", "all good?", "no, use trash", "edit", "see"]
    {
        for period in [1, 100, 300] {
            for question in [prompt(), dangerous()] {
                let whole = Some(text.to_owned());
                let begun: String = text.chars().take(2).collect();
                let (answer, drawn, _) = asked_with(&question, &typing(&begun, period), vec![whole]);
                assert_eq!(answer, ApprovalOutcome::Reject(text.to_owned()), "{text:?} at {period} ms");
                let edit = format!("[feedback for the model] {begun:?}");
                assert!(drawn.iter().any(|row| row.contains(&edit)), "{drawn:?}");
            }
        }
    }
    // A letter that repeats itself while it is held down is part of the text.
    let (answer, drawn, _) = asked(&typing("aaargh", 30), vec![Some("aaargh".into())]);
    assert_eq!(answer, ApprovalOutcome::Reject("aaargh".into()));
    assert!(drawn.iter().any(|row| row.contains("\"aaar\"")), "{drawn:?}");
}

#[test]
fn a_text_that_is_an_answer_answers() {
    let said = |question: &ApprovalPrompt, text: &str| {
        let keys = [(400, 'x'), (401, 'z'), (5000, 's')];
        asked_with(question, &keys, vec![Some(text.to_owned())]).0
    };
    for question in [prompt(), dangerous()] {
        assert_eq!(said(&question, "no "), ApprovalOutcome::Reject(String::new()));
        assert_eq!(said(&question, "stop"), ApprovalOutcome::StopTurn);
        // The text was deleted, so the question is asked again.
        assert_eq!(said(&question, ""), ApprovalOutcome::StopTurn);
    }
    assert_eq!(said(&prompt(), "y"), ApprovalOutcome::Allow);
    assert_eq!(said(&prompt(), "Yes"), ApprovalOutcome::Allow);
    assert_eq!(said(&dangerous(), "Y"), ApprovalOutcome::Allow);
    for text in ["y", "yes", "Yes", "YES"] {
        assert_eq!(said(&dangerous(), text), ApprovalOutcome::StopTurn, "{text}");
    }
    assert_eq!(asked(&[(400, 'y'), (401, 'o'), (500, 's')], vec![None]).0, ApprovalOutcome::StopTurn);
}

#[test]
fn a_command_line_at_the_question_rejects_nothing() {
    for line in ["/status", "/pause now", "!ls -l", "/statsu", "/deploy web1"] {
        let keys = [(400, 'x'), (401, 'z'), (5000, 's')];
        let (answer, drawn, _) = asked(&keys, vec![Some(line.to_owned())]);
        assert_eq!(answer, ApprovalOutcome::StopTurn, "{line}");
        let told = drawn.iter().any(|row| row.contains("answer first; /commands work at the prompt"));
        assert!(told, "{line}: {drawn:?}");
    }
    for line in ["/stop", "/exit"] {
        let (_, drawn, _) = asked(&[(400, 'x'), (401, 'z'), (5000, 's')], vec![Some(line.to_owned())]);
        assert!(drawn.iter().any(|row| row.contains("answer first: s stops the turn")), "{line}: {drawn:?}");
    }
    for path in ["/etc/hosts is the right file", "/etc/x"] {
        let (answer, ..) = asked(&[(400, 'x'), (401, 'z')], vec![Some(path.to_owned())]);
        assert_eq!(answer, ApprovalOutcome::Reject(path.to_owned()));
    }
}

#[test]
fn a_turn_is_not_paused_at_a_question() {
    let (answer, drawn, _) = asked(&[(400, '\u{10}'), (5000, 's')], vec![]);
    assert_eq!(answer, ApprovalOutcome::StopTurn);
    assert!(drawn[2].ends_with(" answer first; the turn can be paused after that"), "{drawn:?}");
    assert!(drawn[3].contains("Run it?"), "{drawn:?}");
}

#[test]
fn a_dangerous_command_needs_a_capital_y_and_enter() {
    let ask = |keys: &[(u64, char)]| asked_with(&dangerous(), keys, vec![Some("You know".into())]);
    for keys in [&[(400, 'y'), (1000, 's')][..], &[(400, 'y'), (401, '\n'), (1000, 's')]] {
        let (answer, drawn, _) = ask(keys);
        assert_eq!(answer, ApprovalOutcome::StopTurn);
        assert!(drawn.iter().any(|row| row.contains("press Y (Shift+y), then Enter")), "{drawn:?}");
    }
    let (answer, drawn, _) = ask(&[(400, 'Y'), (401, '\n')]);
    assert_eq!(answer, ApprovalOutcome::Allow);
    assert!(drawn.iter().any(|row| row.contains("Y, Enter: run")), "{drawn:?}");
    let (answer, drawn, _) = ask(&[(400, 'Y'), (5000, '\n')]);
    assert_eq!(answer, ApprovalOutcome::Allow);
    assert!(drawn.iter().any(|row| row.contains("press Enter to run it")), "{drawn:?}");
    // However slowly a text is typed, its first letter does not run the command.
    assert_eq!(ask(&typing("You", 2000)).0, ApprovalOutcome::Reject("You know".into()));
    assert_eq!(ask(&[(400, 'Y'), (1000, '\u{1b}'), (1500, 's')]).0, ApprovalOutcome::StopTurn);
}

#[test]
fn a_confirmed_reason_is_not_changed() {
    for reason in ["o mejor usa mv", "ot that", "only b", ""] {
        let answer = asked(&[(400, 'n')], vec![Some(reason.to_owned())]).0;
        assert_eq!(answer, ApprovalOutcome::Reject(reason.to_owned()));
    }
    let (answer, drawn, _) = asked(&typing("al", 1500), vec![Some("also list it".to_owned())]);
    assert_eq!(answer, ApprovalOutcome::Reject("also list it".to_owned()));
    assert!(drawn.iter().any(|row| row.contains("[feedback for the model] \"al\"")), "{drawn:?}");
}

#[test]
fn the_list_of_keys_has_those_of_pages_if_there_are_pages() {
    let keys = [(400, '?'), (900, 's')];
    let lists_space = |drawn: Vec<String>| drawn.iter().any(|row| row.contains("Space  Next page"));
    assert!(lists_space(asked_with(&long(), &keys, vec![]).1));
    assert!(!lists_space(asked(&keys, vec![]).1));
}

#[test]
fn a_session_is_allowed_by_a_second_a() {
    let (answer, drawn, _) = asked(&[(400, 'x'), (900, '?'), (1400, 'a'), (2200, 'a')], vec![]);
    assert_eq!(answer, ApprovalOutcome::AllowSession);
    let again = "press a again to allow it for this session: any plain `rm …`";
    assert!(drawn.last().is_some_and(|row| row.contains(again)), "{drawn:?}");
    assert_eq!(asked(&[(400, 'a'), (2000, 'y'), (3000, 's')], vec![]).0, ApprovalOutcome::StopTurn);
    // A key that is held down is pressed once.
    let mut held = vec![(400, 'a')];
    held.extend((0..100).map(|at| (900 + at * 30, 'a')));
    held.push((5000, 's'));
    held.push((6000, 's'));
    assert_eq!(asked(&held, vec![]).0, ApprovalOutcome::StopTurn);
}

#[test]
fn a_discarded_edit_shows_the_command_again() {
    let (answer, drawn, _) = asked(&[(400, 'e'), (1200, 'y')], vec![None]);
    assert_eq!(answer, ApprovalOutcome::Allow);
    let told = drawn.iter().position(|row| row.ends_with(" edit discarded")).unwrap();
    assert!(drawn[told + 1].ends_with(" $ rm x") && drawn[told + 2].contains("Run it?"), "{drawn:?}");
}

/// Returns a question about a proposal of three pages.
fn long() -> ApprovalPrompt {
    let rows = (0..50).map(|number| row(&format!("row {number}."), StyleRole::Code)).collect();
    ApprovalPrompt { rows, ..prompt() }
}

/// Returns the numbers of the drawn rows of [`long`].
fn drawn_rows(drawn: &[String]) -> Vec<usize> {
    let number = |text: &String| text.split_once(" row ")?.1.trim_end_matches('.').parse().ok();
    drawn.iter().filter_map(number).collect()
}

#[test]
fn a_page_mark_is_replaced_by_the_next_page() {
    let keys = [(400, ' '), (1000, ' '), (1500, 'y')];
    let (answer, drawn, _) = asked_with(&long(), &keys, vec![]);
    assert_eq!(answer, ApprovalOutcome::Allow);
    assert!(!drawn.iter().any(|row| row.contains("page ")), "{drawn:?}");
    assert_eq!(drawn_rows(&drawn), Vec::from_iter(0..50));
}

#[test]
fn nothing_is_allowed_before_the_last_page() {
    for letter in ['y', 'Y', 'a', 'A'] {
        for question in [long(), ApprovalPrompt { rows: long().rows, ..dangerous() }] {
            let (answer, drawn, _) =
                asked_with(&question, &[(400, letter), (450, '\n'), (1500, 's')], vec![]);
            assert_eq!(answer, ApprovalOutcome::StopTurn);
            assert!(drawn.iter().any(|row| row.contains("press q to show the rest")), "{drawn:?}");
        }
    }
}

#[test]
fn a_text_typed_at_a_page_is_feedback() {
    for text in ["no, use trash", "be careful", "quote it", "yes later"] {
        let begun: String = text.chars().take(2).collect();
        let (answer, drawn, _) = asked_with(&long(), &typing(&begun, 100), vec![Some(text.to_owned())]);
        assert_eq!(answer, ApprovalOutcome::Reject(text.to_owned()));
        assert!(
            drawn.iter().any(|row| row.contains(&format!("[feedback for the model] {begun:?}"))),
            "{drawn:?}"
        );
    }
    assert_eq!(
        asked_with(&long(), &[(400, 'n')], vec![Some("why".into())]).0,
        ApprovalOutcome::Reject("why".into())
    );
}

#[test]
fn pages_are_turned_back_and_skipped_as_in_less() {
    for back in ['b', '▲'] {
        let keys = [(400, ' '), (1000, back), (2000, '▼'), (3000, 'y')];
        let (answer, drawn, _) = asked_with(&long(), &keys, vec![]);
        assert_eq!(answer, ApprovalOutcome::Allow);
        let expected: Vec<usize> = (0..42).chain(0..21).chain(21..50).collect();
        assert_eq!(drawn_rows(&drawn), expected);
    }
    for end in ['q', '▼', '\u{1b}'] {
        let (answer, drawn, _) = asked_with(&long(), &[(400, end), (2000, 'y')], vec![]);
        assert_eq!(answer, ApprovalOutcome::Allow);
        assert_eq!(drawn_rows(&drawn), Vec::from_iter(0..50), "all rows were on the screen");
    }
    // Back from the question, too.
    let (answer, drawn, _) = asked_with(&long(), &[(400, 'q'), (1500, 'b'), (3000, 's')], vec![]);
    assert_eq!(answer, ApprovalOutcome::StopTurn);
    assert_eq!(drawn_rows(&drawn)[50..], Vec::from_iter(21..42));
}

#[test]
fn a_discarded_edit_stays_at_its_page() {
    let (answer, drawn, _) = asked_with(&long(), &[(400, 'q'), (1500, 'e'), (3000, 'y')], vec![None]);
    assert_eq!(answer, ApprovalOutcome::Allow);
    assert_eq!(drawn_rows(&drawn)[50..], Vec::from_iter(42..50));
    let (_, drawn, _) = asked_with(&long(), &[(400, 'e'), (3000, 's')], vec![None]);
    assert_eq!(drawn_rows(&drawn), Vec::from_iter((0..21).chain(0..21)));
}

#[test]
fn esc_at_the_question_says_how_to_reject() {
    let (answer, drawn, _) = asked(&[(400, '\u{1b}'), (900, 's')], vec![]);
    assert_eq!(answer, ApprovalOutcome::StopTurn);
    assert!(drawn.iter().any(|row| row.contains("press n to reject it, or s (Ctrl+C)")), "{drawn:?}");
}

#[test]
fn always_needs_a_confirmation_of_the_shown_rule() {
    let offered = OfferedRule {
        call: CallId::new("c1"),
        toml: "[[policy.rules]]\naction = \"allow\"\n".into(),
        file: "/home/me/rules.toml".into(),
        rule: None,
    };
    let question = ApprovalPrompt { rule: Some(offered.clone()), ..prompt() };
    let always = |keys: &[(u64, char)]| asked_with(&question, keys, vec![]);
    let (answer, drawn, _) = always(&[(400, 'A'), (1200, 'x'), (1700, 'y')]);
    assert_eq!(answer, ApprovalOutcome::Always(offered.clone()));
    let shown = drawn.iter().position(|row| row.ends_with("action = \"allow\"")).unwrap();
    let confirm = "Save this rule to /home/me/rules.toml and run the command?";
    assert!(drawn[shown + 1].contains("holds in every directory"), "{drawn:?}");
    assert!(drawn[shown + 2].contains(confirm), "{drawn:?}");
    assert_eq!(always(&[(400, 'A'), (1200, 'n'), (1700, 's')]).0, ApprovalOutcome::StopTurn);
    // A text answers no question, not even with its last letter.
    let (mut keys, rest) = (vec![(400, 'A')], typing("you, by the way y", 100));
    keys.extend(rest.into_iter().map(|(at, c)| (at + 800, c)));
    keys.extend([(6000, 'n'), (7000, 's')]);
    assert_eq!(always(&keys).0, ApprovalOutcome::StopTurn);
    // Without a rule to save, the key is not an answer.
    let (answer, drawn, _) = asked(&[(400, 'A'), (900, 's')], vec![]);
    assert_eq!(answer, ApprovalOutcome::StopTurn);
    assert!(drawn.iter().any(|row| row.contains(NO_RULE)), "{drawn:?}");
}

#[test]
fn a_text_at_the_proposal_of_an_own_call_is_no_feedback() {
    for (text_use, label, row) in [
        (
            approval::TextUse::Draft,
            "[text for the input (optional)]",
            "Enter: reject and take this text to the input, Esc: back",
        ),
        (approval::TextUse::Record, "[reason (optional)]", "Enter: reject with this text, Esc: back"),
    ] {
        let own = ApprovalPrompt { text_use, ..prompt() };
        let (answer, drawn, _) = asked_with(&own, &typing("ja", 50), vec![Some("ja, bitte".into())]);
        assert_eq!(answer, ApprovalOutcome::Reject("ja, bitte".into()));
        assert!(drawn.iter().any(|line| line.ends_with(row)), "{drawn:?}");
        assert!(row.len() < 80 && !drawn.concat().contains("feedback"), "{drawn:?}");
        for reason in ["use trash", ""] {
            let (answer, drawn, _) = asked_with(&own, &[(400, 'n')], vec![Some(reason.to_owned())]);
            assert_eq!(answer, ApprovalOutcome::Reject(reason.to_owned()));
            assert!(drawn.iter().any(|line| line.contains(label)), "{drawn:?}");
        }
        let entered = asked_with(&own, &[(400, 'n'), (450, '\n')], vec![]).0;
        assert_eq!(entered, ApprovalOutcome::Reject(String::new()));
    }
}

#[tokio::test]
async fn pasted_text_does_not_answer_a_proposal() {
    let mut person = Person::sits_down(None);
    person.sees(PROMPT).await;
    person.types("clean\r").await;
    person.sees(QUESTION).await;
    // Only a terminal with this mode marks a paste.
    let asked = person.seen.rfind("\u{1b}[?2004").map(|at| &person.seen[at..at + 8]);
    assert_eq!(asked, Some("\u{1b}[?2004h"));
    person.types("\u{1b}[200~y\u{1b}[201~s").await;
    let text = person.sees(PROMPT).await;
    assert!(!text.contains("ran rm"), "{text}");
    assert!(text.contains("rejected: stop"), "{text}");
}
