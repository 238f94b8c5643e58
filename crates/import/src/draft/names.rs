//! Names that a policy allows, made from any text.

use std::collections::BTreeSet;

/// The longest name a policy allows.
pub(crate) const NAME_BYTES_MAX: usize = 128;

/// Makes a name from the text that is not in `used`, and adds it there.
pub(crate) fn unique(wanted: &str, used: &mut BTreeSet<String>) -> String {
    let base = to_name(wanted);
    let mut name = base.clone();
    let mut number = 1_u32;
    while !used.insert(name.clone()) {
        number += 1;
        let suffix = format!("-{number}");
        name = format!("{}{suffix}", &base[..base.len().min(NAME_BYTES_MAX - suffix.len())]);
    }
    name
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._:/-".contains(c)
}

/// Does a policy allow this name?
pub(crate) fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_allowed)
}

/// The text with every character replaced that a name cannot contain.
pub(crate) fn to_name(wanted: &str) -> String {
    let mut name = String::new();
    for c in wanted.chars() {
        if is_allowed(c) {
            name.push(c);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(NAME_BYTES_MAX);
    // Policies give names of this form to the limits of tenants and allow no others.
    if let Some(rest) = name.strip_prefix("tenant:") {
        name = format!("tenant-{rest}");
    }
    let trimmed = name.trim_matches('-');
    if trimmed.is_empty() { "limit".to_owned() } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_to_fit() {
        assert_eq!(to_name("per-user"), "per-user");
        assert_eq!(to_name("per user (free)"), "per-user-free");
        assert_eq!(to_name("tenant:a"), "tenant-a");
        assert_eq!(to_name("日本"), "limit");
        assert_eq!(to_name(&"a".repeat(300)).len(), NAME_BYTES_MAX);
    }
}
