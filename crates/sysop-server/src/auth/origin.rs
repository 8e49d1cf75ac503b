//! Checks `Host` and `Origin`: the names that a server answers to, and the origins that may call it.
//!
//! Only known names are accepted, even on a loopback address. Otherwise, any DNS name could be rebound to the
//! server's IP address, and the browser would treat an attacker's page as same-origin.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::request::Parts;
use axum::http::{HeaderValue, Version, header};

use super::responses::AuthError;

/// A host with an optional port, as in `Host` headers and URLs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Authority {
    /// Lowercase; an IPv6 address is in brackets.
    host: String,
    port: Option<u16>,
}

impl Authority {
    pub fn with_port(&self, port: u16) -> String {
        format!("{}:{}", self.host, self.port.unwrap_or(port))
    }

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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginParseError {
    /// Not `NAME` or `NAME:PORT`.
    #[error("use NAME or NAME:PORT")]
    Authority,
    /// Not `http://NAME` or `https://NAME`.
    #[error("use http://NAME or https://NAME, with :PORT for a non-default port")]
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

/// Scheme that the client used. Behind a proxy, this is the scheme between the client and the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Scheme {
    Http,
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

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    scheme: Scheme,
    authority: Authority,
}

impl Origin {
    /// Returns true if this is the origin of pages served from `host`.
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

/// Hosts that the server answers to, and other origins that may call it.
#[derive(Debug, Clone)]
pub struct HostPolicy {
    hosts: Vec<Authority>,
    /// Port of the listener. A configured name without a port matches this port, a default port, or none.
    port: u16,
    origins: Vec<Origin>,
}

impl HostPolicy {
    /// Creates the policy. It also accepts the address of the listener, unless that is a wildcard address. For a
    /// loopback or wildcard address, it also accepts the loopback names.
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

    pub(super) fn allows_host(&self, scheme: Scheme, host: &Authority) -> bool {
        self.hosts.iter().any(|known| {
            known.host == host.host
                && match known.port {
                    Some(port) => host.port_or_usual(scheme) == port,
                    None => host.port.is_none_or(|port| [80, 443, self.port].contains(&port)),
                }
        })
    }

    /// Returns true if the operator allowed cross-origin requests from this origin.
    pub(super) fn allows_origin(&self, origin: &Origin) -> bool {
        self.origins.contains(origin)
    }
}

/// Listen address of a server, and the encryption of its connections.
#[derive(Debug, Clone)]
pub struct Exposure {
    pub listen: SocketAddr,
    /// True if the server itself speaks TLS.
    pub tls: bool,
    /// True if a proxy in front speaks TLS.
    pub behind_proxy: bool,
}

/// Error: the server would accept unencrypted connections from other machines. `Display` tells the user what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is reachable from other machines, and tokens would cross the network unencrypted; set --tls-cert and --tls-key, \
     or --behind-proxy behind a TLS proxy, or listen on 127.0.0.1"
)]
pub struct UnprotectedListenError(SocketAddr);

impl Exposure {
    /// Refuses a listener that would send tokens over a network in the clear. Fails if other machines can reach the
    /// listener, and neither the server nor a proxy speaks TLS.
    pub fn check(&self) -> Result<(), UnprotectedListenError> {
        let here = self.listen.ip().to_canonical().is_loopback();
        if here || self.tls || self.behind_proxy { Ok(()) } else { Err(UnprotectedListenError(self.listen)) }
    }
}

/// Host and origin of a request, from its headers.
pub(super) struct RequestingPage {
    pub(super) host: Authority,
    /// True if the request's origin is the server itself.
    pub(super) is_same_origin: bool,
    pub(super) has_origin_header: bool,
}

/// Checks the `Host` and `Origin` of a request. Fails with [`AuthError::Host`] if the server does not answer to that
/// host, and with `AuthError::Origin` if the request is cross-origin and its origin is not allowed.
pub(super) fn check_origin(
    policy: &HostPolicy,
    scheme: Scheme,
    request: &Parts,
) -> Result<RequestingPage, AuthError> {
    let host = host_of(request).ok_or(AuthError::Host(None))?;
    if !policy.allows_host(scheme, &host) {
        return Err(AuthError::Host(Some(host)));
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
    // `Sec-Fetch-Site` covers cross-origin requests without `Origin`, such as those for images and scripts.
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

/// Returns the host that a request names, or `None` if the host is missing, malformed or ambiguous.
fn host_of(request: &Parts) -> Option<Authority> {
    let mut hosts = request.headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(host.to_str().ok()?.parse::<Authority>().ok()?),
        (None, _) => None,
        (Some(_), Some(_)) => return None,
    };
    // A target in absolute form (`GET http://name/`) contains a name as well, and so does every HTTP/2 request.
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
    use super::{Authority, Exposure, HostPolicy, Origin, Scheme, check_origin};

    fn authority(text: &str) -> Authority {
        text.parse().unwrap()
    }

    #[test]
    fn an_authority_is_a_name_with_an_optional_port() {
        for (text, shown) in [
            ("LocalHost:80", "localhost:80"),
            ("[::1]:8765", "[::1]:8765"),
            ("[0:0::1]", "[::1]"),
            ("a-b.c_d", "a-b.c_d"),
        ] {
            assert_eq!(authority(text).to_string(), shown);
        }
        for text in [
            "", ":80", "a:", "a:x", "a:99999", "a:+1", "user@a", "a b", "a/b", "localhost:8765@evil", "[::1",
            "[::1]8", "[a]", "ä", "a:1:2", "a,b", "a%00",
        ] {
            assert!(text.parse::<Authority>().is_err(), "{text}");
        }
    }

    #[test]
    fn origins_are_equal_only_with_scheme_name_and_port() {
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
    fn a_server_accepts_its_own_and_allowed_host_names() {
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

    fn refusal(host: &str) -> String {
        let host_policy = HostPolicy::new("127.0.0.1:8765".parse().unwrap(), vec![], vec![]);
        let request = axum::http::Request::builder().uri("/").header("host", host).body(()).unwrap();
        let refused = check_origin(&host_policy, Scheme::Http, &request.into_parts().0);
        let error = refused.err().expect("the name is not allowed");
        let (status, code, text) = error.describe();
        assert_eq!((status.as_u16(), code), (403, "forbidden_host"));
        text.into_owned()
    }

    #[test]
    fn a_refused_host_name_is_named_with_its_port_and_allowed_by_the_option_in_the_message() {
        assert_eq!(
            refusal("127.0.0.1:9000"),
            "this server does not accept requests for 127.0.0.1:9000; start it with --allow-host 127.0.0.1:9000 to \
             allow them"
        );
        let allowed =
            HostPolicy::new("127.0.0.1:8765".parse().unwrap(), vec![authority("127.0.0.1:9000")], vec![]);
        assert!(allowed.allows_host(Scheme::Http, &authority("127.0.0.1:9000")));
        for unnamed in ["a b", &"x".repeat(10_000)] {
            let text = refusal(unnamed);
            assert!(text.starts_with("this server does not accept that host name; "), "{text}");
        }
    }

    #[test]
    fn listening_beyond_loopback_needs_tls_or_a_proxy() {
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
