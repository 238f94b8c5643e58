//! What nodes tell each other of themselves, on a real server.

use redis::Commands;
use tidegate::Nanos;
use tidegate_redis::{KeptFleetSteps, ToldByNode};

use crate::live::Board;

fn told(id: &str, text: &str) -> ToldByNode {
    ToldByNode { id: id.to_owned(), text: text.as_bytes().to_vec() }
}

impl Board {
    fn tell(&self, told: &ToldByNode, before: Option<&ToldByNode>) {
        self.runtime.block_on(self.store.tell_fleet(told, before)).expect("the server answers");
    }

    /// Who has told what within a time.
    fn fleet(&self, within: Nanos) -> Vec<ToldByNode> {
        let fleet = self.runtime.block_on(self.store.fleet(within)).expect("the server answers");
        assert!(fleet.iter().all(|(_, ago)| *ago <= within), "{fleet:?}");
        fleet.into_iter().map(|(told, _)| told).collect()
    }

    fn members(&self, set: &str) -> usize {
        let mut connection = self.server.connection();
        connection.zcard(format!("{}:1:{{fleet}}:{set}", self.prefix)).expect("the server answers")
    }
}

#[test]
fn each_node_is_known_by_what_it_told_last() {
    let board = Board::new();
    assert_eq!(board.fleet(Nanos::MINUTE), []);
    let (first, second, other) = (told("b", "1\n"), told("b", "2\n\n{}"), told("a", "x"));
    board.tell(&first, None);
    board.tell(&other, None);
    board.tell(&second, Some(&first));
    assert_eq!(board.fleet(Nanos::MINUTE), [other.clone(), second.clone()]);
    assert_eq!(board.members("now"), 2, "what was told before is gone");
    // A node that has not heard the answer does not know what it told before.
    let third = told("b", "3");
    board.tell(&third, Some(&first));
    assert_eq!(board.fleet(Nanos::MINUTE), [other, third]);
}

#[test]
fn who_tells_nothing_any_more_is_left_out() {
    let board = Board::new();
    board.tell(&told("a", "x"), None);
    // The server's clock decides, and it goes on.
    while board.fleet(Nanos::from_millis(20)).contains(&told("a", "x")) {}
    board.tell(&told("b", "y"), None);
    assert_eq!(board.fleet(Nanos::MINUTE), [told("a", "x"), told("b", "y")]);
    assert!(!board.fleet(Nanos::from_millis(20)).contains(&told("a", "x")));
}

/// What nodes tell of steps.
impl Board {
    fn keep(&self, step: u64, id: &str, kept: KeptFleetSteps) {
        let told = told(id, &format!("{step}"));
        self.runtime.block_on(self.store.keep_step(step, &told, kept)).expect("the server answers");
    }

    fn steps(&self, first: u64, last: u64) -> Vec<(String, u64)> {
        let steps = self.runtime.block_on(self.store.steps(first, last)).expect("the server answers");
        assert!(steps.iter().all(|(told, step)| told.text == step.to_string().as_bytes()), "{steps:?}");
        steps.into_iter().map(|(told, step)| (told.id, step)).collect()
    }

    fn step_counts(&self, kept: KeptFleetSteps) -> Vec<(u64, u64)> {
        self.runtime.block_on(self.store.step_counts(kept)).expect("the server answers")
    }
}

#[test]
fn steps_are_read_in_pages() {
    let board = Board::new();
    // So long that the step that goes on does not end while the test runs; it is number 0.
    let kept = KeptFleetSteps { step_millis: 1 << 50, count: 120 };
    for step in 1..=120 {
        board.keep(step, "a", kept);
        board.keep(step, "b", kept);
    }
    board.keep(120, "b", kept);
    let all: Vec<(String, u64)> =
        (1..=120).flat_map(|step| [("a".to_owned(), step), ("b".to_owned(), step)]).collect();
    assert_eq!(board.steps(0, 200), all, "more than one page, and what was told twice is there once");
    assert_eq!((board.steps(119, 200), board.steps(3, 4)), (all[236..].to_vec(), all[4..8].to_vec()));
    let counts: Vec<(u64, u64)> = (1..=120).map(|step| (step, 2)).collect();
    assert_eq!(board.step_counts(kept), counts);
    assert_eq!(board.step_counts(KeptFleetSteps { count: 2, ..kept }), counts[..2]);
}

#[test]
fn only_the_clock_of_the_server_says_which_steps_are_old() {
    const STEP_MILLIS: u64 = 30_000;
    let board = Board::new();
    let (seconds, _): (u64, u64) =
        redis::cmd("TIME").query(&mut board.server.connection()).expect("the server answers");
    let now = seconds * 1_000 / STEP_MILLIS;
    let kept = KeptFleetSteps { step_millis: STEP_MILLIS, count: 120 };
    board.keep(now - 60, "right", kept);
    for (id, step) in [("ahead", now + 90), ("far ahead", now + 10_000), ("behind", now - 10_000)] {
        board.keep(step, id, kept);
    }
    assert_eq!(board.steps(0, u64::MAX), [("right".to_owned(), now - 60), ("ahead".to_owned(), now + 90)]);
    assert_eq!(board.step_counts(kept), [(now - 60, 1), (now + 90, 1)]);
    board.keep(now, "later", KeptFleetSteps { count: 30, ..kept });
    assert_eq!((board.steps(0, u64::MAX), board.members("hour")), (vec![("later".to_owned(), now)], 1));
}
