//! Notices that the log does not have, such as those about retries.

use super::{ItemBody, ItemId, Notice, Severity, TextState, Transcript};
use crate::ui_text::is_retrying;

impl Transcript {
    /// Adds a notice that the log does not have. The notice of a retry replaces the one before it.
    pub(super) fn live_notice(&mut self, text: String) {
        // The text of a reply that broke off is removed after its notice.
        if let Some(item) = self.items.iter_mut().rfind(|item| !is_streaming(&item.body))
            && let (ItemId::LiveNotice(_), ItemBody::Notice(last)) = (&item.id, &mut item.body)
            && [&last.text, &text].iter().all(|text| is_retrying(text))
        {
            last.text = text;
            item.revision += 1;
            return;
        }
        self.live_notices += 1;
        let body = ItemBody::Notice(Notice { text, weight: Severity::Note });
        let id = ItemId::LiveNotice(self.live_notices);
        self.push_live(id, body);
    }

    /// Removes the notice of a retry that is over, because the failure or the end of the turn follows it.
    pub(super) fn drop_retry_notice(&mut self) {
        let newest = self.items.iter().rev().map_while(|item| {
            if let ItemBody::Notice(notice) = &item.body { Some((&item.id, &notice.text)) } else { None }
        });
        let mut retries =
            newest.filter(|(id, text)| matches!(id, ItemId::LiveNotice(_)) && is_retrying(text));
        if let Some(id) = retries.next().map(|(id, _)| id.clone()) {
            self.remove(&id);
        }
    }
}

fn is_streaming(body: &ItemBody) -> bool {
    let (ItemBody::Answer(text) | ItemBody::Reasoning(text)) = body else { return false };
    text.state == TextState::Streaming
}
