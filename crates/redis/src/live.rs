//! Live entries on the server. They are no part of a decision: no breaker guards them, and nothing waits for them but
//! whoever asks.

use tidegate::Sleep;

use crate::calls::live::{SharedLiveChange, SharedLiveHead, SharedLiveOutcome, SharedLivePage};
use crate::client::RedisClient;
use crate::failures::StoreError;
use crate::registry::keys;
use crate::store::RedisStore;

impl<C: Sleep> RedisStore<RedisClient, C> {
    /// What was added or removed after `seen`: at most `most` entries. If `seen` is of another epoch, the entries from
    /// the first.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn live_page(&self, seen: SharedLiveHead, most: u32) -> Result<SharedLivePage, StoreError> {
        let page = self.link.live_page(&keys::live(&self.options.prefix), seen, most).await;
        Ok(page?)
    }

    /// Changes the entries.
    ///
    /// # Errors
    /// When the server does not answer; then the change may have been made or not.
    pub async fn change_live(&self, change: &SharedLiveChange) -> Result<SharedLiveOutcome, StoreError> {
        Ok(self.link.change_live(&keys::live(&self.options.prefix), change).await?)
    }
}
