//! The lanes: which server gets which requests, and with which concurrency.

use super::ServerPart;
use super::closed_loop::{ClosedLoad, TurnResult};
use super::limits::{DENIED, FREE, HOT, HOT_THREE, KeyPopulation};
use super::wire::ClientProtocol;
use super::wire::forward_auth::{Bearer, ForwardAuth};
use super::wire::http::Http;
use super::wire::resp::Resp;
use super::wire::rls::Rls;
use crate::statistics::{median, median_ratio};

/// The servers that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ServerKind {
    Tidegate,
    Throttlecrab,
    Redis,
    /// Tidegate with one worker, for comparisons with itself.
    Local,
    /// The same in hybrid mode, with its own redis-server.
    Hybrid,
    /// The same in strict mode: every decision is a call to Redis, except for remembered denials.
    Strict,
    /// The same as `Local`, and events are written to a file.
    Events,
}

impl ServerKind {
    pub(crate) const ALL: [ServerKind; 7] = [
        ServerKind::Tidegate,
        ServerKind::Throttlecrab,
        ServerKind::Redis,
        ServerKind::Local,
        ServerKind::Hybrid,
        ServerKind::Strict,
        ServerKind::Events,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            ServerKind::Tidegate => "tidegate",
            ServerKind::Throttlecrab => "throttlecrab-server",
            ServerKind::Redis => "redis-server",
            ServerKind::Local => "tidegate, local",
            ServerKind::Hybrid => "tidegate, hybrid",
            ServerKind::Strict => "tidegate, strict",
            ServerKind::Events => "tidegate, events",
        }
    }
}

/// The listener that gets the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ListenerKind {
    Http,
    Grpc,
    Resp,
}

/// The names by which rows and bars refer to lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneName {
    Throttle,
    CrabHttp,
    Check,
    ClThrottle,
    CrabResp,
    Ping,
    Rls,
    ClThrottlePipelined,
    CrabPipelined,
    SetPipelined,
    HotCheck,
    HotCheckHybrid,
    HotThree,
    HotThreeHybrid,
    HotThrottle,
    HotThrottleHybrid,
    DenialsWritten,
    Denials,
    DenialsStrict,
    ThrottledWritten,
    Throttled,
    ForwardedCheck,
    ForwardAuth,
}

/// One measurement, repeated in every round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) name: LaneName,
    /// It is measured if one of these parts is selected.
    pub(crate) parts: &'static [ServerPart],
    pub(crate) host: ServerKind,
    pub(crate) listener: ListenerKind,
    pub(crate) what: &'static str,
    pub(crate) load: ClosedLoad,
    pub(crate) population: KeyPopulation,
    pub(crate) protocol: fn() -> Box<dyn ClientProtocol>,
}

/// The default number of connections.
pub(crate) const CONNECTIONS: usize = 32;

const ONE_AT_A_TIME: ClosedLoad =
    ClosedLoad { connections: CONNECTIONS, depth: 1, together: true, awake: false };
const BY_SIXTEEN: ClosedLoad =
    ClosedLoad { connections: CONNECTIONS, depth: 16, together: true, awake: false };
/// As proxies do: few connections with many streams.
const STREAMS: ClosedLoad = ClosedLoad { connections: 4, depth: 32, together: false, awake: false };

/// In the order of their turns: lanes that are compared are next to each other.
pub(crate) const LANES: [Lane; 23] = [
    http(LaneName::Throttle, ServerKind::Tidegate, "/v1/throttle", || Box::new(Http::throttle())),
    http(LaneName::CrabHttp, ServerKind::Throttlecrab, "/throttle", || Box::new(Http::throttlecrab())),
    http(LaneName::Check, ServerKind::Tidegate, "/v1/check, three limits", || Box::new(Http::check(FREE))),
    resp(LaneName::ClThrottle, ServerKind::Tidegate, "CL.THROTTLE", ONE_AT_A_TIME, || {
        Box::new(Resp::cl_throttle())
    }),
    resp(LaneName::CrabResp, ServerKind::Throttlecrab, "THROTTLE", ONE_AT_A_TIME, || {
        Box::new(Resp::throttlecrab())
    }),
    Lane {
        parts: &[ServerPart::Resp, ServerPart::Rls],
        ..resp(LaneName::Ping, ServerKind::Redis, "PING", ONE_AT_A_TIME, || Box::new(Resp::ping()))
    },
    Lane {
        name: LaneName::Rls,
        parts: &[ServerPart::Rls],
        host: ServerKind::Tidegate,
        listener: ListenerKind::Grpc,
        what: "ShouldRateLimit, two limits",
        load: STREAMS,
        population: KeyPopulation::Many,
        protocol: || Box::new(Rls::new()),
    },
    resp(LaneName::ClThrottlePipelined, ServerKind::Tidegate, "CL.THROTTLE", BY_SIXTEEN, || {
        Box::new(Resp::cl_throttle())
    }),
    resp(LaneName::CrabPipelined, ServerKind::Throttlecrab, "THROTTLE", BY_SIXTEEN, || {
        Box::new(Resp::throttlecrab())
    }),
    resp(LaneName::SetPipelined, ServerKind::Redis, "SET", BY_SIXTEEN, || Box::new(Resp::set())),
    hot(LaneName::HotCheck, ServerKind::Local, ListenerKind::Http, "/v1/check, hot keys", || {
        Box::new(Http::check(HOT))
    }),
    hot(LaneName::HotCheckHybrid, ServerKind::Hybrid, ListenerKind::Http, "/v1/check, hot keys", || {
        Box::new(Http::check(HOT))
    }),
    hot(LaneName::HotThree, ServerKind::Local, ListenerKind::Http, "/v1/check, hot, three limits", || {
        Box::new(Http::check(HOT_THREE))
    }),
    hot(
        LaneName::HotThreeHybrid,
        ServerKind::Hybrid,
        ListenerKind::Http,
        "/v1/check, hot, three limits",
        || Box::new(Http::check(HOT_THREE)),
    ),
    hot(LaneName::HotThrottle, ServerKind::Local, ListenerKind::Resp, "CL.THROTTLE, hot keys", || {
        Box::new(Resp::hot_cl_throttle())
    }),
    hot(LaneName::HotThrottleHybrid, ServerKind::Hybrid, ListenerKind::Resp, "CL.THROTTLE, hot keys", || {
        Box::new(Resp::hot_cl_throttle())
    }),
    Lane { parts: &[ServerPart::Events], ..denied(LaneName::DenialsWritten, ServerKind::Events) },
    Lane { parts: &[ServerPart::Shared, ServerPart::Events], ..denied(LaneName::Denials, ServerKind::Local) },
    denied(LaneName::DenialsStrict, ServerKind::Strict),
    throttled(LaneName::ThrottledWritten, ServerKind::Events),
    throttled(LaneName::Throttled, ServerKind::Local),
    Lane {
        parts: &[ServerPart::ForwardAuth],
        ..hot(
            LaneName::ForwardedCheck,
            ServerKind::Local,
            ListenerKind::Http,
            "/v1/check, by address",
            || Box::new(Http::forwarded_check()),
        )
    },
    Lane {
        parts: &[ServerPart::ForwardAuth],
        ..hot(LaneName::ForwardAuth, ServerKind::Local, ListenerKind::Http, "/v1/forward-auth", || {
            Box::new(ForwardAuth::new(Bearer::Nothing))
        })
    },
];

const fn http(
    name: LaneName,
    host: ServerKind,
    what: &'static str,
    protocol: fn() -> Box<dyn ClientProtocol>,
) -> Lane {
    let (parts, load, population) = (&[ServerPart::Http], ONE_AT_A_TIME, KeyPopulation::Many);
    Lane { name, parts, host, listener: ListenerKind::Http, what, load, population, protocol }
}

const fn resp(
    name: LaneName,
    host: ServerKind,
    what: &'static str,
    load: ClosedLoad,
    protocol: fn() -> Box<dyn ClientProtocol>,
) -> Lane {
    Lane {
        name,
        parts: &[ServerPart::Resp],
        host,
        listener: ListenerKind::Resp,
        what,
        load,
        population: KeyPopulation::Many,
        protocol,
    }
}

/// A few hot keys that are always allowed.
const fn hot(
    name: LaneName,
    host: ServerKind,
    listener: ListenerKind,
    what: &'static str,
    protocol: fn() -> Box<dyn ClientProtocol>,
) -> Lane {
    let (parts, load, population) = (&[ServerPart::Shared], ONE_AT_A_TIME, KeyPopulation::Hot);
    Lane { name, parts, host, listener, what, load, population, protocol }
}

/// One key that is always denied.
const fn denied(name: LaneName, host: ServerKind) -> Lane {
    let protocol: fn() -> Box<dyn ClientProtocol> = || Box::new(Http::check(DENIED));
    Lane {
        population: KeyPopulation::Denied,
        ..hot(name, host, ListenerKind::Http, "/v1/check, all denied", protocol)
    }
}

/// The same by pipelined commands.
const fn throttled(name: LaneName, host: ServerKind) -> Lane {
    let protocol: fn() -> Box<dyn ClientProtocol> = || Box::new(Resp::denied_cl_throttle());
    Lane {
        parts: &[ServerPart::Events],
        load: BY_SIXTEEN,
        listener: ListenerKind::Resp,
        what: "CL.THROTTLE, all denied",
        protocol,
        ..denied(name, host)
    }
}

impl Lane {
    /// The same with another number of connections, unless it has streams: their number is fixed, as in proxies.
    pub(crate) fn with(mut self, connections: usize) -> Lane {
        if self.load.together {
            self.load.connections = connections;
        }
        self
    }
}

/// A lane and its results, round by round.
#[derive(Debug)]
pub(crate) struct MeasuredLane {
    pub(crate) lane: Lane,
    pub(crate) turns: Vec<TurnResult>,
}

impl MeasuredLane {
    /// The median of a number over the rounds.
    pub(crate) fn median(&self, number: impl Fn(&TurnResult) -> f64) -> f64 {
        median(&self.all(number)).unwrap_or(f64::NAN)
    }

    /// The median of the ratios of this lane's number to the other's, round by round.
    pub(crate) fn times(&self, other: &MeasuredLane, number: impl Fn(&TurnResult) -> f64 + Copy) -> f64 {
        median_ratio(&self.all(number), &other.all(number)).unwrap_or(f64::NAN)
    }

    fn all(&self, number: impl Fn(&TurnResult) -> f64) -> Vec<f64> {
        self.turns.iter().map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_has_its_own_name_and_a_part() {
        for (place, lane) in LANES.iter().enumerate() {
            assert!(!lane.parts.is_empty());
            assert!(LANES[..place].iter().all(|other| other.name != lane.name), "{:?}", lane.name);
        }
    }

    #[test]
    fn connections_can_be_chosen_but_for_proxies() {
        for lane in LANES {
            let connections = lane.with(7).load.connections;
            assert_eq!(connections, if lane.name == LaneName::Rls { STREAMS.connections } else { 7 });
        }
    }

    #[test]
    fn what_is_compared_is_asked_alike() {
        let load = |name| LANES.iter().find(|lane| lane.name == name).map(|lane| lane.load);
        assert_eq!(load(LaneName::Throttle), load(LaneName::CrabHttp));
        assert_eq!(load(LaneName::ClThrottle), load(LaneName::CrabResp));
        assert_eq!(load(LaneName::ClThrottle), load(LaneName::Ping));
        assert_eq!(load(LaneName::ClThrottlePipelined), load(LaneName::CrabPipelined));
        assert_eq!(load(LaneName::ClThrottlePipelined), load(LaneName::SetPipelined));
    }

    #[test]
    fn what_is_compared_with_itself_differs_in_the_store_or_the_endpoint_alone() {
        let lane = |name| LANES.iter().find(|lane| lane.name == name).expect("there is one");
        for (ours, other) in [
            (LaneName::HotCheckHybrid, LaneName::HotCheck),
            (LaneName::HotThreeHybrid, LaneName::HotThree),
            (LaneName::HotThrottleHybrid, LaneName::HotThrottle),
            (LaneName::DenialsStrict, LaneName::Denials),
            (LaneName::DenialsWritten, LaneName::Denials),
            (LaneName::ThrottledWritten, LaneName::Throttled),
        ] {
            let (ours, other) = (lane(ours), lane(other));
            assert_eq!(
                (ours.what, ours.listener, ours.population),
                (other.what, other.listener, other.population)
            );
            assert_eq!((ours.load, other.host), (other.load, ServerKind::Local));
            assert_ne!(ours.host, ServerKind::Local);
        }
        let (ours, other) = (lane(LaneName::ForwardAuth), lane(LaneName::ForwardedCheck));
        assert_eq!((ours.host, ours.load, ours.population), (other.host, other.load, other.population));
    }
}
