//! The control plane: the admin API as its clients see it.

mod access_table;
mod audited;
mod client;
mod entries;
mod fleet;
mod listener;
mod logins;
mod model;
mod policy;
mod policy_client;
mod secrets;
mod tenants;
mod tokens;
mod trials;
mod versions;
mod writers;

use serde_json::{Value, json};

/// A limit for each user.
fn limit(name: &str, rate: u32) -> Value {
    json!({ "name": name, "key": ["user"], "sustained": { "rate": rate } })
}

/// The names of the entries of a list.
fn names(list: &Value, field: &str) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    items.iter().map(|item| item[field].as_str().expect("a name").to_owned()).collect()
}
