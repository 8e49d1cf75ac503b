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
/// When there is no such session, or the store does not delete it, or not all of its text. Files that cannot be removed are
/// no error.
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
    deleted
}

/// Whether a session is deleted, also where some of its text could not be overwritten.
async fn is_gone(store: &dyn Store, id: &SessionId) -> bool {
    match store.load(id, Seq(0), 1).await {
        Ok(page) => page.is_empty(),
        Err(error) => matches!(error, StoreError::NotFound(_)),
    }
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
    async fn files_go_also_where_text_stays_in_a_backup() {
        let world = World::new();
        let flags = GlobalFlags { root: Some(world.root()), ..GlobalFlags::default() };
        let environment = [("PATH", "")].into_iter().collect();
        let settings = Settings::from_parts(&flags, environment, world.folders(), ColorMode::Off).unwrap();
        let storage = Storage::file(&settings).unwrap();
        let (store, id) = (storage.store(), SessionId::new("s"));
        let prompt = Event::PromptQueued { text: "hi".to_owned() };
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
