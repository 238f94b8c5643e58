//! A request is suspended wherever it reads the clock, in every stage of a sweep.
//!
//! It holds the oldest of three generations, and the key is stored with the second one, which nobody uses: so the
//! request writes the number of a version that is about to be removed.

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, Sender, channel};

use tidegate_core::{Carry, Cost, Limit, LogQuota, Quota, WindowQuota};

use super::super::*;
use crate::{Charge, Intent, MemoryOptions};

const START: Nanos = Nanos::from_secs(1_000_000);
const LATER: Nanos = START.saturating_add(Nanos::HOUR);
const DAY: Nanos = Nanos::from_secs(86_400);
/// More than a request reads the clock, and more than a sweep has steps.
const READINGS: usize = 24;
const STEPS: usize = 80;

/// A clock that suspends the threads that have a [`Pause`].
#[derive(Debug)]
struct PausingClock;

/// Suspends its thread at one reading of the clock.
struct Pause {
    readings_left: Cell<usize>,
    is_reached: Sender<()>,
    goes_on: Receiver<()>,
}

thread_local! {
    static PAUSE: RefCell<Option<Pause>> = const { RefCell::new(None) };
}

impl Clock for PausingClock {
    fn now(&self) -> Nanos {
        LATER
    }

    fn wall_at(&self, now: Nanos) -> Nanos {
        PAUSE.with_borrow(|pause| {
            let Some(pause) = pause else { return };
            let left = pause.readings_left.get();
            pause.readings_left.set(left.wrapping_sub(1));
            if left == 0 {
                pause.is_reached.send(()).unwrap();
                pause.goes_on.recv().unwrap();
            }
        });
        now
    }
}

type Tested = Memory<PausingClock>;

/// Where the state of the key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Slot,
    /// In the overflow bucket; when the request is made, a slot has become free.
    Overflow,
    Log,
    /// In the overflow log.
    OverflowLog,
}

fn take(memory: &Tested, limit: &LimitRef, key: &[u8], cost: u32, now: Nanos) -> bool {
    memory.charge_now(Intent::Take, &[Charge::new(limit, key, Cost::new(cost))], now).allowed
}

fn name(memory: &Tested, name: &str, limit: Limit) -> LimitRef {
    memory.registry.name(name, limit, Carry::AsIs, START).unwrap()
}

/// A store in which four of twelve are used by the key, and the oldest and newest reference.
fn prepare(place: Place) -> (Tested, [LimitRef; 2]) {
    let max_log_entries = if place == Place::OverflowLog { 10 } else { 1_000 };
    let memory = Memory::with_clock(MemoryOptions { max_keys: 0, max_log_entries }, PausingClock).unwrap();
    let limit = |limit| match place {
        Place::Slot | Place::Overflow => Limit::sliding_window(WindowQuota::new(limit, DAY).unwrap()),
        Place::Log | Place::OverflowLog => LogQuota::new(limit, DAY).unwrap().into(),
    };
    // These are idle later.
    match place {
        Place::Slot | Place::Log => {}
        Place::Overflow => {
            let fill = name(&memory, "fill", Quota::new(1, Nanos::HOUR, 1).unwrap().into());
            for key in 0..memory.stats().slots as u32 {
                assert!(take(&memory, &fill, &key.to_le_bytes(), 1, START));
            }
        }
        Place::OverflowLog => {
            let fill = name(&memory, "fill", LogQuota::new(2, Nanos::HOUR).unwrap().into());
            assert!([2, 1].iter().all(|&ago| {
                take(&memory, &fill, b"fill", 1, START.saturating_sub(Nanos::from_secs(ago)))
            }));
        }
    }
    let oldest = name(&memory, "a", limit(10));
    let second = name(&memory, "a", limit(11));
    assert!(take(&memory, &second, b"key", 4, START));
    memory.registry.variant(&second, LimitVariant::at_trust(50)).unwrap();
    drop(second);
    let newest = name(&memory, "a", limit(12));
    (memory, [oldest, newest])
}

/// Fails if a state has the number of a limit that it was not written with.
fn check_numbers(memory: &Tested) {
    let slots = memory.table.pieces(0, usize::MAX).flatten().map(Slot::get);
    let held = slots.filter(|entry| !(entry.is_empty() || entry.is_dead() || entry.is_claim()));
    let numbers = held.map(|entry| entry.tag.version()).chain(memory.logs.versions());
    for number in numbers {
        let found = memory.registry.read().get(number).name.clone();
        assert!(["a", "fill"].contains(&&*found), "{number} is now of {found}");
    }
}

/// Sweeps for so many steps, makes a request that is suspended at a reading of the clock, if it reads the clock so
/// often, ends the sweep meanwhile if it need not wait for the request, and gives the removed numbers to others.
fn left_after(place: Place, trust: u8, steps: usize, readings: usize) -> u32 {
    let (memory, [oldest, newest]) = prepare(place);
    let requested = memory.registry.variant(&oldest, LimitVariant::at_trust(trust)).unwrap();
    memory.sweep_steps(steps, LATER);
    let ((is_reached, reached), (go_on, goes_on)) = (channel(), channel());
    std::thread::scope(|scope| {
        let request = scope.spawn(|| {
            PAUSE.set(Some(Pause { readings_left: Cell::new(readings), is_reached, goes_on }));
            let allowed = take(&memory, &requested, b"key", 1, LATER);
            PAUSE.set(None);
            allowed
        });
        let is_suspended = reached.recv().is_ok();
        let sweep = scope.spawn(|| {
            memory.sweep_steps(2 * STEPS, LATER);
            for other in 0..4 {
                name(&memory, &other.to_string(), LogQuota::new(1, Nanos::SECOND).unwrap().into());
            }
        });
        while !sweep.is_finished() && !memory.registry.is_anyone_waiting() {
            std::thread::yield_now();
        }
        if is_suspended {
            go_on.send(()).unwrap();
        }
        assert!(request.join().unwrap());
        sweep.join().unwrap();
    });
    assert_eq!(memory.registry.registration().generations("a").count(), 2);
    check_numbers(&memory);
    memory.charge_now(Intent::Peek, &[Charge::new(&newest, b"key", Cost::ZERO)], LATER).decisions[0].remaining
}

#[test]
fn no_state_has_a_removed_number_wherever_a_request_is_suspended() {
    for place in [Place::Slot, Place::Overflow] {
        for steps in (0..4).chain([STEPS]) {
            for readings in 0..READINGS {
                assert_eq!(left_after(place, 0, steps, readings), 7, "{place:?} {steps} {readings}");
                // A change of trust makes it look up another version. Trust gives no more than the limit has.
                assert!(left_after(place, 50, steps, readings) < 12, "{place:?} {steps} {readings}");
            }
        }
    }
}

#[test]
fn no_state_has_a_removed_number_in_whatever_stage_a_request_is_made() {
    for place in [Place::Slot, Place::Overflow, Place::Log, Place::OverflowLog] {
        for steps in 0..=STEPS {
            assert_eq!(left_after(place, 0, steps, usize::MAX), 7, "{place:?} {steps}");
        }
    }
}
