//! The table of routes. Each entry declares the scope, the documentation and the handler together; a route cannot exist
//! without all three.

mod assets;
mod body;
mod catalog;
mod chat;
mod gemini;
mod health;
mod log_in;
mod openapi;
pub(crate) mod problem;
#[cfg(test)]
mod scope_table;
mod sessions;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use serde_json::json;

pub(crate) use self::chat::Chats;
use self::openapi::{ResponseKind, RouteBody, RouteDoc};
use crate::authenticator::Scope;
use crate::{Peer, ServerInner, socket, sse};

pub(crate) type SharedServer = Arc<ServerInner>;

struct Route {
    method: &'static str,
    path: &'static str,
    scope: Scope,
    doc: RouteDoc,
    handler: MethodRouter<SharedServer>,
}

const SESSIONS: &str = "/api/agent/sessions";
const SESSION: &str = "/api/agent/sessions/{id}";

#[expect(clippy::too_many_lines, reason = "a table")]
fn routes() -> Vec<Route> {
    let mut routes = vec![
        at(
            "get",
            "/healthz",
            Scope::Public,
            RouteDoc::of("Report that the server is running", ResponseKind::Status),
            get(health::alive),
        ),
        at(
            "get",
            "/readyz",
            Scope::Public,
            RouteDoc::of("Report that the server accepts work", ResponseKind::Ready),
            get(health::ready),
        ),
        at(
            "get",
            "/metrics",
            Scope::Read,
            RouteDoc::of("Get metrics for Prometheus", ResponseKind::Metrics),
            get(health::metrics),
        ),
        at("get", "/", Scope::Read, RouteDoc::of("The page", ResponseKind::Page), get(assets::index)),
        at(
            "get",
            "/assets/{name}",
            Scope::Read,
            RouteDoc::of("Get a file of the web page", ResponseKind::Asset),
            get(assets::asset),
        ),
        at(
            "get",
            "/api/openapi.json",
            Scope::Read,
            RouteDoc::of("This description", ResponseKind::Description),
            get(openapi::description),
        ),
        at(
            "post",
            SESSIONS,
            Scope::Operate,
            RouteDoc::of("Create a session", ResponseKind::Made).with_body(RouteBody::NewSession),
            post(sessions::create),
        ),
        at(
            "get",
            SESSIONS,
            Scope::Read,
            RouteDoc::of("List sessions, most recently changed first", ResponseKind::List)
                .with_query(&["limit", "search"]),
            get(sessions::list),
        ),
        at(
            "get",
            SESSION,
            Scope::Read,
            RouteDoc::of("Show a session's configuration and state", ResponseKind::Session),
            get(sessions::show),
        ),
        at(
            "delete",
            SESSION,
            Scope::Operate,
            RouteDoc::of("Delete a session and its data", ResponseKind::Gone),
            delete(sessions::delete),
        ),
        at(
            "get",
            "/api/agent/sessions/{id}/stream",
            Scope::Read,
            RouteDoc::of("Open the session's WebSocket", ResponseKind::Socket),
            get(socket::open),
        ),
        at(
            "get",
            "/api/agent/sessions/{id}/events",
            Scope::Read,
            RouteDoc::of("Stream the session's messages as server-sent events", ResponseKind::Events)
                .with_query(&[
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
            RouteDoc::of("Get the full output of a call", ResponseKind::Artifact),
            get(sessions::artifact),
        ),
        at(
            "post",
            "/api/agent/sessions/{id}/fork",
            Scope::Operate,
            RouteDoc::of("Create a session from this session's log before a prompt", ResponseKind::Made)
                .with_body(RouteBody::Fork),
            post(catalog::fork),
        ),
        at(
            "get",
            "/api/agent/sessions/{id}/paths",
            Scope::Read,
            RouteDoc::of("List paths below the session's root that contain a word", ResponseKind::Paths)
                .with_query(&["word", "limit"]),
            get(catalog::paths),
        ),
        at(
            "get",
            "/api/hosts",
            Scope::Read,
            RouteDoc::of("List the named hosts", ResponseKind::Hosts),
            get(catalog::hosts),
        ),
        at(
            "get",
            "/api/models",
            Scope::Read,
            RouteDoc::of("List the available models, the configured one first", ResponseKind::Models),
            get(catalog::models),
        ),
        at(
            "post",
            "/chat",
            Scope::Operate,
            RouteDoc::of("Send a message and stream the answer", ResponseKind::Chat)
                .with_body(RouteBody::Chat),
            post(chat::chat),
        ),
        at(
            "post",
            "/login",
            Scope::Public,
            RouteDoc::of("Exchange a token for a browser cookie", ResponseKind::LoggedIn)
                .with_body(RouteBody::LogIn),
            post(log_in::log_in),
        ),
        at(
            "post",
            "/clear",
            Scope::Operate,
            RouteDoc::of("Clear the chat history", ResponseKind::Status),
            post(chat::clear),
        ),
        at(
            "post",
            "/api/gemini/agent",
            Scope::Operate,
            RouteDoc::of("Run one step of an agent with client tools", ResponseKind::Parts)
                .with_body(RouteBody::GeminiAgent),
            post(gemini::agent),
        ),
        at(
            "post",
            "/api/gemini/chat",
            Scope::Operate,
            RouteDoc::of("Get one chat answer", ResponseKind::Reply).with_body(RouteBody::GeminiChat),
            post(gemini::chat),
        ),
    ];
    routes.extend(message_routes());
    routes
}

/// Routes that carry the messages of clients without a WebSocket.
#[expect(clippy::too_many_lines, reason = "a table")]
fn message_routes() -> Vec<Route> {
    let message_routes =
        |path: &'static str, what: &'static str, kind: &'static str, handler: MethodRouter<SharedServer>| {
            let decides = matches!(kind, "approval.decision" | "question.answer" | "configure");
            at(
                "post",
                path,
                if decides { Scope::Answer } else { Scope::Operate },
                RouteDoc::of(what, ResponseKind::Accepted).with_body(RouteBody::Message(kind)),
                handler,
            )
        };
    vec![
        message_routes(
            "/api/agent/sessions/{id}/messages",
            "Say something",
            "user.message",
            post(sessions::message),
        ),
        message_routes(
            "/api/agent/sessions/{id}/tool-results",
            "Send the result of a call that this client ran",
            "tool.result",
            post(sessions::tool_result),
        ),
        message_routes(
            "/api/agent/sessions/{id}/tool-outputs",
            "Send more output of a call that this client runs",
            "tool.output",
            post(sessions::tool_output),
        ),
        message_routes(
            "/api/agent/sessions/{id}/decisions",
            "Answer an approval",
            "approval.decision",
            post(sessions::decision),
        ),
        message_routes(
            "/api/agent/sessions/{id}/questions",
            "Answer a program's prompt",
            "question.answer",
            post(sessions::question),
        ),
        message_routes(
            "/api/agent/sessions/{id}/direct",
            "Run one tool call without a model",
            "direct",
            post(sessions::direct),
        ),
        message_routes(
            "/api/agent/sessions/{id}/configure",
            "Change the session's configuration",
            "configure",
            post(sessions::configure),
        ),
        message_routes("/api/agent/sessions/{id}/cancel", "Stop the turn", "cancel", post(sessions::cancel)),
        message_routes(
            "/api/agent/sessions/{id}/pause",
            "Stop after the current step",
            "pause",
            post(sessions::pause),
        ),
        message_routes("/api/agent/sessions/{id}/resume", "Go on", "resume", post(sessions::resume)),
        message_routes(
            "/api/agent/sessions/{id}/retry",
            "Retry the last prompt with an empty history",
            "retry",
            post(sessions::retry),
        ),
        message_routes("/api/agent/sessions/{id}/clear", "Clear the history", "clear", post(sessions::clear)),
        message_routes(
            "/api/agent/sessions/{id}/terminal/input",
            "Type into the live terminal",
            "terminal.input",
            post(sessions::terminal_input),
        ),
        message_routes(
            "/api/agent/sessions/{id}/terminal/resize",
            "Resize the live terminal",
            "terminal.resize",
            post(sessions::terminal_resize),
        ),
        message_routes(
            "/api/agent/sessions/{id}/terminal/release",
            "Return the live terminal to the agent",
            "terminal.release",
            post(sessions::terminal_release),
        ),
    ]
}

fn at(
    method: &'static str,
    path: &'static str,
    scope: Scope,
    doc: RouteDoc,
    handler: MethodRouter<SharedServer>,
) -> Route {
    Route { method, path, scope, doc, handler }
}

/// Builds the router from the table; authentication wraps every route.
pub(crate) fn router(shared: &SharedServer) -> Router {
    let mut router = Router::new();
    for Route { path, scope, handler, .. } in routes() {
        let route_auth = RouteAuth { shared: Arc::clone(shared), scope, path };
        router = router.route(path, handler.layer(from_fn_with_state(route_auth, admit)));
    }
    let route_auth = RouteAuth { shared: Arc::clone(shared), scope: Scope::Read, path: "" };
    router
        .fallback_service(Router::new().fallback(no_route).layer(from_fn_with_state(route_auth, admit)))
        .layer(from_fn_with_state(Arc::clone(shared), add_response_headers))
        .with_state(Arc::clone(shared))
}

#[derive(Clone)]
struct RouteAuth {
    shared: SharedServer,
    scope: Scope,
    path: &'static str,
}

/// Authenticates a request, then counts and logs it without its query, which may contain a token.
async fn admit(State(route_auth): State<RouteAuth>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let response = authenticate_request(&route_auth, request, next).await;
    let (status, took) = (response.status().as_u16(), began.elapsed());
    route_auth.shared.metrics.request(known_method(&method), route_auth.path, status, took);
    tracing::debug!(%method, route = route_auth.path, status, duration_ms = took.as_millis() as u64, "request");
    response
}

/// Limits the method label of metrics to known values.
fn known_method(method: &axum::http::Method) -> &str {
    match method.as_str() {
        known @ ("GET" | "HEAD" | "POST" | "DELETE") => known,
        _ => "other",
    }
}

async fn authenticate_request(route_auth: &RouteAuth, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<Peer>>().copied() else {
        return StatusCode::FORBIDDEN.into_response(); // without a peer address there is nothing to check
    };
    let authenticator = &route_auth.shared.authenticator;
    if route_auth.scope == Scope::Public {
        if let Err(turned_away) = authenticator.admit_public(&parts, peer) {
            return *turned_away;
        }
    } else {
        match authenticator.admit(&parts, peer, route_auth.scope).await {
            Ok(caller) => parts.extensions.insert(caller),
            Err(turned_away) => return *turned_away,
        };
    }
    next.run(Request::from_parts(parts, body)).await
}

async fn add_response_headers(State(shared): State<SharedServer>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(axum::http::header::ORIGIN).cloned();
    let mut response = next.run(request).await;
    shared.authenticator.add_response_headers(origin.as_ref(), &mut response);
    response
}

/// Serves the page's files outside `assets/`; everything else is 404.
async fn no_route(request: Request) -> Response {
    if request.method() == axum::http::Method::GET && assets::is_file(request.uri().path()) {
        return assets::send(request.uri().path().trim_start_matches('/'), request.headers());
    }
    let said = json!({ "error": "no such endpoint; see /api/openapi.json", "code": "not_found" });
    (StatusCode::NOT_FOUND, axum::Json(said)).into_response()
}
