//! Hash maps whose keys are texts of a policy.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys come from a policy. Clients can look up keys but not add any, so they cannot cause collisions, and
/// a fast hash without a secret is enough.
pub(super) type TextMap<V> = HashMap<Box<str>, V, BuildHasherDefault<TextHasher>>;

/// Hashes eight bytes at a time, each with one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TextHasher(u64);

/// The fraction of the golden ratio: odd, with bits that have no pattern.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl TextHasher {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for TextHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.fold(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // The length distinguishes a text from the same text followed by zero bytes.
        self.fold(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    /// `str` writes a byte at its end. The length, which is hashed already, does the same.
    fn write_u8(&mut self, _end: u8) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::Hash;

    use super::*;

    #[test]
    fn alike_texts_hash_apart() {
        let hash = |text: &str| {
            let mut hasher = TextHasher::default();
            text.hash(&mut hasher);
            hasher.finish()
        };
        let names = (0..100_000).map(|number| format!("service-{number}"));
        let hashes: HashSet<u64> = names.map(|name| hash(&name)).collect();
        assert_eq!(hashes.len(), 100_000);
        // A hash table uses the low bits as its index and the high ones as a tag.
        let low: HashSet<u64> = hashes.iter().map(|hash| hash & 0xffff).collect();
        let high: HashSet<u64> = hashes.iter().map(|hash| hash >> 48).collect();
        assert!(low.len() > 45_000 && high.len() > 45_000, "{} and {} of 65,536", low.len(), high.len());
        let short = ["", "\0", "\0\0", "a", "a\0", "ab", "ba", "aaaaaaaa", "aaaaaaaaa"];
        assert_eq!(short.map(hash).into_iter().collect::<HashSet<u64>>().len(), short.len());
    }
}
