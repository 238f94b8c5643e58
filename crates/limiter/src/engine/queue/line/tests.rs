use tidegate_core::Quota;

use super::*;
use crate::LimitRef;

const AT: Nanos = Nanos::from_secs(1_000);

fn at(secs: u64) -> Nanos {
    AT.saturating_add(Nanos::from_secs(secs))
}

fn slot(cost: u32, due: u64) -> QueueSlot {
    let limit = LimitRef::new("jobs", Limit::token_bucket(Quota::per_second(1).unwrap()), 1);
    let (cost, delay) = (Cost::new(cost), Nanos::from_secs(due));
    let charge = OwnedCharge::from(&Charge::new(&limit, b"k", cost).delayed(delay));
    QueueSlot { charge, from: AT, charged_at: AT }
}

fn join(line: &mut WaitLine, tenant: u64, slot: QueueSlot) -> u64 {
    line.join(tenant, slot, &mut Wakers::new())
}

/// Whoever is next goes with the slot that is due first, one after the other.
fn gone(line: &mut WaitLine) -> Vec<(u64, Nanos)> {
    let mut gone = Vec::new();
    while let Some(head) = line.head() {
        let due = line.first().unwrap().due();
        assert_eq!(line.look(head, due, due, &mut Wakers::new()), WaiterTurn::Now);
        line.step_out(head, LeavingSlot::First, false, &mut Wakers::new()).unwrap();
        gone.push((head, due));
    }
    assert_eq!((line.waiting(), line.reserved()), (0, 0));
    gone
}

#[test]
fn tenants_take_turns() {
    let mut line = WaitLine::default();
    let first: Vec<u64> = (1..=3).map(|due| join(&mut line, 7, slot(1, due))).collect();
    let other = join(&mut line, 8, slot(1, 4));
    let order = [(first[0], at(1)), (other, at(2)), (first[1], at(3)), (first[2], at(4))];
    assert_eq!(gone(&mut line), order);
}

#[test]
fn nobody_goes_before_its_turn_or_before_it_is_due() {
    let mut line = WaitLine::default();
    let (first, second) = (join(&mut line, 1, slot(1, 1)), join(&mut line, 1, slot(1, 2)));
    let mut look = |ticket, due, now| line.look(ticket, at(due), at(now), &mut Wakers::new());
    assert_eq!(look(first, 1, 0), WaiterTurn::Later(at(1)));
    assert_eq!(look(first, 1, 1), WaiterTurn::Now);
    assert!(matches!(look(second, 1, 1), WaiterTurn::Later(_)));
    assert_eq!(look(99, 1, 1), WaiterTurn::Missed, "nobody has that ticket");
}

#[test]
fn who_leaves_lets_those_behind_move_up_and_keeps_its_tenants_turn() {
    let mut line = WaitLine::default();
    let own: Vec<u64> = (1..=2).map(|due| join(&mut line, 1, slot(1, due))).collect();
    let other = join(&mut line, 2, slot(1, 3));
    let left = line.step_out(own[0], LeavingSlot::Last, true, &mut Wakers::new()).unwrap();
    assert_eq!(left.due(), at(3), "the last slot is handed back");
    assert_eq!(gone(&mut line), [(own[1], at(1)), (other, at(2))]);
}

#[test]
fn who_does_not_come_is_passed_over_and_may_come_back() {
    let mut line = WaitLine::default();
    let (absent, next) = (join(&mut line, 1, slot(1, 1)), join(&mut line, 2, slot(1, 2)));
    let now = at(5);
    let later = now.saturating_add(ABSENT_AFTER);
    assert_eq!(line.look(next, now, now, &mut Wakers::new()), WaiterTurn::Later(later));
    assert!(matches!(line.look(next, later, later, &mut Wakers::new()), WaiterTurn::Later(_)));
    assert!(line.listen(next, Waker::noop()), "it has been called");
    assert_eq!(line.look(next, later, later, &mut Wakers::new()), WaiterTurn::Now);
    line.come_back(next);
    assert_eq!(line.head(), Some(next), "who was never away has nothing to come back to");
    line.come_back(absent);
    assert_eq!(line.head(), Some(absent));
    assert_eq!(line.look(absent, later, later, &mut Wakers::new()), WaiterTurn::Now);
    line.step_out(absent, LeavingSlot::Own, false, &mut Wakers::new()).unwrap();
    assert_eq!(line.head(), Some(next));
}

#[test]
fn a_slot_is_lost_when_its_limit_is_good_as_new() {
    let mut line = WaitLine::default();
    join(&mut line, 1, slot(1, 1));
    assert!(!line.has_missed(at(1)) && !line.has_missed(at(2).saturating_sub(Nanos::new(1))));
    assert!(line.has_missed(at(2)), "one a second, one at once");
}

#[test]
fn whoever_is_next_is_called() {
    let mut line = WaitLine::default();
    let (first, second) = (join(&mut line, 1, slot(1, 1)), join(&mut line, 1, slot(1, 2)));
    let mut wakers = Wakers::new();
    line.look(first, at(1), at(0), &mut wakers);
    line.look(second, at(1), at(0), &mut wakers);
    assert!(!line.listen(first, Waker::noop()) && !line.listen(second, Waker::noop()));
    let third = join(&mut line, 2, slot(1, 3));
    assert!(line.listen(first, Waker::noop()), "when somebody joins");
    assert!(!line.listen(third, Waker::noop()));
    line.step_out(first, LeavingSlot::Own, false, &mut wakers);
    assert_eq!(wakers.len(), 1, "when somebody goes");
    assert!(line.listen(third, Waker::noop()) && !line.listen(second, Waker::noop()));
    line.step_out(third, LeavingSlot::Own, true, &mut wakers);
    assert!(line.listen(second, Waker::noop()), "when somebody leaves");
}
