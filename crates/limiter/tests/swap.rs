//! Policies are swapped while threads decide: no swap grants a token, and no limit is lost.
//!
//! The clock stands still, so what a limit admits in total is bounded by its capacity alone.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate::engine::{Limiter, Policy, Reason, Request};
use tidegate::{ManualClock, Memory, MemoryOptions};

const THREADS: usize = 3;
const SWAPS: u64 = 600;
const USERS: [&str; 4] = ["ada", "bob", "cyd", "dee"];

const STEADY: u64 = 700;
const SCARCE: u64 = 300;
/// The numbers of the edited limit, one after the other.
const EDITED: [u64; 3] = [500, 900, 200];
const EDITED_MOST: u64 = 900;
const FIRST: u64 = 350;
const SECOND: u64 = 250;

type Still = Limiter<Memory<ManualClock>, ManualClock>;

/// The policy of a round: order, unrelated limits, numbers and the order within a group all change.
fn policy(turn: u64) -> Policy {
    let edited = EDITED[turn as usize % EDITED.len()];
    let entry = |name: &str, matching: &str, key: &str, capacity: u64| {
        format!(
            "- {{ name: {name}, match: {{ {matching} }}, key: {key}, sustained: {{ rate: 1000000, window: day }}, \
             burst: {{ capacity: {capacity} }} }}\n"
        )
    };
    let grouped = |name: &str, capacity: u64| {
        format!(
            "- {{ name: {name}, group: pair, match: {{ path: /group }}, key: [user], \
             sustained: {{ rate: 1000000, window: day }}, burst: {{ capacity: {capacity} }} }}\n"
        )
    };
    let mut group = [grouped("first", FIRST), grouped("second", SECOND)];
    if turn % 2 == 1 {
        group.reverse();
    }
    let mut limits = vec![
        entry("steady", "path: /steady", "[user]", STEADY),
        entry("edited", "path: [/edited, /both]", "[user]", edited),
        entry("scarce", "path: /both", "[user]", SCARCE),
        entry("roomy", "path: /roomy", "[]", 4_000_000_000),
        group.concat(),
    ];
    let places = limits.len();
    limits.rotate_left(turn as usize % places);
    for number in 0..turn % 4 {
        limits
            .insert(number as usize, entry(&format!("unrelated-{number}"), "path: /nobody", "[]", 1 + turn));
    }
    Policy::parse(&format!("version: 1\nlimits:\n{}", limits.concat())).expect("the policy is one")
}

/// The counts of one thread: how many requests of each user were admitted under each limit that applied.
#[derive(Default)]
struct Seen {
    admitted: BTreeMap<(String, &'static str), u64>,
    decisions: u64,
    charged: BTreeMap<String, u64>,
}

impl Seen {
    fn ask(&mut self, limiter: &Still, path: &'static str, user: &'static str) -> bool {
        let decision = limiter.check(&Request::new().path(path).user(user));
        self.decisions += 1;
        assert!(decision.limits().len() > 0, "{path} never goes without its limit: {decision:?}");
        for limit in decision.limits() {
            *self.charged.entry(limit.rule.name.to_string()).or_default() += 1;
            if decision.is_allowed() {
                *self.admitted.entry((limit.rule.name.to_string(), user)).or_default() += 1;
            }
        }
        assert!(decision.is_allowed() || path != "/roomy", "there is room for all: {decision:?}");
        decision.is_allowed()
    }

    fn add(&mut self, other: Seen) {
        self.decisions += other.decisions;
        other.admitted.into_iter().for_each(|(key, count)| *self.admitted.entry(key).or_default() += count);
        other.charged.into_iter().for_each(|(key, count)| *self.charged.entry(key).or_default() += count);
    }

    fn admitted(&self, limit: &str, user: &'static str) -> u64 {
        self.admitted.get(&(limit.to_owned(), user)).copied().unwrap_or(0)
    }
}

/// Sends requests until the swaps are done.
fn hammer(limiter: &Still, thread: usize, done: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut turn = thread;
    while !done.load(Ordering::Relaxed) {
        let path = ["/steady", "/edited", "/both", "/roomy", "/group"][turn % 5];
        seen.ask(limiter, path, USERS[turn / 5 % USERS.len()]);
        turn += 1;
    }
    seen
}

/// Takes so much of every user's edited limit that it is not full at the next edit.
///
/// A bucket that is full at an edit stays full, also one that was made full by lowering it. So without a charge between
/// two edits, lowering and raising a limit may rightly give tokens. A thread may hand back one token that it took under
/// an older policy, so one more than there are threads is enough.
fn use_edited(limiter: &Still, seen: &mut Seen) {
    for user in USERS {
        for _ in 0..=THREADS {
            seen.ask(limiter, "/edited", user);
        }
    }
}

/// Swaps while threads send requests, then takes what is left, in each order of the group.
fn run() -> (Still, Seen) {
    let limiter = Limiter::in_memory(policy(0), MemoryOptions::default(), ManualClock::default());
    let limiter = limiter.expect("few limits");
    let (start, done) = (Barrier::new(THREADS + 1), AtomicBool::new(false));
    let mut seen = Seen::default();
    std::thread::scope(|scope| {
        let (limiter, start, done) = (&limiter, &start, &done);
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    start.wait();
                    hammer(limiter, thread, done)
                })
            })
            .collect();
        start.wait();
        for turn in 1..=SWAPS {
            assert_eq!(limiter.swap(policy(turn)).expect("few limits"), turn + 1);
            assert_eq!(limiter.version(), turn + 1);
            use_edited(limiter, &mut seen);
            // On one processor the other threads would hardly run in between.
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| seen.add(thread.join().expect("a thread saw it all hold")));
    });
    for turn in SWAPS + 1..=SWAPS + 2 {
        limiter.swap(policy(turn)).expect("few limits");
        for user in USERS {
            for path in ["/steady", "/both", "/edited", "/group"] {
                while seen.ask(&limiter, path, user) {}
            }
        }
    }
    (limiter, seen)
}

#[test]
fn swapping_under_load_hands_out_no_token_and_loses_no_count() {
    let (limiter, seen) = run();
    for user in USERS {
        assert_eq!(seen.admitted("steady", user), STEADY, "{user}: what was never edited is exact");
        assert_eq!(seen.admitted("first", user), FIRST, "{user}: whatever its place in the group");
        assert_eq!(seen.admitted("second", user), SECOND, "{user}: whatever its place in the group");
        // Lowering it took tokens away, and raising it gave none back, since it was used in between.
        let edited = seen.admitted("edited", user);
        assert!(edited <= EDITED_MOST, "{user}: {edited} of at most {EDITED_MOST}");
        assert!(edited >= EDITED[2], "{user}: {edited} of at least {}", EDITED[2]);
        let scarce = seen.admitted("scarce", user);
        assert!(scarce <= SCARCE.min(edited), "{user}: {scarce} of at most {SCARCE}, beside {edited}");
    }

    let decided: u64 = Reason::ALL.iter().map(|&reason| limiter.decided(reason)).sum();
    assert_eq!(decided, seen.decisions);
    let counters = limiter.limit_counters();
    for name in ["steady", "edited", "scarce", "roomy", "first", "second"] {
        let counted = counters.iter().find(|(known, _)| known == name).expect("every policy has it").1;
        assert_eq!(counted.allowed + counted.denied, seen.charged[name], "{name}: counted once a decision");
    }
    assert_eq!(limiter.version(), SWAPS + 3);
}

/// Raised again at once, a limit that was lowered has all its tokens; after a request in between, it has none that were taken
/// away.
#[test]
fn a_bucket_that_is_full_at_an_edit_stays_full_and_no_other_gains_a_token() {
    // The turns at which the edited limit has its highest and its lowest numbers.
    let (high, low) = (1, 2);
    let limiter = Limiter::in_memory(policy(high), MemoryOptions::default(), ManualClock::default());
    let limiter = limiter.expect("few limits");
    let request = Request::new().path("/edited").user("ada");
    let left = || limiter.peek(&request).tightest().map(|limit| u64::from(limit.decision.remaining));
    let edit = |turn: u64| _ = limiter.swap(policy(turn)).expect("few limits");
    (0..5).for_each(|_| assert!(limiter.check(&request).is_allowed()));
    assert_eq!(left(), Some(EDITED_MOST - 5));
    edit(low);
    assert_eq!(left(), Some(EDITED[2]), "lowered to less than it held, so it is full");
    edit(high);
    assert_eq!(left(), Some(EDITED_MOST));
    edit(low);
    assert!(limiter.check(&request).is_allowed());
    edit(high);
    assert_eq!(left(), Some(EDITED[2] - 1));
}
