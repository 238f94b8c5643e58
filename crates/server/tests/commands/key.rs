//! `tidegate key create`

use super::tidegate;
use crate::support::home::Home;

#[test]
fn a_key_is_printed_once_and_only_its_hash_is_kept() {
    let home = Home::new();
    let file = home.arg("keys.yaml");
    let first = tidegate(&["key", "create", "--file", &file, "--client", "app-1", "--expires", "30d"]);
    assert_eq!(first.code, 0, "{}", first.err);
    let key = first.out.strip_suffix('\n').expect("one line");
    assert!(key.starts_with("tg_") && !key.contains(char::is_whitespace), "{key}");
    assert!(first.err.contains("only this once") && !first.err.contains(key), "{}", first.err);
    let text = std::fs::read_to_string(&file).expect("it was made");
    std::fs::write(&file, format!("# our keys\n{text}# the end\n")).expect("it can be edited");
    let second =
        tidegate(&["key", "create", "--file", &file, "--tenant", "acme", "--plan", "pro", "--user", "42"]);
    assert!(second.code == 0 && second.out != first.out, "{}", second.err);
    let text = std::fs::read_to_string(&file).expect("it is there");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[3]), (5, "# our keys", "# the end"), "{text}");
    assert!(
        lines[2].contains("client: \"app-1\", expires: \"20") && lines[2].contains("hash: \"sha256:"),
        "{text}"
    );
    assert!(lines[4].ends_with("user: \"42\", tenant: \"acme\", plan: \"pro\" }"), "{text}");
    assert!(!text.contains(key) && !text.contains(second.out.trim()), "{text}");
}

#[test]
fn what_cannot_be_done_is_told_and_changes_nothing() {
    let home = Home::new();
    let file = home.write("keys.yaml", "keys:\n- { hash: tg_secret }\n");
    let ran = tidegate(&["key", "create", "--file", &file]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("keys.yaml:2:") && ran.err.contains("not the hash of a key"), "{}", ran.err);
    assert!(!ran.err.contains("tg_secret"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "keys:\n- { hash: tg_secret }\n");
    let missing = home.arg("no/such/keys.yaml");
    for (args, code, wanted) in [
        (&["--file", &missing][..], 1, "cannot open"),
        (&["--file", &file, "--expires", "soon"], 2, "30d"),
        (&["--file", &file, "--client", ""], 2, "--client"),
        (&[], 2, "--file"),
    ] {
        let ran = tidegate(&[&["key", "create"], args].concat());
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(wanted), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_key_for_nobody_is_warned_of() {
    let home = Home::new();
    let ran = tidegate(&["key", "create", "--file", &home.arg("keys.yaml")]);
    assert!(ran.code == 0 && ran.err.contains("stands for nobody"), "{}", ran.err);
}
