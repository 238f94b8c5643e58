//! What is done at run time beside the policy: in force on every node, kept where it must be, ended when it should.

mod explained;
mod figures;
pub(super) mod fleet;
mod gates;
mod kept;
mod keys;
mod kill_switch;
mod lasting;
mod looked_up;
mod lost;
mod overrides;
mod penalties;
mod restarts;
mod trust;
