//! Publishing a version: the version, the rules for people to read, the audit entry and the remembered answer are one
//! transaction.

use sha2::{Digest, Sha256};

use super::rules::{self, RuleRow};
use super::text;
use crate::answers::{self, NewAnswer};
use crate::audit::{self, AuditEntry};
use crate::changes;
use crate::session::{SqlSession, values};
use crate::tokens;
use crate::{Database, PublishError, UnixMillis};

/// A version to publish.
#[derive(Debug, Default)]
pub struct NewVersion {
    /// The version that the change was made on; another one being active is an error. `Some(0)`: there is none
    /// yet. `None`: whatever is active.
    pub expected: Option<u64>,
    /// The whole document as written.
    pub text: String,
    /// Who makes it.
    pub author: String,
    /// Why.
    pub reason: Option<String>,
    /// The warnings that the policy has, as a JSON array.
    pub warnings: String,
    /// The instant.
    pub time: UnixMillis,
    /// The limits of the document, for people to read.
    pub rules: Vec<RuleRow>,
    /// What the audit says about the change; `policy_version` is filled in.
    pub entry: AuditEntry,
    /// What else the audit says about it; `policy_version` is filled in there too.
    pub more_entries: Vec<AuditEntry>,
    /// What is to be answered when the request is repeated.
    pub answer: Option<NewAnswer>,
    /// The tenants that the document no longer has. Their tokens are revoked: whoever creates a tenant of the same name
    /// later is somebody else.
    pub removed_tenants: Vec<String>,
}

/// What became of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The number of the active version.
    pub version: u64,
    /// False when the text was that of the active version already, which then stays as it is.
    pub is_new: bool,
}

/// The fewest versions of which the text is kept.
const FEWEST_KEPT: u64 = 1_000;

const ACTIVE: &str = "SELECT version, sha256 FROM policy_versions ORDER BY version DESC LIMIT 1";
const INSERT: &str = "INSERT INTO policy_versions (version, parent, sha256, author, reason, time, warnings, text) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const DROP_OLD_TEXTS: &str =
    "UPDATE policy_versions SET text = NULL WHERE text IS NOT NULL AND version <= $1";

impl Database {
    /// Publishes a version, and tells the other nodes.
    ///
    /// # Errors
    /// When another version is active than expected, when the key of the answer was used meanwhile, or when the database
    /// fails; nothing is written then. After [`Unavailable`](crate::DatabaseError::Unavailable) it is not known whether it
    /// was written: publishing it again is safe.
    pub async fn publish(&self, new: NewVersion) -> Result<Publication, PublishError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            let result = publish(&mut session, new, self.options.versions_kept.max(FEWEST_KEPT)).await;
            match result {
                Ok(publication) => {
                    session.commit().await?;
                    Ok(publication)
                }
                Err(refused @ (PublishError::Stale { .. } | PublishError::KeyUsed)) => {
                    session.rollback().await?;
                    Err(refused)
                }
                Err(error) => Err(error),
            }
        })
        .await
    }
}

async fn publish(session: &mut SqlSession, new: NewVersion, kept: u64) -> Result<Publication, PublishError> {
    // Whoever publishes holds the head of the audit first, so that one at a time reads the active version.
    let head = audit::lock_head(session).await?;
    let active = match session.row(ACTIVE, vec![]).await? {
        Some(row) => Some((row.get::<u64>("version")?, row.get::<[u8; 32]>("sha256")?)),
        None => None,
    };
    let parent = active.map(|(version, _)| version);
    if new.expected.is_some_and(|expected| expected != parent.unwrap_or(0)) {
        return Err(PublishError::Stale { active: parent });
    }
    let sha256: [u8; 32] = Sha256::digest(new.text.as_bytes()).into();
    let publication = match active {
        Some((version, published)) if published == sha256 => Publication { version, is_new: false },
        _ => Publication { version: parent.unwrap_or(0) + 1, is_new: true },
    };
    let version = publication.version;
    if let Some(answer) = new.answer
        && !answers::store(session, answer, version, new.time).await?
    {
        return Err(PublishError::KeyUsed);
    }
    if !publication.is_new {
        return Ok(publication);
    }
    let values = values![
        version,
        parent,
        &sha256,
        &new.author,
        &new.reason,
        new.time,
        &new.warnings,
        text::pack(&new.text).as_slice(),
    ];
    session.execute(INSERT, values).await?;
    if let Some(oldest) = version.checked_sub(kept) {
        session.execute(DROP_OLD_TEXTS, values![oldest]).await?;
    }
    rules::project(session, new.rules, new.time).await?;
    let mut entries = vec![new.entry];
    entries.extend(new.more_entries);
    entries.iter_mut().for_each(|entry| entry.policy_version = Some(version));
    entries.extend(tokens::revoke_of_tenants(session, &new.removed_tenants, &new.author, new.time).await?);
    audit::append_after(session, head, entries).await?;
    changes::tell(session, &version.to_string()).await?;
    Ok(publication)
}
