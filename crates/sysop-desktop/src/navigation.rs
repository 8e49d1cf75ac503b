//! Navigation policy of the window: only its own server's pages. Other URLs open in the user's browser.

use url::{Origin, Url};

/// URL of the link that restarts the server, on the page shown after the server has exited. It is never
/// loaded as a page.
pub(crate) const AGAIN: &str = "sysop:again";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NavigationDecision {
    /// Navigate in the window.
    Allow,
    OpenInBrowser(Url),
    RestartServer,
    /// Ignore the request.
    Deny,
}

/// Decides how to handle a navigation. `own` is the origin of the window's server, or `None` while unknown.
pub(crate) fn decide(address: &str, own: Option<&Origin>) -> NavigationDecision {
    if address == AGAIN {
        return NavigationDecision::RestartServer;
    }
    let Ok(url) = Url::parse(address) else { return NavigationDecision::Deny };
    match url.scheme() {
        // Address of the pages that this program shows itself.
        "about" if url.path() == "blank" => NavigationDecision::Allow,
        "http" | "https" if own.is_some_and(|own| url.origin() == *own) => NavigationDecision::Allow,
        // Other origins, even on this machine, never load here. A URL with a user name disguises its host.
        "http" | "https" if url.username().is_empty() && url.password().is_none() => {
            NavigationDecision::OpenInBrowser(url)
        }
        _ => NavigationDecision::Deny,
    }
}

/// Decides how to handle a request to open a URL in another window. No other window is ever opened.
pub(crate) fn decide_new_window(address: &str, own: Option<&Origin>) -> NavigationDecision {
    match decide(address, own) {
        outside @ NavigationDecision::OpenInBrowser(_) => outside,
        NavigationDecision::Allow | NavigationDecision::RestartServer | NavigationDecision::Deny => {
            NavigationDecision::Deny
        }
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::{AGAIN, NavigationDecision, decide, decide_new_window};

    #[test]
    fn the_window_stays_with_its_own_server() {
        let own = Url::parse("http://127.0.0.1:4000/?token=x").unwrap().origin();
        let of = |address: &str| decide(address, Some(&own));
        for address in ["http://127.0.0.1:4000/", "http://127.0.0.1:4000/a#session=1", "about:blank"] {
            assert_eq!(of(address), NavigationDecision::Allow, "{address}");
        }
        for address in ["https://example.org/a?b", "http://127.0.0.1:4001/", "http://localhost:4000/"] {
            assert_eq!(
                of(address),
                NavigationDecision::OpenInBrowser(Url::parse(address).unwrap()),
                "{address}"
            );
            assert_eq!(decide_new_window(address, Some(&own)), of(address), "{address}");
        }
        let refused = [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:text/html,x",
            "blob:http://127.0.0.1:4000/1",
            "ftp://example.org/",
            "https://127.0.0.1:4000@example.org/",
            "mailto:a@example.org",
            "about:srcdoc",
            "-x",
            "",
        ];
        for address in refused {
            assert_eq!(of(address), NavigationDecision::Deny, "{address}");
        }
        assert_eq!(
            decide_new_window("http://127.0.0.1:4000/", Some(&own)),
            NavigationDecision::Deny,
            "one window"
        );
        assert_eq!(of(AGAIN), NavigationDecision::RestartServer);
        assert_eq!(
            decide("http://127.0.0.1:4000/", None),
            NavigationDecision::OpenInBrowser("http://127.0.0.1:4000/".parse().unwrap())
        );
    }
}
