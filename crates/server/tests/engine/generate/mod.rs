//! Random policies and traces, with numbers so small that limits are reached, and so few words that keys collide.

mod limits;
mod overrides;
mod policy;
mod tenants;
mod trace;
mod trust;

use proptest::prelude::*;
use serde_json::{Map, Value};

pub(crate) use self::overrides::{OverrideStep, override_steps};
use self::policy::Flavour;
use crate::engine::Case;

/// A policy and a trace for it.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    let trusted = prop::option::weighted(0.5, trust::trusted_users());
    (policy::policy(), trace::trace(), prop::bool::weighted(0.3), trusted).prop_map(
        |((mut policy, flavour), mut trace, anonymous, trusted)| {
            if flavour == Flavour::Tree {
                let last = last_listed(&policy);
                trace.iter_mut().enumerate().for_each(|(number, request)| climb_tree(number, request, &last));
            }
            let trusted = trusted.filter(|_| flavour == Flavour::Trust);
            let trust = trusted.map(|users| users.join(&mut policy, &mut trace));
            Case { policy, trace, anonymous, trust }
        },
    )
}

/// The last tenant that is listed: it is often the one without numbers of its own.
fn last_listed(policy: &Value) -> String {
    let mut ids = policy["tenants"].as_array().expect("a list").iter().map(|tenant| &tenant["id"]);
    ids.rfind(|id| **id != "*").and_then(Value::as_str).expect("a tenant is listed").to_owned()
}

/// Lets most requests belong to a tenant, go to an upstream, and cost little, so that tenants' limits decide.
fn climb_tree(number: usize, request: &mut Value, last: &str) {
    let request = request.as_object_mut().expect("an object");
    match number % 8 {
        0 => {}
        1..=4 => _ = request.insert("tenant".to_owned(), Value::from(last)),
        other => _ = request.entry("tenant").or_insert_with(|| Value::from(format!("t{other}"))),
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
