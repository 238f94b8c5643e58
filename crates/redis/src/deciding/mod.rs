//! How a charge is decided: from leases and remembered denials on this node, else by one call to the server.

pub(crate) mod denials;
mod hand_back;
pub(crate) mod leases;
pub(crate) mod local_first;
pub(crate) mod recent_keys;
pub(crate) mod strict;
