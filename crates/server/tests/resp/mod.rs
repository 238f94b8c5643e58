//! The listener for Redis clients, over real sockets.

mod deciding;
mod framing;
mod hostile;
mod housekeeping;
mod transactions;
mod wire;
