//! Converts rates to and from Envoy's units: per second, minute, hour, day, week, month or year.

use tidegate::Nanos;
use tidegate_policy::Numbers;

use crate::grpc::proto::envoy::service::ratelimit::v3::rate_limit_response::RateLimit;
use crate::grpc::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use crate::grpc::proto::envoy::r#type::v3::RateLimitUnit;

const WEEK: Nanos = Nanos::new(7 * Nanos::DAY.get());
const MONTH: Nanos = Nanos::new(30 * Nanos::DAY.get());
const YEAR: Nanos = Nanos::new(365 * Nanos::DAY.get());

/// From the shortest to the longest.
const UNITS: [(Unit, Nanos); 7] = [
    (Unit::Second, Nanos::SECOND),
    (Unit::Minute, Nanos::MINUTE),
    (Unit::Hour, Nanos::HOUR),
    (Unit::Day, Nanos::DAY),
    (Unit::Week, WEEK),
    (Unit::Month, MONTH),
    (Unit::Year, YEAR),
];

/// The unit that a request names, and its length; `None` for an unknown one.
pub(super) fn of(unit: RateLimitUnit) -> Option<(Unit, Nanos)> {
    UNITS.into_iter().find(|(known, _)| *known as i32 == unit as i32)
}

/// The rate of a limit in one of Envoy's units: the unit that equals its window; otherwise the shortest unit in which
/// the rate is a whole number; otherwise the shortest unit that is not below the window, with the rate rounded down, to
/// at least 1.
pub(super) fn rate(numbers: &Numbers) -> (u32, Unit) {
    let Numbers { rate, window, .. } = *numbers;
    let tokens = |length: Nanos| u128::from(rate) * u128::from(length.get());
    let is_whole = |length: Nanos| tokens(length).is_multiple_of(u128::from(window.get()));
    let (unit, length) = UNITS
        .into_iter()
        .find(|(_, length)| *length == window)
        .or_else(|| UNITS.into_iter().find(|(_, length)| is_whole(*length)))
        .or_else(|| UNITS.into_iter().find(|(_, length)| *length >= window))
        .unwrap_or((Unit::Year, YEAR));
    let per_unit = tokens(length) / u128::from(window.get().max(1));
    (u32::try_from(per_unit).unwrap_or(u32::MAX).max(1), unit)
}

/// The rate of a limit as Envoy's message.
pub(super) fn shown(numbers: &Numbers, name: String) -> RateLimit {
    let (requests_per_unit, unit) = rate(numbers);
    RateLimit { requests_per_unit, unit: unit.into(), name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_told_in_its_own_unit_where_there_is_one() {
        let shown = |rate, window| {
            let shown = shown(&Numbers { rate, window, capacity: 50 }, String::new());
            (shown.requests_per_unit, shown.unit())
        };
        assert_eq!(shown(10, Nanos::SECOND), (10, Unit::Second));
        assert_eq!(shown(60, Nanos::MINUTE), (60, Unit::Minute), "not one a second");
        assert_eq!(shown(5, Nanos::from_secs(30)), (10, Unit::Minute));
        assert_eq!(shown(1, Nanos::from_secs(45)), (80, Unit::Hour));
        assert_eq!(shown(2, Nanos::from_millis(100)), (20, Unit::Second));
        assert_eq!(shown(3, Nanos::from_secs(7 * 86_400)), (3, Unit::Week));
        assert_eq!(shown(1, Nanos::from_secs(11 * 86_400)), (2, Unit::Month), "rounded down");
        assert_eq!(shown(1, Nanos::from_secs(366 * 86_400)), (1, Unit::Year), "never zero");
        assert_eq!(shown(1_000_000_000, Nanos::MILLISECOND), (u32::MAX, Unit::Second));
    }

    #[test]
    fn every_unit_is_known_but_none() {
        assert_eq!(of(RateLimitUnit::Unknown), None);
        assert_eq!(of(RateLimitUnit::Month), Some((Unit::Month, MONTH)));
        assert_eq!(of(RateLimitUnit::Week), Some((Unit::Week, WEEK)));
    }
}
