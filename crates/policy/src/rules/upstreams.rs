//! The compiled upstreams.

use std::collections::HashMap;

use crate::Facts;
use crate::matching::HostIndex;

/// The upstreams of a policy that are switched on, in the order of the document.
#[derive(Debug, Default)]
pub struct Upstreams {
    names: Box<[Box<str>]>,
    by_name: HashMap<Box<str>, u32>,
    hosts: HostIndex,
}

impl Upstreams {
    pub(crate) fn new(names: Vec<Box<str>>, hosts: HostIndex) -> Upstreams {
        let by_name = (0..).zip(&names).map(|(number, name)| (name.clone(), number)).collect();
        Upstreams { names: names.into(), by_name, hosts }
    }

    /// Does the policy declare none?
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Their names; an upstream's number is its place here.
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// The number of an upstream by its name.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// Finds the upstream of a request: the one that it names, else the first one with its host.
    pub(crate) fn place<'r>(&'r self, facts: &mut Facts<'r, '_>) {
        if self.is_empty() {
            return;
        }
        facts.upstream_number = match facts.upstream {
            Some(named) => self.number(named),
            None => facts.host().and_then(|host| self.hosts.find(host)),
        };
        if let Some(number) = facts.upstream_number {
            facts.upstream = Some(&self.names[number as usize]);
        }
    }
}
