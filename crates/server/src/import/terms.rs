//! What a limit grants, as a policy says it: pace, burst, cost, strategy.

use tidegate::{Quota, WindowQuota};

use super::decimal::{Decimal, Pace, Window};
use super::item::Item;
use super::log::Log;
use super::yaml;

/// The algorithms that foreign documents can ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Algorithm {
    #[default]
    TokenBucket,
    SlidingWindow,
    FixedWindow,
}

/// What a request costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Cost {
    #[default]
    One,
    Fixed(u32),
    /// Taken from the request, however large: foreign limiters know no largest cost.
    From {
        descriptor: String,
        default: u32,
    },
}

/// The terms of a limit or of a tenant.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) algorithm: Algorithm,
    pub(super) pace: Pace,
    /// The capacity of a token bucket; `None` is the rate.
    pub(super) burst: Option<u32>,
    pub(super) cost: Cost,
    /// `strategy` and what belongs to it, as YAML.
    pub(super) strategy: Vec<(&'static str, String)>,
    pub(super) response_headers: bool,
}

impl Terms {
    /// A token bucket whose requests cost one.
    pub(super) fn bucket(pace: Pace, burst: Option<u32>) -> Terms {
        let (algorithm, cost) = (Algorithm::TokenBucket, Cost::One);
        Terms { algorithm, pace, burst, cost, strategy: Vec::new(), response_headers: true }
    }

    /// A counter per window, where the count is small enough for one; else a bucket of that size.
    pub(super) fn counter(pace: Pace, item: &Item<'_>, log: &mut Log) -> Terms {
        let mut terms = Terms::bucket(pace, None);
        if pace.rate <= u64::from(WindowQuota::LIMIT_MAX) {
            terms.algorithm = Algorithm::FixedWindow;
        } else {
            let what = format!("{} a window become a token bucket of that capacity", pace.rate);
            let why = format!("a fixed window counts to {} at most", WindowQuota::LIMIT_MAX);
            log.note(item, what, why);
        }
        terms
    }

    /// The terms, or a problem if no policy could be loaded with them.
    pub(super) fn checked(self, item: &Item<'_>, log: &mut Log) -> Option<Terms> {
        let Pace { rate, window } = self.pace;
        let Some(nanos) = window.nanos() else {
            log.problem(item, "this window is too long", "at most 200 years");
            return None;
        };
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let refused = match self.algorithm {
            Algorithm::TokenBucket => {
                let capacity = self.burst.map_or(rate, u64::from);
                if capacity > u64::from(u32::MAX) {
                    log.problem(item, "this capacity is too large", "at most 4294967295");
                    return None;
                }
                Quota::new(rate, nanos, number(capacity)).err()
            }
            Algorithm::SlidingWindow | Algorithm::FixedWindow => WindowQuota::new(number(rate), nanos).err(),
        };
        if let Some(error) = refused {
            log.problem(item, error.to_string(), "numbers that a policy allows");
            return None;
        }
        Some(self)
    }

    /// The members of the entry, as YAML.
    pub(super) fn members(&self) -> Vec<(&'static str, String)> {
        let mut members = Vec::new();
        match self.algorithm {
            Algorithm::TokenBucket => {}
            Algorithm::SlidingWindow => members.push(("algorithm", "sliding_window".to_owned())),
            Algorithm::FixedWindow => members.push(("algorithm", "fixed_window".to_owned())),
        }
        let Pace { rate, window } = self.pace;
        members.push(("sustained", yaml::map(&[("rate", rate.to_string()), ("window", window.shown())])));
        if let Some(capacity) = self.burst {
            members.push(("burst", yaml::map(&[("capacity", capacity.to_string())])));
        }
        match &self.cost {
            Cost::One => {}
            Cost::Fixed(cost) => members.push(("cost", cost.to_string())),
            Cost::From { descriptor, default } => {
                let from = ("from", yaml::scalar(descriptor));
                members.push(("cost", yaml::map(&[from, ("default", default.to_string())])));
            }
        }
        members.extend(self.strategy.iter().cloned());
        if !self.response_headers {
            members.push(("response_headers", "false".to_owned()));
        }
        members
    }
}

/// A capacity: a fraction of a token is of no use to a request, so it is dropped.
pub(super) fn capacity(number: Decimal, item: &Item<'_>, log: &mut Log) -> Option<u32> {
    let whole = number.floor();
    if number.whole().is_none() && whole > 0 {
        let why = "capacities are whole numbers, and rounding up would admit more";
        log.note(item, format!("the capacity is rounded down to {whole}"), why);
    }
    match u32::try_from(whole) {
        Ok(0) | Err(_) => {
            log.problem(item, "this capacity cannot be used", "1 to 4294967295");
            None
        }
        Ok(whole) => Some(whole),
    }
}

/// A cost: whole, and never cheaper than it was.
pub(super) fn cost(number: Decimal, item: &Item<'_>, log: &mut Log) -> Option<u32> {
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

/// A pace, or a problem; digits that had to go are noted.
pub(super) fn pace(rate: Decimal, window: Window, item: &Item<'_>, log: &mut Log) -> Option<Pace> {
    match Pace::new(rate, window) {
        Ok(pace) => {
            if !pace.is_exactly(rate, window) {
                let what = format!("the rate is cut to {} per {}", pace.rate, pace.window.shown());
                let why = "a rate is a whole number per window, with room for nine decimals at most; \
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

/// The pace of a window that counts requests: whole ones in the window as it is, or one in a window
/// that is longer. A window stretched by powers of ten would admit all of its count at once.
pub(super) fn counted(rate: Decimal, window: Window, item: &Item<'_>, log: &mut Log) -> Option<Pace> {
    let pace = match rate.whole() {
        Some(_) => return pace(rate, window, item, log),
        None if rate.floor() > 0 => pace(rate.floored(), window, item, log)?,
        None => match Pace::one_per(rate, window) {
            Ok(pace) => pace,
            Err(error) => {
                log.problem(item, error, "1 per 366 days to 1000000000 per second");
                return None;
            }
        },
    };
    let what = format!("the rate becomes {} per {}", pace.rate, pace.window.shown());
    log.note(item, what, "a sliding window counts whole requests, and rounding up would admit more");
    Some(pace)
}
