//! The Chat Completions API of OpenAI and of the many compatible servers, and the Responses API of OpenAI.
//!
//! Sources: `openai` 3.52.0 (Python) types and retry code; the servers' own documentation and issue threads.

mod decode;
mod encode;
mod responses;
mod window;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use secrecy::{ExposeSecret as _, SecretString};
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest};
use sysop_core::model_provider::OPENAI;
use url::Url;

use crate::api::{ErrorAction, Framing, HttpRequest, ModelApi, ModelQuirks, RESPONSE_FORMAT, ReplyDecoder};
use crate::settings::{Endpoint, OpenAiApi};
use crate::transport::error_text;

use decode::OpenAiDecoder;
use encode::{Dialect, EncodedToolsCache};
pub(crate) use encode::{push_tools, reply_as_text};
use responses::ResponsesDecoder;
use window::ModelFactsCache;

/// Default for the longest wait for the first byte. Long, because local servers may process a prompt for minutes.
const FIRST_BYTE_MAX: Duration = Duration::from_secs(600);
/// Maximum tokens of a reply in the text protocol, unless the request sets its own limit.
const TEXT_TOKENS_MAX: u32 = 2048;

const STREAM_OPTIONS: &str = "stream_options";
const RETURN_PROGRESS: &str = "return_progress";
const REASONING_EFFORT: &str = "reasoning_effort";
const TEMPERATURE: &str = "temperature";
const MAX_TOKENS: &str = "max_tokens";
const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";
const MAX_OUTPUT_TOKENS: &str = "max_output_tokens";
const REASONING: &str = "reasoning";
const REASONING_SUMMARY: &str = "reasoning.summary";
const INCLUDE: &str = "include";
/// Not a parameter, but a quirk: the server refuses a history with replies that lack `reasoning_content`.
const ASSISTANT_REASONING: &str = "replies without reasoning_content";

/// Not a parameter, but a quirk: the server refuses reasoning items from earlier replies.
const REASONING_ITEMS: &str = "reasoning items";
/// Not a parameter, but a quirk: the model needs the Responses API.
const CHAT_COMPLETIONS: &str = "chat completions";
/// Not a parameter, but a quirk: the server does not have the Responses API.
const RESPONSES: &str = "responses";

/// Parameters of the Responses API that may be left out if an error names one of them as its `param`.
const OPTIONAL_IN_RESPONSES: [&str; 3] = [REASONING_SUMMARY, INCLUDE, MAX_OUTPUT_TOKENS];

/// Parameters that may be left out if a server refuses them.
const OPTIONAL: [&str; 7] = [
    RETURN_PROGRESS, STREAM_OPTIONS, RESPONSE_FORMAT, TEMPERATURE, MAX_COMPLETION_TOKENS, MAX_TOKENS,
    REASONING_EFFORT,
];

/// Phrases in the error messages of servers or models that do not support tools.
const NO_TOOLS: [&str; 9] = [
    "does not support tools",
    "does not support function calling",
    "does not support tool",
    "tool choice requires",
    "tools param requires",
    "support tool use",
    "tool calling is not supported",
    "tools are not supported",
    "tools is not supported",
];

/// Phrases in error messages about a prompt that is too long.
const OVERFLOW: [&str; 9] = [
    "context_length_exceeded",
    "exceed_context_size",
    "maximum context length",
    "context length exceeded",
    "exceeds the context",
    "context overflow",
    "exceeds the available context size",
    "prompt is too long",
    "input is too long",
];

pub(crate) struct OpenAi {
    base_url: String,
    /// True if the base URL is a valid HTTP address.
    is_http: bool,
    key: Option<SecretString>,
    headers: Vec<(String, SecretString)>,
    first_byte: Duration,
    dialect: Dialect,
    tools: EncodedToolsCache,
    api: OpenAiApi,
    /// True if the host offers the Responses API for all its models.
    offers_responses: bool,
    facts: ModelFactsCache,
    /// True if the server is known to be llama.cpp, which reports its progress in processing the prompt.
    is_llama_cpp: AtomicBool,
}

impl OpenAi {
    /// Returns the client for a llama.cpp server.
    pub(crate) fn of_llama_cpp(endpoint: &Endpoint) -> Self {
        let client = Self::new(endpoint, OpenAiApi::Chat);
        client.is_llama_cpp.store(true, Ordering::Relaxed);
        client
    }

    fn dialect(&self) -> Dialect {
        let is_llama_cpp = self.dialect == Dialect::Other && self.is_llama_cpp.load(Ordering::Relaxed);
        if is_llama_cpp { Dialect::LlamaCpp } else { self.dialect }
    }

    /// Stores the settings; does no I/O.
    pub(crate) fn new(endpoint: &Endpoint, api: OpenAiApi) -> Self {
        let base_url = endpoint.base_url.clone().unwrap_or_else(|| OPENAI.base_url.to_owned());
        let url = Url::parse(&base_url).ok();
        let bare = base_url.trim().split('?').next().and_then(|base| Url::parse(base).ok());
        let is_http = bare.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let dialect = match url.as_ref().and_then(Url::host_str) {
            Some("api.openai.com") => Dialect::OpenAi,
            Some("api.mistral.ai") => Dialect::Mistral,
            Some(_) | None => Dialect::Other,
        };
        Self {
            base_url,
            is_http,
            key: endpoint.api_key.clone(),
            headers: endpoint.headers.clone(),
            first_byte: endpoint.timeout.unwrap_or(FIRST_BYTE_MAX),
            dialect,
            tools: EncodedToolsCache::default(),
            api,
            offers_responses: url.as_ref().and_then(Url::host_str).is_some_and(responses::is_offered_by),
            facts: ModelFactsCache::default(),
            is_llama_cpp: AtomicBool::new(false),
        }
    }

    /// Returns true if requests to `model` use the Responses API.
    fn uses_responses(&self, model: &str, quirks: &ModelQuirks) -> bool {
        let learned = |word: &str| quirks.unsupported_params.contains(&word);
        match self.api {
            _ if quirks.text_protocol => false,
            OpenAiApi::Chat => false,
            OpenAiApi::Responses => true,
            OpenAiApi::Auto if learned(RESPONSES) => false,
            OpenAiApi::Auto => {
                self.offers_responses || learned(CHAT_COMPLETIONS) || responses::is_only_here(model)
            }
        }
    }

    /// Appends a path to the base URL. The base URL's own query (`?api-version=`) stays at the end.
    pub(crate) fn address(&self, path: &str) -> Result<String, ModelFailure> {
        let (base, query) = match self.base_url.trim().split_once('?') {
            Some((base, query)) => (base, format!("?{query}")),
            None => (self.base_url.trim(), String::new()),
        };
        let address = format!("{}{path}{query}", base.strip_suffix('/').unwrap_or(base));
        if self.is_http {
            return Ok(address);
        }
        Err(ModelFailure {
            kind: FailureKind::BadRequest,
            message:
                "base_url in [providers.openai] is not an HTTP URL; use a URL like http://127.0.0.1:8000/v1"
                    .to_owned(),
        })
    }

    /// Returns the headers that every request carries.
    pub(crate) fn headers(&self) -> Result<Vec<(String, SecretString)>, ModelFailure> {
        let mut headers = self.headers.clone();
        let has = |headers: &[(String, SecretString)], name: &str| {
            headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name))
        };
        let authorized = has(&headers, "authorization") || has(&headers, "api-key");
        match &self.key {
            Some(key) if !has(&headers, "authorization") => {
                let bearer = format!("Bearer {}", key.expose_secret());
                headers.push(("authorization".to_owned(), bearer.into()));
            }
            None if self.dialect == Dialect::OpenAi && !authorized => {
                return Err(ModelFailure {
                    kind: FailureKind::Auth,
                    message: "api.openai.com requires an API key; set OPENAI_API_KEY".to_owned(),
                });
            }
            Some(_) | None => {}
        }
        Ok(headers)
    }
}

impl ModelApi for OpenAi {
    fn after_reply<'a>(&'a self, http: &'a reqwest::Client, model: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            if self.dialect == Dialect::Other {
                self.ask_facts(http, model).await;
            }
            None
        })
    }

    fn context_window(&self, model: &str) -> Option<u32> {
        self.facts.of(model).window
    }

    fn build(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Result<HttpRequest, ModelFailure> {
        let (path, body) = if self.uses_responses(&request.model.name, &quirks.for_request(request)) {
            ("/responses", responses::body(request, quirks))
        } else {
            ("/chat/completions", encode::body(request, quirks, self.dialect(), &self.tools))
        };
        Ok(HttpRequest {
            url: self.address(path)?,
            headers: self.headers()?,
            body,
            framing: Framing::Sse,
            first_byte: self.first_byte,
        })
    }

    fn decoder(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Box<dyn ReplyDecoder> {
        let quirks = quirks.for_request(request);
        if self.uses_responses(&request.model.name, &quirks) {
            return Box::new(ResponsesDecoder::new(request.model.clone()));
        }
        Box::new(OpenAiDecoder::new(request.model.clone(), quirks.text_protocol))
    }

    fn classify_error(&self, status: u16, body: &str, quirks: &mut ModelQuirks) -> Option<ErrorAction> {
        let words = error_text(body);
        let lower = format!("{words} {}", if body.len() < 8_192 { body } else { "" }).to_ascii_lowercase();
        if matches!(status, 400 | 413 | 422 | 500) && is_overflow(&lower) {
            return Some(fail(
                FailureKind::ContextOverflow,
                format!(
                    "the prompt exceeds the model's context window ({words}); shorten the task, or start a new session"
                ),
            ));
        }
        if status == 429 && lower.contains("request too large") {
            return Some(fail(
                FailureKind::ContextOverflow,
                format!(
                    "the prompt exceeds the account's limit ({words}); shorten the task, or start a new session"
                ),
            ));
        }
        if status == 429 && (lower.contains("insufficient_quota") || lower.contains("billing_hard_limit")) {
            return Some(fail(
                FailureKind::RateLimited,
                format!(
                    "the account has no quota left ({words}); check its plan and billing, or choose another model"
                ),
            ));
        }
        if status == 429 {
            return Some(ErrorAction::RetryAfter(parse_wait(&lower)));
        }
        if !matches!(status, 400 | 404 | 422 | 500 | 501) {
            return None;
        }
        if learn_quirk(&lower, refused_parameter(body).as_deref(), quirks) {
            return Some(ErrorAction::RetryNow);
        }
        if status == 404 && lower.contains("model") {
            return Some(fail(
                FailureKind::UnknownModel,
                format!("model not found ({words}); choose one that `sysop models` lists, or check base_url"),
            ));
        }
        (status == 400 && lower.contains("content_filter")).then(|| {
            fail(
                FailureKind::BadRequest,
                format!("the server's content filter blocked the prompt ({words}); rephrase it"),
            )
        })
    }

    fn switch_endpoint(
        &self,
        request: &ModelRequest,
        status: u16,
        body: &str,
        quirks: &mut ModelQuirks,
    ) -> bool {
        if self.api != OpenAiApi::Auto || !matches!(status, 400 | 404 | 405 | 501) {
            return false;
        }
        let lower = body.to_ascii_lowercase();
        let asks = asks_for_responses(&lower, refused_parameter(body).as_deref());
        if self.uses_responses(&request.model.name, &quirks.for_request(request)) {
            // A gateway without this API answers 404, or passes on a refusal from another API.
            let is_missing = status != 400 && !lower.contains("model");
            return (asks || is_missing) && mark_unsupported(quirks, RESPONSES);
        }
        asks && !quirks.unsupported_params.contains(&RESPONSES) && mark_unsupported(quirks, CHAT_COMPLETIONS)
    }
}

/// Returns true if a refusal says that the model needs the Responses API, at least for tools.
fn asks_for_responses(lower: &str, parameter: Option<&str>) -> bool {
    lower.contains("/v1/responses")
        || lower.contains("only supported in the responses api")
        || lower.contains("only supported in v1/responses")
        || (parameter == Some(REASONING_EFFORT) && lower.contains("function tools"))
}

/// Parses the wait that a lowercase error message requests, such as `please try again in 1m2.5s` or `please retry after
/// 20 seconds`.
fn parse_wait(lower: &str) -> Option<Duration> {
    let behind = ["try again in ", "retry after "]
        .iter()
        .find_map(|words| Some(&lower[lower.find(words)? + words.len()..]))?;
    let mut rest = behind;
    let mut seconds = 0.0;
    loop {
        let digits = rest.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse::<f64>() else { break };
        let unit = rest[digits..].trim_start();
        let (length, factor) = match unit.as_bytes() {
            [b'm', b's', ..] => (2, 0.001),
            [b'm', ..] => (1, 60.0),
            [b's', ..] => (1, 1.0),
            _ => break,
        };
        seconds += number * factor;
        rest = &unit[length..];
    }
    (rest.len() < behind.len()).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

fn fail(kind: FailureKind, message: String) -> ErrorAction {
    ErrorAction::Fail(ModelFailure { kind, message })
}

/// Returns true if a lowercase error message says that the prompt is too long.
fn is_overflow(lower: &str) -> bool {
    OVERFLOW.iter().any(|word| lower.contains(word))
}

/// Returns the lowercase name of the parameter that an error body names in `error.param`.
fn refused_parameter(body: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    Some(body.pointer("/error/param")?.as_str()?.to_ascii_lowercase())
}

/// Adds or sets the quirk for the feature that, according to an error, the server refused. Returns false if no quirk
/// changed.
fn learn_quirk(lower: &str, parameter: Option<&str>, quirks: &mut ModelQuirks) -> bool {
    let refuses_tools = NO_TOOLS.iter().any(|word| lower.contains(word))
        || parameter == Some("tools")
        || (lower.contains("unsupportedparams") && lower.contains("'tools'"));
    if refuses_tools && !quirks.text_protocol {
        quirks.text_protocol = true;
        return true;
    }
    if lower.contains("reasoning_content") && lower.contains("passed back") {
        return mark_unsupported(quirks, ASSISTANT_REASONING);
    }
    if lower.contains("encrypted content") || lower.contains("encrypted_content") {
        let items = lower.contains("verified") || lower.contains("decrypt") || lower.contains("invalid");
        return mark_unsupported(quirks, if items { REASONING_ITEMS } else { INCLUDE });
    }
    if let Some(name) = OPTIONAL_IN_RESPONSES.into_iter().find(|name| parameter == Some(name)) {
        return mark_unsupported(quirks, name);
    }
    if parameter.is_some_and(|parameter| parameter.starts_with(REASONING) && parameter != REASONING_EFFORT) {
        return mark_unsupported(quirks, REASONING);
    }
    let named = OPTIONAL.into_iter().find(|name| parameter == Some(name));
    let named = named.or_else(|| {
        let kept = OPTIONAL.into_iter().filter(|name| !quirks.unsupported_params.contains(name));
        let places = kept.filter_map(|name| Some((lower.find(name)?, name)));
        places.min_by_key(|(place, _)| *place).map(|(_, name)| name)
    });
    match named {
        // Otherwise the level is unknown to the model, and the default is closer to it than none at all.
        Some(REASONING_EFFORT)
            if !quirks.reasoning_none && (lower.contains("none") || lower.contains("tools")) =>
        {
            quirks.reasoning_none = true;
            true
        }
        Some(name) => mark_unsupported(quirks, name),
        None => false,
    }
}

fn mark_unsupported(quirks: &mut ModelQuirks, name: &'static str) -> bool {
    if quirks.unsupported_params.contains(&name) {
        return false;
    }
    quirks.unsupported_params.push(name);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(base_url: &str) -> OpenAi {
        let endpoint = Endpoint { base_url: Some(base_url.to_owned()), ..Endpoint::default() };
        OpenAi::new(&endpoint, OpenAiApi::Auto)
    }

    #[test]
    fn adds_its_path_to_the_base_and_nothing_else() {
        for (base, address) in [
            ("http://h:1", "http://h:1/chat/completions"),
            ("http://h:1/", "http://h:1/chat/completions"),
            ("https://h/v1/", "https://h/v1/chat/completions"),
            (
                "https://h/openai/deployments/d?api-version=2",
                "https://h/openai/deployments/d/chat/completions?api-version=2",
            ),
        ] {
            assert_eq!(server(base).address("/chat/completions").unwrap(), address);
        }
        for base in ["", "h:1", "file:///x", "http://"] {
            assert_eq!(server(base).address("/x").unwrap_err().kind, FailureKind::BadRequest, "{base}");
        }
    }

    #[test]
    fn reads_retry_delays_from_messages() {
        for (words, milliseconds) in [
            ("rate limit reached. please try again in 120ms. visit", Some(120)),
            ("please try again in 1m2.5s.", Some(62_500)),
            ("please retry after 20 seconds.", Some(20_000)),
            ("please try again in a while", None),
            ("try again in 5 apples", None),
            ("slow down", None),
        ] {
            assert_eq!(parse_wait(words), milliseconds.map(Duration::from_millis), "{words}");
        }
    }

    #[test]
    fn requires_a_key_for_openai_only() {
        assert_eq!(
            OpenAi::new(&Endpoint::default(), OpenAiApi::Auto).headers().unwrap_err().kind,
            FailureKind::Auth
        );
        assert!(server("http://h").headers().unwrap().is_empty());
    }
}
