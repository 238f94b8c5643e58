//! Routes about the kill switch, which switches all limits off for a while.

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::live::{end, reason, unprocessable};
use crate::control::access::AccessRole;
use crate::control::api::query::REASON;
use crate::control::api::route::{Answering, ApiRoute, RouteAccess, TenantRule};
use crate::control::api::shape::{AnswerShape, BodyShape, JsonShape};
use crate::control::api::{ApiAnswer, ApiCall, ApiError, rfc3339};
use crate::control::live::catch_up;
use crate::control::live::changing::{LiveDeed, new_live_id};
use crate::control::live::entry::{LiveBody, LiveEntry, LiveKind};
use crate::control::startup::unix_millis;
use crate::observe::EventName;

/// How long it stays on if nobody says until when, and at most, in milliseconds.
const LASTS: i64 = 60 * 60 * 1_000;
const LASTS_MAX: i64 = 7 * 24 * 60 * 60 * 1_000;

/// How often a change is tried while others change the state at the same time.
const ATTEMPTS: usize = 16;

/// The state to switch to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedKillSwitch {
    /// `allow` admits every request; `off` lets the limits decide.
    #[schema(example = "allow")]
    state: String,
    /// Why. Required to switch it on.
    #[schema(max_length = 1024)]
    reason: Option<String>,
    /// When it goes off by itself: in an hour without this, at most in seven days.
    #[schema(format = DateTime)]
    until: Option<String>,
}

/// The state of the kill switch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KillSwitchState {
    /// `allow`: every request is admitted. `off`: the limits decide.
    state: &'static str,
    /// Who has switched it on: `settings`, or the `api`.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// When it goes off by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// Since when it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// Who has switched it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
}

/// The routes.
pub(in crate::control::api) fn routes() -> Vec<ApiRoute> {
    let route = |method, role, about, handler| {
        let answer = AnswerShape::Json(JsonShape::of::<KillSwitchState>());
        let access = RouteAccess::Role(role, TenantRule::Whole);
        ApiRoute::new(method, "/kill-switch", access, about, answer, handler)
    };
    let shown = "Whether all limits are switched off, why, and until when.";
    let switched = "Switches all limits off for a while, or on again.";
    vec![
        route(Method::GET, AccessRole::Viewer, shown, show),
        ApiRoute {
            query: &[REASON],
            body: BodyShape::Json(JsonShape::of::<WantedKillSwitch>()),
            ..route(Method::PUT, AccessRole::Admin, switched, switch)
        },
    ]
}

/// `GET /kill-switch`
fn show(call: ApiCall) -> Answering {
    Box::pin(async move { Ok(ApiAnswer::json(&KillSwitchState::of(&call))) })
}

/// `PUT /kill-switch`
fn switch(call: ApiCall) -> Answering {
    Box::pin(async move {
        let wanted: WantedKillSwitch = call.json()?;
        let reason = reason(&call, wanted.reason)?;
        let (add, kind) = match wanted.state.as_str() {
            "allow" => (vec![on(&call, wanted.until.as_deref(), reason.as_ref())?], "on"),
            "off" if wanted.until.is_some() => {
                return Err(unprocessable(
                    "/until",
                    "only `allow` takes it: `off` stays until somebody changes it",
                ));
            }
            "off" if call.control().live().is_kill_switch_forced() => {
                return Err(ApiError::Conflict(
                    "TIDEGATE_KILL_SWITCH of this server switches all limits off: start it without that"
                        .to_owned(),
                ));
            }
            "off" => (vec![], "off"),
            _ => return Err(unprocessable("/state", "it must be `off` or `allow`")),
        };
        replace(&call, &add, kind, reason.as_deref()).await?;
        Ok(ApiAnswer::json(&KillSwitchState::of(&call)))
    })
}

/// Puts the new state in the place of everything that anybody has switched, on whatever node.
async fn replace(
    call: &ApiCall,
    add: &[LiveEntry],
    kind: &'static str,
    reason: Option<&str>,
) -> Result<(), ApiError> {
    for _ in 0..ATTEMPTS {
        // What this node does not know yet would stay in force.
        catch_up(&call.node).await?;
        let known = call.control().live().kill_switches(unix_millis(call.now));
        let remove: Vec<String> = known.into_iter().map(|entry| entry.id).collect();
        if remove.is_empty() && add.is_empty() {
            return Ok(());
        }
        let (event, until) = (EventName::KillSwitchChanged, add.first().and_then(|entry| entry.until));
        let more = until.map_or(Value::Null, |until| json!({ "until": rfc3339(until) }));
        let (add, reason) = (add.to_vec(), reason.map(str::to_owned));
        let deed = LiveDeed { remove, add, event, who: Value::Null, kind, reason, more, answer: None };
        match deed.run(call).await {
            // Somebody else has switched it meanwhile.
            Err(ApiError::NotFound { .. }) => {}
            done => return done,
        }
    }
    Err(ApiError::Unavailable("others switch it all the time: repeat it".to_owned()))
}

/// The entry that switches it on.
fn on(call: &ApiCall, until: Option<&str>, reason: Option<&String>) -> Result<LiveEntry, ApiError> {
    let now = unix_millis(call.now);
    if reason.is_none() {
        return Err(unprocessable("/reason", "say why all limits are switched off"));
    }
    let until = until.map(|until| end(call, until)).transpose()?.unwrap_or(now.plus(LASTS));
    if until > now.plus(LASTS_MAX) {
        return Err(unprocessable("/until", "it must be within seven days"));
    }
    Ok(LiveEntry {
        id: new_live_id()?,
        kind: LiveKind::KillSwitch,
        sequence: 0,
        body: LiveBody::default(),
        until: Some(until),
        created_at: now,
        author: call.principal().actor.to_string(),
        reason: reason.cloned(),
    })
}

impl KillSwitchState {
    fn of(call: &ApiCall) -> KillSwitchState {
        let off = KillSwitchState {
            state: "off",
            source: None,
            reason: None,
            until: None,
            since: None,
            author: None,
        };
        if call.control().live().is_kill_switch_forced() {
            return KillSwitchState { state: "allow", source: Some("settings"), ..off };
        }
        match call.control().kill_switch(unix_millis(call.now)) {
            None => off,
            Some(entry) => KillSwitchState {
                state: "allow",
                source: Some("api"),
                until: entry.until.map(rfc3339),
                since: Some(rfc3339(entry.created_at)),
                reason: entry.reason,
                author: Some(entry.author),
            },
        }
    }
}
