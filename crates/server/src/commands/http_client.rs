//! The HTTP client of `tidegate check` and `tidegate admin`: one request to a server, with or without TLS.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::bounds::{API_BODY_BYTES_MAX, CHECK_TIMEOUT};

/// Why a server could not be called.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpClientError {
    #[error("`{0}` is not the URL of a server; write it as http://127.0.0.1:8080")]
    Address(String),
    #[error(
        "nothing listens on {at}; start a server with `tidegate serve`, which prints its addresses, or name another \
         one with --server URL"
    )]
    ConnectionRefused { at: String },
    #[error("cannot reach {at}: {error}")]
    Unreachable { at: String, error: std::io::Error },
    #[error("{at} did not answer within {seconds} seconds")]
    Timeout { at: String, seconds: u64 },
    #[error("TLS handshake with {at} failed: {error}")]
    Tls { at: String, error: String },
    #[error("{file}: {why}")]
    Certificates { file: String, why: String },
    #[error("HTTP exchange with {at} failed: {error}")]
    Http { at: String, error: String },
}

/// A request to send.
#[derive(Clone, Debug)]
pub(super) struct HttpCall {
    pub(super) method: Method,
    /// Path and query.
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// How long the response is waited for.
    pub(super) timeout: Duration,
}

/// A response.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// A response whose body is still to be read, and the task of its connection.
type OpenResponse = (Response<Incoming>, JoinHandle<()>);

/// The largest response that is read: a page of a list, or a whole policy.
const RESPONSE_BYTES_MAX: usize = 4 * API_BODY_BYTES_MAX;

/// The URL of a server, parsed.
#[derive(Debug)]
pub(super) struct ServerTarget {
    secure: bool,
    host: String,
    port: u16,
    path: String,
}

impl ServerTarget {
    /// Parses a URL. Without a scheme, `http://` is assumed.
    pub(super) fn parse(server: &str) -> Result<ServerTarget, HttpClientError> {
        let wrong = || HttpClientError::Address(server.to_owned());
        let with_scheme = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        let uri: Uri = with_scheme.parse().map_err(|_| wrong())?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Ok(ServerTarget { secure, host, port, path: uri.path().trim_end_matches('/').to_owned() })
    }

    /// Host and port as in the `Host` header, with IPv6 addresses in brackets.
    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Posts JSON and returns the status and the body of the response.
    pub(super) async fn post(
        &self,
        path: &str,
        body: String,
        ca: Option<&Path>,
    ) -> Result<(StatusCode, Bytes), HttpClientError> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        let (path, body) = (path.to_owned(), Bytes::from(body));
        let call = HttpCall { method: Method::POST, path, headers, body, timeout: CHECK_TIMEOUT };
        let answer = self.send(&call, ca).await?;
        Ok((answer.status, answer.body))
    }

    /// Sends a request, and returns the response.
    pub(super) async fn send(
        &self,
        call: &HttpCall,
        ca: Option<&Path>,
    ) -> Result<HttpAnswer, HttpClientError> {
        let answer = async {
            let (response, connection) = self.request(call, ca).await?;
            let answer = self.whole(response).await;
            connection.abort();
            answer
        };
        timeout(call.timeout, answer).await.map_err(|_| self.late(call))?
    }

    /// Sends a request whose response comes bit by bit, and gives each bit to `each` until that breaks. The time limit of
    /// the call is for each of them, since the whole may take forever. What is returned has the body only if the server
    /// refuses the request.
    pub(super) async fn follow(
        &self,
        call: &HttpCall,
        ca: Option<&Path>,
        mut each: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<HttpAnswer, HttpClientError> {
        let opened = timeout(call.timeout, self.request(call, ca)).await.map_err(|_| self.late(call))?;
        let (mut response, connection) = opened?;
        if !response.status().is_success() {
            let answer = timeout(call.timeout, self.whole(response)).await;
            connection.abort();
            return answer.map_err(|_| self.late(call))?;
        }
        while let Some(frame) = timeout(call.timeout, response.frame()).await.map_err(|_| self.late(call))? {
            let frame = frame.map_err(|error| self.broken(&error))?;
            if frame.data_ref().is_some_and(|data| each(data).is_break()) {
                break;
            }
        }
        connection.abort();
        let (head, _) = response.into_parts();
        Ok(HttpAnswer { status: head.status, headers: head.headers, body: Bytes::new() })
    }

    fn late(&self, call: &HttpCall) -> HttpClientError {
        HttpClientError::Timeout { at: self.authority(), seconds: call.timeout.as_secs() }
    }

    fn broken(&self, error: &dyn std::fmt::Display) -> HttpClientError {
        HttpClientError::Http { at: self.authority(), error: error.to_string() }
    }

    /// Connects and sends a request. The task of the connection is returned too.
    async fn request(&self, call: &HttpCall, ca: Option<&Path>) -> Result<OpenResponse, HttpClientError> {
        let at = self.authority();
        let stream =
            TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|error| {
                match error.kind() {
                    std::io::ErrorKind::ConnectionRefused => {
                        HttpClientError::ConnectionRefused { at: at.clone() }
                    }
                    _ => HttpClientError::Unreachable { at: at.clone(), error },
                }
            })?;
        if !self.secure {
            return self.exchange(stream, call).await;
        }
        let tls = |error: String| HttpClientError::Tls { at: at.clone(), error };
        let name = ServerName::try_from(self.host.clone()).map_err(|error| tls(error.to_string()))?;
        let connector = TlsConnector::from(Arc::new(tls_config(ca)?));
        let stream = connector.connect(name, stream).await.map_err(|error| tls(error.to_string()))?;
        self.exchange(stream, call).await
    }

    async fn exchange<I>(&self, stream: I, call: &HttpCall) -> Result<OpenResponse, HttpClientError>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| self.broken(&error))?;
        let connection = tokio::spawn(async move { _ = connection.await });
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", self.path, call.path))
            .header("host", self.authority())
            .header("connection", "close")
            .body(Full::new(call.body.clone()))
            .map_err(|error| self.broken(&error))?;
        request.headers_mut().extend(call.headers.clone());
        let response = sender.send_request(request).await.map_err(|error| self.broken(&error))?;
        Ok((response, connection))
    }

    /// Reads a response to its end.
    async fn whole(&self, response: Response<Incoming>) -> Result<HttpAnswer, HttpClientError> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
        let body = body.map_err(|error| self.broken(&error))?.to_bytes();
        Ok(HttpAnswer { status: head.status, headers: head.headers, body })
    }
}

/// The TLS configuration: it trusts the certificates of a file, or those of the system.
fn tls_config(ca: Option<&Path>) -> Result<ClientConfig, HttpClientError> {
    let (mut roots, mut pinned) = (RootCertStore::empty(), Vec::new());
    let file = ca.map_or_else(|| "the system's certificates".to_owned(), |file| file.display().to_string());
    let wrong = |why: String| HttpClientError::Certificates { file: file.clone(), why };
    match ca {
        Some(path) => {
            let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                roots.add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
                pinned.push(certificate);
            }
        }
        None => _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
    }
    if roots.is_empty() {
        return Err(wrong("no certificate found; name a PEM file with --ca FILE".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| wrong(error.to_string()))?;
    let roots = Arc::new(roots);
    let webpki = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider).build();
    let webpki = webpki.map_err(|error| wrong(error.to_string()))?;
    let verifier = Arc::new(PinnedOrSigned { webpki, pinned });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Accepts server certificates that are signed by a trusted one, and those that are in the `--ca` file themselves.
/// The second case is for self-signed certificates: many are marked as a CA, and webpki refuses a CA certificate as a
/// server's own.
#[derive(Debug)]
struct PinnedOrSigned {
    webpki: Arc<WebPkiServerVerifier>,
    pinned: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for PinnedOrSigned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.pinned.iter().any(|pinned| pinned == certificate) {
            let parsed = ParsedCertificate::try_from(certificate)?;
            return verify_server_name(&parsed, name).map(|()| ServerCertVerified::assertion());
        }
        self.webpki.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, secure, authority) in [
            ("http://127.0.0.1:8080", false, "127.0.0.1:8080"),
            ("127.0.0.1:8080", false, "127.0.0.1:8080"),
            ("localhost:1/", false, "localhost:1"),
            ("https://example.com", true, "example.com:443"),
            ("http://[::1]:9", false, "[::1]:9"),
        ] {
            let target = ServerTarget::parse(text).unwrap();
            assert_eq!((target.secure, target.authority().as_str()), (secure, authority), "{text}");
        }
        for text in ["redis://127.0.0.1:6380", "http://", "", "http://a b"] {
            assert!(matches!(ServerTarget::parse(text), Err(HttpClientError::Address(_))), "{text}");
        }
    }
}
