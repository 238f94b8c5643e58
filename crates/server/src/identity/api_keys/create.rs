//! Makes new API keys, and adds their hashes to a file without changing anything else in it.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Map, Value};
use tidegate_document::{DocumentNode, Problem, TEXT_BYTES_MAX, ValueKind};

use super::file::{ApiKeyHash, KeyFile, written_hash};
use super::hash;

/// What a new entry of the file says beside the hash, in this order.
pub(crate) type KeyMembers = Vec<(&'static str, String)>;

/// Why a key was not added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateKeyError {
    #[error("the system has no random numbers")]
    NoRandom,
    #[error("cannot {what} {}: {error}", .file.display())]
    Io { what: &'static str, file: PathBuf, error: io::Error },
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    /// The file as it is has problems, which are printed with its text.
    #[error("the file is not valid")]
    Invalid { text: String, problems: Vec<Problem> },
    #[error(
        "{} is written in a way that no entry can be added to; write its keys as a list with one `- ` for each key",
        .0.display()
    )]
    Form(PathBuf),
    #[error("{}: with one more key the file would not be valid: {message}", .file.display())]
    Full { file: PathBuf, message: String },
}

/// A new key: 256 random bits behind a prefix by which people and scanners recognise it.
///
/// # Errors
/// When the system has no random numbers.
pub(crate) fn new_key() -> Result<String, CreateKeyError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| CreateKeyError::NoRandom)?;
    Ok(format!("tg_{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Adds the hash of a key to a file, which is made if there is none. Readers see the file as it was, or with the whole
/// entry, and never anything between.
///
/// # Errors
/// When the file is not valid, or cannot be read or replaced.
pub(crate) fn add(file: &Path, key: &str, members: &KeyMembers) -> Result<(), CreateKeyError> {
    let failed = |what: &'static str| {
        let file = file.to_path_buf();
        move |error| CreateKeyError::Io { what, file, error }
    };
    let is_new = matches!(std::fs::metadata(file), Err(error) if error.kind() == io::ErrorKind::NotFound);
    if std::fs::metadata(file).is_ok_and(|seen| !seen.is_file()) {
        return Err(CreateKeyError::NotRegular(file.to_path_buf()));
    }
    let mut locked = lock(file).map_err(failed("open"))?;
    let added = read(&mut locked).map_err(failed("read")).and_then(|text| {
        let text = with_entry(file, &text, &hash(key.as_bytes()), members)?;
        // Through a symbolic link: the file is replaced, not the link.
        let target = file.canonicalize().map_err(failed("find"))?;
        replace(&target, &locked, &text).map_err(failed("write"))
    });
    if added.is_err() && is_new {
        // It was made only to be locked. The error that is reported is the one before.
        let _removed = std::fs::remove_file(file);
    }
    added
}

/// Opens the file and locks it, so that two commands at once do not lose a key. As the file is replaced with each key,
/// the one that was waited for may no longer be the one of that name.
fn lock(file: &Path) -> io::Result<File> {
    loop {
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(file)?;
        opened.lock()?;
        let (held, named) = (opened.metadata()?, std::fs::metadata(file));
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())) {
            return Ok(opened);
        }
    }
}

fn read(file: &mut File) -> io::Result<String> {
    let mut text = String::new();
    file.take(TEXT_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Replaces a file by one with another text and the same owner and permissions.
fn replace(file: &Path, old: &File, text: &str) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let temporary = file.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = (|| {
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        let seen = old.metadata()?;
        let made = new.metadata()?;
        if (made.uid(), made.gid()) != (seen.uid(), seen.gid()) {
            fchown(&new, Some(seen.uid()), Some(seen.gid()))?;
        }
        new.set_permissions(Permissions::from_mode(seen.mode() & 0o7777))?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        std::fs::rename(&temporary, file)
    })();
    if written.is_err() {
        // The error that is reported is the one before.
        let _removed = std::fs::remove_file(&temporary);
    }
    written
}

/// The text of a file with one more entry at the end of its list. Comments and order stay.
fn with_entry(
    file: &Path,
    text: &str,
    hash: &ApiKeyHash,
    members: &KeyMembers,
) -> Result<String, CreateKeyError> {
    let invalid = |problems| CreateKeyError::Invalid { text: crate::settings::masked(text), problems };
    let root = tidegate_document::parse(text).ok();
    let is_null = |node: &DocumentNode| matches!(node.kind, ValueKind::Null);
    let has_no_list =
        |root: &DocumentNode| root.entries().len() == 1 && root.get("keys").is_some_and(is_null);
    let item = || format!("  - {}\n", yaml_entry(hash, members));
    let (new, before) = match root {
        Some(root) if is_null(&root) => (format!("{}keys:\n{}", ended(text), item()), 0),
        // `keys:` and nothing after it.
        Some(root) if has_no_list(&root) => (ended(text) + &item(), 0),
        _ => {
            let before = KeyFile::parse(text).map_err(invalid)?.len();
            let root = tidegate_document::parse(text).map_err(invalid)?;
            let keys = root.get("keys").ok_or_else(|| CreateKeyError::Form(file.to_path_buf()))?;
            let new = appended(text, keys, hash, members);
            (new.ok_or_else(|| CreateKeyError::Form(file.to_path_buf()))?, before)
        }
    };
    // Read what was written: it must have every key from before, and the new one.
    match KeyFile::parse(&new) {
        Ok(read) if read.len() == before + 1 && read.find(hash).is_some() => Ok(new),
        Ok(_) => Err(CreateKeyError::Form(file.to_path_buf())),
        Err(problems) => {
            let message = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
            Err(CreateKeyError::Full { file: file.to_path_buf(), message })
        }
    }
}

/// Adds an entry to the list, in the way the list is written: with dashes, or in brackets.
fn appended(text: &str, keys: &DocumentNode, hash: &ApiKeyHash, members: &KeyMembers) -> Option<String> {
    if let Some(last) = keys.items().last() {
        let line = text.lines().nth((last.at.line as usize).checked_sub(1)?)?;
        let rest = line.trim_start();
        if rest.starts_with("- ") {
            // `keys` is the only field of the file, so its list ends with the file.
            let indent = &line[..line.len() - rest.len()];
            return Some(format!("{}{indent}- {}\n", ended(text), yaml_entry(hash, members)));
        }
    }
    let (before, after) = text.rsplit_once(']')?;
    let kept = before.trim_end();
    let comma = if keys.items().is_empty() || kept.ends_with(',') { "" } else { "," };
    let space = if kept.ends_with('[') { "" } else { " " };
    Some(format!("{kept}{comma}{space}{}{}]{after}", json_entry(hash, members), &before[kept.len()..]))
}

/// A text that ends with a line break, unless it is empty.
fn ended(text: &str) -> String {
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{newline}")
}

/// An entry as a map on one line. Text in quotes of JSON is text in quotes of YAML.
fn yaml_entry(hash: &ApiKeyHash, members: &KeyMembers) -> String {
    let mut entry = format!("{{ hash: {}", Value::from(written_hash(hash)));
    for (name, value) in members {
        entry.push_str(&format!(", {name}: {}", Value::from(value.as_str())));
    }
    entry.push_str(" }");
    entry
}

fn json_entry(hash: &ApiKeyHash, members: &KeyMembers) -> String {
    let hash = ("hash".to_owned(), Value::from(written_hash(hash)));
    let others = members.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str())));
    Value::Object(std::iter::once(hash).chain(others).collect::<Map<_, _>>()).to_string()
}
