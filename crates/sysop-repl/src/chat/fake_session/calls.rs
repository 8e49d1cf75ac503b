//! Prompts about the outcome of calls.

use serde_json::json;
use sysop_core::event::{Delta, Event, Input, Origin, PauseReason, StopReason};
use sysop_core::message::ToolCall;
use sysop_core::outcome::{
    ChangeKind, HostOutcome, Outcome, Reversibility, Status, SystemChange, WAITS_FOR_ANSWER,
};
use sysop_core::policy::{Finding, Grant, Risk, RiskClass};
use sysop_core::preview::STILL_CHECKING;
use sysop_driver::frontend::ServerConnection;

use super::State;

/// Prompt that the session does not send before it ends.
pub(super) const UNSENT: &str = "unsent";

fn host(host: &str, exit_code: i32, group: u32) -> HostOutcome {
    HostOutcome {
        host: host.into(),
        status: if exit_code == 0 { Status::Ok } else { Status::Failed },
        exit_code: Some(exit_code),
        duration_ms: 100 * u64::from(group),
        group,
        unreachable: None,
    }
}

impl State {
    pub(super) fn connection(&self) -> ServerConnection {
        let has_unsent = self.inputs.contains(&Input::prompt(UNSENT));
        let undelivered = has_unsent.then(|| UNSENT.to_owned()).into_iter().collect();
        ServerConnection { undelivered, ..self.connection.clone() }
    }

    /// Ends the session: another process has changed it.
    pub(super) fn end_taken(&mut self) {
        self.is_taken = true;
        self.listeners.clear();
    }

    /// Runs a command that another user typed. From then on, commands of this user have a name, too.
    pub(super) fn direct_by(&mut self, by: &str, command: &str) {
        let arguments = serde_json::Map::from_iter([("command".to_owned(), json!(command))]);
        self.user = Some(by.to_owned());
        self.direct("bash".to_owned(), arguments, Origin::User);
        self.user = Some("me".to_owned());
    }

    pub(super) fn prompt_about_calls(&mut self, word: &str) {
        match word {
            "offline" => self.loses_connection(),
            "changed" => {
                self.ends_with("act", Outcome::new(Status::Rejected, "not called: the definition changed"))
            }
            "fleet" => self.fails_on_hosts(),
            "missed" => self.misses_a_host(),
            "wrote" => self.writes_a_system_file(),
            "unsaved" => self.changes_without_undo(),
            "waits" => {
                let text = format!("$ ./ask\nReally? [y/N]\n[{WAITS_FOR_ANSWER}]");
                self.ends_with("./ask", Outcome::new(Status::Unknown, text));
            }
            "edited" => self.edits_a_long_file(),
            "unmatched" => self.finds_no_text_to_edit(),
            "mistaken" => {
                let call = self.call("read_file", json!({}));
                self.reply("", vec![call.clone()]);
                let outcome = Outcome::failed("missing argument `path`");
                self.publish(Event::ToolFinished { call: call.id, outcome });
                self.end(StopReason::EndTurn, None);
            }
            "retried" => self.retries(),
            "late" => {
                let call = self.call("bash", json!({ "command": "rm -r build" }));
                self.reply("", vec![call.clone()]);
                self.ask_with(call, vec![STILL_CHECKING.to_owned()]);
            }
            "left" => self.leaves_a_job(),
            "rechecked" => self.propose("", "reload"),
            "both" => {
                let calls =
                    ["touch a", "touch b"].map(|command| self.call("bash", json!({ "command": command })));
                self.reply("", calls.to_vec());
                self.ask(calls[0].clone());
            }
            "spent" => self.spends_its_budget(),
            "down" => self.proposes_on_hosts(),
            "joined" => {
                self.say("👩\u{200d}💻 می\u{200c}خواهم\u{202e}\u{1b}[2K");
                self.end(StopReason::EndTurn, None);
            }
            "unreachable" | "reached" => {
                let first = self.call("bash", json!({ "command": "uptime" }));
                let why = "web1 refused the connection; check the port, and that sshd is running";
                self.reply("", vec![first.clone()]);
                self.publish(Event::ToolFinished { call: first.id, outcome: Outcome::unreachable(why) });
                if word == "reached" {
                    return self.automatic("Again.", "uptime", "up 3 days\n", 0);
                }
                self.say("I could not log in.");
                self.end(StopReason::EndTurn, None);
            }
            "denied" | "misconfigured" => {
                let call = self.call("bash", json!({ "command": "touch it" }));
                self.reply("", vec![call.clone()]);
                let by = match word {
                    "denied" => "a hook: no ticket",
                    _ => "the config error at config.toml:2",
                };
                let outcome = Outcome::new(Status::Rejected, format!("denied by {by}; nothing ran"));
                self.publish(Event::ToolFinished { call: call.id, outcome });
                self.end(StopReason::EndTurn, None);
            }
            _ => {
                self.say("Hello **there**, how are you?");
                self.end(StopReason::EndTurn, None);
            }
        }
    }

    /// Asks again about a call whose host was silent at the first question. Returns false for other calls.
    pub(super) fn asks_again(&mut self, call: &ToolCall) -> bool {
        let was_silent = call.text_argument("command") == Some("reload");
        if !was_silent || std::mem::replace(&mut self.has_asked_again, true) {
            return false;
        }
        self.open = Some(call.clone());
        self.publish(Event::ApprovalAsked {
            call: call.clone(),
            command: "reload".to_owned(),
            reason: String::new(),
            risk: Risk { class: RiskClass::Changes, findings: Vec::new() },
            covers: Grant::Exact { command: "reload".to_owned() },
            preview: Vec::new(),
            guarded: None,
            scope: None,
            terms: Default::default(),
        });
        true
    }

    fn edits_a_long_file(&mut self) {
        let new: String = (1..=40).map(|n| format!("new {n}\n")).collect();
        let arguments = json!({ "path": "a.py", "old_string": "old\n", "new_string": new });
        let call = self.call("edit_file", arguments);
        self.reply("", vec![call.clone()]);
        self.publish(Event::ToolStarted { call: call.clone(), origin: Origin::Model });
        self.publish(Event::ToolFinished { call: call.id, outcome: Outcome::ok("edited a.py") });
        self.end(StopReason::EndTurn, None);
    }

    fn finds_no_text_to_edit(&mut self) {
        let call = self.call("edit_file", json!({ "path": "a.py", "old_string": "x", "new_string": "y" }));
        self.reply("", vec![call.clone()]);
        self.publish(Event::ToolStarted { call: call.clone(), origin: Origin::Model });
        let outcome = Outcome::failed("`old_string` was not found in a.py\nread the file first");
        self.publish(Event::ToolFinished { call: call.id, outcome });
        self.end(StopReason::EndTurn, None);
    }

    fn spends_its_budget(&mut self) {
        let detail = "the session has used 1407 of 2000 tokens, and the next call takes about 900".to_owned();
        let reason = PauseReason::Budget;
        self.paused = Some(reason);
        self.publish(Event::Paused { reason, detail: Some(detail), active_ms: 0 });
    }

    fn proposes_on_hosts(&mut self) {
        let call = self.call("bash", json!({ "command": "reload" }));
        self.reply("", vec![call.clone()]);
        self.open = Some(call.clone());
        let findings = vec![Finding::unreached("dead1: connection refused\u{1b}[2K")];
        self.publish(Event::ApprovalAsked {
            call,
            command: "reload".to_owned(),
            reason: String::new(),
            risk: Risk { class: RiskClass::Changes, findings },
            covers: Grant::Exact { command: "reload".to_owned() },
            preview: Vec::new(),
            guarded: None,
            scope: None,
            terms: Default::default(),
        });
    }

    fn leaves_a_job(&mut self) {
        let call = self.call("bash", json!({ "command": "make &" }));
        self.reply("", vec![call.clone()]);
        self.publish(Event::ToolStarted { call: call.clone(), origin: Origin::Model });
        self.publish(Event::ToolFinished { call: call.id.clone(), outcome: Outcome::ok("") });
        self.delta(Delta::Output { call: call.id, text: "from the background\n".into() });
        self.say("It runs.");
        self.end(StopReason::EndTurn, None);
    }

    fn fails_on_hosts(&mut self) {
        let hosts = vec![host("web1", 0, 2), host("web2", 0, 2), host("db1", 1, 1)];
        let output = "== db1 (1 of 3): exit code 1 ==\ninactive\n[exit code 1]\n\
                      == web1, web2 (2 of 3): exit code 0 ==\nactive\n[exit code 0]";
        self.ends_with("systemctl is-active app", Outcome { hosts, ..Outcome::failed(output) });
    }

    fn misses_a_host(&mut self) {
        let why = "web2 refused the connection; check the port";
        let missed = HostOutcome {
            status: Status::Failed,
            exit_code: None,
            unreachable: Some(why.into()),
            ..host("web2", 0, 1)
        };
        let output =
            format!("== web2 (1 of 2): failed ==\n{why}\n== web1 (1 of 2): exit code 0 ==\n[exit code 0]");
        let hosts = vec![host("web1", 0, 2), missed];
        self.ends_with("touch made", Outcome { hosts, ..Outcome::failed(output) });
    }

    fn loses_connection(&mut self) {
        (self.connection.is_lost, self.connection.unconfirmed) = (true, vec!["count the files".to_owned()]);
        self.delta(Delta::Notice { text: "the server is away; reconnecting…".to_owned() });
        self.say("Here again.");
        self.end(StopReason::EndTurn, None);
    }

    fn changes_without_undo(&mut self) {
        let output = "gone\n[exit code 1]\n[no undo: /srv/big is 120 MB: its content is not saved]";
        let undo = Some(Reversibility::None);
        self.ends_with("rm -r /srv/big x", Outcome { undo, exit_code: Some(1), ..Outcome::failed(output) });
    }

    fn writes_a_system_file(&mut self) {
        let name = "/etc/motd".to_owned();
        let changed = vec![SystemChange { kind: ChangeKind::File, name, how: "edited".into() }];
        let undo = Some(Reversibility::Exact);
        self.ends_with("tee /etc/motd", Outcome { changed, undo, exit_code: Some(0), ..Outcome::ok("") });
    }

    fn retries(&mut self) {
        for (attempt, reason) in [(2, "no answer"), (3, "busy")] {
            let text = sysop_core::ui_text::retrying("0.5 s", attempt, 5, reason);
            self.delta(Delta::Notice { text });
        }
        self.say("At last.");
        self.end(StopReason::EndTurn, None);
    }

    pub(super) fn ends_with(&mut self, command: &str, outcome: Outcome) {
        let call = self.call("bash", json!({ "command": command }));
        self.reply("", vec![call.clone()]);
        self.publish(Event::ToolStarted { call: call.clone(), origin: Origin::Model });
        let text = if outcome.status == Status::Rejected {
            format!("{}\n", outcome.output)
        } else if outcome.hosts.is_empty() {
            String::new()
        } else {
            "db1: inactive\n".to_owned()
        };
        if !text.is_empty() {
            self.delta(Delta::Output { call: call.id.clone(), text });
        }
        self.publish(Event::ToolFinished { call: call.id, outcome });
        self.end(StopReason::EndTurn, None);
    }
}
