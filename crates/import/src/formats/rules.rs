//! Rows of a rule table: `key_pattern`, `scope`, `rate_per_second`, `burst_capacity`, `plan` ….
//!
//! Each row is a limit. In the source, every active row applies whose plan is null or the plan of the caller, and all
//! of them must admit a request. So do two rows with the same pattern and plan: the table should not have them, but
//! where it has, leaving one out could admit more than before.

use std::collections::BTreeMap;

use super::{path_pattern, read_each};
use crate::draft::{Conditions, Draft, DraftLimit};
use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};
use crate::terms::{DraftTerms, UnitWindow, capacity, pace};

/// What a row limits: its key and its conditions, the plan included. A table has each once.
type Subject = (Vec<String>, Conditions);

/// The rows so far, by subject.
type Rows = BTreeMap<Subject, String>;

/// Reads a list of rows, or a map with such a list in `rules`, `rows` or `RateLimitRule`.
pub(crate) fn read(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let mut rows = Rows::new();
    if root.is_list() {
        return read_each(root, draft, log, |item, draft, log| read_row(item, &mut rows, draft, log));
    }
    let Some(mut document) = SourceFields::open(root, log) else { return };
    match document.take_any(&["rules", "rows", "RateLimitRule"]) {
        Some(list) => read_each(&list, draft, log, |item, draft, log| read_row(item, &mut rows, draft, log)),
        None => log.problem(root, "there are no rows", "a list of rows, or `rules` with one"),
    }
    document.finish(log);
}

fn read_row(item: &SourceValue<'_>, rows: &mut Rows, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut row) = SourceFields::open(item, log) else { return };
    let pattern = row.need("key_pattern", "a pattern such as user:{user_id}", log);
    let pattern = pattern.and_then(|pattern| Some((pattern.text(log)?, pattern)));
    let terms = read_terms(&mut row, log);
    let scope = row.take("scope").and_then(|scope| Some((scope.text(log)?, scope)));
    let plan = row.text("plan", log);
    let active = row.flag("is_active", log).unwrap_or(true);
    let description = row.text("description", log);
    for (column, why) in [
        ("rule_id", "limits are identified by name; each name is made from the pattern and the plan"),
        ("created_at", "a policy has no creation dates"),
    ] {
        if let Some(member) = row.take(column) {
            log.note_once(&member, format!("`{column}` is left out"), why);
        }
    }
    row.finish_once(log);
    let (Some((pattern, origin)), Some(terms)) = (pattern, terms) else { return };
    let Some((key, mut conditions)) = read_pattern(&pattern, &origin, log) else { return };
    if let Some((scope, origin)) = scope {
        check_scope(&scope, &key, &origin, log);
    }
    let mut name = pattern.split(":{").next().unwrap_or_default().to_owned();
    if let Some(plan) = &plan {
        name = format!("{name}:{plan}");
        let what = "rows with the same pattern become independent limits with different `plan` conditions";
        let why = "rows without a plan apply to every caller, so a caller with a plan has both limits";
        log.note_once(&origin, what, why);
        conditions.push(("plan".to_owned(), vec![plan.clone()]));
    }
    note_if_doubled(item, (key.clone(), conditions.clone()), plan.as_deref(), rows, log);
    let name = draft.claim_without_note(&name);
    draft.limits.push(DraftLimit {
        description,
        enabled: active,
        conditions,
        key,
        ..DraftLimit::new(name, terms)
    });
}

/// Notes a row that limits the same as an earlier one.
fn note_if_doubled(
    item: &SourceValue<'_>,
    subject: Subject,
    plan: Option<&str>,
    rows: &mut Rows,
    log: &mut ImportLog,
) {
    let row = format!("`{}` in line {}", item.path, item.at.line);
    if let Some(earlier) = rows.get(&subject) {
        let plan = plan.map_or_else(|| "no plan".to_owned(), |plan| format!("the plan `{plan}`"));
        let what = format!("the rows {earlier} and {row} have the same pattern, and {plan}");
        let why =
            "as in the source, both apply, so the stricter one decides: remove the row that is out of date";
        log.note(item, what, why);
    } else {
        rows.insert(subject, row);
    }
}

fn read_terms(row: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<DraftTerms> {
    let item = row.item.clone();
    let rate = row.need("rate_per_second", "tokens per second, such as 10 or 0.5", log);
    let burst = row.need("burst_capacity", "a whole number of tokens", log);
    let pace = rate.and_then(|rate| pace(rate.positive(log)?, UnitWindow::SECOND, &rate, log));
    let burst = burst.and_then(|burst| capacity(burst.positive(log)?, &burst, log));
    DraftTerms::bucket(pace?, Some(burst?)).checked(&item, log)
}

/// The key and the conditions of a pattern: `user:{user_id}` is for every user, `user:42` for one.
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

/// Notes a scope that contradicts the pattern. The pattern is more specific, so it is used.
fn check_scope(scope: &str, key: &[String], item: &SourceValue<'_>, log: &mut ImportLog) {
    let meant = match key {
        [] => "global",
        [key] if key == "route" => "endpoint",
        [key, ..] => key,
    };
    if scope != meant {
        let what = format!("the scope `{scope}` contradicts the pattern");
        log.note(item, what, format!("the pattern is used, which means `{meant}`"));
    }
}
