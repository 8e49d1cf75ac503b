//! Where the window may go: only to pages of its own server. What else is on the web belongs in the person's browser.

use url::{Origin, Url};

/// The link by which the page that tells of an end starts the server again. It goes nowhere.
pub(crate) const AGAIN: &str = "sysop:again";

/// What becomes of a wish to go somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// The window goes there.
    Here,
    /// The person's browser does.
    Outside(Url),
    /// The server is started again.
    Again,
    /// Nobody does.
    Refused,
}

/// Rules on an address; `own` is where the window's server is, once it is known.
pub(crate) fn rule(address: &str, own: Option<&Origin>) -> Ruling {
    if address == AGAIN {
        return Ruling::Again;
    }
    let Ok(url) = Url::parse(address) else { return Ruling::Refused };
    match url.scheme() {
        // Where this program's own pages are.
        "about" if url.path() == "blank" => Ruling::Here,
        "http" | "https" if own.is_some_and(|own| url.origin() == *own) => Ruling::Here,
        // Nothing of the page is to reach other servers of this machine by a slip.
        "http" | "https" if url.username().is_empty() && url.password().is_none() => Ruling::Outside(url),
        _ => Ruling::Refused,
    }
}

/// Rules on a wish for another window: there is this one.
pub(crate) fn rule_on_window(address: &str, own: Option<&Origin>) -> Ruling {
    match rule(address, own) {
        outside @ Ruling::Outside(_) => outside,
        Ruling::Here | Ruling::Again | Ruling::Refused => Ruling::Refused,
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::{AGAIN, Ruling, rule, rule_on_window};

    #[test]
    fn the_window_stays_with_its_own_server() {
        let own = Url::parse("http://127.0.0.1:4000/?token=x").unwrap().origin();
        let of = |address: &str| rule(address, Some(&own));
        for address in ["http://127.0.0.1:4000/", "http://127.0.0.1:4000/a#session=1", "about:blank"] {
            assert_eq!(of(address), Ruling::Here, "{address}");
        }
        for address in ["https://example.org/a?b", "http://127.0.0.1:4001/", "http://localhost:4000/"] {
            assert_eq!(of(address), Ruling::Outside(Url::parse(address).unwrap()), "{address}");
            assert_eq!(rule_on_window(address, Some(&own)), of(address), "{address}");
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
            assert_eq!(of(address), Ruling::Refused, "{address}");
        }
        assert_eq!(rule_on_window("http://127.0.0.1:4000/", Some(&own)), Ruling::Refused, "one window");
        assert_eq!(of(AGAIN), Ruling::Again);
        assert_eq!(
            rule("http://127.0.0.1:4000/", None),
            Ruling::Outside("http://127.0.0.1:4000/".parse().unwrap())
        );
    }
}
