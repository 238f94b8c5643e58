use super::*;

const START: Nanos = Nanos::from_secs(1_800_000_000);

fn after(nanos: u64) -> Nanos {
    START.saturating_add(Nanos::new(nanos))
}

fn quota(rate: u64, capacity: u32) -> Quota {
    Quota::new(rate, Nanos::SECOND, capacity).unwrap()
}

/// Takes one token at a time at one instant until denied.
fn drain(state: &mut u64, quota: &Quota, now: Nanos) -> u32 {
    let mut admitted = 0;
    while let (_, Some(next)) = take(*state, quota, Cost::ONE, now) {
        *state = next;
        admitted += 1;
    }
    admitted
}

#[test]
fn three_per_second_is_exact_on_the_tick() {
    let quota = quota(3, 2);
    let mut state = 0;
    assert_eq!(drain(&mut state, &quota, START), 2);
    // Thirds of a second do not fall on a nanosecond; whole seconds do.
    for second in 1..=1_000 {
        for third in 1..=3_u64 {
            let due = (second - 1) * 1_000_000_000 + (third * 1_000_000_000).div_ceil(3);
            let early = take(state, &quota, Cost::ONE, after(due - 1)).0;
            assert_eq!(early.wait(), Some(Nanos::new(1)), "second {second} third {third}");
            let (decision, next) = take(state, &quota, Cost::ONE, after(due));
            assert!(decision.is_allowed(), "second {second} third {third}: denied on the tick");
            state = next.unwrap();
        }
    }
}

#[test]
fn never_more_than_the_burst_however_long_the_key_was_idle() {
    // A drained key of burst 10 that was idle for 12, 15 or 17 s must admit 10, not 12, 15 or 17.
    let quota = quota(1, 10);
    for idle in [0, 1, 8, 9, 12, 15, 17, 20, 100] {
        let mut state = 0;
        assert_eq!(drain(&mut state, &quota, START), 10);
        let now = after(idle * 1_000_000_000);
        assert_eq!(drain(&mut state, &quota, now), idle.min(10) as u32, "idle {idle} s");
    }
}

#[test]
fn a_wait_below_a_second_is_not_told_as_none() {
    // Never denied with a retry of 0 because seconds were rounded down.
    let quota = quota(10, 1);
    let (_, state) = take(0, &quota, Cost::ONE, START);
    let denied = take(state.unwrap(), &quota, Cost::ONE, START).0;
    assert_eq!(denied.wait(), Some(Nanos::from_millis(100)));
    assert_eq!(denied.wait().unwrap().as_secs_ceil(), 1);
}

#[test]
fn a_cost_above_the_capacity_has_no_retry() {
    // No finite wait for what can never succeed.
    let quota = quota(10, 5);
    let (decision, state) = take(0, &quota, Cost::new(6), START);
    assert!(decision.is_never());
    assert_eq!((decision.wait(), decision.remaining, state), (None, 5, None));
}

#[test]
fn a_clock_that_steps_back_neither_refills_nor_goes_negative() {
    // A step of −60 s must not drive the tokens below zero.
    let quota = quota(10, 50);
    let mut state = 0;
    assert_eq!(drain(&mut state, &quota, START), 50);
    let back = START.saturating_sub(Nanos::MINUTE);
    let denied = take(state, &quota, Cost::ONE, back).0;
    assert_eq!((denied.is_allowed(), denied.remaining), (false, 0));
    assert_eq!(denied.wait(), Some(Nanos::from_millis(60_100)));
    assert_eq!(drain(&mut state, &quota, START), 0, "the step back granted no tokens");
}

#[test]
fn raising_the_capacity_does_not_refill() {
    // A burst raised above what remains must not fill the bucket, and a refund is capped.
    let (small, large) = (quota(1, 10), quota(1, 100));
    let (_, state) = take(0, &small, Cost::new(7), START);
    let carried = carry_as_is(state.unwrap(), &small, &large, START);
    assert_eq!(peek(carried, &large, Cost::ONE, START).remaining, 3);
    let share = carry_proportional(state.unwrap(), &small, &large, START);
    assert_eq!(peek(share, &large, Cost::ONE, START).remaining, 30);
    assert_eq!(carry_as_is(0, &small, &large, START), 0, "full stays full");
    let refunded = refund(carried, &large, Cost::MAX, START);
    assert_eq!(peek(refunded, &large, Cost::ONE, START).remaining, 100);
}

#[test]
fn lowering_the_capacity_takes_effect_at_once() {
    let (large, small) = (quota(10, 100), quota(1, 5));
    let (_, state) = take(0, &large, Cost::new(40), START);
    let mut carried = carry_as_is(state.unwrap(), &large, &small, START);
    assert_eq!(drain(&mut carried, &small, START), 5);
}

#[test]
fn handing_back_is_aged() {
    let quota = quota(1, 10);
    let (_, charged) = take(0, &quota, Cost::new(4), START);
    let charged = charged.unwrap();
    let at_once = hand_back(charged, &quota, Cost::new(4), START, START);
    assert!(is_full(at_once, &quota, START));
    // Five seconds later the cost has been refilled, and other charges have been made.
    let later = after(5_000_000_000);
    let (_, others) = take(charged, &quota, Cost::new(10), later);
    let back = hand_back(others.unwrap(), &quota, Cost::new(4), START, later);
    assert_eq!(peek(back, &quota, Cost::ONE, later).remaining, 0, "admitted twice");
}

#[test]
fn what_is_reserved_is_paced_in_any_order() {
    let quota = quota(1, 5);
    let secs = Nanos::from_secs;
    let state = take(0, &quota, Cost::new(5), START).1.unwrap();
    // One and five are charged ahead, so the bucket is full again in eleven seconds.
    let state = charge(state, &quota, Cost::ONE, after(1_000_000_000)).unwrap();
    let state = charge(state, &quota, Cost::new(5), after(6_000_000_000)).unwrap();
    assert_eq!(pace(state, &quota, Cost::ONE, 6, START), (secs(1), state));
    assert_eq!(pace(state, &quota, Cost::new(5), 6, START), (secs(5), state), "in either order");
    let due = after(5_000_000_000);
    assert_eq!(pace(state, &quota, Cost::new(5), 6, due), (Nanos::ZERO, state));
    let late = after(7_000_000_000);
    let (wait, moved) = pace(state, &quota, Cost::new(5), 6, late);
    assert_eq!(wait, Nanos::ZERO);
    assert_eq!(quota.nanos_of(moved - state), secs(2), "it was full for two seconds, and lost their tokens");
    assert_eq!(pace(moved, &quota, Cost::ONE, 1, late).0, secs(1), "after the five tokens were used");
    assert_eq!(peek(moved, &quota, Cost::ONE, late).wait(), Some(secs(2)), "after all delayed charges");
}

#[test]
fn the_extremes_do_not_overflow() {
    let year = Nanos::new(366 * Nanos::DAY.get());
    let extremes = [
        Quota::new(1, year, 199).unwrap(),
        Quota::new(1_000_000_000, Nanos::SECOND, u32::MAX).unwrap(),
        Quota::new(999_983, Nanos::SECOND, u32::MAX).unwrap(),
        Quota::new(999_999_999, Nanos::SECOND, u32::MAX).unwrap(),
        Quota::new(3, Nanos::SECOND, u32::MAX).unwrap(),
    ];
    for quota in &extremes {
        for now in [Nanos::ZERO, START, Nanos::END, Nanos::MAX] {
            let all = Cost::new(quota.capacity());
            let (decision, state) = take(0, quota, all, now);
            assert!(decision.is_allowed(), "{quota}");
            assert_eq!(decision.remaining, 0);
            let state = state.unwrap();
            let (denied, none) = take(state, quota, Cost::ONE, now);
            assert!(none.is_none() && !denied.is_allowed());
            assert!(take(state, quota, all, Nanos::ZERO).1.is_none(), "{quota}: step to zero");
            assert!(take(u64::MAX, quota, all, now).1.is_none(), "{quota}: farthest state");
            pace(state, quota, all, u64::MAX, now);
            let refunded = refund(state, quota, all, now);
            assert_eq!(peek(refunded, quota, all, now).remaining, quota.capacity());
        }
    }
}
