//! The project speaks of itself alone: not of the machine it was written on, nor of the servers
//! its dependencies happen to come from.

use super::TidyProblem;
use super::files::TextFile;

/// Directories of one machine. In two halves, so that this file does not hold them.
const PLACES: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Hosts of package registries; the first covers its index and its downloads too.
const HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", ".org"),
    concat!("deb.debian", ".org"),
];

/// Lock files name the registry, rightly.
const LOCKS: &[&str] = &["Cargo.lock", "package-lock.json"];

/// Finds absolute paths of somebody's machine, and registry hosts.
pub fn check(file: &TextFile) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    if LOCKS.contains(&file.name()) {
        return problems;
    }
    for (index, text) in file.text.lines().enumerate() {
        for place in PLACES.iter().filter(|place| names_place(text, place)) {
            problems.push(TidyProblem::new(
                &file.path,
                index + 1,
                format!("the absolute path `{place}…`"),
                "it exists on one machine only",
                "write it relative to the repository",
            ));
        }
        for host in HOSTS.iter().filter(|host| text.contains(**host)) {
            problems.push(TidyProblem::new(
                &file.path,
                index + 1,
                format!("the registry host `{host}`"),
                "where packages come from is each user's setting",
                "name the package and let the tool find it",
            ));
        }
    }
    problems
}

/// True if an absolute path in `text` starts with `place`; `a/b` and `./a` are not absolute.
fn names_place(text: &str, place: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || "._-~*}/".contains(c);
    text.match_indices(place).any(|(at, _)| {
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
        for place in PLACES {
            for text in [
                format!("cd {place}a"),
                format!("\"{place}a\""),
                format!("A={place}ann/b"),
                format!("file://{place}a"),
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
        for place in PLACES {
            for text in [
                format!(".{place}a"),
                format!("~{place}a"),
                format!("${{DIR}}{place}a"),
                format!("https://example.com{place}a"),
                format!("**{place}**"),
                place.trim_end_matches('/').to_owned(),
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
