//! What the credentials of a request prove, and who it is taken for.

use std::sync::Arc;

use tidegate::engine::{Credential, Request};
use tidegate_policy::{Identified, IdentityEvidence, IdentityFault, IdentitySources};

use super::api_keys::{CheckedKey, KeyStatus};
use super::known_members::KnownMembers;
use super::{Claims, Rejection};

/// The result of verifying the credentials of a request.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    pub(super) claims: Option<Arc<Claims>>,
    pub(super) rejection: Option<Rejection>,
    pub(super) key: Option<CheckedKey>,
}

impl Verified {
    /// Whether the credential is valid, invalid, or missing.
    pub fn credential(&self) -> Credential {
        let key = self.key.as_ref();
        match () {
            () if key.is_some_and(|key| key.denied) => Credential::UnknownKey,
            () if self.rejection.is_some() => Credential::Invalid,
            () if self.claims.is_some() || key.is_some_and(|key| key.holder.is_some()) => Credential::Valid,
            () => Credential::None,
        }
    }

    /// Why the token is invalid.
    pub fn rejection(&self) -> Option<Rejection> {
        self.rejection
    }

    /// What is known of the API key; `None` if the request has sent none.
    pub fn key_status(&self) -> Option<KeyStatus> {
        self.key.as_ref().map(|key| key.status)
    }

    /// Adds to a request whether its credential is valid, the claims, and the fields that follow from them, except those
    /// that the settings list.
    pub(super) fn describe<'a>(&'a self, listed: &IdentitySources, request: &mut Request<'a>) {
        request.credential = self.credential();
        if let Some(claims) = &self.claims {
            claims.describe(listed, request);
        }
    }

    /// Who a request is taken for by the listed sources. `headers` are empty and `believed` is false unless a trusted proxy
    /// describes the request.
    pub(super) fn resolve<'i, 'a>(
        &'a self,
        listed: &'i IdentitySources,
        headers: &[(&'a str, &'a [u8])],
        believed: bool,
        request: &Request<'a>,
    ) -> Result<Identified<'i, 'a>, IdentityFault> {
        let proven = evidence(headers, believed, request);
        listed.resolve(&IdentityEvidence {
            claims: &request.jwt,
            unreadable_claims: self.claims.as_deref().map(Claims::unreadable).unwrap_or_default(),
            key: self.key.as_ref().and_then(|key| key.holder.as_deref()),
            ..proven
        })
    }

    /// Each member that is known, with its value and where it came from.
    pub(super) fn origins(&self, listed: &IdentitySources, identified: &Identified<'_, '_>) -> KnownMembers {
        let mut members = KnownMembers::default();
        for found in identified.members() {
            members.add(found.member.as_str(), &*found.value, found.source.to_string());
        }
        for (member, claim, value) in self.claims.iter().flat_map(|claims| claims.usual(listed)) {
            members.add(member.as_str(), value, format!("jwt:{claim}"));
        }
        members
    }
}

/// What is known of a request without its credentials.
pub(super) fn evidence<'s, 'a>(
    headers: &'s [(&'a str, &'a [u8])],
    believed: bool,
    request: &'s Request<'_>,
) -> IdentityEvidence<'s, 'a> {
    IdentityEvidence {
        headers,
        host: request.host.as_deref().filter(|_| believed),
        query: query(request).filter(|_| believed),
        ..IdentityEvidence::default()
    }
}

/// The query of a request, which may still be part of its path.
pub(super) fn query<'s>(request: &'s Request<'_>) -> Option<&'s str> {
    let in_path = || Some(request.path.as_deref()?.split_once('?')?.1);
    request.query.as_deref().or_else(in_path)
}
