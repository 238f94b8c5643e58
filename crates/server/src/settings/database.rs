//! The settings of the database: what the file may say, and what it means.

use std::fmt;
use std::path::{Path, PathBuf};

use tidegate_document::{DocumentNode, ObjectShape, Problem, Shape, ShapeField};

use super::HIDDEN;
use super::read::{Reader, text};
use super::table::TEXT_MAX;

/// The name of the database file in the folder of `--data`.
const DATA_FILE: &str = "tidegate.db";
/// The name of the file with the policy that the node ran last, in the same folder.
const CACHE_FILE: &str = "last-policy.yaml";

/// Where versions of the policy, tokens and records are kept.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// The URL; it may contain a password.
    pub url: String,
    /// A file with the policy that the node ran last, by which it starts while the database is away.
    pub cache: Option<PathBuf>,
}

impl DatabaseSettings {
    /// SQLite in a folder.
    pub fn in_folder(folder: &Path) -> DatabaseSettings {
        let file = folder.join(DATA_FILE);
        DatabaseSettings { url: format!("sqlite:{}", file.display()), cache: Some(folder.join(CACHE_FILE)) }
    }
}

impl fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseSettings").field("url", &HIDDEN).field("cache", &self.cache).finish()
    }
}

pub(super) static DATABASE: ObjectShape = ObjectShape {
    name: "database",
    about: "Where versions of the policy, tokens and records are kept. Without `policy.file` the policy lives there too, \
            and is changed by the admin API.",
    fields: &[&[
        ShapeField::new(
            "url",
            Shape::Secret(TEXT_MAX),
            "`sqlite:FILE`, relative to this file, or `postgres://user:password@host/name`. The flag `--data DIR` is \
             `sqlite:DIR/tidegate.db`.",
        )
        .required()
        .also(&["uri", "dsn", "address"]),
        ShapeField::new(
            "cache",
            Shape::Text(TEXT_MAX),
            "A file to which the node writes the policy that it runs. With it, the node can start while the database \
             does not answer.",
        )
        .or("none"),
    ]],
    open_fields: None,
    shorthand: Some("url"),
};

impl Reader<'_> {
    pub(super) fn database(&mut self, node: &DocumentNode) -> Option<DatabaseSettings> {
        let url = text(node, "url")?;
        let url = match url.strip_prefix("sqlite:") {
            Some(file) => {
                let file = file.strip_prefix("//").unwrap_or(file);
                format!("sqlite:{}", self.home.join(file).display())
            }
            None if url.starts_with("postgres://") || url.starts_with("postgresql://") => url,
            None => {
                let at = node.get("url").map_or(node.at, |node| node.at);
                let problem = Problem::error(at, "database.url", "this is not the URL of a database");
                let problem = problem.saw("text").want("`sqlite:FILE` or `postgres://…`");
                self.problems.push(problem.hint("use `sqlite:tidegate.db` to keep everything in one file"));
                return None;
            }
        };
        Some(DatabaseSettings { url, cache: self.path(node, "cache") })
    }
}
