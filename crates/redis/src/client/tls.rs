//! TLS: which certificates of servers to trust.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::RedisClientError;

/// The root certificates of the system, and those of a file.
#[derive(Clone)]
pub(super) struct TrustedRoots {
    connector: TlsConnector,
}

impl TrustedRoots {
    /// Reads the root certificates.
    ///
    /// # Errors
    /// When the file cannot be read, or there are no roots at all.
    pub(super) fn load(file: Option<&Path>) -> Result<TrustedRoots, RedisClientError> {
        let mut roots = RootCertStore::empty();
        // Skip roots of the system that cannot be parsed: a server that needs one fails its handshake.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(file) = file {
            add_file(&mut roots, file)
                .map_err(|why| RedisClientError::Authority { file: file.to_owned(), why })?;
        }
        if roots.is_empty() {
            return Err(RedisClientError::NoRoots);
        }
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .expect("ring has what the protocol versions need")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TrustedRoots { connector: TlsConnector::from(Arc::new(config)) })
    }

    /// Does the TLS handshake, and checks that the server's certificate is for `host`.
    ///
    /// # Errors
    /// When it is not, or the server does not speak TLS.
    pub(super) async fn handshake(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("{host:?} is not a name that a certificate can have"))?;
        self.connector.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))
    }
}

fn add_file(roots: &mut RootCertStore, file: &Path) -> Result<(), String> {
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())?;
    let mut any = false;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
        any = true;
    }
    if any { Ok(()) } else { Err("it contains no certificate".into()) }
}

impl fmt::Debug for TrustedRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustedRoots").finish_non_exhaustive()
    }
}
