//! What differs between two policies, entry by entry.

use std::collections::HashMap;
use std::fmt::Write;

use tidegate_document::{DocumentNode, DocumentPath, JsonText, ValueKind};

use super::moves::out_of_order;
use super::{COLLECTIONS, NamedEntry, named_entries};

/// A difference between two policies.
#[derive(Clone, Debug)]
pub struct PolicyChange {
    /// The top-level field: `limits`, `defaults`.
    pub field: String,
    /// The entry of that list; `None` for a field that is no list of entries.
    pub name: Option<String>,
    /// What happened to it.
    pub change: EntryChange,
}

/// What happened to an entry, or to a top-level field.
#[derive(Clone, Debug)]
pub enum EntryChange {
    /// It is only in the new policy.
    Added(DocumentNode),
    /// It is only in the old policy.
    Removed(DocumentNode),
    /// It is in both, with other content.
    Changed(Vec<MemberChange>),
    /// It has another place among the entries of its list. The order decides which limit of a group applies, and which
    /// route.
    Moved {
        /// Its index in the old policy.
        from: usize,
        /// Its index in the new policy.
        to: usize,
    },
}

/// A member that differs.
#[derive(Clone, Debug)]
pub struct MemberChange {
    /// The path in the entry: `sustained.rate`. Empty if the whole value differs.
    pub path: String,
    /// The old value; `None` if there was none.
    pub before: Option<DocumentNode>,
    /// The new value; `None` if there is none.
    pub after: Option<DocumentNode>,
}

/// What differs between two policies, by the trees of their documents. Comments, the order of members and the spelling
/// of numbers make no difference. An entry that is both moved and changed is listed twice.
pub fn policy_changes(old: &DocumentNode, new: &DocumentNode) -> Vec<PolicyChange> {
    let mut changes = Vec::new();
    let only_new = new.entries().iter().filter(|(key, _)| old.get(&key.value).is_none());
    let fields = old.entries().iter().chain(only_new).map(|(key, _)| key.value.as_str());
    for field in fields {
        if COLLECTIONS.contains(&field) {
            entries(field, &named_entries(old, field), &named_entries(new, field), &mut changes);
        } else {
            let change = match (old.get(field), new.get(field)) {
                (Some(old), Some(new)) => changed(old, new),
                (Some(old), None) => Some(EntryChange::Removed(old.clone())),
                (None, Some(new)) => Some(EntryChange::Added(new.clone())),
                (None, None) => None,
            };
            changes.extend(change.map(|change| PolicyChange { field: field.to_owned(), name: None, change }));
        }
    }
    changes
}

fn entries(field: &str, old: &[NamedEntry<'_>], new: &[NamedEntry<'_>], changes: &mut Vec<PolicyChange>) {
    let mut push = |name: &str, change: EntryChange| {
        changes.push(PolicyChange { field: field.to_owned(), name: Some(name.to_owned()), change });
    };
    let new_index: HashMap<&str, usize> =
        new.iter().enumerate().map(|(index, entry)| (entry.name.as_str(), index)).collect();
    let mut common = Vec::new();
    for (index, entry) in old.iter().enumerate() {
        match new_index.get(entry.name.as_str()) {
            Some(found) => common.push((index, *found)),
            None => push(&entry.name, EntryChange::Removed(entry.node.clone())),
        }
    }
    let places: Vec<usize> = common.iter().map(|(_, to)| *to).collect();
    for (&(from, to), is_moved) in common.iter().zip(out_of_order(&places)) {
        if let Some(change) = changed(old[from].node, new[to].node) {
            push(&old[from].name, change);
        }
        if is_moved {
            push(&old[from].name, EntryChange::Moved { from, to });
        }
    }
    let old_names: HashMap<&str, ()> = old.iter().map(|entry| (entry.name.as_str(), ())).collect();
    for entry in new.iter().filter(|entry| !old_names.contains_key(entry.name.as_str())) {
        push(&entry.name, EntryChange::Added(entry.node.clone()));
    }
}

/// The members that differ; `None` if none does.
fn changed(old: &DocumentNode, new: &DocumentNode) -> Option<EntryChange> {
    let mut changes = Vec::new();
    members(Some(old), Some(new), &DocumentPath::Root, &mut changes);
    (!changes.is_empty()).then_some(EntryChange::Changed(changes))
}

fn members(
    old: Option<&DocumentNode>,
    new: Option<&DocumentNode>,
    path: &DocumentPath<'_>,
    changes: &mut Vec<MemberChange>,
) {
    match (old, new) {
        (Some(a), Some(b)) if a.same_value(b) => {}
        (Some(a), Some(b)) if is_map(a) && is_map(b) => {
            for (key, value) in a.entries() {
                members(Some(value), b.get(&key.value), &path.member(&key.value), changes);
            }
            for (key, value) in b.entries().iter().filter(|(key, _)| a.get(&key.value).is_none()) {
                members(None, Some(value), &path.member(&key.value), changes);
            }
        }
        _ => changes.push(MemberChange { path: path.to_string(), before: old.cloned(), after: new.cloned() }),
    }
}

fn is_map(node: &DocumentNode) -> bool {
    matches!(node.kind, ValueKind::Map(_))
}

impl PolicyChange {
    /// The change as JSON: `{"field","name","change"}` with `after`, `before`, `members` or `from` and `to`.
    ///
    /// ```
    /// use tidegate_document::parse;
    ///
    /// let old = parse("limits: [{ name: a, sustained: { rate: 1 } }]").expect("it is valid");
    /// let new = parse("limits: [{ name: a, sustained: { rate: 2 } }]").expect("it is valid");
    /// assert_eq!(
    ///     tidegate_policy::policy_changes(&old, &new)[0].to_json(),
    ///     r#"{"field":"limits","name":"a","change":"changed","members":[{"path":"sustained.rate","before":1,"after":2}]}"#
    /// );
    /// ```
    pub fn to_json(&self) -> String {
        let mut json = format!("{{\"field\":{}", JsonText::new(&self.field));
        self.write_rest(&mut json).expect("writing to a String does not fail");
        json
    }

    fn write_rest(&self, json: &mut String) -> std::fmt::Result {
        if let Some(name) = &self.name {
            write!(json, ",\"name\":{}", JsonText::new(name))?;
        }
        match &self.change {
            EntryChange::Added(node) => write!(json, ",\"change\":\"added\",\"after\":{}}}", node.to_json()),
            EntryChange::Removed(node) => {
                write!(json, ",\"change\":\"removed\",\"before\":{}}}", node.to_json())
            }
            EntryChange::Moved { from, to } => {
                write!(json, ",\"change\":\"moved\",\"from\":{from},\"to\":{to}}}")
            }
            EntryChange::Changed(members) => {
                let members: Vec<String> = members.iter().map(MemberChange::to_json).collect();
                write!(json, ",\"change\":\"changed\",\"members\":[{}]}}", members.join(","))
            }
        }
    }
}

impl MemberChange {
    /// The change as JSON: `{"path","before","after"}`; a value that is absent is left out.
    pub fn to_json(&self) -> String {
        let side = |name: &str, node: &Option<DocumentNode>| {
            node.as_ref().map(|node| format!(",\"{name}\":{}", node.to_json())).unwrap_or_default()
        };
        let (before, after) = (side("before", &self.before), side("after", &self.after));
        format!("{{\"path\":{}{before}{after}}}", JsonText::new(&self.path))
    }
}
