//! Reads `OLLAMA_HOST` as Ollama itself does (`envconfig/config.go`), from the client's side.

/// A value of `OLLAMA_HOST` or of `base_url` that names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an Ollama address, for example `127.0.0.1:11434` or `https://host/path`")]
pub struct BadOllamaHost(pub String);

const PORT: u16 = 11_434;

/// The base URL that a value of `OLLAMA_HOST` means: `host`, `host:port`, `:port`, `http(s)://host[:port][/path]`.
///
/// Without a scheme it is http on port 11434; `http://` alone means port 80, `https://` 443. Nothing is
/// `127.0.0.1:11434`. An address to listen on (`0.0.0.0`, `[::]`) becomes this machine's own. A port that is no
/// number is replaced by the default, as Ollama does. There is no slash at the end.
///
/// # Errors
/// Where it names no host that a URL could have.
pub fn ollama_base_url(text: &str) -> Result<String, BadOllamaHost> {
    // What stands before an `@` may be a password.
    let shown = text.rsplit('@').next().unwrap_or_default();
    let bad = || BadOllamaHost(shown.chars().filter(|c| !c.is_control()).take(100).collect());
    if text.contains('@') {
        return Err(bad());
    }
    let trimmed = text.trim().trim_matches(['"', '\'']).trim();
    let (scheme, rest, default_port) = match trimmed.split_once("://") {
        None if trimmed == "ollama.com" => ("https", trimmed, 443),
        None => ("http", trimmed, PORT),
        Some(("http", rest)) => ("http", rest, 80),
        Some(("https", rest)) => ("https", rest, 443),
        Some(_) => return Err(bad()),
    };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, path.trim_end_matches('/')),
        None => (rest, ""),
    };
    let (host, port) = split_port(authority, default_port);
    let host = match host {
        "" | "0.0.0.0" => "127.0.0.1".to_owned(),
        "::" => "[::1]".to_owned(),
        address if address.contains(':') => format!("[{address}]"),
        name => name.to_owned(),
    };
    let slash = if path.is_empty() { "" } else { "/" };
    let url = format!("{scheme}://{host}:{port}{slash}{path}");
    match url::Url::parse(&url) {
        Ok(_) => Ok(url),
        Err(_) => Err(bad()),
    }
}

/// Splits `host:port`, `[v6]:port`, `[v6]`, a bare v6 address, or a host alone.
fn split_port(authority: &str, default: u16) -> (&str, u16) {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']').unwrap_or((rest, ""));
        return (host, port.strip_prefix(':').and_then(|port| port.parse().ok()).unwrap_or(default));
    }
    match authority.rsplit_once(':') {
        Some((host, _)) if host.contains(':') => (authority, default),
        Some((host, port)) => (host, port.parse().unwrap_or(default)),
        None => (authority, default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_ollama_host() {
        let cases = [
            ("", "http://127.0.0.1:11434"),
            ("  ", "http://127.0.0.1:11434"),
            ("example.com", "http://example.com:11434"),
            ("example.com:1234", "http://example.com:1234"),
            (":1234", "http://127.0.0.1:1234"),
            ("http://example.com", "http://example.com:80"),
            ("https://example.com", "https://example.com:443"),
            ("https://example.com:8443/ollama/", "https://example.com:8443/ollama"),
            ("example.com/ollama", "http://example.com:11434/ollama"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("[::1]", "http://[::1]:11434"),
            ("::1", "http://[::1]:11434"),
            ("[::1]:1337", "http://[::1]:1337"),
            ("[::]:1337", "http://[::1]:1337"),
            ("example.com:notaport", "http://example.com:11434"),
            ("example.com:70000", "http://example.com:11434"),
            ("http://example.com:notaport", "http://example.com:80"),
            ("\"example.com:1\"", "http://example.com:1"),
            ("ollama.com", "https://ollama.com:443"),
        ];
        for (text, wanted) in cases {
            assert_eq!(ollama_base_url(text).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_said_so() {
        for text in ["ftp://example.com", "unix:///run/ollama.sock", "user:secret@host", "a b"] {
            let error = ollama_base_url(text).expect_err(text);
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
