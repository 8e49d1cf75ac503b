//! Deletes sessions together with their files.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_driver::port::{Store, StoreError};

use super::machines::ARTIFACTS;
use super::{Storage, open_store};
use crate::settings::Settings;

/// Number of events to read from the store at a time.
const PAGE_EVENTS: usize = 1000;

/// Deletes a session and its artifacts, except artifacts that another log references. Other logs may reference an
/// artifact, because a fork has the same events and identical artifacts are stored once. Fails if the session does not
/// exist, or the store fails to delete it or all of its text. Artifacts that cannot be removed are ignored.
pub(crate) async fn delete_session(
    store: &dyn Store,
    kept: &Storage,
    settings: &Settings,
    id: &SessionId,
) -> Result<(), StoreError> {
    let (mut files, last) = referenced_artifacts(store, id).await;
    let deleted = store.delete(id).await;
    if let Err(error) = &deleted
        && (matches!(error, StoreError::NotFound(_)) || !is_gone(store, id).await)
    {
        return deleted;
    }
    // Only after the deletion, because the session can then no longer be forked.
    for store in [Some(kept.store()), own_file(kept, settings)].into_iter().flatten() {
        match store.referenced_files(&files).await {
            Ok(named) => files.retain(|file| !named.contains(file)),
            Err(error) => {
                tracing::warn!(%error, "cannot determine which artifacts other sessions use; keeping all");
                files.clear();
            }
        }
    }
    let (folder, id): (PathBuf, _) = (settings.folders.data.join(ARTIFACTS), id.clone());
    let removing = tokio::task::spawn_blocking(move || sysop_host::purge_session(&folder, &files, &id, last));
    if let Err(error) = removing.await {
        tracing::warn!(%error, "cannot remove all files of a deleted session");
    }
    deleted
}

/// Returns true if a session is no longer in the store. This may be the case after a failed deletion, if only
/// some of the session's text could not be overwritten.
async fn is_gone(store: &dyn Store, id: &SessionId) -> bool {
    match store.load(id, Seq(0), 1).await {
        Ok(page) => page.is_empty(),
        Err(error) => matches!(error, StoreError::NotFound(_)),
    }
}

/// Returns the artifacts referenced by a log, and the time of its last event. Stops reading at the first
/// error, so that a partially unreadable log can still be deleted.
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

/// Returns the store in the local file if the sessions are in a database and the file exists. Both stores use
/// the same artifact directory, where identical artifacts are stored once.
fn own_file(kept: &Storage, settings: &Settings) -> Option<Arc<dyn Store>> {
    match kept {
        Storage::Sqlite(_) => None,
        Storage::Postgres(_) if !super::database(&settings.folders.data).exists() => None,
        Storage::Postgres(_) => open_store(settings).ok().map(|store| Arc::new(store) as Arc<dyn Store>),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sysop_core::event::{Event, Logged};
    use sysop_core::id::{Seq, SessionId, Timestamp};
    use sysop_driver::port::StoreError;

    use super::super::Storage;
    use super::super::machines::ARTIFACTS;
    use super::delete_session;
    use crate::config::tests::World;
    use crate::global_flags::GlobalFlags;
    use crate::settings::{ColorMode, Settings};

    #[tokio::test]
    async fn files_are_deleted_even_if_text_stays_in_a_backup() {
        let world = World::new();
        let flags = GlobalFlags { root: Some(world.root()), ..GlobalFlags::default() };
        let environment = [("PATH", "")].into_iter().collect();
        let settings = Settings::from_parts(&flags, environment, world.folders(), ColorMode::Off).unwrap();
        let storage = Storage::file(&settings).unwrap();
        let (store, id) = (storage.store(), SessionId::new("s"));
        let prompt = Event::PromptQueued { text: "hi".to_owned(), images: Vec::new(), by: None };
        let logged = Arc::new(Logged { seq: Seq(1), at: Timestamp(1), event: prompt });
        store.append(&id, Seq(0), &[logged]).await.unwrap();
        let artifacts = settings.folders.data.join(ARTIFACTS);
        std::fs::create_dir_all(&artifacts).unwrap();
        let recording = artifacts.join("terminal-s-0000000000000000.cast");
        std::fs::write(&recording, "").unwrap();
        // A backup that cannot be opened.
        std::fs::create_dir(settings.folders.data.join("sysop.db.v1.bak")).unwrap();

        let error = delete_session(store.as_ref(), &storage, &settings, &id).await.unwrap_err();
        assert!(error.to_string().contains("session s is deleted, but"), "{error}");
        assert!(!recording.exists());
        let again = delete_session(store.as_ref(), &storage, &settings, &id).await;
        assert_eq!(again, Err(StoreError::NotFound(id)));
    }
}
