//! The sessions that are open here.

use std::sync::Arc;

use crate::rooms::Rooms;

/// All rooms.
pub(crate) struct House {
    pub(crate) rooms: Arc<dyn Rooms>,
}

impl House {
    pub(crate) fn new(rooms: Arc<dyn Rooms>) -> Self {
        Self { rooms }
    }
}
