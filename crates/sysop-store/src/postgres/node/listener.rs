//! Receives the messages of other nodes. After an interruption, one `ClusterEvent::Lagged` replaces all
//! messages that were sent while the connection was down.

use std::sync::{Arc, Weak};
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use sysop_driver::cluster::ClusterEvent;
use sysop_driver::port::StoreError;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::super::database::RETRY_TIME_MAX;
use super::{HEARTBEAT_INTERVAL, NodeInner, NodeMessage};

/// Pause after a database failure.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Each node also receives its own notification at every renewal. If nothing arrives for this long, the
/// connection is dead, and notifications from other nodes are being missed, too.
const SILENCE_MAX: Duration = HEARTBEAT_INTERVAL.saturating_mul(3);

pub(super) async fn start(inner: &Arc<NodeInner>) -> Result<AbortHandle, StoreError> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(RETRY_TIME_MAX)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with((*inner.database.pool.connect_options()).clone());
    let channel = inner.channel.clone();
    let listener = inner.database.retry(|| listen(&pool, &channel)).await?;
    Ok(tokio::spawn(receive_loop(Arc::downgrade(inner), pool, channel, listener)).abort_handle())
}

async fn listen(pool: &PgPool, channel: &str) -> Result<PgListener, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.eager_reconnect(false);
    listener.listen(channel).await?;
    Ok(listener)
}

async fn receive_loop(node: Weak<NodeInner>, pool: PgPool, channel: String, first: PgListener) {
    let mut listener = Some(first);
    loop {
        let heard = match &mut listener {
            Some(open) => match timeout(SILENCE_MAX, open.try_recv()).await {
                Ok(heard) => heard,
                // Not even the node's own message arrived: the connection is silently dead.
                Err(_) => Ok(None),
            },
            None => match listen(&pool, &channel).await {
                Ok(open) => {
                    listener = Some(open);
                    let Some(inner) = node.upgrade() else { return };
                    inner.events.push(ClusterEvent::Lagged);
                    continue;
                }
                Err(error) => Err(error),
            },
        };
        let Some(inner) = node.upgrade() else { return };
        match heard {
            Ok(Some(notification)) => match serde_json::from_str::<NodeMessage>(notification.payload()) {
                Ok(payload) => payload.into_event().into_iter().for_each(|word| inner.events.push(word)),
                Err(error) => tracing::debug!(%error, "ignoring an unknown notification"),
            },
            Ok(None) => listener = None,
            Err(error) => {
                tracing::warn!(node = inner.name, %error, "not receiving notifications from other nodes");
                listener = None;
                drop(inner);
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }
}
