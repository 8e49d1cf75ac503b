//! Links: which targets a person may click on, what is said of where a link leads, and the OSC 8 around a cell.
//!
//! A link is only made of a plain http(s) address. Its text never passes for another address: where it does not say
//! the target, the target or its host is shown beside it.

use std::borrow::Cow;
use std::sync::Arc;

/// The longest target that is made a link, in bytes.
pub const TARGET_BYTES_MAX: usize = 2_000;

/// The target for a terminal, if it is a plain http(s) address: printable ASCII, a host, no user.
pub fn target(address: &str) -> Option<Arc<str>> {
    let plain =
        address.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'<' | b'>' | b'\\' | b'`'));
    (plain && address.len() <= TARGET_BYTES_MAX && host(address).is_some()).then(|| Arc::from(address))
}

/// The host of a plain http(s) address.
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

/// What must be said beside a link's text, so that nobody is led elsewhere than they think; nothing where the text
/// is the target.
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

/// The address to write beside a link's text where the text cannot be clicked on; `None` where the text says it.
pub fn written_target<'a>(text: &str, address: &'a str) -> Option<Cow<'a, str>> {
    (text.trim() != address).then_some(Cow::Borrowed(address))
}

/// Whether a text is the address but for its scheme, `www.` or a last slash.
fn same_place(text: &str, address: &str) -> bool {
    let Some(bare) = after_scheme(address) else { return false };
    let said = after_scheme(text).unwrap_or(text);
    let trim = |text: &'_ str| text.strip_suffix('/').unwrap_or(text).to_owned();
    // A text that says http where the target is https is no lie, the other way round it is.
    let honest = !(text.to_ascii_lowercase().starts_with("https:")
        && address.to_ascii_lowercase().starts_with("http:"));
    honest
        && !said.is_empty()
        && (trim(said) == trim(bare) || trim(said) == trim(bare.trim_start_matches("www.")))
}

/// Whether a text can be taken for an address: any word of it that has a dot, a scheme or an `@` inside.
fn looks_like_address(text: &str) -> bool {
    text.split_whitespace().any(|word| {
        let inner = word.trim_matches(|c: char| !c.is_alphanumeric());
        inner.contains("://")
            || inner.contains('@')
            || inner.chars().any(|c| matches!(c, '.' | '。' | '．' | '․'))
    })
}

/// The first address within a text, as a byte range. Ends before blanks, quotes and what ends a sentence.
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

/// An address without the punctuation of the sentence that it stands in.
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

/// A cluster as a link. Each cell is a whole link by itself, so that drawing any part of a row draws it right; the
/// common id tells the terminal that they belong together.
pub(crate) fn osc8_cell(cluster: &str, target: &str) -> String {
    format!("{OPEN}{:08x};{target}{END}{cluster}{CLOSE}", id(target))
}

/// What a cell shows, and where it leads: the reverse of what a linked cell is drawn as.
pub fn shown(symbol: &str) -> (&str, Option<&str>) {
    let inside = symbol.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE));
    match inside.and_then(|inside| inside.split_once(';')).and_then(|(_, rest)| rest.split_once(END)) {
        Some((target, cluster)) => (cluster, Some(target)),
        None => (symbol, None),
    }
}

/// FNV-1a: the id only has to be the same for the same target.
fn id(target: &str) -> u32 {
    target.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
