//! The Ollama server from which a model may be selected. It is asked for its models at most once, so that all who
//! select a model at one start see the same answer.
//!
//! Only the list of its models is fetched, over plain HTTP. A caller never waits longer than the server's time limit.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use sysop_core::model_provider::OLLAMA;

use crate::config::without_credentials;
use crate::settings::Settings;

/// Maximum wait for a server that may run at the default address.
const DEFAULT_TIME_MAX: Duration = Duration::from_millis(300);
/// Maximum wait for a server whose address the user set, or that the user chose.
pub(super) const CHOSEN_TIME_MAX: Duration = Duration::from_secs(3);

const LIST_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct OllamaServer {
    base_url: String,
    /// Setting with the address; `None` for the default address.
    setting: Option<String>,
    time_max: Duration,
    answer: OnceLock<OllamaAnswer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OllamaAnswer {
    /// Chat models, in the order of the server's list.
    Models(Vec<String>),
    /// No Ollama answered, or its address is not an `http:` URL.
    Absent,
    TimedOut,
}

impl OllamaServer {
    pub(crate) fn new(settings: &Settings) -> Self {
        let of_ollama = settings.providers.get(OLLAMA.name);
        let base_url = of_ollama.and_then(|ollama| ollama.base_url.clone());
        let source = of_ollama.and_then(|ollama| ollama.sources.base_url.clone());
        let usual = || format!("base_url in [providers.{}]", OLLAMA.name);
        Self {
            time_max: if base_url.is_some() { CHOSEN_TIME_MAX } else { DEFAULT_TIME_MAX },
            setting: base_url.is_some().then(|| source.unwrap_or_else(usual)),
            base_url: base_url.unwrap_or_else(|| OLLAMA.base_url.to_owned()),
            answer: OnceLock::new(),
        }
    }

    /// Waits as long as for a server whose address the user set.
    pub(crate) fn with_patience(self) -> Self {
        Self { time_max: CHOSEN_TIME_MAX, ..self }
    }

    /// Returns the server's answer. The first call may wait for it.
    pub(crate) fn answer(&self) -> &OllamaAnswer {
        self.answer.get_or_init(|| ask(&self.base_url, self.time_max))
    }

    /// Returns the chat models; none if the server did not answer.
    pub(crate) fn models(&self) -> &[String] {
        match self.answer() {
            OllamaAnswer::Models(models) => models,
            OllamaAnswer::Absent | OllamaAnswer::TimedOut => &[],
        }
    }

    /// Returns the address without credentials.
    pub(crate) fn address(&self) -> String {
        without_credentials(&self.base_url)
    }

    /// Returns the setting with the address, or `None` if it is the default address.
    pub(crate) fn setting(&self) -> Option<&str> {
        self.setting.as_deref()
    }

    pub(crate) fn is_https(&self) -> bool {
        self.base_url.starts_with("https:")
    }

    pub(crate) fn is_on_this_machine(&self) -> bool {
        let url = url::Url::parse(&self.base_url);
        url.is_ok_and(|url| match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        })
    }

    /// Returns a phrase about a server that did not answer in time, or `None` for any other answer.
    pub(crate) fn timeout(&self) -> Option<String> {
        let time = match self.time_max.as_millis() {
            whole if whole % 1_000 == 0 => format!("{} s", whole / 1_000),
            part => format!("{part} ms"),
        };
        let is_timeout = *self.answer() == OllamaAnswer::TimedOut;
        is_timeout.then(|| format!("Ollama at {} did not answer within {time}", self.address()))
    }
}

#[cfg(test)]
impl OllamaServer {
    pub(crate) fn answering(settings: &Settings, answer: OllamaAnswer) -> Self {
        Self { answer: OnceLock::from(answer), ..Self::new(settings) }
    }

    pub(super) fn at(base_url: &str) -> Self {
        Self {
            base_url: base_url.to_owned(),
            setting: None,
            time_max: CHOSEN_TIME_MAX,
            answer: OnceLock::new(),
        }
    }

    pub(super) fn within(self, time_max: Duration) -> Self {
        Self { time_max, ..self }
    }

    pub(super) fn time_max(&self) -> Duration {
        self.time_max
    }

    pub(super) fn is_asked(&self) -> bool {
        self.answer.get().is_some()
    }
}

fn ask(base_url: &str, time_max: Duration) -> OllamaAnswer {
    let (answered, answer) = mpsc::sync_channel(1);
    let base_url = base_url.to_owned();
    // Name resolution has no timeout, so a slow thread is abandoned. Its own timeouts only make sure that it ends.
    let asked = std::thread::Builder::new()
        .name("ollama-probe".to_owned())
        .spawn(move || answered.send(list_models(&base_url, time_max)));
    match asked.map(|_| answer.recv_timeout(time_max)) {
        Ok(Ok(Some(models))) => OllamaAnswer::Models(models),
        Ok(Err(mpsc::RecvTimeoutError::Timeout)) => OllamaAnswer::TimedOut,
        Ok(Ok(None) | Err(mpsc::RecvTimeoutError::Disconnected)) | Err(_) => OllamaAnswer::Absent,
    }
}

fn list_models(base_url: &str, step_time_max: Duration) -> Option<Vec<String>> {
    let url = url::Url::parse(base_url).ok().filter(|url| url.scheme() == "http")?;
    let host = url.host_str()?;
    let port = url.port_or_known_default()?;
    let bare_host = host.trim_start_matches('[').trim_end_matches(']');
    let mut stream = (bare_host, port)
        .to_socket_addrs()
        .ok()?
        .find_map(|socket| TcpStream::connect_timeout(&socket, step_time_max).ok())?;
    stream.set_read_timeout(Some(step_time_max)).ok()?;
    stream.set_write_timeout(Some(step_time_max)).ok()?;
    let path = url.path().trim_end_matches('/');
    // HTTP/1.0, so that the body is not chunked and ends when the connection is closed.
    let request =
        format!("GET {path}/api/tags HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.take(LIST_BYTES_MAX).read_to_end(&mut answer).ok()?;
    chat_models(&answer)
}

#[derive(serde::Deserialize)]
struct OllamaTags {
    models: Vec<OllamaTag>,
}

#[derive(serde::Deserialize)]
struct OllamaTag {
    name: String,
    #[serde(default)]
    capabilities: Vec<String>,
}

fn chat_models(answer: &[u8]) -> Option<Vec<String>> {
    let head_end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let status = answer.split(|byte| *byte == b' ').nth(1)?;
    if status != b"200" {
        return None;
    }
    let tags: OllamaTags = serde_json::from_slice(&answer[head_end + 4..]).ok()?;
    let chats = |tag: &OllamaTag| match tag.capabilities.as_slice() {
        [] => !tag.name.contains("embed"),
        known => known.iter().any(|word| word == "completion"),
    };
    Some(tags.models.into_iter().filter(chats).map(|tag| tag.name).collect())
}
