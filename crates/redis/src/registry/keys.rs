//! The keys of buckets on the server.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use tidegate_core::{Limit, Meter, Nanos};

/// The key of a bucket, with its hash tag: `<prefix>:1:{<tag>}:<algorithm><hash>`.
///
/// Client data enters it only as hashes, so that no client can choose a key. The `1` is the version of the stored
/// format.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketKey(pub Arc<str>);

impl BucketKey {
    /// The hash tag, between the braces: keys with equal tags are on one master of a Cluster.
    pub fn tag(&self) -> &str {
        let inside = self.0.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        inside.map_or(&*self.0, |(tag, _)| tag)
    }
}

/// The key of the list of nodes that are alive.
pub(crate) fn nodes(prefix: &str) -> BucketKey {
    BucketKey(format!("{prefix}:1:{{nodes}}").into())
}

/// The key of a burst detector's state for one client.
pub(crate) fn burst(prefix: &str, key: u128) -> BucketKey {
    let hex = format!("{key:032x}");
    BucketKey(format!("{prefix}:1:{{{tag}}}:d{hex}", tag = &hex[..16]).into())
}

/// What the keys of live entries begin with.
pub(crate) fn live(prefix: &str) -> BucketKey {
    BucketKey(format!("{prefix}:1:{{live}}").into())
}

/// What the keys begin with under which nodes tell each other of themselves.
pub(crate) fn fleet(prefix: &str) -> BucketKey {
    BucketKey(format!("{prefix}:1:{{fleet}}").into())
}

/// What the keys of trust accounts begin with.
pub(crate) fn trust(prefix: &str) -> BucketKey {
    BucketKey(format!("{prefix}:1:{{trust}}").into())
}

/// What the keys of the list of penalties begin with.
pub(crate) fn penalties(prefix: &str) -> BucketKey {
    BucketKey(format!("{prefix}:1:{{penalties}}").into())
}

/// The owner of a state: a named limit, or the numbers of an ad hoc limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateOwner<'a> {
    Named(&'a str),
    AdHoc(&'a str),
}

/// Makes the keys of a limit's buckets: holds the part of the hash that they share.
#[derive(Clone, Debug)]
pub(crate) struct KeyNamer {
    letter: u8,
    hash: Sha256,
}

impl KeyNamer {
    /// An edit to another algorithm or another window length gets other keys, and so starts with new states.
    pub(crate) fn new(owner: StateOwner<'_>, limit: &Limit) -> KeyNamer {
        let (kind, name) = match owner {
            StateOwner::Named(name) => (0_u8, name),
            StateOwner::AdHoc(numbers) => (1, numbers),
        };
        let hash = Sha256::new()
            .chain_update([kind])
            .chain_update((name.len() as u64).to_le_bytes())
            .chain_update(name)
            .chain_update(window(limit).get().to_le_bytes());
        KeyNamer { letter: letter(limit) as u8, hash }
    }

    /// The server's key for a client's key.
    pub(crate) fn key(&self, prefix: &str, key: &[u8], tag: Option<&[u8]>) -> BucketKey {
        let hash = self.hash.clone().chain_update(key).finalize();
        let tagged = tag.map(Sha256::digest);
        // On the stack, so that a key is one allocation.
        let mut name: SmallVec<[u8; 96]> = SmallVec::from_slice(prefix.as_bytes());
        name.extend_from_slice(b":1:{");
        push_hex(&mut name, &tagged.as_ref().unwrap_or(&hash)[..8]);
        name.extend_from_slice(b"}:");
        name.push(self.letter);
        push_hex(&mut name, &hash[..16]);
        BucketKey(std::str::from_utf8(&name).expect("a prefix is text, and the rest is ASCII").into())
    }
}

/// The letter of an algorithm, in keys and in the texts of states.
pub(crate) fn letter(limit: &Limit) -> char {
    match limit {
        Limit::Meter(Meter::TokenBucket(_)) => 'b',
        Limit::Meter(Meter::SlidingWindow(_)) => 's',
        Limit::Meter(Meter::FixedWindow(_)) => 'f',
        Limit::Log(_) => 'l',
    }
}

fn window(limit: &Limit) -> Nanos {
    match limit {
        Limit::Meter(Meter::TokenBucket(_)) => Nanos::ZERO,
        Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota)) => quota.length(),
        Limit::Log(quota) => quota.window(),
    }
}

/// By a table: formatting took a fifth of the time for a key.
fn push_hex(text: &mut SmallVec<[u8; 96]>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{LogQuota, Quota, WindowQuota};

    fn bucket() -> Limit {
        Quota::per_second(10).unwrap().into()
    }

    fn key(owner: StateOwner<'_>, limit: &Limit, key: &[u8], tag: Option<&[u8]>) -> BucketKey {
        KeyNamer::new(owner, limit).key("tide", key, tag)
    }

    #[test]
    fn a_key_shows_nothing_of_who_it_is_for() {
        let hostile = key(StateOwner::Named("a"), &bucket(), b"{x}}\r\n{", None);
        assert!(hostile.0.starts_with("tide:1:{") && hostile.0.len() == "tide:1:{".len() + 16 + 3 + 32);
        assert!(hostile.0.is_ascii() && hostile.0.matches(['{', '}', '\r']).count() == 2);
        assert_eq!(hostile.tag().len(), 16);
    }

    #[test]
    fn what_is_different_has_another_key() {
        let minute = |limit| WindowQuota::new(limit, Nanos::MINUTE).unwrap();
        let hour = WindowQuota::new(10, Nanos::HOUR).unwrap();
        let all = [
            key(StateOwner::Named("a"), &bucket(), b"key", None),
            key(StateOwner::Named("ak"), &bucket(), b"ey", None),
            key(StateOwner::Named("b"), &bucket(), b"key", None),
            key(StateOwner::AdHoc("a"), &bucket(), b"key", None),
            key(StateOwner::Named("a"), &Limit::sliding_window(minute(10)), b"key", None),
            key(StateOwner::Named("a"), &Limit::fixed_window(minute(10)), b"key", None),
            key(StateOwner::Named("a"), &Limit::fixed_window(hour), b"key", None),
            key(StateOwner::Named("a"), &LogQuota::new(10, Nanos::MINUTE).unwrap().into(), b"key", None),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        let edited = Limit::fixed_window(minute(20));
        assert_eq!(key(StateOwner::Named("a"), &edited, b"key", None), all[5], "an edit keeps the keys");
    }

    #[test]
    fn equal_tags_are_kept_together() {
        let keys =
            [b"a".as_slice(), b"b"].map(|name| key(StateOwner::Named("a"), &bucket(), name, Some(b"{acme}")));
        assert_ne!(keys[0], keys[1]);
        assert_eq!(keys[0].tag(), keys[1].tag());
        assert_ne!(keys[0].tag(), key(StateOwner::Named("a"), &bucket(), b"a", Some(b"other")).tag());
    }
}
