//! Runs the engine as `tidegate simulate` does: texts in, decisions out.

use serde_json::{Value, json};
use tidegate::engine::InvalidCredentials;
use tidegate_server::replay::ReplaySettings;

use crate::model::Model;
use crate::trusted_run;

/// A policy and a trace.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) policy: Value,
    pub(crate) trace: Vec<Value>,
    /// Are requests with an invalid credential treated as anonymous?
    pub(crate) anonymous: bool,
    /// What is known about users, if their trust is computed.
    pub(crate) trust: Option<Value>,
}

impl std::fmt::Debug for Case {
    /// The texts of the files that `tidegate simulate` would read.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let invalid = if self.anonymous { "anonymous" } else { "deny" };
        let trust = self.trust.as_ref().map_or_else(String::new, |trust| format!("trust:\n{trust:#}\n"));
        write!(f, "invalid: {invalid}\n{trust}policy:\n{:#}\ntrace:\n{}", self.policy, lines(&self.trace))
    }
}

impl Case {
    /// A case in which invalid credentials are denied.
    pub(crate) fn new(policy: Value, trace: Vec<Value>) -> Case {
        Case { policy, trace, anonymous: false, trust: None }
    }

    /// What happens to invalid credentials.
    pub(crate) fn invalid(&self) -> InvalidCredentials {
        if self.anonymous { InvalidCredentials::Anonymous } else { InvalidCredentials::Deny }
    }

    /// Decides with the engine.
    pub(crate) fn decided(&self) -> Result<Vec<Value>, String> {
        if let Some(trust) = self.trust.as_ref().filter(|trust| trust["steps"] != json!([])) {
            return trusted_run::decided(self, trust);
        }
        let (policy, trace) = (self.policy.to_string(), lines(&self.trace));
        let trust = self
            .trust
            .as_ref()
            .map(|trust| (trusted_run::options(trust), trusted_run::listed(&trust["listed"])));
        let as_server = ReplaySettings { invalid: self.invalid(), trust };
        let out = tidegate_server::replay::run_text_with(&policy, &trace, as_server)?;
        out.lines()
            .map(|line| serde_json::from_str(line).map_err(|error| format!("{error}: {line}")))
            .collect()
    }

    /// Decides with the engine and with the model; the first difference is reported with everything that led to it.
    pub(crate) fn judged(&self) -> Result<Vec<Value>, String> {
        let decided = self.decided().map_err(|problems| format!("{self:?}\n{problems}"))?;
        if decided.len() != self.trace.len() {
            return Err(format!("{} requests, {} decisions", self.trace.len(), decided.len()));
        }
        let mut model = Model::new(self);
        for (step, (request, found)) in self.trace.iter().zip(&decided).enumerate() {
            let expected = model.decide(request);
            if *found != expected {
                let until = Case { trace: self.trace[..=step].to_vec(), ..self.clone() };
                let parts = differences(found, &expected);
                return Err(format!("{until:?}\nthe last one: {parts}\nengine: {found}\nmodel:  {expected}"));
            }
        }
        Ok(decided)
    }
}

/// The engine's decisions as text.
pub(crate) fn run_text(policy: &str, trace: &str) -> Result<String, String> {
    tidegate_server::replay::run_text(policy, trace)
}

fn lines(trace: &[Value]) -> String {
    trace.iter().map(|line| format!("{line}\n")).collect()
}

/// The members that differ.
fn differences(found: &Value, expected: &Value) -> String {
    let (Some(found), Some(expected)) = (found.as_object(), expected.as_object()) else {
        return "not two objects".to_owned();
    };
    let names: std::collections::BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    let differing = names.into_iter().filter(|name| found.get(*name) != expected.get(*name));
    differing.map(|name| format!("`{name}` differs; ")).collect()
}
