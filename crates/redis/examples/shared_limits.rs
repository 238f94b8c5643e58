//! One limit shared by two limiters on a Redis server, in strict and in hybrid mode, for one second each:
//! `cargo run -p tidegate-redis --example shared_limits -- redis://127.0.0.1:6379`.

use std::error::Error;

use tidegate::engine::{LimitBuilder, Limiter, PolicyBuilder, Request};
use tidegate::{Clock, Nanos};
use tidegate_redis::{MaintenanceGuard, RedisClientOptions, RedisStore, StoreMode, StoreOptions};

/// Tokens a second of the limit, which is also its capacity.
const RATE: u64 = 5_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    run("strict", &url, StoreMode::Strict).await?;
    run("hybrid", &url, StoreMode::Hybrid { life: StoreOptions::LEASE_LIFE }).await
}

/// What a process of a service has: its limiter, and the guard of its store's maintenance.
struct Process {
    limiter: Limiter<RedisStore>,
    maintenance: MaintenanceGuard,
}

impl Process {
    async fn start(url: &str, mode: StoreMode) -> Result<Process, Box<dyn Error>> {
        // A prefix of its own for each mode, so that the two runs do not share their buckets.
        let prefix = format!("example-{}", if mode == StoreMode::Strict { "strict" } else { "hybrid" });
        let options = StoreOptions { prefix, ..StoreOptions::new(mode) };
        let (store, maintenance) = RedisStore::connect(RedisClientOptions::new(url), options)?;
        store.first_attempt().await?;
        let limit = LimitBuilder::per_second("per-user", RATE).key(["user"]);
        let clock = store.clock().clone();
        let limiter = Limiter::with_store(PolicyBuilder::new().limit(limit).build()?, store, clock)?;
        Ok(Process { limiter, maintenance })
    }
}

/// Two processes decide as many requests of one user as they can.
async fn run(name: &str, url: &str, mode: StoreMode) -> Result<(), Box<dyn Error>> {
    let processes = [Process::start(url, mode).await?, Process::start(url, mode).await?];
    let request = Request::new().user("alice");
    let clock = processes[0].limiter.store().clock().clone();
    let (begun, mut requests, mut admitted) = (clock.now(), 0, 0);
    while clock.now().saturating_sub(begun) < Nanos::SECOND {
        for process in &processes {
            let decision = process.limiter.check_async(&request).await;
            requests += 1;
            admitted += u32::from(decision.is_allowed());
        }
        // Lets the maintenance run on this single thread.
        tokio::task::yield_now().await;
    }
    let calls: u64 = processes.iter().map(|process| process.limiter.store().calls()).sum();
    println!("{name}: {requests} requests, {admitted} admitted, {calls} calls to the server");
    for process in processes {
        for (limit, bound) in process.limiter.store().overshoot_bounds() {
            // The engine appends the fields of the key to the name.
            let name = limit.split('\u{1f}').next().unwrap_or_default();
            println!("  limit {name}: exceeded by {bound} tokens at most");
        }
        process.maintenance.shutdown().await;
    }
    Ok(())
}
