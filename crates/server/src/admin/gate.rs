//! Who may look at what.

use http::header::{FORWARDED, HeaderMap};
use http::{Request, StatusCode};

use super::Caller;
use crate::identity::access;
use crate::node::Node;

/// Why somebody may not look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// The name that was asked for is not one of this machine's.
    #[error("on loopback, Host must be localhost or an address")]
    Host,
    /// There is no token, or another one.
    #[error("from another machine this needs a bearer token: auth.http_token in the settings")]
    Token,
}

impl Refusal {
    /// What HTTP calls it.
    pub(super) fn status(self) -> StatusCode {
        match self {
            Refusal::Token => StatusCode::UNAUTHORIZED,
            Refusal::Host => StatusCode::FORBIDDEN,
        }
    }
}

/// On loopback, the name that is asked for must be one of this machine's.
pub(super) fn host<B>(caller: Caller, request: &Request<B>) -> Result<(), Refusal> {
    match !caller.on_loopback || access::names_this_machine(request.headers(), request.uri()) {
        true => Ok(()),
        false => Err(Refusal::Host),
    }
}

/// What clients sent is shown to who is on this machine itself, not behind something that forwards, and
/// to who has the token.
pub(super) fn trusted(node: &Node, caller: Caller, headers: &HeaderMap) -> Result<(), Refusal> {
    let is_forwarded = headers.contains_key(FORWARDED) || headers.contains_key("x-forwarded-for");
    let is_here = caller.address.is_loopback() && !is_forwarded;
    match is_here || access::has_token(headers, node.settings.http_token.as_deref()) {
        true => Ok(()),
        false => Err(Refusal::Token),
    }
}
