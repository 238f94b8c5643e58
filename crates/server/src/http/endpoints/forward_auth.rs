//! `/v1/forward-auth`: a proxy asks whether a request of its client may pass.
//!
//! The proxy describes its client's request in headers, which are read only from trusted proxies. A client can send
//! such headers too, and a proxy that sets one kind (`X-Forwarded-*`) passes the other kind (`X-Original-*`) through.
//! So if two of them contradict each other, the request is refused with 400.

use std::borrow::Cow;

use http::StatusCode;
use http::request::Parts;
use smallvec::SmallVec;
use tidegate::NowOrLater;
use tidegate::engine::{Decision, Request};

use super::decide::{origin, status};
use crate::http::Context;
use crate::http::response::decision::{HttpResponse, challenged, passed, refused};
use crate::http::response::problem::HttpProblem;
use crate::identity::ClientInfo;
use crate::identity::forwarded_request::{host, is_client_header};
use crate::observe::Origin;

const METHOD: [&str; 2] = ["x-forwarded-method", "x-original-method"];
const URI: [&str; 2] = ["x-forwarded-uri", "x-original-uri"];
const HOST: &str = "x-forwarded-host";

/// The parts of a request to `/v1/forward-auth` that matter.
#[derive(Debug)]
pub(crate) struct ForwardAuthRequest<'a> {
    pub(crate) query: Option<&'a str>,
    /// The host of its own URI, if that has one.
    pub(crate) authority: Option<&'a str>,
    /// Names and values, in the order they were sent.
    pub(crate) headers: &'a [(&'a str, &'a [u8])],
}

/// The headers of a request from hyper.
pub(super) fn headers_of(parts: &Parts) -> SmallVec<[(&str, &[u8]); 32]> {
    parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}

impl<'a> ForwardAuthRequest<'a> {
    pub(super) fn of(parts: &'a Parts, headers: &'a [(&'a str, &'a [u8])]) -> ForwardAuthRequest<'a> {
        let authority = parts.uri.authority().map(http::uri::Authority::as_str);
        ForwardAuthRequest { query: parts.uri.query(), authority, headers }
    }

    /// The values of a header.
    fn values(&self, name: &'static str) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.headers
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value)
    }
}

/// What the proxy's client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardAuthOutcome {
    Passed,
    Refused(StatusCode),
    /// Its credential is invalid: 401 with this `WWW-Authenticate`.
    Challenged(&'static str),
}

impl ForwardAuthOutcome {
    /// The outcome of a decision. `deny_status` is the status of refusals, if the proxy chose one.
    pub(crate) fn by(decision: &Decision, deny_status: Option<StatusCode>) -> ForwardAuthOutcome {
        match (decision.is_allowed(), decision.challenge()) {
            (true, _) => ForwardAuthOutcome::Passed,
            // A client with an invalid credential needs 401 to learn it, so `deny_status` does not apply.
            (false, Some(challenge)) => ForwardAuthOutcome::Challenged(challenge),
            (false, None) => ForwardAuthOutcome::Refused(deny_status.unwrap_or_else(|| status(decision))),
        }
    }
}

/// Answers 204, or a refusal for the client.
pub(crate) async fn answer(context: &Context, parts: &Parts) -> Result<HttpResponse, HttpProblem> {
    let (decision, deny_status) =
        decide(context, &ForwardAuthRequest::of(parts, &headers_of(parts)), origin(context, parts))?;
    let decision = decision.await;
    Ok(match ForwardAuthOutcome::by(&decision, deny_status) {
        ForwardAuthOutcome::Passed => passed(&decision),
        ForwardAuthOutcome::Challenged(challenge) => challenged(&decision, challenge),
        ForwardAuthOutcome::Refused(status) => refused(&decision, status),
    })
}

/// Decides the request that a proxy describes. Also returns the status of refusals that the proxy chose.
pub(crate) fn decide<'c>(
    context: &'c Context,
    forwarded_request: &ForwardAuthRequest<'_>,
    origin: Origin<'_>,
) -> Result<(NowOrLater<'c, Decision>, Option<StatusCode>), HttpProblem> {
    let deny_status = deny_status(forwarded_request.query)?;
    let node = &context.node;
    let (who, mut request) = read(context, forwarded_request)?;
    let headers = || forwarded_request.headers.iter().copied();
    let unusable = |fault| {
        node.identity_fault(&fault);
        HttpProblem::Identity { fault, deny_status }
    };
    node.identity().describe_upstream(headers(), who.trusted, &mut request).map_err(unusable)?;
    let key = node.identity().presented_key(headers(), &request).map_err(unusable)?;
    let entered = node.enter(&request);
    let verified = node.verify(&entered, &who, key.as_deref());
    // The request borrows claims from `verified`, so it must not live longer.
    let mut request = request;
    if !entered.is_decided() {
        node.identity().describe(&verified, headers(), who.trusted, &mut request).map_err(unusable)?;
    }
    Ok((node.admit_entered(origin, entered, &request), deny_status))
}

/// The client of a proxy, and its request without an identity.
pub(super) fn read<'a>(
    context: &Context,
    forwarded_request: &ForwardAuthRequest<'a>,
) -> Result<(ClientInfo<'a>, Request<'a>), HttpProblem> {
    let node = &context.node;
    let who = node.identity().client_info(forwarded_request.headers.iter().copied(), context.peer.address);
    let mut request = Request::new();
    (request.ip, request.headers_trusted) = (Some(who.ip), who.trusted);
    if who.trusted {
        describe_forwarded(forwarded_request, &mut request)?;
    } else if URI.iter().any(|name| forwarded_request.values(name).next().is_some()) {
        node.identity().warn_untrusted_forwarder(context.peer.address);
    }
    let from_client = forwarded_request.headers.iter().filter(|(name, _)| is_client_header(name));
    request.headers.extend(from_client.map(|(name, value)| ((*name).into(), String::from_utf8_lossy(value))));
    Ok((who, request))
}

/// Fills in what a trusted proxy says about its client's request.
fn describe_forwarded<'a>(
    forwarded_request: &ForwardAuthRequest<'a>,
    request: &mut Request<'a>,
) -> Result<(), HttpProblem> {
    request.method = single_value(forwarded_request, METHOD, "X-Forwarded-Method")?;
    request.path = single_value(forwarded_request, URI, "X-Forwarded-Uri")?.map(without_origin);
    // Each proxy appends a value; the last one is from the proxy that calls us.
    let forwarded = forwarded_request.values(HOST).next_back();
    let forwarded = forwarded.and_then(|line| line.rsplit(|byte| *byte == b',').next());
    let own =
        || forwarded_request.authority.map(str::as_bytes).or_else(|| forwarded_request.values("host").next());
    let named = forwarded.or_else(own).and_then(|name| std::str::from_utf8(name).ok());
    request.host = named.and_then(host).map(Cow::Borrowed);
    Ok(())
}

/// The value of a header that has two names. It may be repeated, but all values must be equal.
fn single_value<'a>(
    forwarded_request: &ForwardAuthRequest<'a>,
    names: [&'static str; 2],
    field: &'static str,
) -> Result<Option<Cow<'a, str>>, HttpProblem> {
    let mut values = names.iter().flat_map(|name| forwarded_request.values(name));
    let Some(first) = values.next() else { return Ok(None) };
    if values.any(|other| other != first) {
        let [one, other] = names;
        let detail = format!(
            "{one} and {other} were sent more than once with different values; the proxy must remove the one that it does not set"
        );
        return Err(HttpProblem::Field { field, detail });
    }
    Ok((!first.is_empty()).then(|| String::from_utf8_lossy(first)))
}

/// The `/path?query` of a URI that may have a scheme and a host.
fn without_origin(uri: Cow<'_, str>) -> Cow<'_, str> {
    let after = |scheme: &str| {
        let (begin, rest) = uri.split_at_checked(scheme.len())?;
        begin.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let Some(rest) = after("http://").or_else(|| after("https://")) else { return uri };
    match rest.find(['/', '?']) {
        Some(at) if rest[at..].starts_with('/') => Cow::Owned(rest[at..].to_owned()),
        Some(at) => Cow::Owned(format!("/{}", &rest[at..])),
        None => Cow::Borrowed("/"),
    }
}

/// The `deny_status` parameter: the status of refusals, for proxies that cannot pass on a 429.
fn deny_status(query: Option<&str>) -> Result<Option<StatusCode>, HttpProblem> {
    let mut pairs =
        query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let Some((_, value)) = pairs.find(|(name, _)| *name == "deny_status") else { return Ok(None) };
    let status = value.parse::<u16>().ok().filter(|status| (400..=599).contains(status));
    match status.and_then(|status| StatusCode::from_u16(status).ok()) {
        Some(status) => Ok(Some(status)),
        None => {
            let detail = "`deny_status` must be a status from 400 to 599, such as 403".to_owned();
            Err(HttpProblem::Field { field: "deny_status", detail })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(headers: &[(&'static str, &'static str)]) -> Result<[Option<String>; 3], HttpProblem> {
        let mut builder = http::Request::builder().uri("/v1/forward-auth");
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        let parts = builder.body(()).unwrap().into_parts().0;
        let headers = headers_of(&parts);
        let mut request = Request::new();
        describe_forwarded(&ForwardAuthRequest::of(&parts, &headers), &mut request)?;
        Ok([request.method, request.path, request.host].map(|text| text.map(Cow::into_owned)))
    }

    #[test]
    fn either_kind_of_headers_describes_the_request() {
        let some = |texts: [&str; 3]| texts.map(|text| Some(text.to_owned()));
        let traefik = [
            ("x-forwarded-method", "POST"),
            ("x-forwarded-uri", "/a?b=1"),
            ("x-forwarded-host", "x.example:443"),
        ];
        assert_eq!(described(&traefik).unwrap(), some(["POST", "/a?b=1", "x.example"]));
        let nginx =
            [("x-original-method", "PUT"), ("x-original-uri", "http://h.example/a"), ("host", "h.example.")];
        assert_eq!(described(&nginx).unwrap(), some(["PUT", "/a", "h.example"]));
        for scheme in ["HTTP", "http", "Https", "HTTPS"] {
            let uri = format!("{scheme}://h.example/login?q").leak();
            assert_eq!(
                described(&[("x-forwarded-uri", uri)]).unwrap()[1].as_deref(),
                Some("/login?q"),
                "{uri}"
            );
        }
        let bare = [("x-original-uri", "https://h.example?q")];
        assert_eq!(described(&bare).unwrap(), [None, Some("/?q".to_owned()), None]);
        let chain = [("x-forwarded-host", "evil.example, real.example")];
        assert_eq!(described(&chain).unwrap()[2].as_deref(), Some("real.example"));
    }

    #[test]
    fn what_contradicts_itself_is_not_believed() {
        for headers in [
            &[("x-forwarded-uri", "/cheap"), ("x-original-uri", "/dear")][..],
            &[("x-original-uri", "/cheap"), ("x-original-uri", "/dear")],
            &[("x-forwarded-method", "GET"), ("x-original-method", "POST")],
        ] {
            assert!(matches!(described(headers), Err(HttpProblem::Field { .. })), "{headers:?}");
        }
        let same = [("x-forwarded-uri", "/a"), ("x-original-uri", "/a")];
        assert_eq!(described(&same).unwrap()[1].as_deref(), Some("/a"));
    }

    #[test]
    fn the_status_of_refusals_is_one_of_refusals() {
        let status = |query| deny_status(query).ok().map(|status| status.map(|status| status.as_u16()));
        assert_eq!(status(None), Some(None));
        assert_eq!(status(Some("a=b&deny_status=403")), Some(Some(403)));
        for wrong in
            ["deny_status=200", "deny_status=600", "deny_status=", "deny_status", "deny_status=+403x"]
        {
            assert_eq!(status(Some(wrong)), None, "{wrong}");
        }
    }
}
