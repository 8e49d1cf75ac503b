//! Maps PostgreSQL errors to store errors.
//!
//! An error repeats the server's message only if that message cannot contain stored text. No error contains a password.

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;
use sysop_core::text::neutralize;
use sysop_driver::port::StoreError;

use super::schema::SchemaError;

/// Returns true if the same statement may succeed on another connection. The statement is then valid, and
/// either it stored nothing or its result is unknown.
pub(super) fn is_transient(error: &sqlx::Error) -> bool {
    match code(error) {
        // <https://www.postgresql.org/docs/current/errcodes-appendix.html>
        Some(code) => {
            code.starts_with("08") // connection exceptions
                || matches!(code, "57P01" | "57P02" | "57P03") // shut down, crashed, starting
                || matches!(code, "40001" | "40P01") // serialization, deadlock
                || code == "53300" // too many connections
        }
        None => matches!(
            error,
            sqlx::Error::Io(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::WorkerCrashed
        ),
    }
}

/// Returns true if the error may go away by itself or once the server is fixed. The statement is then valid.
pub(super) fn is_recoverable(error: &sqlx::Error) -> bool {
    let by_hand =
        |code| matches!(code, "53100" | "53200" | "25006" | "3D000") || str::starts_with(code, "28");
    is_transient(error) || code(error).is_some_and(by_hand)
}

/// Describes an error of the database at `place`, and the remedy.
pub(super) fn store_error(place: &str, error: &sqlx::Error) -> StoreError {
    let unavailable = StoreError::Unavailable;
    match code(error) {
        Some("53100") => unavailable(format!(
            "database {place} is out of space, and nothing was stored; free disk space on its server and try again"
        )),
        Some("53300") => unavailable(format!(
            "database {place} has no free connection; raise its `max_connections` or stop other clients"
        )),
        Some("25006") => unavailable(format!(
            "cannot write to database {place}: it is read-only or a standby; use the primary"
        )),
        Some("42501") => unavailable(format!(
            "sysop's database user lacks a privilege in database {place}; grant it CREATE and ownership of its tables"
        )),
        Some("3D000") => unavailable(format!("database {place} does not exist; create it with `createdb`")),
        Some(code) if code.starts_with("28") => unavailable(format!(
            "database {place} rejected the user or password ({}); check the URL and `pg_hba.conf`",
            message(error)
        )),
        Some(code) if is_transient(error) => {
            unavailable(format!("database {place} is unavailable (PostgreSQL {code}); try again later"))
        }
        Some(code) if code.starts_with("XX") => StoreError::Corrupt(format!(
            "database {place} is damaged (PostgreSQL {code}: {}); restore it from a backup",
            message(error)
        )),
        Some(code) => unavailable(format!("an operation failed in database {place} (PostgreSQL {code})")),
        None => unavailable(lost(place, error)),
    }
}

/// Describes an error that did not come from the server.
fn lost(place: &str, error: &sqlx::Error) -> String {
    if let sqlx::Error::Io(error) = error {
        format!(
            "cannot reach database {place} ({error}); check that PostgreSQL is running and the network is up"
        )
    } else if let sqlx::Error::Tls(error) = error {
        format!(
            "cannot establish TLS to database {place} ({error}); check its certificate, or `sslmode` in the URL"
        )
    } else {
        format!("lost the connection to database {place}; try again")
    }
}

/// Like `store_error`, but for errors of checking or migrating the tables.
pub(super) fn schema_error(place: &str, fault: &SchemaError) -> StoreError {
    match fault {
        SchemaError::Sql(error) => store_error(place, error),
        SchemaError::UnsupportedServer { found } => StoreError::Unavailable(format!(
            "database {place} runs PostgreSQL {found}, but sysop needs {} or newer; upgrade it",
            super::schema::SERVER_MIN
        )),
        SchemaError::NewerSchema { found, known } => StoreError::Unavailable(format!(
            "database {place} was written by a newer version of sysop (schema {found}; this version supports {known}); \
                use that version or another database"
        )),
    }
}

fn code(error: &sqlx::Error) -> Option<&str> {
    error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<PgDatabaseError>())
        .map(PgDatabaseError::code)
}

fn message(error: &sqlx::Error) -> String {
    error.as_database_error().map_or_else(
        || "no message".to_owned(),
        |error| neutralize(DatabaseError::message(error)).into_owned(),
    )
}
