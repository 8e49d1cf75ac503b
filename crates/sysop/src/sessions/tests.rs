//! Commands about sessions, over an in-memory store.

use std::sync::Arc;

use expect_test::expect;
use serde_json::json;
use sysop_core::compaction::Compaction;
use sysop_core::event::{ConfigChange, Decision, Event, Logged, Origin, PauseReason, StopReason, TypedInput};
use sysop_core::id::{CallId, JobId, Seq, SessionId, StepId, Timestamp, TurnId};
use sysop_core::job::JobOutput;
use sysop_core::message::{Arguments, ModelRef, Reply, ToolCall};
use sysop_core::outcome::{HostOutcome, Outcome, Status};
use sysop_core::policy::{ApprovalMode, Grant, Risk};
use sysop_core::spec::SessionSpec;
use sysop_core::text::neutralize;
use sysop_driver::port::Store;
use sysop_store::MemoryStore;
use unicode_width::UnicodeWidthStr;

use super::{
    DisplayOptions, ExportFormat, ListRows, SessionsError, delete, export, list, most_recent, most_recent_in,
    resolve_id, show, title_of,
};

const HOUR_MS: i64 = 3_600_000;

fn view(width: Option<usize>) -> DisplayOptions {
    DisplayOptions { now: Timestamp(100 * 24 * HOUR_MS), zone: jiff::tz::TimeZone::UTC, width }
}

fn opened(host: &str, root: &str) -> Event {
    Event::SessionOpened {
        spec: SessionSpec {
            model: ModelRef::new("ollama", "phi3"),
            system: String::new(),
            tools: Vec::new(),
            approve: ApprovalMode::Ask,
            dangerous_patterns: Vec::new(),
            deny: Vec::new(),
            policy: Default::default(),
            max_iterations: 20,
            max_history_messages: 20,
            text_system: None,
            ledger_only: false,
            canary: None,
            models: Default::default(),
            budget: Default::default(),
            instructions: false,
            effort: None,
            max_output_tokens: None,
            temperature: None,
            host: host.into(),
            root: root.into(),
            profile: "full".into(),
        }
        .into(),
        opened_by: None,
    }
}

fn turn(number: u32, prompt: &str) -> Event {
    Event::TurnStarted {
        turn: TurnId(number),
        prompt: prompt.into(),
        origin: Origin::Model,
        images: Vec::new(),
        by: None,
    }
}

fn started(tool: &str, arguments: serde_json::Value, origin: Origin) -> Event {
    let arguments = Arguments::Object(arguments.as_object().unwrap().clone());
    let call = ToolCall { id: CallId::new("c1"), wire_id: None, name: tool.into(), arguments };
    Event::ToolStarted { call, origin }
}

fn finished(outcome: Outcome) -> Event {
    Event::ToolFinished { call: CallId::new("c1"), outcome }
}

fn said(text: &str) -> Event {
    let step = StepId { turn: TurnId(1), step: 1 };
    Event::Replied { step, reply: Reply { text: text.into(), ..Reply::default() } }
}

async fn keep(store: &MemoryStore, id: &str, at: i64, events: Vec<Event>) {
    let events: Vec<_> = (1..)
        .zip(events)
        .map(|(seq, event)| Arc::new(Logged { seq: Seq(seq), at: Timestamp(at), event }))
        .collect();
    store.append(&SessionId::new(id), Seq(0), &events).await.unwrap();
}

async fn three_sessions() -> MemoryStore {
    let store = MemoryStore::new();
    let now = 100 * 24 * HOUR_MS;
    let root = "/home/me/projects/customers/shop";
    keep(&store, "0198-aaaa-1111", now - 50 * HOUR_MS, vec![opened("local", root), turn(1, "tidy up")]).await;
    let long = "why does the nightly backup of the customers' database take four hours since Monday";
    keep(
        &store,
        "0198-aaaa-2222",
        now - 3 * HOUR_MS,
        vec![opened("db-1.example.net", "/srv"), turn(1, long)],
    )
    .await;
    keep(&store, "0199-bbbb-3333", now - 90_000, vec![opened("local", "/")]).await;
    store
}

async fn listed(store: &MemoryStore, width: Option<usize>) -> String {
    let mut out = Vec::new();
    list(store, ListRows::All, None, &view(width), &mut out, &mut std::io::sink()).await.unwrap();
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn a_list_is_a_table_with_the_newest_first() {
    assert_eq!(
        listed(&three_sessions().await, None).await,
        "\
ID           AGE    HOST              ROOT                      TITLE
0199-bbbb-3  1 min  local             /                         (no prompt)
0198-aaaa-2  3 h    db-1.example.net  /srv                      why does the nightly backup of the customers' database take four hours since…
0198-aaaa-1  2 d    local             …projects/customers/shop  tidy up
"
    );
}

#[tokio::test]
async fn a_short_list_tells_that_there_is_more() {
    let store = MemoryStore::new();
    for number in 0..21 {
        keep(&store, &format!("{number:04}-aaaa-1111"), number, vec![opened("local", "/")]).await;
    }
    let listed = async |rows| {
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        list(&store, rows, None, &view(None), &mut out, &mut notes).await.unwrap();
        (String::from_utf8(out).unwrap().lines().count() - 1, String::from_utf8(notes).unwrap())
    };
    let told = "20 of 21 sessions; --all shows the rest\n".to_owned();
    assert_eq!(listed(ListRows::of_flags(None, false)).await, (20, told));
    assert_eq!(listed(ListRows::of_flags(None, true)).await, (21, String::new()));
    assert_eq!(listed(ListRows::of_flags(Some(3), false)).await, (3, String::new()));
}

#[tokio::test]
async fn a_list_of_some_hosts_omits_the_others() {
    let store = three_sessions().await;
    let on = async |hosts| {
        let mut out = Vec::new();
        list(&store, ListRows::Recent, Some(hosts), &view(None), &mut out, &mut std::io::sink())
            .await
            .unwrap();
        String::from_utf8(out).unwrap()
    };
    let one = on("web1, db-1.example.net").await;
    assert!(one.lines().count() == 2 && one.contains("\n0198-aaaa-2  "), "the ids stay unique: {one}");
    assert_eq!(on("local").await.lines().count(), 3);
    assert_eq!(on("db-1").await, "No sessions on db-1.\n");
}

#[tokio::test]
async fn a_list_fits_the_terminal() {
    let store = three_sessions().await;
    keep(
        &store,
        "0300-wide",
        0,
        vec![opened("ホスト".repeat(20).as_str(), "/"), turn(1, &"漢字".repeat(40))],
    )
    .await;
    for width in [60, 80, 81, 100, 132] {
        let table = listed(&store, Some(width)).await;
        assert_eq!(table.lines().count(), 5);
        for line in table.lines() {
            assert!(line.width() <= width, "{} > {width}: {line}", line.width());
        }
    }
    // Lines are truncated no more than needed.
    assert!(listed(&store, Some(132)).await.lines().any(|line| line.width() >= 131));
}

#[tokio::test]
async fn an_empty_list_shows_a_message() {
    assert_eq!(listed(&MemoryStore::new(), Some(80)).await, "No sessions yet. Start one with `sysop`.\n");
}

#[tokio::test]
async fn a_unique_id_prefix_is_accepted() {
    let store = three_sessions().await;
    for (text, id) in
        [("0199", "0199-bbbb-3333"), ("0198-aaaa-2", "0198-aaaa-2222"), ("0198-aaaa-1111", "0198-aaaa-1111")]
    {
        assert_eq!(resolve_id(&store, text).await.unwrap(), SessionId::new(id));
    }
    keep(&store, "0199", 0, vec![opened("local", "/")]).await;
    assert_eq!(resolve_id(&store, "0199").await.unwrap(), SessionId::new("0199"), "a whole id wins");
}

#[tokio::test]
async fn an_unknown_or_ambiguous_id_is_rejected_with_a_hint() {
    let store = three_sessions().await;
    let error = resolve_id(&store, "0198").await.unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert_eq!(
        error.to_string(),
        "2 sessions match `0198` (0198-aaaa-2222, 0198-aaaa-1111); use a longer id prefix"
    );
    for text in ["7", "", "aaaa"] {
        let error = resolve_id(&store, text).await.unwrap_err();
        assert!(matches!(error, SessionsError::Unknown(_)), "{error}");
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("`sysop sessions list`"), "{error}");
    }
}

#[tokio::test]
async fn resume_without_an_id_takes_the_most_recent_session() {
    assert_eq!(most_recent(&three_sessions().await).await.unwrap(), SessionId::new("0199-bbbb-3333"));
    let error = most_recent(&MemoryStore::new()).await.unwrap_err();
    assert_eq!((error.exit_code(), error.to_string().contains("start one with `sysop`")), (2, true));
}

#[tokio::test]
async fn continuing_prefers_the_newest_session_of_the_same_directory_and_stays_on_the_host() {
    let store = three_sessions().await;
    let root = "/home/me/projects/customers/shop";
    for (host, root, expected) in [
        ("local", root, "0198-aaaa-1111"),
        ("db-1.example.net", "/srv", "0198-aaaa-2222"),
        ("local", "/srv", "0199-bbbb-3333"),
    ] {
        assert_eq!(most_recent_in(&store, host, root).await.unwrap().as_str(), expected, "{host} {root}");
    }
    let error = most_recent_in(&store, "db-2", "/srv").await.unwrap_err();
    assert_eq!(
        (error.exit_code(), error.to_string().as_str()),
        (
            2,
            "no session on db-2; run `sysop sessions list` to see the others, and choose one with `--resume ID`"
        )
    );
    assert_eq!(title_of(&store, &SessionId::new("0198-aaaa-1111")).await.unwrap(), "tidy up");
    let now = 100 * 24 * HOUR_MS;
    let store = MemoryStore::new();
    keep(&store, "0198-cccc-1111", now, vec![opened("db-1", "/srv"), turn(1, "look")]).await;
    assert_eq!(most_recent_in(&store, "local", "/srv").await.unwrap().as_str(), "0198-cccc-1111");
    keep(&store, "0198-cccc-2222", now - HOUR_MS, vec![opened("local", "/home"), turn(1, "look")]).await;
    assert_eq!(most_recent_in(&store, "local", "/srv").await.unwrap().as_str(), "0198-cccc-2222");
    let error = most_recent_in(&MemoryStore::new(), "local", root).await.unwrap_err();
    assert_eq!(error.exit_code(), 2);
}

#[tokio::test]
async fn a_canceled_call_is_called_so_once() {
    let store = MemoryStore::new();
    let outcome = Outcome::new(Status::Cancelled, "stopped");
    let events = vec![
        opened("local", "/srv"),
        turn(1, "wait"),
        started("bash", json!({ "command": "sleep 9" }), Origin::Model),
        Event::ToolFinished { call: CallId::new("c1"), outcome },
        Event::TurnEnded { turn: TurnId(1), reason: StopReason::Cancelled, error: None, active_ms: 0 },
    ];
    keep(&store, "0198-day", 0, events).await;
    let mut out = Vec::new();
    show(&store, "0198-day", &view(None), &mut out).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with("$ sleep 9\n  stopped\n  [canceled]\n"), "{text}");
}

const PLAIN: &str = r#"session 0198-day
1970-04-01 00:00 on web-1, /srv/app

> free some
> space

I will look first.

$ df -h
  /  98%
  ```

$ read_file path="a.log" limit=3
  line 1
  [exit code 2, truncated]

$ rm -rf /srv/app/cache
[rejected (not that) by web]
  refused
  [rejected]

$ mkfs /dev/sda
  never
  [rejected]
[paused: the same call repeated with the same result]
[resumed]

$ uptime
  (typed)
  [timeout]
[approval mode set to `auto`]
[uptime took too long]
"#;

const MARKDOWN: &str = r#"# free some space

- session `0198-day`
- 1970-04-01 00:00
- host `web-1`, root `/srv/app`

## You

> free some
> space

I will look first.

```sh
df -h
```

````text
/  98%
```
````

```sh
read_file path="a.log" limit=3
```

```text
line 1
```

*exit code 2, truncated*

```sh
rm -rf /srv/app/cache
```

*rejected (not that) by web*

```text
refused
```

*rejected*

```sh
mkfs /dev/sda
```

```text
never
```

*rejected*

*paused: the same call repeated with the same result*

*resumed*

*typed*

```sh
uptime
```

*timeout*

*approval mode set to `auto`*

*uptime took too long*
"#;

async fn a_day() -> MemoryStore {
    let store = MemoryStore::new();
    let bash = |id: &str, command: &str| ToolCall {
        id: CallId::new(id),
        wire_id: None,
        name: "bash".into(),
        arguments: Arguments::Object(json!({"command": command}).as_object().unwrap().clone()),
    };
    let decided = |id: &str, decision| Event::Decided { call: CallId::new(id), decision, by: "web".into() };
    let calls = vec![bash("c1", "rm -r cache"), bash("c2", "mkfs /dev/sda")];
    let step = StepId { turn: TurnId(1), step: 2 };
    let asked = Event::ApprovalAsked {
        call: bash("c1", "rm -rf /srv/app/cache"),
        command: "rm -rf /srv/app/cache".into(),
        reason: "room".into(),
        risk: Risk::default(),
        covers: Grant::Exact { command: "rm -rf /srv/app/cache".into() },
        preview: Vec::new(),
        guarded: None,
        scope: None,
        terms: Default::default(),
    };
    let events = vec![
        opened("web-1", "/srv/app"),
        turn(1, "free some\nspace"),
        said("I will look first."),
        started("bash", json!({"command": "df -h"}), Origin::Model),
        finished(Outcome { exit_code: Some(0), ..Outcome::ok("/  98%\n```\n") }),
        started("read_file", json!({"path": "a.log", "limit": 3}), Origin::Model),
        finished(Outcome { truncated: true, exit_code: Some(2), ..Outcome::failed("line 1") }),
        Event::Replied { step, reply: Reply { calls, ..Reply::default() } },
        asked,
        decided("c1", Decision::Reject { reason: "not that".into() }),
        finished(Outcome::new(Status::Rejected, "refused")),
        Event::ToolFinished { call: CallId::new("c2"), outcome: Outcome::new(Status::Rejected, "never") },
        decided("c3", Decision::Allow { command: None }),
        Event::Paused { reason: PauseReason::Loop, detail: None, active_ms: 0 },
        Event::Resumed,
        Event::TurnEnded { turn: TurnId(1), reason: StopReason::EndTurn, error: None, active_ms: 0 },
        turn(2, ""),
        started("bash", json!({"command": "uptime"}), Origin::User),
        finished(Outcome::new(Status::Timeout, "")),
        Event::configured(ConfigChange::Approve(ApprovalMode::Auto)),
        Event::TurnEnded {
            turn: TurnId(2),
            reason: StopReason::Failed,
            error: Some("uptime took too long".into()),
            active_ms: 0,
        },
    ];
    keep(&store, "0198-day", 90 * 24 * HOUR_MS, events).await;
    store
}

#[tokio::test]
async fn a_session_is_shown_as_a_transcript() {
    let mut out = Vec::new();
    show(&a_day().await, "0198", &view(None), &mut out).await.unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), PLAIN);
}

#[tokio::test]
async fn hosts_and_typing_users_are_shown() {
    let host = |host: &str, code: i32, group| HostOutcome {
        host: host.into(),
        status: if code == 0 { Status::Ok } else { Status::Failed },
        exit_code: Some(code),
        duration_ms: 40,
        group,
        unreachable: None,
    };
    let hosts = vec![host("web1", 0, 2), host("db1", 3, 1), host("web2", 0, 2)];
    let events = vec![
        opened("web1, web2, db1", "/srv"),
        turn(1, "is it up?"),
        started("bash", json!({ "command": "systemctl is-active app" }), Origin::Model),
        Event::TerminalInput {
            by: "web".into(),
            typed: TypedInput::Secret { prompt: "[sudo] password: ".into() },
        },
        Event::TerminalInput { by: "chat".into(), typed: TypedInput::Keys { text: "ls Enter".into() } },
        finished(Outcome { hosts, ..Outcome::failed("db1:\ninactive\n") }),
    ];
    let store = MemoryStore::new();
    keep(&store, "0198-aaaa-1111", 0, events).await;
    let mut out = Vec::new();
    show(&store, "0198", &view(None), &mut out).await.unwrap();
    expect![[r#"
        session 0198-aaaa-1111
        1970-01-01 00:00 on web1, web2, db1, /srv

        > is it up?

        $ systemctl is-active app
        [web answered `[sudo] password:`: [password entered]]
        [You typed into the terminal: ls Enter]
        [db1: exit 3, 40 ms]
        [2 hosts (web1, web2): exit 0, 40 ms]
          db1:
          inactive
          [failed]
    "#]]
    .assert_eq(&String::from_utf8(out).unwrap());
}

#[tokio::test]
async fn prompts_name_their_senders_if_several_people_took_part() {
    let from = |number: u32, by: &str| Event::TurnStarted {
        turn: TurnId(number),
        prompt: format!("prompt {number}"),
        origin: Origin::Model,
        images: Vec::new(),
        by: Some(by.to_owned()),
    };
    let allowed = || Event::Decided {
        call: CallId::new("c1"),
        decision: Decision::Allow { command: None },
        by: "ada".to_owned(),
    };
    let store = MemoryStore::new();
    let alone = vec![opened("web1", "/srv"), from(1, "ada"), allowed(), from(2, "ada")];
    keep(&store, "0198-one", 0, alone).await;
    let both = vec![opened("web1", "/srv"), from(1, "ada"), allowed(), from(2, "b\u{1b}[31mob")];
    keep(&store, "0199-two", 0, both).await;
    let texts = async |id: &str| {
        let (mut shown, mut exported) = (Vec::new(), Vec::new());
        show(&store, id, &view(None), &mut shown).await.unwrap();
        export(&store, id, ExportFormat::Markdown, &view(None), &mut exported).await.unwrap();
        (String::from_utf8(shown).unwrap(), String::from_utf8(exported).unwrap())
    };
    let (shown, exported) = texts("0198").await;
    assert!(shown.contains("\n\n> prompt 1\n\n> prompt 2\n"), "{shown}");
    assert_eq!(exported.matches("\n## You\n").count(), 2, "{exported}");
    let (shown, exported) = texts("0199").await;
    let bob = neutralize("b\u{1b}[31mob");
    let named = format!("\nada:\n> prompt 1\n[allowed by ada]\n\n{bob}:\n> prompt 2\n");
    assert!(shown.contains(&named), "{shown}");
    assert!(exported.contains("\n## ada\n\n> prompt 1\n") && !exported.contains("## You"), "{exported}");
    assert!(!exported.contains('\u{1b}'), "{exported:?}");
}

#[tokio::test]
async fn typed_commands_and_undos_name_who_asked_for_them() {
    let begins = |number: u32| Event::TurnStarted {
        turn: TurnId(number),
        prompt: String::new(),
        origin: Origin::User,
        images: Vec::new(),
        by: Some("b\u{1b}[31mob".to_owned()),
    };
    let undo = json!({"call": "direct_1", "records": [{"id": "db78", "rights": "own"}], "step": 1});
    let events = vec![
        opened("web1", "/srv"),
        begins(1),
        started("bash", json!({"command": "uptime"}), Origin::User),
        begins(2),
        started("undo", undo, Origin::User),
    ];
    let store = MemoryStore::new();
    keep(&store, "0198-one", 0, events).await;
    let (mut shown, mut exported) = (Vec::new(), Vec::new());
    show(&store, "0198", &view(None), &mut shown).await.unwrap();
    export(&store, "0198", ExportFormat::Markdown, &view(None), &mut exported).await.unwrap();
    let (shown, exported) = (String::from_utf8(shown).unwrap(), String::from_utf8(exported).unwrap());
    let by = format!("typed by {}", neutralize("b\u{1b}[31mob"));
    assert!(shown.contains(&format!("\n$ uptime\n  ({by})\n")), "{shown}");
    let undone = by.replacen("typed", "requested", 1);
    assert!(shown.contains(&format!("\n$ undo call 1\n  ({undone})\n")), "{shown}");
    for by in [by, undone] {
        assert!(exported.contains(&format!("\n*{}*\n", crate::markdown::escape(&by))), "{exported}");
    }
}

#[tokio::test]
async fn an_undo_canceled_before_an_answer_is_no_rejection() {
    let undo = json!({"call": "direct_1", "records": [{"id": "db78", "rights": "own"}], "step": 1});
    let asked = || Event::ApprovalAsked {
        call: ToolCall {
            id: CallId::new("c1"),
            wire_id: None,
            name: "undo".into(),
            arguments: Arguments::Object(undo.as_object().unwrap().clone()),
        },
        command: "undo call 1".into(),
        reason: String::new(),
        risk: Risk::default(),
        covers: Grant::Exact { command: "undo call 1".into() },
        preview: Vec::new(),
        guarded: None,
        scope: None,
        terms: Default::default(),
    };
    let rejected = |reason: &str, by: &str| Event::Decided {
        call: CallId::new("c1"),
        decision: Decision::Reject { reason: reason.into() },
        by: by.into(),
    };
    let begins = |number| Event::TurnStarted {
        turn: TurnId(number),
        prompt: String::new(),
        origin: Origin::User,
        images: Vec::new(),
        by: None,
    };
    let canceled = StopReason::Cancelled;
    let events = vec![
        opened("web1", "/srv"),
        begins(1),
        asked(),
        rejected("the turn was stopped", "sysop"),
        finished(Outcome::new(Status::Cancelled, "not run: the turn was stopped")),
        Event::TurnEnded { turn: TurnId(1), reason: canceled, error: None, active_ms: 0 },
        begins(2),
        asked(),
        rejected("not yet", "ada"),
        finished(Outcome::new(Status::Rejected, "not run")),
    ];
    let store = MemoryStore::new();
    keep(&store, "0198-one", 0, events).await;
    let mut shown = Vec::new();
    show(&store, "0198", &view(None), &mut shown).await.unwrap();
    expect![[r#"
        session 0198-one
        1970-01-01 00:00 on web1, /srv

        $ undo call 1
          (requested by a user)
        [canceled before an answer]

        $ undo call 1
        [rejected (not yet) by ada]
          not run
          [rejected]
    "#]]
    .assert_eq(&String::from_utf8(shown).unwrap());
}

#[tokio::test]
async fn markdown_export_keeps_output_inside_its_fence() {
    let mut out = Vec::new();
    export(&a_day().await, "0198", ExportFormat::Markdown, &view(None), &mut out).await.unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), MARKDOWN);
}

#[tokio::test]
async fn an_unfinished_call_is_shown_as_interrupted() {
    let call = || started("bash", json!({ "command": "sleep 60" }), Origin::Model);
    let store = MemoryStore::new();
    keep(&store, "0198killed", 1, vec![opened("local", "/w"), turn(1, "wait"), call()]).await;
    let ended = vec![opened("local", "/w"), turn(1, "wait"), call(), finished(Outcome::ok("done"))];
    keep(&store, "0199ended", 2, ended).await;
    for (id, is_told) in [("0198", true), ("0199", false)] {
        let (mut shown, mut exported) = (Vec::new(), Vec::new());
        show(&store, id, &view(None), &mut shown).await.unwrap();
        export(&store, id, ExportFormat::Markdown, &view(None), &mut exported).await.unwrap();
        for text in [shown, exported] {
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text.contains("interrupted when sysop exited"), is_told, "{text}");
        }
    }
}

#[tokio::test]
async fn an_export_is_the_log_as_json_lines() {
    let store = MemoryStore::new();
    let texts = (0..2500)
        .map(|n| Event::PromptQueued { text: format!("{n} \u{9b}31m\n"), images: Vec::new(), by: None })
        .collect();
    keep(&store, "long", 5, texts).await;
    let mut out = Vec::new();
    export(&store, "long", ExportFormat::Jsonl, &view(None), &mut out).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains('\u{9b}'), "a terminal would obey it");
    let read: Vec<Logged> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, store.load(&SessionId::new("long"), Seq(0), 5000).await.unwrap());
}

#[tokio::test]
async fn delete_names_the_deleted_session() {
    let store = three_sessions().await;
    let mut out = Vec::new();
    delete(&store, "0198-aaaa-1", async |id| store.delete(id).await, &mut out).await.unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "Deleted session 0198-aaaa-1111 (tidy up).\n");
    assert!(resolve_id(&store, "0198-aaaa-1").await.is_err());
    assert_eq!(store.list(10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn control_sequences_are_escaped() {
    let store = MemoryStore::new();
    let evil = "a\u{1b}[31mb";
    let events = vec![
        opened(evil, evil),
        turn(1, evil),
        said(evil),
        started("bash", json!({"command": evil}), Origin::Model),
        finished(Outcome::ok(evil)),
        Event::TurnEnded {
            turn: TurnId(1),
            reason: StopReason::Failed,
            error: Some(evil.into()),
            active_ms: 0,
        },
    ];
    keep(&store, "s", 0, events).await;
    let mut out = Vec::new();
    show(&store, "s", &view(None), &mut out).await.unwrap();
    export(&store, "s", ExportFormat::Markdown, &view(None), &mut out).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    let harmless = neutralize(evil);
    for place in
        [format!("> {harmless}"), format!("\n{harmless}\n"), format!("$ {harmless}"), format!("  {harmless}")]
    {
        assert!(text.contains(&place), "{place:?} is not in {text:?}");
    }
    // Notes, headings and table rows take one line each: their line feeds and escapes have no effect.
    let table = listed(&store, None).await;
    assert_eq!(table.lines().count(), 2);
    assert!(!table.contains('\u{1b}'), "{table:?}");
}

#[tokio::test]
async fn jobs_guards_and_compactions_are_notes() {
    let (job, call) = (JobId(3), CallId::new("c1"));
    let compaction = Compaction {
        tokens_before: 41_200,
        tokens_after: 2_100,
        ledger: "Goal: why is the disk full\n".to_owned(),
        summary: Some("Facts:\n- logs\n".to_owned()),
        ..Compaction::default()
    };
    let events = vec![
        opened("web1", "/srv"),
        Event::JobStarted { job, call: call.clone(), command: "make\nall".into(), host: "web1".into() },
        Event::JobFinished { job, status: Status::Ok, exit_code: Some(0), output: JobOutput::default() },
        Event::GuardArmed { call, host: "web1\u{1b}[2J".into(), seconds: 120 },
        Event::ContextCompacted { compaction },
    ];
    let store = MemoryStore::new();
    keep(&store, "0198-aaaa-1111", 0, events).await;
    let mut out = Vec::new();
    show(&store, "0198", &view(None), &mut out).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    for line in [
        "[job 3 started on web1: make all]",
        "[job 3 ended: ok, exit code 0]",
        "rolls back in 120 s unless confirmed]",
        "[context compacted: 41 k → 2100 tokens; details in the log]\n[Goal: why is the disk full]\n[Facts:]\n[- logs]",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text:?}");
}
