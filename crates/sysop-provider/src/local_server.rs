//! Trait for starting servers for models on this machine. The binary implements the trait.

use async_trait::async_trait;
use secrecy::SecretString;

/// Servers for the models on this machine.
#[async_trait]
pub trait LocalServers: Send + Sync {
    /// Returns a server that is ready for requests to a model, after starting it if necessary. The error is one
    /// sentence that says what to do next.
    async fn server(&self, model: &str) -> Result<LocalServer, String>;
}

impl std::fmt::Debug for dyn LocalServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LocalServers")
    }
}

/// A running server, in use until dropped.
pub struct LocalServer {
    pub(crate) base_url: String,
    pub(crate) key: SecretString,
    _lease: Box<dyn Send + Sync>,
}

impl LocalServer {
    /// Takes the base URL, which ends with `/v1`, the key, and a guard that keeps the server in use.
    pub fn new(base_url: String, key: SecretString, lease: impl Send + Sync + 'static) -> Self {
        Self { base_url, key, _lease: Box::new(lease) }
    }
}
