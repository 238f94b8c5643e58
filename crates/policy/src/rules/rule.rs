//! One limit of a compiled policy.

use std::fmt;

use tidegate_core::{Carry, Cost, Limit, Nanos};

use crate::document::{HeaderFamily, Jitter, Mode, OnStoreError};
use crate::{Condition, Descriptor, Facts, Numbers, Span};

/// A limit, ready to be applied: one of `limits`, or that of a tenant.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name; `tenant:<id>` for a tenant's.
    pub name: Box<str>,
    /// Where it stands in the document.
    pub at: Span,
    /// Whom it is for.
    pub tier: Tier,
    /// Is it in use?
    pub enabled: bool,
    /// In a group of several, the first that matches applies.
    pub group: Option<Group>,
    /// All must hold.
    pub conditions: Box<[Condition]>,
    /// What tells its buckets apart.
    pub key: Box<[Descriptor]>,
    /// What it enforces.
    pub limit: Limit,
    /// The numbers of that as they were written.
    pub numbers: Numbers,
    /// What an edit does with the tokens.
    pub carry: Carry,
    /// What a request costs.
    pub cost: CostRule,
    /// What happens to a request that it denies.
    pub strategy: Strategy,
    /// Does it count, or is it only watched?
    pub mode: Mode,
    /// The header families in which it speaks; none if headers are off.
    pub headers: Box<[HeaderFamily]>,
    /// What may be added to `Retry-After`.
    pub retry_jitter: Jitter,
    /// What to do without a store.
    pub on_store_error: OnStoreError,
    /// Does the policy say that, or is it what nobody said?
    pub says_on_store_error: bool,
    /// Does trust scale it?
    pub adaptive: bool,
    /// Which of its buckets belong together where they are spread over several servers.
    pub tag: TagRule,
}

impl Rule {
    /// Is it only watched?
    pub fn is_shadow(&self) -> bool {
        self.mode == Mode::Shadow
    }

    /// The tag of the bucket that a request of this tenant draws on: a function of the bucket alone. None where
    /// a bucket goes by its own key.
    pub fn tag<'r>(&'r self, tenant: Option<&'r str>) -> Option<&'r str> {
        match &self.tag {
            TagRule::Own => None,
            TagRule::Tenant => tenant,
            TagRule::Root(root) => Some(root),
        }
    }

    /// The name under which its state is kept: other key descriptors are other
    /// buckets.
    pub fn state_name(&self) -> String {
        let mut name = String::from(&*self.name);
        for descriptor in &self.key {
            name.push('\u{1f}');
            name.push_str(&descriptor.to_string());
        }
        name
    }
}

/// Which buckets belong together: those of one tenant, and those of one tree of tenants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagRule {
    /// Each bucket is by itself.
    Own,
    /// The tenant is part of the key.
    Tenant,
    /// It is a tenant's own limit; the root of its tree.
    Root(Box<str>),
}

/// A group of several limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Box<str>,
    /// Its number.
    pub number: u32,
}

/// Whom a limit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Everybody together.
    Global,
    /// A tenant.
    Tenant,
    /// A user.
    User,
    /// An address.
    Ip,
    /// A route.
    Route,
    /// A client program.
    Client,
    /// Something else, or several of them.
    Custom,
}

impl Tier {
    /// That of a key.
    pub fn of(key: &[Descriptor]) -> Tier {
        match key {
            [] => Tier::Global,
            [Descriptor::Tenant] => Tier::Tenant,
            [Descriptor::User] => Tier::User,
            [Descriptor::Ip] => Tier::Ip,
            [Descriptor::Route] => Tier::Route,
            [Descriptor::Client] => Tier::Client,
            _ => Tier::Custom,
        }
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Tier::Global => "global",
            Tier::Tenant => "tenant",
            Tier::User => "user",
            Tier::Ip => "ip",
            Tier::Route => "route",
            Tier::Client => "client",
            Tier::Custom => "custom",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What happens to a request that a limit denies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// It is refused.
    Reject,
    /// It waits.
    Queue {
        /// How many may wait for one bucket.
        max_depth: u32,
        /// How long.
        max_wait: Nanos,
    },
    /// It is admitted and marked.
    Degrade {
        /// The mark.
        tag: Box<str>,
    },
}

/// What a request costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostRule {
    /// This, unless its route says otherwise.
    Fixed(Cost),
    /// What the request says.
    From {
        /// Where it says so.
        descriptor: Descriptor,
        /// What counts if it says nothing usable.
        default: Cost,
        /// The most that counts.
        max: Cost,
    },
}

impl CostRule {
    /// What this request costs, its own factor included.
    pub fn charge(&self, facts: &Facts<'_, '_>) -> Cost {
        let unit = match self {
            CostRule::Fixed(cost) => facts.route_cost.unwrap_or(*cost),
            CostRule::From { descriptor, default, max } => {
                facts.value(descriptor).and_then(|text| stated(&text, *max)).unwrap_or(*default)
            }
        };
        unit.saturating_mul(facts.request.cost)
    }

    /// Where the cost of this request comes from, in words.
    pub fn explain(&self, facts: &Facts<'_, '_>) -> String {
        let factor = match facts.request.cost.get() {
            1 => String::new(),
            factor => format!(", times {factor} for the request"),
        };
        let unit = match self {
            CostRule::Fixed(cost) => match facts.route_cost {
                Some(route) => format!("{} for the route", route.get()),
                None => cost.get().to_string(),
            },
            CostRule::From { descriptor, default, max } => match facts.value(descriptor) {
                None => format!("{} by default: there is no {descriptor}", default.get()),
                Some(text) => match stated(&text, *max) {
                    None => format!("{} by default: {descriptor} is no integer of at least 1", default.get()),
                    Some(cost) if cost == *max => {
                        format!("{} from {descriptor}, the most that counts", cost.get())
                    }
                    Some(cost) => format!("{} from {descriptor}", cost.get()),
                },
            },
        };
        unit + &factor
    }
}

/// A cost as a request states it: an integer of at least one, `max` if it is
/// above that, however long.
fn stated(text: &str, max: Cost) -> Option<Cost> {
    let text = text.trim_ascii();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = text.trim_start_matches('0');
    match digits.len() {
        0 => None,
        1..=10 => {
            let number: u64 = digits.parse().expect("ten digits fit");
            Some(Cost::new(u32::try_from(number).unwrap_or(u32::MAX)).min(max))
        }
        _ => Some(max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stated_cost_is_an_integer_within_bounds() {
        let max = Cost::new(1000);
        for (text, cost) in [("1", 1), ("007", 7), ("1000", 1000), ("1001", 1000), (&"9".repeat(400), 1000)] {
            assert_eq!(stated(text, max), Some(Cost::new(cost)), "{text}");
        }
        for text in ["", "0", "000", "-1", "+1", "1.5", "NaN", "inf", "1e3", "0x10"] {
            assert_eq!(stated(text, max), None, "{text}");
        }
    }
}
