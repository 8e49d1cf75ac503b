//! Places of new sessions, until their first input is saved: the log does not contain them before.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use sysop_core::id::SessionId;

use super::ToolLocation;

/// Maximum number of places; the oldest are dropped.
const PLACES_MAX: usize = 256;

#[derive(Clone, Default)]
pub(super) struct UnsavedPlaces(Arc<Mutex<VecDeque<(SessionId, ToolLocation)>>>);

impl UnsavedPlaces {
    pub(super) fn add(&self, session: SessionId, place: ToolLocation) {
        let mut places = self.0.lock();
        if places.len() == PLACES_MAX {
            places.pop_front();
        }
        places.push_back((session, place));
    }

    pub(super) fn get(&self, session: &SessionId) -> Option<ToolLocation> {
        let places = self.0.lock();
        places.iter().rev().find(|(id, _)| id == session).map(|(_, place)| place.clone())
    }
}
