//! What was written: a document that has the right shape, before it is known to
//! make sense. Reading makes it, compiling checks and uses it.

mod read;
mod reference;
mod schema;
mod table;
pub(crate) mod words;

pub use read::{read, read_node};
pub use reference::reference;
pub use schema::json_schema;
pub(crate) use table::TENANT_PREFIX;

use ipnet::IpNet;
use tidegate_core::{Algorithm, Carry, Nanos};

use crate::{Descriptor, PathSpelling, Pattern, Span, Spanned};

/// A whole policy.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// What entries that do not say otherwise get.
    pub defaults: Defaults,
    /// The limits, in order.
    pub limits: Vec<LimitEntry>,
    /// Costs by route, in order.
    pub routes: Vec<RouteEntry>,
    /// The tenants, in order; parents by name.
    pub tenants: Vec<TenantEntry>,
    /// Who bypasses the limits.
    pub allow: Vec<GateEntry>,
    /// Who is refused.
    pub block: Vec<GateEntry>,
    /// What counts as a burst.
    pub bursts: Vec<BurstEntry>,
    /// `adaptive.trust`
    pub trust: bool,
    /// The names of limits and detectors, those of entries that could not be
    /// read included.
    pub names: Vec<EntryName>,
    /// The ids of tenants, likewise.
    pub tenant_ids: Vec<EntryName>,
}

/// A name, and the path of the field that gives it: `limits[3].name`.
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
    /// Whether responses have headers at all.
    pub response_headers: Option<bool>,
    /// What jitter `Retry-After` gets.
    pub retry_jitter: Option<Jitter>,
    /// What to do without a store.
    pub on_store_error: Option<OnStoreError>,
    /// `shadow` makes the whole policy shadow.
    pub mode: Option<Mode>,
    /// `true` for `unknown_tenant: deny`.
    pub deny_unknown_tenants: bool,
    /// Which spellings of a path are one.
    pub paths: PathSpelling,
}

/// An entry of `limits`.
#[derive(Clone, Debug)]
pub struct LimitEntry {
    /// Where it stands, as a path: `limits[3]`.
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
    /// `key`, or what `scope` is short for; `None` if neither was written.
    pub key: Option<Vec<Spanned<Descriptor>>>,
    /// The rest.
    pub terms: LimitTerms,
}

/// One condition of a `match`, or of an entry of `allow` or `block`.
#[derive(Clone, Debug)]
pub struct ConditionEntry {
    /// Where its name stands.
    pub at: Span,
    /// What it asks.
    pub test: ConditionTest,
}

/// What a condition asks: any of the values will do.
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

/// What a limit and a tenant's rate limit have in common.
#[derive(Clone, Debug, Default)]
pub struct LimitTerms {
    /// `algorithm`; a token bucket unless written.
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
    /// Where it stands.
    pub at: Span,
    /// `rate`: tokens a window, at least one. Whether it is in range for its
    /// window and algorithm is for compiling to say.
    pub rate: Spanned<u64>,
    /// `window`; a second unless written.
    pub window: Spanned<Nanos>,
}

/// `burst`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burst {
    /// `capacity`
    Capacity(u32),
    /// `allowance`: that many times the rate, in millionths.
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
    /// A number, at least one.
    Fixed(Spanned<u32>),
    /// `from`, with `default` and `max`.
    From {
        /// Which part of the request says it.
        from: Spanned<Descriptor>,
        /// What counts if it says nothing usable; at least one.
        default: u32,
        /// The most that counts; at least one.
        max: u32,
    },
}

/// `strategy`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StrategyEntry {
    /// Refuse.
    #[default]
    Reject,
    /// Wait, within bounds.
    Queue {
        /// How many may wait for one bucket.
        max_depth: u32,
        /// How long.
        max_wait: Nanos,
    },
    /// Admit and mark.
    Degrade {
        /// The mark.
        tag: String,
    },
}

/// `mode`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It counts.
    #[default]
    Enforce,
    /// It is only watched.
    Shadow,
}

/// A family of response headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeaderFamily {
    /// `x-ratelimit`
    XRateLimit,
    /// `ratelimit-03`
    RateLimit03,
    /// `ietf`
    Ietf,
}

/// `on_store_error`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// A local bucket with this node's share.
    #[default]
    Local,
    /// Admit.
    Open,
    /// Refuse.
    Closed,
}

/// How much may be added to `Retry-After`, in millionths: at most half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter(pub u32);

/// An entry of `routes`.
#[derive(Clone, Debug)]
pub struct RouteEntry {
    /// Where it stands, as a path: `limits[3]`.
    pub path: String,
    /// The whole entry.
    pub at: Span,
    /// `enabled`
    pub enabled: bool,
    /// `path`
    pub pattern: Spanned<Pattern>,
    /// `methods`, in upper case; empty for any.
    pub methods: Vec<Spanned<String>>,
    /// `cost`
    pub cost: Option<u32>,
}

/// An entry of `tenants`.
#[derive(Clone, Debug)]
pub struct TenantEntry {
    /// Where it stands, as a path: `limits[3]`.
    pub path: String,
    /// The whole entry.
    pub at: Span,
    /// `id`
    pub id: Spanned<String>,
    /// `enabled`: a tenant that is not has no limit, and is still there.
    pub enabled: bool,
    /// `parent`
    pub parent: Option<Spanned<String>>,
    /// `rate_limit`
    pub rate_limit: Option<TenantLimit>,
}

/// `rate_limit` of a tenant.
#[derive(Clone, Debug)]
pub struct TenantLimit {
    /// The whole of it.
    pub at: Span,
    /// `sharing`
    pub sharing: Sharing,
    /// `budget`
    pub budget: Option<Budget>,
    /// `scope`, where it adds a descriptor; `tenant` and `global` add none.
    pub scope: Option<Spanned<Descriptor>>,
    /// The rest.
    pub terms: LimitTerms,
}

/// `sharing`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Hidden from descendants.
    #[default]
    Private,
    /// Binds descendants.
    Inherit,
    /// Binds descendants.
    Enforce,
}

/// `budget`
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Where it stands.
    pub at: Span,
    /// `mode`
    pub mode: BudgetMode,
    /// `total`, at least one.
    pub total: Option<Spanned<u64>>,
    /// `overcommit_ratio`, in millionths: one to two.
    pub overcommit: Option<Spanned<u32>>,
}

/// `budget.mode`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BudgetMode {
    /// None.
    #[default]
    Unlimited,
    /// Children's rates are allotted from it.
    Allocated,
    /// Children draw on it.
    Shared,
}

/// An entry of `allow` or `block`.
#[derive(Clone, Debug)]
pub struct GateEntry {
    /// Where it stands, as a path: `limits[3]`.
    pub path: String,
    /// The whole entry.
    pub at: Span,
    /// `enabled`
    pub enabled: bool,
    /// The descriptors it names: all must hold, and there is at least one.
    pub conditions: Vec<ConditionEntry>,
    /// `reason`
    pub reason: Option<String>,
    /// `until`, as time since the epoch.
    pub until: Option<Spanned<Nanos>>,
}

/// An entry of `bursts`.
#[derive(Clone, Debug)]
pub struct BurstEntry {
    /// Where it stands, as a path: `limits[3]`.
    pub path: String,
    /// The whole entry.
    pub at: Span,
    /// `name`
    pub name: Spanned<String>,
    /// `enabled`
    pub enabled: bool,
    /// `key`, or what `scope` is short for.
    pub key: Vec<Spanned<Descriptor>>,
    /// `window`; 10 s unless written.
    pub window: Nanos,
    /// `threshold`; 50 unless written.
    pub threshold: u32,
    /// `penalty`; 300 s unless written.
    pub penalty: Nanos,
}
