//! Leases and remembered denials of nodes, on a model of the server, in virtual time.

mod adversary;
mod denying;
mod leasing;
mod sharing;
mod world;
