//! The tree of tenants: parents, depths, and the entry for tenants that are not listed.

use std::collections::{HashMap, HashSet};

use tidegate_document::nearest;

use crate::Problem;
use crate::compile::Compiler;
use crate::document::{Document, TenantEntry, UNLISTED};

/// The highest number of generations of tenants.
pub const DEPTH_MAX: usize = 64;

/// How many times a similar name is searched: each search compares with every tenant.
const GUESSES_MAX: usize = 20;

/// The tree of tenants, by the indices of their entries.
pub(super) struct Tree<'d> {
    pub(super) entries: &'d [TenantEntry],
    pub(super) by_id: HashMap<&'d str, usize>,
    parents: Vec<Option<usize>>,
    depths: Vec<u32>,
    pub(super) children: Vec<Vec<usize>>,
    /// The entry `*`.
    pub(super) unlisted: Option<usize>,
}

impl<'d> Tree<'d> {
    pub(super) fn parent(&self, index: usize) -> Option<usize> {
        self.parents[index]
    }

    /// How many ancestors a tenant has.
    pub(super) fn depth(&self, index: usize) -> u32 {
        self.depths[index]
    }

    /// The ancestors of a tenant, nearest first.
    pub(super) fn ancestors(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.parents[index], |&ancestor| self.parents[ancestor])
    }

    /// The id of a tenant.
    pub(super) fn id(&self, index: usize) -> &'d str {
        &self.entries[index].id.value
    }

    /// The id of the root above a tenant; its own if it is a root.
    pub(super) fn root(&self, index: usize) -> &'d str {
        self.id(self.ancestors(index).last().unwrap_or(index))
    }
}

impl Compiler<'_> {
    pub(super) fn tree<'d>(&mut self, document: &'d Document) -> Tree<'d> {
        let entries = &document.tenants[..];
        let mut by_id: HashMap<&str, usize> = HashMap::new();
        for (index, entry) in entries.iter().enumerate() {
            by_id.entry(&entry.id.value).or_insert(index);
        }
        let parents = self.parents(document, &by_id);
        let mut children = vec![Vec::new(); entries.len()];
        for (index, parent) in parents.iter().enumerate() {
            if let Some(parent) = parent {
                children[*parent].push(index);
            }
        }
        let unlisted = by_id.get(UNLISTED).copied();
        let mut tree = Tree { entries, by_id, parents, depths: Vec::new(), children, unlisted };
        tree.depths = (0..entries.len()).map(|index| tree.ancestors(index).count() as u32).collect();
        tree
    }

    /// The index of each entry's parent. A parent that does not exist, or that closes a circle, is reported and left
    /// out.
    fn parents(&mut self, document: &Document, by_id: &HashMap<&str, usize>) -> Vec<Option<usize>> {
        let entries = &document.tenants[..];
        // A parent whose entry has errors still exists, so its children are not reported.
        let ids: HashSet<&str> = document.tenant_ids.iter().map(|id| id.name.value.as_str()).collect();
        let mut parents: Vec<Option<usize>> = Vec::with_capacity(entries.len());
        for entry in entries {
            let found = entry.parent.as_ref().and_then(|parent| by_id.get(parent.value.as_str()).copied());
            if let Some(parent) = entry.parent.as_ref().filter(|parent| !ids.contains(parent.value.as_str()))
            {
                let message = format!("the parent `{}` is not a tenant of this policy", parent.value);
                let problem = Problem::error(parent.at, format!("{}.parent", entry.path), message)
                    .saw(format!("`{}`", parent.value))
                    .want("the `id` of another tenant");
                let others = ids.iter().copied().filter(|id| *id != entry.id.value);
                let near =
                    if self.problems.len() < GUESSES_MAX { nearest(&parent.value, others) } else { None };
                self.report(match near {
                    Some(known) => problem.hint(format!("did you mean `{known}`?")),
                    None => problem.hint(format!("add `- id: {}` to `tenants`", parent.value)),
                });
            }
            parents.push(found);
        }
        for (index, entry) in entries.iter().enumerate() {
            self.break_circle(entries, &mut parents, index, entry);
        }
        parents
    }

    fn break_circle(
        &mut self,
        entries: &[TenantEntry],
        parents: &mut [Option<usize>],
        start: usize,
        entry: &TenantEntry,
    ) {
        let mut chain = vec![start];
        let mut index = start;
        while let Some(parent) = parents[index] {
            let circle = parent == start;
            if circle || chain.len() == DEPTH_MAX {
                let names: Vec<&str> = chain.iter().map(|&p| entries[p].id.value.as_str()).collect();
                let at = entry.parent.as_ref().map_or(entry.at, |parent| parent.at);
                let path = format!("{}.parent", entry.path);
                self.report(if circle {
                    let message = format!("`{}` is its own ancestor", entry.id.value);
                    Problem::error(at, path, message)
                        .saw(format!("{} → {}", names.join(" → "), entry.id.value))
                        .want("a tree: give one tenant of the circle another parent, or none")
                } else {
                    Problem::error(at, path, "too many ancestors")
                        .want(format!("at most {DEPTH_MAX} generations"))
                });
                parents[start] = None;
                return;
            }
            if chain.contains(&parent) {
                // A circle that this tenant is not part of; its own members report it.
                return;
            }
            chain.push(parent);
            index = parent;
        }
    }
}
