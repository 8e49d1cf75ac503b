//! Results of calls as text and images for models.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use sysop_core::image::{ImageRef, PROMPT_IMAGES_MAX};
use sysop_host::OutcomeBuilder;

/// Result of a call for models.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ResultContent {
    /// Text, with a line for each image.
    pub(crate) text: String,
    pub(crate) images: Vec<ImageRef>,
}

/// One content block of a result, before its image is checked and stored.
enum ContentPart<'a> {
    Text(String),
    /// An image in base64.
    Image(&'a str),
}

/// Returns the content of a result. Images are stored as artifacts under the server's name; audio and other
/// binary data are mentioned, not included.
pub(crate) async fn read(result: &CallToolResult, server: &str, outcomes: &OutcomeBuilder) -> ResultContent {
    let (mut parts, mut images) = (Vec::new(), Vec::new());
    for block in &result.content {
        let text = match part(block) {
            ContentPart::Text(text) => text,
            ContentPart::Image(_) if images.len() == PROMPT_IMAGES_MAX => {
                format!("[image omitted: at most {PROMPT_IMAGES_MAX} images per result]")
            }
            ContentPart::Image(data) => match store(data, server, outcomes).await {
                Ok(image) => {
                    let line = format!("[{image}]");
                    images.push(image);
                    line
                }
                Err(why) => format!("[image omitted: {why}]"),
            },
        };
        parts.push(text);
    }
    if parts.iter().all(String::is_empty)
        && let Some(structured) = &result.structured_content
    {
        parts = vec![structured.to_string()];
    }
    ResultContent { text: parts.join("\n"), images }
}

async fn store(data: &str, server: &str, outcomes: &OutcomeBuilder) -> Result<ImageRef, String> {
    let bytes = BASE64_STANDARD.decode(data).map_err(|_| "the data is not base64".to_owned())?;
    outcomes.store_image(bytes, server).await.map_err(|error| error.to_string())
}

fn part(block: &ContentBlock) -> ContentPart<'_> {
    ContentPart::Text(match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => return ContentPart::Image(&image.data),
        ContentBlock::Audio(audio) => binary("audio", &audio.mime_type, audio.data.len()),
        ContentBlock::ResourceLink(link) => format!("[resource {}: {}]", link.uri, link.name),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let kind = mime_type.as_deref().unwrap_or("unknown type");
                if kind.starts_with("image/") {
                    return ContentPart::Image(blob);
                }
                format!("[resource {uri}] {}", binary("data", kind, blob.len()))
            }
            _ => "[a resource of an unknown kind]".to_owned(),
        },
        _ => "[content of an unknown kind]".to_owned(),
    })
}

/// Describes data that is not included. `base64` is its length in base64 characters.
fn binary(what: &str, kind: &str, base64: usize) -> String {
    format!("[{what} {kind}, {} bytes, not shown]", base64 / 4 * 3)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde_json::{Value, json};
    use sysop_host::{OutcomeBuilder, OutputLimits};

    use super::{PROMPT_IMAGES_MAX, ResultContent, read};

    /// The header of a PNG file of 5 by 4 pixels, as base64.
    fn png() -> String {
        BASE64_STANDARD.encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x05\0\0\0\x04\x08\x02\0\0\0")
    }

    async fn content(result: Value) -> ResultContent {
        let folder = tempfile::tempdir().expect("a folder");
        let limits = OutputLimits { bytes: 1_000, lines: 100 };
        let outcomes = OutcomeBuilder::new(limits, folder.path().into(), &[]);
        read(&serde_json::from_value(result).expect("a result"), "grafana", &outcomes).await
    }

    #[tokio::test]
    async fn every_kind_of_content_without_images_becomes_text() {
        let mixed = content(json!({"content": [
            {"type": "text", "text": "a"},
            {"type": "audio", "data": "AAAABBBB", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
            {"type": "resource", "resource": {"uri": "file:///y", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///z", "blob": "AAAA", "mimeType": "a/b"}},
        ]}));
        assert_eq!(
            mixed.await.text,
            "a\n[audio audio/wav, 6 bytes, not shown]\n[resource file:///x: x]\n[resource file:///y]\ninside\n\
             [resource file:///z] [data a/b, 3 bytes, not shown]"
        );
        let structured = json!({"content": [], "structuredContent": {"sum": 3}});
        assert_eq!(content(structured).await.text, r#"{"sum":3}"#);
        let both = json!({"content": [{"type": "text", "text": "t"}], "structuredContent": {"sum": 3}});
        assert_eq!(content(both).await.text, "t");
    }

    #[tokio::test]
    async fn images_are_stored_and_others_are_left_out_with_the_reason() {
        let image = |data: &str| json!({"type": "image", "data": data, "mimeType": "image/png"});
        let read = content(json!({"content": [
            image(&png()),
            {"type": "resource", "resource": {"uri": "a:b", "blob": png(), "mimeType": "image/png"}},
            image("AAAA"),
            image("not base64"),
        ]}))
        .await;
        assert_eq!(read.images.len(), 2);
        let lines: Vec<&str> = read.text.lines().collect();
        assert_eq!(lines[..2], ["[image 5×4 grafana]", "[image 5×4 grafana]"]);
        assert!(lines[2].starts_with("[image omitted: not a PNG, JPEG, GIF or WebP image"), "{}", lines[2]);
        assert_eq!(lines[3], "[image omitted: the data is not base64]");
        let many = json!({"content": vec![image(&png()); PROMPT_IMAGES_MAX + 2]});
        let many = content(many).await;
        assert_eq!(
            (many.images.len(), many.text.lines().count()),
            (PROMPT_IMAGES_MAX, PROMPT_IMAGES_MAX + 2)
        );
    }
}
