//! Parsers for the values of flags.

use sysop_core::auto_bounds::{ACCEPTED_BOUNDS, AutoBounds, InvalidBounds};
use sysop_driver::tokens::Scopes;
use sysop_server::auth::RESERVED_NAMES;

use super::TokenLifetime;

const TOKEN_NAME_CHARS_MAX: usize = 64;
/// Maximum lifetime of a token in milliseconds: ten years.
const TOKEN_LIFE_MS_MAX: i64 = 3653 * DAY_MS;
pub(super) const DAY_MS: i64 = 24 * HOUR_MS;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const MINUTE_MS: i64 = 60 * 1000;

/// Parses the bounds of a task. clap names the value in its error.
pub(super) fn bounds(text: &str) -> Result<AutoBounds, String> {
    text.parse().map_err(|error: InvalidBounds| match text.contains(',') {
        true => error.to_string(),
        false => ACCEPTED_BOUNDS.to_owned(),
    })
}

pub(super) fn task(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("the task is empty".to_owned()) } else { Ok(text.to_owned()) }
}

pub(super) fn word(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.starts_with('-') {
        return Err("expected a name".to_owned());
    }
    Ok(text.to_owned())
}

/// Parses the number of a tool call, which counts from 1.
pub(super) fn call_number(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| "CALL must be a number, counted from 1".to_owned())
}

/// Parses a number of bytes with an optional suffix `K` (1024) or `M` (1024²).
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (digits, times) = match text.trim_end_matches(['B', 'b']).to_ascii_uppercase() {
        text if text.ends_with('K') => (text[..text.len() - 1].to_owned(), 1024),
        text if text.ends_with('M') => (text[..text.len() - 1].to_owned(), 1024 * 1024),
        text => (text, 1),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(times));
    let most = sysop_host::FILE_BYTES_MAX;
    bytes
        .filter(|bytes| (1..=most).contains(bytes))
        .ok_or_else(|| format!("expected a size from 1 to {most} bytes, such as 4096, 64K or 2M"))
}

/// Parses the lifetime of a token, such as `30d`, `12h`, `45m` or `2w`.
pub(super) fn token_lifetime(text: &str) -> Result<TokenLifetime, String> {
    let bad = || "expected a duration such as 30d, 12h, 45m or 2w".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(bad)?;
    let unit = match unit {
        "m" => MINUTE_MS,
        "h" => HOUR_MS,
        "d" => DAY_MS,
        "w" => 7 * DAY_MS,
        _ => return Err(bad()),
    };
    let number: u32 = number.parse().map_err(|_| bad())?;
    match i64::from(number).checked_mul(unit) {
        Some(0) => Err("the lifetime must be greater than zero".to_owned()),
        Some(life) if life <= TOKEN_LIFE_MS_MAX => Ok(TokenLifetime { milliseconds: life }),
        Some(_) | None => {
            Err("the maximum is ten years; omit the option for a token that never expires".to_owned())
        }
    }
}

pub(super) fn token_scopes(text: &str) -> Result<Scopes, String> {
    let known = |_| "expected `read`, `operate` or `decide`, separated by commas".to_owned();
    text.parse().map_err(known)
}

pub(super) fn token_name(text: &str) -> Result<String, String> {
    let text = text.trim();
    // Records of decisions list several names with commas between them, and quote names in backticks.
    let is_refused = |c: char| c.is_control() || matches!(c, ',' | '`');
    if text.is_empty() || text.chars().count() > TOKEN_NAME_CHARS_MAX || text.contains(is_refused) {
        return Err(format!(
            "expected one line of 1 to {TOKEN_NAME_CHARS_MAX} characters, without commas and backticks"
        ));
    }
    if RESERVED_NAMES.iter().any(|name| name.eq_ignore_ascii_case(text)) {
        return Err("sysop uses this name in its records; choose another one".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("expected NAME=VALUE".to_owned()),
    }
}
