//! A common design to compare with: one script per limit, all in one pipeline.

use redis::aio::MultiplexedConnection;

use super::world::{CAPACITY, RATES};
use super::{Redis, RedisError};
use crate::stopwatch::wall_clock;

/// A token bucket in a hash, on the caller's clock: read, refill, take, write, expire.
const SCRIPT: &str = "\
local rate, burst, now, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local kept = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(kept[1]) or burst, tonumber(kept[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - at) * rate)
local allowed, wait = 0, 0
if tokens >= cost then
  tokens = tokens - cost
  allowed = 1
else
  wait = math.ceil((cost - tokens) / rate * 1000)
end
redis.call('HMSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('EXPIRE', KEYS[1], math.ceil(burst / rate * 2))
return {allowed, tokens * 1000, wait}
";

pub(super) struct Scripts {
    connection: MultiplexedConnection,
    sha: String,
}

impl Scripts {
    pub(super) async fn new(redis: &Redis) -> Result<Scripts, RedisError> {
        let mut connection = redis.connection().await?;
        let sha = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connection).await?;
        Ok(Scripts { connection, sha })
    }

    /// The same three limits: per user, per route, and overall.
    pub(super) async fn decide(&self, place: u64) -> Result<bool, RedisError> {
        let now = wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let tiers = [
            (format!("rl:user:{}:1", place % 10_000), RATES[0]),
            (format!("rl:ep:{}:2", place % 50), RATES[1]),
            ("rl:global:3".to_owned(), RATES[2]),
        ];
        let mut pipeline = redis::pipe();
        for (key, rate) in &tiers {
            let call = pipeline.cmd("EVALSHA").arg(&self.sha).arg(1).arg(key);
            call.arg(rate).arg(CAPACITY).arg(now).arg(1);
        }
        let said: Vec<(i64, i64, i64)> = pipeline.query_async(&mut self.connection.clone()).await?;
        Ok(said.iter().all(|(allowed, ..)| *allowed == 1))
    }
}
