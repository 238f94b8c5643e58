//! Live entries on a real server.

use redis::Commands;
use tidegate::Nanos;
use tidegate_redis::{
    MaintenanceGuard, NewLiveEntry, RedisClientOptions, RedisStore, SharedLiveChange, SharedLiveHead,
    SharedLiveOutcome, StoreMode, StoreOptions,
};
use tokio::runtime::Runtime;

use crate::server::access::PERMISSIONS;
use crate::support::{Redis, fresh_prefix, runtime};

/// A store on a server of its own.
pub(crate) struct Board {
    pub(crate) server: Redis,
    pub(crate) runtime: Runtime,
    pub(crate) store: RedisStore,
    pub(crate) prefix: String,
    _guard: MaintenanceGuard,
}

impl Board {
    pub(crate) fn new() -> Board {
        let (server, runtime, prefix) = (Redis::start(), runtime(), fresh_prefix());
        let _inside = runtime.enter();
        let deadline = std::time::Duration::from_secs(5);
        let client = RedisClientOptions { deadline, ..RedisClientOptions::new(server.url()) };
        let options = StoreOptions { prefix: prefix.clone(), ..StoreOptions::new(StoreMode::Strict) };
        let (store, guard) = RedisStore::connect(client, options).expect("the address is one");
        runtime.block_on(store.first_attempt()).expect("the server answers");
        drop(_inside);
        Board { server, runtime, store, prefix, _guard: guard }
    }

    fn change(&self, remove: &[&str], add: &[(&str, Option<u64>)], most: usize) -> SharedLiveOutcome {
        let entry = |&(id, lasts): &(&str, Option<u64>)| NewLiveEntry {
            id: id.to_owned(),
            lasts: lasts.map(Nanos::from_millis),
            text: format!("{{\"id\":\"{id}\",\n\"x\":1}}").into_bytes(),
        };
        let remove = remove.iter().map(ToString::to_string).collect();
        let change = SharedLiveChange { remove, add: add.iter().map(entry).collect(), most, is_brief: false };
        self.runtime.block_on(self.store.change_live(&change)).expect("the server answers")
    }

    /// What is new after a head: the new head, and each entry as `id` or `-id`.
    fn after(&self, seen: SharedLiveHead, most: u32) -> (SharedLiveHead, Vec<String>) {
        let page = self
            .runtime
            .block_on(self.store.live_page(seen, seen.sequence, most))
            .expect("the server answers");
        let shown = |entry: tidegate_redis::SharedLiveEntry| {
            assert!(entry.text.starts_with(format!("{{\"id\":\"{}\",\n", entry.id).as_bytes()));
            if entry.is_removed { format!("-{}", entry.id) } else { entry.id }
        };
        (page.head, page.entries.into_iter().map(shown).collect())
    }
}

/// The sequence of a change that was made.
pub(crate) fn sequence(outcome: SharedLiveOutcome) -> u64 {
    let SharedLiveOutcome::Changed(sequence) = outcome else { panic!("{outcome:?}") };
    sequence
}

impl Board {
    /// What all keys hold.
    pub(crate) fn dump(&self) -> Vec<(String, Vec<u8>)> {
        let mut connection = self.server.connection();
        let keys: Vec<String> = connection.keys("*").expect("a list");
        let mut dumped =
            |key: &String| redis::cmd("DUMP").arg(key).query(&mut connection).expect("it has the key");
        keys.iter().map(|key| (key.clone(), dumped(key))).collect()
    }

    /// What a server has that has lost what came after the dump.
    pub(crate) fn go_back(&self, dump: &[(String, Vec<u8>)]) {
        let mut connection = self.server.connection();
        let _: () = redis::cmd("FLUSHALL").query(&mut connection).expect("it is empty");
        for (key, value) in dump {
            let mut restore = redis::cmd("RESTORE");
            let _: () = restore.arg(key).arg(0).arg(value).query(&mut connection).expect("it was dumped");
        }
    }
}

#[test]
fn a_server_that_has_gone_back_is_noticed() {
    let board = Board::new();
    board.change(&[], &[("a", None), ("b", None)], 10);
    let (kept, dump) = (board.after(SharedLiveHead::default(), 10).0, board.dump());
    board.change(&["a"], &[("c", None)], 10);
    let (seen, news) = board.after(kept, 10);
    assert_eq!(news, ["-a", "c"]);
    board.go_back(&dump);
    assert_eq!(board.after(seen, 10), (kept, vec!["a".into(), "b".into()]), "everything");
    assert_eq!(board.after(kept, 10).1, [""; 0]);
    // Also if it has more changes by then than it had lost.
    for id in ["d", "e", "f"] {
        assert!(sequence(board.change(&[], &[(id, None)], 10)) > seen.sequence, "a new sequence");
    }
    assert_eq!(board.after(seen, 10).1, ["a", "b", "d", "e", "f"]);
    assert_eq!(board.after(kept, 10).1, ["d", "e", "f"]);
}

#[test]
fn heads_of_the_past_are_bounded() {
    let board = Board::new();
    board.change(&[], &[("a", None)], 10);
    let (first, _) = board.after(SharedLiveHead::default(), 10);
    let mut last = first;
    for _ in 0..501 {
        board.change(&["a"], &[("a", None)], 10_000);
        last = board.after(last, 0).0;
        board.change(&["a"], &[("a", None)], 10_000);
    }
    let past: usize =
        board.server.connection().zcard(format!("{}:1:{{live}}:past", board.prefix)).expect("a key");
    assert_eq!(past, 1_000);
    let anew = |seen: SharedLiveHead| {
        let page = board.store.live_page(seen, seen.sequence, 1);
        board.runtime.block_on(page).expect("the server answers").is_anew
    };
    assert_eq!((anew(first), anew(last)), (true, false));
}

#[test]
fn what_nobody_needs_any_more_is_forgotten_without_another_change() {
    let board = Board::new();
    let tidy = || board.runtime.block_on(board.store.tidy_live()).expect("the server answers");
    tidy();
    assert_eq!(board.after(SharedLiveHead::default(), 10).0, SharedLiveHead::default(), "nothing was begun");
    board.change(&[], &[("a", None), ("b", None), ("c", None)], 10);
    let (head, _) = board.after(SharedLiveHead::default(), 10);
    let (ends, text) = (format!("{}:1:{{live}}:ends", board.prefix), "+{\"id\":\"b\",\n\"x\":1}");
    let _: () = board.server.connection().zadd(&ends, format!("b\n{text}"), 1).expect("a key");
    tidy();
    assert_eq!(board.after(SharedLiveHead::default(), 10), (head, vec!["a".into(), "c".into()]));
}

#[test]
fn entries_are_read_in_the_order_of_their_changes() {
    let board = Board::new();
    let nothing = board.after(SharedLiveHead::default(), 10);
    assert_eq!(nothing, (SharedLiveHead::default(), vec![]));
    let first = sequence(board.change(&[], &[("a", Some(60_000)), ("ab", None)], 10));
    let second = sequence(board.change(&["a"], &[("c", None)], 10));
    let (head, all) = board.after(SharedLiveHead::default(), 10);
    assert_eq!((head.sequence, all), (second, vec!["ab".into(), "-a".into(), "c".into()]));
    // At least the time in microseconds, exactly.
    assert!(
        head.epoch <= first && first + 1 < second && second < head.epoch + 60_000_000,
        "{head:?} {first}"
    );
    let seen = SharedLiveHead { sequence: first, ..head };
    assert_eq!(board.after(seen, 10), (head, vec!["-a".into(), "c".into()]));
    assert_eq!(board.after(seen, 1), (head, vec!["-a".into()]));
    assert_eq!(board.after(head, 10), (head, vec![]));
    let other = SharedLiveHead { epoch: head.epoch + 1, ..head };
    assert_eq!(board.after(other, 10).1.len(), 3, "another epoch: everything");
}

#[test]
fn a_change_is_made_as_a_whole_or_not_at_all() {
    let board = Board::new();
    board.change(&[], &[("a", None), ("b", None)], 3);
    let before = board.after(SharedLiveHead::default(), 10);
    assert_eq!(board.change(&["a", "nope"], &[], 3), SharedLiveOutcome::Unknown);
    assert_eq!(board.change(&[], &[("c", None), ("d", None)], 3), SharedLiveOutcome::Full);
    assert_eq!(board.after(SharedLiveHead::default(), 10), before);
    assert!(sequence(board.change(&["b"], &[], 3)) > before.0.sequence);
    assert_eq!(board.change(&["b"], &[], 3), SharedLiveOutcome::Unknown, "it was removed before");
}

#[test]
fn a_server_that_has_lost_its_keys_begins_another_epoch() {
    let board = Board::new();
    board.change(&[], &[("a", None), ("b", None)], 10);
    let (before, _) = board.after(SharedLiveHead::default(), 10);
    let mut connection = board.server.connection();
    let _: () = connection.del(format!("{}:1:{{live}}:head", board.prefix)).expect("a key");
    let (lost, _) = board.after(before, 10);
    assert_eq!(lost, SharedLiveHead::default());
    board.change(&[], &[("c", None)], 10);
    let (after, all) = board.after(before, 10);
    assert!(after.epoch > before.epoch, "{after:?}");
    assert_eq!(all, ["c"]);
}

#[test]
fn the_latest_use_counts_whoever_tells_it() {
    let board = Board::new();
    let ids: Vec<String> = (0..600).map(|number| number.to_string()).collect();
    let tell = |uses: &[(String, u64)]| {
        board.runtime.block_on(board.store.tell_live_uses(uses)).expect("the server answers");
    };
    let read =
        |ids: &[String]| board.runtime.block_on(board.store.live_uses(ids)).expect("the server answers");
    assert_eq!(read(&ids[..2]), [None, None]);
    let first: Vec<(String, u64)> = ids.iter().cloned().zip(1_800_000_000_000..).collect();
    tell(&first);
    tell(&[(ids[1].clone(), 5), (ids[2].clone(), 1_900_000_000_000)]);
    let times = read(&ids);
    assert_eq!(times[..3], [Some(1_800_000_000_000), Some(1_800_000_000_001), Some(1_900_000_000_000)]);
    assert_eq!(times[599], Some(1_800_000_000_599));
    // With the permissions of the guide, and with those from before they had `zscore`.
    let mut connection = board.server.connection();
    for (permissions, is_read) in
        [(PERMISSIONS.to_owned(), true), (PERMISSIONS.replace("+zscore", ""), false)]
    {
        let mut rule = redis::cmd("ACL");
        rule.arg("SETUSER").arg("default");
        permissions.split_ascii_whitespace().for_each(|permission| _ = rule.arg(permission));
        let _: () =
            rule.arg(format!("~{}:*", board.prefix)).arg("+acl").query(&mut connection).expect("a rule");
        tell(&[(ids[1].clone(), 1_950_000_000_000)]);
        let read = board.runtime.block_on(board.store.live_uses(&ids[1..2]));
        assert_eq!(read.ok(), is_read.then(|| vec![Some(1_950_000_000_000)]));
    }
}
