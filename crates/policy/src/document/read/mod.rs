//! Text → [`Document`]: parse, check the shape, then build what was written.
//!
//! An entry with an error is left out, and its problems are told; the others
//! are kept, so that compiling can tell its own problems in the same run.

mod fields;
mod gate;
mod limit;
mod terms;

#[cfg(test)]
mod tests;

use tidegate_document::{DocumentNode, DocumentPath, ObjectShape, Problems, Shape, ValueKind, parse_partly};

use super::table::POLICY;
use super::{Defaults, Document, EntryName};
use crate::{PathSpelling, Problem};

/// Reads a policy and tells everything that is wrong with it, in the order of
/// the text. The document holds what could be read.
pub fn read(text: &str) -> (Document, Vec<Problem>) {
    let (node, problems) = parse_partly(text);
    let mut problems = Problems::new(problems);
    let document = node.map(|node| document(&node, &mut problems)).unwrap_or_default();
    (document, problems.finish())
}

/// Like [`read`], for a tree that is there already.
pub fn read_node(node: &DocumentNode) -> (Document, Vec<Problem>) {
    let mut problems = Problems::default();
    let document = document(node, &mut problems);
    (document, problems.finish())
}

fn document(root: &DocumentNode, problems: &mut Problems) -> Document {
    let mut document = Document::default();
    let place = DocumentPath::Root;
    match &root.kind {
        ValueKind::Map(_) => {}
        ValueKind::Null => {
            let problem = Problems::error(root.at, &place, "the document is empty").want("a policy");
            problems.push(problem.hint("begin with `version: 1`"));
            return document;
        }
        _ => {
            problems.checker().check(root, &Shape::Object(&POLICY), &place);
            return document;
        }
    }
    for (key, child) in root.entries() {
        let here = place.member(&key.value);
        match (POLICY.shape_of(&key.value), &child.kind) {
            (None, _) => _ = problems.checker().unknown(&key.value, key.at, &POLICY, &here),
            (Some(Shape::List(Shape::Object(object))), ValueKind::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    entry(&mut document, &key.value, object, item, &here.item(index), problems);
                }
            }
            (Some(shape), _) => {
                if problems.checker().check(child, shape, &here) {
                    member(&mut document, &key.value, child);
                }
            }
        }
    }
    problems.checker().required(root, &POLICY, &place);
    document
}

/// An entry of a list, kept if it is sound.
fn entry(
    document: &mut Document,
    list: &str,
    object: &'static ObjectShape,
    node: &DocumentNode,
    place: &DocumentPath<'_>,
    problems: &mut Problems,
) {
    let field = if list == "tenants" { "id" } else { "name" };
    if let Some(name) = fields::text(node, field) {
        let named = EntryName { path: place.member(field).to_string(), name };
        match list {
            "limits" | "bursts" => document.names.push(named),
            "tenants" => document.tenant_ids.push(named),
            _ => {}
        }
    }
    let sound = problems.checker().check(node, &Shape::Object(object), place);
    if !matches!(node.kind, ValueKind::Map(_)) {
        return;
    }
    // One that is not sound is read too, for what else is wrong with it, into a
    // document that nobody looks at.
    let mut nowhere = Document::default();
    let document = if sound { document } else { &mut nowhere };
    match list {
        "limits" => document.limits.extend(limit::limit(node, place, problems)),
        "routes" => document.routes.extend(gate::route(node, place)),
        "tenants" => document.tenants.extend(limit::tenant(node, place, problems)),
        "allow" => document.allow.extend(gate::gate(node, place, problems)),
        "block" => document.block.extend(gate::gate(node, place, problems)),
        "bursts" => document.bursts.extend(gate::burst(node, place, problems)),
        list => unreachable!("`{list}` is in the table and not read"),
    }
}

/// A member of the document that is no list of entries.
fn member(document: &mut Document, name: &str, node: &DocumentNode) {
    match name {
        "defaults" => document.defaults = defaults(node),
        "adaptive" => document.trust = fields::flag(node, "trust").unwrap_or_default(),
        _ => {}
    }
}

fn defaults(node: &DocumentNode) -> Defaults {
    let answers = terms::answers(node);
    let paths =
        |name: &str| node.get("paths").and_then(|paths| fields::flag(paths, name)).unwrap_or_default();
    Defaults {
        headers: answers.headers,
        response_headers: answers.response_headers,
        retry_jitter: answers.retry_jitter,
        on_store_error: answers.on_store_error,
        mode: answers.mode,
        deny_unknown_tenants: fields::text(node, "unknown_tenant").is_some_and(|text| text.value == "deny"),
        paths: PathSpelling {
            ignore_case: paths("ignore_case"),
            decode_slash: paths("decode_slash"),
            strip_params: paths("strip_params"),
        },
    }
}
