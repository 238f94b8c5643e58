use super::*;
use crate::world::clock::NodeClock;
use tidegate::{Clock, Sleep};

fn at(millis: u64) -> Nanos {
    START.saturating_add(Nanos::from_millis(millis))
}

#[test]
fn what_is_due_first_happens_first() {
    let world = World::new(1, true);
    for millis in [30, 10, 20, 10] {
        let here = world.clone();
        world.at(at(millis), move || here.note(None, format_args!("{millis}")));
    }
    let here = world.clone();
    world.spawn(None, async move {
        here.until(at(15)).await;
        here.note(None, format_args!("a task"));
    });
    world.run_until(at(25));
    assert_eq!(world.now(), at(25));
    let event_log = world.take_event_log().into_text();
    let said: Vec<&str> = event_log.lines().filter_map(|line| line.split_once(" - ")).map(|l| l.1).collect();
    assert_eq!(said, ["10", "10", "a task", "20"]);
}

#[test]
fn a_stopped_node_does_nothing_and_a_dead_one_never_again() {
    let world = World::new(1, true);
    let node = world.add_node(ClockDriver::new(START, 0));
    let clock = NodeClock::new(world.clone(), node);
    let here = world.clone();
    world.spawn(Some(node), async move {
        loop {
            clock.sleep(Nanos::from_millis(10)).await;
            here.note(Some(node), format_args!("tick"));
        }
    });
    world.run_until(at(35));
    world.suspend(node);
    world.run_until(at(95));
    world.resume(node);
    world.run_until(at(112));
    world.kill(node);
    world.run_until(at(500));
    let event_log = world.take_event_log().into_text();
    let ticks: Vec<&str> = event_log.lines().map(|line| line.split_once(' ').expect("two words").0).collect();
    assert_eq!(ticks, ["0.010000", "0.020000", "0.030000", "0.095000", "0.105000"]);
}

#[test]
fn a_clock_that_drifts_sleeps_by_itself() {
    let world = World::new(1, false);
    let node = world.add_node(ClockDriver::new(Nanos::from_secs(5), -100_000));
    let clock = NodeClock::new(world.clone(), node);
    let (here, woken) = (world.clone(), Arc::new(Mutex::new(None)));
    let told = Arc::clone(&woken);
    world.spawn(Some(node), async move {
        clock.sleep(Nanos::from_millis(90)).await;
        *lock(&told) = Some((here.now(), clock.now()));
    });
    world.run_until(at(1_000));
    let (true_time, local) = lock(&woken).expect("it woke");
    assert_eq!(true_time, at(100), "a tenth slow");
    assert_eq!(local, Nanos::from_millis(5_090));
}
