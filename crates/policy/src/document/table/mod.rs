//! The tables that describe a policy document. They drive its check, the hints, the JSON Schema and the reference page.

mod descriptors;
mod entries;
mod http;
mod limits;
mod names;
mod tenants;
mod terms;
mod upstreams;

#[cfg(test)]
mod tests;

pub(crate) use descriptors::descriptor;
pub(crate) use entries::GATE;
pub(crate) use limits::POLICY;
pub(crate) use names::{NAME_PATTERN, TENANT_PREFIX, UNLISTED};

use tidegate_document::ObjectShape;

/// Every map of a policy, in the order of the reference page.
pub(crate) static OBJECTS: &[&ObjectShape] = &[
    &POLICY,
    &limits::DEFAULTS,
    &limits::PRIORITY,
    &limits::PATHS,
    &limits::LIMIT,
    &limits::MATCH,
    &terms::SUSTAINED,
    &terms::BURST_SIZE,
    &terms::COST,
    &terms::QUEUE,
    &terms::DEGRADE,
    &entries::ROUTE,
    &tenants::TENANT,
    &tenants::RATE_LIMIT,
    &tenants::BUDGET,
    &tenants::UPSTREAM_LIMITS,
    &tenants::UPSTREAM_LIMIT,
    &upstreams::UPSTREAM,
    &upstreams::ABSORBS,
    &GATE,
    &entries::BURST,
    &limits::ADAPTIVE,
];

/// The longest description, in bytes.
const DESCRIPTION_MAX: usize = 4096;
/// The longest penalty, in milliseconds: 366 days.
const PENALTY_MAX: u64 = 366 * 86_400_000;
/// The longest wait in a queue, in milliseconds: an hour.
const WAIT_MAX: u64 = 3_600_000;
/// The highest cost of a request.
const COST_MAX: u64 = u32::MAX as u64;
/// The highest rate that can be written. Compiling checks whether a rate is in range for its window.
const RATE_MAX: u64 = 1_000_000_000_000_000_000;
