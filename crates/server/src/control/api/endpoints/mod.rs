//! The handlers of the routes, by subject.

pub(super) mod policy;
pub(super) mod records;
pub(super) mod system;
pub(super) mod tools;
