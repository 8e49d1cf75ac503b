//! Taking over the terminal, and restoring it in any case.

use std::time::Instant;

use rustix::process::Signal;

use crate::frontend::{self, ROLE};
use crate::person::{Person, UNTOUCHED, at_a_terminal};

const TAKEN: &str = "other screen, marks pastes, tells focus, tells clicks, tells keys apart";

#[test]
fn the_screen_opens_and_closes() {
    if std::env::var_os(ROLE).is_some() {
        // This test is also the front end of all tests here.
        return frontend::run();
    }
    at_a_terminal(async {
        let mut person = Person::opens();
        person.sees("size 60x12").await;
        assert_eq!(person.state(), TAKEN);
        person.types("a\u{1b}[200~x\r\ny\u{1b}[201~\u{1b}[<0;3;2M\u{1b}[I\u{1b}").await;
        person.sees("key a\npaste x↵y\nmouse 2,1\nfocus true\nkey Esc").await;
        person.types("q").await;
        assert!(person.ends().await.success());
        assert_eq!(person.state(), UNTOUCHED);
        assert!(person.screen().contains("left because of a key"), "{}", person.screen());
    });
}

#[test]
fn input_typed_before_the_screen_opens_is_kept() {
    at_a_terminal(async {
        let mut person = Person::opens_after("xyx");
        person.sees("key x\nkey y\nkey x").await;
    });
}

#[test]
fn any_size_works_and_a_resize_redraws_everything() {
    at_a_terminal(async {
        let mut person = Person::opens();
        person.types("\u{1b}[A").await;
        person.sees("size 60x12\nkey Up").await;
        for (columns, rows) in [(20, 5), (2, 1), (1, 1), (200, 3), (60, 12)] {
            person.resizes(columns, rows);
            let shown = format!("size {columns}x{rows}");
            person.sees(shown.get(..usize::from(columns)).unwrap_or(&shown)).await;
        }
        person.sees("size 60x12\nkey Up").await;
        person.types("q").await;
        assert!(person.ends().await.success());
    });
}

#[test]
fn a_panic_message_appears_after_the_terminal_is_restored() {
    at_a_terminal(async {
        let mut person = Person::opens();
        person.types("t").await;
        person.sees("Resumed").await;
        assert!(!person.screen().contains("elsewhere"), "{}", person.screen());
        person.types("p").await;
        assert!(!person.ends().await.success());
        assert_eq!(person.state(), UNTOUCHED);
        let raw = String::from_utf8_lossy(&person.raw).into_owned();
        let (_, after) = raw.rsplit_once("\u{1b}[?1049l").unwrap();
        assert!(after.contains("elsewhere") && after.contains(r"on \x1b[31mpurpose"), "{after}");
    });
}

#[test]
fn signals_restore_the_terminal() {
    for signal in [Signal::TERM, Signal::HUP, Signal::QUIT, Signal::INT] {
        at_a_terminal(async {
            let mut person = Person::opens();
            person.sees("size").await;
            person.signals(signal);
            assert!(person.ends().await.success());
            assert_eq!(person.state(), UNTOUCHED, "{signal:?}");
            assert!(person.screen().contains("left because of"), "{}", person.screen());
        });
    }
}

#[test]
fn the_program_suspends_and_continues_under_a_shell() {
    at_a_terminal(async {
        let (mut person, line) = Person::in_a_shell();
        person.sees("shell>").await;
        person.types(&line).await;
        person.sees("size 60x12").await;
        let taken = person.state();
        for (how, told) in [("z", "back"), ("kill", "back")] {
            if how == "kill" {
                let face = rustix::termios::tcgetpgrp(person.terminal()).unwrap();
                rustix::process::kill_process(face, Signal::TSTP).unwrap();
            } else {
                person.types(how).await;
            }
            person.sees("Stopped").await;
            assert!(person.state().starts_with("main screen, cursor, wraps"), "{}", person.state());
            person.resizes(50, 10);
            person.types("fg\r").await;
            person.sees("size 50x10").await;
            person.sees(told).await;
            assert_eq!(person.state(), taken);
            person.resizes(60, 12);
            person.sees("size 60x12").await;
        }
        person.types("q").await;
        person.sees("left because of a key").await;
        person.types("\rexit\r").await;
        person.ends().await;
    });
}

#[test]
fn the_program_does_not_suspend_without_job_control() {
    at_a_terminal(async {
        let mut person = Person::opens();
        person.types("z").await;
        person.sees("nowhere").await;
        // After SIGSTOP and SIGCONT, everything is drawn again.
        person.signals(Signal::STOP);
        person.forgets();
        person.signals(Signal::CONT);
        person.sees("key z\nnowhere\ncontinued").await;
        assert_eq!(person.state(), TAKEN);
    });
}

#[test]
fn a_lost_terminal_ends_the_program_quietly() {
    at_a_terminal(async {
        let mut person = Person::opens();
        person.sees("size").await;
        person.hangs_up().await;
    });
}

#[test]
fn a_blocked_terminal_does_not_block_the_program() {
    at_a_terminal(async {
        let mut person = Person::opens();
        person.types("f").await;
        person.sees("key f").await;
        // Nobody reads from here on, so the PTY fills up.
        let begun = Instant::now();
        person.signals(Signal::TERM);
        assert!(person.ends_unread().await.code().is_some());
        assert!(begun.elapsed() < crate::person::DEADLINE / 4, "{:?}", begun.elapsed());
        assert!(person.state().contains("echoes"), "{}", person.state());
    });
}

#[test]
fn keys_are_handled_during_a_flood_of_frames() {
    at_a_terminal(async {
        let mut person = Person::opens();
        person.types("f").await;
        person.sees("key f").await;
        for letter in ["a", "b", "d"] {
            person.types(letter).await;
            person.sees(&format!("key {letter}")).await;
        }
        person.types("q").await;
        person.ends().await;
        assert_eq!(person.state(), UNTOUCHED);
    });
}

#[test]
fn copied_text_is_sent_to_the_terminal() {
    at_a_terminal(async {
        let mut person = Person::opens();
        person.types("c").await;
        person.sees("Sent").await;
        let raw = String::from_utf8_lossy(&person.raw).into_owned();
        assert!(raw.contains("\u{1b}]52;c;Y29waWVk\u{7}"), "{raw:?}");
        assert!(raw.contains("\u{1b}[?2026h") && raw.contains("\u{1b}[?2026l"), "{raw:?}");
    });
}
