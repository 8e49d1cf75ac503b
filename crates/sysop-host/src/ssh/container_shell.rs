//! Terminal shells in containers. When `docker exec` exits, the terminal in the container is not hung up and
//! its shell keeps running, so a second session kills the shell.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::connection::{ConnectionInner, SshConnection};
use super::process_tree::RemoteProcessTree;

/// Maximum time to kill the shells when the connection is closed.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// A shell in a container; killed when this value is dropped.
#[derive(Debug)]
pub(super) struct ContainerShell {
    inner: Arc<ConnectionInner>,
    /// Variable in the environment of the shell and of everything that it starts.
    mark: String,
}

impl ContainerShell {
    /// Registers the mark of a shell that is about to start. Its command line must begin with [`Self::prefix`].
    pub(super) fn new(inner: &Arc<ConnectionInner>) -> Self {
        let mark = format!("SYSOP_CALL_{:016x}", rand::random::<u64>());
        inner.shell_marks().lock().push(mark.clone());
        Self { inner: Arc::clone(inner), mark }
    }

    /// Returns the start of the command line, which marks the shell.
    pub(super) fn prefix(&self) -> String {
        format!("export {}=1; ", self.mark)
    }

    /// Converts this value to the guard that the terminal's owner keeps.
    pub(super) fn into_guard(self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(self)
    }
}

impl Drop for ContainerShell {
    fn drop(&mut self) {
        let mut marks = self.inner.shell_marks().lock();
        let Some(at) = marks.iter().position(|mark| *mark == self.mark) else { return };
        tree(&self.inner, marks.swap_remove(at)).end_in_background();
    }
}

impl SshConnection {
    /// Closes the connection and everything running over it, and aborts connecting. The next use reconnects.
    pub async fn close(&self) {
        end_all(&self.0).await;
        self.disconnect().await;
    }
}

async fn end_all(inner: &Arc<ConnectionInner>) {
    let marks = std::mem::take(&mut *inner.shell_marks().lock());
    for mark in marks {
        match timeout(CLOSE_MAX, tree(inner, mark).end()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a shell in the container may still run"),
            Err(_) => tracing::warn!("a shell in the container may still run"),
        }
    }
}

fn tree(inner: &Arc<ConnectionInner>, mark: String) -> RemoteProcessTree {
    RemoteProcessTree { inner: Arc::clone(inner), mark, leader: None }
}
