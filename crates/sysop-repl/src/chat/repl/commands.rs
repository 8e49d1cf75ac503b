//! Commands of the REPL about jobs and routines.

use std::io;

use serde_json::json;
use sysop_core::event::{Input, Origin};
use sysop_core::ui_text;
use sysop_term::StyleRole;
use sysop_term::command::JobsCommand;

use super::Repl;

impl Repl {
    pub(super) fn jobs(&mut self, command: JobsCommand) -> io::Result<()> {
        match command {
            JobsCommand::Stop(job) => self.send(Input::StopJob { job }),
            _ if self.running() => self.note(&ui_text::running_jobs(self.transcript.jobs())),
            JobsCommand::List => self.direct("jobs", json!({ "action": "list" }), Origin::User),
            JobsCommand::Read(job) => {
                self.direct("jobs", json!({ "action": "read", "id": job.0 }), Origin::User)
            }
        }
    }

    pub(super) fn routine(&mut self, name: &str, values: &[(String, String)]) -> io::Result<()> {
        let Some(routine) = self.routines.iter().find(|routine| routine.name == name) else {
            let text = format!("unknown routine {name}; see /routines");
            return self.view.say(&text, StyleRole::Warn, &mut self.screen);
        };
        match (routine.render)(values) {
            Ok(command) => self.direct("bash", json!({ "command": command }), Origin::Routine),
            Err(error) => self.view.say(&error, StyleRole::Warn, &mut self.screen),
        }
    }

    pub(super) fn list_routines(&mut self) -> io::Result<()> {
        if self.routines.is_empty() {
            return self.note("no routines; add [routines.NAME] to the config file");
        }
        let lines: Vec<String> = self
            .routines
            .iter()
            .map(|routine| format!("{:<20} {}", routine.name, routine.description))
            .collect();
        self.view.say(&lines.join("\n"), StyleRole::Text, &mut self.screen)
    }
}
