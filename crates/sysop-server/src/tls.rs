//! TLS with a certificate and key from files, which can be replaced while the server is running.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

/// TLS configuration. Clones are cheap and share the certificate.
#[derive(Debug, Clone)]
pub struct Tls {
    current: Arc<CurrentCertificate>,
    config: Arc<ServerConfig>,
}

/// Error when loading the TLS files. `Display` is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing or does not have the expected content.
    #[error("cannot read {what} from {path}: {why}; use a PEM file")]
    File {
        /// Expected content.
        what: &'static str,
        path: String,
        why: String,
    },
    /// Key and certificate do not match, or are of an unsupported kind.
    #[error("cannot use the key {key} with the certificate {certificate}: {why}")]
    Pair { key: String, certificate: String, why: rustls::Error },
}

impl Tls {
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let pair = read(certificate, key)?;
        warn_of_readers(key);
        let current = Arc::new(CurrentCertificate {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            pair: RwLock::new(Arc::new(pair)),
        });
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has the suites of the protocol versions that are on by default")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { current, config: Arc::new(config) })
    }

    /// Reloads the files for new connections. On error, the current certificate stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let pair = read(&self.current.certificate, &self.current.key)?;
        *self.current.pair.write() = Arc::new(pair);
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

/// Warns if every user can read the key. A key readable by its group may be intended.
fn warn_of_readers(key: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(key).map_or(0, |found| found.permissions().mode());
        if mode & 0o007 != 0 {
            tracing::warn!(key = %key.display(), "other users of this machine can read the server's key; run `chmod o= \
                FILE`");
        }
    }
    #[cfg(not(unix))]
    let _ = key;
}

/// Certificate for new connections, with the paths it is reloaded from.
#[derive(Debug)]
struct CurrentCertificate {
    certificate: PathBuf,
    key: PathBuf,
    pair: RwLock<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.pair.read()))
    }
}

fn read(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let bad = |what, path: &Path| {
        let path = path.display().to_string();
        move |why: pem::Error| TlsError::File { what, path, why: why.to_string() }
    };
    const CERTIFICATE: &str = "a certificate";
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(certificate).map_err(bad(CERTIFICATE, certificate))?.collect();
    let chain = chain.map_err(bad(CERTIFICATE, certificate))?;
    if chain.is_empty() {
        return Err(bad(CERTIFICATE, certificate)(pem::Error::NoItemsFound));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(bad("a private key", key))?;
    CertifiedKey::from_der(chain, private, &ring::default_provider()).map_err(|why| TlsError::Pair {
        key: key.display().to_string(),
        certificate: certificate.display().to_string(),
        why,
    })
}
