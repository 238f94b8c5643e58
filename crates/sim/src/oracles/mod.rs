//! What must be true of every run, whatever went wrong in it.

mod counted;
mod envelope;
mod outdated;
mod prepaid;
mod stale;

pub use counted::counted;
pub use envelope::{Allowance, Envelope};
pub use outdated::is_backed;
pub use prepaid::{never_spent, spent_unpaid};
pub use stale::used_stale;
