//! Images that a model cannot see: they are left out of the request, or the call fails with a sentence for the user.

use std::collections::BTreeMap;

use sysop_core::image::no_vision;
use sysop_core::message::{FailureKind, HistoryMessage, Message, ModelFailure};
use sysop_driver::port::ModelEvent;

use super::ModelCall;

/// Not a parameter, but a quirk: the server refuses images.
const IMAGES: &str = "images";
/// Words in refusals of images by servers that use other status codes than 400.
const IMAGE_WORDS: [&str; 4] = ["image", "vision", "multimodal", "mmproj"];

impl ModelCall {
    /// Returns true if the model is known to see images, false if it is known not to.
    pub(super) fn vision(&self) -> Option<bool> {
        if self.quirks.unsupported_params.contains(&IMAGES) {
            return Some(false);
        }
        self.request.images.vision.or(self.context.api.vision())
    }

    /// Leaves out the images that the model cannot see or whose bytes are missing. Fails if the newest prompt has
    /// images and the model is known not to see them.
    pub(super) fn leave_out_images(&mut self) -> Result<(), ModelFailure> {
        let calls_as_text = self.context.api.calls_as_text(&self.request, &self.quirks);
        let refused = self.quirks.unsupported_params.contains(&IMAGES);
        let blind = calls_as_text || refused || self.vision() == Some(false);
        if blind && !refused && self.has_new_images() {
            let model = &self.request.model;
            let message = if calls_as_text && self.vision() != Some(false) {
                format!(
                    "{model} calls tools as text and cannot be sent images then; choose another model with /model or \
                     --model"
                )
            } else {
                no_vision(model)
            };
            return Err(ModelFailure { kind: FailureKind::BadRequest, message });
        }
        if blind {
            self.request.images.bytes = BTreeMap::new();
        }
        let images = &self.request.images;
        for message in &mut self.request.messages {
            if message.message().images().any(|image| images.bytes_of(image).is_none()) {
                let rest = message.message().without_images(|image| match images.bytes_of(image) {
                    Some(_) => None,
                    None if blind => Some(image.unseen_placeholder()),
                    None => Some(image.placeholder()),
                });
                *message = HistoryMessage::new(rest);
            }
        }
        Ok(())
    }

    fn has_new_images(&self) -> bool {
        let mut messages = self.request.messages.iter().rev().map(HistoryMessage::message);
        messages.find(|message| matches!(message, Message::User { .. })).is_some_and(|message| {
            message.images().any(|image| self.request.images.bytes_of(image).is_some())
        })
    }

    /// Returns true if a refusal may be due to the images in the request. The request is then sent again
    /// without them, and the user is notified.
    pub(super) fn refuses_images(&mut self, status: u16, body: &str) -> bool {
        let may_see = self.vision() != Some(true) && !self.request.images.bytes.is_empty();
        let lower = body.to_ascii_lowercase();
        let fits = match status {
            400 | 415 | 422 => true,
            404 | 500 | 501 => IMAGE_WORDS.iter().any(|word| lower.contains(word)),
            _ => false,
        };
        if !may_see || !fits || self.quirks.unsupported_params.contains(&IMAGES) {
            return false;
        }
        self.quirks.unsupported_params.push(IMAGES);
        let model = &self.request.model;
        let notice = format!(
            "{model} rejected a request with an image; only text is sent to it now. For images, choose a vision \
             model with /model or --model"
        );
        self.ready.push_back(ModelEvent::Notice(notice));
        true
    }
}
