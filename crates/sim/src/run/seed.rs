//! Runs the scenario of a seed, and checks the invariants.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::START;
use crate::invariants::check_all;
use crate::run::ScenarioRun;
use crate::scenario::Scenario;

/// The result of running a seed.
#[derive(Clone, Debug, Default)]
pub struct SeedOutcome {
    /// The seed.
    pub seed: u64,
    /// The invariants that were violated, as messages.
    pub violations: Vec<String>,
    /// How many requests there were.
    pub requests: u64,
    /// How many of them were admitted.
    pub admitted: u64,
    /// How many were decided without the store.
    pub without_store: u64,
    /// How often tokens were put into a bucket by a grant or a reset.
    pub granted: u64,
    /// How many commands the server received.
    pub commands: u64,
    /// How many times a denied client waited as long as its denial said, and tried again.
    pub promises: u64,
    /// The largest excess over *B + R·t* of any bucket, in tokens, and the bound of that bucket.
    pub excess: (u64, u64),
    /// How often burst detectors warned or blocked a user.
    pub escalations: u64,
    /// How many penalties the server has lost with other writes, because of a fault that loses writes.
    pub penalties_lost: u64,
    /// How many decisions a policy that was tried out would have made otherwise.
    pub compared: u64,
    /// The event log, if it was requested.
    pub event_log: String,
}

/// Runs the scenario of a seed, and checks the invariants. Keeps the event log if `logged`.
pub fn run_seed(seed: u64, logged: bool) -> SeedOutcome {
    run_scenario(Scenario::of(seed), logged)
}

/// Runs a scenario, and checks the invariants. A panic of a node is a violation, and ends the run.
pub fn run_scenario(scenario: Scenario, logged: bool) -> SeedOutcome {
    let run = ScenarioRun::new(scenario, logged);
    let mut outcome = SeedOutcome { seed: run.scenario.seed, ..SeedOutcome::default() };
    // After a panic, the world is only read.
    match catch_unwind(AssertUnwindSafe(|| run.run_to_end())) {
        Ok(()) => check_all(&run, &mut outcome),
        Err(panic) => {
            let at = run.world.now().saturating_sub(START);
            outcome.violations.push(format!("a panic at {at}: {}", panic_message(&*panic)));
        }
    }
    for violation in &outcome.violations {
        run.world.note(None, format_args!("VIOLATION {violation}"));
    }
    outcome.commands = run.network.commands();
    outcome.event_log = run.world.take_event_log().into_text();
    // Tasks hold a clone of the world that holds them: break the cycle.
    run.world.end();
    outcome
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
