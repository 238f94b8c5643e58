//! Who may hand tokens back, or make buckets of their own.

use http::request::Parts;

use super::Context;
use super::problem::Problem;
use crate::identity::access;

/// On a listener that others than this machine reach, the token of the settings is needed; without
/// one in the settings nobody may. On loopback everybody may but pages in a browser: any page that
/// somebody on this machine looks at can send something here.
pub(super) fn check(context: &Context, parts: &Parts) -> Result<(), Problem> {
    let wanted = context.node.settings.http_token.as_deref();
    if access::has_token(&parts.headers, wanted) {
        return Ok(());
    }
    if context.peer.on_loopback {
        let of_a_page = access::is_of_a_page(&parts.headers);
        let is_here = access::names_this_machine(&parts.headers, &parts.uri);
        return if of_a_page || !is_here { Err(Problem::Page) } else { Ok(()) };
    }
    Err(if wanted.is_some() { Problem::Unauthorized } else { Problem::Off })
}
