//! URL of a server and the token for it.

use std::fmt;
use std::net::IpAddr;

use secrecy::SecretString;
use url::{Host, Url};

use crate::ClientError;
use crate::pinned::PinnedCertificate;

/// URL of a server and the token for it. `Debug` and [`ServerAddress::display_url`] hide the token.
#[derive(Clone)]
pub struct ServerAddress {
    base: Url,
    token: SecretString,
    certificate: Option<PinnedCertificate>,
}

impl ServerAddress {
    /// Parses a URL in the form that `sysop serve` prints. `token` is used if the URL has no `?token=`. Fails if the
    /// text is not the URL of a server, or if neither the URL nor `token` contains a token.
    pub fn parse(address: &str, token: Option<SecretString>) -> Result<Self, ClientError> {
        let bad = || {
            // The input may contain a token, so the error does not repeat it.
            let example = "http://127.0.0.1:8765/?token=…";
            ClientError::Address(format!("invalid server URL; use {example}"))
        };
        let written = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let written = match written.split_once("://") {
            Some(("ws", rest)) => format!("http://{rest}"),
            Some(("wss", rest)) => format!("https://{rest}"),
            Some(_) | None => written,
        };
        let mut base = Url::parse(&written).map_err(|_| bad())?;
        let usable = matches!(base.scheme(), "http" | "https") && base.has_host();
        if !usable || !base.username().is_empty() || base.password().is_some() {
            return Err(bad());
        }
        let in_url =
            base.query_pairs().find(|(name, _)| name == "token").map(|(_, value)| value.into_owned());
        let in_url = in_url.filter(|token| !token.is_empty()).map(SecretString::from);
        base.set_query(None);
        base.set_fragment(None);
        let token = in_url.or(token).ok_or(ClientError::NoToken)?;
        Ok(Self { base, token, certificate: None })
    }

    /// Accepts only this certificate from the server, whatever name the certificate is for.
    #[must_use]
    pub fn with_certificate(mut self, certificate: PinnedCertificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    pub fn display_url(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    /// Returns the host, with the port unless it is the scheme's default.
    pub(crate) fn authority(&self) -> &str {
        self.base.authority()
    }

    /// Returns true if others on the network can read the traffic, because it is plain HTTP to another machine.
    pub fn is_plain(&self) -> bool {
        self.base.scheme() == "http" && !self.is_here()
    }

    pub(crate) fn is_here(&self) -> bool {
        match self.base.host() {
            Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
            Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            None => false,
        }
    }

    pub(crate) fn certificate(&self) -> Option<&PinnedCertificate> {
        self.certificate.as_ref()
    }

    pub(crate) fn is_http(&self) -> bool {
        self.base.scheme() == "http"
    }

    pub(crate) fn token(&self) -> &SecretString {
        &self.token
    }

    /// Returns the URL of a resource. Each part becomes one percent-encoded path segment.
    pub(crate) fn at(&self, parts: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }
}

impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.display_url()).finish()
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn parse(address: &str) -> Result<ServerAddress, ClientError> {
        ServerAddress::parse(address, None)
    }

    #[test]
    fn accepts_the_line_that_serve_prints_and_hides_its_token() {
        let server = parse("http://127.0.0.1:8765/?token=sysop_abc").unwrap();
        assert_eq!(server.display_url(), "http://127.0.0.1:8765");
        assert_eq!(server.token().expose_secret(), "sysop_abc");
        assert!(!format!("{server:?}").contains("abc"));
        assert!(server.is_here() && !server.is_plain());
        let other =
            ServerAddress::parse("wss://ops.example.org/sysop/", Some("t".to_owned().into())).unwrap();
        assert_eq!(other.at(&["api", "a/../b"]).as_str(), "https://ops.example.org/sysop/api/a%2F..%2Fb");
        assert!(!other.is_plain());
        assert!(ServerAddress::parse("10.0.0.1:80", Some("t".to_owned().into())).unwrap().is_plain());
    }

    #[test]
    fn an_invalid_address_is_rejected_without_printing_its_token() {
        for bad in ["", "ftp://x/?token=hush", "http://", "http://me:hush@host/?token=hush", "file:///x"] {
            let error = ServerAddress::parse(bad, Some("t".to_owned().into())).unwrap_err();
            assert!(matches!(error, ClientError::Address(_)), "{bad}: {error:?}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
        assert_eq!(parse("http://127.0.0.1:1").unwrap_err(), ClientError::NoToken);
        assert_eq!(parse("http://127.0.0.1:1/?token=").unwrap_err(), ClientError::NoToken);
    }
}
