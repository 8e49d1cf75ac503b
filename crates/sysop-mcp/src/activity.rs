//! Signs of activity from a server: progress, questions to the user, and changes to its list of tools.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Activity {
    last: Mutex<Instant>,
    /// Total time during which questions were open, and the start of the one that is open now.
    asked: Mutex<(Duration, Option<Instant>)>,
    questions: AtomicUsize,
    question_ended: Notify,
    list_changed: AtomicBool,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            last: Mutex::new(Instant::now()),
            asked: Mutex::default(),
            questions: AtomicUsize::new(0),
            question_ended: Notify::new(),
            list_changed: AtomicBool::new(false),
        }
    }

    pub(crate) fn touch(&self) {
        *self.last.lock() = Instant::now();
    }

    pub(crate) fn last(&self) -> Instant {
        *self.last.lock()
    }

    /// Returns an upper bound for the time during which questions have been open since `start`.
    pub(crate) fn asked_for(&self, start: Instant) -> Duration {
        let (total, open) = *self.asked.lock();
        total.min(start.elapsed()) + open.map(|open| open.elapsed()).unwrap_or_default()
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.questions.load(Ordering::SeqCst) > 0
    }

    pub(crate) async fn question_ended(&self) {
        self.question_ended.notified().await;
    }

    /// Marks a question as open until the guard is dropped.
    pub(crate) fn ask(&self) -> OpenQuestion<'_> {
        if self.questions.fetch_add(1, Ordering::SeqCst) == 0 {
            self.asked.lock().1 = Some(Instant::now());
        }
        OpenQuestion(self)
    }

    pub(crate) fn set_list_changed(&self) {
        self.list_changed.store(true, Ordering::SeqCst);
    }

    /// Returns true if the list of tools has changed since the last call.
    pub(crate) fn take_list_changed(&self) -> bool {
        self.list_changed.swap(false, Ordering::SeqCst)
    }
}

pub(crate) struct OpenQuestion<'a>(&'a Activity);

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.touch();
        if self.0.questions.fetch_sub(1, Ordering::SeqCst) == 1 {
            let mut asked = self.0.asked.lock();
            if let Some(open) = asked.1.take() {
                asked.0 += open.elapsed();
            }
        }
        self.0.question_ended.notify_one();
    }
}
