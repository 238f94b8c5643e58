//! The limits and the keys of requests: the same for all contenders.

use std::time::Duration;

use tidegate::testing::Random;

use super::control::CUSTOMERS;
use super::tally::Verdicts;
use super::wire::user_of;
use crate::stopwatch::Stopwatch;

/// The burst of a key.
pub(crate) const BURST: u32 = 200;
/// The tokens that a key gains per period.
pub(crate) const PER_PERIOD: u32 = 100;
pub(crate) const PERIOD_SECONDS: u32 = 1;
/// The period in which the key that is always denied gains one token.
pub(crate) const DENIED_PERIOD_SECONDS: u32 = 3_600;

/// The number of keys.
const KEYS: u32 = 10_000;
/// One in this many requests is for the one key that exceeds its limit. All other keys stay within theirs.
const GREEDY_SHARE: u32 = 50;
const GREEDY: u32 = 0;

/// The plans in requests: a plan decides which limits apply.
pub(crate) const FREE: &str = "free";
pub(crate) const HOT: &str = "hot";
pub(crate) const HOT_THREE: &str = "hot-three";
pub(crate) const DENIED: &str = "denied";

/// A burst and a rate per second that no load here can use up.
pub(crate) const PLENTY: u32 = 10_000_000;
/// How many requests a second are denied among others, and the first of their keys.
pub(crate) const DENIALS_PER_SECOND: f64 = 10_000.0;
pub(crate) const FIRST_DENIED: u32 = 1_000_000;
/// The number of hot keys.
const HOT_KEYS: u32 = 8;

/// The request that both `/v1/forward-auth` and `/v1/check` get.
pub(crate) const FORWARDED_ADDRESS: &str = "203.0.113.7";
pub(crate) const FORWARDED_HOST: &str = "api.example.com";
pub(crate) const FORWARDED_URI: &str = "/api/videos?q=cats";

/// The domain of requests from a proxy.
pub(crate) const RLS_DOMAIN: &str = "edge";

/// Three limits for requests by HTTP, two for a proxy.
pub(crate) fn policy() -> String {
    let user = format!(
        "sustained: {{ rate: {PER_PERIOD}, window: {PERIOD_SECONDS}s }}, burst: {{ capacity: {BURST} }}"
    );
    let all = plenty();
    format!(
        "version: 1
limits:
  - {{ name: per-user, match: {{ plan: {FREE} }}, key: [user], missing: skip, {user} }}
  - {{ name: per-path, match: {{ plan: {FREE}, path: /api/** }}, key: [path], {all} }}
  - {{ name: overall, match: {{ plan: {FREE} }}, key: [], {all} }}
  - {{ name: edge-user, match: {{ domain: {RLS_DOMAIN} }}, key: [user], missing: skip, {user} }}
  - {{ name: edge-path, match: {{ domain: {RLS_DOMAIN} }}, key: [path], {all} }}
"
    )
}

/// The policy where Tidegate is compared with itself. The denied key gains one token an hour: the first request uses it
/// up, before anything is measured.
pub(crate) fn policy_of_modes() -> String {
    let all = plenty();
    format!(
        "version: 1
limits:
  - {{ name: hot-user, match: {{ plan: [{HOT}, {HOT_THREE}] }}, key: [user], missing: skip, {all} }}
  - {{ name: hot-path, match: {{ plan: {HOT_THREE}, path: /api/** }}, key: [path], {all} }}
  - {{ name: hot-overall, match: {{ plan: {HOT_THREE} }}, key: [], {all} }}
  - {{ name: denied-user, match: {{ plan: {DENIED} }}, key: [user], missing: skip, sustained: {{ rate: 1, window: {DENIED_PERIOD_SECONDS}s }}, burst: {{ capacity: 1 }} }}
  - {{ name: per-address, match: {{ host: {FORWARDED_HOST} }}, key: [ip], {all} }}
"
    )
}

/// A draft of [`policy_of_modes`] with other numbers. All hot keys but one have plenty by it too; that one, one in eight
/// requests, is nearly always denied.
pub(crate) fn draft_of_modes() -> String {
    let half = PLENTY / 2;
    let less = format!("sustained: {{ rate: {half}, window: second }}, burst: {{ capacity: {half} }}");
    let one = "sustained: { rate: 1, window: second }, burst: { capacity: 1 }";
    let user = user_of(0);
    policy_of_modes().replace(&plenty(), &less)
        + &format!(
            "  - {{ name: one-user, match: {{ plan: {HOT_THREE}, user: \"{user}\" }}, key: [user], {one} }}\n"
        )
}

fn plenty() -> String {
    format!("sustained: {{ rate: {PLENTY}, window: second }}, burst: {{ capacity: {PLENTY} }}")
}

/// The keys of the requests of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPopulation {
    /// Many keys, one of which exceeds its limit.
    Many,
    /// A few keys that are always allowed.
    Hot,
    /// One key that is always denied.
    Denied,
    /// The tenants of the control plane's policy, which are always allowed.
    Tenants,
    /// A few keys that are always allowed, and among them [`DENIALS_PER_SECOND`] requests of many keys that are denied
    /// from their second request on.
    HotAndDenied,
}

impl KeyPopulation {
    /// The warm-up before the measurement. Hot keys need longer: a lease is granted only after a key was busy for a
    /// while, and until then every request is a call to Redis.
    pub(crate) fn warm_up(self) -> Duration {
        match self {
            KeyPopulation::Many | KeyPopulation::Denied | KeyPopulation::Tenants => {
                Duration::from_millis(200)
            }
            KeyPopulation::Hot | KeyPopulation::HotAndDenied => Duration::from_millis(400),
        }
    }

    /// Whether the verdicts are the expected ones for these keys.
    pub(crate) fn expects(self, verdicts: Verdicts) -> bool {
        match self {
            KeyPopulation::Many | KeyPopulation::HotAndDenied => true,
            KeyPopulation::Hot | KeyPopulation::Tenants => verdicts.denied == 0,
            KeyPopulation::Denied => verdicts.allowed == 0,
        }
    }
}

/// The key of the next request.
#[derive(Debug)]
pub(crate) struct KeySequence {
    population: KeyPopulation,
    random: Random,
    /// Since when, and how many of the keys so far are denied ones among others.
    began: Stopwatch,
    denied: u64,
}

impl KeySequence {
    /// Many keys.
    pub(crate) fn new(seed: u64) -> KeySequence {
        KeySequence::of(KeyPopulation::Many, seed)
    }

    pub(crate) fn of(population: KeyPopulation, seed: u64) -> KeySequence {
        KeySequence { population, random: Random::new(seed), began: Stopwatch::start(), denied: 0 }
    }

    pub(crate) fn next(&mut self) -> u32 {
        match self.population {
            KeyPopulation::Many if self.random.below(GREEDY_SHARE.into()) == 0 => GREEDY,
            KeyPopulation::Many => 1 + self.random.below(u64::from(KEYS - 1)) as u32,
            KeyPopulation::Hot => self.random.below(HOT_KEYS.into()) as u32,
            KeyPopulation::Denied => 0,
            KeyPopulation::HotAndDenied if self.is_denial_due() => {
                self.denied += 1;
                FIRST_DENIED + self.random.below(KEYS.into()) as u32
            }
            KeyPopulation::HotAndDenied => self.random.below(HOT_KEYS.into()) as u32,
            KeyPopulation::Tenants => self.random.below(CUSTOMERS.into()) as u32,
        }
    }

    fn is_denial_due(&self) -> bool {
        (self.denied as f64) < self.began.seconds() * DENIALS_PER_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_are_valid() {
        for policy in [policy(), policy_of_modes(), draft_of_modes()] {
            let policy = tidegate_policy::Policy::parse(&policy).expect("valid");
            assert!(policy.warnings.is_empty(), "{:?}", policy.warnings);
        }
    }

    #[test]
    fn hot_keys_are_few_and_a_flood_has_one() {
        let of = |population| {
            let mut keys = KeySequence::of(population, 1);
            (0..1_000).map(|_| keys.next()).collect::<std::collections::BTreeSet<u32>>()
        };
        assert_eq!((of(KeyPopulation::Hot).len(), of(KeyPopulation::Denied).len()), (HOT_KEYS as usize, 1));
    }

    #[test]
    fn denied_keys_come_among_others_as_time_goes_by() {
        let mut keys = KeySequence::of(KeyPopulation::HotAndDenied, 1);
        let (mut denied, mut hot) = (0, 0);
        while denied < 20 || hot < 20 {
            let key = keys.next();
            assert!(key < HOT_KEYS || (FIRST_DENIED..FIRST_DENIED + KEYS).contains(&key), "{key}");
            *(if key < HOT_KEYS { &mut hot } else { &mut denied }) += 1;
        }
        assert!(f64::from(denied) <= keys.began.seconds() * DENIALS_PER_SECOND + 1.0);
    }

    #[test]
    fn a_crowd_expects_what_its_limits_say() {
        let [yes, no, both] = [(1, 0), (0, 1), (1, 1)].map(|(allowed, denied)| Verdicts { allowed, denied });
        assert_eq!([yes, no, both].map(|verdicts| KeyPopulation::Many.expects(verdicts)), [true, true, true]);
        assert_eq!(
            [yes, no, both].map(|verdicts| KeyPopulation::Hot.expects(verdicts)),
            [true, false, false]
        );
        assert_eq!(
            [yes, no, both].map(|verdicts| KeyPopulation::Denied.expects(verdicts)),
            [false, true, false]
        );
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
