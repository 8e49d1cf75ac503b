//! Commands that run in the background: calls to `bash` whose turn continued without waiting for them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{CallId, JobId};
use crate::outcome::Status;

/// Maximum running jobs per session. Once there are this many, no other command is moved to the background.
pub const JOBS_MAX: usize = 64;

/// Maximum ended jobs remembered per session; the oldest are dropped first.
pub const ENDED_JOBS_MAX: usize = 16;

/// A command running in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The call that started the command.
    pub call: CallId,
    pub command: String,
    pub host: String,
}

/// Output of a job that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobOutput {
    /// Text for the model, within the output limits.
    pub text: String,
    /// Name of the artifact with the full output, if it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
}

impl JobOutput {
    /// Returns true if there is neither text nor an artifact.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A background job that ended, with its result and the output that the model can still read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedJob {
    pub id: JobId,
    pub job: Job,
    /// Final status; `Unknown` if sysop exited, or lost the connection, while the job ran.
    pub status: Status,
    /// Exit code of the command; `None` if it was killed, or if its result is unknown.
    pub exit_code: Option<i32>,
    /// Text for the model, within the output limits.
    pub output: String,
}

impl EndedJob {
    /// Returns the exit code, or the status if there is no exit code, in a few words for the model.
    pub fn result(&self) -> String {
        match (self.status, self.exit_code) {
            (Status::Unknown, _) => "outcome unknown: sysop or the connection ended while it ran".to_owned(),
            (_, Some(code)) => format!("exit code {code}"),
            (status, None) => status.as_str().to_owned(),
        }
    }
}

/// The running jobs of one session, at most [`JOBS_MAX`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunningJobs(BTreeMap<JobId, Job>);

impl RunningJobs {
    /// Adds a job. If a log contains more than [`JOBS_MAX`] running jobs, the oldest one is dropped.
    pub fn start(&mut self, id: JobId, job: Job) {
        self.0.insert(id, job);
        if self.0.len() > JOBS_MAX {
            self.0.pop_first();
        }
    }

    pub fn finish(&mut self, id: JobId) -> Option<Job> {
        self.0.remove(&id)
    }

    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.0.get(&id)
    }

    pub fn of_call(&self, call: &CallId) -> Option<JobId> {
        self.iter().find(|(_, job)| job.call == *call).map(|(id, _)| id)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.0.iter().map(|(id, job)| (*id, job))
    }
}
