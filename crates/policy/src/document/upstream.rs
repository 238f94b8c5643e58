//! `upstreams` as written.

use crate::{HostPattern, Span, Spanned};

/// An entry of `upstreams`.
#[derive(Clone, Debug)]
pub struct UpstreamEntry {
    /// Where it is, as a path: `upstreams[3]`.
    pub path: String,
    /// The whole entry.
    pub at: Span,
    /// `name`
    pub name: Spanned<String>,
    /// `enabled`
    pub enabled: bool,
    /// `hosts`
    pub hosts: Vec<Spanned<HostPattern>>,
    /// `absorbs`
    pub absorbs: Option<Spanned<Absorbs>>,
}

/// What an upstream can take, or the service behind the requests of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absorbs {
    /// Requests a second.
    pub rate: u64,
    /// Requests at once.
    pub burst: u64,
}
