//! Requirements on every store. A store joins by naming an `async fn() -> Fixture` to `conformance!`.

use std::collections::HashSet;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use sysop_core::approval::ApprovalTerms;
use sysop_core::event::{Event, Logged, Origin};
use sysop_core::id::{CallId, Seq, SessionId, Timestamp};
use sysop_core::message::{Arguments, ToolCall};
use sysop_core::outcome::{FileChange, Outcome};
use sysop_core::policy::{Grant, Risk, RiskClass};
use sysop_driver::port::{Annotation, Store, StoreError};

use crate::events::{KINDS, any_event, id, kind, log, of_kind, opened, queued, turn};

/// An empty store, with the directory that it needs while it lives.
pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) folder: Option<tempfile::TempDir>,
}

macro_rules! conformance {
    ($fixture:ident) => {
        crate::suite::conformance!(@tests $fixture:
            each_kind_of_event_round_trips,
            a_log_is_read_from_any_position,
            pages_join_without_gap_or_overlap,
            gaps_are_refused,
            a_wrong_after_is_a_conflict,
            an_append_is_stored_completely_or_not_at_all,
            an_empty_append_only_compares,
            an_unknown_session_is_not_found,
            a_summary_follows_the_log,
            a_command_that_runs_without_a_model_is_a_title,
            a_proposed_command_is_a_title_only_without_a_model,
            a_title_is_safe_and_short,
            sessions_are_listed_by_change,
            delete_removes_log_and_summary,
            sessions_are_renamed_and_pinned,
            a_search_finds_words_of_one_event_in_any_case,
            kept_files_are_named_as_long_as_any_log_does,
            a_large_event_round_trips,
            many_sessions_at_once,
            many_writers_of_one_session,
            a_conflict_affects_no_other_append,
        );

        #[test]
        fn any_log_round_trips() {
            crate::suite::any_log_round_trips($fixture);
        }
    };
    (@tests $fixture:ident: $($name:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let fixture = $fixture().await;
                crate::suite::$name(Arc::clone(&fixture.store)).await;
                drop(fixture.folder);
            }
        )*
    };
}
pub(crate) use conformance;

async fn whole(store: &dyn Store, id: &SessionId) -> Vec<Logged> {
    store.load(id, Seq(0), usize::MAX).await.unwrap()
}

fn plain(events: &[Arc<Logged>]) -> Vec<Logged> {
    events.iter().map(|logged| Logged::clone(logged)).collect()
}

pub(crate) async fn each_kind_of_event_round_trips(store: Arc<dyn Store>) {
    let mut runner = TestRunner::deterministic();
    let events: Vec<Event> =
        (0..KINDS).map(|kind| of_kind(kind).new_tree(&mut runner).unwrap().current()).collect();
    assert_eq!(events.iter().map(kind).collect::<Vec<_>>(), (0..KINDS).collect::<Vec<_>>());

    let events = log(0, 1_790_000_000_000, events);
    assert_eq!(store.append(&id("all"), Seq(0), &events).await, Ok(Seq(KINDS as u64)));
    assert_eq!(whole(&*store, &id("all")).await, plain(&events));
}

pub(crate) fn any_log_round_trips<F: Future<Output = Fixture>>(fixture: impl Fn() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fixture = runtime.block_on(fixture());
    let count = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 150, failure_persistence: None, ..Config::default() });
    let logs = (vec(any_event(), 1..6), vec(any_event(), 1..6))
        .prop_map(|(first, second)| (log(0, 5, first.clone()), log(first.len() as u64, 50, second)));
    let outcome = runner.run(&(logs, proptest::prelude::any::<u32>()), |((first, second), name)| {
        count.set(count.get() + 1);
        let id = id(&format!("{}-{name}", count.get()));
        runtime.block_on(async {
            let store = &fixture.store;
            store
                .append(&id, Seq(0), &first)
                .await
                .map_err(|error| TestCaseError::fail(error.to_string()))?;
            store
                .append(&id, Seq(first.len() as u64), &second)
                .await
                .map_err(|error| TestCaseError::fail(error.to_string()))?;
            proptest::prop_assert_eq!(whole(&**store, &id).await, plain(&[first, second].concat()));
            Ok(())
        })
    });
    outcome.unwrap();
}

pub(crate) async fn a_log_is_read_from_any_position(store: Arc<dyn Store>) {
    let (first, second) = (queued(0, 3, "a"), queued(3, 2, "b"));
    assert_eq!(store.append(&id("s"), Seq(0), &first).await, Ok(Seq(3)));
    assert_eq!(store.append(&id("s"), Seq(3), &second).await, Ok(Seq(5)));
    assert_eq!(store.load(&id("s"), Seq(3), 10).await, Ok(plain(&second)));
    assert_eq!(store.load(&id("s"), Seq(5), 10).await, Ok(vec![]));
    assert_eq!(store.load(&id("s"), Seq(u64::MAX), 10).await, Ok(vec![]));
}

pub(crate) async fn pages_join_without_gap_or_overlap(store: Arc<dyn Store>) {
    let events = queued(0, 1100, "x");
    store.append(&id("s"), Seq(0), &events).await.unwrap();
    // Also around the size of a store's internal batches.
    for limit in [7, 31, 32, 33, 511, 512, 513, 1024, 1025, 1099, 1100, 1101] {
        let mut joined = Vec::new();
        loop {
            let page = store.load(&id("s"), Seq(joined.len() as u64), limit).await.unwrap();
            assert!(page.len() <= limit, "{} events where {limit} were wanted", page.len());
            if page.is_empty() {
                break;
            }
            joined.extend(page);
        }
        assert_eq!(joined, plain(&events), "limit {limit}");
    }
    assert_eq!(store.load(&id("s"), Seq(0), 0).await, Ok(vec![]));
}

pub(crate) async fn gaps_are_refused(store: Arc<dyn Store>) {
    store.append(&id("s"), Seq(0), &queued(0, 2, "a")).await.unwrap();
    let mut gap = queued(2, 3, "b");
    gap.remove(1);
    let mut twice = queued(2, 2, "b");
    twice[1] = Arc::clone(&twice[0]);
    let early = queued(1, 2, "b");
    let late = queued(3, 2, "b");
    for (name, wrong) in [("gap", gap), ("twice", twice), ("early", early), ("late", late)] {
        let refused = store.append(&id("s"), Seq(2), &wrong).await.unwrap_err();
        assert!(matches!(refused, StoreError::Corrupt(_)), "{name}: {refused}");
    }
    assert_eq!(whole(&*store, &id("s")).await, plain(&queued(0, 2, "a")));
}

pub(crate) async fn a_wrong_after_is_a_conflict(store: Arc<dyn Store>) {
    let conflict = |expected, found| {
        Err(StoreError::Conflict { id: id("s"), expected: Seq(expected), found: Seq(found) })
    };
    assert_eq!(store.append(&id("s"), Seq(4), &queued(4, 1, "a")).await, conflict(4, 0));
    store.append(&id("s"), Seq(0), &queued(0, 2, "a")).await.unwrap();
    assert_eq!(store.append(&id("s"), Seq(0), &queued(0, 2, "b")).await, conflict(0, 2));
    assert_eq!(store.append(&id("s"), Seq(1), &queued(1, 2, "b")).await, conflict(1, 2));
    assert_eq!(store.append(&id("s"), Seq(3), &queued(3, 2, "b")).await, conflict(3, 2));
    assert_eq!(whole(&*store, &id("s")).await, plain(&queued(0, 2, "a")));
}

pub(crate) async fn an_append_is_stored_completely_or_not_at_all(store: Arc<dyn Store>) {
    store.append(&id("s"), Seq(0), &queued(0, 1, "a")).await.unwrap();
    let before = store.list(10).await.unwrap();
    let mut wrong_at_its_end = queued(1, 50, "b");
    wrong_at_its_end.extend(queued(90, 1, "b"));
    store.append(&id("s"), Seq(1), &wrong_at_its_end).await.unwrap_err();
    assert_eq!(whole(&*store, &id("s")).await.len(), 1);
    assert_eq!(store.list(10).await.unwrap(), before);
    assert_eq!(store.append(&id("s"), Seq(1), &queued(1, 50, "c")).await, Ok(Seq(51)));
    assert_eq!(whole(&*store, &id("s")).await[1..], plain(&queued(1, 50, "c")));
}

pub(crate) async fn an_empty_append_only_compares(store: Arc<dyn Store>) {
    assert_eq!(store.append(&id("s"), Seq(0), &[]).await, Ok(Seq(0)));
    assert_eq!(store.list(10).await, Ok(vec![]));
    store.append(&id("s"), Seq(0), &queued(0, 2, "a")).await.unwrap();
    assert_eq!(store.append(&id("s"), Seq(2), &[]).await, Ok(Seq(2)));
    let conflict = StoreError::Conflict { id: id("s"), expected: Seq(1), found: Seq(2) };
    assert_eq!(store.append(&id("s"), Seq(1), &[]).await, Err(conflict));
}

pub(crate) async fn an_unknown_session_is_not_found(store: Arc<dyn Store>) {
    assert_eq!(store.load(&id("s"), Seq(0), 10).await, Err(StoreError::NotFound(id("s"))));
    assert_eq!(store.delete(&id("s")).await, Err(StoreError::NotFound(id("s"))));
}

pub(crate) async fn a_summary_follows_the_log(store: Arc<dyn Store>) {
    store.append(&id("s"), Seq(0), &log(0, 700, [opened("web-1", "/srv/app")])).await.unwrap();
    let summary = store.list(10).await.unwrap().remove(0);
    assert_eq!(summary.id, id("s"));
    assert_eq!(
        (summary.created, summary.changed, summary.last_seq),
        (Timestamp(700), Timestamp(700), Seq(1))
    );
    assert_eq!(
        (summary.host.as_str(), summary.root.as_str(), summary.title.as_str()),
        ("web-1", "/srv/app", "")
    );

    // A turn without a prompt gives no title by itself.
    store.append(&id("s"), Seq(1), &log(1, 800, [turn(1, "")])).await.unwrap();
    store
        .append(&id("s"), Seq(2), &log(2, 900, [turn(2, "why is it slow?"), turn(3, "and now?")]))
        .await
        .unwrap();
    store.append(&id("s"), Seq(4), &log(4, 950, [turn(4, "again")])).await.unwrap();
    let summary = store.list(10).await.unwrap().remove(0);
    assert_eq!(
        (summary.created, summary.changed, summary.last_seq),
        (Timestamp(700), Timestamp(950), Seq(5))
    );
    assert_eq!((summary.host.as_str(), summary.title.as_str()), ("web-1", "why is it slow?"));
}

pub(crate) async fn a_command_that_runs_without_a_model_is_a_title(store: Arc<dyn Store>) {
    let started = |command: &str, origin| Event::ToolStarted { call: bash(command), origin };
    // A prompt of an image alone is empty. The model's call does not name the session.
    let events = log(0, 1, [opened("local", "/"), turn(1, ""), started("df -h", Origin::Model)]);
    store.append(&id("s"), Seq(0), &events).await.unwrap();
    assert_eq!(store.list(1).await.unwrap()[0].title, "");
    let typed = log(3, 1, [turn(2, ""), started("mysql -phunter22\n-e x", Origin::User)]);
    store.append(&id("s"), Seq(3), &typed).await.unwrap();
    let later = log(5, 1, [turn(3, ""), started("uptime", Origin::User), turn(4, "why?")]);
    store.append(&id("s"), Seq(5), &later).await.unwrap();
    assert_eq!(store.list(1).await.unwrap()[0].title, "mysql -p[redacted] -e x");
}

pub(crate) async fn a_proposed_command_is_a_title_only_without_a_model(store: Arc<dyn Store>) {
    for (name, origin, title) in [("model", Origin::Model, ""), ("routine", Origin::Routine, "touch x")] {
        let mut begin = turn(1, "");
        if let Event::TurnStarted { origin: of, .. } = &mut begin {
            *of = origin;
        }
        let events = log(0, 1, [opened("local", "/"), begin, proposed("touch x")]);
        store.append(&id(name), Seq(0), &events).await.unwrap();
        let sessions = store.list(10).await.unwrap();
        let session = sessions.iter().find(|summary| summary.id == id(name)).unwrap();
        assert_eq!(session.title, title, "{name}");
    }
}

fn bash(command: &str) -> ToolCall {
    ToolCall {
        id: CallId::new("direct_1"),
        name: "bash".to_owned(),
        wire_id: None,
        arguments: Arguments::Object([("command".to_owned(), command.into())].into_iter().collect()),
    }
}

fn proposed(command: &str) -> Event {
    Event::ApprovalAsked {
        call: bash(command),
        command: command.to_owned(),
        reason: String::new(),
        risk: Risk { class: RiskClass::Changes, findings: Vec::new() },
        covers: Grant::Exact { command: command.to_owned() },
        preview: Vec::new(),
        guarded: None,
        scope: None,
        terms: ApprovalTerms::default(),
    }
}

pub(crate) async fn a_title_is_safe_and_short(store: Arc<dyn Store>) {
    let prompt = format!("restart\n\tnginx {}", "and tell me what it said ".repeat(40_000));
    store.append(&id("s"), Seq(0), &log(0, 1, [opened("local", "/"), turn(1, &prompt)])).await.unwrap();
    let title = store.list(1).await.unwrap().remove(0).title;
    assert!(title.starts_with("restart nginx and tell me"), "{title}");
    assert!(title.chars().count() <= 80, "{title}");
}

pub(crate) async fn sessions_are_listed_by_change(store: Arc<dyn Store>) {
    let event = || Event::Resumed;
    store.append(&id("old"), Seq(0), &log(0, 100, [event()])).await.unwrap();
    store.append(&id("new"), Seq(0), &log(0, 300, [event()])).await.unwrap();
    store.append(&id("same-a"), Seq(0), &log(0, 200, [event()])).await.unwrap();
    store.append(&id("same-b"), Seq(0), &log(0, 200, [event()])).await.unwrap();
    let names = async |limit| {
        let listed = store.list(limit).await.unwrap();
        listed.into_iter().map(|summary| summary.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(10).await, ["new", "same-b", "same-a", "old"]);
    store.append(&id("old"), Seq(1), &log(1, 400, [event()])).await.unwrap();
    assert_eq!(names(10).await, ["old", "new", "same-b", "same-a"]);
    assert_eq!(names(2).await, ["old", "new"]);
    assert_eq!(names(0).await, [""; 0]);
}

pub(crate) async fn delete_removes_log_and_summary(store: Arc<dyn Store>) {
    store.append(&id("s"), Seq(0), &queued(0, 40, "a")).await.unwrap();
    store.append(&id("other"), Seq(0), &queued(0, 3, "o")).await.unwrap();
    assert_eq!(store.delete(&id("s")).await, Ok(()));
    assert_eq!(store.load(&id("s"), Seq(0), 10).await, Err(StoreError::NotFound(id("s"))));
    assert_eq!(store.list(10).await.unwrap().len(), 1);
    let conflict = StoreError::Conflict { id: id("s"), expected: Seq(40), found: Seq(0) };
    assert_eq!(store.append(&id("s"), Seq(40), &queued(40, 1, "a")).await, Err(conflict));
    assert_eq!(store.append(&id("s"), Seq(0), &queued(0, 1, "b")).await, Ok(Seq(1)));
    assert_eq!(whole(&*store, &id("s")).await, plain(&queued(0, 1, "b")));
    assert_eq!(whole(&*store, &id("other")).await.len(), 3);
}

pub(crate) async fn sessions_are_renamed_and_pinned(store: Arc<dyn Store>) {
    store
        .append(&id("s"), Seq(0), &log(0, 100, [opened("local", "/"), turn(1, "first words")]))
        .await
        .unwrap();
    store.append(&id("other"), Seq(0), &log(0, 200, [turn(1, "other words")])).await.unwrap();
    let change = async |title: Option<&str>, pinned| {
        let annotation = Annotation { title: title.map(str::to_owned), pinned };
        store.annotate(&id("s"), &annotation).await.unwrap();
        let listed = store.list(10).await.unwrap();
        assert_eq!((listed[0].title.as_str(), listed[0].pinned), ("other words", false));
        assert_eq!((listed[1].changed, listed[1].last_seq), (Timestamp(101), Seq(2)));
        (listed[1].title.clone(), listed[1].pinned)
    };
    assert_eq!(change(None, Some(true)).await, ("first words".to_owned(), true));
    assert_eq!(change(Some("a name"), None).await, ("a name".to_owned(), true));
    assert_eq!(change(None, Some(false)).await, ("a name".to_owned(), false));
    store.append(&id("s"), Seq(2), &log(2, 300, [turn(2, "later words")])).await.unwrap();
    assert_eq!(store.list(1).await.unwrap()[0].title, "a name", "a later prompt does not replace it");
    let nobody = store.annotate(&id("nobody"), &Annotation::default()).await;
    assert_eq!(nobody, Err(StoreError::NotFound(id("nobody"))));
}

pub(crate) async fn a_search_finds_words_of_one_event_in_any_case(store: Arc<dyn Store>) {
    let output = |text: &str| Event::ToolFinished { call: CallId::new("c"), outcome: Outcome::ok(text) };
    let quoted = "Over 100% of \"C:\\Temp\" and\nÄrger_1 with journald!";
    store.append(&id("old"), Seq(0), &log(0, 100, [turn(1, "one"), output(quoted)])).await.unwrap();
    store.append(&id("new"), Seq(0), &log(0, 200, [turn(1, "Journald"), turn(2, "ärgerx1")])).await.unwrap();
    let found = async |words: &[&str], limit| {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let hits = store.search(&words, limit).await.unwrap();
        hits.into_iter().map(|hit| hit.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(&["journald"], 10).await, ["new", "old"]);
    assert_eq!(found(&["journald"], 1).await, ["new"]);
    assert_eq!(found(&["journald!"], 10).await, ["old"]);
    assert_eq!(found(&["ärger_1", "journald"], 10).await, ["old"], "a wildcard is a character");
    assert_eq!(found(&["100%", "\"c:\\temp\""], 10).await, ["old"]);
    assert_eq!(found(&["one", "journald"], 10).await, [""; 0], "words of two events");
    assert_eq!(found(&["tool_finished"], 10).await, [""; 0], "the form of the log is not searched");
    assert_eq!(found(&[], 10).await, [""; 0]);
    let hits = store.search(&["with".to_owned()], 10).await.unwrap();
    assert!(hits[0].excerpt.contains("Ärger_1 with journald!"), "{hits:?}");
}

pub(crate) async fn kept_files_are_named_as_long_as_any_log_does(store: Arc<dyn Store>) {
    let [output, before, gone] =
        ["output-0000000000000001.txt", "preimages/aa", "output-0000000000000002.txt"];
    let change = FileChange { path: "f".into(), before: Some(before.into()), after_hash: "bb".into() };
    let outcome =
        Outcome { artifact: Some(output.into()), changes: vec![change], ..Outcome::ok("said \"x\"") };
    let finished = Event::ToolFinished { call: CallId::new("c"), outcome };
    let files = [output, before, gone].map(str::to_owned).into();
    let [one, fork] = [id("one"), id("fork")];
    // File names in a user's text are not references.
    let said = turn(1, &format!("{gone} \"artefact\":\"{gone}\""));
    for id in [&one, &fork] {
        store
            .append(id, Seq(0), &log(0, 0, [opened("local", "/"), said.clone(), finished.clone()]))
            .await
            .unwrap();
    }
    let both = HashSet::from([output, before].map(str::to_owned));
    assert_eq!(store.referenced_files(&files).await.unwrap(), both);
    store.delete(&one).await.unwrap();
    assert_eq!(store.referenced_files(&files).await.unwrap(), both, "the other one still needs them");
    store.delete(&fork).await.unwrap();
    assert_eq!(store.referenced_files(&files).await.unwrap(), HashSet::new());
}

pub(crate) async fn a_large_event_round_trips(store: Arc<dyn Store>) {
    let big =
        |letter: &str| Event::PromptQueued { text: letter.repeat(1 << 20), images: Vec::new(), by: None };
    let events = log(0, 1, [big("a"), big("\n"), big("ü")]);
    store.append(&id("s"), Seq(0), &events).await.unwrap();
    assert_eq!(whole(&*store, &id("s")).await, plain(&events));
}

pub(crate) async fn many_sessions_at_once(store: Arc<dyn Store>) {
    let append_twenty = async |store: Arc<dyn Store>, id: SessionId| {
        for seq in 0..20 {
            store.append(&id, Seq(seq), &queued(seq, 1, id.as_str())).await.unwrap();
        }
        id
    };
    let tasks: Vec<_> = (0..24)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(append_twenty(store, id(&format!("session-{n}"))))
        })
        .collect();
    for task in tasks {
        let id = task.await.unwrap();
        let expected: Vec<_> = (0..20).flat_map(|seq| plain(&queued(seq, 1, id.as_str()))).collect();
        assert_eq!(whole(&*store, &id).await, expected);
    }
    assert_eq!(store.list(100).await.unwrap().len(), 24);
}

/// Appends one marked event at a time until the log has `end`; after each conflict continues from the actual end.
pub(crate) async fn race(store: Arc<dyn Store>, mark: String, end: u64) -> Vec<(Seq, String)> {
    let mut won = Vec::new();
    let mut last = Seq(0);
    while last.0 < end {
        match store.append(&id("raced"), last, &queued(last.0, 1, &mark)).await {
            Ok(seq) => {
                won.push((seq, format!("{mark} 0")));
                last = seq;
            }
            Err(StoreError::Conflict { found, .. }) => {
                assert!(found > last, "a conflict must tell of something newer than {last}");
                last = found;
            }
            Err(other) => panic!("{other}"),
        }
    }
    won
}

/// Checks that the log contains exactly the events whose appends succeeded.
pub(crate) async fn check_race(store: &dyn Store, mut won: Vec<(Seq, String)>) {
    won.sort();
    let log = whole(store, &id("raced")).await;
    let stored: Vec<_> = log
        .into_iter()
        .map(|logged| {
            let Event::PromptQueued { text, .. } = logged.event else { panic!("nobody appended {logged:?}") };
            (logged.seq, text)
        })
        .collect();
    assert_eq!(stored, won);
}

pub(crate) async fn many_writers_of_one_session(store: Arc<dyn Store>) {
    let racers: Vec<_> =
        (0..8).map(|n| tokio::spawn(race(Arc::clone(&store), format!("racer {n}"), 60))).collect();
    let mut won = Vec::new();
    for racer in racers {
        won.extend(racer.await.unwrap());
    }
    check_race(&*store, won).await;
}

pub(crate) async fn a_conflict_affects_no_other_append(store: Arc<dyn Store>) {
    let append = |n: u64| {
        let store = Arc::clone(&store);
        // Every second append expects a log that does not exist.
        let after = (n % 2) * 7;
        tokio::spawn(async move {
            store.append(&id(&format!("session-{n}")), Seq(after), &queued(after, 2, "x")).await
        })
    };
    let tasks: Vec<_> = (0..40).map(append).collect();
    for (n, task) in tasks.into_iter().enumerate() {
        let id = id(&format!("session-{n}"));
        let expected = if n % 2 == 0 {
            Ok(Seq(2))
        } else {
            Err(StoreError::Conflict { id, expected: Seq(7), found: Seq(0) })
        };
        assert_eq!(task.await.unwrap(), expected);
    }
    assert_eq!(store.list(100).await.unwrap().len(), 20);
}
