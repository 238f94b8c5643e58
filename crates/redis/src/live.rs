//! Live entries on the server. They are no part of a decision: no breaker guards them, and nothing waits for them but
//! whoever asks.

use tidegate::Sleep;

use crate::calls::live::{SharedLiveChange, SharedLiveHead, SharedLiveOutcome, SharedLivePage, encode_tidy};
use crate::calls::uses;
use crate::client::RedisClient;
use crate::failures::StoreError;
use crate::registry::keys;
use crate::store::RedisStore;

/// How many entries one call is about: decisions wait for it.
const USES_AT_ONCE: usize = 250;

impl<C: Sleep> RedisStore<RedisClient, C> {
    /// What was added or removed after the sequence `after`: at most `most` entries. If `seen` is no head of this server,
    /// present or past, the entries from the first.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn live_page(
        &self,
        seen: SharedLiveHead,
        after: u64,
        most: u32,
    ) -> Result<SharedLivePage, StoreError> {
        let page = self.link.live_page(&keys::live(&self.options.prefix), seen, after, most).await;
        Ok(page?)
    }

    /// Changes the entries.
    ///
    /// # Errors
    /// When the server does not answer; then the change may have been made or not.
    pub async fn change_live(&self, change: &SharedLiveChange) -> Result<SharedLiveOutcome, StoreError> {
        Ok(self.link.change_live(&keys::live(&self.options.prefix), change).await?)
    }

    /// Forgets entries that nobody needs to learn of any more, at most a thousand. Changes do so too.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn tidy_live(&self) -> Result<(), StoreError> {
        self.link.run(encode_tidy(&keys::live(&self.options.prefix))).await?;
        Ok(())
    }

    /// Tells the other nodes when entries were used, in milliseconds since 1970. The latest time counts.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn tell_live_uses(&self, uses: &[(String, u64)]) -> Result<(), StoreError> {
        for some in uses.chunks(USES_AT_ONCE) {
            let call = uses::encode_tell(&keys::live(&self.options.prefix), some);
            uses::decode(&self.link.run(call).await?)?;
        }
        Ok(())
    }

    /// When these entries were last used on any node; `None` if nobody has told.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn live_uses(&self, ids: &[String]) -> Result<Vec<Option<u64>>, StoreError> {
        let mut times = Vec::with_capacity(ids.len());
        for some in ids.chunks(USES_AT_ONCE) {
            let call = uses::encode_read(&keys::live(&self.options.prefix), some);
            times.extend(uses::decode(&self.link.run(call).await?)?);
        }
        Ok(times)
    }
}
