//! The endpoints of the HTTP listener. [`ENDPOINTS`] is the one table of them: [`route`] finds the endpoint of a
//! request in it, and [`reference_page`] renders it as `docs/reference/http.md`. [`guard`] checks who may call, and
//! [`decide`], [`batch`], [`forward_auth`] and [`identify`] answer.

pub(super) mod batch;
pub(super) mod decide;
pub(super) mod forward_auth;
pub(super) mod guard;
pub(super) mod identify;
pub(super) mod reference_page;
pub(super) mod route;

use crate::bounds::{BATCH_BYTES_MAX, BODY_BYTES_MAX};

/// What an endpoint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndpointAction {
    Check,
    Batch,
    Peek,
    Refund,
    Throttle,
    ForwardAuth,
    Identify,
}

/// Who may call an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndpointAccess {
    /// Everybody who can connect. `Host` and `Origin` are not checked: proxies pass on those of their clients.
    Anybody,
    /// Everybody who can connect, except web pages in a browser on loopback.
    Programs,
    /// Like `Programs` on loopback. On other listeners, only callers with the token of the settings.
    Guarded,
}

/// An endpoint.
pub(super) struct Endpoint {
    pub(super) path: &'static str,
    pub(super) action: EndpointAction,
    /// The most bytes that a request body may have.
    pub(super) body_max: usize,
    /// Who may call it.
    pub(super) access: EndpointAccess,
    /// What it does, for the reference page.
    pub(super) about: &'static str,
    /// An example of a request body.
    pub(super) example: &'static str,
    /// Statuses and what they mean, beside those that all endpoints have.
    pub(super) answers: &'static [(&'static str, &'static str)],
}

impl Endpoint {
    /// The endpoint at a path.
    pub(super) fn at(path: &str) -> Option<&'static Endpoint> {
        ENDPOINTS.iter().find(|endpoint| endpoint.path == path)
    }

    /// The method to call it by.
    pub(super) fn method(&self) -> &'static str {
        match self.action {
            EndpointAction::ForwardAuth | EndpointAction::Identify => "ANY",
            _ => "POST",
        }
    }
}

const DECIDED: &[(&str, &str)] = &[
    ("200", "allowed; the body is the decision"),
    ("429", "refused; the body is the decision"),
    ("503", "refused for `queue_full`, `queue_timeout` or `store_unavailable`; the body is the decision"),
];

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        path: "/v1/check",
        action: EndpointAction::Check,
        body_max: BODY_BYTES_MAX,
        access: EndpointAccess::Programs,
        about: "Decides a request by the policy and charges it if it is admitted. If a limit's strategy is `queue`, \
                the request may wait in the wait queue, and the response comes when it is admitted or refused. A \
                client that disconnects frees its slot in the queue.",
        example: r#"{"user":"42","method":"GET","path":"/api/videos"}"#,
        answers: DECIDED,
    },
    Endpoint {
        path: "/v1/check/batch",
        action: EndpointAction::Batch,
        body_max: BATCH_BYTES_MAX,
        access: EndpointAccess::Programs,
        about: "Decides up to 1,000 requests, in their order. None of them waits in a queue: a limit whose strategy \
                is `queue` refuses instead. If one request is invalid, none is decided. A large response is sent \
                while it is being decided, without `Content-Length`; if the client disconnects in the middle, the \
                requests not yet decided are not charged.",
        example: r#"{"requests":[{"user":"42"},{"user":"43","cost":5}]}"#,
        answers: &[("200", "`{\"decisions\":[…]}` in the order of the requests, allowed or not")],
    },
    Endpoint {
        path: "/v1/peek",
        action: EndpointAction::Peek,
        body_max: BODY_BYTES_MAX,
        access: EndpointAccess::Programs,
        about: "Returns the decision that `/v1/check` would make, without charging or counting anything.",
        example: r#"{"user":"42"}"#,
        answers: &[("200", "the decision, allowed or not")],
    },
    Endpoint {
        path: "/v1/refund",
        action: EndpointAction::Refund,
        body_max: BODY_BYTES_MAX,
        access: EndpointAccess::Guarded,
        about: "Gives tokens back to every limit that applies to the request, never above its capacity. Each limit \
                gets `cost` tokens; the costs in the policy are ignored.",
        example: r#"{"request":{"user":"42"},"cost":5}"#,
        answers: &[("200", "the state after the refund, as a decision")],
    },
    Endpoint {
        path: "/v1/throttle",
        action: EndpointAction::Throttle,
        body_max: BODY_BYTES_MAX,
        access: EndpointAccess::Guarded,
        about: "Decides by an ad hoc bucket, which needs no policy: `rate` tokens per `window` (a duration such as \
                `60s`, or `second`, `minute`, `hour`, `day`), at most `capacity` at once. The key and the numbers \
                together identify the bucket; `CL.THROTTLE` with the same key and numbers uses the same bucket. \
                `cost` is 1 by default.",
        example: r#"{"key":"user:1","capacity":10,"rate":100,"window":"60s","cost":1}"#,
        answers: &[
            ("200", "allowed; the body is the decision"),
            ("429", "refused; the body is the decision"),
        ],
    },
    Endpoint {
        path: "/v1/forward-auth",
        action: EndpointAction::ForwardAuth,
        body_max: 0,
        access: EndpointAccess::Anybody,
        about: "For proxies that ask before they pass a request on (nginx `auth_request`, Caddy `forward_auth`, \
                Traefik `forwardAuth`). Any method is accepted, and no body is read. If the peer is one of \
                `trusted_proxies`, the client's request is taken from `X-Forwarded-Method`, `X-Forwarded-Uri` and \
                `X-Forwarded-Host`, or from `X-Original-Method` and `X-Original-URI`, and the client's address from \
                `X-Forwarded-For` or `Forwarded`. The user is taken from a valid bearer token; an invalid one gets \
                401. The settings `identity` and `api_keys` name other sources of the user, tenant and so on. \
                `?deny_status=403` sets the status of other refusals, 400 to 599.",
        example: "",
        answers: &[
            ("204", "allowed: pass the request on"),
            (
                "401",
                "the bearer token is invalid: send this response, with its `WWW-Authenticate`, to the client",
            ),
            (
                "401",
                "the API key is unknown, expired or disabled, and `api_keys.unknown` is `deny`: the same",
            ),
            (
                "400",
                "a source of the client's identity has a value that cannot be used; `field` and `X-Tidegate-Source` \
                 name the source, and `deny_status` applies",
            ),
            ("429", "refused: send this response, with its problem body, to the client"),
            ("503", "the same for `queue_full`, `queue_timeout` and `store_unavailable`"),
        ],
    },
    Endpoint {
        path: "/v1/identify",
        action: EndpointAction::Identify,
        body_max: 0,
        access: EndpointAccess::Guarded,
        about: "Shows who a proxied request is taken for. It reads the request like `/v1/forward-auth`, with any method, \
                but decides, charges and counts nothing. The response has each of `user`, `tenant`, `client`, `plan`, \
                `upstream`, `priority`, `trust`, `ip` and `credential` that is known, with its value and its source, \
                such as `{\"tenant\":{\"value\":\"acme\",\"source\":\"header:x-tenant\"}}`; what is not known is \
                absent. `Authorization` with the settings' `auth.http_token` opens the endpoint and is then not taken \
                for the client's.",
        example: "",
        answers: &[
            ("200", "the members that are known"),
            ("400", "a source has a value that cannot be used; `field` names the source"),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_exact() {
        for endpoint in ENDPOINTS {
            assert_eq!(Endpoint::at(endpoint.path).map(|found| found.action), Some(endpoint.action));
        }
        for path in ["/", "/v1/check/", "/v1/Check", "//v1/check", "/v1/check/batch/", ""] {
            assert!(Endpoint::at(path).is_none(), "{path}");
        }
    }

    #[test]
    fn every_example_can_be_read() {
        for endpoint in ENDPOINTS {
            let text = endpoint.example;
            let read = match endpoint.action {
                EndpointAction::Check | EndpointAction::Peek => crate::wire::request(text).map(drop),
                EndpointAction::Batch => crate::wire::batch(text).map(drop),
                EndpointAction::Refund => crate::wire::refund(text).map(drop),
                EndpointAction::Throttle => crate::wire::throttle(text).map(drop),
                EndpointAction::ForwardAuth | EndpointAction::Identify => Ok(()),
            };
            assert!(read.is_ok(), "{}: {read:?}", endpoint.path);
        }
    }
}
