//! What a model's answer is, piece by piece.

use sysop_core::event::Delta;
use sysop_core::id::StepId;
use sysop_core::message::{ModelFailure, Reply};

use crate::port::ModelEvent;

/// What came of an answer at one time.
#[derive(Default)]
pub(crate) struct Piece {
    pub(crate) told: Vec<Delta>,
    pub(crate) end: Option<Result<Reply, ModelFailure>>,
}

impl Piece {
    /// The texts between two other events become one.
    pub(crate) fn of(step: StepId, events: Vec<ModelEvent>) -> Self {
        let mut piece = Self::default();
        for event in events {
            match event {
                ModelEvent::Text(more) if more.is_empty() => {}
                ModelEvent::Text(more) => match piece.told.last_mut() {
                    Some(Delta::Text { text, .. }) => text.push_str(&more),
                    _ => piece.told.push(Delta::Text { step, text: more }),
                },
                ModelEvent::Reasoning(text) => piece.told.push(Delta::Reasoning { step, text }),
                ModelEvent::Notice(text) => piece.told.push(Delta::Notice { text }),
                ModelEvent::Restarted => piece.told.push(Delta::Restarted { step }),
                ModelEvent::Done(reply) => piece.end = Some(Ok(*reply)),
                ModelEvent::Failed(failure) => piece.end = Some(Err(failure)),
            }
        }
        piece
    }
}
