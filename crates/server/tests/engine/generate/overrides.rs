//! Random overrides that come and go while a trace runs.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::policy::gate;

/// The overrides that are in force from a request of the trace on, newest first.
#[derive(Clone, Debug)]
pub(crate) struct OverrideStep {
    /// The number of the request.
    pub(crate) before: usize,
    /// Each with a number that chooses its limit.
    pub(crate) overrides: Vec<(usize, Value)>,
}

/// Overrides for a trace: several times other ones.
pub(crate) fn override_steps() -> impl Strategy<Value = Vec<OverrideStep>> {
    let step = (0_usize..40, prop::collection::vec((any::<usize>(), one()), 0..4));
    let step = step.prop_map(|(before, overrides)| OverrideStep { before, overrides });
    prop::collection::vec(step, 1..5)
}

/// Whom it is for, as an entry of a gate, and its numbers.
fn one() -> impl Strategy<Value = Value> {
    let times =
        prop_oneof![Just(200), Just(300), Just(50), Just(1_000), Just(10_000), Just(1), 1_u32..=1_000];
    let rate = (1_u32..=40, prop::sample::select(vec!["second", "minute", "10s"]));
    let rate = rate.prop_map(|(rate, window)| json!({ "rate": rate, "window": window }));
    let fixed = (prop::option::weighted(0.7, rate), prop::option::weighted(0.7, 1_u32..=60));
    let numbers = prop_oneof![
        3 => times.prop_map(|times| json!({ "times": times })),
        2 => fixed.prop_map(|(rate, capacity)| json!({ "sustained": rate, "capacity": capacity })),
    ];
    // Few conditions hold for a random request, so some are for most requests of a user or a tenant.
    let who = prop_oneof![
        2 => gate(),
        1 => prop::sample::select(vec!["u1", "u2", "7"]).prop_map(|user| json!({ "user": user })),
        1 => prop::sample::select(vec!["t0", "t1", "t2"]).prop_map(|tenant| json!({ "tenant": tenant })),
        1 => Just(json!({ "plan": ["free", "trial", "pro"] })),
    ];
    (who, numbers).prop_map(|(who, numbers)| json!({ "who": who, "numbers": numbers }))
}
