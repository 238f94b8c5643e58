//! What a client is told: headers, status and body.

use tidegate_core::Limit;
use tidegate_core::Meter;
use tidegate_policy::document::HeaderFamily;

use super::headers::{self, RefusalText, TightestNumbers};
use super::problem_body::{self, RefusalBody};
use crate::engine::decision::{Decision, Reason};

/// What an end client whose credential does not hold is asked for, in `WWW-Authenticate`.
const CHALLENGE: &str = "Bearer error=\"invalid_token\"";

impl Decision {
    /// The status of an answer to an end client: that of [`Decision::status`], but 401 where its
    /// credential does not hold.
    pub fn client_status(&self) -> u16 {
        if self.challenge().is_some() { 401 } else { self.status() }
    }

    /// The `WWW-Authenticate` of an answer to an end client, where its credential does not hold.
    pub fn challenge(&self) -> Option<&'static str> {
        (self.reason() == Reason::InvalidCredentials).then_some(CHALLENGE)
    }

    /// The status of a refusal, for whoever asked for a decision: 429, or 503 where
    /// the server is short of something.
    pub fn status(&self) -> u16 {
        match () {
            () if self.is_allowed() => 200,
            () if self.reason().is_unavailable() => 503,
            () => 429,
        }
    }

    /// The headers of the answer, in the families that the tightest limit
    /// chooses; `Retry-After` on every refusal that a wait can mend; last the mark of
    /// a degraded request.
    pub fn headers(&self, mut sink: impl FnMut(&'static str, &str)) {
        let speaker = self.tightest();
        let denied = !self.is_allowed();
        let standing = speaker.map(|limit| TightestNumbers {
            name: &limit.rule.name,
            limit: limit.decision.limit,
            remaining: limit.decision.remaining,
            reset_after: limit.decision.reset_after,
            window_secs: window_secs(&limit.rule.limit),
            retry_after_secs: self.retry_after_secs().filter(|_| denied),
            denied,
            now: self.wall(),
        });
        let refused = denied.then(|| RefusalText {
            retry_after_secs: self.retry_after_secs(),
            rule: self.violated_rule(),
            reason: self.reason().as_str(),
        });
        let families: &[HeaderFamily] = speaker.map_or(&[], |limit| &limit.rule.headers);
        let on = speaker.map_or(self.has_headers(), |limit| !limit.rule.headers.is_empty());
        headers::write(standing.as_ref(), refused.as_ref(), families, on, &mut sink);
        self.degraded_header(sink);
    }

    /// The mark of a degraded request alone, for whoever passes the request on: of
    /// the limits that mark it, that of the first one that has its headers on.
    pub fn degraded_header(&self, mut sink: impl FnMut(&'static str, &str)) {
        if let Some(mark) = self.degraded_to_tell() {
            headers::write_degraded(mark, &mut sink);
        }
    }

    /// The body of a refusal: `application/problem+json`.
    pub fn problem_body(&self, status: u16) -> String {
        problem_body::body(&RefusalBody {
            status,
            reason: self.reason().as_str(),
            retry_after_secs: self.retry_after_secs(),
            retry_after_ms: self.wait().map(|wait| wait.as_millis_ceil()),
            violated_rule: self.violated_rule(),
            violated_tier: self.violated_tier().map(|tier| tier.as_str()),
        })
    }
}

/// The seconds that a limit is counted over: those of its window, or those that
/// an empty bucket takes to fill.
fn window_secs(limit: &Limit) -> u64 {
    match limit {
        Limit::Meter(Meter::TokenBucket(quota)) => {
            let nanos = u128::from(quota.capacity()) * u128::from(quota.rate().nanos());
            let per_second = u128::from(quota.rate().tokens()) * 1_000_000_000;
            u64::try_from(nanos.div_ceil(per_second)).unwrap_or(u64::MAX).max(1)
        }
        Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota)) => {
            quota.length().as_secs_ceil()
        }
        Limit::Log(quota) => quota.window().as_secs_ceil(),
    }
}
