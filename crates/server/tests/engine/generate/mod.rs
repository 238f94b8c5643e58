//! Random policies and traces, with numbers so small that limits are reached, and so few words that keys collide.

mod limits;
mod policy;
mod tenants;
mod trace;

use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::engine::Case;

/// A policy and a trace for it.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    (policy::policy(), trace::trace(), prop::bool::weighted(0.3))
        .prop_map(|(policy, trace, anonymous)| Case { policy, trace, anonymous })
}

/// One of a few words.
fn word(words: &'static [&'static str]) -> impl Strategy<Value = Value> + Clone {
    prop::sample::select(words).prop_map(Value::from)
}

/// Present in `percent` of all cases; shrinks to its absence.
fn sometimes<S: Strategy<Value = Value>>(percent: u32, strategy: S) -> impl Strategy<Value = Option<Value>> {
    prop::option::weighted(f64::from(percent) / 100.0, strategy)
}

/// An object of the members that are present.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let there = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(there.collect::<Map<_, _>>())
}
