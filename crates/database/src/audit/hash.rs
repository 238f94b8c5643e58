//! The hashes of the chain. Every field is written in one way only: a byte that says whether there is a value, its length
//! as eight bytes, most significant first, and its bytes. A number, or an instant in milliseconds, has eight bytes, most
//! significant first. Before the first field there is a byte 1, and the hash is SHA-256. This never changes: stored chains
//! must verify in every later version.

use sha2::{Digest, Sha256};

use super::entry::{AuditEntry, PersonalData};
use crate::session::stored_number;

/// Stands for this encoding, should there ever be another one.
const ENCODING: u8 = 1;

/// The hash of what may tell who somebody is, with a salt that nobody can guess.
pub(super) fn person_hash(salt: &[u8], personal: &PersonalData) -> [u8; 32] {
    let mut hasher = FieldHasher::new();
    hasher.bytes(Some(salt));
    hasher.text(&personal.user_id);
    hasher.text(&personal.client);
    hasher.text(&personal.ip);
    hasher.text(&personal.tenant);
    hasher.text(&personal.bucket_key);
    hasher.text(&personal.detail);
    hasher.finish()
}

/// The hash of an entry: of the one before it, of all that is not personal, and of the hash of what is.
pub(super) fn entry_hash(
    previous: &[u8],
    seq: u64,
    bytes: u64,
    entry: &AuditEntry,
    person_hash: &[u8],
) -> [u8; 32] {
    let mut hasher = FieldHasher::new();
    hasher.bytes(Some(previous));
    hasher.count(Some(seq));
    hasher.number(entry.time.get());
    hasher.bytes(Some(entry.event.as_bytes()));
    hasher.bytes(Some(entry.severity.as_bytes()));
    hasher.text(&entry.node);
    hasher.count(entry.policy_version);
    hasher.text(&entry.actor);
    hasher.count(Some(entry.count));
    hasher.number(entry.first.get());
    hasher.number(entry.last.get());
    hasher.text(&entry.limit_name);
    hasher.text(&entry.kind);
    hasher.text(&entry.endpoint);
    hasher.count(entry.remaining);
    hasher.count(entry.retry_after_ms);
    hasher.text(&entry.trace_id);
    hasher.text(&entry.reason);
    hasher.count(Some(bytes));
    hasher.bytes(Some(person_hash));
    hasher.finish()
}

struct FieldHasher(Sha256);

impl FieldHasher {
    fn new() -> FieldHasher {
        FieldHasher(Sha256::new_with_prefix([ENCODING]))
    }

    fn bytes(&mut self, bytes: Option<&[u8]>) {
        let Some(bytes) = bytes else { return self.0.update([0]) };
        self.0.update([1]);
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn text(&mut self, text: &Option<String>) {
        self.bytes(text.as_ref().map(String::as_bytes));
    }

    fn number(&mut self, number: i64) {
        self.bytes(Some(&number.to_be_bytes()));
    }

    fn count(&mut self, count: Option<u64>) {
        self.bytes(count.map(|count| stored_number(count).to_be_bytes()).as_ref().map(<[u8; 8]>::as_slice));
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UnixMillis;

    fn hex(bytes: [u8; 32]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn entry() -> AuditEntry {
        AuditEntry {
            time: UnixMillis::new(1_700_000_000_123),
            event: "kill_switch_changed".into(),
            severity: "warning".into(),
            node: Some("node-1".into()),
            policy_version: Some(7),
            count: 2,
            first: UnixMillis::new(-5),
            kind: Some("kind".into()),
            endpoint: Some("/é".into()),
            remaining: Some(0),
            retry_after_ms: Some(u64::MAX),
            reason: Some("why".into()),
            personal: PersonalData {
                user_id: Some("ada".into()),
                ip: Some("192.0.2.1".into()),
                tenant: Some(String::new()),
                detail: Some("{\"a\":1}".into()),
                ..PersonalData::default()
            },
            ..AuditEntry::default()
        }
    }

    /// The expected values were computed by another program, from the description at the top of this file.
    #[test]
    fn hashes_are_those_of_the_description() {
        let salt: Vec<u8> = (0..16).collect();
        let person = person_hash(&salt, &entry().personal);
        assert_eq!(hex(person), "0c40fe8953424e82f0d4ce25c4a8abf96f8df051fff0a76cf354a0264bb567d7");
        let hash = entry_hash(&[0; 32], 1, 300, &entry(), &person);
        assert_eq!(hex(hash), "25944f44930ac67a834d9450f05c22d4c6618ce7f1f7e876127ffc1c612b3079");
    }

    #[test]
    fn a_text_that_moves_to_the_next_column_changes_the_hash() {
        let of = |user: Option<&str>, client: Option<&str>| {
            let (user_id, client) = (user.map(Into::into), client.map(Into::into));
            person_hash(&[], &PersonalData { user_id, client, ..PersonalData::default() })
        };
        let all = [
            of(None, None),
            of(Some(""), None),
            of(None, Some("")),
            of(Some("ab"), None),
            of(Some("a"), Some("b")),
            of(None, Some("ab")),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(one), "{index}");
        }
    }
}
