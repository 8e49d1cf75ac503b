//! Prints how fast the SQLite store is on this disk: `cargo run --release -p sysop-store --example appends [FOLDER]`;
//! or how fast the store in an empty PostgreSQL database is: `… --example appends postgres://HOST/DATABASE`.
#![expect(clippy::print_stdout, reason = "an example that prints")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sysop_core::event::{Event, Logged, Origin};
use sysop_core::id::{CallId, Seq, SessionId, StepId, Timestamp, TurnId};
use sysop_core::message::{Arguments, ModelRef, Reply, ToolCall, Usage};
use sysop_core::outcome::Outcome;
use sysop_core::policy::ApprovalMode;
use sysop_core::spec::SessionSpec;
use sysop_driver::port::{Store, StoreError};
use sysop_store::{PostgresStore, SqliteStore};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SESSIONS: usize = 32;
const APPENDS: u64 = 500;
const LONG_LOG: u64 = 100_000;
const TURN_EVENTS: u64 = 40;
const OPENINGS: usize = 10;

/// The log of a session with many turns: ten steps with one call each per turn, about 400 bytes per event.
fn event(number: u64) -> Event {
    let turn = TurnId(u32::try_from(number / TURN_EVENTS + 1).unwrap_or(u32::MAX));
    let place = number % TURN_EVENTS;
    let step = StepId { turn, step: u32::try_from(place / 4).unwrap_or(u32::MAX) };
    let call = ToolCall {
        id: CallId::new(format!("call-{}", number / 4)),
        wire_id: None,
        name: "bash".into(),
        arguments: Arguments::Object(
            json!({"command": format!("journalctl -u nginx --since '{number} min ago' | tail -n 50")})
                .as_object()
                .cloned()
                .unwrap_or_default(),
        ),
    };
    match number % 4 {
        _ if number == 0 => Event::SessionOpened { spec: spec().into(), opened_by: None },
        _ if place == 0 => Event::TurnStarted {
            turn,
            prompt: "why did nginx not start?".into(),
            origin: Origin::User,
            images: Vec::new(),
            by: None,
        },
        0 => Event::StepStarted { step },
        1 => Event::Replied {
            step,
            reply: Reply {
                text: "I will look at the newest lines of the web server's log to see why it did not start. "
                    .repeat(3),
                calls: vec![call],
                usage: Usage { input_tokens: 1432, output_tokens: 77, cached_tokens: 1024 },
                ..Reply::default()
            },
        },
        2 => Event::ToolStarted { call, origin: Origin::Model },
        _ => Event::ToolFinished {
            call: call.id,
            outcome: Outcome {
                exit_code: Some(0),
                duration_ms: 61,
                ..Outcome::ok(
                    "nginx.service: Main process exited, code=exited, status=1/FAILURE\n".repeat(12),
                )
            },
        },
    }
}

fn spec() -> SessionSpec {
    SessionSpec {
        model: ModelRef { provider: "mock".into(), name: "mock".into() },
        system: "You are an operator.".into(),
        tools: Vec::new(),
        approve: ApprovalMode::Auto,
        dangerous_patterns: Vec::new(),
        deny: Vec::new(),
        policy: Default::default(),
        max_iterations: 50,
        max_history_messages: 100,
        text_system: None,
        ledger_only: false,
        canary: None,
        models: Default::default(),
        budget: Default::default(),
        instructions: false,
        effort: None,
        max_output_tokens: None,
        temperature: None,
        host: "local".into(),
        root: "/".into(),
        profile: "coder".into(),
    }
}

fn logged(seq: u64) -> Arc<Logged> {
    Arc::new(Logged { seq: Seq(seq), at: Timestamp(1_790_000_000_000), event: event(seq - 1) })
}

async fn append_one_by_one(
    store: Arc<dyn Store>,
    id: SessionId,
    appends: u64,
) -> Result<Vec<Duration>, StoreError> {
    let mut times = Vec::new();
    for seq in 0..appends {
        let event = [logged(seq + 1)];
        let start = Instant::now();
        store.append(&id, Seq(seq), &event).await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

async fn first_append(path: &Path, id: &str) -> Result<(), StoreError> {
    let event = [logged(1)];
    let start = Instant::now();
    let store = SqliteStore::open(path)?;
    let opened = start.elapsed();
    store.append(&SessionId::new(id), Seq(0), &event).await?;
    println!("  open {:.2} ms, with the first append {:.2} ms", ms(opened), ms(start.elapsed()));
    let start = Instant::now();
    store.close().await;
    println!("  close {:.2} ms", ms(start.elapsed()));
    Ok(())
}

/// Opens a session like the driver.
async fn open(store: &dyn Store, id: &SessionId) -> Result<f64, Box<dyn std::error::Error>> {
    let start = Instant::now();
    let (session, last) = sysop_driver::replay(store, id).await?;
    let took = ms(start.elapsed());
    println!("  {last} events, {} messages: {took:.1} ms", session.messages().count());
    Ok(took)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: usize| ms(times[(times.len() - 1) * share / 100]);
    format!("p50 {:.2} ms, p99 {:.2} ms", at(50), at(99))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = std::env::args().nth(1);
    if let Some(url) = place.as_deref().filter(|place| place.starts_with("postgres")) {
        return measure(Arc::new(PostgresStore::connect(url).await?)).await;
    }
    let folder = tempfile::tempdir_in(place.map_or_else(std::env::temp_dir, PathBuf::from))?;
    let path = folder.path().join("sysop.db");
    println!("a new database:");
    first_append(&path, "first").await?;
    println!("an existing database:");
    first_append(&path, "second").await?;
    first_append(&path, "third").await?;

    let store = SqliteStore::open(&path)?;
    measure(Arc::new(store.clone())).await?;
    store.close().await;
    println!("{} MB on disk", std::fs::metadata(&path)?.len() >> 20);
    Ok(())
}

async fn measure(store: Arc<dyn Store>) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let times = append_one_by_one(Arc::clone(&store), SessionId::new("alone"), APPENDS).await?;
    println!(
        "1 session: {:.0} appends/s, {}",
        APPENDS as f64 / start.elapsed().as_secs_f64(),
        percentiles(times)
    );

    let start = Instant::now();
    let append = |n| append_one_by_one(Arc::clone(&store), SessionId::new(format!("many-{n}")), APPENDS);
    let tasks: Vec<_> = (0..SESSIONS).map(|n| tokio::spawn(append(n))).collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    let rate = times.len() as f64 / start.elapsed().as_secs_f64();
    println!("{SESSIONS} sessions: {rate:.0} appends/s, {}", percentiles(times));

    let id = SessionId::new("long");
    let start = Instant::now();
    for first in (0..LONG_LOG).step_by(1000) {
        let events: Vec<_> = (first + 1..=first + 1000).map(logged).collect();
        store.append(&id, Seq(first), &events).await?;
    }
    println!("appended {LONG_LOG} events in {:.0} ms; opening the session:", ms(start.elapsed()));
    let mut open_100k = f64::MAX;
    for _ in 0..OPENINGS {
        open_100k = open_100k.min(open(&*store, &id).await?);
    }

    let start = Instant::now();
    let count = store.list(100).await?.len();
    println!("list of {count} sessions: {:.2} ms", ms(start.elapsed()));
    println!("appends_per_s {rate:.0}");
    println!("open_100k_ms {open_100k:.1}");
    Ok(())
}
