//! Builds limits.

use std::time::Duration;

use tidegate_core::{Algorithm, Carry};

use crate::OnStoreError;
use crate::document::{HeaderFamily, Missing, words};

use super::entry::{self, Entry};
use super::terms::{self, terms_methods};

/// Builds one limit of a [`PolicyBuilder`](crate::PolicyBuilder): how much, for which requests, and what happens
/// beyond.
///
/// Nothing fails here: [`PolicyBuilder::build`](crate::PolicyBuilder::build) checks everything and reports every
/// problem at once.
///
/// ```
/// use std::time::Duration;
/// use tidegate_policy::{LimitBuilder, PolicyBuilder};
///
/// let completions = LimitBuilder::per_minute("completions", 10_000)
///     .key(["tenant", "header:x-api-key"])
///     .when("path", ["/v1/completions"])
///     .when("plan", ["free", "trial"])
///     .cost_from("header:x-tokens", 1, 4_000)
///     .queue(100, Duration::from_secs(2));
/// let policy = PolicyBuilder::new().limit(completions).build()?;
/// assert_eq!(&*policy.rules.rules()[0].name, "completions");
/// # Ok::<(), tidegate_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a limit does nothing until it is added to a policy"]
pub struct LimitBuilder {
    entry: Entry,
}

impl LimitBuilder {
    /// A limit of `rate` tokens in each `window`, which is a whole number of milliseconds. State and metrics belong to
    /// the name, which is unique in the policy.
    pub fn new(name: impl Into<String>, rate: u64, window: Duration) -> LimitBuilder {
        let mut entry = Entry::default();
        entry.set("name", entry::text(name));
        terms::sustained(&mut entry, rate, window);
        // Without a key all requests share one bucket. An explicit empty key avoids the warning about that.
        entry.set("key", entry::list(Vec::new()));
        LimitBuilder { entry }
    }

    /// A limit of `rate` tokens a second.
    pub fn per_second(name: impl Into<String>, rate: u64) -> LimitBuilder {
        LimitBuilder::new(name, rate, Duration::from_secs(1))
    }

    /// A limit of `rate` tokens a minute.
    pub fn per_minute(name: impl Into<String>, rate: u64) -> LimitBuilder {
        LimitBuilder::new(name, rate, Duration::from_secs(60))
    }

    /// A limit of `rate` tokens an hour.
    pub fn per_hour(name: impl Into<String>, rate: u64) -> LimitBuilder {
        LimitBuilder::new(name, rate, Duration::from_secs(3_600))
    }

    /// Gives each combination of these descriptors, such as `ip`, `user`, `tenant` or `header:x-api-key`, a bucket of
    /// its own. Without a key all requests share one bucket.
    pub fn key<D: Into<String>>(mut self, descriptors: impl IntoIterator<Item = D>) -> LimitBuilder {
        self.entry.set("key", entry::texts(descriptors));
        self
    }

    /// Restricts the limit to requests whose descriptor has one of these values. Several conditions must all hold.
    /// `path` takes patterns (`/api/**`), `ip` addresses and networks.
    pub fn when<V: Into<String>>(
        mut self,
        descriptor: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> LimitBuilder {
        self.entry.add_condition("match", descriptor.into(), entry::texts(values));
        self
    }

    /// Excludes requests whose descriptor has one of these values. With several calls only requests for which all of
    /// them hold are excluded.
    pub fn unless<V: Into<String>>(
        mut self,
        descriptor: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> LimitBuilder {
        self.entry.add_condition("unless", descriptor.into(), entry::texts(values));
        self
    }

    /// Sets what happens to requests that lack a descriptor of the key. By default the limit does not apply to them.
    pub fn missing(mut self, choice: Missing) -> LimitBuilder {
        self.entry.set("missing", entry::text(words::word_of(words::MISSING, choice)));
        self
    }

    /// Puts the limit in a group: of the limits in a group only the first that matches a request applies.
    pub fn group(mut self, name: impl Into<String>) -> LimitBuilder {
        self.entry.set("group", entry::text(name));
        self
    }

    /// States that the service behind all requests that the limit's conditions select can take `rate` requests a second,
    /// and `burst` at once. That limits nothing; the policy has a warning if its limits let more through.
    pub fn absorbs(mut self, rate: u64, burst: u64) -> LimitBuilder {
        self.entry.set_absorbs(rate, burst);
        self
    }

    /// Adds a description for people.
    pub fn description(mut self, description: impl Into<String>) -> LimitBuilder {
        self.entry.set("description", entry::text(description));
        self
    }

    terms_methods!();

    fn terms(&mut self) -> &mut Entry {
        &mut self.entry
    }

    pub(super) fn into_entry(self) -> Entry {
        self.entry
    }
}
