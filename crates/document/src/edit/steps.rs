//! The steps of an edit: each changes one place of a text.

use super::EditError;
use super::change::{Container, begin_list, set_value};
use super::layout::{Element, Form, Piece, json_layout, yaml_layout};
use super::lines::{apply, column, line_start};
use super::style::Style;
use crate::text::is_json;
use crate::{DocumentNode, Span, Spanned, ValueKind};

/// The path to a value: the names of members and the numbers of items.
pub(super) type ValuePath = Vec<PathPart>;

#[derive(Clone, Debug)]
pub(super) enum PathPart {
    Member(String),
    Item(usize),
}

/// A change of one place.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Inserts an entry into a top-level list that has others.
    Insert(String, usize, DocumentNode),
    /// Writes the first entry of a top-level list that is null or empty.
    Begin(String, DocumentNode),
    /// Adds a member to a map.
    Add(ValuePath, String, DocumentNode),
    /// Replaces a value.
    Set(ValuePath, DocumentNode),
    /// Removes an item or a member.
    Remove(ValuePath),
}

/// The steps that make one value of another. Maps are descended; anything else is replaced.
pub(super) fn between(old: &DocumentNode, new: &DocumentNode, path: &mut ValuePath, steps: &mut Vec<Step>) {
    if old.same_value(new) {
        return;
    }
    if old.entries().is_empty() || new.entries().is_empty() {
        steps.push(Step::Set(path.clone(), new.clone()));
        return;
    }
    for (key, value) in new.entries() {
        match old.get(&key.value) {
            None => steps.push(Step::Add(path.clone(), key.value.clone(), value.clone())),
            Some(known) => {
                path.push(PathPart::Member(key.value.clone()));
                between(known, value, path, steps);
                path.pop();
            }
        }
    }
    // Last, so that a map is never empty in between.
    for (key, _) in old.entries().iter().filter(|(key, _)| new.get(&key.value).is_none()) {
        let mut path = path.clone();
        path.push(PathPart::Member(key.value.clone()));
        steps.push(Step::Remove(path));
    }
}

/// A text between two steps.
pub(super) struct EditedText {
    /// The byte order mark, or nothing.
    mark: &'static str,
    text: String,
    root: DocumentNode,
    is_json: bool,
}

/// A value in its text.
struct Found<'p> {
    node: &'p DocumentNode,
    piece: &'p Piece,
    holder: Option<&'p Element>,
}

impl EditedText {
    pub(super) fn new(text: &str, root: &DocumentNode) -> EditedText {
        let (mark, text) = match text.strip_prefix('\u{feff}') {
            Some(text) => ("\u{feff}", text),
            None => ("", text),
        };
        EditedText { mark, text: text.to_owned(), root: root.clone(), is_json: is_json(text) }
    }

    pub(super) fn into_text(self) -> String {
        format!("{}{}", self.mark, self.text)
    }

    /// Takes a step in the text and in the tree.
    pub(super) fn take(&mut self, step: &Step) -> Result<(), EditError> {
        let layout = if self.is_json {
            Some(json_layout(&self.text))
        } else {
            yaml_layout(&self.text).map_err(|refused| self.unsupported(refused.0))?
        };
        self.text = self.write(step, layout.as_ref())?;
        match step {
            Step::Add(path, name, value) => {
                if let ValueKind::Map(members) = &mut self.node_mut(path).kind {
                    members.push((Spanned::new(name.clone(), Span::default()), value.clone()));
                }
            }
            Step::Set(path, value) => *self.node_mut(path) = value.clone(),
            Step::Remove(path) => self.remove_node(path),
            // No step follows one of these.
            Step::Insert(..) | Step::Begin(..) => {}
        }
        Ok(())
    }

    fn write(&self, step: &Step, root: Option<&Piece>) -> Result<String, EditError> {
        let style = Style::of(&self.text, root, self.is_json);
        let Some(root) = root else { return Ok(self.write_first(step, &style)) };
        let container = |path: &[PathPart]| {
            let Found { node, piece, holder } = self.find(root, path)?;
            let is_map = matches!(node.kind, ValueKind::Map(_));
            Ok(Container { text: &self.text, style: &style, piece, holder, is_map })
        };
        let splices = match step {
            Step::Insert(list, index, entry) => {
                container(&[PathPart::Member(list.clone())])?.insert(*index, None, entry)
            }
            Step::Begin(list, entry) => {
                let path = [PathPart::Member(list.clone())];
                let container = container(&path)?;
                match (container.holder, &container.piece.form) {
                    (Some(holder), _) if root.is_block() => begin_list(&self.text, &style, holder, entry),
                    (_, Form::Flow(_)) => container.insert(0, None, entry),
                    (holder, _) => {
                        let list = DocumentNode::new(ValueKind::List(vec![entry.clone()]));
                        holder.map(|holder| set_value(&self.text, &style, holder, &list)).unwrap_or_default()
                    }
                }
            }
            Step::Add(path, name, value) => {
                let container = container(path)?;
                container.insert(container.piece.elements().len(), Some(name), value)
            }
            Step::Set(path, value) => {
                let holder = self.find(root, path)?.holder.ok_or_else(|| self.unsupported(root.start))?;
                set_value(&self.text, &style, holder, value)
            }
            Step::Remove(path) => {
                let (part, above) = path.split_last().ok_or_else(|| self.unsupported(root.start))?;
                let index = index_of(self.find(root, above)?.node, part);
                container(above)?.remove(index.ok_or_else(|| self.unsupported(root.start))?)
            }
        };
        Ok(apply(&self.text, &splices))
    }

    /// Writes the first member of a document that has no value yet.
    fn write_first(&self, step: &Step, style: &Style) -> String {
        let Step::Add(_, name, value) = step else { return self.text.clone() };
        let items: Vec<String> =
            value.items().iter().map(|item| style.item(item, style.dash_indent, 2)).collect();
        let break_line = style.break_to(style.dash_indent);
        let gap = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { style.newline };
        let (text, newline) = (&self.text, style.newline);
        format!("{text}{gap}{}:{break_line}{}{newline}", style.text(name), items.join(&break_line))
    }

    /// Finds a value. The tree and the layout have the same children in the same order.
    fn find<'p>(&'p self, root: &'p Piece, path: &[PathPart]) -> Result<Found<'p>, EditError> {
        let mut found = Found { node: &self.root, piece: root, holder: None };
        for part in path {
            let index = index_of(found.node, part);
            let element = index.and_then(|index| found.piece.elements().get(index));
            let (Some(index), Some(element)) = (index, element) else {
                return Err(self.unsupported(found.piece.start));
            };
            let node = match &found.node.kind {
                ValueKind::Map(members) => &members[index].1,
                _ => &found.node.items()[index],
            };
            found = Found { node, piece: &element.value, holder: Some(element) };
        }
        Ok(found)
    }

    fn node_mut(&mut self, path: &[PathPart]) -> &mut DocumentNode {
        let mut node = &mut self.root;
        for part in path {
            let index = index_of(node, part).expect("the step was taken in the text, so the value is there");
            node = match &mut node.kind {
                ValueKind::Map(members) => &mut members[index].1,
                ValueKind::List(items) => &mut items[index],
                _ => unreachable!("a scalar has no index"),
            };
        }
        node
    }

    fn remove_node(&mut self, path: &[PathPart]) {
        let Some((part, above)) = path.split_last() else { return };
        let node = self.node_mut(above);
        let index = index_of(node, part);
        match (&mut node.kind, index) {
            (ValueKind::Map(members), Some(index)) => _ = members.remove(index),
            (ValueKind::List(items), Some(index)) => _ = items.remove(index),
            _ => {}
        }
    }

    fn unsupported(&self, byte: usize) -> EditError {
        let line = self.text[..line_start(&self.text, byte)].matches('\n').count() + 1;
        let number = |n: usize| u32::try_from(n).expect("a text has less than 2³² characters");
        let column = number(column(&self.text, byte) + 1);
        EditError::Unsupported { at: Span { line: number(line), column, length: 1 } }
    }
}

/// The index of a member or an item.
fn index_of(node: &DocumentNode, part: &PathPart) -> Option<usize> {
    match part {
        PathPart::Member(name) => node.entries().iter().position(|(key, _)| key.value == *name),
        PathPart::Item(index) => (*index < node.items().len()).then_some(*index),
    }
}
