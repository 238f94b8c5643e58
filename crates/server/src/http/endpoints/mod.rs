//! All endpoints: this table routes, and is the reference page.

pub(super) mod batch;
pub(super) mod decide;
pub(super) mod forward_auth;
pub(super) mod guard;
pub(super) mod page;
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
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Whoever reaches it: proxies pass on what their clients send, `Host` and `Origin` included.
    Anybody,
    /// Whoever reaches it, but on loopback no page in a browser.
    Programs,
    /// The same, and where others than this machine can ask, only who has the token of the settings.
    Guarded,
}

/// Something that can be asked.
pub(super) struct Endpoint {
    pub(super) path: &'static str,
    pub(super) action: EndpointAction,
    /// Bytes of its body.
    pub(super) body_max: usize,
    /// Who may ask.
    pub(super) access: Access,
    /// What it is for.
    pub(super) about: &'static str,
    /// What is asked, as it would be typed.
    pub(super) example: &'static str,
    /// Statuses and what they mean, beside those that all have.
    pub(super) answers: &'static [(&'static str, &'static str)],
}

impl Endpoint {
    /// The endpoint at a path.
    pub(super) fn at(path: &str) -> Option<&'static Endpoint> {
        ENDPOINTS.iter().find(|endpoint| endpoint.path == path)
    }

    /// How it is asked.
    pub(super) fn asked_by(&self) -> &'static str {
        if self.action == EndpointAction::ForwardAuth { "ANY" } else { "POST" }
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
        access: Access::Programs,
        about: "Decides a request by the policy and charges it if it is admitted. Where a limit's strategy is \
                `queue`, the answer comes when the request's time has come; a client that goes away gives its \
                place back.",
        example: r#"{"user":"42","method":"GET","path":"/api/videos"}"#,
        answers: DECIDED,
    },
    Endpoint {
        path: "/v1/check/batch",
        action: EndpointAction::Batch,
        body_max: BATCH_BYTES_MAX,
        access: Access::Programs,
        about: "Decides up to 1,000 requests, one after the other, in their order. Nobody waits: `queue` refuses \
                here. If one of them cannot be read, none is decided. A large answer is written as it is decided, \
                without `Content-Length`: a client that goes away in the middle is not charged for what was not \
                decided by then.",
        example: r#"{"requests":[{"user":"42"},{"user":"43","cost":5}]}"#,
        answers: &[("200", "`{\"decisions\":[…]}`, in the order of the requests, whatever they are")],
    },
    Endpoint {
        path: "/v1/peek",
        action: EndpointAction::Peek,
        body_max: BODY_BYTES_MAX,
        access: Access::Programs,
        about: "What `/v1/check` would say. Nothing is charged or counted.",
        example: r#"{"user":"42"}"#,
        answers: &[("200", "the decision, allowed or not")],
    },
    Endpoint {
        path: "/v1/refund",
        action: EndpointAction::Refund,
        body_max: BODY_BYTES_MAX,
        access: Access::Guarded,
        about: "Hands tokens back to every limit that applies to the request, never above a capacity. What the \
                policy says about costs is ignored: `cost` is what each of them gets.",
        example: r#"{"request":{"user":"42"},"cost":5}"#,
        answers: &[("200", "the state after it, as a decision")],
    },
    Endpoint {
        path: "/v1/throttle",
        action: EndpointAction::Throttle,
        body_max: BODY_BYTES_MAX,
        access: Access::Guarded,
        about: "Decides by a bucket that needs no policy: `rate` tokens in each `window` (a duration such as \
                `60s`, or `second`, `minute`, `hour`, `day`), at most `capacity` at once. The key and the numbers \
                together are the bucket; `CL.THROTTLE` shares it. `cost` is 1 unless given.",
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
        access: Access::Anybody,
        about: "For proxies that ask before they pass a request on (nginx `auth_request`, Caddy `forward_auth`, \
                Traefik `forwardAuth`). Any method will do, and no body is read. What the client asked for is \
                taken from `X-Forwarded-Method`, `X-Forwarded-Uri`, `X-Forwarded-Host`, or `X-Original-Method`, \
                `X-Original-URI`, if the peer is one of `trusted_proxies`; its address from `X-Forwarded-For` or \
                `Forwarded`; who it is from a token that holds; one that does not is 401. `?deny_status=403` replaces the status of \
                other refusals, 400 to 599.",
        example: "",
        answers: &[
            ("204", "pass it on"),
            ("401", "its bearer token does not hold: refuse it with this answer and its `WWW-Authenticate`"),
            ("429", "refuse it with this answer; the body is the problem body"),
            ("503", "the same for `queue_full`, `queue_timeout` and `store_unavailable`"),
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
                EndpointAction::ForwardAuth => Ok(()),
            };
            assert!(read.is_ok(), "{}: {read:?}", endpoint.path);
        }
    }
}
