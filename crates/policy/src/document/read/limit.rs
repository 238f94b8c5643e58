//! Reads the entries of `limits`.

use tidegate_document::{DocumentNode, DocumentPath, Problems};

use crate::Problem;
use crate::document::{LimitEntry, words};

use super::{fields, gate, terms, upstream};

/// An entry of `limits`.
pub(super) fn limit(
    node: &DocumentNode,
    path: &DocumentPath<'_>,
    problems: &mut Problems,
) -> Option<LimitEntry> {
    let key = fields::key(node, path, problems);
    let conditions = match node.get("match") {
        Some(conditions) => gate::conditions(conditions, &path.member("match"), problems),
        None => Some(Vec::new()),
    };
    let unless = gate::unless(node, path, problems);
    let terms = terms::terms(node, path, problems);
    if node.get("key").is_none() && node.get("scope").is_none() {
        let message = "without `key` or `scope` all requests share one bucket";
        let problem = Problem::warning(node.at, path.to_string(), message);
        problems
            .push(problem.hint("write `key: []` if that is meant, or `key: [user]` for a bucket per user"));
    }
    let has_key = |key: &Option<Vec<_>>| key.as_ref().is_some_and(|key| !key.is_empty());
    if node.get("missing").is_some() && key.as_ref().is_ok_and(|key| !has_key(key)) {
        let (at, here) = (fields::key_span(node, "missing"), path.member("missing").to_string());
        let problem =
            Problem::warning(at, here, "`missing` does nothing: the limit has no key to be missing");
        problems.push(problem.hint("remove it, or give the limit a `key`"));
    }
    Some(LimitEntry {
        path: path.to_string(),
        at: node.at,
        name: fields::text(node, "name")?,
        description: fields::text(node, "description").map(|text| text.value),
        enabled: fields::enabled(node),
        group: fields::text(node, "group"),
        conditions: conditions?,
        unless: unless?,
        key: key.ok()?,
        missing: fields::word(node, "missing", words::MISSING),
        absorbs: upstream::absorbs(node),
        terms: terms?,
    })
}
