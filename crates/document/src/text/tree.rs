//! Builds the tree, for YAML and JSON alike. Limits on size and depth, and duplicate keys, are checked here.

use crate::node::{DocumentNode, ValueKind};
use crate::{Problem, Span, Spanned};

use super::{DEPTH_MAX, NODES_MAX, PROBLEMS_MAX};

/// A problem that ends parsing.
pub(super) type Fatal = Box<Problem>;

/// A tree that grows with each event of a parser.
#[derive(Default)]
pub(super) struct TreeBuilder {
    open: Vec<Open>,
    root: Option<DocumentNode>,
    nodes: usize,
    problems: Vec<Problem>,
}

/// A list or map that is not closed yet.
struct Open {
    at: Span,
    content: Content,
}

enum Content {
    List(Vec<DocumentNode>),
    Map { entries: Vec<(Spanned<String>, DocumentNode)>, key: Option<Spanned<String>> },
}

impl TreeBuilder {
    /// Is the next event the key of a map?
    pub(super) fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { content: Content::Map { key: None, .. }, .. }))
    }

    /// The key whose value comes next.
    pub(super) fn pending_key(&self) -> Option<&Spanned<String>> {
        match self.open.last() {
            Some(Open { content: Content::Map { key, .. }, .. }) => key.as_ref(),
            _ => None,
        }
    }

    /// Adds a key to the innermost map.
    pub(super) fn key(&mut self, name: Spanned<String>) {
        match self.open.last_mut() {
            Some(Open { content: Content::Map { key, .. }, .. }) => *key = Some(name),
            _ => unreachable!("keys are added only where one is expected"),
        }
    }

    /// Adds a complete value: the whole document, an item, or a member.
    pub(super) fn value(&mut self, node: DocumentNode) -> Result<(), Fatal> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let problem = Problem::error(node.at, self.path(), "the document has too many values");
            return Err(problem.want(format!("at most {NODES_MAX}")).into());
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open { content: Content::List(items), .. }) => items.push(node),
            Some(Open { content: Content::Map { entries, key }, .. }) => {
                let key = key.take().expect("a value of a map follows its key");
                entries.push((key, node));
            }
        }
        Ok(())
    }

    /// Opens a list.
    pub(super) fn open_list(&mut self, at: Span) -> Result<(), Fatal> {
        self.open(at, Content::List(Vec::new()))
    }

    /// Opens a map.
    pub(super) fn open_map(&mut self, at: Span) -> Result<(), Fatal> {
        self.open(at, Content::Map { entries: Vec::new(), key: None })
    }

    fn open(&mut self, at: Span, content: Content) -> Result<(), Fatal> {
        if self.open.len() == DEPTH_MAX {
            let problem = Problem::error(at, self.path(), "the document is nested too deeply");
            return Err(problem.want(format!("at most {DEPTH_MAX} lists and maps in each other")).into());
        }
        self.open.push(Open { at, content });
        Ok(())
    }

    /// Closes the innermost list or map, which ends before column `column` of `line`.
    pub(super) fn close(&mut self, line: u32, column: u32) -> Result<(), Fatal> {
        let Open { mut at, content } = self.open.pop().expect("every end has its start");
        if line == at.line && column > at.column {
            at.length = column - at.column;
        }
        let kind = match content {
            Content::List(items) => ValueKind::List(items),
            Content::Map { entries, .. } => {
                if let Some((first, _)) = entries.first()
                    && (first.at.line, first.at.column) == (at.line, at.column)
                    && line != at.line
                {
                    at = first.at;
                }
                ValueKind::Map(self.without_duplicates(entries))
            }
        };
        self.value(DocumentNode { kind, at })
    }

    /// Reports repeated keys, and keeps the first of each.
    fn without_duplicates(
        &mut self,
        entries: Vec<(Spanned<String>, DocumentNode)>,
    ) -> Vec<(Spanned<String>, DocumentNode)> {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by(|&a, &b| entries[a].0.value.cmp(&entries[b].0.value).then(a.cmp(&b)));
        let mut repeated: Vec<(usize, u32)> = Vec::new();
        for run in order.chunk_by(|&a, &b| entries[a].0.value == entries[b].0.value) {
            let first = entries[run[0]].0.at.line;
            repeated.extend(run[1..].iter().map(|&index| (index, first)));
        }
        if repeated.is_empty() {
            return entries;
        }
        repeated.sort_unstable();
        for &(index, first) in &repeated {
            let key = &entries[index].0;
            let name = shorten(&key.value);
            let path = join(&self.path(), &key.value);
            self.problem(
                Problem::error(key.at, path, format!("duplicate key {name}"))
                    .saw(name)
                    .want("each key once")
                    .hint(format!("it is on line {first} already: remove one of the two")),
            );
        }
        let mut repeated = repeated.into_iter().map(|(index, _)| index).peekable();
        let mut kept = entries.into_iter().enumerate().collect::<Vec<_>>();
        kept.retain(|(index, _)| repeated.next_if_eq(index).is_none());
        kept.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Adds a problem that does not end parsing.
    pub(super) fn problem(&mut self, problem: Problem) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    /// Is the document complete?
    pub(super) fn is_complete(&self) -> bool {
        self.root.is_some()
    }

    /// The path of the next value: `limits[3].sustained`.
    pub(super) fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            match &open.content {
                Content::List(items) => path.push_str(&format!("[{}]", items.len())),
                Content::Map { key: Some(key), .. } => path = join(&path, &key.value),
                Content::Map { key: None, .. } => {}
            }
        }
        path
    }

    /// The tree and its problems; no tree if `end` is an error.
    pub(super) fn finish(mut self, end: Result<(), Fatal>) -> (Option<DocumentNode>, Vec<Problem>) {
        let root = match end {
            Ok(()) => self.root,
            Err(problem) => {
                self.problems.push(*problem);
                None
            }
        };
        self.problems.sort_by_key(|problem| problem.at);
        (root, self.problems)
    }
}

/// The path of a member of a map. Names with characters that field names do not have are quoted, so that a path is
/// unambiguous.
pub(crate) fn join(path: &str, name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match (plain, path.is_empty()) {
        (true, true) => name.to_owned(),
        (true, false) => format!("{path}.{name}"),
        (false, _) => format!("{path}[{}]", shorten(name)),
    }
}

/// Quotes text for a problem: in quotes, on one line, shortened.
pub(crate) fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
