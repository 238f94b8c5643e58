//! What an override takes from its limit, where it does not say so itself: the window of its rate, and the rate of which its
//! burst is a multiple.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidegate::Nanos;
use tidegate_policy::{RuleSet, TENANT_PREFIX};

use super::overrides::{OverrideBody, compiled, has_member};

impl OverrideBody {
    /// Writes what is not given from the limit. `rules` are those of the policy as it is written, not the share of one node.
    ///
    /// # Errors
    /// When the limit has several windows or rates.
    pub(crate) fn fill(&mut self, rules: &RuleSet) -> Result<(), (&'static str, String)> {
        self.fill_window(rules)?;
        self.fill_burst(rules)
    }

    /// Does it take anything from the limit?
    pub(crate) fn needs_limit(&self) -> bool {
        self.sustained.as_ref().is_some_and(lacks_window) || self.allowance().is_some()
    }

    /// A burst that is a multiple of the limit's rate.
    fn allowance(&self) -> Option<&Value> {
        self.burst.as_ref().filter(|burst| self.sustained.is_none() && has_member(burst, "allowance"))
    }

    /// Writes how large a burst is that is a multiple of the limit's rate. Later changes of the policy leave it as it is, as
    /// all numbers of an override that are no multiplier.
    fn fill_burst(&mut self, rules: &RuleSet) -> Result<(), (&'static str, String)> {
        let Some(burst) = self.allowance() else { return Ok(()) };
        let named = rules.rules().iter().filter(|rule| *rule.name == *self.limit);
        let rates: BTreeMap<u64, Nanos> =
            named.map(|rule| (rule.numbers.rate, rule.numbers.window)).collect();
        match Vec::from_iter(rates).as_slice() {
            // There is no such limit, which is found out elsewhere.
            [] => {}
            [(rate, window)] => {
                let sustained = json!({ "rate": rate, "window": window_text(*window) });
                let numbers = compiled(&sustained, Some(burst)).map_err(|wrong| ("/burst", wrong))?;
                self.burst = Some(json!({ "capacity": numbers.capacity }));
            }
            _ => {
                let wanted = format!("`{}` stands for several rates: give a `capacity`", self.limit);
                return Err(("/burst", wanted));
            }
        }
        Ok(())
    }

    /// Writes the window into a rate that has none: that of the limit, since whoever gives a limit another number means
    /// the window that it counts in.
    fn fill_window(&mut self, rules: &RuleSet) -> Result<(), (&'static str, String)> {
        let windows = windows_of(rules, &self.limit);
        let Some(sustained) = self.sustained.as_mut().filter(|sustained| lacks_window(sustained)) else {
            return Ok(());
        };
        match Vec::from_iter(windows).as_slice() {
            // There is no such limit, which is found out elsewhere.
            [] => {}
            [window] => sustained["window"] = window_text(*window).into(),
            several => {
                let texts: Vec<String> = several.iter().copied().map(window_text).collect();
                let wanted = format!(
                    "`{}` stands for rates with different windows ({}): give a window with the rate",
                    self.limit,
                    texts.join(", ")
                );
                return Err(("/sustained", wanted));
            }
        }
        Ok(())
    }
}

fn lacks_window(sustained: &Value) -> bool {
    sustained.is_object() && sustained.get("window").is_none_or(Value::is_null)
}

/// The windows in which the limit of a name counts. A tenant whose own window is not the one that applies, because an
/// ancestor allows less in another, has both: either may be meant.
fn windows_of(rules: &RuleSet, name: &str) -> BTreeSet<Nanos> {
    let named = rules.rules().iter().filter(|rule| *rule.name == *name);
    let mut windows: BTreeSet<Nanos> = named.map(|rule| rule.numbers.window).collect();
    let Some(of_tenant) = name.strip_prefix(TENANT_PREFIX) else { return windows };
    for tenant in rules.tenants().nodes() {
        let Some(rest) = of_tenant.strip_prefix(&*tenant.id) else { continue };
        let upstream = rest.strip_prefix('/').and_then(|upstream| rules.upstreams().number(upstream));
        let of_upstream = tenant.upstreams.iter().find(|(number, _)| Some(*number) == upstream);
        let limit = if rest.is_empty() { Some(&tenant.limit) } else { of_upstream.map(|(_, limit)| limit) };
        windows.extend(limit.and_then(|limit| limit.own).map(|own| own.window));
    }
    windows
}

/// A window as documents write it: `minute`, `90s`.
pub(super) fn window_text(window: Nanos) -> String {
    const UNITS: [(u64, &str); 5] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    match window {
        Nanos::SECOND => "second".to_owned(),
        Nanos::MINUTE => "minute".to_owned(),
        Nanos::HOUR => "hour".to_owned(),
        Nanos::DAY => "day".to_owned(),
        other => {
            let millis = other.as_millis_ceil();
            let unit = UNITS.into_iter().find(|(unit, _)| millis.is_multiple_of(*unit)).unwrap_or((1, "ms"));
            format!("{}{}", millis / unit.0, unit.1)
        }
    }
}
