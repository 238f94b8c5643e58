//! `CL.THROTTLE`: an ad hoc bucket, with the arguments and replies of redis-cell.

use tidegate::engine::{AdHocError, AdHocLimit, AdHocRequest};
use tidegate::{LimitDecision, Nanos, NowOrLater, Outcome};

use crate::observe::{Origin, Protocol};
use crate::resp::exchange::Batch;
use crate::resp::protocol::decode::CommandArgs;
use crate::resp::protocol::number;
use crate::resp::protocol::number::NumberError;
use crate::resp::protocol::reply::{EscapedBytes, ReplyWriter};

/// The longest period that `Nanos` can represent, in seconds.
const PERIOD_MAX: u64 = u64::MAX / Nanos::SECOND.get();

/// Why the arguments are invalid.
#[derive(Debug, thiserror::Error)]
enum ThrottleError<'a> {
    #[error("the key is empty")]
    EmptyKey,
    #[error("{name} is not an integer: '{}'", EscapedBytes(seen))]
    NotInteger { name: &'static str, seen: &'a [u8] },
    #[error("{name} is out of range: '{}'", EscapedBytes(seen))]
    OutOfRange { name: &'static str, seen: &'a [u8] },
    #[error("{name} is negative: '{}'", EscapedBytes(seen))]
    Negative { name: &'static str, seen: &'a [u8] },
    #[error("zero rates are not supported: {name} must be at least 1")]
    ZeroRate { name: &'static str },
}

/// Answers the command, or adds a pending reply.
pub(crate) fn answer(batch: &mut Batch<'_, '_>, args: CommandArgs<'_>, reply: &mut ReplyWriter<'_>) {
    match read(args) {
        Ok(request) => match decide(batch, &request).started() {
            NowOrLater::Now(outcome) => write(outcome, reply),
            NowOrLater::Later(later) => batch.wait(later, write, reply),
        },
        Err(error) => reply.error(format_args!("ERR {error}")),
    }
}

fn read(args: CommandArgs<'_>) -> Result<AdHocRequest<'_>, ThrottleError<'_>> {
    let key = args.get(1).filter(|key| !key.is_empty()).ok_or(ThrottleError::EmptyKey)?;
    let max_burst = natural(args, 2, "max_burst")?;
    let count = natural(args, 3, "count")?;
    let period = natural(args, 4, "period")?;
    let quantity = if args.len() > 5 { natural(args, 5, "quantity")? } else { 1 };
    for (name, number) in [("count", count), ("period", period)] {
        if number == 0 {
            return Err(ThrottleError::ZeroRate { name });
        }
    }
    let out_of_range =
        |name, index| ThrottleError::OutOfRange { name, seen: args.get(index).unwrap_or_default() };
    let capacity = u32::try_from(max_burst + 1).map_err(|_| out_of_range("max_burst", 2))?;
    if period > PERIOD_MAX {
        return Err(out_of_range("period", 4));
    }
    let limit = AdHocLimit { capacity, rate: count, window: Nanos::from_secs(period) };
    Ok(AdHocRequest { key, limit, cost: quantity })
}

/// An argument that is an integer of at least 0.
#[inline]
fn natural<'a>(args: CommandArgs<'a>, index: usize, name: &'static str) -> Result<u64, ThrottleError<'a>> {
    let seen = args.get(index).unwrap_or_default();
    match number::integer(seen) {
        Ok(number) => u64::try_from(number).map_err(|_| ThrottleError::Negative { name, seen }),
        Err(NumberError::Syntax) => Err(ThrottleError::NotInteger { name, seen }),
        Err(NumberError::Range) => Err(ThrottleError::OutOfRange { name, seen }),
    }
}

fn decide<'n>(batch: &mut Batch<'n, '_>, request: &AdHocRequest<'_>) -> NowOrLater<'n, ThrottleOutcome> {
    let node = batch.node;
    // With tracing on, `check_ad_hoc` measures and traces each decision itself.
    if node.traces().is_on() {
        let origin = Origin { protocol: Protocol::Resp, traceparent: None };
        let decision = node.check_ad_hoc(origin, request);
        return decision
            .map(|decision| Ok(*decision?.tightest().expect("an ad hoc bucket has one limit").decision));
    }
    let answer = node.check_ad_hoc_in_short(Protocol::Resp, request, batch.now);
    batch.decisions += usize::from(matches!(answer, NowOrLater::Now(Ok(_))));
    answer.map(|answer| Ok(answer?.decision))
}

/// The decision of a bucket, or why there is none.
type ThrottleOutcome = Result<LimitDecision, AdHocError>;

/// Writes: limited, limit, remaining, seconds until a retry or -1, seconds until the bucket is full.
#[inline]
fn write(outcome: ThrottleOutcome, reply: &mut ReplyWriter<'_>) {
    let decision = match outcome {
        Ok(decision) => decision,
        Err(error) => return reply.error(format_args!("ERR {error}")),
    };
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

/// Seconds as redis-cell rounds them: down to milliseconds, then up to seconds.
#[inline]
fn seconds(span: Nanos) -> i64 {
    (span.get() / Nanos::MILLISECOND.get()).div_ceil(1_000) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_milliseconds_decide_how_seconds_are_rounded() {
        for (nanos, expected) in [
            (0, 0),
            (999_999, 0),
            (1_000_000, 1),
            (999_999_999, 1),
            (1_000_000_000, 1),
            (1_000_999_999, 1),
            (1_001_000_000, 2),
            (u64::MAX, 18_446_744_074),
        ] {
            assert_eq!(seconds(Nanos::new(nanos)), expected, "{nanos}");
        }
    }
}
