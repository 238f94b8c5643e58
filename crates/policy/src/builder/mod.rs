//! Policies built in Rust, without YAML.
//!
//! A builder makes the same tree that parsing a text makes, so every check, hint and default of documents applies here
//! too.

mod entry;
mod gate;
mod limit;
mod route;
mod tenant;
mod terms;

#[cfg(test)]
mod tests;

pub use gate::{DetectorBuilder, GateBuilder};
pub use limit::LimitBuilder;
pub use route::{RouteBuilder, UpstreamBuilder};
pub use tenant::TenantBuilder;

use tidegate_core::Nanos;

use crate::document::{Document, HeaderFamily};
use crate::{OnStoreError, PathSpelling, Policy, PolicyError, Problem, compile, read_node};

use entry::Entry;

/// Builds a [`Policy`] in Rust.
///
/// ```
/// use tidegate_policy::{LimitBuilder, PolicyBuilder};
///
/// let policy = PolicyBuilder::new()
///     .limit(LimitBuilder::per_second("per-address", 10).key(["ip"]).burst(20))
///     .limit(LimitBuilder::per_minute("searches", 30).key(["user"]).when("path", ["/search/**"]))
///     .block("ip", ["203.0.113.0/24"])
///     .build()?;
/// assert_eq!(policy.rules.rules().len(), 2);
///
/// let error = PolicyBuilder::new().limit(LimitBuilder::per_second("typo", 1).key(["usr"])).build().unwrap_err();
/// assert!(error.to_string().contains("did you mean `user`?"));
/// # Ok::<(), tidegate_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct PolicyBuilder {
    limits: Vec<Entry>,
    routes: Vec<Entry>,
    tenants: Vec<Entry>,
    upstreams: Vec<Entry>,
    allow: Vec<Entry>,
    block: Vec<Entry>,
    bursts: Vec<Entry>,
    defaults: Entry,
    trust: bool,
}

impl PolicyBuilder {
    /// A policy without limits.
    pub fn new() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    /// Adds a limit. A request must be admitted by every limit that applies to it.
    pub fn limit(mut self, limit: LimitBuilder) -> PolicyBuilder {
        self.limits.push(limit.into_entry());
        self
    }

    /// Sets what requests to a path cost, in place of a limit's fixed cost. Of several routes that match, the first one
    /// applies.
    pub fn route(self, path: impl Into<String>, cost: u32) -> PolicyBuilder {
        self.add_route(RouteBuilder::new(path).cost(cost))
    }

    /// The same, for these HTTP methods only.
    pub fn route_for<M: Into<String>>(
        self,
        methods: impl IntoIterator<Item = M>,
        path: impl Into<String>,
        cost: u32,
    ) -> PolicyBuilder {
        self.add_route(RouteBuilder::new(path).methods(methods).cost(cost))
    }

    /// Adds a route. Of several routes that match, the first one applies.
    pub fn add_route(mut self, route: RouteBuilder) -> PolicyBuilder {
        self.routes.push(route.into_entry());
        self
    }

    /// Adds a tenant.
    pub fn tenant(mut self, tenant: TenantBuilder) -> PolicyBuilder {
        self.tenants.push(tenant.into_entry());
        self
    }

    /// Declares a service that requests go to. A request belongs to the upstream that it names itself, else to the first
    /// one with a host that matches: `api.example.com`, or `*.example.com` for every host below.
    pub fn upstream<H: Into<String>>(
        self,
        name: impl Into<String>,
        hosts: impl IntoIterator<Item = H>,
    ) -> PolicyBuilder {
        self.add_upstream(UpstreamBuilder::new(name).hosts(hosts))
    }

    /// The same, with what else an upstream can have.
    pub fn add_upstream(mut self, upstream: UpstreamBuilder) -> PolicyBuilder {
        self.upstreams.push(upstream.into_entry());
        self
    }

    /// Denies requests of tenants that the policy does not list. By default they have no tenant limits; see also
    /// [`TenantBuilder::unlisted`].
    pub fn deny_unknown_tenants(mut self) -> PolicyBuilder {
        self.defaults.set("unknown_tenant", entry::text("deny"));
        self
    }

    /// Sets the tenant that a request belongs to if it names none.
    pub fn default_tenant(mut self, id: impl Into<String>) -> PolicyBuilder {
        self.defaults.set("tenant", entry::text(id));
        self
    }

    /// Lets requests bypass all limits if a descriptor, such as `ip` or `header:x-internal`, has one of these values.
    pub fn allow<V: Into<String>>(
        self,
        descriptor: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> PolicyBuilder {
        self.allow_gate(GateBuilder::new().when(descriptor, values))
    }

    /// Lets requests bypass all limits if they match a gate.
    pub fn allow_gate(mut self, gate: GateBuilder) -> PolicyBuilder {
        self.allow.push(gate.into_entry());
        self
    }

    /// Denies requests if a descriptor has one of these values.
    pub fn block<V: Into<String>>(
        self,
        descriptor: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> PolicyBuilder {
        self.block_gate(GateBuilder::new().when(descriptor, values))
    }

    /// Denies requests if they match a gate.
    pub fn block_gate(mut self, gate: GateBuilder) -> PolicyBuilder {
        self.block.push(gate.into_entry());
        self
    }

    /// Adds a detector of bursts.
    pub fn detector(mut self, detector: DetectorBuilder) -> PolicyBuilder {
        self.bursts.push(detector.into_entry());
        self
    }

    /// Scales limits that are counted by caller with the trust of each request.
    pub fn adaptive_trust(mut self) -> PolicyBuilder {
        self.trust = true;
        self
    }

    /// Shadow mode for the whole policy: it counts and denies nobody; decisions report what would have been denied.
    pub fn shadow(mut self) -> PolicyBuilder {
        self.defaults.set("mode", entry::text("shadow"));
        self
    }

    /// Sets which families of rate-limit headers responses have, where a limit does not choose. None turns the headers
    /// off; `Retry-After` stays.
    pub fn headers(mut self, families: impl IntoIterator<Item = HeaderFamily>) -> PolicyBuilder {
        terms::headers(&mut self.defaults, families);
        self
    }

    /// Adds up to this many per cent, at most 50, to `Retry-After`, where a limit does not choose.
    pub fn retry_jitter(mut self, percent: u32) -> PolicyBuilder {
        self.defaults.set("retry_jitter", entry::percent(percent));
        self
    }

    /// Sets what happens while a shared store cannot be reached, where a limit does not choose.
    pub fn on_store_error(mut self, choice: OnStoreError) -> PolicyBuilder {
        terms::on_store_error(&mut self.defaults, choice);
        self
    }

    /// Sets where the priority of a request comes from that does not state one, such as `header:x-priority`.
    pub fn priority_from(mut self, descriptor: impl Into<String>) -> PolicyBuilder {
        let mut priority = Entry::default();
        priority.set("from", entry::text(descriptor));
        self.defaults.set_map("priority", priority);
        self
    }

    /// Sets which spellings of a path are one path.
    pub fn paths(mut self, spelling: PathSpelling) -> PolicyBuilder {
        let mut paths = Entry::default();
        paths.set("ignore_case", entry::flag(spelling.ignore_case));
        paths.set("decode_slash", entry::flag(spelling.decode_slash));
        paths.set("strip_params", entry::flag(spelling.strip_params));
        self.defaults.set_map("paths", paths);
        self
    }

    /// Checks and compiles the policy.
    ///
    /// # Errors
    /// Every problem, each with the path of its field: `limits[0].key[0]`.
    pub fn build(self) -> Result<Policy, PolicyError> {
        let (document, mut problems) = self.into_document();
        let (rules, more) = compile(&document, Nanos::ZERO);
        problems.extend(more);
        tidegate_document::complete(&mut problems, "");
        if problems.iter().any(Problem::is_error) {
            return Err(PolicyError { problems });
        }
        Ok(Policy { rules, warnings: problems })
    }

    /// The document, and every problem of reading it.
    fn into_document(self) -> (Document, Vec<Problem>) {
        let mut root = Entry::default();
        root.set("version", entry::number(1));
        root.set_map("defaults", self.defaults);
        let lists = [
            ("limits", self.limits),
            ("routes", self.routes),
            ("tenants", self.tenants),
            ("upstreams", self.upstreams),
            ("allow", self.allow),
            ("block", self.block),
            ("bursts", self.bursts),
        ];
        for (name, entries) in lists {
            root.set_list(name, entries);
        }
        let mut adaptive = Entry::default();
        adaptive.set("trust", entry::flag(self.trust));
        root.set_map("adaptive", adaptive);
        let (root, mut problems) = root.finish();
        let (document, found) = read_node(&root);
        problems.extend(found);
        (document, problems)
    }
}
