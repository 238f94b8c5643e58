//! Does a document have the right shape? Every problem is told, none stops the
//! check.

use crate::node::{DocumentNode, ValueKind};
use crate::text::shorten;
use crate::{Problem, Span};

use super::problems::{DocumentPath, Problems, saw};
use super::{ObjectShape, Shape, hints, value};

/// Walks tree and table together.
pub(crate) struct Checker<'p> {
    problems: &'p mut Problems,
}

impl Problems {
    /// A check that adds to these.
    pub(crate) fn checker(&mut self) -> Checker<'_> {
        Checker { problems: self }
    }
}

impl Checker<'_> {
    /// Has the node this shape? What is wrong is told.
    pub(crate) fn check(&mut self, node: &DocumentNode, shape: &Shape, place: &DocumentPath<'_>) -> bool {
        match shape {
            Shape::Object(object) => self.object(node, object, shape, place),
            Shape::ObjectOr(object, _) if matches!(node.kind, ValueKind::Map(_)) => {
                self.object(node, object, shape, place)
            }
            Shape::ObjectOr(object, other) => match value::check(node, other) {
                Ok(()) => true,
                // Text that could be the one field of the map was meant as the map.
                Err(_) if hints::is_shorthand(node, object) => {
                    self.wrong_kind(node, shape, place, hints::object(node, place.name(), object))
                }
                Err(fault) => self.fault(node, shape, place, fault),
            },
            Shape::List(item) => match &node.kind {
                ValueKind::List(items) => self.items(items, item, place),
                _ => self.wrong_kind(node, shape, place, hints::list(node, place.name())),
            },
            Shape::OneOrMore(item) => match &node.kind {
                ValueKind::List(items) if items.is_empty() && !matches!(item, Shape::Word(_)) => {
                    let problem = Problems::error(node.at, place, "an empty list matches nothing");
                    self.tell(
                        problem.want(shape.wanted()).hint("leave the field out, or name at least one value"),
                    )
                }
                ValueKind::List(items) => self.items(items, item, place),
                _ => self.scalar(node, item, place),
            },
            scalar => self.scalar(node, scalar, place),
        }
    }

    fn items(&mut self, items: &[DocumentNode], shape: &Shape, place: &DocumentPath<'_>) -> bool {
        let mut sound = true;
        for (index, item) in items.iter().enumerate() {
            sound &= self.check(item, shape, &place.item(index));
        }
        sound
    }

    fn object(
        &mut self,
        node: &DocumentNode,
        object: &ObjectShape,
        shape: &Shape,
        place: &DocumentPath<'_>,
    ) -> bool {
        let ValueKind::Map(entries) = &node.kind else {
            return self.wrong_kind(node, shape, place, hints::object(node, place.name(), object));
        };
        let mut sound = true;
        for (key, child) in entries {
            let here = place.member(&key.value);
            sound &= match object.shape_of(&key.value) {
                Some(shape) => self.check(child, shape, &here),
                None => self.unknown(&key.value, key.at, object, &here),
            };
        }
        sound & self.required(node, object, place)
    }

    /// Are all fields there that must be?
    pub(crate) fn required(
        &mut self,
        node: &DocumentNode,
        object: &ObjectShape,
        place: &DocumentPath<'_>,
    ) -> bool {
        let mut sound = true;
        for field in object.fields().filter(|field| field.required && node.get(field.name).is_none()) {
            if self.problems.is_full() {
                return false;
            }
            let what = format!("`{}` is missing", field.name);
            let renamed = field.also.iter().find(|also| node.get(also).is_some());
            let problem = Problems::error(node.at, place, what).want(field.shape.wanted());
            sound &= self.tell(match renamed {
                Some(also) => problem.hint(format!("rename `{also}`")),
                None => problem.hint(format!("add `{}: {}`", field.name, field.shape.example())),
            });
        }
        sound
    }

    /// Tells that an object has no such field.
    pub(crate) fn unknown(
        &mut self,
        name: &str,
        at: Span,
        object: &ObjectShape,
        place: &DocumentPath<'_>,
    ) -> bool {
        if self.problems.is_full() {
            return false;
        }
        // `token:value` without a space is one name, and half of it a secret.
        let name = if object.holds_secrets() { name.split(':').next().unwrap_or_default() } else { name };
        let message = match shorten(name) {
            _ if name.len() <= 60 && !name.contains(char::is_control) => format!("unknown field `{name}`"),
            short => format!("unknown field {short}"),
        };
        let known: Vec<&str> = object.fields().map(|field| field.name).collect();
        let want = match (known.is_empty(), object.descriptors) {
            (true, _) => "a descriptor".to_owned(),
            (false, true) => format!("a descriptor, or one of {}", known.join(", ")),
            (false, false) => format!("one of {}", known.join(", ")),
        };
        let problem = Problems::error(at, place, message).want(want);
        self.tell(match hints::field(name, object) {
            Some(hint) => problem.hint(hint),
            None => problem,
        })
    }

    fn scalar(&mut self, node: &DocumentNode, shape: &Shape, place: &DocumentPath<'_>) -> bool {
        match value::check(node, shape) {
            Ok(()) => true,
            Err(fault) => self.fault(node, shape, place, fault),
        }
    }

    fn fault(
        &mut self,
        node: &DocumentNode,
        shape: &Shape,
        place: &DocumentPath<'_>,
        fault: value::ValueFault,
    ) -> bool {
        let seen = if matches!(shape, Shape::Secret(_)) { "a secret".to_owned() } else { saw(node) };
        let problem = Problems::error(node.at, place, fault.message).saw(seen).want(shape.wanted());
        self.tell(Problem { hint: fault.hint, ..problem })
    }

    fn wrong_kind(
        &mut self,
        node: &DocumentNode,
        shape: &Shape,
        place: &DocumentPath<'_>,
        hint: Option<String>,
    ) -> bool {
        let message = match node.kind {
            ValueKind::Null => "there is nothing here".to_owned(),
            _ => format!("{} does not belong here", node.kind_name()),
        };
        let holds_secrets = matches!(shape, Shape::Object(object) if object.holds_secrets());
        let seen = if holds_secrets { node.kind_name().to_owned() } else { saw(node) };
        let problem = Problems::error(node.at, place, message).saw(seen).want(shape.wanted());
        self.tell(Problem { hint, ..problem })
    }

    /// Always false, so that it can end a check.
    fn tell(&mut self, problem: Problem) -> bool {
        self.problems.push(problem);
        false
    }
}
