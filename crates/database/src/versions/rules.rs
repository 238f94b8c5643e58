//! The table of rules: the limits of the active version as rows that people can read.

use std::collections::BTreeMap;

use crate::session::{SqlRow, SqlSession, SqlValue, stored_text, values};
use crate::{DatabaseError, UnixMillis};

/// A limit as a row.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleRow {
    /// The pattern of the keys. A second limit of the same pattern and plan gets `#` and its name appended.
    pub key_pattern: String,
    /// Whom it counts: user, endpoint, global, ip and so on.
    pub scope: String,
    /// How many tokens come back in a second.
    pub rate_per_second: f64,
    /// How many there can be.
    pub burst_capacity: i64,
    /// The plan that it is for; `None`: all.
    pub plan: Option<String>,
    /// What the document says about it.
    pub description: Option<String>,
    /// The name of the limit in the document.
    pub limit_name: String,
}

/// What makes a row one and the same through all versions.
type RuleKey = (String, Option<String>);

const ACTIVE: &str = "SELECT key_pattern, scope, rate_per_second, burst_capacity, plan, description, limit_name \
                      FROM rate_limit_rules WHERE is_active";
const INSERT: &str = "INSERT INTO rate_limit_rules (key_pattern, scope, rate_per_second, burst_capacity, plan, \
                      description, limit_name, is_active, created_at)";
const UPDATE: &str = "ON CONFLICT (key_pattern, coalesce(plan, '')) DO UPDATE SET scope = excluded.scope, rate_per_second = excluded.rate_per_second, \
                      burst_capacity = excluded.burst_capacity, description = excluded.description, \
                      limit_name = excluded.limit_name, is_active = excluded.is_active";

/// Makes `rules` the active rows. Rows that are not among them become inactive; those that were there before keep their
/// number.
pub(super) async fn project(
    session: &mut SqlSession,
    rules: Vec<RuleRow>,
    now: UnixMillis,
) -> Result<(), DatabaseError> {
    let wanted = by_key(rules);
    let active = session.rows(ACTIVE, vec![]).await?;
    let active = by_key(active.iter().map(read_rule).collect::<Result<_, _>>()?);
    let gone = active.iter().filter(|(key, _)| !wanted.contains_key(key)).map(|(_, rule)| (rule, false));
    let changed =
        wanted.iter().filter(|(key, rule)| active.get(key) != Some(rule)).map(|(_, rule)| (rule, true));
    let rows: Vec<Vec<SqlValue>> =
        gone.chain(changed).map(|(rule, is_active)| row_values(rule, is_active, now)).collect();
    session.insert_rows(INSERT, UPDATE, rows).await
}

fn row_values(rule: &RuleRow, is_active: bool, now: UnixMillis) -> Vec<SqlValue> {
    values![
        &rule.key_pattern,
        &rule.scope,
        rule.rate_per_second,
        rule.burst_capacity,
        &rule.plan,
        &rule.description,
        &rule.limit_name,
        is_active,
        now,
    ]
}

/// The rows by what must be unique about them.
fn by_key(rules: Vec<RuleRow>) -> BTreeMap<RuleKey, RuleRow> {
    let mut rows = BTreeMap::new();
    for mut rule in rules {
        // The values as the tables can hold them: an empty plan counts as no plan, and NaN, which SQLite cannot store, as 0.
        rule.key_pattern = stored_text(&rule.key_pattern);
        rule.plan = rule.plan.filter(|plan| !plan.is_empty()).map(|plan| stored_text(&plan));
        if rule.rate_per_second.is_nan() {
            rule.rate_per_second = 0.0;
        }
        if rows.contains_key(&(rule.key_pattern.clone(), rule.plan.clone())) {
            rule.key_pattern = format!("{}#{}", rule.key_pattern, rule.limit_name);
        }
        rows.insert((rule.key_pattern.clone(), rule.plan.clone()), rule);
    }
    rows
}

fn read_rule(row: &SqlRow) -> Result<RuleRow, DatabaseError> {
    Ok(RuleRow {
        key_pattern: row.get("key_pattern")?,
        scope: row.get("scope")?,
        rate_per_second: row.get("rate_per_second")?,
        burst_capacity: row.get("burst_capacity")?,
        plan: row.get("plan")?,
        description: row.get("description")?,
        limit_name: row.get("limit_name")?,
    })
}
