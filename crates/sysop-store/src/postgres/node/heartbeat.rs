//! Renews a node's lease: one statement every `HEARTBEAT_INTERVAL`, independent of the number of its sessions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use sysop_core::id::SessionId;
use sysop_driver::cluster::ClusterEvent;
use sysop_driver::port::StoreError;
use tokio::time::{Instant, sleep_until, timeout_at};
use uuid::Uuid;

use super::super::database::Database;
use super::{HEARTBEAT_INTERVAL, LEASE_DURATION, LEASE_MARGIN, NodeIncarnation, NodeInner};

/// Time for which consumed inputs are kept, so that an input that is sent twice is recognized.
const INPUT_RETENTION: &str = "10 minutes";
/// Pause after a database failure.
const RETRY_INTERVAL: std::time::Duration = std::time::Duration::from_millis(200);

/// Renews the lease. Returns three values: true on success; this node's sessions that have queued inputs, because their
/// notifications may have gone to an earlier owner; and the watched sessions that have no live owner.
const RENEW: &str = "
    WITH alive AS (
        UPDATE sysop_nodes SET until = clock_timestamp() + $2 * interval '1 millisecond'
        WHERE id = $1 AND until > clock_timestamp() RETURNING pg_notify(channel, '{\"beat\":1}')
    )
    SELECT EXISTS (SELECT 1 FROM alive), ARRAY(
        SELECT DISTINCT letter.session FROM sysop_letters AS letter
        JOIN sysop_sessions AS session ON session.id = letter.session
        WHERE letter.taken IS NULL AND session.owner = $1
    ), ARRAY(
        SELECT watched FROM unnest($3::text[]) AS watched
        WHERE NOT EXISTS (
            SELECT 1 FROM sysop_sessions AS session JOIN sysop_nodes AS node ON node.id = session.owner
            WHERE session.id = watched AND node.until > clock_timestamp()
        )
    )";

/// Deletes dead nodes and obsolete inputs. If several nodes do this at once, each row is deleted by only one of them.
const SWEEP: &str = "
    WITH dead AS (
        DELETE FROM sysop_nodes WHERE id IN (
            SELECT id FROM sysop_nodes WHERE until <= clock_timestamp() FOR UPDATE SKIP LOCKED
        )
    )
    DELETE FROM sysop_letters WHERE number IN (
        SELECT number FROM sysop_letters WHERE taken < clock_timestamp() - $1::text::interval
        LIMIT 1000 FOR UPDATE SKIP LOCKED
    )";

/// Begins a lifetime of a node by inserting its row.
pub(super) async fn register_node(
    database: &Database,
    name: &str,
    channel: &str,
) -> Result<NodeIncarnation, StoreError> {
    let id = Uuid::new_v4().simple().to_string();
    let begin = || {
        sqlx::query(
            "INSERT INTO sysop_nodes (id, name, channel, until) \
             VALUES ($1, $2, $3, clock_timestamp() + $4 * interval '1 millisecond') ON CONFLICT (id) DO NOTHING",
        )
        .bind(&id)
        .bind(name)
        .bind(channel)
        .bind(lease_milliseconds())
        .execute(&database.pool)
    };
    // If the reply to the first attempt was lost, the row of that attempt counts.
    let first = Instant::now();
    database.retry(begin).await?;
    Ok(NodeIncarnation {
        id: id.into(),
        until: Mutex::new(first + LEASE_DURATION - LEASE_MARGIN),
        over: AtomicBool::new(false),
    })
}

fn lease_milliseconds() -> i64 {
    i64::try_from(LEASE_DURATION.as_millis()).expect("the lease duration fits in 64 bits")
}

/// Keeps the node alive until it is dropped or leaves. If its lease is lost, begins a new lifetime.
pub(super) async fn run(node: Weak<NodeInner>) {
    let mut connection = None;
    let mut next = Instant::now() + HEARTBEAT_INTERVAL;
    loop {
        sleep_until(next).await;
        let Some(inner) = node.upgrade() else { return };
        if inner.leaving.load(Ordering::SeqCst) {
            return;
        }
        let incarnation = inner.incarnation();
        let begun = Instant::now();
        next = begun + HEARTBEAT_INTERVAL;
        match timeout_at(incarnation.until(), renew_lease(&inner, &incarnation, &mut connection)).await {
            Ok(Ok(Some(events))) => {
                *incarnation.until.lock() = begun + LEASE_DURATION - LEASE_MARGIN;
                for word in events {
                    inner.events.push(word);
                }
            }
            Ok(Err(error)) if Instant::now() < incarnation.until() => {
                tracing::warn!(node = inner.name, %error, "could not renew the lease yet");
                connection = None;
                next = Instant::now() + RETRY_INTERVAL;
            }
            Ok(Ok(None) | Err(_)) | Err(_) => {
                connection = None;
                incarnation.over.store(true, Ordering::SeqCst);
                tracing::error!(node = inner.name, "lost the lease; other nodes take over its sessions");
                inner.events.push(ClusterEvent::LeasesLost);
                drop(inner);
                register_again(&node).await;
                next = Instant::now() + HEARTBEAT_INTERVAL;
            }
        }
    }
}

/// Renews the lease and returns pending events, or `None` if this lifetime of the node is over.
async fn renew_lease(
    inner: &NodeInner,
    incarnation: &NodeIncarnation,
    slot: &mut Option<PgConnection>,
) -> Result<Option<Vec<ClusterEvent>>, sqlx::Error> {
    let mut connection = match slot.take() {
        Some(connection) => connection,
        None => inner.database.connect().await?,
    };
    let watched: Vec<String> = inner
        .watched
        .try_lock()
        .map(|watched| watched.keys().map(ToString::to_string).collect())
        .unwrap_or_default();
    let (alive, posted, free): (bool, Vec<String>, Vec<String>) = sqlx::query_as(RENEW)
        .bind(&*incarnation.id)
        .bind(lease_milliseconds())
        .bind(watched)
        .fetch_one(&mut connection)
        .await?;
    if !alive {
        connection.close().await.ok();
        return Ok(None);
    }
    // Not part of the lease: the next renewal detects a failure here.
    match sqlx::query(SWEEP).bind(INPUT_RETENTION).execute(&mut connection).await {
        Ok(_) => *slot = Some(connection),
        Err(error) => tracing::debug!(%error, "cannot remove expired data"),
    }
    let posted = posted.into_iter().map(|id| ClusterEvent::InputQueued { id: SessionId::new(id) });
    Ok(Some(
        posted.chain(free.into_iter().map(|id| ClusterEvent::Orphaned { id: SessionId::new(id) })).collect(),
    ))
}

/// Begins another lifetime as soon as the database permits.
async fn register_again(node: &Weak<NodeInner>) {
    loop {
        let Some(inner) = node.upgrade() else { return };
        if inner.leaving.load(Ordering::SeqCst) {
            return;
        }
        match register_node(&inner.database, &inner.name, &inner.channel).await {
            Ok(incarnation) => {
                *inner.incarnation.lock() = Arc::new(incarnation);
                return inner.events.push(ClusterEvent::Lagged);
            }
            Err(error) => tracing::warn!(node = inner.name, %error, "cannot rejoin the cluster yet"),
        }
        drop(inner);
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}
