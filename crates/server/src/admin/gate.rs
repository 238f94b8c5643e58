//! Who may look at what.

use http::header::{FORWARDED, HeaderMap};
use http::{Request, StatusCode};

use super::AdminClient;
use crate::identity::access;
use crate::node::Node;

/// Why somebody may not look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AdminRefusal {
    /// The name that was asked for may be anybody's.
    #[error(
        "Host must be an address, localhost or a name of `admin.hosts` in the settings: add the name there to ask by it"
    )]
    Host,
    /// There is no token, or another one.
    #[error("from another machine this needs a bearer token: auth.http_token in the settings")]
    Token,
}

impl AdminRefusal {
    /// What HTTP calls it.
    pub(super) fn status(self) -> StatusCode {
        match self {
            AdminRefusal::Token => StatusCode::UNAUTHORIZED,
            AdminRefusal::Host => StatusCode::FORBIDDEN,
        }
    }
}

/// The name that is asked for must be an address, one of this machine's own, or one that the settings list. A page in
/// a browser, on any machine that reaches this, could let a name of its own point here; it cannot choose the others.
pub(super) fn host<B>(node: &Node, request: &Request<B>) -> Result<(), AdminRefusal> {
    match access::names_this_server(request.headers(), request.uri(), &node.settings().admin_hosts) {
        true => Ok(()),
        false => Err(AdminRefusal::Host),
    }
}

/// What clients sent is shown to who is on this machine itself, not behind something that forwards, and
/// to who has the token.
pub(super) fn trusted(node: &Node, caller: AdminClient, headers: &HeaderMap) -> Result<(), AdminRefusal> {
    let is_forwarded = headers.contains_key(FORWARDED) || headers.contains_key("x-forwarded-for");
    let is_here = caller.address.is_loopback() && !is_forwarded;
    match is_here || access::has_token(headers, node.settings().http_token.as_deref()) {
        true => Ok(()),
        false => Err(AdminRefusal::Token),
    }
}
