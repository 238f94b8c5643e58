//! What is known about a user, and how carriers write it.

use serde::{Deserialize, Serialize};
use tidegate::Nanos;
use tidegate::engine::trust::score::SuccessRate;
use tidegate::engine::trust::{AccountFacts, DailyOutcomes, TrustAccount};

/// An account as JSON. What is not known is absent.
#[derive(Debug, Default, Serialize, Deserialize)]
struct AccountText {
    /// Nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    email_verified: Option<bool>,
    /// In millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    success_rate: Option<u32>,
    /// Days since 1970, each with its successes and failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outcomes: Vec<(u64, u32, u32)>,
}

/// The text of an account; `None` if nothing is known.
pub(super) fn write(account: &TrustAccount) -> Option<String> {
    let text = AccountText {
        created: account.facts.created.map(Nanos::get),
        email_verified: account.facts.email_verified,
        success_rate: account.facts.success_rate.map(SuccessRate::millionths),
        outcomes: account.outcomes.days().collect(),
    };
    let is_known = account.facts != AccountFacts::default() || !text.outcomes.is_empty();
    is_known.then(|| serde_json::to_string(&text).expect("it is plain JSON"))
}

/// The account of a text; `None` if it is none.
pub(super) fn read(text: &[u8]) -> Option<TrustAccount> {
    let text: AccountText = serde_json::from_slice(text).ok()?;
    Some(TrustAccount {
        facts: AccountFacts {
            created: text.created.map(Nanos::new),
            email_verified: text.email_verified,
            success_rate: text.success_rate.map(SuccessRate::from_millionths),
        },
        outcomes: DailyOutcomes::from_days(text.outcomes),
    })
}

/// When an account says nothing any more; `None`: never.
pub(super) fn end(account: &TrustAccount) -> Option<Nanos> {
    if account.facts != AccountFacts::default() {
        return None;
    }
    account.outcomes.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_back_as_they_were_written() {
        let at = Nanos::from_secs(20_000 * 86_400);
        let mut account = TrustAccount::default();
        assert_eq!((write(&account), end(&account)), (None, None));
        account.outcomes.add(3, 1, at);
        assert_eq!(write(&account).as_deref(), Some("{\"outcomes\":[[20000,3,1]]}"));
        assert_eq!(end(&account), Some(Nanos::from_secs(20_007 * 86_400)));
        account.facts = AccountFacts {
            created: Some(Nanos::new(5)),
            email_verified: Some(false),
            success_rate: SuccessRate::parse("0.25"),
        };
        let text = write(&account).expect("it is known");
        assert_eq!((read(text.as_bytes()), end(&account)), (Some(account), None));
        assert_eq!(read(b"{\"newer\":1}"), Some(TrustAccount::default()));
        assert_eq!(read(b"no JSON"), None);
    }
}
