//! The busiest keys of late: of this node, and summed over all nodes.
//!
//! Each node tells the others its busiest keys together with its other figures. Values that may be credentials are masked
//! before that.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tidegate::engine::{BusyKey, BusyKeys};
use tidegate_database::UnixMillis;
use tidegate_policy::{Descriptor, RuleSet};

use super::choosing::chosen;
use super::figures::tenant_of;
use crate::admin::hot_keys::{display_key, known_key};
use crate::control::access::Principal;
use crate::node::Node;

/// How many keys of each kind a node reads of its own: about as many as it tracks, so that those of a tenant are among them
/// whoever else is busy.
const READ_MAX: usize = 1_000;
/// How many keys of each kind a node tells the others.
pub(crate) const KEYS_TOLD_MAX: usize = 40;

/// The busiest keys of a node since some time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BusyFigures {
    /// Since when, in milliseconds since 1970.
    since_millis: i64,
    /// By the tokens that they took.
    pub(crate) consumers: KeyCounts,
    /// By how often they were denied.
    pub(crate) denied: KeyCounts,
}

/// The keys with the highest counts, highest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyCounts {
    pub(crate) keys: Vec<KeyCount>,
    /// No other key has a higher count.
    pub(crate) others_at_most: u64,
}

/// How busy a key is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyCount {
    /// The limit that counts it.
    pub(crate) limit: String,
    /// The key as it is shown.
    pub(crate) key: String,
    /// Its tenant, if the limit counts by tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// The members that a request must have to have this key; none if one is masked, or is not a member of requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) request: BTreeMap<String, String>,
    /// Never too low.
    pub(crate) count: u64,
    /// Too high by at most that.
    pub(crate) error: u64,
}

impl BusyFigures {
    /// The busiest keys of a node since a time at which it started a span.
    pub(super) fn of(node: &Node, since: UnixMillis) -> BusyFigures {
        let limiter = node.limiter();
        let (consumers, denied) = (limiter.top_consumers(READ_MAX), limiter.top_denied(READ_MAX));
        BusyFigures {
            since_millis: since.get(),
            consumers: KeyCounts::of(&consumers),
            denied: KeyCounts::of(&denied),
        }
    }

    /// Since when they are counted; `None` if nothing was read yet.
    pub(crate) fn since(&self) -> Option<UnixMillis> {
        (self.since_millis != 0).then(|| UnixMillis::new(self.since_millis))
    }

    /// As much of it as other nodes are told.
    pub(super) fn told(&self, rules: &RuleSet) -> BusyFigures {
        BusyFigures {
            since_millis: self.since_millis,
            consumers: self.consumers.cut(KEYS_TOLD_MAX, rules),
            denied: self.denied.cut(KEYS_TOLD_MAX, rules),
        }
    }

    /// The sum over several nodes, since the earliest time of any.
    pub(super) fn sum<'n>(nodes: impl Iterator<Item = &'n BusyFigures> + Clone) -> BusyFigures {
        let since = nodes.clone().filter_map(BusyFigures::since).min();
        BusyFigures {
            since_millis: since.map(UnixMillis::get).unwrap_or_default(),
            consumers: KeyCounts::sum(nodes.clone().map(|busy| &busy.consumers)),
            denied: KeyCounts::sum(nodes.map(|busy| &busy.denied)),
        }
    }
}

impl KeyCounts {
    /// Keys, highest count first, where no other key has more than `others_at_most`.
    pub(crate) fn new(keys: Vec<KeyCount>, others_at_most: u64) -> KeyCounts {
        KeyCounts { keys, others_at_most }
    }

    /// The keys, highest count first.
    pub(crate) fn into_keys(self) -> impl Iterator<Item = KeyCount> {
        self.keys.into_iter()
    }

    /// The most that any other key has.
    pub(crate) fn others_at_most(&self) -> u64 {
        self.others_at_most
    }

    fn of(busy: &BusyKeys) -> KeyCounts {
        let keys = busy.keys.iter().map(KeyCount::of).collect();
        KeyCounts { keys, others_at_most: busy.others_at_most }
    }

    /// The first of them.
    pub(crate) fn first(&self, most: usize) -> KeyCounts {
        let cut = self.keys.get(most).map_or(0, |cut| cut.count);
        KeyCounts {
            keys: self.keys.iter().take(most).cloned().collect(),
            others_at_most: self.others_at_most.max(cut),
        }
    }

    /// So many of them: the busiest of all, and of as many tenants as possible the busiest.
    fn cut(&self, most: usize, rules: &RuleSet) -> KeyCounts {
        let is_chosen = chosen(self.keys.iter().map(|key| key.tenant(rules)), most);
        let places = || self.keys.iter().zip(&is_chosen);
        let cut = places().filter(|(_, is_chosen)| !**is_chosen).map(|(key, _)| key.count);
        KeyCounts {
            others_at_most: cut.fold(self.others_at_most, u64::max),
            keys: places().filter(|(_, is_chosen)| **is_chosen).map(|(key, _)| key.clone()).collect(),
        }
    }

    /// The sum over several nodes, highest first. A node that does not tell of a key may have counted it as often as the
    /// least of its others: so much is added to the count and to its error. Keys that are too long and are shown alike are
    /// summed too.
    pub(crate) fn sum<'n>(nodes: impl Iterator<Item = &'n KeyCounts>) -> KeyCounts {
        let mut sums: BTreeMap<(&str, &str), NodeSum> = BTreeMap::new();
        let mut all_others = 0_u64;
        for node in nodes {
            all_others = all_others.saturating_add(node.others_at_most);
            let mut told: BTreeMap<(&str, &str), KeyCount> = BTreeMap::new();
            for key in &node.keys {
                let entry = told.entry((&key.limit, &key.key));
                entry.and_modify(|sum| sum.add(key)).or_insert_with(|| key.clone());
            }
            for (name, key) in told {
                let sum = sums.entry(name).or_insert_with(|| NodeSum { key: key.unused(), others: 0 });
                sum.key.add(&key);
                sum.others = sum.others.saturating_add(node.others_at_most);
            }
        }
        let mut keys: Vec<KeyCount> = sums.into_values().map(|sum| sum.completed(all_others)).collect();
        keys.sort_by(|one, other| other.count.cmp(&one.count).then(one.error.cmp(&other.error)));
        KeyCounts { keys, others_at_most: all_others }
    }
}

/// A key, summed over the nodes that tell of it.
struct NodeSum {
    key: KeyCount,
    /// What these nodes say at most of others.
    others: u64,
}

impl NodeSum {
    /// The key over all nodes.
    fn completed(mut self, all_others: u64) -> KeyCount {
        let untold = all_others.saturating_sub(self.others);
        self.key.count = self.key.count.saturating_add(untold);
        self.key.error = self.key.error.saturating_add(untold);
        self.key
    }
}

impl KeyCount {
    fn of(busy: &BusyKey) -> KeyCount {
        let values = || known_key(busy).into_iter().flatten().zip(&busy.values);
        let tenant = values().find(|(descriptor, _)| **descriptor == Descriptor::Tenant);
        KeyCount {
            limit: busy.limit.clone(),
            key: display_key(busy),
            tenant: tenant.and_then(|(_, value)| value.clone()),
            request: values().map(member).collect::<Option<_>>().unwrap_or_default(),
            count: busy.count,
            error: busy.error,
        }
    }

    fn add(&mut self, other: &KeyCount) {
        self.count = self.count.saturating_add(other.count);
        self.error = self.error.saturating_add(other.error);
    }

    fn unused(&self) -> KeyCount {
        KeyCount { count: 0, error: 0, ..self.clone() }
    }

    /// The tenant of its requests if the limit counts by tenant, else the tenant whose limit counts it.
    fn tenant<'k>(&'k self, rules: &'k RuleSet) -> Option<&'k str> {
        self.tenant.as_deref().or_else(|| tenant_of(rules, &self.limit))
    }

    /// May a caller see it? A restricted one sees the keys of tenants in its subtree: of their own limits, and of limits
    /// that count by tenant.
    pub(crate) fn is_seen_by(&self, caller: &Principal, rules: &RuleSet) -> bool {
        let named = || [self.tenant.as_deref(), tenant_of(rules, &self.limit)].into_iter().flatten();
        caller.tenant.is_none() || named().any(|id| caller.sees(rules.tenants(), Some(id)))
    }
}

/// The member of a request that has this value of a key. `None` too for a value whose end is not known.
fn member((descriptor, value): (&Descriptor, &Option<String>)) -> Option<(String, String)> {
    let value = value.as_ref().filter(|value| !value.is_empty())?;
    let name = match descriptor {
        Descriptor::Tenant => "tenant",
        Descriptor::User => "user",
        Descriptor::Client => "client",
        // A key may have a whole network.
        Descriptor::Ip if value.parse::<IpAddr>().is_ok() => "ip",
        Descriptor::Plan => "plan",
        Descriptor::Upstream => "upstream",
        Descriptor::Method => "method",
        Descriptor::Host => "host",
        Descriptor::Path => "path",
        Descriptor::Domain => "domain",
        // A route is a pattern.
        Descriptor::Route if !value.contains(['{', '*']) => "path",
        _ => return None,
    };
    Some((name.to_owned(), value.clone()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn count(key: &str, count: u64, error: u64) -> KeyCount {
        KeyCount { limit: "l".to_owned(), key: key.to_owned(), count, error, ..KeyCount::default() }
    }

    /// What a node says of exact counts, if it tells of so many keys.
    fn told(exact: &HashMap<u8, u64>, most: usize) -> KeyCounts {
        let mut keys: Vec<KeyCount> =
            exact.iter().map(|(key, exact)| count(&key.to_string(), *exact, 0)).collect();
        keys.sort_by_key(|key| (std::cmp::Reverse(key.count), key.key.clone()));
        KeyCounts { keys, others_at_most: 0 }.cut(most, &RuleSet::default())
    }

    proptest! {
        #[test]
        fn the_truth_lies_between_count_less_error_and_count(
            nodes in prop::collection::vec(prop::collection::hash_map(0_u8..12, 1_u64..100, 0..10), 0..5),
            most in 1_usize..12,
        ) {
            let lists: Vec<KeyCounts> = nodes.iter().map(|exact| told(exact, most)).collect();
            let KeyCounts { keys: sums, others_at_most } = KeyCounts::sum(lists.iter());
            prop_assert!(sums.is_sorted_by(|one, other| one.count >= other.count));
            let told_of = |key: u8| lists.iter().any(|list| list.keys.iter().any(|told| told.key == key.to_string()));
            for key in 0..12 {
                let exact: u64 = nodes.iter().filter_map(|node| node.get(&key)).sum();
                let found = sums.iter().find(|sum| sum.key == key.to_string());
                prop_assert_eq!(found.is_some(), told_of(key));
                prop_assert!(found.is_some() || exact <= others_at_most);
                if let Some(sum) = found {
                    prop_assert!(sum.count - sum.error <= exact && exact <= sum.count, "{:?}: {}", sum, exact);
                }
            }
            if most >= 10 {
                prop_assert!(sums.iter().all(|sum| sum.error == 0));
            }
        }
    }

    #[test]
    fn keys_that_are_shown_alike_are_one() {
        let node = |counts: &[u64], others_at_most| KeyCounts {
            keys: counts.iter().map(|number| count("a…", *number, 1)).collect(),
            others_at_most,
        };
        let sum = KeyCounts::sum([node(&[5, 3], 2), node(&[4], 0), node(&[], 7)].iter());
        assert_eq!(sum.keys, [count("a…", 5 + 3 + 4 + 7, 1 + 1 + 1 + 7)]);
    }

    #[test]
    fn a_tenant_that_is_less_busy_than_many_others_is_told_too() {
        let of = |tenant: &str, key: u64| KeyCount {
            tenant: Some(tenant.to_owned()),
            ..count(&key.to_string(), key, 0)
        };
        let busy = (0..200).map(|key| of("large", 1_000 - key));
        let keys =
            busy.chain((0..9).map(|key| of(["small", "tiny"][(key % 2) as usize], 10 - key))).collect();
        let told = KeyCounts { keys, others_at_most: 0 }.cut(KEYS_TOLD_MAX, &RuleSet::default());
        let has = |tenant: &str, count: u64| {
            told.keys.iter().any(|key| key.tenant.as_deref() == Some(tenant) && key.count == count)
        };
        assert_eq!((told.keys.len(), told.others_at_most), (KEYS_TOLD_MAX, 1_000 - 38));
        assert!(has("small", 10) && has("tiny", 9) && has("large", 1_000) && has("large", 1_000 - 37));
        assert!(told.keys.is_sorted_by(|one, other| one.count >= other.count));
    }

    #[test]
    fn a_partner_sees_keys_of_all_kinds_of_its_limits_and_nobody_elses() {
        let policy = "version: 1
limits: []
upstreams: [{ name: openai, hosts: [a.example] }]
tenants:
- { id: acme, upstreams: { openai: { rate_limit: { scope: user, sustained: { rate: 9 } } } } }
- { id: shop, parent: acme, rate_limit: { scope: user, sustained: { rate: 9 } } }
- { id: acme/openai2, rate_limit: { scope: user, sustained: { rate: 9 } } }
";
        let rules = RuleSet::from(tidegate_policy::Policy::parse(policy).expect("a policy"));
        let key = |limit: &str, tenant: Option<&str>| KeyCount {
            limit: limit.to_owned(),
            tenant: tenant.map(str::to_owned),
            ..KeyCount::default()
        };
        let keys = [
            key("tenant:acme/openai", None),
            key("tenant:shop", None),
            key("per-caller", Some("shop")),
            key("tenant:acme/openai2", None),
            key("per-caller", None),
        ];
        let seen = |tenant: Option<&str>| {
            let caller = Principal { tenant: tenant.map(Into::into), ..Principal::admin() };
            keys.each_ref().map(|key| key.is_seen_by(&caller, &rules))
        };
        assert_eq!(seen(None), [true; 5]);
        assert_eq!(seen(Some("acme")), [true, true, true, false, false]);
        assert_eq!(seen(Some("shop")), [false, true, true, false, false]);
        assert_eq!(seen(Some("acme/openai2")), [false, false, false, true, false]);
    }

    #[test]
    fn a_request_is_shown_only_if_it_has_the_key() {
        let key = |of: &[Descriptor], values: &[Option<&str>]| {
            let parts =
                values.iter().map(|value| value.unwrap_or("cut…").escape_debug().to_string()).collect();
            let values = values.iter().map(|value| value.map(str::to_owned)).collect();
            let (limit, of) = ("l".to_owned(), Some(of.into()));
            KeyCount::of(&BusyKey { limit, key: String::new(), parts, values, of, count: 1, error: 0 })
        };
        for user in ["ann", "DOMAIN\\ann", "e\u{301}", "\u{e02}\u{e49}", "a real…"] {
            let known = key(&[Descriptor::Tenant, Descriptor::User], &[Some("acme"), Some(user)]);
            let members = BTreeMap::from([("tenant", "acme"), ("user", user)]);
            let members =
                members.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            assert_eq!((known.request, known.tenant.as_deref()), (members, Some("acme")));
            assert_eq!(known.key, format!("acme, {}", user.escape_debug()), "it is shown escaped");
        }
        for (of, value) in [
            (Descriptor::User, None),
            (Descriptor::User, Some("")),
            (Descriptor::Ip, Some("10.0.0.0/8")),
            (Descriptor::Route, Some("/a/{b}")),
        ] {
            assert!(key(&[of], &[value]).request.is_empty(), "{value:?}");
        }
    }
}
