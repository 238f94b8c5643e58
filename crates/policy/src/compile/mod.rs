//! Compiles a document to a rule set, and reports every problem.

mod absorbs;
mod costs;
mod fraction;
mod gaps;
mod gates;
mod limits;
mod overlap;
mod tenants;
mod terms;
mod upstreams;

#[cfg(test)]
mod tests;

pub use tenants::DEPTH_MAX as TENANT_DEPTH_MAX;

use std::collections::HashMap;

use tidegate_core::{Cost, Nanos};

use crate::document::{self, Defaults, Document, EntryName, HeaderFamily, Mode, RouteEntry};
use crate::matching::{Condition, Index};
use crate::rules::{CompiledRoute, DetectorRule, Routes, RuleSet};
use crate::{Descriptor, GateStage, Pattern, Problem, Span, Spanned};

/// The highest number of limits, of tenants, and of each other kind of entry.
pub const ENTRIES_MAX: usize = 100_000;

/// How many problems are reported. Nobody reads more.
const PROBLEMS_MAX: usize = 2_000;

/// Compiles a document at `now`, the time since 1970: entries that have expired by then lead to warnings. The rule set
/// may be used only if no problem is an error.
pub fn compile(document: &Document, now: Nanos) -> (RuleSet, Vec<Problem>) {
    let mut compiler = Compiler { defaults: &document.defaults, trust: document.trust, problems: Vec::new() };
    compiler.check_counts(document);
    let mut rules = compiler.limits(&document.limits);
    let limit_count = rules.len();
    let upstreams = compiler.upstreams(document);
    let tenants = compiler.tenants(document, &mut rules);
    compiler.check_names(document);
    compiler.check_upstreams(document);
    compiler.check_absorbs(document, (&rules, limit_count), &tenants, &upstreams);
    compiler.check_gaps(&document.limits, &rules[..limit_count]);
    compiler.check_route_costs(document, &rules);
    let filed = |number: &u32| rules[*number as usize].enabled;
    let numbers = 0..limit_count as u32;
    let index = Index::new(numbers.filter(filed).map(|number| (number, &*rules[number as usize].conditions)));
    let routes = compiler.routes(document);
    let rule_set = RuleSet {
        index,
        limit_count,
        rules: rules.into(),
        tenants,
        upstreams,
        allow: compiler.gate("allow", &document.allow, now),
        block: compiler.gate("block", &document.block, now),
        detectors: detectors(document, routes.stage),
        trust: document.trust,
        shadow: document.defaults.mode == Some(Mode::Shadow),
        deny_unknown_tenants: document.defaults.deny_unknown_tenants,
        default_tenant: document.defaults.tenant.as_ref().map(|tenant| tenant.value.as_str().into()),
        response_headers: document.defaults.response_headers.unwrap_or(true),
        spelling: document.defaults.paths,
        priority_from: document.defaults.priority.clone(),
        routes,
    };
    let mut problems = compiler.problems;
    problems.sort_by_key(|problem| problem.at);
    (rule_set, problems)
}

/// The state of a compilation.
struct Compiler<'a> {
    defaults: &'a Defaults,
    trust: bool,
    problems: Vec<Problem>,
}

impl Compiler<'_> {
    /// Adds a problem, unless there are too many.
    fn report(&mut self, problem: Problem) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    fn check_counts(&mut self, document: &Document) {
        let kinds = [
            ("limits", document.limits.len()),
            ("routes", document.routes.len()),
            ("tenants", document.tenants.len()),
            ("upstreams", document.upstreams.len()),
            ("allow", document.allow.len()),
            ("block", document.block.len()),
            ("bursts", document.bursts.len()),
        ];
        for (kind, count) in kinds {
            if count > ENTRIES_MAX {
                let problem = Problem::error(Span::default(), kind, format!("too many {kind}"));
                self.report(problem.saw(count.to_string()).want(format!("at most {ENTRIES_MAX}")));
            }
        }
    }

    /// Decisions and metrics identify limits and detectors by name, and tenants by id: each must be unique.
    fn check_names(&mut self, document: &Document) {
        let lists = [
            ("name", &document.names, "state and metrics are kept by name"),
            ("id", &document.tenant_ids, "state and metrics are kept by id"),
            ("name", &document.upstream_names, "limits and routes refer to upstreams by name"),
            ("id", &document.route_ids, "it stands for one entry of `routes`"),
            ("id", &document.allow_ids, "it stands for one entry of `allow`"),
            ("id", &document.block_ids, "it stands for one entry of `block`"),
        ];
        for (what, names, why) in lists {
            let mut seen: HashMap<&str, Span> = HashMap::new();
            for EntryName { path, name } in names {
                match seen.get(name.value.as_str()) {
                    Some(first) => {
                        let message =
                            format!("the {what} `{}` is already used on line {}", name.value, first.line);
                        let problem = Problem::error(name.at, path, message).saw(format!("`{}`", name.value));
                        self.report(problem.want(format!("a unique {what}: {why}")));
                    }
                    None => _ = seen.insert(&name.value, name.at),
                }
            }
        }
    }

    fn routes(&mut self, document: &Document) -> Routes {
        let used = document.routes.iter().filter(|entry| entry.enabled);
        let routes: Vec<CompiledRoute> = used
            .map(|entry| CompiledRoute {
                pattern: entry.pattern.value.with_spelling(document.defaults.paths),
                methods: entry.methods.iter().map(|method| method.value.as_str().into()).collect(),
                upstream: entry.upstream.as_ref().map(|name| name.value.as_str().into()),
                unless: self.conditions(&entry.unless),
                cost: entry.cost.map(|cost| Cost::new(cost.value)),
            })
            .collect();
        self.check_routes(document);
        Routes::new(routes)
    }

    /// Warns of routes that never apply because an earlier one always matches first.
    fn check_routes(&mut self, document: &Document) {
        let routes: Vec<_> = document.routes.iter().filter(|entry| entry.enabled).collect();
        let upstream = |entry: &RouteEntry| entry.upstream.as_ref().map(|name| name.value.clone());
        let methods_hide = |earlier: &RouteEntry, later: &RouteEntry| {
            let among_earlier = |m: &Spanned<String>| earlier.methods.iter().any(|e| e.value == m.value);
            earlier.methods.is_empty()
                || (!later.methods.is_empty() && later.methods.iter().all(among_earlier))
        };
        let compared = routes.iter().take(overlap::COMPARED_MAX);
        let patterns: Vec<Pattern> =
            compared.map(|entry| entry.pattern.value.with_spelling(document.defaults.paths)).collect();
        let hides = |earlier: usize, later: usize| {
            let (pattern, earlier, route) = (&patterns[earlier], routes[earlier], routes[later]);
            pattern.covers(&patterns[later])
                && methods_hide(earlier, route)
                && earlier.unless.is_empty()
                && (earlier.upstream.is_none() || upstream(earlier) == upstream(route))
        };
        for (index, later) in routes.iter().enumerate().take(overlap::COMPARED_MAX) {
            if let Some(earlier) = (0..index).find(|earlier| hides(*earlier, index)) {
                let earlier = routes[earlier];
                let (path, line) = (format!("{}.path", later.path), earlier.pattern.at.line);
                let message =
                    format!("never applies: `{}` on line {line} comes first", earlier.pattern.value);
                let problem = Problem::warning(later.pattern.at, path, message);
                self.report(
                    problem.saw(later.pattern.value.as_str()).hint("move it above that one, or remove it"),
                );
            }
        }
    }

    /// Compiles the conditions of an entry, with the policy's spelling of paths.
    fn conditions(&self, written: &[document::ConditionEntry]) -> Box<[Condition]> {
        written.iter().map(|condition| Condition::new(condition, self.defaults.paths)).collect()
    }

    /// The header families of an entry; none if its headers are switched off.
    fn families(
        &self,
        headers: Option<&Vec<HeaderFamily>>,
        response_headers: Option<bool>,
    ) -> Box<[HeaderFamily]> {
        if !response_headers.or(self.defaults.response_headers).unwrap_or(true) {
            return Box::default();
        }
        let chosen = headers.or(self.defaults.headers.as_ref());
        chosen.map_or_else(|| Box::from([HeaderFamily::XRateLimit]), |families| families.clone().into())
    }
}

/// `routes` is when the route of a request is known.
fn detectors(document: &Document, routes: GateStage) -> Box<[DetectorRule]> {
    let used = document.bursts.iter().filter(|entry| entry.enabled);
    let stage = |descriptor: &Spanned<Descriptor>| match &descriptor.value {
        Descriptor::Route => routes,
        known => known.stage(),
    };
    used.map(|entry| DetectorRule {
        name: entry.name.value.as_str().into(),
        key: entry.key.iter().map(|descriptor| descriptor.value.clone()).collect(),
        stage: GateStage::last_of(entry.key.iter().map(stage)),
        window: entry.window,
        threshold: entry.threshold,
        penalty: entry.penalty,
    })
    .collect()
}
