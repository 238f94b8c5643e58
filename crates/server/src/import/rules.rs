//! Rows of a rule table: `key_pattern`, `scope`, `rate_per_second`, `burst_capacity`, `plan` ….
//!
//! Every row that is active and whose plan is the caller's, or null, applies: the rows are limits
//! of their own, and all of them must admit.

use super::decimal::UnitWindow;
use super::draft::{Conditions, Draft, DraftLimit};
use super::item::{SourceFields, SourceValue};
use super::log::ImportLog;
use super::terms::{DraftTerms, capacity, pace};
use super::{each_of, path_pattern};

/// Reads a list of rows, or a map that holds one as its only list.
pub(super) fn read(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    if root.is_list() {
        return each_of(root, draft, log, read_row);
    }
    let Some(mut document) = SourceFields::open(root, log) else { return };
    match document.take_any(&["rules", "rows", "RateLimitRule"]) {
        Some(rows) => each_of(&rows, draft, log, read_row),
        None => log.problem(root, "there are no rows", "a list of rows, or `rules` with one"),
    }
    document.finish(log);
}

fn read_row(item: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut row) = SourceFields::open(item, log) else { return };
    let pattern = row.need("key_pattern", "a pattern such as user:{user_id}", log);
    let pattern = pattern.and_then(|pattern| Some((pattern.text(log)?, pattern)));
    let terms = read_terms(&mut row, log);
    let scope = row.take("scope").and_then(|scope| Some((scope.text(log)?, scope)));
    let plan = row.text("plan", log);
    let active = row.flag("is_active", log).unwrap_or(true);
    let description = row.text("description", log);
    for (column, why) in [
        ("rule_id", "limits are known by name; the names are made of the pattern and the plan"),
        ("created_at", "the history of a policy is kept outside of it"),
    ] {
        if let Some(member) = row.take(column) {
            log.note_once(&member, format!("`{column}` is left out of every row"), why);
        }
    }
    row.finish(log);
    let (Some((pattern, place)), Some(terms)) = (pattern, terms) else { return };
    let Some((key, mut conditions)) = read_pattern(&pattern, &place, log) else { return };
    if let Some((scope, place)) = scope {
        check_scope(&scope, &key, &place, log);
    }
    let mut name = pattern.split(":{").next().unwrap_or_default().to_owned();
    if let Some(plan) = plan {
        name = format!("{name}:{plan}");
        let what = "rows of one pattern are independent limits, told apart by `plan`";
        let why = "the caller's plan and the rows without a plan all apply: a caller with a plan meets both";
        log.note_once(&place, what, why);
        conditions.push(("plan".to_owned(), vec![plan]));
    }
    let name = draft.claim_quietly(&name);
    draft.limits.push(DraftLimit {
        description,
        enabled: active,
        conditions,
        key,
        ..DraftLimit::new(name, terms)
    });
}

fn read_terms(row: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<DraftTerms> {
    let item = row.item.clone();
    let rate = row.need("rate_per_second", "tokens per second, such as 10 or 0.5", log);
    let burst = row.need("burst_capacity", "a whole number of tokens", log);
    let pace = rate.and_then(|rate| pace(rate.positive(log)?, UnitWindow::SECOND, &rate, log));
    let burst = burst.and_then(|burst| capacity(burst.positive(log)?, &burst, log));
    DraftTerms::bucket(pace?, Some(burst?)).checked(&item, log)
}

/// What a pattern is a key of, and for whom: `user:{user_id}` for everybody, `user:42` for one.
fn read_pattern(
    pattern: &str,
    item: &SourceValue<'_>,
    log: &mut ImportLog,
) -> Option<(Vec<String>, Conditions)> {
    let (kind, value) = pattern.split_once(':').unwrap_or((pattern, ""));
    let descriptor = match kind {
        "global" if value.is_empty() => return Some((Vec::new(), Vec::new())),
        "user" => "user",
        "ip" => "ip",
        "endpoint" | "ep" => "route",
        _ => {
            let want = "user:{user_id}, ip:{ip}, endpoint:/a/path or global";
            log.problem(item, "this pattern is not known", want);
            return None;
        }
    };
    let key = vec![descriptor.to_owned()];
    let is_variable = value.starts_with('{') && value.ends_with('}') && value.matches('{').count() == 1;
    if value.is_empty() || is_variable {
        return Some((key, Vec::new()));
    }
    if value.contains(['{', '}']) {
        log.problem(item, "this pattern is not known", "one variable, as in user:{user_id}");
        return None;
    }
    let condition = match descriptor {
        "route" => ("path".to_owned(), vec![path_pattern(value, item, log)?]),
        descriptor => (descriptor.to_owned(), vec![value.to_owned()]),
    };
    Some((key, vec![condition]))
}

/// The pattern says more than the scope; where they disagree it is the pattern that is used.
fn check_scope(scope: &str, key: &[String], item: &SourceValue<'_>, log: &mut ImportLog) {
    let meant = match key {
        [] => "global",
        [key] if key == "route" => "endpoint",
        [key, ..] => key,
    };
    if scope != meant {
        let what = format!("the scope `{scope}` is not what the pattern says");
        log.note(item, what, format!("the limit goes by the pattern: `{meant}`"));
    }
}
