//! Random documents in random styles, and random edits of them.

use proptest::prelude::*;

use super::*;
use crate::edit::style::Style;

/// Random choices. After the last one, the first of the options is chosen.
struct Tape<'t>(&'t [u8]);

impl Tape<'_> {
    fn pick(&mut self, options: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % options
    }

    fn chance(&mut self, of: usize) -> bool {
        self.pick(of) == of - 1
    }

    fn of<'v>(&mut self, options: &[&'v str]) -> &'v str {
        options[self.pick(options.len())]
    }
}

/// Which entry, and which of its members, a line belongs to.
type Owner = Option<(usize, Option<String>)>;

/// A document under construction.
struct Page<'t> {
    tape: Tape<'t>,
    lines: Vec<(String, Owner)>,
    comments: usize,
    has_comments: bool,
}

const KEYS: &[&str] = &["name", "rate", "key", "match", "é", "header:x", "'a b'", "\"q\""];
const SCALARS: &[&str] =
    &["1", "x", "'it''s'", "\"a # \\\"b\"", "~", "true", "/api/**", "10s", "a: b", "0x1F", "-5.50", "ü ö"];
const TEXTS: &[&str] = &[
    "x", "", "5", "true", "a b", " lead", "a: b", "a #b", "- x", "*", "é€", "no", "a\nb", "\"", "k:", "[",
    "#", "\u{85}", "'", "0x1", "-",
];

impl Page<'_> {
    fn line(&mut self, text: String, owner: &Owner) {
        let end = if self.has_comments && self.tape.chance(6) { self.comment() } else { String::new() };
        let blanks = if self.tape.chance(8) { "  " } else { "" };
        let gap = if end.is_empty() { blanks } else { " " };
        self.lines.push((format!("{text}{gap}{end}"), owner.clone()));
    }

    fn comment(&mut self) -> String {
        self.comments += 1;
        format!("# c{}", self.comments)
    }

    /// Blank lines that belong to nobody, then comments that belong to what follows.
    fn above(&mut self, indent: usize, owner: &Owner) {
        (0..self.tape.pick(6).saturating_sub(3)).for_each(|_| self.lines.push((String::new(), None)));
        while self.has_comments && self.tape.chance(5) {
            let comment = self.comment();
            self.lines.push((format!("{}{comment}", " ".repeat(indent)), owner.clone()));
        }
    }

    fn keys(&mut self) -> Vec<&'static str> {
        let count = 1 + self.tape.pick(4);
        let mut keys: Vec<&str> = Vec::new();
        for _ in 0..count {
            let key = self.tape.of(KEYS);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    fn scalar(&mut self, in_flow: bool) -> &'static str {
        match self.tape.of(SCALARS) {
            // In a block this would be a map.
            "a: b" => "'a: b'",
            scalar if in_flow && scalar == "~" => "null",
            scalar => scalar,
        }
    }

    fn flow(&mut self, depth: usize) -> String {
        let blank = self.tape.of(&["", " "]);
        match self.tape.pick(if depth == 0 { 1 } else { 3 }) {
            0 => self.scalar(true).to_owned(),
            1 => {
                let items: Vec<String> = (0..self.tape.pick(3)).map(|_| self.flow(depth - 1)).collect();
                format!("[{blank}{}{blank}]", items.join(self.tape.of(&[", ", ","])))
            }
            _ => self.flow_map(depth),
        }
    }

    fn flow_map(&mut self, depth: usize) -> String {
        let blank = self.tape.of(&["", " "]);
        let members: Vec<String> =
            self.keys().into_iter().map(|key| format!("{key}: {}", self.flow(depth - 1))).collect();
        format!("{{{blank}{}{blank}}}", members.join(self.tape.of(&[", ", " ,"])))
    }

    /// The members of a map, the first of which may follow `lead`.
    fn block_map(&mut self, lead: &str, indent: usize, depth: usize, entry: Option<usize>, owner: &Owner) {
        for (index, key) in self.keys().into_iter().enumerate() {
            let owner = match entry {
                Some(entry) => Some((entry, Some(value(key).scalar().unwrap_or_default().to_owned()))),
                None => owner.clone(),
            };
            if index > 0 {
                self.above(indent, &owner);
            }
            let lead = if index == 0 { lead.to_owned() } else { " ".repeat(indent) };
            let inner = indent + 1 + self.tape.pick(4);
            match self.tape.pick(if depth == 0 { 2 } else { 6 }) {
                0 => {
                    let scalar = self.scalar(false);
                    self.line(format!("{lead}{key}: {scalar}"), &owner);
                }
                1 | 2 => {
                    let flow = self.flow(2);
                    self.line(format!("{lead}{key}: {flow}"), &owner);
                }
                3 => {
                    self.lines
                        .push((format!("{lead}{key}: {}", self.tape.of(&["|", ">-", "|2-"])), owner.clone()));
                    let shift = " ".repeat(indent + 2);
                    self.lines.push((format!("{shift}# text"), owner.clone()));
                    self.lines.push((format!("{shift}more"), owner.clone()));
                }
                4 => {
                    self.line(format!("{lead}{key}:"), &owner);
                    let shift = self.tape.pick(3);
                    self.block_list(indent + shift, &owner);
                }
                _ => {
                    self.line(format!("{lead}{key}:"), &owner);
                    self.block_map(&" ".repeat(inner), inner, depth - 1, None, &owner);
                }
            }
        }
    }

    fn block_list(&mut self, indent: usize, owner: &Owner) {
        for _ in 0..=self.tape.pick(3) {
            self.above(indent, owner);
            let scalar = self.scalar(false);
            self.line(format!("{}- {scalar}", " ".repeat(indent)), owner);
        }
    }

    /// The list that is edited, in one of its styles; returns whether it is a block list with entries.
    fn limits(&mut self) -> bool {
        let count = self.tape.pick(4);
        match self.tape.pick(6) {
            0 => {
                let items: Vec<String> = (0..count).map(|_| self.flow_map(3)).collect();
                self.line(format!("limits: [{}]", items.join(", ")), &None);
                return false;
            }
            1 if count > 0 => {
                self.line("limits: [".to_owned(), &None);
                for entry in 0..count {
                    let owner = Some((entry, None));
                    self.above(4, &owner);
                    let comma = if entry + 1 < count || self.tape.chance(3) { "," } else { "" };
                    let item = self.flow_map(2);
                    self.line(format!("    {item}{comma}"), &owner);
                }
                self.line("  ]".to_owned(), &None);
                return false;
            }
            _ if count == 0 => {
                let empty = self.tape.of(&["limits:", "limits: []", "limits: null", "other: 1"]);
                self.line(empty.to_owned(), &None);
                return false;
            }
            _ => {}
        }
        self.line("limits:".to_owned(), &None);
        let indent = self.tape.pick(4);
        for entry in 0..count {
            let owner = Some((entry, None));
            self.above(indent, &owner);
            let offset = 1 + self.tape.pick(3);
            let lead = format!("{}-{}", " ".repeat(indent), " ".repeat(offset));
            match self.tape.pick(5) {
                0 => {
                    let item = self.flow_map(3);
                    self.line(format!("{lead}{item}"), &owner);
                }
                1 => {
                    self.line(format!("{}-", " ".repeat(indent)), &owner);
                    let inner = indent + 1 + offset;
                    self.block_map(&" ".repeat(inner), inner, 2, Some(entry), &owner);
                }
                _ => self.block_map(&lead, indent + 1 + offset, 2, Some(entry), &owner),
            }
        }
        true
    }
}

struct Sample {
    text: String,
    lines: Vec<(String, Owner)>,
    is_block: bool,
}

fn sample(tape: &[u8]) -> Sample {
    let mut page = Page { tape: Tape(tape), lines: Vec::new(), comments: 0, has_comments: true };
    page.has_comments = page.tape.pick(4) > 0;
    let (has_breaks, has_end, has_start) = (page.tape.chance(3), page.tape.pick(3) > 0, page.tape.chance(4));
    if has_start {
        page.lines.push(("---".to_owned(), None));
    }
    page.above(0, &None);
    page.line("version: 1".to_owned(), &None);
    page.above(0, &None);
    let is_block = page.limits();
    if page.tape.chance(2) {
        page.above(0, &None);
        page.line("routes: [a, b]".to_owned(), &None);
    }
    let newline = if has_breaks { "\r\n" } else { "\n" };
    let lines: Vec<&str> = page.lines.iter().map(|(line, _)| line.as_str()).collect();
    let text = lines.join(newline) + if has_end { newline } else { "" };
    Sample { text, lines: page.lines, is_block }
}

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

/// Are these lines all in the text, in this order?
fn has_lines<'l>(text: &str, lines: impl IntoIterator<Item = &'l str>) -> Result<(), String> {
    let mut rest = text.lines();
    for line in lines {
        if !bare(line).is_empty() && !rest.by_ref().any(|found| bare(found) == bare(line)) {
            return Err(line.to_owned());
        }
    }
    Ok(())
}

fn check(tape: &[u8], edit: &[u8]) -> Result<(), TestCaseError> {
    let Sample { text, lines, is_block } = sample(tape);
    let mut editor = DocumentEditor::new(text.as_str()).map_err(|error| {
        TestCaseError::fail(format!("the generator wrote what is not valid: {error}\n{text}"))
    })?;
    let old = editor.root().clone();
    let mut expected: Vec<DocumentNode> =
        old.get("limits").map(DocumentNode::items).unwrap_or_default().to_vec();
    let mut tape = Tape(edit);
    let count = expected.len();
    let (operation, index) = (tape.pick(4), tape.pick(count.max(1)));
    let fresh = random_map(&mut tape, 3);
    let mut changed: Option<Vec<String>> = None;
    let done = if operation == 0 || count == 0 {
        let index = tape.pick(count + 1);
        expected.insert(index, fresh.clone());
        changed = Some(Vec::new());
        editor.insert("limits", index, &fresh)
    } else if operation == 1 {
        expected.remove(index);
        editor.remove("limits", index)
    } else {
        let next = if operation == 2 { merge_patch(Some(&expected[index]), &fresh) } else { fresh.clone() };
        let before = std::mem::replace(&mut expected[index], next.clone());
        let keys = before.entries().iter().chain(next.entries()).map(|(key, _)| key.value.clone());
        let same = |key: &String| match (before.get(key), next.get(key)) {
            (Some(a), Some(b)) => a.same_value(b),
            _ => false,
        };
        let differing: Vec<String> = keys.filter(|key| !same(key)).collect();
        // If no member stays, the entry is written anew.
        if !next.entries().is_empty() && !before.entries().is_empty() {
            changed = Some(differing);
        }
        if operation == 2 {
            editor.patch("limits", index, &fresh)
        } else {
            editor.replace("limits", index, &next)
        }
    };
    let new = editor.text();
    prop_assert!(done.is_ok(), "{:?}\n{}\n{}", done, text, fresh.to_json());
    let found = parse(new).unwrap();
    let list = DocumentNode::new(ValueKind::List(expected));
    prop_assert!(found.get("limits").unwrap().same_value(&list), "{}\n{}", text, new);
    for (key, member) in old.entries().iter().filter(|(key, _)| key.value != "limits") {
        prop_assert!(found.get(&key.value).unwrap().same_value(member), "{}\n{}", text, new);
    }
    prop_assert_eq!(text.contains("\r\n"), new.contains("\r\n"));
    prop_assert!(!text.contains("\r\n") || new.matches('\n').count() == new.matches("\r\n").count());
    let is_flow_line = |line: &str| line.starts_with("limits: [") && line.len() > "limits: [".len();
    let survives = |(line, owner): &&(String, Owner)| match (owner, &changed) {
        // The line of the key changes where the first entry is written, or the last one removed.
        (None, _) if line.starts_with("limits:") && (line != "limits:" || count == 1) => false,
        (None, None) if line.starts_with("  ]") && count == 1 => false,
        (None, _) => !is_flow_line(line),
        (Some((entry, _)), None) => *entry != index,
        (Some((entry, _)), Some(_)) if operation == 0 || *entry != index => true,
        // A line of an entry in braces changes with its members.
        (Some((_, None)), Some(_)) => bare(line).starts_with('#'),
        (Some((_, Some(member))), Some(changed)) => !changed.contains(member),
    };
    let kept = lines.iter().filter(survives).map(|(line, _)| line.as_str());
    let missing = has_lines(new, kept);
    prop_assert!(missing.is_ok(), "{:?} is gone\n{}\n---\n{}\n{} {}", missing, text, new, operation, index);
    if is_block && operation == 0 {
        let at = (0..=count).find(|at| {
            let items = found.get("limits").unwrap().items();
            items[*at].same_value(&fresh) && text_without(new, *at).as_deref() == Some(&*text)
        });
        prop_assert!(
            at.is_some(),
            "removing the new entry does not restore the text\n{}\n---\n{}",
            text,
            new
        );
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
