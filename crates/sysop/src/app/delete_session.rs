//! Deletes sessions, with what is kept of them beside their logs.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_driver::port::{Store, StoreError};

use super::machines::ARTIFACTS;
use super::{Storage, open_store};
use crate::settings::Settings;

/// Events that are read from the store at a time.
const PAGE_EVENTS: usize = 1000;

/// Removes a session, and of the files that its log names those that no other log names: a fork has the same log, and
/// the same bytes of two files are kept once.
///
/// # Errors
/// When there is no such session, or the store does not delete it. Files that cannot be removed are no error.
pub(crate) async fn delete_session(
    store: &dyn Store,
    kept: &Storage,
    settings: &Settings,
    id: &SessionId,
) -> Result<(), StoreError> {
    let (mut files, last) = referenced_artifacts(store, id).await;
    store.delete(id).await?;
    // Only now: who forks the session from here on finds that it is gone.
    for store in [Some(kept.store()), own_file(kept, settings)].into_iter().flatten() {
        match store.referenced_files(&files).await {
            Ok(named) => files.retain(|file| !named.contains(file)),
            Err(error) => {
                tracing::warn!(%error, "nobody can say which files others need, so all of them stay");
                files.clear();
            }
        }
    }
    let (folder, id): (PathBuf, _) = (settings.folders.data.join(ARTIFACTS), id.clone());
    let removing = tokio::task::spawn_blocking(move || sysop_host::purge_session(&folder, &files, &id, last));
    if let Err(error) = removing.await {
        tracing::warn!(%error, "not all that was kept of a deleted session is removed");
    }
    Ok(())
}

/// The files that a log names, and when it ends. A log that cannot be read to its end may be deleted all the same.
async fn referenced_artifacts(store: &dyn Store, id: &SessionId) -> (HashSet<String>, Timestamp) {
    let (mut files, mut last, mut seq) = (HashSet::new(), Timestamp(0), Seq(0));
    while let Ok(page) = store.load(id, seq, PAGE_EVENTS).await
        && let Some(end) = page.last()
    {
        (seq, last) = (end.seq, last.max(end.at));
        files.extend(page.iter().flat_map(|logged| logged.event.artifact_names()).map(str::to_owned));
    }
    (files, last)
}

/// The person's own file, where the sessions are in a database: both keep in one folder, and the same bytes once.
fn own_file(kept: &Storage, settings: &Settings) -> Option<Arc<dyn Store>> {
    match kept {
        Storage::Sqlite(_) => None,
        Storage::Postgres(_) if !super::database(&settings.folders.data).exists() => None,
        Storage::Postgres(_) => open_store(settings).ok().map(|store| Arc::new(store) as Arc<dyn Store>),
    }
}
