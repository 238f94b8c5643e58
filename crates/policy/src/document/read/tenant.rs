//! Reads the entries of `tenants`.

use tidegate_document::{DocumentNode, DocumentPath, Problems};

use crate::document::{Budget, TenantEntry, TenantLimit, TenantUpstream, words};
use crate::{Descriptor, Spanned};

use super::{fields, terms};

/// An entry of `tenants`.
pub(super) fn tenant(
    node: &DocumentNode,
    path: &DocumentPath<'_>,
    problems: &mut Problems,
) -> Option<TenantEntry> {
    let rate_limit = rate_limit(node, path, problems);
    let upstreams = match node.get("upstreams") {
        Some(upstreams) => self::upstreams(upstreams, &path.member("upstreams"), problems),
        None => Some(Vec::new()),
    };
    Some(TenantEntry {
        path: path.to_string(),
        at: node.at,
        id: fields::text(node, "id")?,
        enabled: fields::enabled(node),
        parent: fields::text(node, "parent"),
        rate_limit: rate_limit?,
        upstreams: upstreams?,
    })
}

/// The limits for single upstreams; `None` if one of them is wrong and reported.
fn upstreams(
    node: &DocumentNode,
    path: &DocumentPath<'_>,
    problems: &mut Problems,
) -> Option<Vec<TenantUpstream>> {
    let mut read = |(key, upstream): &(Spanned<String>, DocumentNode)| {
        let rate_limit = rate_limit(upstream, &path.member(&key.value), problems)?;
        Some(TenantUpstream { name: key.clone(), rate_limit })
    };
    // All are read, so that the problems of all are reported.
    let read: Vec<Option<TenantUpstream>> = node.entries().iter().map(&mut read).collect();
    read.into_iter().collect()
}

/// The member `rate_limit`: `Some(None)` if it is absent or switched off, `None` if it is wrong and reported.
fn rate_limit(
    node: &DocumentNode,
    path: &DocumentPath<'_>,
    problems: &mut Problems,
) -> Option<Option<TenantLimit>> {
    let Some(limit) = node.get("rate_limit") else { return Some(None) };
    let read = tenant_limit(limit, &path.member("rate_limit"), problems)?;
    Some(Some(read).filter(|_| fields::enabled(limit)))
}

fn tenant_limit(
    node: &DocumentNode,
    path: &DocumentPath<'_>,
    problems: &mut Problems,
) -> Option<TenantLimit> {
    let budget = node.get("budget").map(|budget| Budget {
        at: budget.at,
        mode: fields::word(budget, "mode", words::BUDGETS).map(|mode| mode.value).unwrap_or_default(),
        total: fields::integer(budget, "total"),
        overcommit: fields::small_decimal(budget, "overcommit_ratio"),
        remainder: fields::word(budget, "remainder", words::REMAINDERS)
            .map(|word| word.value)
            .unwrap_or_default(),
    });
    let scope = node.get("scope").and_then(fields::scope_descriptor).flatten();
    Some(TenantLimit {
        path: path.to_string(),
        at: node.at,
        sharing: fields::word(node, "sharing", words::SHARING).map(|word| word.value).unwrap_or_default(),
        budget,
        // A tenant's own bucket is already one per tenant.
        scope: scope.filter(|scope| scope.value != Descriptor::Tenant),
        terms: terms::terms(node, path, problems)?,
    })
}
