//! Builds routes and upstreams.

use super::entry::{self, Entry};

/// Builds a route: which requests it matches, and what they cost.
///
/// ```
/// use tidegate_policy::{PolicyBuilder, RouteBuilder};
///
/// let uploads = RouteBuilder::new("/files/**").methods(["PUT"]).unless("plan", ["internal"]).cost(10);
/// let policy = PolicyBuilder::new().add_route(uploads).build()?;
/// assert_eq!(policy.rules.route_patterns().next(), Some("/files/**"));
/// # Ok::<(), tidegate_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a route does nothing until it is added to a policy"]
pub struct RouteBuilder {
    entry: Entry,
}

impl RouteBuilder {
    /// A route for requests to paths that match this pattern.
    pub fn new(path: impl Into<String>) -> RouteBuilder {
        let mut entry = Entry::default();
        entry.set("path", entry::text(path));
        RouteBuilder { entry }
    }

    /// Restricts the route to these HTTP methods.
    pub fn methods<M: Into<String>>(mut self, methods: impl IntoIterator<Item = M>) -> RouteBuilder {
        self.entry.set("methods", entry::texts(methods));
        self
    }

    /// Restricts the route to requests to this upstream.
    pub fn upstream(mut self, name: impl Into<String>) -> RouteBuilder {
        self.entry.set("upstream", entry::text(name));
        self
    }

    /// Excludes requests whose descriptor has one of these values. With several calls only requests for which all of
    /// them hold are excluded.
    pub fn unless<V: Into<String>>(
        mut self,
        descriptor: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> RouteBuilder {
        self.entry.add_condition("unless", descriptor.into(), entry::texts(values));
        self
    }

    /// Sets what a request costs, in place of a limit's fixed cost.
    pub fn cost(mut self, cost: u32) -> RouteBuilder {
        self.entry.set("cost", entry::number(cost));
        self
    }

    pub(super) fn into_entry(self) -> Entry {
        self.entry
    }
}

/// Builds an upstream: a service that requests go to.
///
/// ```
/// use tidegate_policy::{PolicyBuilder, UpstreamBuilder};
///
/// let renderer = UpstreamBuilder::new("renderer").hosts(["*.render.example.com"]).absorbs(2, 40);
/// let policy = PolicyBuilder::new().add_upstream(renderer).build()?;
/// assert!(policy.warnings[0].message.starts_with("any number of requests can reach `renderer`"));
/// # Ok::<(), tidegate_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "an upstream does nothing until it is added to a policy"]
pub struct UpstreamBuilder {
    entry: Entry,
}

impl UpstreamBuilder {
    /// An upstream that requests name themselves.
    pub fn new(name: impl Into<String>) -> UpstreamBuilder {
        let mut entry = Entry::default();
        entry.set("name", entry::text(name));
        UpstreamBuilder { entry }
    }

    /// Sets the hosts of requests that go to it: `api.example.com`, or `*.example.com` for every host below.
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> UpstreamBuilder {
        let hosts: Vec<_> = hosts.into_iter().map(entry::text).collect();
        self.entry.remove("hosts");
        if !hosts.is_empty() {
            self.entry.set("hosts", entry::list(hosts));
        }
        self
    }

    /// States that it can take `rate` requests a second, and `burst` at once. That limits nothing; the policy has a
    /// warning if its limits let more through.
    pub fn absorbs(mut self, rate: u64, burst: u64) -> UpstreamBuilder {
        self.entry.set_absorbs(rate, burst);
        self
    }

    pub(super) fn into_entry(self) -> Entry {
        self.entry
    }
}
