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

use std::sync::Mutex;

use tidegate::Nanos;

pub(super) use following::follow;
use repeats::RepeatedChanges;

use super::carried::FollowedPlace;

/// How far this node knows what is known about users.
#[derive(Debug, Default)]
pub(crate) struct TrustBoard {
    place: FollowedPlace,
    /// When accounts that have ended were last dropped, by the monotonic clock.
    tidied: Mutex<Option<Nanos>>,
    /// Held by whoever changes accounts without a database: the changes of this node that may be repeated.
    repeated: tokio::sync::Mutex<RepeatedChanges>,
}

impl TrustBoard {
    /// There may be news: look at once.
    pub(super) fn wake(&self) {
        self.place.wake();
    }

    /// Waits until the accounts have been read once.
    pub(crate) async fn loaded(&self) {
        self.place.loaded().await;
    }
}
