//! Parses `OLLAMA_HOST` as Ollama's own client does.
//!
//! Source: ollama v0.33.0-rc2, `envconfig/config.go`.

use std::net::Ipv6Addr;

use sysop_core::model_provider::OLLAMA;
use url::{Host, Url};

/// Port for an address that has neither a scheme nor a port.
const PORT: u16 = 11434;

/// Returns the base URL for a value of `OLLAMA_HOST` (or `base_url`), without a trailing slash.
///
/// An address without a scheme, such as `host`, `host:port` or `[::1]:port`, gets `http` and, if it names no port, port
/// 11434. An address with a scheme defaults to the scheme's own port. A listen address (`0.0.0.0`, `::`) becomes a
/// loopback address. An empty value means the default address. The error is one sentence that names the problem.
pub fn ollama_base_url(host: &str) -> Result<String, String> {
    let host = host.trim().trim_matches(['"', '\'']).trim();
    if host.is_empty() {
        return Ok(OLLAMA.base_url.to_owned());
    }
    let has_scheme = host.contains("://");
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let written = if has_scheme {
        host.to_owned()
    } else if bare.parse::<Ipv6Addr>().is_ok() {
        format!("http://[{bare}]")
    } else if host.starts_with(':') {
        format!("http://127.0.0.1{host}")
    } else {
        format!("http://{host}")
    };
    let wrong = |why: &str| {
        format!("invalid Ollama address `{}` ({why}); use a form like 127.0.0.1:11434", without_login(host))
    };
    let mut url = Url::parse(&written).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("only http and https are supported"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("a query is not allowed"));
    }
    if !has_scheme && url.host_str() == Some("ollama.com") {
        url.set_scheme("https").map_err(|()| wrong("the host is missing"))?;
    } else if !has_scheme && !names_port(&written) {
        url.set_port(Some(PORT)).map_err(|()| wrong("the host is missing"))?;
    }
    let unspecified = match url.host() {
        Some(Host::Ipv4(address)) if address.is_unspecified() => Some("127.0.0.1"),
        Some(Host::Ipv6(address)) if address.is_unspecified() => Some("[::1]"),
        Some(Host::Ipv4(_) | Host::Ipv6(_) | Host::Domain(_)) => None,
        None => return Err(wrong("the host is missing")),
    };
    if let Some(address) = unspecified {
        url.set_host(Some(address)).map_err(|error| wrong(&error.to_string()))?;
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Returns true if the address names a port, even if that is the scheme's default port.
fn names_port(address: &str) -> bool {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let behind_host = authority.rsplit_once(']').map_or(authority, |(_, behind)| behind);
    behind_host.contains(':')
}

/// Strips the user name and password before `@`, for display.
fn without_login(address: &str) -> &str {
    address.rsplit_once('@').map_or(address, |(_, behind)| behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_form_of_ollama_host() {
        for (host, base) in [
            ("", "http://127.0.0.1:11434"),
            (" \"10.0.0.7\" ", "http://10.0.0.7:11434"),
            ("box", "http://box:11434"),
            ("box:80", "http://box"),
            ("box:8080/ollama/", "http://box:8080/ollama"),
            ("box/ollama", "http://box:11434/ollama"),
            (":9999", "http://127.0.0.1:9999"),
            ("http://box", "http://box"),
            ("http://box:11434/", "http://box:11434"),
            ("https://box", "https://box"),
            ("https://box/path", "https://box/path"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:8000", "http://127.0.0.1:8000"),
            ("http://0.0.0.0:8000", "http://127.0.0.1:8000"),
            ("::1", "http://[::1]:11434"),
            ("[::]", "http://[::1]:11434"),
            ("[::1]:9000", "http://[::1]:9000"),
            ("ollama.com", "https://ollama.com"),
        ] {
            assert_eq!(ollama_base_url(host).as_deref(), Ok(base), "{host}");
        }
    }

    #[test]
    fn rejects_invalid_addresses_with_a_reason() {
        for host in ["box:port", "box:99999", "ftp://box", "a b", "http://", "http://box?x=1"] {
            let problem = ollama_base_url(host).unwrap_err();
            assert!(problem.contains("use a form like 127.0.0.1:11434"), "{host}: {problem}");
        }
        assert!(!ollama_base_url("http://me:secret@box:x").unwrap_err().contains("secret"));
    }
}
