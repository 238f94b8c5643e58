//! The actions on live state, each with what must be before it, and what shows that a node decides by it.

use serde_json::{Value, json};

use super::fleet::{CAPACITY, Fleet, ReachProbe};
use crate::server::ServerBenchError;
use crate::server::process::pause;
use crate::stopwatch::Stopwatch;

pub(super) const CHECK: &str = "/v1/check";
pub(super) const PEEK: &str = "/v1/peek";
/// Later than the end of any measurement.
const UNTIL: &str = "2099-01-01T00:00:00Z";
pub(super) const JSON: &str = "application/json";
/// Nodes look for news at intervals. Actions come after this many more pauses than the one before, modulo the other number,
/// so that they fall anywhere between two looks.
const STEP_PAUSES: usize = 7;
const PAUSES_MAX: usize = 40;
/// Entries that end by themselves are waited for, so that only some rounds have them.
const ENDS_EVERY: usize = 4;

/// How long an action took until every node decided by it, in milliseconds.
pub(super) type Measured = (&'static str, f64);

/// One round of all actions, for clients of its own.
pub(super) struct Round<'f> {
    pub(super) fleet: &'f Fleet,
    pub(super) number: usize,
    pub(super) measured: Vec<Measured>,
}

/// An action, and the answers that follow from it.
struct Action<'a> {
    name: &'static str,
    call: (&'static str, String, Value),
    request: &'a str,
    /// How nodes are asked. A check is decided by what the node remembers too; a peek counts in no detector.
    probe: &'static str,
    follows: &'a dyn Fn(&Value) -> bool,
}

impl Round<'_> {
    pub(super) fn run(&mut self) -> Result<(), ServerBenchError> {
        self.reset_and_grant()?;
        self.exempt()?;
        self.block()?;
        self.override_limit()?;
        if self.fleet.kind.shares_penalties() {
            self.lift_penalty()?;
        }
        self.tell_trust()?;
        self.switch()?;
        if self.number.is_multiple_of(ENDS_EVERY) {
            self.end_by_themselves()?;
        }
        if self.fleet.kind.has_database() {
            self.try_candidates()?;
        }
        Ok(())
    }

    /// Every node remembers that the key is denied, and in hybrid mode has used up its lease.
    fn reset_and_grant(&mut self) -> Result<(), ServerBenchError> {
        let request = self.user("reset");
        self.exhaust(&request)?;
        let body = json!({ "request": document(&request) });
        self.act(Action {
            name: "reset",
            call: ("POST", "/keys/reset".to_owned(), body),
            request: &request,
            probe: CHECK,
            follows: &is_allowed,
        })?;
        let request = self.user("grant");
        self.exhaust(&request)?;
        let body = json!({ "request": document(&request), "limit": "per-user", "tokens": CAPACITY / 2 });
        self.act(Action {
            name: "grant",
            call: ("POST", "/keys/grant".to_owned(), body),
            request: &request,
            probe: CHECK,
            follows: &is_allowed,
        })?;
        Ok(())
    }

    fn exempt(&mut self) -> Result<(), ServerBenchError> {
        let request = self.user("exempt");
        self.exhaust(&request)?;
        let body = json!({ "who": document(&request), "until": UNTIL });
        let made = self.act(Action {
            name: "allow until",
            call: ("POST", "/keys/allow".to_owned(), body),
            request: &request,
            probe: CHECK,
            follows: &|answer| answer["reason"] == "allowlisted",
        })?;
        self.end("allow removed", "/keys/live/", &made, &request, &is_exhausted)
    }

    fn block(&mut self) -> Result<(), ServerBenchError> {
        let request = self.user("block");
        let body = json!({ "who": document(&request), "until": UNTIL });
        // The tokens may be used up before all nodes follow.
        let is_blocked = |answer: &Value| answer["reason"] == "blocked";
        let made = self.act(Action {
            name: "block until",
            call: ("POST", "/keys/block".to_owned(), body),
            request: &request,
            probe: CHECK,
            follows: &is_blocked,
        })?;
        self.end("block removed", "/keys/live/", &made, &request, &|answer| !is_blocked(answer))
    }

    fn override_limit(&mut self) -> Result<(), ServerBenchError> {
        let request = self.user("override");
        let body = json!({ "who": document(&request), "limit": "per-user", "multiplier": 2, "until": UNTIL });
        let made = self.act(Action {
            name: "override",
            call: ("POST", "/overrides".to_owned(), body),
            request: &request,
            probe: CHECK,
            follows: &|answer| answer["limit"] == 2 * CAPACITY,
        })?;
        self.end("override removed", "/overrides/", &made, &request, &|answer| answer["limit"] == CAPACITY)
    }

    /// Every node remembers the block.
    fn lift_penalty(&mut self) -> Result<(), ServerBenchError> {
        let request = json!({ "ip": format!("203.0.113.{}", self.number % 256) }).to_string();
        let follows = |answer: &Value| answer["reason"] == "burst_blocked";
        self.fleet.use_until("a burst", ReachProbe { path: CHECK, request: &request, follows: &follows })?;
        let path = format!("/penalties/{}", self.penalty()?);
        self.act(Action {
            name: "penalty lifted",
            call: ("DELETE", path, Value::Null),
            request: &request,
            probe: PEEK,
            follows: &is_allowed,
        })?;
        Ok(())
    }

    /// The id of the block, once it is listed.
    fn penalty(&self) -> Result<String, ServerBenchError> {
        let (watch, mut admin) = (Stopwatch::start(), self.fleet.nodes[self.asked()].admin_api()?);
        loop {
            let listed = admin.call("GET", "/api/v1/penalties", JSON, "")?;
            let items = listed["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(id) =
                items.iter().find(|item| item["kind"] == "block").and_then(|item| item["id"].as_str())
            {
                return Ok(id.to_owned());
            }
            if watch.seconds() > super::REACH_SECONDS {
                return Err(self.fleet.not_everywhere("the list of penalties", &listed));
            }
            pause();
        }
    }

    fn tell_trust(&mut self) -> Result<(), ServerBenchError> {
        let more = |answer: &Value| answer["limit"].as_u64() > Some(CAPACITY);
        let request = self.user("facts");
        let name = document(&request)["user"].as_str().unwrap_or_default().to_owned();
        let body = json!({ "created": "2020-02-29T12:00:00Z", "email_verified": true });
        self.act(Action {
            name: "trust: facts",
            call: ("PUT", format!("/trust/{name}"), body),
            request: &request,
            probe: CHECK,
            follows: &more,
        })?;
        let request = self.user("many-facts");
        let facts = json!({ "user": document(&request)["user"], "created": "2020-02-29T12:00:00Z", "email_verified": true });
        self.act(Action {
            name: "trust: facts of many",
            call: ("POST", "/trust/facts".to_owned(), json!({ "facts": [facts] })),
            request: &request,
            probe: CHECK,
            follows: &more,
        })?;
        let request = self.user("outcomes");
        let body =
            json!({ "outcomes": [{ "user": document(&request)["user"], "successes": 99, "failures": 1 }] });
        self.act(Action {
            name: "trust: outcomes",
            call: ("POST", "/trust/outcomes".to_owned(), body),
            request: &request,
            probe: CHECK,
            follows: &more,
        })?;
        Ok(())
    }

    fn switch(&mut self) -> Result<(), ServerBenchError> {
        let request = self.user("switch");
        for (name, state) in [("kill switch on", "allow"), ("kill switch off", "off")] {
            self.act(Action {
                name,
                call: (
                    "PUT",
                    "/kill-switch".to_owned(),
                    json!({ "state": state, "reason": "a measurement" }),
                ),
                request: &request,
                probe: CHECK,
                follows: &|answer| (answer["reason"] == "kill_switch") == (state == "allow"),
            })?;
        }
        Ok(())
    }

    /// Ends what an action has made.
    fn end(
        &mut self,
        name: &'static str,
        path: &str,
        made: &Value,
        request: &str,
        follows: &dyn Fn(&Value) -> bool,
    ) -> Result<(), ServerBenchError> {
        let path = format!("{path}{}", made["id"].as_str().unwrap_or_default());
        self.act(Action { name, call: ("DELETE", path, Value::Null), request, probe: CHECK, follows })?;
        Ok(())
    }

    /// Does an action on one node, and measures until all nodes decide by it. Returns what the node has answered.
    fn act(&mut self, action: Action<'_>) -> Result<Value, ServerBenchError> {
        let Action { name, call: (method, path, body), request, probe, follows } = action;
        self.wait_between_looks();
        let (mut admin, mut clients) = (self.fleet.nodes[self.asked()].admin_api()?, self.fleet.clients()?);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let watch = Stopwatch::start();
        let answer = admin.call(method, &format!("/api/v1{path}"), JSON, &body)?;
        self.fleet.all_follow(name, &mut clients, ReachProbe { path: probe, request, follows })?;
        self.measured.push((name, watch.seconds() * 1e3));
        Ok(answer)
    }

    /// Waits, so that what comes next falls anywhere between two looks of the nodes.
    pub(super) fn wait_between_looks(&self) {
        let turn = (self.number + 1) * (self.measured.len() + 1);
        (0..turn * STEP_PAUSES % PAUSES_MAX).for_each(|_| pause());
    }

    /// The node that is asked: another one in every round.
    pub(super) fn asked(&self) -> usize {
        self.number % self.fleet.nodes.len()
    }

    /// A user of whom the database knows nothing from another fleet or an earlier run.
    pub(super) fn user(&self, what: &str) -> String {
        let (run, fleet) = (std::process::id(), self.fleet.kind as u8);
        json!({ "user": format!("{what}-{run}-{fleet}-{}", self.number) }).to_string()
    }

    fn exhaust(&self, request: &str) -> Result<(), ServerBenchError> {
        self.fleet
            .use_until("the end of the tokens", ReachProbe { path: CHECK, request, follows: &is_exhausted })
    }
}

pub(super) fn document(request: &str) -> Value {
    serde_json::from_str(request).expect("it was made from a document")
}

fn is_allowed(answer: &Value) -> bool {
    answer["allowed"] == true
}

fn is_exhausted(answer: &Value) -> bool {
    answer["reason"] == "token_bucket_exceeded"
}
