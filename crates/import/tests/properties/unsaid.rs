//! Nothing that a document says is lost without a word.
//!
//! A leaf of a document is *said* if the notes tell that it, or what it belongs to, is left out; or if the policy or the
//! notes become others without it; or if they become others with every other value that the format allows there (so a
//! value that is the only one allowed says nothing). A value that is read, checked and then forgotten is none of these.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;
use tidegate_document::parse;
use tidegate_import::{ImportFormat, ImportNote, Imported, import};

use super::documents::{Fixture, all};
use super::leaves::{LeafPath, Step, alternatives, at, changed, kind, leaves, maps, parts, tree, written};

/// What an import makes of a document, without positions: those change with every edit.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    policy: String,
    /// Path, what and why, and further places. Sorted, for an edit can move them.
    notes: Vec<(String, String, String, usize)>,
    skipped: usize,
}

impl Outcome {
    fn new(imported: &Imported) -> Outcome {
        let said = |note: &ImportNote| (note.path.clone(), note.what.clone(), note.why.clone(), note.more);
        let is_skip = |note: &&ImportNote| note.what.contains("is not imported");
        let mut notes: Vec<_> = imported.notes.iter().map(said).collect();
        notes.sort_unstable();
        let skipped = imported.notes.iter().filter(is_skip).count();
        Outcome { policy: imported.policy.clone(), notes, skipped }
    }

    /// The same without paths: they change where something before them is left out.
    fn without_paths(mut self) -> Outcome {
        self.notes.iter_mut().for_each(|(path, ..)| path.clear());
        self.notes.sort_unstable();
        self
    }
}

fn run(format: ImportFormat, document: &Value) -> Option<Imported> {
    import(format, "document.json", &document.to_string()).ok()
}

/// Does the note say that the leaf at this path is left out, by itself or with what contains it?
fn leaves_out(note: &ImportNote, path: &str) -> bool {
    if let Some(item) = note.what.strip_suffix(" is not imported") {
        return item == "this" || is_within(path, item.trim_matches('`'));
    }
    let is_whole = note.what.starts_with(['`']) || note.what.starts_with("this ");
    match note.what.contains("is left out") || note.what.contains("is empty") {
        true if is_whole => is_within(path, &note.path),
        said => said && path == note.path,
    }
}

fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Do the notes say that the leaf is left out, by itself or with what contains it?
fn is_left_out(
    import: impl Fn(&Value) -> Option<Imported>,
    document: &Value,
    imported: &Imported,
    leaf: &LeafPath,
) -> bool {
    let path = written(leaf);
    let mut members = (1..leaf.len()).map(|length| &leaf[..length]);
    imported.notes.iter().any(|note| leaves_out(note, &path))
        || members.any(|member| is_counted(&import, document, imported, member))
}

/// Is the member one of the further places of a note, which has the path of the first alone? Then the note counts one
/// place less without the member.
fn is_counted(
    import: impl Fn(&Value) -> Option<Imported>,
    document: &Value,
    imported: &Imported,
    member: &[Step],
) -> bool {
    let Some(Step::Member(name)) = member.last() else { return false };
    let what = format!("`{name}` is left out");
    let mut counting = imported.notes.iter().filter(|note| note.more > 0 && note.what == what).peekable();
    let Some(without) = counting.peek().and_then(|_| import(&changed(document, member, None))) else {
        return false;
    };
    counting.any(|note| {
        let is_same = |other: &&ImportNote| (&other.what, &other.why) == (&note.what, &note.why);
        without.notes.iter().find(is_same).is_some_and(|other| other.more + 1 == note.more)
    })
}

/// Is the leaf said, by an import that works like this?
fn is_said(import: impl Fn(&Value) -> Option<Imported>, document: &Value, leaf: &LeafPath) -> bool {
    let Some(imported) = import(document) else { return false };
    let (base, base_without_paths) = (Outcome::new(&imported), Outcome::new(&imported).without_paths());
    // `Some` if the changed document is as sound as this one: then whether it becomes something else.
    let differs = |to: Option<Value>| {
        let is_gone = to.is_none();
        let outcome = Outcome::new(&import(&changed(document, leaf, to))?);
        (outcome.skipped <= base.skipped).then(|| match is_gone {
            true => outcome.without_paths() != base_without_paths,
            // Every path leads where it did, so a note at another place says something else.
            false => outcome != base,
        })
    };
    let mut others = alternatives(document, leaf).into_iter().filter_map(|other| differs(Some(other)));
    is_left_out(&import, document, &imported, leaf)
        || differs(None) == Some(true)
        || others.all(|differs| differs)
}

/// The leaves that are lost without a word, with their values.
fn unsaid(format: ImportFormat, document: &Value) -> Vec<String> {
    let lost = leaves(document)
        .into_iter()
        .filter(|leaf| !is_said(|document| run(format, document), document, leaf));
    lost.map(|leaf| format!("{} = {}", written(&leaf), at(document, &leaf))).collect()
}

/// The document as a tree; a table as a list of its rows.
fn document_of(fixture: &Fixture) -> Value {
    if fixture.name().ends_with(".csv") {
        rows(&fixture.text)
    } else {
        tree(&parse(&fixture.text).expect("it is sound"))
    }
}

/// The rows of a table without line ends in its fields.
fn rows(text: &str) -> Value {
    let mut lines = text.lines().map(fields);
    let header = lines.next().expect("a table has a header");
    let row = |fields: Vec<Value>| {
        let name = |name: &Value| name.as_str().expect("columns have names").to_owned();
        Value::Object(header.iter().map(name).zip(fields).collect())
    };
    Value::Array(lines.map(row).collect())
}

fn fields(line: &str) -> Vec<Value> {
    let (mut fields, mut field, mut is_quoted, mut had_quote) = (Vec::new(), String::new(), false, false);
    for c in line.chars().chain([',']) {
        match c {
            '"' => (is_quoted, had_quote) = (!is_quoted, true),
            ',' if !is_quoted => {
                let is_null = !had_quote && ["", "NULL"].contains(&field.as_str());
                let text = std::mem::take(&mut field);
                fields.push(if is_null { Value::Null } else { Value::from(text) });
                had_quote = false;
            }
            c => field.push(c),
        }
    }
    fields
}

#[test]
fn nothing_is_lost_without_a_word() {
    let mut lost = Vec::new();
    for fixture in all() {
        let unsaid = unsaid(fixture.format, &document_of(&fixture));
        lost.extend(unsaid.into_iter().map(|leaf| format!("{}: {leaf}\n", fixture.name())));
    }
    assert!(lost.is_empty(), "{}", lost.concat());
}

/// What is said above about a value that is read and then forgotten: an import that drops a member before it reads the
/// document is found out, whichever member it is.
#[test]
fn an_import_that_forgets_a_member_is_found_out() {
    let mut tried = 0;
    for fixture in all() {
        let document = document_of(&fixture);
        for leaf in leaves(&document) {
            let without = changed(&document, &leaf, None);
            let is_member = matches!(leaf.last(), Some(Step::Member(_)));
            let has_others = !alternatives(&document, &leaf).is_empty();
            let Some(imported) = run(fixture.format, &without).filter(|_| is_member && has_others) else {
                continue;
            };
            if is_left_out(|document| run(fixture.format, document), &without, &imported, &leaf) {
                continue;
            }
            let path = written(&leaf);
            let forgetful = |document: &Value| run(fixture.format, &changed(document, &leaf, None));
            assert!(!is_said(forgetful, &document, &leaf), "{}: {path}", fixture.name());
            tried += 1;
        }
    }
    assert!(tried > 200, "only {tried} members were tried");
}

/// Does every entry of the document come through?
fn is_sound(format: ImportFormat, document: &Value) -> bool {
    run(format, document).is_some_and(|imported| Outcome::new(&imported).skipped == 0)
}

/// A member of a map of this kind, from one of the documents of the format.
struct Donor {
    kind: Option<String>,
    name: String,
    value: Value,
}

fn donors(format: ImportFormat, fixtures: &[Fixture]) -> Vec<Donor> {
    let mut found = Vec::new();
    for document in fixtures.iter().filter(|fixture| fixture.format == format).map(document_of) {
        for path in maps(&document) {
            let members = at(&document, &path).as_object().expect("it is a map");
            let donor = |(name, value): (&String, &Value)| Donor {
                kind: kind(&path).map(str::to_owned),
                name: name.clone(),
                value: value.clone(),
            };
            found.extend(members.iter().map(donor));
        }
    }
    found
}

/// Puts the member into one of the maps of its kind, over what is there.
fn transplanted(document: &Value, donor: &Donor, which: &Index) -> Value {
    let mut hosts = maps(document);
    hosts.retain(|path| kind(path) == donor.kind.as_deref());
    if hosts.is_empty() {
        return document.clone();
    }
    let mut path = which.get(&hosts).clone();
    path.push(Step::Member(donor.name.clone()));
    changed(document, &path, Some(donor.value.clone()))
}

/// An edit of a document: what is done, where, and how.
type Edit = (u8, Index, Index);

/// The number of kinds of edits.
const EDIT_KINDS: u8 = 3;

fn edited(document: &Value, donors: &[Donor], (edit, which, how): &Edit) -> Value {
    match edit {
        0 => transplanted(document, how.get(donors), which),
        1 => {
            let leaves = leaves(document);
            let leaf = which.get(&leaves);
            let others = alternatives(document, leaf).into_iter().map(Some);
            let options: Vec<Option<Value>> = others.chain([None]).collect();
            changed(document, leaf, how.get(&options).clone())
        }
        _ => {
            let parts = parts(document);
            if parts.is_empty() {
                return document.clone();
            }
            let part = which.get(&parts);
            if how.index(2) == 0 { changed(document, part, None) } else { repeated(document, part) }
        }
    }
}

/// The document with an item once more, at the end of its list; a member stays as it is.
fn repeated(document: &Value, part: &[Step]) -> Value {
    let Some((Step::Item(index), list)) = part.split_last() else { return document.clone() };
    let mut items = at(document, list).as_array().expect("it has items").clone();
    items.push(items[*index].clone());
    changed(document, list, Some(Value::Array(items)))
}

/// The document after those edits that leave every entry of it sound.
fn after(format: ImportFormat, document: Value, donors: &[Donor], edits: &[Edit]) -> Value {
    edits.iter().fold(document, |document, edit| {
        let edited = edited(&document, donors, edit);
        if is_sound(format, &edited) { edited } else { document }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The same for documents that differ from the kept ones in a few places: other values, members and items left out,
    /// items repeated, and members of other documents put in.
    #[test]
    fn nothing_is_lost_after_a_few_edits(
        document in any::<Index>(),
        edits in prop::collection::vec((0..EDIT_KINDS, any::<Index>(), any::<Index>()), 1..8),
    ) {
        let fixtures = all();
        let fixture = document.get(&fixtures);
        let donors = donors(fixture.format, &fixtures);
        let document = after(fixture.format, document_of(fixture), &donors, &edits);
        let lost = unsaid(fixture.format, &document);
        prop_assert!(lost.is_empty(), "{}: {}\n{document}", fixture.name(), lost.join("\n"));
    }
}
