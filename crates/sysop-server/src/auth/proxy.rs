//! Client addresses behind a reverse proxy. `X-Forwarded-*` headers are trusted only if a known proxy sent them.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use ipnet::IpNet;

use super::origin::Scheme;

/// Maximum number of `X-Forwarded-For` entries to evaluate.
const HOPS_MAX: usize = 16;

/// Error: the text is neither an address nor a network in CIDR notation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use an address, or a network such as 10.0.0.0/8")]
pub struct BadNetwork;

#[derive(Debug, Clone, Default)]
pub struct Proxies(Vec<IpNet>);

/// Client address and scheme, taken from proxy headers only if the proxy is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientAddress {
    pub(crate) address: IpAddr,
    /// Scheme between client and proxy; `None` if there is no trusted proxy, or it does not send the scheme.
    pub(super) scheme: Option<Scheme>,
}

impl Proxies {
    /// Parses the trusted proxies: addresses, or networks like `10.0.0.0/8`.
    pub fn new<'a>(networks: impl IntoIterator<Item = &'a str>) -> Result<Self, BadNetwork> {
        let network = |text: &str| text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        networks
            .into_iter()
            .map(|text| network(text).map_err(|_| BadNetwork))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn here() -> Self {
        Self::new(["127.0.0.0/8", "::1"]).expect("the networks are valid")
    }

    fn believes(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the address and scheme of the client. The address is the nearest one that is not a trusted proxy,
    /// because the client could forge entries beyond it.
    pub(crate) fn client_address(&self, peer: SocketAddr, headers: &HeaderMap) -> ClientAddress {
        let peer = peer.ip();
        if !self.believes(peer) {
            return ClientAddress { address: peer, scheme: None };
        }
        let lines: Vec<_> =
            headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok()).collect();
        let hops = lines.iter().rev().flat_map(|line| line.rsplit(','));
        let mut address = peer;
        for hop in hops.take(HOPS_MAX) {
            let Some(hop) = hop_address(hop.trim()) else { break };
            address = hop;
            if !self.believes(hop) {
                break;
            }
        }
        let proto =
            headers.get_all("x-forwarded-proto").iter().next_back().and_then(|line| line.to_str().ok());
        let scheme = match proto.and_then(|line| line.rsplit(',').next()).map(str::trim) {
            Some("https" | "wss") => Some(Scheme::Https),
            Some("http" | "ws") => Some(Scheme::Http),
            Some(_) | None => None,
        };
        ClientAddress { address, scheme }
    }
}

/// Parses an entry of `X-Forwarded-For`; some proxies append a port.
fn hop_address(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::{ClientAddress, HeaderMap, Proxies, Scheme};

    #[test]
    fn a_proxy_is_trusted_by_address_or_network() {
        for (network, address, has) in [
            ("10.0.0.0/8", "10.200.3.4", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("192.0.2.7", "::ffff:192.0.2.7", true),
            ("fd00::/8", "fdff::1", true),
            ("::/0", "192.0.2.7", false),
            ("::1", "::1", true),
            ("::1", "::2", false),
        ] {
            let proxies = Proxies::new([network]).unwrap();
            assert_eq!(proxies.believes(address.parse().unwrap()), has, "{network} {address}");
        }
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0", "10.0.0.0/", "a", "10.0.0.0/-1"] {
            assert!(Proxies::new([text]).is_err(), "{text}");
        }
    }

    #[test]
    fn only_a_trusted_proxy_may_name_its_direct_peer() {
        let proxies = Proxies::new(["10.0.0.0/8"]).unwrap();
        let far = |peer: &str, forwarded: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in forwarded {
                headers.append(*name, value.parse().unwrap());
            }
            let ClientAddress { address, scheme } = proxies.client_address(peer.parse().unwrap(), &headers);
            (address.to_string(), scheme)
        };
        let lie = ("x-forwarded-for", "203.0.113.1");
        let https = ("x-forwarded-proto", "https");
        assert_eq!(far("192.0.2.1:5", &[lie, https]), ("192.0.2.1".to_owned(), None));
        assert_eq!(far("10.0.0.1:5", &[lie, https]), ("203.0.113.1".to_owned(), Some(Scheme::Https)));
        assert_eq!(far("10.0.0.1:5", &[]), ("10.0.0.1".to_owned(), None));
        let chain = ("x-forwarded-for", "1.2.3.4, 203.0.113.1, 10.0.0.2");
        assert_eq!(
            far("10.0.0.1:5", &[chain]).0,
            "203.0.113.1",
            "addresses beyond the trusted proxy may be forged"
        );
        assert_eq!(far("10.0.0.1:5", &[("x-forwarded-for", "1.2.3.4"), lie]).0, "203.0.113.1");
        assert_eq!(far("10.0.0.1:5", &[("x-forwarded-for", "evil, 10.0.0.2")]).0, "10.0.0.2");
        assert_eq!(far("10.0.0.1:5", &[("x-forwarded-for", "203.0.113.1:4711")]).0, "203.0.113.1");
    }
}
