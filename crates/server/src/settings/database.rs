//! The settings of the database: what the file may say, and what it means.

use std::fmt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tidegate::Nanos;
use tidegate_document::{DocumentNode, ObjectShape, Problem, Shape, ShapeField, value};

use super::HIDDEN;
use super::read::{Reader, integer, text};
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
    /// The folder of `--data`, which is made if there is none.
    pub folder: Option<PathBuf>,
    /// How long and how much of the records is kept.
    pub retention: Retention,
}

/// How long and how much of the records is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The age at which entries of the audit are removed.
    pub audit: Nanos,
    /// About how many bytes of entries are kept.
    pub audit_bytes: u64,
    /// The age at which violations are removed.
    pub violations: Nanos,
    /// How many violations are kept.
    pub violations_rows: u64,
}

const DAY_SECONDS: u64 = 86_400;

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            audit: Nanos::from_secs(400 * DAY_SECONDS),
            audit_bytes: 10 * 1_024 * 1_024 * 1_024,
            violations: Nanos::from_secs(90 * DAY_SECONDS),
            violations_rows: 10_000_000,
        }
    }
}

impl DatabaseSettings {
    /// SQLite in a folder.
    pub fn in_folder(folder: &Path) -> DatabaseSettings {
        let file = folder.join(DATA_FILE);
        DatabaseSettings {
            url: format!("sqlite:{}", file.display()),
            cache: Some(folder.join(CACHE_FILE)),
            folder: Some(folder.to_path_buf()),
            retention: Retention::default(),
        }
    }

    /// Makes the folder of `--data`, for its owner only, if there is none.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn make_folder(&self) -> Result<(), String> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| format!("--data: cannot make {}: {error}", folder.display()))
    }

    /// Is there a database file where the URL says, or is it not a file?
    pub(crate) fn file_exists(&self) -> bool {
        self.url.strip_prefix("sqlite:").is_none_or(|file| Path::new(file).exists())
    }
}

impl fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseSettings")
            .field("url", &HIDDEN)
            .field("cache", &self.cache)
            .field("retention", &self.retention)
            .finish()
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
        ShapeField::new("retention", Shape::Object(&RETENTION), "How long and how much of the records is kept.")
            .or("see [retention](#retention)")
            .also(&["keep", "records"]),
    ]],
    open_fields: None,
    shorthand: Some("url"),
};

/// The longest age of records, in milliseconds: a hundred years.
const AGE_MAX: u64 = 36_525 * 86_400_000;

pub(super) static RETENTION: ObjectShape = ObjectShape {
    name: "retention",
    about: "How long and how much of the records is kept. What is older, and the oldest of what is too much, is removed \
            every ten minutes by one of the nodes. The rest of the audit still verifies.",
    fields: &[&[
        ShapeField::new(
            "audit",
            Shape::Duration(AGE_MAX),
            "The age at which changes and security events are removed.",
        )
        .or("400d")
        .also(&["audit_age", "audit_days"]),
        ShapeField::new(
            "audit_bytes",
            Shape::Integer(1_024 * 1_024, 1 << 50),
            "About how much room changes and security events may take, in bytes.",
        )
        .or("10737418240")
        .also(&["audit_size"]),
        ShapeField::new("violations", Shape::Duration(AGE_MAX), "The age at which denials are removed.")
            .or("90d")
            .also(&["violations_age", "denials"]),
        ShapeField::new(
            "violations_rows",
            Shape::Integer(1_000, 10_000_000_000),
            "How many rows of denials are kept.",
        )
        .or("10000000")
        .also(&["violations_max", "max_rows"]),
    ]],
    open_fields: None,
    shorthand: None,
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
        let retention = node.get("retention").map(retention).unwrap_or_default();
        Some(DatabaseSettings { url, cache: self.path(node, "cache"), folder: None, retention })
    }
}

fn retention(node: &DocumentNode) -> Retention {
    let usual = Retention::default();
    let age = |name: &str| node.get(name).and_then(|age| value::duration(age, AGE_MAX).ok());
    Retention {
        audit: age("audit").unwrap_or(usual.audit),
        audit_bytes: integer(node, "audit_bytes").unwrap_or(usual.audit_bytes),
        violations: age("violations").unwrap_or(usual.violations),
        violations_rows: integer(node, "violations_rows").unwrap_or(usual.violations_rows),
    }
}
