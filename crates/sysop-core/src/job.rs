//! Commands that run in the background.

use std::collections::BTreeMap;

use crate::id::{CallId, JobId};

/// Maximum running jobs remembered per session; the oldest are dropped first.
pub const JOBS_MAX: usize = 64;

/// A command running in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub call: CallId,
    pub command: String,
    pub host: String,
}

/// The running jobs of one session, at most [`JOBS_MAX`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunningJobs(BTreeMap<JobId, Job>);

impl RunningJobs {
    /// Adds a job; drops the oldest above [`JOBS_MAX`].
    pub fn start(&mut self, id: JobId, job: Job) {
        self.0.insert(id, job);
        if self.0.len() > JOBS_MAX {
            self.0.pop_first();
        }
    }

    /// Removes a finished job; `None` if the id is unknown.
    pub fn finish(&mut self, id: JobId) -> Option<Job> {
        self.0.remove(&id)
    }

    /// Returns a running job; `None` if the id is unknown.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.0.get(&id)
    }

    /// All running jobs, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.0.iter().map(|(id, job)| (*id, job))
    }
}
