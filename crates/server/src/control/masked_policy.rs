//! Policies for readers who may not see secrets: the values that headers, queries and claims are compared with may be
//! credentials, so they are shown as a few characters and a hash.

use std::collections::HashMap;

use tidegate_document::{DocumentNode, JsonText, Span, ValueKind, parse};
use tidegate_policy::{COLLECTIONS, Condition, Descriptor, RuleSet, named_entries, with_name};

use tidegate::engine::masking::{masked, may_be_secret};

/// A document without secrets.
pub(super) fn masked_document(node: &DocumentNode) -> DocumentNode {
    let kind = match &node.kind {
        ValueKind::List(items) => ValueKind::List(items.iter().map(masked_document).collect()),
        ValueKind::Map(members) => {
            let member = |(key, value): &(_, _)| {
                let key: &tidegate_document::Spanned<String> = key;
                let value = if is_secret(&key.value) { masked_values(value) } else { masked_document(value) };
                (key.clone(), value)
            };
            ValueKind::Map(members.iter().map(member).collect())
        }
        scalar => scalar.clone(),
    };
    DocumentNode { kind, at: node.at }
}

/// Is this the name of a condition whose values may be secrets?
fn is_secret(key: &str) -> bool {
    Descriptor::parse(key).is_some_and(|descriptor| may_be_secret(&descriptor))
}

fn masked_values(node: &DocumentNode) -> DocumentNode {
    let kind = match &node.kind {
        ValueKind::List(items) => ValueKind::List(items.iter().map(masked_values).collect()),
        ValueKind::Map(_) => masked_document(node).kind,
        ValueKind::Null => ValueKind::Null,
        _ => ValueKind::Text(masked(node.scalar().unwrap_or_default())),
    };
    DocumentNode { kind, at: node.at }
}

/// The document with secrets masked. Each entry keeps the name that it has in the unmasked document, because a name may be
/// a hash of the content.
pub(super) fn masked_with_names(root: &DocumentNode) -> DocumentNode {
    let mut shown = masked_document(root);
    let ValueKind::Map(members) = &mut shown.kind else { return shown };
    for (key, value) in members.iter_mut().filter(|(key, _)| COLLECTIONS.contains(&key.value.as_str())) {
        let ValueKind::List(items) = &mut value.kind else { continue };
        for (item, entry) in items.iter_mut().zip(named_entries(root, &key.value)) {
            *item = with_name(item, &key.value, &entry.name);
        }
    }
    shown
}

/// The text of a policy without secrets. Where only scalars have to be replaced, everything else stays as it was
/// written; else it is the same value as JSON.
pub(super) fn masked_text(text: &str) -> String {
    let Ok(root) = parse(text) else { return String::new() };
    let shown = masked_document(&root);
    if shown.same_value(&root) {
        return text.to_owned();
    }
    let mut places = Vec::new();
    differing(&root, &shown, &mut places);
    let replaced = replaced(text, places);
    match parse(&replaced) {
        Ok(seen) if seen.same_value(&shown) => replaced,
        _ => shown.to_json() + "\n",
    }
}

/// The scalars that differ, and their new texts.
fn differing<'n>(old: &DocumentNode, new: &'n DocumentNode, places: &mut Vec<(Span, &'n str)>) {
    match (&old.kind, &new.kind) {
        (ValueKind::List(old), ValueKind::List(new)) => {
            old.iter().zip(new).for_each(|(old, new)| differing(old, new, places));
        }
        (ValueKind::Map(old), ValueKind::Map(new)) => {
            old.iter().zip(new).for_each(|((_, old), (_, new))| differing(old, new, places));
        }
        (old_kind, ValueKind::Text(text)) if *old_kind != new.kind => places.push((old.at, text)),
        _ => {}
    }
}

/// The text with some places replaced, as strings in quotes. The places are in the order of the text.
fn replaced(text: &str, places: Vec<(Span, &str)>) -> String {
    let mut places = places.into_iter().peekable();
    let mut out = String::with_capacity(text.len());
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let mut chars = line.chars();
        let mut column = 1;
        while let Some((span, new)) = places.next_if(|(span, _)| span.line == number) {
            out.extend(chars.by_ref().take(span.column.saturating_sub(column) as usize));
            out.push_str(&JsonText::new(new).to_string());
            let skipped = chars.by_ref().take(span.length as usize).count() as u32;
            column = span.column + skipped;
        }
        out.push_str(chars.as_str());
    }
    out
}

/// The conditions of a policy whose values may be secrets, as decisions are explained with them, and how they are shown.
pub(super) fn masked_conditions(rules: &RuleSet) -> HashMap<String, String> {
    let gates = [rules.allow(), rules.block()];
    let of_gates = gates.into_iter().flat_map(|gate| gate.entries()).flat_map(|entry| &entry.conditions);
    let of_limits = rules.limits().iter().flat_map(|rule| rule.conditions.iter().chain(&rule.unless));
    of_gates.chain(of_limits).filter_map(masked_condition).collect()
}

fn masked_condition(condition: &Condition) -> Option<(String, String)> {
    let Condition::Value(descriptor, values) = condition else { return None };
    let shown: Vec<String> = values.iter().map(|value| masked(value)).collect();
    let shown = match &shown[..] {
        [one] => format!("{descriptor}: {one}"),
        several => format!("{descriptor}: [{}]", several.join(", ")),
    };
    may_be_secret(descriptor).then(|| (condition.to_string(), shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_stays_as_written() {
        let text = "version: 1 # one\nallow:\n- { \"header:x-api-key\": secret-key-1, reason: partner } # keep\n\
                    - jwt:sub: [ 'someone else', 12345678 ]\n  user: secret-key-1\nlimits:\n\
                    - { name: a, key: [\"header:x-api-key\"], match: { query:token: \"gh\\u00e9imn\u{e9}\" }, sustained: { rate: 1 } }\n";
        let shown = masked_text(text);
        for secret in ["{ \"header:x-api-key\": secret-key-1", "someone else", "12345678", "gh"] {
            assert!(
                !shown.contains(&format!("{secret} ")) && !shown.contains(&format!("{secret}\"")),
                "{shown}"
            );
        }
        assert!(shown.starts_with("version: 1 # one\nallow:\n- { \"header:x-api-key\": \"secr…#"), "{shown}");
        assert!(
            shown.contains(", reason: partner } # keep\n") && shown.contains("user: secret-key-1\n"),
            "{shown}"
        );
        let (old, new) = (parse(text).unwrap(), parse(&shown).unwrap());
        assert!(new.same_value(&masked_document(&old)));
        assert_eq!(masked_text("version: 1 # as it is\n"), "version: 1 # as it is\n");
        // A text that cannot be replaced in place becomes JSON.
        let folded = masked_text("block:\n- header:x-a: >\n    two\n    lines\n");
        assert_eq!(folded.chars().next(), Some('{'), "{folded}");
        assert!(!folded.contains("lines"), "{folded}");
    }
}
