//! Skills and background jobs of a session, for front ends.

use super::Transcript;
use crate::event::Event;
use crate::job::{Job, RunningJobs};
use crate::skill::Skill;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Resources {
    skills: Vec<Skill>,
    jobs: RunningJobs,
}

impl Resources {
    pub(super) fn apply(&mut self, event: &Event) {
        if let Event::InstructionsLoaded { instructions } = event {
            self.skills = instructions.skills.found.iter().map(Skill::without_body).collect();
        }
        if let Event::JobStarted { job, call, command, host } = event {
            let started = Job { call: call.clone(), command: command.clone(), host: host.clone() };
            self.jobs.start(*job, started);
        }
        if let Event::JobFinished { job, .. } = event {
            self.jobs.finish(*job);
        }
    }
}

impl Transcript {
    /// Returns the skills and commands that users can invoke by name, without their texts.
    pub fn skills(&self) -> &[Skill] {
        &self.resources.skills
    }

    pub fn jobs(&self) -> &RunningJobs {
        &self.resources.jobs
    }
}
