//! All routes, in one table: what a route needs of its callers and what it says of itself stand beside it, and a
//! route without that is none.

mod body;
mod chat;
mod desk;
mod gemini;
mod health;
mod log_in;
mod openapi;
mod page;
pub(crate) mod problem;
mod sessions;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use serde_json::json;

pub(crate) use self::chat::Chats;
use self::openapi::{Answers, Body, Doc};
use crate::guard::Scope;
use crate::{Inner, Peer, socket, sse};

/// What handlers share.
pub(crate) type Shared = Arc<Inner>;

/// One route.
struct Route {
    method: &'static str,
    path: &'static str,
    scope: Scope,
    doc: Doc,
    handler: MethodRouter<Shared>,
}

const SESSIONS: &str = "/api/agent/sessions";
const SESSION: &str = "/api/agent/sessions/{id}";

#[expect(clippy::too_many_lines, reason = "a table")]
fn routes() -> Vec<Route> {
    let mut routes = vec![
        at(
            "get",
            "/healthz",
            Scope::Nobody,
            Doc::of("The server lives", Answers::Status),
            get(health::alive),
        ),
        at(
            "get",
            "/readyz",
            Scope::Nobody,
            Doc::of("The server takes work", Answers::Ready),
            get(health::ready),
        ),
        at(
            "get",
            "/metrics",
            Scope::Read,
            Doc::of("Counters for Prometheus", Answers::Metrics),
            get(health::metrics),
        ),
        at("get", "/", Scope::Read, Doc::of("The page", Answers::Page), get(page::index)),
        at(
            "get",
            "/assets/{name}",
            Scope::Read,
            Doc::of("A file of the page", Answers::Asset),
            get(page::asset),
        ),
        at(
            "get",
            "/api/openapi.json",
            Scope::Read,
            Doc::of("This description", Answers::Description),
            get(openapi::description),
        ),
        at(
            "post",
            SESSIONS,
            Scope::Operate,
            Doc::of("Make a session", Answers::Made).taking(Body::NewSession),
            post(sessions::create),
        ),
        at(
            "get",
            SESSIONS,
            Scope::Read,
            Doc::of("The sessions, the most recently changed first", Answers::List)
                .asking(&["limit", "search"]),
            get(sessions::list),
        ),
        at(
            "get",
            SESSION,
            Scope::Read,
            Doc::of("How a session works and what it does", Answers::Session),
            get(sessions::show),
        ),
        at(
            "delete",
            SESSION,
            Scope::Operate,
            Doc::of("Delete a session and all of it", Answers::Gone),
            delete(sessions::delete),
        ),
        at(
            "get",
            "/api/agent/sessions/{id}/stream",
            Scope::Read,
            Doc::of("The session's socket", Answers::Socket),
            get(socket::open),
        ),
        at(
            "get",
            "/api/agent/sessions/{id}/events",
            Scope::Read,
            Doc::of("The session's messages as server-sent events", Answers::Events).asking(&[
                "resumeFrom",
                "lend",
                "terminal",
                "cols",
                "rows",
                "scrollback",
                "Last-Event-ID",
            ]),
            get(sse::events),
        ),
        at(
            "get",
            "/api/agent/sessions/{id}/artefacts/{name}",
            Scope::Read,
            Doc::of("The whole output of a call", Answers::Artefact),
            get(sessions::artefact),
        ),
        at(
            "post",
            "/api/agent/sessions/{id}/fork",
            Scope::Operate,
            Doc::of(
                "Make a session with the log of this one up to a prompt, which is left out",
                Answers::Made,
            )
            .taking(Body::Fork),
            post(desk::fork),
        ),
        at(
            "get",
            "/api/agent/sessions/{id}/paths",
            Scope::Read,
            Doc::of("Paths below the session's root that hold a word", Answers::Paths)
                .asking(&["word", "limit"]),
            get(desk::paths),
        ),
        at(
            "get",
            "/api/hosts",
            Scope::Read,
            Doc::of("The hosts that are known by a name", Answers::Hosts),
            get(desk::hosts),
        ),
        at(
            "get",
            "/api/models",
            Scope::Read,
            Doc::of("The models that can be asked, that of the settings first", Answers::Models),
            get(desk::models),
        ),
        at(
            "post",
            "/chat",
            Scope::Operate,
            Doc::of("Say something and stream the answer", Answers::Chat).taking(Body::Chat),
            post(chat::chat),
        ),
        at(
            "post",
            "/login",
            Scope::Nobody,
            Doc::of("Give a browser its cookie for a token", Answers::LoggedIn).taking(Body::LogIn),
            post(log_in::log_in).layer(DefaultBodyLimit::max(log_in::FORM_BYTES_MAX)),
        ),
        at(
            "post",
            "/clear",
            Scope::Operate,
            Doc::of("Forget what was said in the chat", Answers::Status),
            post(chat::clear),
        ),
        at(
            "post",
            "/api/gemini/agent",
            Scope::Operate,
            Doc::of("One step of an agent whose tools are the client's", Answers::Parts)
                .taking(Body::GeminiAgent),
            post(gemini::agent),
        ),
        at(
            "post",
            "/api/gemini/chat",
            Scope::Operate,
            Doc::of("One answer of a chat", Answers::Reply).taking(Body::GeminiChat),
            post(gemini::chat),
        ),
    ];
    routes.extend(says());
    routes
}

/// The routes of what a client without a socket says to a session.
#[expect(clippy::too_many_lines, reason = "a table")]
fn says() -> Vec<Route> {
    let says = |path: &'static str, what: &'static str, kind: &'static str, handler: MethodRouter<Shared>| {
        at(
            "post",
            path,
            Scope::Operate,
            Doc::of(what, Answers::Accepted).taking(Body::Message(kind)),
            handler,
        )
    };
    vec![
        says("/api/agent/sessions/{id}/messages", "Say something", "user.message", post(sessions::message)),
        says(
            "/api/agent/sessions/{id}/tool-results",
            "What came of a call that this client ran",
            "tool.result",
            post(sessions::tool_result),
        ),
        says(
            "/api/agent/sessions/{id}/tool-outputs",
            "More of the output of a call that this client runs",
            "tool.output",
            post(sessions::tool_output),
        ),
        says(
            "/api/agent/sessions/{id}/decisions",
            "Answer an approval",
            "approval.decision",
            post(sessions::decision),
        ),
        says(
            "/api/agent/sessions/{id}/questions",
            "Answer a program's question",
            "question.answer",
            post(sessions::question),
        ),
        says(
            "/api/agent/sessions/{id}/direct",
            "Make one call without a model",
            "direct",
            post(sessions::direct),
        ),
        says(
            "/api/agent/sessions/{id}/configure",
            "Change how it works",
            "configure",
            post(sessions::configure),
        ),
        says("/api/agent/sessions/{id}/cancel", "Stop the turn", "cancel", post(sessions::cancel)),
        says("/api/agent/sessions/{id}/pause", "Stop after the current step", "pause", post(sessions::pause)),
        says("/api/agent/sessions/{id}/resume", "Go on", "resume", post(sessions::resume)),
        says(
            "/api/agent/sessions/{id}/retry",
            "Run the last prompt again with a fresh history",
            "retry",
            post(sessions::retry),
        ),
        says("/api/agent/sessions/{id}/clear", "Forget the history", "clear", post(sessions::clear)),
        says(
            "/api/agent/sessions/{id}/terminal/input",
            "Type into the live terminal",
            "terminal.input",
            post(sessions::terminal_input),
        ),
        says(
            "/api/agent/sessions/{id}/terminal/resize",
            "Change the size of the live terminal",
            "terminal.resize",
            post(sessions::terminal_resize),
        ),
        says(
            "/api/agent/sessions/{id}/terminal/release",
            "Let the agent use the live terminal again",
            "terminal.release",
            post(sessions::terminal_release),
        ),
    ]
}

fn at(
    method: &'static str,
    path: &'static str,
    scope: Scope,
    doc: Doc,
    handler: MethodRouter<Shared>,
) -> Route {
    Route { method, path, scope, doc, handler }
}

/// The router of a server.
pub(crate) fn router(shared: &Shared) -> Router {
    let mut router = Router::new();
    for Route { path, scope, handler, .. } in routes() {
        let gate = Gate { shared: Arc::clone(shared), scope, path };
        router = router.route(path, handler.layer(from_fn_with_state(gate, admit)));
    }
    let gate = Gate { shared: Arc::clone(shared), scope: Scope::Read, path: "" };
    router
        .fallback_service(Router::new().fallback(no_route).layer(from_fn_with_state(gate, admit)))
        .layer(DefaultBodyLimit::max(shared.settings.body_bytes_max))
        .layer(from_fn_with_state(Arc::clone(shared), seal))
        .with_state(Arc::clone(shared))
}

#[derive(Clone)]
struct Gate {
    shared: Shared,
    scope: Scope,
    path: &'static str,
}

/// Lets a request in, or not; and tells of it, without its query: there may be a token in it.
async fn admit(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let response = admitted(&gate, request, next).await;
    let (status, took) = (response.status().as_u16(), began.elapsed());
    gate.shared.metrics.request(known_method(&method), gate.path, status, took);
    tracing::debug!(%method, route = gate.path, status, duration_ms = took.as_millis() as u64, "request");
    response
}

/// A method that somebody made up must not become a series of its own.
fn known_method(method: &axum::http::Method) -> &str {
    match method.as_str() {
        known @ ("GET" | "HEAD" | "POST" | "DELETE") => known,
        _ => "other",
    }
}

async fn admitted(gate: &Gate, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<Peer>>().copied() else {
        return StatusCode::FORBIDDEN.into_response(); // nobody knows where it comes from
    };
    let guard = &gate.shared.guard;
    if gate.scope == Scope::Nobody {
        if let Err(turned_away) = guard.admit_nobody(&parts, peer) {
            return *turned_away;
        }
    } else {
        match guard.admit(&parts, peer, gate.scope).await {
            Ok(caller) => parts.extensions.insert(caller),
            Err(turned_away) => return *turned_away,
        };
    }
    next.run(Request::from_parts(parts, body)).await
}

async fn seal(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(axum::http::header::ORIGIN).cloned();
    let mut response = next.run(request).await;
    shared.guard.seal(origin.as_ref(), &mut response);
    response
}

/// Files of the page beside its assets; everything else is not there.
async fn no_route(request: Request) -> Response {
    if request.method() == axum::http::Method::GET && page::is_file(request.uri().path()) {
        return page::send(request.uri().path().trim_start_matches('/'), request.headers());
    }
    let said = json!({ "error": "there is nothing here; see /api/openapi.json", "code": "not_found" });
    (StatusCode::NOT_FOUND, axum::Json(said)).into_response()
}
