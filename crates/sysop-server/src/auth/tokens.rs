//! Cache of the store's tokens. Refreshed twice a second, so that tokens revoked elsewhere soon stop working.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use secrecy::SecretString;
use sysop_core::event::Decision;
use sysop_core::id::Timestamp;
use sysop_driver::port::{Clock, StoreError};
use sysop_driver::tokens::{Scopes, TokenId, TokenKind, TokenRecord, TokenStore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::token::{NewToken, hash_of, mint, same};
use crate::audit::POLICY;

/// Maximum age of the cache when a token is checked.
const FRESH: Duration = Duration::from_millis(500);
/// Minimum interval between the additional reads of the store that unknown tokens cause. All requests with an unknown
/// token wait for the same next read, so a token that was just created works at once.
const UNKNOWN_STEP: Duration = Duration::from_millis(100);
/// Minimum interval between two recorded uses of a token, in milliseconds.
const USE_STEP_MS: i64 = 60_000;
/// Lifetime of a page's cookie, in milliseconds.
const PAGE_MS: i64 = 30 * DAY_MS;
/// Lifetime of the start token if the user has issued no token that may operate, in milliseconds.
const START_MS: i64 = 30 * DAY_MS;
/// Lifetime of the start token if the user has issued a token that may operate, in milliseconds. The start token is
/// then needed only to open the page.
const START_BESIDE_OTHERS_MS: i64 = DAY_MS / 2;
const DAY_MS: i64 = 24 * 3600 * 1000;
/// Maximum number of browsers logged in by one token; the oldest is logged out first.
const PAGES_MAX: usize = 32;
/// Lifetime of an unopened link that gives more than the scope `read`, in milliseconds.
const LINK_MS: i64 = 600_000;
/// Lifetime of an unopened link that gives only the scope `read`, in milliseconds.
const READ_LINK_MS: i64 = DAY_MS;
/// Maximum number of links per token, opened or not; the oldest is revoked first.
const LINKS_MAX: usize = 32;
/// Maximum number of start tokens that stay valid; the oldest is revoked first.
const STARTS_MAX: usize = 16;
/// Maximum number of tokens of single processes that stay valid; the oldest is revoked first. Each process revokes its
/// own at its end, so that only killed processes leave one behind.
const PROCESSES_MAX: usize = 256;
/// Name of start tokens, which survive restarts.
pub const START_TOKEN: &str = "start";
/// Names that records of decisions use for deciders other than the holders of tokens that users create.
pub const RESERVED_NAMES: [&str; 5] = [POLICY, Decision::BY_SYSOP, Decision::BY_HOOK, START_TOKEN, PROCESS];
/// Name of tokens that belong to a single process.
const PROCESS: &str = "attach";

/// Holder of a valid token.
#[derive(Debug, Clone)]
pub struct Bearer {
    /// Id of the token. For a page's cookie: id of the token that opened the page.
    pub id: TokenId,
    pub name: String,
    pub owner: String,
    pub scopes: Scopes,
    /// Creation time of the token. For a page's cookie: creation time of the token that opened the page.
    pub created: Timestamp,
    /// True if a process of unknown origin created the token.
    pub unattended: bool,
    /// Canceled when the token is revoked or expires; open connections must end then.
    pub ended: CancellationToken,
}

/// Way in which a token was presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    /// In a header or in the login form.
    Explicit,
    /// As the page's cookie.
    Cookie,
    /// In the page's URL.
    Visit,
}

impl CredentialKind {
    fn fits(self, kind: TokenKind) -> bool {
        match kind {
            TokenKind::Issued | TokenKind::Start => self != Self::Cookie,
            TokenKind::Page => self == Self::Cookie,
            TokenKind::Link => self == Self::Visit,
        }
    }
}

/// Tokens that are valid for this server. [`Tokens::follow`] keeps them up to date with the store.
pub struct Tokens {
    store: Arc<dyn TokenStore>,
    clock: Arc<dyn Clock>,
    table: RwLock<Arc<Table>>,
    /// Serializes reads of the store.
    reading: tokio::sync::Mutex<()>,
    uses: Mutex<HashMap<TokenId, Timestamp>>,
}

struct Table {
    read: Instant,
    rows: Vec<TokenEntry>,
}

#[derive(Clone)]
struct TokenEntry {
    record: TokenRecord,
    ended: CancellationToken,
}

impl TokenEntry {
    fn is_over(&self, now: Timestamp) -> bool {
        self.record.expires.is_some_and(|expires| expires <= now)
    }
}

impl Tokens {
    pub async fn open(store: Arc<dyn TokenStore>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let table = RwLock::new(Arc::new(Table { read: Instant::now(), rows: Vec::new() }));
        let tokens =
            Self { store, clock, table, reading: tokio::sync::Mutex::default(), uses: Mutex::default() };
        tokens.read().await?;
        Ok(tokens)
    }

    /// Creates the start token, which is printed in the page's URL. The token survives restarts. It is valid for
    /// 30 days if the user has issued no token that may operate, and for 12 hours otherwise. Returns it with its
    /// lifetime.
    pub async fn start(&self, owner: &str) -> Result<(SecretString, Duration), StoreError> {
        self.remove_expired().await?;
        let now = self.clock.now();
        let has_own = self.table().rows.iter().any(|row| {
            row.record.kind == TokenKind::Issued && row.record.scopes.operate && !row.is_over(now)
        });
        let life = if has_own { START_BESIDE_OTHERS_MS } else { START_MS };
        self.keep_newest(STARTS_MAX - 1, |record| is_start(record) && record.name != PROCESS).await?;
        let (token, _) = self.insert_start(START_TOKEN, owner, life).await?;
        Ok((token, Duration::from_millis(life.unsigned_abs())))
    }

    /// Creates a token for joining the sessions of this process, which must [revoke](Self::revoke) it at its end. The
    /// token does not count as a start token, so that start tokens stay valid however many such processes there are.
    pub async fn of_process(&self, owner: &str) -> Result<(SecretString, TokenId), StoreError> {
        self.remove_expired().await?;
        self.keep_newest(PROCESSES_MAX - 1, |record| is_start(record) && record.name == PROCESS).await?;
        self.insert_start(PROCESS, owner, START_MS).await
    }

    /// Revokes a token, and logs out the browsers that logged in with it.
    pub async fn revoke(&self, id: &TokenId) -> Result<(), StoreError> {
        self.store.revoke_token(id).await?;
        self.read().await
    }

    async fn insert_start(
        &self,
        name: &str,
        owner: &str,
        life_ms: i64,
    ) -> Result<(SecretString, TokenId), StoreError> {
        let now = self.clock.now();
        let (token, record) = mint(NewToken {
            kind: TokenKind::Start,
            name: name.to_owned(),
            owner: owner.to_owned(),
            scopes: Scopes::ALL,
            now,
            expires: Some(Timestamp(now.0 + life_ms)),
            parent: None,
            unattended: false,
        });
        self.store.insert_token(&record).await?;
        self.read().await?;
        Ok((token, record.id))
    }

    /// Returns the holder of a token, or `None` if the token is invalid.
    pub async fn bearer(
        &self,
        token: &SecretString,
        kind: CredentialKind,
    ) -> Result<Option<Bearer>, StoreError> {
        Ok(self.entry(token, kind).await?.map(|row| self.used(row)))
    }

    async fn entry(
        &self,
        token: &SecretString,
        kind: CredentialKind,
    ) -> Result<Option<TokenEntry>, StoreError> {
        let Some(hash) = hash_of(token) else { return Ok(None) };
        let shown_at = Instant::now();
        self.refresh(FRESH).await?;
        let mut found = self.find(&hash, kind);
        if found.is_none() {
            self.read_since(shown_at).await?;
            found = self.find(&hash, kind);
        }
        Ok(found)
    }

    /// Creates a token for the URL of a link, which opens the page once in another browser: with the scopes of the
    /// token `of`, or with fewer. The new token ends with `of` at the latest, and so does the browser's login. Returns
    /// the token with the time until which the link must be opened, or `None` if `of` is no longer valid.
    pub async fn link(
        &self,
        of: &TokenId,
        scopes: Scopes,
    ) -> Result<Option<(SecretString, Timestamp)>, StoreError> {
        let (now, table) = (self.clock.now(), self.table());
        let parent = table.rows.iter().find(|row| row.record.id == *of && !row.is_over(now));
        let Some(TokenEntry { record: parent, .. }) = parent else { return Ok(None) };
        let scopes = Scopes {
            operate: scopes.operate && parent.scopes.operate,
            decide: scopes.decide && parent.scopes.decide,
        };
        let month = Timestamp(now.0 + PAGE_MS);
        let (token, record) = mint(NewToken {
            kind: TokenKind::Link,
            name: parent.name.clone(),
            owner: parent.owner.clone(),
            scopes,
            now,
            expires: Some(parent.expires.map_or(month, |expires| expires.min(month))),
            parent: Some(of.clone()),
            unattended: parent.unattended,
        });
        let links =
            |record: &TokenRecord| record.kind == TokenKind::Link && record.parent.as_ref() == Some(of);
        self.keep_newest(LINKS_MAX - 1, links).await?;
        self.store.insert_token(&record).await?;
        self.read().await?;
        Ok(Some((token, open_until(&record))))
    }

    /// Logs in a browser that presents a token in the page's URL. Returns its cookie, or `None` if the token is
    /// invalid or was already used for a visit.
    pub async fn visit(&self, token: &SecretString) -> Result<Option<SecretString>, StoreError> {
        let Some(row) = self.entry(token, CredentialKind::Visit).await? else { return Ok(None) };
        let late = row.record.kind == TokenKind::Link && open_until(&row.record) <= self.clock.now();
        if late || !self.store.spend_visit(&row.record.id).await? {
            return Ok(None);
        }
        self.page(&self.used(row)).await.map(Some)
    }

    /// Logs in a browser whose user typed a token. Returns its cookie, or `None` if the token is invalid.
    pub async fn log_in(&self, token: &SecretString) -> Result<Option<SecretString>, StoreError> {
        match self.bearer(token, CredentialKind::Explicit).await? {
            Some(bearer) => self.page(&bearer).await.map(Some),
            None => Ok(None),
        }
    }

    /// Logs out the browser with this cookie, and no other. Returns false if the cookie is invalid.
    pub async fn log_out(&self, cookie: &SecretString) -> Result<bool, StoreError> {
        let Some(row) = self.entry(cookie, CredentialKind::Cookie).await? else { return Ok(false) };
        self.revoke(&row.record.id).await?;
        Ok(true)
    }

    /// Refreshes the cache until `stop` is canceled, so that open connections end with their token. Also records when
    /// tokens were used.
    pub async fn follow(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.clock.sleep(FRESH) => {}
            }
            if let Err(error) = self.read().await {
                tracing::warn!(%error, "cannot read the tokens");
            }
            self.write_uses().await;
        }
        self.write_uses().await;
    }

    async fn page(&self, of: &Bearer) -> Result<SecretString, StoreError> {
        let now = self.clock.now();
        let table = self.table();
        let parent = table.rows.iter().find(|row| row.record.id == of.id);
        let parent_expires = parent.and_then(|row| row.record.expires);
        let month = Timestamp(now.0 + PAGE_MS);
        let (token, record) = mint(NewToken {
            kind: TokenKind::Page,
            name: of.name.clone(),
            owner: of.owner.clone(),
            scopes: of.scopes,
            now,
            expires: Some(parent_expires.map_or(month, |expires| expires.min(month))),
            parent: Some(of.id.clone()),
            unattended: of.unattended,
        });
        let pages =
            |record: &TokenRecord| record.kind == TokenKind::Page && record.parent.as_ref() == Some(&of.id);
        self.keep_newest(PAGES_MAX - 1, pages).await?;
        self.store.insert_token(&record).await?;
        self.read().await?;
        Ok(token)
    }

    /// Deletes expired tokens, except tokens that users issued.
    async fn remove_expired(&self) -> Result<(), StoreError> {
        self.read().await?;
        let now = self.clock.now();
        for row in &self.table().rows {
            if row.is_over(now) && row.record.kind != TokenKind::Issued {
                self.store.revoke_token(&row.record.id).await?;
            }
        }
        Ok(())
    }

    async fn keep_newest(&self, most: usize, of: impl Fn(&TokenRecord) -> bool) -> Result<(), StoreError> {
        let table = self.table();
        let those: Vec<_> = table.rows.iter().filter(|row| of(&row.record)).collect();
        for row in &those[..those.len().saturating_sub(most)] {
            self.store.revoke_token(&row.record.id).await?;
        }
        Ok(())
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read())
    }

    /// Returns the valid token with this hash. Compares the hash with every token, so that the time taken does not
    /// reveal a near match.
    fn find(&self, hash: &[u8; 32], kind: CredentialKind) -> Option<TokenEntry> {
        let now = self.clock.now();
        let mut found = None;
        for row in &self.table().rows {
            let fits = same(&row.record.hash, hash);
            if fits && kind.fits(row.record.kind) && !row.is_over(now) && !row.ended.is_cancelled() {
                found = Some(row.clone());
            }
        }
        found
    }

    fn used(&self, row: TokenEntry) -> Bearer {
        let now = self.clock.now();
        let TokenRecord { id, kind, name, owner, scopes, parent, last_used, unattended, created, .. } =
            row.record;
        let parent = parent.filter(|_| kind == TokenKind::Page); // a link is a token of its own
        let made = parent.as_ref().and_then(|parent| {
            self.table().rows.iter().find(|row| row.record.id == *parent).map(|row| row.record.created)
        });
        if last_used.is_none_or(|last| now.0 - last.0 >= USE_STEP_MS) {
            let mut uses = self.uses.lock();
            for used in parent.iter().chain([&id]) {
                uses.insert(used.clone(), now);
            }
        }
        Bearer {
            id: parent.unwrap_or(id),
            name,
            owner,
            scopes,
            created: made.unwrap_or(created),
            unattended,
            ended: row.ended,
        }
    }

    async fn refresh(&self, age: Duration) -> Result<(), StoreError> {
        if self.table().read.elapsed() < age {
            return Ok(());
        }
        let _reading = self.reading.lock().await;
        if self.table().read.elapsed() < age {
            return Ok(()); // another task just did
        }
        self.read_now().await
    }

    async fn read(&self) -> Result<(), StoreError> {
        let _reading = self.reading.lock().await;
        self.read_now().await
    }

    /// Makes the cache at least as new as `moment`. One read serves all waiting callers.
    async fn read_since(&self, moment: Instant) -> Result<(), StoreError> {
        let _reading = self.reading.lock().await;
        let read = self.table().read;
        if read > moment {
            return Ok(()); // another task's read was recent enough
        }
        tokio::time::sleep_until(read + UNKNOWN_STEP).await;
        self.read_now().await
    }

    /// Reads the store; the caller must hold `reading`.
    async fn read_now(&self) -> Result<(), StoreError> {
        let old = self.table();
        // Taken before the query, so the cache is never newer than it claims.
        let read = Instant::now();
        let records = self.store.tokens().await?;
        let now = self.clock.now();
        let mut known: HashMap<_, _> = old.rows.iter().map(|row| (row.record.id.clone(), row)).collect();
        let mut rows = Vec::with_capacity(records.len());
        for record in records {
            let kept = known.remove(&record.id);
            let row = match kept.filter(|row| row.record.hash == record.hash) {
                Some(row) => TokenEntry { record, ended: row.ended.clone() },
                None => TokenEntry { record, ended: CancellationToken::new() },
            };
            if row.is_over(now) {
                row.ended.cancel();
            }
            rows.push(row);
        }
        for gone in known.into_values() {
            gone.ended.cancel();
        }
        *self.table.write() = Arc::new(Table { read, rows });
        Ok(())
    }

    async fn write_uses(&self) {
        let uses: Vec<_> = {
            let mut uses = self.uses.lock();
            uses.drain().collect()
        };
        if uses.is_empty() {
            return;
        }
        if let Err(error) = self.store.record_token_uses(&uses).await {
            tracing::warn!(%error, "cannot record the last use of tokens");
        }
    }
}

fn is_start(record: &TokenRecord) -> bool {
    record.kind == TokenKind::Start
}

/// Returns the time until which a link must be opened.
fn open_until(link: &TokenRecord) -> Timestamp {
    let life = if link.scopes == Scopes::READ { READ_LINK_MS } else { LINK_MS };
    let until = Timestamp(link.created.0 + life);
    link.expires.map_or(until, |expires| expires.min(until))
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("count", &self.table().rows.len()).finish_non_exhaustive()
    }
}
