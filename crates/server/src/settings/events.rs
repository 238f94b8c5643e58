//! The settings of events: what the file may say, and what it means.

use std::path::PathBuf;

use tidegate_document::{DocumentNode, ObjectShape, Shape, ShapeField};

use super::read::{Reader, integer, text};

/// The default name of the events file.
const EVENTS_FILE: &str = "events.jsonl";
/// The size at which it is full, by default.
const EVENTS_FILE_BYTES: u64 = 64 * 1_024 * 1_024;
/// How many full files are kept by default.
const EVENTS_FILES_KEPT: u32 = 5;

/// The longest path.
const PATH_BYTES_MAX: usize = 4_096;
/// The longest name of a node.
const NODE_NAME_MAX: usize = 128;
/// The range of the size of a full file.
const EVENTS_BYTES: (u64, u64) = (1_024, 1 << 40);

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// The file; `None` is none.
    pub file: Option<PathBuf>,
    /// Are they also written to standard output?
    pub stdout: bool,
    /// A file of this size is full.
    pub max_bytes: u64,
    /// How many full files are kept.
    pub keep: u32,
    /// The name of this node in events; `None` is unknown.
    pub node: Option<String>,
}

pub(super) static EVENTS: ObjectShape = ObjectShape {
    name: "events",
    about: "Where events are written, one JSON object a line.",
    fields: &[&[
        ShapeField::new(
            "file",
            Shape::Text(PATH_BYTES_MAX),
            "The file they are appended to. A full file is renamed to `<file>.1`, and what was there before to \
             `<file>.2`, and so on.",
        )
        .or("events.jsonl, or none if `stdout` is true")
        .also(&["path", "output"]),
        ShapeField::new("stdout", Shape::Flag, "Also write them to standard output.")
            .or("false")
            .also(&["console", "print"]),
        ShapeField::new(
            "max_bytes",
            Shape::Integer(EVENTS_BYTES.0, EVENTS_BYTES.1),
            "The size at which the file is full.",
        )
        .or("67108864")
        .also(&["max_size", "size"]),
        ShapeField::new("keep", Shape::Integer(0, 1_000), "How many full files are kept; older ones are deleted.")
            .or("5")
            .also(&["max_files", "backups"]),
        ShapeField::new("node", Shape::Text(NODE_NAME_MAX), "The name of this node in events.")
            .or("the name of the machine")
            .also(&["name", "node_name", "host"]),
    ]],
    open_fields: None,
    shorthand: Some("file"),
};

impl Reader<'_> {
    pub(super) fn events(&mut self, node: &DocumentNode) -> EventSettings {
        let stdout = node.get("stdout").and_then(DocumentNode::scalar) == Some("true");
        let file = self.path(node, "file");
        EventSettings {
            file: if stdout { file } else { file.or_else(|| Some(self.home.join(EVENTS_FILE))) },
            stdout,
            max_bytes: integer(node, "max_bytes").unwrap_or(EVENTS_FILE_BYTES),
            keep: integer(node, "keep")
                .and_then(|keep| u32::try_from(keep).ok())
                .unwrap_or(EVENTS_FILES_KEPT),
            node: text(node, "node").or_else(host_name),
        }
    }
}

/// The name of this machine.
pub(crate) fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}
