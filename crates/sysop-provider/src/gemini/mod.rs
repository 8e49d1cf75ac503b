//! Gemini, by the Developer API with a key or on Vertex AI with Google's credentials.
//!
//! A model's parts are echoed as they came: signatures of thoughts live in them, and a request without them is refused.

mod body;
mod read;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::future::BoxFuture;
use reqwest::Method;
use sysop_core::message::{FailureKind, ModelRef, ModelRequest};
use sysop_driver::port::ModelEvent;
use url::Url;

use crate::credentials::Credentials;
use crate::exchange::{Ending, Exchange, Flow};
use crate::failure::{Place, Problem, Refusal, classify};
use crate::frames::{Frame, Framing};
use crate::history::Prefixes;
use crate::http::{self, Http, Outgoing};
use crate::settings::{Endpoint, VertexSettings};

/// The Developer API.
pub(crate) const PUBLIC_BASE: &str = "https://generativelanguage.googleapis.com";

/// Where Vertex AI serves everything that is in no region.
const VERTEX_LOCATION_DEFAULT: &str = "global";

/// The client.
#[derive(Debug)]
pub(crate) struct Gemini {
    door: Door,
    prefixes: Prefixes,
    warned: AtomicBool,
}

#[derive(Debug)]
enum Door {
    Developer(Endpoint),
    Vertex { settings: VertexSettings, credentials: Credentials },
}

impl Gemini {
    pub(crate) fn developer(endpoint: Endpoint) -> Self {
        Self::new(Door::Developer(endpoint))
    }

    pub(crate) fn vertex(settings: VertexSettings) -> Self {
        let credentials = Credentials::new(settings.credentials.clone());
        Self::new(Door::Vertex { settings, credentials })
    }

    fn new(door: Door) -> Self {
        Self { door, prefixes: Prefixes::default(), warned: AtomicBool::new(false) }
    }

    /// Starts one call.
    pub(crate) fn exchange(self: &Arc<Self>, request: ModelRequest) -> Box<dyn Exchange> {
        let reading = read::Reading::new(&request.model);
        Box::new(GeminiExchange {
            wire: Arc::clone(self),
            request,
            changes: body::Changes::default(),
            reading,
        })
    }

    /// The request that lists models; `None` on Vertex, which has no such list.
    pub(crate) fn list(&self) -> Result<Option<Outgoing>, Problem> {
        match &self.door {
            Door::Developer(endpoint) => {
                let mut url = http::with_path(&developer_base(endpoint)?, "models");
                url.set_query(Some("pageSize=1000"));
                self.keyed(Method::GET, endpoint, "gemini", url, Vec::new()).map(Some)
            }
            Door::Vertex { .. } => Ok(None),
        }
    }

    /// Gets a token, to see whether the credentials are good.
    pub(crate) async fn check_credentials(&self, http: &Http, model: &ModelRef) -> Result<(), Problem> {
        match &self.door {
            Door::Developer(_) => Ok(()),
            Door::Vertex { settings, .. } if is_express(settings) => Ok(()),
            Door::Vertex { settings, credentials } => {
                let access = credentials.access(http, model).await?;
                vertex_project(settings, access.project.as_deref()).map(|_| ())
            }
        }
    }

    async fn outgoing(&self, http: &Http, model: &ModelRef, body: Vec<u8>) -> Result<Outgoing, Problem> {
        let name = model.name.strip_prefix("models/").unwrap_or(&model.name);
        let call = format!("{name}:streamGenerateContent");
        match &self.door {
            Door::Developer(endpoint) => {
                let path = if name.contains('/') { call } else { format!("models/{call}") };
                let url = sse(http::with_path(&developer_base(endpoint)?, &path));
                self.keyed(Method::POST, endpoint, "gemini", url, body)
            }
            Door::Vertex { settings, .. } if is_express(settings) => {
                let url =
                    http::with_path(&vertex_base(settings)?, &format!("publishers/google/models/{call}"));
                self.keyed(Method::POST, &settings.endpoint, "vertex", sse(url), body)
            }
            Door::Vertex { settings, credentials } => {
                let base = vertex_base(settings)?;
                let access = credentials.access(http, model).await?;
                let project = vertex_project(settings, access.project.as_deref())?;
                let location = vertex_location(settings)?;
                let path = format!("projects/{project}/locations/{location}/publishers/google/models/{call}");
                let key = Some(("authorization", format!("Bearer {}", access.token)));
                let url = sse(http::with_path(&base, &path));
                let mut outgoing = self.ready(Method::POST, &settings.endpoint, "vertex", url, key, body)?;
                if let Some(quota) = access.quota_project.as_deref().and_then(|quota| quota.parse().ok()) {
                    outgoing.headers.insert("x-goog-user-project", quota);
                }
                Ok(outgoing)
            }
        }
    }

    fn keyed(
        &self,
        method: Method,
        endpoint: &Endpoint,
        provider: &'static str,
        url: Url,
        body: Vec<u8>,
    ) -> Result<Outgoing, Problem> {
        let key = http::key_of(endpoint).map(|key| ("x-goog-api-key", key.to_owned()));
        if key.is_none() && endpoint.base_url.is_none() {
            return Err(Problem::new(
                FailureKind::Auth,
                "there is no key for gemini: set GEMINI_API_KEY, or use vertex with Google's credentials",
            ));
        }
        self.ready(method, endpoint, provider, url, key, body)
    }

    fn ready(
        &self,
        method: Method,
        endpoint: &Endpoint,
        provider: &'static str,
        url: Url,
        key: Option<(&'static str, String)>,
        body: Vec<u8>,
    ) -> Result<Outgoing, Problem> {
        Ok(Outgoing {
            method,
            headers: http::headers(endpoint, provider, key)?,
            notice: http::clear_key_notice(&url, endpoint, &self.warned),
            url,
            body,
            framing: Framing::Sse,
            first_byte: endpoint.timeout,
            silence: endpoint.timeout,
            unreachable_hint: "check the network and the proxy settings",
        })
    }

    /// Where it is, for sentences.
    pub(crate) fn host(&self) -> String {
        let base = match &self.door {
            Door::Developer(endpoint) => developer_base(endpoint),
            Door::Vertex { settings, .. } => vertex_base(settings),
        };
        base.map_or_else(|_| "an unusable base_url".to_owned(), |url| http::host_of(&url))
    }

    /// What must not show up in messages.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match &self.door {
            Door::Developer(endpoint) => http::secrets_of(endpoint),
            Door::Vertex { settings, credentials } => {
                [http::secrets_of(&settings.endpoint), credentials.secrets()].concat()
            }
        }
    }
}

fn sse(mut url: Url) -> Url {
    url.query_pairs_mut().append_pair("alt", "sse");
    url
}

/// Appends the API's version where the base does not end in one.
fn versioned(base: Url, version: &str) -> Url {
    let last = http::last_segment(&base);
    let has_version =
        last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if has_version { base } else { http::with_path(&base, version) }
}

fn developer_base(endpoint: &Endpoint) -> Result<Url, Problem> {
    let base = http::base_url(endpoint.base_url.as_deref().unwrap_or(PUBLIC_BASE), "gemini")?;
    Ok(versioned(base, "v1beta"))
}

/// Vertex with a key and without a project.
fn is_express(settings: &VertexSettings) -> bool {
    settings.project.is_none() && http::key_of(&settings.endpoint).is_some()
}

fn vertex_base(settings: &VertexSettings) -> Result<Url, Problem> {
    let text = match &settings.endpoint.base_url {
        Some(base) => base.clone(),
        None => format!("https://{}", vertex_host(vertex_location(settings)?)),
    };
    Ok(versioned(http::base_url(&text, "vertex")?, "v1"))
}

fn vertex_host(location: &str) -> String {
    match location {
        "global" => "aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("aiplatform.{location}.rep.googleapis.com"),
        region => format!("{region}-aiplatform.googleapis.com"),
    }
}

fn vertex_location(settings: &VertexSettings) -> Result<&str, Problem> {
    let location = settings.location.as_deref().unwrap_or(VERTEX_LOCATION_DEFAULT);
    plain_name(location, "providers.vertex.location", "for example global, eu or europe-west4")
}

fn vertex_project<'a>(settings: &'a VertexSettings, found: Option<&'a str>) -> Result<&'a str, Problem> {
    let Some(project) = settings.project.as_deref().or(found) else {
        return Err(Problem::new(
            FailureKind::BadRequest,
            "there is no project for vertex: set providers.vertex.project",
        ));
    };
    plain_name(project, "providers.vertex.project", "the id of a Google Cloud project")
}

/// A name that may stand in a host or path.
fn plain_name<'a>(name: &'a str, key: &str, example: &str) -> Result<&'a str, Problem> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if !name.is_empty() && name.chars().all(plain) && !name.contains("..") {
        return Ok(name);
    }
    Err(Problem::new(FailureKind::BadRequest, format!("{key} is not usable; it should be {example}")))
}

struct GeminiExchange {
    wire: Arc<Gemini>,
    request: ModelRequest,
    changes: body::Changes,
    reading: read::Reading,
}

impl GeminiExchange {
    fn adapt(&mut self, refusal: &Refusal) -> bool {
        let error = &refusal.error;
        if refusal.status != 400 {
            return false;
        }
        if !self.changes.no_echo
            && error.says(&["thought_signature", "thought signature", "thoughtsignature"])
        {
            self.changes.no_echo = true;
            return true;
        }
        if !self.changes.no_thoughts && error.says(&["thinking", "includethoughts", "include_thoughts"]) {
            self.changes.no_thoughts = true;
            return true;
        }
        false
    }
}

impl Exchange for GeminiExchange {
    fn place(&self) -> Place {
        Place { model: self.request.model.clone(), host: self.wire.host() }
    }

    fn secrets(&self) -> Vec<String> {
        self.wire.secrets()
    }

    fn outgoing<'a>(&'a mut self, http: &'a Http) -> BoxFuture<'a, Result<Outgoing, Problem>> {
        self.reading.restart();
        let body = body::body(&self.wire.prefixes, &self.request, &self.changes, self.reading.continuation());
        Box::pin(async move { self.wire.outgoing(http, &self.request.model, body.into_bytes()).await })
    }

    fn refused(&mut self, refusal: &Refusal) -> Problem {
        let problem = classify(&self.place(), refusal);
        if self.adapt(refusal) {
            return problem.adapted();
        }
        let is_vertex = matches!(self.wire.door, Door::Vertex { .. });
        let hint = match refusal.status {
            400 if refusal.error.says(&["api_key_invalid", "api key not valid"]) => {
                let message = format!("{}; check the key", problem.failure.message);
                return Problem::new(FailureKind::Auth, message);
            }
            401 if is_vertex => {
                if let Door::Vertex { credentials, .. } = &self.wire.door {
                    credentials.forget();
                }
                return problem.retried("401 Unauthorized", None).at_most(1);
            }
            404 if is_vertex => "newer models are served in the location global only",
            _ => return problem,
        };
        Problem::new(problem.failure.kind, format!("{}; {hint}", problem.failure.message))
    }

    fn frame(&mut self, frame: &Frame, out: &mut Vec<ModelEvent>) -> Result<Flow, Problem> {
        match self.reading.frame(frame, &self.place(), out)? {
            None => Ok(Flow::More),
            Some(refusal) => Err(self.refused(&refusal)),
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
        let ended = self.reading.end(&place).map_err(|trouble| match trouble {
            read::Trouble::Problem(problem) => problem,
            read::Trouble::MissingSignature(problem) if !self.changes.no_echo => {
                self.changes.no_echo = true;
                problem.adapted()
            }
            read::Trouble::MissingSignature(problem) => problem,
        });
        Box::pin(std::future::ready(ended))
    }
}
