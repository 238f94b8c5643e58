//! The file of API keys: its table, and reading it.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use smallvec::SmallVec;
use subtle::ConstantTimeEq;
use tidegate::Nanos;
use tidegate_document::{
    CustomShape, DocumentNode, ObjectShape, Problem, Shape, ShapeField, TEXT_BYTES_MAX, ValueFault,
    ValueKind, value,
};
use tidegate_policy::KeyHolder;

use crate::bounds::API_KEYS_MAX;
use crate::wire::hex;

/// The hash of an API key.
pub(crate) type ApiKeyHash = [u8; 32];

const HASH_PREFIX: &str = "sha256:";

/// A key, as the file has it.
#[derive(Debug)]
pub(super) struct KeyEntry {
    hash: ApiKeyHash,
    pub(super) holder: Arc<KeyHolder>,
    pub(super) expires: Option<Nanos>,
    pub(super) enabled: bool,
}

/// All keys of a file.
#[derive(Debug, Default)]
pub(crate) struct KeyFile {
    /// The entries by the first eight bytes of their hash.
    entries: HashMap<u64, SmallVec<[KeyEntry; 1]>>,
}

static KEYS: ObjectShape = ObjectShape {
    name: "API keys",
    about: "The file of API keys.",
    fields: &[&[ShapeField::new("keys", Shape::List(&Shape::Object(&KEY)), "The keys.").required()]],
    open_fields: None,
    shorthand: None,
};

/// An entry, also for the reference page.
pub(crate) static KEY: ObjectShape =
    ObjectShape {
        name: "key",
        about: KEY_ABOUT,
        fields: &[&[
            ShapeField::new("hash", HASH, "The SHA-256 of the key, in hexadecimal.").required(),
            ShapeField::new("client", Shape::Scalar, "The client application.").also(&["client_id", "app"]),
            ShapeField::new("user", Shape::Scalar, "The user.").also(&["user_id"]),
            ShapeField::new("tenant", Shape::Scalar, "The tenant.").also(&["tenant_id"]),
            ShapeField::new("plan", Shape::Scalar, "The plan.").also(&["tier"]),
            ShapeField::new("expires", Shape::Instant, "When the key stops being valid.")
                .or("never")
                .also(&["expiry", "until", "expires_at"]),
            ShapeField::new("enabled", Shape::Flag, "`false` turns the key off.").or("true"),
            ShapeField::new("description", Shape::Text(1_024), "For people."),
        ]],
        open_fields: None,
        shorthand: None,
    };

const KEY_ABOUT: &str = "\
An entry of the file of `api_keys`, which has one list: `keys: [{ hash: \"sha256:…\", client: app-1 }]`. It has the hash of
a key, never the key itself, and whom the key stands for.";

const HASH: Shape = Shape::Custom(&CustomShape {
    check: |node| hash(node).map(drop),
    wanted: "`sha256:` and 64 hexadecimal digits",
    example: "\"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"",
    json_types: &["string"],
    pattern: || "^sha256:[0-9a-fA-F]{64}$".to_owned(),
    takes: "`sha256:` and 64 hexadecimal digits",
    takes_list: None,
});

/// Reads a hash. The message does not repeat the value: it may be a key that was written here by mistake.
fn hash(node: &DocumentNode) -> Result<ApiKeyHash, ValueFault> {
    let digits = node.scalar().and_then(|text| text.strip_prefix(HASH_PREFIX));
    digits.and_then(parse_hash).ok_or_else(|| {
        let hint =
            "`tidegate key create --file FILE` makes a key and adds its hash; never write a key itself here";
        ValueFault::new("this is not the hash of a key", Some(hint.to_owned()))
    })
}

fn parse_hash(digits: &str) -> Option<ApiKeyHash> {
    let mut hash = [0; 32];
    if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

/// A hash as the file has it.
pub(crate) fn written_hash(hash: &ApiKeyHash) -> String {
    format!("{HASH_PREFIX}{}", hex(hash))
}

/// Reads a file, at most one byte more than a document may have.
///
/// # Errors
/// When it cannot be read or is not UTF-8.
pub(crate) fn read_text(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(file)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

impl KeyFile {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// Every problem, if at least one is an error. No problem repeats a value of the file.
    pub(crate) fn parse(text: &str) -> Result<KeyFile, Vec<Problem>> {
        let (root, mut problems) = tidegate_document::read(text, &KEYS);
        let mut file = KeyFile::default();
        match root.as_ref().filter(|root| !matches!(root.kind, ValueKind::Null)) {
            Some(root) => file.add_all(root, &mut problems),
            None if problems.is_empty() => {
                let at = tidegate_document::Span { line: 1, column: 1, length: 0 };
                let problem =
                    Problem::error(at, "", "the file is empty").want("`keys: []`, or a list of keys");
                problems.push(problem.saw("nothing"));
            }
            None => {}
        }
        // Somebody may have written a key in place of its hash, so nothing is quoted.
        let is_hash = |problem: &&mut Problem| problem.path.ends_with("hash");
        for problem in problems.iter_mut().filter(is_hash) {
            problem.saw = "a value that is not shown here".to_owned();
        }
        let masked = crate::settings::masked(text);
        tidegate_document::complete(&mut problems, &masked);
        if problems.iter().any(Problem::is_error) { Err(problems) } else { Ok(file) }
    }

    fn add_all(&mut self, root: &DocumentNode, problems: &mut Vec<Problem>) {
        let items = root.get("keys").map(DocumentNode::items).unwrap_or_default();
        if items.len() > API_KEYS_MAX {
            let problem = Problem::error(root.at, "keys", format!("the file has {} keys", items.len()));
            problems.push(problem.saw("a list").want(format!("at most {API_KEYS_MAX} keys")));
            return;
        }
        for (index, node) in items.iter().enumerate() {
            let Some(hash) = node.get("hash").and_then(|node| hash(node).ok()) else { continue };
            if self.find(&hash).is_some() {
                let path = format!("keys[{index}].hash");
                let problem = Problem::error(node.at, path, "this key is there twice");
                problems
                    .push(problem.saw("a hash").want("each key once").hint("remove one of the two entries"));
                continue;
            }
            if let Some((name, value)) = unusable_member(node) {
                let path = format!("keys[{index}].{name}");
                let problem = Problem::error(value.at, path, "the text has control characters");
                problems.push(problem.want("text on one line"));
                continue;
            }
            let member = |name: &str| node.get(name).and_then(DocumentNode::scalar).map(Box::from);
            let holder = KeyHolder {
                client: member("client"),
                user: member("user"),
                tenant: member("tenant"),
                plan: member("plan"),
            };
            let entry = KeyEntry {
                hash,
                holder: Arc::new(holder),
                expires: node.get("expires").and_then(|node| value::instant(node).ok()),
                enabled: !matches!(node.get("enabled").map(|node| &node.kind), Some(ValueKind::Bool(false))),
            };
            self.entries.entry(prefix(&hash)).or_default().push(entry);
        }
    }

    /// The entry of a hash.
    ///
    /// The table is searched by the first eight bytes of the hash, and how long that takes may depend on them. A client
    /// cannot use that: it chooses keys, not hashes, and to know the beginning of a hash does not help to find a key that
    /// has it. The hash as a whole is compared in constant time, so nothing is told about the rest of it.
    pub(super) fn find(&self, hash: &ApiKeyHash) -> Option<&KeyEntry> {
        let candidates = self.entries.get(&prefix(hash))?;
        candidates.iter().find(|entry| entry.hash.ct_eq(hash).into())
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.values().map(SmallVec::len).sum()
    }
}

/// A member that no request can have: it would be answered with 400.
fn unusable_member(entry: &DocumentNode) -> Option<(&'static str, &DocumentNode)> {
    let members = ["client", "user", "tenant", "plan"].into_iter();
    let mut stated = members.filter_map(|name| Some((name, entry.get(name)?)));
    stated.find(|(_, value)| value.scalar().is_some_and(|text| text.contains(char::is_control)))
}

fn prefix(hash: &ApiKeyHash) -> u64 {
    let (first, _) = hash.split_first_chunk::<8>().expect("a hash has 32 bytes");
    u64::from_be_bytes(*first)
}
