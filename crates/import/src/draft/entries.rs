//! The entries of a draft: limits, routes, tenants, blocks.

use crate::source::Span;
use crate::terms::DraftTerms;

/// Descriptors, each with the values it may have.
pub(crate) type Conditions = Vec<(String, Vec<String>)>;

/// An entry of `limits`.
#[derive(Clone, Debug)]
pub(crate) struct DraftLimit {
    /// A comment above the entry.
    pub(crate) comment: Option<String>,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) enabled: bool,
    pub(crate) group: Option<String>,
    pub(crate) conditions: Conditions,
    /// Empty if all requests share one bucket.
    pub(crate) key: Vec<String>,
    pub(crate) terms: DraftTerms,
    pub(crate) shadow: bool,
}

impl DraftLimit {
    /// A limit for all requests, with one bucket.
    pub(crate) fn new(name: String, terms: DraftTerms) -> DraftLimit {
        DraftLimit {
            comment: None,
            name,
            description: None,
            enabled: true,
            group: None,
            conditions: Vec::new(),
            key: Vec::new(),
            terms,
            shadow: false,
        }
    }
}

/// An entry of `routes`: a path and its cost.
#[derive(Clone, Debug)]
pub(crate) struct DraftRoute {
    pub(crate) path: String,
    pub(crate) methods: Vec<String>,
    pub(crate) upstream: Option<String>,
    pub(crate) cost: u32,
    pub(crate) enabled: bool,
}

/// An entry of `upstreams`: a name and its hosts.
#[derive(Clone, Debug)]
pub(crate) struct DraftUpstream {
    pub(crate) name: String,
    /// Every name that the source has for it.
    pub(crate) known_as: Vec<String>,
    pub(crate) hosts: Vec<String>,
    /// Its position in the source, for notes.
    pub(crate) at: Span,
    pub(crate) path: String,
}

/// The limit of a tenant for one upstream, until it is added to the tenant.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamLimit {
    pub(crate) tenant: String,
    pub(crate) upstream: String,
    pub(crate) members: LimitMembers,
    /// Its position in the source, for notes.
    pub(crate) at: Span,
    pub(crate) path: String,
}

/// The members of a tenant's `rate_limit`, as YAML: `sharing` and `scope`, then the terms, then `budget`.
pub(crate) type LimitMembers = Vec<(&'static str, String)>;

/// An entry of `tenants`.
#[derive(Clone, Debug)]
pub(crate) struct DraftTenant {
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) description: Option<String>,
    /// Its position in the source, for notes.
    pub(crate) at: Span,
    pub(crate) path: String,
    /// `None` for a tenant without a limit.
    pub(crate) rate_limit: Option<LimitMembers>,
    /// The limits for single upstreams, by the name of the upstream.
    pub(crate) upstreams: Vec<(String, LimitMembers)>,
}

impl DraftTenant {
    /// Removes a limit, and returns its description for a note: the one for an upstream if the path within the entry
    /// leads there, else the `rate_limit`, else all that are left.
    pub(crate) fn drop_limit(&mut self, within: &str) -> Option<String> {
        let rest = within.strip_prefix(".upstreams.").unwrap_or_default();
        let is_meant = |(name, _): &(String, LimitMembers)| {
            rest.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if let Some(index) = self.upstreams.iter().position(is_meant) {
            let (name, _) = self.upstreams.remove(index);
            return Some(format!("the rate_limit of the tenant `{}` for the upstream `{name}`", self.id));
        }
        if self.rate_limit.take().is_some() {
            return Some(format!("the rate_limit of the tenant `{}`", self.id));
        }
        let has_some = !std::mem::take(&mut self.upstreams).is_empty();
        has_some.then(|| format!("what the tenant `{}` has for upstreams", self.id))
    }
}

/// An entry of `block`: requests that are refused.
#[derive(Clone, Debug)]
pub(crate) struct DraftBlock {
    pub(crate) conditions: Conditions,
    pub(crate) reason: Option<String>,
    pub(crate) until: Option<String>,
    pub(crate) enabled: bool,
}
