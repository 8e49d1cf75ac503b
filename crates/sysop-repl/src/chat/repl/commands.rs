//! Prompts, and commands of the REPL about jobs and routines.

use std::io;

use serde_json::json;
use sysop_core::event::{Input, Origin};
use sysop_core::image::prompt_for_display;
use sysop_core::ui_text;
use sysop_driver::frontend::prompt_with_images;
use sysop_term::StyleRole;
use sysop_term::command::{JobsCommand, NO_TOOL_SERVERS};

use super::{AwaitedUpdate, Repl};

impl Repl {
    /// Sends a prompt with the images that it names as `@PATH`.
    pub(super) async fn prompt(&mut self, text: String) -> io::Result<()> {
        match prompt_with_images(self.context.service.as_ref(), self.session.id(), text).await {
            Ok(input) => {
                if let Input::Prompt { text, images } = &input {
                    images.iter().try_for_each(|image| self.note(&image.to_string()))?;
                    self.view.own_prompt(&prompt_for_display(text, images));
                }
                self.send_and_expect(input, AwaitedUpdate::Turn)
            }
            Err(error) => self.view.say(&error, StyleRole::Bad, &mut self.screen),
        }
    }

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

    pub(super) async fn list_tool_servers(&mut self) -> io::Result<()> {
        let servers = match self.context.service.tool_servers(self.session.id()).await {
            Ok(servers) if servers.is_empty() => return self.note(NO_TOOL_SERVERS),
            Ok(servers) => servers,
            Err(error) => return self.view.say(&error, StyleRole::Warn, &mut self.screen),
        };
        let lines = servers.iter().flat_map(|server| {
            let tools = server.tools.iter().map(|tool| format!("  {tool}"));
            std::iter::once(format!("{}  {}", server.name, server.state)).chain(tools)
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        self.view.say(&text, StyleRole::Text, &mut self.screen)
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
