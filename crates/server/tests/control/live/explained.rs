//! Explanations where a gate decides: they have the numbers of the limits nevertheless.

use tidegate::engine::{Explanation, Limiter, Policy, Reason, Request};
use tidegate::{ManualClock, Memory, MemoryOptions, Nanos};

const POLICY: &str = "version: 1
limits:
- { name: per-user, key: [user], sustained: { rate: 5, window: hour } }
- { name: paths, match: { path: /a }, sustained: { rate: 7, window: hour } }
block:
- { user: blocked, reason: abuse }
allow:
- { user: exempt }
bursts:
- { name: burst, key: [user], window: 10s, threshold: 1, penalty: 600s }
";

struct World {
    limiter: Limiter<Memory<ManualClock>, ManualClock>,
    clock: ManualClock,
}

impl World {
    fn new() -> World {
        let clock = ManualClock::new(Nanos::SECOND);
        let options = MemoryOptions { max_keys: 100, max_log_entries: 0 };
        let policy = Policy::parse(POLICY).unwrap();
        World { limiter: Limiter::in_memory(policy, options, clock.clone()).unwrap(), clock }
    }

    fn explain(&self, user: &str) -> Explanation {
        self.limiter.explain(&request(user))
    }
}

fn request(user: &str) -> Request<'_> {
    Request { user: Some(user.into()), path: Some("/a".into()), ..Request::default() }
}

/// The name of each limit and what it has left.
fn left(explanation: &Explanation) -> Vec<(String, u32)> {
    let limits = explanation.by_limits.limits();
    limits.map(|limit| (limit.rule.name.to_string(), limit.decision.remaining)).collect()
}

fn named(per_user: u32, paths: u32) -> Vec<(String, u32)> {
    vec![("per-user".to_owned(), per_user), ("paths".to_owned(), paths)]
}

#[test]
fn the_numbers_of_the_limits_are_there_whatever_a_gate_decides() {
    let world = World::new();
    assert!(world.limiter.check(&request("other")).is_allowed());
    let open = world.explain("other");
    assert_eq!((open.decision.reason(), left(&open)), (Reason::Ok, named(4, 6)));
    assert_eq!(open.decision.to_json(), open.by_limits.to_json());
    for (user, reason, list) in
        [("blocked", Reason::Blocked, "block"), ("exempt", Reason::Allowlisted, "allow")]
    {
        let explained = world.explain(user);
        assert_eq!((explained.decision.reason(), left(&explained)), (reason, named(5, 6)));
        assert_eq!(explained.decision.limits().len(), 0);
        assert_eq!(explained.gate.map(|gate| gate.list), Some(list));
    }
    // The second burst, in a later window, blocks.
    for _ in 0..2 {
        (0..2).for_each(|_| drop(world.limiter.check(&request("hasty"))));
        world.clock.advance(Nanos::from_secs(11));
    }
    let hasty = world.explain("hasty");
    assert_eq!((hasty.decision.reason(), hasty.decision.limits().len()), (Reason::BurstBlocked, 0));
    assert_eq!(left(&hasty), named(2, 3));
}

#[test]
fn the_kill_switch_is_the_gate_whatever_entries_match() {
    let world = World::new();
    world.limiter.set_kill_switch(true);
    for user in ["other", "blocked", "exempt"] {
        let explained = world.explain(user);
        assert_eq!((explained.decision.reason(), left(&explained)), (Reason::KillSwitch, named(5, 7)));
        let gate = explained.gate.expect("the kill switch decides");
        assert_eq!((gate.list, gate.line, gate.reason), ("kill_switch", None, None));
    }
}
