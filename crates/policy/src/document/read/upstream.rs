//! Reads the entries of `upstreams`.

use tidegate_document::{DocumentNode, DocumentPath};

use crate::document::{Absorbs, UpstreamEntry};
use crate::{HostPattern, Spanned};

use super::fields;

/// An entry of `upstreams`.
pub(super) fn upstream(node: &DocumentNode, path: &DocumentPath<'_>) -> Option<UpstreamEntry> {
    let hosts = node.get("hosts").map(fields::one_or_more).unwrap_or_default();
    let pattern = |host: &DocumentNode| Some(Spanned::new(HostPattern::parse(host.scalar()?).ok()?, host.at));
    Some(UpstreamEntry {
        path: path.to_string(),
        at: node.at,
        name: fields::text(node, "name")?,
        enabled: fields::enabled(node),
        hosts: hosts.iter().map(pattern).collect::<Option<_>>()?,
        absorbs: absorbs(node),
    })
}

/// `absorbs` of an upstream or of a limit.
pub(super) fn absorbs(node: &DocumentNode) -> Option<Spanned<Absorbs>> {
    let absorbs = node.get("absorbs")?;
    let rate = fields::integer(absorbs, "rate")?.value;
    let burst = fields::integer(absorbs, "burst").map_or(rate, |burst| burst.value);
    Some(Spanned::new(Absorbs { rate, burst }, absorbs.at))
}
