//! Which crate of the workspace may depend on which.
//!
//! core ← document ← policy ← limiter ← { tower, redis } ← sim ← server: each may also use anything to its
//! left, tower and redis do not know each other, and nothing imports the server. Three crates stand
//! beside this order: import uses core, document and policy; proxies and database use none. Tower uses proxies, the
//! server all three.

use std::path::Path;

use cargo_metadata::MetadataCommand;

use super::{TidyError, TidyProblem};

/// Each crate, and the crates it may depend on, including build and dev dependencies.
const ALLOWED: &[(&str, &[&str])] = &[
    ("tidegate-core", &[]),
    ("tidegate-document", &["tidegate-core"]),
    ("tidegate-policy", &["tidegate-core", "tidegate-document"]),
    ("tidegate-import", &["tidegate-core", "tidegate-document", "tidegate-policy"]),
    ("tidegate-proxies", &[]),
    ("tidegate", &["tidegate-core", "tidegate-document", "tidegate-policy"]),
    (
        "tidegate-tower",
        &["tidegate-core", "tidegate-document", "tidegate-policy", "tidegate-proxies", "tidegate"],
    ),
    ("tidegate-database", &[]),
    ("tidegate-redis", &["tidegate-core", "tidegate-document", "tidegate-policy", "tidegate"]),
    (
        "tidegate-sim",
        &[
            "tidegate-core",
            "tidegate-document",
            "tidegate-policy",
            "tidegate",
            "tidegate-tower",
            "tidegate-redis",
        ],
    ),
    (
        "tidegate-server",
        &[
            "tidegate-core",
            "tidegate-document",
            "tidegate-policy",
            "tidegate-import",
            "tidegate-proxies",
            "tidegate",
            "tidegate-redis",
            "tidegate-sim",
            "tidegate-database",
        ],
    ),
    (
        "tidegate-bench",
        &[
            "tidegate-core",
            "tidegate-document",
            "tidegate-policy",
            "tidegate",
            "tidegate-tower",
            "tidegate-redis",
            "tidegate-sim",
            "tidegate-server",
        ],
    ),
    (
        "tidegate-fuzz",
        &[
            "tidegate-core",
            "tidegate-document",
            "tidegate-policy",
            "tidegate-proxies",
            "tidegate",
            "tidegate-server",
        ],
    ),
    ("xtask", &[]),
];

const HOME: &str = "xtask/src/tidy/edges/mod.rs";
const WHY: &str = "the order of the crates keeps each of them usable and understandable alone";

/// What this check needs of a package of the workspace.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its manifest, relative to the root.
    pub manifest: String,
    /// The text of the manifest, to find the line of a dependency.
    pub text: String,
    /// The names of all its dependencies, of every kind.
    pub uses: Vec<String>,
}

/// The packages of the workspace at `root`.
pub fn packages(root: &Path) -> Result<Vec<Package>, TidyError> {
    let metadata = MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec()?;
    let read = |package: cargo_metadata::Package| {
        let full = package.manifest_path.into_std_path_buf();
        let path = full.strip_prefix(root).unwrap_or(&full).to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(&full)
            .map_err(|source| TidyError::Read { path: path.clone(), source })?;
        let uses = package.dependencies.into_iter().map(|used| used.name).collect();
        Ok(Package { name: package.name.to_string(), manifest: path, text, uses })
    };
    metadata.packages.into_iter().map(read).collect()
}

/// Finds crates that are not in the table, and dependencies that the table does not allow.
pub fn check(packages: &[Package]) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for package in packages {
        let name = &package.name;
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| known == name) else {
            let what = format!("the crate `{name}` is not in the order of crates");
            let fix = format!("add it to the table in {HOME} and to ARCHITECTURE.md");
            problems.push(TidyProblem::new(&package.manifest, 1, what, WHY, fix));
            continue;
        };
        let ours = |used: &&String| packages.iter().any(|other| other.name == **used);
        for used in package.uses.iter().filter(ours) {
            // A crate may use itself in its tests, with other features.
            if used == name || allowed.contains(&used.as_str()) {
                continue;
            }
            let what = format!("`{name}` depends on `{used}`");
            let fix = format!("move the code to a crate that both may use, or change the order in {HOME}");
            problems.push(TidyProblem::new(&package.manifest, line_of(&package.text, used), what, WHY, fix));
        }
    }
    problems
}

/// The line of a manifest that names the dependency `used`, or the first.
fn line_of(manifest: &str, used: &str) -> usize {
    let names = |line: &str| {
        let key = line.split(['=', '.']).next().unwrap_or(line).trim();
        key == used || line.ends_with(&format!(".{used}]")) || line.contains(&format!("package = \"{used}\""))
    };
    manifest.lines().position(names).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests;
