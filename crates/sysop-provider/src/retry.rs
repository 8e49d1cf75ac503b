//! Whether a refused request is made again, and when.
//!
//! Follows what the vendors' own clients do: `x-should-retry`, then `retry-after-ms`, `retry-after`, Google's
//! `RetryInfo`, and the words of a message. Decides only; it never waits.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::failure::{Problem, Refusal, ServerError, Then};
use crate::settings::RetrySettings;

/// Marks `problem` as one that another try may solve, where the refusal's status or headers say so.
pub(crate) fn decide(problem: Problem, refusal: &Refusal) -> Problem {
    let by_status = matches!(refusal.status, 408 | 409 | 425 | 429 | 500..=599);
    let by_header = match refusal.headers.get("x-should-retry").and_then(|value| value.to_str().ok()) {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    };
    if by_header.unwrap_or(by_status) {
        let label =
            match reqwest::StatusCode::from_u16(refusal.status).ok().and_then(|s| s.canonical_reason()) {
                Some(reason) => format!("{} {reason}", refusal.status),
                None => refusal.status.to_string(),
            };
        problem.retried(label, asked_wait(&refusal.headers, &refusal.error))
    } else {
        problem
    }
}

/// How long the server wants us to wait.
pub(crate) fn asked_wait(headers: &HeaderMap, error: &ServerError) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let from_header = header("retry-after-ms")
        .and_then(|text| seconds(text.parse::<f64>().ok()? / 1000.0))
        .or_else(|| header("retry-after").and_then(|text| seconds(text.parse().ok()?)))
        .or_else(|| header("retry-after").and_then(until_date));
    from_header.or_else(|| retry_info(&error.value)).or_else(|| words(&error.message))
}

/// How long to wait before try number `tries + 1`; `jitter` is between 0 and 1.
pub(crate) fn wait(settings: &RetrySettings, tries: u32, asked: Option<Duration>, jitter: f64) -> Duration {
    if let Some(asked) = asked {
        return asked;
    }
    let doubled = settings.first_wait.saturating_mul(2_u32.saturating_pow(tries.saturating_sub(1)));
    doubled.min(settings.wait_max).mul_f64(0.75 + 0.25 * jitter)
}

/// What to do after a problem, with this many tries made and this many of them for the same reason.
pub(crate) fn may_retry(settings: &RetrySettings, then: &Then, tries: u32, same: u32) -> bool {
    match then {
        Then::GiveUp => false,
        Then::Adapted => true,
        Then::Retry { most, .. } => tries < settings.attempts_max && same <= *most,
    }
}

fn seconds(value: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(value).ok()
}

fn until_date(text: &str) -> Option<Duration> {
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let left = at.duration_since(jiff::Timestamp::now());
    Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
}

/// `google.rpc.RetryInfo`: `"37s"`, `"1.5s"`, `"250ms"`.
fn retry_info(error: &Value) -> Option<Duration> {
    let details = error.get("details")?.as_array()?;
    details.iter().find_map(|detail| length(detail.get("retryDelay")?.as_str()?))
}

/// `Please retry in 37.4s.`, `Please try again in 250ms`.
fn words(message: &str) -> Option<Duration> {
    let lower = message.to_lowercase();
    let at =
        ["retry in ", "try again in "].iter().find_map(|words| Some(lower.find(words)? + words.len()))?;
    length(lower[at..].split_whitespace().next()?.trim_end_matches(['.', ',']))
}

fn length(text: &str) -> Option<Duration> {
    match text.strip_suffix("ms") {
        Some(number) => seconds(number.parse::<f64>().ok()? / 1000.0),
        None => seconds(text.strip_suffix('s')?.parse().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn asked(headers: &[(&'static str, &'static str)], body: &str) -> Option<Duration> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        asked_wait(&headers, &ServerError::read(body))
    }

    #[test]
    fn waits_are_read_from_headers_details_and_words() {
        assert_eq!(asked(&[("retry-after-ms", "1500"), ("retry-after", "9")], ""), seconds(1.5));
        assert_eq!(asked(&[("retry-after", "0.5")], ""), seconds(0.5));
        let info = r#"{"error":{"message":"x","details":[{"@type":"a"},{"retryDelay":"250ms"}]}}"#;
        assert_eq!(asked(&[], info), seconds(0.25));
        assert_eq!(asked(&[], r#"{"error":{"message":"Please retry in 37.4s."}}"#), seconds(37.4));
        assert_eq!(asked(&[("retry-after", "soon")], ""), None);
        assert_eq!(asked(&[("retry-after", "-1")], ""), None);
        assert_eq!(asked(&[("retry-after", "1e300")], ""), None);
    }

    #[test]
    fn a_date_in_the_past_is_no_wait_and_one_far_ahead_a_long_one() {
        assert_eq!(asked(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], ""), Some(Duration::ZERO));
        let ahead = asked(&[("retry-after", "Sat, 06 Nov 2094 08:49:37 GMT")], "").unwrap();
        assert!(ahead > Duration::from_secs(86_400));
    }

    #[test]
    fn our_own_waits_double_up_to_a_bound() {
        let settings = RetrySettings::default();
        let waits: Vec<_> = (1..=8).map(|tries| wait(&settings, tries, None, 1.0).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 20_000, 20_000]);
        assert_eq!(wait(&settings, 1, None, 0.0).as_millis(), 375);
    }
}
