//! Trust scores: from what is known about a user to the trust by which limits are scaled.
//!
//! A [`TrustBook`] knows users from four sources: claims of the request's token, accounts that the program keeps elsewhere
//! and has here as a copy ([`TrustBook::set_account`]), what it has told without keeping it ([`TrustBook::set_facts`],
//! [`TrustBook::record_outcomes`]) and a list ([`TrustBook::replace_listed`]). The
//! engine adds the violations, from its own denials. [`score`] has the formula; a score is kept for a while and
//! used for every request of that user which has no trust of its own.
//!
//! A book is in memory and of this process. After a restart the program tells it again what it knows, and the
//! violations that it has a record of ([`TrustBook::restore_violations`]).

mod accounts;
mod apply;
mod claims;
mod history;
pub mod score;
mod user_table;

use std::collections::HashMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tidegate_core::Nanos;
use tidegate_policy::{Request, Trust};

pub(in crate::engine) use apply::violated_item;
pub use claims::TrustClaims;
pub use history::{DailyOutcomes, VIOLATIONS_LIFE};
use history::{RecentViolations, age_in_days};
use score::{SuccessRate, TrustInputs, TrustScore, VIOLATIONS_MAX};
use user_table::{UserHash, UserHashes, UserTable};

/// How a [`TrustBook`] is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustOptions {
    /// The claims of tokens that say something about an account.
    pub claims: TrustClaims,
    /// For about how many users violations, scores and what the program tells are kept. For one more, the user
    /// that was written longest ago is forgotten; see [`TrustBook::forgotten`]. The list is not bounded by it.
    pub max_users: usize,
    /// How long a score is used before it is computed again: so much later it follows violations and outcomes.
    pub score_life: Nanos,
}

impl Default for TrustOptions {
    fn default() -> TrustOptions {
        TrustOptions { claims: TrustClaims::default(), max_users: 100_000, score_life: Nanos::from_secs(60) }
    }
}

/// What is known about an account; `None` is unknown, and adds nothing to a score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountFacts {
    /// When the account was created, as the time since 1970.
    pub created: Option<Nanos>,
    /// Whether its email address is verified.
    pub email_verified: Option<bool>,
    /// The success rate of its requests in the last seven days.
    pub success_rate: Option<SuccessRate>,
}

impl AccountFacts {
    /// These facts, and those of `other` where these lack one.
    fn or(self, other: AccountFacts) -> AccountFacts {
        AccountFacts {
            created: self.created.or(other.created),
            email_verified: self.email_verified.or(other.email_verified),
            success_rate: self.success_rate.or(other.success_rate),
        }
    }
}

/// The score of a user, and what it was computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrustReport {
    /// Is anything known about the account? If not, the user has no trust, and limits are not scaled.
    pub is_known: bool,
    /// What the score was computed from; what is unknown counts as nothing.
    pub inputs: TrustInputs,
    /// The score and its terms.
    pub score: TrustScore,
    /// When it was computed, by the wall clock.
    pub computed: Nanos,
}

impl TrustReport {
    /// The trust by which limits are scaled; `None` if nothing is known about the account.
    pub fn trust(&self) -> Option<Trust> {
        Trust::from_hundredths(self.score.hundredths()).filter(|_| self.is_known)
    }
}

/// What is known about users, and their trust scores. All times are those of the wall clock, as
/// [`Clock::wall`](crate::Clock::wall) returns them.
///
/// Of each fact the first source that knows it counts: a claim of the request's token, the accounts that the program
/// keeps, what it has told, the list.
///
/// ```
/// use tidegate::engine::trust::{AccountFacts, TrustOptions};
/// use tidegate::engine::{Limiter, Policy, Request};
/// use tidegate::{Clock, Nanos};
///
/// let policy = Policy::parse("
/// version: 1
/// adaptive: { trust: true }
/// limits: [{ name: per-user, key: [user], sustained: { rate: 10 }, burst: { capacity: 10 } }]
/// ")?;
/// let limiter = Limiter::new(policy)?.with_trust(TrustOptions::default());
/// let book = limiter.trust_book().expect("it has one");
/// let now = limiter.clock().wall();
/// let created = Some(now.saturating_sub(Nanos::from_secs(200 * 86_400)));
/// book.set_facts("42", AccountFacts { created, email_verified: Some(true), success_rate: None }, now);
///
/// let report = book.report("42", now);
/// assert_eq!(report.score.hundredths(), 50, "{}", report.score);
/// let capacity = |user| limiter.peek(&Request::new().user(user)).tightest().map(|limit| limit.decision.limit);
/// assert_eq!((capacity("42"), capacity("43")), (Some(15), Some(10)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TrustBook {
    claims: TrustClaims,
    score_life: Nanos,
    hashes: UserHashes,
    listed: ArcSwap<HashMap<Box<str>, AccountFacts>>,
    /// Incremented when the list changes: scores of before are computed again.
    listing: AtomicU64,
    /// Incremented when something was told that counts at once, before the score of that user is dropped.
    revision: AtomicU64,
    /// The accounts that the program keeps.
    accounts: RwLock<HashMap<UserHash, TrustAccount>>,
    told: UserTable<TrustAccount>,
    violations: UserTable<RecentViolations>,
    scores: UserTable<Option<KeptScore>>,
}

/// What is known about a user beside the violations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrustAccount {
    /// Facts.
    pub facts: AccountFacts,
    /// Outcomes of its requests; if there are any, their success rate takes the place of the one in the facts.
    pub outcomes: DailyOutcomes,
}

impl TrustAccount {
    /// The facts, with the success rate that counts now.
    fn facts_at(&self, now: Nanos) -> AccountFacts {
        AccountFacts { success_rate: self.outcomes.rate(now).or(self.facts.success_rate), ..self.facts }
    }
}

/// A score, and what it depends on beside time.
#[derive(Clone, Copy, Debug)]
struct KeptScore {
    claimed: AccountFacts,
    listing: u64,
    report: TrustReport,
}

impl TrustBook {
    /// A book that knows nothing yet.
    pub fn new(options: TrustOptions) -> TrustBook {
        TrustBook::with_hashes(options, UserHashes::new())
    }

    /// The same, but which users are forgotten when there is no room depends only on what the book is told, not on
    /// chance. For simulations: whoever chooses the names of users can make this book forget others.
    pub fn reproducible(options: TrustOptions) -> TrustBook {
        TrustBook::with_hashes(options, UserHashes::fixed())
    }

    fn with_hashes(options: TrustOptions, hashes: UserHashes) -> TrustBook {
        let TrustOptions { claims, max_users, score_life } = options;
        TrustBook {
            claims,
            score_life,
            hashes,
            listed: ArcSwap::default(),
            listing: AtomicU64::new(0),
            revision: AtomicU64::new(0),
            accounts: RwLock::default(),
            told: UserTable::new(max_users, Nanos::MAX),
            violations: UserTable::new(max_users, VIOLATIONS_LIFE),
            scores: UserTable::new(max_users, Nanos::ZERO),
        }
    }

    /// Sets the facts about a user, in place of those that were told before.
    pub fn set_facts(&self, user: &str, facts: AccountFacts, now: Nanos) {
        let user = self.hashes.of(user);
        self.told.update(user, now, |told| told.facts = facts);
        self.drop_score(user);
    }

    /// Counts outcomes of a user's requests. The success rate is that of the current day (UTC) and the six
    /// before it; it takes the place of a rate in the facts that were told.
    pub fn record_outcomes(&self, user: &str, successes: u32, failures: u32, now: Nanos) {
        self.told.update(self.hashes.of(user), now, |told| told.outcomes.add(successes, failures, now));
    }

    /// Counts that a user has exceeded a limit. The engine calls this for its own denials.
    pub fn record_violation(&self, user: &str, now: Nanos) {
        self.violations.update(self.hashes.of(user), now, |recent| {
            recent.drop_ahead(now);
            recent.add(now);
        });
    }

    /// Counts violations of before this book was made, for instance from an audit log. They may be told in any order,
    /// also while requests are decided.
    pub fn restore_violations(&self, user: &str, count: u64, at: Nanos) {
        let user = self.hashes.of(user);
        // More make no difference.
        let count = count.min(VIOLATIONS_MAX as u64);
        self.violations.update(user, at, |recent| (0..count).for_each(|_| recent.add(at)));
        self.drop_score(user);
    }

    /// Replaces the list of accounts.
    pub fn replace_listed(&self, accounts: HashMap<Box<str>, AccountFacts>) {
        self.listed.store(accounts.into());
        self.listing.fetch_add(1, Ordering::Release);
    }

    /// The number of accounts in the list.
    pub fn listed(&self) -> usize {
        self.listed.load().len()
    }

    /// The score of a user: the one that was last used, if it is still in use; otherwise a new one, without the
    /// claims of a token.
    pub fn report(&self, user: &str, now: Nanos) -> TrustReport {
        let hash = self.hashes.of(user);
        match self.kept_score(hash, now) {
            Some(kept) => kept.report,
            None => self.compute(user, hash, AccountFacts::default(), now),
        }
    }

    /// How many users were forgotten, before their time, because there was no room: first, what the program has
    /// told about them; second, their violations.
    pub fn forgotten(&self) -> (u64, u64) {
        (self.told.forgotten(), self.violations.forgotten())
    }

    /// The score of the user of a request; `None` if it has no user.
    pub(crate) fn report_on(&self, request: &Request<'_>, now: Nanos) -> Option<TrustReport> {
        let user = request.user.as_deref()?;
        let (hash, claimed) = (self.hashes.of(user), self.claims.read(request));
        if let Some(kept) = self.kept_score(hash, now).filter(|kept| kept.claimed == claimed) {
            return Some(kept.report);
        }
        let (listing, revision) =
            (self.listing.load(Ordering::Acquire), self.revision.load(Ordering::Acquire));
        let report = self.compute(user, hash, claimed, now);
        self.scores.update(hash, now, |kept| {
            // Something may have been told meanwhile, perhaps about this user; then the score is not kept.
            let is_current = self.revision.load(Ordering::Acquire) == revision;
            *kept = is_current.then_some(KeptScore { claimed, listing, report });
        });
        Some(report)
    }

    /// The score that is kept of a user and has not ended.
    fn kept_score(&self, user: UserHash, now: Nanos) -> Option<KeptScore> {
        let kept = self.scores.get(user)??;
        // A clock that was set back makes a score no older, so it is computed again.
        let begun = kept.report.computed <= now;
        let ended = kept.report.computed.saturating_add(self.score_life) <= now;
        (begun && !ended && kept.listing == self.listing.load(Ordering::Acquire)).then_some(kept)
    }

    /// Drops the score of a user, also one that another thread is computing now.
    fn drop_score(&self, user: UserHash) {
        self.revision.fetch_add(1, Ordering::Release);
        self.scores.remove(user);
    }

    fn compute(&self, user: &str, hash: UserHash, claimed: AccountFacts, now: Nanos) -> TrustReport {
        let kept = self.kept_account(hash).unwrap_or_default().facts_at(now);
        let told = self.told.get(hash).unwrap_or_default().facts_at(now);
        let listed = self.listed.load().get(user).copied().unwrap_or_default();
        let facts = claimed.or(kept).or(told).or(listed);
        let inputs = TrustInputs {
            account_age_days: facts.created.map_or(0, |created| age_in_days(created, now)),
            email_verified: facts.email_verified.unwrap_or_default(),
            success: facts.success_rate.unwrap_or_default(),
            violations_30d: self.violations.get(hash).unwrap_or_default().count(now),
        };
        let is_known = facts != AccountFacts::default();
        TrustReport { is_known, inputs, score: TrustScore::of(&inputs), computed: now }
    }
}

#[cfg(test)]
mod tests;
