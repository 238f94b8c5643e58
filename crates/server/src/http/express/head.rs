//! The head of a request that is for the express lane.

use crate::bounds::{BODY_BYTES_MAX, HEAD_BYTES_MAX};
use crate::http::Context;
use crate::http::endpoints::Action;

/// More than programs send that only ask for decisions.
const HEADERS_MAX: usize = 24;

/// What the lane must know of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) action: Action,
    /// Bytes of the head.
    pub(super) length: usize,
    /// Bytes of the body.
    pub(super) body_length: usize,
}

impl Head {
    /// The head at the beginning of the input, if it is whole and for this lane.
    pub(super) fn read(input: &[u8], context: &Context) -> Option<Head> {
        let node = &context.node;
        let action = match input {
            // Whoever brings numbers of its own must be known, unless nobody else can reach this.
            _ if input.starts_with(b"POST /v1/throttle HTTP/1.1\r\n") && context.peer.on_loopback => {
                Action::Throttle
            }
            // Who waits is watched by hyper.
            _ if input.starts_with(b"POST /v1/check HTTP/1.1\r\n") && !node.limiter.rules().has_queues() => {
                Action::Check
            }
            _ => return None,
        };
        // What a shared store says is waited for.
        if node.traces.is_on() || node.shared().is_some() {
            return None;
        }
        // On loopback a page in a browser could ask too, by a name of its own.
        let (length, body_length) = plain(input, context.peer.on_loopback)?;
        Some(Head { action, length, body_length })
    }
}

/// The length of a head and that of its body, if nothing in the head asks for more than an answer. A head
/// that two servers might read differently is none of these.
fn plain(input: &[u8], on_loopback: bool) -> Option<(usize, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(length)) = request.parse(input) else { return None };
    if length > HEAD_BYTES_MAX {
        return None;
    }
    let (mut body_length, mut has_host) = (None, false);
    for header in request.headers {
        match kind(header.name) {
            Kind::Length if body_length.is_none() => body_length = Some(number(header.value)?),
            Kind::Host if !has_host && (!on_loopback || is_loopback(header.value)) => has_host = true,
            Kind::Connection if header.value.eq_ignore_ascii_case(b"keep-alive") => {}
            Kind::Other => {}
            Kind::Length | Kind::Host | Kind::Connection | Kind::Hyper => return None,
        }
    }
    Some((length, body_length.filter(|_| has_host)?))
}

/// What a header has to do with the lane.
enum Kind {
    Length,
    Host,
    Connection,
    /// It changes how the request is to be read or answered.
    Hyper,
    Other,
}

fn kind(name: &str) -> Kind {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    // By length first: few names are worth a comparison.
    match name.len() {
        2 if is("te") => Kind::Hyper,
        4 if is("host") => Kind::Host,
        6 if is("expect") || is("origin") => Kind::Hyper,
        7 if is("upgrade") || is("trailer") => Kind::Hyper,
        10 if is("connection") => Kind::Connection,
        14 if is("content-length") => Kind::Length,
        14 if is("http2-settings") => Kind::Hyper,
        17 if is("transfer-encoding") => Kind::Hyper,
        16 if is("proxy-connection") || is("content-encoding") => Kind::Hyper,
        _ => Kind::Other,
    }
}

/// Digits only, and no more than a body may have.
fn number(value: &[u8]) -> Option<usize> {
    if value.is_empty() || value.len() > 5 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = value.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    Some(number).filter(|number| *number <= BODY_BYTES_MAX)
}

/// Is this machine asked by a name that no other site can have? A page in a browser could be made to ask
/// by another.
fn is_loopback(host: &[u8]) -> bool {
    [&b"127.0.0.1"[..], b"localhost", b"[::1]"].iter().any(|name| {
        host.strip_prefix(*name).is_some_and(|port| {
            port.is_empty() || port.strip_prefix(b":").is_some_and(|port| port.iter().all(u8::is_ascii_digit))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_plainest_heads_are_taken() {
        let head = |more: &str| format!("POST /v1/check HTTP/1.1\r\n{more}\r\n\r\n");
        let taken = |more: &str| plain(head(more).as_bytes(), true).map(|(_, body)| body);
        for (more, body) in [
            ("Host: localhost\r\nContent-Length: 12", 12),
            ("host: 127.0.0.1:8080\r\ncontent-length: 0", 0),
            ("Host: [::1]:8080\r\nContent-Type: text/plain\r\nContent-Length: 65536", 65_536),
            ("Host: localhost\r\nConnection: Keep-Alive\r\nContent-Length: 1", 1),
        ] {
            assert_eq!(taken(more), Some(body), "{more}");
        }
        for more in [
            "Host: localhost",
            "Content-Length: 1",
            "Host: localhost\r\nContent-Length: 65537",
            "Host: localhost\r\nContent-Length: +1",
            "Host: localhost\r\nContent-Length: 1, 1",
            "Host: localhost\r\nContent-Length: 1\r\nContent-Length: 1",
            "Host: localhost\r\nHost: localhost\r\nContent-Length: 1",
            "Host: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
            "Host: localhost\r\nContent-Length: 1\r\nConnection: close",
            "Host: localhost\r\nContent-Length: 1\r\nExpect: 100-continue",
            "Host: localhost\r\nContent-Length: 1\r\nOrigin: http://other.example",
            "Host: localhost\r\nContent-Length: 1\r\nUpgrade: h2c",
            "Host: localhost\r\n folded\r\nContent-Length: 1",
            "Host: localhost.other.example\r\nContent-Length: 1",
            "Host: rebound.example\r\nContent-Length: 1",
        ] {
            assert_eq!(taken(more), None, "{more}");
        }
        let many: String = (0..HEADERS_MAX).map(|number| format!("X-{number}: y\r\n")).collect();
        assert_eq!(taken(&format!("{many}Host: localhost\r\nContent-Length: 1")), None);
        let unguarded = head("Host: api.example\r\nContent-Length: 1");
        assert!(plain(unguarded.as_bytes(), false).is_some());
        for end in 0..unguarded.len() {
            assert_eq!(plain(&unguarded.as_bytes()[..end], false), None, "it must be whole");
        }
    }
}
