//! The bars of the server benchmark: the thresholds that Tidegate must meet.

use super::closed_loop::TurnResult;
use super::lanes::{LaneName, MeasuredLane};
use crate::report::{Bar, Side};

/// The least ratio of the decisions per CPU second of one lane to those of another.
const PER_CPU_SECOND: [(&str, LaneName, &str, LaneName, f64); 10] = [
    ("HTTP", LaneName::Throttle, "throttlecrab-server's", LaneName::CrabHttp, 1.7),
    ("RESP one at a time", LaneName::ClThrottle, "throttlecrab-server's", LaneName::CrabResp, 1.2),
    ("RESP one at a time", LaneName::ClThrottle, "PINGs of Redis", LaneName::Ping, 0.9),
    ("RESP by 16", LaneName::ClThrottlePipelined, "SETs of Redis", LaneName::SetPipelined, 1.0),
    ("RLS", LaneName::Rls, "PINGs of Redis", LaneName::Ping, 0.78),
    ("hybrid, hot keys by HTTP", LaneName::HotCheckHybrid, "local's", LaneName::HotCheck, 0.8),
    ("hybrid, hot keys by RESP", LaneName::HotThrottleHybrid, "local's", LaneName::HotThrottle, 0.7),
    ("strict, denials by HTTP", LaneName::DenialsStrict, "local's", LaneName::Denials, 0.8),
    ("events, denials by HTTP", LaneName::DenialsWritten, "those without events", LaneName::Denials, 0.97),
    (
        "events, denials by RESP by 16",
        LaneName::ThrottledWritten,
        "those without events",
        LaneName::Throttled,
        0.97,
    ),
];

/// The largest ratio of the CPU time of `/v1/forward-auth` to that of `/v1/check`.
const FORWARD_AUTH_TIMES_CHECK: f64 = 1.15;

/// The lanes whose p99 latency must not exceed that of the other server.
const P99: [(&str, LaneName, LaneName); 3] = [
    ("HTTP", LaneName::Throttle, LaneName::CrabHttp),
    ("RESP one at a time", LaneName::ClThrottle, LaneName::CrabResp),
    ("RESP by 16", LaneName::ClThrottlePipelined, LaneName::CrabPipelined),
];

/// The most resident memory of an idle server, in megabytes.
const IDLE_MEGABYTES: f64 = 40.0;

/// The bars of the lanes that were measured.
pub(crate) fn of(lanes: &[MeasuredLane]) -> Vec<Bar> {
    let find = |name| lanes.iter().find(|measured| measured.lane.name == name);
    let mut bars = Vec::new();
    for (what, ours, whose, other, least) in PER_CPU_SECOND {
        if let (Some(ours), Some(other)) = (find(ours), find(other)) {
            let times = ours.times(other, TurnResult::per_server_second);
            let name = format!("{what}: decisions per CPU-second, in {whose}");
            bars.push(Bar::new(name, times, Side::AtLeast, least, "x"));
        }
    }
    if let (Some(ours), Some(other)) = (find(LaneName::ForwardAuth), find(LaneName::ForwardedCheck)) {
        let times = ours.times(other, TurnResult::server_micros);
        let name = "/v1/forward-auth: CPU of an answer, in /v1/check's";
        bars.push(Bar::new(name, times, Side::AtMost, FORWARD_AUTH_TIMES_CHECK, "x"));
    }
    for (what, ours, other) in P99 {
        if let (Some(ours), Some(other)) = (find(ours), find(other)) {
            let times = ours.times(other, |turn| turn.p99_micros);
            let name = format!("{what}: p99, in throttlecrab-server's");
            bars.push(Bar::new(name, times, Side::AtMost, 1.0, "x"));
        }
    }
    bars
}

/// Memory after the start.
pub(crate) fn idle(megabytes: f64) -> Bar {
    Bar::new("resident memory of an idle server", megabytes, Side::Below, IDLE_MEGABYTES, "MB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::lanes::LANES;
    use crate::server::tally::Verdicts;

    /// A lane with this CPU time per turn and this latency.
    fn measured(name: LaneName, server_seconds: f64, p99_micros: f64) -> MeasuredLane {
        let lane = *LANES.iter().find(|lane| lane.name == name).expect("there is one");
        let verdicts = Verdicts { allowed: 90, denied: 10 };
        let turn = TurnResult {
            verdicts,
            seconds: 1.0,
            server_seconds,
            client_seconds: 0.5,
            other_seconds: 0.0,
            p50_micros: 1.0,
            p99_micros,
        };
        MeasuredLane { lane, turns: vec![turn; 3] }
    }

    #[test]
    fn a_bar_compares_what_it_names() {
        let lanes = [measured(LaneName::Throttle, 0.5, 10.0), measured(LaneName::CrabHttp, 1.0, 20.0)];
        let [speed, p99] = &of(&lanes)[..] else { panic!("two bars") };
        assert_eq!(speed.name, "HTTP: decisions per CPU-second, in throttlecrab-server's");
        assert!((speed.measured - 2.0).abs() < 1e-9 && speed.met);
        assert!((p99.measured - 0.5).abs() < 1e-9 && p99.met);
        let slower = [measured(LaneName::Throttle, 0.6, 21.0), measured(LaneName::CrabHttp, 1.0, 20.0)];
        assert!(of(&slower).iter().all(|bar| !bar.met));
    }

    #[test]
    fn forward_auth_may_cost_little_more_than_a_check() {
        let bar = |seconds| {
            let lanes =
                [measured(LaneName::ForwardedCheck, 1.0, 1.0), measured(LaneName::ForwardAuth, seconds, 1.0)];
            let [bar] = of(&lanes).try_into().expect("one bar");
            bar
        };
        assert!(bar(1.1).met && !bar(1.2).met);
        assert!((bar(1.1).measured - 1.1).abs() < 1e-9);
    }

    #[test]
    fn all_lanes_together_have_all_bars() {
        let lanes: Vec<MeasuredLane> = LANES.iter().map(|lane| measured(lane.name, 1.0, 1.0)).collect();
        assert_eq!(of(&lanes).len(), PER_CPU_SECOND.len() + 1 + P99.len());
        assert!(of(&lanes[..1]).is_empty(), "alone there is nothing to compare");
        assert!(idle(39.9).met && !idle(40.0).met);
    }
}
