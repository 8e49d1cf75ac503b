//! Tests of the whole audit: real files, a real driver, and disks that fail.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use sysop_core::event::{Decision, Event, Input, Origin, Update};
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_core::message::{Arguments, ModelRef, ModelRequest, Reply, ToolCall};
use sysop_core::outcome::Outcome;
use sysop_core::policy::{ApprovalMode, CommandContext, Survey};
use sysop_core::spec::SessionSpec;
use sysop_core::tool::{ToolEffect, ToolSpec};
use sysop_driver::port::{CancellationToken, DeltaSink, Host, ModelEvent, Provider, Store};
use sysop_driver::{Driver, Handle, Ports, Runtime, Updates, system_clock};
use sysop_store::MemoryStore;
use tempfile::TempDir;

use super::entry::{AuditEntry, Kind};
use super::file::AuditFile;
use super::{
    Actor, Audit, AuditFailurePolicy, AuditedStore, ChainError, CommandRedactor, FILE, each_line, files,
    verify,
};

fn entry(what: &str) -> AuditEntry {
    AuditEntry { what: Some(what.to_owned()), ..AuditEntry::new(Kind::Started, Timestamp(0)) }
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit").join(FILE);
    (folder, path)
}

fn read(path: &Path) -> Vec<AuditEntry> {
    let mut entries = Vec::new();
    each_line(&files(path).unwrap(), |entry| entries.push(entry.unwrap())).unwrap();
    entries
}

fn whats(path: &Path) -> Vec<String> {
    read(path).into_iter().filter_map(|entry| entry.what).collect()
}

#[test]
fn lines_are_chained_across_restarts_and_files() {
    let (_folder, path) = place();
    for round in 0..6 {
        let mut file = AuditFile::with_most(path.clone(), 1000);
        for line in 0..4 {
            file.append([entry(&format!("{round}.{line}"))].iter()).unwrap();
        }
    }
    let files = files(&path).unwrap();
    assert!(files.len() > 2, "{files:?}");
    let checked = verify(&files).unwrap();
    assert_eq!(checked.lines, 24 + files.len() as u64, "each file begins with a line about its start");
    let expected: Vec<_> =
        (0..6).flat_map(|round| (0..4).map(move |line| format!("{round}.{line}"))).collect();
    assert_eq!(whats(&path), expected);
    for file in &files {
        verify(std::slice::from_ref(file)).unwrap();
    }
    let without_one: Vec<_> =
        files.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, file)| file.clone()).collect();
    assert!(verify(&without_one).is_err(), "a missing file is detected");
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_audit_log() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = place();
    AuditFile::new(path.clone()).append(std::iter::empty()).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
}

#[test]
fn the_first_altered_line_is_named() {
    let (_folder, path) = place();
    let lines: Vec<_> = (0..5).map(|line| entry(&format!("line {line}"))).collect();
    AuditFile::new(path.clone()).append(lines.iter()).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    let all: Vec<_> = good.lines().collect();
    let broken_at = |lines: &[&str]| {
        std::fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        match verify(&files(&path).unwrap()) {
            Ok(_) => 0,
            Err(ChainError::BadLine { line, .. }) => line,
            Err(ChainError::Unreadable { error, .. }) => panic!("{error}"),
        }
    };
    assert_eq!(broken_at(&all), 0);
    let changed = all[3].replace("line 2", "line 7");
    assert_eq!(broken_at(&[all[0], all[1], all[2], &changed, all[4], all[5]]), 4, "changed");
    assert_eq!(broken_at(&[all[0], all[1], all[3], all[4], all[5]]), 3, "left out");
    assert_eq!(broken_at(&[all[0], all[2], all[1], all[3], all[4], all[5]]), 2, "moved");
    assert_eq!(broken_at(&[all[0], all[1], all[1], all[2]]), 3, "doubled");
    assert_eq!(broken_at(&[all[1], all[2]]), 1, "the beginning was cut off");
    assert_eq!(broken_at(&[all[0], all[1], "{}", all[2]]), 3, "a line was inserted");
    assert_eq!(broken_at(&[all[0], all[1], "", all[2]]), 3);
    let again = all[3].replace("\"n\":4", "\"n\":4 ");
    assert_eq!(broken_at(&[all[0], all[1], all[2], &again]), 4, "every byte counts");
    std::fs::write(&path, good.trim_end()).unwrap();
    assert!(verify(&files(&path).unwrap()).unwrap_err().to_string().contains(":6:"), "unfinished");
}

#[test]
fn a_partial_line_after_a_crash_is_removed_and_reported() {
    let (_folder, path) = place();
    AuditFile::new(path.clone()).append([entry("whole")].iter()).unwrap();
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"n\":3,\"at\":\"20").unwrap();
    assert!(verify(&files(&path).unwrap()).is_err());
    AuditFile::new(path.clone()).append([entry("next")].iter()).unwrap();
    verify(&files(&path).unwrap()).unwrap();
    assert_eq!(whats(&path), ["whole", "15 bytes of an incomplete line", "next"]);

    std::fs::write(&path, "{\"n\":1").unwrap();
    AuditFile::new(path.clone()).append([entry("first")].iter()).unwrap();
    assert_eq!(verify(&files(&path).unwrap()).unwrap().lines, 2, "not even the first line is complete");
}

#[test]
fn no_line_is_appended_to_a_damaged_chain() {
    let (_folder, path) = place();
    AuditFile::new(path.clone()).append([entry("whole")].iter()).unwrap();
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"something else\n").unwrap();
    let error = AuditFile::new(path.clone()).append([entry("next")].iter()).unwrap_err();
    assert!(error.to_string().contains("audit verify"), "{error}");
    assert!(
        std::fs::read_to_string(&path).unwrap().ends_with("something else\n"),
        "the damaged file is left unchanged"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_share_one_chain() {
    let (_folder, path) = place();
    let writers: Vec<_> = (0..3).map(|_| Arc::new(Audit::in_folder(path.parent().unwrap()))).collect();
    let written = (0..150).map(|line| {
        let writer = Arc::clone(&writers[line % 3]);
        tokio::spawn(async move { writer.write(vec![entry(&line.to_string())]).await })
    });
    for done in futures::future::join_all(written).await {
        done.unwrap().unwrap();
    }
    assert_eq!(verify(&files(&path).unwrap()).unwrap().lines, 151);
    let mut all: Vec<usize> = whats(&path).iter().map(|what| what.parse().unwrap()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..150).collect::<Vec<_>>());
}

/// A model that calls one command and then finishes.
struct Wants(&'static str);

impl Provider for Wants {
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        let mut reply = Reply { text: "done".to_owned(), ..Reply::default() };
        if request.messages.len() == 1 {
            let arguments = Arguments::parse(&serde_json::json!({ "command": self.0 }).to_string());
            let call = ToolCall {
                id: sysop_core::id::CallId::new("c1"),
                wire_id: None,
                name: "bash".to_owned(),
                arguments,
            };
            reply.calls.push(call);
        }
        stream::once(async { ModelEvent::Done(Box::new(reply)) }).boxed()
    }
}

/// A host that counts the calls it ran.
struct Machine {
    tools: Vec<ToolSpec>,
    ran: std::sync::atomic::AtomicUsize,
}

#[async_trait]
impl Host for Machine {
    fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    async fn survey(&self, _: &ToolCall) -> Survey {
        Survey::elsewhere(CommandContext::bash())
    }

    async fn run(&self, _: ToolCall, _: DeltaSink, _: CancellationToken) -> Outcome {
        self.ran.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Outcome { exit_code: Some(0), ..Outcome::ok("the secret content of a file") }
    }
}

struct World {
    _folder: TempDir,
    path: PathBuf,
    store: Arc<AuditedStore>,
    machine: Arc<Machine>,
    provider: Arc<Wants>,
    driver: Driver,
}

impl World {
    fn new(command: &'static str, failure_policy: AuditFailurePolicy) -> Self {
        let (folder, path) = place();
        let audit = Arc::new(Audit::in_folder(path.parent().unwrap()));
        let store = Arc::new(AuditedStore::new(
            Arc::new(MemoryStore::new()),
            system_clock(),
            audit,
            CommandRedactor::new(&["a-known-key".into()]),
            failure_policy,
        ));
        let bash = ToolSpec {
            name: "bash".to_owned(),
            description: "".into(),
            parameters: serde_json::json!({ "type": "object" }).into(),
            effect: ToolEffect::Command,
        };
        let machine = Arc::new(Machine { tools: vec![bash], ran: Default::default() });
        let ports = Ports { store: Arc::clone(&store) as Arc<dyn Store>, clock: system_clock() };
        let provider = Arc::new(Wants(command));
        Self { _folder: folder, path, store, machine, provider, driver: Driver::new(ports) }
    }

    async fn open(&self, approve: ApprovalMode) -> (Handle, Updates) {
        let spec = SessionSpec {
            model: ModelRef::new("test", "test"),
            system: String::new(),
            tools: self.machine.tools.clone(),
            approve,
            dangerous_patterns: Vec::new(),
            deny: Vec::new(),
            policy: Default::default(),
            max_iterations: 5,
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
            host: "local".to_owned(),
            root: "/srv".to_owned(),
            profile: "full".to_owned(),
        };
        let runtime = Runtime {
            host: Arc::clone(&self.machine) as _,
            provider: Arc::clone(&self.provider) as _,
            instructions: None,
            hooks: None,
        };
        let id = SessionId::new("s1");
        let again = runtime.clone();
        self.driver.create(id.clone(), spec, Arc::new(move || again.clone())).await.unwrap();
        let handle = self.driver.resume(&id, runtime).await.unwrap();
        self.store.attribute_to(
            handle.id(),
            Actor { name: "laptop".to_owned(), trace: Some("00-ab-cd-01".to_owned()) },
            false,
        );
        let updates = handle.subscribe(Seq(0));
        (handle, updates)
    }

    fn ran(&self) -> usize {
        self.machine.ran.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Audit lines, reduced to the fields that are the same in every run.
    fn lines(&self) -> Vec<String> {
        let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let entries = read(&self.path).into_iter().filter(|entry| entry.kind != Kind::Opened);
        let lines = entries.map(|entry| {
            format!(
                "{:?} {} {} {} {} {}",
                entry.kind,
                shown(&entry.who),
                shown(&entry.wished),
                shown(&entry.place),
                shown(&entry.what),
                shown(&entry.outcome)
            )
        });
        lines.collect()
    }
}

async fn until(updates: &mut Updates, wanted: impl Fn(&Event) -> bool) -> bool {
    let waiting = async {
        loop {
            match updates.next().await {
                Some(Update::Logged(logged)) if wanted(&logged.event) => return true,
                Some(_) => {}
                None => return false,
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.unwrap()
}

fn prompt() -> Input {
    prompt_by("laptop")
}

fn prompt_by(name: &str) -> Input {
    Input::Prompt { text: "do it".to_owned(), images: Vec::new(), by: Some(name.to_owned()) }
}

#[tokio::test]
async fn approvals_and_calls_are_audited_without_secrets_and_contents() {
    let world = World::new("deploy --password hunter22 a-known-key", AuditFailurePolicy::Stop);
    let (handle, mut updates) = world.open(ApprovalMode::Ask).await;
    handle.send(prompt()).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::ApprovalAsked { .. })).await);
    let Some(call) = read_asked(&world).await else { unreachable!("the approval was requested") };
    let decision = Decision::Allow { command: None };
    handle.send(Input::Decision { call, decision, by: "phone".to_owned(), person: None }).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::TurnEnded { .. })).await);
    let what = "deploy --password [redacted] [redacted]";
    assert_eq!(
        world.lines(),
        [
            format!("Decided phone laptop local:/srv {what} allow"),
            format!("Started phone laptop local:/srv {what} -"),
            format!("Finished - laptop local:/srv {what} ok"),
        ]
    );
    let text = std::fs::read_to_string(&world.path).unwrap();
    for secret in ["hunter22", "a-known-key", "the secret content"] {
        assert!(!text.contains(secret), "{secret}");
    }
    assert!(text.contains("00-ab-cd-01") && text.contains(r#""exit_code":0"#));
    verify(&files(&world.path).unwrap()).unwrap();
}

async fn read_asked(world: &World) -> Option<sysop_core::id::CallId> {
    let log = world.store.load(&SessionId::new("s1"), Seq(0), 100).await.unwrap();
    log.into_iter().find_map(|logged| {
        let Event::ApprovalAsked { call, .. } = logged.event else { return None };
        Some(call.id)
    })
}

#[tokio::test]
async fn a_line_names_the_caller_who_asked_for_its_turn() {
    let world = World::new("touch x", AuditFailurePolicy::Stop);
    let (handle, mut updates) = world.open(ApprovalMode::Ask).await;
    let asks_now = |name: &str, is_retry| {
        world.store.attribute_to(handle.id(), Actor { name: name.to_owned(), trace: None }, is_retry)
    };
    handle.send(prompt()).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::ApprovalAsked { .. })).await);
    asks_now("phone", false);
    handle.send(prompt_by("phone")).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::PromptQueued { .. })).await);
    let call = read_asked(&world).await.unwrap();
    let decision = Decision::Allow { command: None };
    handle.send(Input::Decision { call, decision, by: "boss".to_owned(), person: None }).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::TurnEnded { .. })).await);
    assert!(until(&mut updates, |event| matches!(event, Event::TurnEnded { .. })).await, "of the queued one");
    handle.send(typed_by(Some("phone"))).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::TurnEnded { .. })).await);
    asks_now("boss", true);
    handle.send(Input::Retry).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::ApprovalAsked { .. })).await);
    handle.send(Input::Cancel).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::TurnEnded { .. })).await);
    handle.send(typed_by(None)).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::ToolFinished { .. })).await);
    assert_eq!(
        world.lines(),
        [
            "Decided boss laptop local:/srv touch x allow",
            "Started boss laptop local:/srv touch x -",
            "Finished - laptop local:/srv touch x ok",
            "Started phone phone local:/srv touch y -",
            "Finished - phone local:/srv touch y ok",
            "Decided sysop boss local:/srv touch x reject",
            "Finished - boss local:/srv touch x cancelled",
            "Started - - local:/srv touch y -",
            "Finished - - local:/srv touch y ok",
        ]
    );
}

fn typed_by(name: Option<&str>) -> Input {
    let arguments = serde_json::json!({ "command": "touch y" }).as_object().cloned().unwrap();
    let by = name.map(str::to_owned);
    Input::Direct { tool: "bash".to_owned(), arguments, origin: Origin::User, by }
}

#[tokio::test]
async fn policy_decisions_are_audited() {
    let world = World::new("touch x", AuditFailurePolicy::Stop);
    let (handle, mut updates) = world.open(ApprovalMode::Auto).await;
    handle.send(prompt()).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::TurnEnded { .. })).await);
    assert_eq!(
        world.lines(),
        ["Started policy laptop local:/srv touch x -", "Finished - laptop local:/srv touch x ok"]
    );
    let world = World::new("touch x", AuditFailurePolicy::Stop);
    let (handle, mut updates) = world.open(ApprovalMode::Never).await;
    handle.send(prompt()).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::TurnEnded { .. })).await);
    assert_eq!(world.lines(), ["Finished - laptop local:/srv touch x rejected"]);
    let arguments = serde_json::json!({ "command": "touch y" }).as_object().cloned().unwrap();
    let typed = Input::Direct {
        tool: "bash".to_owned(),
        arguments,
        origin: Origin::User,
        by: Some("laptop".to_owned()),
    };
    handle.send(typed).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::TurnEnded { .. })).await);
    let denied = "Finished - laptop local:/srv touch y rejected";
    assert_eq!(world.lines().last().map(String::as_str), Some(denied));
    assert_eq!((world.lines().len(), world.ran()), (2, 0), "a denied call does not start");
}

#[tokio::test]
async fn a_call_that_cannot_be_audited_does_not_run() {
    let world = World::new("touch x", AuditFailurePolicy::Stop);
    let (handle, mut updates) = world.open(ApprovalMode::Auto).await;
    // A directory in place of the audit file: writing fails, even as root.
    std::fs::create_dir_all(&world.path).unwrap();
    handle.send(prompt()).unwrap();
    assert!(
        !until(&mut updates, |event| matches!(event, Event::TurnEnded { .. })).await,
        "the session closes"
    );
    assert!(handle.last_error().unwrap().contains("calls do not run without an audit entry"));
    assert_eq!(world.ran(), 0);
    let log = world.store.load(handle.id(), Seq(0), 100).await.unwrap();
    assert!(!log.iter().any(|logged| matches!(logged.event, Event::ToolStarted { .. })));

    let world = World::new("touch x", AuditFailurePolicy::Continue);
    let (handle, mut updates) = world.open(ApprovalMode::Auto).await;
    std::fs::create_dir_all(&world.path).unwrap();
    handle.send(prompt()).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::TurnEnded { .. })).await);
    assert_eq!(world.ran(), 1, "with `best-effort`, the call runs");
}

#[tokio::test]
async fn a_call_is_still_known_after_a_restart() {
    let world = World::new("touch x", AuditFailurePolicy::Stop);
    let (handle, mut updates) = world.open(ApprovalMode::Ask).await;
    handle.send(prompt()).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::ApprovalAsked { .. })).await);
    let call = read_asked(&world).await.unwrap();
    world.store.watch_forgets();
    let decision = Decision::Reject { reason: String::new() };
    handle.send(Input::Decision { call, decision, by: "phone".to_owned(), person: None }).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::ToolFinished { .. })).await);
    assert_eq!(
        world.lines(),
        ["Decided phone laptop local:/srv touch x reject", "Finished - laptop local:/srv touch x rejected"]
    );
}

#[tokio::test]
async fn a_session_reopened_from_its_log_is_audited() {
    let world = World::new("touch x", AuditFailurePolicy::Stop);
    let (handle, mut updates) = world.open(ApprovalMode::Ask).await;
    handle.send(prompt()).unwrap();
    assert!(until(&mut updates, |event| matches!(event, Event::ApprovalAsked { .. })).await);
    world.store.watch_forgets();
    let (_, last) = sysop_driver::replay(&*world.store, handle.id()).await.unwrap();
    assert!(last > Seq(1) && world.store.knows(handle.id(), last), "{last}");
}

#[tokio::test]
async fn an_audited_event_that_the_store_rejects_is_revoked() {
    let world = World::new("touch x", AuditFailurePolicy::Stop);
    let (handle, _updates) = world.open(ApprovalMode::Ask).await;
    let started = Event::ToolFinished { call: sysop_core::id::CallId::new("c9"), outcome: Outcome::ok("") };
    let logged = sysop_core::event::Logged { seq: Seq(10), at: Timestamp(0), event: started };
    world.store.append(handle.id(), Seq(9), &[Arc::new(logged)]).await.unwrap_err();
    let kinds: Vec<_> = read(&world.path).into_iter().map(|entry| (entry.kind, entry.seq)).collect();
    assert_eq!(kinds, [(Kind::Opened, None), (Kind::Finished, Some(10)), (Kind::Void, Some(10))]);
    world.store.delete(&SessionId::new("none")).await.unwrap_err();
    world.store.delete(handle.id()).await.unwrap();
    let kinds: Vec<_> =
        read(&world.path).into_iter().skip(3).map(|entry| (entry.kind, entry.session)).collect();
    let of = |kind, session: &str| (kind, session.to_owned());
    assert_eq!(kinds, [of(Kind::Deleted, "none"), of(Kind::Void, "none"), of(Kind::Deleted, "s1")]);
}
