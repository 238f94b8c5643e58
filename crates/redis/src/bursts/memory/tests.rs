use super::*;

const DETECTOR: BurstDetector =
    BurstDetector { id: 1, window: Nanos::from_secs(10), threshold: 3, penalty: Nanos::from_secs(60) };

fn at(millis: u64) -> Nanos {
    Nanos::from_secs(1_000).saturating_add(Nanos::from_millis(millis))
}

fn count(key: u128) -> BurstCount {
    BurstCount { detector: DETECTOR, key }
}

fn block(action: Option<BurstAction>) -> BurstAnswer {
    BurstAnswer { action, penalty: Some((BurstAction::Blocked, Nanos::from_secs(120))) }
}

#[test]
fn counts_wait_with_their_times_and_are_sent_once() {
    let memory = BurstMemory::new();
    for millis in [0, 1, 4, 5, 200] {
        assert!(memory.add(&count(1), at(millis)));
    }
    assert!(memory.add(&count(2), at(3)));
    assert_eq!(memory.take(2)[..], [(at(3), 1)]);
    let sent = memory.take_all();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1[..], [(at(0), 3), (at(5), 1), (at(200), 1)]);
    assert!(memory.take_all().is_empty() && memory.take(1).is_empty());
    assert!(memory.add(&count(1), at(300)));
    memory.put_back(&sent[0].0, sent[0].1.clone(), at(300));
    let times: Vec<Nanos> = memory.take(1).iter().map(|&(at, _)| at).collect();
    assert_eq!(times, [at(0), at(5), at(200), at(300)], "the oldest first");
}

#[test]
fn what_waits_for_one_key_is_bounded() {
    let memory = BurstMemory::new();
    (0..1_000).for_each(|n| assert!(memory.add(&count(1), at(n * 10))));
    let waiting = memory.take(1);
    assert_eq!((waiting.len(), waiting.iter().map(|&(_, n)| n).sum()), (COUNTS_MAX, 1_000));
}

#[test]
fn a_block_is_remembered_until_its_end_and_confirmed_on_the_way() {
    let memory = BurstMemory::new();
    memory.record(&count(1), &block(Some(BurstAction::Blocked)), at(0));
    let looked = memory.known(1, false, at(100));
    assert_eq!((looked.blocked_until, looked.action), (Some(at(120_000)), None));
    assert_eq!(memory.known(1, true, at(100)).action, Some(BurstAction::Blocked));
    assert_eq!(memory.known(1, true, at(100)).action, None, "reported once");
    assert!(memory.take_all().is_empty());
    assert!(!memory.known(1, true, at(400)).is_stale);
    let confirming = memory.take_all();
    assert_eq!((confirming.len(), confirming[0].1.len()), (1, 0), "asked without counting");
    assert!(memory.known(1, true, at(900)).is_stale);
    memory.record(&count(1), &block(None), at(850));
    assert!(!memory.known(1, true, at(900)).is_stale);
    memory.record(&count(1), &BurstAnswer::default(), at(500));
    assert!(memory.known(1, true, at(900)).blocked_until.is_some(), "an older answer tells nothing new");
    memory.record(&count(1), &BurstAnswer::default(), at(950));
    assert_eq!(memory.known(1, true, at(960)).blocked_until, None, "lifted");
    memory.record(&count(1), &block(None), at(960));
    assert_eq!(memory.known(1, true, at(121_000)).blocked_until, None, "ended");
}

#[test]
fn keys_are_bounded_and_a_flood_forgets_no_block() {
    let memory = BurstMemory::new();
    memory.record(&count(0), &block(None), at(0));
    let of_shard_zero = |n: u128| n * SHARDS as u128;
    let most = (KEYS_MAX / SHARDS) as u128;
    assert!((1..most).all(|n| memory.add(&count(of_shard_zero(n)), at(0))));
    assert!(!memory.add(&count(of_shard_zero(most)), at(0)), "no space");
    memory.take_all();
    assert!(memory.add(&count(of_shard_zero(most)), at(0)), "what was sent is forgotten");
    assert!(memory.known(0, true, at(1)).blocked_until.is_some());
}

#[test]
fn an_action_that_no_request_comes_for_is_forgotten_with_its_penalty() {
    let memory = BurstMemory::new();
    let of_shard_zero = |n: u128| n * SHARDS as u128;
    let most = (KEYS_MAX / SHARDS) as u128;
    (0..most)
        .for_each(|n| memory.record(&count(of_shard_zero(n)), &block(Some(BurstAction::Blocked)), at(0)));
    let late = count(of_shard_zero(most));
    assert!(!memory.add(&late, at(119_999)), "all are blocked");
    assert!(memory.add(&late, at(120_000)), "no block is left");
    assert_eq!(memory.known(0, true, at(120_000)), KnownPenalty::default());
}
