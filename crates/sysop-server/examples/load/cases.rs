//! The load cases.

use std::io::{Error, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::{Http, Socket, field};
use crate::{now, quantile, tell};

const SESSIONS: &str = "/api/agent/sessions";
const HELLO: &str = r#"{"type":"hello","clientVersion":"load"}"#;
/// Number of requests or handshakes in flight.
const AT_ONCE: usize = 64;
/// Number of simultaneous turns. Each receives `RATE` chunks per second for `SECONDS`.
const TURNS: usize = 500;
const RATE: u32 = 40;
const SECONDS: u32 = 15;
/// Time excluded at the start and the end of a measurement, when not all turns run.
const UNEVEN: Duration = Duration::from_secs(3);
/// Number of tool calls per turn: fewer than a server lets the tools of a client run in a minute.
const CALLS: u32 = 100;
/// Number of reconnects per second, for the duration `STORM`.
const STORMS_A_SECOND: usize = 1000;
const STORM: Duration = Duration::from_secs(10);
/// Maximum time for the server to evict sessions without connections.
const REST_MAX: Duration = Duration::from_secs(150);

#[derive(Clone)]
pub(crate) struct Target {
    address: String,
    token: String,
    pid: String,
    model: String,
    count: usize,
}

impl Target {
    pub(crate) fn read(arguments: &[&str]) -> Result<Self> {
        let [address, pid, model, count] = arguments else {
            return Err(Error::other("ADDRESS PID MODEL-PORT COUNT"));
        };
        let own = |text: &&str| (*text).to_owned();
        Ok(Self {
            address: own(address),
            token: std::env::var("SYSOP_TOKEN").map_err(Error::other)?,
            pid: own(pid),
            model: format!("127.0.0.1:{model}"),
            count: count.parse().map_err(Error::other)?,
        })
    }

    async fn http(&self) -> Result<Http> {
        Http::open(&self.address, &self.token).await
    }

    async fn socket(&self, session: &str, hello: &str) -> Result<Socket> {
        Socket::open(&self.address, &self.token, session, hello).await
    }

    /// Resident memory in KiB.
    fn resident(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| Error::other("no VmRSS"))
    }

    /// Processor time in seconds.
    fn processor(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
        Ok(ticks.iter().sum::<f64>() / 100.0)
    }

    async fn metric(&self, name: &str) -> Result<f64> {
        let metrics = self.http().await?.get("/metrics").await?;
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse().ok()).ok_or_else(|| Error::other(format!("no {name}")))
    }

    async fn sessions(&self, count: usize) -> Result<Vec<String>> {
        let mut makers = JoinSet::new();
        for at in 0..AT_ONCE {
            let (target, own) = (self.clone(), count / AT_ONCE + usize::from(at < count % AT_ONCE));
            makers.spawn(async move {
                let mut http = target.http().await?;
                let mut made = Vec::with_capacity(own);
                for _ in 0..own {
                    let answer = http.post(SESSIONS, "{}").await?;
                    let id = field(&answer, "sessionId").ok_or_else(|| Error::other(answer.clone()))?;
                    made.push(id.to_owned());
                }
                Ok::<_, Error>(made)
            });
        }
        let made: Result<Vec<_>> = makers.join_all().await.into_iter().collect();
        Ok(made?.concat())
    }

    async fn connect(&self, sessions: &[String]) -> Result<Vec<Socket>> {
        let mut connecting = JoinSet::new();
        let sessions = Arc::new(sessions.to_vec());
        for at in 0..AT_ONCE {
            let (target, sessions) = (self.clone(), Arc::clone(&sessions));
            connecting.spawn(async move {
                let mut sockets = Vec::new();
                for (at, session) in sessions.iter().enumerate().skip(at).step_by(AT_ONCE) {
                    let mut socket = target.socket(session, HELLO).await?;
                    socket.until("session.created").await?;
                    sockets.push((at, socket));
                }
                Ok::<_, Error>(sockets)
            });
        }
        let sockets: Result<Vec<_>> = connecting.join_all().await.into_iter().collect();
        let mut sockets: Vec<_> = sockets?.into_iter().flatten().collect();
        sockets.sort_by_key(|(at, _)| *at);
        Ok(sockets.into_iter().map(|(_, socket)| socket).collect())
    }
}

/// Arrival times of chunks, with their latency in milliseconds.
type Latencies = Arc<Mutex<Vec<(Instant, f64)>>>;

/// Connects many sessions, runs some of them, then disconnects all.
pub(crate) async fn connected(target: Target) -> Result<()> {
    drop(target.connect(&target.sessions(AT_ONCE).await?).await?);
    let (resident, tasks) = (target.resident()?, target.metric("sysop_tasks").await?);
    let count = target.count as f64;
    let sessions = target.sessions(target.count).await?;
    tell("live_kib", (target.resident()? - resident) / count);
    let sockets = target.connect(&sessions).await?;
    tell("connected_kib", (target.resident()? - resident) / count);
    tell("connected_tasks", (target.metric("sysop_tasks").await? - tasks) / count);

    let heard = Latencies::default();
    let mut clients = JoinSet::new();
    let mut active = Vec::new();
    for mut socket in sockets {
        let (speak, mut spoken) = mpsc::channel::<String>(1);
        if active.len() < TURNS {
            active.push(speak);
        }
        let heard = Arc::clone(&heard);
        clients.spawn(async move {
            loop {
                tokio::select! {
                    Some(text) = spoken.recv() => socket.say(&text).await?,
                    message = socket.next() => hear(&message?, &heard),
                }
            }
            #[expect(unreachable_code, reason = "says what the task returns")]
            Ok::<(), Error>(())
        });
    }
    let prompt = format!(r#"{{"type":"user.message","content":"PACE:{RATE}:{SECONDS}."}}"#);
    let began = Instant::now();
    for speak in &active {
        speak.send(prompt.clone()).await.map_err(Error::other)?;
    }
    tokio::time::sleep(UNEVEN).await; // the start is not measured
    let (from, used) = (Instant::now(), target.processor()?);
    let measured = Duration::from_secs(SECONDS.into()) - UNEVEN - began.elapsed();
    tokio::time::sleep(measured).await; // the wait is the measurement; the load goes on by itself
    let (window, used) = (from.elapsed(), target.processor()? - used);
    tell("working_mib", target.resident()? / 1024.0);
    let mut times: Vec<f64> = {
        let heard = heard.lock();
        heard.iter().filter(|(at, _)| *at >= from && *at < from + window).map(|(_, ms)| *ms).collect()
    };
    times.sort_by(f64::total_cmp);
    tell("deltas_per_s", times.len() as f64 / window.as_secs_f64());
    tell("delta_p50_ms", quantile(&times, 0.5));
    tell("delta_p99_ms", quantile(&times, 0.99));
    tell("delta_max_ms", quantile(&times, 1.0));
    tell("delta_cpu_us", used * 1e6 / times.len() as f64);
    tokio::time::sleep(UNEVEN + Duration::from_secs(1)).await; // the last chunks have no end marker
    while clients.try_join_next().is_some() {} // those that ended
    tell("sockets_that_stayed", clients.len() as f64);

    clients.shutdown().await;
    let left = Instant::now();
    while target.metric("sysop_tasks").await? > tasks + 1.0
        || target.metric("sysop_sessions_live").await? > 0.0
    {
        if left.elapsed() > REST_MAX {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await; // each poll disturbs the server that should become idle
    }
    tell("left_kib", (target.resident()? - resident) / count);
    tell("left_tasks", (target.metric("sysop_tasks").await? - tasks).max(0.0) / count);
    Ok(())
}

/// Records the latency of the chunks in a message.
fn hear(message: &str, heard: &Latencies) {
    if !message.starts_with(r#"{"type":"assistant.delta""#) {
        return;
    }
    let (came, at) = (now(), Instant::now());
    let mut heard = heard.lock();
    for stamp in field(message, "content").unwrap_or_default().split(';') {
        if let Ok(said) = stamp.parse::<u64>() {
            heard.push((at, came.saturating_sub(said) as f64 / 1e6));
        }
    }
}

/// Measures client tools: the model calls one repeatedly, and the client answers at once.
pub(crate) async fn calls(target: Target) -> Result<()> {
    let sessions = target.sessions(target.count).await?;
    let mut clients = JoinSet::new();
    for (at, session) in sessions.into_iter().enumerate() {
        let target = target.clone();
        clients.spawn(async move {
            let tool = format!("probe{at}");
            let hello = format!(
                r#"{{"type":"hello","clientVersion":"load","workspaceRoot":"/","toolManifest":[{{"name":"{tool}","description":"","parameters":{{"type":"object"}}}}]}}"#
            );
            let mut socket = target.socket(&session, &hello).await?;
            socket.until("session.created").await?;
            let prompt = format!(r#"{{"type":"user.message","content":"CALLS:{CALLS}:{tool}."}}"#);
            socket.say(&prompt).await?;
            loop {
                let message = socket.next().await?;
                if message.starts_with(r#"{"type":"tool.call""#) && message.contains(r#""run":true"#) {
                    let call = field(&message, "toolCallId").unwrap_or_default();
                    let result = format!(r#"{{"type":"tool.result","toolCallId":"{call}","output":"{call}"}}"#);
                    socket.say(&result).await?;
                } else if message.starts_with(r#"{"type":"approval.request""#) {
                    return Err(Error::other(format!("it asks: {message}")));
                } else if message.starts_with(r#"{"type":"assistant.done""#) {
                    return Ok(message);
                }
            }
        });
    }
    for done in clients.join_all().await {
        let done: String = done?;
        if !done.contains("end_turn") {
            return Err(Error::other(done));
        }
    }
    let gaps = Http::open(&target.model, "").await?.get("/gaps").await?;
    let mut gaps: Vec<f64> = gaps.lines().filter_map(|gap| Some(gap.parse::<f64>().ok()? / 1e6)).collect();
    gaps.sort_by(f64::total_cmp);
    tell("calls", gaps.len() as f64);
    tell("call_min_ms", quantile(&gaps, 0.0));
    tell("call_p50_ms", quantile(&gaps, 0.5));
    tell("call_p99_ms", quantile(&gaps, 0.99));
    Ok(())
}

/// Connections break and reconnect at a fixed rate.
pub(crate) async fn storm(target: Target) -> Result<()> {
    let sessions = target.sessions(target.count).await?;
    let mut sockets: Vec<_> = target.connect(&sessions).await?.into_iter().map(Some).collect();
    let (resident, used) = (target.resident()?, target.processor()?);
    let mut coming_back = JoinSet::new();
    let mut took = Vec::new();
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    let began = Instant::now();
    let mut at = 0;
    let mut keep = |back: std::result::Result<_, tokio::task::JoinError>, sockets: &mut Vec<_>| {
        let (at, back, ms): (usize, Result<Socket>, f64) = back.map_err(Error::other)?;
        took.push(ms);
        sockets[at] = Some(back?);
        Ok::<(), Error>(())
    };
    let mut torn = 0;
    while began.elapsed() < STORM {
        tick.tick().await;
        for _ in 0..STORMS_A_SECOND / 100 {
            at = (at + 1) % sockets.len();
            let Some(socket) = sockets[at].take() else { continue };
            socket.tear()?;
            torn += 1;
            let (target, session) = (target.clone(), sessions[at].clone());
            coming_back.spawn(async move {
                let began = Instant::now();
                let hello = r#"{"type":"hello","clientVersion":"load","resumeFrom":1}"#;
                let back = async {
                    let mut socket = target.socket(&session, hello).await?;
                    socket.until("session.created").await?;
                    Ok(socket)
                };
                (at, back.await, began.elapsed().as_secs_f64() * 1e3)
            });
        }
        while let Some(back) = coming_back.try_join_next() {
            keep(back, &mut sockets)?;
        }
    }
    let lasted = began.elapsed();
    while let Some(back) = coming_back.join_next().await {
        keep(back, &mut sockets)?;
    }
    took.sort_by(f64::total_cmp);
    tell("storm_per_s", f64::from(torn) / lasted.as_secs_f64());
    tell("storm_back", took.len() as f64 / f64::from(torn));
    tell("storm_p99_ms", quantile(&took, 0.99));
    tell("storm_cpu_us", (target.processor()? - used) * 1e6 / f64::from(torn));
    tell("storm_more_mib", (target.resident()? - resident) / 1024.0);
    tell("storm_sockets", target.metric("sysop_sockets").await?);
    Ok(())
}

pub(crate) async fn stored(target: Target) -> Result<()> {
    let began = Instant::now();
    target.sessions(target.count).await?;
    tell("created_per_s", target.count as f64 / began.elapsed().as_secs_f64());
    Ok(())
}
