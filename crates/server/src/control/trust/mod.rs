//! What is known about users by the admin API: facts about accounts, and outcomes of their requests.
//!
//! The database keeps it, else the Redis that nodes share, else the memory of this node ([`carrier`]). Every node follows
//! ([`following`]) and has a copy in its trust book, which computes scores from it; [`changing`] is how the admin API changes
//! it.

mod account;
mod carrier;
pub(crate) mod changing;
mod following;
mod repeats;

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate::Nanos;
use tidegate_database::LiveHead;
use tokio::sync::watch;

pub(super) use following::follow;
use repeats::RepeatedChanges;

/// How far this node knows what is known about users.
#[derive(Debug)]
pub(crate) struct TrustBoard {
    seen: Mutex<SeenAccounts>,
    /// Held by whoever reads from the carrier.
    catching_up: tokio::sync::Mutex<()>,
    /// Held by whoever changes accounts without a database: the changes of this node that may be repeated.
    repeated: tokio::sync::Mutex<RepeatedChanges>,
    /// Have the accounts been read once?
    loaded: watch::Sender<bool>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SeenAccounts {
    head: LiveHead,
    /// When the carrier last answered, by the monotonic clock.
    answered: Option<Nanos>,
    /// When accounts that have ended were last dropped, by the monotonic clock.
    tidied: Option<Nanos>,
}

impl Default for TrustBoard {
    fn default() -> TrustBoard {
        TrustBoard {
            seen: Mutex::default(),
            catching_up: tokio::sync::Mutex::default(),
            repeated: tokio::sync::Mutex::default(),
            loaded: watch::Sender::new(false),
        }
    }
}

impl TrustBoard {
    fn seen(&self) -> MutexGuard<'_, SeenAccounts> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the accounts have been read once.
    pub(crate) async fn loaded(&self) {
        let mut loaded = self.loaded.subscribe();
        // The sender lives as long as this.
        let _ended = loaded.wait_for(|loaded| *loaded).await;
    }
}
