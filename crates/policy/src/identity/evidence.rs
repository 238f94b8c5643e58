//! What is known of a request, and who it is taken for.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

use super::query::{QueryFault, single_query_value};
use super::{IdentityMember, IdentitySource, IdentitySources};
use crate::{Priority, Request, Trust};

/// The longest value of a member, in bytes.
pub(super) const VALUE_BYTES_MAX: usize = 1_024;

/// What is known of a request that sources can refer to.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdentityEvidence<'s, 'r> {
    /// Names and values of the headers. **Empty unless a trusted proxy has sent them**: anybody can write `X-User: 42`.
    pub headers: &'s [(&'r str, &'r [u8])],
    /// The host that the request was sent to.
    pub host: Option<&'s str>,
    /// The query, without `?`.
    pub query: Option<&'s str>,
    /// The claims of a verified token.
    pub claims: &'s [(Cow<'r, str>, Cow<'r, str>)],
    /// The names of claims that hold no text, such as objects.
    pub unreadable_claims: &'s [Box<str>],
    /// The holder of the API key that the request has sent, if that key is known and valid.
    pub key: Option<&'r KeyHolder>,
}

/// Whom an API key stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyHolder {
    /// The client application.
    pub client: Option<Box<str>>,
    /// The user.
    pub user: Option<Box<str>>,
    /// The tenant.
    pub tenant: Option<Box<str>>,
    /// The plan.
    pub plan: Option<Box<str>>,
}

impl KeyHolder {
    /// A member of the holder.
    pub fn member(&self, member: IdentityMember) -> Option<&str> {
        match member {
            IdentityMember::User => self.user.as_deref(),
            IdentityMember::Tenant => self.tenant.as_deref(),
            IdentityMember::Client => self.client.as_deref(),
            IdentityMember::Plan => self.plan.as_deref(),
            IdentityMember::Upstream | IdentityMember::Priority | IdentityMember::Trust => None,
        }
    }
}

/// A source has a value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFault {
    /// The source, as in the settings.
    pub source: String,
    /// What the value must be, or what is wrong with it: "must be …".
    pub why: &'static str,
}

impl fmt::Display for IdentityFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.source, self.why)
    }
}

impl std::error::Error for IdentityFault {}

/// A member whose value is known, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentifiedMember<'i, 'r> {
    /// The member.
    pub member: IdentityMember,
    /// Its value.
    pub value: Cow<'r, str>,
    /// Where it came from.
    pub source: &'i IdentitySource,
}

/// Who a request is taken for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identified<'i, 'r>(SmallVec<[IdentifiedMember<'i, 'r>; 4]>);

impl<'i, 'r> Identified<'i, 'r> {
    /// The members that are known.
    pub fn members(&self) -> impl Iterator<Item = &IdentifiedMember<'i, 'r>> {
        self.0.iter()
    }

    /// Sets the members of the request that are known.
    pub fn describe(self, request: &mut Request<'r>) {
        self.0.into_iter().for_each(|found| found.member.set_in(request, found.value));
    }
}

impl IdentityMember {
    /// The value that a request has for it.
    pub fn value_in<'s>(self, request: &'s Request<'_>) -> Option<Cow<'s, str>> {
        let text = match self {
            IdentityMember::User => &request.user,
            IdentityMember::Tenant => &request.tenant,
            IdentityMember::Client => &request.client,
            IdentityMember::Plan => &request.plan,
            IdentityMember::Upstream => &request.upstream,
            IdentityMember::Priority => return Some(Cow::Owned(request.priority?.get().to_string())),
            IdentityMember::Trust => {
                let hundredths = request.trust?.hundredths();
                return Some(Cow::Owned(format!("{}.{:02}", hundredths / 100, hundredths % 100)));
            }
        };
        text.as_deref().map(Cow::Borrowed)
    }

    /// Sets it in a request. A trust or priority that cannot be read is left out; [`IdentitySources::resolve`] never finds
    /// such a one.
    pub fn set_in<'r>(self, request: &mut Request<'r>, value: Cow<'r, str>) {
        match self {
            IdentityMember::User => request.user = Some(value),
            IdentityMember::Tenant => request.tenant = Some(value),
            IdentityMember::Client => request.client = Some(value),
            IdentityMember::Plan => request.plan = Some(value),
            IdentityMember::Upstream => request.upstream = Some(value),
            IdentityMember::Priority => request.priority = Priority::parse(&value),
            IdentityMember::Trust => request.trust = Trust::parse(&value),
        }
    }

    /// Does a request have it?
    fn is_in(self, request: &Request<'_>) -> bool {
        self.value_in(request).is_some()
    }
}

impl IdentitySources {
    /// Who a request is taken for: each listed member has the value of its first source that has one. Empty values count
    /// as absent.
    ///
    /// # Errors
    /// When the first source that has a value has one that cannot be used.
    pub fn resolve<'i, 'r>(
        &'i self,
        evidence: &IdentityEvidence<'_, 'r>,
    ) -> Result<Identified<'i, 'r>, IdentityFault> {
        let mut identified = Identified::default();
        for member in IdentityMember::ALL {
            identified.0.extend(evidence.first(member, self.of(member).unwrap_or_default())?);
        }
        Ok(identified)
    }

    /// The same, but only for members that the request does not have yet.
    ///
    /// # Errors
    /// When the first source that has a value has one that cannot be used.
    pub fn resolve_missing<'i, 'r>(
        &'i self,
        evidence: &IdentityEvidence<'_, 'r>,
        request: &Request<'_>,
    ) -> Result<Identified<'i, 'r>, IdentityFault> {
        let mut identified = Identified::default();
        for member in IdentityMember::ALL.into_iter().filter(|member| !member.is_in(request)) {
            identified.0.extend(evidence.first(member, self.of(member).unwrap_or_default())?);
        }
        Ok(identified)
    }

    /// The upstream of a request whose credential is not verified yet. `block`, `allow` and `bursts` by upstream are
    /// checked before the credential, so they need it early. Sources from the first claim on are left out: they count only
    /// if that claim is absent, which is not known yet.
    ///
    /// # Errors
    /// When the first source that has a value has one that cannot be used.
    pub fn upstream_before_credential<'i, 'r>(
        &'i self,
        evidence: &IdentityEvidence<'_, 'r>,
    ) -> Result<Identified<'i, 'r>, IdentityFault> {
        let sources = self.of(IdentityMember::Upstream).unwrap_or_default();
        let known = sources.iter().position(|source| matches!(source, IdentitySource::Jwt(_)));
        let sources = &sources[..known.unwrap_or(sources.len())];
        Ok(Identified(evidence.first(IdentityMember::Upstream, sources)?.into_iter().collect()))
    }
}

const TWICE: &str = "was sent more than once, with different values";
const NOT_UTF8: &str = "must be UTF-8 text";

impl<'r> IdentityEvidence<'_, 'r> {
    /// The value of a member by the first source that has one.
    fn first<'i>(
        &self,
        member: IdentityMember,
        sources: &'i [IdentitySource],
    ) -> Result<Option<IdentifiedMember<'i, 'r>>, IdentityFault> {
        for source in sources {
            let fault = |why| IdentityFault { source: source.to_string(), why };
            let Some(value) = self.value(member, source).map_err(fault)? else { continue };
            check(member, &value).map_err(fault)?;
            return Ok(Some(IdentifiedMember { member, value, source }));
        }
        Ok(None)
    }

    /// The value that a source has for a member; `None` if it is absent or empty.
    fn value(
        &self,
        member: IdentityMember,
        source: &IdentitySource,
    ) -> Result<Option<Cow<'r, str>>, &'static str> {
        let value = match source {
            IdentitySource::Header(name) => self.header(name)?.map(Cow::Borrowed),
            IdentitySource::Jwt(name) => self.claim(name)?,
            IdentitySource::Query(name) => match single_query_value(self.query.unwrap_or_default(), name) {
                Ok(value) => value.map(|value| Cow::Owned(value.into_owned())),
                Err(QueryFault::Contradiction) => return Err(TWICE),
                Err(QueryFault::NotUtf8) => return Err(NOT_UTF8),
            },
            IdentitySource::Host(template) => self.host.and_then(|host| template.find(host)).map(Cow::Owned),
            IdentitySource::ApiKey => self.key.and_then(|key| key.member(member)).map(Cow::Borrowed),
        };
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// The value of a header. It may be repeated, but a client that gets a second line past a proxy must not choose which
    /// of them counts.
    fn header(&self, name: &str) -> Result<Option<&'r str>, &'static str> {
        let mut values = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let Some((_, first)) = values.next() else { return Ok(None) };
        if values.any(|(_, other)| other.trim_ascii() != first.trim_ascii()) {
            return Err(TWICE);
        }
        std::str::from_utf8(first.trim_ascii()).map(Some).map_err(|_| NOT_UTF8)
    }

    /// The first value of a claim, as for the descriptor `jwt:<claim>`.
    fn claim(&self, name: &str) -> Result<Option<Cow<'r, str>>, &'static str> {
        if self.unreadable_claims.iter().any(|known| **known == *name) {
            return Err("must be text, a number, or a list of these");
        }
        Ok(self.claims.iter().find(|(known, _)| *known == *name).map(|(_, value)| value.clone()))
    }
}

/// Can a member have this value?
fn check(member: IdentityMember, value: &str) -> Result<(), &'static str> {
    if value.len() > VALUE_BYTES_MAX {
        return Err("is longer than 1024 bytes");
    }
    if value.contains(|c: char| c.is_control()) {
        return Err("must be text without control characters");
    }
    match member {
        IdentityMember::Trust if Trust::parse(value).is_none() => {
            Err("must be a number from 0 to 1, such as 0.8")
        }
        IdentityMember::Priority if Priority::parse(value).is_none() => {
            Err("must be a whole number from 0 to 100")
        }
        _ => Ok(()),
    }
}
