//! Random edits through the admin API do to the document what they do to a plain JSON value.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use tidegate_database::DatabaseKind;

use super::place::on_both;
use super::policy_client::{Api, PolicyServer};

on_both!(random_edits_are_those_of_a_plain_value);

/// An edit of a list. Names are few, so that edits meet.
#[derive(Clone, Debug)]
enum ModelEdit {
    Create { name: u8, rate: u32, before: Option<u8> },
    Replace { name: u8, rate: u32 },
    Patch { name: u8, patch: ModelPatch },
    Remove { name: u8 },
}

#[derive(Clone, Debug)]
enum ModelPatch {
    Rate(u32),
    Burst(Option<u32>),
    Description(Option<&'static str>),
}

fn name(name: u8) -> String {
    format!("l{name}")
}

fn limit(number: u8, rate: u32) -> Value {
    json!({ "name": name(number), "key": ["user"], "sustained": { "rate": rate } })
}

fn patch(patch: &ModelPatch) -> Value {
    match patch {
        ModelPatch::Rate(rate) => json!({ "sustained": { "rate": rate } }),
        ModelPatch::Burst(capacity) => {
            json!({ "burst": capacity.map(|capacity| json!({ "capacity": capacity })) })
        }
        ModelPatch::Description(text) => json!({ "description": text }),
    }
}

fn edits() -> impl Strategy<Value = Vec<ModelEdit>> {
    let (names, rates) = (0..5_u8, 1..1_000_u32);
    let patch = prop_oneof![
        rates.clone().prop_map(ModelPatch::Rate),
        proptest::option::of(1..100_u32).prop_map(ModelPatch::Burst),
        proptest::option::of(prop_oneof![Just("# not a comment"), Just("a: b"), Just("- 'x'\n  \"y\"")])
            .prop_map(ModelPatch::Description),
    ];
    let edit = prop_oneof![
        3 => (names.clone(), rates.clone(), proptest::option::of(names.clone()))
            .prop_map(|(name, rate, before)| ModelEdit::Create { name, rate, before }),
        1 => (names.clone(), rates).prop_map(|(name, rate)| ModelEdit::Replace { name, rate }),
        2 => (names.clone(), patch).prop_map(|(name, patch)| ModelEdit::Patch { name, patch }),
        1 => names.prop_map(|name| ModelEdit::Remove { name }),
    ];
    proptest::collection::vec(edit, 1..12)
}

/// The list as the model has it, and the status that an edit must have.
fn apply(model: &mut Vec<Value>, edit: &ModelEdit) -> u16 {
    let find =
        |model: &[Value], number: u8| model.iter().position(|entry| entry["name"] == name(number).as_str());
    match edit {
        ModelEdit::Create { name, rate, before } => {
            if find(model, *name).is_some() {
                return 409;
            }
            let index = match before {
                None => model.len(),
                Some(before) => match find(model, *before) {
                    Some(index) => index,
                    None => return 404,
                },
            };
            model.insert(index, limit(*name, *rate));
            201
        }
        ModelEdit::Replace { name, rate } => {
            let Some(index) = find(model, *name) else { return 404 };
            model[index] = limit(*name, *rate);
            200
        }
        ModelEdit::Patch { name, patch: change } => {
            let Some(index) = find(model, *name) else { return 404 };
            merge(&mut model[index], &patch(change));
            200
        }
        ModelEdit::Remove { name } => {
            let Some(index) = find(model, *name) else { return 404 };
            model.remove(index);
            200
        }
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let members = target.as_object_mut().expect("it is an object");
    for (key, change) in changes {
        match change {
            Value::Null => _ = members.remove(key),
            change => merge(members.entry(key).or_insert(Value::Null), change),
        }
    }
}

fn ask(api: &Api, edit: &ModelEdit) -> u16 {
    let path = |number: &u8| format!("/limits/{}", name(*number));
    let answer = match edit {
        ModelEdit::Create { name: number, rate, before } => {
            let before = before.map(|before| format!("?before={}", name(before))).unwrap_or_default();
            api.post(&format!("/limits{before}"), &limit(*number, *rate))
        }
        ModelEdit::Replace { name, rate } => api.put(&path(name), &limit(*name, *rate)),
        ModelEdit::Patch { name, patch: change } => api.patch(&path(name), &patch(change)),
        ModelEdit::Remove { name } => api.delete(&path(name)),
    };
    answer.status
}

const STARTS: [&str; 3] = [
    "# above\nversion: 1\n# limits\nlimits:\n- { name: l0, key: [user], sustained: { rate: 5 } } # five\n# below\n",
    "version: 1\nlimits: [] # none\n",
    "{\"version\": 1,\n \"limits\": [{\"name\": \"l0\", \"key\": [\"user\"], \"sustained\": {\"rate\": 5}}]}\n",
];

fn random_edits_are_those_of_a_plain_value(kind: DatabaseKind) {
    let controlled = PolicyServer::start(kind);
    let api = controlled.api;
    let cases = (0..STARTS.len(), edits());
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    let ran = runner.run(&cases, |(start, edits)| {
        let media_type = if start == 2 { "json" } else { "yaml" };
        let header = format!("Content-Type: application/{media_type}");
        api.ask("PUT", "/policy", &[&header], STARTS[start]).expect(200);
        let mut model = if start == 1 { Vec::new() } else { vec![limit(0, 5)] };
        for edit in &edits {
            let expected = apply(&mut model, edit);
            prop_assert_eq!(ask(&api, edit), expected, "{:?}", edit);
        }
        let json = api.ask("GET", "/policy", &["Accept: application/json"], "").expect(200).json();
        prop_assert_eq!(&json["limits"], &Value::from(model));
        let text = api.policy();
        let comments = STARTS[start].lines().filter(|line| line.starts_with("# above"));
        for comment in comments {
            prop_assert!(text.contains(comment), "{}", text);
        }
        Ok(())
    });
    ran.expect("the document has what the model has");
}
