//! Edits of one entry of a collection, in the text of a policy.

use tidegate_document::{DocumentEditor, DocumentNode, EditError, ValueKind, merge_patch};
use tidegate_policy::{entry_index, name_field, named_entries, with_name};

use super::access::Principal;
use super::api::{ApiError, PREFIX};
use super::changing::Edited;
use super::collection::Collection;
use super::subtree::Sight;

/// An edit of one entry.
#[derive(Debug)]
pub(crate) struct EntryEdit {
    /// Who makes it.
    pub(crate) principal: Principal,
    /// The collection.
    pub(crate) collection: Collection,
    /// What is done.
    pub(crate) action: EntryAction,
}

/// What is done to an entry.
#[derive(Debug)]
pub(crate) enum EntryAction {
    /// A new entry, before another one or at the end. The id is written if the entry has no name and may go without.
    Create { entry: DocumentNode, before: Option<String>, id: String },
    /// Another value for the entry of this name.
    Replace(String, DocumentNode),
    /// A merge patch for the entry of this name.
    Patch(String, DocumentNode),
    /// The entry of this name is removed.
    Remove(String),
}

impl EntryEdit {
    /// Edits a text.
    ///
    /// # Errors
    /// When an entry is not found or its name is taken, when the caller may not do it, and when the text cannot be edited.
    pub(crate) fn apply(&self, text: &str) -> Result<Edited, ApiError> {
        let mut editor = DocumentEditor::new(text).map_err(refused)?;
        let before = editor.root().clone();
        let sight = Sight::of(&self.principal, &before);
        let (name, location) = match &self.action {
            EntryAction::Create { entry, before, id } => {
                let name = self.create(&mut editor, &sight, (entry, before.as_deref(), id))?;
                let location = format!("{PREFIX}/{}/{}", self.collection.as_str(), encoded(&name));
                (Some(name), Some(location))
            }
            EntryAction::Replace(name, entry) => {
                self.check_same_name(name, entry)?;
                self.replace(&mut editor, &sight, name, |_| entry.clone())?;
                (Some(name.clone()), None)
            }
            EntryAction::Patch(name, patch) => {
                self.check_same_name(name, patch)?;
                self.replace(&mut editor, &sight, name, |entry| merge_patch(Some(entry), patch))?;
                (Some(name.clone()), None)
            }
            EntryAction::Remove(name) => {
                let index = self.find(editor.root(), &sight, name)?;
                sight.check_editable(self.collection, name)?;
                editor.remove(self.list(), index).map_err(refused)?;
                (None, None)
            }
        };
        let tenant = name.filter(|_| self.collection == Collection::Tenants);
        let restricted = self.principal.tenant.is_some().then(|| self.principal.clone());
        let (text, after) = editor.into_parts();
        Ok(Edited { text, before: Some(before), after: Some(after), location, tenant, restricted })
    }

    fn list(&self) -> &'static str {
        self.collection.as_str()
    }

    /// The index of an entry that the caller sees.
    fn find(&self, root: &DocumentNode, sight: &Sight, name: &str) -> Result<usize, ApiError> {
        let index = entry_index(root, self.list(), name);
        let entries = root.get(self.list()).map(DocumentNode::items).unwrap_or_default();
        let seen = index.filter(|index| sight.sees(self.collection, &entries[*index]));
        seen.ok_or_else(|| not_found(self.collection, name))
    }

    fn create(
        &self,
        editor: &mut DocumentEditor,
        sight: &Sight,
        (entry, before, id): (&DocumentNode, Option<&str>, &str),
    ) -> Result<String, ApiError> {
        let field = name_field(self.list()).expect("every collection names its entries");
        let entry = if self.collection.has_optional_ids() {
            with_name(entry, self.list(), id)
        } else {
            entry.clone()
        };
        // Without a name, the check of the whole policy says what is missing.
        let name = entry.get(field).and_then(DocumentNode::scalar).unwrap_or_default().to_owned();
        sight.check_written(self.collection, &entry)?;
        let is_taken =
            |collection: &Collection| entry_index(editor.root(), collection.as_str(), &name).is_some();
        if let Some(taken) = self.collection.sharing_names().iter().find(|collection| is_taken(collection)) {
            return Err(ApiError::Conflict(format!("there is already a {} `{name}`", taken.entry())));
        }
        let index = match before {
            Some(before) => self.find(editor.root(), sight, before)?,
            None => named_entries(editor.root(), self.list()).len(),
        };
        editor.insert(self.list(), index, &entry).map_err(refused)?;
        Ok(name)
    }

    fn replace(
        &self,
        editor: &mut DocumentEditor,
        sight: &Sight,
        name: &str,
        new: impl Fn(&DocumentNode) -> DocumentNode,
    ) -> Result<(), ApiError> {
        let index = self.find(editor.root(), sight, name)?;
        sight.check_editable(self.collection, name)?;
        let entries = editor.root().get(self.list()).map(DocumentNode::items).unwrap_or_default();
        let old = &entries[index];
        let new = new(old);
        // An entry that is not changed stays as it is written, with or without an id.
        if new.same_value(old) || new.same_value(&with_name(old, self.list(), name)) {
            return Ok(());
        }
        let new = with_name(&new, self.list(), name);
        sight.check_written(self.collection, &new)?;
        editor.replace(self.list(), index, &new).map_err(refused)
    }

    /// Checks that the body does not name another entry than the path.
    fn check_same_name(&self, name: &str, body: &DocumentNode) -> Result<(), ApiError> {
        let field = name_field(self.list()).expect("every collection names its entries");
        match body.get(field) {
            Some(written) if written.scalar() != Some(name) => Err(ApiError::Unprocessable {
                detail: format!(
                    "`{field}` must be `{name}`, as in the path, or be left out: to rename an entry, create another \
                     one and delete this one"
                ),
                pointer: format!("/{field}"),
                more: serde_json::Value::Null,
            }),
            _ => Ok(()),
        }
    }
}

/// Checks that a body is a JSON object.
///
/// # Errors
/// When it is not.
pub(crate) fn object(text: &str) -> Result<DocumentNode, ApiError> {
    let node = tidegate_document::parse_json(text).map_err(|problems| {
        let first = problems.first().map(ToString::to_string).unwrap_or_default();
        ApiError::body("", format!("it is not JSON: {first}"))
    })?;
    match node.kind {
        ValueKind::Map(_) => Ok(node),
        _ => Err(ApiError::body("", format!("it must be a JSON object, and is {}", node.kind_name()))),
    }
}

/// 404 for an entry.
pub(crate) fn not_found(collection: Collection, name: &str) -> ApiError {
    ApiError::NotFound { what: collection.entry(), name: name.chars().take(256).collect() }
}

/// A name as a segment of a path.
pub(crate) fn encoded(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn refused(error: EditError) -> ApiError {
    match error {
        EditError::Invalid(problems) => ApiError::Problems(problems),
        other => ApiError::Conflict(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::access::AccessRole;

    const TEXT: &str = "version: 1
limits:
- { name: all, key: [user], sustained: { rate: 1 } }
- { name: ours, key: [user], match: { tenant: [t, low] }, sustained: { rate: 1 } }
allow:
- { id: theirs, tenant: other }
tenants:
- { id: root }
- { id: t, parent: root }
- { id: low, parent: t }
- { id: other, parent: root }
";

    /// The status of an edit by a token that is restricted to the tenant `t`.
    fn status(collection: Collection, action: EntryAction) -> u16 {
        let principal = Principal {
            actor: "token:1".into(),
            role: AccessRole::Editor,
            tenant: Some("t".into()),
            expires: None,
        };
        let edit = EntryEdit { principal, collection, action };
        edit.apply(TEXT).map_or_else(|error| error.status().as_u16(), |_| 200)
    }

    fn node(text: &str) -> DocumentNode {
        tidegate_document::parse(text).expect("a document")
    }

    fn create(collection: Collection, entry: &str) -> u16 {
        create_before(collection, entry, None)
    }

    fn create_before(collection: Collection, entry: &str, before: Option<&str>) -> u16 {
        let (entry, before) = (node(entry), before.map(str::to_owned));
        status(collection, EntryAction::Create { entry, before, id: "1".to_owned() })
    }

    fn patch(collection: Collection, name: &str, patch: &str) -> u16 {
        status(collection, EntryAction::Patch(name.to_owned(), node(patch)))
    }

    #[test]
    fn a_restricted_token_edits_what_lies_inside_and_nothing_gets_out() {
        use Collection::{Allow, Limits, Routes, Tenants};
        // Its own node is its parent's to edit, what lies outside is not found.
        for (name, expected) in [("low", 200), ("t", 403), ("other", 404), ("root", 404), ("nobody", 404)] {
            assert_eq!(patch(Tenants, name, "{ enabled: true }"), expected, "{name}");
            assert_eq!(status(Tenants, EntryAction::Remove(name.to_owned())), expected, "{name}");
            let entry = node("{ parent: t, enabled: true }");
            assert_eq!(status(Tenants, EntryAction::Replace(name.to_owned(), entry)), expected, "{name}");
        }
        assert_eq!(patch(Tenants, "low", "{ parent: root }"), 403);
        assert_eq!(patch(Tenants, "low", "{ parent: null }"), 403);
        assert_eq!(create(Tenants, "{ id: new, parent: low }"), 200);
        assert_eq!(create(Tenants, "{ id: new, parent: root }"), 403);
        assert_eq!(create(Tenants, "{ id: new }"), 403);
        assert_eq!(patch(Limits, "ours", "{ sustained: { rate: 2 } }"), 200);
        assert_eq!(patch(Limits, "ours", "{ match: { tenant: [t, other] } }"), 403);
        assert_eq!(patch(Limits, "ours", "{ match: null }"), 403);
        assert_eq!(patch(Limits, "all", "{ sustained: { rate: 2 } }"), 404);
        assert_eq!(create_before(Limits, "{ name: new, match: { tenant: low } }", Some("ours")), 200);
        assert_eq!(create_before(Limits, "{ name: new, match: { tenant: low } }", Some("all")), 404);
        assert_eq!(create(Allow, "{ tenant: low }"), 200);
        assert_eq!(create(Allow, "{ ip: 10.0.0.1 }"), 403);
        assert_eq!(status(Allow, EntryAction::Remove("theirs".to_owned())), 404);
        assert_eq!(create(Routes, "{ path: /a }"), 403);
    }

    #[test]
    fn a_new_entry_that_needs_no_name_gets_the_id() {
        let principal = Principal::admin();
        let action = EntryAction::Create { entry: node("{ path: /a }"), before: None, id: "f00".to_owned() };
        let edited = EntryEdit { principal, collection: Collection::Routes, action }.apply(TEXT).unwrap();
        assert_eq!(edited.location.as_deref(), Some("/api/v1/routes/f00"));
        assert!(edited.text.contains("id: f00"), "{}", edited.text);
        assert_eq!(edited.tenant, None);
    }
}
