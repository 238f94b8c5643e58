use super::*;

const DETECTOR: BurstDetector =
    BurstDetector { id: 1, window: Nanos::from_secs(10), threshold: 3, penalty: Nanos::from_secs(60) };

fn at(millis: u64) -> Nanos {
    Nanos::from_secs(1_000).saturating_add(Nanos::from_millis(millis))
}

pub(in crate::bursts) fn count(key: u128) -> BurstCount {
    BurstCount { detector: DETECTOR, key }
}

pub(crate) fn subject(user: &str) -> BurstSubject {
    BurstSubject {
        detector: "b".into(),
        policy_version: 1,
        shown: user.into(),
        user: Some(user.into()),
        client: None,
        tenant: None,
        ip: None,
        own_hash: 0,
        is_tried_out: false,
    }
}

fn block(action: Option<BurstAction>) -> BurstAnswer {
    let penalty = Some((BurstAction::Blocked, Nanos::from_secs(120)));
    BurstAnswer { action, penalty, ..BurstAnswer::default() }
}

impl BurstMemory {
    fn add_one(&self, count: &BurstCount, now: Nanos) -> bool {
        self.add(count, || subject("a"), now)
    }

    /// Records an answer that arrives as soon as the call was sent, to a request.
    fn record_at(&self, count: &BurstCount, answer: &BurstAnswer, at: Nanos) {
        self.record(count, None, answer, BurstCallTimes { sent: at, answered: at, has_asked: true });
    }
}

#[test]
fn counts_wait_with_their_times_and_are_sent_once() {
    let memory = BurstMemory::new();
    for millis in [0, 1, 4, 5, 200] {
        assert!(memory.add_one(&count(1), at(millis)));
    }
    assert!(memory.add_one(&count(2), at(3)));
    assert_eq!(memory.take(2).counts[..], [(at(3), 1)]);
    let sent = memory.take_all();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1.counts[..], [(at(0), 3), (at(5), 1), (at(200), 1)]);
    assert!(memory.take_all().is_empty() && memory.take(1).counts.is_empty());
    assert!(memory.add_one(&count(1), at(300)));
    memory.put_back(&sent[0].0, sent[0].1.clone(), at(300));
    let times: Vec<Nanos> = memory.take(1).counts.iter().map(|&(at, _)| at).collect();
    assert_eq!(times, [at(0), at(5), at(200), at(300)], "the oldest first");
}

#[test]
fn what_waits_for_one_key_is_bounded() {
    let memory = BurstMemory::new();
    (0..1_000).for_each(|n| assert!(memory.add_one(&count(1), at(n * 10))));
    let waiting = memory.take(1).counts;
    assert_eq!((waiting.len(), waiting.iter().map(|&(_, n)| n).sum()), (COUNTS_MAX, 1_000));
}

#[test]
fn a_block_is_remembered_until_its_end_and_confirmed_on_the_way() {
    let memory = BurstMemory::new();
    memory.record_at(&count(1), &block(Some(BurstAction::Blocked)), at(0));
    let looked = memory.known(1, false, at(100));
    assert_eq!((looked.blocked_until, looked.action), (Some(at(120_000)), None));
    assert_eq!(memory.known(1, true, at(100)).action, Some(BurstAction::Blocked));
    assert_eq!(memory.known(1, true, at(100)).action, None, "reported once");
    assert!(memory.take_all().is_empty());
    assert!(!memory.known(1, true, at(400)).is_stale);
    let confirming = memory.take_all();
    assert_eq!((confirming.len(), confirming[0].1.counts.len()), (1, 0), "asked without counting");
    assert!(memory.known(1, true, at(900)).is_stale);
    memory.record_at(&count(1), &block(None), at(850));
    assert!(!memory.known(1, true, at(900)).is_stale);
    memory.record_at(&count(1), &BurstAnswer::default(), at(500));
    assert!(memory.known(1, true, at(900)).blocked_until.is_some(), "an older answer tells nothing new");
    memory.record_at(&count(1), &BurstAnswer::default(), at(950));
    assert_eq!(memory.known(1, true, at(960)).blocked_until, None, "lifted");
    memory.record_at(&count(1), &block(None), at(960));
    assert_eq!(memory.known(1, true, at(121_000)).blocked_until, None, "ended");
}

#[test]
fn keys_are_bounded_and_a_flood_forgets_no_block() {
    let memory = BurstMemory::new();
    memory.record_at(&count(0), &block(None), at(0));
    let of_shard_zero = |n: u128| n * SHARDS as u128;
    let most = (KEYS_MAX / SHARDS) as u128;
    assert!((1..most).all(|n| memory.add_one(&count(of_shard_zero(n)), at(0))));
    assert!(!memory.add_one(&count(of_shard_zero(most)), at(0)), "no space");
    memory.take_all();
    assert!(memory.add_one(&count(of_shard_zero(most)), at(0)), "what was sent is forgotten");
    assert!(memory.known(0, true, at(1)).blocked_until.is_some());
}

#[test]
fn an_action_that_no_request_comes_for_is_forgotten_with_its_penalty() {
    let memory = BurstMemory::new();
    let of_shard_zero = |n: u128| n * SHARDS as u128;
    let most = (KEYS_MAX / SHARDS) as u128;
    (0..most)
        .for_each(|n| memory.record_at(&count(of_shard_zero(n)), &block(Some(BurstAction::Blocked)), at(0)));
    let late = count(of_shard_zero(most));
    assert!(!memory.add_one(&late, at(119_999)), "all are blocked");
    assert!(memory.add_one(&late, at(120_000)), "no block is left");
    assert_eq!(memory.known(0, true, at(120_000)), KnownPenalty::default());
}

#[test]
fn an_answer_from_before_a_lift_does_not_restore_the_block() {
    for is_known in [true, false] {
        let memory = BurstMemory::new();
        if is_known {
            memory.record_at(&count(1), &block(None), at(0));
            assert!(memory.add_one(&count(1), at(40)));
        }
        let lifted = BurstCount { detector: BurstDetector { window: Nanos::ZERO, ..DETECTOR }, key: 1 };
        // Sent before the lift, or while it was on its way: the server may have counted before it.
        for sent in [at(50), at(100)] {
            memory.lift(&lifted, at(100));
            let times = BurstCallTimes { sent, answered: at(120), has_asked: false };
            memory.record(&count(1), None, &block(None), times);
            assert_eq!(memory.known(1, true, at(130)), KnownPenalty::default());
        }
        let waiting = memory.take_all();
        assert_eq!(waiting.len(), usize::from(is_known));
        assert!(waiting.iter().all(|(count, _)| count.detector == DETECTOR), "what waits is of its detector");
        memory.record_at(&count(1), &block(None), at(140));
        assert_eq!(memory.known(1, true, at(150)).blocked_until, Some(at(120_140)), "a new block");
    }
}

#[test]
fn a_lift_is_remembered_in_a_flood() {
    let memory = BurstMemory::new();
    memory.lift(&count(0), at(0));
    let most = (KEYS_MAX / SHARDS) as u128;
    for n in 1..=2 * most {
        assert!(memory.add_one(&count(n * SHARDS as u128), at(1)));
        let _sent = memory.take(n * SHARDS as u128);
    }
    let times = BurstCallTimes { sent: at(0), answered: at(2), has_asked: false };
    memory.record(&count(0), None, &block(None), times);
    assert_eq!(memory.known(0, false, at(3)).blocked_until, None);
}

#[test]
fn an_action_that_nobody_asked_for_is_late_and_the_next_decision_says_it() {
    let memory = BurstMemory::new();
    assert!(memory.add(&count(1), || subject("ann"), at(0)));
    assert!(memory.add(&count(1), || unreachable!("it is known whom this is about"), at(1)));
    let sent = memory.take_all();
    let times = BurstCallTimes { sent: at(10), answered: at(30), has_asked: false };
    let both = BurstAnswer { warned_before: true, ..block(Some(BurstAction::Blocked)) };
    memory.record(&sent[0].0, sent[0].1.subject.as_deref(), &both, times);
    let told = memory.known(1, true, at(40));
    assert_eq!((told.action, told.is_late), (Some(BurstAction::Blocked), true));
    assert_eq!(told.blocked_until, Some(at(120_030)), "counted from the answer");
    assert_eq!(memory.known(1, true, at(40)).action, None, "said once");
    let late = memory.late().unwrap().take(10);
    let told: Vec<_> = late
        .iter()
        .map(|late| (late.action, late.at, late.about.as_ref().and_then(|(_, who)| who.user.as_deref())))
        .collect();
    let ann = |action| (action, at(30), Some("ann"));
    assert_eq!(told, [ann(BurstAction::Warned), ann(BurstAction::Blocked)]);
}

#[test]
fn each_request_that_asks_reports_one_action() {
    let memory = BurstMemory::new();
    let warned = BurstAnswer { action: Some(BurstAction::Warned), ..BurstAnswer::default() };
    memory.record_at(&count(1), &warned, at(0));
    memory.record_at(&count(1), &block(Some(BurstAction::Blocked)), at(1));
    let take = || memory.known(1, true, at(2)).action;
    assert_eq!([take(), take(), take()], [Some(BurstAction::Warned), Some(BurstAction::Blocked), None]);
    assert!(!memory.late().unwrap().has_some());
    // Nobody takes them.
    (0..100).for_each(|n| memory.record_at(&count(1), &warned, at(n)));
    assert_eq!(memory.late().unwrap().take(1_000).len(), 100 - ACTIONS_MAX);
}
