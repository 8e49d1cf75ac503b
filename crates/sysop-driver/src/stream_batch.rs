//! Merges model events that arrive together into deltas.

use sysop_core::event::Delta;
use sysop_core::id::StepId;
use sysop_core::message::{ModelFailure, Reply};

use crate::port::ModelEvent;

/// Deltas to publish, and the result of the model call if it is among the merged events.
#[derive(Default)]
pub(crate) struct StreamBatch {
    pub(crate) deltas: Vec<Delta>,
    pub(crate) result: Option<Result<Reply, ModelFailure>>,
}

impl StreamBatch {
    /// Merges events; consecutive chunks of text become one delta.
    pub(crate) fn of(step: StepId, events: Vec<ModelEvent>) -> Self {
        let mut batch = Self::default();
        for event in events {
            match event {
                ModelEvent::Text(more) if more.is_empty() => {}
                ModelEvent::Text(more) => match batch.deltas.last_mut() {
                    Some(Delta::Text { text, .. }) => text.push_str(&more),
                    _ => batch.deltas.push(Delta::Text { step, text: more }),
                },
                ModelEvent::Reasoning(text) => batch.deltas.push(Delta::Reasoning { step, text }),
                ModelEvent::Notice(text) => batch.deltas.push(Delta::Notice { text }),
                ModelEvent::Progress(progress) => match batch.deltas.last_mut() {
                    Some(Delta::Progress { progress: last, .. }) => *last = progress,
                    _ => batch.deltas.push(Delta::Progress { step, progress }),
                },
                ModelEvent::Restarted => batch.deltas.push(Delta::Restarted { step }),
                ModelEvent::Done(reply) => batch.result = Some(Ok(*reply)),
                ModelEvent::Failed(failure) => batch.result = Some(Err(failure)),
            }
        }
        batch
    }
}
