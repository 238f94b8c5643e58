use tidegate::Nanos;

use super::*;
use crate::observe::events::event::EventName;

/// A folder that is removed at the end.
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

fn event(number: u64) -> AuditEvent {
    AuditEvent { count: number, ..AuditEvent::new(EventName::RequestBlocked, Nanos::SECOND) }
}

/// The counts in a file, by which the events are told apart.
fn counts(path: &Path) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "only whole lines");
    let count =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["count"].as_u64().unwrap();
    text.lines().map(count).collect()
}

#[test]
fn full_files_are_renamed_and_a_bounded_number_is_kept() {
    let folder = Folder::new("rotation");
    let path = folder.0.join("events.jsonl");
    let mut line = Vec::new();
    event(10).write_line(&mut line);
    // Three lines fit into a file.
    let max_bytes = 3 * line.len() as u64 + 1;
    let mut file = EventFile::open(path.clone(), max_bytes, 2).unwrap();
    let events: Vec<AuditEvent> = (10..15).map(event).collect();
    file.write(&events).unwrap();
    assert_eq!([0, 1, 2].map(|n| counts(&numbered(&path, n))), [vec![13, 14], vec![10, 11, 12], vec![]]);
    for number in 15..21 {
        file.write(&[event(number)]).unwrap();
    }
    assert_eq!(
        [0, 1, 2, 3].map(|n| counts(&numbered(&path, n))),
        [vec![19, 20], vec![16, 17, 18], vec![13, 14, 15], vec![]],
        "the oldest is deleted"
    );
    drop(file);
    let mut file = EventFile::open(path.clone(), max_bytes, 2).unwrap();
    file.write(&[event(21), event(22)]).unwrap();
    assert_eq!(counts(&path), [22], "after a restart it is continued, and full at the same size");
}

#[test]
fn a_file_that_another_program_has_renamed_is_begun_again() {
    let folder = Folder::new("renamed");
    let path = folder.0.join("events.jsonl");
    let mut file = EventFile::open(path.clone(), 1 << 20, 2).unwrap();
    file.write(&[event(1)]).unwrap();
    fs::rename(&path, folder.0.join("elsewhere")).unwrap();
    file.write(&[event(2)]).unwrap();
    assert_eq!((counts(&folder.0.join("elsewhere")), counts(&path)), (vec![1], vec![2]));
}

#[test]
fn a_line_that_was_not_finished_takes_no_other_with_it() {
    let folder = Folder::new("torn");
    let path = folder.0.join("events.jsonl");
    fs::write(&path, "{\"count\":1}\n{\"cou").unwrap();
    let mut file = EventFile::open(path.clone(), 1 << 20, 2).unwrap();
    file.write(&[event(2)]).unwrap();
    drop(file);
    let mut file = EventFile::open(path.clone(), 1 << 20, 2).unwrap();
    file.write(&[event(3)]).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[1]), (4, "{\"cou"), "{text}");
    assert!(lines[2].contains("\"count\":2,") && lines[3].contains("\"count\":3,"), "{text}");
}

#[test]
fn a_path_that_is_no_file_is_refused() {
    assert!(EventFile::open("/dev/null".into(), 1 << 20, 2).is_err());
    assert!(EventFile::open("/nowhere/events.jsonl".into(), 1 << 20, 2).is_err());
}
