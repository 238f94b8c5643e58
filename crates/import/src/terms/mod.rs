//! The numbers of a limit as a policy has them: rate, burst, cost, strategy.

mod checks;
mod decimal;
mod rate;
mod window;

use tidegate_core::{Quota, WindowQuota};

use crate::log::ImportLog;
use crate::source::SourceValue;
use crate::yaml;

pub(crate) use checks::{capacity, cost, pace, window_pace};
pub(crate) use decimal::Decimal;
pub(crate) use rate::SustainedRate;
pub(crate) use window::{Unit, UnitWindow};

/// The algorithms that foreign documents use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ForeignAlgorithm {
    #[default]
    TokenBucket,
    SlidingWindow,
    FixedWindow,
}

/// What a request costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum DraftCost {
    #[default]
    One,
    Plain(u32),
    /// This for every request, even if a route with a cost is added later.
    PerCall(u32),
    /// The value of a descriptor of the request, without an upper bound: foreign limiters have none.
    From {
        descriptor: String,
        default: u32,
    },
}

/// The numbers of a limit or of a tenant's `rate_limit`.
#[derive(Clone, Debug)]
pub(crate) struct DraftTerms {
    pub(crate) algorithm: ForeignAlgorithm,
    pub(crate) pace: SustainedRate,
    /// The capacity of a token bucket; `None` if it equals the rate.
    pub(crate) burst: Option<u32>,
    pub(crate) cost: DraftCost,
    /// `strategy` and its options, as YAML.
    pub(crate) strategy: Vec<(&'static str, String)>,
    pub(crate) response_headers: bool,
}

impl DraftTerms {
    /// A token bucket; a request costs 1.
    pub(crate) fn bucket(pace: SustainedRate, burst: Option<u32>) -> DraftTerms {
        let (algorithm, cost) = (ForeignAlgorithm::TokenBucket, DraftCost::One);
        DraftTerms { algorithm, pace, burst, cost, strategy: Vec::new(), response_headers: true }
    }

    /// A fixed window; if the count is too large for one, a token bucket of that capacity, with a note.
    pub(crate) fn counter(pace: SustainedRate, item: &SourceValue<'_>, log: &mut ImportLog) -> DraftTerms {
        let mut terms = DraftTerms::bucket(pace, None);
        if pace.rate <= u64::from(WindowQuota::LIMIT_MAX) {
            terms.algorithm = ForeignAlgorithm::FixedWindow;
        } else {
            let what = format!("{} per window become a token bucket of that capacity", pace.rate);
            let why = format!("a fixed window counts to {} at most", WindowQuota::LIMIT_MAX);
            log.note(item, what, why);
        }
        terms
    }

    /// The terms, or a problem if a policy does not allow them.
    pub(crate) fn checked(self, item: &SourceValue<'_>, log: &mut ImportLog) -> Option<DraftTerms> {
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
    pub(crate) fn members(&self) -> Vec<(&'static str, String)> {
        let mut members = Vec::new();
        match self.algorithm {
            ForeignAlgorithm::TokenBucket => {}
            ForeignAlgorithm::SlidingWindow => members.push(("algorithm", "sliding_window".to_owned())),
            ForeignAlgorithm::FixedWindow => members.push(("algorithm", "fixed_window".to_owned())),
        }
        let SustainedRate { rate, window } = self.pace;
        members.push(("sustained", yaml::map(&[("rate", rate.to_string()), ("window", window.to_text())])));
        if let Some(capacity) = self.burst {
            members.push(("burst", yaml::map(&[("capacity", capacity.to_string())])));
        }
        match &self.cost {
            DraftCost::One => {}
            DraftCost::Plain(cost) => members.push(("cost", cost.to_string())),
            DraftCost::PerCall(cost) => members.push(("cost", format!("{{ fixed: {cost} }}"))),
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
