//! A client for single calls with JSON, on one connection that is kept open.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::server::wire::http::head;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiClientError {
    #[error("{call}: the connection failed: {source}")]
    Io { call: String, source: std::io::Error },
    #[error("{call}: unexpected answer: {answer}")]
    Refused { call: String, answer: String },
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much of an unexpected answer is shown.
const SHOWN_BYTES_MAX: usize = 1_000;

/// The client.
#[derive(Debug)]
pub(super) struct ApiClient {
    address: SocketAddr,
    stream: TcpStream,
    token: &'static str,
    received: Vec<u8>,
}

impl ApiClient {
    /// Connects; every call has this token.
    pub(super) fn connect(address: SocketAddr, token: &'static str) -> Result<ApiClient, ApiClientError> {
        let stream = TcpStream::connect(address).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        let stream =
            stream.map_err(|source| ApiClientError::Io { call: format!("connect to {address}"), source })?;
        Ok(ApiClient { address, stream, token, received: Vec::new() })
    }

    /// Makes a call, and returns the JSON of its answer. `kind` is the media type of the body.
    pub(super) fn call(
        &mut self,
        method: &str,
        path: &str,
        kind: &str,
        body: &str,
    ) -> Result<Value, ApiClientError> {
        self.ask(method, path, kind, body, |status| status.starts_with('2'))
    }

    /// The decision about a request by a route such as `/v1/check`: denials too, which have a status of their own.
    pub(super) fn decide(&mut self, path: &str, request: &str) -> Result<Value, ApiClientError> {
        self.ask("POST", path, "application/json", request, |status| matches!(status, "200" | "403" | "429"))
    }

    fn ask(
        &mut self,
        method: &str,
        path: &str,
        kind: &str,
        body: &str,
        is_expected: fn(&str) -> bool,
    ) -> Result<Value, ApiClientError> {
        let call = || format!("{method} {path}");
        let failed = |source| ApiClientError::Io { call: call(), source };
        let (status, body) = self.exchange(method, path, kind, body).map_err(failed)?;
        match serde_json::from_slice(&body) {
            Ok(answer) if is_expected(&status) => Ok(answer),
            _ => {
                let body = &body[..body.len().min(SHOWN_BYTES_MAX)];
                Err(ApiClientError::Refused {
                    call: call(),
                    answer: format!("{status} {}", body.escape_ascii()),
                })
            }
        }
    }

    /// The status and the body of the answer.
    fn exchange(
        &mut self,
        method: &str,
        path: &str,
        kind: &str,
        body: &str,
    ) -> std::io::Result<(String, Vec<u8>)> {
        let (address, token, length) = (self.address, self.token, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-type: {kind}\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes())?;
        self.received.clear();
        let mut buffer = [0; 16 * 1_024];
        loop {
            let parsed = head(&self.received)
                .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string()))?;
            if let Some((start, length)) = parsed
                && let Some(body) = self.received.get(start..start + length)
            {
                let status = self.received.get(9..12).unwrap_or_default().escape_ascii().to_string();
                return Ok((status, body.to_vec()));
            }
            match self.stream.read(&mut buffer)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                read => self.received.extend_from_slice(&buffer[..read]),
            }
        }
    }
}
