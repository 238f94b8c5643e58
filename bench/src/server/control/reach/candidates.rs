//! Candidates: how long until every node compares decisions with one, until none does, and until all run one that was promoted.

use serde_json::{Value, json};

use super::REACH_SECONDS;
use super::actions::{JSON, PEEK, Round, document};
use super::fleet::{FleetKind, POLICY, ReachProbe};
use crate::server::ServerBenchError;
use crate::server::control::host::ControlHost;
use crate::server::metrics::StoreUse;
use crate::server::process::pause;
use crate::stopwatch::Stopwatch;

const YAML: &str = "application/yaml";
/// Decisions after which it is looked how many calls to Redis they took.
const DECISIONS: u32 = 20;

impl Round<'_> {
    pub(super) fn try_candidates(&mut self) -> Result<(), ServerBenchError> {
        // One request an hour, so that whoever compares denies the second.
        let tried = POLICY.replace("rate: 60", "rate: 1");
        let id = self.add_candidate(&tried)?;
        // In memory, a candidate leaves no trace that tells from outside whether it still counts.
        if self.fleet.kind == FleetKind::StrictAndDatabase {
            self.remove_candidate(&id)?;
        } else {
            self.fleet.nodes[0].admin_api()?.call("DELETE", &format!("/api/v1/candidates/{id}"), JSON, "")?;
        }
        self.promote_candidate()
    }

    /// Adds one, and measures until every node compares decisions with it.
    fn add_candidate(&mut self, text: &str) -> Result<String, ServerBenchError> {
        self.wait_between_looks();
        let mut admin = self.fleet.nodes[self.asked()].admin_api()?;
        let watch = Stopwatch::start();
        let added = admin.call("POST", "/api/v1/candidates", YAML, text)?;
        let id = added["id"].as_str().unwrap_or_default().to_owned();
        let request = document(&self.user("candidate"));
        self.until_all("candidate added", |node| compares(node, &id, &request))?;
        self.measured.push(("candidate added", watch.seconds() * 1e3));
        Ok(id)
    }

    /// Removes it, and measures until no node compares with it.
    fn remove_candidate(&mut self, id: &str) -> Result<(), ServerBenchError> {
        self.wait_between_looks();
        let mut admin = self.fleet.nodes[self.asked()].admin_api()?;
        let (watch, user) = (Stopwatch::start(), document(&self.user("alone")));
        admin.call("DELETE", &format!("/api/v1/candidates/{id}"), JSON, "")?;
        self.until_all("candidate removed", |node| decides_alone(node, &user["user"]))?;
        self.measured.push(("candidate removed", watch.seconds() * 1e3));
        Ok(())
    }

    /// Promotes one with a limit of its own, and measures until every node decides by that.
    fn promote_candidate(&mut self) -> Result<(), ServerBenchError> {
        let rate = 1_000 + self.number;
        let limit = format!(
            "- {{ name: promoted, key: [client], missing: skip, sustained: {{ rate: {rate}, window: hour }} }}\nbursts:"
        );
        let mut admin = self.fleet.nodes[self.asked()].admin_api()?;
        let added = admin.call("POST", "/api/v1/candidates", YAML, &POLICY.replace("bursts:", &limit))?;
        let path = format!("/api/v1/candidates/{}/promote", added["id"].as_str().unwrap_or_default());
        self.wait_between_looks();
        let mut clients = self.fleet.clients()?;
        let watch = Stopwatch::start();
        admin.call("POST", &path, JSON, "")?;
        let follows = |answer: &Value| answer["limit"] == rate;
        let probe = ReachProbe { path: PEEK, request: r#"{"client":"anybody"}"#, follows: &follows };
        self.fleet.all_follow("candidate promoted", &mut clients, probe)?;
        self.measured.push(("candidate promoted", watch.seconds() * 1e3));
        Ok(())
    }

    /// Waits until something is so on every node.
    fn until_all(
        &self,
        what: &'static str,
        is_so: impl Fn(&ControlHost) -> Result<bool, ServerBenchError>,
    ) -> Result<(), ServerBenchError> {
        let watch = Stopwatch::start();
        for node in &self.fleet.nodes {
            while !is_so(node)? {
                if watch.seconds() > REACH_SECONDS {
                    return Err(self.fleet.not_everywhere(what, &Value::Null));
                }
                pause();
            }
        }
        Ok(())
    }
}

/// Does a node deny the request by what the candidate has counted there? Where the candidate does not run, nothing was
/// counted.
fn compares(node: &ControlHost, id: &str, request: &Value) -> Result<bool, ServerBenchError> {
    node.decision_api()?.decide("/v1/check", &request.to_string())?;
    let asked = json!({ "request": request, "candidate": id }).to_string();
    let explained = node.admin_api()?.call("POST", "/api/v1/explain", JSON, &asked)?;
    Ok(explained["decision"]["allowed"] == false)
}

/// Does a node ask Redis about one policy for each decision, and not about two? The load on it is counted too.
fn decides_alone(node: &ControlHost, name: &Value) -> Result<bool, ServerBenchError> {
    let failed = |source| ServerBenchError::Metrics { host: "tidegate", source };
    let before = StoreUse::read(node.admin).map_err(failed)?;
    let mut client = node.decision_api()?;
    for number in 0..DECISIONS {
        // New users: what is denied again asks nobody.
        let user = json!({ "user": format!("{name}-{}-{number}", before.decisions) });
        client.decide("/v1/check", &user.to_string())?;
    }
    let after = StoreUse::read(node.admin).map_err(failed)?;
    Ok((after.calls - before.calls) * 2 < (after.decisions - before.decisions) * 3)
}
