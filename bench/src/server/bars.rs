//! What the server must reach, in one place.

use super::closed_loop::Turn;
use super::lanes::{Measured, Name};
use crate::report::{Bar, Side};

/// How many times the decisions per processor second of another one are wanted.
const PER_CPU_SECOND: [(&str, Name, &str, Name, f64); 8] = [
    ("HTTP", Name::Throttle, "throttlecrab-server's", Name::CrabHttp, 1.7),
    ("RESP one at a time", Name::ClThrottle, "throttlecrab-server's", Name::CrabResp, 1.2),
    ("RESP one at a time", Name::ClThrottle, "PINGs of Redis", Name::Ping, 0.9),
    ("RESP by 16", Name::ClThrottlePipelined, "SETs of Redis", Name::SetPipelined, 1.0),
    ("RLS", Name::Rls, "PINGs of Redis", Name::Ping, 0.78),
    ("hybrid, hot keys by HTTP", Name::HotCheckHybrid, "local's", Name::HotCheck, 0.8),
    ("hybrid, hot keys by RESP", Name::HotThrottleHybrid, "local's", Name::HotThrottle, 0.7),
    ("strict, denials by HTTP", Name::DenialsStrict, "local's", Name::Denials, 0.8),
];

/// How many times the CPU time of a check an answer of `/v1/forward-auth` may take.
const FORWARD_AUTH_TIMES_CHECK: f64 = 1.15;

/// Whose slowest answers must not be slower than the peer's.
const P99: [(&str, Name, Name); 3] = [
    ("HTTP", Name::Throttle, Name::CrabHttp),
    ("RESP one at a time", Name::ClThrottle, Name::CrabResp),
    ("RESP by 16", Name::ClThrottlePipelined, Name::CrabPipelined),
];

/// What an idle server may have resident, in megabytes.
const IDLE_MEGABYTES: f64 = 40.0;

/// The bars of the lanes that were measured.
pub(crate) fn of(lanes: &[Measured]) -> Vec<Bar> {
    let find = |name| lanes.iter().find(|measured| measured.lane.name == name);
    let mut bars = Vec::new();
    for (what, ours, whose, other, least) in PER_CPU_SECOND {
        if let (Some(ours), Some(other)) = (find(ours), find(other)) {
            let times = ours.times(other, Turn::per_server_second);
            let name = format!("{what}: decisions per CPU-second, in {whose}");
            bars.push(Bar::new(name, times, Side::AtLeast, least, "x"));
        }
    }
    if let (Some(ours), Some(other)) = (find(Name::ForwardAuth), find(Name::ForwardedCheck)) {
        let times = ours.times(other, Turn::server_micros);
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

    /// Lanes that differ in what a decision costs the server, and in how long it takes.
    fn measured(name: Name, server_seconds: f64, p99_micros: f64) -> Measured {
        let lane = *LANES.iter().find(|lane| lane.name == name).expect("there is one");
        let verdicts = Verdicts { allowed: 90, denied: 10 };
        let turn = Turn {
            verdicts,
            seconds: 1.0,
            server_seconds,
            client_seconds: 0.5,
            other_seconds: 0.0,
            p50_micros: 1.0,
            p99_micros,
        };
        Measured { lane, turns: vec![turn; 3] }
    }

    #[test]
    fn a_bar_compares_what_it_names() {
        let lanes = [measured(Name::Throttle, 0.5, 10.0), measured(Name::CrabHttp, 1.0, 20.0)];
        let [speed, p99] = &of(&lanes)[..] else { panic!("two bars") };
        assert_eq!(speed.name, "HTTP: decisions per CPU-second, in throttlecrab-server's");
        assert!((speed.measured - 2.0).abs() < 1e-9 && speed.met);
        assert!((p99.measured - 0.5).abs() < 1e-9 && p99.met);
        let slower = [measured(Name::Throttle, 0.6, 21.0), measured(Name::CrabHttp, 1.0, 20.0)];
        assert!(of(&slower).iter().all(|bar| !bar.met));
    }

    #[test]
    fn forward_auth_may_cost_little_more_than_a_check() {
        let bar = |seconds| {
            let lanes = [measured(Name::ForwardedCheck, 1.0, 1.0), measured(Name::ForwardAuth, seconds, 1.0)];
            let [bar] = of(&lanes).try_into().expect("one bar");
            bar
        };
        assert!(bar(1.1).met && !bar(1.2).met);
        assert!((bar(1.1).measured - 1.1).abs() < 1e-9);
    }

    #[test]
    fn all_lanes_together_have_all_bars() {
        let lanes: Vec<Measured> = LANES.iter().map(|lane| measured(lane.name, 1.0, 1.0)).collect();
        assert_eq!(of(&lanes).len(), PER_CPU_SECOND.len() + 1 + P99.len());
        assert!(of(&lanes[..1]).is_empty(), "alone there is nothing to compare");
        assert!(idle(39.9).met && !idle(40.0).met);
    }
}
