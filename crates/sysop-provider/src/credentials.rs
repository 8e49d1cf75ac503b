//! Google's application default credentials: finds them, trades them for access tokens, renews these in time.
//!
//! The first hit wins: the named file, gcloud's own file, the metadata server
//! (<https://google.aip.dev/auth/4110>). Never writes anything; tokens live in memory only.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue};
use rustls::SignatureScheme;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use serde_json::{Value, json};
use sysop_core::message::{FailureKind, ModelRef};
use tokio::time::Instant;
use url::Url;

use crate::failure::{Place, Problem, classify, excerpt};
use crate::frames::Framing;
use crate::http::{self, Fetched, Http, Outgoing};
use crate::settings::CredentialSources;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const USER_TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

/// How long before its end a token is renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(4 * 60);

/// Life of a signed assertion, in seconds; Google takes no longer one.
const ASSERTION_SECONDS: i64 = 3600;

/// Longest wait for the metadata server: elsewhere its name leads nowhere, slowly.
const METADATA_MAX: Duration = Duration::from_secs(3);

/// Longest silence of a token server.
const TOKEN_SILENCE_MAX: Duration = Duration::from_secs(30);

/// What a request needs.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) token: String,
    /// The project that the credentials belong to.
    pub(crate) project: Option<String>,
    /// The project that pays, where the credentials name one.
    pub(crate) quota_project: Option<String>,
}

/// Keeps one token.
#[derive(Debug)]
pub(crate) struct Credentials {
    sources: CredentialSources,
    /// Held while a token is fetched, so that many calls fetch one.
    kept: tokio::sync::Mutex<Option<(Access, Instant)>>,
    forgotten: std::sync::atomic::AtomicBool,
    secrets: Mutex<Vec<String>>,
}

/// A credential file, as far as it matters here.
#[derive(Deserialize)]
struct CredentialFile {
    #[serde(rename = "type", default)]
    kind: String,
    token_uri: Option<String>,
    client_email: Option<String>,
    private_key: Option<String>,
    private_key_id: Option<String>,
    project_id: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    refresh_token: Option<String>,
    quota_project_id: Option<String>,
}

impl Credentials {
    pub(crate) fn new(sources: CredentialSources) -> Self {
        Self {
            sources,
            kept: tokio::sync::Mutex::new(None),
            forgotten: std::sync::atomic::AtomicBool::new(false),
            secrets: Mutex::default(),
        }
    }

    /// A token that is good for at least some minutes.
    pub(crate) async fn access(&self, http: &Http, model: &ModelRef) -> Result<Access, Problem> {
        let mut kept = self.kept.lock().await;
        let forgotten = self.forgotten.swap(false, std::sync::atomic::Ordering::Relaxed);
        if let Some((access, until)) = kept.as_ref()
            && !forgotten
            && Instant::now() + RENEW_BEFORE < *until
        {
            return Ok(access.clone());
        }
        let asked = Instant::now();
        let (access, life) = self.fetch(http, model).await?;
        *kept = Some((access.clone(), asked + life));
        Ok(access)
    }

    /// Makes the next call fetch a new token.
    pub(crate) fn forget(&self) {
        self.forgotten.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// What must not show up in messages.
    pub(crate) fn secrets(&self) -> Vec<String> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn fetch(&self, http: &Http, model: &ModelRef) -> Result<(Access, Duration), Problem> {
        if let Some(path) = &self.sources.file {
            return self.from_file(http, model, path, read(path).await?).await;
        }
        if let Some(path) = &self.sources.gcloud_file
            && tokio::fs::try_exists(path).await.unwrap_or(false)
        {
            return self.from_file(http, model, path, read(path).await?).await;
        }
        if let Some(host) = &self.sources.metadata_host
            && let Some(found) = self.from_metadata(http, model, host).await?
        {
            return Ok(found);
        }
        Err(Problem::new(
            FailureKind::Auth,
            "there are no Google credentials: run `gcloud auth application-default login`, \
             or set GOOGLE_APPLICATION_CREDENTIALS",
        ))
    }

    async fn from_file(
        &self,
        http: &Http,
        model: &ModelRef,
        path: &Path,
        file: CredentialFile,
    ) -> Result<(Access, Duration), Problem> {
        self.keep_secrets([&file.client_secret, &file.refresh_token, &file.private_key]);
        let incomplete = |what: &str| {
            Problem::new(FailureKind::Auth, format!("{} has no {what}; create it again", path.display()))
        };
        let form: Vec<(&str, String)> = match file.kind.as_str() {
            "service_account" => {
                let uri = file.token_uri.clone().ok_or_else(|| incomplete("token_uri"))?;
                let assertion = assertion(&file, &uri)
                    .map_err(|why| Problem::new(FailureKind::Auth, format!("{}: {why}", path.display())))?;
                let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned();
                vec![("grant_type", grant), ("assertion", assertion)]
            }
            "authorized_user" => vec![
                ("grant_type", "refresh_token".to_owned()),
                ("client_id", file.client_id.clone().ok_or_else(|| incomplete("client_id"))?),
                ("client_secret", file.client_secret.clone().ok_or_else(|| incomplete("client_secret"))?),
                ("refresh_token", file.refresh_token.clone().ok_or_else(|| incomplete("refresh_token"))?),
            ],
            other => {
                let kind = excerpt(other);
                let message = format!(
                    "{} holds credentials of type `{kind}`, which is not supported; \
                     use a service account or `gcloud auth application-default login`",
                    path.display()
                );
                return Err(Problem::new(FailureKind::Auth, message));
            }
        };
        let uri = file.token_uri.as_deref().unwrap_or(USER_TOKEN_URI);
        let answer = self.trade(http, model, uri, &form).await?;
        let (token, life) = self.read_token(&answer, model, uri)?;
        let access = Access {
            token,
            project: file.project_id.or_else(|| file.quota_project_id.clone()),
            quota_project: file.quota_project_id,
        };
        Ok((access, life))
    }

    async fn trade(
        &self,
        http: &Http,
        model: &ModelRef,
        uri: &str,
        form: &[(&str, String)],
    ) -> Result<Value, Problem> {
        let url = Url::parse(uri).ok().filter(|url| url.scheme() == "https" || http::is_loopback(url));
        let Some(url) = url else {
            return Err(Problem::new(
                FailureKind::Auth,
                "the token_uri of the Google credentials is not an https address; create them again",
            ));
        };
        let place = Place { model: model.clone(), host: http::host_of(&url) };
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/x-www-form-urlencoded"));
        let outgoing = small(Method::POST, url, headers, body.into_bytes(), TOKEN_SILENCE_MAX);
        match http.fetch(outgoing, &place).await? {
            Fetched::Answer { value, .. } => Ok(value),
            Fetched::Refused(refusal) if refusal.error.says(&["invalid_grant", "invalid_rapt"]) => {
                Err(Problem::new(
                    FailureKind::Auth,
                    format!(
                        "{place} does not accept the Google credentials any more; run `gcloud auth application-default login`"
                    ),
                ))
            }
            Fetched::Refused(refusal) => Err(classify(&place, &refusal)),
        }
    }

    /// `None` where there is no metadata server, that is, not on Google's machines.
    async fn from_metadata(
        &self,
        http: &Http,
        model: &ModelRef,
        host: &str,
    ) -> Result<Option<(Access, Duration)>, Problem> {
        let base = format!("http://{host}/computeMetadata/v1");
        let place = Place { model: model.clone(), host: host.to_owned() };
        let get = |path: &str| -> Option<Outgoing> {
            let url = Url::parse(&format!("{base}/{path}")).ok()?;
            let mut headers = HeaderMap::new();
            headers.insert("metadata-flavor", HeaderValue::from_static("Google"));
            Some(small(Method::GET, url, headers, Vec::new(), METADATA_MAX))
        };
        let Some(request) = get("instance/service-accounts/default/token") else { return Ok(None) };
        let (value, headers) = match http.fetch(request, &place).await {
            Ok(Fetched::Answer { value, headers }) => (value, headers),
            Ok(Fetched::Refused(refusal)) => return Err(classify(&place, &refusal)),
            Err(_) => return Ok(None),
        };
        // Anyone may answer under that name in a foreign network.
        if headers.get("metadata-flavor").is_none_or(|flavor| flavor != "Google") {
            return Ok(None);
        }
        let (token, life) = self.read_token(&value, model, &base)?;
        let project = match get("project/project-id") {
            Some(request) => http.fetch_text(request, &place).await.ok(),
            None => None,
        };
        Ok(Some((Access { token, project, quota_project: None }, life)))
    }

    fn read_token(&self, answer: &Value, model: &ModelRef, uri: &str) -> Result<(String, Duration), Problem> {
        let host = Url::parse(uri).map_or_else(|_| "the token server".to_owned(), |url| http::host_of(&url));
        let place = Place { model: model.clone(), host };
        let Some(token) = answer.get("access_token").and_then(Value::as_str) else {
            return Err(place.unusable("answered without an access token"));
        };
        let seconds = answer.get("expires_in").and_then(Value::as_u64).unwrap_or_default();
        self.keep_secrets([&Some(token.to_owned())]);
        // A token that never ends is as likely a mistake; a day is plenty.
        Ok((token.to_owned(), Duration::from_secs(seconds.min(86_400))))
    }

    fn keep_secrets<'a>(&self, found: impl IntoIterator<Item = &'a Option<String>>) {
        /// Most secrets kept for striking out: the file's own and the newest tokens.
        const SECRETS_MAX: usize = 8;
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        for secret in found.into_iter().flatten() {
            if !secrets.contains(secret) {
                secrets.push(secret.clone());
            }
        }
        let over = secrets.len().saturating_sub(SECRETS_MAX);
        secrets.drain(..over);
    }
}

async fn read(path: &Path) -> Result<CredentialFile, Problem> {
    let wrong = |why: String| {
        let message = format!(
            "the Google credentials in {} cannot be read: {why}; check GOOGLE_APPLICATION_CREDENTIALS",
            path.display()
        );
        Problem::new(FailureKind::Auth, message)
    };
    let text = tokio::fs::read_to_string(path).await.map_err(|error| wrong(error.to_string()))?;
    // The parser's own words may quote the file.
    serde_json::from_str(&text).map_err(|error| wrong(format!("line {} is not as expected", error.line())))
}

/// A signed JWT (RFC 7523) that says who asks for a token.
fn assertion(file: &CredentialFile, audience: &str) -> Result<String, String> {
    let email = file.client_email.as_deref().ok_or("there is no client_email in it")?;
    let pem = file.private_key.as_deref().ok_or("there is no private_key in it")?;
    let now = jiff::Timestamp::now().as_second();
    let header = json!({"alg": "RS256", "typ": "JWT", "kid": file.private_key_id});
    let claims =
        json!({"iss": email, "scope": SCOPE, "aud": audience, "iat": now, "exp": now + ASSERTION_SECONDS});
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let bad_key = |_| "its private_key is not an RSA key".to_owned();
    let key =
        PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| "its private_key is not in PEM form")?;
    let key: Arc<dyn rustls::sign::SigningKey> =
        rustls::crypto::ring::sign::any_supported_type(&key).map_err(bad_key)?;
    let signer =
        key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]).ok_or("its private_key is not an RSA key")?;
    let signature = signer.sign(signed.as_bytes()).map_err(bad_key)?;
    Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
}

fn small(method: Method, url: Url, headers: HeaderMap, body: Vec<u8>, silence: Duration) -> Outgoing {
    Outgoing {
        method,
        url,
        headers,
        body,
        framing: Framing::NdJson,
        first_byte: silence,
        silence,
        unreachable_hint: "check the network and the proxy settings",
        notice: None,
    }
}
