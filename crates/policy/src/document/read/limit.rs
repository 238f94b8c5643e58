//! Reads the entries of `limits`.

use tidegate_document::{DocumentNode, DocumentPath, Problems};

use crate::Problem;
use crate::document::LimitEntry;

use super::{fields, gate, terms};

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
    let terms = terms::terms(node, path, problems);
    if node.get("key").is_none() && node.get("scope").is_none() {
        let message = "without `key` or `scope` all requests share one bucket";
        let problem = Problem::warning(node.at, path.to_string(), message);
        problems
            .push(problem.hint("write `key: []` if that is meant, or `key: [user]` for a bucket per user"));
    }
    Some(LimitEntry {
        path: path.to_string(),
        at: node.at,
        name: fields::text(node, "name")?,
        description: fields::text(node, "description").map(|text| text.value),
        enabled: fields::enabled(node),
        group: fields::text(node, "group"),
        conditions: conditions?,
        key: key.ok()?,
        terms: terms?,
    })
}
