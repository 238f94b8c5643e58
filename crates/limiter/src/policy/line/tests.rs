use std::collections::HashMap;

use proptest::prelude::*;
use tidegate_core::{Limit, Quota};

use super::*;

const AT: Nanos = Nanos::from_secs(1_000);

fn at(secs: u64) -> Nanos {
    AT.saturating_add(Nanos::from_secs(secs))
}

fn slot(cost: u32, due: u64) -> Slot {
    let limit = LimitRef::new("jobs", Limit::token_bucket(Quota::per_second(1).unwrap()), 1);
    let (cost, delay) = (Cost::new(cost), Nanos::from_secs(due));
    Slot { limit, key: b"k".as_slice().into(), tag: None, cost, from: AT, delay, charged_at: AT }
}

/// Who has been let go by `now`, of these.
fn gone(line: &mut Line, tickets: &[u64], now: Nanos) -> Vec<u64> {
    let mut is_gone = |ticket: &&u64| line.look(**ticket, now, &mut Wakers::new()) == Turn::Now;
    tickets.iter().filter(|ticket| is_gone(ticket)).copied().collect()
}

#[test]
fn tenants_take_turns() {
    let mut line = Line::default();
    let first: Vec<u64> = (1..=3).map(|due| line.join(7, slot(1, due))).collect();
    let other = line.join(8, slot(1, 4));
    let all = [first[0], first[1], first[2], other];
    assert!(gone(&mut line, &all, at(0)).is_empty());
    assert_eq!(gone(&mut line, &all, at(1)), [first[0]]);
    assert_eq!(gone(&mut line, &all, at(2)), [first[0], other]);
    assert_eq!(gone(&mut line, &all, at(4)).len(), 4);
    assert_eq!(line.waiting(), 0);
}

#[test]
fn a_large_cost_is_waited_for_not_overtaken() {
    let mut line = Line::default();
    let (one, large) = (line.join(1, slot(1, 1)), line.join(2, slot(5, 6)));
    let small: Vec<u64> = (7..=8).map(|due| line.join(1, slot(1, due))).collect();
    let all = [one, large, small[0], small[1]];
    assert_eq!(gone(&mut line, &all, at(5)), [one]);
    assert_eq!(line.look(large, at(5), &mut Wakers::new()), Turn::Later(at(6)));
    assert_eq!(gone(&mut line, &all, at(6)), [one, large]);
    assert_eq!(gone(&mut line, &all, at(8)).len(), 4);
}

#[test]
fn who_leaves_lets_those_behind_move_up() {
    let mut line = Line::default();
    let all: Vec<u64> = (1..=3).map(|due| line.join(1, slot(1, due))).collect();
    let spare = line.quit(all[0], at(0), &mut Wakers::new());
    assert_eq!(spare.iter().map(Slot::due).collect::<Vec<_>>(), [at(3)], "the last slot is handed back");
    assert_eq!(gone(&mut line, &all[1..], at(1)), [all[1]]);
    assert_eq!(gone(&mut line, &all[1..], at(2)), all[1..]);
}

#[test]
fn what_somebody_leaves_who_had_been_let_go_is_the_next_ones() {
    let mut line = Line::default();
    let all: Vec<u64> = (1..=2).map(|due| line.join(1, slot(1, due))).collect();
    assert_eq!(gone(&mut line, &all, at(1)), [all[0]]);
    let spare = line.quit(all[0], at(1), &mut Wakers::new());
    assert_eq!(spare.iter().map(Slot::due).collect::<Vec<_>>(), [at(2)]);
    assert_eq!(gone(&mut line, &all[1..], at(1)), [all[1]]);
}

proptest! {
    /// Whatever happens, no more is let go than is due, those of one tenant go in
    /// their order, and when all slots are due everybody has gone.
    #[test]
    fn no_more_goes_than_is_due(
        steps in prop::collection::vec((0_u8..8, 0_u64..4, 1_u32..4, any::<prop::sample::Index>()), 1..120),
    ) {
        let (mut line, mut now, mut tail) = (Line::default(), 0_u64, 0_u64);
        let mut slots: Vec<(u64, u64)> = Vec::new();
        let mut waiting: Vec<(u64, u64, u64)> = Vec::new();
        let mut gone_cost = 0;
        let mut last_gone: HashMap<u64, u64> = HashMap::new();
        for (kind, tenant, cost, who) in steps {
            match kind {
                0..=3 => {
                    // As a bucket of one a second would reserve it.
                    tail = tail.max(now) + u64::from(cost);
                    let ticket = line.join(tenant, slot(cost, tail));
                    slots.push((tail, cost.into()));
                    waiting.push((ticket, tenant, cost.into()));
                }
                4 if !waiting.is_empty() => {
                    let (ticket, ..) = waiting.swap_remove(who.index(waiting.len()));
                    for spare in line.quit(ticket, at(now), &mut Wakers::new()) {
                        let due = (spare.due().get() - AT.get()) / Nanos::SECOND.get();
                        let given = slots.iter().rposition(|slot| slot.0 == due).unwrap();
                        prop_assert!(slots[given..].iter().all(|slot| slot.0 <= due), "the last one");
                        slots.remove(given);
                        tail = tail.min(due.saturating_sub(u64::from(spare.cost.get())).max(now));
                    }
                }
                _ => now += u64::from(cost),
            }
            waiting.sort_unstable();
            let mut stays = Vec::new();
            for (ticket, tenant, cost) in waiting {
                if line.look(ticket, at(now), &mut Wakers::new()) == Turn::Now {
                    line.finish(ticket);
                    gone_cost += cost;
                    let before = last_gone.insert(tenant, ticket);
                    prop_assert!(before.is_none_or(|before| before < ticket), "in their order");
                } else {
                    stays.push((ticket, tenant, cost));
                }
            }
            waiting = stays;
            let due: u64 = slots.iter().filter(|slot| slot.0 <= now).map(|slot| slot.1).sum();
            prop_assert!(gone_cost <= due, "{gone_cost} of {due}");
        }
        for (ticket, ..) in waiting {
            prop_assert_eq!(line.look(ticket, at(tail.max(now)), &mut Wakers::new()), Turn::Now);
        }
    }
}
