//! `CL.THROTTLE`: a bucket whose numbers come with the command, answered as redis-cell answers.

use tidegate::engine::{AdHocError, AdHocLimit, AdHocRequest};
use tidegate::{LimitDecision, Nanos, NowOrLater, Outcome};

use crate::observe::{Origin, Protocol};
use crate::resp::exchange::Batch;
use crate::resp::protocol::decode::CommandArgs;
use crate::resp::protocol::number;
use crate::resp::protocol::number::NumberError;
use crate::resp::protocol::reply::{EscapedBytes, ReplyWriter};

/// The longest time that an instant can tell, in seconds.
const PERIOD_MAX: u64 = u64::MAX / Nanos::SECOND.get();

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum AskError<'a> {
    #[error("the key is empty")]
    EmptyKey,
    #[error("{name} is not an integer: '{}'", EscapedBytes(seen))]
    NotInteger { name: &'static str, seen: &'a [u8] },
    #[error("{name} is out of range: '{}'", EscapedBytes(seen))]
    OutOfRange { name: &'static str, seen: &'a [u8] },
    #[error("{name} is negative: '{}'", EscapedBytes(seen))]
    Negative { name: &'static str, seen: &'a [u8] },
    #[error("zero rates are not supported: {name} is at least 1")]
    ZeroRate { name: &'static str },
}

/// Answers, or begins to.
pub(crate) fn answer(batch: &mut Batch<'_, '_>, args: CommandArgs<'_>, reply: &mut ReplyWriter<'_>) {
    match read(args) {
        Ok(asked) => match decide(batch, &asked).started() {
            NowOrLater::Now(said) => write(said, reply),
            NowOrLater::Later(later) => batch.wait(later, write, reply),
        },
        Err(error) => reply.error(format_args!("ERR {error}")),
    }
}

fn read(args: CommandArgs<'_>) -> Result<AdHocRequest<'_>, AskError<'_>> {
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
    let limit = AdHocLimit { capacity, rate: count, window: Nanos::from_secs(period) };
    Ok(AdHocRequest { key, limit, cost: quantity })
}

/// A number from 0 on.
#[inline]
fn natural<'a>(args: CommandArgs<'a>, place: usize, name: &'static str) -> Result<u64, AskError<'a>> {
    let seen = args.get(place).unwrap_or_default();
    match number::integer(seen) {
        Ok(number) => u64::try_from(number).map_err(|_| AskError::Negative { name, seen }),
        Err(NumberError::Syntax) => Err(AskError::NotInteger { name, seen }),
        Err(NumberError::Range) => Err(AskError::OutOfRange { name, seen }),
    }
}

fn decide<'n>(batch: &mut Batch<'n, '_>, asked: &AdHocRequest<'_>) -> NowOrLater<'n, Said> {
    let node = batch.node;
    // One that is traced is counted where it is decided.
    if node.traces().is_on() {
        let origin = Origin { protocol: Protocol::Resp, traceparent: None };
        let told = node.check_ad_hoc(origin, asked);
        return told.map(|told| Ok(*told?.tightest().expect("an ad-hoc bucket always speaks").decision));
    }
    let answer = node.check_ad_hoc_in_short(Protocol::Resp, asked, batch.now);
    batch.decisions += usize::from(matches!(answer, NowOrLater::Now(Ok(_))));
    answer.map(|answer| Ok(answer?.decision))
}

/// What a bucket says, or why it cannot.
type Said = Result<LimitDecision, AdHocError>;

/// Limited, limit, remaining, seconds until a retry or -1, seconds until it is full.
#[inline]
fn write(said: Said, reply: &mut ReplyWriter<'_>) {
    let decision = match said {
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
