//! The tables, and the migrations from older versions.
//!
//! A released migration is never changed; new ones are appended.

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

/// Advisory lock that is held during migrations, so that only one of several starting nodes migrates.
const MIGRATION_LOCK: i64 = 0x0073_7973_6f70;

/// Oldest supported major version of PostgreSQL.
pub(super) const SERVER_MIN: u32 = 13;

/// The entry at index N migrates the schema from version N to version N + 1.
///
/// Strings that are also compared by this program are ordered by bytes (`COLLATE "C"`), as they are in the program.
const MIGRATIONS: &[&str] = &[
    r#"
    CREATE TABLE sysop_nodes (
        id      text        COLLATE "C" PRIMARY KEY, -- one life of a process
        name    text        NOT NULL,                -- for people
        channel text        NOT NULL,                -- where it listens
        until   timestamptz NOT NULL                 -- when it counts as dead
    );
    CREATE TABLE sysop_sessions (
        id       text   COLLATE "C" PRIMARY KEY,
        title    text   NOT NULL,
        created  bigint NOT NULL, -- milliseconds since 1970-01-01T00:00:00Z
        changed  bigint NOT NULL, -- as created
        last_seq bigint NOT NULL,
        host     text   NOT NULL,
        root     text   NOT NULL,
        mark     bigint NOT NULL, -- names the last append, so that one whose answer was lost is known again
        owner    text   COLLATE "C", -- the node that works on it; it may be dead
        token    bigint NOT NULL,    -- what the owner has to show; 0 where nobody owns it
        watchers text[] NOT NULL DEFAULT '{}' -- the channels of the nodes that follow it
    );
    CREATE INDEX sysop_sessions_changed ON sysop_sessions (changed DESC, id DESC);
    CREATE INDEX sysop_sessions_owner ON sysop_sessions (owner) WHERE owner IS NOT NULL;
    CREATE TABLE sysop_events (
        session text   COLLATE "C" NOT NULL REFERENCES sysop_sessions (id) ON DELETE CASCADE,
        seq     bigint NOT NULL,
        at      bigint NOT NULL, -- milliseconds since 1970-01-01T00:00:00Z
        body    text   NOT NULL, -- the event as JSON; `jsonb` could not hold every text
        PRIMARY KEY (session, seq)
    );
    CREATE TABLE sysop_letters (
        number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id      text   COLLATE "C" NOT NULL UNIQUE, -- chosen by the sender: who posts it again changes nothing
        session text   COLLATE "C" NOT NULL REFERENCES sysop_sessions (id) ON DELETE CASCADE,
        body    text   NOT NULL, -- the input as JSON
        taken   timestamptz      -- when what it led to was logged
    );
    CREATE INDEX sysop_letters_waiting ON sysop_letters (session, number) WHERE taken IS NULL;
    CREATE INDEX sysop_letters_taken ON sysop_letters (taken) WHERE taken IS NOT NULL;
"#,
    r#"
    CREATE TABLE sysop_tokens (
        id        text    COLLATE "C" PRIMARY KEY,
        kind      text    NOT NULL,
        name      text    NOT NULL,
        scope     text    NOT NULL,
        hash      bytea   NOT NULL, -- never the token
        created   bigint  NOT NULL, -- milliseconds since 1970-01-01T00:00:00Z
        expires   bigint,           -- as created
        last_used bigint,           -- as created
        parent    text    COLLATE "C" REFERENCES sysop_tokens (id) ON DELETE CASCADE,
        visited   boolean NOT NULL
    );
    CREATE INDEX sysop_tokens_parent ON sysop_tokens (parent) WHERE parent IS NOT NULL;
"#,
    // The tables do not change. From here on logs may contain kinds of events that 0.1.0 cannot read; it must
    // reject the database as a whole instead of failing on individual sessions.
    "SELECT 1",
    // Before this version, `operate` included `decide`.
    r#"
    ALTER TABLE sysop_tokens ADD COLUMN owner      text    NOT NULL DEFAULT '';
    ALTER TABLE sysop_tokens ADD COLUMN unattended boolean NOT NULL DEFAULT false;
    UPDATE sysop_tokens SET scope = 'operate,decide' WHERE scope = 'operate';
"#,
    "ALTER TABLE sysop_sessions ADD COLUMN pinned boolean NOT NULL DEFAULT false",
];

/// Reason why the tables could not be checked or migrated.
#[derive(Debug)]
pub(super) enum SchemaError {
    Sql(sqlx::Error),
    /// The server is too old for the tables.
    UnsupportedServer {
        /// The server's major version.
        found: u32,
    },
    NewerSchema {
        /// Version of the tables.
        found: i32,
        /// Newest version known to this program.
        known: i32,
    },
}

impl From<sqlx::Error> for SchemaError {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

pub(super) async fn migrate(connection: &mut PgConnection) -> Result<(), SchemaError> {
    // 170002 is 17.2, 90624 is 9.6.24. A server that reports no version number is tried anyway.
    match connection.server_version_num().map(|number| number / 10_000) {
        Some(found) if found < SERVER_MIN => return Err(SchemaError::UnsupportedServer { found }),
        Some(_) | None => {}
    }
    if is_current(connection).await? {
        return Ok(());
    }
    let mut work = connection.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(MIGRATION_LOCK).execute(&mut *work).await?;
    // Runs before the version is read: only this statement sees the work of a concurrent migration.
    work.execute("CREATE TABLE IF NOT EXISTS sysop_schema (version int NOT NULL)").await?;
    let done = version(&mut work).await?;
    for migration in MIGRATIONS.iter().skip(usize::try_from(done).unwrap_or(0)) {
        work.execute(*migration).await?;
    }
    work.execute("DELETE FROM sysop_schema").await?;
    sqlx::query("INSERT INTO sysop_schema (version) VALUES ($1)").bind(known()).execute(&mut *work).await?;
    work.commit().await?;
    Ok(())
}

/// Returns true if the tables are current, and an error if they are newer than this program.
pub(super) async fn is_current(connection: &mut PgConnection) -> Result<bool, SchemaError> {
    let there: bool = sqlx::query_scalar("SELECT to_regclass('sysop_schema') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?;
    Ok(there && version(connection).await? == known())
}

async fn version(connection: &mut PgConnection) -> Result<i32, SchemaError> {
    let found: Option<i32> =
        sqlx::query_scalar("SELECT version FROM sysop_schema").fetch_optional(connection).await?;
    match found.unwrap_or(0) {
        found if found > known() => Err(SchemaError::NewerSchema { found, known: known() }),
        found => Ok(found),
    }
}

fn known() -> i32 {
    i32::try_from(MIGRATIONS.len()).expect("the number of migrations fits in 32 bits")
}
