//! The history: any number of items, of which only those on the screen are laid out.
//!
//! The place of the reader is an item and a row of it, so that nothing moves under their eyes when something is added
//! below, goes above, or is folded. It follows the end unless they have gone elsewhere.

use std::collections::{HashMap, HashSet};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use sysop_core::event::StopReason;
use sysop_core::transcript::{Body, Facts, Item, ItemId, Kept, Transcript};

use super::cells::{Row, Span};
use super::item::{Laid, Look, Place};
use super::theme::{Ink, Theme};

/// Rows that are kept laid out, at most, beside those on the screen.
pub const ROWS_KEPT_MAX: usize = 10_000;

/// Rows that are forgotten with one frame, at least, where there are too many.
const ROWS_FORGOTTEN: usize = 200;

/// How a history is looked at.
#[derive(Debug, Default)]
pub struct History {
    kept: HashMap<ItemId, Layout>,
    kept_rows: usize,
    /// Rows that were laid out for this frame.
    new_rows: usize,
    /// What is to be forgotten, the first of it last: by the frame that it was drawn in.
    going: Vec<(u64, ItemId)>,
    /// Counts frames, to know what was not drawn for long.
    frame: u64,
    sheet: Option<Sheet>,
    place: Reading,
    moves: Vec<Scroll>,
    /// Items that a person has unfolded.
    open: HashSet<ItemId>,
    focus: Option<ItemId>,
    /// The item with the focus is to come into sight.
    seek: bool,
    shown: Vec<Shown>,
    /// The first item on the screen that lacks a part of its text.
    short: Option<ItemId>,
    rows: usize,
}

/// Where to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scroll {
    /// Rows towards the beginning.
    Up(usize),
    /// Rows towards the end.
    Down(usize),
    /// A screen towards the beginning.
    PageUp,
    /// A screen towards the end.
    PageDown,
    /// To the beginning.
    Top,
    /// To the end, and with it.
    End,
}

/// What all layouts that are kept have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sheet {
    columns: u16,
    theme: Theme,
    host: String,
    root: String,
    /// The tools that run elsewhere, and where.
    lent: Vec<String>,
    lent_place: (String, String),
}

impl Sheet {
    fn of(facts: Option<&Facts>, theme: Theme, columns: u16) -> Self {
        let lent = facts.map_or_else(Vec::new, |facts| facts.lent.clone());
        let lent_place =
            lent.first().zip(facts).map(|(tool, facts)| facts.place_of(tool)).unwrap_or_default();
        let (host, root) = facts.map_or(("", ""), |facts| (&facts.host, &facts.root));
        Self {
            columns,
            theme,
            host: host.to_owned(),
            root: root.to_owned(),
            lent,
            lent_place: (lent_place.0.to_owned(), lent_place.1.to_owned()),
        }
    }

    fn is_for(&self, facts: Option<&Facts>, theme: Theme, columns: u16) -> bool {
        let place = facts.map_or(("", "", "", &[][..]), |facts| {
            (&*facts.host, &*facts.root, &*facts.lent_root, &*facts.lent)
        });
        let own = (&*self.host, &*self.root, &*self.lent_place.1, &*self.lent);
        self.columns == columns && self.theme == theme && own == place
    }

    fn place(&self, item: &Item) -> Place<'_> {
        if let Body::Plan(plan) = &item.body
            && self.lent.contains(&plan.call.name)
        {
            Place { host: &self.lent_place.0, root: &self.lent_place.1 }
        } else {
            Place { host: &self.host, root: &self.root }
        }
    }
}

#[derive(Debug)]
struct Layout {
    revision: u32,
    frame: u64,
    laid: Laid,
}

#[derive(Debug, Clone, Default)]
enum Reading {
    /// The last row is the end.
    #[default]
    End,
    /// The first row on the screen is this one.
    At {
        id: ItemId,
        /// Where the item was.
        index: usize,
        row: usize,
        /// How many rows it had.
        of: usize,
    },
}

/// A row of the history: the item's place, and the row within it; an empty row before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct At {
    index: usize,
    row: usize,
}

#[derive(Debug)]
struct Shown {
    id: ItemId,
    top: u16,
    bottom: u16,
}

impl History {
    /// Goes elsewhere; takes effect in the next frame.
    pub fn scroll(&mut self, scroll: Scroll) {
        self.moves.push(scroll);
    }

    /// Whether the newest is on the screen and stays there.
    pub fn follows(&self) -> bool {
        matches!(self.place, Reading::End)
    }

    /// The item that has the focus.
    pub fn focused(&self) -> Option<&ItemId> {
        self.focus.as_ref()
    }

    /// Gives the focus to the newest item that can be unfolded or opened.
    pub fn focus_last(&mut self, transcript: &Transcript) {
        let last = transcript.items().rev().find(|item| is_card(item));
        self.focus(last.map(|item| item.id.clone()));
    }

    /// Gives the focus to the next such item; to the newest where none has it.
    pub fn focus_next(&mut self, transcript: &Transcript) {
        let Some(index) = self.focus_index(transcript) else { return self.focus_last(transcript) };
        let next = transcript.items().skip(index + 1).find(|item| is_card(item));
        self.focus(next.map(|item| item.id.clone()));
    }

    /// Gives the focus to the one before; to the newest where none has it.
    pub fn focus_previous(&mut self, transcript: &Transcript) {
        let Some(index) = self.focus_index(transcript) else { return self.focus_last(transcript) };
        let before = transcript.items().take(index).rev().find(|item| is_card(item));
        self.focus(before.map(|item| item.id.clone()));
    }

    /// Takes the focus away.
    pub fn unfocus(&mut self) {
        self.focus = None;
    }

    /// Folds or unfolds the item that has the focus.
    pub fn toggle(&mut self) {
        if let Some(id) = self.focus.clone() {
            self.toggle_item(&id);
            self.seek = true;
        }
    }

    /// Folds or unfolds an item.
    pub fn toggle_item(&mut self, id: &ItemId) {
        if !self.open.remove(id) {
            self.open.insert(id.clone());
        }
        self.forget(id);
    }

    /// The item at a line of the screen, as of the last frame.
    pub fn item_at(&self, y: u16) -> Option<&ItemId> {
        self.shown.iter().find(|shown| (shown.top..shown.bottom).contains(&y)).map(|shown| &shown.id)
    }

    /// The first item on the screen that lacks a part of its text, as of the last frame.
    pub fn short(&self) -> Option<&ItemId> {
        self.short.as_ref()
    }

    /// Rows that are kept laid out; bounded.
    pub fn rows_kept(&self) -> usize {
        self.kept_rows
    }

    /// Draws what is to be seen, but for an item that is shown elsewhere.
    pub fn draw(
        &mut self,
        transcript: &Transcript,
        hidden: Option<&ItemId>,
        theme: Theme,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        let area = area.intersection(buffer.area);
        if area.is_empty() {
            return;
        }
        self.frame += 1;
        self.rows = usize::from(area.height);
        self.fit(transcript, theme, area.width);
        let mut pages = Pages { history: self, transcript, hidden };
        let top = pages.top();
        pages.draw(top, theme, area, buffer);
        self.bound(transcript);
    }

    /// Forgets all layouts where they no longer fit.
    fn fit(&mut self, transcript: &Transcript, theme: Theme, columns: u16) {
        let facts = transcript.facts();
        if !self.sheet.as_ref().is_some_and(|sheet| sheet.is_for(facts, theme, columns)) {
            self.kept.clear();
            self.going.clear();
            self.kept_rows = 0;
            self.sheet = Some(Sheet::of(facts, theme, columns));
        }
    }

    fn focus(&mut self, id: Option<ItemId>) {
        if id.is_some() {
            self.focus = id;
            self.seek = true;
        }
    }

    fn focus_index(&self, transcript: &Transcript) -> Option<usize> {
        let focus = self.focus.as_ref()?;
        transcript.items().position(|item| item.id == *focus)
    }

    fn forget(&mut self, id: &ItemId) {
        if let Some(kept) = self.kept.remove(id) {
            self.kept_rows -= kept.laid.len();
        }
    }

    /// The item laid out.
    fn laid(&mut self, item: &Item) -> &Laid {
        let Self { kept, kept_rows, new_rows, sheet, open, frame, .. } = self;
        let sheet = sheet.as_ref().expect("`fit` comes first");
        let look = Look {
            columns: usize::from(sheet.columns),
            theme: sheet.theme,
            place: sheet.place(item),
            open: open.contains(&item.id),
        };
        if !kept.contains_key(&item.id) {
            let laid = Laid::of(item, look);
            *kept_rows += laid.len();
            *new_rows += laid.len();
            kept.insert(item.id.clone(), Layout { revision: item.revision, frame: *frame, laid });
        }
        let kept = kept.get_mut(&item.id).expect("it was just put there");
        kept.frame = *frame;
        if kept.revision != item.revision {
            *kept_rows -= kept.laid.len();
            kept.laid.update(item, look);
            *kept_rows += kept.laid.len();
            kept.revision = item.revision;
        }
        &kept.laid
    }

    /// Keeps no more layouts than are allowed, the ones that were drawn last.
    fn bound(&mut self, transcript: &Transcript) {
        if self.kept_rows > ROWS_KEPT_MAX / 4 * 3 && self.going.is_empty() {
            let old = self.kept.iter().filter(|(_, kept)| kept.frame != self.frame);
            self.going = old.map(|(id, kept)| (kept.frame, id.clone())).collect();
            // The oldest is the last, and goes first.
            self.going.sort_unstable_by(|a, b| b.cmp(a));
        }
        // A few with each frame, so that none is late for it.
        let least = self.kept_rows.saturating_sub(ROWS_FORGOTTEN.max(2 * std::mem::take(&mut self.new_rows)));
        while self.kept_rows > least.max(ROWS_KEPT_MAX / 2) {
            let Some((frame, id)) = self.going.pop() else { break };
            if self.kept.get(&id).is_some_and(|kept| kept.frame == frame) {
                self.forget(&id);
            }
        }
        if self.kept_rows <= ROWS_KEPT_MAX / 2 {
            self.going.clear();
        }
        if self.kept.len() > transcript.items().len() + 1_000 || self.open.len() > transcript.items().len() {
            let there: HashSet<&ItemId> = transcript.items().map(|item| &item.id).collect();
            self.open.retain(|id| there.contains(id));
            let kept_rows = &mut self.kept_rows;
            self.kept.retain(|id, kept| {
                let stays = there.contains(id);
                *kept_rows -= if stays { 0 } else { kept.laid.len() };
                stays
            });
        }
    }
}

/// A frame in the making.
struct Pages<'h, 't> {
    history: &'h mut History,
    transcript: &'t Transcript,
    hidden: Option<&'t ItemId>,
}

impl Pages<'_, '_> {
    /// How many rows an item takes, with the empty one before it.
    fn height(&mut self, index: usize) -> usize {
        let Some(item) = self.transcript.at(index) else { return 0 };
        if self.hidden == Some(&item.id) {
            return 0;
        }
        match self.history.laid(item).len() {
            0 => 0,
            rows => rows + self.gap(index),
        }
    }

    /// Empty rows before an item.
    fn gap(&self, index: usize) -> usize {
        let Some(item) = self.transcript.at(index) else { return 0 };
        let before = index.checked_sub(1).and_then(|before| self.transcript.at(before));
        usize::from(before.is_some_and(|before| !is_close(before, item)))
    }

    /// The first row on the screen, after all moves.
    fn top(&mut self) -> At {
        let rows = self.history.rows;
        let mut top = self.begun();
        for scroll in std::mem::take(&mut self.history.moves) {
            top = match scroll {
                Scroll::Up(by) => self.up(top, by),
                Scroll::Down(by) => self.down(top, by),
                Scroll::PageUp => self.up(top, rows.saturating_sub(2).max(1)),
                Scroll::PageDown => self.down(top, rows.saturating_sub(2).max(1)),
                Scroll::Top => At { index: 0, row: 0 },
                Scroll::End => self.end(),
            };
        }
        if std::mem::take(&mut self.history.seek) {
            top = self.with_focus(top);
        }
        let end = self.end();
        self.history.place = if (top.index, top.row) >= (end.index, end.row) {
            top = end;
            Reading::End
        } else {
            let of = self.height(top.index);
            let id = self.transcript.at(top.index).map(|item| item.id.clone());
            id.map_or(Reading::End, |id| Reading::At { id, index: top.index, row: top.row, of })
        };
        top
    }

    /// The first row on the screen before any move.
    fn begun(&mut self) -> At {
        let (index, row, of) = match &self.history.place {
            Reading::End => return self.end(),
            Reading::At { id, index, row, of } => match self.index_of(id, *index) {
                Some(index) => (index, *row, *of),
                // It is gone, from the beginning: what is first now is nearest.
                None => {
                    return At {
                        index: (*index).min(self.transcript.items().len().saturating_sub(1)),
                        row: 0,
                    };
                }
            },
        };
        let height = self.height(index);
        // In another layout: about the same place.
        let row = if of == height || of == 0 { row } else { row * height / of };
        At { index, row: row.min(height.saturating_sub(1)) }
    }

    /// The place of an item that was at `hint`. Items go from the beginning, so that it is there or before.
    fn index_of(&self, id: &ItemId, hint: usize) -> Option<usize> {
        let is = |index: &usize| self.transcript.at(*index).is_some_and(|item| item.id == *id);
        let count = self.transcript.items().len();
        (0..=hint.min(count)).rev().find(is).or_else(|| (hint..count).find(is))
    }

    /// The first row on the screen where the last one is the end.
    fn end(&mut self) -> At {
        let mut rows = self.history.rows;
        for index in (0..self.transcript.items().len()).rev() {
            let height = self.height(index);
            if height >= rows {
                return At { index, row: height - rows };
            }
            rows -= height;
        }
        At { index: 0, row: 0 }
    }

    fn up(&mut self, from: At, by: usize) -> At {
        let (mut at, mut left) = (from, by);
        loop {
            if at.row >= left {
                return At { row: at.row - left, ..at };
            }
            left -= at.row;
            let Some(before) = at.index.checked_sub(1) else { return At { index: 0, row: 0 } };
            at = At { index: before, row: self.height(before) };
        }
    }

    fn down(&mut self, from: At, by: usize) -> At {
        let (mut at, mut left) = (from, by);
        loop {
            let rest = self.height(at.index).saturating_sub(at.row);
            if left < rest {
                return At { row: at.row + left, ..at };
            }
            left -= rest;
            if at.index + 1 >= self.transcript.items().len() {
                return self.end();
            }
            at = At { index: at.index + 1, row: 0 };
        }
    }

    /// The same, or what brings the item with the focus into sight.
    fn with_focus(&mut self, top: At) -> At {
        let Some(index) = self.history.focus_index(self.transcript) else { return top };
        let first = At { index, row: self.gap(index).min(self.height(index).saturating_sub(1)) };
        if (index, first.row) < (top.index, top.row) {
            return At { index, row: 0 };
        }
        let mut above = 0;
        for between in top.index..index {
            above += self.height(between);
            if above > self.history.rows + top.row {
                break;
            }
        }
        let above = above.saturating_sub(top.row);
        let height = self.height(index).min(self.history.rows);
        if above + height <= self.history.rows {
            top
        } else {
            self.up(first, self.history.rows.saturating_sub(height))
        }
    }

    fn draw(&mut self, top: At, theme: Theme, area: Rect, buffer: &mut Buffer) {
        self.history.shown.clear();
        self.history.short = None;
        let (mut at, mut y) = (top, area.top());
        let nothing = Row::default();
        while y < area.bottom() && at.index < self.transcript.items().len() {
            let height = self.height(at.index);
            let gap = if height == 0 { 0 } else { self.gap(at.index) };
            let Some(item) = self.transcript.at(at.index) else { break };
            let begin = y;
            let focused = self.history.focus.as_ref() == Some(&item.id);
            for row in at.row..height {
                if y >= area.bottom() {
                    break;
                }
                match row.checked_sub(gap) {
                    None => nothing.draw(buffer, area.left(), y, area.width),
                    Some(row) => self.history.laid(item).draw(row, buffer, area.left(), y, area.width),
                }
                if focused && row >= gap {
                    Row::from(vec![Span::new("▌", theme.style(Ink::Chosen))]).draw(buffer, area.left(), y, 1);
                }
                y += 1;
            }
            if y > begin {
                if item.kept == Kept::Short && self.history.short.is_none() {
                    self.history.short = Some(item.id.clone());
                }
                self.history.shown.push(Shown { id: item.id.clone(), top: begin, bottom: y });
            }
            at = At { index: at.index + 1, row: 0 };
        }
        let blank = Row { spans: Vec::new(), ground: Style::new() };
        for y in y..area.bottom() {
            blank.draw(buffer, area.left(), y, area.width);
        }
    }
}

/// Whether an item can be unfolded, or opened as a whole.
fn is_card(item: &Item) -> bool {
    match item.body {
        Body::Output(_) | Body::Plan(_) | Body::Reasoning(_) | Body::Prompt(_) | Body::Answer(_) => true,
        Body::Notice(_) | Body::End(_) => false,
    }
}

/// Whether an item belongs to the one before it.
fn is_close(before: &Item, item: &Item) -> bool {
    match (&before.body, &item.body) {
        (Body::Plan(_), Body::Output(_)) | (Body::Notice(_), Body::Notice(_)) => true,
        (_, Body::End(end)) => end.reason == StopReason::EndTurn && end.error.is_none(),
        _ => false,
    }
}
