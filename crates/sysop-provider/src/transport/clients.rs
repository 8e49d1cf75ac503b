//! HTTP clients, built on first use. They follow no redirects and log nothing.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use sysop_core::message::{FailureKind, ModelFailure};
use url::Url;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that an idle connection stays in the pool.
const IDLE_CONNECTION_MAX: Duration = Duration::from_secs(60);
/// Maximum number of addresses in each cache of [`HttpClients`].
const ADDRESSES_MAX: usize = 64;

/// Two clients for the network, which use the system's proxies, and two for this machine, which use no proxy. The one
/// for plain HTTP on this machine loads no certificates, because reading the system's certificates takes
/// milliseconds. The one for plain HTTP on the network does without them if the system has none, as in many
/// containers.
#[derive(Debug, Default)]
pub(crate) struct HttpClients {
    network: OnceLock<Result<reqwest::Client, String>>,
    network_plain: OnceLock<Result<reqwest::Client, String>>,
    local: OnceLock<Result<reqwest::Client, String>>,
    local_plain: OnceLock<Result<reqwest::Client, String>>,
    /// Cached routes by address, because every step of a turn uses the same address.
    known: Mutex<HashMap<String, ClientRoute>>,
    parsed: Mutex<HashMap<String, Url>>,
    /// Origins that answered a request, and to which a connection may therefore be idle in a pool.
    answered: Mutex<HashSet<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientRoute {
    Network,
    NetworkPlain,
    Local,
    LocalPlain,
}

impl ClientRoute {
    fn to(address: &str) -> Self {
        let Ok(url) = Url::parse(address) else { return Self::Network };
        match (is_loopback(&url), url.scheme() == "http") {
            (true, true) => Self::LocalPlain,
            (true, false) => Self::Local,
            (false, true) => Self::NetworkPlain,
            (false, false) => Self::Network,
        }
    }
}

impl HttpClients {
    pub(crate) fn for_address(&self, address: &str) -> Result<reqwest::Client, ModelFailure> {
        let client = match self.route(address) {
            ClientRoute::LocalPlain => self.local_plain.get_or_init(|| make(plain(builder()))),
            ClientRoute::Local => self.local.get_or_init(|| make(builder().no_proxy())),
            // A proxy may need certificates, so they are loaded if there are any.
            ClientRoute::NetworkPlain => self
                .network_plain
                .get_or_init(|| make(builder()).or_else(|_| make(builder().tls_certs_only([])))),
            ClientRoute::Network => self.network.get_or_init(|| make(builder())),
        };
        client.clone().map_err(|error| ModelFailure {
            kind: FailureKind::Unreachable,
            message: format!(
                "cannot create an HTTP client: {error}; check the proxy variables and the system's certificates"
            ),
        })
    }

    pub(crate) fn parsed(&self, address: &str) -> Result<Url, url::ParseError> {
        let mut parsed = self.parsed.lock();
        if let Some(url) = parsed.get(address) {
            return Ok(url.clone());
        }
        if parsed.len() >= ADDRESSES_MAX {
            parsed.clear();
        }
        let url = Url::parse(address)?;
        parsed.insert(address.to_owned(), url.clone());
        Ok(url)
    }

    /// Records that the server at `url` answered.
    pub(crate) fn add_answered(&self, url: &Url) {
        let mut answered = self.answered.lock();
        if answered.len() >= ADDRESSES_MAX {
            answered.clear();
        }
        answered.insert(url.origin().ascii_serialization());
    }

    /// Returns true if the server at `url` answered before, so that a request may reuse an idle connection.
    pub(crate) fn has_answered(&self, url: &Url) -> bool {
        self.answered.lock().contains(&url.origin().ascii_serialization())
    }

    fn route(&self, address: &str) -> ClientRoute {
        let mut known = self.known.lock();
        if let Some(route) = known.get(address) {
            return *route;
        }
        if known.len() >= ADDRESSES_MAX {
            known.clear();
        }
        let route = ClientRoute::to(address);
        known.insert(address.to_owned(), route);
        route
    }
}

fn builder() -> reqwest::ClientBuilder {
    // Fails only if the process already has a default provider, which serves as well.
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_CONNECTION_MAX)
        .tcp_nodelay(true)
        .user_agent(concat!("sysop/", env!("CARGO_PKG_VERSION")))
}

/// Configures a client for plain HTTP on this machine. Disables reqwest's retries, which only matter for HTTP/2, so
/// that reqwest does not copy each request.
fn plain(builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    let never = reqwest::retry::never().max_retries_per_request(0);
    builder.no_proxy().tls_certs_only([]).retry(never)
}

fn make(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, String> {
    builder.build().map_err(|error| causes(&error))
}

/// Returns the innermost cause of an error, without the URL and the number of a system error.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    let text = last.to_string();
    text.split_once(" (os error ").map_or_else(|| text.clone(), |(cause, _)| cause.to_owned())
}

/// Returns true if the host of a URL is this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_loopback_addresses() {
        for (address, local) in [
            ("http://127.0.0.1:1", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:8000/v1", true),
            ("http://localhost", true),
            ("http://a.localhost", true),
            ("http://192.168.1.2", false),
            ("http://localhost.example.org", false),
            ("http://127.0.0.1.example.org", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(address).unwrap()), local, "{address}");
        }
    }

    #[test]
    fn creates_each_client_once() {
        let clients = HttpClients::default();
        assert!(clients.for_address("http://127.0.0.1").is_ok());
        assert!(clients.local_plain.get().is_some());
        assert!(clients.local.get().is_none() && clients.network.get().is_none());
        assert!(clients.for_address("https://127.0.0.1").is_ok());
        assert!(clients.local.get().is_some());
    }
}
