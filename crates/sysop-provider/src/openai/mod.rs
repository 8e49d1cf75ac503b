//! OpenAI's chat completions, as spoken by OpenAI, Azure, proxies and local servers.
//!
//! Servers differ in what they accept; what one refuses is left out, and that is remembered for its model.

mod body;
mod calls;
mod read;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::future::BoxFuture;
use reqwest::Method;
use sysop_core::message::{FailureKind, ModelRequest};
use sysop_driver::port::ModelEvent;
use url::Url;

use crate::exchange::{Ending, Exchange, Flow};
use crate::failure::{Place, Problem, Refusal, classify};
use crate::frames::{Frame, Framing};
use crate::history::{Learned, Prefixes};
use crate::http::{self, Http, Outgoing};
use crate::settings::Endpoint;

pub(crate) use self::body::{TEXT_TOKENS_MAX, system_prompt, written_reply};

/// OpenAI's own server.
pub(crate) const PUBLIC_BASE: &str = "https://api.openai.com/v1";

/// The client.
#[derive(Debug)]
pub(crate) struct OpenAi {
    endpoint: Endpoint,
    prefixes: Prefixes,
    learned: Learned<Quirks>,
    warned: AtomicBool,
}

/// What a server wants otherwise than the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Quirks {
    /// `max_completion_tokens` instead of `max_tokens`; `None` is a guess by host and model.
    completion_tokens: Option<bool>,
    /// `"reasoning_effort":"none"`, without which some models take no tools here.
    effort_none: bool,
    no_temperature: bool,
    no_stream_options: bool,
    /// It takes no tools: they are offered as text.
    text: bool,
    /// It takes no schema for a reply.
    no_schema: bool,
}

/// Which server it is, where its host says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Plain,
    OpenAi,
    Azure,
    DeepSeek,
    Mistral,
}

impl Dialect {
    fn of(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        let under =
            |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|h| h.ends_with('.'));
        if under("openai.com") {
            Self::OpenAi
        } else if under("azure.com") {
            Self::Azure
        } else if under("deepseek.com") {
            Self::DeepSeek
        } else if under("mistral.ai") {
            Self::Mistral
        } else {
            Self::Plain
        }
    }
}

impl OpenAi {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            prefixes: Prefixes::default(),
            learned: Learned::default(),
            warned: AtomicBool::new(false),
        }
    }

    /// Starts one call.
    pub(crate) fn exchange(self: &Arc<Self>, request: ModelRequest) -> Box<dyn Exchange> {
        let quirks = self.learned.of(&request.model.name).unwrap_or_default();
        let base = base(&self.endpoint);
        Box::new(OpenAiExchange {
            wire: Arc::clone(self),
            request,
            base,
            quirks,
            reading: read::Reading::default(),
        })
    }

    /// The request that lists models.
    pub(crate) fn list(&self) -> Result<Outgoing, Problem> {
        let base = base(&self.endpoint)?;
        let url = http::with_path(&base, "models");
        self.outgoing(Method::GET, url, Vec::new())
    }

    fn outgoing(&self, method: Method, url: Url, body: Vec<u8>) -> Result<Outgoing, Problem> {
        let key = http::key_of(&self.endpoint);
        if key.is_none() && self.endpoint.base_url.is_none() {
            return Err(Problem::new(
                FailureKind::Auth,
                "there is no key for openai: set OPENAI_API_KEY, or providers.openai.base_url for another server",
            ));
        }
        let key = key.map(|key| match Dialect::of(&url) {
            Dialect::Azure => ("api-key", key.to_owned()),
            Dialect::Plain | Dialect::OpenAi | Dialect::DeepSeek | Dialect::Mistral => {
                ("authorization", format!("Bearer {key}"))
            }
        });
        Ok(Outgoing {
            method,
            headers: http::headers(&self.endpoint, "openai", key)?,
            notice: http::clear_key_notice(&url, &self.endpoint, &self.warned),
            url,
            body,
            framing: Framing::Sse,
            first_byte: self.endpoint.timeout,
            silence: self.endpoint.timeout,
            unreachable_hint: "check that the server runs and that base_url is right",
        })
    }

    /// Where it is, for sentences.
    pub(crate) fn host(&self) -> String {
        base(&self.endpoint).map_or_else(|_| "an unusable base_url".to_owned(), |url| http::host_of(&url))
    }

    /// What must not show up in messages.
    pub(crate) fn secrets(&self) -> Vec<String> {
        http::secrets_of(&self.endpoint)
    }
}

fn base(endpoint: &Endpoint) -> Result<Url, Problem> {
    let url = http::base_url(endpoint.base_url.as_deref().unwrap_or(PUBLIC_BASE), "openai")?;
    let path = url.path().strip_suffix("/chat/completions").map(str::to_owned);
    Ok(match path {
        Some(path) => {
            let mut url = url;
            url.set_path(&path);
            url
        }
        None => url,
    })
}

struct OpenAiExchange {
    wire: Arc<OpenAi>,
    request: ModelRequest,
    base: Result<Url, Problem>,
    quirks: Quirks,
    reading: read::Reading,
}

impl OpenAiExchange {
    fn dialect(&self) -> Dialect {
        self.base.as_ref().map_or(Dialect::Plain, Dialect::of)
    }

    /// The change of the request that a refusal suggests, if it was not made before.
    fn suggested(&self, refusal: &Refusal) -> Option<Quirks> {
        let error = &refusal.error;
        if !matches!(refusal.status, 400 | 404 | 422 | 500 | 501) || error.is_overflow() {
            return None;
        }
        let quirks = self.quirks;
        let has_tools = !self.request.tools.is_empty();
        let about = |param: &str| error.param == param || error.says(&[param]);
        if about("reasoning_effort") {
            return (!quirks.effort_none).then_some(Quirks { effort_none: true, ..quirks });
        }
        if self.request.max_output_tokens.is_some() && quirks.completion_tokens.is_none() {
            let sent = body::wants_completion_tokens(self.dialect(), &self.request.model.name);
            let name = if sent { "max_completion_tokens" } else { "max_tokens" };
            if about(name) {
                return Some(Quirks { completion_tokens: Some(!sent), ..quirks });
            }
        }
        if self.request.temperature.is_some() && !quirks.no_temperature && about("temperature") {
            return Some(Quirks { no_temperature: true, ..quirks });
        }
        if !quirks.no_stream_options && about("stream_options") {
            return Some(Quirks { no_stream_options: true, ..quirks });
        }
        if quirks.text
            && !quirks.no_schema
            && error.says(&["response_format", "json_schema", "schema", "grammar"])
        {
            return Some(Quirks { no_schema: true, ..quirks });
        }
        let no_tools = error.says(&[
            "tool_choice",
            "tool-call-parser",
            "--jinja",
            "not support tool",
            "tools are not supported",
            "not support function",
            "tool use is not supported",
            "tools is not supported",
            "tool calling is not supported",
        ]) || error.param == "tools";
        (has_tools && !quirks.text && no_tools).then_some(Quirks { text: true, ..quirks })
    }
}

impl Exchange for OpenAiExchange {
    fn place(&self) -> Place {
        Place { model: self.request.model.clone(), host: self.wire.host() }
    }

    fn secrets(&self) -> Vec<String> {
        self.wire.secrets()
    }

    fn outgoing<'a>(&'a mut self, _http: &'a Http) -> BoxFuture<'a, Result<Outgoing, Problem>> {
        self.reading = read::Reading::default();
        let outgoing = self.base.clone().and_then(|base| {
            let body = body::body(&self.wire.prefixes, &self.request, Dialect::of(&base), self.quirks);
            self.wire.outgoing(Method::POST, http::with_path(&base, "chat/completions"), body.into_bytes())
        });
        Box::pin(std::future::ready(outgoing))
    }

    fn refused(&mut self, refusal: &Refusal) -> Problem {
        let problem = classify(&self.place(), refusal);
        if let Some(quirks) = self.suggested(refusal) {
            self.quirks = quirks;
            self.wire.learned.set(&self.request.model.name, quirks);
            return problem.adapted();
        }
        if refusal.status == 404 && self.base.as_ref().is_ok_and(|base| base.path() == "/") {
            let message =
                format!("{}; servers that answer under /v1 need it in base_url", problem.failure.message);
            return Problem::new(problem.failure.kind, message);
        }
        problem
    }

    fn frame(&mut self, frame: &Frame, out: &mut Vec<ModelEvent>) -> Result<Flow, Problem> {
        match self.reading.frame(frame, &self.place(), out)? {
            read::Read::More => Ok(Flow::More),
            read::Read::End => Ok(Flow::End),
            read::Read::Refused(refusal) => Err(self.refused(&refusal)),
        }
    }

    fn is_whole(&self) -> bool {
        self.reading.is_whole()
    }

    fn end<'a>(
        &'a mut self,
        _http: &'a Http,
        out: &'a mut Vec<ModelEvent>,
    ) -> BoxFuture<'a, Result<Ending, Problem>> {
        let reading = std::mem::take(&mut self.reading);
        let ended = reading.end(&self.request, self.quirks.text, &self.place(), out);
        Box::pin(std::future::ready(ended.map(|reply| Ending::Done(Box::new(reply)))))
    }
}
