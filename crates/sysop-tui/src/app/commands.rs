//! What a line that was sent asks for.

use std::time::Duration;

use serde_json::json;
use sysop_core::event::{Change, Input, Origin};
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;
use sysop_core::session::QUEUED_PROMPTS_MAX;
use sysop_core::transcript::{Body, Phase, mode_word};
use sysop_core::words;
use sysop_driver::face::Which;

use super::overlay::{List, Overlay};
use super::{Act, App, Expected, Left};
use crate::command::{Line, parse};
use crate::view::theme::ThemeName;

/// Providers that a model may be named with; another word before the slash belongs to the model's name.
const PROVIDERS: [&str; 7] = ["openai", "gemini", "vertex", "ollama", "ollama+ssh", "anthropic", "demo"];

impl App {
    /// Asks the session for a task, as if the person had written it.
    pub fn task(&mut self, text: &str, now: Duration) -> Vec<Act> {
        self.past.push(text);
        self.prompt(text.to_owned(), now)
    }

    fn prompt(&mut self, text: String, now: Duration) -> Vec<Act> {
        let what = if self.state().is_busy() {
            if self.queued.len() >= QUEUED_PROMPTS_MAX {
                self.composer_mut().set(&text);
                return self.remark(
                    format!("{QUEUED_PROMPTS_MAX} messages wait for the end of this turn, and no more can"),
                    now,
                );
            }
            self.own_queued.push(text.clone());
            Expected::Event
        } else {
            Expected::Turn
        };
        self.send_expecting(Input::Prompt { text }, what, now)
    }

    pub(super) fn line(&mut self, text: &str, now: Duration) -> Vec<Act> {
        if let Some(acts) = self.full_screen_line(text.trim(), now) {
            return acts;
        }
        match parse(text) {
            Line::Empty => Vec::new(),
            Line::Prompt(text) => self.prompt(text, now),
            Line::Shell(command) => self.direct("bash", &json!({ "command": command }), Origin::Typed, now),
            Line::Undo => self.direct("undo", &json!({}), Origin::Typed, now),
            Line::Keys(keys) => {
                self.direct("send_keys", &json!({ "keys": keys, "reasoning": "" }), Origin::Typed, now)
            }
            Line::Run { name, values } => self.routine(&name, &values, now),
            Line::Help => {
                self.overlay = Some(Overlay::help());
                Vec::new()
            }
            Line::Exit => self.leave(Left::Done),
            Line::Clear => self.send_expecting(Input::Clear, Expected::Event, now),
            Line::New => vec![Act::Open(Which::New)],
            Line::Resume(None) if matches!(self.transcript.phase(), Phase::Paused { .. }) => {
                self.send_expecting(Input::Resume, Expected::Event, now)
            }
            Line::Resume(None) => self.fetch_list(List::Sessions),
            Line::Resume(Some(id)) => vec![Act::Open(Which::Earlier(id))],
            Line::Model(None) => self.fetch_list(List::Models),
            Line::Model(Some(name)) => self.model_named(&name, now),
            Line::Approve(Some(mode)) => self.configure(Change::Approve(mode), now),
            Line::Mode(Some(mode)) => self.configure(Change::Mode(mode), now),
            Line::Mode(None) => {
                let mode = self.transcript.facts().map(|facts| facts.mode).unwrap_or_default();
                self.say(words::mode_now(mode).to_owned(), now);
                Vec::new()
            }
            Line::Approve(None) => {
                let mode = self.transcript.facts().map_or(ApprovalMode::Ask, |facts| facts.approve);
                self.say(
                    format!("approval is {}; /approve ask, auto or never changes it", mode_word(mode)),
                    now,
                );
                Vec::new()
            }
            Line::Host(None) => {
                self.pick_host(now);
                Vec::new()
            }
            Line::Host(Some(host)) => vec![Act::Open(Which::On(host))],
            Line::Routines => {
                self.pick_routine(now);
                Vec::new()
            }
            Line::OpenShell => vec![Act::ShowTerminal],
            Line::Pause if self.is_idle() => self.remark("nothing runs that could be paused", now),
            Line::Pause => {
                self.pausing = true;
                self.say("pausing after this step", now);
                vec![Act::Send(Input::Pause)]
            }
            Line::Stop if self.is_idle() => self.remark("nothing runs", now),
            Line::Stop => self.stop(),
            Line::Retry => self.retry(now),
            Line::Wrong(text) => self.remark(text, now),
        }
    }

    /// The commands that only a full screen has.
    fn full_screen_line(&mut self, text: &str, now: Duration) -> Option<Vec<Act>> {
        match text.split_once(char::is_whitespace).unwrap_or((text, "")) {
            ("/sessions", _) => Some(self.fetch_list(List::Sessions)),
            ("/fork", _) => {
                self.pick_message(now);
                Some(Vec::new())
            }
            ("/theme", "") => {
                self.pick_theme();
                Some(Vec::new())
            }
            ("/theme", name) => Some(match ThemeName::of(name.trim()) {
                Some(theme) => self.take_theme(theme),
                None => self.remark(format!("there is no theme {name:?}; /theme lists them"), now),
            }),
            _ => None,
        }
    }

    fn remark(&mut self, text: impl Into<String>, now: Duration) -> Vec<Act> {
        self.say(text, now);
        Vec::new()
    }

    fn direct(
        &mut self,
        tool: &str,
        arguments: &serde_json::Value,
        origin: Origin,
        now: Duration,
    ) -> Vec<Act> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let what = if self.state().is_busy() { Expected::Event } else { Expected::Turn };
        self.send_expecting(Input::Direct { tool: tool.to_owned(), arguments, origin }, what, now)
    }

    pub(super) fn configure(&mut self, change: Change, now: Duration) -> Vec<Act> {
        self.send_expecting(Input::Configure { change }, Expected::Event, now)
    }

    fn model_named(&mut self, name: &str, now: Duration) -> Vec<Act> {
        let Some(current) = self.transcript.facts().map(|facts| facts.model.clone()) else {
            return Vec::new();
        };
        let model = match name.split_once('/') {
            Some((provider, model)) if PROVIDERS.contains(&provider) && !model.is_empty() => {
                ModelRef::new(provider, model)
            }
            Some(_) | None => ModelRef::new(current.provider, name),
        };
        self.configure(Change::Model(model), now)
    }

    fn routine(&mut self, name: &str, values: &[(String, String)], now: Duration) -> Vec<Act> {
        let Some(routine) = self.desk.routines.iter().find(|routine| routine.name == name) else {
            if !self.at_desk {
                return self.remark(super::overlay::NOT_YET, now);
            }
            return self.remark(format!("there is no routine {name}; /routines lists them"), now);
        };
        match (routine.render)(values) {
            Ok(command) => self.run_routine(&command, now),
            Err(error) => self.remark(error, now),
        }
    }

    pub(super) fn run_routine(&mut self, command: &str, now: Duration) -> Vec<Act> {
        self.direct("bash", &json!({ "command": command }), Origin::Routine, now)
    }

    fn retry(&mut self, now: Duration) -> Vec<Act> {
        let prompted = self.transcript.items().any(|item| matches!(item.body, Body::Prompt(_)));
        if !prompted {
            return self.remark("there is no prompt that could be tried again", now);
        }
        self.send_expecting(Input::Retry, Expected::Turn, now)
    }
}
