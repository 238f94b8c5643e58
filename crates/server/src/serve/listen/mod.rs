//! Listeners, and the threads that their connections go to.

pub(super) mod accept;
pub(super) mod bind;
pub(super) mod connections;
pub(super) mod files_max;
pub(super) mod tls;
pub(super) mod workers;
