//! Tests of the ledger.

use serde_json::json;

use super::{Ledger, VisibleTail};
use crate::id::CallId;
use crate::message::{Arguments, ToolCall};
use crate::outcome::{FileChange, Outcome, Status};

fn call(command: &str) -> ToolCall {
    ToolCall {
        id: CallId::new("c"),
        wire_id: None,
        name: "bash".to_owned(),
        arguments: Arguments::parse(&json!({ "command": command }).to_string()),
    }
}

fn ended(code: i32, output: &str) -> Outcome {
    let status = if code == 0 { Status::Ok } else { Status::Failed };
    Outcome { exit_code: Some(code), ..Outcome::new(status, output) }
}

fn text(ledger: &Ledger) -> String {
    ledger.text("web1, in /srv", VisibleTail::default(), 2_000)
}

#[test]
fn a_ledger_names_goal_words_refusals_commands_changes_and_place() {
    let mut ledger = Ledger::default();
    ledger.add_prompt("make nginx start");
    ledger.add_outcome(
        "web1",
        &call("nginx -t"),
        &ended(1, &format!("{}\nno such file: cert.pem\n", "x".repeat(300))),
    );
    ledger.add_refusal(&call("systemctl restart postgres"), "never touch postgres");
    ledger.add_prompt("keep the old\ncertificate");
    ledger.add_outcome("web1", &call("sed -i s/a/b/ /etc/nginx/nginx.conf"), &ended(0, ""));
    ledger.add_outcome("web1", &call("sudo systemctl restart nginx"), &ended(0, "done"));
    let edited = FileChange { path: "etc/motd".to_owned(), before: None, after_hash: String::new() };
    let write = Outcome { changes: vec![edited], ..Outcome::ok("") };
    ledger.add_outcome("web1", &call("x"), &write);
    let expected = "\
Goal: make nginx start
The user also said:
- keep the old certificate
Refused by the user; do not try again:
- systemctl restart postgres (the user: never touch postgres)
Changed so far:
- web1: systemctl restart nginx
- web1: etc/motd
- web1: /etc/nginx/nginx.conf
First commands:
- web1: `nginx -t` -> exit 1: no such file: cert.pem
- web1: `sed -i s/a/b/ /etc/nginx/nginx.conf` -> exit 0
- web1: `sudo systemctl restart nginx` -> exit 0: done
- web1: `x` -> ok
Place: web1, in /srv
";
    assert_eq!(text(&ledger), expected);
}

#[test]
fn what_the_prompt_still_shows_is_not_repeated() {
    let mut ledger = Ledger::default();
    for n in 0..8 {
        ledger.add_prompt(&format!("prompt {n}"));
        ledger.add_outcome("h", &call(&format!("cmd {n}")), &ended(0, ""));
    }
    let text = ledger.text("h, in /", VisibleTail { prompts: 2, commands: 6 }, 2_000);
    assert!(text.contains("prompt 5") && !text.contains("prompt 6"), "{text}");
    assert!(text.contains("cmd 1") && !text.contains("cmd 2") && !text.contains("Latest"), "{text}");
}

#[test]
fn a_long_session_keeps_its_first_and_newest_commands_within_the_budget() {
    let mut ledger = Ledger::default();
    ledger.add_prompt(&"goal ".repeat(5_000));
    for n in 0..1_000 {
        ledger.add_prompt(&format!("and {n} {}", "w".repeat(n)));
        ledger.add_refusal(&call("reboot"), "no");
        ledger.add_outcome("h", &call(&format!("touch /srv/file{n}")), &ended(0, &format!("out {n}")));
    }
    for tokens in [200, 400, 4_000] {
        let text = ledger.text("h, in /", VisibleTail::default(), tokens);
        assert!(text.len() <= tokens as usize * 7 / 2 + 400, "{tokens}: {}", text.len());
        assert!(text.starts_with("Goal: goal"), "{text}");
        assert!(text.contains("file999`") && text.contains("more in the log"), "{tokens}: {text}");
    }
    let text = text(&ledger);
    assert!(text.contains("`touch /srv/file0` -> exit 0: out 0"), "{text}");
}

#[test]
fn changes_of_forgotten_commands_stay() {
    let mut ledger = Ledger::default();
    ledger.add_prompt("g");
    for _ in 0..4 {
        ledger.add_outcome("h", &call("true"), &ended(0, ""));
    }
    ledger.add_outcome("h", &call("echo x > /etc/motd"), &ended(0, ""));
    for n in 0..300 {
        ledger.add_outcome("h", &call(&format!("ls {n}")), &ended(0, ""));
    }
    let text = text(&ledger);
    assert!(text.contains("- h: /etc/motd"), "{text}");
    assert!(!text.contains("echo x"), "{text}");
}
