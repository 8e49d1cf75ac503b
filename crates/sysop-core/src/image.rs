//! Images in prompts and tool results: references to stored images, and the checks that an image must pass.
//!
//! The log contains references only. The format, the width and the height of an image are read from its header; the
//! pixels are never decoded.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::ModelRef;
use crate::text::neutralize_line;

pub const IMAGE_BYTES_MAX: usize = 5 * 1024 * 1024;
/// Maximum width and height of an image in pixels. Anthropic rejects larger ones in requests with many images.
pub const IMAGE_SIDE_MAX: u32 = 2_000;
pub const PROMPT_IMAGES_MAX: usize = 8;
/// Maximum number of images in one request to a model; older images are left out.
pub const REQUEST_IMAGES_MAX: usize = 20;
/// Maximum bytes of all images in one request to a model. In base64 they are a third larger; Gemini accepts 20 MB.
pub const REQUEST_IMAGE_BYTES_MAX: usize = 14 * 1024 * 1024;
/// Width and height, in pixels, of the square that costs a model about one token.
const TOKEN_SIDE: u32 = 28;
const NAME_BYTES_MAX: usize = 120;

/// Formats of images that every provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ImageFormat {
    #[serde(rename = "image/png")]
    Png,
    #[serde(rename = "image/jpeg")]
    Jpeg,
    #[serde(rename = "image/gif")]
    Gif,
    #[serde(rename = "image/webp")]
    Webp,
}

impl ImageFormat {
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// Returns the usual file name extension, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Gif => "gif",
            Self::Webp => "webp",
        }
    }
}

/// Format and size of an image, as its header states them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageHeader {
    pub format: ImageFormat,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

/// Reference to a stored image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRef {
    /// Name of the artifact that holds the bytes.
    pub artifact: String,
    pub media_type: ImageFormat,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// File name, for display; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl ImageRef {
    /// Creates a reference to the image in `artifact`. Only the part of `name` after the last slash is kept.
    pub fn new(artifact: String, header: ImageHeader, name: &str) -> Self {
        let name = neutralize_line(name.rsplit(['/', '\\']).next().unwrap_or(name)).into_owned();
        let name = name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned();
        let ImageHeader { format, width, height } = header;
        Self { artifact, media_type: format, width, height, name }
    }

    pub fn tokens(&self) -> u64 {
        u64::from(self.width.div_ceil(TOKEN_SIDE)) * u64::from(self.height.div_ceil(TOKEN_SIDE))
    }

    /// Returns the line that a model gets in place of the image.
    pub fn placeholder(&self) -> String {
        format!("[{self} omitted]")
    }

    /// Returns the line that a model gets in place of an image that it cannot see.
    pub fn unseen_placeholder(&self) -> String {
        format!("[{self} omitted: you cannot see images; tell the user if the image matters]")
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "image {}×{}", self.width, self.height)?;
        if self.name.is_empty() { Ok(()) } else { write!(f, " {}", self.name) }
    }
}

/// Returns the paths of image files that a prompt names as `@PATH` or `@"PATH"`.
///
/// ```
/// use sysop_core::image::mentioned;
///
/// assert_eq!(mentioned(r#"compare @a.png, @"my b.JPG" and @notes.txt"#), ["a.png", "my b.JPG"]);
/// ```
pub fn mentioned(text: &str) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let mut before = ' ';
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if next == '@' && (before.is_whitespace() || before == '(') {
            let (path, length) = mention(&rest[1..]);
            if is_image_name(path) && !paths.iter().any(|known| known == path) {
                paths.push(path.to_owned());
            }
            rest = &rest[1 + length..];
            before = '@';
        } else {
            rest = &rest[next.len_utf8()..];
            before = next;
        }
    }
    paths
}

/// Parses the path that follows an `@`. Returns the path, and the number of bytes that it takes up in `text`.
fn mention(text: &str) -> (&str, usize) {
    if let Some((path, _)) = text.strip_prefix('"').and_then(|quoted| quoted.split_once('"')) {
        return (path, path.len() + 2);
    }
    let word = text.split(char::is_whitespace).next().unwrap_or_default();
    let path = word.trim_end_matches([',', '.', ';', ':', '!', '?', ')']);
    (path, path.len())
}

/// Returns the absolute path of an image file if pasted text consists of nothing else. Terminals paste a dragged file
/// as a path in quotes, with escaped spaces, or as a `file://` URL.
///
/// ```
/// use sysop_core::image::pasted_path;
///
/// for pasted in ["'/tmp/my b.png'", r"/tmp/my\ b.png ", "file:///tmp/my%20b.png\n"] {
///     assert_eq!(pasted_path(pasted).as_deref(), Some("/tmp/my b.png"));
/// }
/// assert_eq!(pasted_path("see /tmp/b.png"), None);
/// ```
pub fn pasted_path(text: &str) -> Option<String> {
    let text = text.trim();
    let quoted = ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    let path = match (quoted, text.strip_prefix("file://")) {
        (Some(path), _) => path.to_owned(),
        (None, Some(url)) => percent_decoded(url)?,
        (None, None) => unescaped(text)?,
    };
    let is_path = path.starts_with('/') && is_image_name(&path) && !path.contains(['\n', '"', '\0']);
    is_path.then_some(path)
}

/// Removes the backslashes before escaped characters. Returns `None` if a space is not escaped.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.push(characters.next()?),
            character if character.is_whitespace() => return None,
            character => out.push(character),
        }
    }
    Some(out)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        bytes.push(if byte == b'%' { digit(rest.next()?)? << 4 | digit(rest.next()?)? } else { byte });
    }
    String::from_utf8(bytes).ok()
}

/// Returns true if a file name has the extension of an image.
pub fn is_image_name(path: &str) -> bool {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| ["png", "jpg", "jpeg", "gif", "webp"].contains(&extension.as_str()))
}

/// Returns the text that mentions a file in a prompt.
pub fn mention_of(path: &str) -> String {
    if path.contains(char::is_whitespace) { format!("@\"{path}\"") } else { format!("@{path}") }
}

/// Returns a prompt as users see it: its text, followed by a line for each image.
pub fn prompt_for_display(text: &str, images: &[ImageRef]) -> String {
    let lines = images.iter().map(|image| format!("\n[{image}]"));
    std::iter::once(text.to_owned()).chain(lines).collect()
}

/// Returns the sentence for the user if a model cannot see the images in a prompt.
pub fn no_vision(model: &ModelRef) -> String {
    format!(
        "{model} cannot see images; choose a model that can with /model or --model, or set `vision = true` in \
         [models.\"{model}\"] if it can"
    )
}

/// Images in a request to a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestImages {
    /// True if the model is known to accept images, false if it is known not to.
    pub vision: Option<bool>,
    /// Image data by artifact. In place of an image that is missing here, the model gets a line of text.
    pub bytes: BTreeMap<String, Arc<[u8]>>,
}

impl RequestImages {
    /// Returns the bytes of an image, or `None` if the model gets a line of text instead.
    pub fn bytes_of(&self, image: &ImageRef) -> Option<&[u8]> {
        self.bytes.get(&image.artifact).map(|bytes| &**bytes)
    }
}

/// Reason for rejecting an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("not a PNG, JPEG, GIF or WebP image; convert it: `magick FILE out.png`")]
    UnknownFormat,
    #[error("not a PNG, JPEG, GIF or WebP image, but text")]
    Text,
    #[error("the image is damaged or cut off: its header has no size")]
    NoSize,
    #[error(
        "the image has {width}×{height} pixels; at most {IMAGE_SIDE_MAX} on each side are accepted; shrink it: \
         `magick FILE -resize 1568x1568 out.png`"
    )]
    TooLarge { width: u32, height: u32 },
    #[error(
        "the image has {:.1} MB; at most {} MB are accepted; shrink it: `magick FILE -resize 1568x1568 out.jpg`",
        *.bytes as f64 / 1_048_576.0, IMAGE_BYTES_MAX >> 20
    )]
    TooManyBytes { bytes: u64 },
}

/// Returns true for text that draws nothing, so that no program converts it to an image.
fn is_plain_text(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let is_control = |sign: char| sign.is_control() && !sign.is_whitespace();
    text.contains('\n') && !text.contains("<svg") && !text.starts_with('%') && !text.contains(is_control)
}

/// Checks an image and returns its format and size. Fails with the reason and advice if the format is
/// unknown, the header is damaged, or the image is too large.
pub fn check(bytes: &[u8]) -> Result<ImageHeader, ImageError> {
    let Some(format) = format_of(bytes) else {
        return Err(if is_plain_text(bytes) { ImageError::Text } else { ImageError::UnknownFormat });
    };
    if bytes.len() > IMAGE_BYTES_MAX {
        return Err(ImageError::TooManyBytes { bytes: bytes.len() as u64 });
    }
    let size = match format {
        ImageFormat::Png => png_size(bytes),
        ImageFormat::Jpeg => jpeg_size(bytes),
        ImageFormat::Gif => gif_size(bytes),
        ImageFormat::Webp => webp_size(bytes),
    };
    let (width, height) =
        size.filter(|(width, height)| *width > 0 && *height > 0).ok_or(ImageError::NoSize)?;
    if width > IMAGE_SIDE_MAX || height > IMAGE_SIDE_MAX {
        return Err(ImageError::TooLarge { width, height });
    }
    Ok(ImageHeader { format, width, height })
}

/// Detects the format from the first bytes of a file; returns `None` if it is not a known image format.
pub fn format_of(bytes: &[u8]) -> Option<ImageFormat> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(ImageFormat::Png),
        [0xff, 0xd8, 0xff, ..] => Some(ImageFormat::Jpeg),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(ImageFormat::Gif),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(ImageFormat::Webp),
        _ => None,
    }
}

fn big_endian(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little_endian(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// Reads the size from the `IHDR` chunk, which always comes first.
fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    (bytes.get(12..16)? == b"IHDR").then_some(())?;
    Some((big_endian(bytes, 16, 4)?, big_endian(bytes, 20, 4)?))
}

/// Reads the size of the logical screen.
fn gif_size(bytes: &[u8]) -> Option<(u32, u32)> {
    Some((little_endian(bytes, 6, 2)?, little_endian(bytes, 8, 2)?))
}

/// Reads the size from the first chunk, which is lossy (`VP8 `), lossless (`VP8L`) or extended (`VP8X`).
fn webp_size(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8 " => {
            (bytes.get(23..26)? == [0x9d, 0x01, 0x2a]).then_some(())?;
            Some((little_endian(bytes, 26, 2)? & 0x3fff, little_endian(bytes, 28, 2)? & 0x3fff))
        }
        b"VP8L" => {
            (bytes.get(20)? == &0x2f).then_some(())?;
            let bits = little_endian(bytes, 21, 4)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((little_endian(bytes, 24, 3)? + 1, little_endian(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

/// Walks the segments up to the start of a frame, which states the size.
fn jpeg_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        (*bytes.get(at)? == 0xff).then_some(())?;
        let marker = *bytes.get(at + 1)?;
        match marker {
            0xff => at += 1, // a fill byte
            0x01 | 0xd0..=0xd7 => at += 2,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((big_endian(bytes, at + 7, 2)?, big_endian(bytes, at + 5, 2)?));
            }
            0xd8..=0xda => return None,
            _ => {
                let length = usize::try_from(big_endian(bytes, at + 2, 2)?).ok()?;
                (length >= 2).then_some(())?;
                at += 2 + length;
            }
        }
    }
}

#[cfg(test)]
mod tests;
