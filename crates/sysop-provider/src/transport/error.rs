//! Failures of a call: whether to retry, and the message for the user.

use std::time::Duration;

use sysop_core::message::{FailureKind, ModelFailure};
use sysop_core::model_provider::{OPENAI, ProviderInfo};
use sysop_driver::port::ModelEvent;

use super::{CallContext, CallPhase, ModelCall, RetryAdvice, causes, is_loopback, is_transient};

/// Words that distinguish a certificate problem from a network problem.
const CERTIFICATE_WORDS: [&str; 3] = ["certificate", "CertNotValid", "UnknownIssuer"];

/// Name that is sent to the server of `LLM_BASE_URL` if no model is named.
pub const UNNAMED_MODEL: &str = "default";

/// Ends of URLs that are pasted in place of a base URL.
const ENDPOINTS: [&str; 4] = ["/chat/completions", "/completions", "/models", "/responses"];

/// Failure of one attempt of a call.
#[derive(Debug)]
pub(super) struct RequestError {
    pub(super) kind: FailureKind,
    /// States what happened and where, without a period.
    pub(super) what: String,
    /// Hint that says what to do next.
    pub(super) next: String,
    pub(super) retry: bool,
    /// True if the call fails if it was retried before, for whatever reason.
    pub(super) once: bool,
    /// Wait that the server requested, if any.
    pub(super) wait: Option<Duration>,
}

impl RequestError {
    pub(super) fn new(kind: FailureKind, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { kind, what: what.into(), next: next.into(), retry: false, once: false, wait: None }
    }

    pub(super) fn retryable(self) -> Self {
        Self { retry: true, ..self }
    }

    /// Makes the error retryable if the call was not retried before.
    pub(super) fn retryable_once(self) -> Self {
        Self { retry: true, once: true, ..self }
    }
}

impl ModelCall {
    pub(super) fn fail(&mut self, failure: ModelFailure) {
        let message = self.redactor.message(&failure.message);
        self.ready.push_back(ModelEvent::Failed(ModelFailure { kind: failure.kind, message }));
        self.phase = CallPhase::Ended;
    }

    /// Returns the provider and its address for messages, as in `openai at https://api.openai.com`.
    pub(super) fn target(&self) -> String {
        format!("{} at {}", self.context.target.name, self.origin)
    }

    pub(super) fn check_address(&self) -> String {
        format!("check {}", self.address_setting())
    }

    /// Returns the name of the setting with the server's address.
    pub(super) fn address_setting(&self) -> String {
        let CallContext { sources, target, .. } = &self.context;
        sources.base_url.clone().unwrap_or_else(|| target.address_setting())
    }

    pub(super) fn unreachable_hint(&self) -> String {
        let CallContext { sources, target, base_url, .. } = &self.context;
        target.unreachable_hint(sources.base_url.as_deref(), base_url)
    }

    pub(super) fn silence_error(&self, patience: Duration) -> RequestError {
        let what = format!("no data from {} for {}", self.target(), seconds(patience));
        let next = format!("try again, or raise timeout_s in [providers.{}]", self.context.target.name);
        // Silences are long: the user waits for two of them at most.
        RequestError::new(FailureKind::Unreachable, what, next).retryable_once()
    }

    /// Describes the failure of a request that did not reach the server.
    pub(super) fn send_error(&self, error: &reqwest::Error) -> RequestError {
        let cause = causes(error);
        if error.is_builder() {
            let what = format!("cannot build a request for {} ({cause})", self.target());
            return RequestError::new(FailureKind::BadRequest, what, self.check_address());
        }
        if CERTIFICATE_WORDS.iter().any(|word| cause.contains(word)) {
            let what = format!("the certificate of {} is not trusted ({cause})", self.target());
            let next = "install its CA certificate in the system's store, or check base_url";
            return RequestError::new(FailureKind::Unreachable, what, next);
        }
        let what = if error.is_connect() || error.is_timeout() {
            format!("cannot connect to {} ({cause})", self.target())
        } else {
            format!("the connection to {} broke before a response arrived ({cause})", self.target())
        };
        let trouble = RequestError::new(FailureKind::Unreachable, what, self.unreachable_hint());
        // No server runs on this machine, unless it is just being restarted.
        if error.is_connect() && self.is_here() { trouble.retryable_once() } else { trouble.retryable() }
    }

    /// Returns the error for an HTTP error status, following the rules that all APIs share.
    pub(super) fn status_error(&self, status: u16, body: &str, advice: RetryAdvice) -> RequestError {
        let words = self.redactor.quote(error_text(body).trim_end().trim_end_matches('.'));
        let colon = if words.is_empty() { "" } else { ": " };
        let what = format!("{} returned {status}{colon}{words}", self.target());
        let kind = match status {
            401 | 403 => FailureKind::Auth,
            402 | 429 => FailureKind::RateLimited,
            404 if words.to_ascii_lowercase().contains("model") => FailureKind::UnknownModel,
            404 => FailureKind::Protocol,
            413 => FailureKind::ContextOverflow,
            _ if is_transient(status) => FailureKind::Unreachable,
            400..=499 => FailureKind::BadRequest,
            _ => FailureKind::Protocol,
        };
        let next = match (status, kind) {
            (500..=599, _) => self.server_error_hint(),
            (404, FailureKind::Protocol) => {
                let CallContext { target, base_url, .. } = &self.context;
                missing_api_hint(target, &self.address_setting(), base_url)
            }
            _ => self.hint_for(kind),
        };
        let mut trouble = RequestError::new(kind, what, next);
        trouble.retry = advice.retry.unwrap_or(is_transient(status));
        trouble.wait = advice.wait;
        trouble
    }

    /// Returns the hint for a server that was reached and failed.
    fn server_error_hint(&self) -> String {
        let next = if self.is_here() { "read the server's log" } else { "try again later" };
        format!("{next}, or choose another model")
    }

    /// Adds how to name a model to the failure of [`UNNAMED_MODEL`] on the server of `LLM_BASE_URL`. The hint is also
    /// right if someone typed that name, because the server has no such model.
    pub(super) fn with_name_hint(&self, failure: ModelFailure) -> ModelFailure {
        let is_of_variables = self.context.sources.base_url.as_deref() == Some("LLM_BASE_URL");
        let is_placeholder = is_of_variables && self.request.model.name == UNNAMED_MODEL;
        if !is_placeholder || failure.kind != FailureKind::UnknownModel {
            return failure;
        }
        let hint = "set LLM_DEFAULT_MODEL to the name of a model on that server";
        ModelFailure { message: format!("{}; {hint}", failure.message), ..failure }
    }

    fn is_here(&self) -> bool {
        reqwest::Url::parse(&self.origin).is_ok_and(|url| is_loopback(&url))
    }

    pub(super) fn hint_for(&self, kind: FailureKind) -> String {
        match kind {
            FailureKind::ContextOverflow => "shorten the task, or start a new session".to_owned(),
            FailureKind::Auth => {
                let CallContext { sources, target, .. } = &self.context;
                sources.key_hint(target)
            }
            FailureKind::UnknownModel | FailureKind::Withheld | FailureKind::Budget => {
                "choose another model with /model or --model".to_owned()
            }
            FailureKind::Unreachable => self.unreachable_hint(),
            FailureKind::RateLimited => {
                "wait, check the account's limits, or choose another model".to_owned()
            }
            FailureKind::Protocol => self.check_address(),
            FailureKind::BadRequest => "change the request, or choose another model".to_owned(),
        }
    }
}

/// Returns the hint for a server that has no API at `base_url`, which is set by `setting`.
pub(crate) fn missing_api_hint(target: &ProviderInfo, setting: &str, base_url: &str) -> String {
    let meant = if target.name == OPENAI.name { with_api_path(base_url) } else { None };
    let meant = meant.map(|url| format!(": did you mean `{url}`?")).unwrap_or_default();
    format!("check {setting}{meant}")
}

/// Returns the probable address of the API on an OpenAI-compatible server if `base_url` names only the server, or one
/// of the API's endpoints; otherwise `None`.
pub fn with_api_path(base_url: &str) -> Option<String> {
    let url = reqwest::Url::parse(base_url.trim()).ok()?;
    let origin = url.origin().ascii_serialization();
    // A URL with credentials or a query gets no suggestion.
    let path = url.as_str().strip_prefix(&origin)?.split_once('?').is_none().then(|| url.path())?;
    let path = path.trim_end_matches('/');
    let base = match path {
        "" => "",
        _ => ENDPOINTS.iter().find_map(|endpoint| path.strip_suffix(endpoint))?,
    };
    Some(if base.is_empty() { format!("{origin}/v1") } else { format!("{origin}{base}") })
}

/// Returns true if the connection was closed before the first byte of a response.
pub(super) fn is_closed_connection(error: &reqwest::Error) -> bool {
    let other = error.is_builder() || error.is_connect() || error.is_timeout();
    error.is_request() && !other && !CERTIFICATE_WORDS.iter().any(|word| causes(error).contains(word))
}

/// Returns the message in an error body of any known shape, or else the whole body.
pub(crate) fn error_text(body: &str) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(body) else { return body.to_owned() };
    let value = value.get(0).unwrap_or(&value);
    let places =
        ["/error/message", "/error/detail", "/error", "/message", "/detail/message", "/detail", "/msg"];
    let text = places.iter().filter_map(|target| value.pointer(target)).find(|found| !found.is_null());
    match text {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => body.to_owned(),
    }
}

/// Formats a wait in seconds, such as `3 s` or `0.5 s`.
pub(crate) fn seconds(wait: Duration) -> String {
    let seconds = wait.as_secs_f64();
    if seconds >= 1.0 { format!("{seconds:.0} s") } else { format!("{seconds:.1} s") }
}

#[cfg(test)]
mod tests {
    use sysop_core::model_provider::ANTHROPIC;

    use super::*;

    #[test]
    fn finds_the_message_in_every_error_format() {
        for (body, words) in [
            (r#"{"error":{"message":"a","code":429}}"#, "a"),
            (r#"{"error":"b"}"#, "b"),
            (r#"{"message":"c"}"#, "c"),
            (r#"{"detail":"d"}"#, "d"),
            (r#"{"detail":[{"loc":["body","x"],"msg":"no"}]}"#, r#"[{"loc":["body","x"],"msg":"no"}]"#),
            (r#"[{"error":{"message":"e"}}]"#, "e"),
            ("plain", "plain"),
            ("{}", "{}"),
            ("", ""),
        ] {
            assert_eq!(error_text(body), words, "{body}");
        }
    }

    #[test]
    fn a_base_url_may_lack_v1_or_have_an_endpoint() {
        let meant = |url: &str| missing_api_hint(OPENAI, "LLM_BASE_URL", url);
        for url in ["http://127.0.0.1:8000", "http://127.0.0.1:8000/"] {
            assert_eq!(meant(url), "check LLM_BASE_URL: did you mean `http://127.0.0.1:8000/v1`?");
        }
        for url in
            ["http://h/v1", "http://h/api", "http://h?api-version=2", "http://me:secret@h", "h:8000", ""]
        {
            assert_eq!(meant(url), "check LLM_BASE_URL", "{url}");
        }
        for endpoint in ["chat/completions", "chat/completions/", "completions", "models", "responses"] {
            let hint = meant(&format!("http://127.0.0.1:8000/v1/{endpoint}"));
            assert_eq!(hint, "check LLM_BASE_URL: did you mean `http://127.0.0.1:8000/v1`?", "{endpoint}");
        }
        for url in ["http://h/v1/models?a=b", "http://me:secret@h/v1/models", "http://h/mymodels"] {
            assert_eq!(meant(url), "check LLM_BASE_URL", "{url}");
        }
        let other = missing_api_hint(ANTHROPIC, "base_url", "http://h");
        assert_eq!(other, "check base_url");
    }

    #[test]
    fn formats_waits_for_users() {
        assert_eq!(seconds(Duration::from_millis(480)), "0.5 s");
        assert_eq!(seconds(Duration::from_secs(3)), "3 s");
    }
}
