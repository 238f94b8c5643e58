//! Routes about candidates: drafts of the policy that decide beside the policy in force, for comparison.

use http::Method;
use serde::Serialize;
use serde_json::{Value, json};
use tidegate_database::{
    AuditEntry, CandidateAddition, CandidateHead, Database, NewCandidate, PersonalData, UnixMillis,
};
use utoipa::ToSchema;

use super::policy::document_edit;
use crate::bounds::{CANDIDATE_TIME, CANDIDATE_TIME_MAX, CANDIDATES_KEPT_MAX, CANDIDATES_MAX};
use crate::control::access::AccessRole;
use crate::control::api::query::{PAGE, QueryField, QueryKind, REASON};
use crate::control::api::route::{Answering, ApiRoute, RouteAccess, TenantRule};
use crate::control::api::shape::{AnswerShape, BodyShape, JsonShape};
use crate::control::api::{ApiAnswer, ApiCall, ApiError, PREFIX, rfc3339};
use crate::control::candidates::found::CandidateReport;
use crate::control::candidates::{catch_up, write_found};
use crate::control::changing::{self, Edited, IdempotencyKey};
use crate::control::live::changing::new_live_id;
use crate::control::masked_policy::masked_text;
use crate::control::startup::unix_millis;
use crate::observe::EventName;

/// A candidate.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CandidateAnswer {
    /// Its id.
    id: String,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Does it decide beside the policy?
    running: bool,
    /// When it ends by itself, or has ended.
    #[schema(format = DateTime)]
    until: String,
    /// The version that it has become.
    #[serde(skip_serializing_if = "Option::is_none")]
    promoted: Option<u64>,
    /// When it was added.
    #[schema(format = DateTime)]
    created: String,
    /// By whom.
    author: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What its document probably does not mean.
    #[schema(value_type = Vec<Object>)]
    warnings: Value,
}

/// A candidate with its document.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CandidateWithText {
    #[serde(flatten)]
    head: CandidateAnswer,
    /// The document as it was written.
    text: String,
}

const READS: RouteAccess = RouteAccess::Role(AccessRole::Viewer, TenantRule::Whole);
const WRITES: RouteAccess = RouteAccess::Role(AccessRole::Editor, TenantRule::Whole);

const WANTED: &[QueryField] = &[
    QueryField { name: "name", kind: QueryKind::Text, about: "A name for people." },
    QueryField {
        name: "until",
        kind: QueryKind::Time,
        about: "When it ends by itself, at most 7 days from now; 24 hours without it.",
    },
];

/// The routes.
pub(in crate::control::api) fn routes() -> Vec<ApiRoute> {
    let answer = JsonShape::of::<CandidateAnswer>();
    let route = |method, path, access, about, answer, handler: fn(ApiCall) -> Answering| {
        ApiRoute::new(method, path, access, about, answer, handler)
    };
    let (get, post, whole) = (Method::GET, Method::POST, JsonShape::of::<CandidateWithText>());
    let (found, changed) =
        (JsonShape::of::<CandidateReport>(), JsonShape::of::<super::policy::PolicyChanged>());
    let listed = "The candidates, newest first, with those that have ended.";
    let added = "Lets a draft of the policy decide beside the policy in force, for comparison.";
    let ended = "Ends a candidate, and removes it with what was found.";
    let told = "What the candidate would decide otherwise, summed over all nodes.";
    let promoted =
        "Makes the document of a candidate the newest version of the policy, and ends the candidate.";
    vec![
        ApiRoute {
            query: &[PAGE],
            ..route(get.clone(), "/candidates", READS, listed, AnswerShape::List(answer), list)
        },
        ApiRoute {
            query: &[WANTED, REASON],
            body: BodyShape::Policy,
            ..route(post.clone(), "/candidates", WRITES, added, AnswerShape::Created(answer), add)
        },
        route(
            get.clone(),
            "/candidates/{id}",
            READS,
            "A candidate with its document.",
            AnswerShape::Json(whole),
            one,
        ),
        ApiRoute {
            query: &[REASON],
            ..route(Method::DELETE, "/candidates/{id}", WRITES, ended, AnswerShape::Json(answer), remove)
        },
        route(get, "/candidates/{id}/report", READS, told, AnswerShape::Json(found), report),
        ApiRoute {
            query: &[REASON],
            ..route(post, "/candidates/{id}/promote", WRITES, promoted, AnswerShape::Json(changed), promote)
        },
    ]
}

fn database(call: &ApiCall) -> Result<&Database, ApiError> {
    call.control().database().ok_or_else(|| ApiError::needs_database("candidates"))
}

fn unknown(id: &str) -> ApiError {
    ApiError::NotFound { what: "candidate", name: id.chars().take(64).collect() }
}

/// A candidate and its document.
///
/// # Errors
/// When there is none, no database, or it fails.
pub(super) async fn find(call: &ApiCall, id: &str) -> Result<(CandidateHead, String), ApiError> {
    database(call)?.candidate(id).await?.ok_or_else(|| unknown(id))
}

/// `GET /candidates`
fn list(call: ApiCall) -> Answering {
    Box::pin(async move {
        let mut items: Vec<Value> = Vec::new();
        for head in database(&call)?.candidates().await? {
            items.push(json!(CandidateAnswer::of(&head, &call)));
        }
        if let Some(wanted) = call.query.get("q") {
            items.retain(|item| item.to_string().contains(wanted));
        }
        if let Some(cursor) = call.query.get("cursor") {
            let after = items.iter().position(|item| item["id"] == cursor);
            let wrong =
                || ApiError::parameter("cursor", "it must be the `next` of an earlier page".to_owned());
            items.drain(..=after.ok_or_else(wrong)?);
        }
        let most = call.query.page_length();
        let next =
            (items.len() > most).then(|| items[most - 1]["id"].as_str().unwrap_or_default().to_owned());
        items.truncate(most);
        Ok(ApiAnswer::list(items, next))
    })
}

/// `POST /candidates`
fn add(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (database, key) = (database(&call)?, IdempotencyKey::of(&call)?);
        if let Some(key) = &key
            && let Some(earlier) = key.remembered(database, &call).await?
        {
            return Ok(added_before(&earlier));
        }
        let (text, warnings) = checked(&call).await?;
        let head = CandidateHead {
            id: new_live_id()?,
            name: call.query.get("name").map(str::to_owned),
            warnings: Value::from(warnings).to_string(),
            created_at: unix_millis(call.now),
            ends_at: end(&call)?,
            promoted: None,
            author: call.principal().actor.to_string(),
            reason: call.reason()?,
        };
        let (answer, location) = (json!(CandidateAnswer::of(&head, &call)), location_of(&head.id));
        let new = NewCandidate {
            entry: audit_entry(&call, EventName::CandidateAdded, &head)?,
            text,
            most_running: CANDIDATES_MAX as u64,
            most: CANDIDATES_KEPT_MAX as u64,
            answer: key.map(|key| {
                let answer = answer.clone();
                key.answer(Some(location.clone()), move |_| answer)
            }),
            head,
        };
        match database.add_candidate(new).await? {
            CandidateAddition::Added => {}
            CandidateAddition::Full => {
                return Err(ApiError::Conflict(format!(
                    "{CANDIDATES_MAX} candidates run already: remove one, or wait until it ends"
                )));
            }
            CandidateAddition::KeyUsed => {
                let key = key.ok_or(ApiError::Internal)?;
                return Ok(added_before(&key.remembered(database, &call).await?.unwrap_or_default()));
            }
        }
        // So that this node compares from here on; the others follow within a second, and so does this one if it fails now.
        follow_now(&call, "added").await;
        Ok(ApiAnswer::json(&answer).created(&location))
    })
}

/// Lets this node follow a change that is made, and cannot fail any more.
async fn follow_now(call: &ApiCall, change: &str) {
    if let Err(error) = catch_up(&call.node).await {
        tracing::warn!(change, %error, "candidates have changed, but this node has not followed yet");
    }
}

/// The answer to a call that was repeated.
fn added_before(earlier: &Value) -> ApiAnswer {
    ApiAnswer::json(&earlier["body"]).created(earlier["location"].as_str().unwrap_or_default())
}

fn location_of(id: &str) -> String {
    format!("{PREFIX}/candidates/{id}")
}

/// The document of a call, checked as if it were to be published, and its warnings.
async fn checked(call: &ApiCall) -> Result<(String, Vec<Value>), ApiError> {
    let (edit, node, now) = (document_edit(call)?, call.node.clone(), call.now);
    let running = call.control().running();
    let turn = call.trial_turn().await?;
    turn.run(call.control(), move || changing::checked(&running.text, &edit, &node, now)).await?
}

/// When a new candidate ends.
fn end(call: &ApiCall) -> Result<UnixMillis, ApiError> {
    let now = unix_millis(call.now);
    let Some(until) = call.query.time("until").map(unix_millis) else {
        return Ok(now.plus(CANDIDATE_TIME.as_millis() as i64));
    };
    if until <= now || until > now.plus(CANDIDATE_TIME_MAX.as_millis() as i64) {
        return Err(ApiError::parameter("until", "it must be a time within the next 7 days".to_owned()));
    }
    Ok(until)
}

/// `GET /candidates/{id}`
fn one(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (head, text) = find(&call, call.path.get(0)).await?;
        let text = match call.principal().role < AccessRole::Editor {
            true => call.control().run_long(move || masked_text(&text)).await.ok_or(ApiError::Internal)?,
            false => text,
        };
        Ok(ApiAnswer::json(&CandidateWithText { head: CandidateAnswer::of(&head, &call), text }))
    })
}

/// `DELETE /candidates/{id}`
fn remove(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (head, _) = find(&call, call.path.get(0)).await?;
        let entry = audit_entry(&call, EventName::CandidateRemoved, &head)?;
        if !database(&call)?.remove_candidate(&head.id, entry).await? {
            return Err(unknown(&head.id));
        }
        follow_now(&call, "removed").await;
        Ok(ApiAnswer::json(&CandidateAnswer { running: false, ..CandidateAnswer::of(&head, &call) }))
    })
}

/// `GET /candidates/{id}/report`
fn report(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (database, id) = (database(&call)?, call.path.get(0).to_owned());
        if !database.candidates().await?.iter().any(|head| head.id == id) {
            return Err(unknown(&id));
        }
        // What this node has found until now; that of the others is some seconds old.
        write_found(&call.node).await?;
        let (runs, steps) = database.candidate_runs(&id).await?;
        let summed = call.control().run_long(move || CandidateReport::new(&id, runs, &steps)).await;
        Ok(ApiAnswer::json(&summed.ok_or(ApiError::Internal)?))
    })
}

/// `POST /candidates/{id}/promote`
fn promote(call: ApiCall) -> Answering {
    Box::pin(async move {
        changing::writable(call.control())?;
        let (head, text) = find(&call, call.path.get(0)).await?;
        let id = head.id.clone();
        // Refused here, so that a call that is repeated with its `Idempotency-Key` is answered as before.
        let edit = move |_: &str| match head.promoted {
            None => Ok(Edited { text: text.clone(), ..Edited::default() }),
            Some(version) => Err(promoted_before(version)),
        };
        let answer = changing::change(&call, Box::new(edit)).await?;
        let version = answer.told_version().unwrap_or_default();
        // It is published. If this fails, the candidate ends by itself, or somebody removes it.
        if let Err(error) = database(&call)?.promote_candidate(&id, version, unix_millis(call.now)).await {
            tracing::warn!(candidate = id, %error, "a candidate was promoted, but has not ended yet");
        }
        follow_now(&call, "promoted").await;
        Ok(answer)
    })
}

/// Promoting it once more would replace what was changed since.
fn promoted_before(version: u64) -> ApiError {
    ApiError::Conflict(format!(
        "the candidate has become version {version} already: to return to it, roll back to version {version}; to try the \
         document out again, add it as a new candidate"
    ))
}

fn audit_entry(call: &ApiCall, event: EventName, head: &CandidateHead) -> Result<AuditEntry, ApiError> {
    let time = unix_millis(call.now);
    let detail = json!({ "candidate": head.id, "name": head.name, "until": rfc3339(head.ends_at) });
    Ok(AuditEntry {
        time,
        event: event.as_str().to_owned(),
        severity: event.severity().as_str().to_owned(),
        node: call.control().node_id().map(str::to_owned),
        actor: Some(call.principal().actor.to_string()),
        count: 1,
        first: time,
        last: time,
        reason: call.reason()?,
        personal: PersonalData { detail: Some(detail.to_string()), ..PersonalData::default() },
        ..AuditEntry::default()
    })
}

impl CandidateAnswer {
    fn of(head: &CandidateHead, call: &ApiCall) -> CandidateAnswer {
        let mut warnings: Value = serde_json::from_str(&head.warnings).unwrap_or_default();
        if call.principal().role < AccessRole::Editor {
            // They quote the document, where values stand that may be secrets.
            for warning in warnings.as_array_mut().into_iter().flatten() {
                warning["saw"] = Value::Null;
            }
        }
        CandidateAnswer {
            id: head.id.clone(),
            name: head.name.clone(),
            running: head.ends_at > unix_millis(call.now),
            until: rfc3339(head.ends_at),
            promoted: head.promoted,
            created: rfc3339(head.created_at),
            author: head.author.clone(),
            reason: head.reason.clone(),
            warnings,
        }
    }
}
