//! Requests to `TokenAuth` and their responses. The tests are named after published vulnerabilities of other servers.

mod links;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, Response, Version, header};
use secrecy::{ExposeSecret, SecretString};
use sysop_core::id::Timestamp;
use sysop_driver::port::{Clock, StoreError};
use sysop_driver::tokens::{Scopes, TokenId, TokenKind, TokenRecord, TokenStore};
use sysop_store::MemoryStore;
use tokio_util::sync::CancellationToken;

use super::{CredentialKind, HostPolicy, NewToken, Proxies, TokenAuth, TokenAuthSettings, Tokens, mint};
use crate::limits::{Limits, Rate};
use crate::{Authenticator, Caller, Peer, Scope};

const PEER: &str = "127.0.0.1:50000";

/// A clock that moves only when told to.
#[derive(Default)]
struct StoppedClock(AtomicI64);

#[async_trait]
impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }

    async fn sleep(&self, duration: Duration) {
        sysop_driver::system_clock().sleep(duration).await;
    }
}

struct World {
    store: Arc<MemoryStore>,
    clock: Arc<StoppedClock>,
    tokens: Arc<Tokens>,
    auth: TokenAuth,
    read: SecretString,
    operate: SecretString,
}

fn settings() -> TokenAuthSettings {
    let host_policy = HostPolicy::new(
        "127.0.0.1:8765".parse().unwrap(),
        vec!["ops.example".parse().unwrap()],
        vec!["https://board.example".parse().unwrap()],
    );
    let failures = Rate { per_minute: 1, burst: 1000 };
    let limits = Limits { failures, ..Limits::default() };
    TokenAuthSettings { host_policy, tls: false, proxies: Proxies::here(), limits }
}

async fn keep(store: &MemoryStore, scopes: Scopes, expires: Option<i64>) -> (SecretString, TokenRecord) {
    let (token, record) = mint(NewToken {
        kind: TokenKind::Issued,
        name: format!("a token to {}", scopes.as_str()),
        owner: "ada".to_owned(),
        scopes,
        now: Timestamp(0),
        expires: expires.map(Timestamp),
        parent: None,
        unattended: false,
    });
    store.insert_token(&record).await.unwrap();
    (token, record)
}

impl World {
    async fn new() -> Self {
        Self::with(settings()).await
    }

    async fn with(settings: TokenAuthSettings) -> Self {
        let store = Arc::new(MemoryStore::new());
        let clock = Arc::new(StoppedClock::default());
        let (read, _) = keep(&store, Scopes::READ, None).await;
        let (operate, _) = keep(&store, Scopes::ALL, None).await;
        let tokens = Arc::new(
            Tokens::open(Arc::clone(&store) as Arc<dyn TokenStore>, Arc::clone(&clock) as Arc<dyn Clock>)
                .await
                .unwrap(),
        );
        let auth = TokenAuth::new(Arc::clone(&tokens), settings);
        Self { store, clock, tokens, auth, read, operate }
    }

    async fn ask(&self, request: Request<()>, scope: Scope) -> Result<Caller, Response<Body>> {
        let (parts, ()) = request.into_parts();
        self.auth.admit(&parts, Peer(PEER.parse().unwrap()), scope).await.map_err(|response| *response)
    }

    /// Returns the status of the response, or 200 if the request is admitted.
    async fn status(&self, request: Request<()>, scope: Scope) -> u16 {
        self.ask(request, scope).await.map_or_else(|response| response.status().as_u16(), |_| 200)
    }

    fn bearer(&self) -> (&'static str, String) {
        ("authorization", format!("Bearer {}", self.operate.expose_secret()))
    }

    /// Returns the cookie of a logged-in browser.
    async fn cookie(&self) -> String {
        let page = self.tokens.log_in(&self.operate).await.unwrap().unwrap();
        format!("sysop-8765={}", page.expose_secret())
    }
}

fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri(target);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header(header::HOST, "127.0.0.1:8765");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

#[tokio::test]
async fn every_request_needs_a_token_even_on_loopback() {
    let world = World::new().await;
    let (name, bearer) = world.bearer();
    let bearer = (name, bearer.as_str());
    let json = ("content-type", "application/json");
    for (method, scope) in [("GET", Scope::Read), ("POST", Scope::Operate), ("DELETE", Scope::Operate)] {
        let status = async |headers: &[(&str, &str)]| {
            world.status(request(method, "/api/agent/sessions", headers), scope).await
        };
        assert_eq!(status(&[]).await, 401, "{method}");
        assert_eq!(status(&[bearer, json]).await, 200, "{method}");
        for wrong in [
            "Bearer sysop_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "Bearer ",
            "Bearer",
            "Basic dTpw",
            "",
            world.operate.expose_secret(),
        ] {
            assert_eq!(status(&[("authorization", wrong), json]).await, 401, "{method} {wrong}");
        }
        assert_eq!(status(&[bearer, bearer, json]).await, 401, "two tokens count as none");
        for origin in
            ["https://evil.example", "null", "http://127.0.0.1:8766", "http://localhost:8765", "*", ""]
        {
            assert_eq!(status(&[bearer, json, ("origin", origin)]).await, 403, "{method} {origin}");
            assert_eq!(status(&[("origin", origin)]).await, 403, "the origin is checked before the token");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(status(&[bearer, json, ("sec-fetch-site", site)]).await, 403, "{method} {site}");
        }
        assert_eq!(status(&[bearer, json, ("origin", "http://127.0.0.1:8765")]).await, 200, "{method}");
    }
    // A token in the query is accepted for the visit to the page only.
    let target = format!("/api/agent/sessions?token={}", world.operate.expose_secret());
    assert_eq!(world.status(request("GET", &target, &[]), Scope::Read).await, 401);
}

#[tokio::test]
async fn a_cross_site_request_with_a_simple_content_type_is_rejected() {
    let world = World::new().await;
    let (name, bearer) = world.bearer();
    for (kind, status) in [
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/json-seq", 415),
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
    ] {
        let headers = [(name, bearer.as_str()), ("content-type", kind), ("content-length", "2")];
        assert_eq!(world.status(request("POST", "/chat", &headers), Scope::Operate).await, status, "{kind}");
    }
    let untyped = [(name, bearer.as_str()), ("content-length", "2")];
    assert_eq!(world.status(request("POST", "/chat", &untyped), Scope::Operate).await, 415);
    let chunked = [(name, bearer.as_str()), ("transfer-encoding", "chunked")];
    assert_eq!(world.status(request("POST", "/chat", &chunked), Scope::Operate).await, 415);
    let twice =
        [(name, bearer.as_str()), ("content-type", "application/json"), ("content-type", "text/plain")];
    assert_eq!(world.status(request("POST", "/chat", &twice), Scope::Operate).await, 415);
    let empty = [(name, bearer.as_str()), ("content-length", "0")];
    assert_eq!(world.status(request("POST", "/clear", &empty), Scope::Operate).await, 200);
}

#[tokio::test]
async fn no_cors_headers_are_sent() {
    let world = World::new().await;
    let preflight = |origin: &str| {
        let asked = ("access-control-request-method", "POST");
        request("OPTIONS", "/api/agent/sessions", &[("origin", origin), asked])
    };
    let answer = |origin: &'static str, mut response: Response<Body>| {
        world.auth.add_response_headers(Some(&HeaderValue::from_static(origin)), &mut response);
        let allowed =
            response.headers().iter().filter(|(name, _)| name.as_str().starts_with("access-control-allow-"));
        (response.status().as_u16(), allowed.count())
    };
    for origin in
        ["https://evil.example", "null", "https://board.example.evil.example", "http://board.example"]
    {
        let response = world.ask(preflight(origin), Scope::Operate).await.unwrap_err();
        assert_eq!(answer(origin, response), (403, 0), "{origin}");
    }
    let response = world.ask(preflight("https://board.example"), Scope::Operate).await.unwrap_err();
    assert_eq!(answer("https://board.example", response), (204, 3), "an origin that the operator allowed");
    let mut response = Response::new(Body::empty());
    world.auth.add_response_headers(Some(&HeaderValue::from_static("https://evil.example")), &mut response);
    assert!(!response.headers().contains_key("access-control-allow-origin"));
    assert!(!response.headers().contains_key("access-control-allow-credentials"));
}

#[tokio::test]
async fn a_foreign_host_header_is_rejected() {
    let world = World::new().await;
    let (name, bearer) = world.bearer();
    let bearer = (name, bearer.as_str());
    let status = async |host: &str| {
        let sent = request("GET", "/", &[bearer, ("host", host)]);
        let (parts, ()) = sent.into_parts();
        let nobody = world.auth.admit_public(&parts, Peer(PEER.parse().unwrap())).is_ok();
        let admitted = world.status(Request::from_parts(parts, ()), Scope::Read).await;
        assert_eq!(nobody, admitted == 200, "also without a token: {host}");
        admitted
    };
    for host in ["127.0.0.1:8765", "[::1]:8765", "localhost:8765", "LOCALHOST:8765", "ops.example"] {
        assert_eq!(status(host).await, 200, "{host}");
    }
    for host in [
        "evil.example:8765", "127.0.0.1.nip.io:8765", "localhost.evil.com:8765", "127.0.0.1:8766",
        "127.0.0.1", "0.0.0.0:8765", "localhost:8765@evil", "user@localhost:8765", "localhost.:8765",
        "localhost:8765, evil", "",
    ] {
        assert_eq!(status(host).await, 403, "{host}");
    }
    let two = [bearer, ("host", "localhost:8765"), ("host", "localhost:8765")];
    assert_eq!(world.status(request("GET", "/", &two), Scope::Read).await, 403, "two host names");
    let mut none = request("GET", "/", &[bearer]);
    none.headers_mut().remove("host");
    *none.version_mut() = Version::HTTP_10;
    assert_eq!(world.status(none, Scope::Read).await, 403, "no host name");
    for (target, expected) in
        [("http://evil/", 403), ("http://127.0.0.1:8765/", 200), ("http://localhost:8765/", 403)]
    {
        assert_eq!(world.status(request("GET", target, &[bearer]), Scope::Read).await, expected, "{target}");
    }
    let mut newer = request("GET", "http://evil.example:8765/", &[bearer]);
    newer.headers_mut().remove("host");
    *newer.version_mut() = Version::HTTP_2;
    assert_eq!(world.status(newer, Scope::Read).await, 403, "`:authority` is the name in HTTP/2");
    let forwarded = [bearer, ("host", "evil.example"), ("x-forwarded-host", "localhost:8765")];
    assert_eq!(
        world.status(request("GET", "/", &forwarded), Scope::Read).await,
        403,
        "forwarded host names are ignored"
    );
}

#[tokio::test]
async fn a_cross_site_websocket_is_rejected() {
    let world = World::new().await;
    let cookie = world.cookie().await;
    let cookie = ("cookie", cookie.as_str());
    let (name, bearer) = world.bearer();
    let bearer = (name, bearer.as_str());
    let upgrade = [("upgrade", "websocket"), ("connection", "upgrade")];
    let status = async |headers: &[(&str, &str)]| {
        let headers: Vec<_> = upgrade.iter().chain(headers).copied().collect();
        world.status(request("GET", "/api/agent/sessions/x/stream", &headers), Scope::Read).await
    };
    assert_eq!(status(&[]).await, 401);
    let own = ("origin", "http://127.0.0.1:8765");
    assert_eq!(status(&[cookie, own]).await, 200);
    assert_eq!(status(&[bearer]).await, 200, "a program sends a token and no origin");
    assert_eq!(status(&[cookie]).await, 403, "a cookie without an origin proves nothing");
    assert_eq!(status(&[cookie, ("sec-fetch-site", "none")]).await, 403);
    for origin in
        ["http://localhost:9999", "http://127.0.0.1:8766", "https://127.0.0.1:8765", "null", "file://"]
    {
        assert_eq!(status(&[cookie, ("origin", origin)]).await, 403, "{origin}");
        assert_eq!(status(&[bearer, ("origin", origin)]).await, 403, "{origin}");
    }
    assert_eq!(
        status(&[cookie, ("origin", "https://board.example")]).await,
        403,
        "another origin cannot use the page's cookie"
    );
}

#[tokio::test]
async fn a_cross_site_request_with_a_cookie_is_rejected() {
    let world = World::new().await;
    let cookie = world.cookie().await;
    let status = async |method: &str, headers: &[(&str, &str)]| {
        let headers: Vec<_> = headers.iter().copied().chain([("cookie", cookie.as_str())]).collect();
        world.status(request(method, "/api/agent/sessions/x/cancel", &headers), Scope::Operate).await
    };
    for method in ["POST", "DELETE"] {
        assert_eq!(status(method, &[]).await, 403, "{method}: the request does not name its page");
        assert_eq!(status(method, &[("sec-fetch-site", "none")]).await, 403, "{method}");
        assert_eq!(status(method, &[("sec-fetch-site", "same-origin")]).await, 200, "{method}");
        assert_eq!(status(method, &[("origin", "http://127.0.0.1:8765")]).await, 200, "{method}");
        assert_eq!(status(method, &[("origin", "https://board.example")]).await, 403, "{method}");
    }
    // A bearer token needs no proof of origin: no browser attaches it by itself.
    let (name, bearer) = world.bearer();
    let sent = request("POST", "/api/agent/sessions/x/cancel", &[(name, bearer.as_str())]);
    assert_eq!(world.status(sent, Scope::Operate).await, 200);
}

#[tokio::test]
async fn a_read_token_cannot_operate() {
    let world = World::new().await;
    let read = format!("Bearer {}", world.read.expose_secret());
    let status = async |method: &str, scope: Scope| {
        world.status(request(method, "/x", &[("authorization", &read)]), scope).await
    };
    assert_eq!(status("GET", Scope::Read).await, 200);
    assert_eq!(status("GET", Scope::Operate).await, 403);
    for method in ["POST", "DELETE", "PUT", "PATCH"] {
        assert_eq!(status(method, Scope::Operate).await, 403, "{method}");
        assert_eq!(
            status(method, Scope::Read).await,
            403,
            "{method}: also if the route declares too low a scope"
        );
    }
}

#[tokio::test]
async fn a_token_in_the_address_is_exchanged_for_a_cookie() {
    let world = World::new().await;
    let (start, _) = world.tokens.start("ada").await.unwrap();
    let target = format!("/?x=1&token={}", start.expose_secret());
    let visit = async |headers: &[(&str, &str)]| {
        world.ask(request("GET", &target, headers), Scope::Read).await.unwrap_err()
    };
    let mut response = visit(&[]).await;
    world.auth.add_response_headers(None, &mut response);
    let of = |response: &Response<Body>, name: &str| {
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    assert_eq!((response.status().as_u16(), of(&response, "location").as_str()), (303, "/"));
    assert_eq!(of(&response, "referrer-policy"), "no-referrer");
    assert_eq!(of(&response, "cache-control"), "no-store");
    let cookie = of(&response, "set-cookie");
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000"), "{cookie}");
    assert!(!cookie.contains(start.expose_secret()), "the cookie is a token of its own");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let looks = request("GET", "/", &[("cookie", &cookie)]);
    assert_eq!(world.status(looks, Scope::Read).await, 200);

    assert_eq!(visit(&[]).await.status().as_u16(), 401, "a visit works once");
    let again = visit(&[("cookie", &cookie)]).await;
    assert_eq!(
        (again.status().as_u16(), of(&again, "set-cookie").as_str()),
        (303, ""),
        "a browser that is logged in stays logged in"
    );
    let stolen = cookie.split('=').nth(1).unwrap();
    let as_bearer = request("GET", "/", &[("authorization", &format!("Bearer {stolen}"))]);
    assert_eq!(world.status(as_bearer, Scope::Read).await, 401, "a cookie is not accepted as a bearer token");
    let as_cookie =
        request("GET", "/", &[("cookie", &format!("sysop-8765={}", world.operate.expose_secret()))]);
    assert_eq!(world.status(as_cookie, Scope::Read).await, 401, "a bearer token is not accepted as a cookie");
    let elsewhere = request("GET", "/", &[("cookie", &cookie), ("sec-fetch-site", "cross-site")]);
    assert_eq!(world.status(elsewhere, Scope::Read).await, 403);
}

#[tokio::test]
async fn a_user_signs_in_with_a_token_on_our_own_page_only() {
    let world = World::new().await;
    let page = world.ask(request("GET", "/", &[("accept", "text/html")]), Scope::Read).await.unwrap_err();
    assert_eq!(page.status().as_u16(), 401);
    let log_in = async |headers: &[(&str, &str)], token: &SecretString| {
        let (parts, ()): (Parts, ()) = request("POST", "/login", headers).into_parts();
        world.auth.log_in(&parts, Peer(PEER.parse().unwrap()), token.clone()).await.status().as_u16()
    };
    let own = ("origin", "http://127.0.0.1:8765");
    assert_eq!(log_in(&[own], &world.operate).await, 303);
    assert_eq!(log_in(&[own], &world.operate).await, 303, "a typed token works any number of times");
    assert_eq!(log_in(&[own], &"sysop_wrong".into()).await, 401);
    for headers in [&[][..], &[("origin", "null")], &[("origin", "https://evil.example")]] {
        assert_eq!(log_in(headers, &world.operate).await, 403, "{headers:?}");
    }
}

#[tokio::test]
async fn a_browser_signs_out_itself_alone_and_from_our_own_page_only() {
    let world = World::new().await;
    let (cookie, other) = (world.cookie().await, world.cookie().await);
    let log_out = async |headers: &[(&str, &str)]| {
        let (parts, ()): (Parts, ()) = request("POST", "/api/logout", headers).into_parts();
        world.auth.log_out(&parts, Peer(PEER.parse().unwrap())).await
    };
    let is_signed_in = async |cookie: &str| {
        world.status(request("GET", "/api/me", &[("cookie", cookie)]), Scope::Read).await == 200
    };
    let (own, shown) = (("origin", "http://127.0.0.1:8765"), ("cookie", cookie.as_str()));
    let evil = ("origin", "https://evil.example");
    for headers in [&[shown][..], &[("origin", "null"), shown], &[evil, shown]] {
        assert_eq!(log_out(headers).await.status().as_u16(), 403, "{headers:?}");
    }
    let (name, bearer) = world.bearer();
    assert_eq!(log_out(&[own, (name, &bearer)]).await.status().as_u16(), 401, "only a cookie is signed out");
    let page = world.ask(request("GET", "/", &[shown]), Scope::Read).await.unwrap();
    let response = log_out(&[own, shown]).await;
    assert_eq!(response.status().as_u16(), 204);
    let cleared = response.headers()["set-cookie"].to_str().unwrap();
    assert_eq!(cleared, "sysop-8765=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
    assert!(page.ended.is_cancelled(), "its open connections end");
    assert_eq!((is_signed_in(&cookie).await, is_signed_in(&other).await), (false, true));
    assert_eq!(log_out(&[own, shown]).await.status().as_u16(), 401);
    let token = request("GET", "/api/me", &[(name, &bearer)]);
    assert_eq!(world.status(token, Scope::Read).await, 200, "the token that the page was opened with works");
}

#[tokio::test]
async fn the_sign_in_page_says_why_it_is_shown() {
    let world = World::new().await;
    let text = async |response: Response<Body>| {
        let body = axum::body::to_bytes(response.into_body(), 16_384).await.unwrap();
        String::from_utf8(body.to_vec()).unwrap()
    };
    let html = ("accept", "text/html");
    let visit = async |target: &str| {
        text(world.ask(request("GET", target, &[html]), Scope::Read).await.unwrap_err()).await
    };
    let first = visit("/").await;
    assert!(first.contains("<p>This browser is not signed in to this server.</p>"), "{first}");
    let used = visit("/?token=sysop_used").await;
    assert!(used.contains("This link has been used or has expired."), "{used}");
    let (parts, ()) = request("POST", "/login", &[("origin", "http://127.0.0.1:8765")]).into_parts();
    let wrong = world.auth.log_in(&parts, Peer(PEER.parse().unwrap()), "sysop_wrong".into()).await;
    let wrong = text(wrong).await;
    assert!(wrong.contains("This token is not valid."), "{wrong}");
    assert!(!wrong.contains("sysop_wrong") && !used.contains("sysop_used"), "no token is repeated");
}

#[tokio::test]
async fn behind_tls_the_cookie_is_secure() {
    let settings = TokenAuthSettings { tls: true, ..settings() };
    let world = World::with(settings).await;
    let (start, _) = world.tokens.start("ada").await.unwrap();
    let target = format!("/?token={}", start.expose_secret());
    let mut response = world.ask(request("GET", &target, &[]), Scope::Read).await.unwrap_err();
    let cookie = response.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("__Host-sysop-8765=") && cookie.ends_with("; Secure"), "{cookie}");
    world.auth.add_response_headers(None, &mut response);
    assert!(response.headers().contains_key("strict-transport-security"));
    let (name, bearer) = world.bearer();
    let plain = request("POST", "/x", &[(name, &bearer), ("origin", "http://127.0.0.1:8765")]);
    assert_eq!(world.status(plain, Scope::Operate).await, 403, "the same host without TLS is another origin");
}

#[tokio::test]
async fn a_proxy_reports_the_scheme_of_the_request() {
    let world = World::new().await;
    let (start, _) = world.tokens.start("ada").await.unwrap();
    let target = format!("/?token={}", start.expose_secret());
    let headers = [("x-forwarded-proto", "https"), ("host", "ops.example")];
    let response = world.ask(request("GET", &target, &headers), Scope::Read).await.unwrap_err();
    let cookie = response.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-sysop-443=") && cookie.ends_with("; Secure"), "{cookie}");
}

#[tokio::test]
async fn failed_authentication_is_throttled_and_reveals_nothing() {
    let failures = Rate { per_minute: 1, burst: 3 };
    let settings = TokenAuthSettings { limits: Limits { failures, ..Limits::default() }, ..settings() };
    let world = World::with(settings).await;
    let fail = async |token: &str| {
        let shown = format!("Bearer {token}");
        world.ask(request("GET", "/", &[("authorization", &shown)]), Scope::Read).await.unwrap_err()
    };
    let unknown = fail("sysop_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").await;
    let nonsense = fail("x").await;
    let whole = async |response: Response<Body>| {
        let (parts, body) = response.into_parts();
        (parts.status, parts.headers, axum::body::to_bytes(body, 4096).await.unwrap())
    };
    assert_eq!(whole(unknown).await, whole(nonsense).await, "the responses do not differ");
    assert_eq!(fail("x").await.status().as_u16(), 401);
    let slowed = fail("x").await;
    assert_eq!(slowed.status().as_u16(), 429);
    assert!(slowed.headers().contains_key("retry-after"));
    let (name, bearer) = world.bearer();
    assert_eq!(
        world.status(request("GET", "/", &[(name, &bearer)]), Scope::Read).await,
        200,
        "a valid token is admitted"
    );
}

#[tokio::test]
async fn requests_and_connections_of_a_token_are_limited() {
    let limits = Limits { requests: Rate { per_minute: 1, burst: 4 }, connections: 2, ..Limits::default() };
    let world = World::with(TokenAuthSettings { limits, ..settings() }).await;
    let (name, bearer) = world.bearer();
    let ask = async || world.ask(request("GET", "/", &[(name, &bearer)]), Scope::Read).await;
    let status = |asked: Result<Caller, Response<Body>>| {
        asked.map_or_else(|response| response.status().as_u16(), |_| 200)
    };
    let first = ask().await.unwrap();
    let second = ask().await.unwrap();
    assert_eq!(status(ask().await), 429, "two requests are open");
    drop((first, second));
    assert_eq!(status(ask().await), 200);
    assert_eq!(status(ask().await), 429, "four requests were made");
    let read = format!("Bearer {}", world.read.expose_secret());
    assert_eq!(world.status(request("GET", "/", &[("authorization", &read)]), Scope::Read).await, 200);
}

#[tokio::test(start_paused = true)]
async fn sessions_of_a_token_are_limited() {
    let limits = Limits { sessions: Rate { per_minute: 1, burst: 2 }, ..Limits::default() };
    let world = World::with(TokenAuthSettings { limits, ..settings() }).await;
    let (name, bearer) = world.bearer();
    let caller = world.ask(request("GET", "/", &[(name, &bearer)]), Scope::Read).await.unwrap();
    assert!(
        world.auth.check_session_quota(&caller).is_ok() && world.auth.check_session_quota(&caller).is_ok()
    );
    assert_eq!(world.auth.check_session_quota(&caller).unwrap_err().status().as_u16(), 429);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(world.auth.check_session_quota(&caller).is_ok());
}

#[tokio::test(start_paused = true)]
async fn revocation_takes_effect_within_a_second() {
    let world = World::new().await;
    let (name, bearer) = world.bearer();
    let stop = CancellationToken::new();
    let following = {
        let (tokens, stop) = (Arc::clone(&world.tokens), stop.clone());
        tokio::spawn(async move { tokens.follow(stop).await })
    };
    let caller = world.ask(request("GET", "/", &[(name, &bearer)]), Scope::Read).await.unwrap();
    let cookie = world.cookie().await;
    let page = world.ask(request("GET", "/", &[("cookie", &cookie)]), Scope::Read).await.unwrap();
    assert!(!caller.ended.is_cancelled() && !page.ended.is_cancelled());

    let of_caller = sysop_driver::tokens::TokenId::new(caller.key.clone());
    world.store.revoke_token(&of_caller).await.unwrap();
    let ended = async { tokio::join!(caller.ended.cancelled(), page.ended.cancelled()) };
    tokio::time::timeout(Duration::from_secs(1), ended).await.unwrap();
    assert_eq!(world.status(request("GET", "/", &[(name, &bearer)]), Scope::Read).await, 401);
    assert_eq!(
        world.status(request("GET", "/", &[("cookie", &cookie)]), Scope::Read).await,
        401,
        "the token's pages end, too"
    );

    tokio::time::advance(Duration::from_millis(1)).await;
    let (fresh, _) = keep(&world.store, Scopes::READ, None).await;
    tokio::time::advance(Duration::from_millis(1)).await;
    let fresh = format!("Bearer {}", fresh.expose_secret());
    assert_eq!(
        world.status(request("GET", "/", &[("authorization", &fresh)]), Scope::Read).await,
        200,
        "a new token is accepted"
    );
    stop.cancel();
    following.await.unwrap();
    assert!(world.store.tokens().await.unwrap().iter().any(|record| record.last_used.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_token_created_by_another_process_works_at_once() {
    let world = World::new().await;
    let stranger = || world.tokens.bearer(&world.read, CredentialKind::Cookie);
    for _ in 0..3 {
        // The store was read a moment ago, before this token existed.
        assert!(stranger().await.unwrap().is_none());
        let (token, _) = keep(&world.store, Scopes::ALL, None).await;
        assert!(world.tokens.bearer(&token, CredentialKind::Explicit).await.unwrap().is_some());
    }
    // Any number of requests with unknown tokens causes one read per interval.
    let begun = tokio::time::Instant::now();
    let strangers = futures::future::join_all((0..100).map(|_| stranger())).await;
    assert!(strangers.into_iter().all(|found| found.unwrap().is_none()));
    assert!(begun.elapsed() <= Duration::from_millis(100), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_is_rejected() {
    let world = World::new().await;
    let (token, _) = keep(&world.store, Scopes::ALL, Some(1000)).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    let bearer = world.tokens.bearer(&token, CredentialKind::Explicit).await.unwrap().unwrap();
    world.clock.0.store(1000, Ordering::Relaxed);
    assert!(world.tokens.bearer(&token, CredentialKind::Explicit).await.unwrap().is_none());
    let stop = CancellationToken::new();
    let follow = world.tokens.follow(stop.clone());
    tokio::select! {
        () = follow => unreachable!("the refresh continues until it is stopped"),
        ended = tokio::time::timeout(Duration::from_secs(1), bearer.ended.cancelled()) => ended.unwrap(),
    }
}

#[tokio::test]
async fn a_start_token_survives_a_restart_and_old_ones_are_removed() {
    let world = World::new().await;
    let (first, life) = world.tokens.start("ada").await.unwrap();
    assert_eq!(life.as_secs(), 12 * 3600, "the user has a token of their own");
    let reopened = Tokens::open(
        Arc::clone(&world.store) as Arc<dyn TokenStore>,
        Arc::clone(&world.clock) as Arc<dyn Clock>,
    );
    let reopened = reopened.await.unwrap();
    assert!(reopened.bearer(&first, CredentialKind::Explicit).await.unwrap().is_some());
    for _ in 0..16 {
        world.clock.0.fetch_add(1, Ordering::Relaxed);
        reopened.start("ada").await.unwrap();
    }
    assert!(reopened.bearer(&first, CredentialKind::Explicit).await.unwrap().is_none());
    let starts = world.store.tokens().await.unwrap();
    assert_eq!(starts.iter().filter(|record| record.kind == TokenKind::Start).count(), 16);
    world.clock.0.fetch_add(40 * 24 * 3600 * 1000, Ordering::Relaxed);
    reopened.start("ada").await.unwrap();
    assert_eq!(
        world.store.tokens().await.unwrap().len(),
        3,
        "expired tokens are removed; tokens issued by users stay"
    );
}

#[tokio::test]
async fn every_response_has_the_security_headers() {
    let world = World::new().await;
    let mut response = Response::new(Body::empty());
    world.auth.add_response_headers(None, &mut response);
    let policy = response.headers()["content-security-policy"].to_str().unwrap();
    for part in ["default-src 'self'", "script-src 'self';", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(response.headers()[name], value);
    }
    let mut kept = Response::builder().header("cache-control", "max-age=60").body(Body::empty()).unwrap();
    world.auth.add_response_headers(None, &mut kept);
    assert_eq!(kept.headers()["cache-control"], "max-age=60", "a handler's own header is kept");
}

struct Counting {
    store: Arc<MemoryStore>,
    reads: AtomicI64,
}

#[async_trait]
impl TokenStore for Counting {
    async fn insert_token(&self, record: &TokenRecord) -> Result<(), StoreError> {
        self.store.insert_token(record).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.store.tokens().await
    }

    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        self.store.revoke_token(id).await
    }

    async fn spend_visit(&self, id: &TokenId) -> Result<bool, StoreError> {
        self.store.spend_visit(id).await
    }

    async fn record_token_uses(&self, uses: &[(TokenId, Timestamp)]) -> Result<(), StoreError> {
        self.store.record_token_uses(uses).await
    }
}

#[tokio::test]
async fn a_new_token_works_at_once_during_a_flood_of_wrong_ones() {
    let counting = Arc::new(Counting { store: Arc::new(MemoryStore::new()), reads: AtomicI64::new(0) });
    let clock = Arc::new(StoppedClock::default());
    let tokens = Tokens::open(Arc::clone(&counting) as Arc<dyn TokenStore>, clock).await.unwrap();
    let wrong: SecretString = format!("sysop_{}", "A".repeat(43)).into();
    for _ in 0..4 {
        let flood = (0..1000).map(|_| tokens.bearer(&wrong, CredentialKind::Explicit));
        let (fresh, _) = keep(&counting.store, Scopes::READ, None).await;
        let (flood, fresh) =
            tokio::join!(futures::future::join_all(flood), tokens.bearer(&fresh, CredentialKind::Explicit));
        assert!(fresh.unwrap().is_some(), "a new token is known at once");
        assert!(flood.into_iter().all(|shown| shown.unwrap().is_none()));
    }
    let reads = counting.reads.load(Ordering::Relaxed);
    assert!(reads <= 1 + 2 * 4, "{reads} reads for 4,000 unknown tokens");
}

#[tokio::test(start_paused = true)]
async fn a_chatty_socket_is_throttled() {
    let limits = Limits { requests: Rate { per_minute: 60, burst: 3 }, ..Limits::default() };
    let world = World::with(TokenAuthSettings { limits, ..settings() }).await;
    let (name, bearer) = world.bearer();
    let caller = world.ask(request("GET", "/", &[(name, &bearer)]), Scope::Read).await.unwrap();
    assert_eq!((world.auth.message_delay(&caller), world.auth.message_delay(&caller)), (None, None));
    let wait = world.auth.message_delay(&caller).unwrap();
    tokio::time::advance(wait).await;
    assert_eq!(world.auth.message_delay(&caller), None, "after the wait, a message is allowed");
    assert!(world.auth.message_delay(&caller).is_some());
}

#[tokio::test]
async fn tokens_of_processes_leave_start_tokens_valid_and_can_be_revoked() {
    let world = World::new().await;
    let (start, _) = world.tokens.start("ada").await.unwrap();
    let (first, id) = world.tokens.of_process("ada").await.unwrap();
    for _ in 0..20 {
        world.tokens.of_process("ada").await.unwrap();
    }
    let is_valid = async |token: &SecretString| {
        world.tokens.bearer(token, CredentialKind::Explicit).await.unwrap().is_some()
    };
    assert!(is_valid(&start).await && is_valid(&first).await);
    world.tokens.revoke(&id).await.unwrap();
    assert!(!is_valid(&first).await && is_valid(&start).await);
}
