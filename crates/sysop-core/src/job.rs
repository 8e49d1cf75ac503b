//! Commands that run in the background.

use std::collections::BTreeMap;

use crate::id::{CallId, JobId};

/// The most running jobs of one session that are remembered; the oldest are forgotten first.
pub const JOBS_MAX: usize = 64;

/// A command that runs in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The call that started it.
    pub call: CallId,
    /// The command.
    pub command: String,
    /// The host that it runs on.
    pub host: String,
}

/// The running jobs of one session, at most [`JOBS_MAX`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunningJobs(BTreeMap<JobId, Job>);

impl RunningJobs {
    /// Adds a job.
    pub fn start(&mut self, id: JobId, job: Job) {
        self.0.insert(id, job);
        if self.0.len() > JOBS_MAX {
            self.0.pop_first();
        }
    }

    /// Removes a job that has ended; `None` if it is unknown.
    pub fn finish(&mut self, id: JobId) -> Option<Job> {
        self.0.remove(&id)
    }

    /// A running job; `None` if it is unknown.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.0.get(&id)
    }

    /// All running jobs, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.0.iter().map(|(id, job)| (*id, job))
    }
}
