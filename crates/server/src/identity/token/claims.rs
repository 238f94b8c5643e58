//! The claims of a verified token.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;
use tidegate::Nanos;
use tidegate::engine::Request;
use tidegate_policy::{IdentityMember, IdentitySources};

use crate::bounds::NAME_BYTES_MAX;
use crate::identity::Rejection;
use crate::settings::Jwt;
use crate::wire::each_value;

/// The allowed difference between the clocks of issuer and server.
pub(crate) const LEEWAY: Nanos = Nanos::from_secs(60);

/// The claims of a token with a valid signature, as pairs of name and value. A list becomes several pairs with the same
/// name; objects are left out.
#[derive(Debug)]
pub struct Claims {
    pairs: Vec<(Box<str>, Box<str>)>,
    /// The names of claims that are objects, or lists that contain some.
    unreadable: Vec<Box<str>>,
    expires: Nanos,
    begins: Nanos,
}

/// Claims that set a field of the request. Of several names, the first one present is used.
const MEANINGS: &[(&[&str], IdentityMember)] = &[
    (&["sub"], IdentityMember::User),
    (&["tenant", "tenant_id", "tid"], IdentityMember::Tenant),
    (&["plan"], IdentityMember::Plan),
    (&["client_id", "azp"], IdentityMember::Client),
];

impl Claims {
    /// Reads the payload of a token whose signature is valid.
    ///
    /// # Errors
    /// When it has no `exp`, or not the required issuer or audience.
    pub(crate) fn new(payload: &HashMap<String, Box<RawValue>>, wanted: &Jwt) -> Result<Claims, Rejection> {
        let (mut pairs, mut unreadable) = (Vec::with_capacity(payload.len()), Vec::new());
        for (name, value) in payload {
            // No policy can name a claim with such a long name. Objects, and lists that contain objects, cannot be part
            // of a key either: `each_value` fails on them.
            if name.len() > NAME_BYTES_MAX {
                continue;
            }
            let mut values = Vec::new();
            let mut keep = |value: Cow<'_, str>| {
                values.push(value.into_owned());
                Ok(())
            };
            if each_value(value.get(), &mut keep).is_ok() {
                pairs.extend(values.into_iter().map(|value| (name.as_str().into(), value.into())));
            } else {
                unreadable.push(name.as_str().into());
            }
        }
        // The order of a `HashMap` is random: sort, so that the same token always gives the same pairs. The sort is
        // stable and keeps the order within a list.
        pairs.sort_by(|(a, _): &(Box<str>, Box<str>), (b, _)| a.cmp(b));
        let time = |name: &str| payload.get(name).map(|value| seconds(value.get()));
        let expires = time("exp").flatten().ok_or(Rejection::Malformed)?;
        let begins = time("nbf").unwrap_or(Some(Nanos::ZERO)).ok_or(Rejection::Malformed)?;
        let claims = Claims { pairs, unreadable, expires, begins };
        let has = |name: &str, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| claims.all(name).any(|value| value == wanted))
        };
        match () {
            () if !has("iss", &wanted.issuer) => Err(Rejection::WrongIssuer),
            () if !has("aud", &wanted.audience) => Err(Rejection::WrongAudience),
            () => Ok(claims),
        }
    }

    /// Checks `exp` and `nbf`.
    ///
    /// # Errors
    /// When the token has expired or is not valid yet.
    pub(crate) fn check_time(&self, now: Nanos) -> Result<(), Rejection> {
        match () {
            () if now >= self.expires.saturating_add(LEEWAY) => Err(Rejection::Expired),
            () if now.saturating_add(LEEWAY) < self.begins => Err(Rejection::NotYetValid),
            () => Ok(()),
        }
    }

    /// When the token ends, by its `exp`.
    pub(crate) fn expires(&self) -> Nanos {
        self.expires
    }

    /// The values of a claim.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(own, _)| **own == *name).map(|(_, value)| &**value)
    }

    /// The names of claims that hold no text.
    pub fn unreadable(&self) -> &[Box<str>] {
        &self.unreadable
    }

    /// Adds the claims to a request, and sets the fields that follow from them unless they are already set or the settings
    /// list other sources for them.
    pub fn describe<'a>(&'a self, listed: &IdentitySources, request: &mut Request<'a>) {
        let pairs = self.pairs.iter();
        request.jwt.extend(pairs.map(|(name, value)| ((&**name).into(), (&**value).into())));
        for (member, _, value) in self.usual(listed) {
            if member.value_in(request).is_none() {
                member.set_in(request, value.into());
            }
        }
    }

    /// The members that follow from claims, with the name of the claim and its value. Members that the settings list have
    /// other sources.
    pub fn usual<'a>(
        &'a self,
        listed: &IdentitySources,
    ) -> impl Iterator<Item = (IdentityMember, &'static str, &'a str)> {
        let value = |name: &str| self.pairs.iter().find(|(own, _)| **own == *name).map(|(_, value)| &**value);
        usual(listed, value)
    }
}

/// The members that follow from claims, unless the settings list other sources for them: each with the name of its claim
/// and the value that `claim` finds.
pub(crate) fn usual<'a>(
    listed: &IdentitySources,
    claim: impl Fn(&str) -> Option<&'a str>,
) -> impl Iterator<Item = (IdentityMember, &'static str, &'a str)> {
    MEANINGS.iter().filter(|(_, member)| listed.of(*member).is_none()).filter_map(move |(names, member)| {
        let found = names.iter().find_map(|name| Some((*name, claim(name)?)));
        found.map(|(name, value)| (*member, name, value))
    })
}

/// A `NumericDate` of a token: seconds since the epoch; a fraction is dropped.
fn seconds(text: &str) -> Option<Nanos> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    // A number that does not fit is a time that never comes.
    let seconds = whole.parse::<u64>().unwrap_or(u64::MAX);
    Some(Nanos::new(seconds.saturating_mul(Nanos::SECOND.get())))
}

#[cfg(test)]
mod tests {
    use tidegate::engine::InvalidCredentials;

    use super::*;

    fn claims(payload: &str, issuer: Option<&str>, audience: Option<&str>) -> Result<Claims, Rejection> {
        let payload: HashMap<String, Box<RawValue>> = serde_json::from_str(payload).unwrap();
        let key = crate::settings::JwtKey::Key { key: String::new(), algorithm: String::new() };
        let [issuer, audience] = [issuer, audience].map(|text| text.map(str::to_owned));
        Claims::new(&payload, &Jwt { key, issuer, audience, invalid: InvalidCredentials::Deny })
    }

    #[test]
    fn values_are_told_as_a_request_has_them() {
        let payload = r#"{"exp":9,"sub":"42","n":1.50,"ok":true,"roles":["a","b"],"deep":{"x":1},"no":null}"#;
        let claims = claims(payload, None, None).unwrap();
        let mut request = Request::new();
        claims.describe(&IdentitySources::new(), &mut request);
        let expected = Request::new().user("42").claim("exp", "9").claim("n", "1.50").claim("ok", "true");
        assert_eq!(request, expected.claim("roles", "a").claim("roles", "b").claim("sub", "42"));
    }

    #[test]
    fn claims_become_what_they_mean_where_nothing_else_says_it() {
        let payload = r#"{"exp":9,"sub":"u","tid":"t2","tenant":"t1","plan":"pro","azp":"app"}"#;
        let claims = claims(payload, None, None).unwrap();
        let mut request = Request::new().user("told");
        claims.describe(&IdentitySources::new(), &mut request);
        let fields = [&request.user, &request.tenant, &request.plan, &request.client];
        assert_eq!(fields.map(|text| text.as_deref()), [Some("told"), Some("t1"), Some("pro"), Some("app")]);
    }

    #[test]
    fn a_token_has_its_time_give_or_take_a_minute() {
        let claims = claims(r#"{"exp":2000.9,"nbf":1000}"#, None, None).unwrap();
        for (at, expected) in [
            (939, Err(Rejection::NotYetValid)),
            (940, Ok(())),
            (2_059, Ok(())),
            (2_060, Err(Rejection::Expired)),
        ] {
            assert_eq!(claims.check_time(Nanos::from_secs(at)), expected, "{at}");
        }
    }

    #[test]
    fn a_token_for_others_is_none_of_ours() {
        let payload = r#"{"exp":9,"iss":"me","aud":["a","b"]}"#;
        for (issuer, audience, wrong) in [
            (None, None, None),
            (Some("me"), Some("b"), None),
            (Some("you"), None, Some(Rejection::WrongIssuer)),
            (None, Some("c"), Some(Rejection::WrongAudience)),
        ] {
            assert_eq!(claims(payload, issuer, audience).err(), wrong, "{issuer:?} {audience:?}");
        }
        assert!(claims(r#"{"exp":9}"#, None, Some("a")).is_err(), "no audience is not ours");
        for wrong in ["{}", r#"{"exp":"9"}"#, r#"{"exp":1e9}"#, r#"{"exp":-1}"#, r#"{"exp":9,"nbf":"x"}"#] {
            assert_eq!(claims(wrong, None, None).err(), Some(Rejection::Malformed), "{wrong}");
        }
        let far = claims(r#"{"exp":99999999999999999999999}"#, None, None).unwrap();
        assert_eq!(far.check_time(Nanos::END), Ok(()));
    }
}
