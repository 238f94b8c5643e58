//! Compiled limits.

use std::fmt;

use tidegate_core::{Carry, Cost, Limit, Meter, Nanos, OverrideNumbers, Rate};

use super::override_share;
use crate::document::{HeaderFamily, Jitter, Missing, Mode, OnStoreError};
use crate::{Condition, Descriptor, Facts, Numbers, Span};

/// A compiled limit: an entry of `limits`, or the limit of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name; `tenant:<id>` for that of a tenant.
    pub name: Box<str>,
    /// The name of its state, where several rules have one name.
    pub(crate) state: Option<Box<str>>,
    /// Where it was written.
    pub at: Span,
    /// What it counts by: tenant, user, address and so on.
    pub tier: Tier,
    /// Is it switched on?
    pub enabled: bool,
    /// Its group: of the limits in a group only the first that matches applies.
    pub group: Option<Group>,
    /// Its conditions: all must hold.
    pub conditions: Box<[Condition]>,
    /// It does not apply where all of these hold; none if it is empty.
    pub unless: Box<[Condition]>,
    /// The descriptors whose values identify a bucket.
    pub key: Box<[Descriptor]>,
    /// What happens to a request that lacks one of them.
    pub missing: Missing,
    /// The limit itself.
    pub limit: Limit,
    /// The numbers of the limit as they were written.
    pub numbers: Numbers,
    /// What the ancestors of a tenant allow it: an override does not exceed that. `None` if there is nothing above.
    pub ceiling: Option<Numbers>,
    /// What happens to the tokens when the numbers are edited.
    pub carry: Carry,
    /// What a request costs.
    pub cost: CostRule,
    /// What happens to a request that it denies.
    pub strategy: Strategy,
    /// Does it deny requests, or only report what it would deny?
    pub mode: Mode,
    /// The families of its response headers; none if headers are switched off.
    pub headers: Box<[HeaderFamily]>,
    /// How much may be added to `Retry-After`.
    pub retry_jitter: Jitter,
    /// What happens while the store cannot be reached.
    pub on_store_error: OnStoreError,
    /// Does the policy set that, or is it the default?
    pub sets_on_store_error: bool,
    /// Does the trust of a request scale it?
    pub adaptive: bool,
    /// Which of its buckets must be on the same server of a cluster.
    pub tag: TagRule,
}

impl Rule {
    /// Is it in shadow mode?
    pub fn is_shadow(&self) -> bool {
        self.mode == Mode::Shadow
    }

    /// Does it say the same as another rule, wherever the two are written?
    pub fn is_same_as(&self, other: &Rule) -> bool {
        let unplaced = |rule: &Rule| {
            let group = rule.group.clone().map(|group| Group { number: 0, ..group });
            Rule { at: Span::default(), group, ..rule.clone() }
        };
        unplaced(self) == unplaced(other)
    }

    /// Do its conditions hold, and those of `unless` do not?
    pub(crate) fn matches(&self, facts: &Facts<'_, '_>) -> bool {
        self.conditions.iter().all(|condition| condition.holds(facts)) && !excepts(&self.unless, facts)
    }

    /// The tag of the bucket of a request of this tenant: buckets with the same tag are on the same server of a
    /// cluster. It depends on the bucket alone. `None` if a bucket is placed by its own key.
    pub fn tag<'r>(&'r self, tenant: Option<&'r str>) -> Option<&'r str> {
        match &self.tag {
            TagRule::Own => None,
            TagRule::Tenant => tenant,
            TagRule::Root(root) => Some(root),
        }
    }

    /// The numbers that an override gives it on one of so many nodes, each of which enforces its share: at most what the
    /// ancestors of the tenant allow.
    pub fn overridden(&self, numbers: OverrideNumbers, nodes: u32) -> OverrideNumbers {
        self.within_ceiling(override_share(numbers, &self.limit, nodes))
    }

    /// The numbers of an override, at most what the ancestors of the tenant allow.
    fn within_ceiling(&self, numbers: OverrideNumbers) -> OverrideNumbers {
        let Some(ceiling) = self.ceiling else { return numbers };
        let (Ok(most), Ok(limit)) = (Rate::new(ceiling.rate, ceiling.window), self.limit.at(numbers.into()))
        else {
            return numbers;
        };
        let capacity_max = ceiling.capacity;
        let (rate, capacity) = match limit {
            Limit::Meter(Meter::TokenBucket(quota)) => (Some(quota.rate()), Some(quota.capacity())),
            Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota)) => {
                (Rate::new(quota.limit().into(), quota.length()).ok(), None)
            }
            Limit::Log(quota) => (Rate::new(quota.limit().into(), quota.window()).ok(), None),
        };
        let is_within =
            rate.is_none_or(|rate| rate <= most) && capacity.is_none_or(|capacity| capacity <= capacity_max);
        if is_within {
            return numbers;
        }
        OverrideNumbers::Fixed {
            rate: rate.map(|rate| rate.min(most)),
            capacity: capacity.map(|capacity| capacity.min(capacity_max)),
        }
    }

    /// The name that its state is stored under. It includes the descriptors of the key, so that an edited key starts
    /// with new buckets.
    pub fn state_name(&self) -> String {
        let mut name = String::from(self.state.as_deref().unwrap_or(&self.name));
        for descriptor in &self.key {
            name.push('\u{1f}');
            name.push_str(&descriptor.to_string());
        }
        name
    }
}

/// Do all conditions of an `unless` hold? An empty one is none.
pub(crate) fn excepts(unless: &[Condition], facts: &Facts<'_, '_>) -> bool {
    !unless.is_empty() && unless.iter().all(|condition| condition.holds(facts))
}

/// Which buckets must be on the same server of a cluster: those of one tenant, and those of one tree of tenants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagRule {
    /// Each bucket is placed by its own key.
    Own,
    /// By the tenant, which is part of the key.
    Tenant,
    /// By the root of the tenant's tree: it is the limit of a tenant.
    Root(Box<str>),
}

/// A group of limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Box<str>,
    /// Its number.
    pub number: u32,
}

/// What a limit counts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// One bucket for all requests.
    Global,
    /// By tenant.
    Tenant,
    /// By user.
    User,
    /// By address.
    Ip,
    /// By route.
    Route,
    /// By client application.
    Client,
    /// By another descriptor, or by several.
    Custom,
}

impl Tier {
    /// The tier of a key.
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

    /// Its name in decisions and metrics.
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
    /// It is denied.
    Reject,
    /// It waits for tokens.
    Queue {
        /// How many requests may wait for one bucket.
        max_depth: u32,
        /// How long a request may wait.
        max_wait: Nanos,
    },
    /// It is admitted, marked with a tag.
    Degrade {
        /// The tag.
        tag: Box<str>,
    },
}

/// What a request costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostRule {
    /// This, unless its route has a cost.
    Plain(Cost),
    /// This, whatever its route costs.
    PerCall(Cost),
    /// A number in the request.
    From {
        /// Which part of the request has it.
        descriptor: Descriptor,
        /// The cost if that part is not a whole number above 0.
        default: Cost,
        /// The highest cost.
        max: Cost,
    },
}

impl CostRule {
    /// What a request costs, including its own factor.
    pub fn charge(&self, facts: &Facts<'_, '_>) -> Cost {
        let unit = match self {
            CostRule::Plain(cost) => facts.route_cost.unwrap_or(*cost),
            CostRule::PerCall(cost) => *cost,
            CostRule::From { descriptor, default, max } => {
                facts.value(descriptor).and_then(|text| parse_cost(&text, *max)).unwrap_or(*default)
            }
        };
        unit.saturating_mul(facts.request.cost)
    }

    /// Where the cost of a request comes from, in words.
    pub fn explain(&self, facts: &Facts<'_, '_>) -> String {
        let factor = match facts.request.cost.get() {
            1 => String::new(),
            factor => format!(", times {factor} for the request"),
        };
        let unit = match self {
            CostRule::PerCall(cost) => match facts.route_cost {
                Some(_) => format!("{} for every request, whatever its route", cost.get()),
                None => cost.get().to_string(),
            },
            CostRule::Plain(cost) => match facts.route_cost {
                Some(route) => format!("{} for the route", route.get()),
                None => cost.get().to_string(),
            },
            CostRule::From { descriptor, default, max } => match facts.value(descriptor) {
                None => format!("{} by default: there is no {descriptor}", default.get()),
                Some(text) => match parse_cost(&text, *max) {
                    None => {
                        format!("{} by default: {descriptor} is not a whole number above 0", default.get())
                    }
                    Some(cost) if cost == *max => {
                        format!("{} from {descriptor}, the maximum", cost.get())
                    }
                    Some(cost) => format!("{} from {descriptor}", cost.get()),
                },
            },
        };
        unit + &factor
    }
}

/// The cost in a text: a whole number above 0, at most `max`, however many digits it has.
fn parse_cost(text: &str, max: Cost) -> Option<Cost> {
    let text = text.trim_ascii();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = text.trim_start_matches('0');
    match digits.len() {
        0 => None,
        1..=10 => {
            let number: u64 = digits.parse().expect("ten digits fit in 64 bits");
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
            assert_eq!(parse_cost(text, max), Some(Cost::new(cost)), "{text}");
        }
        for text in ["", "0", "000", "-1", "+1", "1.5", "NaN", "inf", "1e3", "0x10"] {
            assert_eq!(parse_cost(text, max), None, "{text}");
        }
    }
}
