//! Follows the candidates in the database: starts new ones on this node, ends those that are over, and writes what they
//! find.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Clock, Nanos};
use tidegate_database::{CandidateRun, CandidateStep, Database, DatabaseError, UnixMillis};

use super::running::{RunningCandidate, compile};
use super::{CandidateBoard, FoundInRun};
use crate::bounds::CANDIDATE_STEPS_MAX;
use crate::control::carried::FollowLog;
use crate::control::glance::last_hour::HistoryStep;
use crate::control::live::changing::new_live_id;
use crate::control::startup::unix_millis;
use crate::node::Node;

/// How often the database is asked which candidates run: one small read.
const POLL_PAUSE: Duration = Duration::from_millis(250);

/// How often what was found is written.
const WRITE_PAUSE: Nanos = Nanos::from_secs(2);

/// Follows the candidates until the runtime ends.
pub(in crate::control) async fn follow(node: Arc<Node>) {
    let mut written = node.clock().now();
    let mut log = FollowLog::new(
        "candidates cannot be followed; those that are known run on",
        "candidates can be followed again",
    );
    loop {
        let mut done = catch_up(&node).await;
        let now = node.clock().now();
        if now.saturating_sub(written) >= WRITE_PAUSE {
            written = now;
            done = done.and(write_found(&node).await);
        }
        log.note(done);
        tokio::time::sleep(POLL_PAUSE).await;
    }
}

/// Starts and ends candidates on this node. While the database does not answer, those that are known run until their
/// end.
pub(crate) async fn catch_up(node: &Arc<Node>) -> Result<(), DatabaseError> {
    let Some((control, database)) = node.control().and_then(|control| Some((control, control.database()?)))
    else {
        return Ok(());
    };
    let board = control.candidates();
    let _turn = board.catching_up.lock().await;
    // First of all, so that they charge nothing any more, whatever becomes of what they have found.
    let now = unix_millis(node.clock().wall());
    end(node, board, |candidate| candidate.ends_at <= now);
    let known = database.running_candidates(now).await?;
    end(node, board, |candidate| !known.iter().any(|(id, _)| *id == candidate.id));
    let mut problem = None;
    for (id, ends_at) in &known {
        if board.running().iter().any(|candidate| candidate.id == *id) {
            continue;
        }
        match start(node, database, id, *ends_at).await {
            Ok(Some(candidate)) => {
                board.running().push(candidate);
                put_beside(node, board);
            }
            Ok(None) => {}
            Err(error) => problem = Some(error),
        }
    }
    let written = write_ended(node, database, board).await;
    problem.map_or(written, Err)
}

/// Ends candidates on this node. What they have found is kept until it is written.
fn end(node: &Node, board: &CandidateBoard, has_ended: impl Fn(&RunningCandidate) -> bool) {
    let mut ended: Vec<RunningCandidate> = board.running().extract_if(.., |one| has_ended(one)).collect();
    if !ended.is_empty() {
        put_beside(node, board);
        found(node, &mut ended).into_iter().for_each(|found| board.keep_ended(found));
    }
}

async fn start(
    node: &Arc<Node>,
    database: &Database,
    id: &str,
    ends_at: UnixMillis,
) -> Result<Option<RunningCandidate>, DatabaseError> {
    let Some((_, text)) = database.candidate(id).await? else { return Ok(None) };
    let (Some(control), Ok(run)) = (node.control(), new_live_id()) else { return Ok(None) };
    let (compiling, name) = (Arc::clone(node), id.to_owned());
    let compiled = control.run_own(move || compile(&compiling, &name, &text)).await;
    let compiled = compiled.unwrap_or_else(|| Err("compiling it failed unexpectedly".to_owned()));
    match &compiled {
        Ok(_) => tracing::info!(candidate = id, "a candidate decides beside the policy"),
        Err(problem) => tracing::error!(candidate = id, problem, "a candidate cannot run on this node"),
    }
    Ok(Some(RunningCandidate::new(id.to_owned(), ends_at, run, compiled.map(Arc::new))))
}

fn put_beside(node: &Node, board: &CandidateBoard) {
    let running = board.running();
    let candidates: Vec<_> = running.iter().filter_map(|one| one.candidate.clone().ok()).collect();
    node.limiter().set_candidates(&candidates);
}

/// Writes what the candidates on this node have found so far.
pub(crate) async fn write_found(node: &Arc<Node>) -> Result<(), DatabaseError> {
    let Some((control, database)) = node.control().and_then(|control| Some((control, control.database()?)))
    else {
        return Ok(());
    };
    let board = control.candidates();
    let _turn = board.catching_up.lock().await;
    let mut written = write_ended(node, database, board).await;
    let found = found(node, &mut board.running());
    for (run, steps) in found {
        match write(node, database, &run, &steps).await {
            Ok(()) => board.running().iter_mut().for_each(|candidate| candidate.note_written(&run)),
            Err(error) => written = Err(error),
        }
    }
    written
}

/// Writes what candidates have found that have ended here, as far as that is possible now.
async fn write_ended(node: &Node, database: &Database, board: &CandidateBoard) -> Result<(), DatabaseError> {
    while let Some((run, steps)) = board.take_ended() {
        if let Err(error) = write(node, database, &run, &steps).await {
            // Behind the others, so that one that can never be written does not keep those.
            board.keep_ended((run, steps));
            return Err(error);
        }
    }
    Ok(())
}

fn found(node: &Node, candidates: &mut [RunningCandidate]) -> Vec<FoundInRun> {
    let name = node.control().and_then(|control| control.node_id()).unwrap_or_default();
    let wall = node.clock().wall();
    candidates.iter_mut().filter_map(|candidate| candidate.unwritten(name, wall)).collect()
}

async fn write(
    node: &Node,
    database: &Database,
    run: &CandidateRun,
    steps: &[CandidateStep],
) -> Result<(), DatabaseError> {
    let oldest = HistoryStep::at(node.clock().wall()).saturating_sub(CANDIDATE_STEPS_MAX);
    database.write_candidate_run(run, steps, oldest).await
}
