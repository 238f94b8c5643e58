//! Notices when most requests meet no limit, which is seldom intended: a limit whose key a request lacks does not apply,
//! so a limit per user limits nobody where requests name no user.
//!
//! Requests are counted in windows of at least [`WINDOW_MIN`] and [`REQUESTS_MIN`] requests. The last window decides
//! what `/readyz` notes; the log gets a line at most every [`LINE_INTERVAL`].

use std::sync::{Mutex, PoisonError};

use tidegate::engine::{MissingCount, Reason, RuleSet};
use tidegate::{Clock, Nanos};

use super::readiness::some_of;
use crate::node::Node;

/// The shortest window.
const WINDOW_MIN: Nanos = Nanos::from_secs(5);
/// The fewest requests that are judged.
const REQUESTS_MIN: u64 = 10;
/// The time between two lines of the log about it.
const LINE_INTERVAL: Nanos = Nanos::from_secs(600);

/// Whether the policy limits the requests that come.
#[derive(Debug, Default)]
pub struct LimitCoverage {
    watch: Mutex<CoverageWatch>,
}

impl LimitCoverage {
    /// Judges the requests since the last window, if it is time. To be called a few times a second.
    pub(crate) fn check(&self, node: &Node) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, version) = (node.clock().now(), node.limiter().version());
        if !watch.is_due(now, version) {
            return;
        }
        let rules = node.limiter().rules();
        if let Some(detail) = watch.observe(CoverageSnapshot::of(node, now, version), &rules) {
            tracing::warn!("{detail}");
        }
    }

    /// What is to be noted, if most requests meet no limit.
    pub fn note(&self) -> Option<String> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).note.clone()
    }
}

/// The counts at one time.
#[derive(Clone, Debug)]
struct CoverageSnapshot {
    at: Nanos,
    /// The version of the policy.
    version: u64,
    /// Decisions, without those that no policy can limit: allowlisted, or while the kill switch is on.
    requests: u64,
    /// Of these, those to which no limit applied.
    unlimited: u64,
    missing: Vec<MissingCount>,
}

impl CoverageSnapshot {
    fn of(node: &Node, at: Nanos, version: u64) -> CoverageSnapshot {
        let limiter = node.limiter();
        let counts = |reason: &&Reason| !matches!(reason, Reason::Allowlisted | Reason::KillSwitch);
        CoverageSnapshot {
            at,
            version,
            requests: Reason::ALL.iter().filter(counts).map(|reason| limiter.decided(*reason)).sum(),
            unlimited: limiter.decided(Reason::NoLimit),
            missing: limiter.missing_counts(),
        }
    }

    /// What requests lacked most often since an earlier snapshot, and how often.
    fn most_missing(&self, earlier: &CoverageSnapshot) -> Option<(&str, u64)> {
        let before = |name: &str| {
            earlier.missing.iter().find(|known| known.missing == name).map_or(0, |known| known.count)
        };
        let since = |now: &MissingCount| now.count.saturating_sub(before(&now.missing));
        // `max_by_key` returns the last of several, and the first in the document is wanted.
        let most = self.missing.iter().rev().max_by_key(|missing| since(missing))?;
        Some((&*most.missing, since(most))).filter(|(_, count)| *count > 0)
    }
}

#[derive(Debug, Default)]
struct CoverageWatch {
    /// When the window began.
    began: Option<CoverageSnapshot>,
    note: Option<String>,
    logged_at: Option<Nanos>,
}

impl CoverageWatch {
    /// Has the window lasted long enough, or another policy come into force?
    fn is_due(&self, now: Nanos, version: u64) -> bool {
        self.began
            .as_ref()
            .is_none_or(|began| began.version != version || now.saturating_sub(began.at) >= WINDOW_MIN)
    }

    /// Judges the window, if it has enough requests, and begins the next one. Returns what is to be logged.
    fn observe(&mut self, now: CoverageSnapshot, rules: &RuleSet) -> Option<String> {
        let Some(began) = self.began.as_ref().filter(|began| began.version == now.version) else {
            // What another policy did says nothing about this one.
            (self.began, self.note) = (Some(now), None);
            return None;
        };
        let requests = now.requests.saturating_sub(began.requests);
        if requests < REQUESTS_MIN {
            return None;
        }
        let unlimited = now.unlimited.saturating_sub(began.unlimited);
        self.note = (unlimited * 2 > requests).then(|| describe(&now, began, requests, rules));
        let is_silent = |logged_at: Nanos| now.at.saturating_sub(logged_at) < LINE_INTERVAL;
        let line = self.note.clone().filter(|_| !self.logged_at.is_some_and(is_silent));
        if line.is_some() {
            self.logged_at = Some(now.at);
        }
        self.began = Some(now);
        line
    }
}

/// Why most requests meet no limit, in a sentence.
fn describe(now: &CoverageSnapshot, began: &CoverageSnapshot, requests: u64, rules: &RuleSet) -> String {
    const MOST: &str = "most requests meet no limit";
    if !rules.rules().iter().any(|rule| rule.enabled) {
        return format!("{MOST}: the policy has no limits");
    }
    let Some((missing, count)) = now.most_missing(began) else { return MOST.to_owned() };
    let percent = (u128::from(count) * 100 / u128::from(requests.max(1))).min(100);
    let last = format!("{percent} % of the last {requests}");
    match missing {
        "(none)" => format!("{MOST}: {last} match the conditions of none"),
        "(shadow)" => format!("{MOST}: to {last} only limits in shadow mode apply"),
        "(other)" => format!("{MOST}: {last} had nothing that the limits count by"),
        descriptor => {
            let needs = needing(descriptor, rules);
            format!("{MOST}: {last} had no `{descriptor}`; limits that need it: {}", some_of(&needs))
        }
    }
}

/// The names of the limits that count by a descriptor.
fn needing(descriptor: &str, rules: &RuleSet) -> Vec<String> {
    let needs = |rule: &&tidegate_policy::Rule| {
        rule.enabled && rule.key.iter().any(|part| part.to_string() == descriptor)
    };
    let mut names: Vec<String> =
        rules.limits().iter().filter(needs).map(|rule| rule.name.to_string()).collect();
    if descriptor == "tenant" && !rules.tenants().is_empty() {
        names.push("those of tenants".to_owned());
    }
    names
}

#[cfg(test)]
mod tests {
    use tidegate::engine::Policy;

    use super::*;

    const PER_USER: &str = "version: 1\nlimits:\n- { name: per-user, key: [user], sustained: { rate: 1 } }\n\
                            - { name: heavy, key: [user, route], sustained: { rate: 1 } }\n";

    fn rules(text: &str) -> RuleSet {
        Policy::parse(text).expect("it is valid").rules
    }

    fn snapshot(secs: u64, requests: u64, unlimited: u64, missing: &[(&str, u64)]) -> CoverageSnapshot {
        let missing =
            missing.iter().map(|&(name, count)| MissingCount { missing: name.into(), count }).collect();
        CoverageSnapshot { at: Nanos::from_secs(1_000 + secs), version: 1, requests, unlimited, missing }
    }

    #[test]
    fn what_is_missing_most_is_told_while_it_lasts() {
        let (mut watch, rules) = (CoverageWatch::default(), rules(PER_USER));
        assert_eq!(watch.observe(snapshot(0, 100, 90, &[("user", 90)]), &rules), None, "it begins here");
        assert_eq!(watch.observe(snapshot(5, 109, 99, &[("user", 99)]), &rules), None, "too few requests");
        let line = watch.observe(snapshot(10, 200, 183, &[("(none)", 10), ("user", 173)]), &rules);
        let told = "most requests meet no limit: 83 % of the last 100 had no `user`; limits that need it: \
                    per-user, heavy";
        assert_eq!(line.as_deref(), Some(told));
        assert_eq!(watch.note.as_deref(), Some(told));
        // Exactly half is not most of them.
        assert_eq!(watch.observe(snapshot(15, 300, 233, &[("user", 223)]), &rules), None);
        assert_eq!(watch.note, None);
    }

    #[test]
    fn the_log_is_told_seldom() {
        let (mut watch, rules) = (CoverageWatch::default(), rules(PER_USER));
        let lines = (0..=1_300_u64).step_by(5).filter_map(|secs| {
            watch.observe(snapshot(secs, secs * 10, secs * 10, &[("user", secs * 10)]), &rules)
        });
        assert_eq!(lines.count(), 3, "at first, and after ten and twenty minutes");
        assert!(watch.note.is_some());
        assert!(!watch.is_due(Nanos::from_secs(2_302), 1) && watch.is_due(Nanos::from_secs(2_305), 1));
    }

    #[test]
    fn another_policy_is_judged_anew() {
        let (mut watch, rules) = (CoverageWatch::default(), rules(PER_USER));
        watch.observe(snapshot(0, 0, 0, &[]), &rules);
        assert!(watch.observe(snapshot(5, 100, 100, &[("user", 100)]), &rules).is_some());
        assert!(watch.is_due(Nanos::from_secs(1_006), 2));
        let swapped = CoverageSnapshot { version: 2, ..snapshot(6, 200, 200, &[]) };
        assert_eq!((watch.observe(swapped, &rules), watch.note.clone()), (None, None));
    }

    #[test]
    fn what_is_not_a_descriptor_is_told_in_words() {
        let told = |text: &str, missing: &str| {
            let (mut watch, rules) = (CoverageWatch::default(), rules(text));
            watch.observe(snapshot(0, 0, 0, &[]), &rules);
            watch.observe(snapshot(5, 50, 50, &[(missing, 50)]), &rules).expect("a line")
        };
        let none = "version: 1\nlimits: []\n";
        assert_eq!(told(none, "(none)"), "most requests meet no limit: the policy has no limits");
        let off = "version: 1\nlimits: [{ name: a, enabled: false, key: [], sustained: { rate: 1 } }]\n";
        assert!(told(off, "(none)").ends_with("the policy has no limits"));
        assert!(told(PER_USER, "(none)").ends_with("100 % of the last 50 match the conditions of none"));
        assert!(told(PER_USER, "(shadow)").ends_with("only limits in shadow mode apply"));
        assert!(told(PER_USER, "(other)").ends_with("had nothing that the limits count by"));
        let tenants =
            "version: 1\nlimits: []\ntenants: [{ id: a, rate_limit: { sustained: { rate: 1 } } }]\n";
        assert!(told(tenants, "tenant").ends_with("had no `tenant`; limits that need it: those of tenants"));
    }
}
