//! Documents of other kinds, read with the same care as policies: a table says what one looks like.

use std::net::SocketAddr;

use ipnet::IpNet;
use tidegate_core::Nanos;

use crate::Problem;
use crate::node::{DocumentNode, ValueKind};
use crate::shape::{self, DocumentPath, Problems};
use crate::text;

pub use crate::shape::{DescriptorUse, ObjectShape, Shape, ShapeField, WordShape};

/// Reads a text and holds it against its table. The tree is there wherever one could be made, so
/// that its reader can go on to tell what else is wrong.
pub fn read(text: &str, table: &'static ObjectShape) -> (Option<DocumentNode>, Vec<Problem>) {
    let (node, problems) = text::scan(text);
    let mut problems = Problems::new(problems);
    if let Some(node) = &node
        && !matches!(node.kind, ValueKind::Null)
    {
        problems.checker().check(node, &Shape::Object(table), &DocumentPath::Root);
    }
    (node, problems.finish())
}

/// Puts problems in the order of the text, and fills in what the text says of them.
pub fn complete(problems: &mut [Problem], text: &str) {
    problems.sort_by_key(|problem| problem.at);
    let lines: Vec<&str> = text.lines().collect();
    problems.iter_mut().for_each(|problem| problem.complete(&lines));
}

/// The section of a reference page for each table.
pub fn reference(tables: &[&ObjectShape]) -> String {
    crate::reference::sections(tables)
}

/// A whole number.
pub fn integer(node: &DocumentNode) -> Option<u64> {
    shape::integer(node, 0, u64::MAX).ok()
}

/// A duration.
pub fn duration(node: &DocumentNode) -> Option<Nanos> {
    shape::duration(node, shape::WINDOW_MAX).ok()
}

/// A network, or an address as a network of one.
pub fn network(node: &DocumentNode) -> Option<IpNet> {
    shape::cidr(node).ok()
}

/// Where to listen: `Some(None)` is `off`.
pub fn listen(node: &DocumentNode) -> Option<Option<SocketAddr>> {
    shape::listen(node).ok()
}
