//! Random documents in random styles, and random edits of them.

mod page;

use proptest::prelude::*;

use super::*;
use crate::edit::style::Style;
use page::{Owner, Sample, Tape, sample};

/// Texts that need quotes in YAML, and some that do not.
const TEXTS: &[&str] = &[
    "x", "", "5", "true", "a b", " lead", "a: b", "a #b", "- x", "*", "é€", "no", "a\nb", "\"", "k:", "[",
    "#", "\u{85}", "'", "0x1", "-",
];

/// A random entry or patch, as a value.
fn random_value(tape: &mut Tape<'_>, depth: usize) -> DocumentNode {
    let kind = match tape.pick(if depth == 0 { 3 } else { 6 }) {
        0 => ValueKind::Text(tape.of(TEXTS).to_owned()),
        1 => ValueKind::Number(tape.of(&["1", "2.5", "-3", "100000000000"]).to_owned()),
        2 => ValueKind::Null,
        3 => ValueKind::List((0..tape.pick(3)).map(|_| random_value(tape, depth - 1)).collect()),
        _ => return random_map(tape, depth),
    };
    DocumentNode::new(kind)
}

fn random_map(tape: &mut Tape<'_>, depth: usize) -> DocumentNode {
    let mut members: Vec<(Spanned<String>, DocumentNode)> = Vec::new();
    for _ in 0..=tape.pick(3) {
        let key = tape.of(&["name", "rate", "key", "match", "é", "header:x", "a b", "q", "5", "new", "no"]);
        if members.iter().all(|(known, _)| known.value != key) {
            let member = random_value(tape, depth - 1);
            members.push((Spanned::new(key.to_owned(), Span::default()), member));
        }
    }
    DocumentNode::new(ValueKind::Map(members))
}

/// A line without indentation, dashes, the comma after an element, and blanks at the end.
fn bare(line: &str) -> String {
    let line = line.trim_start_matches([' ', '-']).trim_end_matches([',', ' ', '\r']);
    line.replace(", #", " #")
}

/// Are these lines all in the text, in this order? Those marked `true` must be there byte for byte.
fn has_lines<'l>(text: &str, lines: impl IntoIterator<Item = (&'l str, bool)>) -> Result<(), String> {
    let mut rest = text.lines();
    for (line, is_exact) in lines {
        let is_same = |found: &str| if is_exact { found == line } else { bare(found) == bare(line) };
        if !bare(line).is_empty() && !rest.by_ref().any(is_same) {
            return Err(line.to_owned());
        }
    }
    Ok(())
}

/// What an edit should have done.
struct Outcome {
    /// The entries of the list.
    expected: Vec<DocumentNode>,
    /// The index of the entry that was edited, and which of its members changed; no members if it was removed or
    /// written anew.
    touched: Option<(usize, Option<Vec<String>>)>,
    /// The entry that was inserted.
    inserted: Option<DocumentNode>,
}

/// Edits a random entry in a random way.
fn edit_somehow(editor: &mut DocumentEditor, tape: &mut Tape<'_>) -> (Result<(), EditError>, Outcome) {
    let old = editor.root().get("limits").map(DocumentNode::items).unwrap_or_default();
    let mut expected = old.to_vec();
    let count = expected.len();
    let (operation, index) = (tape.pick(4), tape.pick(count.max(1)));
    let fresh = random_map(tape, 3);
    if operation == 0 || count == 0 {
        let index = tape.pick(count + 1);
        expected.insert(index, fresh.clone());
        let done = editor.insert("limits", index, &fresh);
        return (done, Outcome { expected, touched: None, inserted: Some(fresh) });
    }
    if operation == 1 {
        expected.remove(index);
        let done = editor.remove("limits", index);
        return (done, Outcome { expected, touched: Some((index, None)), inserted: None });
    }
    let next = if operation == 2 { merge_patch(Some(&expected[index]), &fresh) } else { fresh.clone() };
    let before = std::mem::replace(&mut expected[index], next.clone());
    let done = match operation {
        2 => editor.patch("limits", index, &fresh),
        _ => editor.replace("limits", index, &next),
    };
    let keys = before.entries().iter().chain(next.entries()).map(|(key, _)| key.value.clone());
    let differs = |key: &String| match (before.get(key), next.get(key)) {
        (Some(a), Some(b)) => !a.same_value(b),
        _ => true,
    };
    let changed = (!next.entries().is_empty()).then(|| keys.filter(differs).collect());
    (done, Outcome { expected, touched: Some((index, changed)), inserted: None })
}

/// Must this line of the old text be in the new one?
fn survives(line: &str, owner: &Owner, count: usize, touched: Option<&(usize, Option<Vec<String>>)>) -> bool {
    match (owner, touched) {
        // The line of the key changes where the first entry is written, or the last one removed.
        (None, _) if line.starts_with("limits:") => line == "limits:" && count > 1,
        (None, Some((_, None))) if line.starts_with("  ]") => count > 1,
        (None, _) | (_, None) => true,
        (Some((entry, _)), Some((index, _))) if entry != index => true,
        (Some(_), Some((_, None))) => false,
        // A line of an entry in braces changes with its members.
        (Some((_, None)), Some(_)) => bare(line).starts_with('#'),
        (Some((_, Some(member))), Some((_, Some(changed)))) => !changed.contains(member),
    }
}

fn check(tape: &[u8], edit: &[u8]) -> Result<(), TestCaseError> {
    let Sample { text, lines, is_block } = sample(tape);
    let mut editor = DocumentEditor::new(text.as_str()).map_err(|error| {
        TestCaseError::fail(format!("the generator wrote what is not valid: {error}\n{text}"))
    })?;
    let old = editor.root().clone();
    let count = old.get("limits").map(DocumentNode::items).unwrap_or_default().len();
    let (done, Outcome { expected, touched, inserted }) = edit_somehow(&mut editor, &mut Tape(edit));
    let new = editor.text();
    prop_assert!(done.is_ok(), "{:?}\n{}", done, text);
    let found = parse(new).unwrap();
    prop_assert!(found.get("limits").unwrap().same_value(&node_list(&expected)), "{}\n---\n{}", text, new);
    for (key, member) in old.entries().iter().filter(|(key, _)| key.value != "limits") {
        prop_assert!(found.get(&key.value).unwrap().same_value(member), "{}\n---\n{}", text, new);
    }
    prop_assert!(!text.contains("\r\n") || new.matches('\n').count() == new.matches("\r\n").count());
    prop_assert!(text.contains("\r\n") || !new.contains('\r'));
    let kept = lines.iter().filter(|(line, owner)| survives(line, owner, count, touched.as_ref()));
    // In brackets, a comma comes or goes on the line of a neighbour.
    let is_foreign = |owner: &Owner| match (owner, &touched) {
        (Some((entry, _)), Some((index, _))) => entry != index,
        _ => true,
    };
    let missing = has_lines(new, kept.map(|(line, owner)| (line.as_str(), is_block && is_foreign(owner))));
    prop_assert!(missing.is_ok(), "{:?} is gone\n{}\n---\n{}\n{:?}", missing, text, new, touched);
    if let (true, Some(inserted)) = (is_block, inserted) {
        let is_restored = |at: usize| {
            expected[at].same_value(&inserted) && text_without(new, at).as_deref() == Some(&*text)
        };
        prop_assert!((0..=count).any(is_restored), "removing it does not restore\n{}\n---\n{}", text, new);
    }
    Ok(())
}

fn text_without(text: &str, index: usize) -> Option<String> {
    let mut editor = DocumentEditor::new(text).ok()?;
    editor.remove("limits", index).ok()?;
    Some(editor.into_text())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn edits_change_what_they_should_and_nothing_else(
        tape in proptest::collection::vec(any::<u8>(), 0..200),
        edit in proptest::collection::vec(any::<u8>(), 0..30),
    ) {
        check(&tape, &edit)?;
    }

    #[test]
    fn json_is_edited_in_any_layout(
        tape in proptest::collection::vec(any::<u8>(), 0..100),
        edit in proptest::collection::vec(any::<u8>(), 0..30),
        spacing in 0..4_usize,
    ) {
        let mut tape = Tape(&tape);
        let items: Vec<DocumentNode> = (0..tape.pick(4)).map(|_| random_map(&mut tape, 3)).collect();
        let root = format!("{{\"version\":1,\"limits\":{},\"b\":[1]}}", node_list(&items).to_json());
        let mut expected = items;
        let style = Style::of("", None, true);
        let text = match spacing {
            0 => root.clone(),
            1 => style.inline(&value(&root)),
            2 => Style { spreads_nested: true, ..style }.spread(&value(&root), 0),
            _ => Style { step: 4, newline: "\r\n", ..style }.spread(&value(&root), 0),
        };
        let mut editor = DocumentEditor::new(text.as_str()).unwrap();
        let mut tape = Tape(&edit);
        let (operation, index) = (tape.pick(3), tape.pick(expected.len().max(1)));
        let fresh = random_map(&mut tape, 3);
        let done = if operation == 0 || expected.is_empty() {
            expected.insert(index, fresh.clone());
            editor.insert("limits", index, &fresh)
        } else if operation == 1 {
            expected.remove(index);
            editor.remove("limits", index)
        } else {
            expected[index] = fresh.clone();
            editor.replace("limits", index, &fresh)
        };
        prop_assert!(done.is_ok(), "{:?}\n{}", done, text);
        let found = crate::parse_json(editor.text()).expect("it stays JSON");
        prop_assert!(found.get("limits").unwrap().same_value(&node_list(&expected)));
        if spacing == 0 {
            // Compact stays compact.
            prop_assert_eq!(editor.text(), found.to_json());
        }
    }
}
