//! What stands in front of everything else until the person is done with it: help, and lists to pick from.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent};
use sysop_core::event::Change;
use sysop_core::id::{SessionId, TurnId};
use sysop_core::message::ModelRef;
use sysop_core::transcript::{Body, ItemId};
use sysop_driver::face::Which;
use sysop_driver::port::SessionSummary;

use super::{Act, App};
use crate::picker::{Entry, Picked, Picker};
use crate::view::theme::ThemeName;

/// What stands in front.
pub enum Overlay {
    /// The keys; the first row that is shown.
    Help(usize),
    /// A list to pick from.
    Picking(Picking),
}

/// A list, and what its entries are.
pub struct Picking {
    /// The list.
    pub picker: Picker,
    pub(super) wanted: Wanted,
}

/// What is picked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A session to go on with.
    Session(Vec<SessionId>),
    /// The model of the next step.
    Model(Vec<ModelRef>),
    /// A host for another session.
    Host(Vec<String>),
    /// The colours; those from before, for who leaves.
    Theme(ThemeName),
    /// A message to write again.
    Message(Vec<String>),
    /// The message from which another session begins.
    Fork(Vec<(TurnId, String)>),
    /// A routine, to be written into the box.
    Routine(Vec<String>),
}

/// What came of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    Nothing,
    Moved,
    Chosen(usize),
    Left,
}

impl Overlay {
    pub(super) fn help() -> Self {
        Self::Help(0)
    }

    pub(super) fn paste(&mut self, text: &str) {
        match self {
            Self::Help(_) => {}
            Self::Picking(picking) => picking.picker.paste(text),
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Came {
        match self {
            Self::Help(first) => {
                match key.code {
                    KeyCode::Down | KeyCode::Char('j') => *first += 1,
                    KeyCode::Up | KeyCode::Char('k') => *first = first.saturating_sub(1),
                    KeyCode::PageDown | KeyCode::Char(' ') => *first += 10,
                    KeyCode::PageUp => *first = first.saturating_sub(10),
                    _ => return Came::Left,
                }
                Came::Nothing
            }
            Self::Picking(picking) => match picking.picker.key(key) {
                Picked::Nothing => Came::Moved,
                Picked::Chosen(at) => Came::Chosen(at),
                Picked::Left => Came::Left,
            },
        }
    }
}

impl App {
    fn pick(&mut self, title: &str, entries: Vec<Entry>, wanted: Wanted) {
        self.overlay = Some(Overlay::Picking(Picking { picker: Picker::new(title, entries), wanted }));
    }

    /// The list of sessions is here; `ago` says how long ago something was.
    pub fn pick_session(
        &mut self,
        sessions: Vec<SessionSummary>,
        ago: impl Fn(&SessionSummary) -> String,
        now: Duration,
    ) {
        let others: Vec<_> = sessions.into_iter().filter(|it| Some(&it.id) != self.session.as_ref()).collect();
        if others.is_empty() {
            return self.say("there is no earlier session", now);
        }
        let entries = others.iter().map(|it| {
            let title = if it.title.is_empty() { "(nothing was said)" } else { &it.title };
            Entry::new(title, &format!("{} · {}", it.host, ago(it)))
        });
        let entries = entries.collect();
        let ids = others.into_iter().map(|it| it.id).collect();
        self.pick("Sessions", entries, Wanted::Session(ids));
    }

    /// The list of models is here.
    pub fn pick_model(&mut self, models: Vec<ModelRef>) {
        let current = self.transcript.facts().map(|facts| facts.model.clone());
        let entries = models.iter().map(|model| {
            let now = if current.as_ref() == Some(model) { "now" } else { "" };
            Entry::new(&model.to_string(), now)
        });
        self.pick("Models", entries.collect(), Wanted::Model(models));
    }

    pub(super) fn pick_host(&mut self) {
        let entries = self.desk.hosts.iter().map(|host| Entry::new(&host.name, &host.description)).collect();
        let names = self.desk.hosts.iter().map(|host| host.name.clone()).collect();
        self.pick("Another session on", entries, Wanted::Host(names));
    }

    pub(super) fn pick_routine(&mut self, now: Duration) {
        if self.desk.routines.is_empty() {
            return self.say(
                "there are no routines; write some into the config file as [routines.NAME]",
                now,
            );
        }
        let entries = self.desk.routines.iter().map(|it| Entry::new(&it.name, &it.description)).collect();
        let names = self.desk.routines.iter().map(|it| it.name.clone()).collect();
        self.pick("Routines", entries, Wanted::Routine(names));
    }

    pub(super) fn pick_theme(&mut self) {
        let entries = ThemeName::ALL.iter().map(|theme| Entry::new(theme.as_str(), theme.what())).collect();
        self.pick("Colours", entries, Wanted::Theme(self.theme));
    }

    pub(super) fn pick_message(&mut self, now: Duration) {
        let prompts: Vec<(TurnId, String)> = self
            .transcript
            .items()
            .rev()
            .filter_map(|item| match (&item.id, &item.body) {
                (ItemId::Prompt(turn), Body::Prompt(text)) => Some((*turn, text.clone())),
                _ => None,
            })
            .collect();
        if prompts.is_empty() {
            return self.say("there is no message yet from which another session could begin", now);
        }
        let entries = prompts.iter().map(|(_, text)| Entry::new(text, "")).collect();
        self.pick("Begin another session before", entries, Wanted::Fork(prompts));
    }

    pub(super) fn search_past(&mut self, now: Duration) {
        let messages: Vec<String> = self.past.newest_first().map(str::to_owned).collect();
        if messages.is_empty() {
            return self.say("nothing was written before", now);
        }
        let entries = messages.iter().map(|text| Entry::new(text, "")).collect();
        self.pick("Earlier messages", entries, Wanted::Message(messages));
    }

    /// The colours follow the choice, so that they are seen before they are taken.
    pub(super) fn moved_in_overlay(&mut self) {
        if let Some(Overlay::Picking(Picking { picker, wanted: Wanted::Theme(_) })) = &self.overlay
            && let Some(theme) = picker.selected().and_then(|at| ThemeName::ALL.get(at))
        {
            self.theme = *theme;
        }
    }

    pub(super) fn left_overlay(&mut self, overlay: Option<Overlay>) {
        if let Some(Overlay::Picking(Picking { wanted: Wanted::Theme(before), .. })) = overlay {
            self.theme = before;
        }
    }

    pub(super) fn chosen(&mut self, picking: Picking, at: usize, now: Duration) -> Vec<Act> {
        match picking.wanted {
            Wanted::Session(ids) => ids.get(at).map_or_else(Vec::new, |id| {
                vec![Act::Open(Which::Earlier(id.as_str().to_owned()))]
            }),
            Wanted::Model(models) => match models.into_iter().nth(at) {
                Some(model) => self.configure(Change::Model(model), now),
                None => Vec::new(),
            },
            Wanted::Host(names) => {
                names.into_iter().nth(at).map(|host| Act::Open(Which::On(host))).into_iter().collect()
            }
            Wanted::Theme(_) => {
                if let Some(theme) = ThemeName::ALL.get(at) {
                    self.theme = *theme;
                    let text = format!("theme = \"{}\" in the config keeps these colours", theme.as_str());
                    self.say(text, now);
                }
                Vec::new()
            }
            Wanted::Message(messages) => {
                if let Some(message) = messages.get(at) {
                    self.composer_mut().set(message);
                }
                Vec::new()
            }
            Wanted::Routine(names) => {
                if let Some(name) = names.get(at) {
                    self.composer_mut().set(&format!("/run {name} "));
                }
                Vec::new()
            }
            Wanted::Fork(prompts) => {
                let (Some((before, text)), Some(from)) = (prompts.into_iter().nth(at), self.session.clone()) else {
                    return Vec::new();
                };
                // To be said again, or in another way.
                self.composer_mut().set(&text);
                vec![Act::Open(Which::Fork { from, before })]
            }
        }
    }
}
