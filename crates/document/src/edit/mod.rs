//! Edits entries of a document in its text. Comments, order, quotes and blank lines of everything else stay as they
//! are, byte for byte.

mod block;
mod change;
mod error;
mod flow;
mod layout;
mod lines;
mod steps;
mod style;
mod write;

#[cfg(test)]
mod tests;

pub use error::EditError;

use crate::{DocumentNode, Span, Spanned, ValueKind, merge_patch, parse};
use steps::{EditedText, PathPart, Step};

/// A document and its text, in which entries of top-level lists are added, changed and removed.
///
/// New entries follow the style of their neighbours. After each edit the new text is parsed again; if its value is not
/// the intended one, the edit fails and nothing has changed.
///
/// ```
/// use tidegate_document::{DocumentEditor, parse};
///
/// let mut editor = DocumentEditor::new("limits:\n  # everyone\n  - name: a # one\n    rate: 1\n")?;
/// editor.patch("limits", 0, &parse(r#"{"rate": 2}"#).expect("it is valid"))?;
/// editor.insert("limits", 1, &parse(r#"{"name": "b"}"#).expect("it is valid"))?;
/// assert_eq!(editor.text(), "limits:\n  # everyone\n  - name: a # one\n    rate: 2\n  - name: b\n");
/// # Ok::<(), tidegate_document::EditError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DocumentEditor {
    /// With its byte order mark, if there is one.
    text: String,
    root: DocumentNode,
}

impl DocumentEditor {
    /// Parses a text.
    ///
    /// # Errors
    /// [`EditError::Invalid`] with the problems of the text.
    pub fn new(text: impl Into<String>) -> Result<DocumentEditor, EditError> {
        let text = text.into();
        let root = parse(&text).map_err(EditError::Invalid)?;
        Ok(DocumentEditor { text, root })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The text and its value.
    pub fn into_parts(self) -> (String, DocumentNode) {
        (self.text, self.root)
    }

    /// The value of the text.
    pub fn root(&self) -> &DocumentNode {
        &self.root
    }

    /// Inserts an entry before another one, or after the last if `index` is their number. The list may be absent.
    ///
    /// # Errors
    /// See [`EditError`].
    pub fn insert(&mut self, list: &str, index: usize, entry: &DocumentNode) -> Result<(), EditError> {
        let items = self.items(list)?;
        if index > items.len() {
            return Err(EditError::NotFound { path: format!("{list}[{index}]") });
        }
        let mut items = items.to_vec();
        items.insert(index, entry.clone());
        let step = match (self.root.get(list), items.len()) {
            (None, _) => Step::Add(Vec::new(), list.to_owned(), node_list(&items)),
            (Some(_), 1) => Step::Begin(list.to_owned(), entry.clone()),
            (Some(_), _) => Step::Insert(list.to_owned(), index, entry.clone()),
        };
        self.edit(list, index, items, &[step])
    }

    /// Gives an entry another value. Only the members that differ are touched.
    ///
    /// # Errors
    /// See [`EditError`].
    pub fn replace(&mut self, list: &str, index: usize, entry: &DocumentNode) -> Result<(), EditError> {
        let mut items = self.items(list)?.to_vec();
        let Some(old) = items.get_mut(index) else {
            return Err(EditError::NotFound { path: format!("{list}[{index}]") });
        };
        let mut steps = Vec::new();
        steps::between(old, entry, &mut entry_path(list, index), &mut steps);
        *old = entry.clone();
        self.edit(list, index, items, &steps)
    }

    /// Applies a merge patch (RFC 7396) to an entry. Only the members that it changes are touched.
    ///
    /// # Errors
    /// See [`EditError`].
    pub fn patch(&mut self, list: &str, index: usize, patch: &DocumentNode) -> Result<(), EditError> {
        let merged = merge_patch(self.items(list)?.get(index), patch);
        self.replace(list, index, &merged)
    }

    /// Removes an entry, with the comments directly above it. A list without entries stays as `[]`.
    ///
    /// # Errors
    /// See [`EditError`].
    pub fn remove(&mut self, list: &str, index: usize) -> Result<(), EditError> {
        let mut items = self.items(list)?.to_vec();
        if index >= items.len() {
            return Err(EditError::NotFound { path: format!("{list}[{index}]") });
        }
        items.remove(index);
        self.edit(list, index, items, &[Step::Remove(entry_path(list, index))])
    }

    /// The entries of a list, which may be absent or null.
    fn items(&self, list: &str) -> Result<&[DocumentNode], EditError> {
        if !matches!(self.root.kind, ValueKind::Map(_) | ValueKind::Null) {
            return Err(EditError::NotAList { path: list.to_owned() });
        }
        match self.root.get(list).map(|node| &node.kind) {
            None | Some(ValueKind::Null) => Ok(&[]),
            Some(ValueKind::List(items)) => Ok(items),
            Some(_) => Err(EditError::NotAList { path: list.to_owned() }),
        }
    }

    /// Takes steps in the text, and keeps the result if it has the intended value.
    fn edit(
        &mut self,
        list: &str,
        index: usize,
        items: Vec<DocumentNode>,
        steps: &[Step],
    ) -> Result<(), EditError> {
        let mut draft = EditedText::new(&self.text, &self.root);
        for step in steps {
            draft.take(step)?;
        }
        let text = draft.into_text();
        let root = parse(&text).map_err(|problems| match text.len() > crate::TEXT_BYTES_MAX {
            true => EditError::Invalid(problems),
            false => EditError::Mismatch { path: format!("{list}[{index}]") },
        })?;
        let mut members = self.root.entries().to_vec();
        match members.iter_mut().find(|(key, _)| key.value == list) {
            Some((_, value)) => *value = node_list(&items),
            None => members.push((Spanned::new(list.to_owned(), Span::default()), node_list(&items))),
        }
        if !root.same_value(&DocumentNode::new(ValueKind::Map(members))) {
            return Err(EditError::Mismatch { path: format!("{list}[{index}]") });
        }
        (self.text, self.root) = (text, root);
        Ok(())
    }
}

fn entry_path(list: &str, index: usize) -> Vec<PathPart> {
    vec![PathPart::Member(list.to_owned()), PathPart::Item(index)]
}

fn node_list(items: &[DocumentNode]) -> DocumentNode {
    DocumentNode::new(ValueKind::List(items.to_vec()))
}
