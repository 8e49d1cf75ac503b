//! Anthropic's Messages API.
//!
//! A model's blocks are echoed as they came, thoughts included: their signatures cover them. Sampling parameters are
//! never sent; newer models refuse them even at their defaults.

mod body;
mod read;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::future::BoxFuture;
use reqwest::Method;
use reqwest::header::HeaderValue;
use sysop_core::message::{FailureKind, ModelRequest};
use sysop_driver::port::ModelEvent;
use url::Url;

use crate::exchange::{Ending, Exchange, Flow};
use crate::failure::{Place, Problem, Refusal, classify};
use crate::frames::{Frame, Framing};
use crate::history::Prefixes;
use crate::http::{self, Http, Outgoing};
use crate::settings::Endpoint;

/// Anthropic's own server.
pub(crate) const PUBLIC_BASE: &str = "https://api.anthropic.com";

/// The API version that every server of this API knows.
const VERSION: &str = "2023-06-01";

/// Lets a server drop thoughts that are bound to a history we have shortened, instead of refusing them.
const BINDING_BETA: &str = "thinking-binding-controls-2026-08-01";

/// The client.
#[derive(Debug)]
pub(crate) struct Anthropic {
    endpoint: Endpoint,
    prefixes: Prefixes,
    warned: AtomicBool,
}

impl Anthropic {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, prefixes: Prefixes::default(), warned: AtomicBool::new(false) }
    }

    /// Starts one call.
    pub(crate) fn exchange(self: &Arc<Self>, request: ModelRequest) -> Box<dyn Exchange> {
        let reading = read::Reading::new(&request.model);
        Box::new(AnthropicExchange {
            wire: Arc::clone(self),
            request,
            changes: body::Changes::default(),
            reading,
        })
    }

    /// The request that lists models.
    pub(crate) fn list(&self) -> Result<Outgoing, Problem> {
        let mut url = http::with_path(&self.base()?, "models");
        url.set_query(Some("limit=1000"));
        self.outgoing(Method::GET, url, Vec::new())
    }

    /// Where it is, for sentences.
    pub(crate) fn host(&self) -> String {
        self.base().map_or_else(|_| "an unusable base_url".to_owned(), |url| http::host_of(&url))
    }

    /// What must not show up in messages.
    pub(crate) fn secrets(&self) -> Vec<String> {
        http::secrets_of(&self.endpoint)
    }

    fn base(&self) -> Result<Url, Problem> {
        let mut url = http::base_url(self.endpoint.base_url.as_deref().unwrap_or(PUBLIC_BASE), "anthropic")?;
        let path = url.path().to_owned();
        if let Some(short) = path.strip_suffix("/messages") {
            url.set_path(short);
        }
        Ok(if http::last_segment(&url) == "v1" { url } else { http::with_path(&url, "v1") })
    }

    fn outgoing(&self, method: Method, url: Url, body: Vec<u8>) -> Result<Outgoing, Problem> {
        let key = http::key_of(&self.endpoint);
        if key.is_none() && self.endpoint.base_url.is_none() {
            return Err(Problem::new(
                FailureKind::Auth,
                "there is no key for anthropic: set ANTHROPIC_API_KEY",
            ));
        }
        let key = key.map(|key| match key.starts_with("sk-ant-oat") {
            true => ("authorization", format!("Bearer {key}")),
            false => ("x-api-key", key.to_owned()),
        });
        let mut headers = http::headers(&self.endpoint, "anthropic", key)?;
        headers.entry("anthropic-version").or_insert(HeaderValue::from_static(VERSION));
        Ok(Outgoing {
            method,
            headers,
            notice: http::clear_key_notice(&url, &self.endpoint, &self.warned),
            url,
            body,
            framing: Framing::Sse,
            first_byte: self.endpoint.timeout,
            silence: self.endpoint.timeout,
            unreachable_hint: "check the network and the proxy settings",
        })
    }
}

struct AnthropicExchange {
    wire: Arc<Anthropic>,
    request: ModelRequest,
    changes: body::Changes,
    reading: read::Reading,
}

impl AnthropicExchange {
    fn prepare(&mut self) -> Result<Outgoing, Problem> {
        self.reading.restart();
        let text = body::body(&self.wire.prefixes, &self.request, &self.changes, self.reading.continuation());
        let url = http::with_path(&self.wire.base()?, "messages");
        let mut outgoing = self.wire.outgoing(Method::POST, url, text.into_bytes())?;
        if body::drops_bound_thoughts(&self.request, &self.changes) {
            let configured = outgoing.headers.get("anthropic-beta").and_then(|value| value.to_str().ok());
            let betas =
                configured.map_or_else(|| BINDING_BETA.to_owned(), |first| format!("{first},{BINDING_BETA}"));
            let value = HeaderValue::from_str(&betas).expect("a header value with a comma and ASCII is one");
            outgoing.headers.insert("anthropic-beta", value);
        }
        Ok(outgoing)
    }

    /// Changes the request as a refusal suggests; says whether it did.
    fn adapt(&mut self, refusal: &Refusal) -> bool {
        let error = &refusal.error;
        if refusal.status != 400 || error.is_overflow() {
            return false;
        }
        let changes = self.changes;
        let thoughts = [
            "invalid `signature`",
            "invalid signature",
            "bound to a different",
            "cannot be modified",
            "found `tool_use`",
        ];
        if error.says(&["anthropic-beta", "block_binding"]) && !changes.no_binding {
            self.changes = body::Changes { no_binding: true, no_echo: true, ..changes };
        } else if error.says(&thoughts) && !changes.no_echo {
            let no_thinking = changes.no_thinking || error.says(&["found `tool_use`"]);
            self.changes = body::Changes { no_echo: true, no_thinking, ..changes };
        } else if error.says(&["cache_control"]) && !changes.no_cache {
            self.changes.no_cache = true;
        } else if error.says(&["thinking"]) && !changes.no_thinking {
            self.changes.no_thinking = true;
        } else {
            return false;
        }
        true
    }
}

impl Exchange for AnthropicExchange {
    fn place(&self) -> Place {
        Place { model: self.request.model.clone(), host: self.wire.host() }
    }

    fn secrets(&self) -> Vec<String> {
        self.wire.secrets()
    }

    fn outgoing<'a>(&'a mut self, _http: &'a Http) -> BoxFuture<'a, Result<Outgoing, Problem>> {
        Box::pin(std::future::ready(self.prepare()))
    }

    fn refused(&mut self, refusal: &Refusal) -> Problem {
        let place = self.place();
        let problem = classify(&place, refusal);
        if self.adapt(refusal) {
            return problem.adapted();
        }
        if refusal.error.says(&["credit balance is too low"]) {
            let message = format!("{place} wants payment: {}; add credit", refusal.error.message);
            return Problem::new(FailureKind::RateLimited, message);
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
        _out: &'a mut Vec<ModelEvent>,
    ) -> BoxFuture<'a, Result<Ending, Problem>> {
        let place = self.place();
        Box::pin(std::future::ready(self.reading.end(&place)))
    }
}
