//! Who is asking: from which parts of an HTTP request its user, tenant, client, plan and so on are taken.
//!
//! [`IdentitySources`] lists, for each [`IdentityMember`], the sources to look at. The first source that has a value is
//! used. [`IdentityEvidence`] is what is known of one request; [`IdentitySources::resolve`] brings the two together.
//!
//! A value that cannot be used is an [`IdentityFault`], never an absent value: otherwise a client could escape the limits
//! tied to its identity by spoiling that value.

mod evidence;
mod host;
mod query;
mod source;

pub use evidence::{Identified, IdentifiedMember, IdentityEvidence, IdentityFault, KeyHolder};
pub use host::HostTemplate;
pub use query::{QueryFault, single_query_value};
pub use source::{IdentitySource, SourceError};

use std::fmt;

/// A member of a request that says who is asking, or for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdentityMember {
    /// `user`
    User,
    /// `tenant`
    Tenant,
    /// `client`
    Client,
    /// `plan`
    Plan,
    /// `upstream`
    Upstream,
    /// `priority`, from 0 to 100
    Priority,
    /// `trust`, from 0 to 1
    Trust,
}

impl IdentityMember {
    /// All of them, in the order of their discriminants.
    pub const ALL: [IdentityMember; 7] = [
        IdentityMember::User,
        IdentityMember::Tenant,
        IdentityMember::Client,
        IdentityMember::Plan,
        IdentityMember::Upstream,
        IdentityMember::Priority,
        IdentityMember::Trust,
    ];

    /// Its name in requests and settings.
    pub const fn as_str(self) -> &'static str {
        match self {
            IdentityMember::User => "user",
            IdentityMember::Tenant => "tenant",
            IdentityMember::Client => "client",
            IdentityMember::Plan => "plan",
            IdentityMember::Upstream => "upstream",
            IdentityMember::Priority => "priority",
            IdentityMember::Trust => "trust",
        }
    }

    /// Can an API key have it?
    pub const fn is_in_keys(self) -> bool {
        match self {
            IdentityMember::User | IdentityMember::Tenant | IdentityMember::Client | IdentityMember::Plan => {
                true
            }
            IdentityMember::Upstream | IdentityMember::Priority | IdentityMember::Trust => false,
        }
    }
}

impl fmt::Display for IdentityMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The sources of each member, in the order in which they are looked at.
///
/// ```
/// use tidegate_policy::{IdentityEvidence, IdentityMember, IdentitySources, Request};
///
/// let sources = IdentitySources::new()
///     .with(IdentityMember::Tenant, ["header:x-tenant", "host:{tenant}.api.example.com"])?
///     .with(IdentityMember::User, ["jwt:sub"])?;
///
/// let evidence = IdentityEvidence { host: Some("Acme.api.example.com:443"), ..IdentityEvidence::default() };
/// let mut request = Request::new();
/// sources.resolve(&evidence)?.describe(&mut request);
/// assert_eq!(request.tenant.as_deref(), Some("acme"));
/// assert_eq!(request.user, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentitySources {
    /// `None` if the member is not listed.
    members: [Option<Vec<IdentitySource>>; IdentityMember::ALL.len()],
}

impl IdentitySources {
    /// No member is listed.
    pub fn new() -> IdentitySources {
        IdentitySources::default()
    }

    /// Lists the sources of a member; the first that has a value is used.
    ///
    /// # Errors
    /// When one of them is not a source.
    pub fn with<'t>(
        mut self,
        member: IdentityMember,
        sources: impl IntoIterator<Item = &'t str>,
    ) -> Result<IdentitySources, SourceError> {
        let sources = sources.into_iter().map(|source| IdentitySource::parse(member, source));
        self.set(member, sources.collect::<Result<_, _>>()?);
        Ok(self)
    }

    /// Lists sources that are already parsed.
    pub fn set(&mut self, member: IdentityMember, sources: Vec<IdentitySource>) {
        self.members[member as usize] = Some(sources);
    }

    /// The sources of a member; `None` if it is not listed.
    pub fn of(&self, member: IdentityMember) -> Option<&[IdentitySource]> {
        self.members[member as usize].as_deref()
    }

    /// Is no member listed?
    pub fn is_empty(&self) -> bool {
        self.members.iter().all(Option::is_none)
    }

    /// Every source of every member.
    pub fn all(&self) -> impl Iterator<Item = (IdentityMember, &IdentitySource)> {
        IdentityMember::ALL
            .into_iter()
            .flat_map(|member| self.of(member).unwrap_or_default().iter().map(move |source| (member, source)))
    }
}

#[cfg(test)]
mod tests;
