//! Links: checks targets, decides when a target must be shown next to a link's text, and writes the OSC 8 sequence
//! around a cell.
//!
//! Only plain http(s) URLs become links. The text of a link cannot be mistaken for another URL: if the text does not
//! state the target, the target or its host is shown next to the text.

use std::borrow::Cow;
use std::sync::Arc;

pub const TARGET_BYTES_MAX: usize = 2_000;

/// Returns `address` as a link target for a terminal, or `None` if it is not a plain http(s) URL. A plain URL is
/// printable ASCII and has a host but no user name.
pub fn target(address: &str) -> Option<Arc<str>> {
    let plain =
        address.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'<' | b'>' | b'\\' | b'`'));
    (plain && address.len() <= TARGET_BYTES_MAX && host(address).is_some()).then(|| Arc::from(address))
}

/// Returns the host of a plain http(s) URL, or `None` for other text.
fn host(address: &str) -> Option<&str> {
    let authority = after_scheme(address)?.split(['/', '?', '#']).next()?;
    let name = authority.rsplit_once(':').map_or(authority, |(name, port)| {
        if port.bytes().all(|b| b.is_ascii_digit()) { name } else { authority }
    });
    let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'[' | b']' | b':' | b'_');
    (!name.is_empty() && name.bytes().all(good)).then_some(name)
}

fn after_scheme(address: &str) -> Option<&str> {
    ["http://", "https://"].iter().find_map(|scheme| {
        let head = address.get(..scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then(|| &address[scheme.len()..])
    })
}

/// Returns the URL or host to show next to a link's text, so that users are not misled. Returns `None` if the text
/// itself states the target.
pub fn disclosed_target<'a>(text: &str, address: &'a str) -> Option<Cow<'a, str>> {
    let text = text.trim();
    if text == address || same_place(text, address) {
        return None;
    }
    match host(address) {
        Some(host) if target(address).is_some() && !looks_like_address(text) => Some(Cow::Borrowed(host)),
        Some(_) | None => Some(Cow::Borrowed(address)),
    }
}

/// Returns the URL to write next to a link's text, for output in which links cannot be clicked. Returns `None` if the
/// text itself states the URL.
pub fn written_target<'a>(text: &str, address: &'a str) -> Option<Cow<'a, str>> {
    (text.trim() != address).then_some(Cow::Borrowed(address))
}

/// Returns true if the text equals the URL, ignoring the scheme, a leading `www.` and a final slash.
fn same_place(text: &str, address: &str) -> bool {
    let Some(bare) = after_scheme(address) else { return false };
    let said = after_scheme(text).unwrap_or(text);
    let trim = |text: &'_ str| text.strip_suffix('/').unwrap_or(text).to_owned();
    // Text with http is acceptable for an https target; the reverse is misleading.
    let honest = !(text.to_ascii_lowercase().starts_with("https:")
        && address.to_ascii_lowercase().starts_with("http:"));
    honest
        && !said.is_empty()
        && (trim(said) == trim(bare) || trim(said) == trim(bare.trim_start_matches("www.")))
}

/// Returns true if the text may be mistaken for a URL: one of its words has a dot, a scheme or an `@`.
fn looks_like_address(text: &str) -> bool {
    text.split_whitespace().any(|word| {
        let inner = word.trim_matches(|c: char| !c.is_alphanumeric());
        inner.contains("://")
            || inner.contains('@')
            || inner.chars().any(|c| matches!(c, '.' | '。' | '．' | '․'))
    })
}

/// Returns the byte range of the first URL in the text. A URL ends before blanks, quotes and sentence punctuation.
pub fn find(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(found) = text.get(from..)?.find("http") {
        let start = from + found;
        let rest = &text[start..];
        let fresh = !text[..start].ends_with(|c: char| c.is_ascii_alphanumeric());
        if fresh && after_scheme(rest).is_some() {
            let stop = |c: char| {
                c.is_whitespace() || c.is_control() || matches!(c, '"' | '<' | '>' | '`' | '\\' | '|')
            };
            let length = rest.find(stop).unwrap_or(rest.len());
            let end = start + trimmed(&rest[..length]).len();
            if target(&text[start..end]).is_some() {
                return Some((start, end));
            }
        }
        from = start + 4;
    }
    None
}

/// Removes the punctuation of the surrounding sentence from a URL.
fn trimmed(mut address: &str) -> &str {
    loop {
        let Some(last) = address.chars().next_back() else { return address };
        let open = match last {
            ')' => Some('('),
            ']' => Some('['),
            '}' => Some('{'),
            _ => None,
        };
        let goes = match open {
            Some(open) => address.matches(open).count() < address.matches(last).count(),
            None => matches!(last, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_' | '…'),
        };
        if !goes {
            return address;
        }
        address = &address[..address.len() - last.len_utf8()];
    }
}

const OPEN: &str = "\u{1b}]8;id=";
const END: &str = "\u{1b}\\";
const CLOSE: &str = "\u{1b}]8;;\u{1b}\\";

/// Encodes a cluster as a link. Each cell is a complete link, so that any part of a row can be drawn. The id,
/// which is shared by all cells with the same target, tells the terminal that they belong together.
pub(crate) fn osc8_cell(cluster: &str, target: &str) -> String {
    format!("{OPEN}{:08x};{target}{END}{cluster}{CLOSE}", id(target))
}

/// Splits a drawn cell into its text and its link target, if any. This is the reverse of `osc8_cell`.
pub fn shown(symbol: &str) -> (&str, Option<&str>) {
    let inside = symbol.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE));
    match inside.and_then(|inside| inside.split_once(';')).and_then(|(_, rest)| rest.split_once(END)) {
        Some((target, cluster)) => (cluster, Some(target)),
        None => (symbol, None),
    }
}

/// Returns the link id for a target: its FNV-1a hash, so that equal targets have equal ids.
fn id(target: &str) -> u32 {
    target.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
