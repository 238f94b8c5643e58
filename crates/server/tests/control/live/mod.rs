//! What is done at run time beside the policy: in force on every node, kept where it must be, ended when it should.

mod figures;
pub(super) mod fleet;
mod gates;
mod kept;
mod keys;
mod kill_switch;
mod overrides;
mod penalties;
mod trust;
