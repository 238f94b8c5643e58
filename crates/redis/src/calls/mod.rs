//! Calls to the server: what a call is (`link`), its bytes (`wire`), and the Lua that runs there (`scripts`).

#[cfg_attr(
    not(feature = "testing"),
    allow(unreachable_pub, reason = "the `testing` module exports parts of it")
)]
pub(crate) mod bursts;
pub(crate) mod fleet;
mod link;
pub(crate) mod live;
#[cfg_attr(
    not(feature = "testing"),
    allow(unreachable_pub, reason = "the `testing` module exports parts of it")
)]
pub(crate) mod penalties;
#[cfg_attr(
    not(feature = "testing"),
    allow(unreachable_pub, reason = "the `testing` module exports parts of it")
)]
pub(crate) mod scripts;
pub(crate) mod trust;
pub(crate) mod uses;
#[cfg_attr(
    not(feature = "testing"),
    allow(unreachable_pub, reason = "the `testing` module exports parts of it")
)]
pub(crate) mod wire;

pub(crate) use link::CALL_KEYS_MAX;

pub use bursts::{BurstAnswer, BurstCall, BurstCallEntry};
pub use link::{
    BucketEntry, CallAnswer, CallOutcome, CallVerb, FoundState, Heartbeat, Link, LinkError, LogState,
    ScriptCall, State,
};
pub use penalties::{PenaltyListAnswer, PenaltyListCall, PenaltyListEntry, PenaltyListOperation};
