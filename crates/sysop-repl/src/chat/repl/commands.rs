//! Prompts, and the REPL's commands for sessions, jobs and routines.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use serde_json::json;
use sysop_core::event::{ConfigChange, Input, Origin};
use sysop_core::id::{SessionId, Timestamp, TurnId};
use sysop_core::image::prompt_for_display;
use sysop_core::model_provider::typed_model;
use sysop_core::transcript::{ItemBody, ItemId};
use sysop_core::ui_text;
use sysop_driver::frontend::{SessionSelector, prompt_with_images};
use sysop_driver::port::SessionSummary;
use sysop_term::StyleRole;
use sysop_term::cells::width;
use sysop_term::command::{JobsCommand, NO_TOOL_SERVERS, PermissionsCommand};
use sysop_term::session_text::{self, PermissionsAnswer, status_lines};

use super::{AwaitedUpdate, Repl};
use crate::chat::ReplLayout;
use crate::render::{row, truncate, words};

/// Maximum number of past sessions to list.
const SESSIONS_LISTED: usize = 15;
/// Minimum number of columns for the titles of listed sessions; with fewer, their directories are left out.
const TITLE_COLUMNS_MIN: usize = 30;
/// Maximum width of a column that longer cells do not widen further.
const CELL_COLUMNS_MAX: usize = 32;

impl Repl {
    /// Sends a prompt with the images that it mentions as `@PATH`.
    pub(super) async fn prompt(&mut self, text: String) -> io::Result<()> {
        let Some(input) = self.prompt_input(text).await? else { return Ok(()) };
        if let Input::Prompt { text, images, .. } = &input {
            self.view.own_prompt(&prompt_for_display(text, images));
            self.server_link.unlogged = Some(text.clone());
        }
        self.send_and_expect(input, AwaitedUpdate::Turn)
    }

    /// Sends the initial task. Unlike a prompt that was typed here, it is not on the screen yet.
    pub(super) async fn task(&mut self, text: String) -> io::Result<()> {
        let Some(input) = self.prompt_input(text).await? else { return Ok(()) };
        self.send_and_expect(input, AwaitedUpdate::Turn)
    }

    /// Reads the images that a prompt mentions and names them. Returns `None` if one cannot be read, which is reported.
    async fn prompt_input(&mut self, text: String) -> io::Result<Option<Input>> {
        match prompt_with_images(self.context.service.as_ref(), self.session.id(), text).await {
            Ok(input) => {
                if let Input::Prompt { images, .. } = &input {
                    images.iter().try_for_each(|image| self.note(&image.to_string()))?;
                }
                Ok(Some(input))
            }
            Err(error) => {
                self.view.say(&error, StyleRole::Bad, &mut self.screen)?;
                Ok(None)
            }
        }
    }

    /// Shows the whole output of a call that has ended; `None` means the last one.
    pub(super) fn show_output(&mut self, number: Option<u32>) -> io::Result<()> {
        match self.transcript.ended_output(number) {
            Some(output) => self.view.whole_output(output, &self.transcript, &mut self.screen),
            None => self.note(&ui_text::no_output(number)),
        }
    }

    pub(super) async fn status(&mut self) -> io::Result<()> {
        let branch = self.context.service.git_branch(self.session.id()).await;
        let model = self.transcript.session_info().map(|facts| facts.model.clone());
        let protocol = match &model {
            Some(model) => self.context.service.model_status(self.session.id(), model).await,
            None => None,
        };
        let lines = status_lines(
            Some(self.session.id()),
            &self.transcript,
            &self.cost,
            branch.as_deref(),
            protocol.as_deref(),
        );
        let labels = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        let lines: Vec<_> = lines.iter().map(|(label, value)| format!("{label:<labels$}  {value}")).collect();
        self.view.say(&lines.join("\n"), StyleRole::Text, &mut self.screen)
    }

    pub(super) fn permissions(&mut self, command: PermissionsCommand) -> io::Result<()> {
        match session_text::permissions(&self.transcript, command) {
            Ok(PermissionsAnswer::Lines(lines)) => {
                self.view.say(&lines.join("\n"), StyleRole::Text, &mut self.screen)
            }
            Ok(PermissionsAnswer::Revoke(grants)) => {
                let change = ConfigChange::Revoke(grants);
                self.send_and_expect(Input::Configure { change }, AwaitedUpdate::Event)
            }
            Err(why) => self.view.say(&why, StyleRole::Warn, &mut self.screen),
        }
    }

    /// Lists past sessions; if `words` is set, only those with these words in their title or text.
    pub(super) async fn list_sessions(&mut self, words: Option<&str>) -> io::Result<()> {
        let service = Arc::clone(&self.context.service);
        let mut sessions = match service.list().await {
            Ok(sessions) => sessions,
            Err(error) => return self.view.say(&error, StyleRole::Bad, &mut self.screen),
        };
        let mut excerpts = HashMap::new();
        if let Some(words) = words {
            let hits = service.search(words).await.unwrap_or_default();
            excerpts = hits.into_iter().map(|hit| (hit.id, hit.excerpt)).collect();
            let lower = words.to_lowercase();
            sessions.retain(|it| excerpts.contains_key(&it.id) || it.title.to_lowercase().contains(&lower));
        }
        sessions.retain(|it| it.id != *self.session.id());
        if sessions.is_empty() {
            return self.note(if words.is_some() { "no session found" } else { "no past sessions" });
        }
        sessions.truncate(SESSIONS_LISTED);
        let columns = match self.context.form {
            ReplLayout::Panels { .. } => self.screen.render_options().width.saturating_sub(1),
            ReplLayout::Plain => usize::MAX,
        };
        let lines = session_lines(&sessions, &excerpts, words::now(), columns);
        self.view.say(&lines.join("\n"), StyleRole::Text, &mut self.screen)?;
        self.listed = sessions.into_iter().map(|it| it.id).collect();
        self.note("open one with /resume and its number or ID; find one with /sessions WORDS")
    }

    /// Opens a past session by its id or by its number in the newest list.
    pub(super) async fn resume(&mut self, name: String) -> io::Result<()> {
        let number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let listed = number.and_then(|at| self.listed.get(at)).map(|id| id.as_str().to_owned());
        self.open(SessionSelector::Existing(listed.unwrap_or(name))).await
    }

    /// Forks the session before a turn, or lists the turns.
    pub(super) async fn fork(&mut self, turn: Option<u32>) -> io::Result<()> {
        let prompts = self.transcript.items().filter_map(|item| match (&item.id, &item.body) {
            (ItemId::Prompt(turn), ItemBody::Prompt(prompt)) => Some((*turn, prompt.text.clone())),
            _ => None,
        });
        let prompts: Vec<(TurnId, String)> = prompts.collect();
        let Some(turn) = turn else {
            if prompts.is_empty() {
                return self.note("no message to fork from");
            }
            let lines: Vec<_> = prompts
                .iter()
                .map(|(turn, text)| format!("{turn}  {}", text.lines().next().unwrap_or_default()))
                .collect();
            self.view.say(&lines.join("\n"), StyleRole::Text, &mut self.screen)?;
            return self.note("fork before one of these messages with /fork TURN");
        };
        let Some((before, text)) = prompts.into_iter().find(|(id, _)| id.0 == turn) else {
            return self.note(&format!("turn {turn} has no message to fork from"));
        };
        let from = self.session.id().clone();
        self.open(SessionSelector::fork_of(from, before, &self.transcript)).await?;
        // The message can be edited and sent again.
        self.draft = text;
        Ok(())
    }

    pub(super) async fn export(&mut self, file: Option<&str>) -> io::Result<()> {
        match self.context.service.export(self.session.id(), file).await {
            Ok(text) => self.note(&text),
            Err(error) => self.view.say(&error, StyleRole::Bad, &mut self.screen),
        }
    }

    /// Changes the model, or lists the models offered by the servers.
    pub(super) async fn model(&mut self, name: Option<&str>) -> io::Result<()> {
        let Some(current) = self.transcript.session_info().map(|facts| facts.model.clone()) else {
            return Ok(());
        };
        let Some(name) = name else {
            let models = self.context.service.models().await;
            let others: Vec<_> =
                models.iter().filter(|model| **model != current).map(|model| format!("  {model}")).collect();
            self.note(&format!("model: {current}"))?;
            if !others.is_empty() {
                self.view.say(&others.join("\n"), StyleRole::Text, &mut self.screen)?;
                self.note("change it with /model PROVIDER/NAME")?;
            }
            return Ok(());
        };
        match typed_model(name, current) {
            Ok(model) => {
                let change = ConfigChange::Model(model.clone());
                self.send_and_expect(Input::Configure { change }, AwaitedUpdate::Event)?;
                match self.context.service.model_problem(self.session.id(), &model).await {
                    Some(problem) => {
                        self.view.say(&format!("warning: {problem}"), StyleRole::Warn, &mut self.screen)
                    }
                    None => Ok(()),
                }
            }
            Err(why) => self.view.say(&why, StyleRole::Warn, &mut self.screen),
        }
    }

    pub(super) fn jobs(&mut self, command: JobsCommand) -> io::Result<()> {
        match command {
            JobsCommand::Stop(job) => self.send(Input::StopJob { job }),
            JobsCommand::List if self.running() => self.list_running_jobs(),
            JobsCommand::List => self.direct("jobs", json!({ "action": "list" }), Origin::User),
            JobsCommand::Read(job) => {
                self.direct("jobs", json!({ "action": "read", "id": job.0 }), Origin::User)
            }
        }
    }

    /// Lists the running jobs, each on a row.
    fn list_running_jobs(&mut self) -> io::Result<()> {
        if self.transcript.jobs().is_empty() {
            return self.note(&ui_text::running_jobs(self.transcript.jobs()));
        }
        let (columns, now) = (self.screen.render_options().width.saturating_sub(1), words::now());
        let rows = self.transcript.jobs().iter().map(|(id, job)| {
            let time = self.transcript.job_run_time(id, now);
            truncate(&row(&ui_text::job_line(id, job, time.as_deref()), StyleRole::Dim), columns).text()
        });
        let rows: Vec<String> = rows.collect();
        self.note(&rows.join("\n"))
    }

    pub(super) fn routine(&mut self, name: &str, values: &[(String, String)]) -> io::Result<()> {
        let Some(routine) = self.routines.iter().find(|routine| routine.name == name) else {
            let text = format!("unknown routine {name}; see /routines");
            return self.view.say(&text, StyleRole::Warn, &mut self.screen);
        };
        let host = self.transcript.session_info().map_or("", |facts| &facts.host);
        match (routine.render)(host, values) {
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

/// Returns an error about a session with the REPL's command for the list of sessions.
pub(super) fn with_own_commands(error: &str) -> String {
    error.replace("run `sysop sessions list` to see the sessions", "/sessions lists them")
}

/// Returns a numbered line for each session, at most `columns` wide, with an excerpt below it. Directories are left out
/// if they would leave too little room for titles.
fn session_lines(
    sessions: &[SessionSummary],
    excerpts: &HashMap<SessionId, String>,
    now: Timestamp,
    columns: usize,
) -> Vec<String> {
    let cells = |it: &SessionSummary| {
        let age = age(now.0.saturating_sub(it.changed.0));
        [it.id.short().to_owned(), age, ui_text::place(&it.host)]
    };
    let places = padded(sessions.iter().map(cells).collect());
    let roots = padded(sessions.iter().map(|it| [it.root.clone()]).collect());
    let widest = |rows: &[String]| rows.iter().map(|row| width(row)).max().unwrap_or(0);
    let digits = sessions.len().to_string().len();
    let before = digits + 2 + widest(&places) + 2;
    let roots_width = widest(&roots) + 2;
    let has_roots = before + roots_width + TITLE_COLUMNS_MIN <= columns;
    let room = columns.saturating_sub(before + if has_roots { roots_width } else { 0 });
    let rows = (1..).zip(sessions.iter().zip(places.iter().zip(&roots)));
    rows.map(|(number, (it, (place, root)))| {
        let root = if has_roots { format!("{root}  ") } else { String::new() };
        let title = cut(&it.title.replace('\n', " "), room);
        let excerpt = excerpts.get(&it.id).map(|text| text.replace('\n', " "));
        let excerpt = excerpt.map(|text| format!("\n    {}", cut(&text, columns.saturating_sub(4))));
        let excerpt = excerpt.unwrap_or_default();
        format!("{number:>digits$}  {place}  {root}{title}{excerpt}")
    })
    .collect()
}

/// Returns the beginning of a text that is wider than `columns`, with an ellipsis.
fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        if width(&short) + width(c.encode_utf8(&mut [0; 4])) >= columns {
            break;
        }
        short.push(c);
    }
    format!("{}…", short.trim_end())
}

/// Returns rows whose columns are as wide as their widest cell, up to `CELL_COLUMNS_MAX`.
fn padded<const N: usize>(rows: Vec<[String; N]>) -> Vec<String> {
    let mut widths = [0; N];
    for row in &rows {
        for (most, cell) in widths.iter_mut().zip(row) {
            *most = width(cell).min(CELL_COLUMNS_MAX).max(*most);
        }
    }
    let pad =
        |(cell, most): (&String, &usize)| format!("{cell}{}", " ".repeat(most.saturating_sub(width(cell))));
    rows.iter().map(|row| row.iter().zip(&widths).map(pad).collect::<Vec<_>>().join("  ")).collect()
}

/// Formats an age, given in milliseconds, as the TUI's list of sessions does.
fn age(milliseconds: i64) -> String {
    match milliseconds / 1_000 {
        ..60 => "just now".to_owned(),
        seconds @ 60..3_600 => format!("{} min ago", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use sysop_core::id::{Seq, SessionId, Timestamp};
    use sysop_driver::port::SessionSummary;
    use sysop_term::cells::width;

    use super::{padded, session_lines, with_own_commands};

    #[test]
    fn a_narrow_list_of_sessions_omits_directories_and_cuts_titles() {
        let session = |title: &str| SessionSummary {
            id: SessionId::new("019d7a5e-0000-7000-8000-000000000000"),
            title: title.to_owned(),
            created: Timestamp(0),
            changed: Timestamp(0),
            last_seq: Seq(1),
            host: "local".to_owned(),
            root: "/srv/app/releases/current".to_owned(),
            pinned: false,
        };
        let title = "find out why the disk of the database server is full";
        let sessions = [session(title), session("short")];
        let lines = |columns| session_lines(&sessions, &HashMap::new(), Timestamp(3_600_000), columns);
        assert!(lines(120)[0].contains("/srv/app/releases/current  find out"), "{:?}", lines(120));
        let narrow = lines(79);
        assert!(!narrow[0].contains("/srv") && narrow[0].ends_with('…'), "{narrow:?}");
        assert!(narrow[1].ends_with("  short") && narrow.iter().all(|line| width(line) <= 79), "{narrow:?}");
        assert!(lines(usize::MAX)[0].ends_with(title));
        let excerpts = HashMap::from([(sessions[0].id.clone(), format!("{title}\n{title}"))]);
        let found = session_lines(&sessions[..1], &excerpts, Timestamp(0), 79).join("\n");
        let rows: Vec<&str> = found.lines().collect();
        assert!(rows.len() == 2 && rows[1].ends_with('…'), "{rows:?}");
        assert!(rows.iter().all(|row| width(row) <= 79), "{rows:?}");
    }

    #[test]
    fn an_unknown_session_is_looked_up_with_the_command_of_the_repl() {
        let error = "no session with id `zzz`; run `sysop sessions list` to see the sessions";
        assert_eq!(with_own_commands(error), "no session with id `zzz`; /sessions lists them");
    }

    #[test]
    fn columns_are_as_wide_as_their_content() {
        let row = |host: &str, root: &str| [host.to_owned(), root.to_owned()];
        let rows = padded(vec![row("127.0.0.1", "/srv"), row("日本", "/home/me"), row("a", &"x".repeat(40))]);
        let starts = ["127.0.0.1  /srv    ", "日本       /home/me", "a          xxxx"];
        assert!(rows.iter().zip(starts).all(|(row, start)| row.starts_with(start)), "{rows:?}");
        assert_eq!(rows[0].len(), 11 + 32);
    }
}
