//! `sysop token create|list|revoke`: manages the access tokens of this user's server.
//!
//! A token is shown only when it is created; only its hash is stored. Servers apply changes within a second.

use std::io::{self, Write};

use anyhow::Result;
use secrecy::ExposeSecret;
use sysop_core::id::Timestamp;
use sysop_core::text::neutralize_line;
use sysop_driver::port::Clock;
use sysop_driver::tokens::{TokenId, TokenKind, TokenRecord, TokenStore};
use sysop_server::auth::{NewToken, mint};

use crate::cli::TokenCommand;
use crate::exit::{CommandError, Exit};

#[derive(Debug, Clone)]
pub(crate) struct TokenMaker {
    /// Name of the operating system user.
    pub(crate) owner: String,
    /// True if the process may not have been started by a user.
    pub(crate) unattended: bool,
}

/// Runs the command and writes its result to `out`. When a token is created, `out` gets only the token, and
/// the message about it goes to `err`. Fails if the store fails or the token does not exist.
pub(crate) async fn run(
    store: &dyn TokenStore,
    clock: &dyn Clock,
    maker: &TokenMaker,
    command: TokenCommand,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit> {
    match command {
        TokenCommand::Create { name, scope, expires } => {
            let now = clock.now();
            let (token, record) = mint(NewToken {
                kind: TokenKind::Issued,
                name,
                owner: maker.owner.clone(),
                scopes: scope,
                now,
                expires: expires.map(|life| Timestamp(now.0 + life.milliseconds)),
                parent: None,
                unattended: maker.unattended,
            });
            store.insert_token(&record).await.map_err(|error| CommandError::failed(error.to_string()))?;
            writeln!(out, "{}", token.expose_secret())?;
            out.flush()?;
            let until =
                record.expires.map_or("never expires".to_owned(), |at| format!("expires {}", date(at)));
            let (id, scope) = (&record.id, record.scopes.as_str());
            writeln!(
                err,
                "Created token {id} ({scope}, {until}). It is shown only once. Revoke it with `sysop token revoke \
                 {id}`."
            )?;
        }
        TokenCommand::List => list(
            &store.tokens().await.map_err(|error| CommandError::failed(error.to_string()))?,
            clock.now(),
            out,
        )?,
        TokenCommand::Revoke { id } => {
            let tokens = store.tokens().await.map_err(|error| CommandError::failed(error.to_string()))?;
            let record = named(&tokens, &id)?;
            store.revoke_token(&record.id).await.map_err(|error| CommandError::failed(error.to_string()))?;
            writeln!(out, "Revoked token {} ({}).", record.id, neutralize_line(&record.name))?;
        }
    }
    Ok(Exit::Done)
}

/// Returns the token whose id equals `text`, or the only one whose id begins with it.
fn named<'a>(tokens: &'a [TokenRecord], text: &str) -> Result<&'a TokenRecord, CommandError> {
    let fitting: Vec<_> = tokens.iter().filter(|record| record.id.as_str().starts_with(text)).collect();
    let exact = fitting.iter().find(|record| record.id == TokenId::new(text));
    match (exact, fitting.as_slice()) {
        (Some(record), _) | (None, [record]) => Ok(record),
        (None, []) => Err(CommandError::usage(format!(
            "no token with id {}; run `sysop token list` to see the tokens",
            neutralize_line(text)
        ))),
        (None, _) => Err(CommandError::usage(format!(
            "{} tokens match {}; use a longer id prefix",
            fitting.len(),
            neutralize_line(text)
        ))),
    }
}

/// Lists the tokens. Page tokens are omitted, because they become invalid together with the token that opened the page.
fn list(tokens: &[TokenRecord], now: Timestamp, out: &mut impl Write) -> io::Result<()> {
    let rows = tokens.iter().filter(|record| record.kind != TokenKind::Page).map(|record| {
        let expires = match record.expires {
            None => "never".to_owned(),
            Some(at) if at <= now => "expired".to_owned(),
            Some(at) => date(at),
        };
        let made_by = match record.kind {
            TokenKind::Issued => "you",
            TokenKind::Start => "serve",
            TokenKind::Page => "page",
            TokenKind::Link => "link",
        };
        let last_used = record.last_used.map_or("never".to_owned(), date);
        let name = neutralize_line(&record.name).into_owned();
        [
            record.id.to_string(),
            record.scopes.as_str().to_owned(),
            date(record.created),
            expires,
            last_used,
            made_by.to_owned(),
            neutralize_line(&record.owner).into_owned(),
            name,
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return writeln!(
            out,
            "No tokens yet. Create one with `sysop token create --name NAME --scope operate,decide`."
        );
    }
    let heading =
        ["ID", "SCOPE", "CREATED", "EXPIRES", "LAST USED", "CREATED BY", "OWNER", "NAME"].map(str::to_owned);
    let widths: Vec<usize> = (0..7)
        .map(|column| rows.iter().chain([&heading]).map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    for row in [&heading].into_iter().chain(&rows) {
        for (cell, width) in row.iter().zip(&widths) {
            write!(out, "{cell:width$}  ")?;
        }
        writeln!(out, "{}", row[7])?;
    }
    Ok(())
}

/// Formats the date and time, to the minute, in UTC, because tokens are inspected on several machines.
fn date(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%MZ").to_string(),
        Err(_) => "unknown".to_owned(),
    }
}
