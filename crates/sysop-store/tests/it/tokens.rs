//! Requirements on every token store. A store joins by naming an `async fn() -> TokenFixture` to `conformance!`.

use std::sync::Arc;

use sysop_core::id::Timestamp;
use sysop_driver::tokens::{Scopes, TOKENS_MAX, TokenId, TokenKind, TokenRecord, TokenStore};
use sysop_store::{MemoryStore, PostgresStore, SqliteStore};

use crate::server::shared;

/// An empty store, with the directory that it needs while it lives.
pub(crate) struct TokenFixture {
    pub(crate) store: Arc<dyn TokenStore>,
    pub(crate) folder: Option<tempfile::TempDir>,
}

macro_rules! token_conformance {
    ($fixture:ident: $($name:ident,)*) => {
        mod $fixture {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let tokens = super::$fixture().await;
                    super::$name(tokens.store).await;
                    drop(tokens.folder);
                }
            )*
        }
    };
    ($($fixture:ident),*) => {
        $(
            token_conformance!($fixture:
                tokens_are_listed_in_order,
                revoking_a_token_revokes_its_pages,
                a_visit_counts_once,
                the_last_use_is_the_latest,
                an_id_is_used_once,
                the_number_of_tokens_is_bounded,
            );
        )*
    };
}

async fn memory() -> TokenFixture {
    TokenFixture { store: Arc::new(MemoryStore::new()), folder: None }
}

async fn sqlite() -> TokenFixture {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("sysop.db")).unwrap();
    TokenFixture { store: Arc::new(store), folder: Some(folder) }
}

async fn postgres() -> TokenFixture {
    let name = shared().database().await;
    let store = PostgresStore::connect(&shared().url(&name)).await.unwrap();
    TokenFixture { store: Arc::new(store), folder: None }
}

token_conformance!(memory, sqlite, postgres);

fn token(id: &str, created: i64) -> TokenRecord {
    TokenRecord {
        id: TokenId::new(id),
        kind: TokenKind::Issued,
        name: format!("name of {id}"),
        owner: "ada".to_owned(),
        scopes: Scopes::READ,
        hash: *blake3::hash(id.as_bytes()).as_bytes(),
        created: Timestamp(created),
        expires: None,
        last_used: None,
        parent: None,
        visited: false,
        unattended: false,
    }
}

async fn tokens_are_listed_in_order(store: Arc<dyn TokenStore>) {
    assert_eq!(store.tokens().await.unwrap(), []);
    let later = TokenRecord {
        kind: TokenKind::Start,
        scopes: Scopes::ALL,
        expires: Some(Timestamp(9)),
        last_used: Some(Timestamp(8)),
        visited: true,
        unattended: true,
        ..token("b", 7)
    };
    let page = TokenRecord { kind: TokenKind::Page, parent: Some(TokenId::new("b")), ..token("a", 8) };
    let page = TokenRecord { scopes: Scopes::DECIDE, ..page };
    for kept in [&later, &page, &token("z", 1)] {
        store.insert_token(kept).await.unwrap();
    }
    assert_eq!(store.tokens().await.unwrap(), [token("z", 1), later, page]);
}

async fn revoking_a_token_revokes_its_pages(store: Arc<dyn TokenStore>) {
    let page = TokenRecord { parent: Some(TokenId::new("a")), ..token("page", 3) };
    for kept in [&token("a", 1), &token("b", 2), &page] {
        store.insert_token(kept).await.unwrap();
    }
    assert_eq!(store.revoke_token(&TokenId::new("a")).await, Ok(true));
    assert_eq!(store.revoke_token(&TokenId::new("a")).await, Ok(false));
    assert_eq!(store.tokens().await.unwrap(), [token("b", 2)]);
}

async fn a_visit_counts_once(store: Arc<dyn TokenStore>) {
    store.insert_token(&token("a", 1)).await.unwrap();
    let id = TokenId::new("a");
    let asked = futures::future::join_all((0..16).map(|_| store.spend_visit(&id))).await;
    assert_eq!(asked.iter().filter(|answer| **answer == Ok(true)).count(), 1);
    assert_eq!(store.spend_visit(&id).await, Ok(false));
    assert_eq!(store.spend_visit(&TokenId::new("none")).await, Ok(false));
    assert!(store.tokens().await.unwrap()[0].visited);
}

async fn the_last_use_is_the_latest(store: Arc<dyn TokenStore>) {
    store.insert_token(&token("a", 1)).await.unwrap();
    for at in [5, 9, 7] {
        let uses = [(TokenId::new("a"), Timestamp(at)), (TokenId::new("gone"), Timestamp(at))];
        store.record_token_uses(&uses).await.unwrap();
    }
    assert_eq!(store.tokens().await.unwrap()[0].last_used, Some(Timestamp(9)));
}

async fn an_id_is_used_once(store: Arc<dyn TokenStore>) {
    store.insert_token(&token("a", 1)).await.unwrap();
    let error = store.insert_token(&token("a", 2)).await.unwrap_err();
    assert!(error.to_string().contains("token a already"), "{error}");
    assert_eq!(store.tokens().await.unwrap(), [token("a", 1)]);
}

async fn the_number_of_tokens_is_bounded(store: Arc<dyn TokenStore>) {
    // Inserted concurrently, because otherwise each insertion would wait for the disk.
    let tokens: Vec<_> = (0..=TOKENS_MAX).map(|number| token(&format!("{number}"), 1)).collect();
    let kept = futures::future::join_all(tokens.iter().map(|token| store.insert_token(token))).await;
    let refused: Vec<_> = kept.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].to_string().contains("token revoke ID"), "{}", refused[0]);
}
