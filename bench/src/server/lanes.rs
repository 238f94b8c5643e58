//! Who is asked what, and how.

use super::Part;
use super::closed_loop::{Load, Turn};
use super::limits::{Crowd, DENIED, FREE, HOT, HOT_THREE};
use super::wire::Dialogue;
use super::wire::forward_auth::{Bearer, ForwardAuth};
use super::wire::http::Http;
use super::wire::resp::Resp;
use super::wire::rls::Rls;
use crate::statistics::{median, median_ratio};

/// A server that is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    Tidegate,
    Throttlecrab,
    Redis,
    /// Tidegate with one worker, for what is compared with itself.
    Local,
    /// The same on a redis-server of its own, with leases.
    Hybrid,
    /// The same, but Redis is asked for every decision that no remembered denial answers.
    Strict,
}

impl Host {
    pub(crate) const ALL: [Host; 6] =
        [Host::Tidegate, Host::Throttlecrab, Host::Redis, Host::Local, Host::Hybrid, Host::Strict];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Host::Tidegate => "tidegate",
            Host::Throttlecrab => "throttlecrab-server",
            Host::Redis => "redis-server",
            Host::Local => "tidegate, local",
            Host::Hybrid => "tidegate, hybrid",
            Host::Strict => "tidegate, strict",
        }
    }
}

/// Which of its listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Door {
    Http,
    Grpc,
    Resp,
}

/// The names by which rows and bars refer to lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
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
    Denials,
    DenialsStrict,
    ForwardedCheck,
    ForwardAuth,
}

/// One thing that is measured in every round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) name: Name,
    /// It is measured if any of these is.
    pub(crate) parts: &'static [Part],
    pub(crate) host: Host,
    pub(crate) door: Door,
    pub(crate) what: &'static str,
    pub(crate) load: Load,
    pub(crate) crowd: Crowd,
    pub(crate) dialogue: fn() -> Box<dyn Dialogue>,
}

/// Connections that ask, where nothing else is said.
pub(crate) const CONNECTIONS: usize = 32;

const ONE_AT_A_TIME: Load = Load { connections: CONNECTIONS, depth: 1, together: true, awake: false };
const BY_SIXTEEN: Load = Load { connections: CONNECTIONS, depth: 16, together: true, awake: false };
/// As proxies have it: few connections with many streams.
const STREAMS: Load = Load { connections: 4, depth: 32, together: false, awake: false };

/// In the order in which they take turns: what is compared stands side by side.
pub(crate) const LANES: [Lane; 20] = [
    http(Name::Throttle, Host::Tidegate, "/v1/throttle", || Box::new(Http::throttle())),
    http(Name::CrabHttp, Host::Throttlecrab, "/throttle", || Box::new(Http::throttlecrab())),
    http(Name::Check, Host::Tidegate, "/v1/check, three limits", || Box::new(Http::check(FREE))),
    resp(Name::ClThrottle, Host::Tidegate, "CL.THROTTLE", ONE_AT_A_TIME, || Box::new(Resp::cl_throttle())),
    resp(Name::CrabResp, Host::Throttlecrab, "THROTTLE", ONE_AT_A_TIME, || Box::new(Resp::throttlecrab())),
    Lane {
        parts: &[Part::Resp, Part::Rls],
        ..resp(Name::Ping, Host::Redis, "PING", ONE_AT_A_TIME, || Box::new(Resp::ping()))
    },
    Lane {
        name: Name::Rls,
        parts: &[Part::Rls],
        host: Host::Tidegate,
        door: Door::Grpc,
        what: "ShouldRateLimit, two limits",
        load: STREAMS,
        crowd: Crowd::Many,
        dialogue: || Box::new(Rls::new()),
    },
    resp(Name::ClThrottlePipelined, Host::Tidegate, "CL.THROTTLE", BY_SIXTEEN, || {
        Box::new(Resp::cl_throttle())
    }),
    resp(Name::CrabPipelined, Host::Throttlecrab, "THROTTLE", BY_SIXTEEN, || Box::new(Resp::throttlecrab())),
    resp(Name::SetPipelined, Host::Redis, "SET", BY_SIXTEEN, || Box::new(Resp::set())),
    hot(Name::HotCheck, Host::Local, Door::Http, "/v1/check, hot keys", || Box::new(Http::check(HOT))),
    hot(Name::HotCheckHybrid, Host::Hybrid, Door::Http, "/v1/check, hot keys", || Box::new(Http::check(HOT))),
    hot(Name::HotThree, Host::Local, Door::Http, "/v1/check, hot, three limits", || {
        Box::new(Http::check(HOT_THREE))
    }),
    hot(Name::HotThreeHybrid, Host::Hybrid, Door::Http, "/v1/check, hot, three limits", || {
        Box::new(Http::check(HOT_THREE))
    }),
    hot(Name::HotThrottle, Host::Local, Door::Resp, "CL.THROTTLE, hot keys", || {
        Box::new(Resp::hot_cl_throttle())
    }),
    hot(Name::HotThrottleHybrid, Host::Hybrid, Door::Resp, "CL.THROTTLE, hot keys", || {
        Box::new(Resp::hot_cl_throttle())
    }),
    denied(Name::Denials, Host::Local),
    denied(Name::DenialsStrict, Host::Strict),
    Lane {
        parts: &[Part::ForwardAuth],
        ..hot(Name::ForwardedCheck, Host::Local, Door::Http, "/v1/check, by address", || {
            Box::new(Http::forwarded_check())
        })
    },
    Lane {
        parts: &[Part::ForwardAuth],
        ..hot(Name::ForwardAuth, Host::Local, Door::Http, "/v1/forward-auth", || {
            Box::new(ForwardAuth::new(Bearer::Nothing))
        })
    },
];

const fn http(name: Name, host: Host, what: &'static str, dialogue: fn() -> Box<dyn Dialogue>) -> Lane {
    let (parts, load, crowd) = (&[Part::Http], ONE_AT_A_TIME, Crowd::Many);
    Lane { name, parts, host, door: Door::Http, what, load, crowd, dialogue }
}

const fn resp(
    name: Name,
    host: Host,
    what: &'static str,
    load: Load,
    dialogue: fn() -> Box<dyn Dialogue>,
) -> Lane {
    Lane { name, parts: &[Part::Resp], host, door: Door::Resp, what, load, crowd: Crowd::Many, dialogue }
}

/// Few keys that have room for what they ask.
const fn hot(
    name: Name,
    host: Host,
    door: Door,
    what: &'static str,
    dialogue: fn() -> Box<dyn Dialogue>,
) -> Lane {
    let (parts, load, crowd) = (&[Part::Shared], ONE_AT_A_TIME, Crowd::Hot);
    Lane { name, parts, host, door, what, load, crowd, dialogue }
}

/// One key that has had all it may have.
const fn denied(name: Name, host: Host) -> Lane {
    let dialogue: fn() -> Box<dyn Dialogue> = || Box::new(Http::check(DENIED));
    Lane { crowd: Crowd::Denied, ..hot(name, host, Door::Http, "/v1/check, all denied", dialogue) }
}

impl Lane {
    /// The same with another number of connections, unless it has streams: proxies choose that themselves.
    pub(crate) fn with(mut self, connections: usize) -> Lane {
        if self.load.together {
            self.load.connections = connections;
        }
        self
    }
}

/// A lane and what happened on it, round by round.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) lane: Lane,
    pub(crate) turns: Vec<Turn>,
}

impl Measured {
    /// The median of a number over the rounds.
    pub(crate) fn median(&self, number: impl Fn(&Turn) -> f64) -> f64 {
        median(&self.all(number)).unwrap_or(f64::NAN)
    }

    /// The median of how many times the other's number this one's is, round by round.
    pub(crate) fn times(&self, other: &Measured, number: impl Fn(&Turn) -> f64 + Copy) -> f64 {
        median_ratio(&self.all(number), &other.all(number)).unwrap_or(f64::NAN)
    }

    fn all(&self, number: impl Fn(&Turn) -> f64) -> Vec<f64> {
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
            assert_eq!(connections, if lane.name == Name::Rls { STREAMS.connections } else { 7 });
        }
    }

    #[test]
    fn what_is_compared_is_asked_alike() {
        let load = |name| LANES.iter().find(|lane| lane.name == name).map(|lane| lane.load);
        assert_eq!(load(Name::Throttle), load(Name::CrabHttp));
        assert_eq!(load(Name::ClThrottle), load(Name::CrabResp));
        assert_eq!(load(Name::ClThrottle), load(Name::Ping));
        assert_eq!(load(Name::ClThrottlePipelined), load(Name::CrabPipelined));
        assert_eq!(load(Name::ClThrottlePipelined), load(Name::SetPipelined));
    }

    #[test]
    fn what_is_compared_with_itself_differs_in_the_store_or_the_endpoint_alone() {
        let lane = |name| LANES.iter().find(|lane| lane.name == name).expect("there is one");
        for (ours, other) in [
            (Name::HotCheckHybrid, Name::HotCheck),
            (Name::HotThreeHybrid, Name::HotThree),
            (Name::HotThrottleHybrid, Name::HotThrottle),
            (Name::DenialsStrict, Name::Denials),
        ] {
            let (ours, other) = (lane(ours), lane(other));
            assert_eq!((ours.what, ours.door, ours.crowd), (other.what, other.door, other.crowd));
            assert_eq!((ours.load, other.host), (other.load, Host::Local));
            assert_ne!(ours.host, Host::Local);
        }
        let (ours, other) = (lane(Name::ForwardAuth), lane(Name::ForwardedCheck));
        assert_eq!((ours.host, ours.load, ours.crowd), (other.host, other.load, other.crowd));
    }
}
