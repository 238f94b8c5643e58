//! The calls about what is known about users, for all nodes that share the server.

use redis::Value;
use tidegate_core::Nanos;

use super::link::LinkError;
use super::live::{PageParts, SharedLiveHead, digits, number, parts, read_args};
use super::scripts;
use super::wire::{EncodedCall, garbled};
use crate::registry::BucketKey;

/// What is known about a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedAccount {
    /// The user, without line feeds.
    pub user: String,
    /// When it was changed, in the order of all changes; zero if nothing was ever known.
    pub sequence: u64,
    /// What is known; empty: nothing any more.
    pub text: Vec<u8>,
}

/// Accounts that were changed, in the order in which that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedTrustPage {
    /// The end of all changes.
    pub head: SharedLiveHead,
    /// The accounts.
    pub accounts: Vec<SharedAccount>,
    /// Are these the accounts from the first? The head that was seen is none of this server: it has begun anew, or gone back.
    pub is_anew: bool,
}

/// What becomes of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedAccountEdit {
    /// The account as it will be. The change is made only if the user still has this sequence.
    pub account: SharedAccount,
    /// After how long it says nothing any more; `None`: never.
    pub lasts: Option<Nanos>,
}

/// A change of some accounts, all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedTrustChange {
    /// The accounts, each user once.
    pub edits: Vec<SharedAccountEdit>,
    /// How many accounts there may be about which something is known. Twice as many may be kept, with those about which
    /// nothing is known any more.
    pub most: usize,
    /// Changes with the same mark are made once in a day, as far as the last ten thousand of them are known.
    pub mark: Option<[u8; 32]>,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedTrustOutcome {
    /// It is made. This is the sequence of its last part.
    Changed(u64),
    /// There are too many accounts.
    Full,
    /// An account was changed by somebody else meanwhile.
    Stale,
    /// A change with this mark was made before.
    Repeated,
}

/// How long accounts are kept after they have ended, so that every node learns of it.
const KEPT: Nanos = Nanos::from_secs(60 * 60);

fn encoded(key: &BucketKey, args: Vec<Vec<u8>>) -> EncodedCall {
    let part = |name: &str| BucketKey(format!("{}:{name}", key.0).into());
    let keys = ["head", "order", "users", "ends", "past", "gone", "marks"].map(part).into_iter().collect();
    EncodedCall { script: scripts::TRUST.script(false), keys, args }
}

/// Encodes a call that reads what comes after a sequence, for whoever has seen a head.
pub(crate) fn encode_trust_page(key: &BucketKey, seen: SharedLiveHead, after: u64, most: u32) -> EncodedCall {
    encoded(key, read_args(seen, after, most))
}

/// Encodes a call that reads the accounts of some users.
pub(crate) fn encode_accounts(key: &BucketKey, users: &[String]) -> EncodedCall {
    let names = users.iter().map(|user| user.clone().into_bytes());
    encoded(key, [b"find".to_vec()].into_iter().chain(names).collect())
}

/// Encodes a change.
pub(crate) fn encode_trust_change(key: &BucketKey, change: &SharedTrustChange) -> EncodedCall {
    let mut args: Vec<Vec<u8>> = Vec::new();
    args.extend([b"change".to_vec(), digits(change.most as u64), digits(KEPT.as_millis_ceil())]);
    args.push(change.mark.map(Vec::from).unwrap_or_default());
    for SharedAccountEdit { account, lasts } in &change.edits {
        let lasts = lasts.map(|lasts| digits(lasts.as_millis_ceil())).unwrap_or_default();
        args.extend([account.user.clone().into_bytes(), digits(account.sequence), lasts]);
        args.push(account.text.clone());
    }
    encoded(key, args)
}

/// Reads the reply to [`encode_trust_page`].
///
/// # Errors
/// When the reply is no answer to it.
pub(crate) fn decode_trust_page(reply: &Value) -> Result<SharedTrustPage, LinkError> {
    page(reply).ok_or_else(|| garbled("trust accounts", reply))
}

fn page(reply: &Value) -> Option<SharedTrustPage> {
    let PageParts { head, members, is_anew } = parts(reply)?;
    let accounts = members.chunks(2).map(listed).collect::<Option<_>>()?;
    Some(SharedTrustPage { head, accounts, is_anew })
}

/// An account of a page: a member, and its sequence once more.
fn listed(pair: &[Value]) -> Option<SharedAccount> {
    let [Value::BulkString(member), sequence] = pair else { return None };
    let mut parts = member.splitn(3, |&byte| byte == b'\n');
    let (user, _, text) = (parts.next()?, parts.next()?, parts.next()?);
    Some(SharedAccount {
        user: String::from_utf8(user.to_vec()).ok()?,
        sequence: number(sequence)?,
        text: text.to_vec(),
    })
}

/// Reads the reply to [`encode_accounts`] for the same users.
///
/// # Errors
/// When the reply is no answer to it.
pub(crate) fn decode_accounts(users: &[String], reply: &Value) -> Result<Vec<SharedAccount>, LinkError> {
    let found = || {
        let Value::Array(parts) = reply else { return None };
        let pairs = parts.chunks_exact(2).filter(|_| parts.len() == 2 * users.len());
        let account = |(user, pair): (&String, &[Value])| {
            let [sequence, Value::BulkString(text)] = pair else { return None };
            Some(SharedAccount { user: user.clone(), sequence: number(sequence)?, text: text.clone() })
        };
        let accounts: Vec<SharedAccount> = users.iter().zip(pairs).map(account).collect::<Option<_>>()?;
        Some(accounts).filter(|accounts| accounts.len() == users.len())
    };
    found().ok_or_else(|| garbled("trust accounts", reply))
}

/// Reads the reply to [`encode_trust_change`].
///
/// # Errors
/// When the reply is no answer to it.
pub(crate) fn decode_trust_change(reply: &Value) -> Result<SharedTrustOutcome, LinkError> {
    let outcome = match reply {
        Value::Array(parts) => match parts.as_slice() {
            [Value::BulkString(word), sequence] if word == b"changed" => {
                number(sequence).map(SharedTrustOutcome::Changed)
            }
            [Value::BulkString(word)] if word == b"full" => Some(SharedTrustOutcome::Full),
            [Value::BulkString(word)] if word == b"stale" => Some(SharedTrustOutcome::Stale),
            [Value::BulkString(word)] if word == b"repeated" => Some(SharedTrustOutcome::Repeated),
            _ => None,
        },
        _ => None,
    };
    outcome.ok_or_else(|| garbled("a change of trust accounts", reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn replies_that_are_no_answers_are_refused() {
        let users = ["a".to_owned()];
        let answer = Value::Array(vec![
            text("7"),
            text("2"),
            Value::Array(vec![text("a\n1\nx\ny"), text("1"), text("b\n2\n"), text("2")]),
            text("more"),
        ]);
        let accounts = decode_trust_page(&answer).expect("an answer").accounts;
        assert_eq!((accounts[0].text.as_slice(), accounts[0].sequence), (&b"x\ny"[..], 1));
        assert_eq!((accounts[1].user.as_str(), accounts[1].text.len()), ("b", 0));
        for wrong in [
            Value::Nil,
            Value::Array(vec![text("7")]),
            Value::Array(vec![text("x"), text("2")]),
            Value::Array(vec![
                text("x"),
                text("2"),
                Value::Array(vec![text("a\n1"), text("1")]),
                text("more"),
            ]),
            Value::Array(vec![text("7"), text("2"), Value::Array(vec![text("a\n1\n")]), text("8")]),
        ] {
            assert!(decode_trust_page(&wrong).is_err(), "{wrong:?}");
            assert!(decode_trust_change(&wrong).is_err(), "{wrong:?}");
            assert!(decode_accounts(&users, &wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(decode_trust_change(&Value::Array(vec![text("stale")])), Ok(SharedTrustOutcome::Stale));
        let found = decode_accounts(&users, &Value::Array(vec![text("3"), text("{}")])).expect("an answer");
        assert_eq!((found[0].user.as_str(), found[0].sequence), ("a", 3));
    }
}
