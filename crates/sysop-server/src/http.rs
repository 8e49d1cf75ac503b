//! The table of routes. Each entry declares the scope, the documentation and the handler together; a route cannot exist
//! without all three.

mod approvals;
mod assets;
mod body;
mod catalog;
mod chat;
mod gemini;
mod health;
mod links;
mod log_in;
mod openapi;
pub(crate) mod problem;
mod redacted_artifact;
#[cfg(test)]
mod scope_table;
mod sessions;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{ConnectInfo, Extension, Path, Request, State};
use axum::handler::Handler;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{self, MethodRouter};
use schemars::JsonSchema;
use serde_json::{Map, Value};
use sysop_wire::PromptImage;

pub use self::assets::has_page;
use self::body::Object;
pub(crate) use self::chat::Chats;
use self::openapi::{Content, RouteDoc, bytes, form, json, nothing, text};
use self::problem::Problem;
use crate::authenticator::Caller;
use crate::authenticator::Scope::{self, Operate, Public, Read};
use crate::{Peer, ServerInner, socket, sse};

pub(crate) type SharedServer = Arc<ServerInner>;

struct Route {
    method: &'static str,
    path: &'static str,
    scope: Scope,
    doc: RouteDoc,
    handler: MethodRouter<SharedServer>,
}

/// Expands to the path of a session, followed by a literal such as `/events`, or by nothing.
macro_rules! session {
    ($below:literal) => {
        concat!("/api/agent/sessions/{id}", $below)
    };
}

fn routes() -> Vec<Route> {
    [page_routes(), session_routes(), message_routes(), chat_routes()].into_iter().flatten().collect()
}

/// Routes for health probes and metrics, for the web page, and for data that belongs to no session.
fn page_routes() -> Vec<Route> {
    let assets = &["text/javascript", "text/css", "image/svg+xml", "font/woff2"];
    vec![
        get("/healthz", Public, health::alive, "Report that the server is running")
            .ok("Healthy", json::<health::OkStatus>()),
        get("/readyz", Public, health::ready, "Report that the server accepts work")
            .ok("Ready", json::<health::Readiness>())
            .response("503", "Not ready; `missing` is the reason", json::<health::Unreadiness>()),
        get("/metrics", Read, health::metrics, "Get metrics for Prometheus")
            .ok("OpenMetrics", text(&["application/openmetrics-text"])),
        get("/", Read, assets::index, "Get the web page").ok("HTML", text(&["text/html"])),
        get("/assets/{name}", Read, assets::asset, "Get a file of the web page")
            .ok("The file", bytes(assets)),
        get("/api/openapi.json", Read, openapi::description, "Get this API description")
            .ok("OpenAPI 3.1", json::<Map<String, Value>>()),
        get("/api/me", Read, links::me, "Show the caller's name and scopes, and the server's defaults").ok(
            "The caller, and the properties of a session for which nothing is chosen",
            json::<links::Me>(),
        ),
        post(
            "/api/links",
            Operate,
            links::create,
            "Create a link that opens the page once in another browser",
        )
        .body(json::<links::NewLink>())
        .response("201", "Created", json::<links::CreatedLink>()),
        get("/api/hosts", Read, catalog::hosts, "List the named hosts")
            .ok("The hosts", json::<catalog::HostList>()),
        get("/api/approvals", Read, approvals::list, "List the approvals that wait for an answer")
            .ok("The approvals, oldest first", json::<approvals::ApprovalList>()),
        get("/api/models", Read, catalog::models, "List the available models, the configured one first")
            .ok("The models", json::<catalog::ModelList>()),
        post("/login", Public, log_in::log_in, "Exchange a token for a browser cookie")
            .body(form::<log_in::LogInForm>())
            .response("303", "Redirects to the page with the cookie", nothing()),
        get("/login", Public, log_in::to_page, "Go to the page, which shows the login form if it is needed")
            .response("303", "Redirects to the page", nothing()),
        get("/login.js", Public, log_in::script, "Get the script of the login form")
            .ok("The script", text(&["text/javascript"])),
        // Its own checks need the cookie; a page that only watches can be signed out as well.
        post("/api/logout", Public, log_in::log_out, "Sign out the browser whose cookie the request has")
            .response("204", "Signed out; the cookie is cleared", nothing()),
    ]
}

fn session_routes() -> Vec<Route> {
    vec![
        post("/api/agent/sessions", Operate, sessions::create, "Create a session")
            .body(json::<sessions::NewSession>())
            .response("201", "Stored", json::<sessions::Created>()),
        get("/api/agent/sessions", Read, sessions::list, "List sessions, most recently changed first")
            .query::<sessions::ListQuery>()
            .ok("The sessions", json::<sessions::SessionList>()),
        get(session!(""), Read, sessions::show, "Show a session's configuration and state")
            .ok("The session as in `session.created`, with its `state`", json::<sessions::SessionDetails>()),
        delete(session!(""), Operate, sessions::delete, "Delete a session and its data").response(
            "204",
            "Deleted",
            nothing(),
        ),
        post(session!("/label"), Operate, sessions::label, "Rename or pin a session")
            .body(json::<sessions::Label>())
            .response("204", "Changed", nothing()),
        get(session!("/stream"), Read, socket::open, "Open the session's WebSocket")
            .response("101", "A WebSocket that carries `ClientMessage` and `ServerMessage`", nothing())
            .response("400", "Invalid request", json::<Problem>())
            .response("426", "A WebSocket upgrade is required", json::<Problem>()),
        get(session!("/events"), Read, sse::events, "Stream the session's messages as server-sent events")
            .query::<sse::EventsQuery>()
            .header("Last-Event-ID", "Last event that the client received")
            .ok("One `ServerMessage` per event; its `id` is a resume point", text(&["text/event-stream"])),
        get(session!("/artefacts/{name}"), Read, sessions::artifact, "Get the full output of a call")
            .ok("The output", bytes(&["application/octet-stream"]))
            .response("422", "Invalid artifact name", json::<Problem>()),
        post(session!("/images"), Operate, sessions::store_image, "Store an image for a prompt")
            .query::<sessions::ImageQuery>()
            .body(bytes(&["image/png", "image/jpeg", "image/gif", "image/webp"]))
            .response("201", "Stored; pass it in `images` of `user.message`", json::<PromptImage>())
            .response("413", "The image has more than 5 MB", json::<Problem>())
            .response("415", "The content type is not an image type", json::<Problem>())
            .response("422", "The image is not accepted", json::<Problem>()),
        post(
            session!("/fork"),
            Operate,
            catalog::fork,
            "Create a session from this session's log before a prompt",
        )
        .body(json::<catalog::ForkRequest>())
        .response("201", "Stored", json::<sessions::Created>()),
        get(
            session!("/paths"),
            Operate,
            catalog::paths,
            "List paths below the session's root that contain a word",
        )
        .query::<catalog::PathsQuery>()
        .ok("The paths; directories end with `/`", json::<catalog::PathList>()),
        get(
            session!("/skills"),
            Read,
            catalog::skills,
            "List the skills and custom commands that a prompt can name",
        )
        .ok("The skills and commands, without their content", json::<catalog::SkillList>()),
        post(
            session!("/undo"),
            Operate,
            sessions::undo,
            "Undo what a tool call changed; its plan needs approval",
        )
        .body(json::<sessions::UndoRequest>())
        .response("202", "Accepted, or ignored because a turn runs", json::<sessions::Receipt>()),
    ]
}

/// Routes that carry messages from clients without a WebSocket.
fn message_routes() -> Vec<Route> {
    vec![
        message(session!("/messages"), "user.message", "Send a prompt"),
        message(session!("/messages/withdraw"), "prompt.withdraw", "Take back a queued prompt"),
        message(session!("/tool-results"), "tool.result", "Send the result of a call that this client ran"),
        message(session!("/tool-outputs"), "tool.output", "Send more output of a call that this client runs"),
        message(session!("/decisions"), "approval.decision", "Answer an approval"),
        message(session!("/previews"), "approval.preview", "Ask for the preview of an edited command"),
        message(session!("/questions"), "question.answer", "Answer a program's question"),
        message(session!("/direct"), "direct", "Run one tool call without a model"),
        message(session!("/configure"), "configure", "Change the session's configuration"),
        message(session!("/cancel"), "cancel", "Stop the turn"),
        message(session!("/pause"), "pause", "Stop after the current step"),
        message(session!("/resume"), "resume", "Resume after a pause"),
        message(session!("/retry"), "retry", "Retry the last prompt with an empty history"),
        message(session!("/clear"), "clear", "Clear the history"),
        message(session!("/compact"), "compact", "Replace older messages with a summary"),
        message(session!("/background"), "tool.background", "Move the running command to the background"),
        message(session!("/jobs/stop"), "job.stop", "Stop a background job"),
        message(session!("/terminal/input"), "terminal.input", "Type into the live terminal"),
        message(session!("/terminal/resize"), "terminal.resize", "Resize the live terminal"),
        message(session!("/terminal/release"), "terminal.release", "Return the live terminal to the agent"),
    ]
}

/// Routes for lsimons-agent's web chat and for juni-cli.
fn chat_routes() -> Vec<Route> {
    let events = "Events `text {content}`, `tool {name, input}`, `approval`, `error`, and finally `done`";
    vec![
        post("/chat", Operate, chat::chat, "Send a message and stream the answer")
            .body(json::<chat::WebChatRequest>())
            .ok(events, text(&["text/event-stream"])),
        post("/clear", Operate, chat::clear, "Clear the chat history")
            .ok("Cleared", json::<health::OkStatus>()),
        post("/api/gemini/agent", Operate, gemini::agent, "Run one step of an agent with client tools")
            .body(json::<gemini::GeminiAgentRequest>())
            .ok("In Gemini's format", json::<gemini::AgentReply>())
            .response("502", "The model did not respond", json::<Problem>()),
        post("/api/gemini/chat", Operate, gemini::chat, "Get one chat answer")
            .body(json::<gemini::GeminiChatRequest>())
            .ok("The answer", json::<gemini::ChatReply>())
            .response("502", "The model did not respond", json::<Problem>()),
    ]
}

fn get<H, T>(path: &'static str, scope: Scope, handler: H, summary: &'static str) -> Route
where
    H: Handler<T, SharedServer>,
    T: 'static,
{
    Route { method: "get", path, scope, doc: RouteDoc::new(summary), handler: routing::get(handler) }
}

fn post<H, T>(path: &'static str, scope: Scope, handler: H, summary: &'static str) -> Route
where
    H: Handler<T, SharedServer>,
    T: 'static,
{
    Route { method: "post", path, scope, doc: RouteDoc::new(summary), handler: routing::post(handler) }
}

fn delete<H, T>(path: &'static str, scope: Scope, handler: H, summary: &'static str) -> Route
where
    H: Handler<T, SharedServer>,
    T: 'static,
{
    Route { method: "delete", path, scope, doc: RouteDoc::new(summary), handler: routing::delete(handler) }
}

/// A route whose body is a client message of this type, without its `type` field.
fn message(path: &'static str, kind: &'static str, summary: &'static str) -> Route {
    let decides = matches!(kind, "approval.decision" | "approval.preview" | "question.answer" | "configure");
    let scope = if decides { Scope::Answer } else { Operate };
    let handler =
        move |state: State<SharedServer>,
              id: Path<String>,
              caller: Extension<Caller>,
              headers: HeaderMap,
              body: Object| { sessions::post_message(state, id, caller, headers, body, kind) };
    post(path, scope, handler, summary).body(Content::message(kind)).response(
        "202",
        "Accepted; the session's messages report the result",
        json::<sessions::Receipt>(),
    )
}

impl Route {
    fn body(mut self, body: Content) -> Self {
        self.doc.body = Some(body);
        self
    }

    /// Documents the query parameters, which are the fields of `Q`.
    fn query<Q: JsonSchema>(mut self) -> Self {
        self.doc.query = Some(Q::json_schema);
        self
    }

    /// Documents a request header whose value is a number.
    fn header(mut self, name: &'static str, description: &'static str) -> Self {
        self.doc.header = Some((name, description));
        self
    }

    fn ok(self, description: &'static str, content: Content) -> Self {
        self.response("200", description, content)
    }

    fn response(mut self, status: &'static str, description: &'static str, content: Content) -> Self {
        self.doc.responses.push((status, description, content));
        self
    }
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

/// Page for a path of the guide that does not exist.
const NO_GUIDE_PAGE: &str = include_str!("http/no-guide-page.html");

/// Serves the page's files outside `assets/` and the guide, and answers every other request with 404.
async fn no_route(request: Request) -> Response {
    let path = request.uri().path();
    if request.method() == axum::http::Method::GET {
        if let Some(file) = assets::file(path, request.headers()) {
            return file;
        }
        if path.starts_with("/help/") {
            return (StatusCode::NOT_FOUND, axum::response::Html(NO_GUIDE_PAGE)).into_response();
        }
    }
    let said = serde_json::json!({ "error": "no such endpoint; see /api/openapi.json", "code": "not_found" });
    (StatusCode::NOT_FOUND, axum::Json(said)).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::{StatusCode, header};

    use super::no_route;

    #[tokio::test]
    async fn an_unknown_page_of_the_guide_links_its_start() {
        for (path, kind) in
            [("/help/no-such.html", "text/html; charset=utf-8"), ("/api/no-such", "application/json")]
        {
            let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
            let response = no_route(request).await;
            assert_eq!(response.status(), StatusCode::NOT_FOUND);
            assert_eq!(response.headers()[header::CONTENT_TYPE], kind);
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("it is whole");
            let text = String::from_utf8(body.to_vec()).expect("UTF-8");
            assert_eq!(text.contains("href=\"/help/\""), path.starts_with("/help/"), "{text}");
        }
    }
}
