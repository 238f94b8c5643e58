use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;

use super::create::{CreateKeyError, add, new_key};
use super::file::written_hash;
use super::*;

const NOW: Nanos = Nanos::from_secs(1_800_000_000);

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("tidegate-keys-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self, text: &str) -> PathBuf {
        let file = self.0.join("keys.yaml");
        std::fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn keys(file: &Path, from: KeyPlace, unknown: UnknownKeys) -> ApiKeys {
    ApiKeys::load(&ApiKeySettings { from, file: file.to_path_buf(), unknown }).unwrap()
}

fn header() -> KeyPlace {
    KeyPlace::Header("x-api-key".into())
}

/// An entry of a file.
fn entry(key: &str, more: &str) -> String {
    format!("- {{ hash: \"{}\"{more} }}\n", written_hash(&hash(key.as_bytes())))
}

#[test]
fn the_hash_is_the_one_that_everybody_computes() {
    let known = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    assert_eq!(written_hash(&hash(b"test")), known);
    assert!(KeyFile::parse(&format!("keys: [{{ hash: \"{}\" }}]", known.replace('f', "F"))).is_ok());
}

#[test]
fn a_key_is_valid_until_it_expires_or_is_disabled() {
    let folder = Folder::new("valid");
    let text = format!(
        "keys:\n{}{}{}{}",
        entry("good", ", client: app-1, tenant: acme, user: 42, expires: 2027-01-15T08:00:01Z"),
        entry("late", ", client: app-2, expires: 2027-01-15T08:00:00Z"),
        entry("off", ", client: app-3, enabled: false"),
        entry("plain", ", enabled: true, description: for nobody"),
    );
    let keys = keys(&folder.file(&text), header(), UnknownKeys::Deny);
    let status = |key: &str| {
        let checked = keys.check(key.as_bytes(), NOW);
        assert_eq!(checked.holder.is_some(), checked.status == KeyStatus::Valid, "{key}");
        assert_eq!(checked.denied, checked.status != KeyStatus::Valid, "{key}");
        checked.status
    };
    let all = ["good", "plain", "late", "off", "other", "", "GOOD"].map(status);
    use KeyStatus::*;
    assert_eq!(all, [Valid, Valid, Expired, Disabled, Unknown, Unknown, Unknown]);
    assert_eq!(status(&"x".repeat(API_KEY_BYTES_MAX + 1)), Unknown);
    let holder = keys.check(b"good", NOW).holder.unwrap();
    let expected = KeyHolder {
        client: Some("app-1".into()),
        user: Some("42".into()),
        tenant: Some("acme".into()),
        plan: None,
    };
    assert_eq!(*holder, expected);
}

#[test]
fn unknown_keys_are_denied_only_by_setting() {
    let folder = Folder::new("ignored");
    let keys = keys(&folder.file("keys: []"), header(), UnknownKeys::Ignore);
    assert!(!keys.check(b"other", NOW).denied);
}

#[test]
fn a_request_has_one_key_or_none() {
    let folder = Folder::new("presented");
    let file = folder.file("keys: []");
    let by_header = keys(&file, header(), UnknownKeys::Ignore);
    let sent = |lines: &[(&'static str, &'static str)]| {
        let headers = lines.iter().map(|(name, value)| (*name, value.as_bytes()));
        by_header.presented(headers, Some("key=other")).map(|key| key.map(|key| key.into_owned()))
    };
    assert_eq!(sent(&[("host", "x")]), Ok(None));
    assert_eq!(sent(&[("x-api-key", " ")]), Ok(None), "an empty key is none");
    assert_eq!(sent(&[("X-API-Key", " k ")]), Ok(Some(b"k".to_vec())));
    assert_eq!(sent(&[("x-api-key", "k"), ("x-api-key", "k")]), Ok(Some(b"k".to_vec())));
    let fault = sent(&[("x-api-key", "k"), ("x-api-key", "l")]).unwrap_err();
    assert_eq!(fault.to_string(), "`header:x-api-key` was sent more than once, with different values");
    let by_query = keys(&file, KeyPlace::Query("key".into()), UnknownKeys::Ignore);
    let sent =
        |query| by_query.presented(std::iter::empty(), query).map(|key| key.map(|key| key.into_owned()));
    assert_eq!(sent(None), Ok(None));
    assert_eq!(sent(Some("a=b&key=%6b")), Ok(Some(b"k".to_vec())));
    assert!(sent(Some("key=%ff")).unwrap().is_some(), "what is no text is still a key that is not known");
    assert!(sent(Some("key=a&key=b")).is_err());
}

#[test]
fn problems_of_a_file_name_the_place_and_never_a_key() {
    let double = format!("keys:\n{}{}", entry("a", ""), entry("a", ""));
    for (text, wanted) in [
        ("", "the file is empty"),
        ("# only a comment\n", "the file is empty"),
        ("keys:\n- { hash: tg_secret }\n", "this is not the hash of a key"),
        ("keys:\n- { hash: \"sha256:tg_secret\" }\n", "this is not the hash of a key"),
        ("keys:\n- { client: a }\n", "hash"),
        ("keys:\n- { key: tg_secret }\n", "key"),
        ("keyz: []\n", "keyz"),
        (double.as_str(), "this key is there twice"),
        (&format!("keys:\n{}", entry("a", ", client: \"a\\nb\"")), "the text has control characters"),
    ] {
        let problems = KeyFile::parse(text).expect_err(text);
        let all = format!("{problems:?}");
        assert!(all.contains(wanted) && !all.contains("tg_secret"), "{text}: {all}");
    }
}

#[test]
fn a_broken_edit_keeps_the_keys_from_before() {
    let folder = Folder::new("reload");
    let file = folder.file(&format!("keys:\n{}", entry("first", "")));
    let keys = keys(&file, header(), UnknownKeys::Ignore);
    folder.file("keys: [{ hash: oops }]");
    let error = keys.reload().unwrap_err().to_string();
    assert!(error.contains("keys.yaml:1:") && error.contains("not the hash"), "{error}");
    assert_eq!(keys.check(b"first", NOW).status, KeyStatus::Valid);
    folder.file(&format!("keys:\n{}", entry("second", "")));
    keys.reload().unwrap();
    assert_eq!(keys.check(b"first", NOW).status, KeyStatus::Unknown);
    assert_eq!(keys.check(b"second", NOW).status, KeyStatus::Valid);
    std::fs::remove_file(&file).unwrap();
    assert!(
        keys.reload().unwrap_err().to_string().contains("tidegate key create"),
        "it says how to make one"
    );
}

#[test]
fn a_new_key_is_added_and_all_else_stays() {
    let folder = Folder::new("create");
    let members = vec![("client", "app \"1\": x".to_owned()), ("expires", "2030-01-01T00:00:00Z".to_owned())];
    let old = entry("old", ", client: old");
    let indented = format!("# ours\nkeys: # all\n    {old}    # the end");
    let cases = [
        ("", 1),
        ("# only a comment", 1),
        ("keys:\n", 1),
        ("keys: []\n", 1),
        ("{\"keys\": []}", 1),
        ("{\"keys\": [\n]}\n", 1),
        (&format!("keys:\n{old}"), 2),
        (&indented, 2),
        (&format!("keys: [{}]\n# end\n", old.trim_start_matches("- ").trim_end()), 2),
        (&format!("keys: [\n  {},\n]\n", old.trim_start_matches("- ").trim_end()), 2),
    ];
    for (text, count) in cases {
        let file = folder.file(text);
        let key = new_key().unwrap();
        add(&file, &key, &members).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let written = std::fs::read_to_string(&file).unwrap();
        let read = KeyFile::parse(&written).unwrap_or_else(|problems| panic!("{written}: {problems:?}"));
        assert_eq!(read.len(), count, "{written}");
        let entry = read.find(&hash(key.as_bytes())).expect("the new key");
        assert_eq!(entry.holder.client.as_deref(), Some("app \"1\": x"));
        assert!(entry.expires.is_some() && !written.contains(&key), "{written}");
        assert!(text.lines().all(|line| line.contains(']') || written.contains(line)), "{text} → {written}");
    }
    assert!(std::fs::read_dir(&folder.0).unwrap().count() == 1, "no temporary file is left");
}

#[test]
fn permissions_stay_and_a_new_file_is_private() {
    let folder = Folder::new("permissions");
    let mode = |file: &Path| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    let new = folder.0.join("new.yaml");
    add(&new, "k", &Vec::new()).unwrap();
    assert_eq!(mode(&new), 0o600);
    let file = folder.file("keys: []\n");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.0.join("link.yaml");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    add(&link, "k", &Vec::new()).unwrap();
    assert_eq!(mode(&file), 0o640);
    assert!(link.symlink_metadata().unwrap().is_symlink(), "the link stays a link");
    assert_eq!(KeyFile::parse(&std::fs::read_to_string(&file).unwrap()).unwrap().len(), 1);
}

#[test]
fn a_file_that_cannot_take_a_key_stays_as_it_is() {
    let folder = Folder::new("refused");
    let odd = format!("keys:\n-\n  hash: \"{}\"\n", written_hash(&hash(b"old")));
    for text in ["keys: [{ hash: oops }]", "limits: []", odd.as_str()] {
        let file = folder.file(text);
        let error = add(&file, "k", &Vec::new()).expect_err(text);
        assert!(matches!(error, CreateKeyError::Invalid { .. } | CreateKeyError::Form(_)), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    let error = add(&folder.file(&format!("keys:\n{}", entry("k", ""))), "k", &Vec::new()).unwrap_err();
    assert!(matches!(error, CreateKeyError::Full { .. }), "{error}");
    assert!(matches!(add(&folder.0, "k", &Vec::new()), Err(CreateKeyError::NotRegular(_))));
    let nowhere = folder.0.join("no/such/folder.yaml");
    assert!(matches!(add(&nowhere, "k", &Vec::new()), Err(CreateKeyError::Io { .. })));
}

#[test]
fn keys_added_at_once_are_all_there() {
    let folder = Folder::new("at-once");
    let file = folder.0.join("keys.yaml");
    let keys: Vec<String> = (0..8).map(|_| new_key().unwrap()).collect();
    std::thread::scope(|scope| {
        for key in &keys {
            scope.spawn(|| add(&file, key, &Vec::new()).unwrap());
        }
    });
    let read = KeyFile::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert!(keys.iter().all(|key| read.find(&hash(key.as_bytes())).is_some()));
}

#[test]
fn new_keys_are_long_and_differ() {
    let (one, other) = (new_key().unwrap(), new_key().unwrap());
    assert!(one.starts_with("tg_") && one.len() == 46 && one != other, "{one} {other}");
}

proptest! {
    /// However many keys there are, each is found and nothing else is.
    #[test]
    fn every_key_is_found_and_no_other(keys in prop::collection::hash_set("[a-d]{1,4}", 0..40), other in "[a-d]{1,4}") {
        let text: String = keys.iter().map(|key| entry(key, &format!(", client: \"{key}\""))).collect();
        let file = KeyFile::parse(&if text.is_empty() { "keys: []".to_owned() } else { format!("keys:\n{text}") }).unwrap();
        for key in &keys {
            let found = file.find(&hash(key.as_bytes())).expect("it is in the file");
            prop_assert_eq!(found.holder.client.as_deref(), Some(&**key));
        }
        prop_assert_eq!(file.find(&hash(other.as_bytes())).is_some(), keys.contains(&other));
    }
}
