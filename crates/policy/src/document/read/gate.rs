//! Reads conditions, and the entries of `routes`, `allow`, `block` and `bursts`.

use tidegate_core::Nanos;
use tidegate_document::{DocumentNode, DocumentPath, Problems, value};

use crate::document::table::GATE;
use crate::document::{BurstEntry, ConditionEntry, ConditionTest, GateEntry, RouteEntry};
use crate::{Descriptor, Pattern, Spanned};

use super::fields;

/// The conditions of a `match`, or of an entry of `allow` or `block`.
pub(super) fn conditions(
    node: &DocumentNode,
    path: &DocumentPath<'_>,
    problems: &mut Problems,
) -> Option<Vec<ConditionEntry>> {
    let mut known: Vec<Descriptor> = Vec::new();
    let (mut conditions, mut is_valid) = (Vec::new(), true);
    let is_condition = |name: &str| GATE.fields().all(|field| field.name != name);
    for (key, values) in node.entries().iter().filter(|(key, _)| is_condition(&key.value)) {
        let name = if key.value == "methods" { "method" } else { &key.value };
        let descriptor = Descriptor::parse(name)?;
        if known.contains(&descriptor) {
            let message = format!("a second condition on `{descriptor}`");
            let problem = Problems::error(key.at, &path.member(&key.value), message);
            problems.push(problem.hint("put the values in one list: one of them must match"));
            is_valid = false;
        }
        conditions.push(ConditionEntry { at: key.at, test: test(&descriptor, fields::one_or_more(values))? });
        known.push(descriptor);
    }
    is_valid.then_some(conditions)
}

fn test(descriptor: &Descriptor, values: &[DocumentNode]) -> Option<ConditionTest> {
    let texts = || values.iter().map(|node| Some(Spanned::new(node.scalar()?.to_owned(), node.at)));
    Some(match descriptor {
        Descriptor::Path => ConditionTest::Path(values.iter().map(pattern).collect::<Option<_>>()?),
        Descriptor::Method => ConditionTest::Method(texts().collect::<Option<_>>()?),
        Descriptor::Ip => {
            let networks = values.iter().map(|node| Some(Spanned::new(value::cidr(node).ok()?, node.at)));
            ConditionTest::Address(networks.collect::<Option<_>>()?)
        }
        other => ConditionTest::Value(other.clone(), texts().collect::<Option<_>>()?),
    })
}

fn pattern(node: &DocumentNode) -> Option<Spanned<Pattern>> {
    Some(Spanned::new(Pattern::parse(node.scalar()?).ok()?, node.at))
}

/// An entry of `routes`.
pub(super) fn route(node: &DocumentNode, path: &DocumentPath<'_>) -> Option<RouteEntry> {
    let methods = node.get("methods").map(fields::one_or_more).unwrap_or_default();
    let methods = methods.iter().map(|node| Some(Spanned::new(node.scalar()?.to_owned(), node.at)));
    Some(RouteEntry {
        path: path.to_string(),
        at: node.at,
        enabled: fields::enabled(node),
        pattern: pattern(node.get("path")?)?,
        methods: methods.collect::<Option<_>>()?,
        upstream: fields::text(node, "upstream"),
        cost: fields::small(node, "cost").map(|cost| cost.value),
    })
}

/// An entry of `allow` or `block`.
pub(super) fn gate(
    node: &DocumentNode,
    path: &DocumentPath<'_>,
    problems: &mut Problems,
) -> Option<GateEntry> {
    let conditions = conditions(node, path, problems)?;
    if conditions.is_empty() {
        let problem =
            Problems::error(node.at, path, "the entry names no descriptor, so it would match every request");
        problems
            .push(problem.want("at least one descriptor").hint("name one, for instance `ip: 10.0.0.0/8`"));
        return None;
    }
    let until = node.get("until").and_then(|until| Some(Spanned::new(value::instant(until).ok()?, until.at)));
    Some(GateEntry {
        path: path.to_string(),
        at: node.at,
        enabled: fields::enabled(node),
        conditions,
        reason: fields::text(node, "reason").map(|text| text.value),
        until,
    })
}

/// An entry of `bursts`.
pub(super) fn burst(
    node: &DocumentNode,
    path: &DocumentPath<'_>,
    problems: &mut Problems,
) -> Option<BurstEntry> {
    let key = fields::key(node, path, problems).ok()?;
    if node.get("key").is_none() && node.get("scope").is_none() {
        // Without a key the burst of one client would block every client.
        let problem = Problems::error(node.at, path, "`key` or `scope` is missing");
        problems.push(problem.want("which requests are counted together").hint("add `key: [user, route]`"));
    }
    Some(BurstEntry {
        path: path.to_string(),
        at: node.at,
        name: fields::text(node, "name")?,
        enabled: fields::enabled(node),
        key: key?,
        window: fields::window(node, "window").map_or(Nanos::from_secs(10), |window| window.value),
        threshold: fields::small(node, "threshold").map_or(50, |threshold| threshold.value),
        penalty: fields::duration(node, "penalty").unwrap_or(Nanos::from_secs(300)),
    })
}
