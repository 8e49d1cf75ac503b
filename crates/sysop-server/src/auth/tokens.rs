//! The tokens that open this server, as they are now: those of the store, read again and again, so that one that was
//! revoked in another process is worth nothing within a second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use secrecy::SecretString;
use sysop_core::id::Timestamp;
use sysop_driver::port::{Clock, StoreError};
use sysop_driver::tokens::{Scopes, TokenId, TokenKind, TokenRecord, TokenStore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::token::{NewToken, hash_of, mint, same};

/// How old what is known of the tokens may be when one is looked at.
const FRESH: Duration = Duration::from_millis(500);
/// A token that is not known makes the store be read again, but not more often than this: who shows one waits so long,
/// together with all others who do, and is not refused for what was known before.
const UNKNOWN_STEP: Duration = Duration::from_millis(100);
/// A use is written down when the last one that was is this long ago.
const USE_STEP_MS: i64 = 60_000;
/// How long a browser stays logged in.
const PAGE_MS: i64 = 30 * DAY_MS;
/// How long the token of a server's start lives where nobody made one of their own.
const START_MS: i64 = 30 * DAY_MS;
/// And where somebody did: long enough to open the page.
const START_BESIDE_OTHERS_MS: i64 = DAY_MS / 2;
const DAY_MS: i64 = 24 * 3600 * 1000;
/// How many browsers one token keeps logged in; the oldest goes first.
const PAGES_MAX: usize = 32;
/// How many tokens of earlier starts go on to work; the oldest goes first.
const STARTS_MAX: usize = 16;

/// Who calls, as their token says.
#[derive(Debug, Clone)]
pub struct Bearer {
    /// The token, or the one that the page was opened with.
    pub id: TokenId,
    /// What its maker calls it.
    pub name: String,
    /// The user of the system who made the token.
    pub owner: String,
    /// What they may do.
    pub scopes: Scopes,
    /// When the token was made, or the one that the page was opened with.
    pub created: Timestamp,
    /// Whether a process of unknown origin made it.
    pub unattended: bool,
    /// Cancelled when the token is revoked or expires: what they hold open must end then.
    pub ended: CancellationToken,
}

/// How a token was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    /// In a header or an address.
    Explicit,
    /// As the page's cookie.
    Cookie,
}

/// The tokens that open this server.
pub struct Tokens {
    store: Arc<dyn TokenStore>,
    clock: Arc<dyn Clock>,
    table: RwLock<Arc<Table>>,
    /// Only one reads the store at a time.
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
    /// Reads the tokens.
    ///
    /// # Errors
    /// When the store cannot.
    pub async fn open(store: Arc<dyn TokenStore>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let table = RwLock::new(Arc::new(Table { read: Instant::now(), rows: Vec::new() }));
        let tokens =
            Self { store, clock, table, reading: tokio::sync::Mutex::default(), uses: Mutex::default() };
        tokens.read().await?;
        Ok(tokens)
    }

    /// Makes the token that the page's address has when the server starts. It goes on to work after a restart, for a
    /// month if nobody has made another, else for half a day.
    ///
    /// # Errors
    /// When the store cannot.
    pub async fn start(&self, owner: &str) -> Result<SecretString, StoreError> {
        self.remove_expired().await?;
        let now = self.clock.now();
        let has_own = self.table().rows.iter().any(|row| {
            row.record.kind == TokenKind::Issued && row.record.scopes.operate && !row.is_over(now)
        });
        let life = if has_own { START_BESIDE_OTHERS_MS } else { START_MS };
        let (token, record) = mint(NewToken {
            kind: TokenKind::Start,
            name: "start".to_owned(),
            owner: owner.to_owned(),
            scopes: Scopes::ALL,
            now,
            expires: Some(Timestamp(now.0 + life)),
            parent: None,
            unattended: false,
        });
        self.store.insert_token(&record).await?;
        self.read().await?;
        Ok(token)
    }

    /// Who shows this token; none where it opens nothing.
    ///
    /// # Errors
    /// When nobody can say, because the store cannot be read.
    pub async fn bearer(
        &self,
        token: &SecretString,
        kind: CredentialKind,
    ) -> Result<Option<Bearer>, StoreError> {
        let Some(hash) = hash_of(token) else { return Ok(None) };
        let shown_at = Instant::now();
        self.refresh(FRESH).await?;
        let mut found = self.find(&hash, kind);
        if found.is_none() {
            self.read_since(shown_at).await?;
            found = self.find(&hash, kind);
        }
        Ok(found.map(|row| self.used(row)))
    }

    /// Lets a browser in that shows a token in the page's address: gives it a cookie of its own. A token is good for one
    /// such visit.
    ///
    /// # Errors
    /// When the store cannot.
    pub async fn visit(&self, token: &SecretString) -> Result<Option<SecretString>, StoreError> {
        let Some(bearer) = self.bearer(token, CredentialKind::Explicit).await? else { return Ok(None) };
        if !self.store.spend_visit(&bearer.id).await? {
            return Ok(None);
        }
        self.page(&bearer).await.map(Some)
    }

    /// Gives a browser a cookie for a token that its person typed.
    ///
    /// # Errors
    /// When the store cannot.
    pub async fn log_in(&self, token: &SecretString) -> Result<Option<SecretString>, StoreError> {
        match self.bearer(token, CredentialKind::Explicit).await? {
            Some(bearer) => self.page(&bearer).await.map(Some),
            None => Ok(None),
        }
    }

    /// Follows the store until `stop`, so that also what is held open ends when its token does; writes down what was used
    /// when.
    pub async fn follow(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.clock.sleep(FRESH) => {}
            }
            if let Err(error) = self.read().await {
                tracing::warn!(%error, "the tokens cannot be read");
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
        self.keep_newest(PAGES_MAX - 1, |record| record.parent.as_ref() == Some(&of.id)).await?;
        self.store.insert_token(&record).await?;
        self.read().await?;
        Ok(token)
    }

    /// Removes what expired, and the oldest of the earlier starts.
    async fn remove_expired(&self) -> Result<(), StoreError> {
        self.read().await?;
        let now = self.clock.now();
        for row in &self.table().rows {
            if row.is_over(now) && row.record.kind != TokenKind::Issued {
                self.store.revoke_token(&row.record.id).await?;
            }
        }
        self.keep_newest(STARTS_MAX - 1, |record| record.kind == TokenKind::Start).await
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
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Compares with every token, so that the time says nothing of which one was near.
    fn find(&self, hash: &[u8; 32], kind: CredentialKind) -> Option<TokenEntry> {
        let now = self.clock.now();
        let mut found = None;
        for row in &self.table().rows {
            let fits = same(&row.record.hash, hash);
            let right = (row.record.kind == TokenKind::Page) == (kind == CredentialKind::Cookie);
            if fits && right && !row.is_over(now) && !row.ended.is_cancelled() {
                found = Some(row.clone());
            }
        }
        found
    }

    fn used(&self, row: TokenEntry) -> Bearer {
        let now = self.clock.now();
        let TokenRecord { id, name, owner, scopes, parent, last_used, unattended, created, .. } = row.record;
        let made = parent.as_ref().and_then(|parent| {
            self.table().rows.iter().find(|row| row.record.id == *parent).map(|row| row.record.created)
        });
        if last_used.is_none_or(|last| now.0 - last.0 >= USE_STEP_MS) {
            let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
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
            return Ok(()); // somebody else just did
        }
        self.read_now().await
    }

    async fn read(&self) -> Result<(), StoreError> {
        let _reading = self.reading.lock().await;
        self.read_now().await
    }

    /// Knows at least what the store knew at that moment. Of many who ask, the next reading is for all.
    async fn read_since(&self, moment: Instant) -> Result<(), StoreError> {
        let _reading = self.reading.lock().await;
        let read = self.table().read;
        if read > moment {
            return Ok(()); // somebody else's reading was for this one too
        }
        tokio::time::sleep_until(read + UNKNOWN_STEP).await;
        self.read_now().await
    }

    /// Reads the store; whoever does holds `reading`.
    async fn read_now(&self) -> Result<(), StoreError> {
        let old = self.table();
        // Taken before the store is asked: what it says is at least as new.
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
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Table { read, rows });
        Ok(())
    }

    async fn write_uses(&self) {
        let uses: Vec<_> = {
            let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            uses.drain().collect()
        };
        if uses.is_empty() {
            return;
        }
        if let Err(error) = self.store.record_token_uses(&uses).await {
            tracing::warn!(%error, "when tokens were used last cannot be written down");
        }
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("count", &self.table().rows.len()).finish_non_exhaustive()
    }
}
