//! Reads a text by its table.

use crate::node::{DocumentNode, ValueKind};
use crate::shape::{DocumentPath, ObjectShape, Problems, Shape};
use crate::{Problem, text};

/// Parses a text and checks it against its table. The tree is returned with the problems wherever one could be built,
/// so that its reader can look for further problems. An empty text is no problem here: the reader decides whether the
/// document may be empty.
pub fn read(text: &str, table: &'static ObjectShape) -> (Option<DocumentNode>, Vec<Problem>) {
    let (node, problems) = text::parse_partly(text);
    let mut problems = Problems::new(problems);
    if let Some(node) = &node
        && !matches!(node.kind, ValueKind::Null)
    {
        problems.checker().check(node, &Shape::Object(table), &DocumentPath::Root);
    }
    (node, problems.finish())
}

/// Sorts problems by their position in the text, and fills in what they leave open: what was found there, what is
/// wanted, and a hint.
pub fn complete(problems: &mut [Problem], text: &str) {
    problems.sort_by_key(|problem| problem.at);
    let lines: Vec<&str> = text.lines().collect();
    problems.iter_mut().for_each(|problem| problem.complete(&lines));
}
