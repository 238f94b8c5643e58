//! Policies of any size in which exactly three limits apply to one request.

use std::fmt::{self, Write};
use std::net::Ipv4Addr;

use tidegate_policy::Request;

/// How many limits apply to the request, whatever the size.
pub(crate) const APPLYING: usize = 3;

/// The conditions that distinguish the limits of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyShape {
    /// Each limit has its own path.
    Paths,
    /// Each limit has its own plan.
    Plans,
    /// All limits have the same method, and each has its own path.
    MethodsAndPaths,
    /// In turn: path, header, network, claim, host, query, plan.
    Mixed,
    /// A tree of tenants, three levels deep.
    Tenants,
    /// Groups of two for each path: the plan `free`, and all others.
    Groups,
}

impl PolicyShape {
    pub(crate) const ALL: [PolicyShape; 6] = [
        PolicyShape::Paths,
        PolicyShape::Plans,
        PolicyShape::MethodsAndPaths,
        PolicyShape::Mixed,
        PolicyShape::Tenants,
        PolicyShape::Groups,
    ];
}

impl fmt::Display for PolicyShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PolicyShape::Paths => "by path",
            PolicyShape::Plans => "by plan",
            PolicyShape::MethodsAndPaths => "by method and path",
            PolicyShape::Mixed => "mixed",
            PolicyShape::Tenants => "tenants",
            PolicyShape::Groups => "groups",
        })
    }
}

/// Large enough that nothing is ever denied.
const NUMBERS: &str = "sustained: { rate: 1000000000 }";

/// The request that is checked against every policy.
pub(crate) fn request() -> Request<'static> {
    let request = Request::new().tenant("tenant-0").user("u-4711").client("app-1").plan("free");
    let request = request.ip(Ipv4Addr::new(203, 0, 113, 7)).method("POST").host("api.example.com");
    let request = request.path("/api/items/42").query("sort=name&page=2").claim("role", "member");
    request.header("accept", "application/json").header("x-api-key", "k-0123456789abcdef")
}

/// A policy with this number of limits, at least ten.
pub(crate) fn document(shape: PolicyShape, limits: usize) -> String {
    let mut text = String::from("version: 1\n");
    let written = match shape {
        PolicyShape::Tenants => write_tenants(&mut text, limits),
        PolicyShape::Groups => write_groups(&mut text, limits),
        _ => write_limits(&mut text, shape, limits),
    };
    written.expect("writing to memory does not fail");
    text
}

/// The first three apply, spread over the document; the others are for other requests.
fn write_limits(text: &mut String, shape: PolicyShape, limits: usize) -> fmt::Result {
    writeln!(text, "limits:")?;
    let step = limits / APPLYING;
    let mut applying = 0;
    for number in 0..limits {
        let applies = number % step == step - 1 && applying < APPLYING;
        let (condition, key) = if applies {
            applying += 1;
            (matching(shape, applying - 1), ["[user]", "[ip]", "[]"][applying - 1])
        } else {
            (not_matching(shape, number), "[user]")
        };
        writeln!(text, "- {{ name: limit-{number}, match: {{ {condition} }}, key: {key}, {NUMBERS} }}")?;
    }
    Ok(())
}

/// One of three conditions that match the request.
fn matching(shape: PolicyShape, which: usize) -> String {
    let path = ["/api/**", "/api/items/*", "/api/items/42"][which];
    match shape {
        PolicyShape::Plans => "plan: free".to_owned(),
        PolicyShape::MethodsAndPaths => format!("methods: [POST], path: {path}"),
        PolicyShape::Mixed => {
            ["path: /api/items/*", "\"header:x-api-key\": k-0123456789abcdef", "ip: 203.0.113.0/24"][which]
                .to_owned()
        }
        _ => format!("path: {path}"),
    }
}

/// A condition that does not match the request.
fn not_matching(shape: PolicyShape, number: usize) -> String {
    match shape {
        PolicyShape::Plans => format!("plan: plan-{number}"),
        PolicyShape::MethodsAndPaths => format!("methods: [POST], path: /api/service-{number}/**"),
        PolicyShape::Mixed => match number % 7 {
            0 => format!("path: /api/service-{number}/**"),
            1 => format!("\"header:x-api-key\": k-{number}"),
            2 => format!("ip: 10.{}.{}.0/24", number / 256, number % 256),
            3 => format!("\"jwt:role\": role-{number}"),
            4 => format!("host: host-{number}.example.com"),
            5 => format!("\"query:sort\": column-{number}"),
            _ => format!("plan: plan-{number}"),
        },
        _ => format!("path: /api/service-{number}/**"),
    }
}

/// Three groups apply, each of two limits.
fn write_groups(text: &mut String, limits: usize) -> fmt::Result {
    writeln!(text, "limits:")?;
    for group in 0..limits / 2 {
        let path = match group.checked_sub(limits / 2 - APPLYING) {
            Some(which) => matching(PolicyShape::Paths, which),
            None => not_matching(PolicyShape::Paths, group),
        };
        for (name, plan) in [("free", ", plan: free"), ("rest", "")] {
            writeln!(
                text,
                "- {{ name: {name}-{group}, group: g{group}, match: {{ {path}{plan} }}, key: [user], {NUMBERS} }}"
            )?;
        }
    }
    Ok(())
}

/// One root, a partner for every hundred tenants, and the tenants.
fn write_tenants(text: &mut String, tenants: usize) -> fmt::Result {
    let shared = "sharing: enforce, budget: { mode: shared, total: 1000000000 }";
    let partners = tenants.div_ceil(100);
    writeln!(text, "tenants:\n- {{ id: system, rate_limit: {{ {shared}, {NUMBERS} }} }}")?;
    for partner in 0..partners {
        writeln!(
            text,
            "- {{ id: partner-{partner}, parent: system, rate_limit: {{ {shared}, {NUMBERS} }} }}"
        )?;
    }
    for tenant in 0..tenants - partners - 1 {
        let partner = tenant % partners;
        writeln!(
            text,
            "- {{ id: tenant-{tenant}, parent: partner-{partner}, rate_limit: {{ {NUMBERS} }} }}"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tidegate_policy::Policy;

    use super::*;

    #[test]
    fn three_limits_apply_in_every_shape_and_size() {
        for shape in PolicyShape::ALL {
            for limits in [10, 100, 1_000] {
                let policy = Policy::parse(&document(shape, limits)).unwrap();
                assert!(policy.warnings.is_empty(), "{shape}: {:?}", policy.warnings[0]);
                assert_eq!(policy.rules.rules().len(), limits, "{shape}");
                let request = request();
                let plan = policy.rules.plan(&policy.rules.facts(&request));
                assert_eq!(plan.items().len(), APPLYING, "{shape}, {limits} limits");
            }
        }
    }
}
