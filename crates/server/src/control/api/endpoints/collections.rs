//! Routes about the entries of a collection.

use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;
use tidegate_document::DocumentNode;
use tidegate_policy::{named_entries, with_name};

use crate::control::access::AccessRole;
use crate::control::api::route::Answering;
use crate::control::api::{ApiAnswer, ApiCall, ApiError};
use crate::control::changing;
use crate::control::collection::Collection;
use crate::control::entry_edit::{EntryAction, EntryEdit, not_found, object};
use crate::control::masked_policy::masked_document;
use crate::control::subtree::Sight;
use crate::wire::hex;

fn collection(call: &ApiCall) -> Collection {
    call.collection.expect("the route is one of a collection")
}

/// An entry as the caller may see it, always with its name.
fn shown(call: &ApiCall, node: &DocumentNode, name: &str) -> DocumentNode {
    let node = with_name(node, collection(call).as_str(), name);
    if call.principal().role < AccessRole::Editor { masked_document(&node) } else { node }
}

fn json(node: &DocumentNode) -> Result<Value, ApiError> {
    serde_json::from_str(&node.to_json()).map_err(|_| ApiError::Internal)
}

/// `GET /limits` and the like.
pub(in crate::control::api) fn list(call: ApiCall) -> Answering {
    Box::pin(async move {
        let collection = collection(&call);
        let (running, root) = call.control().document().await.ok_or(ApiError::Internal)?;
        let (sight, parent) = (Sight::of(call.principal(), &root), call.query.get("parent"));
        let is_child = |node: &DocumentNode| {
            parent.is_none_or(|parent| node.get("parent").and_then(DocumentNode::scalar) == Some(parent))
        };
        // Cursors count what the caller sees, so that they tell nothing of the rest.
        let mut entries = named_entries(&root, collection.as_str());
        entries.retain(|entry| sight.sees(collection, entry.node) && is_child(entry.node));
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let start = call.query.get("cursor").map(|cursor| after(&names, cursor)).transpose()?;
        let searched = call.query.get("q").map(str::to_lowercase);
        let (mut items, mut next) = (Vec::new(), None);
        for (index, entry) in entries.iter().enumerate().skip(start.unwrap_or_default()) {
            // What is searched is what is shown: a search must not tell what is hidden.
            let shown = shown(&call, entry.node, &entry.name);
            if searched.as_ref().is_some_and(|text| !shown.to_json().to_lowercase().contains(text)) {
                continue;
            }
            if items.len() == call.query.page_length() {
                next = Some(cursor(index - 1, names[index - 1]));
                break;
            }
            items.push(json(&shown)?);
        }
        Ok(ApiAnswer::list(items, next).version(running.version))
    })
}

/// The cursor of the page after an entry: its index and its name. If the entry is removed meanwhile, the page begins at
/// its index, where its successor then is.
fn cursor(index: usize, name: &str) -> String {
    format!("{index}:{name}")
}

/// The index at which a page begins.
fn after(names: &[&str], cursor: &str) -> Result<usize, ApiError> {
    let wrong = || {
        ApiError::parameter(
            "cursor",
            "use the `next` of the page before, or none for the first page".to_owned(),
        )
    };
    let (index, name) = cursor.split_once(':').ok_or_else(wrong)?;
    let index: usize = index.parse().map_err(|_| wrong())?;
    let known = names.iter().position(|known| *known == name);
    Ok(known.map_or(index, |position| position + 1))
}

/// `GET /limits/{name}` and the like.
pub(in crate::control::api) fn get(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (collection, name) = (collection(&call), call.path.get(0));
        let (running, root) = call.control().document().await.ok_or(ApiError::Internal)?;
        let sight = Sight::of(call.principal(), &root);
        let entries = named_entries(&root, collection.as_str());
        let found = entries.iter().find(|entry| entry.name == name && sight.sees(collection, entry.node));
        let entry = found.ok_or_else(|| not_found(collection, name))?;
        Ok(ApiAnswer::json(&json(&shown(&call, entry.node, name))?).version(running.version))
    })
}

/// `POST /limits` and the like.
pub(in crate::control::api) fn create(call: ApiCall) -> Answering {
    Box::pin(async move {
        let before = call.query.get("before").map(str::to_owned);
        let entry = sent_object(&call).await?;
        if collection(&call) == Collection::Tenants {
            check_unclaimed(&call, &entry).await?;
        }
        change(&call, EntryAction::Create { entry, before, id: new_id()? }).await
    })
}

/// `PUT /limits/{name}` and the like.
pub(in crate::control::api) fn replace(call: ApiCall) -> Answering {
    Box::pin(async move {
        let action = EntryAction::Replace(call.path.get(0).to_owned(), sent_object(&call).await?);
        change(&call, action).await
    })
}

/// `PATCH /limits/{name}` and the like.
pub(in crate::control::api) fn patch(call: ApiCall) -> Answering {
    Box::pin(async move {
        let action = EntryAction::Patch(call.path.get(0).to_owned(), sent_object(&call).await?);
        change(&call, action).await
    })
}

/// `DELETE /limits/{name}` and the like.
pub(in crate::control::api) fn remove(call: ApiCall) -> Answering {
    Box::pin(async move {
        let action = EntryAction::Remove(call.path.get(0).to_owned());
        change(&call, action).await
    })
}

/// The object in the body. A large one takes a while.
async fn sent_object(call: &ApiCall) -> Result<DocumentNode, ApiError> {
    let text = call.text()?.to_owned();
    call.control().run_long(move || object(&text)).await.ok_or(ApiError::Internal)?
}

/// Checks that a restricted caller does not create a tenant of whom there are records or tokens: a tenant that the policy
/// does not list may be in use, and its records would be the caller's to read.
async fn check_unclaimed(call: &ApiCall, entry: &DocumentNode) -> Result<(), ApiError> {
    let id = entry.get("id").and_then(DocumentNode::scalar);
    let (Some(_), Some(id)) = (&call.principal().tenant, id) else { return Ok(()) };
    let database = changing::writable(call.control())?;
    let _turn = call.trial_turn().await?;
    match database.knows_tenant(id).await? {
        false => Ok(()),
        true => Err(ApiError::Conflict(format!(
            "the tenant `{id}` has records or tokens already: a token without a tenant must create it"
        ))),
    }
}

async fn change(call: &ApiCall, action: EntryAction) -> Result<ApiAnswer, ApiError> {
    let edit = EntryEdit { principal: call.principal().clone(), collection: collection(call), action };
    changing::change(call, Box::new(move |text| edit.apply(text))).await
}

/// An id for an entry that has none: 64 random bits, which no other entry has.
fn new_id() -> Result<String, ApiError> {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).map_err(|_| ApiError::Internal)?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_on_after_the_entry_or_at_its_place() {
        let names = ["a", "b", "tenant:c", "d"];
        assert_eq!(after(&names, "2:tenant:c").unwrap(), 3);
        assert_eq!(after(&names[1..], "2:tenant:c").unwrap(), 2, "an earlier entry is gone");
        assert_eq!(after(&names, "2:gone").unwrap(), 2);
        assert!(after(&names, "gone").is_err() && after(&names, "x:a").is_err());
    }
}
