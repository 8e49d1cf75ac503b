//! Results of calls as text for models.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// Returns the text of a result. Pictures, sound and binary resources are named, not included.
pub(crate) fn text(result: &CallToolResult) -> String {
    let mut parts: Vec<String> = result.content.iter().map(block).collect();
    if parts.iter().all(String::is_empty)
        && let Some(structured) = &result.structured_content
    {
        parts = vec![structured.to_string()];
    }
    parts.join("\n")
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => binary("image", &image.mime_type, image.data.len()),
        ContentBlock::Audio(audio) => binary("audio", &audio.mime_type, audio.data.len()),
        ContentBlock::ResourceLink(link) => format!("[resource {}: {}]", link.uri, link.name),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let kind = mime_type.as_deref().unwrap_or("unknown type");
                format!("[resource {uri}] {}", binary("data", kind, blob.len()))
            }
            _ => "[a resource of an unknown kind]".to_owned(),
        },
        _ => "[content of an unknown kind]".to_owned(),
    }
}

/// Describes data that is not included. `base64` is the number of its characters in base64.
fn binary(what: &str, kind: &str, base64: usize) -> String {
    format!("[{what} {kind}, {} bytes, not shown]", base64 / 4 * 3)
}

#[cfg(test)]
mod tests {
    use rmcp::model::CallToolResult;
    use serde_json::json;

    #[test]
    fn every_kind_of_content_becomes_text() {
        let text = |value| super::text(&serde_json::from_value::<CallToolResult>(value).expect("a result"));
        assert_eq!(
            text(json!({"content": [
                {"type": "text", "text": "a"},
                {"type": "image", "data": "AAAABBBB", "mimeType": "image/png"},
                {"type": "resource_link", "uri": "file:///x", "name": "x"},
                {"type": "resource", "resource": {"uri": "file:///y", "text": "inside"}},
                {"type": "resource", "resource": {"uri": "file:///z", "blob": "AAAA", "mimeType": "a/b"}},
            ]})),
            "a\n[image image/png, 6 bytes, not shown]\n[resource file:///x: x]\n[resource file:///y]\ninside\n\
             [resource file:///z] [data a/b, 3 bytes, not shown]"
        );
        assert_eq!(text(json!({"content": [], "structuredContent": {"sum": 3}})), r#"{"sum":3}"#);
        assert_eq!(
            text(json!({"content": [{"type": "text", "text": "t"}], "structuredContent": {"sum": 3}})),
            "t"
        );
    }
}
