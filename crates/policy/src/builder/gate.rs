//! Builds entries of `allow`, `block` and `bursts`.

use std::time::{Duration, SystemTime};

use super::entry::{self, Entry};

/// Builds an entry of `allow` or `block` with several conditions, a reason or an end.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tidegate_policy::{GateBuilder, PolicyBuilder};
///
/// let gate = GateBuilder::new()
///     .when("ip", ["203.0.113.0/24"])
///     .when("path", ["/login"])
///     .reason("credential stuffing")
///     .until(SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000));
/// let policy = PolicyBuilder::new().block_gate(gate).build()?;
/// assert_eq!(policy.rules.block().entries()[0].conditions.len(), 2);
/// # Ok::<(), tidegate_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a gate does nothing until it is added to a policy"]
pub struct GateBuilder {
    entry: Entry,
}

impl GateBuilder {
    /// An entry without conditions; it needs at least one.
    pub fn new() -> GateBuilder {
        GateBuilder::default()
    }

    /// Restricts the entry to requests whose descriptor has one of these values. Several conditions must all hold.
    pub fn when<V: Into<String>>(
        mut self,
        descriptor: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> GateBuilder {
        self.entry.add(&descriptor.into(), entry::texts(values));
        self
    }

    /// Adds why the entry is there, for people.
    pub fn reason(mut self, reason: impl Into<String>) -> GateBuilder {
        self.entry.set("reason", entry::text(reason));
        self
    }

    /// Ends the entry at a point in time.
    pub fn until(mut self, end: SystemTime) -> GateBuilder {
        self.entry.set_instant("until", end);
        self
    }

    pub(super) fn into_entry(self) -> Entry {
        self.entry
    }
}

/// Builds a detector of bursts: the first burst of a key leads to a warning, another one while warned to a block for
/// twice the penalty.
///
/// ```
/// use std::time::Duration;
/// use tidegate_policy::{DetectorBuilder, PolicyBuilder};
///
/// let detector = DetectorBuilder::new("scraping", ["ip"])
///     .window(Duration::from_secs(5))
///     .threshold(100)
///     .penalty(Duration::from_secs(600));
/// let policy = PolicyBuilder::new().detector(detector).build()?;
/// assert_eq!(policy.rules.detectors()[0].threshold, 100);
/// # Ok::<(), tidegate_policy::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a detector does nothing until it is added to a policy"]
pub struct DetectorBuilder {
    entry: Entry,
}

impl DetectorBuilder {
    /// A detector that counts the requests of each combination of these descriptors: more than 50 within 10 seconds
    /// are a burst, and a warning lasts 300 seconds.
    pub fn new<D: Into<String>>(
        name: impl Into<String>,
        key: impl IntoIterator<Item = D>,
    ) -> DetectorBuilder {
        let mut entry = Entry::default();
        entry.set("name", entry::text(name));
        entry.set("key", entry::texts(key));
        DetectorBuilder { entry }
    }

    /// Sets the length of the window in which it counts.
    pub fn window(mut self, window: Duration) -> DetectorBuilder {
        self.entry.set_duration("window", window);
        self
    }

    /// Sets how many requests of a key are allowed in a window; more are a burst.
    pub fn threshold(mut self, requests: u32) -> DetectorBuilder {
        self.entry.set("threshold", entry::number(requests));
        self
    }

    /// Sets how long a warning lasts. A block lasts twice as long.
    pub fn penalty(mut self, penalty: Duration) -> DetectorBuilder {
        self.entry.set_duration("penalty", penalty);
        self
    }

    pub(super) fn into_entry(self) -> Entry {
        self.entry
    }
}
