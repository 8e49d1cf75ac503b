//! The server behind the window. It is a child process that exits when this process exits for any reason,
//! because it watches a pipe whose other end only this process holds.
//!
//! The child prints its URL on standard output, so no token appears on a command line.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use url::{Host, Url};

use crate::stderr;

/// Number of lines to keep from the end of the child's output.
const LINES_MAX: usize = 24;
const LINE_CHARS_MAX: usize = 500;
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Maximum time for the child to exit after being asked to. The server itself gives its clients five seconds.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(8);
const READY_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between two requests to `/readyz`.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(100);
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

#[derive(Debug)]
pub(crate) enum ServerEvent {
    /// The server is not ready; holds the reason, if the server gives one.
    NotReady(String),
    /// The page is available at this one-time URL.
    Ready(Url),
    /// A message that may become a notification.
    Message(Value),
    Exited(ServerExit),
}

#[derive(Debug, Clone)]
pub(crate) struct ServerExit {
    pub(crate) status: Option<ExitStatus>,
    /// True if the page had been available before the server exited.
    pub(crate) was_ready: bool,
    pub(crate) lines: Vec<String>,
}

pub(crate) struct ServerProcess {
    /// Standard input of the child, which runs as long as this pipe is open.
    input: Option<ChildStdin>,
    pid: Pid,
    ended: Receiver<()>,
}

/// State shared by the threads of one server.
struct OutputMonitor<F> {
    on_event: F,
    lines: Mutex<VecDeque<String>>,
    state: Mutex<ServerPhase>,
    echo_output: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerPhase {
    Starting,
    Ready,
    Exited,
}

impl ServerProcess {
    /// Starts `sysop serve` on `port` if free, otherwise on any port. Fails if the process cannot be started.
    pub(crate) fn start(
        sysop: &Path,
        flags: &[OsString],
        port: Option<u16>,
        on_event: impl Fn(ServerEvent) + Send + Sync + 'static,
    ) -> Result<Self> {
        let port = port.filter(|port| is_free(*port)).unwrap_or(0);
        let mut command = Command::new(sysop);
        command.arg("serve").args(["--watched", "--port", &port.to_string()]).args(flags);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl+C in the terminal must reach only the window, which then shuts the server down cleanly.
        command.process_group(0);
        let child = command.spawn();
        let mut child = child.with_context(|| format!("cannot start {}", sysop.display()))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a child has an id")?;
        let input = child.stdin.take();
        let (out, err) = (child.stdout.take().context("a pipe")?, child.stderr.take().context("a pipe")?);
        let watch = Arc::new(OutputMonitor {
            on_event,
            lines: Mutex::default(),
            state: Mutex::new(ServerPhase::Starting),
            echo_output: flags.iter().any(|flag| flag == "--verbose"),
        });
        let (exit_sender, ended) = channel();
        let reads_errors = {
            let watch = Arc::clone(&watch);
            thread("server's errors", move || each_line(err, |line| watch.record_line(&line)))?
        };
        thread("server", move || {
            let mut first = true;
            each_line(out, |line| watch.on_line(&line, std::mem::take(&mut first)));
            let status = child.wait().ok();
            // Join the thread, so that the last error output is complete.
            let _ = reads_errors.join();
            watch.end(status, &exit_sender);
        })?;
        Ok(Self { input, pid, ended })
    }

    /// Asks the server to exit, and waits until it has notified its clients and exited. A server that takes longer than
    /// [`SHUTDOWN_TIMEOUT`] is killed.
    pub(crate) fn end(mut self) {
        // Opened while the process is certain to exist, so that no other process is killed.
        let process = pidfd_open(self.pid, PidfdFlags::empty());
        drop(self.input.take());
        if self.ended.recv_timeout(SHUTDOWN_TIMEOUT).is_err()
            && let Ok(process) = process
        {
            let _ = pidfd_send_signal(&process, Signal::KILL);
            let _ = self.ended.recv_timeout(SHUTDOWN_TIMEOUT);
        }
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).context("cannot start a thread")
}

fn is_free(port: u16) -> bool {
    std::net::TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Passes each line to `take` until the pipe is closed. Lines over [`LINE_BYTES_MAX`] bytes are passed in pieces.
fn each_line(from: impl Read, mut take: impl FnMut(String)) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        match from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => take(String::from_utf8_lossy(&line).trim_end().to_owned()),
        }
    }
}

impl<F: Fn(ServerEvent) + Send + Sync + 'static> OutputMonitor<F> {
    fn record_line(&self, line: &str) {
        if self.echo_output {
            stderr::print(line);
        }
        let line = stderr::sanitize(&line.chars().take(LINE_CHARS_MAX).collect::<String>());
        let mut lines = self.lines.lock();
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Handles a line: the first contains the URL, later ones are messages.
    fn on_line(self: &Arc<Self>, line: &str, first: bool) {
        let said: Value = serde_json::from_str(line).unwrap_or_default();
        if !first {
            return (self.on_event)(ServerEvent::Message(said));
        }
        match address(&said) {
            Ok((url, address)) => {
                let watch = Arc::clone(self);
                if thread("readiness", move || watch.wait_for_readiness(url, address)).is_err() {
                    self.record_line("cannot start a thread to check that the server is ready");
                }
            }
            // The line itself is not shown, because it may contain a token.
            Err(error) => self.record_line(&format!("cannot read the server's URL: {error:#}")),
        }
    }

    fn wait_for_readiness(&self, url: Url, address: SocketAddr) {
        let mut last = String::new();
        loop {
            if *self.state.lock() == ServerPhase::Exited {
                return;
            }
            match check_ready(address) {
                Ok(None) => break,
                Ok(Some(missing)) if missing != last => {
                    (self.on_event)(ServerEvent::NotReady(missing.clone()));
                    last = missing;
                }
                Ok(Some(_)) | Err(_) => {}
            }
            std::thread::sleep(READY_POLL_INTERVAL);
        }
        let mut state = self.state.lock();
        if *state == ServerPhase::Starting {
            *state = ServerPhase::Ready;
            (self.on_event)(ServerEvent::Ready(url));
        }
    }

    fn end(&self, status: Option<ExitStatus>, ended: &Sender<()>) {
        let was_ready = std::mem::replace(&mut *self.state.lock(), ServerPhase::Exited) == ServerPhase::Ready;
        let lines = self.lines.lock().iter().cloned().collect();
        (self.on_event)(ServerEvent::Exited(ServerExit { status, was_ready, lines }));
        // Fails if nothing is waiting because the server exited on its own.
        let _ = ended.send(());
    }
}

/// Parses the page's URL. Accepts only a loopback address, because the window's own server runs on this machine.
fn address(said: &Value) -> Result<(Url, SocketAddr)> {
    let url = said["url"].as_str().context(
        "no `url` in the first message of the server; install the same version of sysop and sysop-desktop",
    )?;
    let url = Url::parse(url).ok().context("invalid URL")?;
    let ip = match url.host() {
        Some(Host::Ipv4(ip)) => std::net::IpAddr::from(ip),
        Some(Host::Ipv6(ip)) => ip.into(),
        Some(Host::Domain(_)) | None => anyhow::bail!("not an http:// URL with a loopback IP address"),
    };
    ensure!(url.scheme() == "http" && ip.is_loopback(), "not an http:// URL with a loopback IP address");
    let port = url.port_or_known_default().context("no port in the URL")?;
    Ok((url, SocketAddr::new(ip, port)))
}

/// Returns the reason why the server is not ready, or `None` if it is.
fn check_ready(address: SocketAddr) -> Result<Option<String>> {
    let mut stream = TcpStream::connect_timeout(&address, READY_TIMEOUT)?;
    stream.set_read_timeout(Some(READY_TIMEOUT))?;
    stream.set_write_timeout(Some(READY_TIMEOUT))?;
    stream.write_all(
        format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    let until = Instant::now() + READY_TIMEOUT;
    let mut piece = [0; 4096];
    while (answer.len() as u64) < ANSWER_BYTES_MAX && Instant::now() < until {
        match stream.read(&mut piece)? {
            0 => break,
            length => answer.extend_from_slice(&piece[..length]),
        }
    }
    Ok(missing(&String::from_utf8_lossy(&answer)))
}

fn missing(answer: &str) -> Option<String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    if head.split(' ').nth(1) == Some("200") {
        return None;
    }
    let body: Value = serde_json::from_str(body.trim()).unwrap_or_default();
    Some(body["missing"].as_str().unwrap_or("no reason given").to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{address, missing};

    #[test]
    fn only_a_server_on_this_machine_is_shown() {
        let of = |url: &str| address(&json!({ "url": url })).ok().map(|(_, address)| address.to_string());
        assert_eq!(of("http://127.0.0.1:81/?token=x").as_deref(), Some("127.0.0.1:81"));
        for url in [
            "http://192.168.0.1:81/", "http://localhost.evil/", "https://127.0.0.1/", "file:///etc/passwd",
            "",
        ] {
            assert_eq!(of(url), None, "{url}");
        }
    }

    #[test]
    fn an_answer_says_what_is_missing() {
        assert_eq!(missing("HTTP/1.1 200 OK\r\n\r\n{}"), None);
        let busy = "HTTP/1.1 503 Service Unavailable\r\na: b\r\n\r\n{\"missing\":\"the disk\"}";
        assert_eq!(missing(busy).as_deref(), Some("the disk"));
        assert!(missing("HTTP/1.1 500 Oh\r\n\r\n").is_some());
    }
}
