//! What is done at run time beside the policy: in force on every node, kept where it must be, ended when it should.

pub(super) mod fleet;
mod gates;
mod kill_switch;
mod penalties;
