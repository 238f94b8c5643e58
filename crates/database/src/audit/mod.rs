//! The audit: changes and security events in one append-only table, each entry with a hash over the one before.
//!
//! What may tell who somebody is has a salted hash of its own, and the chain is over that hash: so a person's data can be
//! erased, with the salt, and the chain still verifies.

mod append;
mod entry;
mod erase;
mod hash;
mod trim;
mod verify;

pub(crate) use append::{append, append_after, lock_head};
pub use entry::{AuditEntry, AuditRow, PersonalData};
pub(crate) use entry::{COLUMNS, read_row};
pub use verify::{BrokenChain, ChainReport};
