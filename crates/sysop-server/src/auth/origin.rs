//! The names by which a server answers, and the pages that may call it: `Host`, `Origin`, and what they are compared with.
//!
//! An address of ours in the browser's address bar proves nothing about who sent the page (a name can be made to point
//! here), so only names that are known are answered.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::request::Parts;
use axum::http::{HeaderValue, Version, header};

use super::responses::AuthError;

/// A host and perhaps a port, as in `Host` and in addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Authority {
    /// In lower case; an IPv6 address stands in brackets.
    host: String,
    port: Option<u16>,
}

impl Authority {
    /// The name with its port, or with this one where it has none.
    pub fn with_port(&self, port: u16) -> String {
        format!("{}:{}", self.host, self.port.unwrap_or(port))
    }

    /// The port that it says, or the usual one of its scheme.
    pub(super) fn port_or_usual(&self, scheme: Scheme) -> u16 {
        self.port.unwrap_or(match scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        })
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

impl From<SocketAddr> for Authority {
    fn from(address: SocketAddr) -> Self {
        Self { host: bracketed(address.ip()), port: Some(address.port()) }
    }
}

fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// A text that is no name of a server or of a page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginParseError {
    /// It is no HOST or HOST:PORT.
    #[error("write it as NAME or NAME:PORT")]
    Authority,
    /// It is no origin.
    #[error("write it as http://NAME or https://NAME, with :PORT where it is not the usual one")]
    Origin,
}

impl FromStr for Authority {
    type Err = OriginParseError;

    fn from_str(text: &str) -> Result<Self, OriginParseError> {
        let bad = OriginParseError::Authority;
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (address, after) = rest.split_once(']').ok_or(bad.clone())?;
            let address: std::net::Ipv6Addr = address.parse().map_err(|_| bad.clone())?;
            let port =
                if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or(bad.clone())?) };
            (bracketed(address.into()), port)
        } else {
            let (host, port) = match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
            let plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
            if host.is_empty() || !plain {
                return Err(bad);
            }
            (host.to_ascii_lowercase(), port)
        };
        let digits = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = match port {
            Some(port) if digits(port) => Some(port.parse().map_err(|_| bad)?),
            Some(_) => return Err(bad),
            None => None,
        };
        Ok(Self { host, port })
    }
}

/// How an address is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Scheme {
    /// In the clear.
    Http,
    /// By TLS.
    Https,
}

impl Scheme {
    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Where a page comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    scheme: Scheme,
    authority: Authority,
}

impl Origin {
    /// Whether a page from here was served under this name.
    pub(super) fn is(&self, scheme: Scheme, host: &Authority) -> bool {
        self.scheme == scheme
            && self.authority.host == host.host
            && self.authority.port_or_usual(scheme) == host.port_or_usual(scheme)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.authority)
    }
}

impl FromStr for Origin {
    type Err = OriginParseError;

    fn from_str(text: &str) -> Result<Self, OriginParseError> {
        let (scheme, rest) = text.split_once("://").ok_or(OriginParseError::Origin)?;
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(OriginParseError::Origin),
        };
        let authority = rest.parse().map_err(|_| OriginParseError::Origin)?;
        Ok(Self { scheme, authority })
    }
}

/// The names that a server answers to and the pages that may call it.
#[derive(Debug, Clone)]
pub struct HostPolicy {
    hosts: Vec<Authority>,
    /// Names without a port go with this one, or with none.
    port: u16,
    origins: Vec<Origin>,
}

impl HostPolicy {
    /// A server that listens here is always called by its address; on this machine also by the names that every machine
    /// has for itself.
    pub fn new(listens: SocketAddr, hosts: Vec<Authority>, origins: Vec<Origin>) -> Self {
        let port = listens.port();
        let mut own = vec![];
        if !listens.ip().is_unspecified() {
            own.push(Authority::from(listens));
        }
        if listens.ip().is_loopback() || listens.ip().is_unspecified() {
            let names = ["127.0.0.1", "[::1]", "localhost"];
            own.extend(names.map(|host| Authority { host: host.to_owned(), port: Some(port) }));
        }
        own.extend(hosts);
        Self { hosts: own, port, origins }
    }

    /// Whether the server answers to this name.
    pub(super) fn allows_host(&self, scheme: Scheme, host: &Authority) -> bool {
        self.hosts.iter().any(|known| {
            known.host == host.host
                && match known.port {
                    Some(port) => host.port_or_usual(scheme) == port,
                    None => host.port.is_none_or(|port| [80, 443, self.port].contains(&port)),
                }
        })
    }

    /// Whether pages from elsewhere may call.
    pub(super) fn allows_origin(&self, origin: &Origin) -> bool {
        self.origins.contains(origin)
    }
}

/// How far a server can be reached, and how what it says is protected on the way.
#[derive(Debug, Clone)]
pub struct Exposure {
    /// Where it listens.
    pub listen: SocketAddr,
    /// It speaks TLS itself.
    pub tls: bool,
    /// Something in front of it speaks TLS.
    pub behind_proxy: bool,
}

/// A server would be open to a network without protection. `Display` is the sentence for the person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} can be reached from other machines, and tokens would cross the network in the clear; give --tls-cert and \
     --tls-key, or --behind-proxy if a proxy with TLS stands in front, or listen on 127.0.0.1"
)]
pub struct UnprotectedListenError(SocketAddr);

impl Exposure {
    /// Refuses what must not be served.
    ///
    /// # Errors
    /// When others could reach it, and read along.
    pub fn check(&self) -> Result<(), UnprotectedListenError> {
        let here = self.listen.ip().to_canonical().is_loopback();
        if here || self.tls || self.behind_proxy { Ok(()) } else { Err(UnprotectedListenError(self.listen)) }
    }
}

/// The page that a request comes from, as far as its headers tell.
pub(super) struct RequestingPage {
    /// The name by which the server was called.
    pub(super) host: Authority,
    /// The page is the server's own.
    pub(super) is_same_origin: bool,
    pub(super) has_origin_header: bool,
}

/// Checks the name by which the server was called, and the page that calls.
///
/// # Errors
/// `AuthError::Host` if the server does not answer by that name; `AuthError::Origin` if a page from elsewhere calls.
pub(super) fn check_origin(
    policy: &HostPolicy,
    scheme: Scheme,
    request: &Parts,
) -> Result<RequestingPage, AuthError> {
    let host = host_of(request).ok_or(AuthError::Host)?;
    if !policy.allows_host(scheme, &host) {
        return Err(AuthError::Host);
    }
    let mut origins = request.headers.get_all(header::ORIGIN).iter();
    let origin = match (origins.next(), origins.next()) {
        (None, _) => None,
        (Some(origin), None) => {
            let origin = origin.to_str().ok().and_then(|text| text.parse::<Origin>().ok());
            Some(origin.ok_or(AuthError::Origin)?) // `null` does not parse either
        }
        (Some(_), Some(_)) => return Err(AuthError::Origin),
    };
    let own = origin.as_ref().is_some_and(|origin| origin.is(scheme, &host));
    let allowed = origin.as_ref().is_some_and(|origin| policy.allows_origin(origin));
    if origin.is_some() && !own && !allowed {
        return Err(AuthError::Origin);
    }
    // Tells of requests without an `Origin` where they come from: pages elsewhere may load pictures and scripts from here.
    let site = request.headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    match site {
        Some(b"cross-site" | b"same-site") if !allowed => return Err(AuthError::Origin),
        Some(_) | None => {}
    }
    Ok(RequestingPage {
        host,
        is_same_origin: own || site == Some(b"same-origin"),
        has_origin_header: origin.is_some(),
    })
}

/// The one name by which the server was called, or `None` unless there is exactly one.
fn host_of(request: &Parts) -> Option<Authority> {
    let mut hosts = request.headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(host.to_str().ok()?.parse::<Authority>().ok()?),
        (None, _) => None,
        (Some(_), Some(_)) => return None,
    };
    // A target like `GET http://name/` has a name of its own, and so has every request of HTTP/2.
    let target = match request.uri.authority() {
        Some(authority) => Some(authority.as_str().parse::<Authority>().ok()?),
        None => None,
    };
    match (host, target) {
        (Some(host), Some(target)) => (host == target).then_some(host),
        (Some(host), None) => Some(host),
        (None, target) if request.version >= Version::HTTP_2 => target,
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Authority, Exposure, HostPolicy, Origin, Scheme};

    fn authority(text: &str) -> Authority {
        text.parse().unwrap()
    }

    #[test]
    fn an_authority_is_a_plain_name_and_perhaps_a_port() {
        for (text, shown) in [
            ("LocalHost:80", "localhost:80"),
            ("[::1]:8765", "[::1]:8765"),
            ("[0:0::1]", "[::1]"),
            ("a-b.c_d", "a-b.c_d"),
        ] {
            assert_eq!(authority(text).to_string(), shown);
        }
        for text in [
            "",
            ":80",
            "a:",
            "a:x",
            "a:99999",
            "a:+1",
            "user@a",
            "a b",
            "a/b",
            "localhost:8765@evil",
            "[::1",
            "[::1]8",
            "[a]",
            "ä",
            "a:1:2",
            "a,b",
            "a%00",
        ] {
            assert!(text.parse::<Authority>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_origin_is_the_same_only_with_scheme_name_and_port() {
        let host = authority("localhost:8765");
        for (text, same) in [
            ("http://localhost:8765", true),
            ("http://LOCALHOST:8765", true),
            ("https://localhost:8765", false),
            ("http://localhost:8766", false),
            ("http://localhost", false),
            ("http://127.0.0.1:8765", false),
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().is(Scheme::Http, &host), same, "{text}");
        }
        assert!(
            "https://a.example".parse::<Origin>().unwrap().is(Scheme::Https, &authority("a.example:443"))
        );
        for text in ["null", "", "http:", "http://", "file://x/y", "http://a/b", "http://u@a", "*"] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_server_answers_to_its_own_names_and_those_that_were_allowed() {
        let allowed = vec![authority("ops.example"), authority("other.example:9000")];
        let host_policy = HostPolicy::new("127.0.0.1:8765".parse().unwrap(), allowed.clone(), vec![]);
        for (host, answers) in [
            ("127.0.0.1:8765", true),
            ("localhost:8765", true),
            ("[::1]:8765", true),
            ("127.0.0.1:8766", false),
            ("127.0.0.1", false),
            ("0.0.0.0:8765", false),
            ("127.0.0.1.nip.io:8765", false),
            ("localhost.evil.com:8765", false),
            ("evil.example:8765", false),
            ("ops.example", true),
            ("ops.example:8765", true),
            ("ops.example:1", false),
            ("other.example:9000", true),
            ("other.example", false),
        ] {
            assert_eq!(host_policy.allows_host(Scheme::Http, &authority(host)), answers, "{host}");
        }
        let host_policy = HostPolicy::new("0.0.0.0:8765".parse().unwrap(), allowed, vec![]);
        assert!(
            host_policy.allows_host(Scheme::Http, &authority("127.0.0.1:8765"))
                && host_policy.allows_host(Scheme::Http, &authority("ops.example"))
        );
        assert!(
            !host_policy.allows_host(Scheme::Http, &authority("0.0.0.0:8765"))
                && !host_policy.allows_host(Scheme::Http, &authority("192.0.2.1:8765"))
        );
        let host_policy = HostPolicy::new("192.0.2.1:80".parse().unwrap(), vec![], vec![]);
        assert!(
            host_policy.allows_host(Scheme::Http, &authority("192.0.2.1"))
                && !host_policy.allows_host(Scheme::Http, &authority("localhost"))
        );
    }

    #[test]
    fn beyond_this_machine_only_with_tls_or_a_proxy() {
        let check = |listen: &str, tls, behind_proxy| {
            Exposure { listen: listen.parse().unwrap(), tls, behind_proxy }.check().is_ok()
        };
        assert!(check("127.0.0.1:1", false, false) && check("[::1]:1", false, false));
        assert!(check("[::ffff:127.0.0.1]:1", false, false));
        assert!(!check("0.0.0.0:1", false, false) && !check("[::]:1", false, false));
        assert!(!check("192.168.1.2:1", false, false));
        assert!(check("0.0.0.0:1", true, false) && check("0.0.0.0:1", false, true));
    }
}
