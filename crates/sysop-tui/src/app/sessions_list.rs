//! The list of past sessions, filtered by title and, once the store has searched the logs, by text.

use std::time::Duration;

use sysop_core::text::neutralize_line;
use sysop_core::ui_text;
use sysop_driver::port::{SearchHit, SessionSummary};

use super::overlay::{ListKind, Overlay, PickerTarget};
use super::{Action, App, BackgroundStatus};
use crate::picker::PickerItem;

/// Minimum length, in characters, of text to search for in session logs.
const SEARCH_CHARS_MIN: usize = 3;
/// Number of characters of a session's id to show; enough to distinguish sessions started in the same hour.
const ID_CHARS: usize = 13;

impl App {
    /// Fills the list of sessions; `ago` formats the age of a session.
    pub fn pick_session(
        &mut self,
        sessions: Vec<SessionSummary>,
        ago: impl Fn(&SessionSummary) -> String,
        now: Duration,
    ) -> Vec<Action> {
        let others = sessions.into_iter().filter(|it| Some(&it.id) != self.session.as_ref());
        let choices: Vec<_> = others
            .map(|it| {
                let title = if it.title.is_empty() { "(empty)" } else { &it.title };
                let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
                let stands = self.background_sessions.iter().find(|(id, _)| *id == it.id);
                let stands = stands.map(|(_, standing)| match standing {
                    BackgroundStatus::Running => " · running",
                    BackgroundStatus::AwaitingUser => " · needs approval",
                });
                let host = ui_text::host_summary(&it.host);
                let detail = format!("{host} · {}{}", ago(&it), stands.unwrap_or_default());
                let id: String = it.id.as_str().chars().take(ID_CHARS).collect();
                let item = PickerItem::titled(&title, &detail).with_preview(&format!("{id} · {}", it.root));
                (PickerTarget::Session(it.id.clone()), item)
            })
            .collect();
        if choices.is_empty() {
            self.list_failed("no past sessions".to_owned(), now);
            return Vec::new();
        }
        self.fill_list(ListKind::Sessions, "Sessions · Enter resume, Tab fork", choices);
        self.search_sessions()
    }

    /// Requests a search in the text of sessions if the session list is open and enough characters are typed.
    pub(super) fn search_sessions(&mut self) -> Vec<Action> {
        let Some(Overlay::Picker { picker, targets }) = &mut self.overlay else { return Vec::new() };
        let is_sessions = matches!(targets.first(), Some(PickerTarget::Session(_)));
        let typed = picker.typed().trim().to_owned();
        if !is_sessions || typed.chars().count() < SEARCH_CHARS_MIN {
            return Vec::new();
        }
        vec![Action::SearchSessions(typed)]
    }

    /// Adds the sessions whose text matches to the list, below those whose title matches.
    pub fn offer_sessions(&mut self, typed: &str, hits: &[SearchHit]) {
        let Some(Overlay::Picker { picker, targets }) = &mut self.overlay else { return };
        if picker.typed().trim() != typed {
            return;
        }
        let found = hits.iter().filter_map(|hit| {
            let at = targets.iter().position(|target| *target == PickerTarget::Session(hit.id.clone()))?;
            Some((at, neutralize_line(&hit.excerpt).into_owned()))
        });
        picker.add_found(found.collect());
    }
}
