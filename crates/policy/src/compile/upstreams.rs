//! Compiles `upstreams`, and checks what refers to them.

use std::collections::BTreeSet;

use tidegate_document::nearest;

use super::Compiler;
use crate::document::{ConditionEntry, ConditionTest, Document};
use crate::matching::HostIndex;
use crate::rules::Upstreams;
use crate::{Descriptor, Problem, Spanned};

impl Compiler<'_> {
    pub(super) fn upstreams(&mut self, document: &Document) -> Upstreams {
        let mut hosts = HostIndex::default();
        let mut names = Vec::new();
        for (number, entry) in (0..).zip(document.upstreams.iter().filter(|entry| entry.enabled)) {
            entry.hosts.iter().for_each(|pattern| hosts.insert(&pattern.value, number));
            names.push(entry.name.value.as_str().into());
        }
        Upstreams::new(names, hosts)
    }

    /// Checks the names of upstreams in routes, tenants and conditions.
    pub(super) fn check_upstreams(&mut self, document: &Document) {
        let declared: BTreeSet<&str> =
            document.upstream_names.iter().map(|entry| entry.name.value.as_str()).collect();
        let of_routes = document.routes.iter().filter_map(|route| {
            route.upstream.as_ref().map(|name| (name, format!("{}.upstream", route.path)))
        });
        let of_tenants = document.tenants.iter().flat_map(|tenant| {
            let path = |name: &str| format!("{}.upstreams.{name}", tenant.path);
            tenant.upstreams.iter().map(move |upstream| (&upstream.name, path(&upstream.name.value)))
        });
        for (name, path) in of_routes.chain(of_tenants) {
            if !declared.contains(name.value.as_str()) {
                let message = format!("`upstreams` has no `{}`", name.value);
                let problem = Problem::error(name.at, path, message).want("the name of an upstream");
                self.report(problem.hint(upstream_hint(&name.value, &declared)));
            }
        }
        if !declared.is_empty() {
            self.check_upstream_conditions(document, &declared);
        }
    }

    /// An upstream that is not declared can still be named by requests, so a condition on one is only suspicious.
    fn check_upstream_conditions(&mut self, document: &Document, declared: &BTreeSet<&str>) {
        let gates = document.allow.iter().chain(&document.block);
        let gates = gates.map(|entry| (entry.path.clone(), &entry.conditions));
        let limits = document.limits.iter().map(|entry| (format!("{}.match", entry.path), &entry.conditions));
        for (path, conditions) in limits.chain(gates) {
            for name in conditions.iter().flat_map(upstream_names) {
                if !declared.contains(name.value.as_str()) {
                    let message =
                        format!("`upstreams` has no `{}`: only requests that name it match", name.value);
                    let problem = Problem::warning(name.at, format!("{path}.upstream"), message);
                    let problem = problem.want("the name of an upstream");
                    self.report(problem.hint(upstream_hint(&name.value, declared)));
                }
            }
        }
    }
}

/// The names of upstreams in a condition.
fn upstream_names(condition: &ConditionEntry) -> &[Spanned<String>] {
    match &condition.test {
        ConditionTest::Value(Descriptor::Upstream, names) => names,
        _ => &[],
    }
}

fn upstream_hint(name: &str, declared: &BTreeSet<&str>) -> String {
    match nearest(name, declared.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("add `{{ name: {name}, hosts: […] }}` to `upstreams`"),
    }
}
