//! Who may ask for decisions, hand tokens back, or make buckets of their own.

use http::request::Parts;

use super::Access;
use crate::http::Context;
use crate::http::response::problem::HttpProblem;
use crate::identity::access;

/// On loopback everybody may ask but pages in a browser: any page that somebody on this machine looks at can send
/// something here. On a listener that others reach, decisions are for everybody; what is guarded needs the token of
/// the settings, and without one in the settings nobody may. Who has the token may always.
pub(crate) fn check(context: &Context, parts: &Parts, access: Access) -> Result<(), HttpProblem> {
    if access == Access::Anybody || (access == Access::Programs && !context.peer.on_loopback) {
        return Ok(());
    }
    let wanted = context.node.settings().http_token.as_deref();
    if access::has_token(&parts.headers, wanted) {
        return Ok(());
    }
    if context.peer.on_loopback {
        let of_a_page = access::has_origin(&parts.headers);
        let is_here = access::names_this_machine(&parts.headers, &parts.uri);
        return if of_a_page || !is_here { Err(HttpProblem::Page) } else { Ok(()) };
    }
    Err(if wanted.is_some() { HttpProblem::Unauthorized } else { HttpProblem::Off })
}
