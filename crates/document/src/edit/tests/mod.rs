use super::*;

mod random;

fn value(text: &str) -> DocumentNode {
    parse(text).unwrap()
}

fn edited(text: &str, edit: impl FnOnce(&mut DocumentEditor) -> Result<(), EditError>) -> String {
    let mut editor = DocumentEditor::new(text).unwrap();
    edit(&mut editor).unwrap();
    editor.into_text()
}

/// Inserts `{"name": "x", "key": ["user"]}` at an index.
fn with_insert(text: &str, index: usize) -> String {
    edited(text, |editor| editor.insert("limits", index, &value(r#"{"name": "x", "key": ["user"]}"#)))
}

fn with_patch(text: &str, index: usize, patch: &str) -> String {
    edited(text, |editor| editor.patch("limits", index, &value(patch)))
}

fn without(text: &str, index: usize) -> String {
    edited(text, |editor| editor.remove("limits", index))
}

const BLOCK: &str = "\
# head
limits: # all

  # the first
  - name: a   # one
    rate: 1
    # inside a

  # the second
  - name: \"b\"
    sustained: {rate: 1, window: second} # fast
routes: []
";

#[test]
fn entries_are_inserted_into_lines() {
    let x = "  - name: x\n    key: [user]\n";
    let at = |index, before: &str, new: &str| {
        assert_eq!(with_insert(BLOCK, index), BLOCK.replacen(before, &format!("{new}{before}"), 1));
    };
    at(0, "  # the first\n", &format!("{x}\n"));
    at(1, "  # the second\n", &format!("{x}\n"));
    at(2, "routes: []", &format!("\n{x}"));
}

#[test]
fn entries_are_removed_with_their_comments() {
    let first = "  # the first\n  - name: a   # one\n    rate: 1\n    # inside a\n\n";
    assert_eq!(without(BLOCK, 0), BLOCK.replace(first, ""));
    let second = "\n  # the second\n  - name: \"b\"\n    sustained: {rate: 1, window: second} # fast\n";
    assert_eq!(without(BLOCK, 1), BLOCK.replace(second, ""));
    assert_eq!(without("limits: # all\n  # a\n  - name: a\n\nb: 1\n", 0), "limits: [] # all\n\nb: 1\n");
}

#[test]
fn only_changed_members_are_touched() {
    assert_eq!(with_patch(BLOCK, 0, r#"{"rate": 2}"#), BLOCK.replace("rate: 1\n", "rate: 2\n"));
    assert_eq!(
        with_patch(BLOCK, 1, r#"{"sustained": {"rate": 5, "window": null}}"#),
        BLOCK.replace("{rate: 1, window: second}", "{rate: 5}")
    );
    assert_eq!(
        with_patch(BLOCK, 0, r#"{"group": "true", "rate": null}"#),
        BLOCK.replace("    rate: 1\n", "    group: \"true\"\n")
    );
    assert_eq!(with_patch(BLOCK, 0, r#"{"rate": 1.0}"#), BLOCK);
}

#[test]
fn the_first_member_of_an_entry_can_go() {
    let text = "limits:\n- a: 1 # x\n  b: 2\n- a: 1\n  # about b\n  b: 2\n";
    assert_eq!(with_patch(text, 0, r#"{"a": null}"#), "limits:\n- b: 2\n- a: 1\n  # about b\n  b: 2\n");
    assert_eq!(
        with_patch(text, 1, r#"{"a": null}"#),
        "limits:\n- a: 1 # x\n  b: 2\n-\n  # about b\n  b: 2\n"
    );
    assert_eq!(with_patch("limits:\n- a: 1\n", 0, r#"{"a": null}"#), "limits:\n- {}\n");
}

#[test]
fn an_absent_or_empty_list_gets_its_first_entry() {
    let x = "  - name: x\n    key: [user]\n";
    for (before, after) in [
        ("limits:\n", format!("limits:\n{x}")),
        ("limits: [] # none\nb: 1\n", format!("limits: # none\n{x}b: 1\n")),
        ("limits: ~", format!("limits:\n{}", x.trim_end())),
        ("version: 1\n", format!("version: 1\nlimits:\n{x}")),
        ("version: 1", format!("version: 1\nlimits:\n{}", x.trim_end())),
        ("---\nroutes:\n- a\n", "---\nroutes:\n- a\nlimits:\n- name: x\n  key: [user]\n".to_owned()),
        ("", format!("limits:\n{x}")),
        ("# nothing yet", format!("# nothing yet\nlimits:\n{x}")),
        ("{}", r#"{"limits": [{"name": "x", "key": ["user"]}]}"#.to_owned()),
        ("{a: 1}", "{a: 1, limits: [{name: x, key: [user]}]}".to_owned()),
        (r#"{"limits":[]}"#, r#"{"limits":[{"name":"x","key":["user"]}]}"#.to_owned()),
        (r#"{"limits":null}"#, r#"{"limits":[{"name":"x","key":["user"]}]}"#.to_owned()),
    ] {
        assert_eq!(with_insert(before, 0), after, "{before:?}");
    }
}

#[test]
fn json_keeps_its_style() {
    let compact = r#"{"limits":[{"name":"a"},{"name":"b"}]}"#;
    assert_eq!(
        with_insert(compact, 1),
        r#"{"limits":[{"name":"a"},{"name":"x","key":["user"]},{"name":"b"}]}"#
    );
    assert_eq!(without(compact, 1), r#"{"limits":[{"name":"a"}]}"#);
    assert_eq!(without(&without(compact, 1), 0), r#"{"limits":[]}"#);
    let pretty = "{\n    \"limits\": [\n        {\n            \"name\": \"a\"\n        }\n    ]\n}\n";
    let item = "        {\n            \"name\": \"x\",\n            \"key\": [\n                \"user\"\n            ]\n        }";
    assert_eq!(with_insert(pretty, 1), pretty.replace("        }\n", &format!("        }},\n{item}\n")));
    assert_eq!(with_insert(pretty, 0), pretty.replace("        {\n", &format!("{item},\n        {{\n")));
    assert_eq!(without(&with_insert(pretty, 1), 1), pretty);
    assert_eq!(without(&with_insert(pretty, 0), 0), pretty);
    assert_eq!(
        with_patch(pretty, 0, r#"{"rate": 1}"#),
        pretty.replace("\"a\"\n", "\"a\",\n            \"rate\": 1\n")
    );
}

#[test]
fn json_keeps_its_tabs() {
    let tabs = "{\n\t\"limits\": [\n\t\t{\n\t\t\t\"name\": \"a\"\n\t\t}\n\t]\n}\n";
    let item = "\t\t{\n\t\t\t\"name\": \"x\",\n\t\t\t\"key\": [\n\t\t\t\t\"user\"\n\t\t\t]\n\t\t}";
    assert_eq!(with_insert(tabs, 1), tabs.replace("\t\t}\n", &format!("\t\t}},\n{item}\n")));
    assert_eq!(with_insert(tabs, 0), tabs.replace("\t\t{\n", &format!("{item},\n\t\t{{\n")));
    assert_eq!(without(&with_insert(tabs, 0), 0), tabs);
}

#[test]
fn brackets_with_comments_keep_them() {
    let text = "limits: [\n  {name: a}, # one\n  # about b\n  {name: b} # two\n]\n";
    assert_eq!(without(text, 0), "limits: [\n  # about b\n  {name: b} # two\n]\n");
    assert_eq!(without(text, 1), "limits: [\n  {name: a} # one\n]\n");
    assert_eq!(
        with_insert(text, 2),
        "limits: [\n  {name: a}, # one\n  # about b\n  {name: b}, # two\n  {name: x, key: [user]}\n]\n"
    );
}

#[test]
fn values_keep_their_form_where_they_can() {
    let text = "limits:\n  - name: a\n    hosts:  # where\n      - x # one\n      - y\n    text: |\n      long\n\n    end: 1\n";
    assert_eq!(
        with_patch(text, 0, r#"{"hosts": ["z", "10"]}"#),
        text.replace("- x # one\n      - y", "- z\n      - \"10\"")
    );
    assert_eq!(
        with_patch(text, 0, r#"{"hosts": 5}"#),
        text.replace("hosts:  # where\n      - x # one\n      - y\n", "hosts: 5  # where\n")
    );
    assert_eq!(with_patch(text, 0, r#"{"text": "no"}"#), text.replace("|\n      long", "\"no\""));
    let new = with_patch(text, 0, r#"{"match": {"path": "/a/**"}}"#);
    assert_eq!(new, format!("{text}    match:\n      path: /a/**\n"));
}

#[test]
fn line_breaks_and_marks_stay() {
    let text = "\u{feff}---\r\nlimits:\r\n  - name: a\r\n  - { name: b }\r\n";
    assert_eq!(with_insert(text, 2), format!("{text}  - {{ name: x, key: [user] }}\r\n"));
    assert_eq!(without(text, 0), "\u{feff}---\r\nlimits:\r\n  - { name: b }\r\n");
}

#[test]
fn what_cannot_be_edited_is_refused_in_words() {
    for (text, index, message) in [
        ("limits: 5", 0, "`limits` is not a list, so it has no entries to edit"),
        ("[1]", 0, "`limits` is not a list, so it has no entries to edit"),
        ("limits: [a]", 1, "there is no `limits[1]`"),
        (
            "limits: [a: b]",
            0,
            "line 1, column 10: keys after `?`, keys without a colon, and pairs without braces cannot be edited: write them as `key: value`, or replace the whole document instead",
        ),
        (
            "? limits\n: - a\n  - b\n",
            0,
            "line 1, column 1: keys after `?`, keys without a colon, and pairs without braces cannot be edited: write them as `key: value`, or replace the whole document instead",
        ),
    ] {
        let mut editor = DocumentEditor::new(text).unwrap();
        assert_eq!(editor.remove("limits", index).unwrap_err().to_string(), message);
        assert_eq!(editor.text(), text);
    }
    let refused = DocumentEditor::new("limits: [&a b]").unwrap_err();
    assert!(refused.to_string().contains("anchors are not supported"), "{refused}");
}
