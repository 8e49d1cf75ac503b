//! Retries: their number, their backoff, and the server's own `retry-after`.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use sysop_core::message::ModelFailure;
use sysop_core::ui_text;
use sysop_driver::port::ModelEvent;

use super::error::{RequestError, seconds};
use super::{CallPhase, ModelCall};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetrySettings {
    /// Maximum retries per request; 0 disables them.
    pub retries: u32,
    /// Wait before the first retry. The wait doubles for each further retry.
    pub wait: Duration,
    /// Longest backoff.
    pub wait_max: Duration,
    /// Maximum wait accepted from a server. If the server requests a longer one, the request fails.
    pub server_wait_max: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            retries: 4,
            wait: Duration::from_millis(500),
            wait_max: Duration::from_secs(8),
            server_wait_max: Duration::from_secs(120),
        }
    }
}

impl RetrySettings {
    /// Returns the wait before retry `number`, counted from 0. `random`, 0 to 1, reduces it by up to a quarter.
    pub(crate) fn backoff(&self, number: u32, random: f64) -> Duration {
        let doubled = self.wait.saturating_mul(2_u32.saturating_pow(number)).min(self.wait_max);
        doubled.mul_f64(1.0 - random.clamp(0.0, 1.0) / 4.0)
    }
}

/// Returns true for an HTTP status that may go away with a retry.
pub(crate) fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..=599)
}

/// Retry instructions from a server's headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RetryAdvice {
    /// Value of `x-should-retry`.
    pub(crate) retry: Option<bool>,
    /// Value of `retry-after-ms`, or else of `retry-after`.
    pub(crate) wait: Option<Duration>,
}

impl RetryAdvice {
    /// Reads response headers. A wait given as a date is converted with `now`.
    pub(crate) fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let retry = match text("x-should-retry") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) | None => None,
        };
        let milliseconds = text("retry-after-ms").and_then(|value| duration_in(value, 1000.0));
        let wait = milliseconds.or_else(|| {
            let value = text("retry-after")?;
            duration_in(value, 1.0).or_else(|| time_until(value, now))
        });
        Self { retry, wait }
    }
}

fn duration_in(number: &str, unit: f64) -> Option<Duration> {
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number / unit).ok()
}

/// Returns the time until an HTTP date (RFC 9110, 5.6.7), or zero if it has passed. `None` if it is invalid.
fn time_until(date: &str, now: SystemTime) -> Option<Duration> {
    let at = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    Some(SystemTime::from(at).duration_since(now).unwrap_or_default())
}

impl ModelCall {
    /// Schedules a retry, or fails the call if its retries are used up or a retry is pointless.
    pub(super) fn retry_or_fail(&mut self, error: RequestError) {
        let settings = self.context.retry;
        let retries_max = if error.once { settings.retries.min(1) } else { settings.retries };
        if !error.retry || self.retries >= retries_max {
            let tries = match self.retries {
                0 => String::new(),
                retries => format!(" (tried {} times)", retries + 1),
            };
            let message = format!("{}{tries}; {}", error.what, error.next);
            return self.fail(ModelFailure { kind: error.kind, message });
        }
        let wait = error.wait.unwrap_or_else(|| settings.backoff(self.retries, rand::random()));
        if wait > settings.server_wait_max {
            let message = format!("{}; try again in {}", error.what, seconds(wait));
            return self.fail(ModelFailure { kind: error.kind, message });
        }
        self.retries += 1;
        let notice = ui_text::retrying(&seconds(wait), self.retries + 1, retries_max + 1, &error.what);
        self.shown |=
            self.ready.iter().any(|event| matches!(event, ModelEvent::Text(_) | ModelEvent::Reasoning(_)));
        self.ready.push_back(ModelEvent::Notice(self.redactor.message(&notice)));
        if std::mem::take(&mut self.shown) {
            self.ready.push_back(ModelEvent::Restarted);
        }
        self.phase = CallPhase::Wait(wait);
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn advice(headers: &[(&'static str, &str)]) -> RetryAdvice {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        // 2015-10-21T07:28:00Z
        RetryAdvice::read(&map, SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_480))
    }

    #[test]
    fn doubles_the_delay_up_to_a_limit_with_jitter() {
        let settings = RetrySettings::default();
        let waits: Vec<f64> = (0..6).map(|number| settings.backoff(number, 0.0).as_secs_f64()).collect();
        assert_eq!(waits, [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]);
        assert_eq!(settings.backoff(1, 1.0), Duration::from_millis(750));
        assert_eq!(settings.backoff(u32::MAX, 0.0), Duration::from_secs(8));
    }

    #[test]
    fn parses_every_form_of_retry_after() {
        let wait = |headers: &[(&'static str, &str)]| advice(headers).wait.map(|wait| wait.as_millis());
        assert_eq!(wait(&[("retry-after", "7")]), Some(7_000));
        assert_eq!(wait(&[("retry-after", "0.25")]), Some(250));
        assert_eq!(wait(&[("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT")]), Some(30_000));
        assert_eq!(wait(&[("retry-after", "Wed, 21 Oct 2015 07:00:00 GMT")]), Some(0));
        assert_eq!(wait(&[("retry-after", "9"), ("retry-after-ms", "1500")]), Some(1_500));
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[("retry-after", "-3")]), None);
        assert_eq!(wait(&[("retry-after", "inf")]), None);
        assert_eq!(wait(&[]), None);
    }

    #[test]
    fn follows_the_servers_retry_header() {
        assert_eq!(advice(&[("x-should-retry", "true")]).retry, Some(true));
        assert_eq!(advice(&[("x-should-retry", "false")]).retry, Some(false));
        assert_eq!(advice(&[("x-should-retry", "perhaps")]).retry, None);
    }
}
