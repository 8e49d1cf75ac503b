//! Routes each request to the client of its provider.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::Value;
use sysop_core::message::{FailureKind, ModelFailure, ModelRef, ModelRequest};
use sysop_driver::port::{ModelEvent, Provider};

use crate::anthropic::Anthropic;
use crate::exchange::{Exchange, run};
use crate::failure::{Place, Problem, classify};
use crate::gemini::Gemini;
use crate::http::{Fetched, Http, Outgoing, redact};
use crate::ollama::Ollama;
use crate::openai::OpenAi;
use crate::settings::{ProvidersSettings, RetrySettings};

/// Longest wait for an answer to a probe.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// Most models that a probe lists.
const PROBE_MODELS_MAX: usize = 1000;

/// All clients. Making them is free of IO: connections, certificates and credentials come with the first request.
#[derive(Debug, Clone)]
pub struct Providers {
    http: Arc<Http>,
    retry: RetrySettings,
    openai: Arc<OpenAi>,
    gemini: Arc<Gemini>,
    vertex: Arc<Gemini>,
    ollama: Arc<Ollama>,
    ollama_ssh: Option<Arc<Ollama>>,
    anthropic: Arc<Anthropic>,
}

/// What a provider answered when it was asked whether it is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probe {
    /// It answered, and let us in.
    pub reachable: bool,
    /// The models that it offers, where it says.
    pub models: Vec<String>,
    /// What is wrong, in one sentence; holds no secret.
    pub problem: Option<String>,
}

/// The model to take where only the provider is named; empty for one that is not known here.
pub fn default_model(provider: &str) -> &'static str {
    match provider {
        "openai" => "gpt-6.1-terra",
        "gemini" | "vertex" => "gemini-3.8-flash",
        "anthropic" => "claude-sonnet-5-5",
        "ollama" | "ollama+ssh" => "phi3",
        _ => "",
    }
}

/// One of the clients.
enum Client<'a> {
    OpenAi(&'a Arc<OpenAi>),
    Gemini(&'a Arc<Gemini>),
    Ollama(&'a Arc<Ollama>),
    Anthropic(&'a Arc<Anthropic>),
}

impl Providers {
    /// Makes the clients.
    pub fn new(settings: ProvidersSettings) -> Self {
        Self {
            http: Arc::default(),
            retry: settings.retry,
            openai: Arc::new(OpenAi::new(settings.openai)),
            gemini: Arc::new(Gemini::developer(settings.gemini)),
            vertex: Arc::new(Gemini::vertex(settings.vertex)),
            ollama: Arc::new(Ollama::new("ollama", settings.ollama)),
            ollama_ssh: settings.ollama_ssh.map(|ollama| Arc::new(Ollama::new("ollama+ssh", ollama))),
            anthropic: Arc::new(Anthropic::new(settings.anthropic)),
        }
    }

    /// Asks a provider whether it is there, which models it has, and why not. Takes seconds at most.
    pub async fn probe(&self, provider: &str) -> Probe {
        let model = ModelRef::new(provider, "*");
        let secrets = match self.client(provider) {
            Ok(client) => client.secrets(),
            Err(failure) => return Probe { problem: Some(failure.message), ..Probe::default() },
        };
        match tokio::time::timeout(PROBE_MAX, self.ask(provider, &model)).await {
            Ok(Ok(models)) => Probe { reachable: true, models, problem: None },
            Ok(Err(problem)) => {
                let problem = Some(redact(problem.failure.message, &secrets));
                Probe { problem, ..Probe::default() }
            }
            Err(_) => {
                let seconds = PROBE_MAX.as_secs();
                let problem = format!("{provider} did not answer within {seconds} s; check the network");
                Probe { problem: Some(problem), ..Probe::default() }
            }
        }
    }

    async fn ask(&self, provider: &str, model: &ModelRef) -> Result<Vec<String>, Problem> {
        let client = self.client(provider).map_err(|failure| Problem::new(failure.kind, failure.message))?;
        let place = Place { model: model.clone(), host: client.host() };
        let outgoing = match &client {
            Client::OpenAi(client) => Some(client.list()?),
            Client::Ollama(client) => Some(client.list()?),
            Client::Anthropic(client) => Some(client.list()?),
            Client::Gemini(client) => client.list()?,
        };
        let Some(outgoing) = outgoing else {
            if let Client::Gemini(client) = client {
                client.check_credentials(&self.http, model).await?;
            }
            return Ok(Vec::new());
        };
        let outgoing = Outgoing { first_byte: PROBE_MAX, silence: PROBE_MAX, ..outgoing };
        match self.http.fetch(outgoing, &place).await? {
            Fetched::Answer { value, .. } => Ok(names(&value)),
            Fetched::Refused(refusal) => Err(classify(&place, &refusal)),
        }
    }

    fn client(&self, provider: &str) -> Result<Client<'_>, ModelFailure> {
        let unknown = |message: String| ModelFailure { kind: FailureKind::BadRequest, message };
        Ok(match provider {
            "openai" => Client::OpenAi(&self.openai),
            "gemini" => Client::Gemini(&self.gemini),
            "vertex" => Client::Gemini(&self.vertex),
            "ollama" => Client::Ollama(&self.ollama),
            "anthropic" => Client::Anthropic(&self.anthropic),
            "ollama+ssh" => match &self.ollama_ssh {
                Some(client) => Client::Ollama(client),
                None => {
                    let message = "ollama+ssh needs a far machine: name one with --host".to_owned();
                    return Err(unknown(message));
                }
            },
            other => {
                return Err(unknown(format!(
                    "there is no provider `{}`; use openai, gemini, vertex, ollama, ollama+ssh or anthropic",
                    crate::failure::excerpt(other)
                )));
            }
        })
    }
}

impl Client<'_> {
    fn host(&self) -> String {
        match self {
            Self::OpenAi(client) => client.host(),
            Self::Gemini(client) => client.host(),
            Self::Ollama(client) => client.host(),
            Self::Anthropic(client) => client.host(),
        }
    }

    fn secrets(&self) -> Vec<String> {
        match self {
            Self::OpenAi(client) => client.secrets(),
            Self::Gemini(client) => client.secrets(),
            Self::Ollama(client) => client.secrets(),
            Self::Anthropic(client) => client.secrets(),
        }
    }

    fn exchange(&self, request: ModelRequest) -> Box<dyn Exchange> {
        match self {
            Self::OpenAi(client) => client.exchange(request),
            Self::Gemini(client) => client.exchange(request),
            Self::Ollama(client) => client.exchange(request),
            Self::Anthropic(client) => client.exchange(request),
        }
    }
}

impl Provider for Providers {
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        match self.client(&request.model.provider) {
            Ok(client) => run(Arc::clone(&self.http), self.retry.clone(), client.exchange(request)).boxed(),
            Err(failure) => futures::stream::once(async { ModelEvent::Failed(failure) }).boxed(),
        }
    }
}

/// The models in a list, in whichever form it is: `data[].id`, `models[].name`.
fn names(value: &Value) -> Vec<String> {
    let list = ["data", "models"].iter().find_map(|key| value.get(key)?.as_array());
    list.into_iter()
        .flatten()
        .filter_map(|model| ["id", "name", "model"].iter().find_map(|key| model.get(key)?.as_str()))
        .map(|name| crate::failure::excerpt(name.strip_prefix("models/").unwrap_or(name)))
        .take(PROBE_MODELS_MAX)
        .collect()
}
