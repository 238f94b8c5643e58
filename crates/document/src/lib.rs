//! Reads YAML and JSON documents by a table of their fields, and reports every problem with its line and a hint.
//!
//! - [`parse`] turns a text into a tree of [`DocumentNode`]s that know their position in the text.
//! - [`ObjectShape`] is a table that describes a map: its fields, what they take, their defaults.
//! - [`read`] parses a text and checks it against such a table.
//! - [`DocumentEditor`] changes entries of a text and leaves everything else as it is, comments included.
//! - [`text_diff`] shows the difference between two texts.
//! - [`json_schema`] and [`reference()`] write the JSON Schema and the reference page from the same tables.
//!
//! This crate does not know what any document means. [`CustomShape`] and [`OpenFields`] let the crate that owns a kind
//! of document add shapes of its own.

mod diff;
mod edit;
mod json;
mod nearest;
mod node;
mod problem;
mod read;
mod render;
mod shape;
mod span;
mod text;

pub use diff::{DIFF_BYTES_MAX, text_diff};
pub use edit::{DocumentEditor, EditError};
pub use json::merge_patch;
pub use nearest::nearest;
pub use node::{DocumentNode, ValueKind};
pub use problem::{Problem, Severity};
pub use read::{complete, read};
pub use render::{JsonText, json_schema, reference};
pub use shape::{
    Checker, CustomShape, DocumentPath, ObjectShape, OpenFields, Problems, SCALAR_BYTES_MAX, Shape,
    ShapeField, ValueFault, WINDOW_MILLIS_MAX, WordShape, unmapped, value,
};
pub use span::{Span, Spanned};
pub use text::{DEPTH_MAX, NODES_MAX, TEXT_BYTES_MAX, parse, parse_json, parse_partly};

/// The example of the README is tested like those here.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct Crate;
}
