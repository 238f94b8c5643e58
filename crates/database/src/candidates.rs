//! Candidates: drafts of the policy that nodes try out beside the policy in force, and what the nodes find. What they
//! find is a document that this crate does not read.

use crate::answers::{self, NewAnswer};
use crate::audit::{self, AuditEntry};
use crate::session::{SqlRow, SqlSession, values};
use crate::versions::text::{pack, unpack};
use crate::{Database, DatabaseError, UnixMillis};

/// A candidate without its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CandidateHead {
    /// Its id, which is no secret.
    pub id: String,
    /// A name for people.
    pub name: Option<String>,
    /// What its document probably does not mean, as JSON.
    pub warnings: String,
    /// When it was added.
    pub created_at: UnixMillis,
    /// When it ends, or has ended.
    pub ends_at: UnixMillis,
    /// The version that it has become.
    pub promoted: Option<u64>,
    /// Who added it.
    pub author: String,
    /// Why.
    pub reason: Option<String>,
}

/// A candidate to add.
#[derive(Debug, Default)]
pub struct NewCandidate {
    /// All but its text.
    pub head: CandidateHead,
    /// The document.
    pub text: String,
    /// How many may run at once.
    pub most_running: u64,
    /// How many are kept, with those that have ended: the oldest of these are removed.
    pub most: u64,
    /// The audit entry about it.
    pub entry: AuditEntry,
    /// The answer to remember.
    pub answer: Option<NewAnswer>,
}

/// What became of a new candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateAddition {
    /// It is added.
    Added,
    /// Too many run.
    Full,
    /// The idempotency key was used before.
    KeyUsed,
}

/// What a run of a node has found. A run is from the start of a candidate on a node to its end there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CandidateRun {
    /// The candidate.
    pub candidate: String,
    /// The id of the run.
    pub run: String,
    /// The name of the node.
    pub node: String,
    /// When the node wrote this.
    pub seen: UnixMillis,
    /// What it has found, as the node writes it.
    pub found: String,
}

/// What a run has counted in a step of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CandidateStep {
    /// The number of the step.
    pub step: u64,
    /// The counts, as the node writes them.
    pub counts: String,
}

/// The most runs of a candidate. Those of nodes that start again all the time are not written beyond it.
pub const CANDIDATE_RUNS_MAX: u64 = 512;

/// The most steps that are read at once: a day of thirty nodes.
const STEPS_MAX: i64 = 100_000;

const COUNT_RUNNING: &str = "SELECT count(*) FROM candidates WHERE ends_at > $1";
/// Those that have ended, but for the newest ones.
const CROWD: &str = "DELETE FROM candidates WHERE ends_at <= $1 AND id NOT IN \
     (SELECT id FROM candidates ORDER BY created_at DESC, id LIMIT $2)";
const ADD: &str = "INSERT INTO candidates (id, name, text, warnings, created_at, ends_at, author, reason) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const HEADS: &str = "SELECT id, name, warnings, created_at, ends_at, promoted, author, reason FROM candidates \
     ORDER BY created_at DESC, id";
const ONE: &str = "SELECT * FROM candidates WHERE id = $1";
const RUNNING: &str = "SELECT id, ends_at FROM candidates WHERE ends_at > $1 ORDER BY created_at, id";
const PROMOTE: &str = "UPDATE candidates SET ends_at = CASE WHEN ends_at < $1 THEN ends_at ELSE $1 END, promoted = $2 \
     WHERE id = $3 AND promoted IS NULL";
const REMOVE: &str = "DELETE FROM candidates WHERE id = $1";
const IS_KNOWN: &str = "SELECT count(*) FROM candidates WHERE id = $1";
const COUNT_RUNS: &str = "SELECT count(*) FROM candidate_runs WHERE candidate = $1 AND run <> $2";
const WRITE_RUN: &str = "INSERT INTO candidate_runs (candidate, run, node, seen, found) VALUES ($1, $2, $3, $4, $5) \
     ON CONFLICT (candidate, run) DO UPDATE SET seen = excluded.seen, found = excluded.found";
const WRITE_STEP: &str = "INSERT INTO candidate_steps (candidate, step, run, counts) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (candidate, step, run) DO UPDATE SET counts = excluded.counts";
const PURGE_STEPS: &str = "DELETE FROM candidate_steps WHERE candidate = $1 AND step < $2";
const RUNS: &str = "SELECT * FROM candidate_runs WHERE candidate = $1 ORDER BY node, run";
const STEPS: &str =
    "SELECT step, counts FROM candidate_steps WHERE candidate = $1 ORDER BY step DESC LIMIT $2";

impl Database {
    /// Adds a candidate, with the audit entry about it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn add_candidate(&self, new: NewCandidate) -> Result<CandidateAddition, DatabaseError> {
        let NewCandidate { head, text, most_running, most, entry, answer } = new;
        let packed = pack(&text);
        self.within_deadline(async {
            let mut session = self.writer().await?;
            let chain = audit::lock_head(&mut session).await?;
            if let Some(answer) = answer
                && !answers::store(&mut session, answer, 0, head.created_at).await?
            {
                session.rollback().await?;
                return Ok(CandidateAddition::KeyUsed);
            }
            if session.value::<u64>(COUNT_RUNNING, values![head.created_at]).await? >= most_running {
                session.rollback().await?;
                return Ok(CandidateAddition::Full);
            }
            session.execute(CROWD, values![head.created_at, most.saturating_sub(1)]).await?;
            let values = values![
                &head.id,
                &head.name,
                packed.as_slice(),
                &head.warnings,
                head.created_at,
                head.ends_at,
                &head.author,
                &head.reason,
            ];
            session.execute(ADD, values).await?;
            audit::append_after(&mut session, chain, vec![entry]).await?;
            session.commit().await?;
            Ok(CandidateAddition::Added)
        })
        .await
    }

    /// All candidates, newest first, with those that have ended.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn candidates(&self) -> Result<Vec<CandidateHead>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let rows = session.rows(HEADS, vec![]).await?;
            session.release();
            rows.iter().map(read_head).collect()
        })
        .await
    }

    /// A candidate with its text.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn candidate(&self, id: &str) -> Result<Option<(CandidateHead, String)>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let row = session.row(ONE, values![id]).await?;
            session.release();
            let Some(row) = row else { return Ok(None) };
            Ok(Some((read_head(&row)?, unpack(&row.get::<Vec<u8>>("text")?)?)))
        })
        .await
    }

    /// The ids of the candidates that run at `now`, and when they end, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn running_candidates(
        &self,
        now: UnixMillis,
    ) -> Result<Vec<(String, UnixMillis)>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let rows = session.rows(RUNNING, values![now]).await?;
            session.release();
            rows.iter().map(|row| Ok((row.get("id")?, row.get("ends_at")?))).collect()
        })
        .await
    }

    /// Ends a candidate that has become a version. One that has ended by itself keeps its end, and one that has become a
    /// version before stays as it is.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn promote_candidate(
        &self,
        id: &str,
        promoted: u64,
        now: UnixMillis,
    ) -> Result<(), DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            session.execute(PROMOTE, values![now, promoted, id]).await?;
            session.commit().await
        })
        .await
    }

    /// Removes a candidate and what was found of it, with the audit entry about it. False: there is none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn remove_candidate(&self, id: &str, entry: AuditEntry) -> Result<bool, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            let chain = audit::lock_head(&mut session).await?;
            if session.execute(REMOVE, values![id]).await? == 0 {
                session.rollback().await?;
                return Ok(false);
            }
            audit::append_after(&mut session, chain, vec![entry]).await?;
            session.commit().await?;
            Ok(true)
        })
        .await
    }

    /// Writes what a run has found so far, its newest steps, and forgets steps before `oldest`. What is found of a
    /// candidate that was removed, and of one that has too many runs, is not written.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn write_candidate_run(
        &self,
        run: &CandidateRun,
        steps: &[CandidateStep],
        oldest: u64,
    ) -> Result<(), DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            if !may_write(&mut session, run).await? {
                return session.rollback().await;
            }
            let values = values![&run.candidate, &run.run, &run.node, run.seen, &run.found];
            session.execute(WRITE_RUN, values).await?;
            for CandidateStep { step, counts } in steps {
                session.execute(WRITE_STEP, values![&run.candidate, *step, &run.run, counts]).await?;
            }
            session.execute(PURGE_STEPS, values![&run.candidate, oldest]).await?;
            session.commit().await
        })
        .await
    }

    /// What all runs of a candidate have found, and what they counted by steps, newest step first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn candidate_runs(
        &self,
        id: &str,
    ) -> Result<(Vec<CandidateRun>, Vec<CandidateStep>), DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let runs = session.rows(RUNS, values![id]).await?;
            let steps = session.rows(STEPS, values![id, STEPS_MAX]).await?;
            session.release();
            let runs = runs.iter().map(read_run).collect::<Result<_, _>>()?;
            let step = |row: &SqlRow| {
                Ok::<_, DatabaseError>(CandidateStep { step: row.get("step")?, counts: row.get("counts")? })
            };
            Ok((runs, steps.iter().map(step).collect::<Result<_, _>>()?))
        })
        .await
    }
}

async fn may_write(session: &mut SqlSession, run: &CandidateRun) -> Result<bool, DatabaseError> {
    if session.value::<u64>(IS_KNOWN, values![&run.candidate]).await? == 0 {
        return Ok(false);
    }
    Ok(session.value::<u64>(COUNT_RUNS, values![&run.candidate, &run.run]).await? < CANDIDATE_RUNS_MAX)
}

fn read_head(row: &SqlRow) -> Result<CandidateHead, DatabaseError> {
    Ok(CandidateHead {
        id: row.get("id")?,
        name: row.get("name")?,
        warnings: row.get("warnings")?,
        created_at: row.get("created_at")?,
        ends_at: row.get("ends_at")?,
        promoted: row.get("promoted")?,
        author: row.get("author")?,
        reason: row.get("reason")?,
    })
}

fn read_run(row: &SqlRow) -> Result<CandidateRun, DatabaseError> {
    Ok(CandidateRun {
        candidate: row.get("candidate")?,
        run: row.get("run")?,
        node: row.get("node")?,
        seen: row.get("seen")?,
        found: row.get("found")?,
    })
}
