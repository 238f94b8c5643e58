//! What a limit grants, as a policy says it: pace, burst, cost, strategy.

use tidegate::{Quota, WindowQuota};

use super::decimal::{Decimal, SustainedRate, UnitWindow};
use super::item::SourceValue;
use super::log::ImportLog;
use super::yaml;

/// The algorithms that foreign documents can ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ForeignAlgorithm {
    #[default]
    TokenBucket,
    SlidingWindow,
    FixedWindow,
}

/// What a request costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum DraftCost {
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
pub(super) struct DraftTerms {
    pub(super) algorithm: ForeignAlgorithm,
    pub(super) pace: SustainedRate,
    /// The capacity of a token bucket; `None` is the rate.
    pub(super) burst: Option<u32>,
    pub(super) cost: DraftCost,
    /// `strategy` and what belongs to it, as YAML.
    pub(super) strategy: Vec<(&'static str, String)>,
    pub(super) response_headers: bool,
}

impl DraftTerms {
    /// A token bucket whose requests cost one.
    pub(super) fn bucket(pace: SustainedRate, burst: Option<u32>) -> DraftTerms {
        let (algorithm, cost) = (ForeignAlgorithm::TokenBucket, DraftCost::One);
        DraftTerms { algorithm, pace, burst, cost, strategy: Vec::new(), response_headers: true }
    }

    /// A counter per window, where the count is small enough for one; else a bucket of that size.
    pub(super) fn counter(pace: SustainedRate, item: &SourceValue<'_>, log: &mut ImportLog) -> DraftTerms {
        let mut terms = DraftTerms::bucket(pace, None);
        if pace.rate <= u64::from(WindowQuota::LIMIT_MAX) {
            terms.algorithm = ForeignAlgorithm::FixedWindow;
        } else {
            let what = format!("{} a window become a token bucket of that capacity", pace.rate);
            let why = format!("a fixed window counts to {} at most", WindowQuota::LIMIT_MAX);
            log.note(item, what, why);
        }
        terms
    }

    /// The terms, or a problem if no policy could be loaded with them.
    pub(super) fn checked(self, item: &SourceValue<'_>, log: &mut ImportLog) -> Option<DraftTerms> {
        let SustainedRate { rate, window } = self.pace;
        let Some(nanos) = window.nanos() else {
            log.problem(item, "this window is too long", "at most 200 years");
            return None;
        };
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let refused = match self.algorithm {
            ForeignAlgorithm::TokenBucket => {
                let capacity = self.burst.map_or(rate, u64::from);
                if capacity > u64::from(u32::MAX) {
                    log.problem(item, "this capacity is too large", "at most 4294967295");
                    return None;
                }
                Quota::new(rate, nanos, number(capacity)).err()
            }
            ForeignAlgorithm::SlidingWindow | ForeignAlgorithm::FixedWindow => {
                WindowQuota::new(number(rate), nanos).err()
            }
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
            ForeignAlgorithm::TokenBucket => {}
            ForeignAlgorithm::SlidingWindow => members.push(("algorithm", "sliding_window".to_owned())),
            ForeignAlgorithm::FixedWindow => members.push(("algorithm", "fixed_window".to_owned())),
        }
        let SustainedRate { rate, window } = self.pace;
        members.push(("sustained", yaml::map(&[("rate", rate.to_string()), ("window", window.shown())])));
        if let Some(capacity) = self.burst {
            members.push(("burst", yaml::map(&[("capacity", capacity.to_string())])));
        }
        match &self.cost {
            DraftCost::One => {}
            DraftCost::Fixed(cost) => members.push(("cost", cost.to_string())),
            DraftCost::From { descriptor, default } => {
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
pub(super) fn capacity(number: Decimal, item: &SourceValue<'_>, log: &mut ImportLog) -> Option<u32> {
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
pub(super) fn cost(number: Decimal, item: &SourceValue<'_>, log: &mut ImportLog) -> Option<u32> {
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
pub(super) fn pace(
    rate: Decimal,
    window: UnitWindow,
    item: &SourceValue<'_>,
    log: &mut ImportLog,
) -> Option<SustainedRate> {
    match SustainedRate::new(rate, window) {
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
pub(super) fn counted(
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
    let what = format!("the rate becomes {} per {}", pace.rate, pace.window.shown());
    log.note(item, what, "a sliding window counts whole requests, and rounding up would admit more");
    Some(pace)
}
