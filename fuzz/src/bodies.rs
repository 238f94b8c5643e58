//! Request bodies in JSON, as the decision endpoints accept them.

use std::sync::LazyLock;

use serde_json::Value;
use tidegate::engine::{Limiter, Policy};
use tidegate::{ManualClock, Memory, MemoryOptions};
use tidegate_server::wire;

use crate::target::{FuzzFailure, kind_of};

/// Uses every feature of policies, so that every member of a request matters.
const POLICY: &str = include_str!("policy.yaml");

type TestLimiter = Limiter<Memory<ManualClock>, ManualClock>;

static LIMITER: LazyLock<TestLimiter> = LazyLock::new(|| {
    let options = MemoryOptions { max_keys: 1_000, max_log_entries: 2_000 };
    let policy = Policy::parse(POLICY).expect("the policy is valid");
    Limiter::in_memory(policy, options, ManualClock::default()).expect("a few limits fit")
});

pub(crate) fn try_input(input: &[u8]) -> Result<u64, FuzzFailure> {
    let text = String::from_utf8_lossy(input);
    let json = serde_json::from_str::<Value>(&text);
    match wire::request(&text) {
        Err(error) => {
            let lines = text.split('\n').map(str::len).max().unwrap_or(0);
            let inside = (1..=lines + 1).contains(&error.column);
            FuzzFailure::unless(inside, || format!("column {} of {lines}: {error}", error.column))?;
            let message = error.to_string();
            FuzzFailure::unless(!message.is_empty(), || "a problem without a message".to_owned())?;
            Ok(kind_of([message.as_str()].into_iter()))
        }
        Ok(request) => {
            let Ok(Value::Object(members)) = &json else {
                return Err(FuzzFailure("a body that is not a JSON object is accepted".to_owned()));
            };
            let again =
                wire::request(&text).map_err(|error| FuzzFailure(format!("parsed again: {error}")))?;
            FuzzFailure::unless(again == request, || "parsing it again gives another request".to_owned())?;
            let cost = members.get("cost").map_or(Some(1), Value::as_u64);
            FuzzFailure::unless(cost == Some(u64::from(request.cost.get())), || {
                format!("a cost of {:?}", request.cost)
            })?;
            for (name, read) in
                [("user", &request.user), ("path", &request.path), ("tenant", &request.tenant)]
            {
                let written = members.get(name).and_then(Value::as_str);
                FuzzFailure::unless(written == read.as_deref(), || format!("{name} is read as {read:?}"))?;
            }
            let decided = LIMITER.check(&request).to_json();
            let whole = serde_json::from_str::<Value>(&decided).is_ok_and(|decision| decision.is_object());
            FuzzFailure::unless(whole, || format!("not a decision: {decided}"))?;
            Ok(kind_of([decided.as_str()].into_iter()))
        }
    }
}
