//! View of the history: any number of items, of which only the visible ones are laid out.
//!
//! The scroll position is an item and a row within it, so that nothing moves when items are added below,
//! removed above or folded. The view follows the end unless the user has scrolled away.

use std::collections::{HashMap, HashSet};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use sysop_core::event::StopReason;
use sysop_core::transcript::{Item, ItemBody, ItemId, Retention, SessionInfo, Transcript};
use sysop_core::ui_text;
use sysop_term::cells::{Span, TextRow};
use sysop_term::theme::{StyleRole, Theme};

use super::find::{FoundMatch, VisibleMatch};
use super::item::{ItemLayout, LayoutOptions, ToolLocation};

/// Maximum number of laid-out rows to keep in memory besides the visible ones.
pub const CACHED_ROWS_MAX: usize = 10_000;

/// Minimum number of rows to evict per frame while too many are in memory.
const EVICTED_ROWS_MIN: usize = 200;

#[derive(Debug, Default)]
pub struct HistoryView {
    retention: HashMap<ItemId, LayoutCacheEntry>,
    cached_rows: usize,
    /// Rows laid out during the current frame.
    new_rows: usize,
    /// Items to evict, each with the frame in which it was last drawn. The oldest is at the end.
    eviction_queue: Vec<(u64, ItemId)>,
    /// Frame counter, for finding items that have not been drawn recently.
    frame: u64,
    cache_key: Option<LayoutCacheKey>,
    place: ScrollAnchor,
    moves: Vec<Scroll>,
    open: HashSet<ItemId>,
    focus: Option<ItemId>,
    /// The focused item and its revision, and true if folding or unfolding changes it, as of the last frame.
    foldable: Option<(ItemId, u32, bool)>,
    /// True if the next frame must scroll the focused item into view.
    seek: bool,
    /// Match that the last search went to.
    found: Option<FoundMatch>,
    /// True if the next frame must scroll that match into view.
    seek_match: bool,
    /// Place of that match on the screen, as of the last frame.
    visible_match: Option<VisibleMatch>,
    visible: Vec<VisibleItem>,
    truncated_item: Option<ItemId>,
    rows: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scroll {
    Up(usize),
    Down(usize),
    PageUp,
    PageDown,
    Top,
    End,
}

/// Effect of folding or unfolding an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoldChange {
    Fold,
    Unfold,
}

/// Parameters shared by all cached layouts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LayoutCacheKey {
    columns: u16,
    theme: Theme,
    host: String,
    root: String,
    /// Names of the client tools. `lent_place` is the host and root where they run.
    client_tools: Vec<String>,
    lent_place: (String, String),
}

impl LayoutCacheKey {
    fn of(facts: Option<&SessionInfo>, theme: Theme, columns: u16) -> Self {
        let client_tools = facts.map_or_else(Vec::new, |facts| facts.client_tools.clone());
        let lent_place =
            client_tools.first().zip(facts).map(|(tool, facts)| facts.place_of(tool)).unwrap_or_default();
        let (host, root) = facts.map_or(("", ""), |facts| (&facts.host, &facts.root));
        Self {
            columns,
            theme,
            host: host.to_owned(),
            root: root.to_owned(),
            client_tools,
            lent_place: (lent_place.0.to_owned(), lent_place.1.to_owned()),
        }
    }

    fn matches(&self, facts: Option<&SessionInfo>, theme: Theme, columns: u16) -> bool {
        let place = facts.map_or(("", "", "", &[][..]), |facts| {
            (&*facts.host, &*facts.root, &*facts.client_root, &*facts.client_tools)
        });
        let own = (&*self.host, &*self.root, &*self.lent_place.1, &*self.client_tools);
        self.columns == columns && self.theme == theme && own == place
    }

    fn place(&self, item: &Item) -> ToolLocation<'_> {
        if let ItemBody::Proposal(plan) = &item.body
            && self.client_tools.contains(&plan.call.name)
        {
            ToolLocation { host: &self.lent_place.0, root: &self.lent_place.1 }
        } else {
            // A server's machine goes without saying if no other one is in use.
            let is_only_host = ui_text::is_server_machine(&self.host) && self.client_tools.is_empty();
            ToolLocation { host: if is_only_host { "" } else { &self.host }, root: &self.root }
        }
    }
}

#[derive(Debug)]
struct LayoutCacheEntry {
    revision: u32,
    frame: u64,
    item_layout: ItemLayout,
}

#[derive(Debug, Clone, Default)]
enum ScrollAnchor {
    #[default]
    End,
    /// The view stays at a position: row `row` of item `id` is at the top of the screen.
    RowPosition {
        id: ItemId,
        /// Last known index of the item.
        index: usize,
        row: usize,
        /// Height of the item in rows when the position was recorded.
        of: usize,
    },
}

/// A row of the history: the index of an item and a row within it, including the empty row before the item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RowPosition {
    index: usize,
    row: usize,
}

#[derive(Debug)]
struct VisibleItem {
    id: ItemId,
    top: u16,
    bottom: u16,
}

impl HistoryView {
    /// Requests scrolling, which is applied in the next frame.
    pub fn scroll(&mut self, scroll: Scroll) {
        self.moves.push(scroll);
    }

    /// Returns true if the view follows the end of the history.
    pub fn follows(&self) -> bool {
        matches!(self.place, ScrollAnchor::End)
    }

    pub fn focused(&self) -> Option<&ItemId> {
        self.focus.as_ref()
    }

    /// Focuses the newest card.
    pub fn focus_last(&mut self, transcript: &Transcript) {
        let last = transcript.items().skip(transcript.visible_from()).rev().find(|item| is_card(item));
        self.focus(last.map(|item| item.id.clone()));
    }

    /// Focuses the next card, or the newest one if no card has the focus.
    pub fn focus_next(&mut self, transcript: &Transcript) {
        let Some(index) = self.focus_index(transcript) else { return self.focus_last(transcript) };
        let next = transcript.items().skip(index + 1).find(|item| is_card(item));
        self.focus(next.map(|item| item.id.clone()));
    }

    /// Focuses the previous card, or the newest one if no card has the focus.
    pub fn focus_previous(&mut self, transcript: &Transcript) {
        let Some(index) = self.focus_index(transcript) else { return self.focus_last(transcript) };
        let shown = transcript.items().take(index).skip(transcript.visible_from());
        let before = shown.rev().find(|item| is_card(item));
        self.focus(before.map(|item| item.id.clone()));
    }

    pub fn unfocus(&mut self) {
        self.focus = None;
    }

    /// Forgets the match that the last search went to.
    pub fn end_search(&mut self) {
        self.found = None;
    }

    /// Returns the match that the last search for this text went to.
    pub(super) fn found_at(&self, typed: &str) -> Option<&FoundMatch> {
        self.found.as_ref().filter(|found| found.typed == typed)
    }

    pub(super) fn show_match(&mut self, found: FoundMatch) {
        let id = found.id.clone();
        if self.open.insert(id.clone()) {
            self.evict(&id);
        }
        self.found = Some(found);
        (self.focus, self.seek_match) = (Some(id), true);
    }

    /// Returns the place on the screen of the match that the last search went to, as of the last frame. Returns `None`
    /// if the match is not visible.
    pub fn visible_match(&self) -> Option<VisibleMatch> {
        self.visible_match
    }

    /// Folds or unfolds the focused item.
    pub fn toggle(&mut self) {
        if let Some(id) = self.focus.clone() {
            self.toggle_item(&id);
            self.seek = true;
        }
    }

    /// Returns the effect of folding or unfolding the focused item, as of the last frame. `None` if there is none.
    pub fn focused_fold(&self) -> Option<FoldChange> {
        let id = self.focus.as_ref()?;
        self.foldable.as_ref().filter(|(of, _, changes)| of == id && *changes)?;
        Some(if self.open.contains(id) { FoldChange::Fold } else { FoldChange::Unfold })
    }

    /// Finds out if folding or unfolding changes the focused item.
    fn check_foldable(&mut self, transcript: &Transcript) {
        let item = self.focus.as_ref().and_then(|id| transcript.item(id));
        let Some((item, cache_key)) = item.zip(self.cache_key.as_ref()) else { return self.foldable = None };
        if self
            .foldable
            .as_ref()
            .is_some_and(|(id, revision, _)| (id, *revision) == (&item.id, item.revision))
        {
            return;
        }
        let layout = |open| {
            let (columns, theme) = (usize::from(cache_key.columns), cache_key.theme);
            ItemLayout::of(item, LayoutOptions { columns, theme, place: cache_key.place(item), open })
        };
        let changes = !layout(true).texts().eq(layout(false).texts());
        self.foldable = Some((item.id.clone(), item.revision, changes));
    }

    pub fn toggle_item(&mut self, id: &ItemId) {
        if !self.open.remove(id) {
            self.open.insert(id.clone());
        }
        self.evict(id);
    }

    /// Returns the item at a screen row, as of the last frame.
    pub fn item_at(&self, y: u16) -> Option<&ItemId> {
        self.visible
            .iter()
            .find(|visible| (visible.top..visible.bottom).contains(&y))
            .map(|visible| &visible.id)
    }

    /// Returns the first visible item with truncated text, as of the last frame.
    pub fn truncated_item(&self) -> Option<&ItemId> {
        self.truncated_item.as_ref()
    }

    /// Returns the number of laid-out rows in memory.
    pub fn cached_rows(&self) -> usize {
        self.cached_rows
    }

    /// Draws the visible part of the history, except for the item `hidden`, which is shown elsewhere.
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
        let mut layout = HistoryLayout { history: self, transcript, hidden };
        let top = layout.top();
        layout.draw(top, theme, area, buffer);
        self.check_foldable(transcript);
        self.evict_layouts(transcript);
    }

    /// Clears the cached layouts if their parameters have changed.
    fn fit(&mut self, transcript: &Transcript, theme: Theme, columns: u16) {
        let facts = transcript.session_info();
        if !self.cache_key.as_ref().is_some_and(|cache_key| cache_key.matches(facts, theme, columns)) {
            self.retention.clear();
            self.foldable = None;
            self.eviction_queue.clear();
            self.cached_rows = 0;
            self.cache_key = Some(LayoutCacheKey::of(facts, theme, columns));
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
        let index = transcript.items().position(|item| item.id == *focus);
        index.filter(|index| *index >= transcript.visible_from())
    }

    fn evict(&mut self, id: &ItemId) {
        if let Some(retention) = self.retention.remove(id) {
            self.cached_rows -= retention.item_layout.len();
        }
    }

    /// Returns the layout of an item, from the cache if possible.
    fn item_layout(&mut self, item: &Item) -> &ItemLayout {
        let Self { retention, cached_rows, new_rows, cache_key, open, frame, .. } = self;
        let cache_key = cache_key.as_ref().expect("`fit` sets the cache key first");
        let options = LayoutOptions {
            columns: usize::from(cache_key.columns),
            theme: cache_key.theme,
            place: cache_key.place(item),
            open: open.contains(&item.id),
        };
        if !retention.contains_key(&item.id) {
            let item_layout = ItemLayout::of(item, options);
            *cached_rows += item_layout.len();
            *new_rows += item_layout.len();
            retention.insert(
                item.id.clone(),
                LayoutCacheEntry { revision: item.revision, frame: *frame, item_layout },
            );
        }
        let retention = retention.get_mut(&item.id).expect("inserted above");
        retention.frame = *frame;
        if retention.revision != item.revision {
            *cached_rows -= retention.item_layout.len();
            retention.item_layout.update(item, options);
            *cached_rows += retention.item_layout.len();
            retention.revision = item.revision;
        }
        &retention.item_layout
    }

    /// Evicts the least recently drawn layouts while too many rows are in memory.
    fn evict_layouts(&mut self, transcript: &Transcript) {
        if self.cached_rows > CACHED_ROWS_MAX / 4 * 3 && self.eviction_queue.is_empty() {
            let old = self.retention.iter().filter(|(_, retention)| retention.frame != self.frame);
            self.eviction_queue = old.map(|(id, retention)| (retention.frame, id.clone())).collect();
            // Sorted so that the oldest is popped first.
            self.eviction_queue.sort_unstable_by(|a, b| b.cmp(a));
        }
        // Spread the eviction over several frames, so that no frame is late.
        let least =
            self.cached_rows.saturating_sub(EVICTED_ROWS_MIN.max(2 * std::mem::take(&mut self.new_rows)));
        while self.cached_rows > least.max(CACHED_ROWS_MAX / 2) {
            let Some((frame, id)) = self.eviction_queue.pop() else { break };
            if self.retention.get(&id).is_some_and(|retention| retention.frame == frame) {
                self.evict(&id);
            }
        }
        if self.cached_rows <= CACHED_ROWS_MAX / 2 {
            self.eviction_queue.clear();
        }
        if self.retention.len() > transcript.items().len() + 1_000
            || self.open.len() > transcript.items().len()
        {
            let there: HashSet<&ItemId> = transcript.items().map(|item| &item.id).collect();
            self.open.retain(|id| there.contains(id));
            let cached_rows = &mut self.cached_rows;
            self.retention.retain(|id, retention| {
                let stays = there.contains(id);
                *cached_rows -= if stays { 0 } else { retention.item_layout.len() };
                stays
            });
        }
    }
}

struct HistoryLayout<'h, 't> {
    history: &'h mut HistoryView,
    transcript: &'t Transcript,
    hidden: Option<&'t ItemId>,
}

impl HistoryLayout<'_, '_> {
    /// Returns the index of the first item to show.
    fn first(&self) -> usize {
        self.transcript.visible_from()
    }

    /// Returns the height of an item in rows, including the empty row before it. Returns 0 for a hidden or empty item.
    fn height(&mut self, index: usize) -> usize {
        let Some(item) = self.transcript.at(index) else { return 0 };
        if self.hidden == Some(&item.id) {
            return 0;
        }
        match self.history.item_layout(item).len() {
            0 => 0,
            rows => rows + self.gap(index),
        }
    }

    fn gap(&self, index: usize) -> usize {
        let Some(item) = self.transcript.at(index) else { return 0 };
        let before = index.checked_sub(1).filter(|before| *before >= self.first());
        let before = before.and_then(|before| self.transcript.at(before));
        usize::from(before.is_some_and(|before| !is_close(before, item)))
    }

    /// Returns the first visible row after applying all scroll requests.
    fn top(&mut self) -> RowPosition {
        let rows = self.history.rows;
        let mut top = self.anchored_top();
        for scroll in std::mem::take(&mut self.history.moves) {
            top = match scroll {
                Scroll::Up(by) => self.up(top, by),
                Scroll::Down(by) => self.down(top, by),
                Scroll::PageUp => self.up(top, rows.saturating_sub(2).max(1)),
                Scroll::PageDown => self.down(top, rows.saturating_sub(2).max(1)),
                Scroll::Top => RowPosition { index: self.first(), row: 0 },
                Scroll::End => self.end(),
            };
        }
        if std::mem::take(&mut self.history.seek) {
            top = self.with_focus(top);
        }
        if std::mem::take(&mut self.history.seek_match) {
            top = self.with_match(top);
        }
        let end = self.end();
        self.history.place = if (top.index, top.row) >= (end.index, end.row) {
            top = end;
            ScrollAnchor::End
        } else {
            let of = self.height(top.index);
            let id = self.transcript.at(top.index).map(|item| item.id.clone());
            id.map_or(ScrollAnchor::End, |id| ScrollAnchor::RowPosition {
                id,
                index: top.index,
                row: top.row,
                of,
            })
        };
        top
    }

    /// Returns the first visible row before scroll requests are applied.
    fn anchored_top(&mut self) -> RowPosition {
        let (index, row, of) = match &self.history.place {
            ScrollAnchor::End => return self.end(),
            ScrollAnchor::RowPosition { id, index, row, of } => match self.index_of(id, *index) {
                Some(index) if index >= self.first() => (index, *row, *of),
                // The item was removed from the beginning or is no longer shown, so the first item is the nearest.
                Some(_) | None => {
                    let last = self.transcript.items().len().saturating_sub(1);
                    return RowPosition { index: (*index).max(self.first()).min(last), row: 0 };
                }
            },
        };
        let height = self.height(index);
        // The layout has changed: keep the relative position.
        let row = if of == height || of == 0 { row } else { row * height / of };
        RowPosition { index, row: row.min(height.saturating_sub(1)) }
    }

    /// Returns the index of an item that was last seen at index `hint`, or `None` if it has been removed.
    /// Searches backward from `hint` first, because items are only removed from the beginning.
    fn index_of(&self, id: &ItemId, hint: usize) -> Option<usize> {
        let is = |index: &usize| self.transcript.at(*index).is_some_and(|item| item.id == *id);
        let count = self.transcript.items().len();
        (0..=hint.min(count)).rev().find(is).or_else(|| (hint..count).find(is))
    }

    /// Returns the first visible row for which the last row is at the bottom.
    fn end(&mut self) -> RowPosition {
        let mut rows = self.history.rows;
        for index in (self.first()..self.transcript.items().len()).rev() {
            let height = self.height(index);
            if height >= rows {
                return RowPosition { index, row: height - rows };
            }
            rows -= height;
        }
        RowPosition { index: self.first(), row: 0 }
    }

    fn up(&mut self, from: RowPosition, by: usize) -> RowPosition {
        let (mut at, mut left) = (from, by);
        loop {
            if at.row >= left {
                return RowPosition { row: at.row - left, ..at };
            }
            left -= at.row;
            let before = at.index.checked_sub(1).filter(|before| *before >= self.first());
            let Some(before) = before else { return RowPosition { index: self.first(), row: 0 } };
            at = RowPosition { index: before, row: self.height(before) };
        }
    }

    fn down(&mut self, from: RowPosition, by: usize) -> RowPosition {
        let (mut at, mut left) = (from, by);
        loop {
            let rest = self.height(at.index).saturating_sub(at.row);
            if left < rest {
                return RowPosition { row: at.row + left, ..at };
            }
            left -= rest;
            if at.index + 1 >= self.transcript.items().len() {
                return self.end();
            }
            at = RowPosition { index: at.index + 1, row: 0 };
        }
    }

    /// Returns the first visible row, adjusted so that the focused item is in view.
    fn with_focus(&mut self, top: RowPosition) -> RowPosition {
        let Some(index) = self.history.focus_index(self.transcript) else { return top };
        let first = RowPosition { index, row: self.gap(index).min(self.height(index).saturating_sub(1)) };
        if (index, first.row) < (top.index, top.row) {
            return RowPosition { index, row: 0 };
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

    /// Returns the first visible row such that the match is in the upper half of the view.
    fn with_match(&mut self, top: RowPosition) -> RowPosition {
        let Some((index, row, _)) = self.found_place() else { return top };
        let at =
            RowPosition { index, row: (row + self.gap(index)).min(self.height(index).saturating_sub(1)) };
        self.up(at, self.history.rows / 3)
    }

    /// Returns the match that the last search went to: the index of its item, the row within the item without the
    /// empty row before it, and the number of matches before it in that row.
    fn found_place(&mut self) -> Option<(usize, usize, usize)> {
        let found = self.history.found.clone()?;
        let index = self.transcript.items().position(|item| item.id == found.id);
        let index = index.filter(|index| *index >= self.first())?;
        let item = self.transcript.at(index)?;
        let (row, number) = HistoryView::row_of(self.history.item_layout(item).texts(), &found);
        Some((index, row, number))
    }

    fn draw(&mut self, top: RowPosition, theme: Theme, area: Rect, buffer: &mut Buffer) {
        self.history.visible.clear();
        self.history.visible_match = None;
        let found = self.found_place();
        self.history.truncated_item = None;
        let (mut at, mut y) = (top, area.top());
        let nothing = TextRow::default();
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
                    Some(row) => {
                        self.history.item_layout(item).draw(row, buffer, area.left(), y, area.width);
                        if let Some((_, _, number)) = found.filter(|(i, r, _)| (*i, *r) == (at.index, row)) {
                            self.history.visible_match = Some(VisibleMatch { y, number });
                        }
                    }
                }
                if focused && row >= gap {
                    TextRow::from(vec![Span::new("▌", theme.style(StyleRole::Chosen))]).draw(
                        buffer,
                        area.left(),
                        y,
                        1,
                    );
                }
                y += 1;
            }
            if y > begin {
                if item.retention == Retention::Truncated && self.history.truncated_item.is_none() {
                    self.history.truncated_item = Some(item.id.clone());
                }
                self.history.visible.push(VisibleItem { id: item.id.clone(), top: begin, bottom: y });
            }
            at = RowPosition { index: at.index + 1, row: 0 };
        }
        let blank = TextRow { spans: Vec::new(), ground: Style::new() };
        for y in y..area.bottom() {
            blank.draw(buffer, area.left(), y, area.width);
        }
    }
}

/// Returns true if an item can be unfolded or opened in the pager.
fn is_card(item: &Item) -> bool {
    match item.body {
        ItemBody::ToolOutput(_)
        | ItemBody::Proposal(_)
        | ItemBody::Reasoning(_)
        | ItemBody::Prompt(_)
        | ItemBody::Answer(_) => true,
        ItemBody::Notice(_) | ItemBody::End(_) => false,
    }
}

/// Returns true if two successive items are drawn without an empty row between them.
fn is_close(before: &Item, item: &Item) -> bool {
    match (&before.body, &item.body) {
        (ItemBody::Proposal(_), ItemBody::ToolOutput(_)) | (ItemBody::Notice(_), ItemBody::Notice(_)) => true,
        (_, ItemBody::End(end)) => end.reason == StopReason::EndTurn && end.error.is_none(),
        _ => false,
    }
}
