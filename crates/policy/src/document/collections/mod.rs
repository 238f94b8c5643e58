//! The entries of a policy's lists by name, and what differs between two policies: for tools that show or edit a policy
//! entry by entry. They work on the tree of a document, because that has every field as it was written.

mod difference;
mod moves;

#[cfg(test)]
mod tests;

pub use difference::{EntryChange, MemberChange, PolicyChange, policy_changes};

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use tidegate_document::{DocumentNode, ValueKind};

/// The lists of a policy whose entries have a name.
pub const COLLECTIONS: &[&str] = &["limits", "routes", "upstreams", "allow", "block", "bursts", "tenants"];

/// How many bytes of the hash name an entry. Two entries of a list of 100,000 share a name by chance once in four
/// billion lists; they then differ by a suffix.
const HASH_BYTES: usize = 8;

/// An entry of a list.
#[derive(Clone, Debug)]
pub struct NamedEntry<'d> {
    /// Its name, unique in its list: the written one, or a hash of its content.
    pub name: String,
    /// The entry as it was written.
    pub node: &'d DocumentNode,
}

/// The field that names the entries of a list; `None` for what is not in [`COLLECTIONS`].
pub fn name_field(collection: &str) -> Option<&'static str> {
    match collection {
        "limits" | "upstreams" | "bursts" => Some("name"),
        "tenants" | "routes" | "allow" | "block" => Some("id"),
        _ => None,
    }
}

/// The entries of a list, in the order of the text. An entry without a written name is named by the first 16 digits of
/// the SHA-256 of its content as JSON; further entries with the same content by that and `-2`, `-3` and so on.
///
/// ```
/// let policy = tidegate_document::parse("routes: [{ id: chat, path: /chat, cost: 10 }, { path: /models }]").expect("it
/// is valid"); let routes = tidegate_policy::named_entries(&policy, "routes"); assert_eq!(routes[0].name, "chat");
/// assert_eq!(routes[1].name.len(), 16);
/// ```
pub fn named_entries<'d>(policy: &'d DocumentNode, collection: &str) -> Vec<NamedEntry<'d>> {
    let Some(field) = name_field(collection) else { return Vec::new() };
    let entries = policy.get(collection).map(DocumentNode::items).unwrap_or_default();
    let written = |node: &DocumentNode| node.get(field).and_then(DocumentNode::scalar).map(str::to_owned);
    // How often a name occurred so far. Written names count from the start: a hash must not take one.
    let mut seen: HashMap<String, u32> = entries.iter().filter_map(written).map(|name| (name, 1)).collect();
    let mut hashed = |node: &DocumentNode| {
        let hash = content_id(node);
        loop {
            let count = seen.entry(hash.clone()).and_modify(|count| *count += 1).or_insert(1);
            let name = if *count == 1 { hash.clone() } else { format!("{hash}-{count}") };
            if name == hash || !seen.contains_key(&name) {
                return name;
            }
        }
    };
    let named = |node| NamedEntry { name: written(node).unwrap_or_else(|| hashed(node)), node };
    entries.iter().map(named).collect()
}

/// The index of an entry in its list.
pub fn entry_index(policy: &DocumentNode, collection: &str, name: &str) -> Option<usize> {
    named_entries(policy, collection).iter().position(|entry| entry.name == name)
}

/// The id of an entry without a written one: a hash of its content. The order of its members and the spelling of its
/// numbers do not change it.
pub fn content_id(node: &DocumentNode) -> String {
    let hash = Sha256::digest(node.to_canonical_json());
    hash[..HASH_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sets the name of an entry that has none.
pub fn with_name(entry: &DocumentNode, collection: &str, name: &str) -> DocumentNode {
    let mut entry = entry.clone();
    if let (Some(field), ValueKind::Map(members)) = (name_field(collection), &mut entry.kind)
        && members.iter().all(|(key, _)| key.value != field)
    {
        let key = crate::Spanned::new(field.to_owned(), crate::Span::default());
        members.insert(0, (key, DocumentNode::new(ValueKind::Text(name.to_owned()))));
    }
    entry
}
