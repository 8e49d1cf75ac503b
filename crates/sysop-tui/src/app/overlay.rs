//! What stands in front of everything else until the person is done with it: help, and lists to pick from.
#![expect(clippy::wildcard_enum_match_arm, reason = "a keyboard has more keys than mean something here")]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent};
use sysop_core::event::Change;
use sysop_core::id::{SessionId, TurnId};
use sysop_core::message::ModelRef;
use sysop_core::transcript::{Body, ItemId};
use sysop_driver::face::Which;
use sysop_driver::port::SessionSummary;

use super::{Act, App, Standing};
use crate::picker::{Ask, Asked, Entry, Picked, Picker, Variable};
use crate::view::theme::ThemeName;

/// How many rows a page of the help is moved by.
const HELP_PAGE_ROWS: usize = 10;

/// What is said to who asks for a list that is not known so early.
pub(super) const NOT_YET: &str = "everything is being opened; ask again in a moment";

/// What stands in front.
pub enum Overlay {
    /// The keys; the first row that is shown.
    Help(usize),
    /// A list to pick from.
    Picking {
        /// The list.
        picker: Picker,
        /// What its entries stand for.
        targets: Vec<Target>,
    },
    /// The variables of a routine.
    Filling {
        /// The questions.
        ask: Ask,
        /// Its number among the routines.
        routine: usize,
    },
}

/// A list that has to be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Sessions,
    Models,
}

/// What is picked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A session to go on with.
    Session(SessionId),
    /// The model of the next step.
    Model(ModelRef),
    /// A host for another session.
    Host(String),
    /// The colours.
    Theme(ThemeName),
    /// A message to write again.
    Message(String),
    /// The message from which another session begins.
    Fork(TurnId, String),
    /// A routine, by its number.
    Routine(usize),
}

impl Overlay {
    pub(super) fn help() -> Self {
        Self::Help(0)
    }

    pub(super) fn paste(&mut self, text: &str) {
        match self {
            Self::Help(_) => {}
            Self::Picking { picker, .. } => picker.paste(text),
            Self::Filling { ask, .. } => ask.paste(text),
        }
    }
}

/// A list with one row for each, whatever it says.
fn entry(label: &str, detail: &str) -> Entry {
    Entry::new(&label.split_whitespace().collect::<Vec<_>>().join(" "), detail)
}

impl App {
    pub(super) fn key_in_overlay(&mut self, key: KeyEvent, now: Duration) -> Vec<Act> {
        match &mut self.overlay {
            None => Vec::new(),
            Some(Overlay::Help(first)) => {
                match key.code {
                    KeyCode::Down | KeyCode::Char('j') => *first += 1,
                    KeyCode::Up | KeyCode::Char('k') => *first = first.saturating_sub(1),
                    KeyCode::PageDown | KeyCode::Char(' ') => *first += HELP_PAGE_ROWS,
                    KeyCode::PageUp => *first = first.saturating_sub(HELP_PAGE_ROWS),
                    _ => self.overlay = None,
                }
                Vec::new()
            }
            Some(Overlay::Picking { picker, targets }) => {
                let of = |at: Option<usize>, targets: &[Target]| targets.get(at?).cloned();
                if let (KeyCode::Tab, Some(Target::Session(id))) = (key.code, of(picker.selected(), targets))
                {
                    self.overlay = None;
                    self.awaited = None;
                    self.fork_next = true;
                    return vec![Act::Open(Which::Earlier(id.as_str().to_owned()))];
                }
                match picker.key(key) {
                    Picked::Chosen(at) => {
                        let target = of(Some(at), targets);
                        self.overlay = None;
                        return target.map_or_else(Vec::new, |target| self.picked(target, now));
                    }
                    Picked::Left => {
                        self.close_overlay();
                    }
                    // Colours are seen before they are taken.
                    Picked::Nothing => {
                        if let Some(Target::Theme(theme)) = of(picker.selected(), targets) {
                            self.theme = theme;
                        }
                    }
                }
                Vec::new()
            }
            Some(Overlay::Filling { ask, .. }) => {
                match ask.key(key) {
                    Asked::Nothing => {}
                    Asked::Left => self.overlay = None,
                    Asked::Answered(_) => return self.filled(now),
                }
                Vec::new()
            }
        }
    }

    /// Runs the routine whose variables are all there.
    fn filled(&mut self, now: Duration) -> Vec<Act> {
        let Some(Overlay::Filling { ask, routine }) = &mut self.overlay else { return Vec::new() };
        let (Some(values), Some(routine)) = (ask.values(), self.desk.routines.get(*routine)) else {
            return Vec::new();
        };
        match (routine.render)(&values) {
            Ok(command) => {
                self.overlay = None;
                self.run_routine(&command, now)
            }
            Err(why) => {
                ask.refuse(&why);
                Vec::new()
            }
        }
    }

    /// Leaves what is in front without taking anything; says whether something was.
    pub(super) fn close_overlay(&mut self) -> bool {
        if let Some(theme) = self.theme_before.take() {
            self.theme = theme;
        }
        self.awaited = None;
        self.overlay.take().is_some()
    }

    /// Opens a list before it is there, so that it does not open over what is typed meanwhile.
    pub(super) fn fetch_list(&mut self, list: List) -> Vec<Act> {
        let (title, act) = match list {
            List::Sessions => ("Sessions · looking…", Act::ListSessions),
            List::Models => ("Models · looking…", Act::ListModels),
        };
        self.pick(title, Vec::new());
        self.awaited = Some(list);
        vec![act]
    }

    /// A list could not be fetched; one sentence.
    pub fn not_listed(&mut self, why: String, now: Duration) {
        if self.awaited.is_some() {
            self.close_overlay();
        }
        self.say(why, now);
    }

    /// Puts into the list what it waited for; a list that was closed meanwhile stays closed.
    fn fill_list(&mut self, list: List, title: &str, choices: Vec<(Target, Entry)>) {
        if self.awaited != Some(list) {
            return;
        }
        self.awaited = None;
        if let Some(Overlay::Picking { picker, targets }) = &mut self.overlay {
            let (there, entries) = choices.into_iter().unzip();
            *targets = there;
            picker.fill(title, entries);
        }
    }

    fn pick(&mut self, title: &str, choices: Vec<(Target, Entry)>) {
        let (targets, entries) = choices.into_iter().unzip();
        self.awaited = None;
        self.overlay = Some(Overlay::Picking { picker: Picker::new(title, entries), targets });
    }

    /// The list of sessions is here; `ago` says how long ago something was.
    pub fn pick_session(
        &mut self,
        sessions: Vec<SessionSummary>,
        ago: impl Fn(&SessionSummary) -> String,
        now: Duration,
    ) {
        let others = sessions.into_iter().filter(|it| Some(&it.id) != self.session.as_ref());
        let choices: Vec<_> = others
            .map(|it| {
                let title = if it.title.is_empty() { "(nothing was said)" } else { &it.title };
                let stands =
                    self.aside.iter().find(|(id, _)| *id == it.id).map(|(_, standing)| match standing {
                        Standing::Runs => " · runs",
                        Standing::Waits => " · waits for you",
                    });
                let detail = format!("{} · {}{}", it.host, ago(&it), stands.unwrap_or_default());
                (Target::Session(it.id.clone()), entry(title, &detail))
            })
            .collect();
        if choices.is_empty() {
            return self.not_listed("there is no earlier session".to_owned(), now);
        }
        let title = "Sessions · Enter goes on, Tab begins another from a message";
        self.fill_list(List::Sessions, title, choices);
    }

    /// The list of models is here.
    pub fn pick_model(&mut self, models: Vec<ModelRef>) {
        let current = self.transcript.facts().map(|facts| facts.model.clone());
        let choices = models.into_iter().map(|model| {
            let detail = if current.as_ref() == Some(&model) { "now" } else { "" };
            let row = entry(&model.to_string(), detail);
            (Target::Model(model), row)
        });
        let choices = choices.collect();
        self.fill_list(List::Models, "Models", choices);
    }

    pub(super) fn pick_host(&mut self, now: Duration) {
        if !self.at_desk {
            return self.say(NOT_YET, now);
        }
        let hosts = self.desk.hosts.iter();
        let choices = hosts.map(|it| (Target::Host(it.name.clone()), entry(&it.name, &it.description)));
        let choices = choices.collect();
        self.pick("Another session on", choices);
    }

    pub(super) fn pick_routine(&mut self, now: Duration) {
        if !self.at_desk {
            return self.say(NOT_YET, now);
        }
        if self.desk.routines.is_empty() {
            return self
                .say("there are no routines; write some into the config file as [routines.NAME]", now);
        }
        let routines = self.desk.routines.iter().enumerate();
        let choices = routines.map(|(at, it)| (Target::Routine(at), entry(&it.name, &it.description)));
        let choices = choices.collect();
        self.pick("Routines", choices);
    }

    pub(super) fn pick_theme(&mut self) {
        self.theme_before = Some(self.theme);
        let choices = ThemeName::ALL.iter().map(|theme| {
            let detail = if *theme == self.theme { "now" } else { "" };
            (Target::Theme(*theme), entry(theme.as_str(), detail))
        });
        let choices = choices.collect();
        self.pick("Colours", choices);
    }

    /// Takes these colours, now and for the next start.
    pub(super) fn take_theme(&mut self, theme: ThemeName) -> Vec<Act> {
        self.theme = theme;
        self.theme_before = None;
        vec![Act::KeepTheme(theme)]
    }

    pub(super) fn pick_message(&mut self, now: Duration) {
        let items = self.transcript.items().rev();
        let choices: Vec<_> = items
            .filter_map(|item| match (&item.id, &item.body) {
                (ItemId::Prompt(turn), Body::Prompt(text)) => {
                    Some((Target::Fork(*turn, text.clone()), entry(text, "").with_preview(text)))
                }
                _ => None,
            })
            .collect();
        if choices.is_empty() {
            return self.say("there is no message yet from which another session could begin", now);
        }
        self.pick("Begin another session in place of", choices);
    }

    pub(super) fn search_past(&mut self, now: Duration) {
        let messages = self.past.newest_first();
        let choices: Vec<_> = messages
            .map(|text| (Target::Message(text.to_owned()), entry(text, "").with_preview(text)))
            .collect();
        if choices.is_empty() {
            return self.say("nothing was written before", now);
        }
        self.pick("Earlier messages", choices);
    }

    /// Asks for the variables of a routine, or runs it at once.
    fn fill(&mut self, at: usize, now: Duration) -> Vec<Act> {
        let Some(routine) = self.desk.routines.get(at) else { return Vec::new() };
        let variables = routine.variables.iter();
        let variables: Vec<_> = variables
            .map(|it| Variable { name: it.name.clone(), description: it.description.clone() })
            .collect();
        let ask = Ask::new(&routine.name, variables);
        let ready = ask.values().is_some();
        self.overlay = Some(Overlay::Filling { ask, routine: at });
        if ready { self.filled(now) } else { Vec::new() }
    }

    fn picked(&mut self, target: Target, now: Duration) -> Vec<Act> {
        match target {
            Target::Session(id) => vec![Act::Open(Which::Earlier(id.as_str().to_owned()))],
            Target::Model(model) => self.configure(Change::Model(model), now),
            Target::Host(host) => vec![Act::Open(Which::On(host))],
            Target::Theme(theme) => self.take_theme(theme),
            Target::Message(message) => {
                self.composer_mut().set(&message);
                Vec::new()
            }
            Target::Routine(at) => self.fill(at, now),
            Target::Fork(before, text) => {
                let Some(from) = self.session.clone() else { return Vec::new() };
                // To be said again, or in another way.
                self.composer_mut().set(&text);
                vec![Act::Open(Which::Fork { from, before })]
            }
        }
    }
}
