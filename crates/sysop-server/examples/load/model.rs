//! A model for measurements: streams at a constant rate with a time stamp in each chunk, or calls a tool a number of
//! times.
//!
//! The prompt controls it: `PACE:RATE:SECONDS.` or `CALLS:NUMBER:TOOL.`.

use std::collections::HashMap;
use std::io::Result;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, MissedTickBehavior};

use crate::{now, tell};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// Time of the last reply per conversation, and the delays until the next request.
#[derive(Default)]
struct Gaps {
    replied: HashMap<String, u64>,
    gaps: Vec<u64>,
}

type SharedGaps = Arc<Mutex<Gaps>>;

/// Prints the port, then serves until killed.
pub(crate) async fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    tell("port", f64::from(listener.local_addr()?.port()));
    let gaps = SharedGaps::default();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let gaps = Arc::clone(&gaps);
        // A client may disconnect at any time.
        tokio::spawn(async move { answer_all(stream, &gaps).await.ok() });
    }
}

async fn answer_all(mut stream: TcpStream, gaps: &SharedGaps) -> Result<()> {
    let mut read = Vec::with_capacity(64 * 1024);
    while let Some(request) = request(&mut stream, &mut read).await? {
        let arrived = now();
        if request.starts_with("GET /gaps") {
            let gaps = std::mem::take(&mut gaps.lock().gaps);
            let text: String = gaps.iter().map(|gap| format!("{gap}\n")).collect();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", text.len());
            stream.write_all((head + &text).as_bytes()).await?;
        } else if let Some([rate, seconds]) = asked(&request, "PACE:") {
            pace(&mut stream, number(rate), number(seconds)).await?;
        } else if let Some([calls, tool]) = asked(&request, "CALLS:") {
            call(&mut stream, gaps, &request, number(calls), tool, arrived).await?;
        } else {
            finish(&mut stream, HEAD.to_owned() + &piece("ok")).await?;
        }
    }
    Ok(())
}

/// Reads one request with its body; `None` if the client disconnected.
async fn request(stream: &mut TcpStream, read: &mut Vec<u8>) -> Result<Option<String>> {
    loop {
        if let Some(head) = read.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4) {
            let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
            let length = text.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
            let length = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            if read.len() >= head + length {
                let rest = read.split_off(head + length);
                let request = std::mem::replace(read, rest);
                return Ok(Some(String::from_utf8_lossy(&request).into_owned()));
            }
        }
        if stream.read_buf(read).await? == 0 {
            return Ok(None);
        }
    }
}

/// Returns the two fields after `key`, up to a dot.
fn asked<'a>(request: &'a str, key: &str) -> Option<[&'a str; 2]> {
    let (_, rest) = request.rsplit_once(key)?;
    let (first, second) = rest.split_once('.')?.0.split_once(':')?;
    Some([first, second])
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or(1)
}

fn chunk(data: &str) -> String {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

fn piece(content: &str) -> String {
    chunk(&format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{content}"}}}}]}}"#))
}

async fn finish(stream: &mut TcpStream, before: String) -> Result<()> {
    let end = chunk(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
    stream.write_all((before + &end + &chunk("[DONE]") + "0\r\n\r\n").as_bytes()).await
}

async fn pace(stream: &mut TcpStream, rate: u32, seconds: u32) -> Result<()> {
    stream.write_all(HEAD.as_bytes()).await?;
    let step = Duration::from_secs(1) / rate;
    // Staggers the streams so that they do not send at the same moment.
    let mut tick =
        tokio::time::interval_at(Instant::now() + step.mul_f64((now() % 997) as f64 / 997.0), step);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for _ in 0..rate * seconds {
        tick.tick().await;
        stream.write_all(piece(&format!("{};", now())).as_bytes()).await?;
    }
    finish(stream, String::new()).await
}

async fn call(
    stream: &mut TcpStream,
    gaps: &SharedGaps,
    request: &str,
    calls: u32,
    tool: &str,
    arrived: u64,
) -> Result<()> {
    let done = request.matches(r#""role":"tool""#).count();
    let conversation = format!("{calls}:{tool}");
    let replied = gaps.lock().replied.remove(&conversation);
    if let Some(replied) = replied.filter(|_| done > 0) {
        gaps.lock().gaps.push(arrived.saturating_sub(replied));
    }
    if done >= calls as usize {
        return finish(stream, HEAD.to_owned() + &piece("done")).await;
    }
    let call = format!(
        r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"call_{done}","type":"function","function":{{"name":"{tool}","arguments":"{{\"command\":\"true {done}\"}}"}}}}]}}}}]}}"#
    );
    let end = chunk(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#);
    let reply = HEAD.to_owned() + &chunk(&call) + &end + &chunk("[DONE]") + "0\r\n\r\n";
    gaps.lock().replied.insert(conversation, now());
    stream.write_all(reply.as_bytes()).await
}
