//! Four nodes at full load on one key: by how much they exceed the limit in total.

use std::time::Duration;

use tidegate::{Carry, Charge, Clock, Cost, Intent, MonotonicClock, Nanos, Quota, Store};
use tidegate_redis::{RedisClient as Link, RedisClientOptions, RedisStore, StoreOptions};

use super::world::hybrid;
use super::{Redis, RedisError, figure};
use crate::report::{Bar, Figure, Side};

const NODES: usize = 4;
const RATE: u64 = 20_000;
const CAPACITY: u32 = 4_000;

/// The result.
pub(super) struct OvershootResult {
    admitted: u64,
    seconds: f64,
    overshoot: f64,
    bound: u64,
}

/// Runs all nodes at full load on one key.
pub(super) async fn measure(redis: &Redis, span: Duration) -> Result<OvershootResult, RedisError> {
    eprintln!("measuring: overshoot of {NODES} nodes");
    // All nodes use one clock for the instants of admissions.
    let clock = MonotonicClock::new();
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        let address = format!("redis://{}", redis.address);
        let link = Link::connect(RedisClientOptions {
            deadline: Duration::from_secs(1),
            ..RedisClientOptions::new(address)
        })?;
        let options = StoreOptions { prefix: "overshoot".into(), ..StoreOptions::new(hybrid()) };
        let store = RedisStore::new(link, clock.clone(), options);
        store.first_attempt().await?;
        nodes.push(store);
    }
    let maintenance = nodes.iter().map(RedisStore::start_maintenance).collect::<Result<Vec<_>, _>>()?;
    let until = clock.now().saturating_add(span.into());
    let started = clock.now();
    let asking: Vec<_> = nodes.iter().cloned().map(|node| tokio::spawn(ask(node, until))).collect();
    let mut instants = Vec::new();
    for node in asking {
        instants.extend(node.await.expect("a node does not panic")?);
    }
    let seconds = clock.now().saturating_sub(started).get() as f64 / 1e9;
    let bound = nodes.iter().flat_map(|node| node.overshoot_bounds()).map(|(_, bound)| bound).max();
    drop(maintenance);
    instants.sort_unstable();
    let (admitted, overshoot) = (instants.len() as u64, overshoot(&instants));
    Ok(OvershootResult { admitted, seconds, overshoot, bound: bound.unwrap_or(0) })
}

/// Requests tokens at full speed; returns the instants of admissions.
async fn ask(node: RedisStore, until: Nanos) -> Result<Vec<Nanos>, RedisError> {
    let quota = Quota::new(RATE, Nanos::SECOND, CAPACITY).expect("in range");
    let limit = node.limit("hot", quota.into(), Carry::AsIs, node.clock().now())?;
    let mut admitted = Vec::new();
    for turn in 0_u64.. {
        let now = node.clock().now();
        if now >= until {
            break;
        }
        if node.charge(Intent::Take, &[Charge::new(&limit, b"everybody", Cost::ONE)], now).await?.allowed {
            // The instant of the request, or a scheduling delay would look like an overshoot.
            admitted.push(now);
        }
        if turn.is_multiple_of(64) {
            tokio::task::yield_now().await;
        }
    }
    Ok(admitted)
}

/// The most that was admitted in any interval beyond burst and rate: the maximum, over all runs of
/// admissions, of their number minus what burst and rate allow in their time.
fn overshoot(instants: &[Nanos]) -> f64 {
    let per_nano = RATE as f64 / 1e9;
    let (mut run, mut most, mut last) = (0.0_f64, 0.0_f64, Nanos::ZERO);
    for &at in instants {
        let gone = at.saturating_sub(last).get() as f64 * per_nano;
        run = (run - gone).max(0.0) + 1.0;
        most = most.max(run);
        last = at;
    }
    (most - f64::from(CAPACITY)).max(0.0)
}

impl OvershootResult {
    pub(super) fn figures(&self) -> Vec<Figure> {
        let rate = self.admitted as f64 / self.seconds / RATE as f64;
        vec![
            figure("four nodes on one key: admitted, in the limit's rate", "tidegate, hybrid", rate, "x"),
            figure("four nodes on one key: overshoot", "tidegate, hybrid", self.overshoot, "tokens"),
            figure("four nodes on one key: published bound", "tidegate, hybrid", self.bound as f64, "tokens"),
        ]
    }

    pub(super) fn bar(&self) -> Bar {
        let name = "hybrid, four nodes at full load: overshoot";
        Bar::new(name, self.overshoot, Side::AtMost, self.bound as f64, "tokens")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_burst_and_the_rate_are_no_overshoot() {
        let step = 1_000_000_000 / RATE;
        let burst = std::iter::repeat_n(Nanos::SECOND, CAPACITY as usize);
        let steady = (1..=1_000).map(|place| Nanos::SECOND.saturating_add(Nanos::new(place * step)));
        let instants: Vec<Nanos> = burst.chain(steady).collect();
        assert!(overshoot(&instants) < 1e-6);
        let more: Vec<Nanos> = instants.iter().copied().chain([*instants.last().unwrap(); 5]).collect();
        assert!((overshoot(&more) - 5.0).abs() < 1e-6);
    }
}
