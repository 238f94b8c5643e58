//! The policy document as written: its fields have the right shape, but whether they make sense together is not
//! checked yet. [`read()`] builds it, [`compile`](crate::compile) checks and uses it.

mod collections;
mod missing;
mod read;
mod reference;
mod schema;
mod table;
mod tenant;
mod upstream;
pub(crate) mod words;

pub use collections::{
    COLLECTIONS, EntryChange, MemberChange, NamedEntry, PolicyChange, content_id, entry_index, name_field,
    named_entries, policy_changes, with_name,
};
pub use missing::Missing;
pub use read::{read, read_node};
pub use reference::reference;
pub use schema::json_schema;
pub use table::TENANT_PREFIX;
pub(crate) use table::UNLISTED;
pub use tenant::{Budget, BudgetMode, Remainder, Sharing, TenantEntry, TenantLimit, TenantUpstream};
pub use upstream::{Absorbs, UpstreamEntry};

use ipnet::IpNet;
use tidegate_core::{Algorithm, Carry, Nanos};

use crate::{Descriptor, PathSpelling, Pattern, Span, Spanned};

/// A whole policy.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Values for limits that do not set their own.
    pub defaults: Defaults,
    /// The limits, in order.
    pub limits: Vec<LimitEntry>,
    /// Costs by route, in order.
    pub routes: Vec<RouteEntry>,
    /// The tenants, in order; parents by name.
    pub tenants: Vec<TenantEntry>,
    /// The upstreams, in order.
    pub upstreams: Vec<UpstreamEntry>,
    /// Requests that bypass the limits.
    pub allow: Vec<GateEntry>,
    /// Requests that are denied.
    pub block: Vec<GateEntry>,
    /// Detectors of bursts.
    pub bursts: Vec<BurstEntry>,
    /// `adaptive.trust`
    pub trust: bool,
    /// The names of limits and detectors, including entries with errors.
    pub names: Vec<EntryName>,
    /// The ids of tenants, including entries with errors.
    pub tenant_ids: Vec<EntryName>,
    /// The names of upstreams, including entries with errors.
    pub upstream_names: Vec<EntryName>,
    /// The ids of routes, including entries with errors.
    pub route_ids: Vec<EntryName>,
    /// The ids of entries of `allow`, including those with errors.
    pub allow_ids: Vec<EntryName>,
    /// The ids of entries of `block`, including those with errors.
    pub block_ids: Vec<EntryName>,
}

/// A name, and the path of the field that has it: `limits[3].name`.
#[derive(Clone, Debug)]
pub struct EntryName {
    /// The path.
    pub path: String,
    /// The name.
    pub name: Spanned<String>,
}

/// `defaults`
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    /// Header families.
    pub headers: Option<Vec<HeaderFamily>>,
    /// Whether responses have rate-limit headers.
    pub response_headers: Option<bool>,
    /// How much may be added to `Retry-After`.
    pub retry_jitter: Option<Jitter>,
    /// What happens while the store cannot be reached.
    pub on_store_error: Option<OnStoreError>,
    /// `shadow` puts the whole policy in shadow mode.
    pub mode: Option<Mode>,
    /// `true` for `unknown_tenant: deny`.
    pub deny_unknown_tenants: bool,
    /// `tenant`: whom a request belongs to that names no tenant.
    pub tenant: Option<Spanned<String>>,
    /// Which spellings of a path are the same path.
    pub paths: PathSpelling,
    /// `priority.from`
    pub priority: Option<Descriptor>,
}

/// An entry of `limits`.
#[derive(Clone, Debug)]
pub struct LimitEntry {
    /// Where it is, as a path: `limits[3]`.
    pub path: String,
    /// The whole entry.
    pub at: Span,
    /// `name`
    pub name: Spanned<String>,
    /// `description`
    pub description: Option<String>,
    /// `enabled`
    pub enabled: bool,
    /// `group`
    pub group: Option<Spanned<String>>,
    /// `match`: all must hold.
    pub conditions: Vec<ConditionEntry>,
    /// `unless`: it does not apply where all of these hold; empty if there is none.
    pub unless: Vec<ConditionEntry>,
    /// `key`, or the descriptor of `scope`; `None` if both are absent.
    pub key: Option<Vec<Spanned<Descriptor>>>,
    /// `missing`
    pub missing: Option<Spanned<Missing>>,
    /// Its other fields.
    pub terms: LimitTerms,
}

/// One condition of a `match`, or of an entry of `allow` or `block`.
#[derive(Clone, Debug)]
pub struct ConditionEntry {
    /// Where its name was written.
    pub at: Span,
    /// What it tests.
    pub test: ConditionTest,
}

/// What a condition tests: one of the values must match.
#[derive(Clone, Debug)]
pub enum ConditionTest {
    /// `path`: the request's path matches a pattern.
    Path(Vec<Spanned<Pattern>>),
    /// `methods` or `method`: in upper case.
    Method(Vec<Spanned<String>>),
    /// `ip`: the address is in a network; a plain address is a network of one.
    Address(Vec<Spanned<IpNet>>),
    /// Any other descriptor has one of these values.
    Value(Descriptor, Vec<Spanned<String>>),
}

/// The fields that a limit and a tenant's rate limit share.
#[derive(Clone, Debug, Default)]
pub struct LimitTerms {
    /// `algorithm`; a token bucket by default.
    pub algorithm: Option<Spanned<Algorithm>>,
    /// `sustained`
    pub sustained: Option<Sustained>,
    /// `burst`
    pub burst: Option<Spanned<Burst>>,
    /// `preset`
    pub preset: Option<Spanned<Preset>>,
    /// `carry`
    pub carry: Carry,
    /// `cost`
    pub cost: Option<CostEntry>,
    /// `strategy`, with `queue` and `degrade`.
    pub strategy: StrategyEntry,
    /// `mode`
    pub mode: Option<Mode>,
    /// `headers`
    pub headers: Option<Vec<HeaderFamily>>,
    /// `response_headers`
    pub response_headers: Option<bool>,
    /// `retry_jitter`
    pub retry_jitter: Option<Jitter>,
    /// `on_store_error`
    pub on_store_error: Option<OnStoreError>,
}

/// `sustained`
#[derive(Clone, Copy, Debug)]
pub struct Sustained {
    /// Where it was written.
    pub at: Span,
    /// `rate`: tokens a window, at least one. Compiling checks whether it is in range for its window and algorithm.
    pub rate: Spanned<u64>,
    /// `window`; a second by default.
    pub window: Spanned<Nanos>,
}

/// `burst`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burst {
    /// `capacity`
    Capacity(u32),
    /// `allowance`: this many times the rate, in millionths.
    Allowance(u64),
}

/// `preset`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Five times the rate.
    Interactive,
    /// The rate.
    Strict,
    /// Ten times the rate.
    Batch,
    /// The rate, and the cost comes from the request.
    LlmTools,
}

/// `cost`
#[derive(Clone, Debug)]
pub enum CostEntry {
    /// A number, at least one; a route's cost replaces it.
    Plain(Spanned<u32>),
    /// `fixed`, at least one.
    PerCall(Spanned<u32>),
    /// `from`, with `default` and `max`.
    From {
        /// Which part of the request has the cost.
        from: Spanned<Descriptor>,
        /// The cost if that part is not a whole number above 0; at least one.
        default: u32,
        /// The highest cost; at least one.
        max: u32,
    },
}

/// `strategy`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StrategyEntry {
    /// Deny the request.
    #[default]
    Reject,
    /// Let the request wait for tokens.
    Queue {
        /// How many requests may wait for one bucket.
        max_depth: u32,
        /// How long a request may wait.
        max_wait: Nanos,
    },
    /// Admit the request, marked with a tag.
    Degrade {
        /// The tag.
        tag: String,
    },
}

/// `mode`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The limit denies requests.
    #[default]
    Enforce,
    /// The limit denies nobody; what it would deny is reported.
    Shadow,
}

/// A family of response headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeaderFamily {
    /// `x-ratelimit`
    XRateLimit,
    /// `ratelimit-03`
    RateLimit03,
    /// `ratelimit-07`
    RateLimit07,
    /// `ietf`
    Ietf,
}

/// `on_store_error`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// Decide by a local bucket with this node's share.
    #[default]
    Local,
    /// Admit requests.
    Open,
    /// Deny requests.
    Closed,
}

/// How much may be added to `Retry-After`, in millionths: at most half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter(pub u32);

/// An entry of `routes`.
#[derive(Clone, Debug)]
pub struct RouteEntry {
    /// Where it is, as a path: `routes[3]`.
    pub path: String,
    /// The whole entry.
    pub at: Span,
    /// `enabled`
    pub enabled: bool,
    /// `path`
    pub pattern: Spanned<Pattern>,
    /// `methods`, in upper case; empty for every method.
    pub methods: Vec<Spanned<String>>,
    /// `upstream`
    pub upstream: Option<Spanned<String>>,
    /// `unless`: it does not match where all of these hold; empty if there is none.
    pub unless: Vec<ConditionEntry>,
    /// `cost`
    pub cost: Option<Spanned<u32>>,
}

/// An entry of `allow` or `block`.
#[derive(Clone, Debug)]
pub struct GateEntry {
    /// Where it is, as a path: `block[3]`.
    pub path: String,
    /// The whole entry.
    pub at: Span,
    /// `enabled`
    pub enabled: bool,
    /// Its conditions: all must hold, and there is at least one.
    pub conditions: Vec<ConditionEntry>,
    /// `reason`
    pub reason: Option<String>,
    /// `until`, as time since the epoch.
    pub until: Option<Spanned<Nanos>>,
}

/// An entry of `bursts`.
#[derive(Clone, Debug)]
pub struct BurstEntry {
    /// Where it is, as a path: `bursts[3]`.
    pub path: String,
    /// The whole entry.
    pub at: Span,
    /// `name`
    pub name: Spanned<String>,
    /// `enabled`
    pub enabled: bool,
    /// `key`, or the descriptor of `scope`.
    pub key: Vec<Spanned<Descriptor>>,
    /// `window`; 10 s by default.
    pub window: Nanos,
    /// `threshold`; 50 by default.
    pub threshold: u32,
    /// `penalty`; 300 s by default.
    pub penalty: Nanos,
}
