//! The head of a request that is for the express lane.

use std::mem::MaybeUninit;

use smallvec::SmallVec;

use crate::bounds::{BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX};
use crate::http::Context;
use crate::http::endpoints::EndpointAction;

/// What the lane must know of a request.
#[derive(Debug)]
pub(super) struct RequestHead<'a> {
    pub(super) action: EndpointAction,
    /// Bytes of the head.
    pub(super) length: usize,
    /// Bytes of the body.
    pub(super) body_length: usize,
    /// What follows `?`.
    pub(super) query: Option<&'a str>,
    /// The trace it belongs to, where somebody wants to know.
    pub(super) traceparent: Option<&'a str>,
    /// All headers, for `/v1/forward-auth`.
    pub(super) headers: SmallVec<[(&'a str, &'a [u8]); 32]>,
}

impl<'a> RequestHead<'a> {
    /// The head at the beginning of the input, if it is whole and for this lane.
    pub(super) fn read(input: &'a [u8], context: &Context) -> Option<RequestHead<'a>> {
        let on_loopback = context.peer.on_loopback;
        let action = match input {
            _ if input.starts_with(b"POST /v1/check HTTP/1.1\r\n") => EndpointAction::Check,
            _ if is_forward_auth(input) => EndpointAction::ForwardAuth,
            // Whoever asks for ad-hoc buckets must be known, unless nobody else can reach this.
            _ if input.starts_with(b"POST /v1/throttle HTTP/1.1\r\n") && on_loopback => {
                EndpointAction::Throttle
            }
            _ => return None,
        };
        // On loopback a page in a browser could ask too, by a name of its own. Proxies pass on what their clients
        // send.
        let guards = on_loopback && action != EndpointAction::ForwardAuth;
        let mut head = plain(input, action, guards)?;
        if !context.node.traces().is_on() {
            head.traceparent = None;
        }
        Some(head)
    }
}

/// Is it a request to `/v1/forward-auth`, by a method that may be answered with a body?
fn is_forward_auth(input: &[u8]) -> bool {
    const METHODS: [&[u8]; 6] = [b"GET ", b"POST ", b"PUT ", b"PATCH ", b"DELETE ", b"OPTIONS "];
    let target = METHODS.iter().find_map(|method| input.strip_prefix(*method));
    let rest = target.and_then(|target| target.strip_prefix(b"/v1/forward-auth"));
    rest.is_some_and(|rest| matches!(rest.first(), Some(b' ' | b'?')))
}

/// A head in which nothing asks for more than an answer. One that two servers might read differently is none of these.
fn plain(input: &[u8], action: EndpointAction, guards: bool) -> Option<RequestHead<'_>> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let Ok(httparse::Status::Complete(length)) = request.parse_with_uninit_headers(input, &mut headers)
    else {
        return None;
    };
    if length > HEAD_BYTES_MAX || request.version != Some(1) {
        return None;
    }
    let for_clients = action == EndpointAction::ForwardAuth;
    let (mut body_length, mut has_host, mut traceparent) = (None, false, None);
    let mut all = SmallVec::new();
    for header in request.headers {
        match kind(header.name) {
            ReplyAudience::Length if body_length.is_none() => body_length = Some(number(header.value)?),
            ReplyAudience::Host if !has_host && (!guards || is_loopback(header.value)) => has_host = true,
            ReplyAudience::Connection if header.value.eq_ignore_ascii_case(b"keep-alive") => {}
            ReplyAudience::Traceparent if traceparent.is_none() => {
                traceparent = std::str::from_utf8(header.value).ok()
            }
            ReplyAudience::Client if for_clients => {}
            ReplyAudience::Other | ReplyAudience::Traceparent => {}
            ReplyAudience::Length
            | ReplyAudience::Host
            | ReplyAudience::Connection
            | ReplyAudience::Client
            | ReplyAudience::Hyper => return None,
        }
        if for_clients {
            all.push((header.name, header.value));
        }
    }
    // What a proxy asks has no body.
    let body_length =
        if for_clients { body_length.or(Some(0)).filter(|length| *length == 0) } else { body_length };
    let query = request.path?.split_once('?').map(|(_, query)| query);
    Some(RequestHead {
        action,
        length,
        body_length: body_length.filter(|_| has_host)?,
        query,
        traceparent,
        headers: all,
    })
}

/// What a header has to do with the lane.
enum ReplyAudience {
    Length,
    Host,
    Connection,
    Traceparent,
    /// It says something about a client that asks for itself, and nothing about one that a proxy asks for.
    Client,
    /// It changes how the request is to be read or answered.
    Hyper,
    Other,
}

fn kind(name: &str) -> ReplyAudience {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    // By length first: few names are worth a comparison.
    match name.len() {
        2 if is("te") => ReplyAudience::Client,
        4 if is("host") => ReplyAudience::Host,
        6 if is("expect") => ReplyAudience::Hyper,
        6 if is("origin") => ReplyAudience::Client,
        7 if is("upgrade") || is("trailer") => ReplyAudience::Hyper,
        10 if is("connection") => ReplyAudience::Connection,
        11 if is("traceparent") => ReplyAudience::Traceparent,
        14 if is("content-length") => ReplyAudience::Length,
        14 if is("http2-settings") => ReplyAudience::Hyper,
        17 if is("transfer-encoding") => ReplyAudience::Hyper,
        16 if is("proxy-connection") || is("content-encoding") => ReplyAudience::Hyper,
        _ => ReplyAudience::Other,
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
        let taken = |more: &str| {
            plain(head(more).as_bytes(), EndpointAction::Check, true).map(|head| head.body_length)
        };
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
        assert!(plain(unguarded.as_bytes(), EndpointAction::Check, false).is_some());
        for end in 0..unguarded.len() {
            assert!(
                plain(&unguarded.as_bytes()[..end], EndpointAction::Check, false).is_none(),
                "it must be whole"
            );
        }
    }
}
