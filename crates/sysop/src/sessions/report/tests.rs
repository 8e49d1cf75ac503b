//! Reports of made-up sessions.

use std::path::Path;

use jiff::tz::TimeZone;
use serde_json::json;
use sysop_core::event::{Decision, Event, Logged, Origin, StopReason};
use sysop_core::guard::GuardEnd;
use sysop_core::id::{CallId, Seq, SessionId, StepId, Timestamp, TurnId};
use sysop_core::message::{Arguments, Reply, ToolCall};
use sysop_core::outcome::{
    ChangeKind, FileChange, HostOutcome, Outcome, Reversibility, Status, SystemChange,
};
use sysop_core::policy::Grant;
use sysop_term::testing::HOSTILE;

use super::super::record::SessionRecord;
use super::{ReportFormat, outcome_facts, report};

fn call(id: &str, command: &str) -> ToolCall {
    let arguments = json!({ "command": command, "reason": "it hangs" }).as_object().unwrap().clone();
    ToolCall {
        id: CallId::new(id),
        wire_id: None,
        name: "bash".to_owned(),
        arguments: Arguments::Object(arguments),
    }
}

fn record(events: Vec<Event>) -> SessionRecord {
    let mut record = SessionRecord::default();
    for (seq, event) in (1..).zip(events) {
        record.apply(&Logged { seq: Seq(seq), at: Timestamp(i64::try_from(seq).unwrap() * 1000), event });
    }
    record
}

fn session() -> SessionRecord {
    let step = StepId { turn: TurnId(1), step: 1 };
    let (restart, reboot) = (call("c1", "systemctl restart nginx"), call("c2", "reboot"));
    let host = |host: &str, status, code| HostOutcome {
        host: host.to_owned(),
        status,
        exit_code: Some(code),
        duration_ms: 40,
        group: u32::from(code != 0),
        unreachable: None,
    };
    let mut outcome = Outcome { duration_ms: 1500, ..Outcome::new(Status::Failed, "") };
    outcome.hosts = vec![host("web1", Status::Ok, 0), host("web2", Status::Failed, 1)];
    outcome.changes = vec![FileChange { path: "a".into(), before: None, after_hash: String::new() }];
    outcome.changed =
        vec![SystemChange { kind: ChangeKind::Unit, name: "nginx".into(), how: "restarted".into() }];
    let allow = Decision::Allow { command: Some("systemctl restart nginx".to_owned()) };
    let reject = Decision::Reject { reason: "not now".to_owned() };
    let id = |id: &str| CallId::new(id);
    record(vec![
        Event::TurnStarted {
            turn: TurnId(1),
            prompt: "Restart nginx".to_owned(),
            origin: Origin::Model,
            images: Vec::new(),
            by: None,
        },
        Event::Replied { step, reply: Reply { calls: vec![restart.clone(), reboot], ..Reply::default() } },
        Event::Decided { call: id("c1"), decision: allow, by: "ada".to_owned() },
        Event::ToolStarted { call: restart, origin: Origin::Model },
        Event::GuardArmed { call: id("c1"), host: "web1".to_owned(), seconds: 60 },
        Event::ToolFinished { call: id("c1"), outcome },
        Event::GuardEnded { call: id("c1"), host: "web1".to_owned(), how: GuardEnd::Fired },
        Event::Decided { call: id("c2"), decision: reject, by: "bob".to_owned() },
        Event::ToolFinished { call: id("c2"), outcome: Outcome::new(Status::Rejected, "no") },
        Event::Undone { call: id("c1"), step: Some(1), by: "ada".to_owned(), how: Reversibility::Partly },
    ])
}

fn markdown(record: &SessionRecord, artifacts: &Path) -> String {
    report(&SessionId::new("0198c2f1"), record, artifacts, &TimeZone::UTC, ReportFormat::Md)
}

fn html(record: &SessionRecord, artifacts: &Path) -> String {
    report(&SessionId::new("0198c2f1"), record, artifacts, &TimeZone::UTC, ReportFormat::Html)
}

#[test]
fn a_report_names_what_was_done_by_whom_and_where() {
    let text = markdown(&session(), Path::new("/nothing"));
    for line in [
        "# Restart nginx\n",
        "- Session: 0198c2f1\n",
        "- Users who acted: ada, bob\n",
        "(9.0 s)\n",
        "1. 00:00:04, proposed by the model, edited and allowed by ada, failed, 1.5 s",
        "   - reason: it hangs\n",
        "   - web2: exit 1, 40 ms\n",
        "   systemctl restart nginx\n",
        "- call 1: file a created\n",
        "- call 1: unit nginx restarted\n",
        "- call 1: lockout guard on web1: fired, so the change was rolled back\n",
        "- call 1: undone partly, by ada\n",
        "\n## Not run\n\n2. 00:00:09, proposed by the model, rejected by bob (not now)\n",
        "- Calls: 1 ran (1.5 s), 1 did not\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn a_report_says_that_the_token_of_the_printed_url_was_used() {
    let mut record = session();
    record.opened_by = Some("start".to_owned());
    let text = markdown(&record, Path::new("/nothing"));
    assert!(text.contains("- Opened by: the server's start token\n"), "{text}");
}

#[test]
fn a_report_names_who_sent_each_prompt_if_several_people_took_part() {
    let asked = |turn: u32, prompt: &str, by: &str| Event::TurnStarted {
        turn: TurnId(turn),
        prompt: prompt.to_owned(),
        origin: Origin::Model,
        images: Vec::new(),
        by: Some(by.to_owned()),
    };
    let alone = record(vec![asked(1, "Restart nginx", "ada"), asked(2, "Thanks", "ada")]);
    let text = markdown(&alone, Path::new("/nothing"));
    assert!(text.contains("- Users who acted: ada\n") && !text.contains("ada:"), "{text}");
    let both = record(vec![asked(1, "Restart nginx", "ada"), asked(2, "Stop \u{1b}[1m it", "bob <b>")]);
    let text = markdown(&both, Path::new("/nothing"));
    assert!(text.contains("> ada:\n> Restart nginx\n"), "{text}");
    assert!(text.contains("> bob &lt;b&gt;:\n"), "{text}");
    let page = html(&both, Path::new("/nothing"));
    assert!(page.contains("bob &lt;b&gt;:") && !page.contains('\u{1b}'), "{page}");
}

/// A change on three hosts of which one was rolled back, and an edit by a file tool.
fn rollout() -> SessionRecord {
    let (change, edit) = (call("c1", "sed -i s/a/b/ /etc/ssh/sshd_config"), call("c2", ""));
    let host = |host: &str, status| HostOutcome {
        host: host.to_owned(),
        status,
        exit_code: None,
        duration_ms: 40,
        group: u32::from(status != Status::Ok),
        unreachable: None,
    };
    let edited =
        |name: &str| SystemChange { kind: ChangeKind::File, name: name.into(), how: "edited".into() };
    let mut outcome = Outcome::new(Status::Failed, "");
    outcome.hosts = vec![host("web1", Status::Ok), host("web2", Status::Ok), host("web3", Status::Failed)];
    outcome.changed = vec![edited("web1:/etc/ssh/sshd_config"), edited("web2:/etc/ssh/sshd_config")];
    let mut tool = Outcome::ok("");
    tool.changes =
        vec![FileChange { path: "srv/a".into(), before: Some("x".into()), after_hash: String::new() }];
    tool.changed = vec![edited("srv/a")];
    let mut alone = Outcome::new(
        Status::Failed,
        "[guard: fake]\n[guard: ROLLED BACK, because a fresh login failed: no. Log: more;]",
    );
    alone.duration_ms = 1;
    let id = |id: &str| CallId::new(id);
    let guard = |host: &str| Event::GuardArmed { call: id("c1"), host: host.to_owned(), seconds: 60 };
    let end = |host: &str, how| Event::GuardEnded { call: id("c1"), host: host.to_owned(), how };
    record(vec![
        Event::ToolStarted { call: change, origin: Origin::Model },
        guard("web2"),
        guard("web1"),
        guard("web3"),
        end("web1", GuardEnd::Confirmed),
        end("web3", GuardEnd::Fired),
        end("web2", GuardEnd::Confirmed),
        Event::ToolFinished { call: id("c1"), outcome },
        Event::ToolStarted { call: edit, origin: Origin::Model },
        Event::ToolFinished { call: id("c2"), outcome: tool },
        Event::Decided { call: id("c3"), decision: Decision::Allow { command: None }, by: "exec".to_owned() },
        Event::ToolStarted { call: call("c3", "passwd -l root"), origin: Origin::Model },
        Event::GuardArmed { call: id("c3"), host: "web1".to_owned(), seconds: 60 },
        Event::GuardEnded { call: id("c3"), host: "web1".to_owned(), how: GuardEnd::Fired },
        Event::ToolFinished { call: id("c3"), outcome: alone },
    ])
}

#[test]
fn a_denied_call_that_a_user_typed_did_not_run() {
    let denied = Outcome::new(Status::Rejected, "denied: this session is read-only (approve = never)");
    let text = markdown(
        &record(vec![
            Event::ToolStarted { call: call("c1", "touch a"), origin: Origin::User },
            Event::ToolFinished { call: CallId::new("c1"), outcome: denied },
        ]),
        Path::new("/nothing"),
    );
    assert!(text.contains("0 ran") && text.contains("1 did not"), "{text}");
}

#[test]
fn a_report_groups_what_several_hosts_have_in_common() {
    let text = markdown(&rollout(), Path::new("/nothing"));
    for line in [
        "- call 1: file /etc/ssh/sshd_config edited on 2 hosts (web1, web2)\n",
        "- call 1: lockout guards on 2 hosts (web1, web2): confirmed, so the change stays\n",
        "- call 1: lockout guard on web3: fired, so the change was rolled back\n",
        "- call 2: file srv/a edited\n",
        "   - guard: ROLLED BACK, because a fresh login failed: no.\n",
        "allowed by the local user (exec), failed",
        "- Users who acted: the local user (exec)\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert_eq!(text.matches("srv/a").count(), 1, "{text}");
    assert!(!text.contains("\n\n\n"), "{text}");
}

fn asked(call: &ToolCall, command: &str) -> Event {
    Event::ApprovalAsked {
        call: call.clone(),
        command: command.to_owned(),
        reason: String::new(),
        risk: Default::default(),
        covers: Grant::Exact { command: command.to_owned() },
        preview: Vec::new(),
        guarded: None,
        scope: None,
        terms: Default::default(),
    }
}

fn undo(id: &str, step: u64, call: &str) -> ToolCall {
    let arguments = json!({ "step": step, "call": call }).as_object().unwrap().clone();
    ToolCall { name: "undo".to_owned(), arguments: Arguments::Object(arguments), ..self::call(id, "") }
}

#[test]
fn a_report_names_who_typed_a_command_and_asked_for_an_undo() {
    let (change, undo) = (call("c1", "touch a"), undo("u1", 1, "c1"));
    let begins = |turn: u32, by: Option<&str>| Event::TurnStarted {
        turn: TurnId(turn),
        prompt: String::new(),
        origin: Origin::User,
        images: Vec::new(),
        by: by.map(str::to_owned),
    };
    let runs = |call: &ToolCall| {
        let started = Event::ToolStarted { call: call.clone(), origin: Origin::User };
        [started, Event::ToolFinished { call: call.id.clone(), outcome: Outcome::ok("") }]
    };
    let text = |by: Option<&str>| {
        let events = [begins(1, by)].into_iter().chain(runs(&change)).chain([begins(2, by)]);
        markdown(&record(events.chain(runs(&undo)).collect()), Path::new("/nothing"))
    };
    let named = text(Some("bob"));
    assert!(named.contains("typed by bob") && named.contains("requested by bob"), "{named}");
    let nameless = text(None);
    assert!(nameless.contains("typed,") && nameless.contains("requested by a user"), "{nameless}");
}

#[test]
fn a_report_names_everyone_who_allowed_an_undo() {
    let (change, undo) = (call("c1", "touch a"), undo("u1", 1, "c1"));
    let given =
        |by: &str| Event::ApprovalGiven { call: undo.id.clone(), by: by.to_owned(), person: None, needed: 3 };
    let allow = |id: &CallId, by: &str| Event::Decided {
        call: id.clone(),
        decision: Decision::Allow { command: None },
        by: by.to_owned(),
    };
    let finished = |id: &CallId| Event::ToolFinished { call: id.clone(), outcome: Outcome::ok("") };
    let record = record(vec![
        asked(&change, "touch a"),
        allow(&change.id, "eve"),
        Event::ToolStarted { call: change.clone(), origin: Origin::Model },
        finished(&change.id),
        asked(&undo, "undo call 1"),
        given("ada"),
        given("bob"),
        allow(&undo.id, "cleo"),
        Event::ToolStarted { call: undo.clone(), origin: Origin::User },
        Event::Undone {
            call: change.id.clone(),
            step: Some(1),
            by: "cleo".to_owned(),
            how: Reversibility::Exact,
        },
        finished(&undo.id),
    ]);
    let (text, page) = (markdown(&record, Path::new("/nothing")), html(&record, Path::new("/nothing")));
    let line = "call 1: undone exactly, by ada and bob and cleo";
    assert!(text.contains(line) && page.contains(line), "{text}");
    assert!(text.contains("allowed by eve"), "{text}");
}

#[test]
fn a_report_names_everyone_who_allowed_a_call_and_what_the_model_said() {
    let step = StepId { turn: TurnId(1), step: 1 };
    let (change, done) = (call("c1", "touch a"), ToolCall { name: "finish".to_owned(), ..call("c2", "") });
    let asked = asked(&change, "touch a");
    let (id, text) = (CallId::new("c1"), "I shall <touch> it.".to_owned());
    let record = record(vec![
        Event::TurnStarted {
            turn: TurnId(1),
            prompt: "Touch it".to_owned(),
            origin: Origin::Model,
            images: Vec::new(),
            by: None,
        },
        Event::Replied { step, reply: Reply { text, calls: vec![change.clone(), done], ..Reply::default() } },
        asked,
        Event::ApprovalGiven { call: id.clone(), by: "ada".to_owned(), person: None, needed: 2 },
        Event::Decided {
            call: id.clone(),
            decision: Decision::Allow { command: None },
            by: "bob".to_owned(),
        },
        Event::ToolStarted { call: change, origin: Origin::Model },
        Event::ToolFinished { call: id, outcome: Outcome { exit_code: Some(0), ..Outcome::ok("") } },
        Event::ToolFinished { call: CallId::new("c2"), outcome: Outcome::ok("ok") },
    ]);
    let (text, page) = (markdown(&record, Path::new("/nothing")), html(&record, Path::new("/nothing")));
    for part in [
        "allowed by ada and bob, exit code 0\n",
        "- Users who acted: ada, bob\n",
        "> I shall &lt;touch&gt; it.\n",
        "- Calls: 1 ran (0 ms), 0 did not\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(
        !text.contains("Not run"),
        "a call that the session answers itself needs nothing to run:\n{text}"
    );
    assert!(
        page.contains("allowed by ada and bob")
            && page.contains("<blockquote>I shall &lt;touch&gt; it.</blockquote>"),
        "{page}"
    );
}

#[test]
fn an_undo_canceled_before_an_answer_is_not_a_call_of_a_model() {
    let undo = undo("u1", 1, "c1");
    let (id, asked) = (undo.id.clone(), asked(&undo, "undo call 1"));
    let reject = Decision::Reject { reason: "the turn was stopped".to_owned() };
    let record = record(vec![
        Event::TurnStarted {
            turn: TurnId(1),
            prompt: String::new(),
            origin: Origin::User,
            images: Vec::new(),
            by: None,
        },
        asked,
        Event::Decided { call: id.clone(), decision: reject, by: "sysop".to_owned() },
        Event::ToolFinished { call: id, outcome: Outcome::new(Status::Cancelled, "not run") },
    ]);
    let text = markdown(&record, Path::new("/nothing"));
    assert!(text.contains("1. 00:00:04, requested by a user, canceled before an answer\n"), "{text}");
    assert!(!text.contains("sysop") && !text.contains("model"), "{text}");
}

#[test]
fn a_call_that_nobody_could_be_asked_about_says_so() {
    let call = call("c1", "rm -rf build");
    let reject = Decision::Reject { reason: sysop_core::outcome::NO_TERMINAL.to_owned() };
    let outcome = Outcome::new(Status::Rejected, "not run: there is no terminal to ask on");
    let record = record(vec![
        asked(&call, "rm -rf build"),
        Event::Decided { call: call.id.clone(), decision: reject, by: Decision::BY_SYSOP.to_owned() },
        Event::ToolFinished { call: call.id, outcome },
    ]);
    let text = markdown(&record, Path::new("/nothing"));
    assert!(text.contains("rejected by sysop (there is no terminal to ask on)"), "{text}");
}

#[test]
fn recordings_of_the_session_are_linked() {
    let folder = tempfile::tempdir().unwrap();
    for name in
        ["terminal-0198c2f1-0000000000000001.cast", "terminal-0198c2f2-0000000000000001.cast", "x.cast"]
    {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let (text, page) = (markdown(&session(), folder.path()), html(&session(), folder.path()));
    assert_eq!(text.matches(".cast](<").count(), 1, "{text}");
    assert_eq!(page.matches("href=\"file:///").count(), 1, "{page}");
    assert!(page.contains("terminal-0198c2f1-0000000000000001.cast"), "{page}");
}

#[test]
fn hostile_text_stays_text() {
    let odd = "<img src=x onerror=alert(1)> \"'`[a](javascript:b) {{x}}\n```\n# h";
    for hostile in HOSTILE.iter().copied().chain([odd]) {
        let step = StepId { turn: TurnId(1), step: 1 };
        let call = call("c1", hostile);
        let record = record(vec![
            Event::TurnStarted {
                turn: TurnId(1),
                prompt: hostile.to_owned(),
                origin: Origin::Model,
                images: Vec::new(),
                by: None,
            },
            Event::Replied { step, reply: Reply { calls: vec![call.clone()], ..Reply::default() } },
            Event::Decided {
                call: call.id.clone(),
                decision: Decision::Allow { command: None },
                by: hostile.to_owned(),
            },
            Event::ToolStarted { call: call.clone(), origin: Origin::Model },
            Event::ToolFinished { call: call.id, outcome: Outcome::ok(hostile) },
        ]);
        let (text, page) = (markdown(&record, Path::new("/nothing")), html(&record, Path::new("/nothing")));
        for report in [&text, &page] {
            let is_odd =
                |c: char| c.is_control() && !"\n\t".contains(c) || "\u{202e}\u{2066}\u{200b}".contains(c);
            assert!(!report.chars().any(is_odd), "{hostile:?}: {report:?}");
        }
        assert!(!page.contains("<img") && !page.contains("onerror=alert(1)>"), "{page}");
        let tags: Vec<&str> =
            page.split('<').skip(1).filter_map(|rest| rest.split(['>', ' ']).next()).collect();
        let known = [
            "!doctype", "html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "tr", "th",
            "td", "blockquote", "ul", "li", "span", "pre", "br",
        ];
        assert!(tags.iter().all(|tag| known.contains(&tag.trim_start_matches('/'))), "{tags:?}");
    }
}

#[test]
fn a_call_that_was_undone_is_named_so_instead_of_undoable() {
    let mut outcome = Outcome::new(Status::Ok, "");
    outcome.undo = Some(Reversibility::Partly);
    let fact = |undone| outcome_facts(&outcome, undone).pop().unwrap();
    assert_eq!(fact(None), "can be undone partly");
    assert_eq!(fact(Some(Reversibility::Exact)), "undone later");
    assert_eq!(fact(Some(Reversibility::Partly)), "undone later");
    assert_eq!(fact(Some(Reversibility::None)), "can be undone partly", "nothing was restored");
}

#[test]
fn the_names_of_all_local_front_ends_are_known() {
    let names = [sysop_repl::chat::BY, sysop_acp::BY, sysop_repl::exec::BY, sysop_tui::BY];
    assert_eq!(names, sysop_core::transcript::LOCAL_FRONT_ENDS);
}

#[test]
fn a_canceled_request_is_marked() {
    let turn = TurnId(1);
    let text = markdown(
        &record(vec![
            Event::TurnStarted {
                turn,
                prompt: "Restart nginx".to_owned(),
                origin: Origin::Model,
                images: Vec::new(),
                by: None,
            },
            Event::TurnEnded { turn, reason: StopReason::Cancelled, error: None, active_ms: 0 },
        ]),
        Path::new("/nothing"),
    );
    assert!(text.contains("(canceled)") && !text.contains("cancelled"), "{text}");
}
