//! The share of one node, where several nodes enforce a policy without a shared store.

use tidegate_core::{Algorithm, Limit, Nanos, QuotaError};

use crate::{Numbers, Problem, ResolvedTenantLimit, Rule, RuleSet};

impl Numbers {
    /// The share of one of `nodes` nodes. A token bucket has exactly that share of the rate. Window algorithms and
    /// bursts count whole numbers, so these are rounded down, to at least one.
    #[must_use]
    pub fn divided(self, nodes: u32, algorithm: Algorithm) -> Numbers {
        let (whole, nodes) = (u64::from(nodes.max(1)), nodes.max(1));
        let capacity = (self.capacity / nodes).max(1);
        if algorithm != Algorithm::TokenBucket {
            return Numbers { rate: (self.rate / whole).max(1), capacity, ..self };
        }
        // Divide the rate as far as it divides evenly, and multiply the window by the rest, so that it grows least.
        let common = greatest_common_divisor(self.rate, whole);
        let window = Nanos::new(self.window.get().saturating_mul(whole / common));
        Numbers { rate: self.rate / common, window, capacity }
    }
}

impl Rule {
    /// The limit that one of `nodes` nodes enforces alone. A rate too slow to be divided stays whole, so that every
    /// request can still be admitted at some time.
    pub fn share(&self, nodes: u32) -> Limit {
        let algorithm = self.limit.algorithm();
        let part = self.numbers.divided(nodes, algorithm);
        let undivided = Numbers { rate: self.numbers.rate, window: self.numbers.window, ..part };
        part.limit(algorithm).or_else(|_| undivided.limit(algorithm)).unwrap_or(self.limit)
    }
}

impl RuleSet {
    /// Divides every limit by the number of nodes, including those of tenants. Returns warnings for limits whose share
    /// would be less than one.
    ///
    /// # Errors
    /// A problem for each limit whose share is out of range.
    pub fn divided(mut self, nodes: u32) -> Result<(RuleSet, Vec<Problem>), Vec<Problem>> {
        if nodes <= 1 {
            return Ok((self, Vec::new()));
        }
        let (mut warnings, mut errors) = (Vec::new(), Vec::new());
        for rule in &mut self.rules {
            let algorithm = rule.limit.algorithm();
            let numbers = rule.numbers.divided(nodes, algorithm);
            match numbers.limit(algorithm) {
                Ok(limit) => {
                    warnings.extend(too_small(rule, nodes));
                    (rule.limit, rule.numbers) = (limit, numbers);
                    rule.ceiling = rule.ceiling.map(|ceiling| ceiling.divided(nodes, Algorithm::TokenBucket));
                }
                Err(error) => errors.push(out_of_range(rule, nodes, &error)),
            }
        }
        for tenant in &mut self.tenants.nodes {
            for numbers in tenant.limits_mut().flat_map(ResolvedTenantLimit::numbers_mut) {
                *numbers = numbers.divided(nodes, Algorithm::TokenBucket);
            }
        }
        if errors.is_empty() { Ok((self, warnings)) } else { Err(errors) }
    }
}

/// Warns if the share would be less than one token: together the nodes then admit more than the limit.
fn too_small(rule: &Rule, nodes: u32) -> Option<Problem> {
    let (what, whole) = match rule.limit.algorithm() {
        Algorithm::TokenBucket => ("burst", u64::from(rule.numbers.capacity)),
        _ => ("rate", rule.numbers.rate),
    };
    (whole < u64::from(nodes)).then(|| {
        let message = format!("the {what} of `{}` is {whole}, but each of {nodes} nodes gets 1", rule.name);
        let hint = format!("raise the {what} to at least {nodes}, or run fewer nodes");
        Problem::warning(rule.at, "", message).hint(hint)
    })
}

fn out_of_range(rule: &Rule, nodes: u32, error: &QuotaError) -> Problem {
    let message = format!("`{}` divided by {nodes} nodes is out of range: {error}", rule.name);
    Problem::error(rule.at, "", message).hint("raise the limit, or run fewer nodes")
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    fn shared(text: &str, nodes: u32) -> Result<(RuleSet, Vec<Problem>), Vec<Problem>> {
        Policy::parse(text).expect("it is a policy").rules.divided(nodes)
    }

    fn limit(rest: &str) -> String {
        format!("version: 1\nlimits:\n- {{ name: a, key: [user], {rest} }}\n")
    }

    #[test]
    fn the_rate_is_exactly_a_part_and_the_burst_rounds_down() {
        let text = limit("sustained: { rate: 10, window: second }, burst: { capacity: 50 }");
        let (rules, warnings) = shared(&text, 3).expect("it is in range");
        let numbers = rules.rules()[0].numbers;
        assert_eq!((numbers.rate, numbers.window, numbers.capacity), (10, Nanos::from_secs(3), 16));
        assert_eq!(rules.rules()[0].limit.capacity(), 16);
        assert!(warnings.is_empty());

        let (rules, _) = shared(&text, 5).expect("it is in range");
        let numbers = rules.rules()[0].numbers;
        assert_eq!((numbers.rate, numbers.window, numbers.capacity), (2, Nanos::SECOND, 10));
    }

    #[test]
    fn one_is_the_least_and_is_warned_of() {
        let (rules, warnings) =
            shared(&limit("sustained: { rate: 2, window: minute }"), 4).expect("in range");
        assert_eq!(rules.rules()[0].limit.capacity(), 1);
        assert!(warnings[0].message.contains("each of 4 nodes gets 1"), "{warnings:?}");

        let text = limit("algorithm: fixed_window, sustained: { rate: 9, window: minute }");
        let (rules, warnings) = shared(&text, 4).expect("in range");
        assert_eq!((rules.rules()[0].numbers.rate, warnings.len()), (2, 0));
    }

    #[test]
    fn tenants_get_their_part_too() {
        let text = "version: 1\ntenants:\n- { id: a, rate_limit: { sustained: { rate: 100, window: minute }, \
                    burst: { capacity: 20 } } }\n";
        let (rules, _) = shared(text, 10).expect("in range");
        let tenant = rules.tenants().get("a").expect("it is there");
        assert_eq!(tenant.limit.effective.map(|numbers| (numbers.rate, numbers.capacity)), Some((10, 2)));
        assert_eq!(rules.rules()[0].limit.capacity(), 2);
    }

    #[test]
    fn a_part_out_of_range_is_refused() {
        let problems = shared(&limit("sustained: { rate: 1, window: 366d }"), 2).expect_err("too slow");
        assert!(problems[0].message.contains("`a` divided by 2 nodes"), "{problems:?}");
        assert!(shared(&limit("sustained: { rate: 1, window: 366d }"), 1).is_ok());
    }
    #[test]
    fn a_share_is_always_to_be_had() {
        let share = |rest: &str, nodes| {
            let policy = Policy::parse(&limit(rest)).expect("it is a policy");
            let rule = &policy.rules.rules()[0];
            (rule.share(nodes), rule.share(1) == rule.limit)
        };
        let (half, whole) = share("sustained: { rate: 10 }, burst: { capacity: 50 }", 2);
        let expected = tidegate_core::Quota::new(5, Nanos::SECOND, 25).expect("in range");
        assert_eq!((half, whole), (expected.into(), true));
        let (slow, _) = share("sustained: { rate: 1, window: 366d }, burst: { capacity: 4 }", 2);
        let expected = tidegate_core::Quota::new(1, Nanos::from_secs(366 * 86_400), 2).expect("in range");
        assert_eq!(slow, expected.into(), "too slow to be divided");
    }
}
