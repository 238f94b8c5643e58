//! The last hour of all nodes that share a database or, without one, a Redis.
//!
//! What a node has written of a step does not change any more, so its sum over all nodes is kept, with the number of records
//! in it. A reading counts the records of each step, and reads only those steps that have others: the newest ones, and those
//! of which a node has written late.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate::{Clock, Nanos};
use tidegate_database::{HistoryRecord, KeptSteps};
use tidegate_policy::RuleSet;
use tidegate_redis::{KeptFleetSteps, ToldByNode};

use super::FRESH;
use super::figures::{Figures, tenant_of};
use super::fleet::{Away, Incomplete};
use super::last_hour::{HistoryStep, STEP_SECS, STEPS};
use crate::control::ControlPlane;
use crate::node::Node;

/// How long a step is, and how many are kept.
const KEPT: KeptSteps = KeptSteps { step_millis: STEP_SECS * 1_000, count: STEPS as u64 };
/// The same for Redis.
const KEPT_ON_REDIS: KeptFleetSteps = KeptFleetSteps { step_millis: KEPT.step_millis, count: KEPT.count };
/// How many steps are read at once.
const STEPS_AT_ONCE: usize = 10;
/// How many limits the sum of a step names.
const LIMITS_MAX: usize = 1_000;

/// The last hour of all nodes.
#[derive(Debug, Default)]
pub(super) struct Hour {
    /// Oldest first. A step that goes on has this node's figures only.
    pub(super) steps: Vec<HistoryStep>,
    /// What is missing, and why.
    pub(super) incomplete: Incomplete,
}

/// The hour as it was read last. Whoever asks meanwhile waits for the one who reads it.
#[derive(Debug, Default)]
pub(super) struct HourCache(tokio::sync::Mutex<KnownHour>);

#[derive(Debug, Default)]
struct KnownHour {
    /// What others have written of each step.
    steps: BTreeMap<u64, KnownStep>,
    answer: Option<(Nanos, Arc<Hour>)>,
}

/// What is known of a step.
#[derive(Debug)]
struct KnownStep {
    /// Of how many records.
    records: u64,
    /// The sum of those that this process has not written; `None` if there are no others.
    figures: Option<Arc<Figures>>,
}

/// Writes the steps for the other nodes that are not written yet, oldest first. Those that cannot be written stay.
pub(super) async fn write_steps(node: &Node) {
    let Some(control) = node.control() else { return };
    let (Some(id), glance) = (control.node_id(), control.glance()) else { return };
    let writer = glance.writer(node, id);
    loop {
        let Some(step) = glance.unwritten().front().cloned() else { return };
        if let Err(error) = write(node, control, &writer, &step).await {
            tracing::debug!(error, "a step of the last hour is not written yet");
            return;
        }
        let mut unwritten = glance.unwritten();
        if unwritten.front().is_some_and(|first| first.number == step.number) {
            unwritten.pop_front();
        }
    }
}

async fn write(node: &Node, control: &ControlPlane, writer: &str, step: &HistoryStep) -> Result<(), String> {
    let text = serde_json::to_string(&step.figures).map_err(|error| error.to_string())?;
    match (control.database(), node.shared()) {
        (Some(database), _) => {
            let record = HistoryRecord { node: writer.to_owned(), step: step.number, figures: text };
            database.keep_history(&record, KEPT).await.map_err(|error| error.to_string())
        }
        (None, Some(shared)) => {
            let told = ToldByNode { id: writer.to_owned(), text: text.into_bytes() };
            let kept = shared.store.keep_step(step.number, &told, KEPT_ON_REDIS).await;
            kept.map_err(|error| error.to_string())
        }
        (None, None) => Ok(()),
    }
}

/// The last hour of all nodes. While the database or Redis does not answer, of other nodes what is known.
pub(super) async fn last_hour(node: &Node, control: &ControlPlane) -> Arc<Hour> {
    let mut known = control.glance().hour.0.lock().await;
    let is_fresh = |read: Nanos| node.clock().now().saturating_sub(read) < FRESH;
    if let Some((_, hour)) = known.answer.as_ref().filter(|(read, _)| is_fresh(*read)) {
        return Arc::clone(hour);
    }
    let mut incomplete = Incomplete::new();
    if let Err(away) = catch_up(node, control, &mut known.steps).await {
        incomplete.extend([away.note("steps of other nodes may be missing")]);
        let first = HistoryStep::at(node.clock().wall()).saturating_sub(STEPS as u64);
        known.steps.retain(|number, _| *number >= first);
    }
    let others: Vec<(u64, Arc<Figures>)> =
        known.steps.iter().filter_map(|(number, step)| Some((*number, step.figures.clone()?))).collect();
    let own: Vec<HistoryStep> = control.glance().last_hour().steps().cloned().collect();
    let hour = control.run_own(move || Hour { steps: joined(others, own), incomplete });
    let hour = Arc::new(hour.await.unwrap_or_default());
    known.answer = Some((node.clock().now(), Arc::clone(&hour)));
    hour
}

fn joined(others: Vec<(u64, Arc<Figures>)>, own: Vec<HistoryStep>) -> Vec<HistoryStep> {
    let mut sums: BTreeMap<u64, Figures> =
        others.into_iter().map(|(number, figures)| (number, Figures::clone(&figures))).collect();
    for step in own {
        sums.entry(step.number).or_default().add(&step.figures);
    }
    sums.into_iter().map(|(number, figures)| HistoryStep { number, figures }).collect()
}

/// Reads the steps of which there are other records than those that are known.
async fn catch_up(
    node: &Node,
    control: &ControlPlane,
    known: &mut BTreeMap<u64, KnownStep>,
) -> Result<(), Away> {
    let counts = counts(node, control).await?;
    known.retain(|number, _| counts.contains_key(number));
    let is_known = |number: u64, records: u64| known.get(&number).is_some_and(|step| step.records == records);
    let changed: Vec<u64> = counts
        .iter()
        .filter(|(number, records)| !is_known(**number, **records))
        .map(|(number, _)| *number)
        .collect();
    let own = control.node_id().map(|id| control.glance().writer(node, id)).unwrap_or_default();
    for (first, last) in ranges(&changed) {
        let records = records(node, control, first, last).await?;
        let (rules, own) = (node.limiter().rules(), own.clone());
        let Some(read) = control.run_own(move || summed(records, &own, &rules)).await else { continue };
        for (number, mut step) in read {
            // Not fewer than were counted, even if they did not all fit into what was read: else they would be read each time.
            step.records = step.records.max(counts.get(&number).copied().unwrap_or_default());
            known.insert(number, step);
        }
    }
    Ok(())
}

/// The first and the last of neighbours in an ordered list, few enough to be read at once.
fn ranges(numbers: &[u64]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((first, last)) if *last + 1 == number && number - *first < STEPS_AT_ONCE as u64 => {
                *last = number;
            }
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

/// Adds up the records of each step. One of another version of Tidegate may have other figures, which are left out.
fn summed(records: Vec<HistoryRecord>, own: &str, rules: &RuleSet) -> BTreeMap<u64, KnownStep> {
    let mut sums: BTreeMap<u64, (u64, Option<Figures>)> = BTreeMap::new();
    for record in records {
        let (count, sum) = sums.entry(record.step).or_default();
        *count += 1;
        // What this process knows itself is newer than what it has written.
        if record.node != own
            && let Ok(figures) = serde_json::from_str::<Figures>(&record.figures)
        {
            sum.get_or_insert_default().add(&figures.normalized());
        }
    }
    let step = |(number, (records, mut sum)): (u64, (u64, Option<Figures>))| {
        sum.iter_mut().for_each(|sum| sum.cut_limits(LIMITS_MAX, |name| tenant_of(rules, name)));
        (number, KnownStep { records, figures: sum.map(Arc::new) })
    };
    sums.into_iter().map(step).collect()
}

/// How many records there are of each step.
async fn counts(node: &Node, control: &ControlPlane) -> Result<BTreeMap<u64, u64>, Away> {
    match (control.database(), node.shared()) {
        (Some(_), _) if control.database_problem().is_some() => Err(Away::Database),
        (Some(database), _) => database.history_counts(KEPT).await.map_err(|_| Away::Database),
        (None, Some(shared)) => {
            let counts = shared.store.step_counts(KEPT_ON_REDIS).await.map_err(|_| Away::Store)?;
            Ok(counts.into_iter().collect())
        }
        (None, None) => Ok(BTreeMap::new()),
    }
}

/// What nodes have written of some steps.
async fn records(
    node: &Node,
    control: &ControlPlane,
    first: u64,
    last: u64,
) -> Result<Vec<HistoryRecord>, Away> {
    match (control.database(), node.shared()) {
        (Some(database), _) => database.history_between(first, last).await.map_err(|_| Away::Database),
        (None, Some(shared)) => {
            let steps = shared.store.steps(first, last).await.map_err(|_| Away::Store)?;
            let record = |(told, step): (ToldByNode, u64)| HistoryRecord {
                node: told.id,
                step,
                figures: String::from_utf8(told.text).unwrap_or_default(),
            };
            Ok(steps.into_iter().map(record).collect())
        }
        (None, None) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_at_once_and_not_too_many() {
        assert_eq!(ranges(&[]), []);
        assert_eq!(ranges(&[5]), [(5, 5)]);
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), [(1, 3), (7, 7), (9, 10)]);
        let many: Vec<u64> = (100..125).collect();
        assert_eq!(ranges(&many), [(100, 109), (110, 119), (120, 124)]);
    }

    #[test]
    fn records_of_others_are_summed_and_own_ones_are_only_counted() {
        let figures = |allowed| Figures { allowed, ..Figures::default() };
        let record = |node: &str, step, allowed| HistoryRecord {
            node: node.to_owned(),
            step,
            figures: serde_json::to_string(&figures(allowed)).expect("it is JSON"),
        };
        let unreadable = HistoryRecord { figures: "of a newer version".to_owned(), ..record("c", 7, 0) };
        // Another process of the same node has written as `a 1`.
        let records = vec![
            record("a 1", 7, 1),
            record("a 2", 7, 10),
            record("b 1", 7, 100),
            unreadable,
            record("a 2", 8, 5),
        ];
        let sums = summed(records, "a 2", &RuleSet::default());
        let of = |number: u64| {
            let step = &sums[&number];
            (step.records, step.figures.as_ref().map(|sum| sum.allowed))
        };
        assert_eq!((of(7), of(8)), ((4, Some(101)), (1, None)));
        let others =
            sums.iter().filter_map(|(number, step)| Some((*number, step.figures.clone()?))).collect();
        let own = [7, 9].map(|number| HistoryStep { number, figures: figures(1_000) });
        let hour = joined(others, own.to_vec());
        let shown: Vec<(u64, u64)> = hour.iter().map(|step| (step.number, step.figures.allowed)).collect();
        assert_eq!(shown, [(7, 1_101), (9, 1_000)]);
    }
}
