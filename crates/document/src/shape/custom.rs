//! Extension points: shapes and fields whose meaning belongs to one kind of document.

use crate::DocumentNode;

use super::{Shape, ValueFault};

/// A scalar that only one kind of document has, such as a name or a pattern. The crate that owns the document supplies
/// its check and its words.
///
/// ```
/// use tidegate_document::{CustomShape, ObjectShape, Shape, ShapeField, ValueFault, read};
///
/// static COLOUR: CustomShape = CustomShape {
///     check: |node| match node.scalar() {
///         Some(text) if text.len() == 7 && text.starts_with('#') => Ok(()),
///         _ => Err(ValueFault::not(node, "a colour", Some("write six digits after `#`".to_owned()))),
///     },
///     wanted: "a colour such as `#00ff00`",
///     example: "\"#00ff00\"",
///     json_types: &["string"],
///     pattern: || "^#[0-9a-f]{6}$".to_owned(),
///     takes: "a colour such as `#00ff00`",
///     takes_list: None,
/// };
/// static THEME: ObjectShape = ObjectShape {
///     name: "theme",
///     about: "Colours.",
///     fields: &[&[ShapeField::new("link", Shape::Custom(&COLOUR), "The colour of links.")]],
///     open_fields: None,
///     shorthand: None,
/// };
///
/// let (_, problems) = read("link: green", &THEME);
/// assert_eq!(problems[0].message, "\"green\" is not a colour");
/// ```
#[derive(Debug)]
pub struct CustomShape {
    /// Returns what is wrong with a value, if anything.
    pub check: fn(&DocumentNode) -> Result<(), ValueFault>,
    /// What is wanted, for messages: "a path such as `/api/**`".
    pub wanted: &'static str,
    /// A value as it could be written.
    pub example: &'static str,
    /// The types of JSON that the schema accepts: `string`, and others that YAML reads from a plain scalar.
    pub json_types: &'static [&'static str],
    /// The regular expression of the schema.
    pub pattern: fn() -> String,
    /// What a field takes, on the reference page, in Markdown: "a path [pattern](#patterns)".
    pub takes: &'static str,
    /// The same for a field that takes a list. Without it the page has [`CustomShape::wanted`] for each item.
    pub takes_list: Option<&'static str>,
}

/// Fields of a map that are not listed one by one: a function knows whether a name is one of them.
#[derive(Debug)]
pub struct OpenFields {
    /// What such a field is called, with its article: "a descriptor".
    pub singular: &'static str,
    /// The same for several: "descriptors".
    pub plural: &'static str,
    /// What such a field with its value is called where it does not belong: "conditions".
    pub entries: &'static str,
    /// What a field of this name takes; `None` if there is no such field.
    pub shape_of: fn(&str) -> Option<&'static Shape>,
    /// Names to suggest for a typo.
    pub suggested: fn() -> Vec<&'static str>,
    /// A hint for a name that is neither one of these fields nor close to a suggested one.
    pub hint: fn(&str) -> Option<String>,
    /// For the schema: regular expressions of names, which exclude each other, and what such a field takes.
    pub patterns: fn() -> Vec<(String, &'static Shape)>,
    /// A paragraph for the reference page, in Markdown.
    pub about: &'static str,
}
