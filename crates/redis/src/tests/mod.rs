//! What nodes decide by themselves, on a model of the server, in a time of their own.

mod adversary;
mod denying;
mod leasing;
mod sharing;
mod world;
