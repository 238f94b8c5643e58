//! Retention: removes records that are old, or too many. One node at a time does it.

use std::time::Duration;

use tidegate::{Clock, MonotonicClock, Nanos};
use tidegate_database::{Database, DatabaseError, UnixMillis};
use tokio::time::{MissedTickBehavior, interval};

use super::Records;
use crate::control::startup::unix_millis;
use crate::node::Node;
use crate::settings::Retention;

/// The pause between two removals.
const INTERVAL: Duration = Duration::from_secs(600);
/// How long one node has the sole right to remove records. It is longer than the interval, so that a running node renews it
/// in time.
const LEASE: Duration = Duration::from_secs(1_500);
/// The name of the lease.
const LEASE_NAME: &str = "retention";

/// Removes records that are old, or too many.
#[derive(Debug)]
pub(crate) struct Keeper {
    database: Database,
    retention: Retention,
    clock: MonotonicClock,
    /// The name of this run of the node.
    name: String,
}

impl Keeper {
    pub(crate) fn new(database: &Database, records: &Records, node: &Node) -> Keeper {
        let retention = node.settings().database.as_ref().map(|settings| settings.retention);
        Keeper {
            database: database.clone(),
            retention: retention.unwrap_or_default(),
            clock: node.clock().clone(),
            name: records.run_name(),
        }
    }

    /// Removes, at the start and then at each interval, until the runtime ends.
    pub(crate) async fn run(self) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.remove().await {
                Ok((0, 0)) => {}
                Ok((audit, violations)) => tracing::info!(audit, violations, "old records were removed"),
                // While the database is away, nothing is added either.
                Err(DatabaseError::Unavailable(_)) => {}
                Err(error) => tracing::error!(%error, "old records cannot be removed"),
            }
        }
    }

    /// Removes what is old or too much, a bounded number of rows in each transaction. Returns how many entries and
    /// violations.
    async fn remove(&self) -> Result<(u64, u64), DatabaseError> {
        let now = self.clock.wall();
        let expires = unix_millis(now.saturating_add(LEASE.into()));
        if !self.database.take_lease(LEASE_NAME, &self.name, unix_millis(now), expires).await? {
            return Ok((0, 0));
        }
        let Retention { audit, audit_bytes, violations, violations_rows } = self.retention;
        let entries = self.database.trim(before(now, audit), audit_bytes, unix_millis(now)).await?;
        let violations = self.database.trim_violations(before(now, violations), violations_rows).await?;
        Ok((entries, violations))
    }
}

fn before(now: Nanos, age: Nanos) -> UnixMillis {
    unix_millis(now.saturating_sub(age))
}
