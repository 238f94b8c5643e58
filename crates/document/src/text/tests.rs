use proptest::prelude::*;

use super::*;
use crate::node::ValueKind;

fn tree(text: &str) -> DocumentNode {
    parse(text).unwrap_or_else(|problems| panic!("{text:?}: {problems:?}"))
}

fn problems(text: &str) -> Vec<Problem> {
    parse(text).expect_err("the text is wrong")
}

/// Line, column and length of a node.
fn position(node: &DocumentNode) -> (u32, u32, u32) {
    (node.at.line, node.at.column, node.at.length)
}

/// The tree without positions, for comparison.
fn plain(node: &DocumentNode) -> String {
    match &node.kind {
        ValueKind::List(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(",")),
        ValueKind::Map(entries) => {
            let members = entries.iter().map(|(key, node)| format!("{:?}:{}", key.value, plain(node)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        kind => format!("{kind:?}"),
    }
}

#[test]
fn everything_knows_where_it_stands() {
    let node = tree("a: 10\nbé: { c: [x, \"y z\"], d: }\nlist:\n  - name: n\n    é: ü\n  - 'two'\n");
    assert_eq!(position(&node), (1, 1, 1));
    assert_eq!(position(node.get("a").unwrap()), (1, 4, 2));
    let b = node.get("bé").unwrap();
    assert_eq!(position(b), (2, 5, 21));
    assert_eq!(position(&b.get("c").unwrap().items()[1]), (2, 14, 5));
    assert_eq!(position(b.get("d").unwrap()), (2, 22, 1), "an absent value has the position of its key");
    let items = node.get("list").unwrap().items();
    assert_eq!(position(&items[0]), (4, 5, 4), "a block map has the position of its first key");
    assert_eq!(items[0].entries()[1].0.at, Span { line: 5, column: 5, length: 1 });
    assert_eq!(position(&items[1]), (6, 5, 5));
}

#[test]
fn numbers_keep_their_text_and_quotes_make_text() {
    let node = tree("a: 1.50\nb: '1.50'\nc: ~\nd: \"true\"\ne: yes\nf:\n");
    assert_eq!(node.get("a").unwrap().kind, ValueKind::Number("1.50".into()));
    assert_eq!(node.get("b").unwrap().kind, ValueKind::Text("1.50".into()));
    assert_eq!(node.get("c").unwrap().kind, ValueKind::Null);
    assert_eq!(node.get("d").unwrap().kind, ValueKind::Text("true".into()));
    assert_eq!(node.get("e").unwrap().kind, ValueKind::Text("yes".into()));
    assert_eq!(node.get("f").unwrap().kind, ValueKind::Null);
}

#[test]
fn nothing_is_null() {
    for text in ["", "\n\n", "# only a remark\n", "---\n", "\u{feff}", "~"] {
        assert_eq!(tree(text).kind, ValueKind::Null, "{text:?}");
    }
    assert_eq!(tree("\u{feff}a: 1").get("a").unwrap().at, Span { line: 1, column: 4, length: 1 });
}

#[test]
fn json_is_read_as_json_is() {
    let node =
        tree("\u{feff}{\n\t\"a\\/b\": \"\\ud83d\\ude00\",\r\n\t\"n\": [-1.5e+3, 0, true, null, {}, []]\n}\n");
    assert_eq!(node.get("a/b").unwrap().kind, ValueKind::Text("😀".into()));
    assert_eq!(position(node.get("a/b").unwrap()), (2, 10, 14));
    assert_eq!(plain(node.get("n").unwrap()), r#"[Number("-1.5e+3"),Number("0"),Bool(true),Null,{},[]]"#);
    assert_eq!(position(node.get("n").unwrap()), (3, 7, 32));
}

#[test]
fn flow_style_that_is_not_json_is_yaml() {
    let node = tree("{ a: b, 'c': [d, 1,], # a remark\n e: 01 }");
    assert_eq!(plain(&node), r#"{"a":Text("b"),"c":[Text("d"),Number("1")],"e":Number("01")}"#);
}

#[test]
fn of_two_syntax_errors_the_later_one_is_told() {
    let found = problems("{\n\t\"a\": 1,\n\t\"b\": 2\n\t\"c\": 3\n}");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].at.line, found[0].at.column), (4, 2), "{found:?}");
}

#[test]
fn half_pairs_and_raw_control_characters_are_refused() {
    for text in [r#"["\ud83d"]"#, r#"["\ude00\ud83d"]"#, r#"["\u12"]"#, "[\"\u{1}\"]"] {
        assert_eq!(problems(text).len(), 1, "{text:?}");
    }
}

#[test]
fn every_duplicate_is_told_with_the_line_of_the_first() {
    for text in [
        "a: 1\nb: {x: 1,\n x: 2}\na: 2\na: 3\n",
        "{\"a\": 1,\n\"b\": {\"x\": 1,\n\"x\": 2},\"a\": 2, \"a\": 3}",
    ] {
        let found = problems(text);
        assert_eq!(found.len(), 3, "{found:?}");
        let of_x = found.iter().find(|problem| problem.path == "b.x").unwrap();
        assert_eq!(of_x.at.line, 3);
        assert!(of_x.hint.as_ref().unwrap().contains("line 2"), "{of_x:?}");
        let of_a: Vec<_> = found.iter().filter(|problem| problem.path == "a").collect();
        assert_eq!(of_a.len(), 2);
        assert!(of_a.iter().all(|problem| problem.hint.as_ref().unwrap().contains("line 1")));
    }
}

#[test]
fn what_yaml_has_beyond_data_is_refused() {
    let cases = [
        ("a: &x 1\nb: 2", "anchors", 1),
        ("a: &x 1\nb: *x", "aliases", 2),
        ("b: *x", "aliases", 1),
        ("path: *", "this is not valid YAML", 1),
        ("base: { k: 1 }\nb:\n  <<: { k: 2 }", "merge keys", 3),
        ("a: !!str 1", "tags", 1),
        ("a: 1\n---\nb: 2", "a second document", 2),
        ("1: x", "a key is not text", 1),
        ("true: x", "a key is not text", 1),
        (": x", "a key is missing", 1),
        ("? [a]\n: x", "a list or a map cannot be a key", 1),
    ];
    for (text, message, line) in cases {
        let found = problems(text);
        let reported = found.iter().find(|problem| problem.message.contains(message));
        assert_eq!(reported.map(|problem| problem.at.line), Some(line), "{text:?}: {found:?}");
    }
    assert_eq!(plain(&tree("\"<<\": 1")), r#"{"<<":Number("1")}"#);
}

#[test]
fn budgets_hold() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(parse(&deep(DEPTH_MAX)).is_ok());
    assert!(problems(&deep(DEPTH_MAX + 1))[0].message.contains("too deeply"));
    assert!(problems(&format!("a: {}", deep(DEPTH_MAX)))[0].message.contains("too deeply"));
    assert!(problems(&"x".repeat(TEXT_BYTES_MAX + 1))[0].message.contains("too long"));
    let many = format!("[{}0]", "0,".repeat(NODES_MAX));
    assert!(problems(&many)[0].message.contains("too many values"));
    let repeated = "a: 1\n".repeat(PROBLEMS_MAX + 10);
    assert_eq!(problems(&repeated).len(), PROBLEMS_MAX);
}

#[test]
fn syntax_errors_come_with_advice() {
    let cases = [
        ("a:\n\tb: 1\n", 2, "tabs"),
        ("limits:\n  - name:a\n    rate: 1\n", 3, "`name: a`"),
        ("a: \"open\nb: 1\n", 1, "not closed"),
        ("a: [1, 2\nb: 3\n", 2, "not closed"),
        ("a: {b: 1\nc: 3\n", 2, "`}`"),
        ("a:\n  b: 1\n c: 2\n", 3, "indentation"),
        ("a: @x\n", 1, "quote text"),
    ];
    for (text, line, advice) in cases {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].at.line, line, "{text:?}: {found:?}");
        let hint = found[0].hint.clone().unwrap_or_default();
        assert!(hint.contains(advice), "{text:?}: {found:?}");
    }
}

/// Pieces that often break parsers, in any order.
fn soup() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a", ": ", ":", "- ", "-", "\n", "\n  ", "\t", "{", "}", "[", "]", ",", "\"", "'", "&x ", "*x",
        "!t ", "|\n", ">-\n ", "# c", "---", "...", "?", "%", "\\", "\\u", "d83d", "1", "~", "<<", "\r",
        "\u{feff}", "é", "\u{85}", "\0",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn reading_never_panics(text in prop_oneof![soup(), any::<String>()]) {
        if let Err(problems) = parse(&text) {
            prop_assert!(!problems.is_empty());
            for problem in problems {
                prop_assert!(problem.at.line >= 1 && problem.at.column >= 1 && problem.at.length >= 1);
            }
        }
    }

    #[test]
    fn json_values_survive(text in any::<String>(), number in any::<i64>()) {
        let quoted: String = text.chars().map(|c| match c {
            '"' | '\\' => format!("\\{c}"),
            c if c < ' ' => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        }).collect();
        let node = tree(&format!("[\"{quoted}\",{number}]"));
        prop_assert_eq!(&node.items()[0].kind, &ValueKind::Text(text));
        prop_assert_eq!(&node.items()[1].kind, &ValueKind::Number(number.to_string()));
    }
}

#[test]
fn every_problem_stands_within_the_text() {
    for (text, line, column) in [("a:\n  b: 1\n  c", 3, 4), ("---\n---", 2, 1), ("a: 1\nb", 2, 2)] {
        let problems = parse(text).unwrap_err();
        assert_eq!((problems[0].at.line, problems[0].at.column), (line, column), "{text:?}: {problems:?}");
    }
}

#[test]
fn a_carriage_return_alone_hides_nothing_in_a_comment() {
    let problems = parse("# for all\rlimits: []\nversion: 1\n").unwrap_err();
    assert_eq!((problems[0].at.line, problems[0].at.column), (1, 10), "{problems:?}");
    assert!(parse("# for all\r\nlimits: []\r\n").is_ok());
}
