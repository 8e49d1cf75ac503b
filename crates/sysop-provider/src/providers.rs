//! All providers behind one door: which server a model is asked at, and whether a server is there.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _};
use secrecy::SecretString;
use serde_json::Value;
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest};
use sysop_driver::port::{ModelEvent, Provider};

use crate::anthropic::Anthropic;
use crate::clean::Cleaner;
use crate::far::link::{FarModel, Link, List, Tunnel, Way};
use crate::far::pipe;
use crate::gemini::Gemini;
use crate::ollama::{self, Ollama};
use crate::openai::{self, OpenAi};
use crate::settings::{Endpoint, ProvidersSettings, SILENCE_MAX};
use crate::transport::{self, Clients, Learnt, Place, Plan, RetrySettings, Warned, causes, error_text};
use crate::vertex::Vertex;
use crate::wire::Wire;

/// The longest that asking whether a server is there may take.
pub const PROBE_MAX: Duration = Duration::from_secs(3);
/// The most models that a probe names.
const MODELS_MAX: usize = 1_000;

/// Every provider that the settings tell of. Cheap to clone; clones share connections and what was learnt.
#[derive(Clone)]
pub struct Providers {
    shared: Arc<Shared>,
    retry: RetrySettings,
}

struct Shared {
    settings: ProvidersSettings,
    clients: Arc<Clients>,
    learnt: Arc<Learnt>,
    warned: Arc<Warned>,
    openai: Arc<OpenAi>,
    ollama: Arc<Ollama>,
    gemini: Arc<Gemini>,
    vertex: Arc<Vertex>,
    anthropic: Arc<Anthropic>,
    link: Arc<Link>,
    piped: Arc<pipe::Learnt>,
}

/// What asking a server came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probe {
    /// Whether it answered as the API does.
    pub reachable: bool,
    /// The names of its models.
    pub models: Vec<String>,
    /// What is wrong, and what to do about it; one sentence without a secret.
    pub problem: Option<String>,
}

impl Probe {
    fn problem(problem: impl Into<String>) -> Self {
        Self { problem: Some(problem.into()), ..Self::default() }
    }
}

/// How a server is asked for its models.
struct Question {
    url: String,
    headers: Vec<(String, SecretString)>,
    place: Place,
    /// Where the list stands, and what a name is called in it.
    list: &'static str,
    name: &'static str,
}

impl Providers {
    /// Takes the settings. Does no IO.
    pub fn new(settings: ProvidersSettings) -> Self {
        let clients: Arc<Clients> = Arc::default();
        let shared = Shared {
            link: Arc::new(Link::new(settings.far.clone(), &settings.ollama_ssh, Arc::clone(&clients))),
            piped: Arc::default(),
            clients,
            learnt: Arc::default(),
            warned: Arc::default(),
            openai: Arc::new(OpenAi::new(&settings.openai)),
            ollama: Arc::new(Ollama::new(&settings.ollama)),
            gemini: Arc::new(Gemini::new(&settings.gemini)),
            vertex: Arc::new(Vertex::new(&settings.vertex)),
            anthropic: Arc::new(Anthropic::new(&settings.anthropic)),
            settings,
        };
        Self { shared: Arc::new(shared), retry: RetrySettings::default() }
    }

    /// The same with other retries.
    #[must_use]
    pub fn with_retries(self, retry: RetrySettings) -> Self {
        Self { retry, ..self }
    }

    /// Asks whether a provider's server is there and what models it has; takes at most [`PROBE_MAX`].
    pub async fn probe(&self, provider: &str) -> Probe {
        if provider == OLLAMA_SSH.provider {
            return match tokio::time::timeout(PROBE_MAX, self.probe_far()).await {
                Ok(Ok(models)) => Probe { reachable: true, models, problem: None },
                Ok(Err(failure)) => Probe::problem(Cleaner::default().message(&failure.message)),
                Err(_) => Probe::problem(too_slow(OLLAMA_SSH)),
            };
        }
        match self.question(provider) {
            Ok(question) => self.ask(question).await,
            Err(failure) => Probe::problem(failure.message),
        }
    }

    /// The models of the far machine, by whatever way leads there.
    async fn probe_far(&self) -> Result<Vec<String>, ModelFailure> {
        let link = &self.shared.link;
        let problem = |message| ModelFailure { kind: FailureKind::Unreachable, message };
        match link.way().await? {
            Way::Tunnel(tunnel) => {
                let question = ollama_question(tunnel.server(), OLLAMA_SSH)?;
                let cleaner = Cleaner::new(&question.headers);
                self.list(&question, &cleaner).await.map_err(|message| problem(cleaner.message(&message)))
            }
            Way::Pipe => match link.list(link.far()?).await? {
                List::Models(models) => Ok(models.into_iter().take(MODELS_MAX).collect()),
                List::Failed(failure) => Err(failure),
            },
        }
    }

    fn question(&self, provider: &str) -> Result<Question, ModelFailure> {
        match provider {
            "openai" => Ok(Question {
                url: self.shared.openai.address("/models")?,
                headers: self.shared.openai.headers()?,
                place: OPENAI,
                list: "data",
                name: "id",
            }),
            "gemini" => self.gemini_question(),
            "anthropic" => self.anthropic_question(),
            "vertex" => Err(ModelFailure {
                kind: FailureKind::UnknownModel,
                message:
                    "Vertex AI lists no models; name one with --model, for example vertex/gemini-3.8-flash"
                        .to_owned(),
            }),
            "ollama" => ollama_question(&self.shared.ollama, OLLAMA),
            _ => Err(unknown(provider)),
        }
    }

    fn gemini_question(&self) -> Result<Question, ModelFailure> {
        let endpoint = &self.shared.settings.gemini;
        let base = base_of(endpoint, GEMINI_BASE_URL);
        let versioned = base.ends_with("/v1beta") || base.ends_with("/v1");
        Ok(Question {
            url: if versioned { format!("{base}/models") } else { format!("{base}/v1beta/models") },
            headers: headers_with_key(endpoint, "x-goog-api-key", "GEMINI_API_KEY")?,
            place: GEMINI,
            list: "models",
            name: "name",
        })
    }

    fn anthropic_question(&self) -> Result<Question, ModelFailure> {
        let endpoint = &self.shared.settings.anthropic;
        let mut headers = headers_with_key(endpoint, "x-api-key", "ANTHROPIC_API_KEY")?;
        headers.push(("anthropic-version".to_owned(), "2023-06-01".into()));
        let base = base_of(endpoint, ANTHROPIC_BASE_URL);
        Ok(Question { url: format!("{base}/v1/models"), headers, place: ANTHROPIC, list: "data", name: "id" })
    }

    async fn ask(&self, question: Question) -> Probe {
        let cleaner = Cleaner::new(&question.headers);
        match tokio::time::timeout(PROBE_MAX, self.list(&question, &cleaner)).await {
            Ok(Ok(models)) => Probe { reachable: true, models, problem: None },
            Ok(Err(problem)) => Probe::problem(cleaner.message(&problem)),
            Err(_) => Probe::problem(too_slow(question.place)),
        }
    }

    async fn list(&self, question: &Question, cleaner: &Cleaner) -> Result<Vec<String>, String> {
        let http = self.shared.clients.for_address(&question.url).map_err(|failure| failure.message)?;
        let place = question.place;
        let headers = transport::header_map(&question.headers).map_err(|name| {
            format!("the header `{name}` cannot be sent; correct it in [providers.{}]", place.provider)
        })?;
        let response = http.get(&question.url).headers(headers).send().await.map_err(|error| {
            format!("nobody answers for {} ({}); {}", place.provider, causes(&error), place.unreachable)
        })?;
        let status = response.status().as_u16();
        let success = response.status().is_success();
        let body = transport::body_up_to(response, MODELS_BYTES_MAX).await;
        if !success {
            let next = if matches!(status, 401 | 403) { place.key } else { "check its base_url" };
            let words = cleaner.quote(&error_text(&body));
            return Err(format!("{} answered {status} {words}; {next}", place.provider));
        }
        let body: Value = serde_json::from_str(&body).map_err(|_| {
            format!("{} answered with {}; check its base_url", place.provider, cleaner.quote(&body))
        })?;
        let list = body[question.list].as_array().or(body.as_array());
        let names = list.into_iter().flatten().filter_map(|model| model[question.name].as_str());
        Ok(names
            .map(|name| name.strip_prefix("models/").unwrap_or(name).to_owned())
            .take(MODELS_MAX)
            .collect())
    }

    fn plan(&self, endpoint: &Endpoint, base_url: &str, wire: Arc<dyn Wire>, place: Place) -> Plan {
        Plan {
            clients: Arc::clone(&self.shared.clients),
            wire,
            place,
            base_url: endpoint.base_url.clone().unwrap_or_else(|| base_url.to_owned()),
            shown: None,
            silence: endpoint.timeout.unwrap_or(SILENCE_MAX),
            retry: self.retry,
            learnt: Arc::clone(&self.shared.learnt),
            warned: Arc::clone(&self.shared.warned),
        }
    }

    /// A call to a model of the far machine; the way there is found at the first poll.
    fn far_stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        let providers = self.clone();
        async_stream::stream! {
            let link = &providers.shared.link;
            let way = link.way().await;
            if let Some(news) = link.news() {
                yield ModelEvent::Notice(Cleaner::default().message(&news));
            }
            let mut events = match way {
                Ok(Way::Tunnel(tunnel)) => transport::stream(providers.far_plan(&tunnel, &request), request),
                Ok(Way::Pipe) => {
                    let learnt = Arc::clone(&providers.shared.piped);
                    pipe::stream(Arc::clone(link), learnt, providers.retry, request)
                }
                Err(failure) => failed(ModelFailure {
                    kind: failure.kind,
                    message: Cleaner::default().message(&failure.message),
                }),
            };
            while let Some(event) = events.next().await {
                yield event;
            }
        }
        .boxed()
    }

    fn far_plan(&self, tunnel: &Arc<Tunnel>, request: &ModelRequest) -> Plan {
        let link = &self.shared.link;
        let wire = Arc::new(FarModel::new(Arc::clone(link), Arc::clone(tunnel), &request.model.name));
        let endpoint = &link.settings().endpoint;
        let mut plan = self.plan(endpoint, ollama::BASE_URL, wire, OLLAMA_SSH);
        // The near end of a tunnel is on this machine, whatever the far address is.
        plan.base_url = ollama::BASE_URL.to_owned();
        plan.shown = Some(tunnel.origin.clone());
        plan.silence = link.silence();
        plan
    }
}

fn ollama_question(server: &Ollama, place: Place) -> Result<Question, ModelFailure> {
    Ok(Question {
        url: server.address("/api/tags")?,
        headers: server.headers(),
        place,
        list: "models",
        name: "name",
    })
}

fn too_slow(place: Place) -> String {
    format!("{} did not answer within {} s; {}", place.provider, PROBE_MAX.as_secs(), place.unreachable)
}

fn failed(failure: ModelFailure) -> BoxStream<'static, ModelEvent> {
    futures::stream::once(async move { ModelEvent::Failed(failure) }).boxed()
}

/// The most bytes of a list of models.
const MODELS_BYTES_MAX: usize = 8 * 1024 * 1024;

const OPENAI: Place = Place {
    provider: "openai",
    unreachable: "check that the server runs and that the base_url of [providers.openai] is right",
    key: "check the key (OPENAI_API_KEY)",
};

const OLLAMA: Place = Place {
    provider: "ollama",
    unreachable: "start Ollama with `ollama serve`, or check OLLAMA_HOST",
    key: "run `ollama signin` for cloud models, or check the key (OLLAMA_API_KEY)",
};

const OLLAMA_SSH: Place = Place {
    provider: "ollama+ssh",
    unreachable: "start Ollama there with `ollama serve`, or check OLLAMA_HOST there",
    key: "run `ollama signin` there for cloud models, or check the key of [providers.ollama+ssh]",
};

const GEMINI: Place = Place {
    provider: "gemini",
    unreachable: "check the network, the proxy variables and the base_url of [providers.gemini]",
    key: "check the key (GEMINI_API_KEY)",
};

const VERTEX: Place = Place {
    provider: "vertex",
    unreachable: "check the network, the proxy variables and the location of [providers.vertex]",
    key: "run `gcloud auth application-default login`, and check the project of [providers.vertex]",
};

const ANTHROPIC: Place = Place {
    provider: "anthropic",
    unreachable: "check the network, the proxy variables and the base_url of [providers.anthropic]",
    key: "check the key (ANTHROPIC_API_KEY)",
};

const GEMINI_BASE_URL: &str = "https://generativelanguage.googleapis.com";
const ANTHROPIC_BASE_URL: &str = "https://api.anthropic.com";

fn base_of<'a>(endpoint: &'a Endpoint, vendor: &'a str) -> &'a str {
    endpoint.base_url.as_deref().unwrap_or(vendor).trim().trim_end_matches('/')
}

/// The headers of an endpoint with its key among them. The vendor's own address needs one; another may not.
fn headers_with_key(
    endpoint: &Endpoint,
    header: &str,
    variable: &str,
) -> Result<Vec<(String, SecretString)>, ModelFailure> {
    let mut headers = endpoint.headers.clone();
    match &endpoint.api_key {
        Some(key) => headers.push((header.to_owned(), key.clone())),
        None if endpoint.base_url.is_none() && headers.is_empty() => {
            let message = format!("there is no key; set {variable}");
            return Err(ModelFailure { kind: FailureKind::Auth, message });
        }
        None => {}
    }
    Ok(headers)
}

fn unknown(provider: &str) -> ModelFailure {
    ModelFailure {
        kind: FailureKind::UnknownModel,
        message: format!(
            "there is no provider `{provider}`; write the model as PROVIDER/NAME with openai, gemini, vertex, ollama or anthropic"
        ),
    }
}

impl Provider for Providers {
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        let shared = &self.shared;
        match request.model.provider.as_str() {
            "openai" => {
                let plan =
                    self.plan(&shared.settings.openai, openai::BASE_URL, shared.openai.clone(), OPENAI);
                transport::stream(plan, request)
            }
            "ollama+ssh" => self.far_stream(request),
            "ollama" => {
                let wire = Arc::new(shared.ollama.model(&request.model.name));
                let endpoint = &shared.settings.ollama.endpoint;
                let mut plan = self.plan(endpoint, ollama::BASE_URL, wire, OLLAMA);
                plan.silence = shared.ollama.silence();
                if let Ok(base_url) = shared.ollama.address("") {
                    plan.base_url = base_url;
                }
                transport::stream(plan, request)
            }
            "gemini" => {
                let wire = shared.gemini.clone();
                transport::stream(self.plan(&shared.settings.gemini, GEMINI_BASE_URL, wire, GEMINI), request)
            }
            "vertex" => {
                let endpoint = &shared.settings.vertex.endpoint;
                let base_url = shared.vertex.base_url();
                transport::stream(self.plan(endpoint, &base_url, shared.vertex.clone(), VERTEX), request)
            }
            "anthropic" => {
                let wire = shared.anthropic.clone();
                let plan = self.plan(&shared.settings.anthropic, ANTHROPIC_BASE_URL, wire, ANTHROPIC);
                transport::stream(plan, request)
            }
            provider => failed(unknown(provider)),
        }
    }
}

/// The model to take where a person named none; `None` where it depends on what is installed.
pub fn default_model(provider: &str) -> Option<&'static str> {
    match provider {
        // Later ones refuse tools on this endpoint unless they may not reason.
        "openai" => Some("gpt-5.5"),
        "gemini" | "vertex" => Some("gemini-3.8-flash"),
        "anthropic" => Some("claude-sonnet-5-5"),
        _ => None,
    }
}
