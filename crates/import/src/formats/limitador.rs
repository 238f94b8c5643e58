//! Limitador's limits: `namespace`, `max_value`, `seconds`, `conditions`, `variables`.
//!
//! All limits of a namespace whose conditions hold apply, and each counts requests per window.

use tidegate_policy::Descriptor;

use super::read_each;
use crate::draft::{Draft, DraftLimit};
use crate::log::ImportLog;
use crate::source::{SourceFields, SourceValue};
use crate::terms::{Decimal, DraftCost, DraftTerms, UnitWindow, pace};

/// Reads a list of limits, or a map with such a list in `limits`.
pub(crate) fn read(root: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    if root.is_list() {
        return read_each(root, draft, log, read_limit);
    }
    let Some(mut document) = SourceFields::open(root, log) else { return };
    match document.take("limits") {
        Some(limits) => read_each(&limits, draft, log, read_limit),
        None => log.problem(root, "there are no limits", "a list of limits"),
    }
    document.finish(log);
}

fn read_limit(item: &SourceValue<'_>, draft: &mut Draft, log: &mut ImportLog) {
    let Some(mut fields) = SourceFields::open(item, log) else { return };
    let namespace = fields.need("namespace", "the domain of the requests", log);
    let namespace = namespace.and_then(|namespace| namespace.text(log));
    let terms = read_terms(&mut fields, log);
    let named = fields.take_any(&["name", "id"]).and_then(|name| Some((name.text(log)?, name)));
    let conditions = fields.take("conditions");
    let variables = fields.take("variables");
    fields.finish(log);
    let (Some(namespace), Some(terms)) = (namespace, terms) else { return };

    let name = match named {
        Some((name, origin)) => draft.claim(&name, &origin, log),
        None => {
            let wanted = format!("{namespace}/limit");
            draft.claim_without_note(&wanted)
        }
    };
    let mut limit = DraftLimit::new(name, terms);
    if limit.terms.cost != DraftCost::One {
        limit.remark("0 requests in the source: a request costs 2, which a limit of 1 never admits.");
    }
    limit.conditions.push(("domain".to_owned(), vec![namespace]));
    for condition in conditions.map(|item| as_list(&item, log)).unwrap_or_default() {
        let Some(text) = condition.text(log) else { continue };
        match equality(&text) {
            Some((name, value)) => add_condition(&mut limit, name, value, &condition, log),
            None => disable(&mut limit, &text, &condition, log),
        }
    }
    for variable in variables.map(|item| as_list(&item, log)).unwrap_or_default() {
        let Some(text) = variable.text(log) else { continue };
        match descriptor(&text) {
            Some(name) if limit.key.contains(&name) => note_repeated(&variable, "variable", log),
            Some(name) => limit.key.push(name),
            None => disable(&mut limit, &text, &variable, log),
        }
    }
    draft.limits.push(limit);
}

fn as_list<'a>(item: &SourceValue<'a>, log: &mut ImportLog) -> Vec<SourceValue<'a>> {
    if item.is_list() { item.list(log) } else { vec![item.clone()] }
}

fn read_terms(fields: &mut SourceFields<'_>, log: &mut ImportLog) -> Option<DraftTerms> {
    let item = fields.item.clone();
    let most = fields.need("max_value", "how many requests a window admits", log);
    let seconds = fields.need("seconds", "the window in seconds", log);
    let most = most.and_then(|most| Some((most.whole(log)?, most)));
    let seconds = seconds.and_then(|seconds| Some((seconds.whole(log)?, seconds)));
    let ((most, origin), (seconds, seconds_origin)) = (most?, seconds?);
    let rate = Decimal::from(most.max(1));
    let pace = pace(rate, UnitWindow::of_seconds(seconds), &seconds_origin, log)?;
    let mut terms = DraftTerms::counter(pace, &origin, log);
    if most == 0 {
        terms.cost = DraftCost::PerCall(2);
        log.note(
            &origin,
            "0 requests become a limit of 1 with a cost of 2",
            "a limit cannot be 0, and a cost above the limit is never admitted",
        );
    }
    terms.checked(&item, log)
}

/// Adds a condition. Two conditions on one descriptor can both hold only if they have the same value.
fn add_condition(
    limit: &mut DraftLimit,
    name: String,
    value: String,
    item: &SourceValue<'_>,
    log: &mut ImportLog,
) {
    match limit.conditions.iter().find(|(known, _)| *known == name) {
        None => limit.conditions.push((name, vec![value])),
        Some((_, values)) if values[..] == [value.clone()] => note_repeated(item, "condition", log),
        Some(_) => disable(limit, &format!("another value of {name}"), item, log),
    }
}

/// Notes what says nothing that the limit does not say already.
fn note_repeated(item: &SourceValue<'_>, kind: &str, log: &mut ImportLog) {
    log.note(item, format!("this {kind} is left out"), "the limit has it already");
}

/// Disables a limit: without one of its conditions it would apply to more requests than before.
fn disable(limit: &mut DraftLimit, text: &str, item: &SourceValue<'_>, log: &mut ImportLog) {
    limit.enabled = false;
    limit.remark(&format!("Disabled: a policy cannot express `{}`.", text.replace(['\n', '\r'], " ")));
    let why = "only conditions x == 'y' and plain variables are supported; the limit is disabled, so that it never \
         applies to more requests than before";
    log.note(item, format!("`{text}` is left out"), why);
}

/// Reads `x == "y"` or `"y" == x`.
fn equality(text: &str) -> Option<(String, String)> {
    let (left, right) = text.split_once("==")?;
    let (left, right) = (left.trim(), right.trim());
    if let (Some(name), Some(value)) = (descriptor(left), quoted(right)) {
        return Some((name, value));
    }
    Some((descriptor(right)?, quoted(left)?))
}

/// The text between two equal quotes, if it contains no quotes or escapes.
fn quoted(text: &str) -> Option<String> {
    let inner = ["'", "\""].iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))?;
    (!inner.contains(['\'', '"', '\\'])).then(|| inner.to_owned())
}

/// The descriptor for a variable: `descriptors[0].user_id`, `descriptors[0]['req.path']` or plain `user_id`.
fn descriptor(text: &str) -> Option<String> {
    let name = match text.strip_prefix("descriptors[0]") {
        Some(rest) => match rest.strip_prefix('.') {
            Some(name) => name.to_owned(),
            None => quoted(rest.strip_prefix('[')?.strip_suffix(']')?.trim())?,
        },
        None => text.to_owned(),
    };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let fits =
        name.chars().all(is_allowed) && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let descriptor = fits.then(|| format!("descriptor:{name}"));
    descriptor.filter(|descriptor| Descriptor::parse(descriptor).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equalities_are_understood_in_every_spelling() {
        for text in [
            "descriptors[0].method == 'GET'",
            "descriptors[0]['method'] == \"GET\"",
            "descriptors[0][\"method\"]=='GET'",
            "method == 'GET'",
            "'GET' == descriptors[0].method",
        ] {
            let want = ("descriptor:method".to_owned(), "GET".to_owned());
            assert_eq!(equality(text), Some(want), "{text}");
        }
        assert_eq!(equality("req.method == 'GET'").unwrap().0, "descriptor:req.method");
    }

    #[test]
    fn other_conditions_are_not() {
        for text in [
            "descriptors[0].method != 'GET'",
            "descriptors[0].size > 10",
            "descriptors[1].method == 'GET'",
            "descriptors[0].a == 'x' || descriptors[0].b == 'y'",
            "descriptors[0].path.startsWith('/a')",
            "descriptors[0].a == descriptors[0].b",
        ] {
            assert_eq!(equality(text), None, "{text}");
        }
    }
}
