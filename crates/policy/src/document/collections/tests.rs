use tidegate_document::{DocumentEditor, parse};

use super::*;

fn names(text: &str, collection: &str) -> Vec<String> {
    named_entries(&parse(text).unwrap(), collection).into_iter().map(|entry| entry.name).collect()
}

#[test]
fn every_list_of_the_table_is_a_collection() {
    use tidegate_document::Shape;
    let lists = crate::document::table::POLICY.fields().filter(|field| matches!(field.shape, Shape::List(_)));
    let mut lists: Vec<&str> = lists.map(|field| field.name).collect();
    let mut known = COLLECTIONS.to_vec();
    lists.sort_unstable();
    known.sort_unstable();
    assert_eq!(lists, known);
    for collection in COLLECTIONS {
        let field = name_field(collection).unwrap();
        let Some(Shape::List(Shape::Object(entry))) = crate::document::table::POLICY.shape_of(collection)
        else {
            panic!("{collection}");
        };
        assert!(entry.shape_of(field).is_some(), "{collection}.{field}");
    }
}

#[test]
fn entries_without_an_id_are_named_by_their_content() {
    let text = "block: [{ ip: 10.0.0.1, reason: a }, { id: x, ip: 10.0.0.2 }, { reason: a, ip: 10.0.0.1 }, { ip: 10.0.0.3 }]";
    let named = names(text, "block");
    assert_eq!(named[1], "x");
    assert_eq!(named[2], format!("{}-2", named[0]));
    assert_ne!(named[3], named[0]);
    assert!(named[0].len() == 16 && named[0].bytes().all(|byte| byte.is_ascii_hexdigit()));
    // A written id that looks like a hash keeps it; the entry with that hash gets a suffix.
    let taken = format!("block: [{{ ip: 10.0.0.3 }}, {{ id: {}, ip: 10.0.0.4 }}]", named[3]);
    assert_eq!(names(&taken, "block"), [format!("{}-2", named[3]), named[3].clone()]);
    let both = format!(
        "block: [{{ ip: 10.0.0.3 }}, {{ id: {0}, ip: 10.0.0.4 }}, {{ id: {0}-2, ip: 10.0.0.4 }}]",
        named[3]
    );
    assert_eq!(names(&both, "block")[0], format!("{}-3", named[3]));
}

#[test]
fn entries_are_found_by_name() {
    let policy = parse("limits: [{ name: a }, { name: 42 }]\ntenants: [{ id: t }]\n").unwrap();
    assert_eq!(entry_index(&policy, "limits", "42"), Some(1));
    assert_eq!(entry_index(&policy, "limits", "b"), None);
    assert_eq!(entry_index(&policy, "tenants", "t"), Some(0));
    assert_eq!(entry_index(&policy, "defaults", "t"), None);
    let named = with_name(&parse("{ path: /a }").unwrap(), "routes", "r");
    assert_eq!(named.to_json(), r#"{"id":"r","path":"/a"}"#);
    assert_eq!(with_name(&named, "routes", "other").to_json(), named.to_json());
}

fn changes(old: &str, new: &str) -> Vec<String> {
    policy_changes(&parse(old).unwrap(), &parse(new).unwrap()).iter().map(PolicyChange::to_json).collect()
}

#[test]
fn changes_are_listed_by_entry() {
    let old = "version: 1\ndefaults: { mode: shadow }\nlimits:\n- { name: a, x: 1, y: { z: 1, w: 2 } }\n- name: b\n- name: c\n- name: d\n";
    let new = "version: 1\nlimits:\n- { name: c }\n# comment\n- { y: { z: 0x1, w: [2] }, name: a, v: 3 }\n- name: d\n- name: e\nadaptive: { trust: true }\n";
    assert_eq!(
        changes(old, new),
        [
            r#"{"field":"defaults","change":"removed","before":{"mode":"shadow"}}"#,
            r#"{"field":"limits","name":"b","change":"removed","before":{"name":"b"}}"#,
            r#"{"field":"limits","name":"a","change":"changed","members":[{"path":"x","before":1},{"path":"y.w","before":2,"after":[2]},{"path":"v","after":3}]}"#,
            r#"{"field":"limits","name":"a","change":"moved","from":0,"to":1}"#,
            r#"{"field":"limits","name":"e","change":"added","after":{"name":"e"}}"#,
            r#"{"field":"adaptive","change":"added","after":{"trust":true}}"#,
        ]
    );
    assert!(changes(old, &format!("# other text\n{old}")).is_empty());
    assert_eq!(changes("defaults: 1", "defaults: 2").len(), 1);
}

/// Every entry of every example gets a member and loses it again, and is removed and written again.
#[test]
fn entries_of_the_examples_can_be_edited_one_by_one() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut entries = 0;
    for example in std::fs::read_dir(folder).unwrap() {
        let Ok(text) = std::fs::read_to_string(example.unwrap().path().join("policy.yaml")) else { continue };
        let policy = parse(&text).unwrap();
        for collection in COLLECTIONS {
            for (index, entry) in named_entries(&policy, collection).into_iter().enumerate() {
                let mut editor = DocumentEditor::new(text.as_str()).unwrap();
                editor.patch(collection, index, &parse("note: \"a: b\"").unwrap()).unwrap();
                assert_ne!(editor.text(), text);
                editor.patch(collection, index, &parse("note: ~").unwrap()).unwrap();
                assert_eq!(editor.text(), text);
                editor.remove(collection, index).unwrap();
                editor.insert(collection, index, entry.node).unwrap();
                assert!(policy_changes(&policy, editor.root()).is_empty());
                entries += 1;
            }
        }
    }
    assert!(entries > 50, "{entries}");
}
