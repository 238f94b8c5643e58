//! Reads the fields that a limit and a tenant's rate limit share.

use tidegate_core::{Algorithm, Nanos};
use tidegate_document::{DocumentNode, DocumentPath, Problems, ValueKind, value};

use crate::document::{Burst, CostEntry, HeaderFamily, Jitter, LimitTerms, Preset, StrategyEntry, Sustained};
use crate::document::{table, words};
use crate::{Problem, Spanned};

use super::fields;

/// The terms; `None` if some contradict each other, which is reported.
pub(super) fn terms(
    node: &DocumentNode,
    path: &DocumentPath<'_>,
    problems: &mut Problems,
) -> Option<LimitTerms> {
    let mut check = CrossCheck { node, path, problems, is_valid: true };
    let algorithm = fields::word(node, "algorithm", words::ALGORITHMS);
    check.burst_fits(algorithm.map(|algorithm| algorithm.value));
    let burst = node.get("burst").and_then(|burst| check.burst(burst));
    let preset = fields::word(node, "preset", words::PRESETS);
    let cost = node.get("cost").and_then(|cost| check.cost(cost));
    check.preset_has_cost(preset, cost.as_ref());
    let strategy = check.strategy();
    let is_valid = check.is_valid & check_families(node, path, problems);
    let terms = LimitTerms {
        algorithm,
        sustained: node.get("sustained").and_then(sustained),
        burst,
        preset,
        carry: fields::word(node, "carry", words::CARRY).map(|carry| carry.value).unwrap_or_default(),
        cost,
        strategy,
        ..answers(node)
    };
    is_valid.then_some(terms)
}

/// Are the families of headers ones that can be written together? Two of them use the same header names, and a client
/// could read neither if both were written.
pub(super) fn check_families(node: &DocumentNode, path: &DocumentPath<'_>, problems: &mut Problems) -> bool {
    let families = fields::words(node, "headers", words::FAMILIES).unwrap_or_default();
    let both = [HeaderFamily::RateLimit07, HeaderFamily::Ietf].iter().all(|family| families.contains(family));
    if both {
        let message = "`ietf` and `ratelimit-07` write the same headers in different ways";
        let at = fields::key_span(node, "headers");
        problems.push(Problems::error(at, &path.member("headers"), message).hint("remove one of the two"));
    }
    !both
}

/// The fields that a limit and the defaults share; the other terms are left empty.
pub(super) fn answers(node: &DocumentNode) -> LimitTerms {
    LimitTerms {
        mode: fields::word(node, "mode", words::MODES).map(|mode| mode.value),
        headers: fields::words(node, "headers", words::FAMILIES),
        response_headers: fields::flag(node, "response_headers"),
        retry_jitter: fields::small_decimal(node, "retry_jitter").map(|jitter| Jitter(jitter.value)),
        on_store_error: fields::word(node, "on_store_error", words::STORE_ERRORS).map(|choice| choice.value),
        ..LimitTerms::default()
    }
}

fn sustained(node: &DocumentNode) -> Option<Sustained> {
    let window = fields::window(node, "window").unwrap_or(Spanned::new(Nanos::SECOND, node.at));
    Some(Sustained { at: node.at, rate: fields::integer(node, "rate")?, window })
}

/// Checks members that are valid alone but may contradict each other.
struct CrossCheck<'a> {
    node: &'a DocumentNode,
    path: &'a DocumentPath<'a>,
    problems: &'a mut Problems,
    is_valid: bool,
}

impl CrossCheck<'_> {
    /// Reports that `field` is not allowed here.
    fn refuse(&mut self, field: &str, message: String, hint: &str) {
        let at = fields::key_span(self.node, field);
        self.problems.push(Problems::error(at, &self.path.member(field), message).hint(hint));
        self.is_valid = false;
    }

    fn burst_fits(&mut self, algorithm: Option<Algorithm>) {
        let is_window = algorithm.is_some_and(|algorithm| algorithm != Algorithm::TokenBucket);
        for field in ["burst", "preset"].into_iter().filter(|field| self.node.get(field).is_some()) {
            if is_window {
                let message = format!(
                    "`{field}` does not apply to a window algorithm, whose limit is `sustained.rate`"
                );
                self.refuse(field, message, "remove it, or use `algorithm: token_bucket`");
            }
        }
        if !is_window && self.node.get("burst").is_some() && self.node.get("preset").is_some() {
            let at = fields::key_span(self.node, "preset");
            let message = "`preset` does nothing beside `burst`";
            let problem = Problem::warning(at, self.path.member("preset").to_string(), message);
            self.problems.push(problem.hint("a preset is a burst: remove one of the two"));
        }
    }

    fn burst(&mut self, burst: &DocumentNode) -> Option<Spanned<Burst>> {
        let capacity = fields::small(burst, "capacity");
        let allowance = fields::decimal(burst, "allowance");
        let size = match (capacity, allowance) {
            (Some(capacity), None) => Some(Burst::Capacity(capacity.value)),
            (None, Some(allowance)) => Some(Burst::Allowance(allowance.value)),
            (Some(_), Some(_)) => {
                self.refuse(
                    "burst",
                    "`capacity` and `allowance` exclude each other".into(),
                    "remove one of the two",
                );
                None
            }
            // An empty `burst` is the same as none: the burst is the rate.
            (None, None) => None,
        };
        size.map(|size| Spanned::new(size, burst.at))
    }

    fn cost(&mut self, cost: &DocumentNode) -> Option<CostEntry> {
        if !matches!(cost.kind, ValueKind::Map(_)) {
            let number = value::integer(cost, 1, u64::from(u32::MAX)).ok()?;
            return Some(CostEntry::Plain(Spanned::new(u32::try_from(number).ok()?, cost.at)));
        }
        let Some(from) = cost.get("from") else { return self.fixed_cost(cost) };
        if cost.get("fixed").is_some() {
            self.refuse("cost", "`from` and `fixed` exclude each other".into(), "remove one of the two");
            return None;
        }
        let descriptor = table::descriptor(from).ok()?;
        let default = fields::small(cost, "default").map_or(1, |default| default.value);
        let max = fields::small(cost, "max").map_or(u32::MAX, |max| max.value);
        if default > max {
            let message = format!("the default {default} is above the maximum {max}");
            self.refuse("cost", message, "raise `max`, or lower `default`");
        }
        Some(CostEntry::From { from: Spanned::new(descriptor, from.at), default, max })
    }

    /// A cost without `from`.
    fn fixed_cost(&mut self, cost: &DocumentNode) -> Option<CostEntry> {
        if cost.get("default").or(cost.get("max")).is_some() {
            let hint = "add `from`, for instance `from: \"header:x-cost\"`, or remove them";
            self.refuse("cost", "`default` and `max` need `from`".into(), hint);
            return None;
        }
        let Some(fixed) = cost.get("fixed") else {
            let hint = "write `fixed: 1` to count calls, or `from: \"header:x-cost\"`";
            self.refuse("cost", "`cost` has neither `from` nor `fixed`".into(), hint);
            return None;
        };
        let number = fields::small(cost, "fixed")?;
        Some(CostEntry::PerCall(Spanned::new(number.value, fixed.at)))
    }

    fn preset_has_cost(&mut self, preset: Option<Spanned<Preset>>, cost: Option<&CostEntry>) {
        let wants_cost = preset.is_some_and(|preset| preset.value == Preset::LlmTools);
        if wants_cost && !matches!(cost, Some(CostEntry::From { .. })) {
            let hint = "add `cost: { from: \"header:x-request-weight\" }`";
            self.refuse("preset", "`preset: llm_tools` needs `cost.from`".into(), hint);
        }
    }

    fn strategy(&mut self) -> StrategyEntry {
        let word = fields::text(self.node, "strategy").map(|word| word.value);
        let word = word.as_deref().unwrap_or("reject");
        for field in ["queue", "degrade"].into_iter().filter(|field| *field != word) {
            if self.node.get(field).is_some() {
                let at = fields::key_span(self.node, field);
                let message = format!("`{field}` does nothing with `strategy: {word}`");
                let problem = Problem::warning(at, self.path.member(field).to_string(), message);
                self.problems.push(problem.hint(format!("add `strategy: {field}`, or remove it")));
            }
        }
        let inside = |name: &str| self.node.get(name);
        match word {
            "queue" => StrategyEntry::Queue {
                max_depth: inside("queue")
                    .and_then(|queue| fields::small(queue, "max_depth"))
                    .map_or(100, |n| n.value),
                max_wait: inside("queue")
                    .and_then(|queue| fields::duration(queue, "max_wait"))
                    .unwrap_or(Nanos::from_secs(2)),
            },
            "degrade" => {
                let tag = inside("degrade").and_then(|degrade| fields::text(degrade, "tag"));
                StrategyEntry::Degrade { tag: tag.map_or("degraded".into(), |tag| tag.value) }
            }
            _ => StrategyEntry::Reject,
        }
    }
}
