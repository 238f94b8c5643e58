//! Candidates: how many there are, what nodes find, and what is forgotten.

use tidegate_database::{
    CANDIDATE_RUNS_MAX, CandidateAddition, CandidateHead, CandidateRun, CandidateStep, HistoryFilter,
    NewAnswer, NewCandidate, PageRequest,
};

use crate::support::{TestDatabase, at, entry};

on_both!(
    a_candidate_is_read_as_it_was_added,
    so_many_run_at_once_and_so_many_are_kept,
    what_runs_find_is_kept_until_the_candidate_is_removed,
    a_repeated_call_adds_nothing,
);

fn head(id: &str, created: i64, ends: i64) -> CandidateHead {
    CandidateHead {
        id: id.into(),
        name: Some("a name".into()),
        warnings: "[]".into(),
        created_at: at(created),
        ends_at: at(ends),
        promoted: None,
        author: "token:a".into(),
        reason: Some("why".into()),
    }
}

fn new(head: CandidateHead) -> NewCandidate {
    NewCandidate {
        head,
        text: "version: 1\nlimits: []\n".into(),
        most_running: 2,
        most: 3,
        entry: entry(1),
        answer: None,
    }
}

async fn add(test: &TestDatabase, head: CandidateHead) -> CandidateAddition {
    test.db.add_candidate(new(head)).await.unwrap()
}

async fn ids(test: &TestDatabase) -> Vec<String> {
    test.db.candidates().await.unwrap().into_iter().map(|head| head.id).collect()
}

async fn audited(test: &TestDatabase) -> usize {
    test.db.audit(&HistoryFilter::default(), &PageRequest::default()).await.unwrap().items.len()
}

async fn a_candidate_is_read_as_it_was_added(test: &TestDatabase) {
    assert_eq!(add(test, head("a", 1, 100)).await, CandidateAddition::Added);
    let text = "version: 1\nlimits: []\n".to_owned();
    assert_eq!(test.db.candidate("a").await.unwrap(), Some((head("a", 1, 100), text)));
    assert_eq!(test.db.candidate("b").await.unwrap(), None);
    assert_eq!(test.db.candidates().await.unwrap(), [head("a", 1, 100)]);
    assert_eq!(test.db.running_candidates(at(99)).await.unwrap(), [("a".to_owned(), at(100))]);
    assert_eq!(test.db.running_candidates(at(100)).await.unwrap(), []);

    test.db.promote_candidate("a", 8, at(50)).await.unwrap();
    let ended = CandidateHead { promoted: Some(8), ..head("a", 1, 50) };
    assert_eq!(test.db.candidates().await.unwrap(), std::slice::from_ref(&ended));
    test.db.promote_candidate("a", 9, at(60)).await.unwrap();
    assert_eq!(test.db.candidates().await.unwrap(), [ended], "it has become one version");
    assert_eq!(audited(test).await, 1);

    assert_eq!(add(test, head("b", 1, 100)).await, CandidateAddition::Added);
    test.db.promote_candidate("b", 9, at(200)).await.unwrap();
    let heads = test.db.candidates().await.unwrap();
    let promoted = CandidateHead { promoted: Some(9), ..head("b", 1, 100) };
    assert!(heads.contains(&promoted), "it had ended by itself: {heads:?}");
}

async fn so_many_run_at_once_and_so_many_are_kept(test: &TestDatabase) {
    for (id, created, ends) in [("a", 1, 10), ("b", 2, 100)] {
        assert_eq!(add(test, head(id, created, ends)).await, CandidateAddition::Added);
    }
    assert_eq!(add(test, head("c", 3, 100)).await, CandidateAddition::Full);
    assert_eq!(audited(test).await, 2, "what was not done is not in the audit");
    for (id, created, ends) in [("c", 11, 20), ("d", 21, 30), ("e", 31, 40)] {
        assert_eq!(add(test, head(id, created, ends)).await, CandidateAddition::Added, "{id}");
    }
    assert_eq!(ids(test).await, ["e", "d", "c", "b"], "the oldest that has ended is gone; `b` still runs");
}

async fn what_runs_find_is_kept_until_the_candidate_is_removed(test: &TestDatabase) {
    add(test, head("a", 1, 100)).await;
    let run = |run: &str, found: &str| CandidateRun {
        candidate: "a".into(),
        run: run.into(),
        node: "node:1".into(),
        seen: at(5),
        found: found.into(),
    };
    let step = |step, counts: &str| CandidateStep { step, counts: counts.into() };
    let write = async |run: &CandidateRun, steps: &[CandidateStep]| {
        test.db.write_candidate_run(run, steps, 2).await.unwrap();
    };
    write(&run("1", "{}"), &[step(1, "x"), step(2, "x")]).await;
    write(&run("2", "{}"), &[step(2, "y")]).await;
    write(&run("1", "{\"more\":1}"), &[step(2, "z"), step(3, "z")]).await;
    let (runs, mut steps) = test.db.candidate_runs("a").await.unwrap();
    assert_eq!(runs, [run("1", "{\"more\":1}"), run("2", "{}")]);
    steps.sort_by(|one, other| (one.step, &one.counts).cmp(&(other.step, &other.counts)));
    assert_eq!(steps, [step(2, "y"), step(2, "z"), step(3, "z")], "old steps are forgotten");

    for number in 2..CANDIDATE_RUNS_MAX + 5 {
        write(&run(&format!("more-{number}"), "{}"), &[]).await;
    }
    assert_eq!(test.db.candidate_runs("a").await.unwrap().0.len() as u64, CANDIDATE_RUNS_MAX);

    assert!(test.db.remove_candidate("a", entry(2)).await.unwrap());
    assert!(!test.db.remove_candidate("a", entry(3)).await.unwrap());
    assert_eq!(audited(test).await, 2);
    // A node that has not heard of it writes once more.
    write(&run("1", "{}"), &[step(4, "x")]).await;
    assert_eq!(test.db.candidate_runs("a").await.unwrap(), (vec![], vec![]));
}

async fn a_repeated_call_adds_nothing(test: &TestDatabase) {
    let answer = || NewAnswer {
        key_hash: [1; 32],
        request_hash: [2; 32],
        status: 201,
        body: Box::new(|_| "{}".to_owned()),
    };
    let with_key = |id| NewCandidate { answer: Some(answer()), ..new(head(id, 1, 100)) };
    assert_eq!(test.db.add_candidate(with_key("a")).await.unwrap(), CandidateAddition::Added);
    assert_eq!(test.db.add_candidate(with_key("b")).await.unwrap(), CandidateAddition::KeyUsed);
    assert_eq!(ids(test).await, ["a"]);
}
