use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn found(limit: &str, key: &str, count: u64) -> FoundDifferences {
    FoundDifferences {
        by_limit: BTreeMap::from([(limit.to_owned(), count)]),
        keys: vec![FoundKey { limit: limit.to_owned(), key: key.to_owned(), count, error: 0 }],
        ..FoundDifferences::default()
    }
}

#[test]
fn what_nodes_find_is_added_up_and_stays_bounded() {
    let run = |node: &str, found: &FoundOnNode| CandidateRun {
        node: node.to_owned(),
        found: serde_json::to_string(found).unwrap(),
        ..CandidateRun::default()
    };
    let mut runs: Vec<CandidateRun> = (0..2_000)
        .map(|n| {
            let newly_denied = found(&format!("limit-{n}"), &n.to_string(), n);
            run("a", &FoundOnNode { newly_denied, ..FoundOnNode::default() })
        })
        .collect();
    let counts = FoundCounts { newly_denied: 5, both_admit: 1, ..FoundCounts::default() };
    let newly_denied = found("limit-1999", "1999", 5);
    runs.push(run("b", &FoundOnNode { totals: counts, newly_denied, ..FoundOnNode::default() }));
    runs.push(CandidateRun { found: "written by a newer version".to_owned(), ..CandidateRun::default() });
    let step =
        |step, counts: &FoundCounts| CandidateStep { step, counts: serde_json::to_string(counts).unwrap() };
    let report = CandidateReport::new("c", runs, &[step(3, &counts), step(2, &counts), step(3, &counts)]);
    assert_eq!((report.totals, report.nodes.len()), (counts, 2_001));
    let differing = &report.newly_denied;
    assert_eq!((differing.by_limit.len(), differing.keys.len()), (LIMITS_MAX, KEYS_MAX));
    assert_eq!(differing.by_limit["limit-1999"], 2_004);
    let all = differing.by_limit.values().sum::<u64>() + differing.by_others;
    assert_eq!(all, (0..2_000).sum::<u64>() + 5);
    assert_eq!(differing.keys[0].key, "1999");
    let steps: Vec<(&str, u64)> =
        report.steps.iter().map(|step| (&*step.time, step.counts.newly_denied)).collect();
    assert_eq!(steps, [("1970-01-01T00:01:00.000Z", 5), ("1970-01-01T00:01:30.000Z", 10)]);
}

/// What a run says of how often it has found each of these keys.
fn run_of(exact: &HashMap<u8, u64>, index: usize) -> CandidateRun {
    let of = |(key, count): (&u8, &u64)| DifferingKey {
        rule: format!("limit-{}", key % 3).into(),
        key: key.to_string(),
        count: *count,
        error: 0,
    };
    let mut keys: Vec<DifferingKey> = exact.iter().map(of).collect();
    keys.sort_by_key(|key| (Reverse(key.count), key.key.clone()));
    let others_at_most = keys.get(64).map_or(0, |cut| cut.count);
    keys.truncate(64);
    let by_rule = BTreeMap::from([(format!("limit-{index}").into_boxed_str(), index as u64)]);
    let newly_denied = DifferingDecisions { keys, others_at_most, by_rule, ..DifferingDecisions::default() };
    let found = FoundOnNode::of(&ComparisonSnapshot { newly_denied, ..ComparisonSnapshot::default() });
    CandidateRun { found: serde_json::to_string(&found).unwrap(), ..CandidateRun::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_sum_is_bounded_by_the_truth_and_does_not_depend_on_the_order_of_runs(
        (runs, shuffled) in prop::collection::vec(prop::collection::hash_map(0_u8..120, 1_u64..1_000, 0..110), 0..6)
            .prop_flat_map(|runs| {
                let order: Vec<usize> = (0..runs.len()).collect();
                (Just(runs), Just(order).prop_shuffle())
            }),
    ) {
        let written: Vec<CandidateRun> =
            runs.iter().enumerate().map(|(index, exact)| run_of(exact, index)).collect();
        let again = shuffled.iter().map(|&index| written[index].clone()).collect();
        let sum = CandidateReport::new("c", written, &[]).newly_denied;
        prop_assert_eq!(&sum, &CandidateReport::new("c", again, &[]).newly_denied);
        prop_assert!(sum.keys.len() <= KEYS_MAX && sum.keys.is_sorted_by_key(|key| Reverse(key.count)));
        for key in 0..120 {
            let exact: u64 = runs.iter().filter_map(|run| run.get(&key)).sum();
            let range = match sum.keys.iter().find(|found| found.key == key.to_string()) {
                Some(found) => found.count - found.error..=found.count,
                None => 0..=sum.others_at_most,
            };
            prop_assert!(range.contains(&exact), "{}: {} is not in {:?}", key, exact, range);
        }
    }
}
