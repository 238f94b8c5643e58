//! Keys as a parsed request has them: short strings, just written, in the CPU cache.

/// How many keys are written before they are used. A real key is written some time before it reaches
/// the limiter; used at once, every contender would stall on reading bytes that are still in the
/// store buffer.
pub(crate) const BLOCK: usize = 16;

const PREFIX: &str = "user:";
const DIGITS: usize = 8;
/// The number of different keys.
pub(crate) const KEYS_MAX: u32 = 10_u32.pow(DIGITS as u32);

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// A few keys, overwritten in place, so that writing them allocates nothing.
#[derive(Debug)]
pub(crate) struct KeyBlock {
    keys: [String; BLOCK],
}

impl KeyBlock {
    pub(crate) fn new() -> KeyBlock {
        KeyBlock { keys: std::array::from_fn(|_| key(0)) }
    }

    /// The keys of up to [`BLOCK`] indexes.
    #[inline]
    pub(crate) fn write(&mut self, indexes: &[u32]) -> &[String] {
        for (key, &index) in self.keys.iter_mut().zip(indexes) {
            write(key, index);
        }
        &self.keys[..indexes.len()]
    }
}

/// The key of an index, newly allocated.
pub(crate) fn key(index: u32) -> String {
    format!("{PREFIX}{index:0DIGITS$}")
}

/// Overwrites `key` with the key of `index`; it must have been a key before.
#[inline]
fn write(key: &mut String, index: u32) {
    let mut bytes = std::mem::take(key).into_bytes();
    let (high, low) = (index / 10_000, index % 10_000);
    let pairs = [high / 100, high % 100, low / 100, low % 100].map(|pair| PAIRS[pair as usize]);
    bytes[PREFIX.len()..].copy_from_slice(pairs.as_flattened());
    *key = String::from_utf8(bytes).expect("letters and digits are UTF-8");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_in_place() {
        let mut block = KeyBlock::new();
        let indexes = [0, 7, 1_234_567, 99_999_999, 10_203_040];
        let written = block.write(&indexes);
        assert_eq!(
            written,
            ["user:00000000", "user:00000007", "user:01234567", "user:99999999", "user:10203040"]
        );
        let places: Vec<*const u8> = written.iter().map(|key| key.as_ptr()).collect();
        let again = block.write(&[KEYS_MAX - 1; 5]);
        assert!(again.iter().all(|written| *written == key(KEYS_MAX - 1)));
        assert!(again.iter().map(|key| key.as_ptr()).eq(places), "nothing was allocated");
    }
}
