use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::observe::events::event::{AuditEvent, EventName};
use crate::observe::events::file::EventFile;
use crate::observe::events::sink::EventSink;

const DAY: u64 = 86_400;
/// Files are as old as their last change, so the time is that of the test.
const LATER: Nanos = Nanos::from_secs(DAY);

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

fn violation(user: &str, count: u64, first: Nanos, last: Nanos) -> AuditEvent {
    AuditEvent {
        count,
        last,
        user: Some(user.into()),
        is_violation: true,
        ..AuditEvent::new(EventName::RateLimitExceeded, first)
    }
}

/// What is read, by user: how many violations at which second.
type Seen = BTreeMap<String, BTreeMap<u64, u64>>;

fn read(past: PastViolations) -> (Seen, FoundViolations) {
    let mut seen = Seen::new();
    let found = past.read(|user, count, at| {
        *seen.entry(user.to_owned()).or_default().entry(at.get() / 1_000_000_000).or_default() += count;
    });
    (seen, found)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Each violation is read once, whichever of the files it is in, and what is written later is not.
    #[test]
    fn violations_are_read_back_from_all_files(
        drawn in prop::collection::vec((0_u8..4, 1_u64..4, 0_u64..60, any::<bool>()), 0..60),
        max_bytes in 200_u64..2_000,
        later in 0_usize..20,
    ) {
        let folder = Folder::new("past");
        let path = folder.0.join("events.jsonl");
        let mut file = EventFile::open(path.clone(), max_bytes, 100).unwrap();
        let now = Nanos::from_secs(20_000 * DAY);
        let mut expected = Seen::new();
        for (user, count, days, is_violation) in drawn {
            let (user, at) = (format!("user \"{user}\" ü"), now.saturating_sub(Nanos::from_secs(days * DAY)));
            let event = violation(&user, count, at, at.saturating_add(Nanos::SECOND));
            file.write(&[AuditEvent { is_violation, ..event }]).unwrap();
            let seconds = at.get() / 1_000_000_000;
            if is_violation && days <= 30 {
                let of_user = expected.entry(user).or_default();
                *of_user.entry(seconds).or_default() += 1;
                if count > 1 {
                    *of_user.entry(seconds + 1).or_default() += count - 1;
                }
            }
        }
        let past = PastViolations { since: now.saturating_sub(VIOLATIONS_LIFE), ..PastViolations::open(&path, LATER) };
        for _ in 0..later {
            file.write(&[violation("later", 1, now, now)]).unwrap();
        }
        let (seen, found) = read(past);
        let sum: u64 = expected.values().flat_map(BTreeMap::values).sum();
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(found, FoundViolations { violations: sum, ..FoundViolations::default() });
    }
}

#[test]
fn what_is_no_event_is_skipped_and_counted() {
    let folder = Folder::new("past-malformed");
    let path = folder.0.join("events.jsonl");
    let at = Nanos::from_secs(DAY);
    let mut text =
        b"{\"event\":\n\n[]\nnull\n\xff\n{\"event\":\"x\",\"violation\":true,\"user\":\"a\"}\n".to_vec();
    text.extend_from_slice(&b"x".repeat(3 * EVENT_LINE_BYTES_MAX));
    text.push(b'\n');
    violation("a", 2, at, at).write_line(&mut text);
    violation(&"a".repeat(TEXT_CHARS_MAX + 1), 3, at, at).write_line(&mut text);
    AuditEvent { user: None, ..violation("", 4, at, at) }.write_line(&mut text);
    AuditEvent { is_violation: false, ..violation("a", 5, at, at) }.write_line(&mut text);
    let mut torn = Vec::new();
    violation("a", 6, at, at).write_line(&mut torn);
    text.extend_from_slice(&torn[..torn.len() - 1]);
    fs::write(&path, text).unwrap();
    let (seen, found) = read(PastViolations::open(&path, LATER));
    assert_eq!(seen, Seen::from([("a".to_owned(), BTreeMap::from([(DAY, 2)]))]));
    assert_eq!(found, FoundViolations { violations: 2, malformed: 7, without_user: 7 });
}

#[test]
fn the_number_of_files_is_bounded_and_none_is_needed() {
    let folder = Folder::new("past-many");
    let path = folder.0.join("events.jsonl");
    let none = PastViolations::open(&path, LATER);
    assert!(none.files.is_empty() && !none.is_cut);
    for number in 1..=VIOLATION_FILES_MAX as u32 {
        fs::write(numbered(&path, number), "").unwrap();
    }
    let all = PastViolations::open(&path, LATER);
    assert_eq!((all.files.len(), all.is_cut), (VIOLATION_FILES_MAX, false), "the first may be missing");
    fs::write(&path, "").unwrap();
    let most = PastViolations::open(&path, LATER);
    assert_eq!((most.files.len(), most.is_cut), (VIOLATION_FILES_MAX, true));
    let changed = fs::metadata(&path).unwrap().mtime() as u64;
    let old = PastViolations::open(&path, Nanos::from_secs(changed + 31 * DAY));
    assert_eq!((old.files.len(), old.is_cut), (0, false), "all were changed before");
}

#[test]
fn of_a_large_file_the_last_whole_lines_are_read() {
    let folder = Folder::new("past-large");
    let path = folder.0.join("events.jsonl");
    let at = Nanos::from_secs(DAY);
    let mut text = Vec::new();
    (1..=9).for_each(|count| violation("a", count, at, at).write_line(&mut text));
    fs::write(&path, &text).unwrap();
    let len = text.len() as u64;
    let part = |start| OpenPart { file: File::open(&path).unwrap(), start, len: len - start };
    let read = |start| read(PastViolations { files: vec![part(start)], since: Nanos::ZERO, is_cut: true }).1;
    assert_eq!(read(0).violations, 45);
    // In the middle of the first line, and of the last.
    assert_eq!([read(1), read(len - 2)].map(|found| (found.violations, found.malformed)), [(44, 0), (0, 0)]);
}
