//! TLS to a server on this machine whose certificate is known from its file.
//!
//! A certificate is for the server's public name, not for the loopback address, and may be signed by anyone. So the
//! connection is accepted if and only if the server has exactly this certificate and its key.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use crate::ClientError;

/// Certificate that a server must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedCertificate(CertificateDer<'static>);

impl PinnedCertificate {
    /// Reads the first certificate of a PEM file.
    ///
    /// # Errors
    /// If the file cannot be read or contains no certificate.
    pub fn read(path: &Path) -> Result<Self, ClientError> {
        let certificate = CertificateDer::from_pem_file(path).map_err(|error| {
            ClientError::Failed(format!("cannot read the server's certificate {}: {error}", path.display()))
        })?;
        Ok(Self(certificate))
    }

    /// Returns the settings for connections to this server.
    pub(crate) fn client_config(&self) -> ClientConfig {
        let provider = ring::default_provider();
        let algorithms = provider.signature_verification_algorithms;
        let verifier = PinnedVerifier { certificate: self.0.clone(), algorithms };
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("ring has the suites of the protocol versions that are on by default")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth()
    }
}

#[derive(Debug)]
struct PinnedVerifier {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *end_entity == self.certificate {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
