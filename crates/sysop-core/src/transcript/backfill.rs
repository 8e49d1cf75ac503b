//! Memory bound of long transcripts: old text is truncated, and read again from the log when a user scrolls to it.
//!
//! Every item stays, with the beginning of its text; prompts are never truncated.

use std::collections::HashMap;

use super::{Item, ItemBody, ItemId, Retention, Transcript};
use crate::event::Logged;
use crate::id::Seq;
use crate::message::{Arguments, ToolCall};
use crate::style::StyleRuns;

/// Maximum bytes of text that is kept whole, counted from the newest item. Prompts, backfilled text and the beginnings
/// of truncated text are not counted.
pub const TEXTS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of whole text left after a truncation; well below the maximum, so that truncations are rare.
const TEXTS_BYTES_LEFT: usize = TEXTS_BYTES_MAX / 4 * 3;
/// Bytes that stay when text is truncated.
const BEGINNING_BYTES: usize = 200;
/// Number of newest items of a running turn that are never truncated.
const OPEN_ITEMS_MAX: usize = 256;
const BACKFILL_ITEMS_MAX: usize = 64;

/// Reads a log again to restore truncated text. The caller passes all events of the log to [`Backfill::apply`].
#[derive(Debug, Clone)]
pub struct Backfill {
    transcript: Transcript,
    wanted: Vec<ItemId>,
    until: Seq,
}

impl Backfill {
    /// Applies the next event. Returns true if no more events are needed.
    pub fn apply(&mut self, logged: &Logged) -> bool {
        if self.transcript.seq < self.until {
            self.transcript.apply_logged(logged);
            self.transcript.bound();
        }
        self.transcript.seq >= self.until
    }

    pub fn items(self) -> Vec<Item> {
        let mut items: HashMap<ItemId, Item> =
            self.transcript.items.into_iter().map(|item| (item.id.clone(), item)).collect();
        self.wanted.iter().filter_map(|id| items.remove(id)).collect()
    }
}

impl Transcript {
    /// Starts a backfill of this item and its neighbors. Returns `None` if the item is unknown or not truncated.
    pub fn backfill(&self, id: &ItemId) -> Option<Backfill> {
        let at = self.items.iter().position(|item| item.id == *id)?;
        if self.items[at].retention != Retention::Truncated {
            return None;
        }
        let from = at.saturating_sub(BACKFILL_ITEMS_MAX / 2);
        let to = (from + BACKFILL_ITEMS_MAX).min(self.items.len());
        let wanted = self.items.range(from..to).filter(|item| item.retention != Retention::Whole);
        let until = wanted.clone().map(|item| item.seq).max()?;
        let wanted = wanted.map(|item| item.id.clone()).collect();
        Some(Backfill { transcript: Self::new(), wanted, until })
    }

    /// Restores the items of a backfill, and truncates those of earlier backfills again.
    pub fn restore_items(&mut self, items: Vec<Item>) {
        let mut brought: HashMap<ItemId, Item> =
            items.into_iter().map(|item| (item.id.clone(), item)).collect();
        for item in &mut self.items {
            match (item.retention, brought.remove(&item.id)) {
                (Retention::Truncated | Retention::Backfilled, Some(whole))
                    if whole.retention == Retention::Whole =>
                {
                    (item.body, item.retention) = (whole.body, Retention::Backfilled);
                    item.revision += 1;
                }
                (Retention::Backfilled, _) => item.shorten(),
                (Retention::Truncated | Retention::Whole, _) => {}
            }
        }
    }

    /// Truncates the oldest text if all text together exceeds [`TEXTS_BYTES_MAX`]. The newest items of the running turn
    /// stay whole.
    pub(super) fn bound_texts(&mut self) {
        let settled = self.turn_from.max(self.items.len().saturating_sub(OPEN_ITEMS_MAX)).max(self.counted);
        for item in self.items.range(self.counted..settled) {
            self.text_bytes += item.text_bytes();
        }
        self.counted = settled;
        if self.text_bytes <= TEXTS_BYTES_MAX {
            return;
        }
        // Recounted: items may have been counted twice after others were removed.
        self.text_bytes = self.items.range(..settled).map(Item::text_bytes).sum();
        if self.text_bytes <= TEXTS_BYTES_MAX {
            return;
        }
        for item in self.items.range_mut(..settled) {
            if self.text_bytes <= TEXTS_BYTES_LEFT {
                break;
            }
            let bytes = item.text_bytes();
            if bytes > 0 && item.retention == Retention::Whole && !item.live_only {
                item.shorten();
                self.text_bytes -= bytes;
            }
        }
    }
}

impl Item {
    /// Returns the number of bytes that truncating the item would free.
    fn text_bytes(&self) -> usize {
        if self.retention != Retention::Whole || self.live_only {
            return 0;
        }
        let bytes = match &self.body {
            ItemBody::Reasoning(text) | ItemBody::Answer(text) => text.text.len(),
            ItemBody::ToolOutput(output) => output.outcome.as_ref().map_or(0, |outcome| outcome.output.len()),
            ItemBody::Proposal(plan) => {
                argument_bytes(&plan.call)
                    + plan.edited_from.as_ref().map_or(0, String::len)
                    + plan.reason.len()
            }
            ItemBody::Prompt(_) | ItemBody::Notice(_) | ItemBody::End(_) => 0,
        };
        bytes.saturating_sub(BEGINNING_BYTES)
    }

    /// Truncates all strings of the item to their beginnings, and drops its styles and large arguments.
    fn shorten(&mut self) {
        match &mut self.body {
            ItemBody::Reasoning(text) | ItemBody::Answer(text) => shorten(&mut text.text),
            ItemBody::ToolOutput(output) => {
                if let Some(outcome) = &mut output.outcome {
                    shorten(&mut outcome.output);
                    outcome.styles = StyleRuns::default();
                }
            }
            ItemBody::Proposal(plan) => {
                shorten(&mut plan.command);
                shorten(&mut plan.reason);
                plan.edited_from.iter_mut().for_each(shorten);
                if argument_bytes(&plan.call) > BEGINNING_BYTES {
                    plan.call.arguments = Arguments::Object(serde_json::Map::new());
                }
            }
            ItemBody::Prompt(_) | ItemBody::Notice(_) | ItemBody::End(_) => {}
        }
        self.retention = Retention::Truncated;
        self.revision += 1;
    }
}

fn argument_bytes(call: &ToolCall) -> usize {
    match &call.arguments {
        Arguments::Object(map) => {
            map.iter().map(|(name, value)| name.len() + value.as_str().map_or(8, str::len)).sum()
        }
        Arguments::Invalid(text) => text.len(),
    }
}

fn shorten(text: &mut String) {
    if text.len() > BEGINNING_BYTES {
        *text = format!("{}…", &text[..text.floor_char_boundary(BEGINNING_BYTES)]);
    }
}
