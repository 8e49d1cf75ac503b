//! All providers behind one type, which routes requests by provider name and asks servers for their models.

mod model_status;

pub use model_status::ModelStatus;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _};
use parking_lot::Mutex;
use secrecy::SecretString;
use serde_json::Value;
use sysop_core::message::{FailureKind, ModelFailure, ModelRef, ModelRequest};
use sysop_core::mode::Mode;
use sysop_core::model_provider::{ANTHROPIC, GEMINI, OLLAMA, OLLAMA_SSH, OPENAI, ProviderInfo, VERTEX};
use sysop_driver::port::{ModelEvent, Provider};
use url::Url;

use crate::anthropic::Anthropic;
use crate::api::ModelApi;
use crate::gemini::Gemini;
use crate::local::{self, LocalClient};
use crate::model_probe;
use crate::ollama::{Ollama, is_small};
use crate::openai::OpenAi;
use crate::redact::{Redactor, is_page};
use crate::remote::ollama::{RemoteOllama, RemoteOllamaModel, Tunnel};
use crate::settings::{Endpoint, ProvidersSettings, SILENCE_MAX, SettingSources};
use crate::tool_calling::{ToolCalling, ToolCallingReport};
use crate::transport::{
    self, CallContext, CleartextKeyWarnings, HttpClients, QuirkCache, RetrySettings, causes, error_text,
    is_loopback,
};
use crate::vertex::Vertex;

/// Maximum time to probe a server.
pub const PROBE_MAX: Duration = Duration::from_secs(3);
const MODELS_MAX: usize = 1_000;

/// All configured providers. Clones are cheap and share connections and learned quirks.
#[derive(Clone)]
pub struct Providers {
    shared: Arc<ProvidersState>,
    known_quirks: Arc<QuirkCache>,
    retry: RetrySettings,
}

struct ProvidersState {
    settings: ProvidersSettings,
    clients: Arc<HttpClients>,
    cleartext_warnings: Arc<CleartextKeyWarnings>,
    /// Models for which the way to call tools was chosen, or is being chosen.
    chosen: Mutex<BTreeSet<String>>,
    openai: Arc<OpenAi>,
    ollama: Arc<Ollama>,
    gemini: Arc<Gemini>,
    vertex: Arc<Vertex>,
    anthropic: Arc<Anthropic>,
    remote_ollama: Arc<RemoteOllama>,
    local: LocalClient,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeResult {
    /// True if the server answered with a valid response of its API.
    pub reachable: bool,
    /// Names of the server's models.
    pub models: Vec<String>,
    /// Failure and remedy in one sentence without secrets; `None` if the probe succeeded.
    pub problem: Option<ModelFailure>,
}

impl ProbeResult {
    fn of(answer: Result<Vec<String>, ModelFailure>) -> Self {
        match answer {
            Ok(models) => Self { reachable: true, models, problem: None },
            Err(problem) => Self { problem: Some(problem), ..Self::default() },
        }
    }
}

struct ModelListRequest {
    url: String,
    headers: Vec<(String, SecretString)>,
    target: &'static ProviderInfo,
    sources: SettingSources,
    /// JSON field that holds the list; `name` is the field of each entry with the model's name.
    list: &'static str,
    name: &'static str,
}

impl Providers {
    /// Builds all providers from `settings`. Does no I/O.
    pub fn new(settings: ProvidersSettings) -> Self {
        let clients: Arc<HttpClients> = Arc::default();
        let shared = ProvidersState {
            remote_ollama: Arc::new(RemoteOllama::new(
                settings.remote.clone(),
                &settings.ollama_ssh,
                Arc::clone(&clients),
            )),
            clients,
            cleartext_warnings: Arc::default(),
            chosen: Mutex::default(),
            openai: Arc::new(OpenAi::new(&settings.openai, settings.openai_api)),
            ollama: Arc::new(Ollama::new(&settings.ollama)),
            gemini: Arc::new(Gemini::new(&settings.gemini)),
            vertex: Arc::new(Vertex::new(&settings.vertex)),
            anthropic: Arc::new(Anthropic::new(&settings.anthropic)),
            local: LocalClient::default(),
            settings,
        };
        Self { shared: Arc::new(shared), known_quirks: Arc::default(), retry: RetrySettings::default() }
    }

    #[must_use]
    pub fn with_retries(self, retry: RetrySettings) -> Self {
        Self { retry, ..self }
    }

    /// Returns the same providers with these quirks instead of the learned ones.
    pub(crate) fn with_quirks(&self, quirks: QuirkCache) -> Self {
        Self { known_quirks: Arc::new(quirks), ..self.clone() }
    }

    /// Asks a model ten short questions about calling tools, and remembers the result. Nothing that the model calls
    /// runs. The error is one sentence.
    pub async fn probe_model(&self, model: &ModelRef) -> Result<ToolCallingReport, String> {
        self.shared.chosen.lock().insert(model.to_string());
        let server = self.server_of(model).await;
        let report = model_probe::ask(self, model, server.version).await;
        let report = report.map_err(|failure| failure.message)?;
        self.use_report(model, &report);
        if let Some(store) = &self.shared.settings.tool_calling {
            store.save(model, &server.address, &report);
        }
        Ok(report)
    }

    fn use_report(&self, model: &ModelRef, report: &ToolCallingReport) {
        self.known_quirks.change(&model.to_string(), |quirks| report.calling.apply(quirks));
    }

    /// Returns the server of a model. Only servers at an address of this machine are queried, which takes the time of
    /// two queries.
    async fn server_of(&self, model: &ModelRef) -> ModelServer {
        let shared = &self.shared;
        let address = match model.provider.as_str() {
            "openai" => shared.openai.address(""),
            "ollama" => shared.ollama.address(""),
            _ => return ModelServer::default(),
        };
        let Ok(address) = address else { return ModelServer::default() };
        let unknown = ModelServer { address: origin(&address), ..ModelServer::default() };
        let is_here = Url::parse(&address).is_ok_and(|url| is_loopback(&url));
        let Ok(http) = shared.clients.for_address(&address) else { return unknown };
        match model.provider.as_str() {
            "openai" if is_here => ModelServer {
                version: shared.openai.server_version(&http, &model.name).await.unwrap_or_default(),
                parameters: shared.openai.ask_facts(&http, &model.name).await.parameters,
                ..unknown
            },
            "ollama" => {
                ModelServer { version: shared.ollama.version(&http).await.unwrap_or_default(), ..unknown }
            }
            _ => unknown,
        }
    }

    /// Chooses how a model in sysop's own model server gets its tools: from an earlier report, or by the model's size.
    pub(crate) async fn choose_for_local(&self, client: &OpenAi, base_url: &str, model: &ModelRef) {
        let Some(store) = self.shared.settings.tool_calling.clone() else { return };
        if !self.shared.chosen.lock().insert(model.to_string()) {
            return;
        }
        if let Some(report) = store.load(model, "", "") {
            return self.use_report(model, &report);
        }
        let Ok(http) = self.shared.clients.for_address(base_url) else { return };
        if client.ask_facts(&http, &model.name).await.parameters.is_some_and(is_small) {
            self.known_quirks.change(&model.to_string(), |quirks| ToolCalling::Constrained.apply(quirks));
        }
    }

    /// Chooses how a model gets its tools, once for each model in the lifetime of the process: from an earlier report,
    /// or by the model's size. Returns a sentence for the user if the model must be asked.
    async fn choose_tool_calling(&self, model: &ModelRef) -> Option<String> {
        let store = self.shared.settings.tool_calling.clone()?;
        if !self.shared.chosen.lock().insert(model.to_string()) {
            return None;
        }
        let server = self.server_of(model).await;
        if let Some(report) = store.load(model, &server.address, &server.version) {
            self.use_report(model, &report);
            return None;
        }
        if model.provider != OPENAI.name {
            return None; // Ollama reports what a model can do
        }
        if server.parameters.is_some_and(is_small) {
            self.known_quirks.change(&model.to_string(), |quirks| ToolCalling::Constrained.apply(quirks));
            return None;
        }
        if server.version.is_empty() || !self.shared.settings.probe_models {
            return None;
        }
        Some(format!(
            "first use of {}: up to ten short questions find out how it calls tools (`probe_models = false` skips this)",
            model.name
        ))
    }

    /// Asks a provider's server for its models, to check that it answers. Takes at most [`PROBE_MAX`].
    pub async fn probe(&self, provider: &str) -> ProbeResult {
        if provider == OLLAMA_SSH.name {
            let answer = tokio::time::timeout(PROBE_MAX, self.probe_remote()).await;
            let answer = answer.unwrap_or_else(|_| {
                Err(probe_timeout(OLLAMA_SSH, &SettingSources::default(), OLLAMA_SSH.base_url))
            });
            return ProbeResult::of(answer.map_err(|failure| redacted(&failure, &Redactor::default())));
        }
        match self.list_request(provider) {
            Ok(list_request) => self.run_probe(list_request).await,
            Err(failure) => ProbeResult::of(Err(failure)),
        }
    }

    /// Lists the remote machine's models over the forwarded port.
    async fn probe_remote(&self) -> Result<Vec<String>, ModelFailure> {
        let tunnel = self.shared.remote_ollama.tunnel().await?;
        let list_request = ollama_list_request(tunnel.server(), OLLAMA_SSH, &SettingSources::default())?;
        let redactor = Redactor::new(&list_request.headers);
        self.list(&list_request, &redactor).await.map_err(|failure| redacted(&failure, &redactor))
    }

    fn list_request(&self, provider: &str) -> Result<ModelListRequest, ModelFailure> {
        match provider {
            "openai" => Ok(ModelListRequest {
                url: self.shared.openai.address("/models")?,
                headers: self.shared.openai.headers()?,
                target: OPENAI,
                sources: self.shared.settings.openai.sources.clone(),
                list: "data",
                name: "id",
            }),
            "gemini" => self.gemini_list_request(),
            "anthropic" => self.anthropic_list_request(),
            "vertex" => Err(ModelFailure {
                kind: FailureKind::UnknownModel,
                message:
                    "Vertex AI cannot list models; choose one with --model, for example vertex/gemini-3.8-flash"
                        .to_owned(),
            }),
            "ollama" => {
                let sources = &self.shared.settings.ollama.endpoint.sources;
                ollama_list_request(&self.shared.ollama, OLLAMA, sources)
            }
            _ => Err(unknown_provider(provider)),
        }
    }

    fn gemini_list_request(&self) -> Result<ModelListRequest, ModelFailure> {
        let endpoint = &self.shared.settings.gemini;
        let base = base_of(endpoint, GEMINI.base_url);
        let versioned = base.ends_with("/v1beta") || base.ends_with("/v1");
        Ok(ModelListRequest {
            url: if versioned { format!("{base}/models") } else { format!("{base}/v1beta/models") },
            headers: headers_with_key(endpoint, "x-goog-api-key", "GEMINI_API_KEY")?,
            target: GEMINI,
            sources: endpoint.sources.clone(),
            list: "models",
            name: "name",
        })
    }

    fn anthropic_list_request(&self) -> Result<ModelListRequest, ModelFailure> {
        let endpoint = &self.shared.settings.anthropic;
        let mut headers = headers_with_key(endpoint, "x-api-key", "ANTHROPIC_API_KEY")?;
        headers.push(("anthropic-version".to_owned(), "2023-06-01".into()));
        let base = base_of(endpoint, ANTHROPIC.base_url);
        Ok(ModelListRequest {
            url: format!("{base}/v1/models"),
            headers,
            target: ANTHROPIC,
            sources: endpoint.sources.clone(),
            list: "data",
            name: "id",
        })
    }

    async fn run_probe(&self, list_request: ModelListRequest) -> ProbeResult {
        let redactor = Redactor::new(&list_request.headers);
        let answer = tokio::time::timeout(PROBE_MAX, self.list(&list_request, &redactor)).await;
        ProbeResult::of(match answer {
            Ok(answer) => answer.map_err(|failure| redacted(&failure, &redactor)),
            Err(_) => Err(probe_timeout(list_request.target, &list_request.sources, &list_request.url)),
        })
    }

    async fn list(
        &self,
        list_request: &ModelListRequest,
        redactor: &Redactor,
    ) -> Result<Vec<String>, ModelFailure> {
        let failure = |kind, message| ModelFailure { kind, message };
        let http = self.shared.clients.for_address(&list_request.url)?;
        let target = list_request.target;
        let headers = transport::header_map(&list_request.headers).map_err(|what| {
            failure(FailureKind::BadRequest, format!("{what}; {}", transport::header_hint(target.name)))
        })?;
        let response = http.get(&list_request.url).headers(headers).send().await.map_err(|error| {
            let next = target.unreachable_hint(list_request.sources.base_url.as_deref(), &list_request.url);
            let origin = reqwest::Url::parse(&list_request.url).map(|url| url.origin().ascii_serialization());
            let place = origin.map(|origin| format!(" at {origin}")).unwrap_or_default();
            let message = format!("cannot connect to {}{place} ({}); {next}", target.name, causes(&error));
            failure(FailureKind::Unreachable, message)
        })?;
        let status = response.status().as_u16();
        let success = response.status().is_success();
        let body = transport::body_up_to(response, MODELS_BYTES_MAX).await;
        if !success {
            return Err(self.refusal(list_request, status, &body, redactor));
        }
        let body: Value = serde_json::from_str(&body).map_err(|_| {
            let quote = redactor.quote(&body);
            let setting = list_request.sources.base_url.as_deref().unwrap_or("base_url");
            let origin = reqwest::Url::parse(&list_request.url).map(|url| url.origin().ascii_serialization());
            let message = match origin {
                Ok(origin) if is_page(&body) => {
                    format!("{origin} returned {quote}, which is not an API; check {setting}")
                }
                Ok(_) | Err(_) => format!("{} returned {quote}; check {setting}", target.name),
            };
            failure(FailureKind::Protocol, message)
        })?;
        let list = body[list_request.list].as_array().or(body.as_array());
        let names = list.into_iter().flatten().filter_map(|model| model[list_request.name].as_str());
        Ok(names
            .map(|name| name.strip_prefix("models/").unwrap_or(name).to_owned())
            .take(MODELS_MAX)
            .collect())
    }

    /// Returns the failure of a request for the list of models to which the server answered with an error status.
    fn refusal(
        &self,
        list_request: &ModelListRequest,
        status: u16,
        body: &str,
        redactor: &Redactor,
    ) -> ModelFailure {
        let ModelListRequest { sources, target, .. } = list_request;
        let setting = sources.base_url.as_deref().unwrap_or("base_url");
        let (kind, next) = match status {
            401 | 403 => (FailureKind::Auth, sources.key_hint(target)),
            400 | 422 => (FailureKind::BadRequest, format!("check {setting}")),
            500..=599 => (FailureKind::Unreachable, "try again later".to_owned()),
            404 => {
                let base_url = self.shared.settings.openai.base_url.as_deref().unwrap_or(OPENAI.base_url);
                (FailureKind::Protocol, transport::missing_api_hint(target, setting, base_url))
            }
            _ => (FailureKind::Protocol, format!("check {setting}")),
        };
        let words = redactor.quote(error_text(body).trim_end().trim_end_matches('.'));
        let colon = if words.is_empty() { "" } else { ": " };
        ModelFailure { kind, message: format!("{} returned {status}{colon}{words}; {next}", target.name) }
    }

    pub(crate) fn local_client(&self) -> &LocalClient {
        &self.shared.local
    }

    pub(crate) fn context(
        &self,
        endpoint: &Endpoint,
        base_url: &str,
        api: Arc<dyn ModelApi>,
        target: &'static ProviderInfo,
    ) -> CallContext {
        CallContext {
            clients: Arc::clone(&self.shared.clients),
            api,
            target,
            sources: endpoint.sources.clone(),
            base_url: endpoint.base_url.clone().unwrap_or_else(|| base_url.to_owned()),
            shown: None,
            silence: endpoint.timeout.unwrap_or(SILENCE_MAX),
            retry: self.retry,
            known_quirks: Arc::clone(&self.known_quirks),
            cleartext_warnings: Arc::clone(&self.shared.cleartext_warnings),
        }
    }

    /// Streams a reply from a model on the remote machine. The tunnel is opened at the first poll.
    fn remote_stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        let providers = self.clone();
        async_stream::stream! {
            let mut events = match providers.shared.remote_ollama.tunnel().await {
                Ok(tunnel) => transport::stream(providers.remote_call_context(&tunnel, &request), request),
                Err(failure) => failed_stream(redacted(&failure, &Redactor::default())),
            };
            while let Some(event) = events.next().await {
                yield event;
            }
        }
        .boxed()
    }

    fn remote_call_context(&self, tunnel: &Arc<Tunnel>, request: &ModelRequest) -> CallContext {
        let remote_ollama = &self.shared.remote_ollama;
        let api = Arc::new(RemoteOllamaModel::new(
            Arc::clone(remote_ollama),
            Arc::clone(tunnel),
            &request.model.name,
        ));
        let endpoint = &remote_ollama.settings().endpoint;
        let mut context = self.context(endpoint, OLLAMA.base_url, api, OLLAMA_SSH);
        // The local end of a tunnel is on this machine, whatever the remote address is.
        context.base_url = OLLAMA.base_url.to_owned();
        context.shown = Some(tunnel.origin.clone());
        context.silence = remote_ollama.silence();
        context
    }
}

fn ollama_list_request(
    server: &Ollama,
    target: &'static ProviderInfo,
    sources: &SettingSources,
) -> Result<ModelListRequest, ModelFailure> {
    Ok(ModelListRequest {
        sources: sources.clone(),
        url: server.address("/api/tags")?,
        headers: server.headers(),
        target,
        list: "models",
        name: "name",
    })
}

fn probe_timeout(target: &'static ProviderInfo, sources: &SettingSources, address: &str) -> ModelFailure {
    let next = target.unreachable_hint(sources.base_url.as_deref(), address);
    let message = format!("{} did not respond within {} s; {next}", target.name, PROBE_MAX.as_secs());
    ModelFailure { kind: FailureKind::Unreachable, message }
}

fn redacted(failure: &ModelFailure, redactor: &Redactor) -> ModelFailure {
    ModelFailure { kind: failure.kind, message: redactor.message(&failure.message) }
}

fn failed_stream(failure: ModelFailure) -> BoxStream<'static, ModelEvent> {
    futures::stream::once(async move { ModelEvent::Failed(failure) }).boxed()
}

const MODELS_BYTES_MAX: usize = 8 * 1024 * 1024;

fn base_of<'a>(endpoint: &'a Endpoint, vendor: &'a str) -> &'a str {
    endpoint.base_url.as_deref().unwrap_or(vendor).trim().trim_end_matches('/')
}

/// Returns the endpoint's headers, including its API key. Fails if there is no key and the vendor's own server is used;
/// other servers may need no key.
fn headers_with_key(
    endpoint: &Endpoint,
    header: &str,
    variable: &str,
) -> Result<Vec<(String, SecretString)>, ModelFailure> {
    let mut headers = endpoint.headers.clone();
    match &endpoint.api_key {
        Some(key) => headers.push((header.to_owned(), key.clone())),
        None if endpoint.base_url.is_none() && headers.is_empty() => {
            let message = format!("no API key; set {variable}");
            return Err(ModelFailure { kind: FailureKind::Auth, message });
        }
        None => {}
    }
    Ok(headers)
}

impl ProvidersSettings {
    /// Returns true if the provider's server needs a key, and these settings have neither a key nor a header that could
    /// replace it.
    pub fn lacks_key(&self, provider: &str) -> bool {
        match provider {
            "openai" => OpenAi::new(&self.openai, self.openai_api).headers().is_err(),
            "gemini" => Gemini::new(&self.gemini).headers().is_err(),
            "anthropic" => Anthropic::new(&self.anthropic).headers(None).is_err(),
            _ => false,
        }
    }
}

fn unknown_provider(provider: &str) -> ModelFailure {
    ModelFailure {
        kind: FailureKind::UnknownModel,
        message: format!(
            "unknown provider `{provider}`; use PROVIDER/NAME with openai, gemini, vertex, ollama or anthropic"
        ),
    }
}

/// A server and what it tells about a model.
#[derive(Debug, Default)]
struct ModelServer {
    /// Scheme, host and port.
    address: String,
    /// Name and version of the program; empty for an unknown one.
    version: String,
    parameters: Option<f64>,
}

/// Returns the scheme, host and port of an address, which hold no secret.
fn origin(address: &str) -> String {
    Url::parse(address).map(|url| url.origin().ascii_serialization()).unwrap_or_default()
}

impl Provider for Providers {
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        let chooses = self.shared.settings.tool_calling.is_some()
            && request.mode == Mode::Agent
            && matches!(request.model.provider.as_str(), "openai" | "ollama")
            && !self.shared.chosen.lock().contains(&request.model.to_string());
        if !chooses {
            return self.send(request);
        }
        let providers = self.clone();
        async_stream::stream! {
            if let Some(notice) = providers.choose_tool_calling(&request.model).await {
                yield ModelEvent::Notice(notice);
                // A failure shows again with the request itself.
                if let Ok(report) = providers.probe_model(&request.model).await {
                    yield ModelEvent::Notice(format!("tool calls of {}: {report}", request.model.name));
                }
            }
            let mut events = providers.send(request);
            while let Some(event) = events.next().await {
                yield event;
            }
        }
        .boxed()
    }
}

impl Providers {
    /// Streams a reply without choosing how the model gets its tools.
    pub(crate) fn send(&self, request: ModelRequest) -> BoxStream<'static, ModelEvent> {
        let shared = &self.shared;
        match request.model.provider.as_str() {
            "openai" => {
                let context =
                    self.context(&shared.settings.openai, OPENAI.base_url, shared.openai.clone(), OPENAI);
                transport::stream(context, request)
            }
            "ollama+ssh" => self.remote_stream(request),
            "local" => local::stream(self.clone(), shared.settings.local.clone(), request),
            "ollama" => {
                let api = Arc::new(shared.ollama.model(&request.model.name));
                let endpoint = &shared.settings.ollama.endpoint;
                let mut context = self.context(endpoint, OLLAMA.base_url, api, OLLAMA);
                context.silence = shared.ollama.silence();
                if let Ok(base_url) = shared.ollama.address("") {
                    context.base_url = base_url;
                }
                transport::stream(context, request)
            }
            "gemini" => {
                let api = shared.gemini.clone();
                transport::stream(
                    self.context(&shared.settings.gemini, GEMINI.base_url, api, GEMINI),
                    request,
                )
            }
            "vertex" => {
                let endpoint = &shared.settings.vertex.endpoint;
                let base_url = shared.vertex.base_url();
                transport::stream(self.context(endpoint, &base_url, shared.vertex.clone(), VERTEX), request)
            }
            "anthropic" => {
                let api = shared.anthropic.clone();
                let context = self.context(&shared.settings.anthropic, ANTHROPIC.base_url, api, ANTHROPIC);
                transport::stream(context, request)
            }
            provider => failed_stream(unknown_provider(provider)),
        }
    }
}
