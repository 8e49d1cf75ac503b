//! Finds the account with which to fetch tokens: from a credentials file, or the machine's own account.
//!
//! Reads at most one file; contacts no server.

use std::path::Path;

use secrecy::SecretString;
use serde::Deserialize;
use sysop_core::message::{FailureKind, ModelFailure};
use tokio::io::AsyncReadExt as _;
use url::Url;

use crate::server_text::{failure, quote_server_text};
use crate::settings::{GoogleCredentialSources, MetadataServer};

const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Default token endpoint, as in google-auth 2.62.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
/// Metadata server of every Google Cloud machine.
const METADATA_HOST: &str = "metadata.google.internal";

/// Account to use for authentication.
pub(super) enum GoogleAccount {
    ServiceAccount(ServiceAccountKey),
    /// A user who logged in with gcloud.
    AuthorizedUser(AuthorizedUser),
    /// The machine's service account, obtained from the metadata server at this host.
    Machine(String),
}

#[derive(Deserialize)]
pub(super) struct ServiceAccountKey {
    pub(super) client_email: String,
    pub(super) private_key: SecretString,
    pub(super) private_key_id: Option<String>,
    #[serde(default = "token_uri")]
    pub(super) token_uri: String,
    pub(super) project_id: Option<String>,
}

/// The fields of a user login file that are used.
#[derive(Deserialize)]
pub(super) struct AuthorizedUser {
    pub(super) client_id: String,
    pub(super) client_secret: SecretString,
    pub(super) refresh_token: SecretString,
    #[serde(default = "token_uri")]
    pub(super) token_uri: String,
    pub(super) quota_project_id: Option<String>,
}

#[derive(Deserialize)]
struct CredentialsType {
    #[serde(rename = "type", default)]
    kind: String,
}

fn token_uri() -> String {
    TOKEN_URI.to_owned()
}

/// Returns the account from the first source that has one. Tries the sources in order.
pub(super) async fn find(places: &GoogleCredentialSources) -> Result<GoogleAccount, ModelFailure> {
    if let Some(file) = &places.file {
        let text = read(file).await.map_err(|error| unreadable(file, &error))?;
        return account_of(file, &text);
    }
    if let Some(file) = &places.gcloud_file {
        match read(file).await {
            Ok(text) => return account_of(file, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(file, &error)),
        }
    }
    match &places.metadata {
        MetadataServer::Standard => Ok(GoogleAccount::Machine(METADATA_HOST.to_owned())),
        MetadataServer::At(host) => Ok(GoogleAccount::Machine(host.clone())),
        MetadataServer::Off => Err(no_credentials()),
    }
}

pub(super) fn no_credentials() -> ModelFailure {
    failure(
        FailureKind::Auth,
        "no Google credentials; run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS \
         to a key file",
    )
}

async fn read(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let file = tokio::fs::File::open(file).await?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).await?;
    Ok(text)
}

fn unreadable(file: &Path, error: &std::io::Error) -> ModelFailure {
    let place = quote_server_text(&file.display().to_string(), None);
    let sentence = format!("cannot read the Google credentials {place} ({error}); check the path");
    failure(FailureKind::Auth, sentence)
}

fn account_of(file: &Path, text: &str) -> Result<GoogleAccount, ModelFailure> {
    let place = quote_server_text(&file.display().to_string(), None);
    // The parser's error may quote the secret file and is therefore dropped.
    let broken = || {
        let sentence = format!(
            "the Google credentials {place} are incomplete; run `gcloud auth application-default login` or download the key file again"
        );
        failure(FailureKind::Auth, sentence)
    };
    let kind = serde_json::from_str::<CredentialsType>(text).map_err(|_| broken())?.kind;
    let account = match kind.as_str() {
        "service_account" => GoogleAccount::ServiceAccount(serde_json::from_str(text).map_err(|_| broken())?),
        "authorized_user" => GoogleAccount::AuthorizedUser(serde_json::from_str(text).map_err(|_| broken())?),
        other => {
            let sentence = format!(
                "the Google credentials {place} are of type `{}`, which sysop cannot use; use a service account's key file or `gcloud auth application-default login`",
                quote_server_text(other, None)
            );
            return Err(failure(FailureKind::Auth, sentence));
        }
    };
    let uri = match &account {
        GoogleAccount::ServiceAccount(service) => service.token_uri.as_str(),
        GoogleAccount::AuthorizedUser(user) => user.token_uri.as_str(),
        GoogleAccount::Machine(_) => TOKEN_URI,
    };
    if is_secure_uri(uri) { Ok(account) } else { Err(broken()) }
}

/// Returns true if secrets may be sent to this address, because it uses HTTPS or is on this machine.
fn is_secure_uri(uri: &str) -> bool {
    let Ok(url) = Url::parse(uri) else { return false };
    let local = matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    url.scheme() == "https" || (url.scheme() == "http" && local)
}
