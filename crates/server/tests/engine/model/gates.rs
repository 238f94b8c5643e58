//! The checks before any limit: `block`, `allow` and burst detectors.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::exact::{SECOND, Wait, span};
use super::limits::{descriptors, key_of};
use super::matching::all_hold;
use super::request::Request;
use super::terms;

/// Does this descriptor depend on the credential? The route does if an `unless` of the policy's routes does.
fn names_identity(policy: &Value, descriptor: &str) -> bool {
    let by_itself = |name: &str| {
        ["user", "client", "tenant", "plan", "credential"].contains(&name) || name.starts_with("jwt:")
    };
    let in_routes = || {
        let unless =
            terms::entries(policy, "routes").into_iter().filter_map(|route| route.get("unless")?.as_object());
        unless.flat_map(Map::keys).any(|name| by_itself(name))
    };
    by_itself(descriptor) || (descriptor == "route" && in_routes())
}

/// How long the longest matching and active entry of `allow` or `block` will stay active. Considers either the entries
/// that depend on the credential, or the others.
pub(crate) fn gate(policy: &Value, list: &str, by_identity: bool, request: &Request<'_>) -> Option<Wait> {
    let waits = terms::entries(policy, list).into_iter().filter_map(|entry| {
        let names = conditions(entry);
        if names.as_object()?.keys().any(|name| names_identity(policy, name)) != by_identity {
            return None;
        }
        let until = entry.get("until").map(|until| instant(until.as_str().unwrap()));
        let active = until.is_none_or(|until| request.at() < until);
        let wait = until.map_or(Wait::Never, |until| Wait::For(until - request.at()));
        (active && all_hold(&conditions(entry), request)).then_some(wait)
    });
    waits.max()
}

/// The conditions of an entry: all its members except those of the entry itself.
pub(super) fn conditions(entry: &Value) -> Value {
    let own = ["description", "enabled", "reason", "until"];
    let named = entry.as_object().unwrap().iter().filter(|(name, _)| !own.contains(&name.as_str()));
    Value::Object(named.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>())
}

/// Parses a time on the first day of the epoch, to which all traces of these tests belong.
pub(super) fn instant(text: &str) -> i128 {
    let time =
        text.strip_prefix("1970-01-01T").and_then(|rest| rest.strip_suffix('Z')).expect("the first day");
    let parts: Vec<i128> = time.split(':').map(|part| part.parse().unwrap()).collect();
    (parts[0] * 3_600 + parts[1] * 60 + parts[2]) * SECOND
}

/// The state of a detector for one key.
#[derive(Clone, Debug, Default)]
struct Suspect {
    /// The times of all counted requests.
    seen: Vec<i128>,
    warned_until: i128,
    blocked_until: i128,
}

/// What a decision tells of bursts; a later one is more serious.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BurstTold {
    WarningIssued,
    AlreadyBlocked,
    BlockedTemporarily,
}

impl BurstTold {
    pub(crate) fn word(self) -> &'static str {
        match self {
            BurstTold::WarningIssued => "warning_issued",
            BurstTold::AlreadyBlocked => "already_blocked",
            BurstTold::BlockedTemporarily => "blocked_temporarily",
        }
    }
}

/// The states of all detectors and keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detectors {
    suspects: BTreeMap<(String, Vec<String>), Suspect>,
}

impl Detectors {
    /// Counts a request, escalates, tells the most serious state, and returns the detector that blocks it longest.
    /// Considers either the detectors that depend on the credential, or the others.
    pub(crate) fn meet<'p>(
        &mut self,
        policy: &'p Value,
        by_identity: bool,
        request: &Request<'_>,
        told: &mut Option<BurstTold>,
    ) -> Option<(&'p Value, Wait)> {
        let now = request.at();
        let mut longest: Option<(&Value, Wait)> = None;
        for detector in terms::entries(policy, "bursts") {
            let name = detector["name"].as_str().unwrap().to_owned();
            if descriptors(detector).iter().any(|name| names_identity(policy, name)) != by_identity {
                continue;
            }
            let Some(key) = key_of(detector, request) else { continue };
            let suspect = self.suspects.entry((name.clone(), key)).or_default();
            let escalated = if request.cost() > 0 { suspect.count(detector, now) } else { None };
            let wait = Wait::For(suspect.blocked_until - now);
            let here = escalated.or((wait > Wait::NONE).then_some(BurstTold::AlreadyBlocked));
            *told = here.max(*told);
            if wait > Wait::NONE && longest.as_ref().is_none_or(|(_, other)| wait > *other) {
                longest = Some((detector, wait));
            }
        }
        longest
    }
}

impl Suspect {
    /// Only the request that crosses the threshold escalates.
    fn count(&mut self, detector: &Value, now: i128) -> Option<BurstTold> {
        let setting = |name: &str, default: &str| {
            span(detector.get(name).map_or(default, |value| value.as_str().unwrap()))
        };
        let (window, penalty) = (setting("window", "10s"), setting("penalty", "300s"));
        let threshold =
            detector.get("threshold").map_or(50, |threshold| threshold.as_u64().unwrap() as usize);
        self.seen.push(now);
        let in_window = self.seen.iter().filter(|at| **at / window == now / window).count();
        if in_window != threshold + 1 || self.blocked_until > now {
            return None;
        }
        if self.warned_until > now {
            self.blocked_until = now + 2 * penalty;
            Some(BurstTold::BlockedTemporarily)
        } else {
            self.warned_until = now + penalty;
            Some(BurstTold::WarningIssued)
        }
    }
}
