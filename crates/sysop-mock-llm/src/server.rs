//! HTTP: routes, reading bodies, sending responses at their scripted pace, and a server for tests to start.
//!
//! Dropping a server aborts its responses, so that nothing outlives the server's owner.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::net::TcpListener;

use crate::api::{
    ApiError, ApiRequest, IncomingRequest, ScriptedReply, anthropic, gemini, ollama, openai, responses,
};
use crate::engine::Engine;
use crate::ids::IdGenerator;
use crate::open_replies::{OpenReplies, OpenReplyGuard};
use crate::request_log::{RecordedRequest, RequestLog};
use crate::scenario::{Response as ScriptedResponse, Scenarios, ScriptedFailure};
use crate::shutdown::{self, RunningServer, ShutdownSignal};

pub const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Serves every API on `listener` until the future is dropped.
pub async fn serve(listener: TcpListener, scenarios: Scenarios) -> io::Result<()> {
    let (_running, stop) = shutdown::channel();
    run(listener, Arc::new(ServerState::new(scenarios, RecordMode::Off, stop))).await
}

/// A server on a free loopback port, for tests. Dropping it stops the server, even in the middle of a response.
#[derive(Debug)]
pub struct MockServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
    _running: RunningServer,
}

impl MockServer {
    /// Starts a server on a free port of 127.0.0.1. Fails if no port is available.
    pub async fn start(scenarios: Scenarios) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (running, stop) = shutdown::channel();
        let shared = Arc::new(ServerState::new(scenarios, RecordMode::On, stop));
        tokio::spawn(run(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, _running: running })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL, `http://127.0.0.1:PORT`. Clients append `/v1/…`, `/v1beta/…` or `/api/…`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the recorded requests, oldest first. At most [`crate::RECORDED_REQUESTS_MAX`] are recorded.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.record.lock().all()
    }

    /// Returns the number of chat requests that are being answered. Delays and streams count as being answered.
    pub fn open_replies(&self) -> usize {
        self.shared.open_replies.count()
    }

    /// Waits until exactly `count` chat requests are being answered.
    pub async fn wait_for_open_replies(&self, count: usize) {
        self.shared.open_replies.wait_for(count).await;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordMode {
    Off,
    On,
}

#[derive(Debug)]
pub(crate) struct ServerState {
    engine: Engine,
    ids: IdGenerator,
    keep: RecordMode,
    record: Mutex<RequestLog>,
    open_replies: OpenReplies,
    /// Number of requests so far for each response that has a scripted failure, indexed by response number.
    /// Requests are counted even if they no longer fail.
    failed: Vec<AtomicUsize>,
    stop: ShutdownSignal,
}

impl ServerState {
    fn new(scenarios: Scenarios, keep: RecordMode, stop: ShutdownSignal) -> Self {
        let engine = Engine::new(scenarios);
        let failed = (0..engine.responses()).map(|_| AtomicUsize::new(0)).collect();
        Self {
            engine,
            ids: IdGenerator::new(),
            keep,
            record: Mutex::new(RequestLog::default()),
            open_replies: OpenReplies::default(),
            failed,
            stop,
        }
    }

    /// Counts the request and returns the response's scripted failure, or `None` if there is none or `times`
    /// earlier requests have already failed.
    fn failure<'a>(&self, response: &'a ScriptedResponse) -> Option<&'a ScriptedFailure> {
        let failure = response.failure.as_ref()?;
        let before = self.failed[response.number].fetch_add(1, Ordering::Relaxed);
        failure.times.is_none_or(|times| before < times).then_some(failure)
    }
}

async fn run(listener: TcpListener, shared: Arc<ServerState>) -> io::Result<()> {
    let mut stop = shared.stop.clone();
    // Without `TCP_NODELAY` each small event waits for an acknowledgment; failing to set it only costs time.
    let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
    axum::serve(listener, routes(shared)).with_graceful_shutdown(async move { stop.stopped().await }).await
}

fn routes(shared: Arc<ServerState>) -> Router {
    let openai = || post(chat::<openai::ChatCompletionRequest>);
    let gemini = || post(chat::<gemini::GenerateContentRequest>);
    let vertex = "/projects/{project}/locations/{location}/publishers/google/models/{call}";
    Router::new()
        .route("/", get(|| async { "Ollama is running" }))
        .route("/chat/completions", openai())
        .route("/v1/chat/completions", openai())
        .route("/responses", post(chat::<responses::ResponsesRequest>))
        .route("/v1/responses", post(chat::<responses::ResponsesRequest>))
        .route("/models", get(models))
        .route("/v1/models", get(models))
        .route("/v1/messages", post(chat::<anthropic::MessagesRequest>))
        .route("/v1beta/models", get(|| async { json_response(StatusCode::OK, &gemini::models()) }))
        .route("/v1beta/models/{call}", gemini())
        .route("/v1/models/{call}", gemini())
        .route(&format!("/v1{vertex}"), gemini())
        .route(&format!("/v1beta1{vertex}"), gemini())
        .route("/v1/publishers/google/models/{call}", gemini())
        .route("/v1beta1/publishers/google/models/{call}", gemini())
        .route("/api/version", get(|| async { json_response(StatusCode::OK, &ollama::version()) }))
        .route("/api/tags", get(|| async { json_response(StatusCode::OK, &ollama::tags(now())) }))
        .route("/api/ps", get(|| async { json_response(StatusCode::OK, &ollama::ps(now())) }))
        .route("/api/show", post(show))
        .route("/api/chat", post(chat::<ollama::OllamaChatRequest>))
        .fallback(|request: Request| async move {
            let error = format!("no such endpoint: {} {}", request.method(), request.uri().path());
            json_response(StatusCode::NOT_FOUND, &serde_json::json!({ "error": { "message": error } }))
        })
        .with_state(shared)
}

async fn chat<W: ApiRequest>(State(shared): State<Arc<ServerState>>, request: Request) -> Response<Body> {
    let open = shared.open_replies.begin();
    let id = W::REQUEST_ID.map(|(header, prefix)| (header, shared.ids.make(prefix, 20)));
    let mut response = match answer::<W>(&shared, request, open).await {
        Ok(response) => response,
        Err(refusal) => error_response::<W>(&refusal, id.as_ref().map_or("", |(_, id)| id)),
    };
    if let Some((name, id)) = id
        && let Ok(value) = HeaderValue::try_from(id)
    {
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
    response
}

async fn answer<W: ApiRequest>(
    shared: &Arc<ServerState>,
    request: Request,
    open: OpenReplyGuard,
) -> Result<Response<Body>, ApiError> {
    let (head, bytes) = read(shared, request).await?;
    let body = parse::<W>(&bytes)?;
    let query = head.uri.query().unwrap_or_default();
    let asked =
        W::read(&IncomingRequest { path: head.uri.path(), query, headers: &head.headers, body: &body })?;
    let response = shared.engine.answer(asked.turn());
    let mut stop = shared.stop.clone();
    if !response.delivery.delay.is_zero() && !stop.sleep(response.delivery.delay).await {
        return Err(ApiError::new(503, "the server stops"));
    }
    if let Some(failure) = shared.failure(response) {
        return Err(ApiError {
            status: failure.status,
            message: failure.message.clone(),
            param: None,
            retry_after_s: failure.retry_after_s,
        });
    }
    let scripted = ScriptedReply { response, ids: &shared.ids, at: now(), request_bytes: bytes.len() };
    if asked.streams() {
        let script = asked.event_stream(&scripted);
        let kind = script.framing().content_type();
        let body = script.into_body(response.delivery, stop, open);
        return Ok(with_type(StatusCode::OK, kind, body));
    }
    Ok(json_response(StatusCode::OK, &asked.full_body(&scripted)))
}

/// Reads the whole request, and records it if recording is on.
async fn read(
    shared: &ServerState,
    request: Request,
) -> Result<(axum::http::request::Parts, Bytes), ApiError> {
    let (head, body) = request.into_parts();
    let bytes = to_bytes(body, REQUEST_BYTES_MAX).await.map_err(|_| {
        ApiError::new(413, format!("the request is longer than {REQUEST_BYTES_MAX} bytes, or broke off"))
    })?;
    if shared.keep == RecordMode::On {
        let headers = head.headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let kept = RecordedRequest {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: headers.collect(),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        };
        shared.record.lock().push(kept, bytes.len());
    }
    Ok((head, bytes))
}

/// Parses a body, which must be a JSON object.
fn parse<W: ApiRequest>(bytes: &[u8]) -> Result<Value, ApiError> {
    let body = serde_json::from_slice::<Map<String, Value>>(bytes);
    body.map(Value::Object).map_err(|error| ApiError::bad_request(format!("{} {error}", W::NOT_JSON)))
}

fn error_response<W: ApiRequest>(refusal: &ApiError, request_id: &str) -> Response<Body> {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_response(status, &W::error_body(refusal, request_id));
    if let Some(seconds) = refusal.retry_after_s {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Returns the response to `GET /v1/models`, in the form of the API that the headers indicate.
async fn models(headers: HeaderMap) -> Response<Body> {
    let list = if headers.contains_key("anthropic-version") {
        anthropic::models(now())
    } else if headers.contains_key("x-goog-api-key") {
        gemini::models()
    } else {
        openai::models(now().as_second())
    };
    json_response(StatusCode::OK, &list)
}

async fn show(State(shared): State<Arc<ServerState>>, request: Request) -> Response<Body> {
    let shown = async {
        let (_, bytes) = read(&shared, request).await?;
        ollama::show(&parse::<ollama::OllamaChatRequest>(&bytes)?, now())
    };
    match shown.await {
        Ok(model) => json_response(StatusCode::OK, &model),
        Err(refusal) => error_response::<ollama::OllamaChatRequest>(&refusal, ""),
    }
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    with_type(status, "application/json", Body::from(value.to_string()))
}

fn with_type(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
