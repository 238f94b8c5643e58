//! Numbers of a foreign document as numbers that a policy allows.

use super::{Decimal, SustainedRate, UnitWindow};
use crate::log::ImportLog;
use crate::source::SourceValue;

/// A capacity, rounded down: rounding up would admit more.
pub(crate) fn capacity(number: Decimal, item: &SourceValue<'_>, log: &mut ImportLog) -> Option<u32> {
    let whole = number.floor();
    if number.whole().is_none() && whole > 0 {
        let why = "capacities are whole numbers, and rounding up would admit more";
        log.note(item, format!("the capacity is rounded down to {whole}"), why);
    }
    match u32::try_from(whole) {
        Ok(0) | Err(_) => {
            log.problem(item, "this capacity is out of range", "1 to 4294967295");
            None
        }
        Ok(whole) => Some(whole),
    }
}

/// A cost, rounded up: rounding down would admit more.
pub(crate) fn cost(number: Decimal, item: &SourceValue<'_>, log: &mut ImportLog) -> Option<u32> {
    let whole = number.ceil();
    if number.whole().is_none() {
        let why = "costs are whole numbers, and rounding down would admit more";
        log.note(item, format!("the cost is rounded up to {whole}"), why);
    }
    let cost = u32::try_from(whole).ok();
    if cost.is_none() {
        log.problem(item, "this cost is too large", "1 to 4294967295");
    }
    cost
}

/// A rate as whole tokens per window, or a problem. Rounding is noted.
pub(crate) fn pace(
    rate: Decimal,
    window: UnitWindow,
    item: &SourceValue<'_>,
    log: &mut ImportLog,
) -> Option<SustainedRate> {
    match SustainedRate::new(rate, window) {
        Ok(pace) => {
            if !pace.is_exactly(rate, window) {
                let what = format!("the rate is rounded down to {} per {}", pace.rate, pace.window.to_text());
                let why = "a rate is a whole number of tokens per window and keeps at most nine decimals; \
                           rounding up would admit more";
                log.note(item, what, why);
            }
            Some(pace)
        }
        Err(error) => {
            log.problem(item, error, "1 per 366 days to 1000000000 per second");
            None
        }
    }
}

/// The rate of a window that counts requests: a whole number in the window as it is, or one request in a longer window.
/// A window multiplied by powers of ten, as for token buckets, would admit its whole count at once.
pub(crate) fn window_pace(
    rate: Decimal,
    window: UnitWindow,
    item: &SourceValue<'_>,
    log: &mut ImportLog,
) -> Option<SustainedRate> {
    let pace = match rate.whole() {
        Some(_) => return pace(rate, window, item, log),
        None if rate.floor() > 0 => pace(rate.floored(), window, item, log)?,
        None => match SustainedRate::one_per(rate, window) {
            Ok(pace) => pace,
            Err(error) => {
                log.problem(item, error, "1 per 366 days to 1000000000 per second");
                return None;
            }
        },
    };
    let what = format!("the rate becomes {} per {}", pace.rate, pace.window.to_text());
    log.note(item, what, "a sliding window counts whole requests, and rounding up would admit more");
    Some(pace)
}
