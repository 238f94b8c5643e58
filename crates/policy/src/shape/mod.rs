//! What a policy document looks like, as data. The tables here drive the check
//! of a document, the hints, the JSON Schema and the reference page, so that
//! none of them can say something else than the others.

mod check;
mod entries;
mod hints;
mod problems;
mod tables;
mod value;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use entries::GATE;
pub(crate) use problems::{DocumentPath, Problems};
pub(crate) use tables::{OBJECTS, POLICY};
pub use value::unmapped;
pub(crate) use value::{cidr, decimal, descriptor, duration, instant, integer, listen, window};
pub(crate) use words::{decimal_text, duration_text};

use crate::descriptor::Descriptor;

/// A map of the document.
#[derive(Debug)]
pub struct ObjectShape {
    /// What it is called in the schema and in the reference: `limit`.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub about: &'static str,
    /// Its fields, in groups, since some objects share theirs.
    pub fields: &'static [&'static [ShapeField]],
    /// Are descriptors fields of it as well?
    pub descriptors: bool,
    /// The field that someone who writes a lone scalar has in mind.
    pub shorthand: Option<&'static str>,
}

impl ObjectShape {
    /// All its fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &'static ShapeField> + Clone {
        self.fields.iter().flat_map(|group| group.iter())
    }

    /// Is one of its fields a secret?
    pub(crate) fn holds_secrets(&self) -> bool {
        self.fields().any(|field| matches!(field.shape, Shape::Secret(_)))
    }

    /// What stands under a name, be it a field or a descriptor.
    pub(crate) fn shape_of(&self, name: &str) -> Option<&'static Shape> {
        match self.fields().find(|field| field.name == name) {
            Some(field) => Some(&field.shape),
            None if self.descriptors => condition(name),
            None => None,
        }
    }
}

/// A member of a map.
#[derive(Debug)]
pub struct ShapeField {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub shape: Shape,
    /// What holds if it is not written, as it would be written or in words.
    pub default: Option<&'static str>,
    /// Must it be written?
    pub required: bool,
    /// What it is for, in one sentence.
    pub about: &'static str,
    /// What people write when they mean it.
    pub also: &'static [&'static str],
}

impl ShapeField {
    /// A field that need not be written.
    pub const fn new(name: &'static str, shape: Shape, about: &'static str) -> ShapeField {
        ShapeField { name, shape, default: None, required: false, about, also: &[] }
    }

    /// It must be written.
    #[must_use]
    pub const fn required(self) -> ShapeField {
        ShapeField { required: true, ..self }
    }

    /// What holds without it.
    #[must_use]
    pub const fn or(self, default: &'static str) -> ShapeField {
        ShapeField { default: Some(default), ..self }
    }

    /// What people write when they mean it.
    #[must_use]
    pub const fn also(self, also: &'static [&'static str]) -> ShapeField {
        ShapeField { also, ..self }
    }
}

/// What a value looks like.
#[derive(Debug)]
pub enum Shape {
    /// A name: see `is_name`. `reserved` is for names that a limit or a
    /// detector goes by, where `tenant:` is taken.
    Name {
        /// Is the beginning `tenant:` taken?
        reserved: bool,
    },
    /// Text of so many bytes at most.
    Text(usize),
    /// A value to compare with: any scalar, as text.
    Scalar,
    /// A whole number in this range.
    Integer(u64, u64),
    /// A decimal number in this range, in millionths.
    Decimal(u64, u64),
    /// True or false.
    Flag,
    /// A duration of so many milliseconds at most.
    Duration(u64),
    /// A window: a word or a duration.
    Window,
    /// One of some words.
    Word(&'static [WordShape]),
    /// A descriptor.
    Descriptor(DescriptorUse),
    /// A pattern of paths.
    Path,
    /// An HTTP method, in upper case.
    Method,
    /// A network or an address.
    Cidr,
    /// A point in time, by RFC 3339.
    Instant,
    /// An address and a port to listen on, or `off`.
    Listen,
    /// Text that is never shown again, of so many bytes at most.
    Secret(usize),
    /// A list of these.
    List(&'static Shape),
    /// One of these, or a list of them.
    OneOrMore(&'static Shape),
    /// A map.
    Object(&'static ObjectShape),
    /// A map, or a scalar of another shape.
    ObjectOr(&'static ObjectShape, &'static Shape),
}

/// What a place wants of a descriptor; it takes all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorUse {
    /// That it tells callers apart.
    Any,
    /// That it holds a number, as a header or a query may.
    Carried,
}

/// A word that a field takes.
#[derive(Debug)]
pub struct WordShape {
    /// The word.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// What people write when they mean it.
    pub also: &'static [&'static str],
}

impl WordShape {
    /// A word and what it means.
    pub const fn new(name: &'static str, about: &'static str) -> WordShape {
        WordShape { name, about, also: &[] }
    }

    /// What people write when they mean it.
    #[must_use]
    pub const fn also(self, also: &'static [&'static str]) -> WordShape {
        WordShape { also, ..self }
    }
}

/// The longest name.
pub(crate) const NAME_MAX: usize = 128;
/// The pattern of names, for the schema and for people.
pub(crate) const NAME_PATTERN: &str = "[A-Za-z0-9._:/-]{1,128}";
/// The longest value to compare with, and the longest free text but for descriptions.
pub(crate) const TEXT_MAX: usize = 1024;
/// The longest description.
pub(crate) const DESCRIPTION_MAX: usize = 4096;
/// The longest window, in milliseconds: 200 years. Rates have a range of their own.
pub(crate) const WINDOW_MAX: u64 = 73_050 * 86_400_000;
/// The longest penalty, in milliseconds: 366 days.
pub(crate) const PENALTY_MAX: u64 = 366 * 86_400_000;
/// The longest wait in a queue, in milliseconds: an hour.
pub(crate) const WAIT_MAX: u64 = 3_600_000;
/// What names of tenants' limits begin with in decisions.
pub(crate) const RESERVED: &str = "tenant:";

/// Is it a name for limits, groups, tenants and detectors?
pub(crate) fn is_name(text: &str) -> bool {
    let takes = |b: u8| b.is_ascii_alphanumeric() || b"._:/-".contains(&b);
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(takes)
}

/// What can be known of a credential.
pub(crate) const CREDENTIALS: &[WordShape] = &[
    WordShape::new("none", "there is none").also(&["absent", "anonymous", "missing"]),
    WordShape::new("valid", "it holds").also(&["verified", "ok"]),
    WordShape::new("invalid", "it is there and does not hold").also(&["bad", "rejected"]),
];

/// What a condition on a descriptor takes; `None` if the name is none.
pub(crate) fn condition(name: &str) -> Option<&'static Shape> {
    if name == "methods" {
        return Some(&Shape::OneOrMore(&Shape::Method));
    }
    Some(match Descriptor::parse(name)? {
        Descriptor::Method => &Shape::OneOrMore(&Shape::Method),
        Descriptor::Path => &Shape::OneOrMore(&Shape::Path),
        Descriptor::Ip => &Shape::OneOrMore(&Shape::Cidr),
        Descriptor::Credential => &Shape::OneOrMore(&Shape::Word(CREDENTIALS)),
        _ => &Shape::OneOrMore(&Shape::Scalar),
    })
}
