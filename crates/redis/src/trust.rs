//! What is known about users, on the server. It is no part of a decision: no breaker guards it, and nothing waits for it but
//! whoever asks.

use tidegate::Sleep;

use crate::calls::live::SharedLiveHead;
use crate::calls::trust::{
    SharedAccount, SharedTrustChange, SharedTrustOutcome, SharedTrustPage, decode_accounts,
    decode_trust_change, decode_trust_page, encode_accounts, encode_trust_change, encode_trust_page,
};
use crate::client::RedisClient;
use crate::failures::StoreError;
use crate::registry::keys;
use crate::store::RedisStore;

impl<C: Sleep> RedisStore<RedisClient, C> {
    /// What was changed after the sequence `after`: at most `most` accounts. If `seen` is no head of this server, present or
    /// past, the accounts from the first.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn trust_page(
        &self,
        seen: SharedLiveHead,
        after: u64,
        most: u32,
    ) -> Result<SharedTrustPage, StoreError> {
        let call = encode_trust_page(&keys::trust(&self.options.prefix), seen, after, most);
        Ok(decode_trust_page(&self.link.run(call).await?)?)
    }

    /// The accounts of some users, in their order.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn trust_accounts(&self, users: &[String]) -> Result<Vec<SharedAccount>, StoreError> {
        let call = encode_accounts(&keys::trust(&self.options.prefix), users);
        Ok(decode_accounts(users, &self.link.run(call).await?)?)
    }

    /// Changes accounts.
    ///
    /// # Errors
    /// When the server does not answer; then the change may have been made or not.
    pub async fn change_trust(&self, change: &SharedTrustChange) -> Result<SharedTrustOutcome, StoreError> {
        let call = encode_trust_change(&keys::trust(&self.options.prefix), change);
        Ok(decode_trust_change(&self.link.run(call).await?)?)
    }
}
