//! Denials. There are many, so they are not part of the chain.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::session::{SqlRow, SqlSession, SqlValue, values};
use crate::{Database, DatabaseError, UnixMillis};

/// Equal denials of a few seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Violation {
    /// The name of the event.
    pub event: String,
    /// The key of the bucket.
    pub bucket_key: Option<String>,
    /// The user.
    pub user_id: Option<String>,
    /// The address.
    pub ip: Option<IpAddr>,
    /// The route, or the path.
    pub endpoint: Option<String>,
    /// The instant by which lists are ordered: that of the last denial.
    pub requested_at: UnixMillis,
    /// What was left in the bucket.
    pub tokens_at_time: Option<f64>,
    /// The limit. The row gets the number of its rule if there is one.
    pub limit_name: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The client application.
    pub client: Option<String>,
    /// The limit's algorithm.
    pub kind: Option<String>,
    /// Why, as in decisions.
    pub reason: Option<String>,
    /// How many denials.
    pub count: u64,
    /// When the first was.
    pub first: UnixMillis,
    /// When the last was.
    pub last: UnixMillis,
    /// After how long the last of the requests may be repeated.
    pub retry_after_ms: Option<u64>,
    /// The node.
    pub node: Option<String>,
    /// The version of the policy.
    pub policy_version: Option<u64>,
    /// The trace of one of the requests.
    pub trace_id: Option<String>,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct ViolationRow {
    /// Its number.
    pub violation_id: u64,
    /// The number of the rule; `None` for a limit of a tenant.
    pub rule_id: Option<u64>,
    /// What it says.
    pub violation: Violation,
}

const INSERT: &str = "INSERT INTO rate_limit_violations (event, bucket_key, user_id, ip_address, endpoint, requested_at, \
     tokens_at_time, rule_id, limit_name, tenant, client, kind, reason, count, first_at, last_at, retry_after_ms, node, \
     policy_version, trace_id)";
const RULE: &str = "SELECT rule_id FROM rate_limit_rules WHERE limit_name = $1 ORDER BY is_active DESC, rule_id DESC LIMIT 1";

/// Rows that one transaction removes.
const BATCH: i64 = 1_000;
const NEWEST_TOO_MANY: &str = "SELECT requested_at FROM rate_limit_violations \
     ORDER BY requested_at DESC, violation_id DESC LIMIT 1 OFFSET $1";
const REMOVE: &str = "DELETE FROM rate_limit_violations WHERE violation_id IN \
     (SELECT violation_id FROM rate_limit_violations WHERE requested_at < $1 ORDER BY requested_at LIMIT $2)";

impl Database {
    /// Removes the denials from before `older_than`, and the oldest of the others if there are more than `keep`, together
    /// with those of the same instant. Returns how many.
    ///
    /// # Errors
    /// When the database fails; then a part may be removed, and it can be repeated.
    pub async fn trim_violations(&self, older_than: UnixMillis, keep: u64) -> Result<u64, DatabaseError> {
        let too_many = self.within_deadline(self.newest_too_many(keep)).await?;
        let before = too_many.map_or(older_than, |newest| newest.plus(1).max(older_than));
        let mut removed = 0;
        loop {
            let batch = self.within_deadline(self.remove_violations(before)).await?;
            removed += batch;
            if batch == 0 {
                return Ok(removed);
            }
        }
    }

    async fn newest_too_many(&self, keep: u64) -> Result<Option<UnixMillis>, DatabaseError> {
        let mut session = self.reader().await?;
        let row = session.row(NEWEST_TOO_MANY, values![keep]).await?;
        session.release();
        row.map(|row| row.get("requested_at")).transpose()
    }

    async fn remove_violations(&self, before: UnixMillis) -> Result<u64, DatabaseError> {
        let mut session = self.writer().await?;
        let removed = session.execute(REMOVE, values![before, BATCH]).await?;
        session.commit().await?;
        Ok(removed)
    }
}

/// Writes denials in the transaction of `session`.
pub(super) async fn insert(session: &mut SqlSession, violations: &[Violation]) -> Result<(), DatabaseError> {
    let mut rules = HashMap::new();
    let mut rows = Vec::with_capacity(violations.len());
    for violation in violations {
        let rule = rule_of(session, &mut rules, violation.limit_name.as_deref()).await?;
        rows.push(row_values(violation, rule));
    }
    session.insert_rows(INSERT, "", rows).await
}

/// The number of the rule of a limit. `known` has those of the limits that were looked up before.
async fn rule_of<'v>(
    session: &mut SqlSession,
    known: &mut HashMap<&'v str, Option<u64>>,
    limit: Option<&'v str>,
) -> Result<Option<u64>, DatabaseError> {
    let Some(limit) = limit else { return Ok(None) };
    if let Some(rule) = known.get(limit) {
        return Ok(*rule);
    }
    let rule = session.row(RULE, values![limit]).await?.map(|row| row.get("rule_id")).transpose()?;
    known.insert(limit, rule);
    Ok(rule)
}

fn row_values(violation: &Violation, rule: Option<u64>) -> Vec<SqlValue> {
    values![
        &violation.event,
        &violation.bucket_key,
        &violation.user_id,
        violation.ip,
        &violation.endpoint,
        violation.requested_at,
        violation.tokens_at_time.filter(|tokens| !tokens.is_nan()),
        rule,
        &violation.limit_name,
        &violation.tenant,
        &violation.client,
        &violation.kind,
        &violation.reason,
        violation.count,
        violation.first,
        violation.last,
        violation.retry_after_ms,
        &violation.node,
        violation.policy_version,
        &violation.trace_id,
    ]
}

pub(super) fn read_violation(row: &SqlRow) -> Result<ViolationRow, DatabaseError> {
    Ok(ViolationRow {
        violation_id: row.get("violation_id")?,
        rule_id: row.get("rule_id")?,
        violation: Violation {
            event: row.get("event")?,
            bucket_key: row.get("bucket_key")?,
            user_id: row.get("user_id")?,
            ip: row.get("ip_address")?,
            endpoint: row.get("endpoint")?,
            requested_at: row.get("requested_at")?,
            tokens_at_time: row.get("tokens_at_time")?,
            limit_name: row.get("limit_name")?,
            tenant: row.get("tenant")?,
            client: row.get("client")?,
            kind: row.get("kind")?,
            reason: row.get("reason")?,
            count: row.get("count")?,
            first: row.get("first_at")?,
            last: row.get("last_at")?,
            retry_after_ms: row.get("retry_after_ms")?,
            node: row.get("node")?,
            policy_version: row.get("policy_version")?,
            trace_id: row.get("trace_id")?,
        },
    })
}
