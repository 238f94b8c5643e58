//! Facts about an account from the claims of a token.

use tidegate_core::Nanos;
use tidegate_document::value::instant_of;
use tidegate_policy::Request;

use super::AccountFacts;
use super::score::SuccessRate;

/// The names of the claims that say something about an account; `None` is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustClaims {
    /// When the account was created: seconds since 1970, or a time such as `2024-05-01T00:00:00Z`.
    pub created: Option<String>,
    /// Whether the email address is verified: `true` or `false`.
    pub email_verified: Option<String>,
    /// The success rate of the last seven days, from 0 to 1.
    pub success_rate: Option<String>,
}

impl TrustClaims {
    /// The facts that the claims of a request state. A claim with another kind of value states nothing.
    pub(super) fn read(&self, request: &Request<'_>) -> AccountFacts {
        let claim = |wanted: &Option<String>| {
            let wanted = wanted.as_deref()?;
            let mut found = request.jwt.iter().filter(|(name, _)| *name == wanted).map(|(_, value)| value);
            // A list of values is ambiguous.
            found.next().filter(|_| found.next().is_none())
        };
        AccountFacts {
            created: claim(&self.created).and_then(|text| time(text)),
            email_verified: claim(&self.email_verified).and_then(|text| text.parse().ok()),
            success_rate: claim(&self.success_rate).and_then(|text| SuccessRate::parse(text)),
        }
    }
}

/// A time: seconds since 1970, of which a fraction is dropped, or as in RFC 3339.
fn time(text: &str) -> Option<Nanos> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits(whole) && digits(part) {
        return whole.parse().ok().map(Nanos::from_secs);
    }
    instant_of(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_as_their_meaning() {
        let claims = TrustClaims {
            created: Some("since".to_owned()),
            email_verified: Some("email_verified".to_owned()),
            success_rate: Some("ok".to_owned()),
        };
        let read = |pairs: &[(&'static str, &'static str)]| {
            let add = |request: Request<'static>, (name, value): &(&'static str, &'static str)| {
                request.claim(*name, *value)
            };
            claims.read(&pairs.iter().fold(Request::new(), add))
        };
        let facts = AccountFacts {
            created: Some(Nanos::from_secs(1_714_521_600)),
            email_verified: Some(true),
            success_rate: SuccessRate::parse("0.25"),
        };
        for since in ["1714521600", "1714521600.75", "2024-05-01T00:00:00Z"] {
            assert_eq!(
                read(&[("since", since), ("email_verified", "true"), ("ok", "0.250")]),
                facts,
                "{since}"
            );
        }
        for wrong in [
            &[("since", "yesterday"), ("email_verified", "yes"), ("ok", "250")][..],
            &[("since", ""), ("email_verified", ""), ("ok", "-1")],
            &[("since", "1"), ("since", "2"), ("ok", "0.1"), ("ok", "0.1")],
            &[("other", "1714521600")],
        ] {
            assert_eq!(read(wrong), AccountFacts::default(), "{wrong:?}");
        }
        let none = TrustClaims::default().read(&Request::new().claim("", "1"));
        assert_eq!(none, AccountFacts::default());
    }
}
