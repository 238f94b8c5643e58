//! Entries that end by themselves: how long after its end an entry has no effect on any node.

use std::time::Duration;

use serde_json::{Value, json};

use super::actions::{CHECK, JSON, Round, document};
use super::fleet::{CAPACITY, ReachProbe};
use crate::server::ServerBenchError;
use crate::server::process::pause;
use crate::stopwatch::{Stopwatch, wall_clock};

/// How long they hold: longer than it takes until every node follows them.
const LIFE: Duration = Duration::from_secs(2);

/// An entry, and the decisions that show that it is in force.
struct BriefEntry<'a> {
    name: &'static str,
    path: &'static str,
    body: Value,
    request: &'a str,
    in_force: &'a dyn Fn(&Value) -> bool,
}

impl Round<'_> {
    pub(super) fn end_by_themselves(&mut self) -> Result<(), ServerBenchError> {
        let request = self.user("brief-block");
        self.outlast(BriefEntry {
            name: "block ends",
            path: "/keys/block",
            body: json!({ "who": document(&request) }),
            request: &request,
            in_force: &|answer| answer["reason"] == "blocked",
        })?;
        let request = self.user("brief-override");
        self.outlast(BriefEntry {
            name: "override ends",
            path: "/overrides",
            body: json!({ "who": document(&request), "limit": "per-user", "multiplier": 2 }),
            request: &request,
            in_force: &|answer| answer["limit"] == 2 * CAPACITY,
        })
    }

    /// Makes an entry, waits until every node follows it, and measures from its end until none does.
    fn outlast(&mut self, entry: BriefEntry<'_>) -> Result<(), ServerBenchError> {
        let BriefEntry { name, path, mut body, request, in_force } = entry;
        self.wait_between_looks();
        let (mut admin, mut clients) = (self.fleet.nodes[self.asked()].admin_api()?, self.fleet.clients()?);
        let end = wall_clock() + LIFE;
        let until = jiff::Timestamp::try_from(end).map_err(ServerBenchError::WallClock)?;
        body["until"] = json!(until.to_string());
        admin.call("POST", &format!("/api/v1{path}"), JSON, &body.to_string())?;
        self.fleet.all_follow(name, &mut clients, ReachProbe { path: CHECK, request, follows: in_force })?;
        while wall_clock() < end {
            pause();
        }
        let watch = Stopwatch::start();
        let is_over = |answer: &Value| !in_force(answer);
        self.fleet.all_follow(name, &mut clients, ReachProbe { path: CHECK, request, follows: &is_over })?;
        self.measured.push((name, watch.seconds() * 1e3));
        Ok(())
    }
}
