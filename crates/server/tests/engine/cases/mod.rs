//! Cases written by hand, with the numbers of the requirements. Each is also checked against the model.

mod bursts;
mod costs;
mod groups;
mod inheritance;
mod pools;
mod settings;
mod strategies;
mod text;
mod trust;
mod upstreams;

use serde_json::{Value, json};

use crate::engine::Case;

/// The engine's decisions; panics if the model disagrees.
fn decide(policy: &Value, trace: Vec<Value>) -> Vec<Value> {
    Case::new(policy.clone(), trace).judged().unwrap_or_else(|difference| panic!("{difference}"))
}

/// A policy with only limits.
fn limits(limits: Value) -> Value {
    json!({"version": 1, "limits": limits})
}

/// A policy with only tenants.
fn tenants(tenants: Value) -> Value {
    json!({"version": 1, "limits": [], "tenants": tenants})
}

/// The same request `count` times, at one instant.
fn times(count: usize, request: Value) -> Vec<Value> {
    vec![request; count]
}

/// How many requests were allowed.
fn allowed(decisions: &[Value]) -> usize {
    decisions.iter().filter(|decision| decision["allowed"] == true).count()
}

/// Some members of a decision, for comparing.
fn members<const N: usize>(decision: &Value, names: [&str; N]) -> Value {
    Value::from(names.map(|name| decision[name].clone()).to_vec())
}

/// `tenant`'s first request: the tightest limit, and the list of limits.
fn limit_of(policy: &Value, tenant: &str) -> Value {
    decide(policy, vec![json!({"at_ms": 0, "tenant": tenant})]).remove(0)["limit"].clone()
}
