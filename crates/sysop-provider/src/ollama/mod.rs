//! Ollama's own API. The compatible one cannot set the window, and a window that is too small is cut silently.
//!
//! Whether a model takes tools is asked of the server first; one that does not is offered them as text.

mod body;
mod host;
mod read;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::Method;
use serde_json::{Value, json};
use sysop_core::message::{FailureKind, Message, ModelRequest, Reply};
use sysop_driver::port::ModelEvent;
use tokio::time::Instant;
use url::Url;

pub use self::host::{BadOllamaHost, ollama_base_url};
use crate::exchange::{Ending, Exchange, Flow};
use crate::failure::{Place, Problem, Refusal, classify};
use crate::frames::{Frame, Framing};
use crate::history::{Learned, Prefixes};
use crate::http::{self, Fetched, Http, Outgoing};
use crate::settings::OllamaSettings;

/// How long the server's word about a model is believed: it may be pulled anew, and gain tools.
const SHOW_BELIEVED: Duration = Duration::from_secs(600);

/// Longest silence of the server when it is asked about its models.
const ABOUT_SILENCE_MAX: Duration = Duration::from_secs(10);

/// The client.
#[derive(Debug)]
pub(crate) struct Ollama {
    /// `ollama` or `ollama+ssh`.
    provider: &'static str,
    settings: OllamaSettings,
    prefixes: Prefixes,
    learned: Learned<Known>,
    warned: AtomicBool,
}

/// What is known of a model.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Since when.
    at: Instant,
    /// Whether it takes tools; `None` where the server is too old to say.
    tools: Option<bool>,
    /// The window that it runs with, in tokens.
    window: Option<u64>,
    /// Whether the window was asked for, with or without an answer.
    window_asked: bool,
    no_schema: bool,
}

impl Ollama {
    pub(crate) fn new(provider: &'static str, settings: OllamaSettings) -> Self {
        Self {
            provider,
            settings,
            prefixes: Prefixes::default(),
            learned: Learned::default(),
            warned: AtomicBool::new(false),
        }
    }

    /// Starts one call.
    pub(crate) fn exchange(self: &Arc<Self>, request: ModelRequest) -> Box<dyn Exchange> {
        let reading = read::Reading::default();
        Box::new(OllamaExchange { wire: Arc::clone(self), request, text: false, estimate: 0, reading })
    }

    /// The request that lists models.
    pub(crate) fn list(&self) -> Result<Outgoing, Problem> {
        self.about(Method::GET, "api/tags", Vec::new())
    }

    /// Where it is, for sentences.
    pub(crate) fn host(&self) -> String {
        self.base().map_or_else(|_| "an unusable base_url".to_owned(), |url| http::host_of(&url))
    }

    /// What must not show up in messages.
    pub(crate) fn secrets(&self) -> Vec<String> {
        http::secrets_of(&self.settings.endpoint)
    }

    fn base(&self) -> Result<Url, Problem> {
        let text = self.settings.endpoint.base_url.as_deref().unwrap_or_default();
        let text = ollama_base_url(text)
            .map_err(|error| Problem::new(FailureKind::BadRequest, format!("{error}; check OLLAMA_HOST")))?;
        let mut url = http::base_url(&text, self.provider)?;
        // A base that was meant for the compatible API, or names the path that is added here.
        let path = url.path().to_owned();
        if let Some(short) = path.strip_suffix("/v1").or_else(|| path.strip_suffix("/api")) {
            url.set_path(short);
        }
        Ok(url)
    }

    fn outgoing(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Outgoing, Problem> {
        let url = http::with_path(&self.base()?, path);
        let endpoint = &self.settings.endpoint;
        let key = http::key_of(endpoint).map(|key| ("authorization", format!("Bearer {key}")));
        Ok(Outgoing {
            method,
            headers: http::headers(endpoint, self.provider, key)?,
            notice: http::clear_key_notice(&url, endpoint, &self.warned),
            url,
            body,
            framing: Framing::NdJson,
            first_byte: self.settings.load_timeout.max(endpoint.timeout),
            silence: endpoint.timeout,
            unreachable_hint: "is Ollama running? Start it with `ollama serve`, or set OLLAMA_HOST",
        })
    }

    fn about(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Outgoing, Problem> {
        let outgoing = self.outgoing(method, path, body)?;
        Ok(Outgoing { first_byte: ABOUT_SILENCE_MAX, silence: ABOUT_SILENCE_MAX, ..outgoing })
    }

    /// What is known of a model, from memory or from the server.
    async fn known(&self, http: &Http, place: &Place) -> Result<Known, Problem> {
        let name = &place.model.name;
        let before = self.learned.of(name);
        if let Some(known) = before.filter(|known| known.at.elapsed() < SHOW_BELIEVED) {
            return Ok(known);
        }
        let body = json!({"model": name}).to_string().into_bytes();
        let tools = match http.fetch(self.about(Method::POST, "api/show", body)?, place).await? {
            Fetched::Answer { value, .. } => value
                .get("capabilities")
                .and_then(Value::as_array)
                .map(|list| list.iter().any(|capability| capability.as_str() == Some("tools"))),
            Fetched::Refused(refusal) if refusal.status == 404 && !refusal.error.message.is_empty() => {
                return Err(unknown_model(place));
            }
            Fetched::Refused(refusal) if matches!(refusal.status, 401 | 403) => {
                return Err(explained(place, &refusal, classify(place, &refusal)));
            }
            Fetched::Refused(_) => None,
        };
        let known = Known {
            at: Instant::now(),
            tools,
            window: before.and_then(|known| known.window),
            window_asked: before.is_some_and(|known| known.window_asked),
            no_schema: before.is_some_and(|known| known.no_schema),
        };
        self.learned.set(name, known);
        Ok(known)
    }

    /// The window that a loaded model runs with.
    async fn running_window(&self, http: &Http, place: &Place) -> Option<u64> {
        let outgoing = self.about(Method::GET, "api/ps", Vec::new()).ok()?;
        let Ok(Fetched::Answer { value, .. }) = http.fetch(outgoing, place).await else { return None };
        let wanted = full_name(&place.model.name);
        let models = value.get("models")?.as_array()?;
        let running = models.iter().find(|model| {
            ["name", "model"].iter().any(|key| {
                model.get(key).and_then(Value::as_str).is_some_and(|name| full_name(name) == wanted)
            })
        })?;
        running.get("context_length")?.as_u64().filter(|length| *length > 0)
    }
}

/// A model's name as Ollama compares it.
fn full_name(name: &str) -> String {
    let lower = name.to_lowercase();
    let last = lower.rsplit('/').next().unwrap_or_default();
    if last.contains(':') { lower } else { format!("{lower}:latest") }
}

fn unknown_model(place: &Place) -> Problem {
    let message = format!(
        "{place} is not there; get it with `ollama pull {}`",
        crate::failure::excerpt(&place.model.name)
    );
    Problem::new(FailureKind::UnknownModel, message)
}

/// What Ollama's own refusals mean beyond their status.
fn explained(place: &Place, refusal: &Refusal, problem: Problem) -> Problem {
    let error = &refusal.error;
    match refusal.status {
        404 => unknown_model(place),
        403 if error.message.is_empty() => Problem::new(
            FailureKind::Auth,
            format!(
                "{place} answered 403 without a word, as Ollama does to host names that it does not know; \
                 use its IP address, or set OLLAMA_HOST=0.0.0.0 on the server"
            ),
        ),
        401 => Problem::new(
            FailureKind::Auth,
            format!("{place} wants a sign-in: run `ollama signin`, or set OLLAMA_API_KEY for ollama.com"),
        ),
        500 if error.says(&["system memory", "out of memory", "outofmemory"]) => Problem::new(
            FailureKind::Unreachable,
            format!(
                "{place} has not enough memory: {}; choose a smaller model or a smaller num_ctx",
                error.message
            ),
        ),
        _ if error.says(&["does not support chat"]) => Problem::new(
            FailureKind::UnknownModel,
            format!("{place} cannot chat (it is made for embeddings); choose another model"),
        ),
        _ => problem,
    }
}

struct OllamaExchange {
    wire: Arc<Ollama>,
    request: ModelRequest,
    /// Tools are offered as text.
    text: bool,
    /// Fewest tokens that the messages can be.
    estimate: u64,
    reading: read::Reading,
}

impl OllamaExchange {
    fn learn(&self, change: impl FnOnce(&mut Known)) {
        let name = &self.request.model.name;
        let mut known = self.wire.learned.of(name).unwrap_or(Known {
            at: Instant::now(),
            tools: None,
            window: None,
            window_asked: false,
            no_schema: false,
        });
        change(&mut known);
        self.wire.learned.set(name, known);
    }

    fn talks_of_tools(&self) -> bool {
        !self.request.tools.is_empty()
            || self.request.messages.iter().any(|message| match message.message() {
                Message::User { .. } => false,
                Message::Assistant { reply } => !reply.calls.is_empty(),
                Message::ToolResults { .. } => true,
            })
    }

    async fn prepare(&mut self, http: &Http) -> Result<Outgoing, Problem> {
        let known = self.wire.known(http, &self.place()).await?;
        self.text = known.tools == Some(false) && self.talks_of_tools();
        let shape = body::Shape { text: self.text, schema: !known.no_schema };
        let (body, blackness) = body::body(&self.wire.prefixes, &self.request, &self.wire.settings, shape);
        self.estimate = blackness / body::BYTES_OF_A_TOKEN_MAX;
        self.wire.outgoing(Method::POST, "api/chat", body.into_bytes())
    }

    /// Finds out whether the server has cut the prompt without a word, as old ones do.
    async fn check_window(
        &self,
        http: &Http,
        reply: &Reply,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), Problem> {
        let place = self.place();
        let asked = u64::from(self.wire.settings.num_ctx);
        let known = self.wire.learned.of(&self.request.model.name);
        let mut window = known.and_then(|known| known.window);
        if !known.is_some_and(|known| known.window_asked) {
            window = self.wire.running_window(http, &place).await;
            self.learn(|known| {
                known.window = window;
                known.window_asked = true;
            });
            if let Some(window) = window.filter(|window| *window < asked) {
                out.push(ModelEvent::Notice(format!(
                    "{} runs with a window of {window} tokens, not the {asked} that were asked for; \
                     longer histories do not fit",
                    place.model
                )));
            }
        }
        let window = window.unwrap_or(asked);
        let counted = reply.usage.input_tokens;
        if self.estimate > window || counted + 1 >= window {
            return Err(Problem::new(
                FailureKind::ContextOverflow,
                format!(
                    "{place} has cut the history to fit its window of {window} tokens; \
                     start a new chat, or raise num_ctx"
                ),
            ));
        }
        Ok(())
    }
}

impl Exchange for OllamaExchange {
    fn place(&self) -> Place {
        Place { model: self.request.model.clone(), host: self.wire.host() }
    }

    fn secrets(&self) -> Vec<String> {
        self.wire.secrets()
    }

    fn outgoing<'a>(&'a mut self, http: &'a Http) -> BoxFuture<'a, Result<Outgoing, Problem>> {
        self.reading = read::Reading::default();
        Box::pin(self.prepare(http))
    }

    fn refused(&mut self, refusal: &Refusal) -> Problem {
        let place = self.place();
        let problem = classify(&place, refusal);
        if !self.text && refusal.error.says(&["does not support tools"]) {
            self.learn(|known| known.tools = Some(false));
            return problem.adapted();
        }
        let no_schema = self.wire.learned.of(&self.request.model.name).is_some_and(|known| known.no_schema);
        if self.text && !no_schema && refusal.error.says(&["format", "grammar", "schema"]) {
            self.learn(|known| known.no_schema = true);
            return problem.adapted();
        }
        explained(&place, refusal, problem)
    }

    fn frame(&mut self, frame: &Frame, out: &mut Vec<ModelEvent>) -> Result<Flow, Problem> {
        match self.reading.frame(frame, &self.place(), out)? {
            read::Read::More => Ok(Flow::More),
            read::Read::End => Ok(Flow::End),
            read::Read::Refused(refusal) => Err(self.refused(&refusal)),
        }
    }

    fn is_whole(&self) -> bool {
        false
    }

    fn end<'a>(
        &'a mut self,
        http: &'a Http,
        out: &'a mut Vec<ModelEvent>,
    ) -> BoxFuture<'a, Result<Ending, Problem>> {
        let reading = std::mem::take(&mut self.reading);
        Box::pin(async move {
            let reply = reading.end(&self.request.model, self.text, &self.place(), out)?;
            self.check_window(http, &reply, out).await?;
            Ok(Ending::Done(Box::new(reply)))
        })
    }
}
