//! All routes, in one table: what a route needs of its callers stands beside it, and a route without that is none.

mod health;
mod log_in;

use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use serde_json::json;

use crate::guard::Scope;
use crate::{Inner, Peer};

/// What handlers share.
pub(crate) type Shared = Arc<Inner>;

/// One route.
struct Route {
    path: &'static str,
    scope: Scope,
    handler: MethodRouter<Shared>,
}

fn route(path: &'static str, scope: Scope, handler: MethodRouter<Shared>) -> Route {
    Route { path, scope, handler }
}

fn routes() -> Vec<Route> {
    vec![
        route("/healthz", Scope::Nobody, get(health::alive)),
        route("/readyz", Scope::Nobody, get(health::ready)),
        route("/login", Scope::Nobody, post(log_in::log_in)),
    ]
}

/// The router of a server.
pub(crate) fn router(shared: &Shared) -> Router {
    let mut router = Router::new();
    for Route { path, scope, handler } in routes() {
        let gate = Gate { shared: Arc::clone(shared), scope };
        router = router.route(path, handler.layer(from_fn_with_state(gate, admit)));
    }
    let gate = Gate { shared: Arc::clone(shared), scope: Scope::Read };
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
}

/// Lets a request in, or not.
async fn admit(State(gate): State<Gate>, request: Request, next: Next) -> Response {
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

async fn no_route() -> Response {
    let said = json!({ "error": "there is nothing here; see /api/openapi.json", "code": "not_found" });
    (StatusCode::NOT_FOUND, axum::Json(said)).into_response()
}
