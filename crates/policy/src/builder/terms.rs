//! The methods that the builders of limits and of tenants share.

use std::time::Duration;

use tidegate_core::{Algorithm, Carry};

use crate::OnStoreError;
use crate::document::{HeaderFamily, words};

use super::entry::{self, Entry};

/// Adds the shared methods to a builder that has `fn terms(&mut self) -> &mut Entry`.
macro_rules! terms_methods {
    () => {
        /// Sets how many tokens may be taken at once. The default is the rate. Only for token buckets.
        pub fn burst(mut self, capacity: u32) -> Self {
            terms::burst(self.terms(), capacity);
            self
        }

        /// Sets how the limit counts. The default is a token bucket.
        pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
            terms::algorithm(self.terms(), algorithm);
            self
        }

        /// Sets what happens to the tokens when a new policy changes the numbers. The default keeps them.
        pub fn carry(mut self, carry: Carry) -> Self {
            terms::carry(self.terms(), carry);
            self
        }

        /// Sets what a request costs, unless its route has a cost. The default is 1.
        pub fn cost(mut self, cost: u32) -> Self {
            self.terms().set("cost", entry::number(cost));
            self
        }

        /// Sets what every request costs, whatever its route costs: 1 counts calls.
        pub fn cost_per_call(mut self, cost: u32) -> Self {
            terms::cost_per_call(self.terms(), cost);
            self
        }

        /// Takes the cost from a descriptor of the request, such as `header:x-cost`: `default` if that is not a whole
        /// number above 0, and at most `max`.
        pub fn cost_from(mut self, descriptor: impl Into<String>, default: u32, max: u32) -> Self {
            terms::cost_from(self.terms(), descriptor.into(), default, max);
            self
        }

        /// Lets requests beyond the limit wait for tokens: at most `max_depth` requests for one bucket, each at most
        /// `max_wait`.
        pub fn queue(mut self, max_depth: u32, max_wait: Duration) -> Self {
            terms::queue(self.terms(), max_depth, max_wait);
            self
        }

        /// Admits requests beyond the limit, and marks their decisions with this tag.
        pub fn degrade(mut self, tag: impl Into<String>) -> Self {
            terms::degrade(self.terms(), tag.into());
            self
        }

        /// Shadow mode: the limit counts and denies nobody; decisions report what it would have denied.
        pub fn shadow(mut self) -> Self {
            self.terms().set("mode", entry::text("shadow"));
            self
        }

        /// Sets which families of rate-limit headers responses have. None turns the headers off; `Retry-After` stays.
        pub fn headers(mut self, families: impl IntoIterator<Item = HeaderFamily>) -> Self {
            terms::headers(self.terms(), families);
            self
        }

        /// Adds up to this many per cent, at most 50, to `Retry-After`, so that clients do not return all at once.
        pub fn retry_jitter(mut self, percent: u32) -> Self {
            self.terms().set("retry_jitter", entry::percent(percent));
            self
        }

        /// Sets what happens while a shared store cannot be reached. The default is a local bucket.
        pub fn on_store_error(mut self, choice: OnStoreError) -> Self {
            terms::on_store_error(self.terms(), choice);
            self
        }
    };
}
pub(super) use terms_methods;

pub(super) fn sustained(terms: &mut Entry, rate: u64, window: Duration) {
    let mut sustained = Entry::default();
    sustained.set("rate", entry::number(rate));
    sustained.set_duration("window", window);
    terms.set_map("sustained", sustained);
}

pub(super) fn burst(terms: &mut Entry, capacity: u32) {
    let mut burst = Entry::default();
    burst.set("capacity", entry::number(capacity));
    terms.set_map("burst", burst);
}

pub(super) fn algorithm(terms: &mut Entry, algorithm: Algorithm) {
    terms.set("algorithm", entry::text(words::word_of(words::ALGORITHMS, algorithm)));
}

pub(super) fn carry(terms: &mut Entry, carry: Carry) {
    terms.set("carry", entry::text(words::word_of(words::CARRY, carry)));
}

pub(super) fn cost_per_call(terms: &mut Entry, fixed: u32) {
    let mut cost = Entry::default();
    cost.set("fixed", entry::number(fixed));
    terms.set_map("cost", cost);
}

pub(super) fn cost_from(terms: &mut Entry, descriptor: String, default: u32, max: u32) {
    let mut cost = Entry::default();
    cost.set("from", entry::text(descriptor));
    cost.set("default", entry::number(default));
    cost.set("max", entry::number(max));
    terms.set_map("cost", cost);
}

pub(super) fn queue(terms: &mut Entry, max_depth: u32, max_wait: Duration) {
    let mut queue = Entry::default();
    queue.set("max_depth", entry::number(max_depth));
    queue.set_duration("max_wait", max_wait);
    terms.remove("degrade");
    terms.set("strategy", entry::text("queue"));
    terms.set_map("queue", queue);
}

pub(super) fn degrade(terms: &mut Entry, tag: String) {
    let mut degrade = Entry::default();
    degrade.set("tag", entry::text(tag));
    terms.remove("queue");
    terms.set("strategy", entry::text("degrade"));
    terms.set_map("degrade", degrade);
}

pub(super) fn headers(terms: &mut Entry, families: impl IntoIterator<Item = HeaderFamily>) {
    let words: Vec<_> = families.into_iter().map(|family| words::word_of(words::FAMILIES, family)).collect();
    terms.set("response_headers", entry::flag(!words.is_empty()));
    terms.set("headers", entry::texts(words));
}

pub(super) fn on_store_error(terms: &mut Entry, choice: OnStoreError) {
    terms.set("on_store_error", entry::text(words::word_of(words::STORE_ERRORS, choice)));
}
