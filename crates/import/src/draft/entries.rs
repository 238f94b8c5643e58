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

    /// Adds to the comment above the entry; what is there already stays.
    pub(crate) fn remark(&mut self, text: &str) {
        let comment = self.comment.get_or_insert_default();
        if !comment.is_empty() {
            comment.push(' ');
        }
        comment.push_str(text);
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

/// An entry of `block`: requests that are refused.
#[derive(Clone, Debug)]
pub(crate) struct DraftBlock {
    pub(crate) conditions: Conditions,
    pub(crate) reason: Option<String>,
    pub(crate) until: Option<String>,
    pub(crate) enabled: bool,
}
