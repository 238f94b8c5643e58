//! The handlers of the routes, by subject.

pub(super) mod candidates;
pub(super) mod collections;
mod explained;
pub(super) mod glance;
pub(super) mod keys;
pub(super) mod kill_switch;
pub(super) mod live;
pub(super) mod nodes;
pub(super) mod overrides;
pub(super) mod penalties;
pub(super) mod policy;
pub(super) mod records;
pub(super) mod system;
pub(super) mod tenants;
pub(super) mod tokens;
pub(super) mod tools;
pub(super) mod trials;
pub(super) mod trust;
pub(super) mod versions;
