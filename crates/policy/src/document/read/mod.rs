//! Reads a text into a [`Document`]: parses it, checks it against the tables, then builds the entries.
//!
//! An entry with an error is reported and left out. The others are kept, so that compiling can report its own problems
//! in the same run.

mod fields;
mod gate;
mod limit;
mod tenant;
mod terms;
mod upstream;

#[cfg(test)]
mod tests;

use tidegate_document::{DocumentNode, DocumentPath, ObjectShape, Problems, Shape, ValueKind, parse_partly};

use super::table::{self, POLICY};
use super::{Defaults, Document, EntryName, name_field};
use crate::{Descriptor, PathSpelling, Problem};

/// Reads a policy and returns every problem, in the order of the text. The document has the entries without errors.
pub fn read(text: &str) -> (Document, Vec<Problem>) {
    let (node, problems) = parse_partly(text);
    let mut problems = Problems::new(problems);
    let document = node.map(|node| document(&node, &mut problems)).unwrap_or_default();
    (document, problems.finish())
}

/// Like [`read`], for a tree that is already parsed.
pub fn read_node(node: &DocumentNode) -> (Document, Vec<Problem>) {
    let mut problems = Problems::default();
    let document = document(node, &mut problems);
    (document, problems.finish())
}

fn document(root: &DocumentNode, problems: &mut Problems) -> Document {
    let mut document = Document::default();
    let path = DocumentPath::Root;
    match &root.kind {
        ValueKind::Map(_) => {}
        ValueKind::Null => {
            let problem = Problems::error(root.at, &path, "the document is empty").want("a policy");
            problems.push(problem.hint("begin with `version: 1`"));
            return document;
        }
        _ => {
            problems.checker().check(root, &Shape::Object(&POLICY), &path);
            return document;
        }
    }
    for (key, child) in root.entries() {
        let here = path.member(&key.value);
        match (POLICY.shape_of(&key.value), &child.kind) {
            (None, _) => _ = problems.checker().unknown(&key.value, key.at, &POLICY, &here),
            (Some(Shape::List(Shape::Object(object))), ValueKind::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    entry(&mut document, &key.value, object, item, &here.item(index), problems);
                }
            }
            (Some(shape), _) => {
                if problems.checker().check(child, shape, &here) {
                    terms::check_families(child, &here, problems);
                    member(&mut document, &key.value, child);
                }
            }
        }
    }
    problems.checker().required(root, &POLICY, &path);
    document
}

/// Reads an entry of a list, and keeps it if it has no errors.
fn entry(
    document: &mut Document,
    list: &str,
    object: &'static ObjectShape,
    node: &DocumentNode,
    path: &DocumentPath<'_>,
    problems: &mut Problems,
) {
    if let Some(field) = name_field(list)
        && let Some(name) = fields::text(node, field)
    {
        let named = EntryName { path: path.member(field).to_string(), name };
        match list {
            "limits" | "bursts" => document.names.push(named),
            "tenants" => document.tenant_ids.push(named),
            "upstreams" => document.upstream_names.push(named),
            "routes" => document.route_ids.push(named),
            "allow" => document.allow_ids.push(named),
            "block" => document.block_ids.push(named),
            _ => {}
        }
    }
    let is_valid = problems.checker().check(node, &Shape::Object(object), path);
    if !matches!(node.kind, ValueKind::Map(_)) {
        return;
    }
    // An entry with errors is read too, to find its other problems, but into a document that is dropped.
    let mut discarded = Document::default();
    let document = if is_valid { document } else { &mut discarded };
    match list {
        "limits" => document.limits.extend(limit::limit(node, path, problems)),
        "routes" => document.routes.extend(gate::route(node, path, problems)),
        "tenants" => document.tenants.extend(tenant::tenant(node, path, problems)),
        "upstreams" => document.upstreams.extend(upstream::upstream(node, path)),
        "allow" => document.allow.extend(gate::gate(node, path, problems)),
        "block" => document.block.extend(gate::gate(node, path, problems)),
        "bursts" => document.bursts.extend(gate::burst(node, path, problems)),
        list => unreachable!("`{list}` is in the table, but nothing reads it"),
    }
}

/// Reads a member of the document that is not a list of entries.
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
        tenant: fields::text(node, "tenant"),
        priority: priority(node),
        paths: PathSpelling {
            ignore_case: paths("ignore_case"),
            decode_slash: paths("decode_slash"),
            strip_params: paths("strip_params"),
        },
    }
}

/// The descriptor of `defaults.priority.from`.
fn priority(defaults: &DocumentNode) -> Option<Descriptor> {
    table::descriptor(defaults.get("priority")?.get("from")?).ok()
}
