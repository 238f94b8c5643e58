//! What nodes tell each other of themselves, on a real server.

use redis::Commands;
use tidegate::Nanos;
use tidegate_redis::ToldByNode;

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

#[test]
fn steps_are_read_in_pages_and_old_ones_are_forgotten() {
    let board = Board::new();
    let keep = |step: u64, id: &str, first: u64| {
        let told = told(id, &format!("{step}"));
        board.runtime.block_on(board.store.keep_step(step, &told, first)).expect("the server answers");
    };
    let steps = |first: u64| -> Vec<(String, u64)> {
        let steps = board.runtime.block_on(board.store.steps(first)).expect("the server answers");
        assert!(steps.iter().all(|(told, step)| told.text == step.to_string().as_bytes()), "{steps:?}");
        steps.into_iter().map(|(told, step)| (told.id, step)).collect()
    };
    for step in 1..=120 {
        keep(step, "a", 0);
        keep(step, "b", 0);
    }
    let all: Vec<(String, u64)> =
        (1..=120).flat_map(|step| [("a".to_owned(), step), ("b".to_owned(), step)]).collect();
    assert_eq!(steps(0), all, "more than one page");
    assert_eq!(steps(119), all[236..]);
    keep(121, "a", 100);
    assert_eq!((steps(0).len(), board.members("hour")), (43, 43), "those before step 100 are gone");
}
