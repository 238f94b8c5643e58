//! What is known about users, so that trust scores are computed and change during a case.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{object, sometimes, word};

/// The day on which such cases begin, so that accounts can be older than them.
const FIRST_DAY: u64 = 150;
const DAY_MS: u64 = 86_400_000;

/// What is known about users at first, what is told of them later, and how requests and time go on.
#[derive(Clone, Debug)]
pub(super) struct TrustedUsers {
    world: Value,
    /// A limit on users that scores decide about.
    limit: Value,
    /// Claims for some of the requests.
    claims: Vec<Option<Value>>,
    /// Before which request how many days pass.
    pauses: Vec<(usize, u64)>,
}

pub(super) fn trusted_users() -> impl Strategy<Value = TrustedUsers> {
    let names = object([("created", Some(json!("since"))), ("success_rate", Some(json!("ok")))]);
    let claims = prop_oneof![
        Just(json!({"created": "since", "email_verified": "checked", "success_rate": "ok"})),
        Just(names),
        Just(json!({})),
    ];
    let life = prop::sample::select(&[0_u64, 40, 1_000, 60_000][..]);
    let world = (claims, life, listed(), prop::collection::vec(step(), 0..=6)).prop_map(
        |(claims, life, listed, steps)| {
            json!({"claims": claims, "score_life_ms": life, "listed": listed, "steps": steps})
        },
    );
    let requests = prop::collection::vec(sometimes(20, claimed()), 60);
    let pauses = prop::collection::vec(
        (0_usize..60, prop::sample::select(&[1_u64, 3, 6, 7, 23, 29, 30, 31][..])),
        0..=2,
    );
    let limit = (2_u32..=6, 1_u32..=3, word(&["token_bucket", "sliding_window", "fixed_window"])).prop_map(
        |(capacity, rate, algorithm)| {
            let mut limit = json!({"name": "scored", "key": ["user"], "algorithm": algorithm});
            if algorithm == "token_bucket" {
                limit["sustained"] = json!({"rate": rate, "window": "minute"});
                limit["burst"] = json!({"capacity": capacity});
            } else {
                limit["sustained"] = json!({"rate": capacity, "window": "minute"});
            }
            limit
        },
    );
    (world, limit, requests, pauses).prop_map(|(world, limit, claims, pauses)| TrustedUsers {
        world,
        limit,
        claims,
        pauses,
    })
}

fn listed() -> impl Strategy<Value = Value> {
    (sometimes(70, facts()), sometimes(50, facts()), sometimes(30, facts()))
        .prop_map(|(one, two, seven)| object([("u1", one), ("u2", two), ("7", seven)]))
}

fn facts() -> impl Strategy<Value = Value> {
    // Before the case begins, on its days, and in its future.
    let created = prop_oneof![
        (0_u64..FIRST_DAY).prop_map(|day| day * 86_400 + 4_321),
        (FIRST_DAY..FIRST_DAY + 60).prop_map(|day| day * 86_400),
    ];
    let rate = prop::sample::select(&[0_u32, 333_333, 500_000, 980_000, 1_000_000][..]);
    (
        sometimes(70, created.prop_map(Value::from)),
        sometimes(60, any::<bool>().prop_map(Value::from)),
        sometimes(60, rate.prop_map(Value::from)),
    )
        .prop_map(|(created, verified, rate)| {
            object([("created_s", created), ("email_verified", verified), ("success_millionths", rate)])
        })
}

/// What the program tells, and before which request.
fn step() -> impl Strategy<Value = Value> {
    let user = || prop::sample::select(&["u1", "u1", "u2", "7"][..]);
    let told = prop_oneof![
        2 => (user(), facts()).prop_map(|(user, facts)| json!({"user": user, "facts": facts})),
        3 => (user(), 0_u32..=9, 0_u32..=4)
            .prop_map(|(user, good, bad)| json!({"user": user, "outcomes": [good, bad]})),
        1 => listed().prop_map(|listed| json!({"listed": listed})),
    ];
    (0_usize..60, told).prop_map(|(before, mut step)| {
        step["before"] = json!(before);
        step
    })
}

/// Claims of a token; some have values that state nothing.
fn claimed() -> impl Strategy<Value = Value> {
    let since = prop_oneof![
        Just(json!(8_640_000)),
        Just(json!("12000000")),
        Just(json!("1970-04-01T00:00:00Z")),
        Just(json!("yesterday")),
    ];
    let checked = prop_oneof![Just(json!(true)), Just(json!("true")), Just(json!(false)), Just(json!("yes"))];
    (
        sometimes(60, since),
        sometimes(60, checked),
        sometimes(60, word(&["0.25", "1", "0.999999", "1.5", "much"])),
    )
        .prop_map(|(since, checked, ok)| object([("since", since), ("checked", checked), ("ok", ok)]))
}

impl TrustedUsers {
    /// Changes a case so that scores matter: there is a limit on users, most requests have a user and no trust of their
    /// own, some have claims, and days pass. Returns what is known.
    pub(super) fn join(self, policy: &mut Value, trace: &mut [Value]) -> Value {
        policy["limits"].as_array_mut().expect("limits are there").insert(0, self.limit);
        let mut later = FIRST_DAY * DAY_MS;
        for (number, request) in trace.iter_mut().enumerate() {
            later += self
                .pauses
                .iter()
                .filter(|(before, _)| *before == number)
                .map(|(_, days)| days * DAY_MS)
                .sum::<u64>();
            request["at_ms"] = delayed(&request["at_ms"], later);
            let members = request.as_object_mut().expect("an object");
            if !number.is_multiple_of(5) {
                members.remove("trust");
                members.entry("user").or_insert_with(|| json!("u1"));
            }
            if number.is_multiple_of(2) {
                members.remove("credential");
                members.remove("cost");
            }
            if let Some(Some(Value::Object(claims))) = self.claims.get(number) {
                let jwt = members.entry("jwt").or_insert_with(|| json!({}));
                jwt.as_object_mut().expect("an object").extend(claims.clone());
            }
        }
        self.world
    }
}

/// An instant in milliseconds, with up to three decimals, so many milliseconds later.
fn delayed(at_ms: &Value, by: u64) -> Value {
    let text = at_ms.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, "0"));
    let later = whole.parse::<u64>().expect("milliseconds") + by;
    serde_json::from_str(&format!("{later}.{part}")).expect("a decimal is a number")
}
