//! The response to a client: headers, status and body.

use tidegate_core::Limit;
use tidegate_core::Meter;
use tidegate_policy::Strategy;
use tidegate_policy::document::HeaderFamily;

use super::headers::{self, RefusalText, TightestNumbers};
use super::problem_body::{self, RefusalBody};
use crate::engine::decision::Decision;
use crate::engine::reason::Reason;

/// The `WWW-Authenticate` of a response to a client with an invalid token.
const TOKEN_CHALLENGE: &str = "Bearer error=\"invalid_token\"";
/// The same for an API key. No scheme for API keys is registered, but every 401 must name one (RFC 9110).
const KEY_CHALLENGE: &str = "ApiKey error=\"unknown_key\"";

impl Decision {
    /// The status of a response to an end client: [`Decision::status`], but 401 for an invalid credential
    /// or an unknown API key.
    pub fn client_status(&self) -> u16 {
        if self.challenge().is_some() { 401 } else { self.status() }
    }

    /// The `WWW-Authenticate` of a response to an end client, if its credential is invalid.
    pub fn challenge(&self) -> Option<&'static str> {
        match self.reason() {
            Reason::InvalidCredentials => Some(TOKEN_CHALLENGE),
            Reason::UnknownKey => Some(KEY_CHALLENGE),
            _ => None,
        }
    }

    /// The status of a response to the caller of the API: 200 if admitted, 429 if denied, or 503 if the service
    /// is at fault.
    pub fn status(&self) -> u16 {
        match () {
            () if self.is_allowed() => 200,
            () if self.reason().is_unavailable() => 503,
            () => 429,
        }
    }

    /// Writes the headers of the response, in the families that the tightest limit has configured;
    /// `Retry-After` on every denial for which a wait helps; the state of a burst detector; last the mark of a degraded
    /// request.
    pub fn headers(&self, mut sink: impl FnMut(&'static str, &str)) {
        let tightest = self.tightest();
        let denied = !self.is_allowed();
        let standing = tightest.map(|limit| TightestNumbers {
            name: &limit.rule.name,
            limit: limit.decision.limit,
            remaining: limit.decision.remaining,
            reset_after: limit.decision.reset_after,
            window_secs: window_secs(limit.untrusted),
            retry_after_secs: self.retry_after_secs().filter(|_| denied),
            denied,
            now: self.wall(),
        });
        let refused = denied.then(|| RefusalText {
            retry_after_secs: self.retry_after_secs(),
            rule: self.violated_rule(),
            reason: self.reason().as_str(),
        });
        let families: &[HeaderFamily] = tightest.map_or(&[], |limit| &limit.rule.headers);
        // A limit that denies before it is charged is not the tightest, but it chooses whether there are headers.
        let speaker = tightest.map(|limit| limit.rule).or(self.refusing_limit());
        let on = speaker.map_or(self.rules().has_headers(), |rule| !rule.headers.is_empty());
        headers::write(standing.as_ref(), refused.as_ref(), families, on, &mut sink);
        // A policy in shadow mode shows clients nothing of what it would do.
        if let Some((state, _)) = self.burst().filter(|_| on && !self.rules().is_shadow()) {
            sink(headers::BURST, state.as_str());
        }
        self.degraded_header(sink);
    }

    /// Writes only the mark of a degraded request, for a proxy that passes the request on: the mark of the
    /// first limit that marks it and has headers on.
    pub fn degraded_header(&self, mut sink: impl FnMut(&'static str, &str)) {
        if let Some(mark) = self.degraded_in_headers() {
            headers::write_degraded(mark, &mut sink);
        }
    }

    /// The mark for the response headers: that of the first limit that marks the request and has headers on.
    fn degraded_in_headers(&self) -> Option<&str> {
        self.degraded()?;
        let mut marking = self.limits().filter(|limit| !limit.decision.is_allowed());
        marking.find_map(|limit| match &limit.rule.strategy {
            Strategy::Degrade { tag } if !limit.rule.is_shadow() && !limit.rule.headers.is_empty() => {
                Some(&**tag)
            }
            _ => None,
        })
    }

    /// The body of a denial: `application/problem+json`.
    pub fn problem_body(&self, status: u16) -> String {
        problem_body::body(&RefusalBody {
            status,
            reason: self.reason().as_str(),
            retry_after_secs: self.retry_after_secs(),
            retry_after_ms: self.wait().map(|wait| wait.as_millis_ceil()),
            violated_rule: self.violated_rule(),
            violated_tier: self.violated_tier().map(|tier| tier.as_str()),
            console: self.console_link(),
        })
    }
}

/// The seconds over which a limit counts: the length of its window, or the time an empty bucket takes to fill. Trust changes
/// that time by less than half.
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
