use tidegate_core::Quota;

use super::*;
use crate::LimitRef;

const AT: Nanos = Nanos::from_secs(1_000);

fn at(secs: u64) -> Nanos {
    AT.saturating_add(Nanos::from_secs(secs))
}

fn delayed_charge(cost: u32, due: u64) -> DelayedCharge {
    let limit = LimitRef::new("jobs", Limit::token_bucket(Quota::per_second(1).unwrap()), 1);
    let (cost, delay) = (Cost::new(cost), Nanos::from_secs(due));
    let charge = OwnedCharge::from(&Charge::new(&limit, b"k", cost).delayed(delay));
    DelayedCharge { charge, from: AT, charged_at: AT }
}

fn join(line: &mut FairQueue, tenant: u64, delayed_charge: DelayedCharge) -> u64 {
    join_at(line, tenant, 50, delayed_charge)
}

fn join_at(line: &mut FairQueue, tenant: u64, priority: u8, delayed_charge: DelayedCharge) -> u64 {
    let priority = Priority::new(priority).expect("it is at most 100");
    line.join(WaiterRank { tenant, priority }, delayed_charge, &mut Wakers::new())
}

/// The head is admitted with the delayed charge that is due first, one after the other.
fn gone(line: &mut FairQueue) -> Vec<(u64, Nanos)> {
    let mut gone = Vec::new();
    while let Some(head) = line.head() {
        let due = line.first().unwrap().due();
        assert_eq!(line.check_turn(head, due, due, &mut Wakers::new()), WaiterTurn::Now);
        line.remove(head, RemovedCharge::First, false, &mut Wakers::new()).unwrap();
        gone.push((head, due));
    }
    assert_eq!((line.waiting(), line.delayed_tokens()), (0, 0));
    gone
}

#[test]
fn tenants_take_turns() {
    let mut line = FairQueue::default();
    let first: Vec<u64> = (1..=3).map(|due| join(&mut line, 7, delayed_charge(1, due))).collect();
    let other = join(&mut line, 8, delayed_charge(1, 4));
    let order = [(first[0], at(1)), (other, at(2)), (first[1], at(3)), (first[2], at(4))];
    assert_eq!(gone(&mut line), order);
}

/// Higher priorities go first within a tenant, and of equal ones who came first; tenants still take turns.
#[test]
fn the_urgent_go_first_within_their_tenant() {
    let mut line = FairQueue::default();
    let low = join_at(&mut line, 7, 10, delayed_charge(1, 1));
    let high = join_at(&mut line, 7, 90, delayed_charge(1, 2));
    let other = join_at(&mut line, 8, 0, delayed_charge(1, 3));
    let next_high = join_at(&mut line, 7, 90, delayed_charge(1, 4));
    let usual = join(&mut line, 7, delayed_charge(1, 5));
    let order: Vec<u64> = gone(&mut line).into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(order, [high, other, next_high, usual, low]);
}

/// A waiter that is admitted ends its tenant's turn, even if somebody urgent has come before it meanwhile.
#[test]
fn an_admission_ends_the_turn_of_its_tenant() {
    let mut line = FairQueue::default();
    let first = join(&mut line, 7, delayed_charge(1, 1));
    let other = join(&mut line, 8, delayed_charge(1, 2));
    let urgent = join_at(&mut line, 7, 90, delayed_charge(1, 3));
    assert_eq!(line.head(), Some(urgent));
    line.remove(first, RemovedCharge::First, false, &mut Wakers::new()).unwrap();
    assert_eq!(line.head(), Some(other));
}

#[test]
fn nobody_goes_before_its_turn_or_before_it_is_due() {
    let mut line = FairQueue::default();
    let (first, second) =
        (join(&mut line, 1, delayed_charge(1, 1)), join(&mut line, 1, delayed_charge(1, 2)));
    let mut check_turn = |ticket, due, now| line.check_turn(ticket, at(due), at(now), &mut Wakers::new());
    assert_eq!(check_turn(first, 1, 0), WaiterTurn::Later(at(1)));
    assert_eq!(check_turn(first, 1, 1), WaiterTurn::Now);
    assert!(matches!(check_turn(second, 1, 1), WaiterTurn::Later(_)));
    assert_eq!(check_turn(99, 1, 1), WaiterTurn::Missed, "nobody has that ticket");
}

#[test]
fn who_leaves_lets_those_behind_move_up_and_keeps_its_tenants_turn() {
    let mut line = FairQueue::default();
    let own: Vec<u64> = (1..=2).map(|due| join(&mut line, 1, delayed_charge(1, due))).collect();
    let other = join(&mut line, 2, delayed_charge(1, 3));
    let left = line.remove(own[0], RemovedCharge::Last, true, &mut Wakers::new()).unwrap();
    assert_eq!(left.due(), at(3), "the last slot is handed back");
    assert_eq!(gone(&mut line), [(own[1], at(1)), (other, at(2))]);
}

#[test]
fn who_does_not_come_is_passed_over_and_may_come_back() {
    let mut line = FairQueue::default();
    let (absent, next) = (join(&mut line, 1, delayed_charge(1, 1)), join(&mut line, 2, delayed_charge(1, 2)));
    let now = at(5);
    let later = now.saturating_add(ABSENT_AFTER);
    assert_eq!(line.check_turn(next, now, now, &mut Wakers::new()), WaiterTurn::Later(later));
    assert!(matches!(line.check_turn(next, later, later, &mut Wakers::new()), WaiterTurn::Later(_)));
    assert!(line.register_waker(next, Waker::noop()), "it was notified");
    assert_eq!(line.check_turn(next, later, later, &mut Wakers::new()), WaiterTurn::Now);
    line.put_back(next);
    assert_eq!(line.head(), Some(next), "a waiter that was not skipped stays where it is");
    line.put_back(absent);
    assert_eq!(line.head(), Some(absent));
    assert_eq!(line.check_turn(absent, later, later, &mut Wakers::new()), WaiterTurn::Now);
    line.remove(absent, RemovedCharge::Own, false, &mut Wakers::new()).unwrap();
    assert_eq!(line.head(), Some(next));
}

#[test]
fn a_slot_is_lost_when_its_limit_is_good_as_new() {
    let mut line = FairQueue::default();
    join(&mut line, 1, delayed_charge(1, 1));
    assert!(!line.has_missed(at(1)) && !line.has_missed(at(2).saturating_sub(Nanos::new(1))));
    assert!(line.has_missed(at(2)), "one a second, one at once");
}

#[test]
fn whoever_is_next_is_called() {
    let mut line = FairQueue::default();
    let (first, second) =
        (join(&mut line, 1, delayed_charge(1, 1)), join(&mut line, 1, delayed_charge(1, 2)));
    let mut wakers = Wakers::new();
    line.check_turn(first, at(1), at(0), &mut wakers);
    line.check_turn(second, at(1), at(0), &mut wakers);
    assert!(!line.register_waker(first, Waker::noop()) && !line.register_waker(second, Waker::noop()));
    let third = join(&mut line, 2, delayed_charge(1, 3));
    assert!(line.register_waker(first, Waker::noop()), "notified when another waiter joins");
    assert!(!line.register_waker(third, Waker::noop()));
    line.remove(first, RemovedCharge::Own, false, &mut wakers);
    assert_eq!(wakers.len(), 1, "notified when another waiter is admitted");
    assert!(line.register_waker(third, Waker::noop()) && !line.register_waker(second, Waker::noop()));
    line.remove(third, RemovedCharge::Own, true, &mut wakers);
    assert!(line.register_waker(second, Waker::noop()), "notified when another waiter gives up");
}
