//! Cases written by hand, with the numbers that the requirements give. Each is
//! also judged by the model.

mod bursts;
mod costs;
mod groups;
mod inheritance;
mod pools;
mod settings;
mod strategies;
mod text;
mod trust;

use serde_json::{Value, json};

use crate::engine::Case;

/// The engine's decisions, on which the model agrees.
fn decide(policy: &Value, trace: Vec<Value>) -> Vec<Value> {
    Case::new(policy.clone(), trace).judged().unwrap_or_else(|difference| panic!("{difference}"))
}

/// A policy of nothing but limits.
fn limits(limits: Value) -> Value {
    json!({"version": 1, "limits": limits})
}

/// A policy of nothing but tenants.
fn tenants(tenants: Value) -> Value {
    json!({"version": 1, "limits": [], "tenants": tenants})
}

/// The same request so many times, at one instant.
fn times(count: usize, request: Value) -> Vec<Value> {
    vec![request; count]
}

/// How many were allowed.
fn allowed(decisions: &[Value]) -> usize {
    decisions.iter().filter(|decision| decision["allowed"] == true).count()
}

/// Some members of a decision, for comparing.
fn members<const N: usize>(decision: &Value, names: [&str; N]) -> Value {
    Value::from(names.map(|name| decision[name].clone()).to_vec())
}

/// `tenant`'s first request: the limit that speaks, and what is listed.
fn limit_of(policy: &Value, tenant: &str) -> Value {
    decide(policy, vec![json!({"at_ms": 0, "tenant": tenant})]).remove(0)["limit"].clone()
}
