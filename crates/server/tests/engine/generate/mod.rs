//! Random policies and traces, with numbers so small that limits are reached, and so few words that keys collide.

mod limits;
mod policy;
mod tenants;
mod trace;

use proptest::prelude::*;
use serde_json::{Map, Value};

use self::policy::Flavour;
use crate::engine::Case;

/// A policy and a trace for it.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    (policy::policy(), trace::trace(), prop::bool::weighted(0.3)).prop_map(
        |((policy, flavour), mut trace, anonymous)| {
            if flavour == Flavour::Tree {
                trace.iter_mut().enumerate().for_each(|(number, request)| climb_tree(number, request));
            }
            Case { policy, trace, anonymous }
        },
    )
}

/// Lets most requests belong to a tenant, go to an upstream, and cost little, so that tenants' limits decide.
fn climb_tree(number: usize, request: &mut Value) {
    let request = request.as_object_mut().expect("an object");
    if !number.is_multiple_of(8) {
        let tenant = || Value::from(format!("t{}", number % 6));
        request.entry("tenant").or_insert_with(tenant);
    }
    if number.is_multiple_of(2) {
        request.entry("upstream").or_insert_with(|| Value::from("up"));
    }
    for member in ["cost", "credential", "path"] {
        request.remove(member);
    }
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
