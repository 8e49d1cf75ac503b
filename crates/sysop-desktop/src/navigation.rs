//! Where the window may go: only to pages of its own server. What else is on the web belongs in the person's browser.

use url::{Origin, Url};

/// The link by which the page that tells of an end starts the server again. It goes nowhere.
pub(crate) const AGAIN: &str = "sysop:again";

/// What becomes of a wish to go somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NavigationDecision {
    /// The window goes there.
    Allow,
    /// The person's browser does.
    OpenInBrowser(Url),
    /// The server is started again.
    RestartServer,
    /// Nobody does.
    Deny,
}

/// Rules on an address; `own` is where the window's server is, once it is known.
pub(crate) fn decide(address: &str, own: Option<&Origin>) -> NavigationDecision {
    if address == AGAIN {
        return NavigationDecision::RestartServer;
    }
    let Ok(url) = Url::parse(address) else { return NavigationDecision::Deny };
    match url.scheme() {
        // Where this program's own pages are.
        "about" if url.path() == "blank" => NavigationDecision::Allow,
        "http" | "https" if own.is_some_and(|own| url.origin() == *own) => NavigationDecision::Allow,
        // Nothing of the page is to reach other servers of this machine by a slip.
        "http" | "https" if url.username().is_empty() && url.password().is_none() => {
            NavigationDecision::OpenInBrowser(url)
        }
        _ => NavigationDecision::Deny,
    }
}

/// Rules on a wish for another window: there is this one.
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
