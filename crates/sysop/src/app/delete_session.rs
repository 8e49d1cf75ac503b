//! Deletes sessions together with their files.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use sysop_core::event::Event;
use sysop_core::id::{Seq, SessionId, Timestamp};
use sysop_driver::port::{Store, StoreError};

use super::machines::{ARTIFACTS, UNDO};
use super::{Storage, open_store};
use crate::settings::Settings;

/// Number of events to read from the store at a time.
const PAGE_EVENTS: usize = 1000;

/// Deletes a session with its artifacts and its undo records on this machine, except those that another log references.
/// Other logs may reference them, because a fork has the same events and identical artifacts are stored once. Fails if
/// the session does not exist, or the store fails to delete it or all of its text. Files that cannot be removed are
/// ignored.
pub(crate) async fn delete_session(
    store: &dyn Store,
    kept: &Storage,
    settings: &Settings,
    id: &SessionId,
) -> Result<(), StoreError> {
    let (mut files, records, last) = referenced_files(store, id).await;
    files.extend(records.iter().cloned());
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
                tracing::warn!(%error, "cannot determine which files other sessions use; keeping all");
                files.clear();
            }
        }
    }
    let undo: PathBuf = settings.folders.data.join(UNDO);
    let (folder, id): (PathBuf, _) = (settings.folders.data.join(ARTIFACTS), id.clone());
    let removing = tokio::task::spawn_blocking(move || {
        let (records, files): (HashSet<String>, HashSet<String>) =
            files.into_iter().partition(|name| records.contains(name));
        sysop_host::purge_session(&folder, &files, &id, last);
        for record in records {
            let _ = std::fs::remove_dir_all(undo.join(&record)); // most records are on other machines
            let _ = std::fs::remove_file(undo.join(format!("{record}.kb")));
        }
    });
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

/// Returns the artifacts and the undo records referenced by a log, and the time of its last event. Stops reading at the
/// first error, so that a partially unreadable log can still be deleted.
async fn referenced_files(
    store: &dyn Store,
    id: &SessionId,
) -> (HashSet<String>, HashSet<String>, Timestamp) {
    let (mut files, mut records) = (HashSet::new(), HashSet::new());
    let (mut last, mut seq) = (Timestamp(0), Seq(0));
    while let Ok(page) = store.load(id, seq, PAGE_EVENTS).await
        && let Some(end) = page.last()
    {
        (seq, last) = (end.seq, last.max(end.at));
        files.extend(page.iter().flat_map(|logged| logged.event.artifact_names()).map(str::to_owned));
        records.extend(page.iter().flat_map(|logged| record_names(&logged.event)));
    }
    (files, records, last)
}

/// Returns the names of the directories of the undo records that an event refers to.
fn record_names(event: &Event) -> impl Iterator<Item = String> {
    let outcome = if let Event::ToolFinished { outcome, .. } = event { Some(outcome) } else { None };
    let names = outcome.into_iter().flat_map(|outcome| &outcome.records).map(|record| record.id.clone());
    names.filter(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric()))
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
    use sysop_core::id::{CallId, Seq, SessionId, Timestamp};
    use sysop_core::outcome::Outcome;
    use sysop_core::undo::{UndoRecord, UndoRights};
    use sysop_driver::port::StoreError;

    use super::super::Storage;
    use super::super::machines::{ARTIFACTS, UNDO};
    use super::delete_session;
    use crate::config::tests::World;
    use crate::global_flags::GlobalFlags;
    use crate::settings::{ColorMode, Settings};

    fn settings(world: &World) -> Settings {
        let flags = GlobalFlags { root: Some(world.root()), ..GlobalFlags::default() };
        let environment = [("PATH", "")].into_iter().collect();
        Settings::from_parts(&flags, environment, world.folders(), ColorMode::Off).unwrap()
    }

    #[tokio::test]
    async fn undo_records_are_deleted_with_the_last_session_that_names_them() {
        let world = World::new();
        let settings = settings(&world);
        let storage = Storage::file(&settings).unwrap();
        let store = storage.store();
        let undo = settings.folders.data.join(UNDO);
        let record =
            |id: &str| UndoRecord { id: id.to_owned(), host: String::new(), rights: UndoRights::Own };
        for (session, ids) in [("a", ["own1", "both"]), ("b", ["both", "../own2"])] {
            let outcome = Outcome { records: ids.map(record).to_vec(), ..Outcome::ok("") };
            let event = Event::ToolFinished { call: CallId::new("c"), outcome };
            let logged = Arc::new(Logged { seq: Seq(1), at: Timestamp(1), event });
            store.append(&SessionId::new(session), Seq(0), &[logged]).await.unwrap();
        }
        for id in ["own1", "both", "own2"] {
            std::fs::create_dir_all(undo.join(id).join("files")).unwrap();
            std::fs::write(undo.join(format!("{id}.kb")), "1").unwrap();
        }
        let mut deleted = Vec::new();
        for session in ["a", "b"] {
            delete_session(store.as_ref(), &storage, &settings, &SessionId::new(session)).await.unwrap();
            deleted.push(
                ["own1", "both"].map(|id| !undo.join(id).exists() && !undo.join(format!("{id}.kb")).exists()),
            );
        }
        assert_eq!(deleted, [[true, false], [true, true]]);
        assert!(undo.join("own2").exists());
    }

    #[tokio::test]
    async fn files_are_deleted_even_if_text_stays_in_a_backup() {
        let world = World::new();
        let settings = settings(&world);
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
