//! Who a request is taken for, for `tidegate explain`: the request is read as if a trusted proxy had passed it on, and as
//! if its claims were those of a verified token.

use tidegate::Nanos;
use tidegate::engine::{Credential, Request};
use tidegate_policy::{IdentityEvidence, IdentityMember};

use super::api_keys::ApiKeys;
use super::known_members::KnownMembers;
use super::token::claims::usual;
use super::verified::query;
use crate::settings::Settings;

/// Sets the members of a request by the settings, and returns all that are known. What the request says itself stays; its
/// source is `request`.
///
/// # Errors
/// When the API keys cannot be loaded, or a source has a value that cannot be used.
pub(crate) fn identify<'a>(
    settings: &Settings,
    request: &Request<'a>,
    now: Nanos,
) -> Result<(Request<'a>, KnownMembers), String> {
    let mut identified = request.clone();
    let mut members = KnownMembers::default();
    let headers: Vec<(&str, &[u8])> =
        request.headers.iter().map(|(name, value)| (&**name, value.as_bytes())).collect();
    let mut key = None;
    if let Some(keys) = &settings.api_keys {
        let keys = ApiKeys::load(keys).map_err(|error| error.to_string())?;
        let presented = keys.presented(headers.iter().copied(), query(request));
        let presented = presented.map_err(|fault| fault.to_string())?;
        key = presented.map(|key| keys.check(&key, now));
    }
    let stands_for = key.as_ref().and_then(|key| key.holder.clone());
    if request.credential == Credential::None {
        identified.credential = match &key {
            Some(key) if key.denied => Credential::UnknownKey,
            _ if stands_for.is_some() => Credential::Valid,
            _ => Credential::None,
        };
    }
    for member in IdentityMember::ALL {
        if let Some(value) = member.value_in(request) {
            members.add(member.as_str(), value, "request");
        }
    }
    let evidence = IdentityEvidence {
        headers: &headers,
        host: request.host.as_deref(),
        query: query(request),
        claims: &request.jwt,
        unreadable_claims: &[],
        key: stands_for.as_deref(),
    };
    let found = settings.identity.resolve_missing(&evidence, request).map_err(|fault| fault.to_string())?;
    for found in found.members() {
        members.add(found.member.as_str(), &*found.value, found.source.to_string());
        found.member.set_in(&mut identified, found.value.to_string().into());
    }
    let claim = |name: &str| request.jwt.iter().find(|(known, _)| *known == *name).map(|(_, value)| &**value);
    for (member, name, value) in usual(&settings.identity, claim) {
        if member.value_in(request).is_none() {
            members.add(member.as_str(), value, format!("jwt:{name}"));
            member.set_in(&mut identified, value.to_owned().into());
        }
    }
    Ok((identified, members))
}
