//! Checks whether a client may see a page of the admin listener.

use http::header::{FORWARDED, HeaderMap};
use http::{Request, StatusCode};

use super::AdminClient;
use crate::control::api::ApiError;
use crate::control::console;
use crate::identity::access;
use crate::node::Node;

/// What the listener serves in any case.
const PUBLIC_PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AdminRefusal {
    /// `Host` is a name that a web site could have.
    #[error("`Host` must be an IP address, localhost or a name listed in `admin.hosts` of the settings")]
    Host,
    /// The token is missing or wrong.
    #[error("from another machine this page needs a bearer token: `auth.http_token` of the settings")]
    Token,
}

impl AdminRefusal {
    /// The HTTP status of the refusal.
    pub(super) fn status(self) -> StatusCode {
        match self {
            AdminRefusal::Token => StatusCode::UNAUTHORIZED,
            AdminRefusal::Host => StatusCode::FORBIDDEN,
        }
    }
}

/// Checks that `Host` is an IP address, a name of this machine, or a name listed in the settings. A web page in a
/// browser can make its own host name resolve to this server (DNS rebinding), but cannot send these names.
pub(super) fn check_host<B>(node: &Node, request: &Request<B>) -> Result<(), AdminRefusal> {
    match access::names_this_server(request.headers(), request.uri(), &node.settings().admin_hosts) {
        true => Ok(()),
        false => Err(AdminRefusal::Host),
    }
}

/// Checks that nobody can read on the network what a client sends and gets, unless the operator wants that, or the page is
/// about the health of the server only. The console needs it in any case: a cookie is sent with every request.
pub(super) fn check_privacy(node: &Node, caller: AdminClient, path: &str) -> Result<(), ApiError> {
    let is_console = path.starts_with(console::PREFIX);
    match (caller.is_private() || PUBLIC_PATHS.contains(&path), node.settings().admin_insecure) {
        (true, _) => Ok(()),
        (false, true) if !is_console => Ok(()),
        (false, true) => Err(ApiError::NotHere(
            "the console needs TLS where other machines reach the admin listener: add `tls` to the settings",
        )),
        (false, false) => Err(ApiError::NotHere(
            "without TLS, where other machines reach it, the admin listener serves health and metrics only: add `tls` to \
             the settings, or start the server with `--admin-insecure`, and tokens can be read on the network",
        )),
    }
}

/// Allows clients on this machine, unless a proxy forwards for them, and clients with the token. For pages that show
/// what clients of the server have sent.
pub(super) fn check_token(node: &Node, caller: AdminClient, headers: &HeaderMap) -> Result<(), AdminRefusal> {
    let is_forwarded = headers.contains_key(FORWARDED) || headers.contains_key("x-forwarded-for");
    let is_here = caller.address.is_loopback() && !is_forwarded;
    match is_here || access::has_token(headers, node.settings().http_token.as_deref()) {
        true => Ok(()),
        false => Err(AdminRefusal::Token),
    }
}
