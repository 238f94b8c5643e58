//! TLS for HTTP, gRPC and administration: a certificate and a key that can be replaced while the server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::settings::TlsFiles;

/// The most bytes read of a certificate chain or key.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// The TLS configuration in force.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    configs: ArcSwap<TlsConfigs>,
}

/// The configurations of the listeners, with the same certificate.
#[derive(Debug)]
struct TlsConfigs {
    /// For HTTP and gRPC.
    decisions: Arc<ServerConfig>,
    /// For administration, which speaks HTTP/1.1 only.
    admin: Arc<ServerConfig>,
}

/// Why the certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", .file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file is not PEM.
    #[error("{}: not a PEM file: {error}", .file.display())]
    NotPem {
        /// Which.
        file: PathBuf,
        /// Why.
        error: rustls::pki_types::pem::Error,
    },
    /// The certificate file contains no certificate.
    #[error("{}: no certificate found; expected `-----BEGIN CERTIFICATE-----`", .0.display())]
    NoCertificate(PathBuf),
    /// The two do not belong together, or cannot be used.
    #[error("{} with {}: {error}", .files.cert.display(), .files.key.display())]
    NoPair {
        /// Which.
        files: TlsFiles,
        /// Why.
        error: rustls::Error,
    },
}

impl Tls {
    /// Reads the certificate and the key from files.
    ///
    /// # Errors
    /// If they are not a certificate and its key.
    pub(crate) fn load(files: &TlsFiles) -> Result<Tls, TlsError> {
        Ok(Tls { files: files.clone(), configs: ArcSwap::from_pointee(configs(files)?) })
    }

    /// Reads the files again, and keeps the old certificate if that fails. Handshakes in progress finish with the
    /// certificate they began with.
    ///
    /// # Errors
    /// If they are not a certificate and its key.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        self.configs.store(Arc::new(configs(&self.files)?));
        Ok(())
    }

    /// The configuration for the next handshake on HTTP or gRPC.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.configs.load().decisions)
    }

    /// The configuration for the next handshake on the admin listener.
    pub(crate) fn admin_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.configs.load().admin)
    }
}

fn configs(files: &TlsFiles) -> Result<TlsConfigs, TlsError> {
    let chain = CertificateDer::pem_slice_iter(&read(&files.cert)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError::NotPem { file: files.cert.clone(), error })?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(files.cert.clone()));
    }
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|error| TlsError::NotPem { file: files.key.clone(), error })?;
    let no_pair = |error| TlsError::NoPair { files: files.clone(), error };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(no_pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let admin = Arc::new(config.clone());
    config.alpn_protocols.insert(0, b"h2".to_vec());
    Ok(TlsConfigs { decisions: Arc::new(config), admin })
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(PEM_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|error| TlsError::Unreadable { file: file.to_owned(), error })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with a certificate and its key.
    fn pair(name: &str) -> (PathBuf, TlsFiles) {
        let home = std::env::temp_dir().join(format!("tidegate-tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        let files = TlsFiles { cert: home.join("cert.pem"), key: home.join("key.pem") };
        write(&files);
        (home, files)
    }

    fn write(files: &TlsFiles) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&files.cert, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    }

    #[test]
    fn a_bad_pair_keeps_the_last_good_one() {
        let (home, files) = pair("reload");
        let tls = Tls::load(&files).unwrap();
        let first = tls.config();
        write(&TlsFiles { cert: files.cert.clone(), key: home.join("other.pem") });
        let error = tls.reload().unwrap_err().to_string();
        assert!(error.contains("cert.pem with"), "{error}");
        assert!(Arc::ptr_eq(&first, &tls.config()));
        write(&files);
        tls.reload().unwrap();
        assert!(!Arc::ptr_eq(&first, &tls.config()));
        std::fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn what_is_wrong_is_told_by_file() {
        let (home, files) = pair("wrong");
        let missing = TlsFiles { cert: home.join("none.pem"), ..files.clone() };
        assert!(Tls::load(&missing).unwrap_err().to_string().contains("none.pem: No such file"));
        let swapped = TlsFiles { cert: files.key.clone(), key: files.cert.clone() };
        assert!(Tls::load(&swapped).unwrap_err().to_string().contains("no certificate found"));
        let keyless = TlsFiles { cert: files.cert.clone(), key: files.cert };
        assert!(Tls::load(&keyless).unwrap_err().to_string().contains("not a PEM file"));
        std::fs::remove_dir_all(home).unwrap();
    }
}
