//! An index that stores each entry under one of its conditions.

use std::collections::{BTreeMap, HashMap};

use ipnet::IpNet;

use super::{Candidates, Condition, PathTree, TextMap};
use crate::{Descriptor, Facts, Pattern};

/// Finds the entries whose indexed condition a request fulfils.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Entries without conditions.
    always: Vec<u32>,
    values: Vec<(Descriptor, ByText)>,
    methods: ByText,
    /// By family and length of prefix: an address is looked up once for each length.
    networks: BTreeMap<(bool, u8), HashMap<IpNet, Vec<u32>>>,
    paths: PathTree,
}

/// Numbers of entries by the text they are stored under.
type ByText = TextMap<Vec<u32>>;

/// A value that an entry can be stored under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Label<'a> {
    Path(&'a Pattern),
    Method(&'a str),
    Network(IpNet),
    Value(&'a Descriptor, &'a str),
}

fn labels(condition: &Condition) -> Vec<Label<'_>> {
    match condition {
        Condition::Path(patterns) => patterns.iter().map(Label::Path).collect(),
        Condition::Method(methods) => methods.iter().map(|method| Label::Method(method)).collect(),
        Condition::Address(networks) => networks.iter().map(|network| Label::Network(*network)).collect(),
        Condition::Value(descriptor, values) => {
            values.iter().map(|value| Label::Value(descriptor, value)).collect()
        }
    }
}

impl Index {
    /// Indexes entries, each a number and its conditions.
    pub(crate) fn new<'a>(entries: impl Iterator<Item = (u32, &'a [Condition])> + Clone) -> Index {
        let mut shared_by: HashMap<Label<'_>, usize> = HashMap::new();
        for label in entries.clone().flat_map(|(_, conditions)| conditions.iter().flat_map(labels)) {
            *shared_by.entry(label).or_default() += 1;
        }
        // How many entries share the most frequent value of a condition.
        let crowd = |condition: &&Condition| {
            labels(condition).iter().map(|label| shared_by[label]).max().unwrap_or_default()
        };
        let mut index = Index::default();
        for (number, conditions) in entries {
            match conditions.iter().min_by_key(crowd) {
                None => index.always.push(number),
                Some(condition) => {
                    labels(condition).into_iter().for_each(|label| index.insert(label, number))
                }
            }
        }
        index
    }

    fn insert(&mut self, label: Label<'_>, number: u32) {
        match label {
            Label::Path(pattern) => self.paths.insert(pattern, number),
            Label::Method(method) => self.methods.entry(method.into()).or_default().push(number),
            Label::Network(network) => {
                let length = (network.addr().is_ipv6(), network.prefix_len());
                self.networks.entry(length).or_default().entry(network.trunc()).or_default().push(number);
            }
            Label::Value(descriptor, value) => {
                let known = self.values.iter().position(|(known, _)| known == descriptor);
                let index = known.unwrap_or_else(|| {
                    self.values.push((descriptor.clone(), TextMap::default()));
                    self.values.len() - 1
                });
                self.values[index].1.entry(value.into()).or_default().push(number);
            }
        }
    }

    /// The entries that may match, in order. Their other conditions still have to be checked.
    pub(crate) fn candidates(&self, facts: &Facts<'_, '_>) -> Candidates {
        let mut found = Candidates::from_slice(&self.always);
        for (descriptor, values) in &self.values {
            facts.each_value(descriptor, |value| {
                found.extend_from_slice(values.get(value).map_or(&[], Vec::as_slice));
            });
        }
        if !self.methods.is_empty() {
            facts.each_value(&Descriptor::Method, |method| {
                found.extend_from_slice(self.methods.get(method).map_or(&[], Vec::as_slice));
            });
        }
        if let Some(ip) = facts.ip {
            for (&(ipv6, length), networks) in &self.networks {
                if ipv6 == ip.is_ipv6() {
                    let network =
                        IpNet::new(ip, length).expect("the length is that of such a network").trunc();
                    found.extend_from_slice(networks.get(&network).map_or(&[], Vec::as_slice));
                }
            }
        }
        if let Some(path) = &facts.path {
            self.paths.find(path, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
