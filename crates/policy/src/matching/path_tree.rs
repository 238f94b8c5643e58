//! A tree of path patterns, by segment.

use super::{Candidates, TextMap};
use crate::path::{Pattern, Segment};

/// Finds the numbers of the patterns that match a path.
#[derive(Debug, Default)]
pub(crate) struct PathTree {
    root: Branch,
}

#[derive(Debug, Default)]
struct Branch {
    literals: TextMap<Branch>,
    any: Option<Box<Branch>>,
    /// Patterns that end here.
    here: Vec<u32>,
    /// Patterns that match here and at any depth below.
    deep: Vec<u32>,
}

impl PathTree {
    pub(crate) fn insert(&mut self, pattern: &Pattern, number: u32) {
        let mut branch = &mut self.root;
        for segment in pattern.segments() {
            branch = match segment {
                Segment::Any => branch.any.get_or_insert_default(),
                Segment::Literal(text) => branch.literals.entry(text.clone()).or_default(),
            };
        }
        if pattern.is_deep() { branch.deep.push(number) } else { branch.here.push(number) }
    }

    /// Adds the numbers of the patterns that match a path in normal form.
    pub(crate) fn find(&self, path: &str, found: &mut Candidates) {
        self.root.find(path.trim_matches('/'), found);
    }
}

impl Branch {
    /// `rest` has no slash at either end and no empty segment.
    fn find(&self, rest: &str, found: &mut Candidates) {
        found.extend_from_slice(&self.deep);
        if rest.is_empty() {
            found.extend_from_slice(&self.here);
            return;
        }
        // Segments are short: a byte loop is faster than a substring search.
        let end = rest.bytes().position(|byte| byte == b'/');
        let (segment, rest) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + 1..]));
        if let Some(branch) = self.literals.get(segment) {
            branch.find(rest, found);
        }
        if let Some(branch) = &self.any {
            branch.find(rest, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_finds_what_the_patterns_match() {
        let texts =
            ["/", "/**", "/a", "/a/*", "/a/**", "/a/*/c", "/a/{x}/c", "/{a-1_b}", "/a/b/c", "/*/b/**", "/x"];
        let patterns: Vec<Pattern> = texts.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        let mut tree = PathTree::default();
        patterns.iter().enumerate().for_each(|(number, pattern)| tree.insert(pattern, number as u32));
        for path in ["/", "/a", "/a/b", "/a/b/c", "/a/x/c", "/q/b", "/q/b/c/d", "/x", "/x/y"] {
            let mut found = Candidates::new();
            tree.find(path, &mut found);
            found.sort_unstable();
            let matching = (0..patterns.len()).filter(|&number| patterns[number].matches(path));
            assert_eq!(found.into_vec(), matching.map(|number| number as u32).collect::<Vec<_>>(), "{path}");
        }
    }
}
