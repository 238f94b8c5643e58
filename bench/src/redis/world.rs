//! The redis-server of the benchmark, and the stores that use it.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tidegate::{Carry, Charge, Clock, Cost, Intent, LimitRef, Nanos, Quota, Store};
use tidegate_redis::{MaintenanceGuard, RedisClientOptions, RedisStore, StoreError, StoreMode, StoreOptions};

use super::RedisError;
use crate::server::{ServerProcess, free_address, redis as redis_program};

/// A redis-server without persistence.
pub(super) struct Redis {
    server: ServerProcess,
    pub(super) address: SocketAddr,
    control: redis::aio::MultiplexedConnection,
}

impl Redis {
    pub(super) async fn start() -> Result<Redis, RedisError> {
        let address = free_address()?;
        let mut command = Command::new(redis_program()?);
        command.args(["--port", &address.port().to_string(), "--save", "", "--appendonly", "no"]);
        let server = ServerProcess::start("redis-server", command, &[address])?;
        let client = redis::Client::open(format!("redis://{address}"))?;
        let control = client.get_multiplexed_async_connection().await?;
        Ok(Redis { server, address, control })
    }

    /// A connection for plain commands.
    pub(super) async fn connection(&self) -> Result<redis::aio::MultiplexedConnection, RedisError> {
        let client = redis::Client::open(format!("redis://{}", self.address))?;
        Ok(client.get_multiplexed_async_connection().await?)
    }

    pub(super) fn cpu_seconds(&self) -> Result<f64, RedisError> {
        Ok(self.server.cpu_nanos().map_err(RedisError::Usage)? as f64 / 1e9)
    }

    /// The number of script calls so far, by the server's own count.
    pub(super) async fn script_calls(&self) -> Result<u64, RedisError> {
        let mut control = self.control.clone();
        let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut control).await?;
        let of = |name: &str| {
            let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
            line.and_then(|line| line.split(',').next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        Ok(of("evalsha") + of("eval"))
    }
}

/// Hybrid mode with the default settings of a node.
pub(super) fn hybrid() -> StoreMode {
    StoreMode::Hybrid { life: StoreOptions::LEASE_LIFE }
}

/// A store as in a node, with limits that admit every request.
pub(super) struct BenchStore {
    pub(super) store: RedisStore,
    per_user: LimitRef,
    per_route: LimitRef,
    overall: LimitRef,
    hot: LimitRef,
    _maintenance: MaintenanceGuard,
}

/// Tokens per second of a user, a route, and overall: so few that buckets are not full again before the next request,
/// as with real limits.
pub(super) const RATES: [u64; 3] = [10, 100, 1_000];
/// The burst: enough for the whole measurement.
pub(super) const CAPACITY: u32 = 1_000_000_000;

/// The number of hot keys, and of the keys that are used now and then.
const HOT: u64 = 8;
const USERS: u64 = 10_000;
const ROUTES: u64 = 50;

impl BenchStore {
    pub(super) async fn new(redis: &Redis, mode: StoreMode, prefix: &str) -> Result<BenchStore, RedisError> {
        let client = RedisClientOptions {
            deadline: Duration::from_secs(1),
            ..RedisClientOptions::new(format!("redis://{}", redis.address))
        };
        let prefix = format!("{prefix}-{}", if mode == StoreMode::Strict { "strict" } else { "hybrid" });
        let options = StoreOptions { prefix, ..StoreOptions::new(mode) };
        let (store, maintenance) = RedisStore::connect(client, options)?;
        store.first_attempt().await?;
        let now = store.clock().now();
        let quota = |rate| Quota::new(rate, Nanos::SECOND, CAPACITY).expect("in range").into();
        let per_user = store.limit("per-user", quota(RATES[0]), Carry::AsIs, now)?;
        let per_route = store.limit("per-route", quota(RATES[1]), Carry::AsIs, now)?;
        let overall = store.limit("overall", quota(RATES[2]), Carry::AsIs, now)?;
        let hot = store.limit("hot", quota(100_000_000), Carry::AsIs, now)?;
        Ok(BenchStore { store, per_user, per_route, overall, hot, _maintenance: maintenance })
    }

    /// Charges the limits per user, per route and overall.
    pub(super) async fn three_limits(&self, place: u64) -> Result<bool, StoreError> {
        let (user, route) = (format!("user-{}", place % USERS), format!("/route/{}", place % ROUTES));
        let charges = [
            Charge::new(&self.per_user, user.as_bytes(), Cost::ONE),
            Charge::new(&self.per_route, route.as_bytes(), Cost::ONE),
            Charge::new(&self.overall, b"", Cost::ONE),
        ];
        let now = self.store.clock().now();
        Ok(self.store.charge(Intent::Take, &charges, now).await?.allowed)
    }

    /// Charges one of a few hot keys.
    pub(super) async fn hot_key(&self, place: u64) -> Result<bool, StoreError> {
        let user = [b'u', b'0' + (place % HOT) as u8];
        let charges = [Charge::new(&self.hot, &user, Cost::ONE)];
        let now = self.store.clock().now();
        Ok(self.store.charge(Intent::Take, &charges, now).await?.allowed)
    }
}
