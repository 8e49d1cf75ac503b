//! TLS with a certificate and a key from files, which may be replaced while the server runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

/// Speaks TLS. Cheap to clone; clones share the certificate.
#[derive(Debug, Clone)]
pub struct Tls {
    current: Arc<CurrentCertificate>,
    config: Arc<ServerConfig>,
}

/// Why there is no TLS. `Display` is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not there, or holds something else.
    #[error("cannot read {what} from {path}: {why}; a PEM file is expected")]
    File {
        /// What it should hold.
        what: &'static str,
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// Key and certificate do not go together, or are of a kind that is not known.
    #[error("the key {key} cannot be used with the certificate {certificate}: {why}")]
    Pair {
        /// The file of the key.
        key: String,
        /// The file of the certificate.
        certificate: String,
        /// What is wrong.
        why: rustls::Error,
    },
}

impl Tls {
    /// Reads a certificate, with those between it and its root, and its key.
    ///
    /// # Errors
    /// When one of them cannot be used.
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

    /// Reads the files again; who connects from now on sees the new certificate. Where they cannot be used, all stays as
    /// it is.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub fn reload(&self) -> Result<(), TlsError> {
        let pair = read(&self.current.certificate, &self.current.key)?;
        *self.current.pair.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

/// A key for the owner's group may be meant so; one for everybody hardly is.
fn warn_of_readers(key: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(key).map_or(0, |found| found.permissions().mode());
        if mode & 0o007 != 0 {
            tracing::warn!(key = %key.display(), "everybody on this machine can read the key of the server; `chmod o= FILE`");
        }
    }
    #[cfg(not(unix))]
    let _ = key;
}

/// What is shown to who connects now.
#[derive(Debug)]
struct CurrentCertificate {
    certificate: PathBuf,
    key: PathBuf,
    pair: RwLock<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.pair.read().unwrap_or_else(PoisonError::into_inner)))
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
