//! Keys of an approval question, on a console with its own clock.

use std::time::Duration;

use sysop_core::id::CallId;
use sysop_driver::frontend::OfferedRule;
use sysop_term::{StyleRole, TextRow, paint};

use crate::chat::approval::{self, ApprovalIo, ApprovalOutcome, ApprovalPrompt, GUARD};
use crate::render::row;

/// Console with its own clock and keys at given times.
struct Scripted {
    now: Duration,
    keys: Vec<(u64, char)>,
    drawn: Vec<String>,
    edits: Vec<Option<String>>,
}

impl ApprovalIo for Scripted {
    fn key(&mut self, wait: Duration) -> std::io::Result<Option<crossterm::event::KeyEvent>> {
        let next = self.keys.first().map(|(at, _)| Duration::from_millis(*at));
        match next {
            Some(at) if at <= self.now + wait => {
                self.now = self.now.max(at);
                let (_, c) = self.keys.remove(0);
                Ok(Some(crossterm::event::KeyEvent::from(crossterm::event::KeyCode::Char(c))))
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

const NO_RULE: &str = "cannot write a rule: only commands can have one";

fn asked(keys: &[(u64, char)], edits: Vec<Option<String>>) -> (ApprovalOutcome, Vec<String>, Duration) {
    asked_with(None, keys, edits)
}

fn asked_with(
    rule: Option<OfferedRule>,
    keys: &[(u64, char)],
    edits: Vec<Option<String>>,
) -> (ApprovalOutcome, Vec<String>, Duration) {
    let rows: Vec<TextRow> = vec![row("$ rm x", StyleRole::Code)];
    let question = ApprovalPrompt {
        rows,
        command: Some("rm \u{1b}x".into()),
        covers: "any plain `rm …`".into(),
        rule,
        no_rule: NO_RULE,
    };
    let mut console = Scripted { now: Duration::ZERO, keys: keys.to_vec(), drawn: Vec::new(), edits };
    let answer = approval::ask(&mut console, &question, &std::sync::atomic::AtomicBool::new(false)).unwrap();
    (answer, console.drawn, console.now)
}

#[test]
fn a_key_counts_only_after_the_question() {
    assert_eq!(
        asked(&[(0, 'y'), (299, 'y'), (900, 'n'), (901, 's')], vec![None]).0,
        ApprovalOutcome::StopTurn
    );
    let (answer, drawn, at) = asked(&[(100, 'y'), (350, 'y'), (700, 'y')], vec![]);
    assert_eq!((answer, at), (ApprovalOutcome::Allow, Duration::from_millis(700)));
    // Each early key restarts the guard time, and the question comes only after it.
    assert_eq!(drawn[0], "0 $ rm x");
    assert!(drawn[1].starts_with(&format!("{} Run it?", 350 + GUARD.as_millis())), "{drawn:?}");
}

#[test]
fn approval_keys_do_what_they_say() {
    assert_eq!(asked(&[(400, 'x'), (401, '?'), (402, 'a')], vec![]).0, ApprovalOutcome::AllowSession);
    assert_eq!(asked(&[(400, 'n')], vec![Some(" why ".into())]).0, ApprovalOutcome::Reject("why".into()));
    assert_eq!(asked(&[(400, 'n'), (401, 'y')], vec![None]).0, ApprovalOutcome::Allow);
    let (answer, drawn, _) = asked(&[(400, 'e')], vec![Some("rm -i x".into())]);
    assert_eq!(answer, ApprovalOutcome::Edited("rm -i x".into()));
    assert!(drawn.contains(&"400 [command] \"rm x\"".to_owned()), "{drawn:?}");
    assert_eq!(asked(&[(400, 'e'), (401, 's')], vec![Some("  ".into())]).0, ApprovalOutcome::StopTurn);
}

#[test]
fn other_keys_leave_the_question_alone() {
    let (answer, drawn, _) = asked(&[(400, 'x'), (401, ' '), (402, 'y')], vec![]);
    assert_eq!(answer, ApprovalOutcome::Allow);
    assert_eq!(drawn.iter().filter(|row| row.contains("Run it?")).count(), 1, "{drawn:?}");
}

#[test]
fn a_page_mark_is_replaced_by_the_next_page() {
    let rows: Vec<TextRow> = (0..30).map(|number| row(&format!("row {number}"), StyleRole::Code)).collect();
    let question =
        ApprovalPrompt { rows, command: None, covers: String::new(), rule: None, no_rule: NO_RULE };
    let keys = vec![(400, 'y'), (500, ' '), (1000, 'y')];
    let mut console = Scripted { now: Duration::ZERO, keys, drawn: Vec::new(), edits: Vec::new() };
    let answer = approval::ask(&mut console, &question, &std::sync::atomic::AtomicBool::new(false)).unwrap();
    assert_eq!(answer, ApprovalOutcome::Allow);
    let drawn = console.drawn.join("\n");
    assert!(!drawn.contains("page 1"), "{drawn}");
    assert!(drawn.contains("row 20\n500 row 21\n"), "{drawn}");
}

#[test]
fn always_needs_a_confirmation_of_the_shown_rule() {
    let offered = OfferedRule {
        call: CallId::new("c1"),
        toml: "[[policy.rules]]\naction = \"allow\"\n".into(),
        file: "/home/me/rules.toml".into(),
        rule: None,
    };
    let always = |keys: &[(u64, char)]| asked_with(Some(offered.clone()), keys, vec![]);
    let (answer, drawn, _) = always(&[(400, 'A'), (401, 'x'), (402, 'y')]);
    assert_eq!(answer, ApprovalOutcome::Always(offered.clone()));
    let shown = drawn.iter().position(|row| row.ends_with("action = \"allow\"")).unwrap();
    let confirm = "Save this rule to /home/me/rules.toml and run the command?";
    assert!(drawn[shown + 1].contains(confirm), "{drawn:?}");
    assert_eq!(always(&[(400, 'A'), (401, 'n'), (402, 's')]).0, ApprovalOutcome::StopTurn);
    // Without a rule to save, the key is not an answer.
    let (answer, drawn, _) = asked(&[(400, 'A'), (401, 's')], vec![]);
    assert_eq!(answer, ApprovalOutcome::StopTurn);
    assert!(drawn.iter().any(|row| row.contains(NO_RULE)), "{drawn:?}");
}
