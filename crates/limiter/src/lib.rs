//! lib
mod bucket;
mod charge;
mod clock;
mod keyed;
mod memory;
mod store;

pub use bucket::Bucket;
pub use charge::{Charge, Intent, Role, Verdict};
#[cfg(feature = "async")]
pub use clock::Sleep;
pub use clock::{Clock, ManualClock, MonotonicClock};
pub use keyed::Keyed;
pub use memory::{Memory, MemoryOptions, MemoryStats};
pub use store::{LimitError, LimitRef, Store};
pub use tidegate_core::{
    Algorithm, Carry, Cost, Decision, Limit, LogQuota, Meter, Nanos, Outcome, Quota, QuotaError, Rate,
    WindowQuota,
};
