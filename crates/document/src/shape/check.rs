//! Checks a tree against a table. Every problem is reported; none stops the check.

use crate::node::{DocumentNode, ValueKind};
use crate::text::shorten;
use crate::{Problem, Span};

use super::{DocumentPath, ObjectShape, Problems, Shape, ValueFault, hints, value};

/// Checks values and adds what is wrong to a collection of [`Problems`].
#[derive(Debug)]
pub struct Checker<'p> {
    problems: &'p mut Problems,
}

impl Problems {
    /// A checker that adds to this collection.
    pub fn checker(&mut self) -> Checker<'_> {
        Checker { problems: self }
    }
}

impl Checker<'_> {
    /// Reports what keeps a node from having this shape; `true` if nothing does.
    pub fn check(&mut self, node: &DocumentNode, shape: &Shape, path: &DocumentPath<'_>) -> bool {
        match shape {
            Shape::Object(object) => self.object(node, object, shape, path),
            Shape::ObjectOr(object, _) if matches!(node.kind, ValueKind::Map(_)) => {
                self.object(node, object, shape, path)
            }
            Shape::ObjectOr(object, other) => match value::check(node, other) {
                Ok(()) => true,
                // A scalar that fits the map's shorthand field was meant as the map.
                Err(_) if hints::is_shorthand(node, object) => {
                    self.wrong_kind(node, shape, path, hints::object(node, path.name(), object))
                }
                Err(fault) => self.fault(node, shape, path, fault),
            },
            Shape::List(item) => match &node.kind {
                ValueKind::List(items) => self.items(items, item, path),
                _ => self.wrong_kind(node, shape, path, hints::list(node, path.name())),
            },
            Shape::OneOrMore(item) => match &node.kind {
                ValueKind::List(items) if items.is_empty() && !matches!(item, Shape::Word(_)) => {
                    let problem = Problems::error(node.at, path, "an empty list matches nothing");
                    self.report(
                        problem.want(shape.wanted()).hint("leave the field out, or name at least one value"),
                    )
                }
                ValueKind::List(items) => self.items(items, item, path),
                _ => self.scalar(node, item, path),
            },
            scalar => self.scalar(node, scalar, path),
        }
    }

    fn items(&mut self, items: &[DocumentNode], shape: &Shape, path: &DocumentPath<'_>) -> bool {
        let mut is_valid = true;
        for (index, item) in items.iter().enumerate() {
            is_valid &= self.check(item, shape, &path.item(index));
        }
        is_valid
    }

    fn object(
        &mut self,
        node: &DocumentNode,
        object: &ObjectShape,
        shape: &Shape,
        path: &DocumentPath<'_>,
    ) -> bool {
        let ValueKind::Map(entries) = &node.kind else {
            return self.wrong_kind(node, shape, path, hints::object(node, path.name(), object));
        };
        let mut is_valid = true;
        for (key, child) in entries {
            let here = path.member(&key.value);
            is_valid &= match object.shape_of(&key.value) {
                Some(shape) => self.check(child, shape, &here),
                None => self.unknown(&key.value, key.at, object, &here),
            };
        }
        is_valid & self.required(node, object, path)
    }

    /// Reports required fields that are absent.
    pub fn required(&mut self, node: &DocumentNode, object: &ObjectShape, path: &DocumentPath<'_>) -> bool {
        let mut is_valid = true;
        for field in object.fields().filter(|field| field.required && node.get(field.name).is_none()) {
            if self.problems.is_full() {
                return false;
            }
            let what = format!("`{}` is missing", field.name);
            let renamed = field.also.iter().find(|also| node.get(also).is_some());
            let problem = Problems::error(node.at, path, what).want(field.shape.wanted());
            is_valid &= self.report(match renamed {
                Some(also) => problem.hint(format!("rename `{also}`")),
                None => problem.hint(format!("add `{}: {}`", field.name, field.shape.example())),
            });
        }
        is_valid
    }

    /// Reports that a map has no field of this name.
    pub fn unknown(&mut self, name: &str, at: Span, object: &ObjectShape, path: &DocumentPath<'_>) -> bool {
        if self.problems.is_full() {
            return false;
        }
        // YAML reads `token:value`, without a space, as one name. Its second half is the secret: do not repeat it.
        let name = if object.holds_secrets() { name.split(':').next().unwrap_or_default() } else { name };
        let message = match shorten(name) {
            _ if name.len() <= 60 && !name.contains(char::is_control) => format!("unknown field `{name}`"),
            short => format!("unknown field {short}"),
        };
        let known: Vec<&str> = object.fields().map(|field| field.name).collect();
        let want = match object.open_fields {
            Some(open) if known.is_empty() => open.singular.to_owned(),
            Some(open) => format!("{}, or one of {}", open.singular, known.join(", ")),
            None => format!("one of {}", known.join(", ")),
        };
        let problem = Problems::error(at, path, message).want(want);
        self.report(match hints::field(name, object) {
            Some(hint) => problem.hint(hint),
            None => problem,
        })
    }

    fn scalar(&mut self, node: &DocumentNode, shape: &Shape, path: &DocumentPath<'_>) -> bool {
        match value::check(node, shape) {
            Ok(()) => true,
            Err(fault) => self.fault(node, shape, path, fault),
        }
    }

    fn fault(
        &mut self,
        node: &DocumentNode,
        shape: &Shape,
        path: &DocumentPath<'_>,
        fault: ValueFault,
    ) -> bool {
        let seen = if matches!(shape, Shape::Secret(_)) { "a secret".to_owned() } else { node.quoted() };
        let problem = Problems::error(node.at, path, fault.message).saw(seen).want(shape.wanted());
        self.report(Problem { hint: fault.hint, ..problem })
    }

    fn wrong_kind(
        &mut self,
        node: &DocumentNode,
        shape: &Shape,
        path: &DocumentPath<'_>,
        hint: Option<String>,
    ) -> bool {
        let message = match node.kind {
            ValueKind::Null => "the value is missing".to_owned(),
            _ => format!("{} does not belong here", node.kind_name()),
        };
        let holds_secrets = matches!(shape, Shape::Object(object) if object.holds_secrets());
        let seen = if holds_secrets { node.kind_name().to_owned() } else { node.quoted() };
        let problem = Problems::error(node.at, path, message).saw(seen).want(shape.wanted());
        self.report(Problem { hint, ..problem })
    }

    /// Adds a problem. Returns `false`, the result of the check that found it.
    fn report(&mut self, problem: Problem) -> bool {
        self.problems.push(problem);
        false
    }
}
