//! No file contains an absolute path of somebody's machine, or the host of a package registry.

use super::TidyProblem;
use super::files::TextFile;

/// Prefixes of such paths. Each is written in two halves, so that this file does not contain them.
const PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Hosts of package registries; the first covers its index and its downloads too.
const HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", ".org"),
    concat!("deb.debian", ".org"),
];

/// Lock files may contain the registry.
const LOCKS: &[&str] = &["Cargo.lock", "package-lock.json"];

/// Finds absolute paths of somebody's machine, and registry hosts.
pub fn check(file: &TextFile) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    if LOCKS.contains(&file.name()) {
        return problems;
    }
    for (index, text) in file.text.lines().enumerate() {
        for path in PATHS.iter().filter(|path| has_absolute_path(text, path)) {
            problems.push(TidyProblem::new(
                &file.path,
                index + 1,
                format!("the absolute path `{path}…`"),
                "it exists only on one machine",
                "write it relative to the repository",
            ));
        }
        for host in HOSTS.iter().filter(|host| text.contains(**host)) {
            problems.push(TidyProblem::new(
                &file.path,
                index + 1,
                format!("the registry host `{host}`"),
                "each user configures where packages come from",
                "name only the package",
            ));
        }
    }
    problems
}

/// True if an absolute path in `text` starts with `prefix`; `a/b` and `./a` are not absolute.
fn has_absolute_path(text: &str, prefix: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || "._-~*}/".contains(c);
    text.match_indices(prefix).any(|(at, _)| {
        let before = &text[..at];
        before.ends_with("file://") || !before.ends_with(goes_on)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&TextFile::new(path, text)).len()
    }

    #[test]
    fn places_are_found() {
        for path in PATHS {
            for text in [
                format!("cd {path}a"),
                format!("\"{path}a\""),
                format!("A={path}ann/b"),
                format!("file://{path}a"),
            ] {
                assert_eq!(count("docs/a.md", &text), 1, "{text}");
            }
        }
    }

    #[test]
    fn hosts_are_found() {
        for host in HOSTS {
            assert_eq!(count("README.md", &format!("from https://{host}/a")), 1, "{host}");
            assert_eq!(count("test", &format!("a.{host}")), 1, "{host}");
        }
    }

    #[test]
    fn other_paths_are_fine() {
        for path in PATHS {
            for text in [
                format!(".{path}a"),
                format!("~{path}a"),
                format!("${{DIR}}{path}a"),
                format!("https://example.com{path}a"),
                format!("**{path}**"),
                path.trim_end_matches('/').to_owned(),
            ] {
                assert_eq!(count("docs/a.md", &text), 0, "{text}");
            }
        }
        assert_eq!(count("a.rs", "/usr/bin/env, example.org, [patch.crates-io]"), 0);
    }

    #[test]
    fn lock_files_may_name_hosts() {
        assert_eq!(count("Cargo.lock", HOSTS[0]), 0);
        assert_eq!(count("console/package-lock.json", HOSTS[3]), 0);
    }
}
