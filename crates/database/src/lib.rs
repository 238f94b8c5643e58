#![doc = include_str!("../README.md")]

mod answers;
mod audit;
mod backup;
mod candidates;
mod changes;
mod database;
mod error;
mod followed;
mod history;
mod leases;
mod live;
mod nodes;
mod open;
mod random;
mod restore;
mod session;
mod sessions;
mod time;
mod tokens;
mod trust;
mod versions;

pub use answers::{ANSWERS_MAX, AnswerBody, ChangeAnswer, NewAnswer, Remembered, RememberedAnswer};
pub use audit::{AuditEntry, AuditRow, BrokenChain, ChainReport, PersonalData};
pub use candidates::{
    CANDIDATE_RUNS_MAX, CandidateAddition, CandidateHead, CandidateRun, CandidateStep, NewCandidate,
};
pub use changes::{PolicyChanges, VersionChange};
pub use database::{Database, DatabaseKind, DatabaseOptions};
pub use error::{DatabaseError, PublishError};
pub use followed::LiveHead;
pub use history::page::{PageRequest, Paged};
pub use history::{HistoryFilter, HistoryRow, RecordBatch, Violation, ViolationRow};
pub use live::{LiveChange, LiveChangeOutcome, LivePage, LiveRow};
pub use nodes::{HISTORY_RECORDS_MAX, HistoryRecord, KeptSteps, NodeReport};
pub use sessions::{BrowserSession, SESSIONS_PER_TOKEN};
pub use time::UnixMillis;
pub use tokens::{StoredToken, TOKENS_MAX, TokenRevocation};
pub use trust::{TrustChange, TrustChangeOutcome, TrustEdit, TrustPage, TrustRow};
pub use versions::{NewVersion, PolicyVersion, Publication, RuleRow, VersionHead, VersionMark};
