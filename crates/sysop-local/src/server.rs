//! One running `llama-server`: its startup, health check and shutdown.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng as _;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::Child;
use tokio::time::Instant;

use crate::launcher;

/// Maximum time until a server is ready; a large model on a slow disk takes long.
pub const START_MAX: Duration = Duration::from_secs(300);
/// Time between two health checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum wait for the answer to a health check.
const CHECK_MAX: Duration = Duration::from_secs(5);
/// Time that a server has to exit by itself.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Maximum starts, each with another port, in case another program takes the port first.
const PORTS_TRIED_MAX: u32 = 3;
/// Maximum number of output lines kept for an error message, counted from the end.
const LINES_MAX: usize = 12;
const LINE_BYTES_MAX: u64 = 400;
/// Number of random bytes in the key.
const KEY_BYTES: usize = 32;

/// Program, model and arguments with which a server is started.
#[derive(Debug, Clone)]
pub(crate) struct ServerSpec {
    pub(crate) program: PathBuf,
    /// Executable whose `main` calls `run_as_launcher`; `None` starts the program directly.
    pub(crate) launcher: Option<PathBuf>,
    pub(crate) model_file: PathBuf,
    pub(crate) name: String,
    /// Context window in tokens.
    pub(crate) context: u32,
    pub(crate) threads: usize,
    /// Arguments that the model needs.
    pub(crate) extra: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    #[error("cannot start {program}: {why}")]
    Spawn { program: String, why: String },
    /// The server exited before it was ready. Holds the last lines of its output.
    #[error("llama-server exited while loading {model}: {output}")]
    Ended { model: String, output: String },
    #[error("llama-server did not load {model} within {} s", START_MAX.as_secs())]
    TooSlow { model: String },
    /// The server accepts requests without the key.
    #[error("this llama-server ignores its API key; install a newer one with `sysop model get llama-server`")]
    Open,
}

/// A server that is ready. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct RunningServer {
    child: Child,
    pub(crate) name: String,
    pub(crate) base_url: String,
    pub(crate) key: SecretString,
    pub(crate) context: u32,
}

impl RunningServer {
    pub(crate) async fn start(spec: &ServerSpec) -> Result<Self, ServerError> {
        let mut failure = None;
        for _ in 0..PORTS_TRIED_MAX {
            let port = free_port().map_err(|error| spawn_error(spec, &error))?;
            match Self::start_on(spec, port).await {
                Err(ServerError::Ended { model, output }) if output.contains("bind") => {
                    failure = Some(ServerError::Ended { model, output });
                }
                result => return result,
            }
        }
        Err(failure.expect("the loop tries at least one port"))
    }

    async fn start_on(spec: &ServerSpec, port: u16) -> Result<Self, ServerError> {
        let key = random_key();
        let mut command = launcher::command(spec.launcher.as_deref(), &spec.program, arguments(spec, port));
        command
            // Other users see the arguments of a process, but not its environment.
            .env("LLAMA_API_KEY", key.expose_secret())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| spawn_error(spec, &error))?;
        let output = OutputTail::default();
        output.follow(child.stdout.take());
        output.follow(child.stderr.take());
        let mut server = Self {
            child,
            name: spec.name.clone(),
            base_url: format!("http://127.0.0.1:{port}/v1"),
            key,
            context: spec.context,
        };
        server.wait_until_ready(&output).await?;
        Ok(server)
    }

    async fn wait_until_ready(&mut self, output: &OutputTail) -> Result<(), ServerError> {
        let http = client();
        let deadline = Instant::now() + START_MAX;
        loop {
            let ended = tokio::time::timeout(CHECK_INTERVAL, self.child.wait()).await;
            if ended.is_ok() {
                // The readers reach the end of the output soon after the process exits.
                tokio::time::sleep(CHECK_INTERVAL).await;
                return Err(ServerError::Ended { model: self.name.clone(), output: output.text() });
            }
            if self.status(&http, "health", true).await == Some(200) {
                break;
            }
            if Instant::now() > deadline {
                return Err(ServerError::TooSlow { model: self.name.clone() });
            }
        }
        // Another program on the same port, or an old server without keys, would receive prompts.
        let refuses = self.status(&http, "v1/models", false).await == Some(401);
        let accepts = self.status(&http, "v1/models", true).await == Some(200);
        if refuses && accepts && self.is_alive() { Ok(()) } else { Err(ServerError::Open) }
    }

    async fn status(&self, http: &reqwest::Client, path: &str, with_key: bool) -> Option<u16> {
        let base = self.base_url.trim_end_matches("/v1");
        let request = http.get(format!("{base}/{path}"));
        let request = if with_key { request.bearer_auth(self.key.expose_secret()) } else { request };
        request.send().await.ok().map(|response| response.status().as_u16())
    }

    /// Returns false if the process has exited.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Stops the process, gracefully at first.
    pub(crate) async fn stop(mut self) {
        let id =
            self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(id) = id {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM); // may have exited
            if tokio::time::timeout(STOP_MAX, self.child.wait()).await.is_ok() {
                return;
            }
        }
        let _ = self.child.kill().await; // may have exited
    }
}

/// Returns the command line of the server. Without `--jinja`, older servers do not use the model's own template.
fn arguments(spec: &ServerSpec, port: u16) -> Vec<OsString> {
    let (port, context, threads) = (port.to_string(), spec.context.to_string(), spec.threads.to_string());
    let fixed = [
        "--host", "127.0.0.1", "--port", &port, "--alias", &spec.name, "-c", &context, "-np", "1", "-t",
        &threads, "--jinja", "--no-webui",
    ];
    let mut arguments: Vec<OsString> = vec!["-m".into(), spec.model_file.clone().into()];
    arguments.extend(fixed.map(OsString::from));
    arguments.extend(spec.extra.iter().map(OsString::from));
    arguments
}

fn spawn_error(spec: &ServerSpec, error: &std::io::Error) -> ServerError {
    ServerError::Spawn { program: spec.program.display().to_string(), why: error.to_string() }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn random_key() -> SecretString {
    use std::fmt::Write as _;
    let mut bytes = [0; KEY_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    let mut key = String::with_capacity(2 * KEY_BYTES);
    for byte in bytes {
        write!(key, "{byte:02x}").expect("writing to a string cannot fail");
    }
    key.into()
}

fn client() -> reqwest::Client {
    // Fails only if the process already has a default provider, which serves as well.
    rustls::crypto::ring::default_provider().install_default().ok();
    let builder = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(CHECK_MAX);
    builder
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .expect("a client for loopback needs no system files")
}

/// The last lines of a server's output, for error messages.
#[derive(Debug, Clone, Default)]
struct OutputTail(Arc<Mutex<VecDeque<String>>>);

impl OutputTail {
    /// Reads a stream to its end, so that the server is never blocked by a full pipe.
    fn follow(&self, stream: Option<impl AsyncRead + Unpin + Send + 'static>) {
        let Some(stream) = stream else { return };
        let lines = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
                if !matches!(read, Ok(1..)) {
                    return;
                }
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if text.is_empty() {
                    continue;
                }
                let mut lines = lines.lock();
                if lines.len() == LINES_MAX {
                    lines.pop_front();
                }
                lines.push_back(text);
            }
        });
    }

    fn text(&self) -> String {
        let lines = self.0.lock();
        if lines.is_empty() {
            return "no output".to_owned();
        }
        lines.iter().map(String::as_str).collect::<Vec<_>>().join(" | ")
    }
}
