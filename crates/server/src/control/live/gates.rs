//! Compiles live blocks and exemptions, by the rules of the policy document.

use serde_json::{Map, Value, json};
use tidegate::Nanos;
use tidegate::engine::{Limiter, RuleSet};
use tidegate_policy::{Descriptor, Gate, GateStage, PathSpelling, Policy, Request};

use super::LiveBoard;
use super::entry::{LiveEntry, LiveKind};
use crate::control::api::rfc3339;
use crate::control::startup::unix_millis;
use crate::node::store::NodeStore;

/// The largest `who`, as JSON, in bytes.
const WHO_BYTES_MAX: usize = 4_096;

/// The rules of live entries; `None` if there are none. An entry that cannot be compiled, which only another version of
/// the program can have written, is left out.
pub(super) fn compile(entries: &[LiveEntry], spelling: PathSpelling, now: Nanos) -> Option<RuleSet> {
    if entries.is_empty() {
        return None;
    }
    let whole = parse(entries, spelling, now);
    let rules = whole.or_else(|_| {
        let is_valid = |entry: &&LiveEntry| {
            let checked = parse(std::slice::from_ref(entry), spelling, now);
            if let Err(problem) = &checked {
                tracing::error!(
                    id = entry.id,
                    problem,
                    "this live entry is not known here and has no effect"
                );
            }
            checked.is_ok()
        };
        let valid: Vec<LiveEntry> = entries.iter().filter(is_valid).cloned().collect();
        parse(&valid, spelling, now)
    });
    rules.ok()
}

/// Checks whom an entry is about.
///
/// # Errors
/// What is wrong.
pub(crate) fn check_who(entry: &LiveEntry, spelling: PathSpelling, now: Nanos) -> Result<(), String> {
    let Some(who) = entry.body.who.as_object() else {
        return Err("it must be an object of descriptors, such as {\"user\":\"42\"}".to_owned());
    };
    if entry.body.who.to_string().len() > WHO_BYTES_MAX {
        return Err(format!("it is longer than {WHO_BYTES_MAX} bytes"));
    }
    let is_descriptor = |name: &String| name == "methods" || Descriptor::parse(name).is_some();
    if let Some(name) = who.keys().find(|name| !is_descriptor(name)) {
        let shown: String = name.chars().take(64).collect();
        return Err(format!(
            "`{shown}` is no descriptor; descriptors are such as user, ip, header:x-api-key"
        ));
    }
    parse_who(&[entry], spelling, now).map(|_| ())
}

/// The entries that hold for a request. Where no gate finds any, which costs little, there are none.
pub(crate) fn applies(
    board: &LiveBoard,
    limiter: &Limiter<NodeStore>,
    rules: &RuleSet,
    request: &Request<'_>,
    now: Nanos,
) -> Vec<LiveEntry> {
    let facts = rules.facts(request);
    let holds = |live: &RuleSet| {
        let stages = [GateStage::Unidentified, GateStage::Identified];
        let found = |gate: &Gate| stages.iter().any(|stage| gate.find(*stage, &facts, now).is_some());
        found(live.block()) || found(live.allow())
    };
    if !limiter.live_gates().is_some_and(|live| holds(&live)) {
        return Vec::new();
    }
    let mut entries = board.entries(unix_millis(now));
    entries.retain(|entry| {
        entry.is_gate()
            && parse(std::slice::from_ref(entry), rules.spelling(), now).is_ok_and(|own| holds(&own))
    });
    entries
}

fn parse(entries: &[LiveEntry], spelling: PathSpelling, now: Nanos) -> Result<RuleSet, String> {
    let of = |kind: LiveKind| -> Value {
        entries.iter().filter(|entry| entry.kind == kind).map(document_entry).collect()
    };
    parse_lists(of(LiveKind::Block), of(LiveKind::Allow), spelling, now)
}

/// Whom entries are about, as entries of `block`, in their order.
pub(super) fn parse_who(
    entries: &[&LiveEntry],
    spelling: PathSpelling,
    now: Nanos,
) -> Result<RuleSet, String> {
    let who = entries.iter().map(|entry| document_entry(entry)).collect();
    parse_lists(who, Value::Array(Vec::new()), spelling, now)
}

fn parse_lists(block: Value, allow: Value, spelling: PathSpelling, now: Nanos) -> Result<RuleSet, String> {
    let document = json!({
        "version": 1,
        "limits": [],
        "defaults": { "paths": {
            "ignore_case": spelling.ignore_case,
            "decode_slash": spelling.decode_slash,
            "strip_params": spelling.strip_params,
        } },
        "block": block,
        "allow": allow,
    });
    let policy = Policy::parse_at(&document.to_string(), now).map_err(|error| {
        let first = error.problems.iter().find(|problem| problem.is_error());
        first.map_or_else(|| error.to_string(), |problem| problem.message.clone())
    })?;
    Ok(policy.into())
}

/// The entry as an entry of the policy's `block` or `allow`.
fn document_entry(entry: &LiveEntry) -> Value {
    let mut members: Map<String, Value> = entry.body.who.as_object().cloned().unwrap_or_default();
    if let Some(reason) = &entry.reason {
        members.insert("reason".to_owned(), reason.as_str().into());
    }
    if let Some(until) = entry.until {
        members.insert("until".to_owned(), rfc3339(until).into());
    }
    Value::Object(members)
}

#[cfg(test)]
mod tests {
    use tidegate_database::UnixMillis;

    use super::*;
    use crate::control::live::entry::LiveBody;

    fn block(who: Value) -> LiveEntry {
        LiveEntry {
            id: "a".into(),
            kind: LiveKind::Block,
            sequence: 0,
            body: LiveBody { who, ..LiveBody::default() },
            until: Some(UnixMillis::new(1_900_000_000_001)),
            created_at: UnixMillis::new(1),
            author: "me".into(),
            reason: Some("why".into()),
        }
    }

    fn check(who: Value) -> Result<(), String> {
        check_who(&block(who), PathSpelling::default(), Nanos::ZERO)
    }

    #[test]
    fn conditions_are_those_of_the_policy() {
        for right in [
            json!({ "user": "42" }),
            json!({ "user": 42, "ip": ["10.0.0.0/8", "::1"], "path": "/login/**", "methods": ["GET"] }),
            json!({ "header:x-api-key": "k", "tenant": "t" }),
        ] {
            assert_eq!(check(right.clone()), Ok(()), "{right}");
        }
        for wrong in [
            json!({}),
            json!("42"),
            json!({ "user": {} }),
            json!({ "ip": "nowhere" }),
            json!({ "nobody": "1" }),
            // Members of an entry that are no conditions.
            json!({ "user": "1", "enabled": false }),
            json!({ "reason": "x" }),
            json!({ "user": "x".repeat(5_000) }),
        ] {
            assert!(check(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_entry_that_is_not_known_here_is_left_out() {
        let entries = [block(json!({ "user": "1" })), block(json!({ "future": "1" }))];
        let rules = compile(&entries, PathSpelling::default(), Nanos::ZERO).expect("one is known");
        let [entry] = rules.block().entries() else { panic!("one is known") };
        assert_eq!(entry.until, Some(Nanos::new(1_900_000_000_001_000_000)));
        assert!(compile(&[], PathSpelling::default(), Nanos::ZERO).is_none());
    }
}
