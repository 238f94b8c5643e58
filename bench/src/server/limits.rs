//! What is limited, and who asks: the same for all contenders.

use std::time::Duration;

use tidegate::testing::Random;

use super::tally::Verdicts;

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

/// The plans of those who ask: a plan decides which limits apply.
pub(crate) const FREE: &str = "free";
pub(crate) const HOT: &str = "hot";
pub(crate) const HOT_THREE: &str = "hot-three";
pub(crate) const DENIED: &str = "denied";

/// So much at once and in a second is more than anybody can ask for here.
pub(crate) const PLENTY: u32 = 10_000_000;
/// How many hot keys there are.
const HOT_KEYS: u32 = 8;

/// What `/v1/forward-auth` and `/v1/check` are both asked about.
pub(crate) const FORWARDED_ADDRESS: &str = "203.0.113.7";
pub(crate) const FORWARDED_HOST: &str = "api.example.com";
pub(crate) const FORWARDED_URI: &str = "/api/videos?q=cats";

/// The domain of questions from a proxy.
pub(crate) const RLS_DOMAIN: &str = "edge";

/// Three limits for whoever asks by HTTP, two for a proxy.
pub(crate) fn policy() -> String {
    let user = format!(
        "sustained: {{ rate: {PER_PERIOD}, window: {PERIOD_SECONDS}s }}, burst: {{ capacity: {BURST} }}"
    );
    let all = plenty();
    format!(
        "version: 1
limits:
  - {{ name: per-user, match: {{ plan: {FREE} }}, key: [user], {user} }}
  - {{ name: per-path, match: {{ plan: {FREE}, path: /api/** }}, key: [path], {all} }}
  - {{ name: overall, match: {{ plan: {FREE} }}, key: [], {all} }}
  - {{ name: edge-user, match: {{ domain: {RLS_DOMAIN} }}, key: [user], {user} }}
  - {{ name: edge-path, match: {{ domain: {RLS_DOMAIN} }}, key: [path], {all} }}
"
    )
}

/// What is limited where Tidegate is compared with itself. An hour brings the denied key one more token: that goes to
/// the first question, before anything is measured.
pub(crate) fn policy_of_modes() -> String {
    let all = plenty();
    format!(
        "version: 1
limits:
  - {{ name: hot-user, match: {{ plan: [{HOT}, {HOT_THREE}] }}, key: [user], {all} }}
  - {{ name: hot-path, match: {{ plan: {HOT_THREE}, path: /api/** }}, key: [path], {all} }}
  - {{ name: hot-overall, match: {{ plan: {HOT_THREE} }}, key: [], {all} }}
  - {{ name: denied-user, match: {{ plan: {DENIED} }}, key: [user], sustained: {{ rate: 1, window: 1h }}, burst: {{ capacity: 1 }} }}
  - {{ name: per-address, match: {{ host: {FORWARDED_HOST} }}, key: [ip], {all} }}
"
    )
}

fn plenty() -> String {
    format!("sustained: {{ rate: {PLENTY}, window: second }}, burst: {{ capacity: {PLENTY} }}")
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPopulation {
    /// Many keys, one of which asks for more than it may have.
    Many,
    /// A few keys, all of which may have what they ask for.
    Hot,
    /// One key, which may have nothing more.
    Denied,
}

impl KeyPopulation {
    /// How long it asks before anything is measured. Hot keys need longer: a lease is bought only after a key was
    /// busy for a while, and until then every question goes to Redis.
    pub(crate) fn warm_up(self) -> Duration {
        match self {
            KeyPopulation::Many | KeyPopulation::Denied => Duration::from_millis(200),
            KeyPopulation::Hot => Duration::from_millis(400),
        }
    }

    /// Whether the answers are what this crowd must be told.
    pub(crate) fn expects(self, verdicts: Verdicts) -> bool {
        match self {
            KeyPopulation::Many => true,
            KeyPopulation::Hot => verdicts.denied == 0,
            KeyPopulation::Denied => verdicts.allowed == 0,
        }
    }
}

/// Whom the next question is about.
#[derive(Debug)]
pub(crate) struct KeySequence {
    crowd: KeyPopulation,
    random: Random,
}

impl KeySequence {
    /// Many keys.
    pub(crate) fn new(seed: u64) -> KeySequence {
        KeySequence::of(KeyPopulation::Many, seed)
    }

    pub(crate) fn of(crowd: KeyPopulation, seed: u64) -> KeySequence {
        KeySequence { crowd, random: Random::new(seed) }
    }

    pub(crate) fn next(&mut self) -> u32 {
        match self.crowd {
            KeyPopulation::Many if self.random.below(GREEDY_SHARE.into()) == 0 => GREEDY,
            KeyPopulation::Many => 1 + self.random.below(u64::from(KEYS - 1)) as u32,
            KeyPopulation::Hot => self.random.below(HOT_KEYS.into()) as u32,
            KeyPopulation::Denied => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_are_valid() {
        for policy in [policy(), policy_of_modes()] {
            let policy = tidegate_policy::Policy::parse(&policy).expect("valid");
            assert!(policy.warnings.is_empty(), "{:?}", policy.warnings);
        }
    }

    #[test]
    fn hot_keys_are_few_and_a_flood_has_one() {
        let of = |crowd| {
            let mut keys = KeySequence::of(crowd, 1);
            (0..1_000).map(|_| keys.next()).collect::<std::collections::BTreeSet<u32>>()
        };
        assert_eq!((of(KeyPopulation::Hot).len(), of(KeyPopulation::Denied).len()), (HOT_KEYS as usize, 1));
    }

    #[test]
    fn a_crowd_expects_what_its_limits_say() {
        let [yes, no, both] = [(1, 0), (0, 1), (1, 1)].map(|(allowed, denied)| Verdicts { allowed, denied });
        assert_eq!([yes, no, both].map(|said| KeyPopulation::Many.expects(said)), [true, true, true]);
        assert_eq!([yes, no, both].map(|said| KeyPopulation::Hot.expects(said)), [true, false, false]);
        assert_eq!([yes, no, both].map(|said| KeyPopulation::Denied.expects(said)), [false, true, false]);
    }

    #[test]
    fn one_key_asks_too_often() {
        let mut keys = KeySequence::new(1);
        let mut counts = vec![0_u32; KEYS as usize];
        (0..500_000).for_each(|_| counts[keys.next() as usize] += 1);
        assert!((9_000..11_000).contains(&counts[GREEDY as usize]), "{}", counts[GREEDY as usize]);
        assert!(counts[1..].iter().all(|&count| (10..120).contains(&count)), "the others alike");
    }
}
