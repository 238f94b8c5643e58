//! Routes about what happened: events, the audit, violations.

use http::Method;
use serde::Serialize;
use serde_json::Value;
use tidegate_database::{
    AuditEntry, AuditRow, ChainReport, Database, HistoryFilter, HistoryRow, PageRequest, Paged, ViolationRow,
};
use utoipa::ToSchema;

use crate::control::access::AccessRole;
use crate::control::api::query::{PAGE, QueryField, QueryKind};
use crate::control::api::route::{Answering, ApiRoute, RouteAccess, TenantRule};
use crate::control::api::shape::{AnswerShape, JsonShape, text_or_object};
use crate::control::api::{ApiAnswer, ApiCall, ApiError, rfc3339};
use crate::control::startup::unix_millis;
use crate::observe::EventName;
use crate::wire::hex;

/// Something that happened.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct RecordedEvent {
    /// When it happened last.
    time: String,
    /// What happened.
    event: String,
    /// How grave it is: `info`, `warning`, `error`.
    severity: String,
    /// How often it happened.
    count: u64,
    /// When it happened first.
    first: String,
    /// When it happened last.
    last: String,
    /// The number of the entry in the audit. Tokens that are restricted to a tenant do not see it, nor `violation_id` and
    /// `hash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    /// The number of the violation.
    #[serde(skip_serializing_if = "Option::is_none")]
    violation_id: Option<u64>,
    /// The number of the limit's rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_id: Option<u64>,
    /// Who did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    /// The user.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The client application.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<String>,
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// The key of the bucket or the detector; of values that may be secrets a few characters and a hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The limit or the detector.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    /// The limit's algorithm, or what was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The route, or the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    /// What was left in the bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    /// After how long a denied request may be repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The version of the policy in force, or the one that a change made.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_version: Option<u64>,
    /// The trace of one of the requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    /// Of a change: the difference that it made. What another program has written there is a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = text_or_object)]
    detail: Option<Value>,
    /// When the personal data were erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    erased: Option<String>,
    /// The hash of the audit up to this entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
}

/// What a verification of the audit found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditVerification {
    /// Is every entry as it was written?
    valid: bool,
    /// How many entries were verified.
    entries: u64,
    /// Of how many of them the personal data were erased.
    erased: u64,
    /// The first entry that is kept.
    first: u64,
    /// The last entry that was verified.
    last: u64,
    /// The hash of that entry. Whoever writes it down elsewhere can prove later what the audit was.
    hash: String,
    /// The first entry that is not as it was written.
    broken: Option<BrokenEntry>,
}

/// An entry of the audit that is not as it was written.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BrokenEntry {
    /// Its number.
    seq: u64,
    /// What is wrong with it.
    why: &'static str,
}

/// The filters of all lists of events.
static FILTERS: &[QueryField] = &[
    QueryField {
        name: "since",
        kind: QueryKind::Time,
        about: "Only what happened last at this time or later.",
    },
    QueryField { name: "until", kind: QueryKind::Time, about: "Only what happened last before this time." },
    QueryField {
        name: "actor",
        kind: QueryKind::Text,
        about: "Only what this actor did. Denials have none.",
    },
    QueryField { name: "tenant", kind: QueryKind::Text, about: "Only events of this tenant." },
    QueryField { name: "user", kind: QueryKind::Text, about: "Only events of this user." },
    QueryField { name: "ip", kind: QueryKind::Text, about: "Only events of this address." },
    QueryField { name: "limit_name", kind: QueryKind::Text, about: "Only events of this limit or detector." },
    QueryField { name: "kind", kind: QueryKind::Text, about: "Only events of this name or kind." },
];

static LIST_QUERY: &[&[QueryField]] = &[PAGE, FILTERS];

/// The routes.
pub(in crate::control::api) fn routes() -> Vec<ApiRoute> {
    let list = |path, about, handler| {
        let answer = AnswerShape::List(JsonShape::of::<RecordedEvent>());
        let access = RouteAccess::Role(AccessRole::Viewer, TenantRule::Subtree);
        ApiRoute { query: LIST_QUERY, ..ApiRoute::new(Method::GET, path, access, about, answer, handler) }
    };
    vec![
        list("/events", "Denials, changes and security events, newest first.", events),
        list("/audit", "Changes and security events, newest first.", audit),
        ApiRoute {
            access: RouteAccess::Role(AccessRole::Viewer, TenantRule::Whole),
            query: &[],
            answer: AnswerShape::Json(JsonShape::of::<AuditVerification>()),
            ..list(
                "/audit/verify",
                "Whether every entry of the audit is as it was written, and the first that is not.",
                verify,
            )
        },
        list("/violations", "Denials, newest first.", violations),
    ]
}

/// `GET /events`
fn events(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (filter, page) = wanted(&call)?;
        let Paged { items, next } = database(&call, "events")?.events(&filter, &page).await?;
        Ok(list(&call, items.into_iter().map(RecordedEvent::from), next))
    })
}

/// `GET /audit`
fn audit(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (filter, page) = wanted(&call)?;
        let Paged { items, next } = database(&call, "audit entries")?.audit(&filter, &page).await?;
        Ok(list(&call, items.into_iter().map(RecordedEvent::from), next))
    })
}

/// `GET /violations`
fn violations(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (filter, page) = wanted(&call)?;
        let Paged { items, next } = database(&call, "violations")?.violations(&filter, &page).await?;
        Ok(list(&call, items.into_iter().map(RecordedEvent::from), next))
    })
}

/// `GET /audit/verify`
fn verify(call: ApiCall) -> Answering {
    Box::pin(async move {
        let database = database(&call, "audit entries")?;
        let records = call.control().records().ok_or(ApiError::Internal)?;
        let busy = || ApiError::TooMany {
            detail: "the audit is being verified for somebody else; repeat the call later".to_owned(),
            retry_after: 10,
        };
        let _permit = records.verify_permit().ok_or_else(busy)?;
        Ok(ApiAnswer::json(&AuditVerification::from(database.verify(|_, _| {}).await?)))
    })
}

fn database<'c>(call: &'c ApiCall, what: &str) -> Result<&'c Database, ApiError> {
    call.control().database().ok_or_else(|| ApiError::needs_database(what))
}

fn list(call: &ApiCall, items: impl Iterator<Item = RecordedEvent>, next: Option<String>) -> ApiAnswer {
    let is_restricted = call.principal().tenant.is_some();
    let value = |item: RecordedEvent| {
        // Numbers that count the records of all tenants tell how many the others have.
        let item = match is_restricted {
            true => RecordedEvent { seq: None, violation_id: None, hash: None, ..item },
            false => item,
        };
        serde_json::to_value(item).expect("a record is plain JSON")
    };
    ApiAnswer::list(items.map(value).collect(), next)
}

/// The filter and the page that a call asks for.
fn wanted(call: &ApiCall) -> Result<(HistoryFilter, PageRequest), ApiError> {
    let text = |name: &str| call.query.get(name).map(str::to_owned);
    let time = |name: &str| call.query.time(name).map(unix_millis);
    let not_an_address = |_| ApiError::parameter("ip", "it must be an address such as 192.0.2.7".to_owned());
    let ip = call.query.get("ip").map(str::parse::<std::net::IpAddr>).transpose().map_err(not_an_address)?;
    let visible = call.principal().visible_tenants(call.node.limiter().rules().tenants());
    let tenants = match (text("tenant"), visible) {
        (None, visible) => visible,
        (Some(tenant), Some(visible)) if !visible.contains(&tenant) => Some(Vec::new()),
        (Some(tenant), _) => Some(vec![tenant]),
    };
    let filter = HistoryFilter {
        since: time("since"),
        until: time("until"),
        actor: text("actor"),
        tenants,
        user: text("user"),
        ip: ip.map(|ip| ip.to_canonical()),
        limit_name: text("limit_name"),
        kind: text("kind"),
        text: text("q"),
    };
    let limit = u32::try_from(call.query.page_length()).unwrap_or(u32::MAX);
    Ok((filter, PageRequest { limit, cursor: text("cursor") }))
}

impl From<HistoryRow> for RecordedEvent {
    fn from(row: HistoryRow) -> RecordedEvent {
        match row {
            HistoryRow::Audit(row) => row.into(),
            HistoryRow::Violation(row) => row.into(),
        }
    }
}

impl From<AuditRow> for RecordedEvent {
    fn from(row: AuditRow) -> RecordedEvent {
        let AuditRow { seq, entry, hash, erased_at } = row;
        let AuditEntry { personal, .. } = entry;
        // What another program has written there is shown as text.
        let detail = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
        RecordedEvent {
            time: rfc3339(entry.time),
            event: entry.event,
            severity: entry.severity,
            count: entry.count,
            first: rfc3339(entry.first),
            last: rfc3339(entry.last),
            seq: Some(seq),
            actor: entry.actor,
            user: personal.user_id,
            client: personal.client,
            ip: personal.ip,
            tenant: personal.tenant,
            key: personal.bucket_key,
            limit: entry.limit_name,
            kind: entry.kind,
            reason: entry.reason,
            endpoint: entry.endpoint,
            remaining: entry.remaining,
            retry_after_ms: entry.retry_after_ms,
            node: entry.node,
            policy_version: entry.policy_version,
            trace_id: entry.trace_id,
            detail: personal.detail.map(detail),
            erased: erased_at.map(rfc3339),
            hash: Some(hex(&hash)),
            ..RecordedEvent::default()
        }
    }
}

impl From<ViolationRow> for RecordedEvent {
    fn from(row: ViolationRow) -> RecordedEvent {
        let ViolationRow { violation_id, rule_id, violation } = row;
        let name = EventName::ALL.into_iter().find(|name| name.as_str() == violation.event);
        RecordedEvent {
            time: rfc3339(violation.requested_at),
            severity: name.unwrap_or(EventName::RateLimitExceeded).severity().as_str().to_owned(),
            event: violation.event,
            count: violation.count,
            first: rfc3339(violation.first),
            last: rfc3339(violation.last),
            violation_id: Some(violation_id),
            rule_id,
            user: violation.user_id,
            client: violation.client,
            ip: violation.ip.map(|ip| ip.to_string()),
            tenant: violation.tenant,
            key: violation.bucket_key,
            limit: violation.limit_name,
            kind: violation.kind,
            reason: violation.reason,
            endpoint: violation.endpoint,
            remaining: violation.tokens_at_time.map(|tokens| tokens as u64),
            retry_after_ms: violation.retry_after_ms,
            node: violation.node,
            policy_version: violation.policy_version,
            trace_id: violation.trace_id,
            ..RecordedEvent::default()
        }
    }
}

impl From<ChainReport> for AuditVerification {
    fn from(report: ChainReport) -> AuditVerification {
        AuditVerification {
            valid: report.broken.is_none(),
            entries: report.entries,
            erased: report.erased,
            first: report.first_kept,
            last: report.last,
            hash: hex(&report.hash),
            broken: report.broken.map(|broken| BrokenEntry { seq: broken.seq, why: broken.why }),
        }
    }
}
