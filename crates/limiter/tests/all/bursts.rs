//! Burst detectors of the limiter: what decisions tell, and penalties that are listed and lifted.

use tidegate::engine::bursts::{BurstAction, BurstState};
use tidegate::engine::{Decision, Joint, JointBy, Limiter, Policy, Reason, Request};
use tidegate::{ManualClock, Memory, Nanos, NowOrLater};

use super::policy::{admitted, limiter, user};

const DETECTOR: &str =
    "limits: []\nbursts: [{ name: b, key: [user], window: 10s, threshold: 3, penalty: 60s }]\n";

fn state(decision: &Decision) -> Option<BurstState> {
    decision.burst().map(|(state, _)| state)
}

fn burst_headers(decision: &Decision) -> Vec<String> {
    let mut lines = Vec::new();
    decision.headers(|name, value| {
        if name == "x-ratelimit-burst" {
            lines.push(value.to_owned());
        }
    });
    lines
}

#[test]
fn a_decision_and_its_headers_tell_what_a_detector_did() {
    let (limiter, clock) = limiter(&format!("version: 1\n{DETECTOR}"));
    assert_eq!(admitted(&limiter, &user("1"), 3), 3);
    let warned = limiter.check(&user("1"));
    assert_eq!((warned.is_allowed(), warned.burst()), (true, Some((BurstState::WarningIssued, "b"))));
    assert_eq!(burst_headers(&warned), ["warning_issued"]);
    assert!(warned.to_json().ends_with(",\"burst\":\"warning_issued\"}"), "{warned:?}");
    let normal = limiter.check(&user("1"));
    assert_eq!((state(&normal), burst_headers(&normal)), (None, vec![]));
    assert!(!normal.to_json().contains("burst"), "{normal:?}");
    clock.advance(Nanos::from_secs(10));
    assert_eq!(admitted(&limiter, &user("1"), 3), 3);
    for told in [BurstState::BlockedTemporarily, BurstState::AlreadyBlocked] {
        let blocked = limiter.check(&user("1"));
        assert_eq!((blocked.reason(), state(&blocked)), (Reason::BurstBlocked, Some(told)));
        assert_eq!(burst_headers(&blocked), [told.as_str()]);
    }
    assert_eq!(state(&limiter.peek(&user("1"))), Some(BurstState::AlreadyBlocked));
    assert_eq!(state(&limiter.peek(&user("2"))), None);
}

#[test]
fn headers_that_are_off_and_shadow_mode_show_clients_nothing() {
    for defaults in ["{ response_headers: false }", "{ mode: shadow }"] {
        let (limiter, _) = limiter(&format!("version: 1\ndefaults: {defaults}\n{DETECTOR}"));
        admitted(&limiter, &user("1"), 3);
        let warned = limiter.check(&user("1"));
        assert_eq!((state(&warned), burst_headers(&warned)), (Some(BurstState::WarningIssued), vec![]));
    }
}

#[test]
fn a_route_that_depends_on_the_user_is_known_after_the_credential() {
    let routes = "routes: [{ path: /a, unless: { user: '1' } }, { path: '/{b}' }]\n";
    let (blocking, _) = limiter(&format!("version: 1\nlimits: []\n{routes}block: [{{ route: '/{{b}}' }}]\n"));
    let burst = "bursts: [{ name: b, key: [route], window: 10s, threshold: 1, penalty: 10s }]\n";
    let (detecting, _) = limiter(&format!("version: 1\nlimits: []\n{routes}{burst}"));
    for (who, is_blocked) in [("1", true), ("2", false)] {
        let request = user(who).path("/a");
        // The server knows the user only in the second step.
        let ask = |limiter: &Limiter<Memory<ManualClock>, ManualClock>| {
            let entered = limiter.enter(&Request::new().path("/a"));
            assert!(!entered.is_decided());
            limiter.check_entered(entered, &request)
        };
        assert_eq!(ask(&blocking).reason() == Reason::Blocked, is_blocked, "{who}");
        assert_eq!(blocking.check(&request).reason() == Reason::Blocked, is_blocked, "{who}");
        assert_eq!(
            (state(&ask(&detecting)), state(&ask(&detecting))),
            (None, Some(BurstState::WarningIssued)),
            "{who}"
        );
    }
}

#[test]
fn two_steps_and_joint_requests_tell_the_same() {
    let (limiter, _) = limiter(&format!("version: 1\n{DETECTOR}"));
    admitted(&limiter, &user("1"), 3);
    let request = user("1");
    let entered = limiter.enter(&request);
    assert_eq!(state(&limiter.check_entered(entered, &request)), Some(BurstState::WarningIssued));
    admitted(&limiter, &user("2"), 3);
    let (one, two) = (user("2"), user("3"));
    let joint = [&one, &two].map(|request| Joint { request, by: JointBy::Policy });
    let joint = limiter.check_joint(&joint).unwrap();
    let told: Vec<Option<BurstState>> = joint.decisions.iter().map(state).collect();
    assert_eq!(told, [Some(BurstState::WarningIssued), None]);
}

#[test]
fn penalties_are_listed_until_they_end_or_are_lifted() {
    let (limiter, clock) = limiter(&format!("version: 1\n{DETECTOR}"));
    for name in ["1", "2"] {
        admitted(&limiter, &user(name), 4);
    }
    clock.advance(Nanos::from_secs(10));
    admitted(&limiter, &user("2"), 4);
    let list = || match limiter.burst_penalties(None, 10) {
        NowOrLater::Now(page) => page.penalties,
        NowOrLater::Later(_) => panic!("memory answers at once"),
    };
    let mut listed = list();
    listed.sort_by(|one, other| one.key.cmp(&other.key));
    let kinds: Vec<(&str, BurstAction)> =
        listed.iter().map(|penalty| (&*penalty.key, penalty.kind)).collect();
    assert_eq!(kinds, [("1", BurstAction::Warned), ("2", BurstAction::Blocked)]);
    let lift = |id: u128| match limiter.lift_burst_penalty(id) {
        NowOrLater::Now(lifted) => lifted.unwrap(),
        NowOrLater::Later(_) => panic!("memory answers at once"),
    };
    let lifted = lift(listed[1].id).unwrap();
    assert_eq!((lifted.until, &*lifted.detector), (listed[1].until, "b"));
    assert_eq!(lift(listed[1].id), None, "once");
    assert_eq!(admitted(&limiter, &user("2"), 4), 4);
    assert_eq!(list(), listed[..1]);
    clock.advance(Nanos::from_secs(50));
    assert_eq!(list(), []);
    assert_eq!(lift(listed[0].id), None, "it has ended");
}

#[test]
fn a_tightened_detector_sees_who_is_already_there() {
    let detector = |window: &str, key: &str| {
        format!(
            "version: 1\nlimits: []\nbursts: [{{ name: b, key: [{key}], window: {window}, threshold: 3, penalty: 60s }}]\n"
        )
    };
    let (limiter, clock) = limiter(&detector("1h", "user"));
    let request = user("1").client("1");
    admitted(&limiter, &request, 4);
    assert_eq!(limiter.burst_actions(), (1, 0));
    limiter.swap(Policy::parse(&detector("10s", "user")).unwrap()).unwrap();
    clock.advance(Nanos::from_secs(10));
    assert_eq!(admitted(&limiter, &request, 5), 3, "the fourth is the second offence");
    assert_eq!(limiter.burst_actions(), (1, 1));
    limiter.swap(Policy::parse(&detector("10s", "client")).unwrap()).unwrap();
    assert!(limiter.check(&request).is_allowed(), "another key is another detector");
}
