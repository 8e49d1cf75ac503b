//! Vertex AI: the Gemini API at other addresses, authorized by an account's token or, in express mode, by a key.
//!
//! Sources: docs.cloud.google.com, "Gemini API in Vertex AI" and "Application Default Credentials". Reads no
//! environment; contacts no server before the first request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use sysop_core::message::{FailureKind, ModelFailure, ModelRequest};
use sysop_core::model_provider::VERTEX_GLOBAL_URL;

use crate::api::{ErrorAction, Framing, HttpRequest, ModelApi, ModelQuirks, ReplyDecoder};
use crate::gemini::errors::GeminiBackend;
use crate::gemini::{KEY_HEADER, address, decode, encode, errors, method};
use crate::server_text::{failure, has_custom_header, with_custom_headers};
use crate::settings::{SILENCE_MAX, VertexSettings};

mod credentials;
#[cfg(test)]
mod tests;
mod token;

use credentials::GoogleAccount;
use token::AccessToken;

const VERSION: &str = "v1";
/// Location that serves every model.
const GLOBAL: &str = "global";
/// Locations that combine several regions.
const MULTI_REGIONS: [&str; 2] = ["us", "eu"];
/// Header that names the project whose quota and billing are used for requests under a user login.
const QUOTA_HEADER: &str = "x-goog-user-project";
/// Entry of `ModelQuirks::unsupported_params` that is added or removed for each rejected token, so that the quirks
/// change and the request is retried.
const OLD_TOKEN: &str = "an old token";

pub(crate) struct Vertex {
    settings: VertexSettings,
    /// Locked while the account is located or a token is fetched, so that concurrent requests do this only once.
    account: tokio::sync::Mutex<Option<GoogleAccount>>,
    access: Mutex<Option<AccessToken>>,
    /// True if the newest token was refused and no request has succeeded since.
    rejected: AtomicBool,
}

impl Vertex {
    /// Stores the settings; does no I/O.
    pub(crate) fn new(settings: &VertexSettings) -> Self {
        Self {
            settings: settings.clone(),
            account: tokio::sync::Mutex::new(None),
            access: Mutex::new(None),
            rejected: AtomicBool::new(false),
        }
    }

    fn location(&self) -> &str {
        self.settings.location.as_deref().filter(|location| !location.is_empty()).unwrap_or(GLOBAL)
    }

    /// Returns the base URL, which does not include the API version and path.
    pub(crate) fn base_url(&self) -> String {
        if let Some(base) = &self.settings.endpoint.base_url {
            return base.clone();
        }
        match self.location() {
            GLOBAL => VERTEX_GLOBAL_URL.to_owned(),
            _ if self.key().is_some() => VERTEX_GLOBAL_URL.to_owned(),
            location if MULTI_REGIONS.contains(&location) => {
                format!("https://aiplatform.{location}.rep.googleapis.com")
            }
            location => format!("https://{location}-aiplatform.googleapis.com"),
        }
    }

    /// Returns the API key, whose presence selects express mode.
    fn key(&self) -> Option<&SecretString> {
        self.settings.endpoint.api_key.as_ref().filter(|key| !key.expose_secret().is_empty())
    }

    fn needs_token(&self) -> bool {
        self.key().is_none() && !has_custom_header(&self.settings.endpoint, &["authorization", KEY_HEADER])
    }

    fn access(&self) -> Option<AccessToken> {
        let access = self.access.lock();
        access.clone().filter(|access| access.is_valid(Instant::now()))
    }

    fn store_token(&self, access: Option<AccessToken>) {
        *self.access.lock() = access;
    }

    async fn sign_in(&self, http: &reqwest::Client) -> Result<(), ModelFailure> {
        if !self.needs_token() || self.access().is_some() {
            return Ok(());
        }
        let mut account = self.account.lock().await;
        if self.access().is_some() {
            return Ok(()); // another request fetched the token meanwhile
        }
        let found = match account.take() {
            Some(known) => known,
            None => credentials::find(&self.settings.credentials).await?,
        };
        // After a failure the files are read again: the user may have logged in again.
        let access = token::fetch(http, &found).await?;
        *account = Some(found);
        self.store_token(Some(access));
        Ok(())
    }

    fn headers(&self) -> Result<Vec<(String, SecretString)>, ModelFailure> {
        let mut headers = Vec::new();
        if let Some(key) = self.key() {
            headers.push((KEY_HEADER.to_owned(), key.clone()));
        } else if self.needs_token() {
            let access = self
                .access()
                .ok_or_else(|| failure(FailureKind::Auth, "no token for Vertex AI; try again"))?;
            headers.push(("authorization".to_owned(), access.bearer()));
            let quota = access.quota_project.map(|project| (QUOTA_HEADER.to_owned(), project.into()));
            headers.extend(quota);
        }
        Ok(with_custom_headers(headers, &self.settings.endpoint))
    }

    fn url(&self, model: &str) -> Result<String, ModelFailure> {
        let base = self.base_url();
        let method = method(model);
        if self.key().is_some() {
            return address(&base, VERSION, &["publishers", "google", "models", &method]);
        }
        let location = self.location();
        if !location.chars().all(|sign| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '-') {
            return Err(failure(
                FailureKind::BadRequest,
                "invalid location in [providers.vertex]; use a value like `global` or `europe-west4`",
            ));
        }
        let project = self.project()?;
        let path = ["projects", &project, "locations", location, "publishers", "google", "models", &method];
        address(&base, VERSION, &path)
    }

    fn project(&self) -> Result<String, ModelFailure> {
        let own = self.settings.project.clone().filter(|project| !project.is_empty());
        own.or_else(|| self.access().and_then(|access| access.project)).ok_or_else(|| {
            failure(
                FailureKind::BadRequest,
                "the Vertex AI project is unknown; set GOOGLE_CLOUD_PROJECT or `project` in [providers.vertex]",
            )
        })
    }
}

impl ModelApi for Vertex {
    fn prepare<'a>(&'a self, http: &'a reqwest::Client) -> BoxFuture<'a, Result<(), ModelFailure>> {
        Box::pin(self.sign_in(http))
    }

    fn build(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Result<HttpRequest, ModelFailure> {
        Ok(HttpRequest {
            headers: self.headers()?,
            url: self.url(&request.model.name)?,
            body: encode::body(request, quirks),
            framing: Framing::Sse,
            first_byte: self.settings.endpoint.timeout.unwrap_or(SILENCE_MAX),
        })
    }

    fn decoder(&self, request: &ModelRequest, quirks: &ModelQuirks) -> Box<dyn ReplyDecoder> {
        self.rejected.store(false, Ordering::Relaxed);
        Box::new(decode::GeminiDecoder::new(request, quirks, self.key().cloned()))
    }

    fn classify_error(&self, status: u16, body: &str, quirks: &mut ModelQuirks) -> Option<ErrorAction> {
        // A token may be revoked before it expires: one retry uses a new token.
        if status == 401 && self.needs_token() && !self.rejected.swap(true, Ordering::Relaxed) {
            self.store_token(None);
            match quirks.unsupported_params.iter().position(|word| *word == OLD_TOKEN) {
                Some(place) => {
                    quirks.unsupported_params.remove(place);
                }
                None => quirks.unsupported_params.push(OLD_TOKEN),
            }
            return Some(ErrorAction::RetryNow);
        }
        let place = GeminiBackend::Vertex(self.location().to_owned());
        errors::classify_error(status, body, quirks, self.key(), &place)
    }
}
