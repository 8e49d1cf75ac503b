//! Exchanges an account for an access token that is valid for about an hour.
//!
//! Written by hand instead of using a library, for the reasons in `docs/adr/0032`.
//!
//! Sources: developers.google.com/identity/protocols/oauth2/service-account; cloud.google.com/compute/docs/metadata.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::StatusCode;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use sysop_core::message::{FailureKind, ModelFailure};

use super::credentials::{AuthorizedUser, GoogleAccount, ServiceAccountKey, no_credentials};
use crate::server_text::{failure, quote_server_text};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const JWT_GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Lifetime of a signed claim in seconds, which is the maximum allowed.
const CLAIM_SECONDS: u64 = 3_600;
/// Time before expiry at which a token is replaced.
const MARGIN: Duration = Duration::from_secs(240);
/// Minimum lifetime that is assumed for a token, whatever the server reports; `LIFE_MAX` is the maximum.
const LIFE_MIN: Duration = Duration::from_secs(60);
const LIFE_MAX: Duration = Duration::from_secs(24 * 3_600);
const TOKEN_WAIT_MAX: Duration = Duration::from_secs(30);
/// Maximum wait for the metadata server. Short, because outside Google Cloud nothing answers.
const METADATA_WAIT_MAX: Duration = Duration::from_secs(3);
/// Maximum number of attempts to fetch a token if the server fails.
const TRIES: u32 = 3;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(250);
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Header that identifies the metadata server; required in requests and expected in responses.
const FLAVOR: (&str, &str) = ("metadata-flavor", "Google");

#[derive(Clone)]
pub(super) struct AccessToken {
    token: SecretString,
    /// Time after which the token is replaced and no longer used.
    pub(super) renew_at: Instant,
    pub(super) project: Option<String>,
    /// Project that a user's requests are billed to.
    pub(super) quota_project: Option<String>,
}

impl AccessToken {
    /// Returns true if the token is usable at `now`.
    pub(super) fn is_valid(&self, now: Instant) -> bool {
        now < self.renew_at
    }

    pub(super) fn bearer(&self) -> SecretString {
        SecretString::from(format!("Bearer {}", self.token.expose_secret()))
    }
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: SecretString,
    #[serde(default)]
    expires_in: u64,
}

pub(super) async fn fetch(
    http: &reqwest::Client,
    account: &GoogleAccount,
) -> Result<AccessToken, ModelFailure> {
    match account {
        GoogleAccount::ServiceAccount(service) => service_account_token(http, service).await,
        GoogleAccount::AuthorizedUser(user) => user_token(http, user).await,
        GoogleAccount::Machine(host) => metadata_token(host).await,
    }
}

async fn service_account_token(
    http: &reqwest::Client,
    service: &ServiceAccountKey,
) -> Result<AccessToken, ModelFailure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let claim = signed_claim(service, now)?;
    let form = [("grant_type", JWT_GRANT), ("assertion", claim.as_str())];
    let answer = request_token(http, &service.token_uri, &form, &service.private_key).await?;
    Ok(access(answer, service.project_id.clone(), None))
}

async fn user_token(http: &reqwest::Client, user: &AuthorizedUser) -> Result<AccessToken, ModelFailure> {
    let form = [
        ("grant_type", "refresh_token"),
        ("client_id", user.client_id.as_str()),
        ("client_secret", user.client_secret.expose_secret()),
        ("refresh_token", user.refresh_token.expose_secret()),
    ];
    let answer = request_token(http, &user.token_uri, &form, &user.refresh_token).await?;
    Ok(access(answer, user.quota_project_id.clone(), user.quota_project_id.clone()))
}

fn access(answer: TokenResponse, project: Option<String>, quota_project: Option<String>) -> AccessToken {
    let renew_at = valid_until(Instant::now(), Duration::from_secs(answer.expires_in));
    AccessToken { token: answer.access_token, renew_at, project, quota_project }
}

/// Returns the time at which to replace a token that was fetched at `now` and is valid for `life`.
pub(super) fn valid_until(now: Instant, life: Duration) -> Instant {
    let life = life.clamp(LIFE_MIN, LIFE_MAX);
    now + life.saturating_sub(MARGIN.min(life / 2))
}

pub(super) fn signed_claim(service: &ServiceAccountKey, now: u64) -> Result<String, ModelFailure> {
    let header = json!({"alg": "RS256", "typ": "JWT", "kid": service.private_key_id});
    let claims = json!({
        "iss": service.client_email,
        "scope": SCOPE,
        "aud": service.token_uri,
        "iat": now,
        "exp": now + CLAIM_SECONDS,
    });
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let unsigned = format!("{}.{}", encode(&header), encode(&claims));
    let signature = signature(service.private_key.expose_secret(), unsigned.as_bytes()).ok_or_else(|| {
        failure(
            FailureKind::Auth,
            "the private key in the Google key file is invalid; download the key file again",
        )
    })?;
    Ok(format!("{unsigned}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn signature(pem: &str, message: &[u8]) -> Option<Vec<u8>> {
    let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).ok()?;
    let key = any_supported_type(&der).ok()?;
    key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256])?.sign(message).ok()
}

/// Posts a form and parses the token in the response. Retries if the server fails.
async fn request_token(
    http: &reqwest::Client,
    uri: &str,
    form: &[(&str, &str)],
    secret: &SecretString,
) -> Result<TokenResponse, ModelFailure> {
    let mut tries = 1;
    loop {
        let trouble = match http.post(uri).form(form).timeout(TOKEN_WAIT_MAX).send().await {
            Ok(response) => {
                let status = response.status();
                let text = text_of(response).await;
                if status.is_success() {
                    return serde_json::from_str(&text).map_err(|_| no_token());
                }
                if !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS {
                    return Err(credentials_error(status, &text, secret));
                }
                format!("status {status}")
            }
            Err(error) => quote_server_text(&error.without_url().to_string(), None),
        };
        if tries == TRIES {
            let sentence = format!(
                "cannot fetch a Google token ({trouble}, {TRIES} attempts); check the network and try again"
            );
            return Err(failure(FailureKind::Unreachable, sentence));
        }
        tokio::time::sleep(PAUSE * tries).await;
        tries += 1;
    }
}

fn no_token() -> ModelFailure {
    failure(FailureKind::Protocol, "Google's response contains no token; try again")
}

fn credentials_error(status: StatusCode, text: &str, secret: &SecretString) -> ModelFailure {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    let code = quote_server_text(answer["error"].as_str().unwrap_or_default(), Some(secret));
    let said = quote_server_text(answer["error_description"].as_str().unwrap_or_default(), Some(secret));
    let sentence = format!(
        "Google rejected the credentials ({status} {code} {said}); run `gcloud auth application-default login`, or use a \
         new key file"
    );
    failure(FailureKind::Auth, sentence)
}

async fn metadata_token(host: &str) -> Result<AccessToken, ModelFailure> {
    // A proxy would answer for itself: the metadata server is link-local.
    let http = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(METADATA_WAIT_MAX)
        .build()
        .map_err(|_| no_credentials())?;
    let token = format!("instance/service-accounts/default/token?scopes={SCOPE}");
    let text = metadata(&http, host, &token).await?.ok_or_else(no_credentials)?;
    let answer = serde_json::from_str(&text).map_err(|_| no_token())?;
    let project = metadata(&http, host, "project/project-id").await?;
    let project = project.map(|project| project.trim().to_owned()).filter(|project| !project.is_empty());
    Ok(access(answer, project, None))
}

/// Fetches one value from the metadata server. Returns `None` if there is no such server or no such value.
async fn metadata(http: &reqwest::Client, host: &str, path: &str) -> Result<Option<String>, ModelFailure> {
    let url = format!("http://{host}/computeMetadata/v1/{path}");
    let Ok(response) = http.get(url).header(FLAVOR.0, FLAVOR.1).send().await else { return Ok(None) };
    let genuine = response.headers().get(FLAVOR.0).is_some_and(|value| value == FLAVOR.1);
    let status = response.status();
    if !genuine || status == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if !status.is_success() {
        let sentence = format!("the metadata server returned {status}; check this machine's service account");
        return Err(failure(FailureKind::Auth, sentence));
    }
    Ok(Some(text_of(response).await))
}

/// Reads a body up to about [`ANSWER_BYTES_MAX`] bytes.
async fn text_of(mut response: reqwest::Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < ANSWER_BYTES_MAX
        && let Ok(Some(piece)) = response.chunk().await
    {
        bytes.extend_from_slice(&piece);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
