//! What is limited, and who asks: the same for all contenders.

use tidegate::testing::Random;

/// A key may have this many at once,
pub(crate) const BURST: u32 = 200;
/// and this many in a period.
pub(crate) const PER_PERIOD: u32 = 100;
pub(crate) const PERIOD_SECONDS: u32 = 1;

/// How many keys there are.
const KEYS: u32 = 10_000;
/// One question of so many is about the one key that asks for more than it may have. The others have room
/// for what they ask.
const GREEDY_SHARE: u32 = 50;
const GREEDY: u32 = 0;

/// The domain of questions from a proxy.
pub(crate) const RLS_DOMAIN: &str = "edge";

/// Three limits for whoever asks by HTTP, two for a proxy.
pub(crate) fn policy() -> String {
    let user = format!(
        "sustained: {{ rate: {PER_PERIOD}, window: {PERIOD_SECONDS}s }}, burst: {{ capacity: {BURST} }}"
    );
    let all = "sustained: { rate: 10000000, window: second }, burst: { capacity: 10000000 }";
    format!(
        "version: 1
limits:
  - {{ name: per-user, match: {{ plan: free }}, key: [user], {user} }}
  - {{ name: per-path, match: {{ plan: free, path: /api/** }}, key: [path], {all} }}
  - {{ name: overall, match: {{ plan: free }}, key: [], {all} }}
  - {{ name: edge-user, match: {{ domain: {RLS_DOMAIN} }}, key: [user], {user} }}
  - {{ name: edge-path, match: {{ domain: {RLS_DOMAIN} }}, key: [path], {all} }}
"
    )
}

/// Whom the next question is about.
#[derive(Debug)]
pub(crate) struct Keys(Random);

impl Keys {
    pub(crate) fn new(seed: u64) -> Keys {
        Keys(Random::new(seed))
    }

    pub(crate) fn next(&mut self) -> u32 {
        match self.0.below(GREEDY_SHARE.into()) {
            0 => GREEDY,
            _ => 1 + self.0.below(u64::from(KEYS - 1)) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_one() {
        let policy = tidegate_policy::Policy::parse(&policy()).expect("valid");
        assert!(policy.warnings.is_empty(), "{:?}", policy.warnings);
    }

    #[test]
    fn one_key_asks_too_often() {
        let mut keys = Keys::new(1);
        let mut counts = vec![0_u32; KEYS as usize];
        (0..500_000).for_each(|_| counts[keys.next() as usize] += 1);
        assert!((9_000..11_000).contains(&counts[GREEDY as usize]), "{}", counts[GREEDY as usize]);
        assert!(counts[1..].iter().all(|&count| (10..120).contains(&count)), "the others alike");
    }
}
