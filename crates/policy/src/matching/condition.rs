//! Compiled conditions.

use std::fmt;

use ipnet::IpNet;

use crate::document::{self, ConditionTest};
use crate::{Descriptor, Facts, PathSpelling, Pattern};

/// A condition on a request: one of its values must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The path matches one of these.
    Path(Box<[Pattern]>),
    /// The method is one of these, in upper case and sorted.
    Method(Box<[Box<str>]>),
    /// The address is in one of these networks.
    Address(Box<[IpNet]>),
    /// The descriptor has one of these values, which are sorted.
    Value(Descriptor, Box<[Box<str>]>),
}

impl Condition {
    /// Compiles a condition; paths and patterns are brought to the normal form of this spelling.
    pub(crate) fn new(written: &document::ConditionEntry, spelling: PathSpelling) -> Condition {
        let sorted = |values: &[crate::Spanned<String>], fold: &dyn Fn(&str) -> String| {
            let mut values: Vec<Box<str>> = values.iter().map(|value| fold(&value.value).into()).collect();
            values.sort_unstable();
            values.dedup();
            values.into_boxed_slice()
        };
        match &written.test {
            ConditionTest::Path(patterns) => {
                Condition::Path(patterns.iter().map(|p| p.value.with_spelling(spelling)).collect())
            }
            ConditionTest::Method(methods) => Condition::Method(sorted(methods, &str::to_ascii_uppercase)),
            ConditionTest::Address(networks) => {
                Condition::Address(networks.iter().map(|n| n.value).collect())
            }
            ConditionTest::Value(descriptor, values) => {
                let path = |text: &str| spelling.normalise(text).into_owned();
                let fold: &dyn Fn(&str) -> String = match descriptor {
                    Descriptor::Host => &str::to_ascii_lowercase,
                    // The value of `route` is a pattern in normal form.
                    Descriptor::Route if spelling != PathSpelling::default() => &path,
                    _ => &str::to_owned,
                };
                Condition::Value(descriptor.clone(), sorted(values, fold))
            }
        }
    }

    /// Does the request fulfil it?
    pub fn holds(&self, facts: &Facts<'_, '_>) -> bool {
        match self {
            Condition::Path(patterns) => {
                facts.path.as_deref().is_some_and(|path| patterns.iter().any(|pattern| pattern.matches(path)))
            }
            Condition::Method(methods) => facts
                .request
                .method
                .as_deref()
                .is_some_and(|method| methods.iter().any(|wanted| wanted.eq_ignore_ascii_case(method))),
            Condition::Address(networks) => {
                facts.ip.is_some_and(|ip| networks.iter().any(|network| network.contains(&ip)))
            }
            Condition::Value(descriptor, values) => facts
                .any_value(descriptor, |value| values.binary_search_by(|known| (**known).cmp(value)).is_ok()),
        }
    }

    /// Does it hold for every request for which `other` holds? `true` is certain; `false` may be wrong.
    pub(crate) fn covers(&self, other: &Condition) -> bool {
        match (self, other) {
            (Condition::Path(mine), Condition::Path(theirs)) => {
                theirs.iter().all(|path| mine.iter().any(|pattern| pattern.covers(path)))
            }
            (Condition::Method(mine), Condition::Method(theirs)) => includes(mine, theirs),
            (Condition::Address(mine), Condition::Address(theirs)) => {
                theirs.iter().all(|network| mine.iter().any(|wider| wider.contains(network)))
            }
            (Condition::Value(my, mine), Condition::Value(their, theirs)) => {
                my == their && includes(mine, theirs)
            }
            _ => false,
        }
    }

    /// The number of its values.
    pub(crate) fn size(&self) -> usize {
        match self {
            Condition::Path(patterns) => patterns.len(),
            Condition::Address(networks) => networks.len(),
            Condition::Method(texts) | Condition::Value(_, texts) => texts.len(),
        }
    }

    /// The descriptor that it tests.
    pub fn descriptor(&self) -> Descriptor {
        match self {
            Condition::Path(_) => Descriptor::Path,
            Condition::Method(_) => Descriptor::Method,
            Condition::Address(_) => Descriptor::Ip,
            Condition::Value(descriptor, _) => descriptor.clone(),
        }
    }
}

/// Does a sorted list contain all texts of another?
fn includes(list: &[Box<str>], part: &[Box<str>]) -> bool {
    part.len() <= list.len() && part.iter().all(|text| list.binary_search(text).is_ok())
}

impl fmt::Display for Condition {
    /// As a document has it: `plan: [free, trial]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, values: &[T]) -> fmt::Result {
            match values {
                [one] => write!(f, "{one}"),
                several => {
                    for (index, value) in several.iter().enumerate() {
                        write!(f, "{}{value}", if index == 0 { "[" } else { ", " })?;
                    }
                    f.write_str("]")
                }
            }
        }
        match self {
            Condition::Path(patterns) => f.write_str("path: ").and_then(|()| list(f, patterns)),
            Condition::Method(methods) => f.write_str("methods: ").and_then(|()| list(f, methods)),
            Condition::Address(networks) => f.write_str("ip: ").and_then(|()| list(f, networks)),
            Condition::Value(descriptor, values) => {
                write!(f, "{descriptor}: ").and_then(|()| list(f, values))
            }
        }
    }
}
