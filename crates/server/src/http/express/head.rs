//! Parses the head of a request, if the express lane can answer it.

use std::mem::MaybeUninit;

use smallvec::SmallVec;

use crate::bounds::{BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX};
use crate::http::Context;
use crate::http::endpoints::EndpointAction;

/// The parts of a request head that the express lane needs.
#[derive(Debug)]
pub(super) struct RequestHead<'a> {
    pub(super) action: EndpointAction,
    /// Bytes of the head.
    pub(super) length: usize,
    /// Bytes of the body.
    pub(super) body_length: usize,
    /// The query string, without `?`.
    pub(super) query: Option<&'a str>,
    /// The `traceparent` header, if tracing is on.
    pub(super) traceparent: Option<&'a str>,
    /// All headers, for `/v1/forward-auth`.
    pub(super) headers: SmallVec<[(&'a str, &'a [u8]); 32]>,
}

impl<'a> RequestHead<'a> {
    /// Parses the head at the start of the input. `None` if it is incomplete or not for the express lane.
    pub(super) fn read(input: &'a [u8], context: &Context) -> Option<RequestHead<'a>> {
        let on_loopback = context.peer.on_loopback;
        let action = match input {
            _ if input.starts_with(b"POST /v1/check HTTP/1.1\r\n") => EndpointAction::Check,
            _ if is_forward_auth(input) => EndpointAction::ForwardAuth,
            // Ad hoc buckets need a token, which hyper's path checks, except on loopback.
            _ if input.starts_with(b"POST /v1/throttle HTTP/1.1\r\n") && on_loopback => {
                EndpointAction::Throttle
            }
            _ => return None,
        };
        // On loopback a web page in a browser could send requests too, under a host name of its own, so `Host` is
        // checked. Not for forward-auth: proxies pass on the `Host` of their clients.
        let checks_host = on_loopback && action != EndpointAction::ForwardAuth;
        let mut head = parse(input, action, checks_host)?;
        if !context.node.reads_traces() {
            head.traceparent = None;
        }
        Some(head)
    }
}

/// Is it a request to `/v1/forward-auth`, with a method whose response may have a body?
fn is_forward_auth(input: &[u8]) -> bool {
    const METHODS: [&[u8]; 6] = [b"GET ", b"POST ", b"PUT ", b"PATCH ", b"DELETE ", b"OPTIONS "];
    let target = METHODS.iter().find_map(|method| input.strip_prefix(*method));
    let rest = target.and_then(|target| target.strip_prefix(b"/v1/forward-auth"));
    rest.is_some_and(|rest| matches!(rest.first(), Some(b' ' | b'?')))
}

/// Parses a head with no header that changes how the request is read or answered. Heads that two servers might read
/// differently are left to hyper.
fn parse(input: &[u8], action: EndpointAction, checks_host: bool) -> Option<RequestHead<'_>> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let Ok(httparse::Status::Complete(length)) = request.parse_with_uninit_headers(input, &mut headers)
    else {
        return None;
    };
    if length > HEAD_BYTES_MAX || request.version != Some(1) {
        return None;
    }
    let is_forward_auth = action == EndpointAction::ForwardAuth;
    let (mut body_length, mut has_host, mut traceparent) = (None, false, None);
    let mut all = SmallVec::new();
    for header in request.headers {
        match role(header.name) {
            HeaderRole::Length if body_length.is_none() => body_length = Some(number(header.value)?),
            HeaderRole::Host if !has_host && (!checks_host || is_loopback(header.value)) => has_host = true,
            HeaderRole::Connection if header.value.eq_ignore_ascii_case(b"keep-alive") => {}
            HeaderRole::Traceparent if traceparent.is_none() => {
                traceparent = std::str::from_utf8(header.value).ok()
            }
            HeaderRole::Client if is_forward_auth => {}
            HeaderRole::Other | HeaderRole::Traceparent => {}
            HeaderRole::Length
            | HeaderRole::Host
            | HeaderRole::Connection
            | HeaderRole::Client
            | HeaderRole::Hyper => return None,
        }
        if is_forward_auth {
            all.push((header.name, header.value));
        }
    }
    // A forward-auth request has no body.
    let body_length =
        if is_forward_auth { body_length.or(Some(0)).filter(|length| *length == 0) } else { body_length };
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

/// How the express lane treats a header.
enum HeaderRole {
    Length,
    Host,
    Connection,
    Traceparent,
    /// Describes the sender of the request. In forward-auth it is the proxy's client, so the header is only data.
    Client,
    /// Changes how the request is read or answered: hyper must handle it.
    Hyper,
    Other,
}

fn role(name: &str) -> HeaderRole {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    // Compare lengths first: few names are then left to compare.
    match name.len() {
        2 if is("te") => HeaderRole::Client,
        4 if is("host") => HeaderRole::Host,
        6 if is("expect") => HeaderRole::Hyper,
        6 if is("origin") => HeaderRole::Client,
        7 if is("upgrade") || is("trailer") => HeaderRole::Hyper,
        10 if is("connection") => HeaderRole::Connection,
        11 if is("traceparent") => HeaderRole::Traceparent,
        14 if is("content-length") => HeaderRole::Length,
        14 if is("http2-settings") => HeaderRole::Hyper,
        17 if is("transfer-encoding") => HeaderRole::Hyper,
        16 if is("proxy-connection") || is("content-encoding") => HeaderRole::Hyper,
        _ => HeaderRole::Other,
    }
}

/// A `Content-Length` of digits only, no larger than a body may be.
fn number(value: &[u8]) -> Option<usize> {
    if value.is_empty() || value.len() > 5 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = value.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    Some(number).filter(|number| *number <= BODY_BYTES_MAX)
}

/// Is `Host` a name of this machine that no web site can have? A page in a browser can make its own host name resolve
/// to loopback (DNS rebinding), but cannot send these names.
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
            parse(head(more).as_bytes(), EndpointAction::Check, true).map(|head| head.body_length)
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
        assert!(parse(unguarded.as_bytes(), EndpointAction::Check, false).is_some());
        for end in 0..unguarded.len() {
            assert!(
                parse(&unguarded.as_bytes()[..end], EndpointAction::Check, false).is_none(),
                "it must be whole"
            );
        }
    }
}
