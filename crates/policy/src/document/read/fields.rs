//! Reads members of maps. Their shapes have been checked: `None` means absent, or wrong and reported.

use tidegate_core::Nanos;
use tidegate_document::{DocumentNode, DocumentPath, Problems, ValueKind, WINDOW_MILLIS_MAX, value};

use crate::document::table;
use crate::{Descriptor, Span, Spanned};

/// The text of a scalar member.
pub(super) fn text(node: &DocumentNode, name: &str) -> Option<Spanned<String>> {
    let member = node.get(name)?;
    Some(Spanned::new(member.scalar()?.to_owned(), member.at))
}

/// A boolean.
pub(super) fn flag(node: &DocumentNode, name: &str) -> Option<bool> {
    match node.get(name)?.kind {
        ValueKind::Bool(flag) => Some(flag),
        _ => None,
    }
}

/// Is the entry switched on? It is by default.
pub(super) fn enabled(node: &DocumentNode) -> bool {
    flag(node, "enabled").unwrap_or(true)
}

/// A whole number.
pub(super) fn integer(node: &DocumentNode, name: &str) -> Option<Spanned<u64>> {
    let member = node.get(name)?;
    Some(Spanned::new(value::integer(member, 0, u64::MAX).ok()?, member.at))
}

/// A whole number of 32 bits; its table limits the range.
pub(super) fn small(node: &DocumentNode, name: &str) -> Option<Spanned<u32>> {
    let number = integer(node, name)?;
    Some(Spanned::new(u32::try_from(number.value).ok()?, number.at))
}

/// A decimal number in millionths.
pub(super) fn decimal(node: &DocumentNode, name: &str) -> Option<Spanned<u64>> {
    let member = node.get(name)?;
    Some(Spanned::new(value::decimal(member, 0, u64::MAX).ok()?, member.at))
}

/// A decimal number in millionths, of 32 bits; its table limits the range.
pub(super) fn small_decimal(node: &DocumentNode, name: &str) -> Option<Spanned<u32>> {
    let number = decimal(node, name)?;
    Some(Spanned::new(u32::try_from(number.value).ok()?, number.at))
}

/// A duration.
pub(super) fn duration(node: &DocumentNode, name: &str) -> Option<Nanos> {
    value::duration(node.get(name)?, WINDOW_MILLIS_MAX).ok()
}

/// A window.
pub(super) fn window(node: &DocumentNode, name: &str) -> Option<Spanned<Nanos>> {
    let member = node.get(name)?;
    Some(Spanned::new(value::window(member).ok()?, member.at))
}

/// The meaning of a word.
pub(super) fn word<T: Copy>(node: &DocumentNode, name: &str, words: &[(&str, T)]) -> Option<Spanned<T>> {
    let member = node.get(name)?;
    Some(Spanned::new(meaning(member, words)?, member.at))
}

/// The meanings of the words of a list, without repetitions; a single word is a list of one.
pub(super) fn words<T: Copy + PartialEq>(
    node: &DocumentNode,
    name: &str,
    words: &[(&str, T)],
) -> Option<Vec<T>> {
    let member = node.get(name)?;
    let mut meanings = Vec::new();
    for item in one_or_more(member) {
        let meaning = meaning(item, words)?;
        if !meanings.contains(&meaning) {
            meanings.push(meaning);
        }
    }
    Some(meanings)
}

fn meaning<T: Copy>(node: &DocumentNode, words: &[(&str, T)]) -> Option<T> {
    let seen = node.scalar()?;
    words.iter().find(|(word, _)| *word == seen).map(|(_, meaning)| *meaning)
}

/// The items of a list, or a single scalar as a list of one.
pub(super) fn one_or_more(node: &DocumentNode) -> &[DocumentNode] {
    match &node.kind {
        ValueKind::List(items) => items,
        _ => std::slice::from_ref(node),
    }
}

/// Where the name of a member was written; the whole map if it is absent.
pub(super) fn key_span(node: &DocumentNode, name: &str) -> Span {
    let key = node.entries().iter().find(|(key, _)| key.value == name);
    key.map_or(node.at, |(key, _)| key.at)
}

/// Reads `key` or `scope`. `Err` if it is wrong and reported, `None` if both are absent.
pub(super) fn key(
    node: &DocumentNode,
    path: &DocumentPath<'_>,
    problems: &mut Problems,
) -> Result<Option<Vec<Spanned<Descriptor>>>, ()> {
    let Some(list) = node.get("key") else {
        return Ok(node.get("scope").and_then(|scope| Some(scope_descriptor(scope)?.into_iter().collect())));
    };
    if node.get("scope").is_some() {
        let at = key_span(node, "scope");
        let problem = Problems::error(at, &path.member("scope"), "`scope` and `key` exclude each other");
        problems.push(problem.want("one of the two").hint("`scope` is short for `key`: remove it"));
        return Err(());
    }
    let mut key: Vec<Spanned<Descriptor>> = Vec::new();
    let (here, mut is_valid) = (path.member("key"), true);
    for (index, item) in list.items().iter().enumerate() {
        let descriptor = table::descriptor(item).map_err(drop)?;
        if key.iter().any(|known| known.value == descriptor) {
            let message = format!("`{descriptor}` is in the key twice");
            problems.push(Problems::error(item.at, &here.item(index), message).hint("remove one of the two"));
            is_valid = false;
        }
        key.push(Spanned::new(descriptor, item.at));
    }
    if is_valid { Ok(Some(key)) } else { Err(()) }
}

/// The descriptor of a scope: `Some(None)` for `global`, which has none.
pub(super) fn scope_descriptor(scope: &DocumentNode) -> Option<Option<Spanned<Descriptor>>> {
    let descriptor = match scope.scalar()? {
        "global" => None,
        "tenant" => Some(Descriptor::Tenant),
        "user" => Some(Descriptor::User),
        "ip" => Some(Descriptor::Ip),
        "route" | "endpoint" => Some(Descriptor::Route),
        "client" => Some(Descriptor::Client),
        _ => return None,
    };
    Some(descriptor.map(|descriptor| Spanned::new(descriptor, scope.at)))
}
