//! Overlays that receive all keys until they are closed: help, lists and forms.
#![expect(clippy::wildcard_enum_match_arm, reason = "most keys have no binding")]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sysop_core::event::ConfigChange;
use sysop_core::id::{JobId, SessionId, TurnId};
use sysop_core::message::ModelRef;
use sysop_core::policy::Grant;
use sysop_core::transcript::{ItemBody, ItemId, UserPrompt};
use sysop_driver::frontend::{SessionSelector, ToolServer};
use sysop_term::command::{COMMANDS, InputLine, JobsCommand, NO_TOOL_SERVERS, parse};
use sysop_term::session_text::grant_line;
use sysop_term::theme::ThemeChoice;

use super::{Action, App};
use crate::picker::{FormVariable, Picker, PickerEvent, PickerItem, VariableForm, VariableFormEvent};

/// Rows per page of the help.
const HELP_PAGE_ROWS: usize = 10;

/// Message shown if a list is requested before the session service is connected.
pub(super) const NOT_CONNECTED: &str = "still starting; try again in a moment";

pub enum Overlay {
    /// The help: the rows that contain the filter's words, scrolled so that `first` is the first visible row.
    Help { first: usize, filter: String },
    /// Labels with values, such as the session's status, scrolled so that `first` is the first visible row.
    Text { title: &'static str, lines: Vec<(String, String)>, first: usize },
    Picker {
        picker: Picker,
        /// Targets of the picker's entries, in the same order.
        targets: Vec<PickerTarget>,
    },
    Form {
        form: VariableForm,
        /// Index of the routine in the catalog.
        routine: usize,
    },
}

/// List whose entries must be fetched from the session service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    Sessions,
    Models,
    /// MCP servers; the list is read-only.
    ToolServers,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PickerTarget {
    Session(SessionId),
    /// Model to use from the next step on.
    Model(ModelRef),
    Host(String),
    Theme(ThemeChoice),
    /// Earlier prompt to put into the composer.
    Message(String),
    /// No action, because the entry is read-only.
    Nothing,
    /// Turn before which the fork branches off, and the text of its prompt.
    Fork(TurnId, String),
    Routine(usize),
    /// Command to run, or to insert into the composer if it needs arguments.
    Command {
        name: &'static str,
        needs_arguments: bool,
    },
    /// Session grant to revoke.
    Grant(Grant),
    /// Background job to read, or to stop with Ctrl+X.
    Job(JobId),
}

impl Overlay {
    pub(super) fn help() -> Self {
        Self::Help { first: 0, filter: String::new() }
    }

    pub(super) fn paste(&mut self, text: &str) {
        match self {
            Self::Help { .. } | Self::Text { .. } => {}
            Self::Picker { picker, .. } => picker.paste(text),
            Self::Form { form, .. } => form.paste(text),
        }
    }
}

/// Returns true for the key that stops the selected background job.
fn is_stop(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('x') && key.modifiers == KeyModifiers::CONTROL
}

fn entry(label: &str, detail: &str) -> PickerItem {
    PickerItem::new(&label.split_whitespace().collect::<Vec<_>>().join(" "), detail)
}

impl App {
    pub(super) fn key_in_overlay(&mut self, key: KeyEvent, now: Duration) -> Vec<Action> {
        match &mut self.overlay {
            None => Vec::new(),
            Some(Overlay::Help { first, filter })
                if matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace)
                    && !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) =>
            {
                *first = 0;
                match key.code {
                    KeyCode::Char(letter) => filter.push(letter),
                    _ => drop(filter.pop()),
                }
                Vec::new()
            }
            Some(Overlay::Help { first, .. } | Overlay::Text { first, .. }) => {
                match key.code {
                    KeyCode::Down | KeyCode::Char('j') => *first += 1,
                    KeyCode::Up | KeyCode::Char('k') => *first = first.saturating_sub(1),
                    KeyCode::PageDown | KeyCode::Char(' ') => *first += HELP_PAGE_ROWS,
                    KeyCode::PageUp => *first = first.saturating_sub(HELP_PAGE_ROWS),
                    _ => self.overlay = None,
                }
                Vec::new()
            }
            Some(Overlay::Picker { picker, targets }) => {
                let of = |at: Option<usize>, targets: &[PickerTarget]| targets.get(at?).cloned();
                if let (KeyCode::Tab, Some(PickerTarget::Session(id))) =
                    (key.code, of(picker.selected(), targets))
                {
                    self.overlay = None;
                    self.pending_list = None;
                    self.fork_next = true;
                    return vec![Action::OpenSession(SessionSelector::Existing(id.as_str().to_owned()))];
                }
                if let (true, Some(PickerTarget::Job(job))) = (is_stop(key), of(picker.selected(), targets)) {
                    self.overlay = None;
                    return self.jobs(JobsCommand::Stop(job), now);
                }
                match picker.key(key) {
                    PickerEvent::Chosen(at) => {
                        let target = of(Some(at), targets);
                        self.overlay = None;
                        return target.map_or_else(Vec::new, |target| self.apply_pick(target, now));
                    }
                    PickerEvent::Cancelled => {
                        self.close_overlay();
                    }
                    // Preview the selected theme.
                    PickerEvent::Pending => {
                        if let Some(PickerTarget::Theme(choice)) = of(picker.selected(), targets) {
                            self.show_theme(choice);
                        }
                        return self.search_sessions();
                    }
                }
                Vec::new()
            }
            Some(Overlay::Form { form, .. }) => {
                match form.key(key) {
                    VariableFormEvent::Pending => {}
                    VariableFormEvent::Cancelled => self.overlay = None,
                    VariableFormEvent::Answered(_) => return self.submit_form(now),
                }
                Vec::new()
            }
        }
    }

    /// Runs the routine once all variables have values.
    fn submit_form(&mut self, now: Duration) -> Vec<Action> {
        let (refusal, host) = (self.call_refusal(), self.session_host().to_owned());
        let Some(Overlay::Form { form, routine }) = &mut self.overlay else { return Vec::new() };
        let (Some(values), Some(routine)) = (form.values(), self.catalog.routines.get(*routine)) else {
            return Vec::new();
        };
        match (routine.render)(&host, &values).and_then(|command| refusal.map_or(Ok(command), Err)) {
            Ok(command) => {
                self.overlay = None;
                self.run_routine(&command, now)
            }
            Err(why) => {
                form.refuse(&why);
                Vec::new()
            }
        }
    }

    /// Closes the overlay and discards its changes. Returns false if no overlay was open.
    pub(super) fn close_overlay(&mut self) -> bool {
        if let Some(theme) = self.theme_before.take() {
            self.theme = theme;
        }
        self.pending_list = None;
        self.overlay.take().is_some()
    }

    /// Opens an empty list and requests its entries. The list opens at once, so that it does not pop up while the user
    /// is already typing something else.
    pub(super) fn fetch_list(&mut self, list: ListKind) -> Vec<Action> {
        let (title, action) = match list {
            ListKind::Sessions => ("Sessions · loading…", Action::ListSessions),
            ListKind::Models => ("Models · loading…", Action::ListModels),
            ListKind::ToolServers => ("MCP servers · loading…", Action::ListToolServers),
        };
        self.pick(title, Vec::new());
        self.pending_list = Some(list);
        vec![action]
    }

    /// Closes the overlay that waits for a list, and shows why the list could not be fetched.
    pub fn list_failed(&mut self, why: String, now: Duration) {
        if self.pending_list.is_some() {
            self.close_overlay();
        }
        self.show_flash(why, now);
    }

    /// Fills the list that is waiting for its entries. Does nothing if the user has closed the list.
    pub(super) fn fill_list(
        &mut self,
        list: ListKind,
        title: &str,
        choices: Vec<(PickerTarget, PickerItem)>,
    ) {
        if self.pending_list != Some(list) {
            return;
        }
        self.pending_list = None;
        if let Some(Overlay::Picker { picker, targets }) = &mut self.overlay {
            let (there, entries) = choices.into_iter().unzip();
            *targets = there;
            picker.fill(title, entries);
        }
    }

    fn pick(&mut self, title: &str, choices: Vec<(PickerTarget, PickerItem)>) {
        let (targets, entries) = choices.into_iter().unzip();
        self.pending_list = None;
        self.overlay = Some(Overlay::Picker { picker: Picker::new(title, entries), targets });
    }

    pub fn pick_model(&mut self, models: Vec<ModelRef>) {
        let current = self.transcript.session_info().map(|facts| facts.model.clone());
        let choices = models.into_iter().map(|model| {
            let detail = if current.as_ref() == Some(&model) { "now" } else { "" };
            let row = entry(&model.to_string(), detail);
            (PickerTarget::Model(model), row)
        });
        let choices = choices.collect();
        self.fill_list(ListKind::Models, "Models", choices);
    }

    /// Fills the list of MCP servers. The preview of an entry shows its tools and its full status.
    pub fn pick_tool_server(&mut self, servers: Result<Vec<ToolServer>, String>, now: Duration) {
        let servers = match servers {
            Ok(servers) if servers.is_empty() => return self.list_failed(NO_TOOL_SERVERS.to_owned(), now),
            Ok(servers) => servers,
            Err(why) => return self.list_failed(why, now),
        };
        let choices = servers.into_iter().map(|server| {
            let state = server.state.lines().next().unwrap_or_default();
            let preview = std::iter::once(&server.state).chain(&server.tools).cloned().collect::<Vec<_>>();
            let row = entry(&server.name, state).with_preview(&preview.join("\n"));
            (PickerTarget::Nothing, row)
        });
        let choices = choices.collect();
        self.fill_list(ListKind::ToolServers, "MCP servers", choices);
    }

    /// Opens the palette, which lists all commands with descriptions.
    pub(super) fn pick_command(&mut self) {
        let choices = COMMANDS.iter().map(|(name, arguments, what)| {
            // Not valid without an argument.
            let needs_arguments = matches!(parse(name, &[]), InputLine::Wrong(_));
            let target = PickerTarget::Command { name, needs_arguments };
            let usage = format!("{name} {arguments}");
            let row = entry(&usage, what).with_preview(&format!("{}: {what}", usage.trim_end()));
            (target, row)
        });
        let choices = choices.collect();
        self.pick("Commands", choices);
    }

    /// Opens the list of session grants.
    pub(super) fn pick_grant(&mut self, now: Duration) {
        let grants = self.transcript.grants().to_vec();
        let choices: Vec<_> = grants
            .into_iter()
            .map(|grant| {
                let row = entry(&grant_line(&grant), "");
                (PickerTarget::Grant(grant), row)
            })
            .collect();
        if choices.is_empty() {
            return self.show_flash(
                "Nothing is allowed for this session beyond the approval mode and your rules",
                now,
            );
        }
        self.pick("Allowed for this session · Enter revokes", choices);
    }

    /// Opens the list of running background jobs.
    pub(super) fn pick_job(&mut self, now: Duration) {
        let time = self.wall_clock(now);
        let jobs = self.transcript.jobs().iter();
        let choices: Vec<_> = jobs
            .map(|(id, job)| {
                let run_time = time.and_then(|time| self.transcript.job_run_time(id, time));
                let detail =
                    run_time.map_or_else(|| job.host.clone(), |time| format!("{} · {time}", job.host));
                let row = entry(&format!("{id} {}", job.command), &detail).with_preview(&job.command);
                (PickerTarget::Job(id), row)
            })
            .collect();
        if choices.is_empty() {
            return self.show_flash("no background job is running; /jobs read ID shows a finished one", now);
        }
        self.pick("Background jobs · Enter reads, Ctrl+X stops", choices);
    }

    pub(super) fn pick_host(&mut self, now: Duration) {
        if !self.connected {
            return self.show_flash(NOT_CONNECTED, now);
        }
        let hosts = self.catalog.hosts.iter();
        let choices = hosts.map(|it| (PickerTarget::Host(it.name.clone()), entry(&it.name, &it.description)));
        let choices = choices.collect();
        self.pick("New session on host", choices);
    }

    pub(super) fn pick_routine(&mut self, now: Duration) {
        if !self.connected {
            return self.show_flash(NOT_CONNECTED, now);
        }
        if self.catalog.routines.is_empty() {
            return self.show_flash("no routines; add [routines.NAME] to the config file", now);
        }
        let routines = self.catalog.routines.iter().enumerate();
        let choices = routines.map(|(at, it)| (PickerTarget::Routine(at), entry(&it.name, &it.description)));
        let choices = choices.collect();
        self.pick("Routines", choices);
    }

    pub(super) fn pick_theme(&mut self) {
        self.theme_before = Some(self.theme);
        let choices = ThemeChoice::ALL.iter().map(|choice| {
            let detail = match choice {
                ThemeChoice::Auto if self.is_theme_auto => {
                    format!("follows the terminal: now {}", ThemeChoice::Named(self.theme).as_str())
                }
                ThemeChoice::Auto => "follows the terminal".to_owned(),
                ThemeChoice::Named(theme) if *theme == self.theme && !self.is_theme_auto => "now".to_owned(),
                ThemeChoice::Named(_) => String::new(),
            };
            (PickerTarget::Theme(*choice), entry(choice.as_str(), &detail))
        });
        let choices = choices.collect();
        self.pick("Colors", choices);
    }

    pub(super) fn take_theme(&mut self, choice: ThemeChoice) -> Vec<Action> {
        self.show_theme(choice);
        self.theme_before = None;
        self.is_theme_auto = choice == ThemeChoice::Auto;
        vec![Action::SaveTheme(choice)]
    }

    /// Shows a theme. The terminal has yet to say which one fits it: until then, the theme stays.
    fn show_theme(&mut self, choice: ThemeChoice) {
        match choice {
            ThemeChoice::Named(theme) => self.theme = theme,
            ThemeChoice::Auto => self.theme = self.theme_before.unwrap_or(self.theme),
        }
    }

    pub(super) fn pick_message(&mut self, now: Duration) {
        let items = self.transcript.items().rev();
        let choices: Vec<_> = items
            .filter_map(|item| match (&item.id, &item.body) {
                (ItemId::Prompt(turn), ItemBody::Prompt(UserPrompt { text, .. })) => {
                    Some((PickerTarget::Fork(*turn, text.clone()), entry(text, "").with_preview(text)))
                }
                _ => None,
            })
            .collect();
        if choices.is_empty() {
            return self.show_flash("no message to fork from", now);
        }
        self.pick("Fork from message", choices);
    }

    pub(super) fn search_prompt_history(&mut self, now: Duration) {
        let messages = self.prompt_history.newest_first();
        let choices: Vec<_> = messages
            .map(|text| (PickerTarget::Message(text.to_owned()), entry(text, "").with_preview(text)))
            .collect();
        if choices.is_empty() {
            return self.show_flash("no earlier messages", now);
        }
        self.pick("Earlier messages", choices);
    }

    /// Opens a routine's form, or runs the routine immediately if it has no variables.
    fn fill(&mut self, at: usize, now: Duration) -> Vec<Action> {
        let Some(routine) = self.catalog.routines.get(at) else { return Vec::new() };
        let variables = routine.variables.iter();
        let variables: Vec<_> = variables
            .map(|it| FormVariable { name: it.name.clone(), description: it.description.clone() })
            .collect();
        let form = VariableForm::new(&routine.name, variables);
        let ready = form.values().is_some();
        self.overlay = Some(Overlay::Form { form, routine: at });
        if ready { self.submit_form(now) } else { Vec::new() }
    }

    fn apply_pick(&mut self, target: PickerTarget, now: Duration) -> Vec<Action> {
        match target {
            PickerTarget::Session(id) => {
                vec![Action::OpenSession(SessionSelector::Existing(id.as_str().to_owned()))]
            }
            PickerTarget::Nothing => Vec::new(),
            PickerTarget::Model(model) => self.configure(ConfigChange::Model(model), now),
            PickerTarget::Host(host) => self.open_on(host),
            PickerTarget::Theme(theme) => self.take_theme(theme),
            PickerTarget::Message(message) => {
                self.composer_mut().set(&message);
                Vec::new()
            }
            PickerTarget::Routine(at) => self.fill(at, now),
            PickerTarget::Grant(grant) => self.configure(ConfigChange::Revoke(vec![grant]), now),
            PickerTarget::Job(job) => self.jobs(JobsCommand::Read(job), now),
            PickerTarget::Command { name, needs_arguments: true } if self.composer().is_empty() => {
                self.leave_cards();
                self.composer_mut().set(&format!("{name} "));
                self.composer_mut().to_end();
                self.complete()
            }
            PickerTarget::Command { name, .. } => self.picked_line(name, now),
            PickerTarget::Fork(before, text) => self.fork_before(before, &text),
        }
    }

    /// Opens a fork of the session that ends before a turn, and puts the turn's prompt into the composer.
    pub(super) fn fork_before(&mut self, before: TurnId, text: &str) -> Vec<Action> {
        let Some(from) = self.session.clone() else { return Vec::new() };
        self.composer_mut().set(text);
        vec![Action::OpenSession(SessionSelector::fork_of(from, before, &self.transcript))]
    }
}
