//! The shape of a document, as tables. These drive the check of a document, the hints, the JSON Schema and the
//! reference page, so that none of them can contradict another.

mod check;
mod custom;
mod hints;
mod path;
mod problems;
pub mod value;
mod words;

#[cfg(test)]
mod tests;

pub use check::Checker;
pub use custom::{CustomShape, OpenFields};
pub use path::DocumentPath;
pub use problems::Problems;
pub use value::{ValueFault, unmapped};
pub(crate) use words::{decimal_text, duration_text};

/// A table that describes a map.
#[derive(Debug)]
pub struct ObjectShape {
    /// Its name in the schema and on the reference page: `limit`.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub about: &'static str,
    /// Its fields, in groups, because some maps share a group.
    pub fields: &'static [&'static [ShapeField]],
    /// Fields that are not listed but known by a function.
    pub open_fields: Option<&'static OpenFields>,
    /// The field that is meant by a scalar in place of the map.
    pub shorthand: Option<&'static str>,
}

impl ObjectShape {
    /// All listed fields.
    pub fn fields(&self) -> impl Iterator<Item = &'static ShapeField> + Clone {
        self.fields.iter().flat_map(|group| group.iter())
    }

    /// What a field takes; `None` if there is no such field.
    pub fn shape_of(&self, name: &str) -> Option<&'static Shape> {
        match self.fields().find(|field| field.name == name) {
            Some(field) => Some(&field.shape),
            None => self.open_fields.and_then(|open| (open.shape_of)(name)),
        }
    }

    /// Is one of its fields a secret?
    pub(crate) fn holds_secrets(&self) -> bool {
        self.fields().any(|field| matches!(field.shape, Shape::Secret(_)))
    }
}

/// A field of a map.
#[derive(Debug)]
pub struct ShapeField {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub shape: Shape,
    /// What applies if it is absent: a value as it would be written, or a few words.
    pub default: Option<&'static str>,
    /// Must it be present?
    pub required: bool,
    /// What it is for, in one sentence.
    pub about: &'static str,
    /// Other names that people try for it; they lead to a hint.
    pub also: &'static [&'static str],
}

impl ShapeField {
    /// An optional field.
    pub const fn new(name: &'static str, shape: Shape, about: &'static str) -> ShapeField {
        ShapeField { name, shape, default: None, required: false, about, also: &[] }
    }

    /// Makes it a required field.
    #[must_use]
    pub const fn required(self) -> ShapeField {
        ShapeField { required: true, ..self }
    }

    /// Sets what applies if the field is absent.
    #[must_use]
    pub const fn or(self, default: &'static str) -> ShapeField {
        ShapeField { default: Some(default), ..self }
    }

    /// Sets other names that people try for it.
    #[must_use]
    pub const fn also(self, also: &'static [&'static str]) -> ShapeField {
        ShapeField { also, ..self }
    }
}

/// What a value looks like.
#[derive(Debug)]
pub enum Shape {
    /// Text of at most this many bytes.
    Text(usize),
    /// A value to compare with: any scalar except the empty text, read as text of at most [`SCALAR_BYTES_MAX`] bytes.
    Scalar,
    /// A whole number in this range.
    Integer(u64, u64),
    /// A decimal number in this range, in millionths.
    Decimal(u64, u64),
    /// True or false.
    Flag,
    /// A duration of at most this many milliseconds.
    Duration(u64),
    /// A window of time: `second`, `minute`, `hour`, `day`, or a duration of at most [`WINDOW_MILLIS_MAX`].
    Window,
    /// One of these words.
    Word(&'static [WordShape]),
    /// A network or an address.
    Cidr,
    /// A point in time, by RFC 3339.
    Instant,
    /// An address and a port to listen on, or `off`.
    Listen,
    /// Text of at most this many bytes that no message repeats.
    Secret(usize),
    /// A scalar that only one kind of document has.
    Custom(&'static CustomShape),
    /// A list of these.
    List(&'static Shape),
    /// One of these, or a list of them.
    OneOrMore(&'static Shape),
    /// A map.
    Object(&'static ObjectShape),
    /// A map, or a scalar of another shape.
    ObjectOr(&'static ObjectShape, &'static Shape),
}

/// A word that a field takes.
#[derive(Debug)]
pub struct WordShape {
    /// The word.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Other words that people try for it; they lead to a hint.
    pub also: &'static [&'static str],
}

impl WordShape {
    /// A word and what it means.
    pub const fn new(name: &'static str, about: &'static str) -> WordShape {
        WordShape { name, about, also: &[] }
    }

    /// Sets other words that people try for it.
    #[must_use]
    pub const fn also(self, also: &'static [&'static str]) -> WordShape {
        WordShape { also, ..self }
    }
}

/// The longest [`Shape::Scalar`].
pub const SCALAR_BYTES_MAX: usize = 1024;
/// The longest window, in milliseconds: 200 years.
pub const WINDOW_MILLIS_MAX: u64 = 73_050 * 86_400_000;
