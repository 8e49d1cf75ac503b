//! Opens the source of a download at an offset: a server, along its redirects, or a local file.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, LOCATION, RANGE, RETRY_AFTER,
};
use reqwest::{Response, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use url::{Origin, Url};

use crate::catalog::Pin;

use super::{DownloadError, DownloadOptions};

const HUGGING_FACE: &str = "https://huggingface.co";
const REDIRECTS_MAX: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time without data before a download counts as interrupted.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Bytes read from a local file at a time.
const CHUNK_BYTES: usize = 1024 * 1024;

pub(super) struct Source {
    url: Url,
    /// Bearer token, sent to the origin of `url` only.
    token: Option<SecretString>,
    sha256: Option<String>,
    network: reqwest::Client,
    local: reqwest::Client,
}

pub(super) struct Answer {
    pub(super) body: Body,
    /// Offset of the first byte of the body in the file.
    pub(super) start: u64,
    /// Size of the whole file, if the source reports it.
    pub(super) total: Option<u64>,
}

pub(super) enum Body {
    Server(Response),
    File(File),
}

pub(super) enum SourceError {
    /// A later attempt may succeed.
    Again {
        why: String,
        wait: Option<Duration>,
    },
    /// The server refuses permanently. Holds the reason and a hint.
    Refused(String),
    Unreadable(String),
    /// The server reports that its file has changed.
    Changed {
        what: &'static str,
        expected: String,
        found: String,
    },
    /// The file is shorter than the offset.
    TooShort,
}

fn again(why: impl Into<String>) -> SourceError {
    SourceError::Again { why: why.into(), wait: None }
}

impl Source {
    pub(super) fn new(pin: &Pin, options: &DownloadOptions) -> Result<Self, DownloadError> {
        let url = options.source(&pin.url);
        let is_hub = url != pin.url || pin.url.as_str().starts_with(HUGGING_FACE);
        let client = |builder: reqwest::ClientBuilder| {
            builder.build().map_err(|error| DownloadError::Unreadable {
                source_name: shown(&url),
                why: format!(
                    "cannot create an HTTP client ({}); check the proxy variables and the system's certificates",
                    cause(&error)
                ),
            })
        };
        Ok(Self {
            network: client(builder())?,
            local: client(builder().no_proxy().tls_certs_only([]))?,
            token: options.hf_token.clone().filter(|_| is_hub),
            sha256: pin.sha256.clone(),
            url,
        })
    }

    /// Names the source for messages: the host of a URL, or the path of a file. Never the signature in a URL.
    pub(super) fn origin(&self) -> String {
        shown(&self.url)
    }

    pub(super) async fn open(&self, offset: u64) -> Result<Answer, SourceError> {
        if self.url.scheme() == "file" {
            return self.open_file(offset);
        }
        let mut url = self.url.clone();
        for hop in 0..=REDIRECTS_MAX {
            let response = self.ask(&url, offset).await?;
            self.check_pin(response.headers())?;
            if !response.status().is_redirection() {
                return answer(response, hop, offset);
            }
            url = next_url(&url, &response)?;
        }
        Err(SourceError::Refused("too many redirects".to_owned()))
    }

    async fn ask(&self, url: &Url, offset: u64) -> Result<Response, SourceError> {
        let client = if is_loopback(url) && url.scheme() == "http" { &self.local } else { &self.network };
        let mut request = client.get(url.clone()).header(ACCEPT_ENCODING, "identity");
        if offset > 0 {
            request = request.header(RANGE, format!("bytes={offset}-"));
        }
        if let Some(token) = self.token.as_ref().filter(|_| same_server(url, &self.url)) {
            request = request.bearer_auth(token.expose_secret());
        }
        request
            .send()
            .await
            .map_err(|error| again(format!("cannot connect to {} ({})", shown(url), cause(&error))))
    }

    /// Checks that the headers do not report a hash other than the pinned one. Hugging Face sends the file's hash in
    /// `X-Linked-Etag`.
    fn check_pin(&self, headers: &HeaderMap) -> Result<(), SourceError> {
        let text = headers.get("x-linked-etag").and_then(|value| value.to_str().ok());
        let hash = text.map(|text| text.trim_start_matches("W/").trim_matches('"').to_ascii_lowercase());
        let is_hash = |hash: &String| hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
        match (hash.filter(is_hash), &self.sha256) {
            (Some(found), Some(expected)) if found != *expected => {
                Err(SourceError::Changed { what: "sha256", expected: expected.clone(), found })
            }
            _ => Ok(()),
        }
    }

    fn open_file(&self, offset: u64) -> Result<Answer, SourceError> {
        let unreadable = |error: std::io::Error| SourceError::Unreadable(error.to_string());
        let path = self.url.to_file_path().map_err(|()| SourceError::Unreadable("not a path".to_owned()))?;
        let mut file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(SourceError::Unreadable("not a regular file".to_owned()));
        }
        if metadata.len() < offset {
            return Err(SourceError::TooShort);
        }
        file.seek(SeekFrom::Start(offset)).map_err(unreadable)?;
        Ok(Answer { body: Body::File(file), start: offset, total: Some(metadata.len()) })
    }
}

impl Body {
    /// Returns the next bytes, or `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, SourceError> {
        match self {
            Self::Server(response) => match response.chunk().await {
                Ok(bytes) => Ok(bytes.map(|bytes| bytes.to_vec())),
                Err(error) => Err(again(format!("the connection was interrupted ({})", cause(&error)))),
            },
            Self::File(file) => {
                let mut bytes = vec![0; CHUNK_BYTES];
                let count =
                    file.read(&mut bytes).map_err(|error| SourceError::Unreadable(error.to_string()))?;
                bytes.truncate(count);
                Ok((count > 0).then_some(bytes))
            }
        }
    }
}

/// Interprets the final response, which came after `hop` redirects.
fn answer(response: Response, hop: usize, offset: u64) -> Result<Answer, SourceError> {
    let status = response.status();
    match status {
        StatusCode::OK => {
            if is_web_page(&response) {
                return Err(SourceError::Refused(
                    "the server sent a web page; check whether this network asks for a login".to_owned(),
                ));
            }
            let total = response.content_length();
            Ok(Answer { body: Body::Server(response), start: 0, total })
        }
        StatusCode::PARTIAL_CONTENT => match content_range(response.headers()) {
            Some((start, total)) if start == offset => {
                Ok(Answer { body: Body::Server(response), start, total })
            }
            Some(_) | None => Err(SourceError::TooShort),
        },
        StatusCode::RANGE_NOT_SATISFIABLE => Err(SourceError::TooShort),
        // A signed URL expires; the original URL redirects to a new one.
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::GONE
            if hop > 0 =>
        {
            Err(again(format!("the signed URL expired ({status})")))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(SourceError::Refused(format!(
            "{status}; accept the license on its page and set HF_TOKEN, or check the network"
        ))),
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            Err(SourceError::Refused(format!("{status}; check the URL")))
        }
        _ if status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT
            || status.is_server_error() =>
        {
            let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let wait = seconds.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
            Err(SourceError::Again { why: format!("the server returned {status}"), wait })
        }
        _ => Err(SourceError::Refused(status.to_string())),
    }
}

fn next_url(from: &Url, response: &Response) -> Result<Url, SourceError> {
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let next = location.and_then(|text| from.join(text).ok());
    let next =
        next.ok_or_else(|| SourceError::Refused("the server redirected to no valid URL".to_owned()))?;
    let downgrades = from.scheme() == "https" && next.scheme() != "https";
    if downgrades || !matches!(next.scheme(), "http" | "https") {
        let why =
            format!("the server redirected to an insecure or unsupported URL (scheme `{}`)", next.scheme());
        return Err(SourceError::Refused(why));
    }
    Ok(next)
}

/// Parses `Content-Range: bytes START-END/TOTAL` to the start and the total.
fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?.trim().strip_prefix("bytes")?.trim();
    let (range, total) = text.split_once('/')?;
    Some((range.split_once('-')?.0.trim().parse().ok()?, total.trim().parse().ok()))
}

fn is_web_page(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/html"))
}

/// Replaces the Hugging Face origin of a URL with a mirror's.
pub(super) fn mirrored(url: &Url, mirror: Option<&Url>) -> Url {
    let Some((mirror, path)) = mirror.zip(url.as_str().strip_prefix(HUGGING_FACE)) else {
        return url.clone();
    };
    Url::parse(&format!("{}{path}", mirror.as_str().trim_end_matches('/'))).unwrap_or_else(|_| url.clone())
}

fn same_server(one: &Url, other: &Url) -> bool {
    matches!(one.origin(), Origin::Tuple(..)) && one.origin() == other.origin()
}

fn shown(url: &Url) -> String {
    match url.host_str() {
        Some(host) if url.scheme() != "file" => host.to_owned(),
        Some(_) | None => url.path().to_owned(),
    }
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

fn builder() -> reqwest::ClientBuilder {
    // Fails only if the process already has a default provider, which serves as well.
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_gzip()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(SILENCE_MAX)
        .user_agent(concat!("sysop/", env!("CARGO_PKG_VERSION")))
}

/// Returns the root cause of an error. The errors around it may contain a signed URL.
fn cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_mirror_replaces_the_address_of_hugging_face_only() {
        let mirror = url("http://127.0.0.1:9/hub/");
        let model = mirrored(&url("https://huggingface.co/a/b/resolve/c/d.gguf"), Some(&mirror));
        assert_eq!(model.as_str(), "http://127.0.0.1:9/hub/a/b/resolve/c/d.gguf");
        let server = url("https://github.com/ggml-org/x.tar.gz");
        assert_eq!(mirrored(&server, Some(&mirror)), server);
    }

    #[test]
    fn ranges_are_parsed() {
        let range = |text: &str| {
            content_range(&[(CONTENT_RANGE, text.parse().unwrap())].into_iter().collect::<HeaderMap>())
        };
        assert_eq!(range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(range("bytes 5-9/*"), Some((5, None)));
        assert_eq!(range("bytes */10"), None);
        assert_eq!(range("items 5-9/10"), None);
    }
}
