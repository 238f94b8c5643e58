//! Checks whether a caller may use an endpoint.

use http::request::Parts;

use super::EndpointAccess;
use crate::http::Context;
use crate::http::response::problem::HttpProblem;
use crate::identity::access;

/// A caller with the token of the settings may always use every endpoint. Without it:
///
/// - On loopback, everything except a web page in a browser may: any page open on this machine can send requests here.
/// - On other listeners, unguarded endpoints are open to all, and guarded ones to nobody.
pub(crate) fn check(context: &Context, parts: &Parts, access: EndpointAccess) -> Result<(), HttpProblem> {
    if access == EndpointAccess::Anybody || (access == EndpointAccess::Programs && !context.peer.on_loopback)
    {
        return Ok(());
    }
    let wanted = context.node.settings().http_token.as_deref();
    if access::has_token(&parts.headers, wanted) {
        return Ok(());
    }
    if context.peer.on_loopback {
        let from_web_page = access::has_origin(&parts.headers);
        let is_here = access::names_this_machine(&parts.headers, &parts.uri);
        return if from_web_page || !is_here { Err(HttpProblem::WebPage) } else { Ok(()) };
    }
    Err(if wanted.is_some() { HttpProblem::Unauthorized } else { HttpProblem::Disabled })
}
