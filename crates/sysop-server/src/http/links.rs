//! Links that open the page in another browser, and the caller's own name and scopes with facts about the server.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use sysop_core::id::Timestamp;
use sysop_core::message::ModelRef;
use sysop_core::policy::ApprovalMode;
use sysop_driver::tokens::Scopes;

use super::SharedServer;
use super::body::Object;
use crate::authenticator::Caller;
use crate::backend::ServerFacts;

#[derive(Serialize, JsonSchema)]
pub(super) struct Me {
    name: String,
    operate: bool,
    decide: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<ServerInfo>,
}

/// The server's machine, and the properties of a session for which nothing is chosen.
#[derive(Serialize, JsonSchema)]
struct ServerInfo {
    /// Name of the machine that the server runs on.
    machine: String,
    /// Host of a new session; `local` is the server's machine.
    host: String,
    /// Root of a new session.
    root: String,
    model: ModelRef,
    approve: ApprovalMode,
}

/// `GET /api/me`.
pub(super) async fn me(State(shared): State<SharedServer>, Extension(caller): Extension<Caller>) -> Json<Me> {
    let Scopes { operate, decide } = caller.scopes;
    let server = shared.registry.backend.facts().map(|facts| {
        let ServerFacts { machine, host, root, model, approve } = facts;
        ServerInfo { machine, host, root, model, approve }
    });
    Json(Me { name: caller.name, operate, decide, server })
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Access {
    /// The other browser only watches.
    Read,
    /// The other browser has the caller's scopes.
    Same,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewLink {
    access: Access,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct CreatedLink {
    /// Path and query to append to the server's base URL. Valid for one visit.
    path: String,
    /// Time until which the link must be opened.
    expires: Timestamp,
}

/// `POST /api/links`.
pub(super) async fn create(
    State(shared): State<SharedServer>,
    Extension(caller): Extension<Caller>,
    body: Object,
) -> Response {
    let NewLink { access } = match body.read() {
        Ok(new) => new,
        Err(response) => return *response,
    };
    let scopes = match access {
        Access::Read => Scopes::READ,
        Access::Same => caller.scopes,
    };
    match shared.authenticator.link(&caller, scopes).await {
        Ok(link) => {
            let path = format!("/?token={}", link.token.expose_secret());
            (StatusCode::CREATED, Json(CreatedLink { path, expires: link.expires })).into_response()
        }
        Err(refused) => *refused,
    }
}
