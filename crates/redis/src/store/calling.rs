//! Calls to the server, each recorded for the side that makes it.

use std::future::Future;

use tidegate::{Charge, Intent, Nanos, Sleep};

use super::RedisStore;
use crate::calls::Link;
use crate::deciding::strict::{self, CallDraft, StrictAnswer, StrictRequest};
use crate::failures::StoreError;
use crate::failures::breaker_set::RecordingLink;
use crate::registry::BucketKey;

impl<L: Link, C: Sleep> RedisStore<L, C> {
    /// The server's key of a charge's bucket.
    pub(crate) fn key(&self, charge: &Charge<'_>) -> BucketKey {
        let version = self.registry.version(charge.limit);
        version.data.namer().key(self.registry.prefix(), charge.key, charge.tag)
    }

    /// Sends one request to the server, unless a breaker forbids it. Await it at once. The call is prepared here and not in
    /// the future, which every decision that waits for the server keeps and moves.
    pub(crate) fn call_server<'s>(
        &'s self,
        intent: Intent,
        charges: &[Charge<'_>],
        wants: &[u32],
        charged_at: Nanos,
        given: Nanos,
    ) -> impl Future<Output = Result<StrictAnswer, StoreError>> + Send + use<'s, L, C> {
        let keys = charges.iter().map(|charge| self.key(charge));
        let (begun, at) = (self.clock.now(), self.given(given));
        let mut draft = match self.may_call(keys, begun) {
            true => CallDraft::of(&self.registry, StrictRequest { intent, charges, wants, charged_at, at }),
            false => Err(StoreError::BreakerOpen),
        };
        async move {
            // A time that a test gives stands still, so it never runs out.
            let in_time = || {
                let retry_for = Nanos::from(self.options.retry_for);
                at.is_some() || self.clock.now().saturating_sub(begun) <= retry_for
            };
            let link = self.recording_link();
            // By reference: a copy would be kept beside it.
            let answer = match &mut draft {
                Ok(draft) => strict::execute(&link, &self.registry, draft, &in_time).await,
                Err(error) => Err(error.clone()),
            };
            match &answer {
                Ok(answer) => {
                    self.side.errors.poisoned(answer.poisoned);
                    if answer.contended {
                        self.side.errors.record(&StoreError::Contended);
                    }
                }
                Err(error) => self.side.errors.record(error),
            }
            answer
        }
    }

    /// May a call about these keys be sent?
    pub(crate) fn may_call(&self, keys: impl Iterator<Item = BucketKey> + Clone, now: Nanos) -> bool {
        // What is tried out is no reason to call a server that fails.
        (!self.is_beside() || self.live.breakers.are_closed(&self.link, keys.clone()))
            && self.side.breakers.allows_call(&self.link, keys, now)
    }

    /// The link, for a call that is recorded.
    pub(crate) fn recording_link(&self) -> RecordingLink<'_, L, C> {
        RecordingLink {
            link: &self.link,
            breakers: &self.side.breakers,
            clock: &self.clock,
            call_times: &self.call_times,
        }
    }
}
