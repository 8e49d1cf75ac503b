//! Links that open the page in another browser.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::header;
use axum::http::request::Parts;
use secrecy::{ExposeSecret, SecretString};
use sysop_core::id::Timestamp;
use sysop_driver::tokens::{Scopes, TokenId, TokenKind, TokenStore as _};

use super::{PEER, World, keep, request};
use crate::{Authenticator as _, Caller, Peer, Scope};

/// Opens a link as a browser without a cookie does. Returns the status, and the cookie if there is one.
async fn open_link(world: &World, token: &SecretString) -> (u16, Option<String>) {
    let target = format!("/?token={}", token.expose_secret());
    let response = world.ask(request("GET", &target, &[]), Scope::Read).await.unwrap_err();
    let cookie = response.headers().get(header::SET_COOKIE).map(|value| value.to_str().unwrap().to_owned());
    let cookie = cookie.and_then(|cookie| cookie.split(';').next().map(str::to_owned));
    (response.status().as_u16(), cookie)
}

async fn caller(world: &World) -> Caller {
    let (name, value) = world.bearer();
    world.ask(request("GET", "/", &[(name, &value)]), Scope::Operate).await.unwrap()
}

#[tokio::test]
async fn a_link_opens_the_page_once_and_is_good_for_nothing_else() {
    let world = World::new().await;
    let caller = caller(&world).await;
    let link = world.auth.link(&caller, Scopes::ALL).await.unwrap();
    let token = link.token.expose_secret();
    let as_bearer = request("GET", "/", &[("authorization", &format!("Bearer {token}"))]);
    assert_eq!(world.status(as_bearer, Scope::Read).await, 401, "a link is not accepted in a header");
    let as_cookie = request("GET", "/", &[("cookie", &format!("sysop-8765={token}"))]);
    assert_eq!(world.status(as_cookie, Scope::Read).await, 401);
    assert!(
        world.tokens.log_in(&link.token).await.unwrap().is_none(),
        "`log_in` alone does not accept a link"
    );

    let (status, cookie) = open_link(&world, &link.token).await;
    assert_eq!(status, 303);
    let opened = request("GET", "/", &[("cookie", &cookie.unwrap())]);
    let linked = world.ask(opened, Scope::Read).await.unwrap();
    assert_eq!((linked.scopes, &linked.name), (Scopes::ALL, &caller.name));
    assert_ne!(linked.key, caller.key, "a link has limits of its own");
    assert_eq!(open_link(&world, &link.token).await, (401, None), "a link works once");
}

#[tokio::test]
async fn the_token_of_a_link_that_was_pasted_into_the_form_works_once() {
    let world = World::new().await;
    let caller = caller(&world).await;
    let link = world.auth.link(&caller, Scopes::READ).await.unwrap();
    for status in [303, 401] {
        let form = request("POST", "/login", &[("origin", "http://127.0.0.1:8765")]);
        let (parts, ()): (Parts, ()) = form.into_parts();
        let answer = world.auth.log_in(&parts, Peer(PEER.parse().unwrap()), link.token.clone()).await;
        assert_eq!(answer.status().as_u16(), status);
    }
    assert_eq!(open_link(&world, &link.token).await, (401, None), "the form used the link");
}

#[tokio::test]
async fn a_linked_browser_is_signed_out_with_its_link_or_with_the_token_behind_it() {
    for revoke_link in [true, false] {
        let world = World::new().await;
        let caller = caller(&world).await;
        let link = world.auth.link(&caller, Scopes::ALL).await.unwrap();
        let (_, cookie) = open_link(&world, &link.token).await;
        let opened = request("GET", "/", &[("cookie", &cookie.unwrap())]);
        let linked = world.ask(opened, Scope::Read).await.unwrap();
        let revoked = if revoke_link { &linked.key } else { &caller.key };
        assert!(world.store.revoke_token(&TokenId::new(revoked.as_str())).await.unwrap());
        tokio::time::timeout(Duration::from_secs(5), async {
            let unknown = format!("sysop_{}", "A".repeat(43)).into();
            while !linked.ended.is_cancelled() {
                assert!(world.tokens.log_in(&unknown).await.unwrap().is_none()); // reads the store again
            }
        })
        .await
        .unwrap();
        assert_eq!(caller.ended.is_cancelled(), !revoke_link);
    }
}

#[tokio::test]
async fn a_link_gives_no_scope_that_its_creator_lacks_and_expires() {
    let world = World::new().await;
    let caller = caller(&world).await;
    let shared = world.auth.link(&caller, Scopes::READ).await.unwrap();
    let (_, cookie) = open_link(&world, &shared.token).await;
    let cookie = cookie.unwrap();
    let looks = |method| request(method, "/x", &[("cookie", &cookie), ("sec-fetch-site", "same-origin")]);
    assert_eq!(world.status(looks("GET"), Scope::Read).await, 200);
    assert_eq!(world.status(looks("POST"), Scope::Operate).await, 403);

    let (operator, _) = keep(&world.store, Scopes::OPERATE, None).await;
    let header = format!("Bearer {}", operator.expose_secret());
    let operator = request("GET", "/", &[("authorization", &header)]);
    let operator = world.ask(operator, Scope::Operate).await.unwrap();
    let more = world.auth.link(&operator, Scopes::ALL).await.unwrap();
    let (_, cookie) = open_link(&world, &more.token).await;
    let opened = world.ask(request("GET", "/", &[("cookie", &cookie.unwrap())]), Scope::Read).await.unwrap();
    assert_eq!(opened.scopes, Scopes::OPERATE);

    let late = world.auth.link(&caller, Scopes::ALL).await.unwrap();
    assert_eq!(late.expires, Timestamp(600_000));
    world.clock.0.store(600_000, Ordering::Relaxed);
    assert_eq!(open_link(&world, &late.token).await, (401, None));
}

#[tokio::test]
async fn links_of_a_token_are_limited_in_number() {
    let world = World::new().await;
    let caller = caller(&world).await;
    let first = world.auth.link(&caller, Scopes::ALL).await.unwrap();
    for _ in 0..32 {
        world.clock.0.fetch_add(1, Ordering::Relaxed);
        world.auth.link(&caller, Scopes::ALL).await.unwrap();
    }
    let links = world.store.tokens().await.unwrap();
    assert_eq!(links.iter().filter(|record| record.kind == TokenKind::Link).count(), 32);
    assert_eq!(open_link(&world, &first.token).await, (401, None), "the oldest link was revoked");
}
