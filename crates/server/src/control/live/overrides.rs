//! Compiles overrides: whom they are for by the rules of `block`, their numbers by the rules of a limit.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate::engine::{OverrideRule, OverrideUse, Overrides};
use tidegate::{Clock, Limit, Nanos, OverrideNumbers, QuotaError, Rate};
use tidegate_database::UnixMillis;
use tidegate_policy::{Numbers, PathSpelling, Policy, Problem, Rule};

use super::carrier::LiveCarrier;
use super::entry::LiveEntry;
use super::override_defaults::window_text;
use super::{KnownLive, LiveBoard, gates};
use crate::control::startup::unix_millis;
use crate::node::Node;

/// The limit of an override and its numbers: a multiplier, or a rate, a burst or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OverrideBody {
    /// The name of the limit.
    pub(crate) limit: String,
    /// The multiplier in hundredths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) times: Option<u16>,
    /// The rate, as a limit has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sustained: Option<Value>,
    /// The burst, as a limit has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) burst: Option<Value>,
}

impl OverrideBody {
    /// Its numbers.
    ///
    /// # Errors
    /// The member that is wrong, and why.
    pub(crate) fn numbers(&self) -> Result<OverrideNumbers, (&'static str, String)> {
        if let Some(hundredths) = self.times {
            if self.sustained.is_some() || self.burst.is_some() {
                return Err((
                    "/multiplier",
                    "it stands alone: `sustained` and `burst` are numbers in place of it".to_owned(),
                ));
            }
            return match hundredths {
                OverrideNumbers::TIMES_MIN..=OverrideNumbers::TIMES_MAX => {
                    Ok(OverrideNumbers::Times(hundredths))
                }
                _ => Err(("/multiplier", "it must be from 0.01 to 100".to_owned())),
            };
        }
        if self.sustained.is_none() && self.burst.is_none() {
            let wanted = "it is missing: give a multiplier, or `sustained`, `burst` or both";
            return Err(("/multiplier", wanted.to_owned()));
        }
        let rate = self.sustained.as_ref().map(|sustained| {
            let numbers = compiled(sustained, None).map_err(|wrong| ("/sustained", wrong))?;
            Rate::new(numbers.rate, numbers.window).map_err(|wrong| ("/sustained", wrong.to_string()))
        });
        let capacity =
            self.burst.as_ref().map(|burst| self.capacity(burst).map_err(|wrong| ("/burst", wrong)));
        Ok(OverrideNumbers::Fixed { rate: rate.transpose()?, capacity: capacity.transpose()? })
    }

    /// How large the burst is.
    fn capacity(&self, burst: &Value) -> Result<u32, String> {
        let any_rate = json!({ "rate": 1 });
        let numbers = compiled(self.sustained.as_ref().unwrap_or(&any_rate), Some(burst))?;
        let is_multiple = has_member(burst, "allowance");
        if !is_multiple && !has_member(burst, "capacity") {
            return Err("it is empty: give `capacity` or `allowance`".to_owned());
        }
        if is_multiple && self.sustained.is_none() {
            return Err(
                "`allowance` is a multiple of a rate: give `sustained` beside it, or `capacity`".to_owned()
            );
        }
        Ok(numbers.capacity)
    }

    /// Checks that a limit can have its numbers, on one of so many nodes among which limits are divided.
    ///
    /// # Errors
    /// The member that is wrong, and why.
    pub(crate) fn check_with(&self, rule: &Rule, nodes: u32) -> Result<(), (&'static str, String)> {
        let numbers = self.numbers()?;
        let member = self.member();
        let counts = tidegate::Algorithm::TokenBucket != rule.limit.algorithm();
        if counts && self.burst.is_some() {
            return Err(("/burst", format!("`{}` counts in windows, which have no burst", rule.name)));
        }
        if let (true, OverrideNumbers::Fixed { rate: Some(rate), .. }) = (counts, numbers) {
            let window = rule.numbers.window;
            let spread = u128::from(rate.tokens()) * u128::from(window.get());
            if !spread.is_multiple_of(u128::from(rate.nanos())) {
                let window = window_text(window);
                let wanted =
                    format!("`{}` counts per {window}: give a whole number for that window", rule.name);
                return Err((member, wanted));
            }
        }
        let cannot = |at: &str, wrong: QuotaError| {
            (member, format!("`{}` cannot have these numbers{at}: {wrong}", rule.name))
        };
        let limit = rule.limit.at(rule.overridden(numbers, nodes).into());
        let limit = limit.map_err(|wrong| cannot("", wrong))?;
        if rule.adaptive {
            // As for a limit of a policy: trust scales the result.
            let trusted = limit.trusted(Limit::TRUST_MAX);
            trusted.map_err(|wrong| cannot(" at full trust", wrong))?;
        }
        Ok(())
    }

    /// The member that says how large its numbers are.
    pub(crate) fn member(&self) -> &'static str {
        match (&self.times, &self.sustained) {
            (Some(_), _) => "/multiplier",
            (None, Some(_)) => "/sustained",
            (None, None) => "/burst",
        }
    }
}

/// The numbers of a limit that is written like this.
pub(super) fn compiled(sustained: &Value, burst: Option<&Value>) -> Result<Numbers, String> {
    let mut limit = json!({ "name": "override", "sustained": sustained });
    if let Some(burst) = burst {
        limit["burst"] = burst.clone();
    }
    let text = json!({ "version": 1, "limits": [limit] }).to_string();
    match Policy::parse(&text) {
        Ok(policy) => Ok(policy.rules.rules()[0].numbers),
        Err(error) => {
            let first = error.problems.iter().find(|problem| problem.is_error());
            Err(first.map_or_else(|| error.to_string(), told))
        }
    }
}

/// Does an object have a member that says something?
pub(super) fn has_member(object: &Value, name: &str) -> bool {
    object.get(name).is_some_and(|member| !member.is_null())
}

/// A problem of a limit, in one line: what is wrong, what is wanted, and how to mend it.
fn told(problem: &Problem) -> String {
    let mut told = problem.message.clone();
    if !problem.want.is_empty() {
        told += &format!("; it must be {}", problem.want);
    }
    problem.hint.iter().for_each(|hint| told += &format!("; {hint}"));
    told
}

/// The overrides that are compiled already, by their ids, for a spelling of paths.
#[derive(Clone, Debug, Default)]
pub(super) struct CompiledOverrides {
    spelling: Option<PathSpelling>,
    rules: HashMap<String, Arc<OverrideRule>>,
}

/// What has to be compiled: all overrides from the newest on, and those of them that are new.
#[derive(Debug)]
pub(super) struct OverrideWork {
    before: CompiledOverrides,
    newest_first: Vec<String>,
    new: Vec<LiveEntry>,
    nodes: u32,
    spelling: PathSpelling,
}

/// How often the uses of overrides are told to the carrier.
const REPORT_PAUSE: Nanos = Nanos::from_secs(3);

/// What the carrier was told about the uses of overrides.
#[derive(Debug, Default)]
pub(super) struct ToldUses {
    at: Nanos,
    uses: HashMap<String, Nanos>,
}

impl LiveBoard {
    /// Tells the carrier which overrides were used since it was last told, now and then.
    pub(super) async fn tell_uses(&self, node: &Node) {
        let carrier = LiveCarrier::of(node);
        if matches!(carrier, LiveCarrier::Memory) {
            return;
        }
        let now = node.clock().now();
        let used: Vec<(String, Nanos)> = {
            let mut known = self.known();
            let KnownLive { overrides, told_uses, .. } = &mut *known;
            let uses = &overrides.rules;
            if now.saturating_sub(told_uses.at) < REPORT_PAUSE {
                return;
            }
            told_uses.at = now;
            told_uses.uses.retain(|id, _| uses.contains_key(id));
            let used =
                uses.iter().filter_map(|(id, rule)| Some((id.clone(), rule.use_record().last_used()?)));
            used.filter(|(id, at)| told_uses.uses.get(id).is_none_or(|told| told < at)).collect()
        };
        if used.is_empty() {
            return;
        }
        let mut rows: Vec<(String, UnixMillis)> =
            used.iter().map(|(id, at)| (id.clone(), unix_millis(*at))).collect();
        // All nodes in the same order, so that none waits for a row that another has locked.
        rows.sort();
        // If it does not answer, it is told the next time.
        if carrier.tell_uses(&rows).await.is_ok() {
            self.known().told_uses.uses.extend(used);
        }
    }
}

impl CompiledOverrides {
    /// When an override was last used.
    pub(super) fn use_of(&self, id: &str) -> Option<Arc<OverrideUse>> {
        self.rules.get(id).map(|rule| Arc::clone(rule.use_record()))
    }

    /// What has to be compiled for these entries. `nodes` is the number of nodes among which limits are divided.
    pub(super) fn work<'e>(
        &self,
        entries: impl Iterator<Item = &'e LiveEntry>,
        nodes: u32,
        spelling: PathSpelling,
    ) -> OverrideWork {
        let is_known =
            |entry: &&&LiveEntry| self.spelling == Some(spelling) && self.rules.contains_key(&entry.id);
        let mut entries: Vec<&LiveEntry> = entries.collect();
        entries.sort_by(|one, other| one.newer_first(other));
        OverrideWork {
            before: self.clone(),
            new: entries.iter().filter(|entry| !is_known(entry)).map(|entry| (*entry).clone()).collect(),
            newest_first: entries.iter().map(|entry| entry.id.clone()).collect(),
            nodes,
            spelling,
        }
    }
}

impl OverrideWork {
    #[cfg(test)]
    pub(super) fn newest_first(&self) -> &[String] {
        &self.newest_first
    }

    /// Compiles what is new. An entry that cannot be compiled, which only another version of the program can have
    /// written, is left out.
    pub(super) fn run(self, now: Nanos) -> (Option<Overrides>, CompiledOverrides) {
        let OverrideWork { before, newest_first, new, nodes, spelling } = self;
        let whose = |entries: &[&LiveEntry]| gates::parse_who(entries, spelling, now).ok();
        let all: Vec<&LiveEntry> = new.iter().collect();
        let together = whose(&all);
        let mut fresh: HashMap<String, Arc<OverrideRule>> = HashMap::new();
        for (index, entry) in new.iter().enumerate() {
            let who = match &together {
                Some(rules) => rules.block().entries().get(index).cloned(),
                None => whose(&[entry]).and_then(|rules| rules.block().entries().first().cloned()),
            };
            let body = entry.body.overridden.as_ref();
            let numbers = body.and_then(|body| body.numbers().ok());
            let (Some(who), Some(body), Some(numbers)) = (who, body, numbers) else {
                tracing::error!(id = entry.id, "this override is not known here and has no effect");
                continue;
            };
            let used = before.use_of(&entry.id).unwrap_or_default();
            let rule = OverrideRule::new(&entry.id, &body.limit, numbers, who, used);
            fresh.insert(entry.id.clone(), Arc::new(rule.divided(nodes)));
        }
        let rule = |id: &String| {
            let rule = fresh.get(id).or_else(|| before.rules.get(id))?;
            Some((id.clone(), Arc::clone(rule)))
        };
        let rules: Vec<(String, Arc<OverrideRule>)> = newest_first.iter().filter_map(rule).collect();
        let overrides =
            (!rules.is_empty()).then(|| Overrides::new(rules.iter().map(|(_, rule)| Arc::clone(rule))));
        (overrides, CompiledOverrides { spelling: Some(spelling), rules: rules.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(times: Option<u16>, sustained: Option<Value>, burst: Option<Value>) -> OverrideBody {
        OverrideBody { limit: "per-user".into(), times, sustained, burst }
    }

    #[test]
    fn numbers_are_written_as_in_a_limit() {
        let rate = |tokens, window| Some(Rate::new(tokens, window).expect("in range"));
        let fixed = |rate, capacity| Ok(OverrideNumbers::Fixed { rate, capacity });
        assert_eq!(body(Some(250), None, None).numbers(), Ok(OverrideNumbers::Times(250)));
        let minute = json!({ "rate": 100, "window": "minute" });
        assert_eq!(body(None, Some(minute.clone()), None).numbers(), fixed(rate(100, Nanos::MINUTE), None));
        let burst = json!({ "capacity": 5 });
        assert_eq!(body(None, None, Some(burst.clone())).numbers(), fixed(None, Some(5)));
        assert_eq!(
            body(None, Some(minute), Some(burst.clone())).numbers(),
            fixed(rate(100, Nanos::MINUTE), Some(5))
        );
        let wrong = |body: OverrideBody| body.numbers().map_err(|(member, _)| member);
        assert_eq!(wrong(body(None, None, None)), Err("/multiplier"));
        assert_eq!(wrong(body(Some(0), None, None)), Err("/multiplier"));
        assert_eq!(wrong(body(Some(10_001), None, None)), Err("/multiplier"));
        assert_eq!(wrong(body(Some(200), None, Some(burst))), Err("/multiplier"));
        assert_eq!(wrong(body(None, Some(json!({ "rate": 0 })), None)), Err("/sustained"));
        assert_eq!(wrong(body(None, Some(json!(5)), None)), Err("/sustained"));
        assert_eq!(wrong(body(None, None, Some(json!({ "capacity": 0 })))), Err("/burst"));
    }

    #[test]
    fn a_burst_is_a_multiple_of_the_rate_beside_it_or_of_that_of_the_limit() {
        let policy = Policy::parse(
            "version: 1\nlimits:\n- { name: per-user, sustained: { rate: 100, window: minute }, burst: { capacity: 7 } }\n\
             tenants:\n- { id: top, rate_limit: { sharing: enforce, sustained: { rate: 20 }, budget: { mode: shared } } }\n\
             - { id: mid, parent: top, rate_limit: { sharing: enforce, sustained: { rate: 50 } } }\n\
             - { id: leaf, parent: mid, rate_limit: { scope: user, sustained: { rate: 9 } } }\n",
        );
        let rules = policy.expect("it is a policy").rules;
        let capacity = |sustained: Option<Value>, burst: Value| -> Result<u32, (&str, String)> {
            let mut body = body(None, sustained, Some(burst));
            body.fill(&rules)?;
            match body.numbers()? {
                OverrideNumbers::Fixed { capacity, .. } => Ok(capacity.expect("a burst")),
                times @ OverrideNumbers::Times(_) => unreachable!("{times:?}"),
            }
        };
        let half_more = || json!({ "allowance": 1.5 });
        assert_eq!(capacity(None, half_more()), Ok(150));
        assert_eq!(capacity(Some(json!({ "rate": 30, "window": "hour" })), half_more()), Ok(45));
        assert_eq!(capacity(Some(json!({ "rate": 30 })), half_more()), Ok(45));
        assert_eq!(capacity(None, json!({ "capacity": 50 })), Ok(50));
        for sustained in [None, Some(json!({ "rate": 30 }))] {
            let empty = capacity(sustained, json!({})).expect_err("it says nothing");
            assert_eq!(empty, ("/burst", "it is empty: give `capacity` or `allowance`".to_owned()));
        }
        let both = capacity(None, json!({ "capacity": 5, "allowance": 2 })).expect_err("one of the two");
        assert!(both.0 == "/burst" && both.1.contains("exclude each other"), "{both:?}");
        // Without a limit to take the rate from.
        let unfilled = body(None, None, Some(half_more())).numbers().expect_err("a multiple of nothing");
        assert!(unfilled.0 == "/burst" && unfilled.1.contains("give `sustained`"), "{unfilled:?}");
        // `mid` shares 20 with others below `top`, and caps `leaf` at 50.
        let limit = "tenant:mid".into();
        let several = OverrideBody { limit, ..body(None, None, Some(half_more())) }.fill(&rules);
        assert_eq!(
            several,
            Err(("/burst", "`tenant:mid` stands for several rates: give a `capacity`".to_owned()))
        );
    }

    #[test]
    fn a_limit_must_be_able_to_have_them() {
        let policy = Policy::parse(
            "version: 1\nlimits:\n- { name: bucket, sustained: { rate: 10 } }\n- { name: window, algorithm: \
             fixed_window, sustained: { rate: 10, window: minute } }\n",
        );
        let rules = policy.expect("it is a policy").rules;
        let check = |index: usize, body: OverrideBody| {
            body.check_with(&rules.rules()[index], 1).map_err(|(member, _)| member)
        };
        let minute = |rate: u32| Some(json!({ "rate": rate, "window": "minute" }));
        assert_eq!(check(0, body(Some(200), None, None)), Ok(()));
        assert_eq!(check(1, body(Some(200), None, None)), Ok(()));
        assert_eq!(check(1, body(None, minute(70), None)), Ok(()));
        assert_eq!(check(1, body(None, minute(2_000_000), None)), Err("/sustained"));
        assert_eq!(
            check(1, body(None, Some(json!({ "rate": 61, "window": "hour" })), None)),
            Err("/sustained")
        );
        assert_eq!(check(1, body(None, None, Some(json!({ "capacity": 5 })))), Err("/burst"));
        assert_eq!(check(0, body(None, None, Some(json!({ "capacity": 5 })))), Ok(()));
    }
}
