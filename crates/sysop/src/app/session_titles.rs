//! Titles of sessions that begin without a prompt, such as the sessions of `sysop run`.

use std::sync::Arc;

use parking_lot::Mutex;
use sysop_core::event::Update;
use sysop_core::id::{Seq, SessionId};
use sysop_driver::Handle;
use sysop_driver::port::{Annotation, Store};
use tokio::task::JoinHandle;

/// Gives the same title to several new sessions.
pub(super) struct SessionTitles {
    title: String,
    store: Arc<dyn Store>,
    /// Each session, with the task that waits for its first event.
    tasks: Mutex<Vec<(SessionId, JoinHandle<()>)>>,
}

impl SessionTitles {
    pub(super) fn new(title: String, store: Arc<dyn Store>) -> Self {
        Self { title, store, tasks: Mutex::default() }
    }

    /// Sets the title of a new session once it is in the store, which is after its first event.
    pub(super) fn add(&self, session: &Handle) {
        let (id, store, title) = (session.id().clone(), Arc::clone(&self.store), self.title.clone());
        let mut updates = session.subscribe(Seq(0));
        let of_session = id.clone();
        let task = tokio::spawn(async move {
            while let Some(update) = updates.next().await {
                if matches!(update, Update::Logged(_)) {
                    return set_title(store.as_ref(), &of_session, title).await;
                }
            }
        });
        self.tasks.lock().push((id, task));
    }

    /// Sets the titles that are still missing. Must be called before the store is closed.
    pub(super) async fn close(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for (id, task) in tasks {
            if !task.is_finished() {
                task.abort();
                set_title(self.store.as_ref(), &id, self.title.clone()).await;
            }
        }
    }
}

async fn set_title(store: &dyn Store, id: &SessionId, title: String) {
    let annotation = Annotation { title: Some(title), ..Annotation::default() };
    // If this fails, for example because the session is not in the store, it is listed without a title.
    let _ = store.annotate(id, &annotation).await;
}
