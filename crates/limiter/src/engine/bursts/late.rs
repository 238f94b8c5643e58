//! Penalties that this node hears of late: after the requests that have led to them were decided.
//!
//! Such requests are counted on the shared store a little later (see `shared`), and its answer may be an action. No
//! request may come any more that could report it, so the node reports it by itself: with what the requests of a key have
//! in common, which is the key.

use std::net::IpAddr;
use std::sync::PoisonError;

use tidegate_policy::{Descriptor, DetectorRule, Facts, KeyBytes};

use super::penalties::{PENALTY_VALUE_CHARS_MAX, PenaltyOrigin};
use crate::engine::limiter::Limiter;
use crate::engine::masking::{masked, may_be_secret};
use crate::{BurstSubject, Clock, LateBurst, SharedBursts, Store};

/// A request reports at most so many, so that it is not delayed.
const MOST_BY_A_REQUEST: usize = 8;

/// How many are taken at once.
const MOST_AT_ONCE: usize = 64;

/// Longer names of users, clients and tenants are cut: clients choose them.
const NAME_CHARS_MAX: usize = 512;

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Counts and lists the actions of burst detectors on a shared store that no request has reported, and tells the
    /// observer. Requests report those of others, too; this is for the time in which none comes. Call it about once a
    /// second, and before the process ends.
    pub fn report_late_bursts(&self) {
        let Some(shared) = self.store.shared_bursts() else { return };
        // Held so that whoever calls this last returns after everything is reported.
        let _reporting = self.reporting_late.lock().unwrap_or_else(PoisonError::into_inner);
        while self.report_some(shared, MOST_AT_ONCE) == MOST_AT_ONCE {}
    }

    /// Reports a few, unless another thread does.
    pub(super) fn report_a_few(&self, shared: &dyn SharedBursts) {
        if shared.has_late()
            && let Ok(_reporting) = self.reporting_late.try_lock()
        {
            self.report_some(shared, MOST_BY_A_REQUEST);
        }
    }

    fn report_some(&self, shared: &dyn SharedBursts, most: usize) -> usize {
        let late = shared.take_late(most, self.clock.now());
        let taken = late.len();
        late.into_iter().for_each(|late| self.report_one(late));
        taken
    }

    #[cold]
    fn report_one(&self, LateBurst { action, at, about }: LateBurst) {
        if about.as_ref().is_some_and(|(_, subject)| subject.is_tried_out) {
            return;
        }
        self.stats.count_action(action);
        let subject = about.as_ref().map(|(count, subject)| (count, &**subject));
        self.observe_late_burst(action, subject, at);
        if let Some((count, subject)) = about {
            let penalty = (action, PenaltyOrigin::SharedStore, at);
            self.list_penalty((&count.detector, Some(count.key)), *subject, penalty);
        }
    }

    /// Whom the key of a detector is about.
    pub(super) fn burst_subject(
        &self,
        (rule, detector, policy_version): (&DetectorRule, u64, u64),
        (facts, key): (&Facts<'_, '_>, &KeyBytes),
    ) -> BurstSubject {
        let shown = shown_key(facts, &rule.key).into();
        let has = |descriptor: Descriptor| rule.key.contains(&descriptor).then_some(());
        let name = |name: &str| cut(name, NAME_CHARS_MAX);
        let ip = facts.request.ip.map(|ip| ip.to_canonical());
        BurstSubject {
            detector: rule.name.clone(),
            policy_version,
            shown,
            user: has(Descriptor::User).and(facts.request.user.as_deref()).map(name),
            client: has(Descriptor::Client).and(facts.request.client.as_deref()).map(name),
            tenant: has(Descriptor::Tenant).and(facts.tenant()).map(name),
            // Addresses of IPv6 share the key of their network.
            ip: has(Descriptor::Ip).and(ip).filter(IpAddr::is_ipv4),
            own_hash: self.bursts.hash(detector, key),
            is_tried_out: self.is_tried_out,
        }
    }
}

/// The values of a key for people, without secrets. A part that the request lacks is empty.
pub(in crate::engine) fn shown_key(facts: &Facts<'_, '_>, key: &[Descriptor]) -> String {
    let shown = key.iter().map(|descriptor| {
        let mut value = KeyBytes::new();
        let _present = facts.write_key(std::slice::from_ref(descriptor), &mut value);
        let value = String::from_utf8_lossy(&value);
        if may_be_secret(descriptor) { masked(&value) } else { cut(&value, PENALTY_VALUE_CHARS_MAX).into() }
    });
    shown.collect::<Vec<String>>().join(", ")
}

/// A text of bounded length.
fn cut(text: &str, chars_max: usize) -> Box<str> {
    match text.char_indices().nth(chars_max) {
        None => text.into(),
        Some((end, _)) => text[..end].into(),
    }
}
