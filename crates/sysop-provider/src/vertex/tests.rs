//! Addresses, accounts and tokens, against a fake token server on this machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use sysop_core::message::{FailureKind, HistoryMessage, Message, ModelFailure, ModelRef, ModelRequest};
use sysop_core::mode::{Mode, SamplingDefaults};
use tempfile::TempDir;

use super::Vertex;
use super::token::valid_until;
use crate::api::{ErrorAction, ModelApi as _, ModelQuirks};
use crate::settings::{Endpoint, GoogleCredentialSources, MetadataServer, VertexSettings};

const KEY_PEM: &str = include_str!("../../tests/fixtures/throw_away_test_key.pem");
const PUBLIC_KEY: &[u8] = include_bytes!("../../tests/fixtures/throw_away_test_key.public.der");
const REFRESH_TOKEN: &str = "1//refresh-canary";
const TOKEN: &str = "ya29.canary";
const TAIL: &str = "publishers/google/models/gemini-3.8-flash:streamGenerateContent?alt=sse";

#[derive(Debug, Clone)]
struct Received {
    path: String,
    flavor: bool,
    form: Vec<(String, String)>,
}

impl Received {
    fn field(&self, name: &str) -> &str {
        let found = self.form.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

/// Fakes Google's token and metadata servers; the first responses can be scripted.
#[derive(Clone, Default)]
struct Fake {
    received: Arc<Mutex<Vec<Received>>>,
    scripted: Arc<Mutex<Vec<(u16, Value)>>>,
    plain: bool,
}

impl Fake {
    fn scripted(answers: &[(u16, Value)]) -> Self {
        let answers: Vec<_> = answers.iter().rev().cloned().collect();
        Self { scripted: Arc::new(Mutex::new(answers)), ..Self::default() }
    }

    /// Starts serving; returns host and port.
    async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let app = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        host
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().clone()
    }
}

async fn answer(State(fake): State<Fake>, request: Request) -> Response {
    let path = request.uri().to_string();
    let flavor = request.headers().get("metadata-flavor").is_some_and(|value| value == "Google");
    let body = axum::body::to_bytes(request.into_body(), 65_536).await.unwrap();
    let form = url::form_urlencoded::parse(&body).into_owned().collect();
    fake.received.lock().push(Received { path: path.clone(), flavor, form });
    if let Some((status, body)) = fake.scripted.lock().pop() {
        return (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response();
    }
    let body = if path.ends_with("/project/project-id") {
        "machine-project".to_owned()
    } else {
        json!({"access_token": TOKEN, "expires_in": 3_600, "token_type": "Bearer"}).to_string()
    };
    if fake.plain { body.into_response() } else { ([("metadata-flavor", "Google")], body).into_response() }
}

fn http() -> reqwest::Client {
    // Fails only if another test installed it first.
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn request() -> ModelRequest {
    ModelRequest {
        model: ModelRef::new("vertex", "gemini-3.8-flash"),
        system: Arc::from("Be brief."),
        messages: vec![HistoryMessage::new(Message::user("hi"))],
        trimmed: false,
        tools: Arc::from([]),
        known_tools: Arc::from([]),
        max_output_tokens: None,
        temperature: None,
        mode: Mode::Agent,
        effort: None,
        calls_as_text: false,
        must_call: false,
        text_system: None,
        sampling_defaults: SamplingDefaults::default(),
        images: Default::default(),
    }
}

fn service_file(host: &str) -> Value {
    json!({
        "type": "service_account", "project_id": "service-project", "private_key_id": "kid-1",
        "private_key": KEY_PEM, "client_email": "sysop@service-project.iam.gserviceaccount.com",
        "token_uri": format!("http://{host}/token"),
    })
}

fn user_file(host: &str) -> Value {
    json!({
        "type": "authorized_user", "client_id": "id-1", "client_secret": "secret-canary",
        "refresh_token": REFRESH_TOKEN, "quota_project_id": "quota-project",
        "token_uri": format!("http://{host}/token"),
    })
}

/// Returns settings with this credentials file, and the directory that holds it.
fn with_file(content: &Value) -> (TempDir, VertexSettings) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("credentials.json");
    std::fs::write(&file, content.to_string()).unwrap();
    (folder, settings(Some(file), None, MetadataServer::Off))
}

fn settings(file: Option<PathBuf>, gcloud_file: Option<PathBuf>, metadata: MetadataServer) -> VertexSettings {
    let credentials = GoogleCredentialSources { file, gcloud_file, metadata };
    VertexSettings { credentials, ..VertexSettings::default() }
}

async fn failed(settings: &VertexSettings) -> ModelFailure {
    Vertex::new(settings).prepare(&http()).await.unwrap_err()
}

fn headers(vertex: &Vertex) -> Vec<(String, String)> {
    let built = vertex.build(&request(), &ModelQuirks::default()).unwrap();
    built.headers.into_iter().map(|(name, value)| (name, value.expose_secret().to_owned())).collect()
}

fn bearer() -> (String, String) {
    ("authorization".to_owned(), format!("Bearer {TOKEN}"))
}

#[test]
fn the_host_follows_the_location() {
    let gateway = Endpoint {
        headers: vec![("Authorization".to_owned(), SecretString::from("Bearer own"))],
        ..Endpoint::default()
    };
    for (location, host) in [
        (None, "https://aiplatform.googleapis.com"),
        (Some("global"), "https://aiplatform.googleapis.com"),
        (Some("eu"), "https://aiplatform.eu.rep.googleapis.com"),
        (Some("us"), "https://aiplatform.us.rep.googleapis.com"),
        (Some("europe-west4"), "https://europe-west4-aiplatform.googleapis.com"),
    ] {
        let settings = VertexSettings {
            endpoint: gateway.clone(),
            project: Some("p1".to_owned()),
            location: location.map(str::to_owned),
            ..VertexSettings::default()
        };
        let url = Vertex::new(&settings).build(&request(), &ModelQuirks::default()).unwrap().url;
        let place = location.unwrap_or("global");
        assert_eq!(url, format!("{host}/v1/projects/p1/locations/{place}/{TAIL}"));
    }
}

#[test]
fn a_location_cannot_name_another_host() {
    let settings = VertexSettings {
        endpoint: Endpoint {
            headers: vec![("authorization".to_owned(), SecretString::from("Bearer own"))],
            ..Endpoint::default()
        },
        project: Some("p1".to_owned()),
        location: Some("evil.example/#".to_owned()),
        ..VertexSettings::default()
    };
    let failure = Vertex::new(&settings).build(&request(), &ModelQuirks::default()).err().unwrap();
    assert_eq!(failure.kind, FailureKind::BadRequest);
}

#[tokio::test]
async fn a_key_means_express_mode_without_project_and_token() {
    let endpoint = Endpoint { api_key: Some(SecretString::from("AQ.key")), ..Endpoint::default() };
    let settings = VertexSettings {
        endpoint,
        location: Some("eu".to_owned()),
        ..settings(None, None, MetadataServer::Off)
    };
    let vertex = Vertex::new(&settings);
    vertex.prepare(&http()).await.unwrap();
    let url = vertex.build(&request(), &ModelQuirks::default()).unwrap().url;
    assert_eq!(url, format!("https://aiplatform.googleapis.com/v1/{TAIL}"));
    assert_eq!(headers(&vertex), [("x-goog-api-key".to_owned(), "AQ.key".to_owned())]);
}

#[tokio::test]
async fn a_service_account_signs_its_claim_and_gets_a_token() {
    let fake = Fake::default();
    let host = fake.serve().await;
    let (_folder, settings) = with_file(&service_file(&host));
    let vertex = Vertex::new(&settings);
    vertex.prepare(&http()).await.unwrap();
    let received = fake.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].path, "/token");
    assert_eq!(received[0].field("grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
    let claims = verified(received[0].field("assertion"));
    assert_eq!(claims["iss"], "sysop@service-project.iam.gserviceaccount.com");
    assert_eq!(claims["aud"], format!("http://{host}/token"));
    assert_eq!(claims["scope"], "https://www.googleapis.com/auth/cloud-platform");
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 3_600);
    assert_eq!(headers(&vertex), [bearer()]);
    let url = vertex.build(&request(), &ModelQuirks::default()).unwrap().url;
    assert!(url.contains("/projects/service-project/locations/global/"), "{url}");
}

/// Returns the claims of a token after checking its signature with the public key.
fn verified(token: &str) -> Value {
    let parts: Vec<&str> = token.split('.').collect();
    let [header, claims, signature] = parts[..] else { panic!("three parts") };
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
    let header: Value = serde_json::from_slice(&decode(header)).unwrap();
    assert_eq!(header, json!({"alg": "RS256", "typ": "JWT", "kid": "kid-1"}));
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    let scheme = rustls::SignatureScheme::RSA_PKCS1_SHA256;
    let (_, algorithms) = algorithms.mapping.iter().find(|(name, _)| *name == scheme).unwrap();
    let message = &token.as_bytes()[..token.rfind('.').unwrap()];
    let checked = algorithms
        .iter()
        .any(|algorithm| algorithm.verify_signature(PUBLIC_KEY, message, &decode(signature)).is_ok());
    assert!(checked, "the signature was not made with the test key");
    serde_json::from_slice(&decode(claims)).unwrap()
}

#[tokio::test]
async fn a_user_login_exchanges_its_refresh_token_and_names_the_quota_project() {
    let fake = Fake::default();
    let host = fake.serve().await;
    let (folder, _) = with_file(&user_file(&host));
    let file = folder.path().join("credentials.json");
    let vertex = Vertex::new(&settings(None, Some(file), MetadataServer::Off));
    vertex.prepare(&http()).await.unwrap();
    let received = fake.received();
    assert_eq!(received[0].field("grant_type"), "refresh_token");
    assert_eq!(received[0].field("client_id"), "id-1");
    assert_eq!(received[0].field("client_secret"), "secret-canary");
    assert_eq!(received[0].field("refresh_token"), REFRESH_TOKEN);
    let quota = ("x-goog-user-project".to_owned(), "quota-project".to_owned());
    assert_eq!(headers(&vertex), [bearer(), quota]);
}

#[tokio::test]
async fn a_cloud_host_uses_the_metadata_server() {
    let fake = Fake::default();
    let host = fake.serve().await;
    let missing = PathBuf::from("no/such/file.json");
    let vertex = Vertex::new(&settings(None, Some(missing), MetadataServer::At(host)));
    vertex.prepare(&http()).await.unwrap();
    let received = fake.received();
    assert!(received.iter().all(|request| request.flavor));
    assert!(
        received[0].path.starts_with("/computeMetadata/v1/instance/service-accounts/default/token?scopes=")
    );
    assert_eq!(received[1].path, "/computeMetadata/v1/project/project-id");
    assert_eq!(headers(&vertex), [bearer()]);
    let url = vertex.build(&request(), &ModelQuirks::default()).unwrap().url;
    assert!(url.contains("/projects/machine-project/"), "{url}");
}

#[tokio::test]
async fn a_metadata_server_must_identify_itself_as_google() {
    let fake = Fake { plain: true, ..Fake::default() };
    let host = fake.serve().await;
    let failure = failed(&settings(None, None, MetadataServer::At(host))).await;
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(failure.message.contains("gcloud auth application-default login"), "{}", failure.message);
}

#[tokio::test]
async fn missing_credentials_are_reported_with_a_hint() {
    let failure = failed(&settings(None, None, MetadataServer::Off)).await;
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(failure.message.contains("GOOGLE_APPLICATION_CREDENTIALS"), "{}", failure.message);
    let missing = settings(Some(PathBuf::from("no/such/file.json")), None, MetadataServer::Off);
    assert!(failed(&missing).await.message.contains("no/such/file.json"));
}

#[tokio::test]
async fn the_configured_project_wins_over_the_credentials() {
    let fake = Fake::default();
    let host = fake.serve().await;
    let (_folder, settings) = with_file(&service_file(&host));
    let vertex = Vertex::new(&VertexSettings { project: Some("mine".to_owned()), ..settings });
    vertex.prepare(&http()).await.unwrap();
    let url = vertex.build(&request(), &ModelQuirks::default()).unwrap().url;
    assert!(url.contains("/projects/mine/"), "{url}");
    let mut nameless = user_file(&host);
    nameless["quota_project_id"] = Value::Null;
    let (_folder, settings) = with_file(&nameless);
    let vertex = Vertex::new(&settings);
    vertex.prepare(&http()).await.unwrap();
    let failure = vertex.build(&request(), &ModelQuirks::default()).err().unwrap();
    assert!(failure.message.contains("GOOGLE_CLOUD_PROJECT"), "{}", failure.message);
}

#[tokio::test]
async fn a_token_is_fetched_once_and_again_after_expiry() {
    let fake = Fake::default();
    let host = fake.serve().await;
    let (_folder, settings) = with_file(&user_file(&host));
    let vertex = Vertex::new(&settings);
    let http = http();
    let (first, second) = tokio::join!(vertex.prepare(&http), vertex.prepare(&http));
    first.and(second).unwrap();
    vertex.prepare(&http).await.unwrap();
    assert_eq!(fake.received().len(), 1);
    let mut ended = vertex.access().unwrap();
    ended.renew_at = Instant::now();
    vertex.store_token(Some(ended));
    vertex.prepare(&http).await.unwrap();
    assert_eq!(fake.received().len(), 2);
}

#[test]
fn a_token_is_replaced_four_minutes_before_its_end() {
    let now = Instant::now();
    let good = |seconds: u64| valid_until(now, Duration::from_secs(seconds)) - now;
    assert_eq!(good(3_600), Duration::from_secs(3_360));
    assert_eq!(good(300), Duration::from_secs(150));
    assert_eq!(good(0), Duration::from_secs(30));
    assert_eq!(good(u64::MAX), Duration::from_secs(24 * 3_600 - 240));
}

#[tokio::test]
async fn an_expired_login_is_reported_with_a_hint() {
    let said = format!("Token {REFRESH_TOKEN} has been expired or revoked.");
    let fake = Fake::scripted(&[(400, json!({"error": "invalid_grant", "error_description": said}))]);
    let host = fake.serve().await;
    let (_folder, settings) = with_file(&user_file(&host));
    let failure = failed(&settings).await;
    assert_eq!(failure.kind, FailureKind::Auth);
    assert!(failure.message.contains("gcloud auth application-default login"), "{}", failure.message);
    assert!(failure.message.contains("invalid_grant") && !failure.message.contains(REFRESH_TOKEN));
    assert_eq!(fake.received().len(), 1);
}

#[tokio::test]
async fn a_failing_token_server_is_retried() {
    let trouble = (503, json!({}));
    let fake = Fake::scripted(std::slice::from_ref(&trouble));
    let (_folder, settings) = with_file(&user_file(&fake.serve().await));
    Vertex::new(&settings).prepare(&http()).await.unwrap();
    assert_eq!(fake.received().len(), 2);
    let fake = Fake::scripted(&[trouble.clone(), trouble.clone(), trouble]);
    let (_folder, settings) = with_file(&user_file(&fake.serve().await));
    assert_eq!(failed(&settings).await.kind, FailureKind::Unreachable);
    assert_eq!(fake.received().len(), 3);
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    let fake = Fake::default();
    let (_folder, settings) = with_file(&user_file(&fake.serve().await));
    let vertex = Vertex::new(&settings);
    let http = http();
    let body = json!({"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "old"}}).to_string();
    let mut quirks = ModelQuirks::default();
    for round in 1..=2 {
        vertex.prepare(&http).await.unwrap();
        let before = quirks.clone();
        assert_eq!(vertex.classify_error(401, &body, &mut quirks), Some(ErrorAction::RetryNow));
        assert_ne!(quirks, before, "a request is retried only if something changed");
        vertex.prepare(&http).await.unwrap();
        assert_eq!(fake.received().len(), round + 1);
        let Some(ErrorAction::Fail(failure)) = vertex.classify_error(401, &body, &mut quirks) else {
            panic!("the second refusal in a row is final");
        };
        assert_eq!(failure.kind, FailureKind::Auth);
        assert!(failure.message.contains("roles/aiplatform.user"), "{}", failure.message);
        vertex.decoder(&request(), &quirks); // a request that succeeded
    }
}

#[tokio::test]
async fn unusable_credential_files_are_named_but_not_quoted() {
    let mut foreign = user_file("127.0.0.1:1");
    foreign["type"] = json!("external_account");
    let (_folder, settings) = with_file(&foreign);
    assert!(failed(&settings).await.message.contains("external_account"));
    let mut open = user_file("127.0.0.1:1");
    open["token_uri"] = json!("http://token.example.org/");
    let mut partial = user_file("127.0.0.1:1");
    partial["refresh_token"] = json!(7);
    let mut keyless = service_file("127.0.0.1:1");
    keyless["private_key"] = json!("-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n");
    for content in [open, partial, keyless, json!("canary")] {
        let (_folder, settings) = with_file(&content);
        let failure = failed(&settings).await;
        assert_eq!(failure.kind, FailureKind::Auth);
        assert!(!failure.message.contains("canary"), "{}", failure.message);
    }
}

#[test]
fn an_unknown_model_hints_at_the_location() {
    let body = json!({"error": {"code": 404, "status": "NOT_FOUND", "message": "no"}}).to_string();
    let settings = VertexSettings { location: Some("us-central1".to_owned()), ..VertexSettings::default() };
    let Some(ErrorAction::Fail(failure)) =
        Vertex::new(&settings).classify_error(404, &body, &mut ModelQuirks::default())
    else {
        panic!("an unknown model is final");
    };
    assert_eq!(failure.kind, FailureKind::UnknownModel);
    assert!(failure.message.contains("us-central1") && failure.message.contains("global"));
}
