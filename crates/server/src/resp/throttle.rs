//! `CL.THROTTLE`: a bucket whose numbers come with the command, answered as redis-cell answers.

use tidegate::policy::{Decision as Told, ThrottleError, ThrottleLimit};
use tidegate::{Cost, Decision, Nanos, Outcome};

use super::decode::Args;
use super::exchange::Batch;
use super::number::{self, NoNumber};
use super::reply::{Reply, Shown};
use crate::at_once::at_once;
use crate::node::Node;
use crate::observe::{Origin, Protocol};

/// The longest time that an instant can tell, in seconds.
const PERIOD_MAX: u64 = u64::MAX / Nanos::SECOND.get();

/// What is asked.
#[derive(Debug)]
struct Ask<'a> {
    key: &'a [u8],
    limit: ThrottleLimit,
    cost: Cost,
    /// The cost is above what any bucket can hold; nothing is taken for it.
    is_beyond_all: bool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum AskError<'a> {
    #[error("the key is empty")]
    EmptyKey,
    #[error("{name} is not an integer: '{}'", Shown(seen))]
    NotInteger { name: &'static str, seen: &'a [u8] },
    #[error("{name} is out of range: '{}'", Shown(seen))]
    OutOfRange { name: &'static str, seen: &'a [u8] },
    #[error("{name} is negative: '{}'", Shown(seen))]
    Negative { name: &'static str, seen: &'a [u8] },
    #[error("zero rates are not supported: {name} is at least 1")]
    ZeroRate { name: &'static str },
    #[error(transparent)]
    Limit(#[from] ThrottleError),
}

/// By buckets of this node.
pub(super) fn answer(batch: &mut Batch<'_>, args: Args<'_>, reply: &mut Reply<'_>) {
    match read(args).and_then(|ask| decide(batch, &ask)) {
        Ok(decision) => write(&decision, reply),
        Err(error) => reply.error(format_args!("ERR {error}")),
    }
}

/// By buckets wherever they are.
pub(super) async fn answer_later(node: &Node, args: Args<'_>, reply: &mut Reply<'_>) {
    let decided = match read(args) {
        Ok(ask) => decide_later(node, &ask).await,
        Err(error) => Err(error),
    };
    match decided {
        Ok(decision) => write(&decision, reply),
        Err(error) => reply.error(format_args!("ERR {error}")),
    }
}

fn read(args: Args<'_>) -> Result<Ask<'_>, AskError<'_>> {
    let key = args.get(1).filter(|key| !key.is_empty()).ok_or(AskError::EmptyKey)?;
    let max_burst = natural(args, 2, "max_burst")?;
    let count = natural(args, 3, "count")?;
    let period = natural(args, 4, "period")?;
    let quantity = if args.len() > 5 { natural(args, 5, "quantity")? } else { 1 };
    for (name, number) in [("count", count), ("period", period)] {
        if number == 0 {
            return Err(AskError::ZeroRate { name });
        }
    }
    let out_of_range = |name, place| AskError::OutOfRange { name, seen: args.get(place).unwrap_or_default() };
    let capacity = u32::try_from(max_burst + 1).map_err(|_| out_of_range("max_burst", 2))?;
    if period > PERIOD_MAX {
        return Err(out_of_range("period", 4));
    }
    let limit = ThrottleLimit { capacity, rate: count, window: Nanos::from_secs(period) };
    let cost = u32::try_from(quantity);
    Ok(Ask { key, limit, cost: Cost::new(cost.unwrap_or(0)), is_beyond_all: cost.is_err() })
}

/// A number from 0 on.
#[inline]
fn natural<'a>(args: Args<'a>, place: usize, name: &'static str) -> Result<u64, AskError<'a>> {
    let seen = args.get(place).unwrap_or_default();
    match number::integer(seen) {
        Ok(number) => u64::try_from(number).map_err(|_| AskError::Negative { name, seen }),
        Err(NoNumber::Syntax) => Err(AskError::NotInteger { name, seen }),
        Err(NoNumber::Range) => Err(AskError::OutOfRange { name, seen }),
    }
}

fn decide<'a>(batch: &mut Batch<'_>, ask: &Ask<'a>) -> Result<Decision, AskError<'a>> {
    let Ask { key, limit, cost, is_beyond_all } = *ask;
    if is_beyond_all && !batch.node.limiter.kill_switch() {
        let standing = batch.node.throttle.peek(key, limit, Cost::ZERO, batch.now)?;
        return Ok(Decision { outcome: Outcome::Never, ..standing });
    }
    // One that is traced is counted where it is decided.
    if batch.node.traces.is_on() {
        return at_once(decide_later(batch.node, ask));
    }
    let decision = batch.node.throttle_at(key, limit, cost, batch.now)?;
    batch.decisions += 1;
    Ok(decision)
}

async fn decide_later<'a>(node: &Node, ask: &Ask<'a>) -> Result<Decision, AskError<'a>> {
    let Ask { key, limit, cost, is_beyond_all } = *ask;
    let said = |told: &Told| *told.tightest().expect("a bucket without a policy always speaks").decision;
    if is_beyond_all && !node.limiter.kill_switch() {
        let standing = said(&node.peek_throttled(key, limit, Cost::ZERO).await?);
        return Ok(Decision { outcome: Outcome::Never, ..standing });
    }
    let origin = Origin { protocol: Protocol::Resp, traceparent: None };
    Ok(said(&node.throttle(origin, key, limit, cost).await?))
}

/// Limited, limit, remaining, seconds until a retry or -1, seconds until it is full.
#[inline]
fn write(decision: &Decision, reply: &mut Reply<'_>) {
    let retry_after = match decision.outcome {
        Outcome::Allowed | Outcome::Never => -1,
        Outcome::Denied { retry_after } => seconds(retry_after),
    };
    reply.array(5);
    reply.integer(i64::from(!decision.is_allowed()));
    reply.integer(i64::from(decision.limit));
    reply.integer(i64::from(decision.remaining));
    reply.integer(retry_after);
    reply.integer(seconds(decision.reset_after));
}

/// Seconds as redis-cell tells them: whole milliseconds, and those rounded up.
#[inline]
fn seconds(span: Nanos) -> i64 {
    (span.get() / Nanos::MILLISECOND.get()).div_ceil(1_000) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_milliseconds_decide_how_seconds_are_rounded() {
        for (nanos, told) in [
            (0, 0),
            (999_999, 0),
            (1_000_000, 1),
            (999_999_999, 1),
            (1_000_000_000, 1),
            (1_000_999_999, 1),
            (1_001_000_000, 2),
            (u64::MAX, 18_446_744_074),
        ] {
            assert_eq!(seconds(Nanos::new(nanos)), told, "{nanos}");
        }
    }
}
