//! Entries of the audit.

use crate::session::{SqlRow, SqlValue, stored_number, stored_text, values};
use crate::{DatabaseError, UnixMillis};

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditEntry {
    /// When it was written down.
    pub time: UnixMillis,
    /// What happened.
    pub event: String,
    /// How grave it is: info, warning, error.
    pub severity: String,
    /// The node that it happened on.
    pub node: Option<String>,
    /// The version of the policy in force, or the one that a change made.
    pub policy_version: Option<u64>,
    /// Who did it.
    pub actor: Option<String>,
    /// How often it happened.
    pub count: u64,
    /// When it happened first.
    pub first: UnixMillis,
    /// When it happened last.
    pub last: UnixMillis,
    /// The limit or the detector.
    pub limit_name: Option<String>,
    /// The limit's algorithm, or what was changed.
    pub kind: Option<String>,
    /// The route, or the path.
    pub endpoint: Option<String>,
    /// What was left in the bucket.
    pub remaining: Option<u64>,
    /// After how long a denied request may be repeated.
    pub retry_after_ms: Option<u64>,
    /// The trace of one of the requests.
    pub trace_id: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// What may tell who somebody is.
    pub personal: PersonalData,
}

/// What may tell who somebody is; all of it is gone after the erasure of the person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersonalData {
    /// The user.
    pub user_id: Option<String>,
    /// The client application.
    pub client: Option<String>,
    /// The address.
    pub ip: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// The key of the bucket or the detector.
    pub bucket_key: Option<String>,
    /// More, as JSON: for a change the difference that it makes.
    pub detail: Option<String>,
}

/// An entry of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Its number: the first is 1, and there are no gaps.
    pub seq: u64,
    /// What it says.
    pub entry: AuditEntry,
    /// The hash of the chain up to here.
    pub hash: [u8; 32],
    /// When the personal data were erased.
    pub erased_at: Option<UnixMillis>,
}

/// What the table has beside an [`AuditEntry`].
#[derive(Clone, Debug)]
pub(super) struct ChainLink {
    pub(super) seq: u64,
    /// About how much room the row takes.
    pub(super) bytes: u64,
    pub(super) person_salt: Option<Vec<u8>>,
    pub(super) person_hash: Vec<u8>,
    pub(super) hash: Vec<u8>,
}

/// What every row takes beside its texts: numbers, hashes, indexes.
const FIXED_BYTES: usize = 250;

/// All columns of the table, in the order of [`row_values`].
pub(crate) const COLUMNS: &str = "seq, time, event, severity, node, policy_version, actor, count, first_at, last_at, \
     limit_name, kind, endpoint, remaining, retry_after_ms, trace_id, reason, bytes, user_id, client, ip, tenant, \
     bucket_key, detail, person_salt, person_hash, hash";

impl AuditEntry {
    /// The entry with its values changed to what the tables can hold, so that the hash of what is read back is the same.
    pub(super) fn stored(self) -> AuditEntry {
        let text = |text: Option<String>| text.map(|text| stored_text(&text));
        let number = |number: u64| stored_number(number).unsigned_abs();
        AuditEntry {
            time: self.time,
            event: stored_text(&self.event),
            severity: stored_text(&self.severity),
            node: text(self.node),
            policy_version: self.policy_version.map(number),
            actor: text(self.actor),
            count: number(self.count),
            first: self.first,
            last: self.last,
            limit_name: text(self.limit_name),
            kind: text(self.kind),
            endpoint: text(self.endpoint),
            remaining: self.remaining.map(number),
            retry_after_ms: self.retry_after_ms.map(number),
            trace_id: text(self.trace_id),
            reason: text(self.reason),
            personal: PersonalData {
                user_id: text(self.personal.user_id),
                client: text(self.personal.client),
                ip: text(self.personal.ip),
                tenant: text(self.personal.tenant),
                bucket_key: text(self.personal.bucket_key),
                detail: text(self.personal.detail),
            },
        }
    }

    /// About how much room the entry takes in the table.
    pub(super) fn bytes(&self) -> u64 {
        let texts = [
            &self.node,
            &self.actor,
            &self.limit_name,
            &self.kind,
            &self.endpoint,
            &self.trace_id,
            &self.reason,
            &self.personal.user_id,
            &self.personal.client,
            &self.personal.ip,
            &self.personal.tenant,
            &self.personal.bucket_key,
            &self.personal.detail,
        ];
        let texts: usize = texts.iter().filter_map(|text| text.as_ref()).map(String::len).sum();
        (FIXED_BYTES + self.event.len() + self.severity.len() + texts) as u64
    }
}

/// The values of [`COLUMNS`].
pub(super) fn row_values(entry: &AuditEntry, link: &ChainLink) -> Vec<SqlValue> {
    let personal = &entry.personal;
    values![
        link.seq,
        entry.time,
        &entry.event,
        &entry.severity,
        &entry.node,
        entry.policy_version,
        &entry.actor,
        entry.count,
        entry.first,
        entry.last,
        &entry.limit_name,
        &entry.kind,
        &entry.endpoint,
        entry.remaining,
        entry.retry_after_ms,
        &entry.trace_id,
        &entry.reason,
        link.bytes,
        &personal.user_id,
        &personal.client,
        &personal.ip,
        &personal.tenant,
        &personal.bucket_key,
        &personal.detail,
        SqlValue::Bytes(link.person_salt.clone()),
        link.person_hash.as_slice(),
        link.hash.as_slice(),
    ]
}

/// Reads a row that has at least [`COLUMNS`] and `erased_at`.
pub(crate) fn read_row(row: &SqlRow) -> Result<AuditRow, DatabaseError> {
    Ok(AuditRow {
        seq: row.get("seq")?,
        entry: read_entry(row)?,
        hash: row.get("hash")?,
        erased_at: row.get("erased_at")?,
    })
}

pub(super) fn read_entry(row: &SqlRow) -> Result<AuditEntry, DatabaseError> {
    Ok(AuditEntry {
        time: row.get("time")?,
        event: row.get("event")?,
        severity: row.get("severity")?,
        node: row.get("node")?,
        policy_version: row.get("policy_version")?,
        actor: row.get("actor")?,
        count: row.get("count")?,
        first: row.get("first_at")?,
        last: row.get("last_at")?,
        limit_name: row.get("limit_name")?,
        kind: row.get("kind")?,
        endpoint: row.get("endpoint")?,
        remaining: row.get("remaining")?,
        retry_after_ms: row.get("retry_after_ms")?,
        trace_id: row.get("trace_id")?,
        reason: row.get("reason")?,
        personal: PersonalData {
            user_id: row.get("user_id")?,
            client: row.get("client")?,
            ip: row.get("ip")?,
            tenant: row.get("tenant")?,
            bucket_key: row.get("bucket_key")?,
            detail: row.get("detail")?,
        },
    })
}

pub(super) fn read_link(row: &SqlRow) -> Result<ChainLink, DatabaseError> {
    Ok(ChainLink {
        seq: row.get("seq")?,
        bytes: row.get("bytes")?,
        person_salt: row.get("person_salt")?,
        person_hash: row.get("person_hash")?,
        hash: row.get("hash")?,
    })
}
